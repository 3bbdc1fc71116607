"""Coupled increases in congestion avoidance: Coupled, LIA, OLIA, BALIA (the forms in reals)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from tests.oracles.paths import SEGMENT_BYTES, Oracle, Path, quadratic, rate, total


@dataclass
class Coupled(Oracle):
    """Kelly-Voice: I = (w_r/R_r^2)/S^2, D = w/2."""

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.counts:
            return 1 / p.cwnd
        return quadratic(p) / total(rate(q) for q in self.members(r)) ** 2


@dataclass
class CoupledFull(Oracle):
    """NSDI 2011: I = 1/W, D = W/2. A subflow without a sample counts: its window is known."""

    def whole(self) -> Fraction:
        return total(p.cwnd for p in self.paths if p.live)

    def increase(self, r: int) -> Fraction:
        return 1 / self.whole()

    def decrease(self, r: int) -> Fraction:
        return self.whole() / 2


@dataclass
class Lia(Oracle):
    """RFC 6356: I = min(max(w/R^2)/S^2, 1/w)."""

    def alpha(self) -> Fraction:
        paths = [p for p in self.paths if p.counts]
        whole = total(p.cwnd for p in paths)
        return whole * max(quadratic(p) for p in paths) / total(rate(p) for p in paths) ** 2

    def increase(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        if not p.counts:
            return 1 / p.cwnd
        coupled = max(quadratic(q) for q in members) / total(rate(q) for q in members) ** 2
        return min(coupled, 1 / p.cwnd)


def olia_sets(members: list[Path], rule: str) -> tuple[list[Path], list[Path]]:
    """M, the largest windows, and C, the best paths that are not in M."""
    largest = max(p.cwnd for p in members)
    value = {id(p): quality(p, rule) for p in members}
    best = max(value.values())
    in_m = [p for p in members if p.cwnd == largest]
    return in_m, [p for p in members if value[id(p)] == best and p.cwnd != largest]


def quality(p: Path, rule: str) -> Fraction:
    """The kernel ranks l/R^2, draft-khalili l*l/R; R as the core counts it, in units of 4 ns."""
    assert p.rtt is not None
    rtt = Fraction(floor(p.rtt * 10**9 / 4))
    return p.ell / rtt**2 if rule == "kernel" else p.ell**2 / rtt


@dataclass
class Olia(Oracle):
    """I = (w_r/R_r^2)/S^2 + alpha_r/w_r, which may be negative; D = w/2."""

    best: str = "kernel"

    def shift(self, r: int) -> Fraction:
        """alpha_r."""
        members = self.members(r)
        in_m, collected = olia_sets(members, self.best)
        p = self.paths[r]
        if not collected:
            return Fraction(0)
        if any(q is p for q in collected):
            return Fraction(1, len(members) * len(collected))
        if any(q is p for q in in_m):
            return Fraction(-1, len(members) * len(in_m))
        return Fraction(0)

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.counts:
            return 1 / p.cwnd
        return quadratic(p) / total(rate(q) for q in self.members(r)) ** 2 + self.shift(r) / p.cwnd

    def delivered(self, r: int, acked: int, marked: int) -> None:
        self.paths[r].since_bytes += acked * SEGMENT_BYTES

    def reduced(self, r: int) -> None:
        p = self.paths[r]
        if p.since_bytes:
            p.interval_bytes, p.since_bytes = p.since_bytes, 0


@dataclass
class Balia(Oracle):
    """alpha = max x/x_r; I = (x_r/R_r)/S^2 (1+alpha)/2 (4+alpha)/5, D = w/2 min(alpha, 1.5). Its floor is 1."""

    floor: Fraction = Fraction(1)

    def alpha(self, r: int) -> Fraction:
        return max(rate(q) for q in self.members(r)) / rate(self.paths[r])

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.counts:
            return 1 / p.cwnd
        alpha = self.alpha(r)
        return quadratic(p) / total(rate(q) for q in self.members(r)) ** 2 * (1 + alpha) / 2 * (4 + alpha) / 5

    def decrease(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.counts:
            return p.cwnd / 2
        return p.cwnd / 2 * min(self.alpha(r), Fraction(3, 2))
