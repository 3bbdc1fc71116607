"""Rules for the initial slow start: CSS, TCCC, TCCC+ and LISA (10)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracles.coupled import Lia
from tests.oracles.paths import SEGMENT_BYTES, Oracle, Path, decimal, power, quadratic, rate, total

STATIC = Fraction(65535 * 65536 // SEGMENT_BYTES, 65536)
"""65535 bytes, in segments of which the controllers keep 16 fractional bits."""


@dataclass
class Undoable:
    """What a reduction took."""

    cwnd: Fraction
    ssthresh: Fraction
    coupled: bool
    others_left: bool = False


@dataclass
class Css(Lia):
    """Coupled slow start (CSS Algorithms 1-3), LIA in congestion avoidance."""

    con: Fraction = STATIC
    alpha_now: Fraction = Fraction(3, 2)
    alpha0: Fraction = Fraction(3, 2)
    cap: Fraction = Fraction(2)
    initial_ss: bool = True
    product: bool = False
    """alpha_form: the exponent of CSS's text, or TCCC's printed product (C1)."""
    cap_scales: bool = False
    """L_scale: L for each two segments (C2)."""
    weighted: bool = False
    """join_weighted: windows at a join as rates (C9)."""
    undoable: dict[int, Undoable] = field(default_factory=dict)
    outside: set[int] = field(default_factory=set)
    """Subflows that are not in the initial slow start: they left it, or came when nobody was in it."""

    def __post_init__(self) -> None:
        for r in range(len(self.paths)):
            self.begin(r)

    def begin(self, r: int) -> None:
        """A subflow begins with the static threshold, or with con_ssthresh where that is more (C15)."""
        if self.paths[r].ssthresh is None:
            self.paths[r].ssthresh = self.own
        else:
            self.outside.add(r)

    @property
    def own(self) -> Fraction:
        return max(STATIC, self.con)

    def is_initial(self, r: int) -> bool:
        return r not in self.outside

    def coupled(self, r: int) -> bool:
        return self.initial_ss and self.is_initial(r)

    def initials(self) -> list[Path]:
        return [p for r, p in enumerate(self.paths) if p.live and self.is_initial(r)]

    def grow(self, r: int, acked: int) -> None:
        """CSS Algorithm 1: any subflow's ACK tests the rate; that of a coupled one then its own threshold."""
        p, coupled = self.paths[r], self.coupled(r)
        if self.initial_ss and self.rate_test() > self.con:
            self.exit()
            if coupled:
                return
        if not coupled:
            super().grow(r, acked)
            return
        assert p.ssthresh is not None
        if p.cwnd > p.ssthresh:
            self.leave_alone(r)
            super().grow(r, acked)
            return
        ratio = p.rtt / self.least_coupled() if p.rtt else Fraction(1)
        growth = (self.alpha_now * ratio if self.product else power(self.alpha_now, ratio)) - 1
        cap = self.cap * math.ceil(Fraction(acked, 2)) if self.cap_scales else self.cap
        p.cwnd += min(cap, growth * acked)

    def least_coupled(self) -> Fraction:
        return self.least_rtt([p for p in self.paths if p.counts])

    def rate_test(self) -> Fraction:
        """sum w/R min R: what is compared with con_ssthresh."""
        members = [p for p in self.paths if p.counts]
        return total(rate(p) for p in members) * self.least_rtt(members) if members else Fraction(0)

    def exit(self) -> None:
        self.initial_ss = False
        for p in self.initials():
            p.ssthresh = p.cwnd
        self.outside.update(range(len(self.paths)))
        for was in self.undoable.values():
            was.others_left = was.coupled

    def leave_alone(self, r: int) -> None:
        """The last one takes the connection with it (C12)."""
        self.outside.add(r)
        if not self.initials():
            self.initial_ss = False

    def reduce(self, r: int, decrease: Fraction) -> None:
        p = self.paths[r]
        assert p.ssthresh is not None
        quarters = Fraction(p.cwnd // 2 + p.cwnd // 4)
        self.undoable[r] = Undoable(p.cwnd, max(p.ssthresh, quarters), self.coupled(r))
        super().reduce(r, decrease)

    def undo(self, r: int) -> None:
        """Window and threshold come back, and the coupling, unless the connection has left meanwhile."""
        p, was = self.paths[r], self.undoable.pop(r)
        assert p.ssthresh is not None
        p.cwnd = max(p.cwnd, was.cwnd)
        p.ssthresh = max(p.ssthresh, was.ssthresh)
        if was.others_left:
            p.ssthresh = p.cwnd
        elif was.coupled:
            self.initial_ss = True
            self.outside.discard(r)

    def reduced(self, r: int) -> None:
        """Only the subflow that lost leaves."""
        self.leave_alone(r)

    def sum_of(self, members: list[Path], least: Fraction) -> Fraction:
        """Rm sum w/R with join_weighted, where there is an R; else sum w."""
        return total(q.cwnd * least / q.rtt if self.weighted and q.rtt else q.cwnd for q in members)

    def least_sampled(self) -> Fraction:
        return min((q.rtt for q in self.paths if q.live and q.rtt), default=Fraction(1))

    def join(self, p: Path) -> None:
        others, coupled = [q for q in self.paths if q.live], self.initials()
        self.paths.append(p)
        self.begin(len(self.paths) - 1)
        before = self.sum_of(others, self.least_sampled())
        if not self.initial_ss or (others and not coupled):
            self.initial_ss = False  # no initial subflow was left
            self.outside.add(len(self.paths) - 1)
        if not others or not self.coupled(len(self.paths) - 1):
            return
        after = before + self.sum_of([p], self.least_sampled())
        if after >= self.con:
            self.exit()
            return
        self.rescale(before, after)

    def rescale(self, before: Fraction, after: Fraction) -> None:
        ratio = decimal(self.con / after).ln() / decimal(self.con / before).ln()
        self.alpha_now = Fraction((decimal(self.alpha_now).ln() * ratio).exp())

    def leave(self, r: int) -> None:
        least = self.least_sampled()
        before = self.sum_of([q for q in self.paths if q.live], least)
        self.paths[r].live = False
        after = self.sum_of([q for q in self.paths if q.live], least)
        if not self.initial_ss:
            return
        if not after:
            self.alpha_now = self.alpha0
        elif before < self.con:
            self.rescale(before, after)
            self.alpha_now = min(self.alpha_now, self.alpha0)


@dataclass
class Tccc(Css):
    """Coupled slow start with L = 1, then Aggressive Congestion Avoidance (eq. 6 and 8)."""

    cap: Fraction = Fraction(1)
    decrease_rule: str = "auto"
    same_loss_ratio: Fraction = Fraction(4)

    def increase(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        if p.rtt is None:
            return 1 / p.cwnd
        return 1 / (p.rtt * self.least_rtt(members) * total(quadratic(q) for q in members))

    def same_loss(self, r: int) -> bool:
        peaks = [p.peak for p in self.members(r)]
        return min(peaks) > 0 and max(peaks) ** 2 <= self.same_loss_ratio * min(peaks) ** 2

    def decrease(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        half = p.cwnd / 2
        if p.rtt is None or self.coupled(r) or self.decrease_rule == "half":
            return half
        if self.decrease_rule == "auto" and not self.same_loss(r):
            return half
        s, q = total(rate(k) for k in members), total(quadratic(k) for k in members)
        return self.least_rtt(members) * s**2 / (2 * p.rtt * q)


@dataclass
class TcccPlus(Tccc):
    """TCCC's slow start; afterwards TCCC's avoidance within a set, NewReno outside.

    A path that is alone in its set shares its bottleneck with no other: it leaves coupled slow start.
    """

    told: bool = False
    """Has the verdict that paths were given been told?"""

    def verdict(self) -> None:
        for r, p in enumerate(self.paths):
            if p.live and p.group and not any(q.live and q.group == p.group for q in self.paths if q is not p):
                if r in self.undoable:
                    self.undoable[r].coupled = self.undoable[r].others_left = False
                if self.is_initial(r):
                    self.leave_alone(r)

    def tell_given(self) -> None:
        if not self.told:
            self.told = True
            self.verdict()

    def ack(self, r: int, acked: int, marked: int = 0) -> None:
        self.tell_given()
        super().ack(r, acked, marked)

    def loss(self, r: int) -> None:
        self.tell_given()
        super().loss(r)

    def ece(self, r: int) -> None:
        self.tell_given()
        super().ece(r)

    def timeout(self, r: int) -> None:
        self.tell_given()
        super().timeout(r)

    def leave(self, r: int) -> None:
        self.tell_given()
        super().leave(r)

    def members(self, r: int) -> list[Path]:
        p = self.paths[r]
        return [q for q in self.paths if q.counts and p.group and q.group == p.group]

    def increase(self, r: int) -> Fraction:
        return Tccc.increase(self, r) if self.paths[r].group else Oracle.increase(self, r)

    def decrease(self, r: int) -> Fraction:
        return Tccc.decrease(self, r) if self.paths[r].group else Oracle.decrease(self, r)


@dataclass
class Lisa(Lia):
    """A subflow that joins takes its initial window from the fastest subflow that is in the initial slow start."""

    def donor_rates(self) -> list[Fraction]:
        """Of the subflows that could give; one without a round trip has none yet."""
        return [rate(q) if q.rtt else Fraction(0) for q in self.paths if q.live and q.initial]

    def join(self, p: Path) -> None:
        donors, rates = [q for q in self.paths if q.live and q.initial], self.donor_rates()
        self.paths.append(p)
        if not donors:
            return
        donor = donors[rates.index(max(rates))]
        window = Fraction(10) if donor.cwnd >= 20 else Fraction(max(3, donor.cwnd // 2))
        p.cwnd = window
        donor.cwnd = max(donor.cwnd - window, Fraction(1))
        donor.ignore += int(window)

    def ack(self, r: int, acked: int, marked: int = 0) -> None:
        p = self.paths[r]
        unheard = min(p.ignore, acked)
        p.ignore -= unheard
        if acked > unheard:
            super().ack(r, acked - unheard, marked)
        else:
            p.flight = max(p.flight, p.cwnd)

    def reduced(self, r: int) -> None:
        self.paths[r].ignore = 0  # what was given is gone with the window
