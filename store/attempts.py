"""Attempts at storing a capture's results, which may be millions of rows (docs/decisions/jobs.md).

A worker opens an attempt under its fencing number, writes rows in many transactions that no reader sees, and publishes
them by one change of the capture's row. The sweeper removes attempts that no capture names and whose claim is over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import delete, exists, func, insert, select, text, update

from store import histograms, jobs
from store.database import engine
from store.jobs import Claim, JobLost
from store.models import Attempt, Capture, Connection, ConnectionFact, FairnessGroup, Job, State, Subflow

OF_CONNECTIONS = (
    (Connection, Connection.number),
    (ConnectionFact, ConnectionFact.number),
    (Subflow, Subflow.connection_number),
)
"""Tables that have rows for each connection, and their columns that have its number."""
REMOVED_AT_ONCE = 10_000
"""Connections whose rows are deleted in one transaction."""
WRITES_MAX = timedelta(seconds=30)
"""No transaction that writes rows takes so long, unless its process hangs; the sweeper then ends its session."""
VACUUM_FROM = 10_000
"""After so many deleted rows the sweeper makes their space free for others, instead of waiting for autovacuum."""


def _session_name(attempt_id: int) -> str:
    return f"rewindow attempt {attempt_id}"


def start(database: DatabaseConnection, taken: Claim, labels: Sequence[str]) -> int:
    """An attempt without rows, for a claim that holds its job. Raises JobLost. The caller commits."""
    jobs.hold(database, taken)
    values = {
        "capture_id": taken.subject_id,
        "job_id": taken.job_id,
        "fence": taken.fence,
        "labels": list(labels),
    }
    return int(database.execute(insert(Attempt).values(values).returning(Attempt.id)).scalar_one())


@contextlib.contextmanager
def writing(attempt_id: int) -> Iterator[DatabaseConnection]:
    """A transaction that adds rows to an attempt; keep it short. Raises JobLost when the attempt is being removed.

    It shares a lock on the attempt's row, so that no row is written after the sweeper has closed the attempt. It holds
    no lock that a request, another worker or the lease's thread could wait for.
    """
    with engine().begin() as database:
        # The name tells the sweeper which session to end if this process hangs.
        database.execute(select(func.set_config("application_name", _session_name(attempt_id), True)))
        is_open = (Attempt.id == attempt_id, Attempt.closed_at.is_(None))
        if database.execute(select(Attempt.id).where(*is_open).with_for_update(read=True)).one_or_none() is None:
            raise JobLost
        yield database


def publish(database: DatabaseConnection, taken: Claim, attempt_id: int, **values: Any) -> None:
    """Makes the attempt's rows the results of its capture and ends the job. Raises JobLost. The caller commits.

    values: further columns of the capture.
    """
    # Takes longer for more connections: before the job is locked, for which a request may wait.
    days = histograms.kept_days(attempt_id).scalar_subquery()
    database.execute(update(Attempt).where(Attempt.id == attempt_id).values(days=days))
    members = (
        select(func.unnest(ConnectionFact.group_ids).label("group_id"), ConnectionFact.first_ns)
        .where(ConnectionFact.attempt_id == attempt_id)
        .subquery("members")
    )
    first_ns = func.min(members.c.first_ns).label("first_ns")
    began = select(members.c.group_id, first_ns).group_by(members.c.group_id).subquery("began")
    database.execute(
        update(FairnessGroup).where(FairnessGroup.id == began.c.group_id).values(first_ns=began.c.first_ns)
    )
    jobs.hold(database, taken)
    database.execute(
        update(Capture)
        .where(Capture.id == taken.subject_id)
        .values(state=State.done, error=None, attempt_id=attempt_id, analysed_at=func.clock_timestamp(), **values)
    )
    jobs.finish(database, taken)


def close_abandoned(database: DatabaseConnection) -> None:
    """Closes the attempts that can no longer be published: no capture names them, and their claim is over.

    One statement sees both at one moment: a claim that is over at that moment will not publish any more. An attempt
    that a transaction is writing to is left for a later call; the session of a process that hangs in one is ended.
    """
    claimed = exists().where(Job.id == Attempt.job_id, Job.fence == Attempt.fence, Job.state == State.running)
    abandoned = (
        Attempt.closed_at.is_(None),
        ~exists().where(Capture.attempt_id == Attempt.id),
        ~claimed,
    )
    free = select(Attempt.id).where(*abandoned).with_for_update(skip_locked=True, of=Attempt)
    database.execute(update(Attempt).where(Attempt.id.in_(free)).values(closed_at=func.clock_timestamp()))
    written = [_session_name(i) for i in database.scalars(select(Attempt.id).where(*abandoned))]
    if written:
        database.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = ANY(:names) AND xact_start < clock_timestamp() - :patience"
            ),
            {"names": written, "patience": WRITES_MAX},
        )


def remove_closed(seconds: float) -> int:
    """Deletes closed attempts with their rows, for about so many seconds; a later call goes on. Returns how many rows
    of connections, their facts and subflows it deleted."""
    until = time.monotonic() + seconds
    removed = 0
    with engine().connect() as database:
        closed = database.scalars(select(Attempt.id).where(Attempt.closed_at.is_not(None)).order_by(Attempt.id)).all()
    for attempt_id in closed:
        rows, is_empty = _remove_rows(attempt_id, until)
        removed += rows
        if not is_empty:
            break
        with engine().begin() as database:
            database.execute(delete(FairnessGroup).where(FairnessGroup.attempt_id == attempt_id))
            database.execute(delete(Attempt).where(Attempt.id == attempt_id))
    if removed >= VACUUM_FROM:
        with engine().connect().execution_options(isolation_level="AUTOCOMMIT") as database:
            database.execute(text("SET statement_timeout = 0"))
            try:
                database.execute(text(f"VACUUM {', '.join(t.__tablename__ for t, _ in OF_CONNECTIONS)}"))
            finally:
                database.execute(text("RESET statement_timeout"))
    return removed


def _remove_rows(attempt_id: int, until: float) -> tuple[int, bool]:
    """Returns how many rows were deleted, and whether there are no more."""
    removed = 0
    for table, number in OF_CONNECTIONS:
        of_attempt = table.attempt_id == attempt_id
        with engine().connect() as database:
            low, high = database.execute(select(func.min(number), func.max(number)).where(of_attempt)).one()
        while low is not None and low <= high:
            if time.monotonic() > until:
                return removed, False
            with engine().begin() as database:
                deleted = database.execute(
                    delete(table).where(of_attempt, number >= low, number < low + REMOVED_AT_ONCE)
                )
            removed += deleted.rowcount
            low += REMOVED_AT_ONCE
    return removed, True
