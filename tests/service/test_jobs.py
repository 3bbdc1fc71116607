"""Jobs: leases, fences, the sweeper, and running twice."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, Engine, create_engine, func, select, text, update

import rewindow
from deploy.run import CHECKOUT, Services, wait_for
from rewindow.findings.quality import Finding
from tests.service.test_api import PCAP, SAMPLE, mptcp, upload
from tests.service.test_api import objects as stored

Run = Callable[[], None]
UNHURRIED = text("SET LOCAL idle_in_transaction_session_timeout = 0")
"""The transaction may stand still for as long as a test needs."""


@pytest.fixture
def job(client: TestClient) -> uuid.UUID:
    from store.database import engine
    from store.models import Job

    capture = upload(client)
    with engine().connect() as connection:
        return connection.scalars(select(Job.id).where(Job.capture_id == uuid.UUID(capture["id"]))).one()


def state(job: uuid.UUID) -> Any:
    from store.database import engine
    from store.models import Job

    with engine().connect() as connection:
        return connection.execute(select(Job.__table__).where(Job.id == job)).one()


def age(job: uuid.UUID, **values: Any) -> None:
    from store.database import engine
    from store.models import Job

    with engine().begin() as connection:
        connection.execute(update(Job).where(Job.id == job).values(**values))


def waiting_for(holder: Connection) -> int:
    """How many sessions wait for what this one has locked."""
    from store.database import engine

    session: Any = holder.connection.driver_connection
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE :holder = ANY (pg_blocking_pids(pid))")
    with engine().connect() as connection:
        return int(connection.scalar(waiting, {"holder": session.info.backend_pid}) or 0)


def in_transaction(function: Callable[..., Any], *args: Any) -> Any:
    from store.database import engine

    with engine().begin() as connection:
        return function(connection, *args)


def test_only_one_claims(job: uuid.UUID) -> None:
    from store import jobs

    first = in_transaction(jobs.claim, job)
    assert first.fence == 1
    age(job, lease_until=func.now() + timedelta(hours=1))
    assert in_transaction(jobs.claim, job) is None
    assert in_transaction(jobs.claim, uuid.uuid4()) is None
    age(job, lease_until=func.now())  # other tests may take it


def test_a_job_whose_holder_died_is_taken_back(job: uuid.UUID) -> None:
    from store import jobs

    dead = in_transaction(jobs.claim, job)
    age(job, lease_until=func.now() + timedelta(hours=1))
    assert job not in in_transaction(jobs.sweep)
    age(job, lease_until=func.now() - timedelta(seconds=1))
    assert job in in_transaction(jobs.sweep)
    alive = in_transaction(jobs.claim, job)
    assert alive.fence == 2
    with pytest.raises(jobs.JobLost):
        in_transaction(jobs.report, dead, "replaying", 0.5)
    with pytest.raises(jobs.JobLost):
        in_transaction(jobs.hold, dead)
    in_transaction(jobs.report, alive, "replaying", 0.5)
    assert state(job).progress == 0.5


def test_a_lost_wake_up_is_sent_again(job: uuid.UUID) -> None:
    from store import jobs

    assert job not in in_transaction(jobs.sweep), "it was sent a moment ago"
    age(job, sent_at=func.now() - timedelta(minutes=1))
    assert job in in_transaction(jobs.sweep)
    assert job not in in_transaction(jobs.sweep)


def test_attempts_are_capped(job: uuid.UUID, client: TestClient, run_jobs: Run) -> None:
    from store import jobs

    for _ in range(3):
        assert in_transaction(jobs.claim, job) is not None
        age(job, lease_until=func.now() - timedelta(seconds=1))
        in_transaction(jobs.sweep)
    assert in_transaction(jobs.claim, job) is None
    in_transaction(jobs.sweep)
    assert state(job).state == "failed"
    capture = client.get(f"/v1/captures/{state(job).capture_id}").json()
    assert capture["state"] == "failed"
    assert "given up after 3 attempts" in capture["error"]
    again = upload(client)  # the same bytes: the same capture, begun anew
    assert (again["id"], again["state"], again["error"]) == (capture["id"], "queued", None)
    run_jobs()
    assert client.get(f"/v1/captures/{capture['id']}").json()["state"] == "done"


def test_a_job_that_pauses_after_its_last_attempt_fails(job: uuid.UUID) -> None:
    """As when REWINDOW_ATTEMPTS_MAX is lowered meanwhile."""
    from store import jobs

    age(job, attempts=3, not_before=func.now() - timedelta(seconds=1))
    assert job not in in_transaction(jobs.sweep)
    found = state(job)
    assert (found.state, found.not_before) == ("failed", None)


def test_a_job_that_kills_whoever_takes_it_fails(client: TestClient, job: uuid.UUID, services: Services) -> None:
    """kill -9 before the worker has done anything but claim: the attempt counts."""
    from store import jobs
    from store.database import engine
    from store.models import Capture

    capture = state(job).capture_id
    command = f"from worker.tasks import run_job; import uuid; run_job(uuid.UUID('{job}'))"
    for attempt in (1, 2, 3):
        with engine().begin() as blocker:
            blocker.execute(UNHURRIED)
            blocker.execute(select(Capture.id).where(Capture.id == capture).with_for_update())
            worker = subprocess.Popen([sys.executable, "-c", command], cwd=CHECKOUT, env=services.environment)
            wait_for("the worker to wait for the capture's row", lambda: waiting_for(blocker) > 0)
            assert client.get(f"/v1/captures/{capture}").json()["state"] == "queued", "it has not yet said so"
            worker.kill()
            worker.wait()
        assert state(job).attempts == attempt
        age(job, lease_until=func.now() - timedelta(seconds=1))
        in_transaction(jobs.sweep)
    found = client.get(f"/v1/captures/{capture}").json()
    assert (found["state"], found["error"]) == ("failed", "given up after 3 attempts: the worker stopped each time")


def test_a_passing_error_is_tried_again(job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from store import jobs
    from worker import tasks

    def broken(*_: object) -> None:
        raise ConnectionError("of no kind that is known")

    with monkeypatch.context() as m:
        m.setattr(tasks.analysis, "run", broken)
        tasks.run_job(job)
    paused = state(job)
    assert (paused.state, paused.stage, paused.lease_until) == ("queued", "waiting to try again", None)
    assert f"an internal error, which the operator finds in the workers' log under job {job}" == paused.error
    capture = client.get(f"/v1/captures/{paused.capture_id}").json()
    assert (capture["state"], capture["stage"]) == ("queued", "waiting to try again"), "no worker runs it"
    age(job, sent_at=func.now() - timedelta(days=1))
    assert job not in in_transaction(jobs.sweep), "its pause is not over"
    tasks.run_job(job)  # Redis may deliver a message twice
    assert state(job).attempts == 1, "its pause is not over"
    age(job, not_before=func.now() - timedelta(seconds=1))
    assert job in in_transaction(jobs.sweep)
    assert state(job).not_before is None
    assert state(job).queued_at > paused.queued_at, "it waits for a worker only since the pause"
    tasks.run_job(job)
    assert state(job).state == "done"
    assert client.get(f"/v1/captures/{state(job).capture_id}").json()["error"] is None


def test_pauses_grow_and_the_last_error_ends_a_job(
    job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.settings import settings
    from worker import tasks

    def broken(*_: object) -> None:
        raise ConnectionError("of no kind that is known")

    monkeypatch.setattr(tasks.analysis, "run", broken)
    for pause_s in (settings().retry_s, 4 * settings().retry_s):
        before = in_transaction(lambda c: c.scalar(select(func.clock_timestamp())))
        tasks.run_job(job)
        after = in_transaction(lambda c: c.scalar(select(func.clock_timestamp())))
        assert before < state(job).not_before - timedelta(seconds=pause_s) < after
        age(job, not_before=func.now())
    tasks.run_job(job)
    ended = state(job)
    assert (ended.state, ended.not_before) == ("failed", None), "it does not pause for an attempt that it has not got"
    capture = client.get(f"/v1/captures/{ended.capture_id}").json()
    assert (capture["state"], capture["error"]) == ("failed", ended.error)
    assert ended.error == f"an internal error, which the operator finds in the workers' log under job {job}"


def test_a_deleted_capture_ends_its_job_quietly(job: uuid.UUID, client: TestClient) -> None:
    from worker.tasks import run_job

    client.delete(f"/v1/captures/{state(job).capture_id}")
    run_job(job)


def test_running_twice_leaves_each_row_once(client: TestClient, job: uuid.UUID) -> None:
    from store.models import State
    from worker.tasks import run_job

    run_job(job)
    capture = client.get(f"/v1/captures/{state(job).capture_id}").json()
    first = client.get(f"/v1/connections/{mptcp(client, capture)['id']}").json()
    run_job(job)  # done: it cannot be claimed
    age(job, state=State.queued)
    run_job(job)  # a second message for the same work
    assert client.get(f"/v1/captures/{capture['id']}").json()["connections"] == 2
    second = client.get(f"/v1/connections/{mptcp(client, capture)['id']}").json()
    assert [r["id"] for r in second["replays"]] == [r["id"] for r in first["replays"]]
    assert second["subflows"] == first["subflows"]


def test_a_worker_that_lost_its_job_writes_nothing(
    client: TestClient, job: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store import jobs, objects
    from worker import tasks

    real = objects.put_file
    before = stored()

    def taken_over_meanwhile(key: str, file: Any) -> None:
        real(key, file)
        age(job, lease_until=func.now() - timedelta(seconds=1))
        in_transaction(jobs.claim, job)

    monkeypatch.setattr(objects, "put_file", taken_over_meanwhile)
    tasks.run_job(job)
    capture = client.get(f"/v1/captures/{state(job).capture_id}").json()
    assert capture["state"] == "running"
    assert capture["summary"] is None
    assert client.get(f"/v1/captures/{capture['id']}/connections").json()["items"] == []
    assert stored() == before, "what it had written is gone"


def test_the_lease_is_kept_while_a_stage_is_silent(job: uuid.UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.settings import settings
    from worker import tasks

    monkeypatch.setattr(settings(), "lease_s", 0.6)
    seen: list[Any] = []

    def silent(*_: object) -> None:
        start = state(job).lease_until
        wait_for("a renewed lease", lambda: state(job).lease_until > start)
        seen.append(start)

    monkeypatch.setattr(tasks.analysis, "run", silent)
    tasks.run_job(job)
    assert seen


def test_a_commit_whose_answer_was_lost_keeps_its_series(
    job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker sees an error and the results are there: what they name must stay."""
    from worker import analysis, tasks

    real = analysis.store_and_publish

    def cut_off(*arguments: Any) -> None:
        real(*arguments)
        raise ConnectionError("the connection broke before the answer came")

    monkeypatch.setattr(analysis, "store_and_publish", cut_off)
    tasks.run_job(job)
    assert state(job).state == "done"
    connection = mptcp(client, {"id": str(state(job).capture_id)})
    assert client.get(f"/v1/connections/{connection['id']}/acks.parquet").status_code == 200


