"""Lets TLC follow the steps of a controller on a connection (docs/decisions/model-checks.md)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.exc import SQLAlchemyError

import rewindow
from rewindow import Choice, specs
from rewindow.conformance import checks, step_logs
from rewindow.conformance.checks import Progress
from rewindow.errors import BadOption
from store import jobs, objects, outages, retention
from store.database import engine
from store.jobs import Claim
from store.models import Capture, ModelCheck, State
from store.settings import settings
from worker import tlc
from worker.tlc import CannotCheck

log = structlog.get_logger()

_EVERY_S = 1.0


def run(taken: Claim, asked: Any) -> None:
    """asked: the row of the check. Raises CannotCheck, JobLost, CaptureUnreadable, DissectorFailed, MetAtStart."""
    with engine().connect() as connection:
        capture = connection.execute(
            select(Capture.object_key, Capture.filename, Capture.bytes, Capture.raw_deleted_at).where(
                Capture.id == asked.capture_id
            )
        ).one_or_none()
    if capture is None:
        raise CannotCheck(jobs.CAPTURE_DELETED)
    if capture.raw_deleted_at is not None:
        raise CannotCheck(retention.copy_deleted(capture.raw_deleted_at))
    watch = _Watch(taken, asked.seconds_max)
    try:
        tlc.manifest_of(asked.spec, asked.digest)
        if step_logs.SPECIFIED.get(asked.algorithm) != asked.spec:
            raise CannotCheck(f"{asked.algorithm} is no longer checked against {asked.spec}; request the check again")
        verdict = _verdict(asked, capture, specs.jar(), watch)
    except checks.CheckFailed as e:
        raise CannotCheck(tlc.failure(e.outcome, watch.reached()) if e.outcome else str(e)) from e
    except (specs.SpecUnreadable, specs.UnknownSpec, specs.CheckerMissing, BadOption) as e:
        raise CannotCheck(str(e)) from e
    _finish(taken, verdict, watch)


class _Watch:
    """Stores the progress of a check about once a second. Ends the check when its time is over or its job is lost."""

    def __init__(self, taken: Claim, seconds_max: float) -> None:
        self._taken, self._seconds_max = taken, seconds_max
        self._began = time.monotonic()
        self._told = float("-inf")
        self.progress = Progress()

    def values(self) -> dict[str, Any]:
        return {**vars(self.progress), "seconds": round(time.monotonic() - self._began, 3)}

    def reached(self) -> str:
        return f"followed {self.progress.followed} of {self.progress.events} events"

    def __call__(self, progress: Progress) -> None:
        """Raises CannotCheck; JobLost when the check was cancelled, deleted or taken over."""
        self.progress = progress
        now = time.monotonic()
        late = now - self._began > self._seconds_max
        if now - self._told < _EVERY_S and not late:
            return
        self._told = now
        try:
            with engine().begin() as connection:
                done = progress.followed / progress.events if progress.events else 0.0
                jobs.report(connection, self._taken, "checking", done)
                connection.execute(
                    update(ModelCheck).where(ModelCheck.id == self._taken.subject_id).values(self.values())
                )
        except SQLAlchemyError as e:
            log.warning("progress.not_stored", reason=str(e))  # the check goes on while its lease lasts
        if late:
            raise CannotCheck(f"limit: not finished in {self._seconds_max:g} s; {self.reached()}")


def _verdict(asked: Any, capture: Any, jar: Path, watch: _Watch) -> step_logs.Verdict:
    choice = Choice(asked.algorithm)
    runs = checks.Runs(
        folder=Path(settings().specs_folder),
        processes=1,
        memory_mb=settings().check_memory_mb,
        seconds_max=asked.seconds_max,
        disk_bytes_max=settings().check_disk_bytes_max,
        confinement=tlc.confinement(asked.seconds_max),
    )
    with outages.starting():
        file = objects.local_file(capture.object_key, capture.bytes, lambda: watch(Progress()))
    with file, rewindow.open(file) as opened:
        opened.names[:] = [capture.filename]
        with (
            opened.stream([choice], transitions=True) as replay,
            checks.Checker([choice], jar, runs=runs, on_progress=watch) as checker,
        ):
            for step in replay.steps(asked.connection_number, lambda _: watch(checker.progress())):
                checker.add(step)
            verdicts = checker.verdicts()
            watch.progress = checker.progress()
    if not verdicts:
        raise CannotCheck(f"{asked.algorithm} took no step on this connection: there is nothing to check")
    return verdicts[0]


def _finish(taken: Claim, found: step_logs.Verdict, watch: _Watch) -> None:
    violation = found.first_violation
    result = {
        **watch.values(),
        "state": State.done.value,
        "verdict": "conforms" if violation is None else "does_not_conform",
        "first_violation": None if violation is None else violation.as_json(),
        "error": None,
        "finished_at": func.clock_timestamp(),
    }
    with engine().begin() as connection:
        jobs.hold(connection, taken)
        stored = connection.execute(
            update(ModelCheck)
            .where(ModelCheck.id == taken.subject_id, ModelCheck.capture_id.is_not(None))
            .values(result)
        )
        if stored.rowcount:
            jobs.finish(connection, taken)
        else:
            jobs.fail(connection, taken, jobs.CAPTURE_DELETED)
