"""A connection's flight over time, in a capture and in simulated runs: bytes that were sent and not acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.simulator import Simulation
from rewindow.whatif.errors import HIGH, LOW
from rewindow.whatif.observation import ObservedConnection

Array = npt.NDArray[Any]

POINTS = 200
_LONGER = 1.5
"""A run may take so many times as long as the recorded connection did, and is drawn to its end."""


@dataclass(frozen=True)
class Flights:
    """At each of times_s (seconds since the connection's first packet), the bytes in flight over all subflows: as
    recorded, and the median, 5th and 95th percentile of the simulated runs.
    """

    times_s: tuple[float, ...]
    recorded_bytes: tuple[float, ...]
    median_bytes: tuple[float, ...]
    low_bytes: tuple[float, ...]
    high_bytes: tuple[float, ...]


def times_s(connection: ObservedConnection) -> Array:
    """The ends of even intervals, in seconds since the connection's first packet."""
    facts = connection.facts
    return np.linspace(0, max((facts.last_ns - facts.first_ns) / 1e9, 1e-3) * _LONGER, POINTS + 1)[1:]


def sampled(time_s: Array, before: Array, after: Array, ends_s: Array) -> Array:
    """The mean flight before the ACKs of each interval; without ACKs, what was left after the last one."""
    place = np.searchsorted(ends_s, time_s)
    counts = np.bincount(place, minlength=len(ends_s) + 1)[: len(ends_s)]
    sums = np.bincount(place, weights=before, minlength=len(ends_s) + 1)[: len(ends_s)]
    last = np.searchsorted(time_s, ends_s, side="right") - 1
    left = np.where(last >= 0, after[last], 0.0) if len(after) else np.zeros(len(ends_s))
    found: Array = np.where(counts > 0, sums / np.maximum(counts, 1), left)
    return found


def recorded(connection: ObservedConnection, first_ns: int) -> Array:
    """At times_s, bytes. first_ns: of the capture."""
    ends_s = times_s(connection)
    start_s = (connection.facts.first_ns - first_ns) / 1e9
    found = np.zeros(POINTS)
    for s in connection.subflows:
        left = np.maximum(s.series.flight_bytes - s.series.acked_bytes, 0)
        found += sampled(s.series.time_s - start_s, s.series.flight_bytes, left, ends_s)
    return found


def simulated(
    run: Simulation, connections: Sequence[ObservedConnection], place: int, first_ns: int, before_s: float
) -> Array:
    """At times_s, bytes. place: of the connection, whose transfer has the same place in the run. before_s: how much
    later all is in the run than in the capture.
    """
    connection = connections[place]
    ends_s = times_s(connection)
    start_s = before_s + (connection.facts.first_ns - first_ns) / 1e9
    first = sum(len(c.subflows) for c in connections[:place])
    found = np.zeros(POINTS)
    assert run.rows is not None
    for number, s in enumerate(connection.subflows, first):
        rows = run.rows[run.rows["subflow"] == number]
        after = rows["in_flight"].astype(float)
        before = after + rows["delivered"]
        found += s.facts.mss_bytes * sampled(rows["time_ns"] / 1e9 - start_s, before, after, ends_s)
    return found


def over_time(connection: ObservedConnection, first_ns: int, runs: Array) -> Flights:
    """runs: a row for each run, as `simulated` returns it. Ends where the recorded flight and 95 % of the runs do."""
    then = recorded(connection, first_ns)
    low, median, high = np.percentile(runs, (LOW, 50, HIGH), axis=0)
    some = np.flatnonzero((then > 0) | (high > 0))
    count = min(int(some[-1]) + 2, POINTS) if len(some) else 1

    def kept(values: Array) -> tuple[float, ...]:
        return tuple(values[:count].tolist())

    return Flights(kept(times_s(connection)), kept(then), kept(median), kept(low), kept(high))
