"""Traffic that shares a bottleneck with the subflows of a capture, and is not in the capture.

A packet that waits has the packets before it in the queue. What of them is the subflows' own is in the capture: all
that was delivered between its arrival at the queue and its departure. The rest is unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.whatif.network import Bottleneck, Unseen, mtu_bytes
from rewindow.whatif.round_trips import Member, may_be_late, packet_bytes

Array = npt.NDArray[Any]

_QUEUE_PACKETS = 3.0
"""Shorter queues tell nothing: a round trip varies by a packet or two."""
_REST_PACKETS, _REST_SHARE = 3.0, 0.25
"""Of the queue that is not the subflows': less may be round trips that vary, or own packets of unknown round trips."""
_SAMPLES_LEAST = 20
_WINDOW_S, _WINDOW_PACKETS, _JOINED_S = 0.25, 30, 0.75
"""Windows, and how far apart two of them are with unseen traffic that was there in between, too."""
_SAMPLES_MIN, _SEEN_LEAST, _WINDOWS_LEAST = 5, 0.3, 0.28
"""Of the samples of a window, how many had unseen packets before them, at least; and of the windows, how many are such.
Of networks whose traffic is known, fewer are: round trips vary where ACKs wait for each other."""
_BEFORE_ROUND_TRIPS, _BEFORE_LEAST_S, _BEFORE_MOST_S = 20, 1.0, 10.0
"""How long before the capture unseen traffic began that was there when the subflows came: until it is steady."""
_GROWS_ROUND_TRIPS = 4
"""How long before it was first seen other traffic began: until there was a queue."""


def unseen(members: Sequence[Member], bases_s: Sequence[float | None], bottleneck: Bottleneck) -> Unseen | None:
    """bases_s: for each subflow the round trip without queue. bottleneck: its rate must be the link's own. None: all
    that queued is in the capture, or too little did.

    The times are since the capture's first packet. Where it was there at the first sample, it began before.
    """
    arrived_s, left_s = _waits(members, bases_s)
    packet = packet_bytes(members)
    if len(left_s) < _SAMPLES_LEAST:
        return None
    queues = (left_s - arrived_s) * bottleneck.rates_at(left_s) / 8
    rest = np.maximum(queues - _delivered(members, arrived_s, left_s), 0.0)
    long = queues > _QUEUE_PACKETS * packet
    others = long & (rest > np.maximum(_REST_PACKETS * packet, _REST_SHARE * queues))
    window_s = max(_WINDOW_S, _WINDOW_PACKETS * packet * 8 / bottleneck.rate_bps)
    periods = _periods(left_s, others, window_s)
    if not periods:
        return None
    base_s = max((b or 0.0) for b in bases_s)
    if rest[0] > _REST_PACKETS * packet:
        longest_s = base_s + float(np.percentile(left_s - arrived_s, 90))
        before_s = min(max(_BEFORE_ROUND_TRIPS * longest_s, _BEFORE_LEAST_S), _BEFORE_MOST_S)
        periods[0] = (-before_s, periods[0][1])
    else:
        first_s = float(left_s[np.argmax(others)])
        periods[0] = (max(first_s - _GROWS_ROUND_TRIPS * base_s, 0.0), periods[0][1])
    if periods[-1][1] >= left_s[-1] - window_s:
        periods[-1] = (periods[-1][0], np.inf)
    share = float(rest[others].sum() / queues[others].sum())
    return Unseen(
        algorithm=None, rate_bps=share * bottleneck.rate_bps, rtt_s=base_s,
        periods_s=tuple(periods),
    )  # fmt: skip


def _waits(members: Sequence[Member], bases_s: Sequence[float | None]) -> tuple[Array, Array]:
    """Of each packet whose round trip is known, of all members, in order of the second: when it came to the queue, and
    when it left, as seen where ACKs are. Handshakes are such packets.
    """
    arrived, left = [np.empty(0)], [np.empty(0)]
    for (s, _), base_s in zip(members, bases_s, strict=True):
        known = ~np.isnan(s.series.rtt_s) & s.series.in_order & ~may_be_late(s)
        if not s.sees_queues or base_s is None or not known.any():
            continue
        times_s, round_trips_s = s.series.time_s[known], s.series.rtt_s[known]
        if s.facts.handshake_rtt_us:
            times_s = np.r_[times_s[0] - round_trips_s[0], times_s]
            round_trips_s = np.r_[s.facts.handshake_rtt_us / 1e6, round_trips_s]
        left.append(times_s)
        arrived.append(times_s - np.maximum(round_trips_s - base_s, 0.0))
    arrived_s, left_s = np.concatenate(arrived), np.concatenate(left)
    order = np.argsort(left_s, kind="stable")
    return arrived_s[order], left_s[order]


def _delivered(members: Sequence[Member], after_s: Array, before_s: Array) -> Array:
    """Bytes on the wire that the link carried for all members in each of these times."""
    times_s = np.concatenate([s.series.time_s for s, _ in members])
    order = np.argsort(times_s, kind="stable")
    sizes = np.concatenate([s.series.delivered * mtu_bytes(s, kind) for s, kind in members])[order]
    total, times_s = np.r_[0.0, np.cumsum(sizes)], times_s[order]
    found: Array = total[np.searchsorted(times_s, before_s)] - total[np.searchsorted(times_s, after_s, "right")]
    return np.maximum(found, 0.0)


def _periods(times_s: Array, others: Array, window_s: float) -> list[tuple[float, float]]:
    """When unseen packets were in the queue. times_s, others: of samples, and whether they had such before them."""
    windows = (times_s / window_s).astype(int)
    number, place, count = np.unique(windows, return_inverse=True, return_counts=True)
    tells = count >= _SAMPLES_MIN
    seen = tells & (np.bincount(place, others) >= _SEEN_LEAST * count)
    if np.count_nonzero(seen) < max(_WINDOWS_LEAST * np.count_nonzero(tells), 1):
        return []
    found: list[tuple[float, float]] = []
    for begin in number[seen] * window_s:
        if found and begin - found[-1][1] <= max(_JOINED_S, window_s):
            found[-1] = (found[-1][0], float(begin + window_s))
        else:
            found.append((float(begin), float(begin + window_s)))
    return found
