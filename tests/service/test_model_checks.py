"""Model checks: asked for by REST, run by TLC in the task's own body."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from deploy.run import READY_S, wait_for
from tests.conftest import SPECS, make_token
from tests.service.test_api import assert_problem
from tests.service.test_exports import assert_alike, csv_of, json_of
from tests.service.test_jobs import age, in_transaction, state

Run = Callable[[], None]
URL = "/v1/model-checks"
ENDLESS = {"Subflows": 6, "Limit": 60}


def ask(client: TestClient, **wanted: Any) -> dict[str, Any]:
    response = client.post(URL, json={"spec": "Windows", **wanted})
    assert response.status_code == 202, response.text
    assert response.headers["Location"] == f"{URL}/{response.json()['id']}"
    assert response.headers["Retry-After"] == "1"
    return dict(response.json())


def job_of(check: dict[str, Any]) -> uuid.UUID:
    from store.database import engine
    from store.models import Job

    with engine().connect() as connection:
        return connection.scalars(select(Job.id).where(Job.check_id == uuid.UUID(check["id"]))).one()


def test_a_check_that_holds(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client)
    assert (asked["state"], asked["verdict"], asked["constants"]) == ("queued", None, {"Subflows": 2, "Limit": 4})
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert (found["state"], found["verdict"], found["violated"], found["error"]) == ("done", "holds", None, None)
    assert (found["distinct"], found["queued"], found["depth"], found["as_pinned"]) == (16, 0, 7, True)
    assert found["generated"] > 16
    assert found["seconds"] > 0
    assert found["counterexample"] is None
    coverage = {c["action"]: c for c in found["coverage"]}
    assert {name: c["taken"] for name, c in coverage.items()} == {"Ack": 24, "Loss": 24}, "in 3 of 4 states, twice"
    assert coverage["Ack"]["place"].startswith("Windows ")
    assert ask(client)["state"] == "done", "the same request is the same check"
    assert ask(client, constants={"Limit": 4})["id"] == asked["id"]
    assert_alike(client, URL, "?state=done", client.get(URL).json()["items"])
    assert csv_of(client, f"{URL}.csv?state=failed") == []


def test_a_counterexample_is_states(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client, configuration="asprinted")
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert (found["state"], found["verdict"], found["violated"]) == ("done", "violated", "Bounded")
    assert found["as_pinned"] is True
    assert found["windows"] == "cwnd"
    assert found["counterexample_states"] == 3
    first, second, last = found["counterexample"]
    assert first == {
        "number": 1, "action": "Initial predicate", "state": {"cwnd": {"s1": 1, "s2": 1}}, "back_to": None
    }  # fmt: skip
    assert second["action"] == last["action"] == "Ack"
    assert sorted(last["state"]["cwnd"].values()) == [1, 5]
    table = f"{URL}/{asked['id']}/counterexample"
    rows = assert_alike(client, table, "", [s | s["state"] for s in found["counterexample"]])
    assert list(rows[0]) == ["number", "action", "cwnd", "back_to"]
    assert json_of(client, f"{table}.jsonl") == found["counterexample"]
    assert_alike(client, f"{URL}/{asked['id']}/actions", "", found["coverage"])
    assert_problem(client.get(f"{URL}/{asked['id']}/violation.csv"), 404, "this check has no violation")


def test_a_check_that_holds_has_no_counterexample_as_a_file(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client)
    assert_problem(client.get(f"{URL}/{asked['id']}/actions.csv"), 404, "until it ends")
    run_jobs()
    assert_alike(client, f"{URL}/{asked['id']}/actions", "", client.get(f"{URL}/{asked['id']}").json()["coverage"])
    assert_problem(client.get(f"{URL}/{asked['id']}/counterexample.parquet"), 404, "no counterexample")


def test_other_constants_are_another_check(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client, constants={"Subflows": 3, "Limit": 5})
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert (found["verdict"], found["distinct"], found["depth"]) == ("holds", 125, 13)
    assert found["as_pinned"] is None, "nothing is pinned for these"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"constants": {"Limit": 61}}, "constants.Limit: 61 is not in the range from 2 to 60"),
        ({"constants": {"Subflows": 0}}, "constants.Subflows: 0 is not in the range from 1 to 6"),
        ({"constants": {"Subflows": 10**30}}, "is not in the range from 1 to 6"),
        ({"constants": {"Step": 1}}, "'Step' cannot be chosen for Windows holds; these can: Limit, Subflows"),
        ({"constants": {"Limit": "4"}}, "constants.Limit: Input should be a valid integer"),
        ({"constants": {"Limit": True}}, "constants.Limit: Input should be a valid integer"),
        ({"constants": {f"c{i}": 1 for i in range(40)}}, "at most 32 items"),
        ({"configuration": "nope"}, "Windows has no such configuration; it has: holds, asprinted"),
        ({"spec": "../etc"}, "no such specification"),
        ({"spec": "Windows\u0000"}, "no such specification"),
        ({"seconds_max": 0}, "seconds_max"),
        ({"seconds_max": 1e9}, "at most 900 s"),
        ({"seconds_max": "NaN"}, "seconds_max"),
    ],
)
def test_refused_requests(client: TestClient, wanted: dict[str, Any], said: str) -> None:
    assert_problem(client.post(URL, json={"spec": "Windows", **wanted}), 422, said)
    assert client.get(URL).json()["items"] == []


def test_the_range_is_in_the_problem(client: TestClient) -> None:
    problem = client.post(URL, json={"spec": "Windows", "constants": {"Limit": 1}}).json()
    assert (problem["constant"], problem["min"], problem["max"]) == ("Limit", 2, 60)


def test_a_time_limit(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client, constants=ENDLESS, seconds_max=12)
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert (found["state"], found["verdict"]) == ("failed", "failed")
    assert found["error"].startswith(f"limit: not finished in 12 s; reached {found['distinct']} distinct states, ")
    assert found["distinct"] > 0
    assert found["queued"] > 0
    assert found["depth"] > 1
    assert found["counterexample"] is None
    assert state(job_of(found)).state == "failed"
    again = ask(client, constants=ENDLESS, seconds_max=5)
    assert (again["id"], again["state"], again["seconds_max"], again["error"]) == (asked["id"], "queued", 5.0, None)
    assert again["distinct"] is None
    assert state(job_of(again)).attempts == 0
    client.post(f"{URL}/{asked['id']}/cancel")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("check_memory_mb", 8, "limit: a heap of 8 MB is too small"),
        ("check_disk_bytes_max", 5000, "limit: wrote more"),
    ],
)
def test_other_limits(
    client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch, setting: str, value: int, said: str
) -> None:
    from store.settings import settings

    monkeypatch.setattr(settings(), setting, value)
    asked = ask(client, constants=ENDLESS, seconds_max=60)
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert found["state"] == "failed"
    assert found["error"].startswith(said)


def test_without_tlc(client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWINDOW_TLA_JAR", "/nowhere/tla2tools.jar")
    asked = ask(client)
    run_jobs()
    found = client.get(f"{URL}/{asked['id']}").json()
    assert found["state"] == "failed"
    assert "tla2tools.jar: TLC is missing" in found["error"]
    assert "/nowhere" not in found["error"], "no folder of this machine"
    assert client.get("/readyz").status_code == 200


def test_a_specification_that_changed(
    client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was asked for was another text: its result is not this one's."""
    from store.settings import settings

    shutil.copytree(SPECS, tmp_path / "specs")
    with (tmp_path / "specs" / "Windows" / "Windows.tla").open("a") as text:
        text.write("more\n")
    asked = ask(client)
    monkeypatch.setattr(settings(), "specs_folder", str(tmp_path / "specs"))
    run_jobs()
    assert "has changed since" in client.get(f"{URL}/{asked['id']}").json()["error"]


