"""Runs of a fit's connections on draws of its networks: as they were, in the world that is asked about, and without the
connection that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice
from rewindow.simulator import Simulation, simulate
from rewindow.whatif import errors, flights
from rewindow.whatif.batches import Batch, Work
from rewindow.whatif.errors import METRICS
from rewindow.whatif.fitting import UNKNOWN_SENDER, Fit, outcomes
from rewindow.whatif.network import Network, scenario
from rewindow.whatif.outcomes import Outcome

Array = npt.NDArray[Any]
Kept = dict[tuple[tuple[int, ...], Network, int, int | None], Array]
"""Rows of runs in which no connection has another algorithm, for all questions about the same fits: by the ids of the
connections, the network, the seed, and the place of the connection that is absent."""


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

    @classmethod
    def of_all(cls, parts: Sequence[Ran]) -> Ran:
        """The runs of all parts, one after the other."""
        metrics = {name: np.concatenate([part.metrics[name] for part in parts]) for name in parts[0].metrics}
        return cls(metrics, np.concatenate([part.bytes for part in parts]))

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


def _simulated(best: Fit, network: Network, seed: int, choices: dict[str, Choice], absent: int | None) -> Simulation:
    run = scenario(best.connections, network, best.first_ns, best.duration_s, absent)
    return simulate(run, seed, choices, rows=True)


def _algorithms(best: Fit) -> dict[str, Choice]:
    """Of each connection, as recorded."""
    return {str(c.id): a or UNKNOWN_SENDER for c, a in zip(best.connections, best.algorithms, strict=True)}


def _unchanged(best: Fit, network: Network, seed: int, kept: Kept, absent: int | None = None) -> Array:
    """The row of the run in which all that are there have their recorded algorithms."""
    key = (tuple(c.id for c in best.connections), network, seed, absent)
    if key not in kept:
        made = _simulated(best, network, seed, _algorithms(best), absent)
        kept[key] = np.array(_row(outcomes(made, len(best.connections) - (absent is not None))))
    return kept[key]


def simulated_worlds(
    best: Fit,
    place: int,
    changes: Mapping[int, Choice],
    runs: int,
    changed_network: Callable[[Network], Network],
    seed: int,
    kept: Kept,
    begins: float,
    ends: float,
) -> Work[Worlds]:
    """place: of the connection that is asked about. changes: algorithms by the connection's id; others keep theirs.
    begins, ends: its part of the whole work.
    """
    other = _algorithms(best) | {str(c): choice for c, choice in changes.items()}

    def both(i: int) -> Array:
        network = best.networks[i % len(best.networks)]
        before = _unchanged(best, network, seed + i, kept)
        then = changed_network(network)
        after = _simulated(best, then, seed + i, other, None)
        over_time = flights.simulated(after, best.connections, place, best.first_ns, then.before_s)
        return np.array([*before, *_row(outcomes(after, len(best.connections))), *over_time])

    rows = yield Batch(runs, both, begins, ends)
    subflows = [len(c.subflows) for c in best.connections]
    width = sum(subflows) + len(subflows) * len(METRICS)
    return Worlds(
        _ran(rows[:, :width], subflows), _ran(rows[:, width : 2 * width], subflows), rows[:, 2 * width :]
    )  # fmt: skip


@dataclass(frozen=True)
class Absence:
    """Runs without the connection that is asked about, of each other one: on the networks of both Worlds, with their
    seeds.
    """

    recorded: tuple[Ran, ...]
    changed: tuple[Ran, ...]


def simulated_absence(
    best: Fit,
    place: int,
    runs: int,
    changed_network: Callable[[Network], Network],
    seed: int,
    kept: Kept,
    begins: float,
) -> Work[Absence]:
    """As simulated_worlds. begins: the part of the whole work that is done before."""

    def without(i: int) -> Array:
        network = best.networks[i % len(best.networks)]
        return np.concatenate([_unchanged(best, n, seed + i, kept, place) for n in (network, changed_network(network))])

    rows = yield Batch(runs, without, begins, 1.0)
    subflows = [len(c.subflows) for i, c in enumerate(best.connections) if i != place]
    width = rows.shape[1] // 2
    return Absence(_ran(rows[:, :width], subflows), _ran(rows[:, width:], subflows))
