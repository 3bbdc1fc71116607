"""Algorithms that couple a set of subflows behind one bottleneck, NewReno outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tests.oracles.coupled import Lia, Olia
from tests.oracles.paths import Oracle, Path, quadratic, rate, total


@dataclass
class Sets(Oracle):
    def group(self, r: int) -> list[Path]:
        """The live members of r's set; itself alone outside of one. Fewer than two are no set."""
        p = self.paths[r]
        group = [q for q in self.paths if q.live and q.group == p.group] if p.group else []
        return group if len(group) > 1 else [p]

    def members(self, r: int) -> list[Path]:
        return [p for p in self.group(r) if p.counts]

    def is_alone(self, r: int) -> bool:
        return len(self.group(r)) == 1

    def leave(self, r: int) -> None:
        """A set of which fewer than two are left dissolves."""
        rest = [p for p in self.group(r) if p is not self.paths[r]]
        self.paths[r].live = False
        if len(rest) == 1:
            rest[0].group = 0
            self.dissolved(rest[0])

    def dissolved(self, p: Path) -> None:
        """What is forgotten with the set."""


@dataclass
class Sbcc(Sets, Lia):
    """In a set I = min(beta_r max(w/R^2)/S^2, 1/w), D = w beta/2; not literal: D = w/2 on a loss.

    By hand one path can be a set: nothing to couple with, but a beta of its own.
    """

    beta_floor: Fraction = Fraction(0)
    literal: bool = True
    inside_max: bool = False
    """Where the derivation of eq. 5 puts beta (S10)."""

    def beta(self, r: int) -> Fraction:
        p = self.paths[r]
        return max(p.beta, self.beta_floor) if p.group else Fraction(1)

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
        p.una += acked
        if not p.group:
            return
        p.delivered += acked
        p.marked += marked
        if p.round_end is not None and p.una < p.round_end:
            return
        if p.round_end is not None:
            p.beta = Fraction(p.marked, p.delivered) / 8 + p.beta * 7 / 8
            p.delivered = p.marked = 0
        p.round_end = p.una + int(p.cwnd)

    def dissolved(self, p: Path) -> None:
        p.beta, p.round_end, p.delivered, p.marked = Fraction(1), None, 0, 0


@dataclass
class Dwc(Sets):
    """In a group I = min(1/W_g, 1/w_r); a loss halves its members that are in congestion avoidance, too."""

    def increase(self, r: int) -> Fraction:
        return 1 / total(p.cwnd for p in self.group(r))

    def ece(self, r: int) -> None:
        self.loss(r)

    def reacting(self, r: int) -> Iterator[int]:
        yield r
        if not self.is_alone(r):
            for k, p in enumerate(self.paths):
                if k != r and p.live and p.group == self.paths[r].group and not p.in_slow_start:
                    yield k


@dataclass
class MptcpSbd(Sets, Olia):
    """Each group coupled by OLIA, or LIA."""

    inner: str = "olia"

    def increase(self, r: int) -> Fraction:
        if self.is_alone(r):
            return 1 / self.paths[r].cwnd
        return Olia.increase(self, r) if self.inner == "olia" else Lia.increase(self, r)  # type: ignore[arg-type]
