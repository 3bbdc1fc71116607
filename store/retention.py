"""For how long a team keeps what, and what is due to be deleted (docs/teams.md).

A capture's age counts from the last upload of its bytes. A replay's series, and segments, are also as young as the
request for them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import BigInteger, ColumnElement, Select, and_, case, cast, exists, false, func, or_, select

from store.models import Capture, CheckState, Job, ModelCheck, Replay, SegmentSeries, State

Kind = Literal["raw", "series", "metrics"]
"""raw: the stored copy of a capture; series: what its charts are drawn from; metrics: the capture with all it has."""
KINDS: tuple[Kind, ...] = get_args(Kind)
WHO = "retention"
"""Who deleted it, in the log of the team."""


@dataclass(frozen=True)
class Policy:
    """Days for which a team keeps something. None: for ever."""

    raw_days: int | None
    series_days: int | None
    metrics_days: int | None

    def days(self, kind: Kind) -> int | None:
        return {"raw": self.raw_days, "series": self.series_days, "metrics": self.metrics_days}[kind]


def at_work() -> ColumnElement[bool]:
    """Does a job of the capture wait or run, or a check of its steps?

    Few are: PostgreSQL finds them once, not for each capture.
    """
    unfinished = select(Job.capture_id).where(Job.capture_id.is_not(None), Job.state.in_((State.queued, State.running)))
    checked = select(ModelCheck.capture_id).where(
        ModelCheck.capture_id.is_not(None), ModelCheck.state.in_((CheckState.queued, CheckState.running))
    )
    return or_(Capture.id.in_(unfinished), Capture.id.in_(checked))


@dataclass(frozen=True)
class Due:
    """What of one kind is due under a policy, by PostgreSQL's clock."""

    kind: Kind
    policy: Policy

    def captures(self) -> ColumnElement[bool]:
        """What goes with the whole capture counts as metrics only."""
        old = _is_older(Capture.uploaded_at, self.policy.days(self.kind))
        if self.kind == "metrics":
            return old
        stays = ~_is_older(Capture.uploaded_at, self.policy.metrics_days)
        if self.kind == "raw":
            return and_(old, stays, _has_copy())
        own = Capture.acks_key.is_not(None)
        return and_(old, stays, or_(own, exists().where(self.replays()), exists().where(self.segments())))

    def replays(self) -> ColumnElement[bool]:
        """Replays of the capture whose series are due."""
        return and_(Replay.capture_id == Capture.id, self._is_due(Replay))

    def segments(self) -> ColumnElement[bool]:
        return and_(SegmentSeries.capture_id == Capture.id, self._is_due(SegmentSeries))

    def _is_due(self, table: type[Replay | SegmentSeries]) -> ColumnElement[bool]:
        """Of the series of one capture that is due itself."""
        key = Replay.acks_key if table is Replay else SegmentSeries.object_key
        is_old = ~false() if self.kind == "metrics" else _is_older(table.created_at, self.policy.series_days)
        return and_(key.is_not(None), is_old)

    def bytes(self) -> ColumnElement[int]:
        """Of the objects of one capture, as far as they were counted."""
        raw = case((_has_copy(), Capture.bytes), else_=0)
        if self.kind == "raw":
            return raw
        replays = select(func.sum(Replay.series_bytes)).where(self.replays()).correlate(Capture)
        segments = select(func.sum(SegmentSeries.series_bytes)).where(self.segments()).correlate(Capture)
        parts = (Capture.series_bytes, replays.scalar_subquery(), segments.scalar_subquery())
        series = cast(sum((func.coalesce(part, 0) for part in parts), start=cast(0, BigInteger)), BigInteger)
        return series if self.kind == "series" else raw + series

    def totals(self, team_id: uuid.UUID) -> Select[Any]:
        """One row: captures, bytes, bytes_are_exact, oldest, newest, and how many are at work, which are left."""
        has_series = self.kind != "raw"
        own: list[ColumnElement[int]] = []
        if self.kind != "series":
            own.append(case((_has_copy(), Capture.bytes), else_=0))
        if has_series:
            own.append(func.coalesce(Capture.series_bytes, 0))
        # Earlier versions did not keep the sizes of series.
        is_counted = or_(Capture.acks_key.is_(None), Capture.series_bytes.is_not(None)) if has_series else ~false()
        found = (
            select(
                Capture.id,
                Capture.uploaded_at,
                sum(own, start=cast(0, BigInteger)).label("bytes"),
                is_counted.label("is_counted"),
                at_work().label("at_work"),
            )
            .where(Capture.team_id == team_id, self.captures())
            .cte("found")
            .prefix_with("MATERIALIZED")  # else each column is computed again wherever it is used
        )
        free = ~found.c.at_work
        sizes = [_total(found.c.bytes, free)]
        exact: list[ColumnElement[bool]] = [func.coalesce(func.bool_and(found.c.is_counted).filter(free), True)]
        for table in (Replay, SegmentSeries) if has_series else ():
            # A capture of which something is due is among those found. Its parts are summed with those of all others:
            # to ask for them for each capture takes much longer.
            of_all = (table.capture_id == found.c.id, free, self._is_due(table))
            sizes.append(select(_total(table.series_bytes)).where(*of_all).correlate(None).scalar_subquery())
            unknown = select(table.id).where(*of_all, table.series_bytes.is_(None))
            exact.append(~unknown.correlate(None).exists())
        columns: tuple[Any, ...] = (
            func.count().filter(free).label("captures"),
            sum(sizes, start=cast(0, BigInteger)).label("bytes"),
            and_(*exact).label("bytes_are_exact"),
            func.min(found.c.uploaded_at).filter(free).label("oldest"),
            func.max(found.c.uploaded_at).filter(free).label("newest"),
            func.count().filter(found.c.at_work).label("at_work"),
        )
        return select(*columns)


def _total(sizes: Any, which: ColumnElement[bool] | None = None) -> ColumnElement[int]:
    total = func.sum(sizes) if which is None else func.sum(sizes).filter(which)
    return cast(func.coalesce(total, 0), BigInteger)


def _is_older(since: Any, days: int | None) -> ColumnElement[bool]:
    """The time of the statement: an index may be asked for it, and it is the same for all rows."""
    return false() if days is None else since < func.statement_timestamp() - timedelta(days=days)


def _has_copy() -> ColumnElement[bool]:
    return and_(Capture.raw_deleted_at.is_(None), Capture.not_kept.is_(None))


def copy_deleted(at: datetime) -> str:
    """What is told of a capture whose stored copy retention has deleted."""
    return (
        f"the stored copy of this capture was deleted by retention on {at:%Y-%m-%d}; its metrics stay, and an upload of"
        " the same file stores it again"
    )


def series_deleted(at: datetime) -> str:
    return f"the series were deleted by retention on {at:%Y-%m-%d}; a replay of the connection makes its own anew"
