"""Limits of a team: requests, jobs, bytes."""

from __future__ import annotations

import asyncio
import gzip
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, func, insert, select, text, update

from api.captures.service import _store
from api.errors import TooMany
from api.limits import Requests, arrived, enlarge, room
from api.security import Caller, transaction
from store.database import engine
from store.models import Capture, Incoming, Job, RequestRate
from store.settings import settings
from store.teams import ensure_team
from tests.conftest import make_token
from tests.packets import Trace
from tests.service.conftest import Client
from tests.service.test_api import PCAP, SAMPLE, Run, assert_problem, mptcp, objects, upload
from worker.sweeper import remove_once

SOME = SAMPLE.read_bytes()[:20_000]


def refused(response: Any, detail: str) -> int:
    """Returns for how many seconds."""
    assert_problem(response, 429, detail)
    return int(response.headers["Retry-After"])


def rows_of(table: Any) -> int:
    with engine().connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def new_team() -> uuid.UUID:
    with engine().begin() as connection:
        return ensure_team(connection, f"team-{uuid.uuid4()}")


def run(application: TestClient, what: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """In the loop of the application, whose pool of connections belongs to it."""
    assert application.portal is not None
    return application.portal.call(what)


async def passes(process: Requests, team: uuid.UUID) -> bool:
    async with transaction() as session:
        try:
            await process.count(session, team)
        except TooMany:
            return False
    return True


@pytest.fixture
def slow_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request, and the next after five minutes."""
    monkeypatch.setattr(settings(), "team_requests_per_s", 1 / 300)


def test_too_many_requests(client: TestClient, other: TestClient, slow_rate: None) -> None:
    assert client.get("/v1/captures").status_code == 200
    for _ in range(2):
        assert 200 < refused(client.get("/v1/captures"), "requests a second") <= 300
    assert refused(client.post("/v1/captures", content=SOME, headers=PCAP), "requests a second")
    assert other.get("/v1/captures").status_code == 200


def test_requests_are_counted_over_processes(application: TestClient, slow_rate: None) -> None:
    first, second, third = Requests(), Requests(), Requests()
    team, another = new_team(), new_team()

    async def count() -> None:
        assert await passes(first, team)
        assert not await passes(second, team)
        assert await passes(second, another)
        earlier = RequestRate.due_at - text("interval '5 minutes'")
        async with transaction() as session:
            await session.execute(update(RequestRate).where(RequestRate.team_id == team).values(due_at=earlier))
        assert not await passes(second, team), "it does not ask again before the time that it told"
        assert await passes(third, team)

    run(application, count)


def test_requests_that_come_together_share_what_one_takes(application: TestClient) -> None:
    """40 of the 200 that may come at once, however many of them find this process's share empty."""
    process, team = Requests(), new_team()

    async def count() -> None:
        assert settings().team_requests_per_s == 100
        assert await asyncio.gather(*(passes(process, team) for _ in range(40))) == [True] * 40

    run(application, count)


def test_the_rate_is_kept(application: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine takes: what passes in a time is the burst, and the rate times the time."""
    rate = 20.0
    monkeypatch.setattr(settings(), "team_requests_per_s", rate)
    processes, team = (Requests(), Requests()), new_team()

    async def count() -> None:
        began = time.monotonic()
        passed = sum([await passes(processes[i % 2], team) for i in range(400)])
        assert 2 * rate - 4 <= passed <= 2 * rate + rate * (time.monotonic() - began) + 4

    run(application, count)


def test_too_many_jobs(client: TestClient, other: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = upload(client)
    run_jobs()
    connection = mptcp(client, capture)["id"]
    monkeypatch.setattr(settings(), "team_jobs_max", 1)
    waiting = client.post("/v1/captures", content=SOME, headers=PCAP)
    assert waiting.status_code == 202
    before = objects()
    requests = {
        "capture": lambda: client.post("/v1/captures", content=SOME[:-1], headers=PCAP),
        "replay": lambda: client.post(f"/v1/connections/{connection}/replays", json={"algorithm": "lia"}),
        "check": lambda: client.post("/v1/model-checks", json={"connection": connection}),
    }
    for request in requests.values():
        assert refused(request(), "jobs that wait or run") == 10
    assert objects() == before
    assert [c["id"] for c in client.get("/v1/captures").json()["items"]] == [waiting.json()["id"], capture["id"]]
    assert other.post("/v1/captures", content=SOME, headers=PCAP).status_code == 202
    for request in requests.values():
        run_jobs()
        assert request().status_code == 202


def test_what_is_asked_for_again_counts(client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry, and an upload of the same bytes, are refused where a new capture would be."""
    failed = client.post("/v1/captures", content=b"no capture", headers=PCAP).json()["id"]
    run_jobs()
    assert client.get(f"/v1/captures/{failed}").json()["state"] == "failed"
    monkeypatch.setattr(settings(), "team_jobs_max", 1)
    waiting = client.post("/v1/captures", content=SOME, headers=PCAP)
    assert waiting.status_code == 202
    requests = {
        "retry": lambda: client.post(f"/v1/captures/{failed}/retry"),
        "upload": lambda: client.post("/v1/captures", content=b"no capture", headers=PCAP),
    }
    for request in requests.values():
        assert refused(request(), "jobs that wait or run") == 10
    assert client.get(f"/v1/captures/{failed}").json()["state"] == "failed"
    for request in requests.values():
        run_jobs()
        assert request().status_code == 202
        assert client.get(f"/v1/captures/{failed}").json()["state"] == "queued"


def test_jobs_are_counted_while_uploads_end_together(application: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings(), "team_jobs_max", 3)
    caller = Caller(new_team(), uuid.uuid4(), uuid.uuid4(), "somebody", "viewer", frozenset())

    async def end(place: int) -> None:
        capture = uuid.uuid4()
        values = {"id": capture, "team_id": caller.team_id, "sha256": capture.bytes * 2, "bytes": 1, "tags": {}}
        async with transaction() as session:
            await _store(session, caller, {**values, "filename": "x", "object_key": str(place)})

    async def end_together() -> list[BaseException | None]:
        async with AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(room(caller.team_id, 1))
            return await asyncio.gather(*(end(place) for place in range(8)), return_exceptions=True)

    found = run(application, end_together)
    assert [type(e) for e in found if e is not None] == [TooMany] * 5
    with engine().connect() as connection:
        for table in (Capture, Job):
            query = select(func.count()).select_from(table).where(table.team_id == caller.team_id)
            assert connection.scalar(query) == 3


def test_too_many_bytes(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings(), "team_bytes_max", len(SOME) + 10_000)
    before = objects()
    capture = client.post("/v1/captures", content=SOME, headers=PCAP).json()["id"]
    assert refused(client.post("/v1/captures", content=SOME[:-1], headers=PCAP), "delete captures") == 60
    assert len(objects()) == len(before) + 1
    assert client.post("/v1/captures", content=SOME[:9_000], headers=PCAP).status_code == 202
    assert client.delete(f"/v1/captures/{capture}").status_code == 204
    assert client.post("/v1/captures", content=SOME[:-1], headers=PCAP).status_code == 202


def test_an_upload_takes_the_room_that_it_may_need(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings(), "upload_bytes_max", 45_000)
    monkeypatch.setattr(settings(), "team_bytes_max", 40_000)
    untold = client.post("/v1/captures", content=iter([SOME]), headers=PCAP)
    assert refused(untold, "this needs 45000") == 60
    multipart = {"Content-Type": "multipart/form-data; boundary=b"}
    assert client.post("/v1/captures", content=b"--b" + bytes(30_000), headers=multipart).status_code == 400
    assert client.post("/v1/captures", content=SOME, headers=PCAP).status_code == 202, "its room was given back"
    assert client.post("/v1/captures", content=SOME[:-1], headers=PCAP).status_code == 202


def test_a_copy_takes_the_room_that_it_needs(client_for: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed upload whose copy is larger: no more is stored than the team may have."""
    trace = Trace()
    for i in range(1000):
        trace.packet(1 + i / 1000, True, i, 1)
    content = trace.bytes()
    compressed = gzip.compress(content)
    assert len(compressed) < len(content) // 5
    before, incoming = objects(), rows_of(Incoming)
    cutting = client_for(make_token(["read", "write"], payload="cut"))
    monkeypatch.setattr(settings(), "team_bytes_max", len(content) - 1)
    answer = cutting.post("/v1/captures", content=compressed, headers=PCAP)
    assert refused(answer, f"{len(content) - 1} bytes of captures, uploads under way included") == 60
    assert objects() == before
    monkeypatch.setattr(settings(), "team_bytes_max", len(content))
    assert cutting.post("/v1/captures", content=compressed, headers=PCAP).json()["bytes"] == len(content)
    assert rows_of(Incoming) == incoming, "the room was given back"


def test_room_is_enlarged_as_far_as_there_is_some(application: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings(), "team_bytes_max", 100)
    team = new_team()

    async def count() -> None:
        async with room(team, 30) as first, room(team, 20):
            assert await enlarge(team, first, 40, 60) == 60
            assert await enlarge(team, first, 65, 500) == 80
            with pytest.raises(TooMany, match="100 are taken, and this needs 1:"):
                await enlarge(team, first, 81, 500)
            async with transaction() as session:
                await arrived(session, first)
            async with room(team, 80):
                pass

    run(application, count)


def test_what_a_dead_process_received_takes_no_room(application: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings(), "team_bytes_max", 100)
    team = new_team()

    async def count() -> None:
        async with room(team, 60) as first:
            with pytest.raises(TooMany):
                async with room(team, 60):
                    raise AssertionError("there is no room")
            async with transaction() as session:
                await session.execute(
                    update(Incoming).where(Incoming.id == first).values(alive_until=func.clock_timestamp())
                )
            async with room(team, 60) as second, transaction() as session:
                await arrived(session, second)

    run(application, count)


def test_what_dead_processes_received_is_forgotten(application: TestClient) -> None:
    def upload_of(session: Connection, hours: int) -> uuid.UUID:
        alive_until = func.clock_timestamp() - timedelta(hours=hours)
        return session.scalars(
            insert(Incoming).values(team_id=team, bytes=1, alive_until=alive_until).returning(Incoming.id)
        ).one()

    team = new_team()
    with engine().begin() as connection:
        upload_of(connection, 2)
        recent = upload_of(connection, 0)
    remove_once(0.0)
    with engine().connect() as connection:
        assert connection.scalars(select(Incoming.id).where(Incoming.team_id == team)).all() == [recent]


def test_the_team_of_a_job_is_that_of_its_subject(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)
    run_jobs()
    connection = mptcp(client, capture)["id"]
    client.post(f"/v1/connections/{connection}/replays", json={"algorithm": "lia"})
    client.post("/v1/model-checks", json={"connection": connection})
    with engine().connect() as database:
        team = database.scalar(select(Capture.team_id).where(Capture.id == uuid.UUID(capture["id"])))
        kinds = database.scalars(select(Job.kind).where(Job.team_id == team)).all()
    assert sorted(kinds) == ["analyze", "check", "replay"]
