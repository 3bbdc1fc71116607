from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from api import limits, retention
from api.connections.schemas import (
    ConformanceOut,
    ConnectionDetail,
    ConnectionFlags,
    ConnectionOut,
    FirstViolation,
    ReplayOut,
    SubflowOut,
    SubflowRow,
    WindowOut,
)
from api.connections.search import time_of
from api.errors import Gone, NotFound, Unprocessable
from api.pages import Keyset, Page
from api.security import Caller
from store import jobs
from store.models import (
    Attempt,
    Capture,
    Connection,
    Job,
    JobKind,
    QualityRecord,
    Replay,
    State,
    Subflow,
)
from store.retention import series_deleted

REPLAYS_MAX = 64

_BY_NUMBER = Keyset((Connection.number,))
"""Within one capture."""


@dataclass(frozen=True)
class Found:
    """A connection with what belongs to it. replays: those of the attempt, then those that were asked for."""

    connection: Connection
    capture: Capture
    quality: QualityRecord
    subflows: list[tuple[Subflow, QualityRecord]]
    replays: list[ReplayOut]
    acks_keys: dict[str, str]
    """Of replays, by label, whose windows are not in the capture's own series: the object that has them."""


def _scoped(caller: Caller) -> Select[Any]:
    """Connections of the attempts that the team's captures name: no other attempt is visible."""
    entities: tuple[Any, ...] = (Connection, Capture, QualityRecord)
    return (
        select(*entities)
        .join(Capture, Capture.attempt_id == Connection.attempt_id)
        .join(QualityRecord, QualityRecord.id == Connection.quality_id)
        .where(Capture.team_id == caller.team_id)
    )


_OF_QUALITY = ("quality", "verdict", "unreliable")


def _fields(c: Connection, capture_id: uuid.UUID, quality: QualityRecord) -> dict[str, Any]:
    names = ConnectionOut.model_fields.keys() - {"capture_id", *_OF_QUALITY}
    own = {n: getattr(c, n) for n in names}
    return {**own, "capture_id": capture_id, **{n: getattr(quality, n) for n in _OF_QUALITY}}


async def find(
    session: AsyncSession, caller: Caller, capture_id: uuid.UUID, cursor: str | None, limit: int
) -> Page[ConnectionOut]:
    query = _scoped(caller).where(Capture.id == capture_id)

    def out(row: Any) -> ConnectionOut:
        return ConnectionOut(**_fields(row.Connection, capture_id, row.QualityRecord))

    return await _BY_NUMBER.page(session, query, cursor, limit, out)


async def load(session: AsyncSession, caller: Caller, connection_id: uuid.UUID) -> Found:
    """The connection with subflows and replays. Raises NotFound."""
    row = (
        await session.execute(
            _scoped(caller).add_columns(Attempt).join(Attempt, Attempt.id == Capture.attempt_id)
            .where(Connection.id == connection_id)
        )
    ).one_or_none()  # fmt: skip
    if row is None:
        raise NotFound("no such connection")
    connection: Connection = row.Connection
    subflows = await session.execute(
        select(Subflow, QualityRecord)
        .join(QualityRecord, QualityRecord.id == Subflow.quality_id)
        .where(Subflow.attempt_id == connection.attempt_id, Subflow.connection_number == connection.number)
        .order_by(Subflow.number)
    )
    found = [(s, quality) for s, quality in subflows]
    query = select(Replay).where(Replay.connection_id == connection_id).order_by(Replay.position, Replay.created_at)
    asked_for = {r.label: r for r in await session.scalars(query)}
    has_series = row.Capture.acks_key is not None
    own = _replays_of_attempt(row.Attempt, connection_id, [s for s, _ in found], has_series=has_series)
    if has_series:
        for replay in own:
            asked_for.pop(replay.label, None)
    # Since the attempt's series were deleted, one of its algorithms may have been replayed again.
    replays = [_again(r, asked_for[r.label]) if r.label in asked_for else r for r in own]
    labels = {r.label for r in own}
    return Found(
        connection=connection,
        capture=row.Capture,
        quality=row.QualityRecord,
        subflows=found,
        replays=replays + [replay_out(r) for r in asked_for.values() if r.label not in labels],
        acks_keys={r.label: r.acks_key for r in asked_for.values() if r.acks_key is not None},
    )


