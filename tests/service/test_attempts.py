"""Results that are written in many transactions: nobody sees them before they are published, nobody waits for them, and
what is not published does not stay."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from psycopg.errors import LockNotAvailable
from sqlalchemy import func, select, text
from sqlalchemy.exc import OperationalError

import rewindow
from deploy.run import CHECKOUT, READY_S, Services, wait_for
from rewindow.findings.tables import Column
from rewindow.findings.windows import of_connections
from rewindow.replays.capture import candidates_beside
from tests.conftest import CAPTURES
from tests.packets import SYN, Trace
from tests.service.test_api import PCAP, analysed, mptcp, remove_unseen, stored_rows, upload  # noqa: F401
from tests.service.test_jobs import UNHURRIED, age, in_transaction, state
from tests.service.test_jobs import job as job

Run = Callable[[], None]
CONNECTIONS = 20_000
"""More than are committed at once."""


@pytest.fixture(scope="module")
def many() -> bytes:
    """A capture of many connections that only begin."""
    trace = Trace()
    for number in range(CONNECTIONS):
        client = f"10.{number >> 14}.{number >> 6 & 255}.{number & 63}"
        trace.packet(number * 1e-5, True, number, 0, SYN, client=client)
    return trace.bytes()


def upload_bytes(client: TestClient, content: bytes) -> tuple[str, uuid.UUID]:
    """The capture's id and its job's."""
    from store.database import engine
    from store.models import Job

    capture = client.post("/v1/captures?filename=many.pcap", content=content, headers=PCAP).json()["id"]
    with engine().connect() as connection:
        return capture, connection.scalars(select(Job.id).where(Job.capture_id == uuid.UUID(capture))).one()


def rows_of(job: uuid.UUID) -> int:
    """Connections that are stored for any attempt of a job, seen or unseen."""
    from store.database import engine
    from store.models import Attempt, Connection

    with engine().connect() as database:
        query = select(func.count()).select_from(Connection).join(Attempt, Attempt.id == Connection.attempt_id)
        return int(database.scalar(query.where(Attempt.job_id == job)) or 0)


def no_rows_of(capture: str) -> bool:
    from store.database import engine
    from store.models import Attempt

    with engine().connect() as database:
        return database.scalar(select(func.count()).where(Attempt.capture_id == uuid.UUID(capture))) == 0


@contextmanager
def storing(job: uuid.UUID, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker in a thread that stands still within the second transaction of its rows; it goes on at the end."""
    from store import models
    from worker import copying, tasks

    real, reached, go_on = copying.copy, threading.Event(), threading.Event()
    of_subflows = itertools.count(1)

    def copy(database: Any, table: Any, columns: Any) -> None:
        real(database, table, columns)
        if table is models.Subflow and next(of_subflows) == 2:
            database.execute(UNHURRIED)
            reached.set()
            assert go_on.wait(READY_S)

    monkeypatch.setattr(copying, "copy", copy)
    worker = threading.Thread(target=tasks.run_job, args=(job,))
    worker.start()
    try:
        assert reached.wait(READY_S), "it stores nothing"
        yield
    finally:
        go_on.set()
        worker.join()


