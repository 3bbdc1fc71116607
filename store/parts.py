"""Parts of fits and what-ifs: the jobs that simulate about a second each, and what they have found.

A fit or what-if has either one job that finds out what is to be simulated next (it has no part), or jobs with parts of
one batch. Whoever publishes the last part adds such a finding job; it hands out the next batch, or ends the fit or
what-if. A transaction locks its own job first, then the fit or what-if. The jobs that follow stand in the queue where
the first one stood, so that a fit which has begun is ended before the next one begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, cast, delete, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from store import jobs
from store.jobs import Claim, Runs
from store.models import Fit, Job, JobKind, Part, State, WhatIf


@dataclass(frozen=True)
class Simulated:
    """rows: of the runs, as doubles. seconds: that they took."""

    runs: Runs
    rows: bytes
    seconds: float


@dataclass(frozen=True)
class Span:
    """The number of runs of a batch, and the part of the whole work that is done before and after it."""

    runs: int
    begins: float
    ends: float


def _table(kind: JobKind) -> Any:
    return Fit if kind is JobKind.fit else WhatIf


def _of(kind: JobKind) -> str:
    """The column of jobs and parts that names the fit or what-if."""
    return "fit_id" if kind is JobKind.fit else "whatif_id"


def stored(connection: Connection, kind: JobKind, subject_id: uuid.UUID) -> dict[int, list[Simulated]]:
    """By batch, in the order of the runs."""
    found: dict[int, list[Simulated]] = {}
    query = select(Part).where(getattr(Part, _of(kind)) == subject_id, Part.rows.is_not(None))
    columns = query.with_only_columns(Part.batch, Part.first_run, Part.runs, Part.rows, Part.seconds)
    for row in connection.execute(columns.order_by(Part.batch, Part.first_run)):
        runs = Runs(row.batch, row.first_run, row.runs)
        found.setdefault(row.batch, []).append(Simulated(runs, bytes(row.rows), row.seconds))
    return found


def hold(connection: Connection, taken: Claim) -> bool:
    """Locks the job, then its fit or what-if. False: that has failed meanwhile, and the caller ends the job by
    `leave_failed`.

    Raises JobLost.
    """
    jobs.hold(connection, taken)
    table = _table(taken.kind)
    state = connection.scalar(select(table.state).where(table.id == taken.subject_id).with_for_update())
    return state in (State.queued, State.running)


def leave_failed(connection: Connection, taken: Claim) -> int:
    """Ends a job whose fit or what-if has failed. Returns how many workers to wake. The caller holds the job.

    A what-if that was asked for after the failure found that somebody still worked on the fit, and waits for it: the
    last one that leaves begins the fit anew.
    """
    wake = 0
    if taken.kind is JobKind.fit and not _has_others(connection, taken) and _waiting(connection, taken):
        _begin_fit(connection, taken, taken.subject_id)
        wake = 1
    _leave(connection, taken)
    return wake


def publish(connection: Connection, taken: Claim, found: Simulated, span: Span) -> None:
    """Stores a part, and the progress that follows. The caller holds the job."""
    of = {_of(taken.kind): taken.subject_id}
    connection.execute(
        insert(Part).values(
            **of, batch=found.runs.batch, first_run=found.runs.first_run, runs=found.runs.runs, rows=found.rows,
            seconds=found.seconds,
        )
    )  # fmt: skip
    table = _table(taken.kind)
    made = (
        select(cast(func.sum(Part.runs), Float) / span.runs)
        .where(getattr(Part, _of(taken.kind)) == taken.subject_id, Part.batch == found.runs.batch)
        .scalar_subquery()
    )
    progress = func.least(1.0, span.begins + (span.ends - span.begins) * made)
    connection.execute(update(table).where(table.id == taken.subject_id).values(progress=progress))


def _follow(connection: Connection, taken: Claim, values: Sequence[dict[str, Any]]) -> None:
    """Adds jobs of the same capture and team, in the place of this one. values: of the columns that differ."""
    own = select(Job.team_id, Job.capture_id, Job.queued_at).where(Job.id == taken.job_id)
    row = connection.execute(own).one()
    connection.execute(
        insert(Job).values(
            [
                {
                    "id": uuid.uuid4(), "team_id": row.team_id, "capture_id": row.capture_id,
                    "queued_at": row.queued_at, "sent_at": func.clock_timestamp(), "kind": taken.kind, "fit_id": None,
                    "whatif_id": None, "batch": None, "first_run": None, "runs": None, **one,
                }
                for one in values
            ]
        )
    )  # fmt: skip


def _leave(connection: Connection, taken: Claim) -> None:
    """The job is done: its part tells of it."""
    connection.execute(delete(Job).where(Job.id == taken.job_id))


def hand_out(connection: Connection, taken: Claim, parts: Sequence[Runs]) -> int:
    """Replaces this job by one for each part. Returns how many workers to wake. The caller holds the job."""
    of = {_of(taken.kind): taken.subject_id}
    _follow(connection, taken, [{**of, **vars(part)} for part in parts])
    _leave(connection, taken)
    return len(parts)


def end_part(connection: Connection, taken: Claim) -> int:
    """Ends a job whose part is published. Returns how many workers to wake: the last part of a batch is followed by
    the job that finds out what comes next. The caller holds the job.
    """
    last = not _has_others(connection, taken)
    if last:
        _follow(connection, taken, [{_of(taken.kind): taken.subject_id}])
    _leave(connection, taken)
    return int(last)


def _has_others(connection: Connection, taken: Claim) -> bool:
    """Do other jobs of the same fit or what-if wait or run?"""
    of = getattr(Job, _of(taken.kind)) == taken.subject_id
    others = exists().where(of, Job.id != taken.job_id, Job.state.in_((State.queued, State.running)))
    return bool(connection.scalar(select(others)))


def _waiting(connection: Connection, taken: Claim) -> Sequence[uuid.UUID]:
    """The what-ifs that wait for the fit of this job, the oldest first."""
    of = select(Fit.connection_id).where(Fit.id == taken.subject_id).scalar_subquery()
    query = select(WhatIf.id).where(
        WhatIf.connection_id == of,
        WhatIf.state.in_((State.queued, State.running)),
        ~exists().where(Job.whatif_id == WhatIf.id),
    )
    return connection.scalars(query.order_by(WhatIf.created_at, WhatIf.id)).all()


def _begin_fit(connection: Connection, taken: Claim, fit_id: uuid.UUID) -> None:
    """Adds the fit's first job, where it has none. What has failed begins anew, with the parts that it has."""
    connection.execute(delete(Job).where(Job.fit_id == fit_id, Job.state == State.failed))
    connection.execute(update(Fit).where(Fit.id == fit_id).values(state=State.queued, error=None, finished_at=None))
    _follow(connection, taken, [{"kind": JobKind.fit, "fit_id": fit_id}])


