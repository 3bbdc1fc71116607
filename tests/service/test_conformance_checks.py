"""A connection's steps held against their specification: asked for by REST, followed by TLC in the task's own body."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

import rewindow
from deploy.run import READY_S, wait_for
from rewindow import cli
from rewindow.conformance import checks, step_logs
from tests.conftest import CAPTURES, FOLLOWED
from tests.service.test_api import PCAP, SAMPLE, analysed, assert_problem, mptcp, upload  # noqa: F401
from tests.service.test_exports import assert_alike, json_of
from tests.service.test_jobs import UNHURRIED, state, waiting_for
from tests.service.test_model_checks import URL, job_of

Run = Callable[[], None]
EVENTS = 3282
"""Steps of either controller on the sample's MPTCP connection."""


@pytest.fixture
def connection(analysed: dict[str, Any], client: TestClient) -> str:  # noqa: F811
    return str(mptcp(client, analysed)["id"])


def ask(client: TestClient, connection: str, **wanted: Any) -> dict[str, Any]:
    response = client.post(URL, json={"connection": connection, **wanted})
    assert response.status_code == 202, response.text
    assert response.headers["Location"] == f"{URL}/{response.json()['id']}"
    return dict(response.json())


def found(client: TestClient, check: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"{URL}/{check['id']}").json())


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """One window of the MPTCP connection is a segment too large."""
    whole = rewindow.Replay.steps

    def steps(self: rewindow.Replay, *asked: Any) -> Iterator[Any]:
        number = 0
        for step in whole(self, *asked):
            if step.connection == 0:
                number += 1
            if number == 701 and step.connection == 0:
                paths = list(step.paths)
                own = paths[step.path]
                assert own is not None
                paths[step.path] = replace(own, cwnd_q16=own.cwnd_q16 + 65536)
                yield replace(step, paths=tuple(paths))
            else:
                yield step

    monkeypatch.setattr(rewindow.Replay, "steps", steps)


def test_a_connection_that_conforms(
    client: TestClient, analysed: dict[str, Any], connection: str, run_jobs: Run  # noqa: F811
) -> None:  # fmt: skip
    asked = ask(client, connection)
    assert (asked["state"], asked["verdict"], asked["spec"]) == ("queued", None, "CoupledSlowStart")
    assert asked["algorithm"] == next(iter(step_logs.SPECIFIED)), "the first that has a specification"
    assert (asked["configuration"], asked["constants"], asked["connection"]) == (None, {}, connection)
    assert (asked["connection_number"], asked["capture_filename"]) == (0, SAMPLE.name)
    run_jobs()
    done = found(client, asked)
    assert (done["state"], done["verdict"], done["error"]) == ("done", "conforms", None)
    assert (done["events"], done["followed"], done["pieces"], done["pieces_followed"]) == (EVENTS, EVENTS, 1, 1)
    assert done["first_violation"] is None
    assert done["seconds"] > 0
    assert done["finished_at"] is not None
    assert ask(client, connection)["state"] == "done", "the same request is the same check"
    other = ask(client, connection, algorithm="tccc")
    assert other["id"] != done["id"]
    # The same bytes uploaded by the same team are the same capture, and so the same check.
    upload(client)
    assert ask(client, connection, algorithm="css")["id"] == done["id"]
    items = client.get(URL, params={"connection": connection}).json()["items"]
    assert [c["id"] for c in items] == [other["id"], done["id"]]
    assert "first_violation" not in items[0]
    assert client.get(URL, params={"connection": analysed["id"]}).json()["items"] == []
    client.post(f"{URL}/{other['id']}/cancel")


