"""Analyses a capture and stores, in one transaction, everything that the dashboard shows of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import IO, Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import delete, func, select, update

import rewindow
from rewindow.findings.connections import Connection
from rewindow.findings.windows import of_connections
from rewindow.replays.replay import Summary
from store import jobs, models, objects
from store.database import engine
from store.jobs import Claim
from store.settings import settings
from worker import results
from worker.series import spool

Report = Callable[[str, float], None]

NAMESPACE = uuid.UUID("6f7a3b52-3d0c-4f43-9d46-6ad4d1f3c1a5")
"""Ids are derived from capture and number, so that a second run makes the same rows."""


def _columns(table: type[models.Base], without: set[str]) -> tuple[str, ...]:
    return tuple(c.name for c in table.__table__.columns if c.name not in without)


# The other columns have the names of fields of the library's Connection and Subflow.
_CONNECTION_OWN = ("id", "capture_id", "team_id", "number", "rows", "details", "conformance")
_CONNECTION_COLUMNS = _columns(models.Connection, set(_CONNECTION_OWN))
_SUBFLOW_OWN = ("connection_id", "number", "sender_algorithm", "sender_match")
_SUBFLOW_COLUMNS = _columns(models.Subflow, set(_SUBFLOW_OWN))


def connection_id(capture_id: uuid.UUID, number: int) -> uuid.UUID:
    return uuid.uuid5(NAMESPACE, f"{capture_id}/{number}")


def run(taken: Claim, file: IO[bytes], name: str, report: Report) -> None:
    labels = settings().algorithm_names()
    with rewindow.open(file) as capture:
        capture.names[:] = [name]
        with capture.stream(labels, bottlenecks=True, monitor=True) as replay, spool(replay.schema) as spooled:
            for batch in replay:
                spooled.add(batch)
                report("replaying", replay.progress() * 0.9)
            summary = replay.summary()
            acks_key = objects.series_key(taken.subject_id, "acks", taken.fence)
            marks_key = objects.series_key(taken.subject_id, "marks", taken.fence)
            report("storing", 0.9)
            with spooled.clustered() as acks, spooled.marks() as marks:
                try:
                    objects.put_file(acks_key, acks)
                    objects.put_file(marks_key, marks)
                    _store_and_finish(taken, summary, replay, spooled.rows_of_connections(), labels)
                except BaseException:
                    results.discard(taken, acks_key, marks_key)
                    raise
    objects.delete_older_series(taken.subject_id, taken.fence)


def _store_and_finish(
    taken: Claim,
    summary: Summary,
    replay: rewindow.Replay,
    rows: dict[int, int],
    labels: Sequence[str],
) -> None:
    with engine().begin() as database:
        jobs.hold(database, taken)
        tally = store(database, taken.subject_id, replay, rows, labels)
        database.execute(
            update(models.Capture)
            .where(models.Capture.id == taken.subject_id)
            .values(
                state=models.State.done,
                error=None,
                summary={**asdict(summary), "bottlenecks": tally.bottlenecks()},
                acks_key=objects.series_key(taken.subject_id, "acks", taken.fence),
                marks_key=objects.series_key(taken.subject_id, "marks", taken.fence),
                analysed_at=func.clock_timestamp(),
            )
        )
        jobs.finish(database, taken)


def store(
    database: DatabaseConnection,
    capture_id: uuid.UUID,
    replay: rewindow.Replay,
    rows: dict[int, int],
    labels: Sequence[str],
) -> rewindow.FairnessTally:
    """Replaces the stored results of the capture. The caller commits."""
    tally = rewindow.FairnessTally()
    database.execute(delete(models.Connection).where(models.Connection.capture_id == capture_id))
    database.execute(delete(models.FairnessGroup).where(models.FairnessGroup.capture_id == capture_id))
    team_id = database.execute(select(models.Capture.team_id).where(models.Capture.id == capture_id)).scalar_one()
    copy(
        database,
        "connections",
        (*_CONNECTION_OWN, *_CONNECTION_COLUMNS),
        (
            (
                connection_id(capture_id, c.id),
                capture_id,
                team_id,
                c.id,
                rows.get(c.id, 0),
                Jsonb({"fallback": c.fallback, "checksum": c.checksum, "fast_closed": c.fast_closed}),
                Jsonb(replay.conformance(c.id)),
                *(getattr(c, n) for n in _CONNECTION_COLUMNS),
            )
            for c in _tallied(replay, tally)
        ),
    )
    copy(
        database,
        "subflows",
        (*_SUBFLOW_OWN, *_SUBFLOW_COLUMNS),
        (
            (
                connection_id(capture_id, c.id),
                s.id,
                s.sender_algorithm.name,
                s.sender_algorithm.match,
                *(getattr(s, n) for n in _SUBFLOW_COLUMNS),
            )
            for c in replay.each_connection()
            for s in c.subflows
        ),
    )
    found = of_connections(replay.windows(labels))
    copy(
        database,
        "replays",
        ("id", "connection_id", "position", "label", "algorithm", "state", "windows"),
        (
            (
                uuid.uuid5(connection_id(capture_id, number), label),
                connection_id(capture_id, number),
                position,
                label,
                label,
                "done",
                Jsonb(by_label[label]),
            )
            for number, by_label in found.items()
            for position, label in enumerate(labels)
            if label in by_label
        ),
    )
    copy(
        database,
        "fairness_groups",
        ("id", "capture_id", "bottleneck", "method", "members", "jain", "mptcp_to_tcp_ratio", "declared", "verdict"),
        (
            (
                uuid.uuid5(capture_id, g.bottleneck),
                capture_id,
                g.bottleneck,
                g.method,
                Jsonb({"connections": g.members, "goodput_bps": g.goodput_bps, "kinds": g.kinds}),
                g.jain,
                g.mptcp_to_tcp_ratio,
                g.declared,
                g.verdict,
            )
            for g in tally.groups()
        ),
    )
    return tally


def _tallied(replay: rewindow.Replay, tally: rewindow.FairnessTally) -> Iterator[Connection]:
    """A capture may have a million connections: they are made one by one, here and for the subflows."""
    for connection in replay.each_connection():
        tally.add(connection)
        yield connection


def copy(database: DatabaseConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Inserts rows with PostgreSQL's COPY, in the transaction of `database`."""
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
    raw: Any = database.connection.driver_connection
    with raw.cursor() as cursor, cursor.copy(statement) as target:
        for row in rows:
            target.write_row(row)
