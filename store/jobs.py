"""Jobs: the row in PostgreSQL is the truth, Redis carries wake-ups.

A wake-up says that a queue has a job, not which: the worker that follows it claims the job whose turn it is, so that a
team with many jobs does not keep back the others.
A claim counts an attempt, takes a lease and the next fencing number. The worker publishes the results under that
number, in one transaction with the job's end. A worker that meets a passing error gives the job back: it is queued
again and nobody may claim it before the time in `not_before`. An outage of something that the service depends on is no
attempt: the job is deferred. The sweeper sends a wake-up again when no worker followed it, when a lease has run out and
when a pause is over.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from celery import Celery
from kombu.entity import Queue
from sqlalchemy import (
    ColumnElement,
    Connection,
    Update,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased

from store.models import (
    ALONE_FROM,
    Capture,
    CheckState,
    Fit,
    Job,
    JobKind,
    ModelCheck,
    Replay,
    SegmentSeries,
    State,
    Turn,
    WhatIf,
)
from store.outages import Dependency, Outage, for_teams
from store.settings import settings

RUN_NEXT = "rewindow.run_next"
QUEUE = "rewindow"
CHECKS_QUEUE = "rewindow-checks"
"""Model checks have a worker of their own: one may take minutes, and captures should not wait for it."""
QUEUES = (QUEUE, CHECKS_QUEUE)

CAPTURE_DELETED = "the capture was deleted"
"""The error of a check whose capture was deleted."""

RESEND_AFTER = timedelta(seconds=10)
"""After this time the sweeper takes a wake-up that no worker followed for lost."""

DEFERRALS_MAX = 50
DEFERRED_MAX = timedelta(hours=24)
"""A job that is deferred so often, or for so long by one outage, has failed."""
DEFER_MOST = timedelta(minutes=30)
"""The longest pause after an outage; the pauses double up to it."""
_DOUBLINGS_MAX = 16
"""More of them are longer than DEFER_MOST, and some too many for a timedelta."""
MAKE_ROOM = timedelta(minutes=1)
"""So long after each of its wake-ups no other job is begun, so that a job which has to run alone finds its moment."""
_ASK_AGAIN = timedelta(seconds=5)
"""The pause of a job that gives way to one that runs alone."""
_CLAIMS_LOCK = 0x7277_636C
"""The advisory lock of PostgreSQL that claims share, and that the claim of a job which runs alone has to itself."""
_TURNS_LOCK = 0x7277_7475
"""Advisory locks of PostgreSQL: the claims of each queue take theirs."""

_VISIBILITY_S = 6 * 3600
"""Longer than the longest job: kombu delivers a message again that is not acknowledged within this time."""


def celery_app() -> Celery:
    """The configuration of broker and queues, which the API, the workers and the sweeper share."""
    app = Celery("rewindow", broker=str(settings().redis_url))
    app.conf.update(
        task_queues=[Queue(name) for name in QUEUES],
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_time_limit=_VISIBILITY_S - 600,
        worker_prefetch_multiplier=1,
        worker_soft_shutdown_timeout=10,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # After a lost connection Celery takes the tasks that still run off the number of those that a worker may hold,
        # so that Redis does not deliver them to it twice. A job that is delivered twice is claimed once all the same.
        worker_enable_prefetch_count_reduction=False,
        broker_connection_retry_on_startup=True,
        broker_transport="store.broker:Transport",
        broker_transport_options={
            "visibility_timeout": _VISIBILITY_S,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "retry_on_timeout": True,
        },
    )
    return app


class JobLost(Exception):
    """Another worker holds this job now, or the job was deleted: the caller stops and writes nothing."""


@dataclass(frozen=True)
class Claim:
    job_id: uuid.UUID
    kind: JobKind
    subject_id: uuid.UUID
    """Id of the capture, replay, fit, what-if, series of segments or model check that the job is about."""
    capture_id: uuid.UUID | None
    fence: int
    part: Runs | None = None
    """Of a fit or what-if: what is to be simulated. None: that is to be found out."""


@dataclass(frozen=True)
class Runs:
    """Simulations of a batch (rewindow/whatif/batches.py): `runs` of them from the number `first_run` on."""

    batch: int
    first_run: int
    runs: int


_SUBJECTS = (Job.capture_id, Job.replay_id, Job.whatif_id, Job.fit_id, Job.check_id, Job.segments_id)


def _subject_id(row: Any) -> uuid.UUID:
    subject = row.check_id or row.replay_id or row.whatif_id or row.fit_id or row.segments_id or row.capture_id
    return uuid.UUID(str(subject))


def _mark(connection: Connection, kind: JobKind, subject_id: uuid.UUID, state: State, **values: Any) -> None:
    """Sets the state of the capture, replay, what-if or model check that a job is about."""
    change: Update
    match kind:
        case JobKind.analyze:
            change = update(Capture).where(Capture.id == subject_id).values(state=state, **values)
        case JobKind.replay:
            change = update(Replay).where(Replay.id == subject_id).values(state=state, **values)
        case JobKind.segments:
            change = update(SegmentSeries).where(SegmentSeries.id == subject_id).values(state=state, **values)
        case JobKind.whatif | JobKind.fit:
            table = WhatIf if kind is JobKind.whatif else Fit
            change = update(table).where(table.id == subject_id).values(state=state, **values)
            if state is State.failed:
                change = change.values(finished_at=func.clock_timestamp())
            else:  # another of its jobs may have failed meanwhile
                change = change.where(table.state.in_((State.queued, State.running)))
        case JobKind.check:
            change = update(ModelCheck).where(ModelCheck.id == subject_id).values(state=CheckState(state), **values)
            if state is State.failed:
                change = change.values(finished_at=func.clock_timestamp())
    connection.execute(change)


def _lease() -> object:
    return func.clock_timestamp() + timedelta(seconds=settings().lease_s)


def _in_queue(queue: str) -> ColumnElement[bool]:
    """As the indexes of the queues say it."""
    return Job.check_id.is_not(None) if queue == CHECKS_QUEUE else Job.check_id.is_(None)


def _is_awake() -> ColumnElement[bool]:
    """The job does not pause, or its pause is over."""
    return or_(Job.not_before.is_(None), Job.not_before <= func.clock_timestamp())


def _next(connection: Connection, queue: str, besides: Collection[uuid.UUID]) -> Any:
    """Id and team of the job whose turn it is; None when no job is to be had.

    It is the oldest job of the team that has the fewest running in this queue; among such teams, of the one that was
    served the longest ago. A team with thousands of waiting jobs costs no more than one with one: see `waiting`.
    """
    queued = (Job.state == literal_column("'queued'"), _in_queue(queue))
    # The teams with waiting jobs, each found by one look at the index.
    first = select(Job.team_id).where(*queued).order_by(Job.team_id).limit(1).subquery()
    waiting = select(first.c.team_id).cte("waiting", recursive=True)
    following = select(Job.team_id).where(*queued, Job.team_id > waiting.c.team_id).order_by(Job.team_id).limit(1)
    waiting = waiting.union_all(select(following.scalar_subquery()).where(waiting.c.team_id.is_not(None)))
    oldest = (
        select(Job.id)
        .where(
            *queued,
            Job.team_id == waiting.c.team_id,
            Job.attempts < settings().attempts_max,
            _is_awake(),
            Job.id.not_in(besides),
        )
        .order_by(Job.queued_at, Job.id)
        .limit(1)
        .lateral("oldest")
    )
    running = (
        select(Job.team_id, func.count().label("jobs"))
        .where(Job.state == State.running, _in_queue(queue))
        .group_by(Job.team_id)
        .subquery("running")
    )
    return connection.execute(
        select(oldest.c.id, waiting.c.team_id)
        .select_from(waiting)
        .join(oldest, true())
        .outerjoin(running, running.c.team_id == waiting.c.team_id)
        .outerjoin(Turn, and_(Turn.team_id == waiting.c.team_id, Turn.queue == queue))
        .order_by(func.coalesce(running.c.jobs, 0), Turn.served_at.nulls_first(), waiting.c.team_id)
        .limit(1)
    ).one_or_none()


def claim_next(connection: Connection, queue: str) -> Claim | None:
    """Claims the job of the queue whose turn it is. None when there is none to be had. The caller commits at once."""
    # One claim of a queue after the other: each counts what runs and who was served.
    connection.execute(select(func.pg_advisory_xact_lock(_TURNS_LOCK, QUEUES.index(queue))))
    passed: list[uuid.UUID] = []
    locked: list[uuid.UUID] = []
    while (following := _next(connection, queue, passed)) is not None:
        passed.append(following.id)
        with connection.begin_nested() as look:
            free = select(Job.id).where(Job.id == following.id).with_for_update(skip_locked=True)
            if connection.execute(free).one_or_none() is None:
                locked.append(following.id)  # by a request, which tags its capture or deletes it
                continue
            taken = claim(connection, following.id)
            if taken is not None:
                _serve(connection, following.team_id, queue)
                return taken
            if _pauses(connection, following.id):  # it gives way, as all others would
                return None
            # It has to run alone, and another one runs: the wake-up is used for the next. The locks go back: who holds
            # the one of claims, shared or not, and asks for it the other way may wait for one that does the same.
            look.rollback()
    # Where nothing else is to be done it waits for the request: the wake-up is not sent again soon.
    return claim(connection, locked[0]) if locked else None


def _serve(connection: Connection, team_id: uuid.UUID, queue: str) -> None:
    """Puts the team at the end of the queue's teams."""
    served = {"served_at": func.clock_timestamp()}
    connection.execute(
        insert(Turn)
        .values(team_id=team_id, queue=queue, **served)
        .on_conflict_do_update(index_elements=[Turn.team_id, Turn.queue], set_=served)
    )


