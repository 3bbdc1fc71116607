"""The bodies of the tasks, as plain functions."""

from __future__ import annotations

import contextlib
import functools
import resource
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import structlog
from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from rewindow.errors import (
    BadOption,
    CaptureUnreadable,
    DependencyFailed,
    DissectorAway,
    DissectorInterrupted,
    UnknownAlgorithm,
)
from store import jobs, objects, outages, retention
from store.database import engine
from store.jobs import Claim, JobLost
from store.models import Capture, JobKind, ModelCheck
from store.outages import Dependency, Outage
from store.settings import settings
from worker import analysis, conformance_check, model_check, segments, single_replay, what_if
from worker.tlc import CannotCheck

log = structlog.get_logger()


class BudgetExceeded(Exception):
    """A job needs more memory than it has."""


class NothingStored(Exception):
    """Nothing of what was uploaded could be kept, or it is not kept any more; the reason is the team's to read."""


INPUT_AT_FAULT = (
    NothingStored,
    CaptureUnreadable,
    UnknownAlgorithm,
    BadOption,
    DependencyFailed,
    CannotCheck,
    BudgetExceeded,
)


_KNOCK_S = 1.0
"""Time between two attempts to reach a database that is away."""


def run_next(queue: str) -> None:
    """Follows a wake-up: claims the job of the queue whose turn it is, and runs it. Without one nothing happens."""
    with engine().begin() as connection:
        taken = jobs.claim_next(connection, queue)
    if taken is None:
        log.info("job.none_to_claim", queue=queue)
    else:
        _work(taken)


def run_job(job_id: uuid.UUID) -> None:
    """Claims this job out of its turn and runs it. A second run of it, at the same time or later, changes nothing."""
    with engine().begin() as connection:
        taken = jobs.claim(connection, job_id)
    if taken is None:
        log.info("job.not_claimed", job=str(job_id))
    else:
        _work(taken)


def _work(taken: Claim) -> None:
    structlog.contextvars.bind_contextvars(job=str(taken.job_id), kind=taken.kind, fence=taken.fence)
    started = time.monotonic()
    try:
        log.info("job.started")
        with engine().begin() as connection:
            jobs.begin(connection, taken)
        _run(taken)
        log.info("job.done", seconds=round(time.monotonic() - started, 3))
    except JobLost:
        log.warning("job.lost")
    except DissectorAway as e:
        away = Outage(Dependency.dissector, at_work=isinstance(e, DissectorInterrupted))
        log.warning("job.deferred", dependency=away.of, at_work=away.at_work, reason=str(e))
        _give_back(lambda connection: jobs.defer(connection, taken, away))
    except INPUT_AT_FAULT as e:
        log.info("job.failed", reason=str(e))
        reason = str(e)
        _give_back(lambda connection: jobs.fail(connection, taken, reason))
    except Exception as e:
        outage = outages.outage_of(e)
        if outage is None:
            log.exception("job.error")
            _give_back(lambda connection: jobs.release(connection, taken, _internal(taken.job_id)))
        else:
            log.warning("job.deferred", dependency=outage.of, at_work=outage.at_work, reason=str(e.__cause__ or e))
            _give_back(lambda connection: jobs.defer(connection, taken, outage))
    finally:
        structlog.contextvars.clear_contextvars()


def _internal(job_id: uuid.UUID) -> str:
    """What a team is told of an error that is not expected; the log has the rest."""
    return f"an internal error, which the operator finds in the workers' log under job {job_id}"


def _give_back(change: Callable[[Connection], None]) -> None:
    """Commits how a job ends. Waits while the database is away: nobody else can take the job meanwhile."""
    while True:
        try:
            with contextlib.suppress(JobLost), engine().begin() as connection:
                change(connection)
            return
        except Exception as e:
            if outages.outage_of(e) is None:
                raise
            log.warning("job.not_given_back", reason=str(e))
            time.sleep(_KNOCK_S)


