"""Outages of what the service depends on are no attempts of a job; what teams are told of them, and how they retry."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text

from tests.service.test_api import assert_problem
from tests.service.test_jobs import age, in_transaction, job, state  # noqa: F401

Run = Callable[[], None]


def folder() -> Path:
    from store.settings import settings

    return Path(settings().store_url.removeprefix("file://"))


@contextlib.contextmanager
def store_away() -> Iterator[None]:
    """A file where the store's folder was: nothing is found in it, and nothing can be written to it."""
    place, kept = folder(), folder().with_name("objects-away")
    place.rename(kept)
    place.touch()
    try:
        yield
    finally:
        place.unlink()
        kept.rename(place)


@contextlib.contextmanager
def another_disk() -> Iterator[None]:
    """An empty folder where the store's folder was, as when its disk is not mounted."""
    place, kept = folder(), folder().with_name("objects-away")
    place.rename(kept)
    place.mkdir()
    try:
        yield
    finally:
        place.rename(place.with_name("objects-other"))
        kept.rename(place)


def ready(found: uuid.UUID) -> None:
    """Ends the job's pause."""
    from store import jobs

    age(found, not_before=func.now())
    assert found in in_transaction(jobs.sweep)


def another_job(client: TestClient) -> uuid.UUID:
    from store.database import engine
    from store.models import Job
    from tests.service.test_api import PCAP, SAMPLE

    half = client.post("/v1/captures", content=SAMPLE.read_bytes()[:4000], headers=PCAP).json()
    with engine().connect() as connection:
        return connection.scalars(select(Job.id).where(Job.capture_id == uuid.UUID(half["id"]))).one()


@pytest.mark.parametrize("away", [store_away, another_disk])
def test_a_store_that_is_away_costs_no_attempt(
    job: uuid.UUID, client: TestClient, away: Callable[[], Any]  # noqa: F811
) -> None:  # fmt: skip
    from store.settings import settings
    from worker.tasks import run_job

    capture = state(job).capture_id
    with away():
        for deferrals in range(1, 6):
            before = in_transaction(lambda c: c.scalar(select(func.clock_timestamp())))
            run_job(job)
            after = in_transaction(lambda c: c.scalar(select(func.clock_timestamp())))
            found = state(job)
            assert (found.state, found.attempts, found.deferrals, found.outages) == ("queued", 0, deferrals, 0)
            pause = timedelta(seconds=settings().retry_s * 2 ** (deferrals - 1))
            assert before < found.not_before - pause < after
            shown = client.get(f"/v1/captures/{capture}").json()
            assert (shown["state"], shown["stage"]) == ("queued", "waiting for the object store")
            ready(job)
    run_job(job)
    assert client.get(f"/v1/captures/{capture}").json()["state"] == "done"
    assert state(job).attempts == 1


def test_a_store_that_stays_away_fails_jobs_and_they_can_be_retried(
    job: uuid.UUID, client: TestClient, other: TestClient, run_jobs: Run  # noqa: F811
) -> None:  # fmt: skip
    from store import jobs
    from worker.tasks import run_job

    url = f"/v1/captures/{state(job).capture_id}"
    waiting = client.post(f"{url}/retry")
    assert (waiting.status_code, waiting.json()["state"]) == (202, "queued"), "it goes on"
    for values in (
        {"deferrals": jobs.DEFERRALS_MAX},
        {"deferrals": 1, "deferred_since": func.now() - jobs.DEFERRED_MAX - timedelta(seconds=1)},
    ):
        age(job, **values)
        with store_away():
            run_job(job)
        found = client.get(url).json()
        given_up = "given up: the service's object store was away for too long; retry when it is back"
        assert (found["state"], found["error"]) == ("failed", given_up)
        assert_problem(other.post(f"{url}/retry"), 404, "no such capture")
        begun = client.post(f"{url}/retry")
        assert (begun.status_code, begun.json()["state"], begun.json()["error"]) == (202, "queued", None)
        again = state(job)
        assert (again.attempts, again.deferrals, again.outages, again.deferred_since) == (0, 0, 0, None)
    run_jobs()
    assert client.get(url).json()["state"] == "done"
    assert_problem(client.post(f"{url}/retry"), 409, "nothing to retry")
    assert_problem(client.post(f"/v1/captures/{uuid.uuid4()}/retry"), 404, "no such capture")