def _again(own: ReplayOut, replay: Replay) -> ReplayOut:
    """The metrics of the attempt stay while its algorithm is replayed again."""
    found = replay_out(replay)
    return found.model_copy(update={"windows": found.windows or own.windows})


def _replays_of_attempt(
    attempt: Attempt, connection_id: uuid.UUID, subflows: Sequence[Subflow], *, has_series: bool
) -> list[ReplayOut]:
    """The attempt's algorithms that have windows on the connection. Their ids follow from connection and label."""
    replays = []
    for place, label in enumerate(attempt.labels):
        windows = [
            WindowOut(subflow=s.number, mean=mean, max=most, last=last)
            for s in subflows
            if s.windows is not None
            for mean, most, last in [s.windows[3 * place : 3 * place + 3]]
            if not math.isnan(mean)
        ]
        if windows:
            replays.append(
                ReplayOut(
                    id=uuid.uuid5(connection_id, label),
                    label=label,
                    algorithm=label,
                    options={},
                    state=State.done,
                    error=None,
                    created_at=attempt.created_at,
                    windows=windows,
                    has_series=has_series,
                    asked_for=False,
                )
            )
    return replays


async def get(session: AsyncSession, caller: Caller, connection_id: uuid.UUID) -> ConnectionDetail:
    found = await load(session, caller, connection_id)
    c = found.connection
    conformance = None
    if c.steps is not None:
        first = None if c.first_violation is None else FirstViolation(**c.first_violation)
        conformance = ConformanceOut(steps=c.steps, violations=c.violations or 0, first=first)
    return ConnectionDetail(
        **_fields(c, found.capture.id, found.quality),
        details=ConnectionFlags(fallback=c.fallback, checksum=c.checksum, fast_closed=c.fast_closed),
        conformance=conformance,
        started_at=time_of(c.first_ns),
        capture_filename=found.capture.filename,
        raw_deleted_at=found.capture.raw_deleted_at,
        series_deleted_at=found.capture.series_deleted_at,
        subflows=[_subflow_out(s, quality) for s, quality in found.subflows],
        replays=found.replays,
    )


def _fields_of_subflow(subflow: Subflow, quality: QualityRecord) -> dict[str, Any]:
    own = {n: getattr(subflow, n) for n in SubflowOut.model_fields.keys() - set(_OF_QUALITY)}
    return {**own, **{n: getattr(quality, n) for n in _OF_QUALITY}}


def _subflow_out(subflow: Subflow, quality: QualityRecord) -> SubflowOut:
    return SubflowOut(**_fields_of_subflow(subflow, quality))


async def subflows(session: AsyncSession, caller: Caller, connections: Sequence[uuid.UUID]) -> list[SubflowRow]:
    """The subflows of connections, in their order."""
    of_connection = (Subflow.attempt_id == Connection.attempt_id, Subflow.connection_number == Connection.number)
    query = (
        select(Subflow, QualityRecord, Connection.id, Connection.kind, Capture.id.label("capture_id"), Capture.filename)
        .join(Connection, and_(*of_connection))
        .join(Capture, Capture.attempt_id == Connection.attempt_id)
        .join(QualityRecord, QualityRecord.id == Subflow.quality_id)
        .where(Capture.team_id == caller.team_id, Connection.id.in_(connections))
        .order_by(Subflow.number)
    )
    found: dict[uuid.UUID, list[SubflowRow]] = {}
    for row in await session.execute(query):
        subflow = SubflowRow(
            **_fields_of_subflow(row.Subflow, row.QualityRecord),
            capture_id=row.capture_id,
            filename=row.filename,
            connection_id=row.id,
            connection_number=row.Subflow.connection_number,
            connection_kind=row.kind,
        )
        found.setdefault(row.id, []).append(subflow)
    return [subflow for key in connections for subflow in found.get(key, [])]


def replay_out(replay: Replay) -> ReplayOut:
    return ReplayOut.model_validate(replay)


