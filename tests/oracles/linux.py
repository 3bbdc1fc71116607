"""The kernel's integer forms, in unbounded integers: equal to the last bit.

Windows are whole segments, RTTs whole microseconds. Driven by hand a whole window is in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

LARGEST = 1 << 20


@dataclass
class KernelPath:
    cwnd: int
    rtt_us: int
    ssthresh: int | None = None
    cnt: int = 0
    live: bool = True
    acked: int = 0
    """Segments so far: sequence numbers."""

    @property
    def in_slow_start(self) -> bool:
        return self.ssthresh is None or self.cwnd < self.ssthresh

    @property
    def counts(self) -> bool:
        return self.live and self.rtt_us > 0

    def slow_start(self, acked: int) -> int:
        """Grows up to ssthresh; returns what is left of acked."""
        step = acked if self.ssthresh is None else min(acked, self.ssthresh - self.cwnd)
        self.cwnd = min(self.cwnd + step, LARGEST)
        return acked - step

    def additive_increase(self, divisor: int, acked: int) -> None:
        """1.3: credit of a larger divisor is one segment; each divisor of what then came is one more."""
        if self.cnt >= divisor:
            self.cnt = 0
            self.cwnd += 1
        self.cnt += acked
        if self.cnt >= divisor:
            self.cwnd += self.cnt // divisor
            self.cnt %= divisor
        self.cwnd = min(self.cwnd, LARGEST)


@dataclass
class KernelReno:
    path_class: ClassVar[type[KernelPath]] = KernelPath
    paths: list[KernelPath] = field(default_factory=list)
    floor: int = 2

    def ack(self, r: int, acked: int) -> None:
        self.paths[r].acked += acked
        self.grow(r, acked)

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if p.in_slow_start:
            acked = p.slow_start(acked)
            if not acked:
                return
        p.additive_increase(p.cwnd, acked)

    def ssthresh(self, r: int) -> int:
        return max(self.paths[r].cwnd >> 1, self.floor)

    def loss(self, r: int) -> None:
        p = self.paths[r]
        p.ssthresh = p.cwnd = self.ssthresh(r)
        p.cnt = 0
        self.changed(r)

    def ece(self, r: int) -> None:
        self.loss(r)

    def timeout(self, r: int) -> None:
        p = self.paths[r]
        p.ssthresh = self.ssthresh(r)
        p.cwnd, p.cnt = 1, 0
        self.changed(r)

    def join(self, p: KernelPath) -> None:
        self.paths.append(p)
        self.changed(len(self.paths) - 1)

    def leave(self, r: int) -> None:
        self.paths[r].live = False
        self.changed(r)

    def changed(self, r: int) -> None:
        """What is cached over events."""

    def members(self) -> list[KernelPath]:
        return [p for p in self.paths if p.counts]


@dataclass
class KernelLia(KernelReno):
    """A = 2^32 w_best/(sum floor(2^10 w_k R_best/R_k))^2 for the connection.

    T + 1 ACKs are a segment, T = max(4096/A, w).
    """

    scaled: int = 0
    stale: bool = True

    def recompute(self) -> None:
        members = self.members()
        best = max(members, key=lambda p: Fraction(p.cwnd, p.rtt_us**2))
        whole = sum((p.cwnd * best.rtt_us << 10) // p.rtt_us for p in members)
        self.scaled = max((best.cwnd << 32) // whole**2, 1)
        self.stale = False

    def threshold(self, r: int) -> int:
        return max(4096 // self.scaled, self.paths[r].cwnd)

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if p.in_slow_start:
            p.slow_start(acked)
            self.recompute()
            return
        if self.stale:
            self.recompute()
        if p.cnt >= self.threshold(r):
            p.cwnd = min(p.cwnd + 1, LARGEST)
            p.cnt = 0
            self.recompute()
        else:
            p.cnt += 1

    def changed(self, r: int) -> None:
        self.stale = True


@dataclass
class KernelOliaPath(KernelPath):
    interval_bytes: int = 0
    since_bytes: int = 0

    @property
    def ell(self) -> int:
        return max(self.interval_bytes, self.since_bytes)


@dataclass
class KernelOlia(KernelReno):
    """Fixed point of 2^10, a step for each ACK; a segment more or less at 1023, the rest is dropped."""

    mss: int = 1460
    path_class = KernelOliaPath
    paths: list[KernelOliaPath] = field(default_factory=list)  # type: ignore[assignment]

    def epsilon(self, r: int) -> tuple[int, int]:
        """Numerator and denominator of alpha_r."""
        members = [p for p in self.paths if p.counts]
        largest = max(p.cwnd for p in members)
        best = max(Fraction(p.ell, p.rtt_us**2) for p in members)
        in_m = [p for p in members if p.cwnd == largest]
        collected = [p for p in members if Fraction(p.ell, p.rtt_us**2) == best and p.cwnd != largest]
        if collected and any(p is self.paths[r] for p in collected):
            return 1, len(members) * len(collected)
        if collected and any(p is self.paths[r] for p in in_m):
            return -1, len(members) * len(in_m)
        return 0, 1

    def step(self, r: int) -> int:
        p = self.paths[r]
        numerator, denominator = self.epsilon(r)
        whole = sum((q.cwnd * p.rtt_us << 10) // q.rtt_us for q in self.paths if q.counts)
        rate = (1 + whole) ** 2
        gain = numerator * rate + denominator * (p.cwnd << 10) ** 2
        size = (abs(gain) << 10) // (denominator * p.cwnd * rate)
        return size if gain >= 0 else -size

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        p.since_bytes += acked * self.mss
        if p.in_slow_start:
            p.slow_start(acked)
            return
        p.cnt += self.step(r)
        if p.cnt >= 1023:
            p.cwnd, p.cnt = min(p.cwnd + 1, LARGEST), 0
        elif p.cnt <= -1023:
            p.cwnd, p.cnt = max(p.cwnd - 1, 1), 0

    def changed(self, r: int) -> None:
        p = self.paths[r]
        if p.since_bytes:
            p.interval_bytes, p.since_bytes = p.since_bytes, 0


@dataclass
class KernelBaliaPath(KernelPath):
    ai: int = 0
    md: int = 0
    stale: bool = False


@dataclass
class KernelBalia(KernelReno):
    """ai = 10 w S^2/((x+m)(4x+m)) ACKs are a segment; the decrease knows alpha as 1 or 1.5 only. Both are cached."""

    floor: int = 1
    mss: int = 1460
    path_class = KernelBaliaPath
    paths: list[KernelBaliaPath] = field(default_factory=list)  # type: ignore[assignment]

    def recompute(self, r: int) -> None:
        p = self.paths[r]
        rates = [self.mss * q.cwnd * 10**6 // q.rtt_us for q in self.paths if q.counts]
        x, m, s = self.mss * p.cwnd * 10**6 // p.rtt_us, max(rates), sum(rates)
        alpha = m // x
        while m > 1 << 25:
            x, m, s = x >> 5, m >> 5, s >> 5
        p.ai = max(10 * p.cwnd * s**2 // ((x + m) * (4 * x + m)), 1)
        p.stale = False
        p.md = p.cwnd >> 1 if alpha < 2 else (p.cwnd >> 1) * 3 >> 1

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if p.in_slow_start:
            p.slow_start(acked)
            self.recompute(r)
            return
        if p.stale or not p.ai:
            self.recompute(r)
        if p.cnt >= p.ai:
            p.cwnd, p.cnt = min(p.cwnd + 1, LARGEST), 0
            self.recompute(r)
        else:
            p.cnt += 1

    def ssthresh(self, r: int) -> int:
        p = self.paths[r]
        if p.stale or not p.ai:
            self.recompute(r)
        return max(p.cwnd - p.md, self.floor)

    def changed(self, r: int) -> None:
        """Worked out anew when recovery is over: at the next ACK of avoidance."""
        self.paths[r].stale = True


@dataclass
class KernelWvegasPath(KernelPath):
    base_us: int = 0x7FFFFFFF
    sum_us: int = 0
    samples: int = 0
    alpha: int = 2
    queue_us: int = 0
    rate: int = 0
    round_end: int | None = None
    next: int | None = None
    """What was to be sent next at the last ACK."""
    reno_until: int | None = None


@dataclass
class KernelWvegas(KernelReno):
    """A decision for each round trip, from the mean of its samples; gamma 1, initial alpha 2, total alpha 10."""

    path_class = KernelWvegasPath
    paths: list[KernelWvegasPath] = field(default_factory=list)  # type: ignore[assignment]

    def sample(self, r: int, us: int) -> None:
        p = self.paths[r]
        p.base_us = min(p.base_us, us + 1)
        p.sum_us += us + 1
        p.samples += 1

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        following = p.acked + p.cwnd
        if acked:
            p.next = following
        if p.reno_until is not None:
            if p.acked < p.reno_until:
                super().grow(r, acked)
                return
            p.reno_until = p.round_end = None
        if p.round_end is None or p.acked <= p.round_end:
            p.round_end = following if p.round_end is None else p.round_end
            if p.in_slow_start:
                p.slow_start(acked)
            return
        p.round_end = following
        if p.samples <= 2:
            super().grow(r, acked)
        else:
            self.decide(r, acked)
        p.samples = p.sum_us = 0

    def loss(self, r: int) -> None:
        """NewReno until what was in flight is acknowledged."""
        super().loss(r)
        p = self.paths[r]
        p.reno_until, p.samples, p.sum_us = p.next, 0, 0

    def timeout(self, r: int) -> None:
        super().timeout(r)
        p = self.paths[r]
        p.reno_until, p.samples, p.sum_us, p.rate = p.next, 0, 0, 0

    def decide(self, r: int, acked: int) -> None:
        p = self.paths[r]
        rtt = p.sum_us // p.samples
        diff = p.cwnd * (rtt - p.base_us) // rtt
        if p.in_slow_start:
            if diff > 1:
                p.cwnd = min(p.cwnd, p.cwnd * p.base_us // rtt + 1)
                self.lower_ssthresh(p)
            else:
                p.slow_start(acked)
        else:
            if diff >= p.alpha:
                self.share(p, rtt)
            if diff > p.alpha:
                p.cwnd -= 1
                self.lower_ssthresh(p)
            elif diff < p.alpha:
                p.cwnd = min(p.cwnd + 1, LARGEST)
            queue = rtt - p.base_us
            if not p.queue_us or queue < p.queue_us:
                p.queue_us = queue
            if queue >= 2 * p.queue_us:
                p.cwnd = p.cwnd * p.base_us // (2 * rtt)
                p.queue_us = 0
        p.cwnd = max(p.cwnd, 2)
        if p.ssthresh is not None:
            p.ssthresh = max(p.ssthresh, (p.cwnd >> 1) + (p.cwnd >> 2))

    @staticmethod
    def lower_ssthresh(p: KernelPath) -> None:
        p.ssthresh = p.cwnd if p.ssthresh is None else min(p.ssthresh, p.cwnd)

    def share(self, p: KernelWvegasPath, rtt: int) -> None:
        p.rate = (p.cwnd << 16) // rtt
        whole = sum(q.rate for q in self.paths if q.live and q.samples)
        if p.rate and whole:
            p.alpha = max(2, (p.rate << 16) // whole * 10 >> 16)
