"""Rules for the initial slow start: CSS, TCCC, TCCC+ and LISA (10)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from tests.oracles.coupled import Lia
from tests.oracles.paths import NS, STATIC, Oracle, Path, Setting, Word, decimal, power, quadratic, rate, total


@dataclass
class CssPath(Path):
    coupled_ns: int = 0
    """The RTT of coupled slow start: half of each sample (C-4, C-5); 0: none yet."""

    @property
    def coupled_rtt(self) -> Fraction:
        return Fraction(self.coupled_ns, NS)


@dataclass
class Left:
    """What a reduction took beside window and threshold."""

    coupled: bool
    others_left: bool = False


ROUNDING = Fraction(1, 1000)
"""Segments: of a subflow that grew by a ratio of RTTs, the window is rounded."""
LOGARITHM = Fraction(1, 100)
"""Segments: nearer to con_ssthresh the quotient of two logarithms is rounded by more than the tolerance."""


@dataclass
class Css(Lia):
    """Coupled slow start (CSS Algorithms 1-3), LIA in congestion avoidance."""

    path_class: ClassVar[type[Path]] = CssPath
    words: ClassVar[Mapping[str, Word]] = {"coupled_rtt": Word("coupled_ns")}
    connection_words: ClassVar[Mapping[str, Word]] = {
        "alpha": Word("alpha_now", tolerance=Fraction(2, 10**5)),
        "initial_ss": Word("initial_ss"),
    }
    results = frozenset({"ssth"})
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {
        "alpha0": Setting("alpha0", {"1.5": Fraction(3, 2), "3": Fraction(3)}),
        "L": Setting("cap", {"1": Fraction(1), "2": Fraction(2), "0.5": Fraction(1, 2)}),
        "L_scale": Setting("cap_scales", {"off": False, "on": True}),
        "alpha_form": Setting("product", {"exponent": False, "product": True}),
        "con_ssthresh": Setting("con", {"0": STATIC, "25": Fraction(25), "300": Fraction(300)}),
    }

    decided_elsewhere: ClassVar[Mapping[str, str]] = {
        "self.weighs(q)": "test_joins_and_leaves_may_count_rates",
        "q.coupled_ns > 0": "test_joins_and_leaves_may_count_rates",
        "left.others_left": "test_undo_gives_the_coupling_back",
        "coupled": "test_who_comes_while_nobody_is_coupled_starts_alone",
        "min(self.alpha_now, self.alpha0)": "test_leave",
        "others": "test_joins",
        "self.above(self.con, after, LOGARITHM)": "test_joins",
        "after": "test_leave",
        # Of tccc+ alone, whose paths have verdicts.
        "r not in self.apart": "test_who_shares_with_nobody_does_not_count_for_the_others",
        "r in self.apart": "test_who_shares_with_nobody_does_not_count_for_the_others",
    }

    con: Fraction = STATIC
    alpha_now: Fraction = field(default=Fraction(0), init=False)
    alpha0: Fraction = Fraction(3, 2)
    cap: Fraction = Fraction(2)
    initial_ss: bool = True
    product: bool = False
    """alpha_form: the exponent of CSS's text, or TCCC's printed product (C1)."""
    cap_scales: bool = False
    """L_scale: L for each two segments (C2)."""
    weighted: bool = False
    """join_weighted: windows at a join as rates (C9)."""
    left: dict[int, Left] = field(default_factory=dict, init=False)
    """By the last reduction of each subflow."""
    outside: set[int] = field(default_factory=set, init=False)
    """Subflows that are not in the initial slow start: they left it, or came when nobody was in it."""
    apart: set[int] = field(default_factory=set, init=False)
    """Subflows that share their bottleneck with no other: the others' slow start is as if these had closed (T-24)."""

    def __post_init__(self) -> None:
        self.alpha_now = self.alpha0
        super().__post_init__()

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

    def counted(self) -> list[Any]:
        """Whose windows and round trips coupled slow start looks at."""
        return [p for r, p in enumerate(self.paths) if p.live and r not in self.apart]

    def initials(self) -> list[Path]:
        return [p for r, p in enumerate(self.paths) if p.live and self.is_initial(r)]

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        if rtt:
            sample = int(rtt * NS)
            p.coupled_ns = (p.coupled_ns + sample) // 2 if p.coupled_ns else sample

    def grow(self, r: int, acked: int) -> None:
        """CSS Algorithm 1: any subflow's ACK tests the rate; that of a coupled one then its own threshold."""
        p, coupled = self.paths[r], self.coupled(r)
        if self.initial_ss and self.above(self.rate_test(), self.con, ROUNDING):
            self.exit()
            if coupled:
                return
        if not coupled:
            super().grow(r, acked)
            return
        assert p.ssthresh is not None
        if self.above(p.cwnd, p.ssthresh, ROUNDING):
            self.leave_alone(r)
            super().grow(r, acked)
            return
        ratio = p.coupled_rtt / self.least_coupled() if p.coupled_ns else Fraction(1)
        growth = (self.alpha_now * ratio if self.product else power(self.alpha_now, ratio)) - 1
        cap = self.cap * math.ceil(Fraction(acked, 2)) if self.cap_scales else self.cap
        p.cwnd += min(cap, growth * acked)

    def least_coupled(self) -> Fraction:
        return min((p.coupled_rtt for p in self.counted() if p.coupled_ns), default=Fraction(1))

    def rate_test(self) -> Fraction:
        """sum w/R min R: what is compared with con_ssthresh."""
        members = [p for p in self.counted() if p.coupled_ns]
        return total(p.window / p.coupled_rtt for p in members) * self.least_coupled()

    def exit(self) -> None:
        self.initial_ss = False
        for p in self.initials():
            p.ssthresh = p.cwnd
        self.outside.update(range(len(self.paths)))
        for left in self.left.values():
            left.others_left = left.coupled

    def leave_alone(self, r: int) -> None:
        """The last one takes the connection with it (C12)."""
        self.outside.add(r)
        if not self.initials():
            self.initial_ss = False

    def begin_reduction(self, r: int) -> None:
        super().begin_reduction(r)
        self.left[r] = Left(self.coupled(r))

    def undone(self, r: int) -> None:
        """The coupling comes back too, unless the connection has left meanwhile."""
        left = self.left.pop(r)
        if left.others_left:
            self.paths[r].ssthresh = self.paths[r].cwnd
        elif left.coupled:
            self.initial_ss = True
            self.outside.discard(r)

    def reduced(self, r: int) -> None:
        """Only the subflow that lost leaves."""
        self.leave_alone(r)

    def sum_of(self, members: list[CssPath], least: Fraction) -> Fraction:
        """Rm sum w/R with join_weighted, where there is an R; else sum w."""
        return total(q.window * least / q.coupled_rtt if self.weighs(q) else q.window for q in members)

    def weighs(self, q: CssPath) -> bool:
        return self.weighted and q.coupled_ns > 0

    def joined(self, r: int) -> None:
        p = self.paths[r]
        others = [q for q in self.counted() if q is not p]
        coupled = [q for q in self.initials() if q is not p]
        before = self.sum_of(others, self.least_coupled())
        if not self.initial_ss or (others and not coupled):
            self.initial_ss = False  # no initial subflow was left
            self.outside.add(r)
        if not others or not self.coupled(r):
            return
        after = before + self.sum_of([p], self.least_coupled())
        if not self.above(self.con, after, LOGARITHM):
            self.exit()
            return
        self.rescale(before, after)

    def rescale(self, before: Fraction, after: Fraction) -> None:
        self.above(self.con, before, LOGARITHM)
        ratio = decimal(self.con / after).ln() / decimal(self.con / before).ln()
        self.alpha_now = Fraction((decimal(self.alpha_now).ln() * ratio).exp())

    def leaving(self, r: int) -> None:
        least, p = self.least_coupled(), self.paths[r]
        after = self.sum_of([q for q in self.counted() if q is not p], least)
        before = after + self.sum_of([p], least)
        if not self.initial_ss or r in self.apart:
            return
        if not after:
            self.alpha_now = self.alpha0
        elif self.above(self.con, before, LOGARITHM):
            self.rescale(before, after)
            self.alpha_now = min(self.alpha_now, self.alpha0)


