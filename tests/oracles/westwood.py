"""Westwood+ (Grieco and Mascolo 2004): the bandwidth that acknowledgements show, sampled once a round trip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tests.oracles.linux import KernelPath, KernelReno
from tests.oracles.paths import NS, Oracle, Path, Setting, Word

FILTERS = {"0.9": Fraction(58982, 65536), "0": Fraction(0), "0.5": Fraction(1, 2), "1": Fraction(1)}
"""Options have 16 fractional bits."""
UNIT = 1 << 40


@dataclass
class WestwoodPath(Path):
    bandwidth: Fraction = Fraction(0)
    """Segments each microsecond; 0: there was no sample."""
    least: Fraction | None = None
    """The smallest round trip, seconds."""
    segments: int = 0
    since: Fraction | None = None

    @property
    def min_rtt_ns(self) -> int:
        return int(self.least * NS) if self.least else 0


@dataclass
class Westwood(Oracle):
    path_class = WestwoodPath
    words: ClassVar[Mapping[str, Word]] = {
        "bandwidth": Word("bandwidth", 0, 16, Fraction(1, 1 << 36)), "min_rtt_ns": Word("min_rtt_ns"),
        "segments": Word("segments"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {"filter": Setting("filter", FILTERS)}

    filter: Fraction = FILTERS["0.9"]

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        sample = newest or rtt
        assert sample
        p.least = sample if p.least is None else min(p.least, sample)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        p = self.paths[r]
        p.segments += acked
        if p.since is not None:
            if p.rtt is None or self.now - p.since < p.rtt:
                return
            rate = Fraction(p.segments) / ((self.now - p.since) * 10**6)
            p.bandwidth = self.filter * p.bandwidth + (1 - self.filter) * rate if p.bandwidth else rate
        p.since, p.segments = self.now, 0

    def decrease(self, r: int) -> Fraction:
        p = self.paths[r]
        if not p.bandwidth or p.least is None:
            return p.cwnd / 2
        return p.cwnd - min(p.cwnd, p.bandwidth * p.least * 10**6)

    def timeout_decrease(self, r: int) -> Fraction:
        return self.decrease(r)


@dataclass
class KernelWestwoodPath(KernelPath):
    rate: int = 0
    """In units of 2^-40 segments each microsecond."""
    min_rtt_ns: int = 0
    segments: int = 0
    since: Fraction | None = None

    @property
    def bandwidth(self) -> Fraction:
        """As the state shows it, in double precision."""
        return Fraction(self.rate / UNIT)


@dataclass
class KernelWestwood(KernelReno):
    """The same with whole windows; each product and quotient is rounded down."""

    path_class = KernelWestwoodPath
    words: ClassVar[Mapping[str, Word]] = {
        "bandwidth": Word("bandwidth"), "min_rtt_ns": Word("min_rtt_ns"), "segments": Word("segments"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = KernelReno.settings | {"filter": Setting("filter", FILTERS)}

    filter: Fraction = FILTERS["0.9"]

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        p = self.paths[r]
        sample = int((newest or rtt or 0) * NS)
        p.min_rtt_ns = min(p.min_rtt_ns or sample, sample)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        p = self.paths[r]
        p.segments += acked
        if p.since is not None:
            if p.rtt is None or self.now - p.since < p.rtt:
                return
            rate = p.segments * 1000 * UNIT // int((self.now - p.since) * NS)
            p.rate = int(self.filter * p.rate) + int((1 - self.filter) * rate) if p.rate else rate
        p.since, p.segments = self.now, 0

    def ssthresh(self, r: int) -> int:
        p = self.paths[r]
        if not p.rate:
            return super().ssthresh(r)
        return max(min(p.rate * p.min_rtt_ns // (1000 << 24) >> 16, p.cwnd), self.floor)