def test_the_first_violation_is_what_the_command_tells(
    client: TestClient, connection: str, run_jobs: Run, wrong: None, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ask(client, connection, algorithm="tccc")
    run_jobs()
    done = found(client, asked)
    assert (done["state"], done["verdict"]) == ("done", "does_not_conform")
    assert (done["events"], done["followed"]) == (EVENTS, EVENTS)
    first = done["first_violation"]
    assert first["event"] == 700
    command = ["specs", "trace", str(SAMPLE), "--algorithm", "tccc", "--connection", "0", "--json"]
    assert cli.main(command) == cli.NEGATIVE
    (told,) = json.loads(capsys.readouterr().out)["connections"]
    assert first == told["first_violation"]
    own = {s["path"]: s for s in first["found"]["subflows"]}[first["path"]]
    (allowed,) = first["expected"]
    low, high = {s["path"]: s for s in allowed["subflows"]}[first["path"]]["cwnd"]
    assert low <= own["cwnd"] - 1 <= high
    table = f"{URL}/{asked['id']}/violation"
    rows = json_of(client, f"{table}.jsonl")
    assert_alike(client, table, "", rows)
    of_window = (f"subflow {first['path']}", "cwnd")
    windows = {r["state"]: (r["least"], r["most"]) for r in rows if (r["of"], r["variable"]) == of_window}
    assert windows == {
        "before": ({s["path"]: s for s in first["before"]["subflows"]}[first["path"]]["cwnd"],) * 2,
        "expected": (low, high),
        "found": (own["cwnd"],) * 2,
    }
    coupled = [r for r in rows if r["variable"] == "coupled"]
    assert {r["text"] for r in coupled} <= {"true", "false"}
    assert len(coupled) == 3 * len(first["found"]["subflows"])


def test_a_detector_that_does_not_conform(
    client: TestClient,
    connection: str,
    run_jobs: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SB-CC's detector: it conforms; and where a member is missing from a set, that is told as the command tells it."""
    asked = ask(client, connection, algorithm="sbcc")
    assert asked["spec"] == "SharedBottleneck"
    run_jobs()
    done = found(client, asked)
    assert (done["verdict"], done["error"]) == ("conforms", None)
    assert done["events"] == done["followed"] > EVENTS
    assert client.delete(f"{URL}/{asked['id']}").status_code == 204
    whole = rewindow.Replay.steps

    def steps(self: rewindow.Replay, *wanted: Any) -> Iterator[Any]:
        for step in whole(self, *wanted):
            paths = list(step.paths)
            if step.kind == "judge_subflow" and paths[1] and paths[1].set:
                paths[1] = replace(paths[1], set=0, set_state=0)
            yield replace(step, paths=tuple(paths))

    monkeypatch.setattr(rewindow.Replay, "steps", steps)
    asked = ask(client, connection, algorithm="sbcc")
    run_jobs()
    done = found(client, asked)
    assert (done["verdict"], done["error"]) == ("does_not_conform", None)
    command = ["specs", "trace", str(SAMPLE), "--algorithm", "sbcc", "--connection", "0", "--json"]
    assert cli.main(command) == cli.NEGATIVE
    (told,) = json.loads(capsys.readouterr().out)["connections"]
    assert done["first_violation"] == told["first_violation"]
    assert done["first_violation"]["why"] == "differs"
    assert [s["set"] for s in done["first_violation"]["expected"][0]["subflows"]] == [1, 1]
    assert [s["set"] for s in done["first_violation"]["found"]["subflows"]] == [1, 0]
    rows = json_of(client, f"{URL}/{asked['id']}/violation.jsonl")
    sets = [(r["state"], r["of"], r["least"]) for r in rows if r["variable"] == "set" and r["state"] != "before"]
    assert sets == [
        ("expected", "subflow 0", 1.0), ("expected", "subflow 1", 1.0),
        ("found", "subflow 0", 1.0), ("found", "subflow 1", 0.0),
    ]  # fmt: skip


def test_what_can_be_asked_for_is_what_the_library_knows(client: TestClient) -> None:
    specs = {s["name"]: s["controllers"] for s in client.get("/v1/specs").json()["specs"]}
    assert specs.pop("Windows") == []
    assert {a: s for s, controllers in specs.items() for a in controllers} == {
        a: s for a, s in step_logs.SPECIFIED.items() if s in specs
    }


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "give exactly one of spec"),
        ({"spec": "Windows", "connection": str(uuid.uuid4())}, "give exactly one of spec"),
        ({"spec": None, "connection": None}, "give exactly one of spec"),
        ({"connection": str(uuid.uuid4()), "constants": {"Limit": 3}}, "constants can be given with spec only"),
        ({"connection": str(uuid.uuid4()), "configuration": "holds"}, "configuration can be given with spec only"),
        ({"spec": "Windows", "algorithm": "css"}, "algorithm can be given with connection only"),
        ({"connection": "1"}, "body.connection: Input should be a valid UUID"),
        ({"connection": str(uuid.uuid4()), "seconds_max": 1e9}, "at most 900 s"),
    ],
)
def test_refused_requests(client: TestClient, wanted: dict[str, Any], said: str) -> None:
    assert_problem(client.post(URL, json=wanted), 422, said)
    assert client.get(URL).json()["items"] == []