def fit_for(connection: Connection, taken: Claim) -> tuple[uuid.UUID, bool, int]:
    """The fit that a what-if needs, whether it is done, and how many workers to wake. The caller holds the job.

    Where it is not done the what-if's job is gone: the fit's end adds another one. A fit that nobody makes is begun.
    """
    asked = select(literal(uuid.uuid4()), WhatIf.capture_id, WhatIf.connection_id, WhatIf.connection_number)
    columns = ["id", "capture_id", "connection_id", "connection_number"]
    connection.execute(
        insert(Fit)
        .from_select(columns, asked.where(WhatIf.id == taken.subject_id))
        .on_conflict_do_nothing(index_elements=[Fit.connection_id])
    )
    wanted = select(WhatIf.connection_id).where(WhatIf.id == taken.subject_id).scalar_subquery()
    row = connection.execute(select(Fit.id, Fit.state).where(Fit.connection_id == wanted).with_for_update()).one()
    if row.state is State.done:
        return row.id, True, 0
    made = exists().where(Job.fit_id == row.id, Job.state.in_((State.queued, State.running)))
    wake = 0
    if not connection.scalar(select(made)):
        _begin_fit(connection, taken, row.id)
        wake = 1
    _leave(connection, taken)
    return row.id, False, wake


def end_fit(connection: Connection, taken: Claim) -> int:
    """Ends a fit. Returns how many workers to wake, one for each what-if that waits. The caller holds the job."""
    now = func.clock_timestamp()
    connection.execute(
        update(Fit)
        .where(Fit.id == taken.subject_id)
        .values(state=State.done, error=None, progress=1.0, finished_at=now)
    )
    waiting = _waiting(connection, taken)
    if waiting:
        _follow(connection, taken, [{"kind": JobKind.whatif, "whatif_id": whatif} for whatif in waiting])
    _leave(connection, taken)
    return len(waiting)


def end_whatif(connection: Connection, taken: Claim, result: dict[str, Any]) -> None:
    """Stores the answer, in place of the rows that it was made of. The caller holds the job."""
    connection.execute(
        update(WhatIf)
        .where(WhatIf.id == taken.subject_id)
        .values(state=State.done, error=None, progress=1.0, result=result, finished_at=func.clock_timestamp())
    )
    connection.execute(update(Part).where(Part.whatif_id == taken.subject_id).values(rows=None))
    _leave(connection, taken)