def running(check: str, client: TestClient) -> Callable[[], bool]:
    return lambda: (client.get(f"{URL}/{check}").json()["distinct"] or 0) > 0


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_cancelled_while_it_runs(client: TestClient, how: str) -> None:
    from worker.tasks import run_job

    asked = ask(client, constants=ENDLESS, seconds_max=120)
    thread = threading.Thread(target=run_job, args=(job_of(asked),))
    thread.start()
    wait_for("progress", running(asked["id"], client))
    if how == "delete":
        assert client.delete(f"{URL}/{asked['id']}").status_code == 204
        assert_problem(client.get(f"{URL}/{asked['id']}"), 404, "no such model check")
    else:
        found = client.post(f"{URL}/{asked['id']}/cancel").json()
        assert (found["state"], found["verdict"]) == ("cancelled", "cancelled")
        assert found["finished_at"] is not None
    thread.join(READY_S)
    assert not thread.is_alive(), "TLC was killed"
    if how == "cancel":
        after = client.get(f"{URL}/{asked['id']}").json()
        assert (after["state"], after["distinct"]) == ("cancelled", found["distinct"]), "nothing was written after"
        assert client.post(f"{URL}/{asked['id']}/cancel").json()["state"] == "cancelled"
        assert ask(client, constants=ENDLESS)["state"] == "queued"
        client.post(f"{URL}/{asked['id']}/cancel")