def test_a_job_that_is_there_whenever_the_store_breaks_runs_alone_and_then_fails(
    job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    from store import jobs, objects
    from worker.tasks import run_job

    real = objects.put_file

    def breaks(*arguments: Any) -> None:
        with store_away():
            real(*arguments)

    monkeypatch.setattr(objects, "put_file", breaks)
    for outages in (1, 2):
        run_job(job)
        found = state(job)
        assert (found.state, found.attempts, found.outages) == ("queued", 0, outages)
        ready(job)

    beside = another_job(client)
    assert in_transaction(jobs.claim, beside) is None, "it makes room"
    assert state(beside).not_before is not None, "it asks again soon"
    age(job, queued_at=func.now() - jobs.MAKE_ROOM)
    ready(beside)
    taken = in_transaction(jobs.claim, beside)
    assert taken is not None, "it does not make room for ever"
    run_job(job)
    assert (state(job).state, state(job).fence) == ("queued", 2), "it runs alone"
    in_transaction(jobs.release, taken, "for this test")
    ready(beside)
    age(job, sent_at=func.now() - timedelta(minutes=2), queued_at=func.now() - timedelta(minutes=2))

    alone = in_transaction(jobs.claim, job)
    assert alone is not None
    assert in_transaction(jobs.claim, beside) is None, "nothing runs beside it"
    age(job, lease_until=func.now() - timedelta(seconds=1))
    assert job in in_transaction(jobs.sweep)
    run_job(job)
    ended = client.get(f"/v1/captures/{state(job).capture_id}").json()
    assert ended["state"] == "failed"
    assert "object store failed each of the 3 times that this was at work" in ended["error"]
    ready(beside)
    assert in_transaction(jobs.claim, beside) is not None


def test_a_job_that_finds_no_moment_alone_ends(job: uuid.UUID, client: TestClient) -> None:  # noqa: F811
    from store import jobs

    yesterday = func.now() - jobs.DEFERRED_MAX - timedelta(minutes=1)
    age(job, outages=2, queued_at=yesterday, sent_at=func.now() - jobs.DEFERRED_MAX)
    in_transaction(jobs.sweep)
    found = client.get(f"/v1/captures/{state(job).capture_id}").json()
    assert (found["state"], "found no moment" in found["error"]) == ("failed", True)


def test_a_broken_connection_to_the_database_costs_no_attempt(
    job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    from store.database import engine
    from worker import analysis
    from worker.tasks import run_job

    def cut_off(*_: Any) -> None:
        with engine().connect() as cut, engine().connect() as other:
            pid = cut.scalar(text("SELECT pg_backend_pid()"))
            other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
            cut.execute(text("SELECT 1"))

    with monkeypatch.context() as m:
        m.setattr(analysis, "store_and_publish", cut_off)
        run_job(job)
    found = state(job)
    assert (found.state, found.stage, found.attempts) == ("queued", "waiting for the database", 0)
    assert (found.deferrals, found.outages) == (1, 1)
    ready(job)
    run_job(job)
    assert client.get(f"/v1/captures/{found.capture_id}").json()["state"] == "done"


def test_a_dissector_that_is_away_costs_no_attempt(
    job: uuid.UUID,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rewindow.errors import DissectorAway
    from worker import analysis
    from worker.tasks import run_job

    def away(*_: object) -> None:
        raise DissectorAway("/run/tshark.socket: nobody listens")

    monkeypatch.setattr(analysis, "run", away)
    run_job(job)
    found = state(job)
    assert (found.state, found.stage, found.attempts) == ("queued", "waiting for the dissector", 0)
    assert (found.deferrals, found.outages) == (1, 0)


def test_errors_tell_teams_nothing_of_the_inside(
    job: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch, run_jobs: Run  # noqa: F811
) -> None:  # fmt: skip
    from rewindow.errors import DissectorFailed
    from worker import analysis, tasks

    def broken(*_: object) -> None:
        raise RuntimeError("no route to 10.1.2.3:9000 of /var/lib/rewindow/objects/captures, Response { status: 500 }")

    def refused(*_: object) -> None:
        raise DissectorFailed("x.pcap: tshark: /usr/lib/rewindow/bin/tshark ended, /var/log/tshark.d/x.log says why")

    url = f"/v1/captures/{state(job).capture_id}"
    monkeypatch.setattr(analysis, "run", broken)
    age(job, attempts=2)
    tasks.run_job(job)
    found = client.get(url).json()
    told = f"an internal error, which the operator finds in the workers' log under job {job}"
    assert (found["state"], found["error"]) == ("failed", told)
    client.post(f"{url}/retry")
    monkeypatch.setattr(analysis, "run", refused)
    run_jobs()
    assert client.get(url).json()["error"] == "x.pcap: tshark: tshark ended, x.log says why"


def test_leases_are_not_judged_after_an_outage_of_the_database(job: uuid.UUID) -> None:  # noqa: F811
    from store import jobs
    from store.settings import settings
    from worker.sweeper import Sweeps

    sweeps = Sweeps()
    in_transaction(jobs.claim, job)
    age(job, lease_until=func.now() - timedelta(seconds=1))
    sweeps._answers_since -= settings().lease_s
    sweeps._last -= settings().lease_s  # no sweep succeeded meanwhile
    sweeps()
    assert state(job).state == "running", "its worker may renew it yet"
    sweeps._answers_since -= settings().lease_s
    sweeps()
    assert state(job).state == "queued"


def test_jobs_go_on_when_the_store_is_back(job: uuid.UUID) -> None:  # noqa: F811
    from worker.sweeper import StoreWatch
    from worker.tasks import run_job

    watch = StoreWatch()
    with store_away():
        run_job(job)
        watch()
    waits_until = state(job).not_before
    watch()
    assert state(job).not_before < waits_until
    age(job, not_before=waits_until)
    watch()
    assert state(job).not_before == waits_until, "the store did not refuse the sweeper meanwhile"