def failed_replay(client: TestClient, job: uuid.UUID, run_jobs: Run) -> tuple[str, dict[str, Any], uuid.UUID]:
    """A connection's address, what was asked, and the job that failed at it."""
    from store.database import engine
    from store.models import Job, Replay, State

    run_jobs()
    url = f"/v1/connections/{mptcp(client, {'id': str(state(job).capture_id)})['id']}"
    wanted = {"algorithm": "tccc", "options": {"aca_safe": True}}
    replay = uuid.UUID(client.post(f"{url}/replays", json=wanted).json()["id"])
    with engine().begin() as connection:
        connection.execute(update(Replay).where(Replay.id == replay).values(state=State.failed, error="once"))
        return (
            url,
            wanted,
            connection.scalars(
                update(Job).where(Job.replay_id == replay).values(state=State.failed).returning(Job.id)
            ).one(),
        )


def test_a_replay_that_another_request_restarted_is_left_alone(
    client: TestClient, job: uuid.UUID, run_jobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read as failed; until its job was asked for, another had restarted it and it was done."""
    from store import jobs
    from worker.tasks import run_job

    url, wanted, again = failed_replay(client, job, run_jobs)
    real = jobs.restart

    def another_was_first(*arguments: Any, **named: Any) -> Any:
        in_transaction(lambda connection: connection.execute(real(*arguments, **named)))
        run_job(again)
        return real(*arguments, **named)

    monkeypatch.setattr(jobs, "restart", another_was_first)
    assert client.post(f"{url}/replays", json=wanted).json()["state"] == "done"
    assert {r["state"] for r in client.get(url).json()["replays"]} == {"done"}


def test_an_upload_meets_the_delete_of_its_failed_twin(client: TestClient, job: uuid.UUID) -> None:
    """They wait for each other's rows in one order: neither fails."""
    import threading

    from sqlalchemy import delete

    from store.database import engine
    from store.models import Capture, Job, State

    capture = state(job).capture_id
    age(job, state=State.failed)
    answers: list[Any] = []
    with engine().begin() as connection:
        connection.execute(update(Capture).where(Capture.id == capture).values(state=State.failed))
    with engine().begin() as connection:  # as api.captures.service.remove does
        connection.execute(UNHURRIED)
        connection.execute(select(Job.id).where(Job.capture_id == capture).with_for_update())
        thread = threading.Thread(target=lambda: answers.append(upload(client)))
        thread.start()
        wait_for("the upload to wait for the job's row", lambda: waiting_for(connection) > 0)
        connection.execute(delete(Capture).where(Capture.id == capture))
    thread.join()
    assert answers[0]["id"] != str(capture), "the one was gone: these bytes are a new capture"
    assert answers[0]["state"] == "queued"
    assert [path for path in stored() if answers[0]["id"] in path]


def test_a_lost_wake_up_of_an_old_job_is_sent_again_as_soon(client: TestClient, job: uuid.UUID) -> None:
    from store import jobs
    from store.models import Capture, State

    age(job, state=State.failed, created_at=func.now() - timedelta(days=7))
    in_transaction(lambda c: c.execute(update(Capture).values(state=State.failed)))
    upload(client)
    assert state(job).state == "queued"
    minute = timedelta(minutes=1)
    age(job, sent_at=state(job).sent_at - minute, queued_at=state(job).queued_at - minute)
    assert job in in_transaction(jobs.sweep)
    in_transaction(jobs.claim, job)
    age(job, queued_at=func.now() - timedelta(days=7), lease_until=func.now() - timedelta(seconds=1))
    assert job in in_transaction(jobs.sweep)
    assert state(job).sent_at - state(job).queued_at < minute


def test_objects_that_no_row_names_are_collected(client: TestClient, job: uuid.UUID, run_jobs: Run) -> None:
    from urllib.parse import urlsplit

    from store import objects
    from store.settings import settings
    from worker.collector import collect_once

    def put(key: str, age_s: int) -> str:
        objects.put_file(key, io.BytesIO(b"x"))
        path = f"{urlsplit(settings().store_url).path}/{key}"
        past = os.stat(path).st_mtime - age_s
        os.utime(path, (past, past))
        return key

    run_jobs()
    capture, nobody = state(job).capture_id, uuid.uuid4()
    for path in [path for path in stored() if str(capture) in path]:
        put(path, 7200)  # named, and old
    left = put(objects.series_key(capture, "acks", 7), 7200)
    deleted = put(objects.capture_key(nobody), 7200)
    arriving = put(objects.capture_key(uuid.uuid4()), 60)
    foreign = put("captures/readme", 7200)
    before = stored()
    collect_once()
    gone = before - stored()
    assert {left, deleted} <= gone, "and what other tests left"
    assert not [path for path in gone - {left} if str(capture) in path]
    assert {arriving, foreign} <= stored()
    age(job, state="running", lease_until=func.now())
    put(left, 7200)
    collect_once()
    assert left in stored(), "its worker may be about to name it"
    objects.delete_keys(left, arriving, foreign)


def test_what_an_upload_left_that_nobody_finished_is_collected(services: Services) -> None:
    """An API that dies while it stores a large capture leaves a part that the store does not list."""
    from urllib.parse import urlsplit

    from store import objects
    from store.settings import settings
    from worker.collector import collect_once

    def parts() -> list[Path]:
        return sorted(Path(urlsplit(settings().store_url).path).rglob("capture#*"))

    before, key = stored(), objects.capture_key(uuid.uuid4())
    code = f"""
import time, obstore
from store import objects
def body():
    yield bytes(20 << 20)
    print("stored a part", flush=True)
    time.sleep(60)
obstore.put(objects.object_store(), "{key}", body(), chunk_size=objects.CHUNK_BYTES)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=CHECKOUT, env=services.environment, stdout=subprocess.PIPE) as api:
        assert api.stdout is not None
        assert api.stdout.readline() == b"stored a part\n"
        wait_for("the part on disk", lambda: any(p.stat().st_size for p in parts()))
        api.kill()
    (part,) = parts()
    assert stored() == before, "the store lists it: this is no test of what it does not list"
    collect_once()
    assert parts() == [part], "its upload may go on"
    past = part.stat().st_mtime - 7200
    os.utime(part, (past, past))
    assert collect_once() >= 1
    assert parts() == []


def test_upload_while_redis_is_away(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch, run_jobs: Run
) -> None:
    """The wake-up is lost, the job is not: the sweeper sends it."""
    from api import wakeups
    from store import jobs
    from store.settings import settings

    with monkeypatch.context() as m:
        m.setattr(settings(), "redis_url", "redis://127.0.0.1:1/0")
        wakeups._app.cache_clear()
        response = client.post("/v1/captures", content=SAMPLE.read_bytes()[:2000], headers=PCAP)
    wakeups._app.cache_clear()
    assert response.status_code == 202
    from store.database import engine
    from store.models import Job

    with engine().connect() as connection:
        job = connection.scalars(select(Job.id).where(Job.capture_id == uuid.UUID(response.json()["id"]))).one()
    age(job, sent_at=func.now() - timedelta(minutes=1))
    assert job in in_transaction(jobs.sweep)


def test_migrations_go_up_and_down_and_match_the_models(services: Services) -> None:
    from store.models import Base

    url = new_database(services)
    for step in ("upgrade head", "check", "downgrade base", "upgrade head"):
        alembic(services, url, step)
    migrated, defined = create_engine(url), create_engine(new_database(services))
    Base.metadata.create_all(defined)
    assert constraints(migrated) == constraints(defined), "alembic does not compare these"


def test_a_paused_job_is_migrated_and_back(services: Services) -> None:
    url = new_database(services)
    alembic(services, url, "upgrade 0007")
    database = create_engine(url)
    with database.begin() as connection:
        connection.execute(text("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'a')"))
        for name, stage, lease in (("paused", "waiting to try again", "'2100-01-01Z'"), ("held", "replaying", "now()")):
            connection.execute(
                text(
                    "INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, state)"
                    f" SELECT gen_random_uuid(), id, sha256('{name}'), 1, '{name}', '', 'running' FROM teams"
                )
            )
            connection.execute(
                text(
                    "INSERT INTO jobs (id, kind, capture_id, state, stage, lease_until)"
                    f" SELECT gen_random_uuid(), 'analyze', id, 'running', '{stage}', {lease} FROM captures"
                    f" WHERE filename = '{name}'"
                )
            )

    def found(columns: str) -> dict[str, Any]:
        with database.connect() as connection:
            rows = connection.execute(
                text(f"SELECT filename, {columns} FROM jobs JOIN captures ON captures.id = capture_id")
            )
            return {row.filename: row[1:] for row in rows}

    alembic(services, url, "upgrade 0008")
    new = "captures.state, jobs.state, lease_until IS NULL, extract(year FROM not_before)"
    assert found(new) == {"paused": ("queued", "queued", True, 2100), "held": ("running", "running", False, None)}
    alembic(services, url, "downgrade 0007")
    assert {n: row[0] for n, row in found("jobs.state").items()} == {"paused": "running", "held": "running"}
    database.dispose()


def test_captures_from_before_get_the_verdicts_of_their_connections(services: Services) -> None:
    url = new_database(services)
    alembic(services, url, "upgrade 0008")
    database = create_engine(url)
    judged = {"packets": 9, "quality": {"verdict": "good", "findings": []}}
    summaries = {
        "mixed": judged,
        "no tcp": judged,
        "empty": {**judged, "packets": 0},
        "unjudged": {"packets": 9},
        "failed": None,
    }
    with database.begin() as connection:
        connection.execute(text("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'a')"))
        for name, summary in summaries.items():
            connection.execute(
                text(
                    "INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, summary)"
                    " SELECT gen_random_uuid(), id, sha256(convert_to(cast(:name AS text), 'UTF8')), 1, :name, '',"
                    " cast(:summary AS jsonb) FROM teams"
                ),
                {"name": name, "summary": None if summary is None else json.dumps(summary)},
            )
        for number, (filename, verdict, size) in enumerate(
            [("mixed", "good", 70), ("mixed", "good", 20), ("mixed", "poor", 10), ("unjudged", "good", 5)]
        ):
            connection.execute(
                text(
                    "INSERT INTO connections (id, capture_id, team_id, number, kind, bytes, retransmitted_packets,"
                    " first_ns, last_ns, rows, quality, verdict, details)"
                    " SELECT gen_random_uuid(), id, team_id, :number, 'tcp', :size, 0, 0, 0, 0, '{}', :verdict, '{}'"
                    " FROM captures WHERE filename = :filename"
                ),
                {"number": number, "size": size, "verdict": verdict, "filename": filename},
            )

    def found() -> dict[str, Any]:
        with database.connect() as connection:
            rows = connection.execute(text("SELECT filename, summary FROM captures"))
            return {row.filename: row.summary for row in rows}

    def counts(good: tuple[int, int] = (0, 0), poor: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        of = {"good": good, "limited": (0, 0), "poor": poor}
        return {verdict: {"connections": n, "bytes": size} for verdict, (n, size) in of.items()}

    alembic(services, url, "upgrade 0009")
    after = found()
    assert after["mixed"] == {**judged, "connection_quality": counts((2, 90), (1, 10))}
    assert after["no tcp"] == {**judged, "connection_quality": counts()}
    assert after["empty"]["quality"]["verdict"] == "poor"
    assert after["empty"]["quality"]["findings"] == [dataclasses.asdict(no_packets())]
    assert (after["unjudged"], after["failed"]) == (summaries["unjudged"], None)
    alembic(services, url, "downgrade 0008")
    assert found() == summaries
    database.dispose()


def test_results_are_carried_into_attempts_and_back(services: Services) -> None:
    url = new_database(services)
    alembic(services, url, "upgrade 0010")
    database = create_engine(url)
    ids = {name: uuid.uuid4() for name in ("team", "done", "queued", "mptcp", "tcp", "css", "tccc", "asked", "job")}
    windows = {
        "css": [{"subflow": 0, "mean": 1.5, "max": 3.0, "last": 2.0}, {"subflow": 1, "mean": 0.1, "max": 1, "last": 1}],
        "tccc": [{"subflow": 1, "mean": 7.25, "max": 8.0, "last": 7.0}],
    }
    flags = {"fallback": True, "checksum": False, "fast_closed": True}
    first = {"algorithm": "css", "row": 5}
    with database.begin() as connection:

        def add(table: str, **values: Any) -> None:
            adapted = {k: json.dumps(v) if isinstance(v, dict) or k == "windows" else v for k, v in values.items()}
            names = ", ".join(values)
            places = ", ".join(f":{k}" for k in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), adapted)

        add("teams", id=ids["team"], name="a")
        for name in ("done", "queued"):
            own = {"id": ids[name], "team_id": ids["team"], "sha256": name.encode().ljust(32), "bytes": 1}
            add("captures", **own, filename=name, object_key="", state=name)
            add("jobs", id=uuid.uuid4(), kind="analyze", capture_id=ids[name], state=name)
        for number, (name, quality) in enumerate([("mptcp", ["no_handshake"]), ("tcp", [])]):
            counts = dict.fromkeys(("bytes", "retransmitted_packets", "first_ns", "last_ns", "rows"), 9 + number)
            of = {"id": ids[name], "capture_id": ids["done"], "team_id": ids["team"], "number": number, "kind": name}
            judged = {"quality": quality, "verdict": "limited" if quality else "good", "unreliable": quality}
            monitored = {"steps": 3, "violations": number, "first": first if number else None}
            add("connections", **of, **counts, **judged, details=flags, conformance=monitored)
        for number in (0, 1):
            counts = dict.fromkeys(
                ("packets", "bytes", "retransmitted_packets", "retransmitted_bytes", "spurious_retransmissions",
                 "ece_acks", "ce_packets", "fast_retransmits", "timeouts"), 7,
            )  # fmt: skip
            ends = {"src": "10.0.0.1", "sport": 1, "dst": "fe80::1", "dport": 65535, "duration_s": 0.5}
            place = {"vantage": "sender", "interface": "0.0"}
            add("subflows", connection_id=ids["mptcp"], number=number, quality=[], **counts, **ends, **place)
        for position, name in enumerate(("css", "tccc")):
            of = {"id": ids[name], "connection_id": ids["mptcp"], "position": position, "state": "done"}
            add("replays", **of, label=name, algorithm=name, windows=windows[name])
        add("replays", id=ids["asked"], connection_id=ids["mptcp"], position=2, label="css(L=2)", algorithm="css",
            options={"L": "2"}, state="done", acks_key="key", windows=windows["css"])  # fmt: skip
        add("jobs", id=ids["job"], kind="replay", capture_id=ids["done"], replay_id=ids["asked"], state="done")
        group = {"members": {"connections": [0, 1]}, "jain": 0.5, "declared": False, "method": "sbd"}
        add("fairness_groups", id=uuid.uuid4(), capture_id=ids["done"], bottleneck="x", **group)

    def rows(query: str) -> list[dict[str, Any]]:
        with database.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(text(query))]

    before = {
        table: rows(f"SELECT * FROM {table} ORDER BY {order}")
        for table, order in (("connections", "number"), ("subflows", "number"), ("replays", "position"))
    }
    alembic(services, url, "upgrade 0011")
    (attempt,) = rows("SELECT * FROM attempts")
    assert (attempt["capture_id"], attempt["labels"], attempt["fence"]) == (ids["done"], ["css", "tccc"], 0)
    assert rows("SELECT attempt_id, connection_count FROM captures ORDER BY filename") == [
        {"attempt_id": attempt["id"], "connection_count": 2}, {"attempt_id": None, "connection_count": None}
    ]  # fmt: skip
    connections = rows("SELECT * FROM connections JOIN qualities q ON q.id = quality_id ORDER BY number")
    assert [c["subflow_count"] for c in connections] == [2, 0]
    assert [(c["steps"], c["violations"], c["first_violation"]) for c in connections] == [(3, 0, None), (3, 1, first)]
    assert [(c["verdict"], c["fast_closed"]) for c in connections] == [("limited", True), ("good", True)]
    found = [s["windows"] for s in rows("SELECT windows FROM subflows ORDER BY number")]
    nothing = float("nan")
    assert repr(found) == repr([[1.5, 3.0, 2.0, nothing, nothing, nothing], [0.1, 1.0, 1.0, 7.25, 8.0, 7.0]])
    (asked,) = rows("SELECT * FROM replays")
    assert (asked["id"], asked["capture_id"], asked["connection_number"]) == (ids["asked"], ids["done"], 0)
    assert rows("SELECT replay_id FROM jobs WHERE kind = 'replay'") == [{"replay_id": ids["asked"]}]
    assert rows("SELECT jain FROM fairness_groups") == [{"jain": 0.5}]
    alembic(services, url, "downgrade 0010")
    for table, order in (("connections", "number"), ("subflows", "number"), ("replays", "position")):
        after = rows(f"SELECT * FROM {table} ORDER BY {order}")
        if table == "replays":  # of those that nobody asked for the id and the time are new
            for row in after[:2] + before[table][:2]:
                del row["id"], row["created_at"]
        assert after == before[table]
    assert rows("SELECT jain FROM fairness_groups") == [{"jain": 0.5}]
    database.dispose()


def no_packets() -> Finding:
    """What the library finds today in a capture without packets."""
    with rewindow.open(io.BytesIO(SAMPLE.read_bytes()[:24])) as opened, opened.stream(["newreno"]) as replay:
        replay.run()
        (finding,) = replay.summary().quality.findings
    return dataclasses.replace(finding, unreliable=list(finding.unreliable))  # type: ignore[arg-type]  # as JSON has it


def new_database(services: Services) -> str:
    """Makes an empty database. Returns its address, for SQLAlchemy."""
    assert services.owner_address
    base = services.owner_address.replace("postgresql://", "postgresql+psycopg://")
    name = f"migrations_{uuid.uuid4().hex}"
    admin = create_engine(base, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return base.rsplit("/", 1)[0] + f"/{name}"


def alembic(services: Services, url: str, command: str) -> None:
    environment = {**services.environment, "REWINDOW_DATABASE_URL": url.replace("postgresql+psycopg", "postgresql")}
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", "migrations/alembic.ini", *command.split()],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stderr)


def constraints(database: Engine) -> set[tuple[str, str, str]]:
    """Table, name and definition of each constraint and index; closes the engine."""
    with database.connect() as connection:
        found = connection.execute(
            text(
                "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'"
                " UNION SELECT tablename, indexname, indexdef FROM pg_indexes"
                " WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
            )
        )
        rows = {(str(a), str(b), str(c)) for a, b, c in found}
    database.dispose()
    return rows
