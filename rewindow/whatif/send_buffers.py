"""The send buffer of a TCP connection, where a capture shows it.

Linux wakes an application that waits for room when a third of the send buffer is free. Until then nothing is sent,
though the window has room: some ACKs in turn are answered by nothing. What the application writes then leaves at once.
A capture shows this only of a buffer that the window filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.simulator import SEND_BUFFER_BYTES, Simulation
from rewindow.whatif.observation import ObservedConnection, Series
from rewindow.whatif.sources import written

Array = npt.NDArray[Any]

_FIRST_GUESS = 1.5
"""Buffer over the largest flight: what the kernel's accounting adds to data. Simulations correct it."""
_QUIET_ACKS = 3
"""The core calls a sender limited from so many quiet ACKs in turn on (core-c/src/events/acked.c)."""
_NEAR_MOST = 0.85
"""Of the largest flight: where the buffer is full."""
_LEFT_LEAST = 0.5
"""Of the flight before: less is left where the application paused."""
_LEFT_MOST, _LEFT_MOST_PACED = 0.97, 0.95
"""Of the flight before: more is left where the sender only waited for its pace."""
_REFILLED = 0.05
"""Of the flight before: at least what is written at once, when there is room again."""
_BEYOND = 1.01
"""Times the flight before. A window that was full before a pause of the application lets no more out behind it."""
_TIMES = 3
"""So often by chance is too often. A paced sender spreads what is written, and BBR is quiet while it drains a queue, so
that it tells nothing else.
"""
_CHANGE_MOST = 1.5
"""By which factor one round of simulations may correct a buffer."""
_LEAST_BYTES, _MOST_BYTES = 4096.0, float(1 << 30)
_UNSEEN_ROOM = 2.0
"""A buffer that was not seen full is taken as Linux's largest, or as so many times the largest flight if that is more.
"""


@dataclass(frozen=True)
class _Pause:
    """Bytes in flight before the first of the quiet ACKs, after the last one, and before the ACK behind them."""

    before: float
    left: float
    resumed: float


def _pauses(series: Series) -> Iterator[_Pause]:
    """Outside recoveries, without the last ones: then all data was sent."""
    free = np.flatnonzero(~series.limited)
    if not len(free):
        return
    limited, flight = series.limited[: free[-1] + 1], series.flight_bytes
    changes = np.diff(np.r_[False, limited].astype(np.int8))
    for begin, end in zip(np.flatnonzero(changes == 1), np.flatnonzero(changes == -1), strict=True):
        first = max(begin - _QUIET_ACKS, 0)
        if series.in_order[first:end].all():
            left = flight[end - 1] - series.acked_bytes[end - 1]
            yield _Pause(float(flight[first : begin + 1].max()), float(left), float(flight[end]))


def most_in_flight(connection: ObservedConnection) -> float:
    """Of its subflows, bytes."""
    return max((float(s.series.flight_bytes.max(initial=0.0)) for s in connection.subflows), default=0.0)


def held_back_at(connection: ObservedConnection, first_ns: int) -> float | None:
    """The largest flight, in bytes, of a TCP connection that its send buffer held back; None: nothing shows that.

    first_ns: of the capture. On MPTCP's subflows the scheduler makes such pauses, too, so they tell nothing. Nor do
    flights that a capture at the receiver only estimates.
    """
    [subflow, *others] = connection.subflows
    series = subflow.series
    if others or connection.facts.kind != "tcp" or subflow.facts.send_times != "captured" or not len(series.time_s):
        return None
    most = most_in_flight(connection)
    pauses = [p for p in _pauses(series) if p.left >= _LEFT_LEAST * p.before]
    freed = _LEFT_MOST_PACED if subflow.facts.paced else _LEFT_MOST
    full = [p for p in pauses if p.before >= _NEAR_MOST * most and p.left <= freed * p.before]
    is_beyond = False
    if not subflow.facts.paced:
        full = [p for p in full if p.resumed - p.left >= _REFILLED * p.before]
        is_beyond = any(p.resumed >= _BEYOND * p.before for p in full)
    is_held = is_beyond or len(full) >= _TIMES
    if not is_held:
        return None
    application = written(connection, first_ns)
    return None if application is not None and application.decides else most


def simulated_most(
    run: Simulation, connections: Sequence[ObservedConnection], held_at: Sequence[float | None]
) -> list[float]:
    """As most_in_flight, in a run whose first transfers are these connections; 0 where held_at is None."""
    found, first = [], 0
    assert run.rows is not None
    for connection, recorded in zip(connections, held_at, strict=True):
        most = 0.0
        if recorded is not None:
            rows = run.rows[run.rows["subflow"] == first]
            before = rows["in_flight"].astype(float) + rows["delivered"]
            most = connection.subflows[0].facts.mss_bytes * float(before.max(initial=0.0))
        found.append(most)
        first += len(connection.subflows)
    return found


def first_guess(connection: ObservedConnection, held_at: float | None) -> float:
    """In bytes. held_at: as held_back_at returns it."""
    if held_at is not None:
        return _FIRST_GUESS * held_at
    return max(float(SEND_BUFFER_BYTES), _UNSEEN_ROOM * most_in_flight(connection))


def corrected(buffers: Sequence[float], held_at: Sequence[float | None], simulated: Array) -> tuple[float, ...]:
    """Buffers with which simulated flights reach what the recorded ones did.

    held_at: of each connection, as held_back_at returns it; where it is None the buffer stays. simulated: the largest
    flights in bytes; a row for each run, a column for each connection.
    """
    found = []
    for buffer, recorded, most in zip(buffers, held_at, np.median(simulated, axis=0), strict=True):
        if recorded is None:
            found.append(buffer)
            continue
        change = min(max(recorded / max(float(most), 1.0), 1 / _CHANGE_MOST), _CHANGE_MOST)
        found.append(min(max(buffer * change, _LEAST_BYTES), _MOST_BYTES))
    return tuple(found)
