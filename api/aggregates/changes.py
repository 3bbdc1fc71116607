"""What changed from one period to the next, where noise is no news.

Connections of one capture are alike: they share its network and its day. So the captures are the sample, and a mean's
variance is that of a ratio estimator over clusters (Cochran, Sampling Techniques, 3rd ed., section 6.4). Two periods
are compared by Welch's t with his degrees of freedom, rounded down; all comparisons of a request by Holm's procedure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Float, cast, func, literal, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from api import dimensions, filters
from api.aggregates import measures
from api.aggregates.schemas import ChangeOut, ChangesOut
from api.errors import Unprocessable
from api.filters import Filters
from api.security import Caller
from store.models import Capture, ConnectionFact

CONNECTIONS_MIN = 20
"""Fewer in one of the periods are not compared."""
CAPTURES_MIN = 5
ERRORS = 0.05
"""The chance that any of the reported changes is none."""
_PLAIN = ("retransmission_rate", "jain")
"""Measures within 0 to 1, whose means are arithmetic; others have ratios, so that their means are geometric."""
_LEAST = 1e-9
"""Smaller values have no logarithm of use."""


@dataclass
class _Sample:
    """Counts and sums of the captures of one group in one period."""

    counts: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)

    def add(self, count: int, total: float) -> None:
        self.counts.append(count)
        self.sums.append(total)

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def captures(self) -> int:
        return len(self.counts)

    @property
    def is_enough(self) -> bool:
        return self.count >= CONNECTIONS_MIN and self.captures >= CAPTURES_MIN

    @property
    def mean(self) -> float:
        return math.fsum(self.sums) / self.count

    @property
    def variance(self) -> float:
        """Of the mean."""
        squares = math.fsum((s - self.mean * n) ** 2 for s, n in zip(self.sums, self.counts, strict=True))
        return squares * self.captures / (self.captures - 1) / self.count**2


def two_sided(t: float, freedom: int) -> float:
    """The chance of a larger |t| under Student's distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
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
        return self.after.mean - self.before.mean

    @property
    def error(self) -> float:
        return math.sqrt(self.before.variance + self.after.variance)

    @property
    def freedom(self) -> int:
        """Welch's, rounded down."""
        parts = [(s.variance, s.captures - 1) for s in (self.before, self.after)]
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
    for name in names:
        for dimension in by:
            for found in await _compared(session, caller, wanted, name, dimension, split, include_unreliable):
                if found.before.is_enough and found.after.is_enough:
                    compared.append((name, dimension, found))
                else:
                    too_few += 1
    adjusted = holm([c.chance for _, _, c in compared])
    changes = [
        _out(name, dimension, c, chance)
        for (name, dimension, c), chance in zip(compared, adjusted, strict=True)
        if chance <= ERRORS
    ]
    changes.sort(key=lambda c: -abs(math.log(max(c.after, _LEAST) / max(c.before, _LEAST))))
    return ChangesOut(changes=changes, compared=len(compared), too_few=too_few)


async def _compared(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    name: str,
    by: str,
    split: datetime,
    include_unreliable: bool,
) -> list[_Compared]:
    measure, dimension = measures.of(name), dimensions.of(by)
    measures.check(measure, name, [dimension])
    is_late = ConnectionFact.first_ns >= filters.nanoseconds(split)
    columns: list[Any] = [dimension.value.label("key"), Capture.id.label("capture"), is_late.label("is_late")]
    rows = measure.rows(caller, wanted, columns).subquery("scanned")
    value = rows.c.value if name in _PLAIN else func.ln(func.greatest(rows.c.value, cast(literal(_LEAST), Float)))
    is_valid = true() if include_unreliable else ~rows.c.unreliable
    query = (
        select(rows.c.key, rows.c.is_late, func.count().label("n"), func.sum(value).label("total"))
        .where(rows.c.value.is_not(None), is_valid)
        .group_by(rows.c.key, rows.c.is_late, rows.c.capture)
    )
    samples: dict[str | None, tuple[_Sample, _Sample]] = defaultdict(lambda: (_Sample(), _Sample()))
    for row in await session.execute(query):
        samples[row.key][row.is_late].add(row.n, row.total)
    return [_Compared(value, before, after) for value, (before, after) in samples.items()]


def _out(name: str, dimension: str, c: _Compared, chance: float) -> ChangeOut:
    reach = quantile(c.freedom) * c.error
    if name in _PLAIN:
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
        is_ratio=name not in _PLAIN,
        low=low,
        high=high,
        connections=[c.before.count, c.after.count],
        captures=[c.before.captures, c.after.captures],
        chance=chance,
    )
