"""Algorithms that couple a set of subflows behind one bottleneck, NewReno outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tests.oracles.coupled import OLIA_WORDS, Lia, Olia, OliaPath
from tests.oracles.paths import FIRST_THRESHOLD, Oracle, Path, Setting, Word, quadratic, rate, total


@dataclass
class Sets(Oracle):
    def group(self, r: int) -> list[Any]:
        """The live members of r's final set; itself alone outside of one."""
        p = self.paths[r]
        return [q for q in self.paths if q.live and q.final_group == p.final_group] if p.final_group else [p]

    def members(self, r: int) -> list[Any]:
        return [p for p in self.group(r) if p.counts]


@dataclass
class SbccPath(Path):
    beta: Fraction = Fraction(1)
    round_end: int | None = None
    """The window of data under way ends there, in segments."""
    delivered: int = 0
    marked: int = 0


@dataclass
class Sbcc(Sets, Lia):
    """In a set I = min(beta_r max(w/R^2)/S^2, 1/w), D = w beta/2; not literal: D = w/2 on a loss.

    By hand one path can be a set: nothing to couple with, but a beta of its own.
    """

    path_class: ClassVar[type[Path]] = SbccPath
    words: ClassVar[Mapping[str, Word]] = {"beta": Word("beta", 0, 1, Fraction(1, 1 << 28))}
    results = frozenset({"a"})
    settings: ClassVar[Mapping[str, Setting]] = Lia.settings | {
        "sbcc_beta_floor": Setting("beta_floor", {"0": Fraction(0), "0.125": Fraction(1, 8), "1": Fraction(1)}),
        "sbcc_loss": Setting("literal", {"literal": True, "full": False}),
        "beta_inside_max": Setting("inside_max", {"off": False, "on": True}),
    }

    beta_floor: Fraction = Fraction(0)
    literal: bool = True
    inside_max: bool = False
    """Where the derivation of eq. 5 puts beta (S10)."""

    def beta(self, r: int) -> Fraction:
        p = self.paths[r]
        return max(p.beta, self.beta_floor) if p.final_group else Fraction(1)

    def increase(self, r: int) -> Fraction:
        reno = 1 / self.paths[r].cwnd
        members = self.members(r)
        if not self.paths[r].counts or len(members) < 2:
            return reno
        s = total(rate(q) for q in members)
        if self.inside_max:
            best = max(max(q.beta, self.beta_floor) * quadratic(q) for q in members)
        else:
            best = self.beta(r) * max(quadratic(q) for q in members)
        return min(best / s**2, reno)

    def decrease(self, r: int) -> Fraction:
        beta = self.beta(r) if self.literal else Fraction(1)
        return self.paths[r].cwnd * beta / 2

    def marked_decrease(self, r: int) -> Fraction:
        return self.paths[r].cwnd * self.beta(r) / 2

    def timeout_decrease(self, r: int) -> Fraction:
        return self.decrease(r)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        """beta = T/8 + 7/8 beta at the end of each window of data, inside a set only (S7, S8)."""
        p = self.paths[r]
        if not p.final_group:
            return
        p.delivered += acked
        p.marked += marked
        if p.round_end is not None and p.una < p.round_end:
            return
        if p.round_end is not None:
            p.beta = Fraction(p.marked, p.delivered) / 8 + p.beta * 7 / 8
            p.delivered = p.marked = 0
        p.round_end = p.una + int(p.cwnd)

    def grouped(self, r: int) -> None:
        p = self.paths[r]
        p.beta, p.round_end, p.delivered, p.marked = Fraction(1), None, 0, 0


@dataclass
class Dwc(Sets):
    """In a group I = min(1/W_g, 1/w_r); a loss halves its members that are in congestion avoidance, too."""

    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | FIRST_THRESHOLD

    def increase(self, r: int) -> Fraction:
        return 1 / total(p.window for p in self.group(r))

    def ece(self, r: int) -> None:
        self.loss(r)

    def reacting(self, r: int) -> Iterator[int]:
        yield r
        group = self.paths[r].final_group
        for k, p in enumerate(self.paths):
            if k != r and group and p.live and p.final_group == group and not p.recovering and not p.in_slow_start:
                yield k


@dataclass
class MptcpSbd(Sets, Olia):
    """Each group coupled by OLIA, or LIA."""

    path_class: ClassVar[type[Path]] = OliaPath
    words: ClassVar[Mapping[str, Word]] = OLIA_WORDS
    settings: ClassVar[Mapping[str, Setting]] = Olia.settings | {
        "inner": Setting("inner", {"olia": "olia", "lia": "lia"})
    }

    inner: str = "olia"

    def increase(self, r: int) -> Fraction:
        if not self.paths[r].final_group:
            return 1 / self.paths[r].cwnd
        return Olia.increase(self, r) if self.inner == "olia" else Lia.increase(self, r)  # type: ignore[arg-type]
