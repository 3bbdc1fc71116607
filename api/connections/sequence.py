"""The time-sequence graph of a subflow, after tcptrace's.

What was acknowledged and allowed over time is in the series of ACKs. Segments and SACK blocks are read from the capture
by a job, when a team asks for them (worker/segments.py).

Positions are bytes from the subflow's first byte. Lines are reduced as those of a series are. Of many segments those
that fall on the same pixels are one.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pydantic_core
from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits, retention
from api.connections import service
from api.connections.schemas import SegmentsOut
from api.connections.series import ROWS_READ_MAX, Groups, Source, Times
from api.events import Progress, of_job
from api.security import Caller
from store import charts, objects
from store.models import Job, JobKind, SegmentSeries, State

PIXELS_HIGH = 512
"""Segments that differ by less than the period's range over this are drawn at the same height."""
KINDS = ("data", "retransmission", "reinjection", "sack", "dsack")


@dataclass
class Line:
    what: str
    """One of charts.POSITIONS, or `allowed`."""
    algorithm: str | None
    time_ns: Times
    values: charts.Floats
    rows: int
    """Before reduction."""


@dataclass
class Segments:
    """Of one kind. `time_ns`, `position` and `bytes` have an element for each, or for several on the same pixels."""

    kind: str
    count: int
    is_exact: bool
    time_ns: Times
    position: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]


@dataclass
class Sequence:
    first_ns: int
    last_ns: int
    lines: list[Line]
    is_reduced: bool
    segments: list[Segments]


def read(
    acks_key: str,
    segments_key: str | None,
    number: int,
    subflow: int,
    replays: Mapping[str, str | None],
    *,
    from_ns: int | None,
    to_ns: int | None,
    width: int,
) -> Sequence:
    """replays: by label, the object that has their windows; None: `acks_key`. Raises FileNotFoundError."""
    found = Sequence(0, 0, [], False, [])
    firsts, lasts = [], []
    for key in dict.fromkeys([acks_key, *(key or acks_key for key in replays.values())]):
        allowed = {f"{label}{charts.ALLOWED}": label for label, own in replays.items() if (own or acks_key) == key}
        names = [*(charts.POSITIONS if key == acks_key else ()), *allowed]
        source = Source(key, number, names, from_ns, to_ns)
        if source.first_ns is None or source.last_ns is None:
            continue
        firsts.append(source.first_ns)
        lasts.append(source.last_ns)
        found.is_reduced |= source.is_reduced
        if subflow not in source.subflows():
            continue
        for name in filter(source.has, names):
            label = allowed.get(name)
            points = source.blocks(subflow, name).points(width)
            found.lines.append(Line("allowed" if label else name, label, *points, source.rows(subflow)))
    if firsts:
        found.first_ns, found.last_ns = min(firsts), max(lasts)
    if segments_key is not None:
        found.segments = _segments(segments_key, number, subflow, from_ns, to_ns, width)
    return found


def _segments(
    key: str, number: int, subflow: int, from_ns: int | None, to_ns: int | None, width: int
) -> list[Segments]:
    groups = Groups.of(key, number)
    if not groups.places:
        return []
    chosen = groups.around(from_ns, to_ns)
    is_reduced = int(groups.rows[chosen].sum()) > ROWS_READ_MAX
    if is_reduced:
        table = Groups.of(objects.overview_key(key), number).read(
            ["subflow", "kind", "first_ns", "last_ns", "rows", "position", "end"]
        )
    else:
        table = groups.read(["subflow", "kind", "time_ns", "position", "bytes"], chosen)
    table = table.filter(pc.equal(table["subflow"], subflow))
    first_ns = table["first_ns" if is_reduced else "time_ns"].to_numpy()
    last_ns = table["last_ns"].to_numpy() if is_reduced else first_ns
    low = table["position"].to_numpy()
    high = table["end"].to_numpy() if is_reduced else low + table["bytes"].to_numpy()
    rows = table["rows"].to_numpy() if is_reduced else np.ones(len(low), np.int64)
    kinds = table["kind"].unify_dictionaries().combine_chunks()
    codes, names = kinds.indices.to_numpy(), kinds.dictionary.to_pylist()
    there = np.ones(len(low), bool)
    if from_ns is not None:
        there &= last_ns >= from_ns
    if to_ns is not None:
        there &= first_ns <= to_ns
    if not there.any():
        return []
    times = first_ns[there]
    area = _Area(
        int(times.min()) if from_ns is None else from_ns,
        int(times.max()) if to_ns is None else to_ns,
        int(low[there].min()),
        int(high[there].max()),
        width,
    )
    found = []
    for kind in filter(names.__contains__, KINDS):
        mine = there & (codes == names.index(kind))
        if not mine.any():
            continue
        spans = first_ns[mine], low[mine], high[mine]
        is_exact = not is_reduced and len(spans[0]) <= 4 * width
        at, begin, end = spans if is_exact else area.merged(*spans)
        found.append(Segments(kind, int(rows[mine].sum()), is_exact, at, begin, end - begin))
    return found


