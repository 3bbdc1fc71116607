"""CUBIC in both forms: RFC 9438's, and Linux's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tests.oracles.paths import FLOOR, decimal

C_CUBIC = Fraction(2, 5)


@dataclass
class LinuxCubic:
    """CUBIC as Linux computes it, in unbounded integers; times in nanoseconds."""

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

    def settle(self) -> None:
        """Rounds to 2^-160: over a history the exact fractions would grow without end."""
        for name in ("cwnd", "wmax", "w_est", "cwnd_prior", "ssthresh"):
            setattr(self, name, Fraction(round(getattr(self, name) * 2**160), 2**160))
        if self.w_epoch is not None:
            self.w_epoch = Fraction(round(self.w_epoch * 2**160), 2**160)

    @property
    def k(self) -> Fraction:
        above = (self.wmax - (self.w_epoch or self.wmax)) / C_CUBIC
        return Fraction(decimal(above) ** (Decimal(1) / 3)) if above > 0 else Fraction(0)

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
