"""Histograms with the buckets of store/histograms.py, as answers have them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from store.histograms import GROWTH, LEAST

PERCENTILES = (5, 25, 50, 75, 95, 99)


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

    @classmethod
    def of(cls, numbers: Sequence[int], counts: Sequence[int]) -> Histogram:
        """numbers: ascending; those of reliable and unreliable values may be the same."""
        sums: dict[int, int] = {}
        for number, count in zip(numbers, counts, strict=True):
            sums[number] = sums.get(number, 0) + count
        return cls(list(sums), list(sums.values()))

    def percentile(self, percent: float) -> float:
        """The middle of the bucket that has the value of this rank, of at least one value."""
        running = list(itertools.accumulate(self.counts))
        rank = max(1, math.ceil(running[-1] * percent / 100))
        return middle(self.numbers[bisect.bisect_left(running, rank)])
