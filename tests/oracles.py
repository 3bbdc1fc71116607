"""The controllers' formulas over exact rationals (logarithms and powers in 50 digits): what the integers must equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 50

FLOOR = Fraction(2)


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    return Fraction(_decimal(base) ** _decimal(exponent))


@dataclass
class Path:
    cwnd: Fraction
    rtt: Fraction
    ssthresh: Fraction | None = None  # None: not set
    peak: Fraction = Fraction(0)

    @property
    def initial(self) -> bool:
        return self.ssthresh is None


def slow_start(p: Path, acked: Fraction) -> Fraction:
    """Grows up to ssthresh; returns what is left of acked."""
    if p.ssthresh is not None and p.cwnd >= p.ssthresh:
        return acked
    step = acked if p.ssthresh is None else min(acked, p.ssthresh - p.cwnd)
    p.cwnd += step
    return acked - step


@dataclass
class NewReno:
    paths: list[Path]

    def increase(self, r: int) -> Fraction:
        return 1 / self.paths[r].cwnd

    def decrease(self, r: int) -> Fraction:
        return self.paths[r].cwnd / 2

    def ack(self, r: int, acked: int) -> None:
        p = self.paths[r]
        rest = slow_start(p, Fraction(acked))
        if rest:
            p.cwnd += rest * self.increase(r)

    def loss(self, r: int) -> None:
        p = self.paths[r]
        p.ssthresh = max(p.cwnd - self.decrease(r), FLOOR)
        p.cwnd = p.ssthresh

    def timeout(self, r: int) -> None:
        p = self.paths[r]
        p.ssthresh = max(p.cwnd / 2, FLOOR)
        p.cwnd = Fraction(1)


@dataclass
class Css(NewReno):
    """Coupled slow start (CSS Algorithms 1-3), LIA in congestion avoidance."""

    con: Fraction = Fraction(65535, 1460)
    alpha: Fraction = Fraction(3, 2)
    cap: Fraction = Fraction(2)
    initial_ss: bool = True
    left: set[int] = field(default_factory=set)

    def rtt_min(self) -> Fraction:
        return min(p.rtt for p in self.paths)

    def sums(self) -> tuple[Fraction, Fraction, Fraction]:
        """S, Q and max w/R^2, with RTTs as ratios to the smallest."""
        least = self.rtt_min()
        rho = [p.rtt / least for p in self.paths]
        quad = [p.cwnd / x**2 for p, x in zip(self.paths, rho, strict=True)]
        return sum((p.cwnd / x for p, x in zip(self.paths, rho, strict=True)), Fraction(0)), sum(quad), max(quad)

    def increase(self, r: int) -> Fraction:
        s, _, best = self.sums()
        return min(best / s**2, 1 / self.paths[r].cwnd)

    def coupled(self, r: int) -> bool:
        return self.initial_ss and self.paths[r].initial

    def ack(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if not self.coupled(r):
            super().ack(r, acked)
            return
        if self.sums()[0] > self.con:
            self.exit()
            return
        growth = power(self.alpha, p.rtt / self.rtt_min()) - 1
        p.cwnd += min(self.cap, growth * acked)

    def exit(self) -> None:
        self.initial_ss = False
        for p in self.paths:
            if p.initial:
                p.ssthresh = p.cwnd

    def join(self, p: Path) -> None:
        before = sum((q.cwnd for q in self.paths), Fraction(0))
        others = bool(self.paths)
        coupled = any(q.initial for q in self.paths)
        self.paths.append(p)
        if not others or not self.initial_ss or not coupled:
            return
        after = before + p.cwnd
        if after >= self.con:
            self.exit()
            return
        ratio = _decimal(self.con / after).ln() / _decimal(self.con / before).ln()
        self.alpha = Fraction((_decimal(self.alpha).ln() * ratio).exp())


@dataclass
class Tccc(Css):
    """Coupled slow start with L = 1, then Aggressive Congestion Avoidance (eq. 6 and 8)."""

    cap: Fraction = Fraction(1)
    decrease_rule: str = "auto"
    same_loss_ratio: Fraction = Fraction(4)

    def increase(self, r: int) -> Fraction:
        _, q, _ = self.sums()
        return 1 / (self.paths[r].rtt / self.rtt_min() * q)

    def same_loss(self) -> bool:
        peaks = [p.peak for p in self.paths]
        return min(peaks) > 0 and max(peaks) ** 2 <= self.same_loss_ratio * min(peaks) ** 2

    def decrease(self, r: int) -> Fraction:
        half = self.paths[r].cwnd / 2
        if self.coupled(r) or self.decrease_rule == "half":
            return half
        if self.decrease_rule == "auto" and not self.same_loss():
            return half
        s, q, _ = self.sums()
        return s**2 / (2 * (self.paths[r].rtt / self.rtt_min()) * q)