@contextmanager
def subprocess_that_stores(job: uuid.UUID, services: Services) -> Iterator[subprocess.Popen[str]]:
    """A worker's process that stands still within the second transaction of its rows."""
    code = f"""
import itertools, time, uuid
from sqlalchemy import text
from store import models
from worker import copying, tasks
real, of_subflows = copying.copy, itertools.count(1)
def copy(database, table, columns):
    real(database, table, columns)
    if table is models.Subflow and next(of_subflows) == 2:
        database.execute(text("{UNHURRIED}"))
        print("storing", flush=True)
        time.sleep(600)
copying.copy = copy
tasks.run_job(uuid.UUID("{job}"))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=CHECKOUT, env=services.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "storing\n" in process.stdout, "it ended"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["mptcp-ecn.pcap", "mptcp-receiver-side.pcap"])
def test_what_is_stored_is_what_the_library_finds(client: TestClient, run_jobs: Run, name: str) -> None:
    from store.settings import settings

    labels = settings().algorithm_names()
    capture = upload(client, CAPTURES / name)
    run_jobs()
    items = client.get(f"/v1/captures/{capture['id']}/connections?limit=500").json()["items"]
    with (
        rewindow.open(CAPTURES / name) as opened,
        opened.stream(
            labels, bottlenecks=True, monitor=True, candidates=candidates_beside(rewindow.Choice.several(labels))
        ) as replay,
    ):
        replay.run()
        connections = replay.connections()
        windows = of_connections(replay.windows(labels))
        told = [replay.conformance(c.id) for c in connections]
    assert len(items) == len(connections) > 0
    for item, found, conformance in zip(items, connections, told, strict=True):
        assert {**item, **shared(found, item)} == item
        assert item["subflow_count"] == len(found.subflows)
        detail = client.get(f"/v1/connections/{item['id']}").json()
        assert detail["conformance"] == conformance
        assert detail["details"] == {n: getattr(found, n) for n in ("fallback", "checksum", "fast_closed")}
        for shown, subflow in zip(detail["subflows"], found.subflows, strict=True):
            named = subflow.sender_algorithm
            sender = {
                "sender_algorithm": named.name, "sender_match": named.match, "sender_candidates": named.candidates,
            }  # fmt: skip
            assert {**shown, **shared(subflow, shown), "number": subflow.id, **sender} == shown
        assert {r["label"]: r["windows"] for r in detail["replays"]} == windows[found.id]
        ids = [str(uuid.uuid5(uuid.UUID(item["id"]), label)) for label in windows[found.id]]
        assert [r["id"] for r in detail["replays"]] == ids


def shared(found: Any, shown: dict[str, Any]) -> dict[str, Any]:
    """The fields of the library that the API has too."""
    return {name: value for name, value in vars(found).items() if name in shown and name != "id"}


def test_a_long_list_is_encoded_with_few_others() -> None:
    """A connection may have any number of subflows: a matrix with room for all of them in each row would not fit."""
    from worker.copying import LIST_MAX, ROWS_MAX, _rows_at_once

    def rows(*lengths: int) -> int:
        lists = [None, *([1] * n for n in lengths)]
        return _rows_at_once({"ports": Column(np.arange(len(lists)), texts=lists), "number": Column(np.arange(9))})

    assert rows(1, LIST_MAX) == rows() == ROWS_MAX
    assert 0 < rows(3, 100_000) * 100_000 <= ROWS_MAX * LIST_MAX
    assert rows(ROWS_MAX * LIST_MAX * 2) == 1


def test_rows_reach_postgresql_as_they_are(services: Services) -> None:
    """Each type of a column, its least and its greatest value, and NULL."""
    from store.database import engine
    from store.models import Connection, ConnectionFact, Subflow
    from worker.copying import copy

    ids = np.frombuffer(b"".join(uuid.UUID(int=n).bytes for n in (0, 2**127, 2**128 - 1)), np.uint8).reshape(3, 16)
    three = np.arange(3)
    numbers = np.array([0, 1, 2**31 - 1])
    connection = {
        "attempt_id": Column(np.full(3, -7)),
        "id": Column(ids),
        "bytes": Column(np.array([0, 2**32, 2**63 - 1], np.uint64)),
        "goodput_bps": Column(np.array([0.1, 1e300, 0]), np.array([False, False, True])),
        "completion_s": Column(np.array([5e-324, -0.0, 1]), np.array([False, False, True])),
        "retransmitted_packets": Column(three),
        "first_ns": Column(np.array([-(2**63), -1, 2**63 - 1])),
        "last_ns": Column(three),
        "rows": Column(three),
        "steps": Column(three, np.array([True, False, False])),
        "violations": Column(three),
        "number": Column(numbers),
        "subflow_count": Column(three.astype(np.uint32)),
        "quality_id": Column(three),
        "version": Column(np.array([-1, 0, 1], np.int8), np.array([True, False, False])),
        "fallback": Column(np.array([True, False, True])),
        "checksum": Column(np.array([1, 0, 0], np.uint8) != 0),
        "fast_closed": Column(np.array([False, False, True])),
        "kind": Column(np.array([1, 0, 0], np.uint32), texts=["tcp", "mptcp"]),
        "token": Column(three.astype(np.uint32), texts=[None, "", "0xé"]),
        "first_violation": Column(three.astype(np.uint32), texts=[None, {"a": "é"}, {"row": 1}]),
    }
    address = np.zeros((3, 16), np.uint8)
    address[0, :4], address[1, 15], address[2] = (10, 0, 0, 255), 1, 255
    family = np.array([4, 6, 6], np.uint8)
    texts = {
        name: Column(np.zeros(3, np.uint32), texts=["x"]) for name in ("vantage", "interface", "send_times", "ecn")
    }
    counters = (
        "bytes", "packets", "retransmitted_packets", "retransmitted_bytes", "spurious_retransmissions", "ece_acks",
        "ce_packets", "fast_retransmits", "timeouts", "duration_s", "quality_id",
    )  # fmt: skip
    windows = np.array([[1.5, math.nan, 3.0], [0.0, 0.0, 0.0], [math.nan] * 3])
    subflow = {
        "attempt_id": Column(np.full(3, -7)),
        "connection_number": Column(numbers),
        "number": Column(three.astype(np.uint32)),
        **{name: Column(three) for name in counters},
        "sport": Column(np.array([0, 80, 65535], np.uint16)),
        "dport": Column(np.array([0, 80, 65535], np.uint16)),
        "paced": Column(np.array([True, False, True])),
        "src": Column(address, family=family),
        "dst": Column(address[::-1], family=family[::-1]),
        **texts,
        "sender_algorithm": Column(three.astype(np.uint32), texts=["a", "bb", ""]),
        "sender_candidates": Column(three.astype(np.uint32), texts=[["a"], ["b", "", '\u00fc, "c"'], []]),
        "windows": Column(windows, np.array([False, False, True])),
    }
    fact = {
        **{n: connection[n] for n in ("number", "bytes", "first_ns", "subflow_count", "quality_id", "kind")},
        **{n: subflow[n] for n in ("attempt_id", "src", "dst", "sport", "dport", "sender_algorithm", "duration_s")},
        "team_id": Column(ids),
        "group_ids": Column(three.astype(np.uint32), texts=[None, [1, 2**63 - 1], []]),
        "fair_share_ratios": Column(three.astype(np.uint32), texts=[None, [math.nan, 0.1], []]),
    }
    with engine().connect() as database:
        copy(database, Connection, connection)
        copy(database, ConnectionFact, fact)
        copy(database, Subflow, subflow)
        stored = database.execute(
            select(*(Connection.__table__.c[n] for n in connection))
            .where(Connection.attempt_id == -7)
            .order_by("number")
        ).all()
        flows = database.execute(
            select(*(Subflow.__table__.c[n] for n in subflow)).where(Subflow.attempt_id == -7).order_by("number")
        ).all()
        columns = (ConnectionFact.group_ids, ConnectionFact.fair_share_ratios)
        own = select(*columns).where(ConnectionFact.attempt_id == -7).order_by(ConnectionFact.number)
        memberships = database.execute(own).all()
        database.rollback()
    assert repr(memberships) == repr([(None, None), ([1, 2**63 - 1], [math.nan, 0.1]), ([], [])])
    assert [row.id for row in stored] == [uuid.UUID(int=n) for n in (0, 2**127, 2**128 - 1)]
    for name in connection.keys() - {"id"}:
        assert [getattr(row, name) for row in stored] == connection[name].tolist(), name
    shown = ["10.0.0.255", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]
    assert [str(row.src) for row in flows] == shown
    assert [str(row.dst) for row in flows] == shown[::-1]
    assert [row.sport for row in flows] == [0, 80, 65535]
    assert [row.sender_algorithm for row in flows] == ["a", "bb", ""]
    assert [row.sender_candidates for row in flows] == [["a"], ["b", "", '\u00fc, "c"'], []]
    assert repr([row.windows for row in flows]) == repr([[1.5, math.nan, 3.0], [0.0, 0.0, 0.0], None])


def fairness_group_columns(attempt: int, place: int = 0) -> dict[str, Column]:
    """One row of a small table of results."""
    one = np.ones(1)
    return {
        "attempt_id": Column(np.full(1, attempt)),
        "bottleneck": Column(np.zeros(1, np.uint32), texts=[f"sbd-{place}"]),
        "method": Column(np.zeros(1, np.uint32), texts=["declared"]),
        "members": Column(np.zeros(1, np.uint32), texts=[{}]),
        "jain": Column(one),
        "declared": Column(one != 0),
        "verdict": Column(np.zeros(1, np.uint32), texts=["good"]),
    }


def opened_attempt(job: uuid.UUID) -> int:
    from store import attempts, jobs

    return int(in_transaction(attempts.start, in_transaction(jobs.claim, job), ["newreno"]))


def groups_of(attempt: int) -> int:
    from store.database import engine
    from store.models import FairnessGroup

    with engine().connect() as database:
        return int(database.scalar(select(func.count()).where(FairnessGroup.attempt_id == attempt)) or 0)


def test_the_writer_s_block_ends_when_all_rows_are_committed(job: uuid.UUID) -> None:
    """Another session keeps the writer waiting while the block is left."""
    from store.database import engine
    from store.models import FairnessGroup
    from worker.copying import AttemptWriter

    attempt = opened_attempt(job)
    seen_at_the_end: list[int] = []

    def write() -> None:
        with AttemptWriter(attempt) as writer:
            for place in range(3):
                writer.copy(FairnessGroup, fairness_group_columns(attempt, place))
            copied.set()
        seen_at_the_end.append(groups_of(attempt))

    copied = threading.Event()
    waiting = text(
        "SELECT count(*) FROM pg_locks"
        " WHERE NOT granted AND relation = 'fairness_groups'::regclass AND mode = 'RowExclusiveLock'"
    )
    with engine().connect() as other:
        other.execute(UNHURRIED)
        other.execute(text("LOCK TABLE fairness_groups IN SHARE MODE"))
        thread = threading.Thread(target=write)
        thread.start()
        assert copied.wait(READY_S)
        with engine().connect() as database:
            wait_for("two sessions that write", lambda: database.scalar(waiting) == 2)
        other.rollback()
    thread.join(READY_S)
    assert seen_at_the_end == [3]


def test_the_writer_tells_that_its_attempt_is_closed(job: uuid.UUID) -> None:
    from store import attempts, jobs
    from store.models import FairnessGroup
    from worker.copying import AttemptWriter

    attempt = opened_attempt(job)
    age(job, lease_until=func.now() - timedelta(seconds=1))
    in_transaction(jobs.sweep)
    in_transaction(attempts.close_abandoned)
    with pytest.raises(jobs.JobLost), AttemptWriter(attempt) as writer:
        writer.copy(FairnessGroup, fairness_group_columns(attempt))
    assert groups_of(attempt) == 0


def test_an_error_beside_the_writer_is_told_when_its_transactions_are_over(job: uuid.UUID) -> None:
    from store.models import FairnessGroup
    from worker.copying import AttemptWriter

    attempt = opened_attempt(job)

    def write() -> None:
        with AttemptWriter(attempt) as writer:
            writer.copy(FairnessGroup, fairness_group_columns(attempt))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    before = groups_of(attempt)
    assert not [t for t in threading.enumerate() if t.name.startswith("attempt-writer")]
    assert groups_of(attempt) == before <= 1


def test_nobody_sees_rows_before_they_are_published(
    client: TestClient, many: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, job = upload_bytes(client, many)
    with storing(job, monkeypatch):
        assert rows_of(job) > 0, "they are committed"
        shown = client.get(f"/v1/captures/{capture}").json()
        assert (shown["state"], shown["connections"], shown["summary"]) == ("running", None, None)
        assert client.get(f"/v1/captures/{capture}/connections").json()["items"] == []
        from store.database import engine
        from store.models import Connection

        with engine().connect() as database:
            one = database.scalars(select(Connection.id).order_by(Connection.attempt_id.desc()).limit(1)).one()
        assert client.get(f"/v1/connections/{one}").status_code == 404
        assert client.get(f"/v1/connections/{one}/series").status_code == 404
        assert client.post(f"/v1/connections/{one}/replays", json={"algorithm": "tccc"}).status_code == 404
        remove_unseen()
        assert rows_of(job) > 0, "their worker is at work"
    shown = client.get(f"/v1/captures/{capture}").json()
    assert (shown["state"], shown["connections"]) == ("done", CONNECTIONS)
    assert client.get(f"/v1/connections/{one}").status_code == 200
    remove_unseen()
    assert rows_of(job) == CONNECTIONS, "they are published"


def test_sixteen_deletes_while_a_capture_is_stored_delay_nobody(
    client: TestClient, other: TestClient, application: TestClient, many: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, job = upload_bytes(client, many)

    def all_at_once(capture: str) -> tuple[list[int], set[int]]:
        """The answers to sixteen deletes and to the others."""
        with ThreadPoolExecutor(24) as pool:
            deletes = [pool.submit(client.delete, f"/v1/captures/{capture}") for _ in range(16)]
            others = [pool.submit(other.get, "/v1/captures") for _ in range(4)]
            others += [pool.submit(application.get, "/readyz")]
            others += [pool.submit(other.post, "/v1/captures", content=many[:1000], headers=PCAP)]
            return [d.result().status_code for d in deletes], {o.result().status_code for o in others}

    with storing(job, monkeypatch):
        deleted, others = all_at_once(capture)
        assert deleted.count(204) == 1
        assert set(deleted) <= {204, 404, 503}, "one that waits for another's may be refused, and may be sent again"
        assert others == {200, 202}
        assert sessions_of_attempts() > 0, "nobody has waited for the worker's transaction, which is still open"
        assert client.get(f"/v1/captures/{capture}").status_code == 404
        again, _ = upload_bytes(client, many)
        assert again != capture, "the same bytes are a new capture"
    remove_unseen()
    assert rows_of(job) == 0
    assert no_rows_of(capture)
    assert client.get(f"/v1/captures/{again}").json()["state"] == "queued"


def test_a_worker_that_dies_while_it_stores_leaves_nothing(
    client: TestClient, many: bytes, services: Services, run_jobs: Run
) -> None:
    from store import jobs

    capture, job = upload_bytes(client, many)
    with subprocess_that_stores(job, services) as process:
        process.kill()
        process.wait()
        wait_for("its session to end", lambda: sessions_of_attempts() == 0)
        assert rows_of(job) > 0
        remove_unseen()
        assert rows_of(job) > 0, "its lease has not run out"
        age(job, lease_until=func.now() - timedelta(seconds=1))
        assert job in in_transaction(jobs.sweep)
    remove_unseen()
    assert rows_of(job) == 0
    assert no_rows_of(capture)
    run_jobs()
    assert client.get(f"/v1/captures/{capture}").json()["connections"] == CONNECTIONS
    assert rows_of(job) == CONNECTIONS


def sessions_of_attempts() -> int:
    from store.database import engine

    with engine().connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'rewindow attempt %'"
        return int(connection.scalar(text(query)) or 0)


def hangs(process: subprocess.Popen[str], job: uuid.UUID) -> bool:
    """Stops a worker, and lets its lease run out. False: it would have hung within its heartbeat, which holds the row
    until PostgreSQL ends all its transactions; it goes on."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        age(job, lease_until=func.now() - timedelta(seconds=1))
    except OperationalError as e:
        if not isinstance(e.orig, LockNotAvailable):
            raise
        os.kill(process.pid, signal.SIGCONT)
        return False
    return True