def test_cancelled_before_it_runs(client: TestClient, run_jobs: Run) -> None:
    from worker.tasks import run_job

    asked = ask(client)
    job = job_of(asked)
    client.post(f"{URL}/{asked['id']}/cancel")
    run_job(job)
    assert client.get(f"{URL}/{asked['id']}").json()["state"] == "cancelled"
    assert ask(client)["id"] == asked["id"]
    run_jobs()
    done = client.post(f"{URL}/{asked['id']}/cancel").json()
    assert (done["state"], done["verdict"]) == ("done", "holds"), "it has ended: it stays"


def test_a_check_that_was_taken_over_writes_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from store import jobs
    from worker import model_check, tasks

    asked = ask(client)
    job = job_of(asked)
    real = model_check._finish

    def taken_over_meanwhile(*arguments: Any) -> None:
        age(job, lease_until=func.now() - timedelta(seconds=1))
        assert in_transaction(jobs.claim, job).fence == 2
        real(*arguments)

    monkeypatch.setattr(model_check, "_finish", taken_over_meanwhile)
    tasks.run_job(job)
    found = client.get(f"{URL}/{asked['id']}").json()
    assert (found["state"], found["verdict"], found["coverage"]) == ("running", None, None)


def test_attempts_are_capped(client: TestClient) -> None:
    from store import jobs

    asked = ask(client)
    job = job_of(asked)
    for _ in range(3):
        assert in_transaction(jobs.claim, job) is not None
        age(job, lease_until=func.now() - timedelta(seconds=1))
        in_transaction(jobs.sweep)
    in_transaction(jobs.sweep)
    found = client.get(f"{URL}/{asked['id']}").json()
    assert found["state"] == "failed"
    assert "given up after 3 attempts" in found["error"]
    assert found["finished_at"] is not None


def test_checks_have_a_queue_of_their_own(client: TestClient) -> None:
    from store import jobs
    from store.models import JobKind

    job = job_of(ask(client))
    age(job, sent_at=func.now() - timedelta(minutes=1))
    assert in_transaction(jobs.sweep)[job] is JobKind.check
    app = jobs.celery_app()
    with app.connection_or_acquire() as connection:
        before = connection.default_channel.client.llen(jobs.CHECKS_QUEUE)
        jobs.send(app, JobKind.check)
        assert connection.default_channel.client.llen(jobs.CHECKS_QUEUE) == before + 1


def test_another_team_sees_no_check(client: TestClient, other: TestClient, run_jobs: Run) -> None:
    asked = ask(client)
    run_jobs()
    url = f"{URL}/{asked['id']}"
    assert other.get(URL).json()["items"] == []
    for response in (other.get(url), other.get(f"{url}/events"), other.post(f"{url}/cancel"), other.delete(url)):
        assert_problem(response, 404, "no such model check")
    assert all(c["last"] is None for s in other.get("/v1/specs").json()["specs"] for c in s["configurations"])
    assert client.get(url).json()["state"] == "done"
    assert ask(other)["id"] != asked["id"]


def test_scopes(client_for: Callable[[str], TestClient]) -> None:
    reader = client_for(make_token(["read"]))
    assert reader.get(URL).status_code == 200
    assert_problem(reader.post(URL, json={"spec": "Windows"}), 403, "lacks the scope 'write'")
    assert_problem(reader.post(f"{URL}/{uuid.uuid4()}/cancel"), 403, "lacks the scope 'write'")
    assert_problem(reader.delete(f"{URL}/{uuid.uuid4()}"), 403, "lacks the scope 'write'")