class Reporter:
    """Reports progress. A thread renews the lease, so that a stage may take long without a report."""

    def __init__(self, taken: Claim) -> None:
        self._taken = taken
        self._every_s = min(settings().lease_s / 5, 1.0)
        self._last = 0.0
        self._stage = ""
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep_lease, name="lease", daemon=True)

    def __enter__(self) -> Reporter:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep_lease(self) -> None:
        while not self._ended.wait(settings().lease_s / 3):
            try:
                with engine().begin() as connection:
                    if not jobs.renew(connection, self._taken):
                        self._lost.set()
                        return
            except (SQLAlchemyError, MemoryError) as e:
                log.warning("lease.not_renewed", reason=str(e))

    def __call__(self, stage: str, progress: float) -> None:
        """Raises JobLost."""
        if self._lost.is_set():
            raise JobLost
        now = time.monotonic()
        if stage == self._stage and now - self._last < self._every_s:
            return
        self._stage, self._last = stage, now
        try:
            with engine().begin() as connection:
                jobs.report(connection, self._taken, stage, progress)
        except SQLAlchemyError as e:
            if outages.outage_of(e) is None:
                raise
            log.warning("progress.not_stored", reason=str(e))  # the job goes on while its lease lasts


@functools.cache
def _idle_data_bytes() -> int:
    """The private memory of this process when it took its first job: programs, libraries, stacks of threads."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmData:")[1].split()[0]) << 10


@contextlib.contextmanager
def _memory_budget() -> Iterator[None]:
    """Bounds the private memory of the process. Raises BudgetExceeded instead of MemoryError.

    Files that are mapped do not count: the kernel can take their pages back.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _idle_data_bytes() + (settings().job_memory_mb << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    except MemoryError as e:
        raise BudgetExceeded(f"this needs more than the {settings().job_memory_mb} MB of memory that a job has") from e
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _run(taken: Claim) -> None:
    if taken.kind is JobKind.check:
        with Reporter(taken), _memory_budget():
            _run_check(taken)
        return
    if taken.kind in (JobKind.fit, JobKind.whatif):
        # Most parts follow one of the same capture, and need no file.
        with Reporter(taken) as report, _memory_budget():
            what_if.run(taken, lambda: _capture_file(taken, report), report)
        return
    what_if.forget()
    # The thread of the lease begins before memory is short: Python waits for ever for a thread that cannot begin.
    with Reporter(taken) as report, _memory_budget(), _capture_file(taken, report) as (file, capture_name):
        match taken.kind:
            case JobKind.analyze:
                analysis.run(taken, file, capture_name, report)
            case JobKind.replay:
                single_replay.run(taken, file, capture_name, report)
            case JobKind.segments:
                segments.run(taken, file, capture_name, report)


def _run_check(taken: Claim) -> None:
    with engine().connect() as connection:
        asked = connection.execute(
            select(*ModelCheck.__table__.c).where(ModelCheck.id == taken.subject_id)
        ).one_or_none()
    if asked is None:
        raise JobLost
    (conformance_check if asked.algorithm else model_check).run(taken, asked)


@contextlib.contextmanager
def _capture_file(taken: Claim, report: Callable[[str, float], None]) -> Iterator[tuple[IO[bytes], str]]:
    """The capture as a local file, because the core reads it twice, with the capture's name.

    Raises JobLost, outages.MetAtStart.
    """
    with engine().connect() as connection:
        row = connection.execute(
            select(Capture.object_key, Capture.filename, Capture.bytes, Capture.not_kept, Capture.raw_deleted_at).where(
                Capture.id == taken.capture_id
            )
        ).one_or_none()
    if row is None:
        raise JobLost
    if row.not_kept is not None:
        raise NothingStored(row.not_kept)
    if row.raw_deleted_at is not None:
        raise NothingStored(retention.copy_deleted(row.raw_deleted_at))
    report("fetching", 0.0)
    with outages.starting():
        objects.probe("worker")
        file = objects.local_file(row.object_key, row.bytes)
    with file:
        yield file, row.filename
