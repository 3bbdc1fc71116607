"""The papers' rules as they are printed, over exact rationals: what docs/paper-notes.md says of them is tested here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Literal

F = Fraction


@dataclass(frozen=True)
class Subflows:
    """Windows in segments and round-trip times in any one unit of time."""

    w: tuple[Fraction, ...]
    rtt: tuple[Fraction, ...]

    @classmethod
    def of(cls, w: Iterable[int | Fraction], rtt: Iterable[int | Fraction]) -> Subflows:
        return cls(tuple(F(v) for v in w), tuple(F(v) for v in rtt))

    @property
    def n(self) -> int:
        return len(self.w)

    @property
    def x(self) -> tuple[Fraction, ...]:
        """Rates."""
        return tuple(w / r for w, r in zip(self.w, self.rtt, strict=True))

    @property
    def rate(self) -> Fraction:
        return sum(self.x, F(0))

    @property
    def total(self) -> Fraction:
        return sum(self.w, F(0))

    @property
    def quad(self) -> tuple[Fraction, ...]:
        """w/R^2 of each."""
        return tuple(w / r**2 for w, r in zip(self.w, self.rtt, strict=True))

    @property
    def rtt_min(self) -> Fraction:
        return min(self.rtt)

    def with_rates(self, x: Iterable[Fraction]) -> Subflows:
        return Subflows(tuple(a * r for a, r in zip(x, self.rtt, strict=True)), self.rtt)

    def in_units_of(self, unit: Fraction) -> Subflows:
        """The same subflows, time counted in another unit."""
        return Subflows(self.w, tuple(r / unit for r in self.rtt))


def grid(n: int, windows: Iterable[int] = (1, 3, 10, 60), rtts: Iterable[int] = (1, 2, 5)) -> Iterator[Subflows]:
    """Every state of n subflows with these windows and round-trip times."""
    for w, rtt in product(product(windows, repeat=n), product(rtts, repeat=n)):
        yield Subflows.of(w, rtt)


def fluid(s: Subflows, r: int, increase: Fraction, decrease: Fraction) -> tuple[Fraction, Fraction]:
    """k and phi of the fluid model, TCCC eq. 12."""
    return s.x[r] / s.rtt[r] * decrease, increase / decrease


def reno(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    return 1 / s.w[r], s.w[r] / 2


def ewtcp(s: Subflows, r: int, a: Fraction) -> tuple[Fraction, Fraction]:
    return a / s.w[r], s.w[r] / 2


def coupled(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    return s.quad[r] / s.rate**2, s.w[r] / 2


def lia(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    """Without the cap 1/w."""
    return max(s.quad) / s.rate**2, s.w[r] / 2


def balia(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    a = max(s.x) / s.x[r]
    return s.x[r] / s.rtt[r] / s.rate**2 * (1 + a) / 2 * (4 + a) / 5, s.w[r] / 2 * min(a, F(3, 2))


def aca(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    """TCCC Algorithm 2, lines 6 and 10."""
    q = sum(s.quad, F(0))
    return 1 / (s.rtt[r] * s.rtt_min * q), s.rtt_min * s.rate**2 / (2 * s.rtt[r] * q)


def enmcc(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
    """e-NMCC eq. 14 in congestion avoidance, with equal loss rates."""
    inverse = [1 / t**2 for t in s.rtt]
    squares = sum((x**2 for x in s.x), F(0))
    return max(inverse) / (s.w[r] * sum(inverse, F(0))), s.w[r] / 2 * s.rate**2 / squares


def threshold_factor(s: Subflows, p: Iterable[Fraction], p_single: Fraction) -> Fraction:
    """e-NMCC eq. 13 with the loss rate that its numerator takes."""
    return p_single * s.rate**2 / sum((a * x**2 for a, x in zip(p, s.x, strict=True)), F(0))


# SB-CC's detector --------------------------------------------------------------------------------------------------

State = Literal["monitor", "judgement", "final"]


@dataclass
class PrintedDetector:
    """SB-CC Algorithm 1, line by line. One step is one ECE on r while `seen` had an event in their windows.

    index_advances: reads `i++` after `Return` as reached.
    """

    n: int
    index_advances: bool = True
    state: list[State] = field(default_factory=list)
    sets: list[set[int]] = field(default_factory=lambda: [set()])
    verified_at_once: bool = False

    def __post_init__(self) -> None:
        self.state = self.state or ["monitor"] * self.n

    def step(self, r: int, seen: frozenset[int]) -> None:
        current = self.sets[-1]
        made_now = False
        if self.state[r] == "monitor":
            for k in seen - {r}:  # every subflow but r, whatever its state
                made_now = True
                self.state[r] = self.state[k] = "judgement"
                current |= {r, k}
        if r in current:
            if current - {r} <= seen and not (seen - current):
                self.verified_at_once |= made_now
                if self.index_advances:
                    self.sets.append(set())
            else:
                for k in current:
                    self.state[k] = "monitor"


@dataclass
class RepairedDetector:
    """What the text says: three states, only monitored subflows are taken, a set ends when it fails or shrinks to one.

    veto: which outsiders' events break a set, "any" of them or only those in "monitor".
    """

    n: int
    veto: Literal["any", "monitor"] = "any"
    sets: list[tuple[State, set[int]]] = field(default_factory=list)

    def set_of(self, r: int) -> tuple[State, set[int]] | None:
        return next((s for s in self.sets if r in s[1]), None)

    def state(self, r: int) -> State:
        found = self.set_of(r)
        return found[0] if found else "monitor"

    def step(self, r: int, seen: frozenset[int]) -> None:
        found = self.set_of(r)
        if found is None:
            members = {r} | {k for k in seen if self.set_of(k) is None}
            if len(members) > 1:
                self.sets.append(("judgement", members))
            return
        outside = {k for k in seen - found[1] if self.veto == "any" or self.set_of(k) is None}
        self.sets.remove(found)
        if found[1] - {r} <= seen and not outside:
            self.sets.append(("final", found[1]))

    def leave(self, r: int) -> None:
        found = self.set_of(r)
        if found:
            self.sets.remove(found)
            if len(found[1]) > 2:
                self.sets.append((found[0], found[1] - {r}))


def events(n: int) -> list[tuple[int, frozenset[int]]]:
    """Every ECE with every choice of others that had an event in their windows."""
    found = []
    for r in range(n):
        others = [k for k in range(n) if k != r]
        for seen in chain.from_iterable(combinations(others, size) for size in range(n)):
            found.append((r, frozenset(seen)))
    return found