def test_specs_with_last_verdicts(client: TestClient, run_jobs: Run) -> None:
    asked = ask(client, configuration="asprinted")
    run_jobs()
    spec = client.get("/v1/specs").json()["specs"][-1]
    assert (spec["name"], spec["windows"], spec["controllers"]) == ("Windows", "cwnd", [])
    assert spec["constants"]["Limit"] == {"min": 2, "max": 60, "meaning": "what no window exceeds, segments"}
    holds, asprinted = spec["configurations"]
    assert holds["constants"] == {"Subflows": 2, "Limit": 4}
    assert holds["pinned"] == {"violates": None, "distinct": 16, "depth": 7, "states": None}
    assert holds["properties"] == ["Bounded"]
    assert holds["last"] is None
    assert (asprinted["last"]["id"], asprinted["last"]["verdict"]) == (asked["id"], "violated")
    ask(client, configuration="asprinted", constants={"Limit": 3})
    run_jobs()
    specs = client.get("/v1/specs").json()["specs"]
    last = specs[-1]["configurations"][1]["last"]
    assert (last["verdict"], last["constants"]["Limit"], last["as_pinned"]) == ("holds", 3, None)
    rows = [{"spec": s["name"]} | c for s in specs for c in s["configurations"]]
    assert_alike(client, "/v1/specs/configurations", "", rows)
    assert_alike(client, "/v1/specs/configurations", "?spec=Windows", rows[-2:])
    assert_problem(client.get("/v1/specs/configurations.csv?spec=None"), 404, "no specification 'None'")


def test_pages_and_filters(client: TestClient) -> None:
    made = [ask(client, constants={"Limit": n})["id"] for n in range(5, 10)]
    client.post(f"{URL}/{made[0]}/cancel")
    seen, cursor = [], None
    while True:
        page = client.get(URL, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [c["id"] for c in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert "counterexample" not in page["items"][0]
    assert [c["id"] for c in client.get(f"{URL}?state=cancelled").json()["items"]] == [made[0]]
    assert len(client.get(f"{URL}?spec=Windows&state=queued").json()["items"]) == 4
    assert client.get(f"{URL}?spec=Other").json()["items"] == []
    assert_problem(client.get(f"{URL}?cursor=nonsense"), 400, "cursor")
    assert_problem(client.get(f"{URL}?state=odd"), 422, "state")


def test_a_team_has_so_many_at_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.model_checks import service

    monkeypatch.setattr(service, "WAITING_MAX", 2)
    ask(client, constants={"Limit": 5})
    first = ask(client, constants={"Limit": 6})
    refused = client.post(URL, json={"spec": "Windows", "constants": {"Limit": 7}})
    assert_problem(refused, 429, "at most 2 checks")
    assert ask(client, constants={"Limit": 6})["id"] == first["id"], "it is there already"
    client.post(f"{URL}/{first['id']}/cancel")
    ask(client, constants={"Limit": 7})


def test_events_tell_progress(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.events import Poller
    from worker.tasks import run_job

    asked = ask(client, constants=ENDLESS)
    sent: list[str] = []
    changes = Poller.changes

    async def noted(*given: Any) -> AsyncIterator[str]:
        async for event in changes(*given):
            sent.append(event)
            yield event

    def numbers(events: list[str]) -> list[int]:
        found = [json.loads(event.split("data: ")[1])["distinct"] for event in events if "data: " in event]
        return [n for n in found if n]

    def cancel() -> None:
        wait_for("several numbers in the stream", lambda: len(set(numbers(sent))) > 2)
        client.post(f"{URL}/{asked['id']}/cancel")

    monkeypatch.setattr(Poller, "changes", noted)
    threads = [threading.Thread(target=run_job, args=(job_of(asked),)), threading.Thread(target=cancel)]
    for thread in threads:
        thread.start()
    response = client.get(f"{URL}/{asked['id']}/events")
    for thread in threads:
        thread.join()
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in response.text.split("\n\n") if "data: " in block]
    told = numbers(blocks)
    assert len(set(told)) > 2
    assert told == sorted(told)
    events = [json.loads(block.split("data: ")[1]) for block in blocks]
    assert events[0]["verdict"] is None
    assert (events[-1]["state"], events[-1]["verdict"]) == ("cancelled", "cancelled")


def test_a_long_counterexample_keeps_its_ends() -> None:
    from rewindow.specs import State
    from worker import model_check

    states = [State(n, "Ack", {"cwnd": n}) for n in range(1, 5001)]
    kept = model_check.kept_states(states)
    assert len(kept) == model_check.COUNTEREXAMPLE_STATES_MAX + 1
    assert [s["number"] for s in (kept[0], kept[1], kept[-1])] == [1, 4001, 5000]
    huge = [State(n, "Ack", {"x": "y" * (1 << 20)}) for n in range(1, 10)]
    assert [s["number"] for s in model_check.kept_states(huge)] == [1, 9]
    assert model_check.kept_states(states[:3]) == [s.as_json() for s in states[:3]]
