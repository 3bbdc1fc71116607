"""Outages of what the service depends on are no attempts of a job; what teams are told of them, and how they retry."""

from __future__ import annotations

import contextlib
import hashlib
import random
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text

from deploy.run import Services, stop_process, wait_for
from tests.service.test_api import assert_problem, objects
from tests.service.test_jobs import age, in_transaction, job, state  # noqa: F401
from tests.service.test_resumable_uploads import Message, begin, is_left, offset, part, patch, patch_in_pieces, row_of

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
    from tests.service.test_api import PCAP, SAMPLE

    half = client.post("/v1/captures", content=SAMPLE.read_bytes()[:4000], headers=PCAP).json()
    return job_of(half["id"])


def job_of(capture: str) -> uuid.UUID:
    """The one that analyses it."""
    from store.database import engine
    from store.models import Job

    with engine().connect() as connection:
        return connection.scalars(select(Job.id).where(Job.capture_id == uuid.UUID(capture))).one()


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


def test_the_longest_pauses(job: uuid.UUID) -> None:  # noqa: F811
    from store import jobs
    from worker.tasks import run_job

    age(job, deferrals=jobs.DEFERRALS_MAX - 1)
    with store_away():
        run_job(job)
    found = state(job)
    assert (found.state, found.deferrals, found.error) == ("queued", jobs.DEFERRALS_MAX, None)
    assert timedelta(0) < found.not_before - found.deferred_since <= jobs.DEFER_MOST


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
    assert in_transaction(jobs.claim, beside) is None, "each wake-up makes room anew"
    ready(beside)
    age(job, sent_at=func.now() - jobs.MAKE_ROOM)
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


@pytest.mark.parametrize("at_work", [False, True])
def test_a_dissector_that_is_away_costs_no_attempt(
    job: uuid.UUID,  # noqa: F811
    at_work: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rewindow.errors import DissectorAway, DissectorInterrupted
    from worker import analysis
    from worker.tasks import run_job

    def away(*_: object) -> None:
        raise (DissectorInterrupted if at_work else DissectorAway)("/run/tshark.socket: nobody listens")

    monkeypatch.setattr(analysis, "run", away)
    run_job(job)
    found = state(job)
    assert (found.state, found.stage, found.attempts) == ("queued", "waiting for the dissector", 0)
    assert (found.deferrals, found.outages) == (1, int(at_work))


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


def test_leases_are_not_judged_after_an_outage_of_the_database(
    job: uuid.UUID, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    from store import jobs
    from store.settings import settings
    from worker.sweeper import Sweeps

    monkeypatch.setattr(settings(), "lease_s", 300.0)  # the test takes less, however busy the machine is
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


def test_jobs_go_on_when_the_store_is_back(
    job: uuid.UUID, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    from store.settings import settings
    from worker.sweeper import StoreWatch
    from worker.tasks import run_job

    monkeypatch.setattr(settings(), "retry_s", 600.0)  # the pause is not over before the test
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


@contextlib.contextmanager
def stopped(services: Services, name: str, application: TestClient) -> Iterator[None]:
    """PostgreSQL or Redis ends, and starts again with what it has kept."""
    stop_process(services.processes[name], stop=signal.SIGINT)  # PostgreSQL does not wait for its clients
    try:
        yield
    finally:
        services.processes[name] = services._watched[name].start()
        wait_for(name, lambda: application.get("/readyz").status_code == 200, [services.processes[name]])


CONTENT = random.Random(17).randbytes(5000)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thousand bytes of a resumable upload are written, and made safe."""
    from api.resumable import pieces, service

    monkeypatch.setattr(pieces, "PIECE_BYTES", 1000)
    monkeypatch.setattr(service, "STEP_BYTES", 1000)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("when", "safe"), [("in the middle", 2500), ("before the end", 2500), ("while stored", 4500)])
def test_postgresql_ends_during_a_resumable_upload(
    services: Services,
    application: TestClient,
    client: TestClient,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    safe: int,
) -> None:
    """What was safe before stays, and the upload goes on from there."""
    from api.resumable.pieces import Pieces

    outage = contextlib.ExitStack()
    assert application.get("/readyz").status_code == 200  # it leaves an object of its own
    address, before = begin(client, len(CONTENT)), objects()
    upload = row_of(address).id

    def end() -> None:
        outage.enter_context(stopped(services, "postgresql", application))

    async def messages() -> AsyncIterator[Message]:
        yield part(CONTENT[:2500])
        if when == "while stored":
            yield part(CONTENT[2500:4500])
            yield {"type": "http.request", "body": CONTENT[4500:], "more_body": False}
        end()
        if when == "in the middle":
            yield part(CONTENT[2500:4000])
        yield {"type": "http.request", "body": CONTENT[2500:], "more_body": False}

    real = Pieces.read

    async def read(self: Pieces) -> AsyncIterator[bytes]:
        end()
        async for piece in real(self):
            yield piece

    with outage:
        with monkeypatch.context() as patches:
            patches.setattr(Pieces, "read", read)
            status, problem = patch_in_pieces(application, token, address, 0, messages())
        away = "the database does not answer at the moment"
        assert (status, problem["status"], problem["detail"]) == (503, 503, away)
        refused = client.get(address)
        assert_problem(refused, 503, away)
        assert refused.headers["Retry-After"] == "1"
    assert offset(client, address) == safe
    assert client.get("/v1/captures").json()["items"] == []
    assert objects() == before, "nothing is left of a capture that was not stored"
    assert patch(client, address, safe, CONTENT[safe:]).status_code == 204
    capture = client.get(address).json()["capture"]
    assert (capture["sha256"], capture["already_here"]) == (hashlib.sha256(CONTENT).hexdigest(), False)
    assert client.get(f"/v1/captures/{capture['id']}/file").content == CONTENT
    assert not is_left(upload)


@pytest.mark.usefixtures("small_steps")
def test_redis_ends_during_a_resumable_upload(
    services: Services, application: TestClient, client: TestClient, token: str, run_jobs: Run
) -> None:
    """It needs no Redis: the capture is stored, and its job wakes a worker when Redis is back."""
    from worker.sweeper import sweep_once

    def queued() -> float:
        lines = dict(line.rsplit(" ", 1) for line in application.get("/metrics").text.splitlines() if line[0] != "#")
        return float(lines['rewindow_queue_length{queue="rewindow"}'])

    run_jobs()
    outage = contextlib.ExitStack()
    address = begin(client, len(CONTENT))

    async def messages() -> AsyncIterator[Message]:
        yield part(CONTENT[:2500])
        outage.enter_context(stopped(services, "redis", application))
        yield part(CONTENT[2500:4000])
        yield {"type": "http.request", "body": CONTENT[4000:], "more_body": False}

    with outage:
        assert patch_in_pieces(application, token, address, 0, messages()) == (204, {})
        capture = client.get(address).json()["capture"]
        assert (capture["sha256"], capture["state"]) == (hashlib.sha256(CONTENT).hexdigest(), "queued")
        assert_problem(application.get("/metrics"), 503, "Redis does not answer at the moment")
    before = queued()
    found = job_of(capture["id"])
    age(found, sent_at=func.now() - timedelta(minutes=2), queued_at=func.now() - timedelta(minutes=2))
    sent_at = state(found).sent_at
    assert sweep_once() >= 1, "jobs of other tests may wait, too"
    assert state(found).sent_at > sent_at
    assert queued() > before
    run_jobs()
    assert client.get(f"/v1/captures/{capture['id']}").json()["state"] == "failed", "these bytes are no capture"
