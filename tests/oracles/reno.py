"""Rules that look at one window: NewReno (RFC 5681), and EWTCP, which weighs its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tests.oracles.paths import FIRST_THRESHOLD, Oracle, Setting, square_root


@dataclass
class NewReno(Oracle):
    """Also `uncoupled`: the same on each subflow. Estimates of ssthresh are compared in test_estimators.py."""

    results = frozenset({"ssth"})


@dataclass
class Ewtcp(Oracle):
    """I = a/w: the aggregate is one TCP with a = 1/n^2; the literal print is 1/sqrt(n).

    No rate enters: all that joined count.
    """

    settings: ClassVar[Mapping[str, Setting]] = (
        Oracle.settings | FIRST_THRESHOLD | {"ewtcp_a": Setting("weight", {"inv_n2": "inv_n2", "inv_sqrt": "inv_sqrt"})}
    )

    weight: str = "inv_n2"

    def increase(self, r: int) -> Fraction:
        n = Fraction(sum(p.live for p in self.paths))
        a = 1 / n**2 if self.weight == "inv_n2" else 1 / square_root(n)
        return a / self.paths[r].cwnd
