"""Forward prediction: what FPS and SB-FPS expect faster subflows to send."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf


@dataclass
class Sending:
    """A subflow for forward prediction; ssthresh None: in congestion avoidance."""

    cwnd: Fraction
    rtt: Fraction
    ssthresh: Fraction | float | None = None
    beta: Fraction = Fraction(1)
    group: int = 0
    recovering: bool = False

    @property
    def window(self) -> Fraction:
        if self.recovering and self.ssthresh is not None and self.ssthresh != inf:
            return Fraction(self.ssthresh)
        return self.cwnd

    @property
    def slow_start(self) -> bool:
        return not self.recovering and self.ssthresh is not None and self.cwnd < self.ssthresh


FORWARD_MAX = Fraction(1 << 37)
"""What one subflow is predicted to send at most."""


def _rounds(subflows: list[Sending], j: int, r: int, horizon: str) -> Fraction:
    span = subflows[j].rtt if horizon == "half_rtt" else subflows[j].rtt - subflows[r].rtt
    return span / 2 / subflows[r].rtt


def _whole_rounds(p: Sending, rounds: Fraction) -> Fraction:
    left, w, total = rounds.__floor__(), p.window, Fraction(0)
    while left and p.slow_start and p.ssthresh is not None and w < p.ssthresh and total < FORWARD_MAX:
        total += w
        w = min(2 * w, Fraction(p.ssthresh)) if p.ssthresh != inf else 2 * w
        left -= 1
    return min(total + left * w + Fraction(left * (left - 1), 2), FORWARD_MAX)


def fps_forward(subflows: list[Sending], j: int, horizon: str) -> list[Fraction | None]:
    """M_r of each subflow that is faster than j."""
    return [
        _whole_rounds(p, _rounds(subflows, j, r, horizon)) if p.rtt < subflows[j].rtt else None
        for r, p in enumerate(subflows)
    ]


def _rounds_for_one_segment(subflows: list[Sending], p: Sending) -> Fraction | None:
    """m_r (eq. 7); None: never."""
    members = [k for k in subflows if p.group and k.group == p.group]
    if len(members) < 2:
        return Fraction(1)
    total = sum((k.window for k in members), Fraction(0))
    best = max(k.window / k.rtt**2 for k in members)
    a = p.beta * total * best / sum((k.window / k.rtt for k in members), Fraction(0)) ** 2
    return max(total / (a * p.window), Fraction(1)) if a else None


def sbfps_forward(subflows: list[Sending], j: int, horizon: str) -> list[Fraction | None]:
    """M_r of each subflow that is faster than j (eq. 8 and 9); in slow start that of FPS."""
    found: list[Fraction | None] = []
    for r, p in enumerate(subflows):
        if p.rtt >= subflows[j].rtt:
            found.append(None)
            continue
        rounds = _rounds(subflows, j, r, horizon)
        if p.slow_start:
            found.append(_whole_rounds(p, rounds))
            continue
        m = _rounds_for_one_segment(subflows, p)
        growth = rounds / m if m else Fraction(0)
        found.append(min(rounds / 2 * (2 * p.window + growth - 1), FORWARD_MAX))
    return found
