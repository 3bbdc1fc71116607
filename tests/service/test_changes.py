"""The stream of all that a team works on: what it tells, to whom, and what who comes again has missed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, select, update

from api import events
from api.captures import service as captures
from api.changes import service
from api.events import Poller, streamed
from api.security import Caller, authenticate, of_session, transaction
from store import changes
from store.changes import Cursor
from store.database import engine
from store.models import BrowserSession, Capture, Change, Member, Token
from store.tokens import token_hash
from tests.conftest import make_token
from tests.service.test_api import SAMPLE, Run
from tests.service.test_events import run
from tests.service.test_whatifs import SHORT_BYTES
from worker.collector import forget_changes


@dataclass
class Told:
    event: str
    id: str
    data: Any


class Hearer:
    """A client of a stream."""

    def __init__(self, stream: AsyncIterator[str]) -> None:
        self._stream = stream
        self.last = ""

    async def __call__(self) -> Told:
        """The next event, without those that only name the cursor."""
        while True:
            lines = (await asyncio.wait_for(anext(self._stream), 30)).splitlines()
            fields = dict(line.split(": ", 1) for line in lines if line)
            self.last = fields.get("id", self.last)
            if "event" in fields:
                return Told(fields["event"], self.last, json.loads(fields["data"]))

    async def until(self, *wanted: tuple[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
        """What is told until each of these kinds has been in this state."""
        seen: dict[tuple[str, str], dict[str, Any]] = {}
        while not set(wanted) <= seen.keys():
            told = await self()
            assert told.event == "changes"
            seen |= {(c["kind"], c["state"]): c for c in told.data}
        return seen


async def caller_of(token: str) -> Caller:
    async with transaction() as session:
        return await authenticate(session, token)


async def cursor_now() -> Cursor:
    async with transaction() as session:
        return Cursor(*(await session.execute(changes.NOW)).one())


@asynccontextmanager
async def polled() -> AsyncIterator[Poller]:
    poller = Poller()
    polls = asyncio.create_task(poller.run())
    try:
        yield poller
    finally:
        polls.cancel()


def heard(application: TestClient, token: str, what: Callable[[Hearer], Awaitable[None]]) -> None:
    """What a client hears that begins now."""

    async def live() -> None:
        caller = await caller_of(token)
        async with polled() as poller:
            await what(Hearer(poller.changes_of_team(service.look, caller, await cursor_now())))

    run(application, live)


def upload(client: TestClient, content: bytes) -> str:
    response = client.post("/v1/captures", content=content)
    assert response.is_success, response.text
    return str(response.json()["id"])


def tag(capture: str, value: str) -> Any:
    return update(Capture).where(Capture.id == uuid.UUID(capture)).values(tags={"x": value})


def test_all_that_a_team_works_on_is_told(
    application: TestClient, client: TestClient, token: str, other: TestClient, run_jobs: Run
) -> None:
    async def ask(method: str, url: str, **what: Any) -> Any:
        response = await asyncio.to_thread(getattr(client, method), f"/v1/{url}", **what)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def watch(hear: Hearer) -> None:
        await asyncio.to_thread(upload, other, b"x")
        mine = await asyncio.to_thread(upload, client, SAMPLE.read_bytes()[:SHORT_BYTES])
        first = (await hear()).data
        assert [c["id"] for c in first] == [mine], "nothing of another team"
        assert (first[0]["kind"], first[0]["state"], first[0]["progress"]) == ("capture", "queued", 0)
        await asyncio.to_thread(run_jobs)
        await hear.until(("capture", "done"))
        connection = (await ask("get", f"captures/{mine}/connections"))["items"][0]["id"]
        of_it = f"connections/{connection}"
        replay = (await ask("post", f"{of_it}/replays", json={"algorithm": "olia"}))["id"]
        segments = (await ask("post", f"{of_it}/segments"))["id"]
        wanted = {"selection": {"connection_ids": [connection]}, "algorithms": ["cubic"], "repeat": 2}
        sweep = (await ask("post", "whatifs", json=wanted))["id"]
        whatif = (await ask("get", f"{of_it}/whatifs"))["items"][0]["id"]
        check = (await ask("post", "model-checks", json={"spec": "Windows"}))["id"]
        waits = [("replay", "queued"), ("segments", "queued"), ("whatif", "queued"), ("check", "queued")]
        begun = await hear.until(*waits, ("sweep", "running"))
        ids = {kind: c["id"] for (kind, _), c in begun.items() if kind != "capture"}
        assert ids == {"replay": replay, "segments": segments, "whatif": whatif, "sweep": sweep, "check": check}
        assert {c["connection_id"] for (kind, _), c in begun.items() if kind in ("replay", "segments", "whatif")} == {
            connection
        }
        await ask("post", f"model-checks/{check}/cancel")
        await asyncio.to_thread(run_jobs)
        done = [("replay", "done"), ("segments", "done"), ("whatif", "done"), ("sweep", "done")]
        ended = await hear.until(*done, ("check", "cancelled"))
        assert (ended["replay", "done"]["progress"], ended["sweep", "done"]["done"]) == (1, 1)
        await ask("delete", f"whatifs/{whatif}")
        gone = await hear.until(("whatif", "deleted"), ("sweep", "done"))
        assert gone["sweep", "done"]["whatifs"] == 0
        await ask("patch", f"captures/{mine}", json={"notes": "x"})
        await hear.until(("capture", "done"))
        await ask("delete", f"captures/{mine}")
        told = (await hear()).data
        assert [(c["kind"], c["id"], c["state"]) for c in told] == [("capture", mine, "deleted")]

    heard(application, token, watch)


def test_a_transaction_that_ends_late_is_told_late(application: TestClient, client: TestClient, token: str) -> None:
    """Its rows have smaller numbers than those that were told before."""
    late, early = upload(client, b"late"), upload(client, b"early")

    async def watch(hear: Hearer) -> None:
        with engine().connect() as begun:
            begun.execute(tag(late, "late"))
            with engine().begin() as other:
                other.execute(tag(early, "early"))
            assert [c["id"] for c in (await hear()).data] == [early]
            begun.commit()
        assert [c["id"] for c in (await hear()).data] == [late]
        with engine().begin() as undone:
            undone.execute(tag(late, "undone"))
            undone.rollback()
        with engine().begin() as other:
            other.execute(tag(early, "again"))
        assert [c["id"] for c in (await hear()).data] == [early]

    heard(application, token, watch)


def test_who_comes_again_has_missed_nothing(application: TestClient, client: TestClient, token: str) -> None:
    async def live() -> None:
        caller = await caller_of(token)
        old = await cursor_now()
        capture = await asyncio.to_thread(upload, client, b"x")
        long_ago = Cursor(old.at_ms - int(changes.KEPT.total_seconds() * 500), old.snapshot)
        async with polled() as poller:

            def again(cursor: Cursor | None) -> Hearer:
                return Hearer(poller.changes_of_team(service.look, caller, cursor))

            mine = await asyncio.to_thread(client.get, "/v1/teams/me")
            one, another = again(old), again(changes.parsed(mine.json()["events_since"]))
            assert [c["id"] for c in (await one()).data] == [capture]
            told = await again(None)()
            assert (told.event, told.data) == ("refresh", {}), "nobody knows what this one has seen"
            assert (await again(long_ago)()).event == "refresh"
            with engine().begin() as connection:
                connection.execute(tag(capture, "1"))
            for hear in (one, another, again(changes.parsed(one.last))):
                assert [c["id"] for c in (await hear()).data] == [capture]

    run(application, live)


def test_much_at_once_is_to_be_read_anew(
    application: TestClient, client: TestClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a client that does not take what it is told."""
    ids = [upload(client, f"{n}".encode()) for n in range(3)]

    async def watch(hear: Hearer) -> None:
        with engine().begin() as connection:
            for capture in ids:
                connection.execute(tag(capture, "at once"))
        assert (await hear()).event == "refresh"
        with engine().begin() as connection:
            connection.execute(tag(ids[0], "alone"))
        assert [c["id"] for c in (await hear()).data] == [ids[0]]

    monkeypatch.setattr(changes, "MOST", 2)
    heard(application, token, watch)
    stream = events._TeamStream(service.look, None, None)  # type: ignore[arg-type]
    for n in range(3):
        stream.tell(Cursor(n, "1:1:"), [{"kind": "capture", "id": str(n), "state": "done"}])
    assert stream.take() == "id: 2~1:1:\nevent: refresh\ndata: {}\n\n"


