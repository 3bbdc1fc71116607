"""Coupled increases in congestion avoidance: Coupled, LIA, OLIA, BALIA (the forms in reals)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import ClassVar

from tests.oracles.paths import FIRST_THRESHOLD, SEGMENT_BYTES, Oracle, Path, Setting, Word, quadratic, rate, total


@dataclass
class Coupled(Oracle):
    """Kelly-Voice: I = (w_r/R_r^2)/S^2, D = w/2."""

    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.counts:
            return 1 / p.cwnd
        return quadratic(p) / total(rate(q) for q in self.members(r)) ** 2


@dataclass
class CoupledFull(Oracle):
    """NSDI 2011: I = 1/W, D = W/2. A subflow without a sample counts: its window is known."""

    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

    def whole(self, r: int) -> Fraction:
        """What r has just lost counts as it was."""
        return total(p.cwnd if p is self.paths[r] else p.window for p in self.paths if p.live)

    def increase(self, r: int) -> Fraction:
        return 1 / self.whole(r)

    def decrease(self, r: int) -> Fraction:
        return self.whole(r) / 2


@dataclass
class Lia(Oracle):
    """RFC 6356: I = min(max(w/R^2)/S^2, 1/w)."""

    results = frozenset({"acks_threshold"})
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

    def increase(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        if not p.counts:
            return 1 / p.cwnd
        coupled = max(quadratic(q) for q in members) / total(rate(q) for q in members) ** 2
        return min(coupled, 1 / p.cwnd)


@dataclass
class OliaPath(Path):
    interval_bytes: int = 0
    """Acknowledged between the last two losses."""
    since_bytes: int = 0
    """Acknowledged since the last loss."""

    @property
    def ell(self) -> int:
        return max(self.interval_bytes, self.since_bytes)


OLIA_WORDS = {
    "loss_interval_bytes": Word("interval_bytes", 0, 10**12),
    "since_loss_bytes": Word("since_bytes", 0, 10**12),
}


def olia_sets(members: list[OliaPath], rule: str) -> tuple[list[OliaPath], list[OliaPath]]:
    """M, the largest windows, and C, the best paths that are not in M."""
    largest = max(p.window for p in members)
    value = {id(p): quality(p, rule) for p in members}
    best = max(value.values())
    in_m = [p for p in members if p.window == largest]
    return in_m, [p for p in members if value[id(p)] == best and p.window != largest]


def quality(p: OliaPath, rule: str) -> Fraction:
    """The kernel ranks l/R^2, draft-khalili l*l/R; R as the core counts it, in units of 4 ns."""
    assert p.rtt is not None
    rtt = Fraction(floor(p.rtt * 10**9 / 4))
    return p.ell / rtt**2 if rule == "kernel" else p.ell**2 / rtt


@dataclass
class Olia(Oracle):
    """I = (w_r/R_r^2)/S^2 + alpha_r/w_r, which may be negative; D = w/2."""

    path_class: ClassVar[type[Path]] = OliaPath
    words: ClassVar[Mapping[str, Word]] = OLIA_WORDS
    results = frozenset({"alpha"})
    settings: ClassVar[Mapping[str, Setting]] = (
        Oracle.settings | FIRST_THRESHOLD | {"best": Setting("best", {"kernel": "kernel", "draft": "draft"})}
    )

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

    results = frozenset({"alpha", "ai_acks", "md"})
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

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