@dataclass
class Tccc(Css):
    """Coupled slow start with L = 1, then Aggressive Congestion Avoidance (eq. 6 and 8)."""

    settings: ClassVar[Mapping[str, Setting]] = Css.settings | {
        "aca_md": Setting("decrease_rule", {"auto": "auto", "eq8": "eq8", "half": "half"}),
        "aca_safe": Setting("safe", {"off": False, "on": True}),
        "same_loss_ratio": Setting("same_loss_ratio", {"4": Fraction(4), "1": Fraction(1), "64": Fraction(64)}),
    }
    decided_elsewhere: ClassVar[Mapping[str, str]] = Css.decided_elsewhere | {
        "Tccc.same_loss": "test_tccc_decrease",
        "self.same_loss(r)": "test_tccc_decrease",
        "max(d, half)": "test_aca_safe",
    }

    cap: Fraction = Fraction(1)
    decrease_rule: str = "auto"
    safe: bool = False
    same_loss_ratio: Fraction = Fraction(4)

    def increase(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        if p.rtt is None:
            return 1 / p.cwnd
        step = 1 / (p.rtt * self.least_rtt(members) * total(quadratic(q) for q in members))
        return min(step, 1 / p.cwnd) if self.safe else step

    def same_loss(self, r: int) -> bool:
        peaks = [p.peak for p in self.members(r)]
        return min(peaks, default=0) > 0 and max(peaks) ** 2 <= self.same_loss_ratio * min(peaks) ** 2

    def decrease(self, r: int) -> Fraction:
        p, members = self.paths[r], self.members(r)
        half = p.cwnd / 2
        if p.rtt is None or self.coupled(r) or self.decrease_rule == "half":
            return half
        if self.decrease_rule == "auto" and not self.same_loss(r):
            return half
        s, q = total(rate(k) for k in members), total(quadratic(k) for k in members)
        d = self.least_rtt(members) * s**2 / (2 * p.rtt * q)
        return max(d, half) if self.safe else d


@dataclass
class TcccPlus(Tccc):
    """TCCC's slow start; afterwards TCCC's avoidance within a set, NewReno outside.

    A path that is alone in its set shares its bottleneck with no other: it leaves coupled slow start, which does not
    count it any more.
    """

    def regrouped(self) -> None:
        """Final without another path in its set."""
        for r, p in enumerate(self.paths):
            shares = p.group and any(q.live and q.group == p.group for q in self.paths if q is not p)
            if not p.live or not p.is_final or shares or r in self.apart:
                continue
            self.leaving(r)
            self.apart.add(r)
            if r in self.left:
                self.left[r] = Left(False)
            if self.is_initial(r):
                self.leave_alone(r)

    def members(self, r: int) -> list[Any]:
        set_of = self.paths[r].final_group
        return [q for q in self.paths if q.counts and q.final_group == set_of]

    def increase(self, r: int) -> Fraction:
        return Tccc.increase(self, r) if self.paths[r].final_group else Oracle.increase(self, r)

    def decrease(self, r: int) -> Fraction:
        return Tccc.decrease(self, r) if self.paths[r].final_group else Oracle.decrease(self, r)


@dataclass
class LisaPath(Path):
    ignore: int = 0
    """ACKed segments that still do not count."""


@dataclass
class Lisa(Lia):
    """A subflow that joins takes its initial window from the fastest subflow that is in the initial slow start."""

    path_class: ClassVar[type[Path]] = LisaPath
    words: ClassVar[Mapping[str, Word]] = {"ignore_acks": Word("ignore", 0, 64)}

    def is_first(self, p: Path) -> bool:
        """In the slow start that it began with: no loss has set another threshold."""
        return p.ssthresh == (STATIC if self.static else None) and p.in_slow_start

    def joined(self, r: int) -> None:
        p = self.paths[r]
        donors = [q for q in self.paths if q.live and q is not p and self.is_first(q)]
        if not donors or not self.is_first(p):
            return
        # One without a round trip has no rate yet.
        rates = [q.cwnd / q.rtt if q.rtt else Fraction(0) for q in donors]
        donor, most = donors[rates.index(max(rates))], max(rates)
        if sum(most - x <= most / 2**32 for x in rates) > 1:
            self.undecided = True  # which of two that are alike gives
        window = Fraction(10) if donor.cwnd >= 20 else Fraction(max(3, int(donor.cwnd) // 2))
        p.cwnd = window
        donor.cwnd = max(donor.cwnd - window, Fraction(1))
        donor.ignore += int(window)

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        unheard = min(p.ignore, acked)
        p.ignore -= unheard
        super().grow(r, acked - unheard)

    def reduced(self, r: int) -> None:
        self.paths[r].ignore = 0  # what was given is gone with the window
