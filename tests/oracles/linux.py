"""The kernel's integer forms, in unbounded integers: equal to the last bit.

Windows are whole segments, RTTs whole microseconds. Driven by hand a whole window is in flight. Events are those of
`tests.oracles.paths.Oracle`; `sampled`, `idled`, `delivered`, ... are the contract's callbacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from tests.oracles.paths import FIRST_THRESHOLD, NS, SEGMENT_BYTES, Setting, Word, smoothed

LARGEST = 1 << 20


@dataclass
class KernelPath:
    cwnd: int
    rtt_us: int
    ssthresh: int | None = None
    cnt: int = 0
    recovering: bool = False
    """Its window counts as ssthresh where the module asks for it so, and does not grow."""
    live: bool = True
    acked: int = 0
    """Segments so far: sequence numbers."""
    rtt: Fraction | None = field(default=None, init=False)
    """Smoothed, seconds; None: there was no sample."""
    group: int = field(default=0, init=False)
    """No kernel form couples sets."""

    def __post_init__(self) -> None:
        self.rtt = Fraction(self.rtt_us, 10**6) if self.rtt_us else None

    @property
    def window(self) -> int:
        return self.ssthresh if self.recovering and self.ssthresh is not None else self.cwnd

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
    words: ClassVar[Mapping[str, Word]] = {}
    connection_words: ClassVar[Mapping[str, Word]] = {}
    results: ClassVar[frozenset[str]] = frozenset({"ssth"})
    settings: ClassVar[Mapping[str, Setting]] = {"min_ssthresh": Setting("floor", {"1": 1, "2": 2, "7": 7})}
    decided_elsewhere: ClassVar[Mapping[str, str]] = {"min(p.cwnd + 1, LARGEST)": "test_windows_have_bounds"}

    paths: list[Any] = field(default_factory=list)
    floor: int = 2
    static: bool = False
    undecided: bool = field(default=False, init=False)
    now: Fraction = field(default=Fraction(0), init=False)
    prior: dict[int, tuple[int, int | None]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for r in range(len(self.paths)):
            self.begin_path(r)

    def begin_path(self, r: int) -> None:
        p = self.paths[r]
        if self.static and p.ssthresh is None:
            p.ssthresh = 65535 // SEGMENT_BYTES
        if p.rtt is not None:
            self.sampled(r, p.rtt, None)

    def delivered(self, r: int, acked: int, marked: int) -> None: ...

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None: ...

    def idled(self, r: int) -> None: ...

    def ack(
        self, r: int, acked: int, marked: int = 0, rtt: Fraction | None = None, newest: Fraction | None = None,
        now: Fraction = Fraction(0), growth: str = "allowed",
    ) -> None:  # fmt: skip
        p = self.paths[r]
        p.acked += acked
        self.now = now
        if acked:
            self.delivered(r, acked, marked)
        if rtt is not None:
            p.rtt = smoothed(p.rtt, rtt)
            p.rtt_us = int(p.rtt * NS) // 1000
        if rtt is not None or newest is not None:
            self.sampled(r, rtt, newest)
        if growth == "allowed":
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

    def begin_reduction(self, r: int) -> None:
        p = self.paths[r]
        self.prior[r] = p.cwnd, None if p.ssthresh is None else max(p.ssthresh, (p.cwnd >> 1) + (p.cwnd >> 2))

    def reduce(self, r: int, ssthresh: int) -> None:
        self.begin_reduction(r)
        p = self.paths[r]
        p.ssthresh = p.cwnd = ssthresh
        p.cnt = 0
        self.changed(r)
        p.recovering = False

    def loss(self, r: int) -> None:
        self.reduce(r, self.ssthresh(r))

    def ece(self, r: int) -> None:
        self.loss(r)

    def timeout(self, r: int) -> None:
        self.begin_reduction(r)
        p = self.paths[r]
        p.ssthresh = self.ssthresh(r)
        p.cwnd, p.cnt = 1, 0
        self.changed(r)
        p.recovering = False

    def undo(self, r: int) -> None:
        p = self.paths[r]
        cwnd, ssthresh = self.prior.pop(r)
        p.cwnd = max(p.cwnd, cwnd)
        p.ssthresh = None if ssthresh is None else max(p.ssthresh, ssthresh)
        p.recovering = False
        self.undone(r)

    def undone(self, r: int) -> None:
        """What is cached of windows."""

    def idle(self, r: int, seconds: Fraction, now: Fraction) -> None:
        self.idled(r)

    def resume(self, r: int) -> bool:
        return False

    def join(self, p: KernelPath) -> None:
        self.paths.append(p)
        self.begin_path(len(self.paths) - 1)
        self.changed(len(self.paths) - 1)

    def leave(self, r: int) -> None:
        self.paths[r].live = False
        self.changed(r)

    def changed(self, r: int) -> None:
        """What is cached over events."""

    def members(self) -> list[Any]:
        return [p for p in self.paths if p.counts]


@dataclass
class KernelLia(KernelReno):
    """A = 2^32 w_best/(sum floor(2^10 w_k R_best/R_k))^2 for the connection, on every ACK.

    T + 1 ACKs are a segment, T = max(4096/A, w).
    """

    results = frozenset({"acks_threshold"})
    settings: ClassVar[Mapping[str, Setting]] = KernelReno.settings | FIRST_THRESHOLD

    def scaled(self) -> int:
        members = self.members()
        if not members:
            return 1
        quads = [p.window / p.rtt**2 for p in members]
        best = members[quads.index(max(quads))]
        if sum(max(quads) - x <= max(quads) / 2**20 for x in quads) > 1:
            self.undecided = True  # which of two that are alike is the best
        whole = sum(int((p.cwnd << 10) * best.rtt / p.rtt) for p in members)
        return max((best.cwnd << 32) // whole**2, 1) if 0 < whole < 1 << 32 else 1

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        if p.in_slow_start:
            p.slow_start(acked)
        elif p.cnt >= max(4096 // self.scaled(), p.cwnd):
            p.cwnd = min(p.cwnd + 1, LARGEST)
            p.cnt = 0
        else:
            p.cnt += 1


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

    path_class = KernelOliaPath
    words: ClassVar[Mapping[str, Word]] = {
        "loss_interval_bytes": Word("interval_bytes", 0, 10**12),
        "since_loss_bytes": Word("since_bytes", 0, 10**12),
    }
    results = frozenset({"alpha"})
    settings: ClassVar[Mapping[str, Setting]] = KernelReno.settings | FIRST_THRESHOLD
    decided_elsewhere: ClassVar[Mapping[str, str]] = KernelReno.decided_elsewhere | {
        "p.cnt <= -1023": "test_olia_module_with_losses_behind_it",
        "max(p.cwnd - 1, 1)": "test_olia_module_with_losses_behind_it",
    }

    mss: int = SEGMENT_BYTES

    def window_of(self, q: KernelPath, r: int) -> int:
        """Only the others in recovery count with their ssthresh."""
        return q.cwnd if q is self.paths[r] else q.window

    def epsilon(self, r: int) -> tuple[int, int]:
        """Numerator and denominator of alpha_r."""
        members = [p for p in self.paths if p.counts]
        if not members:
            return 0, 1
        largest = max(p.window for p in members)
        value = [p.ell / Fraction(int(p.rtt * NS / 4)) ** 2 for p in members]
        in_m = [p for p in members if p.window == largest]
        collected = [p for p, v in zip(members, value, strict=True) if v == max(value) and p.window != largest]
        if collected and any(p is self.paths[r] for p in collected):
            return 1, len(members) * len(collected)
        if collected and any(p is self.paths[r] for p in in_m):
            return -1, len(members) * len(in_m)
        return 0, 1

    def step(self, r: int) -> int:
        p = self.paths[r]
        numerator, denominator = self.epsilon(r)
        if not p.counts:
            return (1 << 10) // p.cwnd
        whole = sum(int((self.window_of(q, r) << 10) * p.rtt / q.rtt) for q in self.paths if q.counts)
        rate = (1 + whole) ** 2
        gain = numerator * rate + denominator * (p.cwnd << 10) ** 2
        size = (abs(gain) << 10) // (denominator * p.cwnd * rate)
        return size if gain >= 0 else -size

    def delivered(self, r: int, acked: int, marked: int) -> None:
        self.paths[r].since_bytes += acked * self.mss

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
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

    path_class = KernelBaliaPath
    words: ClassVar[Mapping[str, Word]] = {"ai_acks": Word("ai"), "md": Word("md")}
    results = frozenset({"alpha"})
    settings: ClassVar[Mapping[str, Setting]] = KernelReno.settings | FIRST_THRESHOLD
    decided_elsewhere: ClassVar[Mapping[str, str]] = KernelReno.decided_elsewhere | {
        "max((x + m) * (4 * x + m), 1)": "test_integers"
    }

    floor: int = 1
    mss: int = SEGMENT_BYTES

    def recompute(self, r: int) -> None:
        p = self.paths[r]
        p.stale = False
        p.ai, p.md = p.cwnd, p.cwnd >> 1
        if not p.counts:
            return
        rates = [self.mss * q.cwnd * 10**6 // q.rtt_us for q in self.paths if q.counts]
        x, m, s = self.mss * p.cwnd * 10**6 // p.rtt_us, max(rates), sum(rates)
        alpha = m // x
        while m > 1 << 25:
            x, m, s = x >> 5, m >> 5, s >> 5
        p.ai = 10 * p.cwnd * s**2 // max((x + m) * (4 * x + m), 1)
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


NO_BASE = 0x7FFFFFFF


@dataclass
class KernelWvegasPath(KernelPath):
    base_us: int = NO_BASE
    sum_us: int = 0
    samples: int = 0
    alpha: int = 2
    queue_us: int = 0
    rate: int = 0
    round_end: int | None = None
    next: int | None = None
    """What was to be sent next at the last ACK."""
    reno_until: int | None = None

    @property
    def base_rtt_us(self) -> int:
        """0: none."""
        return 0 if self.base_us == NO_BASE else self.base_us


@dataclass
class KernelWvegas(KernelReno):
    """A decision for each round trip, from the mean of its samples; gamma 1, initial alpha 2, total alpha 10."""

    path_class = KernelWvegasPath
    words: ClassVar[Mapping[str, Word]] = {
        "alpha": Word("alpha"), "instant_rate": Word("rate"), "queue_delay_us": Word("queue_us"),
        "base_rtt_us": Word("base_rtt_us"),
    }  # fmt: skip
    results = frozenset({"weight"})
    decided_elsewhere: ClassVar[Mapping[str, str]] = {
        f"KernelWvegas.{f}": "test_wvegas_rounds" for f in ("grow", "decide", "lower_ssthresh", "share")
    }

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        """The newest segment's, in whole microseconds."""
        p = self.paths[r]
        if not newest:
            return
        us = int(newest * 10**6)
        p.base_us = min(p.base_us, us + 1)
        p.sum_us += us + 1
        p.samples += 1

    def delivered(self, r: int, acked: int, marked: int) -> None:
        p = self.paths[r]
        p.next = p.acked + p.cwnd

    def idled(self, r: int) -> None:
        """What the path looked like before says nothing now."""
        p = self.paths[r]
        p.base_us, p.round_end, p.samples, p.sum_us = NO_BASE, None, 0, 0

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        following = p.acked + p.cwnd
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
