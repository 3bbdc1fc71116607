"""What changed from one period to the next, where noise is no news.

Connections of one capture are alike: they share its network and its day. So the captures are the sample, and a mean's
variance is that of a ratio estimator over clusters (Cochran, Sampling Techniques, 3rd ed., section 6.4). Two periods
are compared by Welch's t with his degrees of freedom, rounded down; all comparisons of a request by Holm's procedure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from api import dimensions, filters
from api.aggregates import maintained, measures
from api.aggregates.schemas import ChangeOut, ChangesOut
from api.errors import Unprocessable
from api.filters import Filters
from api.security import Caller
from store import histograms, spreads
from store.facts import DAY_NS
from store.models import Capture, ConnectionFact, DaySpread

CONNECTIONS_MIN = 20
"""Fewer in one of the periods are not compared."""
CAPTURES_MIN = 5
ERRORS = 0.05
"""The chance that any of the reported changes is none."""
_STALE_MAX = 14
"""If more days are stale, each measure reads the facts by itself: all at once is too long for one statement."""
_MANY = 1000
"""Degrees of freedom, beyond which the series would be long."""
_EXACT = 1e-12
"""What is left of a difference of sums, beside them, when they are the same."""


@dataclass
class _Sample:
    """Sums over the captures of one group in one period: of their counts and sums, squares and products of these."""

    connections: float = 0.0
    captures: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    connections_squared: float = 0.0

    def add(self, sums: Sequence[float]) -> None:
        """In the order of store/spreads.py."""
        for field, one in zip(fields(self), sums, strict=True):
            setattr(self, field.name, getattr(self, field.name) + one)

    @property
    def is_enough(self) -> bool:
        return self.connections >= CONNECTIONS_MIN and self.captures >= CAPTURES_MIN

    @property
    def mean(self) -> float:
        return self.total / self.connections

    @property
    def variance(self) -> float:
        """Of the mean."""
        parts = (self.squares, -2 * self.mean * self.products, self.mean**2 * self.connections_squared)
        squares = math.fsum(parts)
        if squares <= _EXACT * math.fsum(map(abs, parts)):
            return 0.0
        return squares * self.captures / (self.captures - 1) / self.connections**2


def two_sided(t: float, freedom: int) -> float:
    """The chance of a larger |t| under Student's distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    Of many degrees of freedom it is off by less than 1e-6 (26.7.8).
    """
    if freedom > _MANY:
        normal = t * (1 - 1 / (4 * freedom)) / math.sqrt(1 + t * t / (2 * freedom))
        return math.erfc(abs(normal) / math.sqrt(2))
    angle = math.atan2(abs(t), math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    series = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        series += term
    inside = 2 / math.pi * (angle + sine * series) if odd else sine * series
    return min(1.0, max(0.0, 1 - inside))


def quantile(freedom: int) -> float:
    """The t that a chance of ERRORS is beyond, on both sides together."""
    low, high = 0.0, 1e3
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > ERRORS else (low, middle)
    return high


@dataclass(frozen=True)
class _Compared:
    value: str | None
    before: _Sample
    after: _Sample

    @property
    def difference(self) -> float:
        """0 where nothing but rounding is left."""
        found = self.after.mean - self.before.mean
        return 0.0 if abs(found) <= _EXACT * abs(self.after.mean) else found

    @property
    def error(self) -> float:
        return math.sqrt(self.before.variance + self.after.variance)

    @property
    def freedom(self) -> int:
        """Welch's, rounded down."""
        parts = [(s.variance, int(s.captures) - 1) for s in (self.before, self.after)]
        below = sum(v**2 / f for v, f in parts)
        return int(sum(v for v, _ in parts) ** 2 / below) if below else sum(f for _, f in parts)

    @property
    def chance(self) -> float:
        if self.error == 0:
            return 0.0 if self.difference else 1.0
        return two_sided(self.difference / self.error, self.freedom)


def holm(chances: list[float]) -> list[float]:
    """Adjusted for their number: reporting those of at most ERRORS reports a false one with at most that chance."""
    adjusted, least = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        least = adjusted[place] = max(least, min(1.0, (len(chances) - rank) * chances[place]))
    return adjusted


async def find(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    names: list[str],
    by: list[str],
    split: datetime,
    *,
    include_unreliable: bool,
) -> ChangesOut:
    """Raises BadRequest, Unprocessable."""
    if wanted.from_ is None or wanted.to is None or not wanted.from_ < split < wanted.to:
        raise Unprocessable("from, split and to must be there, in this order of time")
    compared: list[tuple[str, str, _Compared]] = []
    too_few = 0
    pairs = [(name, dimension) for name in names for dimension in by if _applies(name, dimension)]
    for name in names:
        if all(pair[0] != name for pair in pairs):
            measures.check(measures.of(name), name, [dimensions.of(d) for d in by])
    kept = await _of_days(session, caller, wanted, split, include_unreliable)
    for name, dimension in pairs:
        if kept is not None and spreads.has(name, dimension):
            groups = kept[name, dimension]
        else:
            groups = await _of_facts(session, caller, wanted, name, dimension, split, include_unreliable)
        for value, (before, after) in groups.items():
            if before.is_enough and after.is_enough:
                compared.append((name, dimension, _Compared(value, before, after)))
            else:
                too_few += 1
    adjusted = holm([c.chance for _, _, c in compared])
    changes = [
        _out(name, dimension, c, chance)
        for (name, dimension, c), chance in zip(compared, adjusted, strict=True)
        if chance <= ERRORS
    ]
    changes.sort(key=lambda c: -abs(math.log(max(c.after, spreads.LEAST) / max(c.before, spreads.LEAST))))
    return ChangesOut(changes=changes, compared=len(compared), too_few=too_few)