def _pauses(connection: Connection, job_id: uuid.UUID) -> bool:
    return bool(connection.scalar(select(Job.not_before > func.clock_timestamp()).where(Job.id == job_id)))


def _gives_way(connection: Connection, job_id: uuid.UUID) -> bool:
    """Must the job wait because another one runs, or is about to run, and one of the two runs alone?

    The lock makes claims wait for one another where one of them is of a job that runs alone.
    """
    alone = connection.scalar(select(Job.outages >= ALONE_FROM).where(Job.id == job_id))
    lock = func.pg_advisory_xact_lock if alone else func.pg_advisory_xact_lock_shared
    connection.execute(select(lock(_CLAIMS_LOCK)))
    other = aliased(Job)
    if alone:
        return bool(connection.scalar(select(exists().where(other.id != job_id, other.state == State.running))))
    waits = and_(
        other.state == State.queued,
        other.not_before.is_(None),
        other.sent_at > func.clock_timestamp() - MAKE_ROOM,
    )
    first = exists().where(
        other.outages >= literal(ALONE_FROM, literal_execute=True), or_(other.state == State.running, waits)
    )
    if not connection.scalar(select(first)):
        return False
    connection.execute(
        update(Job)
        .where(Job.id == job_id, Job.state == State.queued, _is_awake())
        .values(not_before=func.clock_timestamp() + _ASK_AGAIN)
    )
    return True