@dataclass
class _Area:
    """A picture: its period, its positions, and its pixels from left to right."""

    from_ns: int
    to_ns: int
    low: int
    high: int
    width: int

    def merged(
        self, times: Times, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
    ) -> tuple[Times, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Those that begin and end on the same pixels are one. Where that leaves too many, each column of pixels has
        one, from the least to the greatest position."""
        column = ((times - self.from_ns) * (self.width / max(self.to_ns - self.from_ns, 1))).astype(np.int64)
        scale = PIXELS_HIGH / max(self.high - self.low, 1)
        bottom, top = (((v - self.low) * scale).astype(np.int64) for v in (low, high))
        for keys in ((top, bottom, column), (column,)):
            order = np.lexsort(keys)
            changes = np.zeros(len(order) - 1, bool)
            for key in keys:
                changes |= np.diff(key[order]) != 0
            starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
            if len(starts) <= 4 * self.width:
                break
        return (
            np.minimum.reduceat(times[order], starts),
            np.minimum.reduceat(low[order], starts),
            np.maximum.reduceat(high[order], starts),
        )


def as_json(subflow: int, asked: SegmentsOut | None, found: Sequence) -> bytes:
    """The answer as `SequenceOut` describes it. Times are relative to first_ns, so that they fit a double."""

    def relative(times: Times) -> list[int]:
        return list((times - found.first_ns).tolist())

    return pydantic_core.to_json(
        {
            "first_ns": str(found.first_ns),
            "last_ns": str(found.last_ns),
            "subflow": subflow,
            "is_reduced": found.is_reduced,
            "lines": [
                {
                    "what": line.what,
                    "algorithm": line.algorithm,
                    "rows": line.rows,
                    "time_ns": relative(line.time_ns),
                    "values": [round(v) if isfinite(v) else None for v in line.values.tolist()],
                }
                for line in found.lines
            ],
            "asked": asked,
            "segments": [
                {
                    "kind": s.kind,
                    "count": s.count,
                    "is_exact": s.is_exact,
                    "time_ns": relative(s.time_ns),
                    "position": s.position.tolist(),
                    "bytes": s.bytes.tolist(),
                }
                for s in found.segments
            ],
        }
    )


async def asked_for(session: AsyncSession, connection_id: uuid.UUID) -> SegmentSeries | None:
    """Of a connection that the caller may see."""
    return await session.scalar(select(SegmentSeries).where(SegmentSeries.connection_id == connection_id))


async def request_segments(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID
) -> tuple[SegmentsOut, uuid.UUID | None]:
    """The series of segments, and the job to wake when it is to be read. One that failed is read again.

    Raises NotFound, Conflict, TooMany.
    """
    await limits.hold_team(session, caller.team_id)
    found = await service.load(session, caller, connection_id)
    existing = await asked_for(session, connection_id)
    if existing is not None and existing.state is not State.failed:
        return SegmentsOut.model_validate(existing), None
    retention.refuse_without_copy(found.capture)
    if existing is not None:
        # Its job is over: no worker locks it, and it goes with the row.
        await session.execute(delete(SegmentSeries).where(SegmentSeries.id == existing.id))
    await limits.admit_job(session, caller.team_id)
    series = SegmentSeries(
        id=uuid.uuid4(),
        capture_id=found.capture.id,
        connection_id=connection_id,
        connection_number=found.connection.number,
    )
    session.add(series)
    await session.flush()
    await session.refresh(series)
    job_id = uuid.uuid4()
    await session.execute(
        insert(Job).values(
            id=job_id,
            kind=JobKind.segments,
            team_id=caller.team_id,
            capture_id=found.capture.id,
            segments_id=series.id,
            sent_at=func.clock_timestamp(),
        )
    )
    name = f"connection {found.connection.number} of {found.capture.filename}"
    await audit.note(session, caller, "read_segments", connection_id, name)
    return SegmentsOut.model_validate(series), job_id


async def progress(session: AsyncSession, asked: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of segments of any team: the caller has checked whose they are."""
    series = SegmentSeries
    columns: tuple[Any, ...] = (series.id, series.state, series.error, Job.stage, Job.progress)
    rows = await session.execute(
        select(*columns).outerjoin(Job, Job.segments_id == series.id).where(series.id.in_(asked))
    )
    return {row.id: of_job(row) for row in rows}
