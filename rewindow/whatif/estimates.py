"""First estimates of a bottleneck from the round trips and deliveries of the subflows that share it.

They are where the fit by simulation begins, not what it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.whatif.network import Bottleneck, mtu_bytes
from rewindow.whatif.observation import ObservedSubflow

Array = npt.NDArray[Any]

_WINDOWS_S, _STEP_SHARE = (3.0, 2.0, 1.0, 0.5, 0.25), 0.1
"""The longest with which the link was seen busy counts: rates of short windows err by the jumps of ACKs."""
_BUSY_WINDOWS = 3
_STEADY_SPREAD = 0.15
"""Of the rates of busy windows, their quartiles: where they differ more, others that are not seen take a part."""
_BACKLOG_PACKETS = 2.0
"""A queue that is never shorter than this within a window kept the link busy."""
_FULL_SHARE = 0.6
"""A loss beside a queue of this share of the longest one is taken for the queue's."""
_BURST_PACKETS, _BURST_TIMES = 5.0, 3.0
"""Lost packets, and times what chance loses of a window, beyond which a queue was full, whatever its delay was."""
_GLIMPSED_PACKETS = 20
_LATE_S = 0.02
"""ACKs further apart may have waited for a timer of the receiver."""


@dataclass(frozen=True)
class Estimate:
    """busy: whether the link was seen at its rate for some time; glimpsed: from ACK to ACK, beside a queue. full:
    whether its queue was seen full; settled: again and again, so that its length is known. random_losses: how many
    losses look random.
    """

    bottleneck: Bottleneck
    busy: bool
    glimpsed: bool
    full: bool
    settled: bool
    random_losses: int


@dataclass(frozen=True)
class _Shared:
    """All subflows of a bottleneck on one axis of time."""

    time_s: Array
    bytes: Array
    """On the wire, delivered."""
    queue_time_s: Array
    queued_s: Array


def _merged(subflows: Sequence[tuple[ObservedSubflow, str]]) -> _Shared:
    times, sizes, sampled, queued = [], [], [], []
    for s, kind in subflows:
        times.append(s.series.time_s)
        sizes.append(s.series.delivered * mtu_bytes(s, kind))
        known = ~np.isnan(s.series.rtt_s)
        if s.sees_queues and s.base_rtt_s is not None:
            sampled.append(s.series.time_s[known])
            queued.append(np.maximum(s.series.rtt_s[known] - s.base_rtt_s, 0))
    none: list[Array] = [np.empty(0)]
    time, size = np.concatenate(times or none), np.concatenate(sizes or none)
    at, wait = np.concatenate(sampled or none), np.concatenate(queued or none)
    order, order_waits = np.argsort(time, kind="stable"), np.argsort(at, kind="stable")
    return _Shared(time[order], size[order], at[order_waits], wait[order_waits])


def _rates(shared: _Shared, window_s: float) -> tuple[Array, Array]:
    """Starts of windows, and the bytes per second that were delivered in each."""
    if len(shared.time_s) < 2:
        return np.empty(0), np.empty(0)
    begin, end = shared.time_s[0], shared.time_s[-1]
    starts = np.arange(begin, max(end - window_s, begin) + 1e-9, window_s * _STEP_SHARE)
    total = np.r_[0.0, np.cumsum(shared.bytes)]
    first = np.searchsorted(shared.time_s, starts, "right")
    last = np.searchsorted(shared.time_s, starts + window_s, "right")
    # From ACK to ACK: what the first one delivered was sent before.
    spans = shared.time_s[np.maximum(last - 1, 0)] - shared.time_s[np.minimum(first, len(shared.time_s) - 1)]
    delivered = total[last] - total[np.minimum(first + 1, len(total) - 1)]
    some = (last - first > 4) & (spans > window_s / 2)
    return starts[some], delivered[some] / spans[some]


def _rate(shared: _Shared, packet_bytes: float) -> tuple[float, bool]:
    """Bytes per second, and whether the link was busy; 0 where too little was delivered."""
    fastest = 0.0
    for window_s in _WINDOWS_S:
        starts, rates = _rates(shared, window_s)
        if not len(rates):
            continue
        fastest = max(fastest, float(rates.max()))
        backlogged = _least_waits(shared, starts, window_s) > _BACKLOG_PACKETS * packet_bytes / fastest
        if np.count_nonzero(backlogged) >= _BUSY_WINDOWS:
            low, middle, high = np.percentile(rates[backlogged], (25, 50, 75))
            if high - low <= _STEADY_SPREAD * middle and middle >= (1 - _STEADY_SPREAD) * fastest:
                return float(middle), True
    return fastest, False


def _least_waits(shared: _Shared, starts: Array, window_s: float) -> Array:
    """For each window a low percentile of the queueing delay; 0 where there is no sample."""
    found = np.zeros(len(starts))
    first = np.searchsorted(shared.queue_time_s, starts)
    last = np.searchsorted(shared.queue_time_s, starts + window_s)
    for i, (a, b) in enumerate(zip(first, last, strict=True)):
        if b > a:
            found[i] = np.percentile(shared.queued_s[a:b], 5)
    return found


