"""Histograms with fixed buckets whose borders grow by 2 %: a bucket's middle is off by at most 1 % of any value in it.

Bucket 0 has what is smaller than `LEAST`, without its sign; bucket n > 0 begins at LEAST * GROWTH^(n-1), and -n has the
same values below zero. The numbers of buckets grow with the values.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Float, Integer, case, cast, func, literal

GROWTH = 1.02
LEAST = 1e-9
PERCENTILES = (5, 25, 50, 75, 95, 99)


def bucket(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Of a value of PostgreSQL, float8."""
    size = func.abs(value)
    place = cast(func.floor(func.ln(size / literal(LEAST, Float(53))) / literal(math.log(GROWTH), Float(53))), Integer)
    return case((size < LEAST, 0), (value < 0, -1 - place), else_=1 + place)


def borders(number: int) -> tuple[float, float]:
    """From where to where the bucket goes."""
    if number == 0:
        return 0.0, LEAST
    low, high = (LEAST * GROWTH ** (abs(number) - n) for n in (1, 0))
    return (low, high) if number > 0 else (-high, -low)


def middle(number: int) -> float:
    """Off by at most 1 % of any value in the bucket."""
    if number == 0:
        return 0.0
    return math.copysign(LEAST * GROWTH ** (abs(number) - 0.5), number)


@dataclass(frozen=True)
class Histogram:
    """numbers: of buckets that have values, ascending; counts: how many values each has."""

    numbers: Sequence[int]
    counts: Sequence[int]

    def percentile(self, percent: float) -> float:
        """The middle of the bucket that has the value of this rank, of at least one value."""
        running = list(itertools.accumulate(self.counts))
        rank = max(1, math.ceil(running[-1] * percent / 100))
        return middle(self.numbers[bisect.bisect_left(running, rank)])