@pytest.mark.parametrize(
    "given", ["", "1~1:1", "1~2:1:", "1~0:1:", "1~1:3:2,2", "1~1:3:3", "1~1:9:4,2", "x~1:1:", "1~1:1:;", "9" * 99]
)
def test_what_is_no_cursor(given: str) -> None:
    assert changes.parsed(given) is None


def test_what_is_a_cursor(client: TestClient) -> None:
    given = client.get("/v1/teams/me").json()["events_since"]
    assert str(changes.parsed(given)) == given
    assert changes.parsed("1~3:9:3,8") == Cursor(1, "3:9:3,8")


ENDS: dict[str, Callable[[Caller], Any]] = {
    "the member was removed": lambda c: (
        update(Member).where(Member.id == c.member_id).values(removed_at=func.clock_timestamp())
    ),
    "the token was revoked": lambda c: (
        update(Token).where(Token.id == c.token_id).values(revoked_at=func.clock_timestamp())
    ),
    "the token has expired": lambda c: (
        update(Token).where(Token.id == c.token_id).values(expires_at=func.clock_timestamp())
    ),
    "the browser has signed out": lambda c: delete(BrowserSession).where(BrowserSession.hash == c.session_hash),
    "the claims are not confirmed": lambda c: (
        update(BrowserSession)
        .where(BrowserSession.hash == c.session_hash)
        .values(claims_until=func.clock_timestamp(), renew_at=func.clock_timestamp(), sealed="x")
    ),
}


