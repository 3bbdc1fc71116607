"""The error of predictions beside what runs and fits differ by: fitted to real runs, and kept in errors.toml.

`make prediction-errors PAIRS=FOLDER` writes errors.toml from the networks that predictions are tuned on. Everything is
in logarithms. With `before` and `after` the medians of simulations of the recorded and of the other algorithm:

    median = before + follow * (after - before) + level * (recorded - before, at most reach either way)

The interval adds to the simulated runs, `spread` times as far from their median, a normal error of the variance
fixed^2 + (change * (after - before))^2 + (off * (recorded - before))^2: a prediction is worse where the
algorithms differ much, and where the simulation of what is known was wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LOW, HIGH = 5, 95
METRICS = ("goodput_bps", "completion_s", "retransmitted_packets", "queueing_delay_ms", "queueing_delay_p95_ms")
_FLOORS = {"retransmitted_packets": 1.0, "queueing_delay_ms": 0.5, "queueing_delay_p95_ms": 0.5}
"""Added before the logarithm is taken: small counts and delays differ by much and mean little."""
_SAME_BYTES = 1e-6
"""Of logarithms."""
_NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 31) for i in range(31)])
"""An even sample of the standard normal distribution."""


@dataclass(frozen=True)
class Error:
    """Of one metric; see above."""

    level: float
    reach: float
    """Beyond it the recorded run had something of its own: an early end of slow start, a burst of losses."""
    follow: float
    spread: float
    fixed: float
    change: float
    off: float

    def median(self, recorded: float | None, before: float, after: float) -> float:
        off = 0.0 if recorded is None else min(max(recorded - before, -self.reach), self.reach)
        return before + self.follow * (after - before) + self.level * off

    def sd(self, recorded: float | None, before: float, after: float) -> float:
        """Of the normal part."""
        off = 0.0 if recorded is None else recorded - before
        return float(np.sqrt(self.fixed**2 + (self.change * (after - before)) ** 2 + (self.off * off) ** 2))

    def interval(self, recorded: float | None, before: Array, after: Array) -> tuple[float, float, float]:
        """Median, low and high of the prediction. before, after: of simulated runs."""
        old, new = float(np.median(before)), float(np.median(after))
        runs = self.spread * (after - new)
        wide = (runs[:, None] + self.sd(recorded, old, new) * _NORMAL).ravel()
        low, high = np.percentile(wide, (LOW, HIGH))
        middle = self.median(recorded, old, new)
        return middle, middle + min(float(low), 0.0), middle + max(float(high), 0.0)


@cache
def stored() -> dict[str, Error]:
    """By metric."""
    text = resources.files("rewindow.whatif").joinpath("errors.toml").read_text()
    found = tomllib.loads(text)
    return {name: Error(**found[name]) for name in METRICS}


def log(name: str, value: float) -> float:
    return float(np.log(value + _FLOORS[name] if name in _FLOORS else max(value, 1e-9)))


def level(name: str, logarithm: Any) -> Any:
    """The inverse of log."""
    return np.maximum(np.exp(logarithm) - _FLOORS.get(name, 0.0), 0.0)


def same_bytes(simulated: Mapping[str, tuple[Any, Any]]) -> bool:
    """Whether each run carried the same bytes, however long it took."""
    goodput, completion = simulated.get("goodput_bps"), simulated.get("completion_s")
    if goodput is None or completion is None or [len(side) for side in goodput] != [len(side) for side in completion]:
        return False
    carried = np.concatenate(goodput) + np.concatenate(completion)
    return bool(np.ptp(carried) < _SAME_BYTES)


def predicted(
    recorded: Mapping[str, float | None],
    simulated: Mapping[str, tuple[Any, Any]],
    errors: Mapping[str, Error] | None = None,
) -> dict[str, tuple[float, float, float]]:
    """Median, low and high of each metric. simulated: logarithms before and after.

    How long the same bytes take says the same as the goodput does, so its error is the goodput's.
    """
    found = {}
    for name, (before, after) in simulated.items():
        value = recorded[name]
        error = (errors or stored())["goodput_bps" if name == "completion_s" and same_bytes(simulated) else name]
        logs = error.interval(None if value is None else log(name, value), np.asarray(before), np.asarray(after))
        median, low, high = (float(level(name, x)) for x in logs)
        found[name] = (median, low, high)
    return found
