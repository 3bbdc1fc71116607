"""Runs of a fit's connections on draws of its networks: as they were, and in the world that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice
from rewindow.simulator import simulate
from rewindow.whatif import errors, flights
from rewindow.whatif.batches import Batch, Work
from rewindow.whatif.errors import METRICS
from rewindow.whatif.fitting import UNKNOWN_SENDER, Fit, outcomes
from rewindow.whatif.network import Network, scenario
from rewindow.whatif.outcomes import Outcome

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Ran:
    """What came of a connection in each run of a world. metrics: by name, NaN where a run has no value. bytes: of each
    subflow (runs x subflows).
    """

    metrics: dict[str, Array]
    bytes: Array

    @property
    def goodput_bps(self) -> Array:
        """0 where a connection sent nothing."""
        return np.nan_to_num(self.metrics["goodput_bps"], nan=0.0)

    def logs(self, name: str) -> Array:
        """Of a metric; NaN where a run has no value."""
        return np.array([np.nan if np.isnan(v) else errors.log(name, v) for v in self.metrics[name]])


@dataclass(frozen=True)
class Worlds:
    """Runs on draws of the fit's networks, of each connection. The same run has the same network and seed in both.
    flights: of the connection that is asked about, in the changed world (runs x flights.POINTS), bytes.
    """

    recorded: tuple[Ran, ...]
    changed: tuple[Ran, ...]
    flights: Array


def _row(made: Sequence[Outcome]) -> list[float]:
    """For each connection its metrics, then the bytes of its subflows; _ran is the inverse."""
    row: list[float] = []
    for o in made:
        metrics = o.metrics()
        row += [np.nan if (v := metrics[name]) is None else v for name in METRICS]
        row += [float(s.bytes) for s in o.subflows]
    return row


def _ran(rows: Array, subflows: Sequence[int]) -> tuple[Ran, ...]:
    """subflows: how many each connection has."""
    found, at = [], 0
    for count in subflows:
        metrics = {name: rows[:, at + k] for k, name in enumerate(METRICS)}
        at += len(METRICS)
        found.append(Ran(metrics, rows[:, at : at + count]))
        at += count
    return tuple(found)


def simulated_worlds(
    best: Fit,
    place: int,
    changes: Mapping[int, Choice],
    runs: int,
    changed_network: Callable[[Network], Network],
    seed: int,
) -> Work[Worlds]:
    """place: of the connection that is asked about. changes: algorithms by the connection's id; others keep theirs."""
    base = {str(c.id): a or UNKNOWN_SENDER for c, a in zip(best.connections, best.algorithms, strict=True)}
    other = base | {str(c): choice for c, choice in changes.items()}

    def both(i: int) -> Array:
        network = best.networks[i % len(best.networks)]
        before, after = (
            simulate(scenario(best.connections, n, best.first_ns, best.duration_s), seed + i, choices, rows=True)
            for n, choices in ((network, base), (changed_network(network), other))
        )
        over_time = flights.simulated(after, best.connections, place, best.first_ns)
        return np.array([*_row(outcomes(before)), *_row(outcomes(after)), *over_time])

    rows = yield Batch(runs, both, 0.0, 1.0)
    subflows = [len(c.subflows) for c in best.connections]
    width = sum(subflows) + len(subflows) * len(METRICS)
    return Worlds(
        _ran(rows[:, :width], subflows), _ran(rows[:, width : 2 * width], subflows), rows[:, 2 * width :]
    )  # fmt: skip
