"""Aggregates from the histograms that PostgreSQL keeps of each day (store/histograms.py).

Of days that are stale, of parts of days, and of captures that have no part in histograms, the facts are read. All of it
is one statement, so that the answer is that of one moment.
"""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    LargeBinary,
    Select,
    and_,
    cast,
    func,
    literal,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from api import filters
from api.dimensions import Dimension
from api.filters import Filters
from api.security import Caller
from store import facts, histograms, spreads
from store.facts import DAY_NS, Period
from store.models import BIGINT_MAX, Attempt, Capture, ConnectionFact, DayHistogram, StaleDay

_DIMENSIONS = {name: DayHistogram.__table__.c[name] for name in histograms.CUBE}
_PERIODS_MAX = 40
"""If the facts of more are to be read, those of the whole period are."""
_TRIES = 3
"""Until the days that are stale are those that were stale just before; else the facts of the whole period are read."""
_Rows = Sequence[Any]


@dataclass(frozen=True)
class Group:
    """What aggregates are made of. buckets: numbers of those that have values, ascending; counts: how many each
    has."""

    key: tuple[Any, ...]
    valid: int
    unreliable: int
    missing: int
    sum: float
    least: float | None
    most: float | None
    buckets: Sequence[int]
    counts: Sequence[int]

    @property
    def size(self) -> int:
        return self.valid + self.unreliable + self.missing


@dataclass(frozen=True)
class Summed:
    total: Group
    groups: list[Group]

    def best(self, by: Sequence[Dimension], limit: int) -> list[Group]:
        """The newest, else the largest; times in their order."""

        def rank(group: Group, direction: int) -> tuple[Any, ...]:
            values = list(zip(by, group.key, strict=True))
            others = [(v is None, v or "") for d, v in values if not d.is_time]
            return [direction * v for d, v in values if d.is_time], -group.size, others

        chosen = sorted(self.groups, key=lambda g: rank(g, -1))[:limit]
        return sorted(chosen, key=lambda g: rank(g, 1))


async def find(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    name: str,
    by: Sequence[Dimension],
    include_unreliable: bool,
) -> Summed | None:
    """None: histograms do not know these groups, or these filters. Raises BadRequest."""
    measure = facts.MEASURES.get(name)
    conditions = None if measure is None else _conditions(measure, wanted)
    if measure is None or conditions is None or not all(d.name in _DIMENSIONS or d.name == "day" for d in by):
        return None
    divided = bool(conditions) or any(d.name in _DIMENSIONS for d in by)
    conditions = [
        DayHistogram.team_id == caller.team_id,
        DayHistogram.measure == name,
        DayHistogram.divided.is_(divided),
        *conditions,
    ]
    whole = filters.periods(wanted)[0]

    def parts(days: Sequence[int], attempts: Sequence[int]) -> Any:
        split = Split.of(whole, days)
        if split.is_too_much:
            return None
        of_days = _of_histograms(by, conditions, split, days)
        return union_all(of_days, *_of_facts(caller, wanted, measure, by, split, attempts))

    rows = await Stale(caller.team_id).read(session, parts)
    return None if rows is None else _sum([r for r in rows if r.unreliable is not None], len(by), include_unreliable)


def _conditions(measure: facts.Measured, wanted: Filters) -> list[ColumnElement[bool]] | None:
    """On the rows of histograms, except for the time. None: they cannot tell. Raises BadRequest."""
    of_connections = () if measure.of_captures else ("kind", "sender_algorithm")
    if not filters.given(wanted) <= {"from_", "to", "tag", *of_connections}:
        return None
    tags = filters.tags_of(wanted.tag)
    if not tags.keys() <= {"site"}:
        return None
    conditions: list[ColumnElement[bool]] = [_DIMENSIONS["site"] == site for site in tags.values()]
    if wanted.kind:
        conditions.append(_DIMENSIONS["kind"] == wanted.kind)
    if wanted.sender_algorithm:
        conditions.append(_DIMENSIONS["sender_algorithm"].in_(wanted.sender_algorithm))
    return conditions


