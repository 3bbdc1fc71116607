"""Jitter: delays that packets have beside those of queues, and that differ from one packet to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewindow.whatif.network import mtu_bytes
from rewindow.whatif.round_trips import LATE_S, Member

Array = npt.NDArray[Any]

_SAMPLES = 8
"""In one window: few enough that its queue changes by little."""
_GAPS_LEAST = 200
_TOO_FAST, _OFTEN_TOO_FAST = 1.3, 0.25
"""Times the link's rate: so fast its packets cannot come, unless they waited for one another behind it; and how many of
the bytes must."""
_NEAR, _WIDTH, _REGULAR = 8.0, 0.05, 0.15
"""A link shows itself, whatever else is on it: within so many times the rate there is one, this width of its logarithm,
at which so many of the bytes come."""
_SMOOTH_PACKETS = 1.5
"""By how much round trips in a window differ without jitter: an ACK may answer two packets."""
_RANGE = 4.0
"""By how many times the jitter they do with it: of simulations."""


def unevenness_s(waits_s: Array) -> float:
    """By how much samples that follow one another differ: the median over windows; 0 where there are too few.

    waits_s: round trips or queueing delays, in order of time.
    """
    count = len(waits_s) // _SAMPLES * _SAMPLES
    return float(np.median(np.ptp(waits_s[:count].reshape(-1, _SAMPLES), axis=1))) if count else 0.0


def jitter_s(members: Sequence[Member], bytes_per_s: float) -> float | None:
    """Of the path through a bottleneck with this rate: the mean of what is added to the delay of a packet or an ACK.

    None: ACKs come as the packets of a link do. That they do not tells jitter from queues that change fast.
    """
    seeing = [m for m in members if m[0].sees_queues]
    if not seeing:
        return None
    largest = max(seeing, key=lambda m: m[0].facts.bytes)
    all_of, own = _rates(members, bytes_per_s), _rates([largest], bytes_per_s)
    if len(own.log) < _GAPS_LEAST or all_of.share_from(np.log(_TOO_FAST)) < _OFTEN_TOO_FAST:
        return None
    if own.densest(np.log(_NEAR)) >= _REGULAR:
        return None
    subflow, kind = largest
    waits_s = subflow.series.rtt_s[~np.isnan(subflow.series.rtt_s)]
    beyond_s = unevenness_s(waits_s) - _SMOOTH_PACKETS * mtu_bytes(subflow, kind) / bytes_per_s
    return beyond_s / _RANGE if beyond_s > 0 else None


class _Rates(NamedTuple):
    """From ACK to ACK, in order: logarithms of times the link's rate, and the bytes up to each of them."""

    log: Array
    sums: Array

    def share_from(self, log: float) -> float:
        """Of the bytes, at this rate and beyond it."""
        return float(1 - self.sums[np.searchsorted(self.log, log)] / self.sums[-1])

    def densest(self, near: float) -> float:
        """The largest share of the bytes in one _WIDTH, that begins no further than this from the link's rate."""
        ends = np.searchsorted(self.log, self.log + _WIDTH, "right")
        shares = (self.sums[ends] - self.sums[:-1]) / self.sums[-1]
        return float(shares[np.abs(self.log) < near].max(initial=0.0))


def _rates(members: Sequence[Member], bytes_per_s: float) -> _Rates:
    """Of the ACKs of all members."""
    times_s = np.concatenate([s.series.time_s for s, _ in members])
    order = np.argsort(times_s, kind="stable")
    in_order = np.concatenate([s.series.in_order for s, _ in members])[order]
    delivered = np.concatenate([s.series.delivered * mtu_bytes(s, kind) for s, kind in members])[order][1:]
    gaps_s = np.diff(times_s[order])
    some = in_order[1:] & (delivered > 0) & (gaps_s < LATE_S)
    log = np.log(delivered[some] / np.maximum(gaps_s[some], 1e-9) / bytes_per_s)
    by_rate = np.argsort(log)
    return _Rates(log[by_rate], np.r_[0.0, np.cumsum(delivered[some][by_rate])])