def claim(connection: Connection, job_id: uuid.UUID) -> Claim | None:
    """Claims a job that is queued and does not pause, or whose lease has run out. None when there is no such job.

    The caller commits before it does anything else: the attempt counts, whatever kills the worker afterwards.
    """
    if _gives_way(connection, job_id):
        return None
    now = func.clock_timestamp()
    row = connection.execute(
        update(Job)
        .where(
            Job.id == job_id,
            Job.attempts < settings().attempts_max,
            or_(
                and_(Job.state == State.queued, _is_awake()),
                and_(Job.state == State.running, Job.lease_until < now),
            ),
        )
        .values(
            state=State.running,
            stage="fetching",
            progress=0.0,
            error=None,
            attempts=Job.attempts + 1,
            fence=Job.fence + 1,
            lease_until=_lease(),
            not_before=None,
        )
        .returning(Job.kind, *_SUBJECTS, Job.fence, Job.batch, Job.first_run, Job.runs)
    ).one_or_none()
    if row is None:
        return None
    part = None if row.batch is None else Runs(row.batch, row.first_run, row.runs)
    return Claim(job_id, row.kind, _subject_id(row), row.capture_id, row.fence, part)


def begin(connection: Connection, taken: Claim) -> None:
    """Marks the capture, replay, what-if or model check of a claimed job as running. Raises JobLost."""
    hold(connection, taken)
    _mark(connection, taken.kind, taken.subject_id, State.running)


