"""Simulations in batches: what a fit or a prediction needs next, whoever runs it.

A fit and a prediction are generators. They yield a Batch, are sent its rows, and return their result. The command line
runs a batch by threads of its own; the service runs it in parts, at different times and in several processes, and keeps
the rows. A row follows from its number alone (each run's random numbers are counted from its seed), so both have the
same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")
Report = Callable[[float], None]

THREADS = 2


@dataclass(frozen=True)
class Batch:
    """Simulations that do not depend on one another. row: what came of the run of a number from 0 to runs - 1, as
    doubles, as many for each run; NaN: no value. begins, ends: the part of the whole work that is done before and
    after it, for progress.
    """

    runs: int
    row: Callable[[int], Array]
    begins: float
    ends: float


Work = Generator[Batch, Array, T]


def completed(work: Work[T], report: Report = lambda done: None) -> T:
    """Runs the batches here, by THREADS threads; the core releases Python's lock while it simulates."""
    try:
        batch = next(work)
        while True:
            rows = []
            with ThreadPoolExecutor(THREADS) as threads:
                for row in threads.map(batch.row, range(batch.runs)):
                    rows.append(row)
                    report(batch.begins + (batch.ends - batch.begins) * len(rows) / batch.runs)
            batch = work.send(np.array(rows))
    except StopIteration as e:
        found: T = e.value
        return found