@dataclass(frozen=True)
class Split:
    """A period: days that histograms have, from `first` on and before `end` (None: without a bound; equal: none), and
    the periods of which the facts are read."""

    first: int | None
    end: int | None
    of_facts: list[Period]

    @classmethod
    def of(cls, whole: Period, stale: Sequence[int]) -> Split:
        begin, until = whole
        # Days before 1970 are read as facts where a bound could cut one of them.
        first = None if begin is None else max(1, -(-begin // DAY_NS))
        end = None if until is None else until // DAY_NS
        if end is not None and (end < 1 or (first is not None and end <= first)):
            return cls(0, 0, [whole])
        periods: list[Period] = []
        if first is not None and begin is not None and begin < first * DAY_NS:
            periods.append((begin, min(first * DAY_NS, BIGINT_MAX)))
        days = (d for d in sorted(stale) if (first is None or d >= first) and (end is None or d < end))
        periods += [histograms.period(d) for d in days]
        if end is not None and until is not None and end * DAY_NS < until:
            periods.append((end * DAY_NS, until))
        return cls(first, end, joined(periods))

    @property
    def is_too_much(self) -> bool:
        """For one statement."""
        return len(self.of_facts) > _PERIODS_MAX

    def has(self, day: Any, stale: Sequence[int]) -> ColumnElement[bool]:
        """Is this one of the days that what is kept tells?"""
        bounds = [day >= self.first] if self.first is not None else []
        bounds += [day < self.end] if self.end is not None else []
        return and_(true(), *bounds, *([day.not_in(stale)] if stale else []))


def joined(periods: Sequence[Period]) -> list[Period]:
    """Those that touch as one. They are in order."""
    joined: list[Period] = []
    for begin, end in periods:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


class Stale:
    """The days of a team of which nothing kept counts, and the attempts that have no part in what is kept.

    several_days: those with connections of several days have none, either.
    """

    def __init__(self, team_id: uuid.UUID, *, several_days: bool = False) -> None:
        days = select(func.array_agg(StaleDay.day.distinct())).where(StaleDay.team_id == team_id)
        without = (
            select(func.array_agg(Attempt.id.distinct()))
            .join(Capture, Capture.attempt_id == Attempt.id)
            .where(~spreads.within_one_day() if several_days else Attempt.days.is_(None), Capture.team_id == team_id)
        )
        self._columns = [
            func.coalesce(found.scalar_subquery(), cast([], ARRAY(kind))).label(name)
            for name, found, kind in (("days", days, Integer), ("attempts", without, BigInteger))
        ]

    async def read(self, session: AsyncSession, parts: Callable[[Sequence[int], Sequence[int]], Any]) -> _Rows | None:
        """The rows of a statement that `parts` makes for days that are stale, and attempts; it may be that more is None
        than the statement would say. None: there is no statement, or too much changes meanwhile."""
        known = (await session.execute(select(*self._columns))).one()
        for _ in range(_TRIES):
            statement = parts(known.days, known.attempts)
            if statement is None:
                return None
            # What is stale at the statement's own moment comes with its rows, of which there may be none.
            now, found = select(*self._columns).subquery("now"), statement.subquery("parts")
            rows = (await session.execute(select(*now.c, *found.c).select_from(now.outerjoin(found, true())))).all()
            if rows[0].attempts == known.attempts and set(rows[0].days) <= set(known.days):
                return rows
            known = rows[0]
        return None


def _of_histograms(
    by: Sequence[Dimension], conditions: Sequence[ColumnElement[bool]], split: Split, stale: Sequence[int]
) -> Select[Any]:
    table = DayHistogram.__table__
    day = cast(table.c.day, BigInteger) * literal(DAY_NS, BigInteger)
    keys = [_DIMENSIONS.get(d.name, day) for d in by]
    return (
        select(
            *(key.label(f"key{place}") for place, key in enumerate(keys)),
            table.c.unreliable,
            func.sum(table.c["count"]).label("count"),
            func.sum(table.c.missing).label("missing"),
            func.sum(table.c.total).label("total"),
            func.min(table.c.least).label("least"),
            func.max(table.c.most).label("most"),
            func.string_agg(table.c.buckets, cast(literal(b""), LargeBinary)).label("buckets"),
        )
        .where(*conditions, split.has(table.c.day, stale))
        .group_by(*keys, table.c.unreliable)
    )


def _of_facts(
    caller: Caller,
    wanted: Filters,
    measure: facts.Measured,
    by: Sequence[Dimension],
    split: Split,
    without: Sequence[int],
) -> list[Select[Any]]:
    """without: attempts that have no part in histograms."""
    names = [f"key{place}" for place in range(len(by))]
    columns = [d.value.label(n) for d, n in zip(by, names, strict=True)]
    conditions = [*filters.of_captures(wanted), *filters.of_connections(wanted, times=False)]
    attempt = ConnectionFact.attempt_id
    found = []
    if split.of_facts:
        others = [attempt.not_in(without)] if without else []
        found.append(measure.rows(caller.team_id, columns, *conditions, *others, periods=split.of_facts))
    if without:
        whole = filters.periods(wanted)
        found.append(measure.rows(caller.team_id, columns, *conditions, attempt.in_(without), periods=whole))
    return [histograms.packed(rows, names) for rows in found]


def _sum(rows: _Rows, keys: int, include_unreliable: bool) -> Summed:
    of_each: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in rows:
        of_each[tuple(getattr(row, f"key{place}") for place in range(keys))].append(row)
    groups = [_group(key, its, include_unreliable) for key, its in of_each.items() if key]
    return Summed(_group((), rows, include_unreliable), groups)


def _group(key: tuple[Any, ...], rows: _Rows, include_unreliable: bool) -> Group:
    valid = [r for r in rows if (include_unreliable or not r.unreliable) and r.count]
    count = sum(r.count for r in valid)
    buckets, counts = _merged([r.buckets for r in valid])
    return Group(
        key=key,
        valid=count,
        unreliable=sum(r.count for r in rows) - count,
        missing=sum(r.missing for r in rows),
        sum=math.fsum(r.total for r in valid),
        least=min((r.least for r in valid), default=None),
        most=max((r.most for r in valid), default=None),
        buckets=buckets,
        counts=counts,
    )


def _merged(packed: Sequence[bytes]) -> tuple[list[int], list[int]]:
    pairs = np.frombuffer(b"".join(packed), ">i4").astype(np.int64).reshape(-1, 2)
    if not len(pairs):
        return [], []
    low = int(pairs[:, 0].min())
    counts = np.bincount(pairs[:, 0] - low, weights=pairs[:, 1])  # exact up to 2^53
    places = np.flatnonzero(counts)
    return (places + low).tolist(), counts[places].astype(np.int64).tolist()
