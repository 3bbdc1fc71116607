"""Rules for one path with steps of their own: Scalable, H-TCP, Illinois; and Vegas, which listens to delay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tests.oracles.paths import NS, Oracle, Path, Setting, Word, slow_start

HALF = Fraction(1, 2)
WORD = Fraction(1, 1 << 30)
"""Tolerance of words with 32 fractional bits, after one event."""


@dataclass
class Scalable(Oracle):
    """Kelly 2003: a = 0.01, b = 1/8; up to lwnd it is NewReno."""

    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {
        "lwnd": Setting("lwnd", {"16": 16, "1": 1, "100": 100})
    }

    lwnd: int = 16

    def increase(self, r: int) -> Fraction:
        w = self.paths[r].cwnd
        return 1 / w if w <= self.lwnd else Fraction(1, 100)

    def decrease(self, r: int) -> Fraction:
        w = self.paths[r].cwnd
        return w / 2 if w <= self.lwnd else w / 8

    def timeout_decrease(self, r: int) -> Fraction:
        return self.decrease(r)


@dataclass
class HtcpPath(Path):
    beta: Fraction = HALF
    bandwidth: Fraction = Fraction(0)
    """At the last loss, segments each microsecond; 0: there was none."""
    since: Fraction | None = None
    """When the first ACK after the last loss came."""
    shortest: Fraction | None = None
    longest: Fraction | None = None
    before: Any = None
    """beta, bandwidth and since before the last loss."""

    @property
    def min_rtt_ns(self) -> int:
        return int((self.shortest or 0) * NS)

    @property
    def max_rtt_ns(self) -> int:
        return int((self.longest or 0) * NS)


@dataclass
class Htcp(Oracle):
    """draft-leith-tcp-htcp: alpha = 2 (1 - beta) f(t); beta is RTTmin/RTTmax while throughput stays alike."""

    path_class = HtcpPath
    words: ClassVar[Mapping[str, Word]] = {
        "beta": Word("beta", tolerance=WORD), "bandwidth": Word("bandwidth", 0, 16, Fraction(1, 1 << 36)),
        "min_rtt_ns": Word("min_rtt_ns"), "max_rtt_ns": Word("max_rtt_ns"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {
        "delta_l": Setting("delta_l", {"1": Fraction(1), "0": Fraction(0), "10": Fraction(10)}),
        "backoff": Setting("adaptive", {"adaptive": True, "half": False}),
    }

    decided_elsewhere: ClassVar[Mapping[str, str]] = {
        "min(p.shortest / p.longest, Fraction(4, 5))": "test_vector",
        "max(min(p.shortest / p.longest, Fraction(4, 5)), HALF)": "test_vector",
    }

    delta_l: Fraction = Fraction(1)
    adaptive: bool = True

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        sample = newest or rtt
        p.shortest = sample if p.shortest is None else min(p.shortest, sample)
        p.longest = sample if p.longest is None else max(p.longest, sample)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        if self.paths[r].since is None:
            self.paths[r].since = self.now

    def growth(self, p: HtcpPath) -> Fraction:
        """f: from delta_l seconds after the last loss on 1 + 10 s + (s/2)^2."""
        assert p.since is not None
        s = self.now - p.since - self.delta_l
        return 1 + 10 * s + (s / 2) ** 2 if s > 0 else Fraction(1)

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        return 2 * (1 - p.beta) * self.growth(p) / p.cwnd

    def decrease(self, r: int) -> Fraction:
        p = self.paths[r]
        rate = p.cwnd / (p.rtt * 10**6) if p.rtt else Fraction(0)
        p.before = p.beta, p.bandwidth, p.since
        p.beta = self.backoff(p, rate)
        p.bandwidth, p.since = rate, None
        return p.cwnd * (1 - p.beta)

    def timeout_decrease(self, r: int) -> Fraction:
        return self.decrease(r)

    def backoff(self, p: HtcpPath, rate: Fraction) -> Fraction:
        if not self.adaptive or not p.bandwidth or p.longest is None:
            return HALF
        if self.above(abs(rate - p.bandwidth), p.bandwidth / 5, Fraction(1, 1 << 36)):
            return HALF
        return max(min(p.shortest / p.longest, Fraction(4, 5)), HALF)

    def undone(self, r: int) -> None:
        p = self.paths[r]
        p.beta, p.bandwidth, p.since = p.before


@dataclass
class IllinoisPath(Path):
    alpha: Fraction = Fraction(1)
    beta: Fraction = HALF
    shortest: int = 0
    longest: int = 0
    """Nanoseconds; 0: there was no sample."""
    sum_ns: int = 0
    samples: int = 0
    round_end: int = 0
    low_rounds: int = 0
    held: int = 0
    before: Any = None
    """alpha and beta before the last reduction, if that was a timeout."""


@dataclass
class Illinois(Oracle):
    """Section 3 of the paper, with its constants; kappa as what makes alpha and beta continuous."""

    path_class = IllinoisPath
    words: ClassVar[Mapping[str, Word]] = {
        "alpha": Word("alpha", 1, 10, WORD), "beta": Word("beta", 0, 0, WORD), "min_rtt_ns": Word("shortest"),
        "max_rtt_ns": Word("longest"), "low_rounds": Word("low_rounds", 0, 6), "held": Word("held"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {
        "theta": Setting("theta", {"5": 5, "0": 0, "2": 2}),
        "w_thresh": Setting("w_thresh", {"15": 15, "1": 1, "100": 100}),
    }

    theta: int = 5
    w_thresh: int = 15

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        sample = int((newest or rtt or 0) * NS)
        p.shortest = min(p.shortest or sample, sample)
        p.longest = max(p.longest, sample)
        p.sum_ns += sample
        p.samples += 1

    def delivered(self, r: int, acked: int, marked: int) -> None:
        p = self.paths[r]
        if p.una <= p.round_end:
            return
        if p.held:
            p.held = int(p.in_slow_start)
        elif p.samples:
            self.weigh(p, Fraction(p.sum_ns // p.samples - p.shortest), Fraction(p.longest - p.shortest))
        p.round_end = p.una + int(p.cwnd)
        p.sum_ns = p.samples = 0

    def weigh(self, p: IllinoisPath, delay: Fraction, most: Fraction) -> None:
        d1, d2, d3 = most / 100, most / 10, most * 8 / 10
        least_alpha, most_alpha = Fraction(3, 10), Fraction(10)
        least_beta, most_beta = Fraction(1, 8), HALF
        if delay <= d1:
            p.low_rounds += 1
            if p.low_rounds >= self.theta:
                p.alpha = most_alpha
        else:
            p.low_rounds = 0
            kappa1 = (most - d1) * least_alpha * most_alpha / (most_alpha - least_alpha)
            kappa2 = (most - d1) * least_alpha / (most_alpha - least_alpha) - d1
            p.alpha = kappa1 / (kappa2 + delay)
        if delay <= d2:
            p.beta = least_beta
        elif delay < d3:
            kappa3 = (least_beta * d3 - most_beta * d2) / (d3 - d2)
            kappa4 = (most_beta - least_beta) / (d3 - d2)
            p.beta = kappa3 + kappa4 * delay
        else:
            p.beta = most_beta

    def increase(self, r: int) -> Fraction:
        p = self.paths[r]
        return (1 if p.cwnd < self.w_thresh else p.alpha) / p.cwnd

    def decrease(self, r: int) -> Fraction:
        p = self.paths[r]
        p.before = None
        return p.cwnd * (HALF if p.cwnd < self.w_thresh else p.beta)

    def timeout_decrease(self, r: int) -> Fraction:
        p = self.paths[r]
        p.before = p.alpha, p.beta
        p.alpha, p.beta, p.held = Fraction(1), HALF, 1
        return p.cwnd / 2

    def undone(self, r: int) -> None:
        p = self.paths[r]
        if p.before is not None:
            (p.alpha, p.beta), p.held = p.before, 0


@dataclass
class VegasPath(Path):
    base: Fraction | None = None
    newest: Fraction | None = None
    round_end: int | None = None
    paused: int = 0

    @property
    def base_rtt_ns(self) -> int:
        return int((self.base or 0) * NS)

    @property
    def rtt_ns(self) -> int:
        return int((self.newest or 0) * NS)


@dataclass
class Vegas(Oracle):
    """Brakmo and Peterson 1995: Expected = w/base and Actual = w/R, compared once a round trip."""

    path_class = VegasPath
    words: ClassVar[Mapping[str, Word]] = {
        "base_rtt_ns": Word("base_rtt_ns"), "rtt_ns": Word("rtt_ns"), "paused": Word("paused"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {
        "alpha": Setting("alpha", {"2": 2, "0": 0, "10": 10}),
        "beta": Setting("beta", {"4": 4, "0": 0, "20": 20}),
        "gamma": Setting("gamma", {"1": 1, "0": 0, "5": 5}),
    }

    alpha: int = 2
    beta: int = 4
    gamma: int = 1

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        p.newest = newest or rtt
        p.base = p.newest if p.base is None else min(p.base, p.newest)

    def grow(self, r: int, acked: int) -> None:
        p = self.paths[r]
        following = p.una + int(p.cwnd)
        if p.round_end is None:
            p.round_end = following
        elif p.una > p.round_end:
            p.round_end = following
            if p.newest is not None:
                self.decide(p)
        if p.in_slow_start and not p.paused:
            slow_start(p, Fraction(acked))

    def decide(self, p: VegasPath) -> None:
        expected, actual = p.cwnd / p.base, p.cwnd / p.newest
        diff, unit = (expected - actual) * p.base, Fraction(1, 1 << 16)
        if p.in_slow_start:
            p.paused = 1 - p.paused
            if self.above(diff, Fraction(self.gamma), unit):
                p.ssthresh = p.cwnd
        elif diff < self.alpha:
            p.cwnd += 1
        elif self.above(diff, Fraction(self.beta), unit):
            p.cwnd = max(p.cwnd - 1, Fraction(2))
            p.ssthresh = min(p.ssthresh, p.cwnd)
