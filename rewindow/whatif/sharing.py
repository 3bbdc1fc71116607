"""Whether two subflows share a bottleneck, as the times of their ACKs tell.

A link sends one packet after the other. So the ACKs of two subflows that share it are a packet's time or more apart,
and those of subflows that do not are nearer as often as a little further apart. (Katabi, Blake 2001 use the entropy of
such times. A distance that is never less is the refractory period of a neuron, and is found in the same way: by a
histogram of the distances.) Where the ways after the bottleneck differ in length, the empty place of the histogram is
at that difference.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.whatif.estimates import RateBetweenAcks, rate_between_acks
from rewindow.whatif.network import mtu_bytes
from rewindow.whatif.observation import ObservedSubflow, Series
from rewindow.whatif.round_trips import Member, may_be_late

Array = npt.NDArray[Any]

_TOLERANCE = 0.03
"""In the logarithm of a rate."""
_TELLS, _TELLS_ALONE = 0.4, 0.6
"""Of the bytes, how many come at one rate, at least: where the subflow alone tells how long a packet takes, and where
it tells whose link it is, or both together tell the rate."""
_RATES_DIFFER = 0.05

_NEAR, _AROUND = 0.75, 20
"""Packet times: nearer ACKs are too near for one link, and those up to the other one tell how many to expect."""
_STEPS = 8
"""Of a packet time: the histogram's."""
_DISTANCES_MOST = 2_000_000
_WAY_MOST_S = 0.2
"""How far the ways after the bottleneck may differ in length, at most. Nor do they by more than a round trip."""
_EXPECTED_HERE, _EXPECTED_ELSEWHERE = 8.0, 200.0
"""ACKs too near for one link, at least, to tell: where the ways are alike, and at any difference of the ways."""
_SHARED, _APART = 0.3, 0.5
"""Of the ACKs that are expected too near: the share that is seen at most, or at least."""

_WINDOW_S, _WINDOW_PACKETS, _WINDOWS = 0.1, 16, 4
_QUEUED_PACKETS = 1.5
_SUM_LEAST, _SUM_MOST, _SUM_SPREAD = 0.9, 1.06, 0.05
"""Of the link's rate: what both deliver together while both queue, and the distance of its quartiles."""


def shares(first: Member, second: Member) -> bool | None:
    """None: the capture does not tell, or tells both."""
    begin = max(s.series.time_s[0] if len(s.series.time_s) else np.inf for s, _ in (first, second))
    end = min(s.series.time_s[-1] if len(s.series.time_s) else -np.inf for s, _ in (first, second))
    if end <= begin:
        return None
    pair = tuple((_between(s, begin, end), kind) for s, kind in (first, second))
    alone = [rate_between_acks([member], _TOLERANCE) for member in pair]
    known = [found for found in alone if found and found.agreeing >= _TELLS]
    if not known:
        together = rate_between_acks(pair, _TOLERANCE)
        known = [together] if together and together.agreeing >= _TELLS_ALONE else []
    if not known:
        return None
    rate = max(known, key=lambda found: found.agreeing).bytes_per_s
    packet_s = max(mtu_bytes(s, kind) for s, kind in pair) / rate
    told = {_by_rates(alone), _by_distances(pair, packet_s, len(known) == len(pair)), _by_sum(pair, rate, packet_s)}
    told.discard(None)
    return told.pop() if len(told) == 1 else None


def _between(subflow: ObservedSubflow, begin_s: float, end_s: float) -> ObservedSubflow:
    """Its ACKs in this time."""
    series = subflow.series
    some = (series.time_s >= begin_s) & (series.time_s <= end_s)
    by_ack = {f.name: getattr(series, f.name) for f in fields(Series)}
    cut = {name: values[some] for name, values in by_ack.items() if name not in ("losses_s", "lost", "marks_s")}
    return replace(subflow, series=replace(series, **cut))


