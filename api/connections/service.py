from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import selectinload

from api.connections.schemas import (
    ConformanceOut,
    ConnectionDetail,
    ConnectionFlags,
    ConnectionOut,
    ReplayOut,
    SubflowOut,
)
from api.errors import NotFound, Unprocessable
from api.pages import Keyset, Page
from api.security import Caller
from store import jobs
from store.models import Capture, Connection, Job, JobKind, Replay, State, Subflow

REPLAYS_MAX = 64

_BY_NUMBER = Keyset((Connection.number,))
"""Within one capture."""


def _scoped(caller: Caller) -> Select[Any]:
    count = select(func.count()).select_from(Subflow).where(Subflow.connection_id == Connection.id).scalar_subquery()
    return select(Connection, count.label("subflow_count")).where(Connection.team_id == caller.team_id)


def _fields(row: Any) -> dict[str, Any]:
    c: Connection = row.Connection
    names = ConnectionOut.model_fields.keys() - {"subflow_count"}
    return {**{n: getattr(c, n) for n in names}, "subflow_count": row.subflow_count}


async def find(
    session: AsyncSession, caller: Caller, capture_id: uuid.UUID, cursor: str | None, limit: int
) -> Page[ConnectionOut]:
    query = _scoped(caller).where(Connection.capture_id == capture_id)
    return await _BY_NUMBER.page(session, query, cursor, limit, lambda row: ConnectionOut(**_fields(row)))


async def load(session: AsyncSession, caller: Caller, connection_id: uuid.UUID) -> tuple[Connection, Any]:
    """The connection with subflows and replays. Raises NotFound."""
    row = (
        await session.execute(
            _scoped(caller)
            .where(Connection.id == connection_id)
            .options(
                selectinload(Connection.subflows),
                selectinload(Connection.replays),
                selectinload(Connection.capture),
            )
        )
    ).one_or_none()
    if row is None:
        raise NotFound("no such connection")
    return row.Connection, row


async def get(session: AsyncSession, caller: Caller, connection_id: uuid.UUID) -> ConnectionDetail:
    connection, row = await load(session, caller, connection_id)
    return ConnectionDetail(
        **_fields(row),
        details=ConnectionFlags(**connection.details),
        conformance=None if connection.conformance is None else ConformanceOut(**connection.conformance),
        capture_filename=connection.capture.filename,
        subflows=[SubflowOut.model_validate(s) for s in connection.subflows],
        replays=[replay_out(r) for r in connection.replays],
    )


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
    """The replay, and the job to wake when it is a new one. Raises NotFound, Unprocessable."""
    connection, _ = await load(session, caller, connection_id)
    label = wanted.label
    existing = next((r for r in connection.replays if r.label == label), None)
    if existing is not None and existing.state is State.failed:
        job_id = (await session.execute(jobs.restart(connection.capture_id, existing.id))).scalar_one_or_none()
        if job_id is None:  # another request has restarted it, and it may even be done
            await session.refresh(existing)
        else:
            existing.state, existing.error = State.queued, None
        return replay_out(existing), job_id
    if existing is not None:
        return replay_out(existing), None
    if len(connection.replays) >= REPLAYS_MAX:
        raise Unprocessable(f"a connection has at most {REPLAYS_MAX} replays")
    position = max((r.position for r in connection.replays), default=-1) + 1
    replay = (
        await session.scalars(
            insert(Replay)
            .values(
                id=uuid.uuid4(),
                connection_id=connection.id,
                position=position,
                label=label,
                algorithm=wanted.algorithm,
                options=wanted.options,
            )
            .on_conflict_do_nothing()
            .returning(Replay)
        )
    ).one_or_none()
    if replay is None:  # another request has inserted it
        found = await session.scalars(
            select(Replay).where(Replay.connection_id == connection.id, Replay.label == label)
        )
        return replay_out(found.one()), None
    job_id = uuid.uuid4()
    await session.execute(
        insert(Job).values(
            id=job_id,
            kind=JobKind.replay,
            capture_id=connection.capture_id,
            replay_id=replay.id,
            sent_at=func.clock_timestamp(),
        )
    )
    return replay_out(replay), job_id


async def series_sources(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, labels: list[str] | None
) -> tuple[Connection, Capture, list[Replay]]:
    """The rows that a series is read from. labels: of the replays; None: all that are done.

    Raises NotFound, Unprocessable.
    """
    connection, _ = await load(session, caller, connection_id)
    done = {r.label: r for r in connection.replays if r.state is State.done}
    if labels is None:
        return connection, connection.capture, list(done.values())
    missing = [label for label in labels if label not in done]
    if missing:
        raise Unprocessable(f"no finished replay '{missing[0]}' of this connection; there are: {', '.join(done)}")
    return connection, connection.capture, [done[label] for label in dict.fromkeys(labels)]