def report(connection: Connection, taken: Claim, stage: str, progress: float) -> None:
    """Stores stage and progress (0 to 1), and renews the lease. Raises JobLost."""
    changed = connection.execute(
        update(Job)
        .where(Job.id == taken.job_id, Job.fence == taken.fence, Job.state == State.running)
        .values(stage=stage, progress=min(max(progress, 0.0), 1.0), lease_until=_lease())
    )
    if changed.rowcount == 0:
        raise JobLost


def renew(connection: Connection, taken: Claim) -> bool:
    """Renews the lease. Returns False when this worker does not hold the job any more."""
    changed = connection.execute(
        update(Job)
        .where(Job.id == taken.job_id, Job.fence == taken.fence, Job.state == State.running)
        .values(lease_until=_lease())
    )
    return bool(changed.rowcount)


def hold(connection: Connection, taken: Claim) -> None:
    """Locks the job's row for a short transaction that publishes its results. Raises JobLost."""
    held = connection.execute(
        select(Job.id)
        .where(Job.id == taken.job_id, Job.fence == taken.fence, Job.state == State.running)
        .with_for_update()
    ).one_or_none()
    if held is None:
        raise JobLost


def is_done(connection: Connection, taken: Claim) -> bool:
    """Were the results of this claim committed? Tells it also when the answer to the commit was lost."""
    found = connection.execute(
        select(Job.state, Job.fence).where(Job.id == taken.job_id).with_for_update()
    ).one_or_none()
    return found is not None and found.state is State.done and found.fence == taken.fence


def finish(connection: Connection, taken: Claim) -> None:
    connection.execute(
        update(Job)
        .where(Job.id == taken.job_id)
        .values(state=State.done, stage="done", progress=1.0, lease_until=None, finished_at=func.clock_timestamp())
    )


def fail(connection: Connection, taken: Claim, reason: str) -> None:
    """Ends a job without another attempt, because its input is at fault. Raises JobLost."""
    hold(connection, taken)
    _mark_failed(connection, taken.job_id, taken.kind, taken.subject_id, reason)


def _mark_failed(connection: Connection, job_id: uuid.UUID, kind: JobKind, subject_id: uuid.UUID, reason: str) -> None:
    reason = for_teams(reason)
    connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(
            state=State.failed,
            stage="failed",
            error=reason,
            lease_until=None,
            not_before=None,
            finished_at=func.clock_timestamp(),
        )
    )
    _mark(connection, kind, subject_id, State.failed, error=reason)
    if kind in (JobKind.fit, JobKind.whatif):
        _fail_with(connection, kind, subject_id, reason)