def test_a_worker_that_hangs_while_it_stores_is_succeeded(
    client: TestClient, many: bytes, services: Services, run_jobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP: its transactions stay open. Its job is swept all the same, and its rows are removed."""
    from store import attempts, jobs

    capture, job = upload_bytes(client, many)
    with subprocess_that_stores(job, services) as process:
        wait_for("a moment between its heartbeats", lambda: hangs(process, job))
        assert job in in_transaction(jobs.sweep), "its row is not locked"
        run_jobs()
        assert client.get(f"/v1/captures/{capture}").json()["connections"] == CONNECTIONS
        monkeypatch.setattr(attempts, "WRITES_MAX", timedelta(hours=1))
        remove_unseen()
        assert sessions_of_attempts() > 0, "they may still end by themselves"
        monkeypatch.setattr(attempts, "WRITES_MAX", timedelta(0))
        remove_unseen()
        wait_for("its sessions to be ended", lambda: sessions_of_attempts() == 0)
        remove_unseen()
        assert rows_of(job) == CONNECTIONS
        os.kill(process.pid, signal.SIGCONT)
    shown = client.get(f"/v1/captures/{capture}").json()
    assert (shown["state"], shown["connections"]) == ("done", CONNECTIONS)
    assert rows_of(job) == CONNECTIONS


def test_no_row_is_written_to_a_closed_attempt(job: uuid.UUID) -> None:
    from store import attempts, jobs

    taken = in_transaction(jobs.claim, job)
    attempt = in_transaction(attempts.start, taken, ["newreno"])
    in_transaction(attempts.close_abandoned)
    with attempts.writing(attempt):
        pass
    age(job, lease_until=func.now() - timedelta(seconds=1))
    in_transaction(jobs.sweep)
    in_transaction(attempts.close_abandoned)
    with pytest.raises(jobs.JobLost), attempts.writing(attempt):
        pass
    with pytest.raises(jobs.JobLost):
        in_transaction(attempts.start, taken, ["newreno"])
    with pytest.raises(jobs.JobLost):
        in_transaction(attempts.publish, taken, attempt)


def test_a_second_analysis_replaces_the_first_at_once(client: TestClient, job: uuid.UUID, run_jobs: Run) -> None:
    """A replay that a team asked for stays."""
    from store.models import State

    run_jobs()
    capture = str(state(job).capture_id)
    connection = mptcp(client, {"id": capture})
    url = f"/v1/connections/{connection['id']}"
    wanted = {"algorithm": "tccc", "options": {"aca_safe": True}}
    client.post(f"{url}/replays", json=wanted)
    run_jobs()
    first = client.get(url).json()
    age(job, state=State.queued)
    run_jobs()
    remove_unseen()
    assert rows_of(job) == 2
    second = client.get(url).json()
    for shown in (first, second):
        for replay in shown["replays"]:
            del replay["created_at"]
    assert second == first
    assert client.post(f"{url}/replays", json=wanted).json()["state"] == "done"


def test_a_delete_that_must_wait_is_refused_soon(client: TestClient, job: uuid.UUID) -> None:
    """Whoever holds the job's row, the request ends and may be sent again."""
    from store.database import engine
    from store.models import Job

    capture = f"/v1/captures/{state(job).capture_id}"
    with engine().begin() as holder:
        holder.execute(UNHURRIED)
        holder.execute(select(Job.id).where(Job.id == job).with_for_update())
        response = client.delete(capture)
        assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert client.delete(capture).status_code == 204


def test_a_capture_that_needs_too_much_memory_fails_with_the_reason(
    client: TestClient, many: bytes, services: Services
) -> None:
    capture, job = upload_bytes(client, many)
    subprocess.run(
        [sys.executable, "-c", f"from worker.tasks import run_job; import uuid; run_job(uuid.UUID('{job}'))"],
        cwd=CHECKOUT, env={**services.environment, "REWINDOW_JOB_MEMORY_MB": "8"}, check=True,
    )  # fmt: skip
    shown = client.get(f"/v1/captures/{capture}").json()
    assert (shown["state"], shown["error"]) == ("failed", "this needs more than the 8 MB of memory that a job has")