def _applies(name: str, dimension: str) -> bool:
    """Raises Unprocessable."""
    return measures.applies(measures.of(name), dimensions.of(dimension))


_Groups = dict[str | None, tuple[_Sample, _Sample]]
"""Of each value of a dimension the samples of both periods."""


def _groups() -> _Groups:
    return defaultdict(lambda: (_Sample(), _Sample()))


async def _of_days(
    session: AsyncSession, caller: Caller, wanted: Filters, split: datetime, include_unreliable: bool
) -> dict[tuple[str, str], _Groups] | None:
    """By measure and dimension, from what PostgreSQL keeps of each day. None: it does not keep what tells."""
    ((begin, end),) = filters.periods(wanted)
    times = [begin, filters.nanoseconds(split), end]
    days = [t // DAY_NS for t in times if t is not None and t % DAY_NS == 0 and t > 0]
    if include_unreliable or len(days) < len(times) or not filters.given(wanted) <= {"from_", "to"}:
        return None
    table = DaySpread.__table__
    first, middle, last = days
    is_late = (table.c.day >= middle).label("is_late")
    of_days = select(
        table.c.measure,
        table.c.dimension,
        table.c.value,
        is_late,
        *(func.sum(table.c[name]).label(name) for name in spreads.SUMS),
    ).where(table.c.team_id == caller.team_id, table.c.day >= first, table.c.day < last)
    late = ConnectionFact.first_ns >= filters.nanoseconds(split)
    stale = maintained.Stale(caller.team_id, several_days=True)

    def parts(days: Sequence[int], captures: Sequence[int]) -> Any:
        """captures: attempts of which all facts are read, whatever the day."""
        kept = of_days.where(table.c.day.not_in(days)) if days else of_days
        found: list[Any] = [kept.group_by(table.c.measure, table.c.dimension, table.c.value, is_late)]
        attempt = ConnectionFact.attempt_id
        again = [d for d in days if first <= d < last]
        if len(again) > _STALE_MAX:
            return None
        if again:
            stale_periods = maintained.joined([histograms.period(d) for d in again])
            others = [attempt.not_in(captures)] if captures else []
            found.append(spreads.of_facts(caller.team_id, *others, periods=stale_periods, late=late))
        if captures:
            found.append(spreads.of_facts(caller.team_id, attempt.in_(captures), periods=[(begin, end)], late=late))
        return union_all(*found)

    rows = await stale.read(session, parts)
    if rows is None:
        return None
    groups: dict[tuple[str, str], _Groups] = defaultdict(_groups)
    for row in rows:
        if row.measure is not None:
            groups[row.measure, row.dimension][row.value][row.is_late].add([getattr(row, n) for n in spreads.SUMS])
    return groups


async def _of_facts(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    name: str,
    by: str,
    split: datetime,
    include_unreliable: bool,
) -> _Groups:
    measure, dimension = measures.of(name), dimensions.of(by)
    is_late = ConnectionFact.first_ns >= filters.nanoseconds(split)
    columns: list[Any] = [dimension.value.label("key"), Capture.id.label("capture"), is_late.label("is_late")]
    rows = measure.rows(caller, wanted, columns, [dimension]).subquery("scanned")
    is_valid = true() if include_unreliable else ~rows.c.unreliable
    of_captures = (
        select(
            rows.c.key,
            rows.c.is_late,
            func.count().label("count"),
            func.sum(spreads.added(name, rows.c.value)).label("total"),
        )
        .where(rows.c.value.is_not(None), is_valid)
        .group_by(rows.c.key, rows.c.is_late, rows.c.capture)
        .subquery("of_captures")
    )
    query = select(
        of_captures.c.key, of_captures.c.is_late, *spreads.sums(of_captures.c["count"], of_captures.c.total)
    ).group_by(of_captures.c.key, of_captures.c.is_late)
    groups = _groups()
    for row in await session.execute(query):
        groups[row.key][row.is_late].add([getattr(row, n) for n in spreads.SUMS])
    return groups


def _out(name: str, dimension: str, c: _Compared, chance: float) -> ChangeOut:
    reach = quantile(c.freedom) * c.error
    if name in spreads.PLAIN:
        before, after = c.before.mean, c.after.mean
        low, high = c.difference - reach, c.difference + reach
    else:
        before, after = math.exp(c.before.mean), math.exp(c.after.mean)
        low, high = math.exp(c.difference - reach), math.exp(c.difference + reach)
    return ChangeOut(
        measure=name,
        dimension=dimension,
        value=c.value,
        before=before,
        after=after,
        is_ratio=name not in spreads.PLAIN,
        low=low,
        high=high,
        connections=[int(c.before.connections), int(c.after.connections)],
        captures=[int(c.before.captures), int(c.after.captures)],
        chance=chance,
    )