def _fail_with(connection: Connection, kind: JobKind, subject_id: uuid.UUID, reason: str) -> None:
    """What fails with one of the jobs of a fit or what-if: its other jobs, and the what-ifs that wait for the fit.

    A job that is just claimed is left to its worker, which holds its row and may wait for the row of the fit.
    """
    of = Job.fit_id if kind is JobKind.fit else Job.whatif_id
    waiting = select(Job.id).where(of == subject_id, Job.state == State.queued).with_for_update(skip_locked=True)
    connection.execute(delete(Job).where(Job.id.in_(waiting)))
    if kind is JobKind.fit:
        connection.execute(
            update(WhatIf)
            .where(
                WhatIf.connection_id == select(Fit.connection_id).where(Fit.id == subject_id).scalar_subquery(),
                WhatIf.state.in_((State.queued, State.running)),
                ~exists().where(Job.whatif_id == WhatIf.id),
            )
            .values(state=State.failed, error=reason, finished_at=func.clock_timestamp())
        )


def release(connection: Connection, taken: Claim, reason: str) -> None:
    """Gives a job back after an error that may pass. Raises JobLost.

    The job is queued again and pauses first, each time four times as long; after its last attempt it has failed.
    """
    hold(connection, taken)
    attempts = connection.execute(select(Job.attempts).where(Job.id == taken.job_id)).scalar_one()
    if attempts >= settings().attempts_max:
        _mark_failed(connection, taken.job_id, taken.kind, taken.subject_id, reason)
        return
    pause = timedelta(seconds=settings().retry_s) * 4 ** (attempts - 1)
    connection.execute(
        update(Job)
        .where(Job.id == taken.job_id)
        .values(
            state=State.queued,
            stage="waiting to try again",
            error=reason,
            lease_until=None,
            not_before=func.clock_timestamp() + pause,
        )
    )
    _mark(connection, taken.kind, taken.subject_id, State.queued)


def defer(connection: Connection, taken: Claim, outage: Outage) -> None:
    """Gives a job back because of an outage, which is no attempt. Raises JobLost.

    The job is queued again and pauses first, each time twice as long. A job that is at work when outages begin may be
    their cause: after ALONE_FROM of them it runs alone, and after one more it has failed.
    """
    hold(connection, taken)
    now = func.clock_timestamp()
    row = connection.execute(
        select(Job.deferrals, Job.outages, (Job.deferred_since < now - DEFERRED_MAX).label("long")).where(
            Job.id == taken.job_id
        )
    ).one()
    if outage.at_work and row.outages >= ALONE_FROM:
        reason = (
            f"given up: the service's {outage.of} failed each of the {row.outages + 1} times that this was at work, at"
            " last while nothing else was; it may need more room there than there is"
        )
    elif row.deferrals >= DEFERRALS_MAX or (row.long and not outage.at_work):
        reason = f"given up: the service's {outage.of} was away for too long; retry when it is back"
    else:
        since = now if outage.at_work else func.coalesce(Job.deferred_since, now)
        pause = min(timedelta(seconds=settings().retry_s) * 2 ** min(row.deferrals, _DOUBLINGS_MAX), DEFER_MOST)
        connection.execute(
            update(Job)
            .where(Job.id == taken.job_id)
            .values(
                state=State.queued,
                stage=waiting_for(outage.of),
                lease_until=None,
                attempts=Job.attempts - 1,
                deferrals=Job.deferrals + 1,
                outages=Job.outages + int(outage.at_work),
                deferred_since=since,
                not_before=now + pause,
            )
        )
        _mark(connection, taken.kind, taken.subject_id, State.queued)
        return
    _mark_failed(connection, taken.job_id, taken.kind, taken.subject_id, reason)


def waiting_for(dependency: Dependency) -> str:
    """The stage of a job that an outage deferred."""
    return f"waiting for the {dependency}"


def deferred_for(connection: Connection, dependency: Dependency) -> bool:
    """Does a job pause because this was away?"""
    return bool(connection.scalar(select(exists().where(*_paused_by(dependency)))))


def end_outage(connection: Connection, dependency: Dependency) -> None:
    """Ends the pauses of the jobs that wait for this: it is back."""
    connection.execute(update(Job).where(*_paused_by(dependency)).values(not_before=func.clock_timestamp()))