@dataclass(frozen=True)
class Chosen:
    """options: those that differ from their defaults. label: the algorithm's name, and these."""

    algorithm: str
    options: dict[str, str]

    @property
    def label(self) -> str:
        pairs = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.algorithm}({pairs})" if pairs else self.algorithm


async def request_replay(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, wanted: Chosen
) -> tuple[ReplayOut, uuid.UUID | None]:
    """The replay, and the job to wake when it is a new one, or one whose series are gone.

    Raises NotFound, Conflict, Unprocessable, TooMany.
    """
    await limits.hold_team(session, caller.team_id)
    found = await load(session, caller, connection_id)
    label = wanted.label
    existing = next((r for r in found.replays if r.label == label), None)
    if existing is not None and (existing.has_series or existing.state in (State.queued, State.running)):
        return existing, None
    retention.refuse_without_copy(found.capture)
    if existing is not None and await session.get(Replay, existing.id) is not None:
        await limits.admit_job(session, caller.team_id)
        again = jobs.restart(found.capture.id, existing.id, ended=existing.state)
        job_id = (await session.execute(again)).scalar_one_or_none()
        # None: another request has restarted it, and it may even be done.
        if job_id is not None:
            values: dict[str, Any] = {"state": State.queued, "error": None}
            if existing.state is State.done:
                values["created_at"] = func.clock_timestamp()  # its series are as young as this request
            await session.execute(update(Replay).where(Replay.id == existing.id).values(values))
        return replay_out(await session.get_one(Replay, existing.id, populate_existing=True)), job_id
    if existing is None and len(found.replays) >= REPLAYS_MAX:
        raise Unprocessable(f"a connection has at most {REPLAYS_MAX} replays")
    replay = (
        await session.scalars(
            insert(Replay)
            .values(
                id=uuid.uuid4(),
                capture_id=found.capture.id,
                connection_id=connection_id,
                connection_number=found.connection.number,
                position=len(found.replays),
                label=label,
                algorithm=wanted.algorithm,
                options=wanted.options,
            )
            .on_conflict_do_nothing()
            .returning(Replay)
        )
    ).one_or_none()
    if replay is None:  # another request has inserted it
        same = select(Replay).where(Replay.connection_id == connection_id, Replay.label == label)
        return replay_out((await session.scalars(same)).one()), None
    await limits.admit_job(session, caller.team_id)
    job_id = uuid.uuid4()
    await session.execute(
        insert(Job).values(
            id=job_id,
            kind=JobKind.replay,
            team_id=caller.team_id,
            capture_id=found.capture.id,
            replay_id=replay.id,
            sent_at=func.clock_timestamp(),
        )
    )
    return replay_out(replay), job_id


@dataclass(frozen=True)
class Sources:
    """What a series is read from."""

    connection: Connection
    capture: Capture
    acks_key: str | None
    """The object with the events: the capture's own series, or those of a replay where retention has deleted the
    capture's. None: the connection has no rows."""
    replays: dict[str, str | None]
    """By label, the object that has their windows; None: it is `acks_key`."""


async def series_sources(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, labels: list[str] | None
) -> Sources:
    """labels: of the replays; None: all that are done. Raises NotFound, Gone, Unprocessable."""
    found = await load(session, caller, connection_id)
    done = {r.label: found.acks_keys.get(r.label) for r in found.replays if r.has_series}
    acks_key = (found.capture.acks_key or next(iter(done.values()), None)) if found.connection.rows else None
    deleted_at = found.capture.series_deleted_at
    if acks_key is None and found.connection.rows and deleted_at is not None:
        raise Gone(series_deleted(deleted_at))
    if labels is not None:
        missing = [label for label in labels if label not in done]
        if deleted_at is not None and any(r.label in missing and r.state is State.done for r in found.replays):
            raise Gone(series_deleted(deleted_at))
        if missing:
            raise Unprocessable(f"no finished replay '{missing[0]}' of this connection; there are: {', '.join(done)}")
        done = {label: done[label] for label in labels}
    return Sources(found.connection, found.capture, acks_key, done)
