"""Alerts and webhooks: evaluated on the stored connections, posted to a real receiver on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from queue import Queue
from typing import Any

import pytest
from fastapi.testclient import TestClient
from psycopg.errors import LockNotAvailable
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import OperationalError

from alerts.delivery import deliver_next, forget
from alerts.evaluation import evaluate_next
from alerts.network import Guarded
from api.alerts import service
from api.events import Poller, Progress
from deploy.run import CHECKOUT, READY_S
from store.database import engine
from store.destinations import Policy
from store.models import Alert, Delivery, Turn, Webhook
from tests.service.conftest import Client
from tests.service.test_api import Run, assert_problem, upload

NAME = "hooks.example"
"""Of the receiver; only the test's resolver knows it."""


class Receiver:
    """Notes what is posted, and answers with the statuses that it is given (JUNK: no HTTP), then with 204."""

    JUNK = 0

    def __init__(self) -> None:
        self.got: Queue[tuple[dict[str, str], bytes]] = Queue()
        self.statuses: list[int] = []
        self.holds: threading.Event | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.put(({k.lower(): v for k, v in self.headers.items()}, body))
                if outer.holds:
                    outer.holds.wait(READY_S)
                status = outer.statuses.pop(0) if outer.statuses else 204
                if status == outer.JUNK:
                    self.wfile.write(b"<b>the receiver's own\r\n\r\n")
                    return
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{NAME}:{self.port}/hook?key=s3cret"

    @property
    def policy(self) -> Policy:
        return Policy(networks=(ip_network("127.0.0.1/32"),), ports=frozenset({self.port}), has_http=True)

    def next(self) -> tuple[dict[str, str], dict[str, Any]]:
        headers, body = self.got.get(timeout=READY_S)
        return headers, json.loads(body)


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.fixture
def receiver(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The API takes its address, as the operator's settings would have it."""
    monkeypatch.setattr("api.webhooks.schemas.policy", lambda: server.policy)
    server.statuses.clear()
    yield server
    assert server.got.empty(), "each message was looked at"


@pytest.fixture(autouse=True)
def nothing_waits(services: object) -> None:
    """What other tests made is not evaluated, and posted nowhere."""
    with engine().begin() as connection:
        for table in (Alert, Webhook):
            connection.execute(delete(table))
        connection.execute(delete(Turn).where(Turn.queue.in_(("alerts", "webhooks"))))


Step = Callable[[], bool]


@pytest.fixture
def evaluate(application: TestClient) -> Step:
    """One step of the alerter, of an alert that is due now; in the API's loop, with whose connections it works."""

    def step() -> bool:
        with engine().begin() as connection:
            connection.execute(update(Alert).values(due_at=func.clock_timestamp()))
        return bool(application.portal.call(evaluate_next))  # type: ignore[union-attr]

    return step


@pytest.fixture
def deliver(application: TestClient, server: Receiver) -> Step:
    """The same of a message that is due now."""

    async def resolver(host: str, port: int) -> list[str]:
        assert host in (NAME, "127.0.0.1")
        return ["127.0.0.1"]

    def step() -> bool:
        with engine().begin() as connection:
            connection.execute(update(Delivery).values(due_at=func.clock_timestamp()))
        return bool(application.portal.call(deliver_next, Guarded(server.policy, resolver)))  # type: ignore[union-attr]

    return step


def webhook(client: TestClient, url: str, name: str = "pager") -> dict[str, Any]:
    made = client.post("/v1/webhooks", json={"name": name, "url": url})
    assert made.status_code == 201, made.text
    return dict(made.json())


def alert(client: TestClient, **wanted: Any) -> dict[str, Any]:
    """By default it fires while a capture is there that was uploaded in the last hour."""
    given = {"name": "x", "measure": "goodput_bps", "statistic": "count", "clock": "uploaded", "threshold": 0, **wanted}
    made = client.post("/v1/alerts", json=given)
    assert made.status_code == 201, made.text
    return dict(made.json())


def one(client: TestClient, made: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/alerts/{made['id']}").json())


def deliveries(client: TestClient, hook: dict[str, Any]) -> list[dict[str, Any]]:
    return list(client.get(f"/v1/webhooks/{hook['id']}/deliveries").json()["items"])


def bodies(hook: dict[str, Any]) -> list[str]:
    """Of the webhook's messages, the latest first."""
    its = select(Delivery.body).where(Delivery.webhook_id == uuid.UUID(hook["id"]))
    with engine().begin() as connection:
        return list(connection.scalars(its.order_by(Delivery.created_at.desc())))


def verifier() -> Callable[[str, dict[str, str], bytes], bool]:
    """The function that docs/alerts.md shows."""
    (code,) = re.findall(r"```python\n(.*?)```", (CHECKOUT / "docs" / "alerts.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["verified"]  # type: ignore[no-any-return]


def test_it_fires_once_and_is_over_once(
    client: TestClient, run_jobs: Run, receiver: Receiver, evaluate: Step, deliver: Step
) -> None:
    capture = upload(client)
    run_jobs()
    hook = webhook(client, receiver.url)
    made = alert(client, name="many", webhook_id=hook["id"], filters="kind=mptcp", in_a_row=2)
    states = []
    for _ in range(4):
        assert evaluate()
        states.append(one(client, made)["state"])
    assert states == ["pending", "firing", "firing", "firing"]
    shown = one(client, made)
    assert (shown["value"], shown["connections"], shown["delivery"]) == (1.0, 1, "waiting")
    assert deliver()
    assert not deliver(), "it fired once"
    headers, body = receiver.got.get(timeout=30)
    assert headers["host"] == f"{NAME}:{receiver.port}", "the name, though the connection is to its address"
    assert verifier()(hook["secret"], headers, body)
    assert not verifier()(hook["secret"], headers, body + b" ")
    told = json.loads(body)
    assert (told["type"], told["data"]["state"], told["data"]["value"]) == ("alert.firing", "firing", 1.0)
    assert told["data"]["alert"] == {"id": made["id"], "name": "many"}
    query = told["data"]["link"].partition("/connections?")[2]
    found = client.get(f"/v1/connections?{query}").json()["items"]
    assert [c["capture_id"] for c in found] == [capture["id"]], "the link shows what it fired for"
    (posted,) = deliveries(client, hook)
    assert (posted["id"], posted["state"], posted["status"]) == (headers["webhook-id"], "delivered", 204)

    assert client.delete(f"/v1/captures/{capture['id']}").status_code == 204
    states = []
    for _ in range(3):
        assert evaluate()
        states.append(one(client, made)["state"])
    assert states == ["firing", "ok", "ok"]
    assert deliver()
    assert not deliver()
    _, told = receiver.next()
    assert (told["type"], told["data"]["reason"], told["data"]["value"]) == ("alert.resolved", "condition", 0.0)
    assert told["data"]["firing_since"] == shown["firing_since"].replace("Z", "+00:00")
    assert one(client, made)["firing_since"] is None


def test_too_few_connections_say_nothing(client: TestClient, run_jobs: Run, application: TestClient) -> None:
    upload(client)
    run_jobs()
    few = alert(client, statistic="p50", least=1000)
    some = alert(client, statistic="p50", least=1)
    grown = alert(client, statistic="mean", least=1, condition="rises", threshold=10)
    shares = alert(client, statistic="unreliable_share", least=1, condition="below", threshold=2)
    while application.portal.call(evaluate_next):  # type: ignore[union-attr]
        pass  # each is due once
    total = client.get("/v1/aggregates?measure=goodput_bps").json()["total"]
    assert (one(client, few)["state"], one(client, few)["connections"]) == ("too_few", total["count"])
    assert (one(client, some)["state"], one(client, some)["value"]) == ("firing", total["percentiles"]["p50"])
    assert one(client, grown)["state"] == "too_few", "there is nothing in the window before"
    share = total["unreliable"] / (total["unreliable"] + total["count"])
    assert (one(client, shares)["state"], one(client, shares)["value"]) == ("firing", share)


def test_a_change_is_one_against_the_window_before(client: TestClient, run_jobs: Run, evaluate: Step) -> None:
    from store.models import Capture

    old = upload(client)
    run_jobs()
    with engine().begin() as connection:
        moved = update(Capture).where(Capture.id == uuid.UUID(old["id"]))
        connection.execute(moved.values(created_at=func.clock_timestamp() - timedelta(minutes=90)))
    made = alert(client, condition="falls", threshold=50)
    assert evaluate()
    shown = one(client, made)
    assert (shown["state"], shown["value"], shown["change_percent"]) == ("firing", 0.0, -100.0)
    assert shown["before"] == client.get("/v1/aggregates?measure=goodput_bps").json()["total"]["count"] > 0


def test_a_message_is_tried_again_and_given_up(client: TestClient, receiver: Receiver, deliver: Step) -> None:
    hook = webhook(client, receiver.url)
    assert client.post(f"/v1/webhooks/{hook['id']}/test").json()["state"] == "waiting"
    receiver.statuses += [500, 302]
    ids = set()
    # Four times as long, give or take a fifth.
    for status, told, least_s, most_s in ((500, "answered 500", 4, 6), (302, "redirects are not followed", 16, 24)):
        began = datetime.now(UTC)
        assert deliver()
        ended = datetime.now(UTC)
        headers, _ = receiver.next()
        ids.add(headers["webhook-id"])
        (waiting,) = deliveries(client, hook)
        assert (waiting["state"], waiting["status"]) == ("waiting", status)
        assert told in waiting["error"]
        due_at = datetime.fromisoformat(waiting["due_at"])
        assert began + timedelta(seconds=least_s) <= due_at <= ended + timedelta(seconds=most_s)
    with engine().begin() as connection:  # a day passes
        connection.execute(update(Delivery).values(created_at=func.clock_timestamp() - timedelta(days=1)))
    receiver.statuses.append(503)
    assert deliver()
    ids.add(receiver.next()[0]["webhook-id"])
    (ended,) = deliveries(client, hook)
    assert (ended["state"], ended["attempts"], ended["due_at"], ids) == ("given_up", 3, None, {ended["id"]})
    assert not deliver()

    assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
    receiver.statuses.append(410)
    assert deliver()
    receiver.next()
    assert deliveries(client, hook)[0]["state"] == "given_up", "the receiver says that it is gone"
    assert len(client.get(f"/v1/webhooks/{hook['id']}/deliveries.csv").text.splitlines()) == 3


def test_what_a_receiver_says_is_not_shown(client: TestClient, receiver: Receiver, deliver: Step) -> None:
    hook = webhook(client, receiver.url)
    assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
    receiver.statuses.append(receiver.JUNK)
    assert deliver()
    receiver.next()
    (waiting,) = deliveries(client, hook)
    assert (waiting["state"], waiting["error"]) == ("waiting", "the receiver answered no HTTP")


def test_what_ended_long_ago_is_forgotten(client: TestClient, receiver: Receiver, application: TestClient) -> None:
    hook = webhook(client, receiver.url)
    for _ in range(2):
        assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
    ended, waiting = (uuid.UUID(d["id"].removeprefix("msg_")) for d in deliveries(client, hook))
    long_ago = func.clock_timestamp() - timedelta(days=31)
    with engine().begin() as connection:
        connection.execute(update(Delivery).where(Delivery.id == ended).values(state="delivered", finished_at=long_ago))
    assert application.portal.call(forget) == 1  # type: ignore[union-attr]
    assert [d["id"] for d in deliveries(client, hook)] == [f"msg_{waiting.hex}"]


def test_a_killed_alerter_leaves_the_message_to_the_next(client: TestClient, receiver: Receiver, deliver: Step) -> None:
    """It dies between the post and the commit."""
    hook = webhook(client, f"http://127.0.0.1:{receiver.port}/")
    assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
    allowed = {
        "REWINDOW_WEBHOOK_NETWORKS": "127.0.0.1/32",
        "REWINDOW_WEBHOOK_PORTS": str(receiver.port),
        "REWINDOW_WEBHOOK_HTTP": "true",
    }
    receiver.holds = threading.Event()
    killed = subprocess.Popen([sys.executable, "-m", "alerts"], cwd=CHECKOUT, env=os.environ | allowed)
    try:
        first = receiver.next()
    finally:
        killed.kill()
        killed.wait()
        receiver.holds.set()
        receiver.holds = None
    (waiting,) = deliveries(client, hook)
    assert (waiting["state"], waiting["attempts"]) == ("waiting", 1)
    assert not deliver(), "nobody knows yet that it died"
    with engine().begin() as connection:
        connection.execute(update(Webhook).values(lease_until=func.clock_timestamp()))
    assert deliver()
    again = receiver.next()
    assert (again[0]["webhook-id"], again[1]) == (first[0]["webhook-id"], first[1])
    assert [(d["state"], d["attempts"]) for d in deliveries(client, hook)] == [("delivered", 2)]


def test_an_address_that_turns_private_is_not_reached(
    client: TestClient, receiver: Receiver, application: TestClient
) -> None:
    hook = webhook(client, receiver.url)
    assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202

    async def rebound(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "169.254.169.254"]

    assert application.portal.call(deliver_next, Guarded(receiver.policy, rebound))  # type: ignore[union-attr]
    (refused,) = deliveries(client, hook)
    assert (refused["state"], refused["status"]) == ("waiting", None)
    assert refused["error"] == "the name has an address that is not a public one"


def test_two_secrets_are_valid_for_a_day(client: TestClient, receiver: Receiver, deliver: Step) -> None:
    hook = webhook(client, receiver.url)
    renewed = client.post(f"/v1/webhooks/{hook['id']}/secret").json()
    assert renewed["secret"] != hook["secret"]
    assert renewed["old_secret_until"] is not None
    valid = []
    for _ in range(2):
        assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
        assert deliver()
        headers, body = receiver.got.get(timeout=READY_S)
        valid.append([verifier()(its["secret"], headers, body) for its in (renewed, hook)])
        with engine().begin() as connection:
            connection.execute(update(Webhook).values(old_secret_until=func.clock_timestamp()))
    assert valid == [[True, True], [True, False]]
    assert "secret" not in client.get("/v1/webhooks").json()[0]


def test_one_evaluates_and_teams_take_turns(
    client: TestClient, other: TestClient, application: TestClient, evaluate: Step
) -> None:
    mine = [alert(client) for _ in range(3)]
    theirs = alert(other)

    async def patiently() -> bool:
        """As the alerter does where one waits too long for another of the same team."""
        while True:
            try:
                return await evaluate_next()
            except OperationalError as e:
                if not isinstance(e.orig, LockNotAvailable):
                    raise

    async def four() -> list[bool]:
        return await asyncio.gather(*(patiently() for _ in range(6)))

    assert evaluate()
    assert evaluate()
    assert one(other, theirs)["evaluated_at"] is not None, "the other team waits for one alert at most"
    assert sum(one(client, a)["evaluated_at"] is not None for a in mine) == 1
    with engine().begin() as connection:
        connection.execute(update(Alert).values(due_at=func.clock_timestamp()))
    assert sorted(application.portal.call(four)) == [False] * 2 + [True] * 4  # type: ignore[union-attr]


def test_a_change_while_it_is_evaluated_wins(
    client: TestClient, evaluate: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation of the alert as it was before is thrown away."""
    from alerts import evaluation

    made = alert(client, condition="below", threshold=1)
    its = evaluation._evaluated

    async def slowly(*given: Any) -> Any:
        found = await its(*given)
        changed = await asyncio.to_thread(client.patch, f"/v1/alerts/{made['id']}", json={"threshold": 0})
        assert changed.status_code == 200, changed.text
        return found

    monkeypatch.setattr(evaluation, "_evaluated", slowly)
    assert evaluate()
    assert one(client, made)["state"] == "new"
    monkeypatch.undo()
    assert evaluate()
    assert one(client, made)["state"] == "ok"


def test_a_changed_or_removed_alert_is_over(
    client: TestClient, receiver: Receiver, evaluate: Step, deliver: Step
) -> None:
    hook = webhook(client, receiver.url)
    made = alert(client, condition="below", threshold=1, webhook_id=hook["id"])
    assert evaluate()
    url = f"/v1/alerts/{made['id']}"
    assert client.patch(url, json={"name": "another"}).json()["state"] == "firing", "a name is no term"
    assert client.patch(url, json={"enabled": False}).json()["state"] == "off"
    assert not evaluate(), "it is off"
    assert client.patch(url, json={"enabled": True}).json()["state"] == "new"
    assert evaluate()
    assert client.delete(url).status_code == 204
    told = []
    while deliver():
        _, body = receiver.next()
        told.append((body["type"], body["data"]["reason"]))
    assert told == [
        ("alert.firing", "condition"), ("alert.resolved", "changed"),
        ("alert.firing", "condition"), ("alert.resolved", "removed"),
    ]  # fmt: skip


def test_a_changed_alert_that_fires_begins_anew(
    client: TestClient, receiver: Receiver, evaluate: Step, deliver: Step
) -> None:
    """The webhook that was told of it hears that it is over; where the new rule holds, the new one hears of that."""
    hooks = [webhook(client, receiver.url, name) for name in ("old", "new")]
    made = alert(client, condition="below", threshold=1, webhook_id=hooks[0]["id"])
    assert evaluate()
    fired = one(client, made)
    wanted = {"threshold": 2, "in_a_row": 2, "webhook_id": hooks[1]["id"], "interval_s": 600}
    changed = client.patch(f"/v1/alerts/{made['id']}", json=wanted).json()
    nothing_known = {
        "state": "new", "since": changed["since"], "firing_since": None, "value": None, "connections": None,
        "evaluated_at": None, "delivery": "waiting",
    }  # fmt: skip
    assert changed == fired | wanted | nothing_known
    assert changed["since"] > fired["since"]
    states = []
    for _ in range(2):
        assert evaluate()
        states.append(one(client, made)["state"])
    assert states == ["pending", "firing"]
    while deliver():
        receiver.next()
    told = [[json.loads(body) for body in bodies(hook)] for hook in hooks]
    assert [[(b["type"], b["data"]["reason"], b["data"]["threshold"]) for b in reversed(of)] for of in told] == [
        [("alert.firing", "condition", 1), ("alert.resolved", "changed", 1)],
        [("alert.firing", "condition", 2)],
    ]


def test_a_change_without_one_ends_nothing(client: TestClient, evaluate: Step) -> None:
    made = alert(client, condition="below", threshold=1, filters="kind=tcp")
    assert evaluate()
    fired = one(client, made)
    same = {n: fired[n] for n in ("measure", "statistic", "filters", "threshold", "window_s", "webhook_id")}
    assert client.patch(f"/v1/alerts/{made['id']}", json=same).json() == fired
    assert client.patch(f"/v1/alerts/{made['id']}", json={"interval_s": 600}).json() == fired | {"interval_s": 600}


def test_events_tell_of_every_change(client: TestClient, receiver: Receiver, application: TestClient) -> None:
    team = uuid.UUID(client.get("/v1/teams/me").json()["id"])
    hook = webhook(client, receiver.url)

    async def asked(what: Callable[..., Any], *given: Any, **wanted: Any) -> Any:
        return await asyncio.to_thread(what, *given, **wanted)

    async def told(stream: AsyncIterator[str]) -> dict[str, Any]:
        event = await asyncio.wait_for(anext(stream), 30)
        return dict(json.loads(event.split("data: ")[1]))

    async def watch() -> None:
        poller = Poller()
        polls = asyncio.create_task(poller.run())
        stream = poller.changes(service.progress, team, Progress({}, has_ended=False))
        assert await told(stream) == {}
        seen = await told(stream)
        assert (seen["alerts"], list(seen["messages"])) == ([], [hook["id"]])

        async def after(what: Any, is_there: Callable[[dict[str, Any]], bool]) -> None:
            nonlocal seen
            before, _ = seen, await what
            seen = await told(stream)
            while not is_there(seen):
                seen = await told(stream)
            assert seen != before

        made = await asked(alert, client, name="one", condition="below", threshold=1, webhook_id=hook["id"])
        url = f"/v1/alerts/{made['id']}"
        await after(asyncio.sleep(0), lambda now: now["alerts"] == [made])
        await after(asked(client.patch, url, json={"name": "two"}), lambda now: now["alerts"][0]["name"] == "two")
        unposted = seen["messages"]
        await after(
            evaluate_next(), lambda now: [(a["state"], a["delivery"]) for a in now["alerts"]] == [("firing", "waiting")]
        )
        assert seen["alerts"] == (await asked(client.get, "/v1/alerts")).json()["items"]
        assert seen["messages"] != unposted
        assert (await asked(client.delete, url)).status_code == 204
        posted = seen["messages"]
        await after(asyncio.sleep(0), lambda now: now["alerts"] == [])
        await after(asked(client.post, f"/v1/webhooks/{hook['id']}/test"), lambda now: now["messages"] != posted)
        polls.cancel()

    assert application.portal is not None
    application.portal.call(watch)


def test_the_stream_is_of_the_callers_team(
    client: TestClient, other: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.events._LONGEST_S", -1.0)  # it ends after the first event
    made = alert(client)
    for asks, its in ((client, [made]), (other, [])):
        answer = asks.get("/v1/alerts/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        (event,) = answer.text.split("\n\n")[:-1]
        assert json.loads(event.split("data: ")[1]) == {"alerts": its, "messages": {}}


def test_what_cannot_be_evaluated_says_why(client: TestClient, evaluate: Step) -> None:
    made = alert(client, condition="below", threshold=1)
    assert evaluate()
    with engine().begin() as connection:
        connection.execute(update(Alert).values(measure="harm:x", filters="port=x"))
    assert evaluate()
    shown = one(client, made)
    assert (shown["state"], shown["firing_since"] is not None) == ("error", True), "nothing says that it is over"
    assert shown["error"].startswith("filters: port")


def test_roles_and_other_teams(client: TestClient, other: TestClient, client_for: Client, receiver: Receiver) -> None:
    hook = webhook(client, receiver.url)
    made = alert(client, webhook_id=hook["id"])
    team = client.get("/v1/teams/me").json()["id"]
    wanted = {"name": "reads", "scopes": ["read"]}
    viewer = client_for(client.post(f"/v1/teams/{team}/tokens", json=wanted).json()["token"])
    for asks, status in ((viewer, 403), (other, 404), (client, 200)):
        assert asks.patch(f"/v1/alerts/{made['id']}", json={"name": "y", "threshold": 7}).status_code == status
    assert viewer.get("/v1/alerts").json()["items"] == [one(client, made)]
    (seen,) = viewer.get("/v1/webhooks").json()
    assert (seen["url"], seen["host"]) == (None, f"{NAME}:{receiver.port}"), "the address may hold a secret"
    assert client.get("/v1/webhooks").json()[0]["url"] == receiver.url
    assert other.get("/v1/alerts").json()["items"] == other.get("/v1/webhooks").json() == []
    given = {"name": "x", "measure": "rtt_us", "threshold": 1, "webhook_id": hook["id"]}
    assert_problem(other.post("/v1/alerts", json=given), 422, "no such webhook")
    assert client.delete(f"/v1/webhooks/{hook['id']}").status_code == 204
    assert one(client, made)["webhook_id"] is None
    log = client.get(f"/v1/teams/{team}/audit").json()["items"]
    assert [e["detail"].get("what") for e in log if e["object_id"] in (hook["id"], made["id"])] == [
        "webhook", "alert changed", "alert made", "webhook made",
    ]  # fmt: skip
    (changed,) = (e for e in log if e["detail"].get("what") == "alert changed")
    assert (changed["object_name"], changed["detail"]["fields"]) == ("y", "name, threshold")
    assert "s3cret" not in json.dumps(log)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"filters": "from=2026-01-01T00:00:00Z"}, "from is not allowed"),
        ({"filters": "until=2026-01-01T00:00:00Z"}, "until is not allowed"),
        ({"filters": "colour=red"}, "colour"),
        ({"filters": "tag=x"}, "not of the form key=value"),
        ({"condition": "rises", "threshold": 0}, "above 0"),
        ({"measure": "beauty"}, ""),
        ({"window_s": 1}, ""),
        ({"interval_s": 59}, ""),
        ({"colour": "red"}, ""),
    ],
)
def test_wrong_alerts_are_refused(client: TestClient, wanted: dict[str, Any], reason: str) -> None:
    given = {"name": "x", "measure": "rtt_us", "threshold": 1, **wanted}
    made = alert(client)
    for refused in (client.post("/v1/alerts", json=given), client.patch(f"/v1/alerts/{made['id']}", json=wanted)):
        assert refused.status_code == 422
        assert reason in refused.text
    assert one(client, made) == made


def test_a_team_has_so_many(client: TestClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.webhooks import service
    from store.settings import settings

    monkeypatch.setattr(settings(), "team_alerts_max", 1)
    monkeypatch.setattr(service, "WEBHOOKS_MAX", 1)
    alert(client)
    given = {"name": "x", "measure": "rtt_us", "threshold": 1}
    assert_problem(client.post("/v1/alerts", json=given), 422, "at most 1 alerts")
    hook = webhook(client, receiver.url)
    assert_problem(client.post("/v1/webhooks", json={"name": "y", "url": receiver.url}), 422, "at most 1 webhooks")
    for _ in range(service.TESTS_MAX):
        assert client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 202
    assert_problem(client.post(f"/v1/webhooks/{hook['id']}/test"), 429, "wait already")
    monkeypatch.undo()
    assert_problem(client.post("/v1/webhooks", json={"name": "y", "url": "https://10.0.0.1/"}), 422, "")