def _paused_by(dependency: Dependency) -> tuple[Any, ...]:
    return Job.state == State.queued, Job.not_before > func.clock_timestamp(), Job.stage == waiting_for(dependency)


def restart(capture_id: uuid.UUID, replay_id: uuid.UUID | None = None, *, ended: State = State.failed) -> Update:
    """The statement that queues a failed job again, with all its attempts, because a request asks for it.

    Without the id of a replay it is the job that analyses the capture. ended: done where what it made was deleted.
    """
    return (
        update(Job)
        .where(
            Job.capture_id == capture_id,
            Job.kind == (JobKind.analyze if replay_id is None else JobKind.replay),
            Job.replay_id.is_not_distinct_from(replay_id),
            Job.state == ended,
        )
        .values(
            state=State.queued,
            stage="queued",
            error=None,
            attempts=0,
            deferrals=0,
            outages=0,
            deferred_since=None,
            progress=0.0,
            finished_at=None,
            queued_at=func.clock_timestamp(),
            sent_at=func.clock_timestamp(),
        )
        .returning(Job.id)
    )


def sweep(connection: Connection, *, judge_leases: bool = True) -> dict[uuid.UUID, JobKind]:
    """Queues the jobs whose lease has run out. Returns the jobs to wake, with their kinds: these, those whose pause is
    over, and those whose wake-up was lost. A job whose attempts are used up has failed.

    judge_leases: False after an outage of the database, in which no worker could renew its lease.
    """
    now = func.clock_timestamp()
    expired = and_(Job.state == State.running, Job.lease_until < now) if judge_leases else false()
    paused = and_(Job.state == State.queued, Job.not_before <= now)
    # The patience doubles with each wake-up: a job that only waits for a free worker has its message in the queue.
    # A job that follows another one stands in that one's place in the queue, but waits only since it was made.
    patience = func.greatest(RESEND_AFTER, Job.sent_at - func.greatest(Job.queued_at, Job.created_at))
    unheard = and_(
        Job.state == State.queued, Job.not_before.is_(None), or_(Job.sent_at.is_(None), Job.sent_at + patience < now)
    )
    crowded = and_(unheard, Job.outages >= ALONE_FROM, Job.queued_at < now - DEFERRED_MAX)
    rows = connection.execute(
        select(
            Job.id,
            Job.kind,
            *_SUBJECTS,
            Job.attempts,
            Job.state,
            Job.error,
            crowded.label("crowded"),
        )
        .where(or_(expired, paused, unheard))
        .order_by(Job.created_at)
        .limit(100)
        .with_for_update(skip_locked=True)
    ).all()
    wake = {}
    for row in rows:
        if row.attempts >= settings().attempts_max:
            reason = row.error or f"given up after {row.attempts} attempts: the worker stopped each time"
            _mark_failed(connection, row.id, row.kind, _subject_id(row), reason)
        elif row.crowded:
            reason = "given up: this has to run alone after outages, and found no moment for it; retry it later"
            _mark_failed(connection, row.id, row.kind, _subject_id(row), reason)
        else:
            wake[row.id] = row.kind
    if wake:
        connection.execute(
            update(Job)
            .where(Job.id.in_(wake))
            .values(
                state=State.queued,
                stage="queued",
                lease_until=None,
                not_before=None,
                # After a lease or a pause the job begins to wait for a worker only now.
                queued_at=case(
                    (or_(Job.state == State.running, Job.not_before.is_not(None)), func.clock_timestamp()),
                    else_=Job.queued_at,
                ),
                sent_at=func.clock_timestamp(),
            )
        )
    return wake


def send(app: Celery, kind: JobKind) -> None:
    """Wakes a worker, for a job of this kind whose row the caller has committed."""
    queue = CHECKS_QUEUE if kind is JobKind.check else QUEUE
    app.send_task(RUN_NEXT, args=[queue], queue=queue, retry=False)
