"""NMCC and e-NMCC: growth rates normalised to that of the best path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tests.oracles.paths import FIRST_THRESHOLD, Oracle, Path, Setting, rate, slow_start, total


def growth_rate(p: Path) -> Fraction:
    """Omega: 1/R^2 in congestion avoidance, w/R^2 in slow start."""
    assert p.rtt is not None
    return (p.window if p.in_slow_start else 1) / p.rtt**2


@dataclass
class Nmcc(Oracle):
    """Each step is Reno's over m^2 = sum Omega / max Omega, in slow start too."""

    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

    def m_squared(self, r: int) -> Fraction:
        if not self.paths[r].counts:
            return Fraction(1)
        rates = [growth_rate(p) for p in self.members(r)]
        return total(rates) / max(rates)

    def grow(self, r: int, acked: int) -> None:
        """m is that of the ACK's arrival: what is left at ssthresh is divided by it too."""
        p = self.paths[r]
        rest = slow_start(p, acked / self.m_squared(r))
        if rest:
            p.cwnd += rest / p.cwnd


@dataclass
class Enmcc(Nmcc):
    """And D = w/2 m_th, m_th = max p S^2 / sum p x^2 within [1, min(cap, n)], p = 2/max_packets_out^2."""

    results = frozenset({"m_th", "m_th_clamped"})
    settings: ClassVar[Mapping[str, Setting]] = Nmcc.settings | {
        "mth_cap": Setting("cap", {"2": Fraction(2), "1.25": Fraction(5, 4), "1": Fraction(1)})
    }

    cap: Fraction = Fraction(2)

    def m_th_raw(self, r: int) -> Fraction:
        members = self.members(r)
        p = [2 / (q.peak or q.window) ** 2 for q in members]
        x = [rate(q) for q in members]
        return max(p) * total(x) ** 2 / total(a * b**2 for a, b in zip(p, x, strict=True))

    def m_th(self, r: int) -> Fraction:
        if not self.paths[r].counts:
            return Fraction(1)
        return max(min(self.m_th_raw(r), self.cap, Fraction(len(self.members(r)))), Fraction(1))

    def decrease(self, r: int) -> Fraction:
        return self.paths[r].cwnd / 2 * self.m_th(r)


@dataclass
class EnmccPlus(Nmcc):
    """Slow start as NMCC's, NewReno afterwards (TCCC paper V.B: the bottleneck is then known not to be shared)."""

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if not p.in_slow_start:
            p.cwnd += acked / p.cwnd
            return
        m_squared = self.m_squared(r)
        rest = slow_start(p, acked / m_squared)
        if rest:
            p.cwnd += rest * m_squared / p.cwnd