def _by_rates(alone: list[RateBetweenAcks | None]) -> bool | None:
    """Links of different rates are two. What share one agrees about its rate, but so may two links."""
    regular = [found.bytes_per_s for found in alone if found and found.agreeing >= _TELLS_ALONE]
    return False if len(regular) == len(alone) and abs(np.log(regular[0] / regular[1])) > _RATES_DIFFER else None


def _distances(pair: tuple[Member, ...], packet_s: float) -> tuple[Array, Array]:
    """For each difference of the ways, from -most to +most in steps: how many ACKs are too near for one link, and how
    many are expected to be. Empty: none are.
    """
    a, b = (s.series.time_s[(s.series.delivered >= 1) & ~may_be_late(s)] for s, _ in pair)
    ways_s = min(_WAY_MOST_S, max(s.shortest_rtt_s or 0.0 for s, _ in pair))
    reach = int(np.ceil(ways_s / packet_s)) + _AROUND
    first, last = np.searchsorted(b, a - reach * packet_s), np.searchsorted(b, a + reach * packet_s)
    some = slice(None, None, 1 + int((last - first).sum()) // _DISTANCES_MOST)
    a, first, count = a[some], first[some], (last - first)[some]
    if not count.sum():
        return np.empty(0), np.empty(0)
    begins = np.cumsum(count) - count
    others = np.arange(count.sum()) - np.repeat(begins - first, count)
    steps = np.rint((b[others] - np.repeat(a, count)) / packet_s * _STEPS).astype(int) + reach * _STEPS
    histogram = np.bincount(steps[(steps >= 0) & (steps <= 2 * reach * _STEPS)], minlength=2 * reach * _STEPS + 1)
    near = np.convolve(histogram, np.ones(2 * int(_NEAR * _STEPS) + 1), "same")
    around = np.ones(2 * _AROUND * _STEPS + 1)
    whole = slice(_AROUND * _STEPS, len(near) - _AROUND * _STEPS)
    return near[whole], (np.convolve(near, around / len(around), "same"))[whole]


def _by_distances(pair: tuple[Member, ...], packet_s: float, both_tell: bool) -> bool | None:
    """both_tell: the ACKs of each come as a link's packets do, so those of two on one link would, too."""
    near, expected = _distances(pair, packet_s)
    if not len(near):
        return None
    here = len(near) // 2
    if expected[here] >= _EXPECTED_HERE and near[here] < _SHARED * expected[here]:
        return True
    many = expected >= _EXPECTED_ELSEWHERE
    if not many[here]:
        return None
    least = float((near[many] / expected[many]).min())
    if least < _SHARED:
        return True
    return False if least >= _APART and both_tell else None


def _by_sum(pair: tuple[Member, ...], rate: float, packet_s: float) -> bool | None:
    """rate: of the link, bytes per second. Two that queue at one link deliver as much as it can, together."""
    window_s = max(_WINDOW_S, _WINDOW_PACKETS * packet_s)
    begin, end = (pair[0][0].series.time_s[i] for i in (0, -1))
    edges = np.arange(begin, end, window_s)
    if len(edges) <= _WINDOWS:
        return None
    busy, delivered = np.ones(len(edges) - 1, bool), np.zeros(len(edges) - 1)
    for s, kind in pair:
        total = np.r_[0.0, np.cumsum(s.series.delivered * mtu_bytes(s, kind))]
        own = np.diff(total[np.searchsorted(s.series.time_s, edges)])
        sampled = ~np.isnan(s.series.rtt_s)
        place = np.searchsorted(s.series.time_s[sampled], edges)
        waits = np.r_[s.series.rtt_s[sampled] - (s.shortest_rtt_s or 0.0), np.inf]
        shortest = np.array([waits[i:j].min() if j > i else 0.0 for i, j in pairwise(place)])
        busy &= (own > 0) & (shortest > _QUEUED_PACKETS * packet_s)
        delivered += own
    if np.count_nonzero(busy) < _WINDOWS:
        return None
    low, middle, high = np.percentile(delivered[busy] / (rate * window_s), (25, 50, 75))
    return True if _SUM_LEAST <= middle <= _SUM_MOST and high - low <= _SUM_SPREAD else None
