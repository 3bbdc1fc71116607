"""The controllers' formulas over exact rationals (logarithms and powers in 50 digits): what the integers must equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction
from math import inf

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


@dataclass
class LinuxCubic:
    """CUBIC as algorithms.md 2.2 and 2.3 restate Linux's, in unbounded integers; times in nanoseconds."""

    cwnd: int
    ssthresh: int | None = None
    tick: int = 4_000_000
    credit: int = 0
    cnt: int = 0
    last_max: int = 0
    origin: int = 0
    k: int = 0
    epoch: int = 0
    delay_min: int = 0
    acked: int = 0
    friendly: int = 0
    last_cwnd: int = 0
    last_time: int = 0

    def sample(self, now: int, rtt: int) -> None:
        if self.epoch and now - self.epoch < 10**9:
            return
        us = max(rtt // 1000, 1)
        self.delay_min = min(self.delay_min or us, us)

    def ack(self, now: int, acked: int) -> None:
        if self.ssthresh is None or self.cwnd < self.ssthresh:
            step = acked if self.ssthresh is None else min(acked, self.ssthresh - self.cwnd)
            self.cwnd += step
            acked -= step
            if not acked:
                return
        self.update(now, acked)
        if self.credit >= self.cnt:
            self.credit = 0
            self.cwnd += 1
        self.credit += acked
        if self.credit >= self.cnt:
            self.cwnd += self.credit // self.cnt
            self.credit %= self.cnt

    def update(self, now: int, acked: int) -> None:
        w = self.cwnd
        self.acked += acked
        ticks, last = now // self.tick, self.last_time // self.tick
        if self.last_cwnd == w and ticks - last <= 10**9 // 32 // self.tick:
            return
        if not self.epoch or ticks != last:
            self.last_cwnd, self.last_time = w, now
            if not self.epoch:
                self.epoch, self.acked, self.friendly = now, acked, w
                self.k, self.origin = 0, w
                if self.last_max > w:
                    cube = 2**40 // 410 * (self.last_max - w)
                    self.k = max(x for x in range(round(cube ** (1 / 3)) - 2, int(cube ** (1 / 3)) + 3) if x**3 <= cube)
                    self.origin = self.last_max
            t = ticks - self.epoch // self.tick + -(-self.delay_min * 1000 // self.tick)
            t = t * 1024 * self.tick // 10**9
            delta = 410 * abs(t - self.k) ** 3 >> 40
            target = max(self.origin - delta, 0) if t < self.k else self.origin + delta
            self.cnt = w // (target - w) if target > w else 100 * w
            if self.last_max == 0:
                self.cnt = min(self.cnt, 20)
        step = max(w * 15 >> 3, 1)
        while self.acked > step:
            self.acked -= step
            self.friendly += 1
        if self.friendly > w:
            self.cnt = min(self.cnt, w // (self.friendly - w))
        self.cnt = max(self.cnt, 2)

    def loss(self) -> None:
        w = self.cwnd
        self.epoch = self.credit = 0
        self.last_max = w * (1024 + 717) // 2048 if w < self.last_max else w
        self.ssthresh = self.cwnd = max(w * 717 // 1024, 2)


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


@dataclass
class Rfc9438:
    """CUBIC in congestion avoidance as RFC 9438 has it; seconds and segments, cube roots in 50 digits."""

    cwnd: Fraction
    rtt: Fraction
    wmax: Fraction = Fraction(0)
    w_epoch: Fraction | None = None
    t: Fraction = Fraction(0)
    w_est: Fraction = Fraction(0)
    cwnd_prior: Fraction = Fraction(0)
    ssthresh: Fraction = Fraction(0)

    @property
    def k(self) -> Fraction:
        above = (self.wmax - (self.w_epoch or self.wmax)) / C_CUBIC
        return Fraction(_decimal(above) ** (Decimal(1) / 3)) if above > 0 else Fraction(0)

    def curve(self, t: Fraction) -> Fraction:
        return C_CUBIC * (t - self.k) ** 3 + self.wmax

    def ack(self, acked: int, after: Fraction = Fraction(0)) -> None:
        """after: the time since the ACK before, without idle time."""
        rest = Fraction(acked)
        if self.cwnd < self.ssthresh:
            step = min(rest, self.ssthresh - self.cwnd)
            self.cwnd += step
            rest -= step
            if not rest:
                return
        if self.w_epoch is None:
            self.w_epoch = self.w_est = self.cwnd
            self.t = Fraction(0)
        else:
            self.t += after
        self.wmax = max(self.wmax, self.w_epoch)
        alpha = Fraction(9, 17) if self.w_est < self.cwnd_prior else Fraction(1)
        self.w_est += alpha * rest / self.cwnd
        if self.curve(self.t) < self.w_est:
            self.cwnd = max(self.cwnd, self.w_est)
            return
        target = min(max(self.curve(self.t + self.rtt), self.cwnd), self.cwnd * 3 / 2)
        self.cwnd += rest * (target - self.cwnd) / self.cwnd

    def near_the_border(self) -> bool:
        """Whether rounding decides which region it is in."""
        return self.w_epoch is not None and abs(self.curve(self.t) - self.w_est) < Fraction(1, 1 << 10)

    def loss(self) -> None:
        self.wmax = self.cwnd * Fraction(17, 20) if self.cwnd < self.wmax else self.cwnd
        self.cwnd_prior = self.cwnd
        self.ssthresh = self.cwnd = max(self.cwnd * Fraction(7, 10), FLOOR)
        self.w_epoch = None

    def timeout(self) -> None:
        self.loss()
        self.wmax, self.cwnd = Fraction(0), Fraction(1)


C_CUBIC = Fraction(2, 5)