def estimate(subflows: Sequence[tuple[ObservedSubflow, str]]) -> Estimate:
    """Of the bottleneck that these subflows share. The kind of its connection stands beside each."""
    shared = _merged(subflows)
    packet = float(np.mean([mtu_bytes(s, kind) for s, kind in subflows]))
    rate, busy = _rate(shared, packet)
    if not rate:
        return Estimate(Bottleneck(1e6, None, None, 0.0), False, False, False, False, 0)
    glimpsed = None if busy else _rate_between_acks(shared, packet)
    if glimpsed is not None:
        rate = max(rate, glimpsed)
    longest = float(np.percentile(shared.queued_s, 99.5)) if len(shared.queued_s) else 0.0
    losses = _causes_of_losses(subflows, shared, longest, packet / rate)
    settled = busy and len(losses.full_waits_s) > len(losses.random) / 4
    full = settled or losses.bursts
    if not settled and losses.bursts:
        longest = max(losses.full_waits_s)
    # Round trips of handshakes lack the transmission of a whole segment, so waits beside them have it.
    own_transmission = sum(s.base_of_handshake for s, _ in subflows) / len(subflows)
    queue = max(longest * rate / packet - own_transmission, 2.0)
    marking = _marking(subflows, shared)
    sent = sum(s.facts.packets for s, _ in subflows)
    random = losses.random if full else [*losses.random, *losses.full_lost]
    return Estimate(
        Bottleneck(
            rate_bps=rate * 8,
            queue_packets=queue if full else None,
            ecn_packets=None if marking is None else max(marking * rate / packet, 1.0),
            loss=float(sum(random)) / sent if sent else 0.0,
        ),
        busy, glimpsed is not None, full, settled, len(random),
    )  # fmt: skip


def _rate_between_acks(shared: _Shared, packet_bytes: float) -> float | None:
    """Bytes per second over all times that are shorter than the packets before them queued; None: there are few.

    While packets queue, the link sends one after the other.
    """
    if len(shared.time_s) < 2 or not len(shared.queue_time_s):
        return None
    gaps = np.diff(shared.time_s)
    waits = shared.queued_s[np.maximum(np.searchsorted(shared.queue_time_s, shared.time_s[1:], "right") - 1, 0)]
    backlogged = (gaps < waits) & (gaps < _LATE_S)
    delivered, lasted = float(shared.bytes[1:][backlogged].sum()), float(gaps[backlogged].sum())
    return delivered / lasted if delivered > _GLIMPSED_PACKETS * packet_bytes and lasted > 0 else None


def _wait_before(shared: _Shared, at_s: float, span_s: float) -> float:
    """The longest queueing delay in the round trip before a time; 0 where there is no sample."""
    first, last = np.searchsorted(shared.queue_time_s, (at_s - span_s, at_s))
    return float(shared.queued_s[first:last].max()) if last > first else 0.0


@dataclass(frozen=True)
class _Losses:
    """random: for each loss beside a queue with room how many packets. full_lost, full_waits_s: of each other one, with
    the queueing delay before it. bursts: whether so many packets were lost at once that a queue must have been full.
    """

    random: list[float]
    full_lost: list[float]
    full_waits_s: list[float]
    bursts: bool


def _causes_of_losses(
    subflows: Sequence[tuple[ObservedSubflow, str]], shared: _Shared, longest_s: float, packet_s: float
) -> _Losses:
    """packet_s: how long the link takes for a packet."""
    found = _Losses([], [], [], False)
    bursts = False
    chance = sum(len(s.series.losses_s) for s, _ in subflows) / max(sum(s.facts.packets for s, _ in subflows), 1)
    for s, _ in subflows:
        for at_s, lost in zip(s.series.losses_s, s.series.lost, strict=True):
            wait = _wait_before(shared, at_s, 2 * (s.base_rtt_s or 0.0) + longest_s)
            by_chance = chance * ((s.base_rtt_s or 0.0) + wait) / packet_s
            burst = s.sees_queues and lost > _BURST_PACKETS + _BURST_TIMES * by_chance and wait > packet_s
            bursts |= bool(burst)
            if burst or not s.sees_queues or wait >= _FULL_SHARE * longest_s:
                found.full_lost.append(float(lost))
                found.full_waits_s.append(wait)
            else:
                found.random.append(float(lost))
    return replace(found, bursts=bursts)


def _marking(subflows: Sequence[tuple[ObservedSubflow, str]], shared: _Shared) -> float | None:
    """The queueing delay around ECN's marks, seconds; None: nothing was marked."""
    waits = [_wait_before(shared, at_s, s.base_rtt_s or 0.0) for s, _ in subflows for at_s in s.series.marks_s]
    return float(np.median(waits)) if waits else None
