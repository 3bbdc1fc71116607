"""The round trip without queue of a whole segment, from a capture that may show short packets and queues only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewindow.whatif.network import Bottleneck, handshake_bytes, mtu_bytes
from rewindow.whatif.observation import ObservedSubflow

Array = npt.NDArray[Any]
Member = tuple[ObservedSubflow, str]
"""A subflow, and the kind of its connection."""

LATE_S, _LATE_TIMES = 0.02, 4.0
"""ACKs further apart, and by so many times what they mostly are, may have waited for a timer of the receiver."""
_SAME_TIME_S = 0.02
"""Samples of two subflows that are no further apart saw one queue."""
_POINTS_MIN, _POINTS_ENOUGH = 8, 400
_STANDING_S = 0.003
"""A queue that a subflow never saw shorter, at least: by less, delays of receivers differ. Nor is it told by
differences that vary more than it is long: recoveries and delayed ACKs shift their median."""
_LEAST_SEEN, _OF_A_SEGMENT = 5, 0.25
"""A shortest round trip is as sure as so many are alike. Of a handshake alone it is some tenths of a millisecond too
long: hosts were asleep. By what part of a segment's transmission it is off decides who loses at a full queue (phase
effects: Floyd, Jacobson 1992), so no more than a part of that is added for chance.
"""
_LAGS, _LAG_TELLS = 17, 0.5
"""Of so many lags between two subflows the best one counts, if differences vary less than so much of without a lag."""


def packet_bytes(members: Sequence[Member]) -> float:
    """Of a packet of these subflows, on the mean over their packets, if each is whole."""
    packets = [max(s.facts.packets, 1) for s, _ in members]
    return float(np.average([mtu_bytes(s, kind) for s, kind in members], weights=packets))


def may_be_late(subflow: ObservedSubflow) -> Array:
    """ACKs of data in order that a timer of the receiver may have delayed."""
    gaps = np.diff(subflow.series.time_s)
    if not len(gaps):
        return np.zeros(len(subflow.series.time_s), bool)
    late: Array = np.r_[False, gaps > max(LATE_S, _LATE_TIMES * float(np.median(gaps)))]
    return subflow.series.in_order & late


class _Samples(NamedTuple):
    """Round trips as a whole segment would have had them: first the handshake's, then of data."""

    times_s: Array
    round_trips_s: Array


def _samples(subflow: ObservedSubflow, kind: str, bottleneck: Bottleneck) -> _Samples:
    """At the bottleneck's rate.

    The last segment that an ACK acknowledges is the one that the ACK answers. Where something was sent again, the
    sample is that of a timestamp, in whole milliseconds.
    """
    s = subflow.series
    known = ~np.isnan(s.rtt_s) & s.in_order & (s.acked_bytes > 0)
    fine = known & (np.rint(np.nan_to_num(s.rtt_s) * 1e6) % 1000 != 0)
    known = fine if fine.any() else known
    whole, mss = mtu_bytes(subflow, kind), max(subflow.facts.mss_bytes, 1)
    times, round_trips = s.time_s[known], s.rtt_s[known]
    sizes = whole - (-s.acked_bytes[known]) % mss
    if subflow.facts.handshake_rtt_us:
        times = np.r_[times[0] - round_trips[0] if len(times) else 0.0, times]
        round_trips = np.r_[subflow.facts.handshake_rtt_us / 1e6, round_trips]
        sizes = np.r_[handshake_bytes(subflow, kind), sizes]
    own = sizes * 8 / bottleneck.rates_at(times)
    return _Samples(times, np.maximum(round_trips - own, 0.0) + whole * 8 / bottleneck.rate_bps)


def _at(samples: _Samples, wanted: Array) -> Array:
    """The round trips nearest to these times; NaN: none is near."""
    times = samples.times_s
    after = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
    nearest = np.where(wanted - times[after - 1] < times[after] - wanted, after - 1, after)
    near = np.abs(times[nearest] - wanted) <= _SAME_TIME_S
    found: Array = np.where(near, samples.round_trips_s[nearest], np.nan)
    return found


class _Apart(NamedTuple):
    """By how many seconds round trips differ: the median, and a robust standard deviation; inf: too few are near."""

    middle: float
    spread: float


def _apart(own: _Samples, other: _Samples, lag_s: float) -> _Apart:
    """lag_s: how much later the other's samples are taken to be."""
    some = slice(None, None, 1 + len(own.times_s) // _POINTS_ENOUGH)
    apart = own.round_trips_s[some] - _at(other, own.times_s[some] - lag_s)
    apart = apart[~np.isnan(apart)]
    if len(apart) < _POINTS_MIN:
        return _Apart(0.0, np.inf)
    middle = float(np.median(apart))
    return _Apart(middle, 1.4826 * float(np.median(np.abs(apart - middle))))


class _Told(NamedTuple):
    base_s: float
    spread_s: float


def _beside(own: _Samples, base_s: float, other: _Samples) -> _Told | None:
    """The round trip without queue as another subflow's round trips at the same times tell it; None: they do not."""
    seen_s, least = own.times_s[np.argmin(own.round_trips_s)], float(other.round_trips_s.min())
    queued = float(np.interp(seen_s, other.times_s, other.round_trips_s, left=least, right=least)) - least
    if queued <= _STANDING_S:
        return None
    apart = _apart(own, other, 0.0)
    # Of two packets that left the queue together, the ACKs come as far apart as what is behind the queue differs.
    lags = np.linspace(-1.0, 1.0, _LAGS) * abs(base_s - least)
    lagged = min((_apart(own, other, float(lag)) for lag in lags), key=lambda a: a.spread)
    if lagged.spread < _LAG_TELLS * apart.spread:
        apart = lagged
    told = _Told(least + apart.middle, apart.spread)
    return told if base_s - told.base_s > max(_STANDING_S, told.spread_s) else None


def base_rtts_s(members: Sequence[Member], bottleneck: Bottleneck) -> list[float | None]:
    """Of each subflow of a bottleneck: the round trip of a whole segment without queue, at the bottleneck's rate.

    None: no round trip is known. A short subflow may have seen the queue of others at all times. Their round trips at
    the same times tell how long it was.
    """
    samples = [_samples(subflow, kind, bottleneck) for subflow, kind in members]
    found: list[float | None] = []
    for (subflow, _), own in zip(members, samples, strict=True):
        if not len(own.times_s):
            found.append(subflow.shortest_rtt_s)
            continue
        base_s = float(own.round_trips_s.min())
        others = [other for other in samples if other is not own and len(other.times_s) > 1]
        told = [t for other in others if (t := _beside(own, base_s, other)) is not None]
        found.append(min(told, key=lambda t: t.spread_s).base_s if told else base_s)
    return found


def base_rtt_errors_s(members: Sequence[Member], bottleneck: Bottleneck) -> list[float]:
    """By how much of each subflow base_rtts_s may be too long: the scale of a half-normal distribution, in seconds."""
    found = []
    for subflow, kind in members:
        least = np.sort(_samples(subflow, kind, bottleneck).round_trips_s)[:_LEAST_SEEN]
        apart_s = float(least[-1] - least[0]) if len(least) == _LEAST_SEEN else np.inf
        found.append(min(apart_s, _OF_A_SEGMENT * mtu_bytes(subflow, kind) * 8 / bottleneck.rate_bps))
    return found