@pytest.mark.parametrize("algorithm", ["lia", "tccc\u0000", "", "css "])
def test_controllers_without_a_specification(client: TestClient, connection: str, algorithm: str) -> None:
    response = client.post(URL, json={"connection": connection, "algorithm": algorithm})
    assert_problem(response, 422, "no specification of this controller; specified are: css, ")


def test_a_connection_without_steps(client: TestClient, run_jobs: Run) -> None:
    head = client.post("/v1/captures", content=SAMPLE.read_bytes()[:2000], headers=PCAP).json()
    run_jobs()
    items = client.get(f"/v1/captures/{head['id']}/connections").json()["items"]
    asked = ask(client, items[0]["id"])
    run_jobs()
    assert found(client, asked)["error"] == "css took no step on this connection: there is nothing to check"


def test_another_team_sees_neither_connection_nor_check(
    client: TestClient, other: TestClient, connection: str, run_jobs: Run
) -> None:
    asked = ask(client, connection)
    assert_problem(other.post(URL, json={"connection": connection}), 404, "no such connection")
    assert_problem(client.post(URL, json={"connection": str(uuid.uuid4())}), 404, "no such connection")
    assert other.get(URL, params={"connection": connection}).json()["items"] == []
    assert_problem(other.get(f"{URL}/{asked['id']}"), 404, "no such model check")
    # A capture of the same bytes is another team's own, and so is its check.
    same = upload(other)
    run_jobs()
    theirs = ask(other, mptcp(other, same)["id"])
    assert theirs["id"] != asked["id"]
    assert found(client, asked)["state"] == "done"
    other.delete(f"/v1/captures/{same['id']}")
    assert found(client, asked)["state"] == "done"


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs of TLC, so that there is time to look."""
    monkeypatch.setattr(checks, "BATCH_STEPS", 300)
    monkeypatch.setattr(step_logs, "PIECE_STEPS", 150)


def while_it_runs(client: TestClient, check: dict[str, Any], act: Callable[[], Any]) -> Any:
    from worker.tasks import run_job

    thread = threading.Thread(target=run_job, args=(job_of(check),))
    thread.start()
    wait_for("progress", lambda: (found(client, check)["events"] or 0) > 0)
    answer = act()
    thread.join(READY_S)
    assert not thread.is_alive(), "TLC was killed"
    return answer


def test_cancelled_while_it_runs(client: TestClient, connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_pieces(monkeypatch)
    asked = ask(client, connection)
    cancelled = while_it_runs(client, asked, lambda: client.post(f"{URL}/{asked['id']}/cancel").json())
    assert (cancelled["state"], cancelled["verdict"]) == ("cancelled", "cancelled")
    assert found(client, asked) == cancelled, "nothing was written after"
    again = ask(client, connection)
    assert (again["id"], again["state"], again["events"], again["finished_at"]) == (asked["id"], "queued", None, None)
    client.post(f"{URL}/{asked['id']}/cancel")


def test_events_tell_how_far_it_is(client: TestClient, connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.tasks import run_job

    in_pieces(monkeypatch)
    asked = ask(client, connection)
    thread = threading.Thread(target=run_job, args=(job_of(asked),))
    thread.start()
    response = client.get(f"{URL}/{asked['id']}/events")
    thread.join()
    told = [json.loads(block.split("data: ")[1]) for block in response.text.strip().split("\n\n")]
    followed = [e["followed"] for e in told if e["followed"] is not None]
    assert followed == sorted(followed)
    assert len({n for n in followed if 0 < n < EVENTS}) > 1
    assert any(0 < e["pieces_followed"] < e["pieces"] for e in told if e["pieces"])
    assert (told[-1]["verdict"], told[-1]["followed"], told[-1]["pieces"]) == ("conforms", EVENTS, 22)


def test_a_time_limit(client: TestClient, connection: str, run_jobs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    in_pieces(monkeypatch)
    asked = ask(client, connection, seconds_max=4)
    run_jobs()
    late = found(client, asked)
    assert (late["state"], late["verdict"]) == ("failed", "failed")
    assert late["error"] == f"limit: not finished in 4 s; followed {late['followed']} of {late['events']} events"
    assert 0 < late["events"] <= EVENTS
    assert 0 <= late["followed"] < EVENTS
    assert state(job_of(late)).state == "failed"


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("check_memory_mb", 8, "limit: a heap of 8 MB is too small; followed "),
        ("check_disk_bytes_max", 10, "limit: wrote more than 10 bytes; followed "),
    ],
)
def test_other_limits(
    client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch, setting: str, value: int, said: str
) -> None:
    from store.settings import settings

    longer = upload(client, CAPTURES / "mptcp-three-subflows.pcap")  # for several looks at what is written
    run_jobs()
    monkeypatch.setattr(settings(), setting, value)
    asked = ask(client, mptcp(client, longer)["id"])
    run_jobs()
    limited = found(client, asked)
    assert limited["state"] == "failed"
    assert limited["error"].startswith(said)


def test_a_specification_that_changed(
    client: TestClient, connection: str, run_jobs: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from store.settings import settings

    shutil.copytree(FOLLOWED, tmp_path / FOLLOWED.name)
    with (tmp_path / FOLLOWED.name / "CoupledSlowStartLog.tla").open("a") as text:
        text.write("more\n")
    asked = ask(client, connection)
    monkeypatch.setattr(settings(), "specs_folder", str(tmp_path))
    run_jobs()
    assert "has changed since" in found(client, asked)["error"]


def test_a_capture_deleted_before_its_check(
    client: TestClient, analysed: dict[str, Any], connection: str, run_jobs: Run  # noqa: F811
) -> None:  # fmt: skip
    done, waiting = ask(client, connection), ask(client, connection, algorithm="tccc")
    job = job_of(waiting)
    from worker.tasks import run_job

    run_job(job_of(done))
    assert found(client, done)["verdict"] == "conforms"
    assert client.delete(f"/v1/captures/{analysed['id']}").status_code == 204
    assert_problem(client.get(f"{URL}/{done['id']}"), 404, "no such model check")
    run_job(job)
    failed = found(client, waiting)
    assert (failed["state"], failed["error"], failed["connection"]) == ("failed", "the capture was deleted", None)
    assert failed["finished_at"] is not None
    assert (failed["capture_filename"], failed["connection_number"]) == (SAMPLE.name, 0)
    assert client.get(URL, params={"connection": connection}).json()["items"] == []
    # The same bytes again: the same check, of the capture that is there now.
    again = upload(client)
    run_jobs()
    now = ask(client, mptcp(client, again)["id"], algorithm="tccc")
    assert (now["id"], now["state"], now["connection"]) == (waiting["id"], "queued", mptcp(client, again)["id"])
    run_jobs()
    assert found(client, now)["verdict"] == "conforms"


def test_a_capture_deleted_while_it_is_checked(
    client: TestClient, analysed: dict[str, Any], connection: str, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    in_pieces(monkeypatch)
    asked = ask(client, connection)
    answer = while_it_runs(client, asked, lambda: client.delete(f"/v1/captures/{analysed['id']}"))
    assert answer.status_code == 204
    failed = found(client, asked)
    assert (failed["state"], failed["error"]) == ("failed", "the capture was deleted")


def meanwhile(client: TestClient, change: Any, connection: str) -> Any:
    """The answer to a request that waits for a row that another transaction changes."""
    from store.database import engine

    answers: list[Any] = []

    def ask_until_answered() -> None:
        while not answers or answers[-1].status_code == 503:  # it waited for too long
            answers.append(client.post(URL, json={"connection": connection}))

    with engine().begin() as database:
        database.execute(UNHURRIED)
        database.execute(change)
        thread = threading.Thread(target=ask_until_answered)
        thread.start()
        wait_for("the request to wait for a row", lambda: waiting_for(database) > 0)
    thread.join()
    return answers[-1]


def test_asked_for_while_the_capture_is_deleted(
    client: TestClient, analysed: dict[str, Any], connection: str  # noqa: F811
) -> None:  # fmt: skip
    from sqlalchemy import delete

    from store.models import Capture

    gone = meanwhile(client, delete(Capture).where(Capture.id == uuid.UUID(analysed["id"])), connection)
    assert_problem(gone, 404, "no such connection")


def test_asked_for_while_the_check_is_deleted(
    client: TestClient, connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy import delete

    from api.model_checks import service
    from store.database import engine
    from store.models import ModelCheck

    asked = ask(client, connection)
    client.post(f"{URL}/{asked['id']}/cancel")
    its_row = delete(ModelCheck).where(ModelCheck.id == uuid.UUID(asked["id"]))
    anew = meanwhile(client, its_row, connection)
    assert (anew.status_code, anew.json()["id"] == asked["id"]) == (202, False), "ours is the first now"
    client.post(f"{URL}/{anew.json()['id']}/cancel")
    real = service._begin_anew

    async def deleted_after_it_was_found(*arguments: Any) -> bool:
        with engine().begin() as database:
            database.execute(delete(ModelCheck).where(ModelCheck.id == uuid.UUID(anew.json()["id"])))
        return await real(*arguments)

    monkeypatch.setattr(service, "_begin_anew", deleted_after_it_was_found)
    assert_problem(client.post(URL, json={"connection": connection}), 503, "has just been deleted")


def test_a_check_that_the_delete_did_not_see(
    client: TestClient, analysed: dict[str, Any], connection: str, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    """Asked for between the delete's look at checks and its end: the worker finds that the capture is gone."""
    from sqlalchemy import delete

    from store.database import engine
    from store.models import Capture
    from worker import conformance_check
    from worker.tasks import run_job

    first, second = ask(client, connection), ask(client, connection, algorithm="tccc")
    real = conformance_check._finish

    def deleted_meanwhile(*arguments: Any) -> None:
        with engine().begin() as database:
            database.execute(delete(Capture).where(Capture.id == uuid.UUID(analysed["id"])))
        real(*arguments)

    monkeypatch.setattr(conformance_check, "_finish", deleted_meanwhile)
    for check in (first, second):
        run_job(job_of(check))
        assert (found(client, check)["state"], found(client, check)["error"]) == ("failed", "the capture was deleted")


def test_a_capture_whose_object_is_gone(
    client: TestClient, analysed: dict[str, Any], connection: str, run_jobs: Run  # noqa: F811
) -> None:  # fmt: skip
    from store import objects
    from store.database import engine
    from store.models import Capture

    asked = ask(client, connection)
    with engine().connect() as database:
        row = database.execute(select(Capture).where(Capture.id == uuid.UUID(analysed["id"]))).one()
    objects.delete_keys(row.object_key, row.acks_key)
    run_jobs()
    assert found(client, asked)["state"] == "queued", "its disk may not be mounted"
    gone = client.get(f"/v1/connections/{connection}/acks.parquet")
    assert_problem(gone, 404, "the series of this connection are missing")
    assert_problem(client.get(f"/v1/connections/{connection}/series"), 404, "the series of this connection are missing")
