"""DCTCP as RFC 8257 has it, section 3.3: a mark takes away alpha/2 of the window, all else is NewReno."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tests.oracles.linux import KernelPath, KernelReno
from tests.oracles.paths import Oracle, Path, Setting, Word

GAINS = {"0.0625": Fraction(1, 16), "0": Fraction(0), "0.5": Fraction(1, 2), "1": Fraction(1)}
ONE = 1 << 32


@dataclass
class DctcpPath(Path):
    alpha: Fraction = Fraction(1)
    acked: int = 0
    marked: int = 0
    window_end: int = 0
    """SND.UNA when the connection begins: the first ACK ends the first window of data."""


@dataclass
class Dctcp(Oracle):
    path_class = DctcpPath
    words: ClassVar[Mapping[str, Word]] = {
        "alpha": Word("alpha", 0, 1, Fraction(4, ONE)), "acked": Word("acked"), "marked": Word("marked"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = Oracle.settings | {"g": Setting("g", GAINS)}

    g: Fraction = Fraction(1, 16)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        """Steps 2 to 8 of section 3.3, in segments."""
        p = self.paths[r]
        p.acked += acked
        p.marked += marked
        if p.una <= p.window_end:
            return
        p.alpha = p.alpha * (1 - self.g) + self.g * Fraction(p.marked, p.acked)
        p.window_end = p.una + int(p.cwnd)
        p.acked = p.marked = 0

    def marked_decrease(self, r: int) -> Fraction:
        """Step 9."""
        return self.paths[r].cwnd * self.paths[r].alpha / 2


@dataclass
class KernelDctcpPath(KernelPath):
    alpha_q32: int = ONE
    in_window: int = 0
    marked: int = 0
    window_end: int = 0

    @property
    def alpha(self) -> Fraction:
        return Fraction(self.alpha_q32, ONE)


@dataclass
class KernelDctcp(KernelReno):
    """The same with whole windows; alpha in units of 2^-32, each product rounded down."""

    path_class = KernelDctcpPath
    words: ClassVar[Mapping[str, Word]] = {
        "alpha": Word("alpha"), "acked": Word("in_window"), "marked": Word("marked"),
    }  # fmt: skip
    settings: ClassVar[Mapping[str, Setting]] = KernelReno.settings | {"g": Setting("g", GAINS)}

    g: Fraction = Fraction(1, 16)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        p = self.paths[r]
        p.in_window += acked
        p.marked += marked
        if p.acked <= p.window_end:
            return
        share = p.marked * ONE // p.in_window
        p.alpha_q32 += int(share * self.g) - int(p.alpha_q32 * self.g)
        p.window_end = p.acked + p.cwnd
        p.in_window = p.marked = 0

    def ece(self, r: int) -> None:
        """The part that is taken away is rounded down to 2^-16 segments, what is left to whole ones."""
        p = self.paths[r]
        left = (p.cwnd << 16) - (p.cwnd << 16) * p.alpha_q32 // (2 * ONE)
        self.reduce(r, max(left >> 16, self.floor))