@pytest.mark.parametrize("why", ENDS)
def test_who_may_not_see_it_any_more_is_told_nothing(
    why: str, application: TestClient, client_for: Callable[[str], TestClient]
) -> None:
    """Neither of the team nor of one object."""
    token = make_token(["read", "write"])
    capture = upload(client_for(token), b"x")

    async def live() -> None:
        caller = await caller_of(token)
        secret = str(uuid.uuid4())
        async with transaction() as session:
            tomorrow = datetime.now(UTC) + timedelta(days=1)
            session.add(BrowserSession(hash=token_hash(secret), token_id=caller.token_id, expires_at=tomorrow))
        async with transaction() as session:
            caller = await of_session(session, secret)
        async with polled() as poller:
            stream = poller.changes_of_team(service.look, caller, await cursor_now())
            hear = Hearer(stream)
            with engine().begin() as connection:
                connection.execute(tag(capture, "1"))
            assert [c["id"] for c in (await hear()).data] == [capture]
            first = (await poller_look(capture))[uuid.UUID(capture)]
            of_one = streamed(poller, captures.progress, uuid.UUID(capture), first, caller).body_iterator
            await anext(aiter(of_one))
            with engine().begin() as connection:
                connection.execute(ENDS[why](caller))
                connection.execute(tag(capture, "2"))
            for ended in (stream, aiter(of_one)):
                with pytest.raises(StopAsyncIteration):
                    await asyncio.wait_for(anext(ended), 30)

    run(application, live)


async def poller_look(capture: str) -> Any:
    async with transaction() as session:
        return await captures.progress(session, [uuid.UUID(capture)])


def test_a_stream_over_http(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `since`, and by the header with which a browser comes again."""
    since = client.get("/v1/teams/me").json()["events_since"]
    capture = upload(client, b"x")
    take = events._TeamStream.take

    def only_once(stream: events._TeamStream) -> str:
        """The stream ends with the first thing that it tells, however late that is."""
        stream.has_ended = stream.is_lost or bool(stream.waiting)
        return take(stream)

    monkeypatch.setattr(events._TeamStream, "take", only_once)
    for asked in ({"params": {"since": since}}, {"headers": {"Last-Event-ID": since}}):
        response = client.get("/v1/events", **asked)  # type: ignore[arg-type]
        assert response.headers["content-type"].startswith("text/event-stream")
        (told,) = [line for line in response.text.splitlines() if line.startswith("data: ")]
        assert [c["id"] for c in json.loads(told.removeprefix("data: "))] == [capture]
    assert "event: refresh" in client.get("/v1/events", params={"since": "nonsense"}).text


def test_changes_are_forgotten(client: TestClient) -> None:
    upload(client, b"x")
    own = select(func.count()).select_from(Change)
    with engine().begin() as connection:  # none that another test left grows old meanwhile
        connection.execute(update(Change).values(at=func.clock_timestamp()))
    assert forget_changes() == 0
    with engine().begin() as connection:
        there = connection.scalar(own)
        assert there
        oldest = select(func.min(Change.id)).scalar_subquery()
        past = func.clock_timestamp() - changes.KEPT
        connection.execute(update(Change).where(Change.id == oldest).values(at=past))
    assert forget_changes() == 1
    with engine().connect() as connection:
        assert connection.scalar(own) == there - 1
