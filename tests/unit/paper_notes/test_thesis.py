"""L-1 to L-11: the thesis on Linux 6.8."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from rewindow import algorithms
from tests.printed import Subflows, lia
from tests.unit.paper_notes.controllers import F, avoiding, near


def test_l_1() -> None:
    """One segment for each ACK is slow start again; congestion avoidance is one for each round trip."""
    each_ack = each_round = F(10)
    for _ in range(3):
        each_ack += each_ack
        each_round += 1
    assert each_ack == 80
    assert each_round == 13
    c = avoiding("newreno", [10], [0.1])
    for _ in range(10):
        c.ack()
    assert c.paths[0].cwnd == 11


def test_l_2() -> None:
    """CUBIC keeps 0.7 of the window, not half."""
    c = avoiding("cubic", [100], [0.1])
    c.loss()
    assert c.paths[0].ssthresh == 70


def test_l_3() -> None:
    """HighSpeed TCP: the exponent is 0.835; 4.7 and 10.2 belong to 1e-5 and 1e-6, 0.001 % and 0.0001 %."""

    def highspeed(p: float, exponent: float) -> float:
        return 0.12 / p**exponent

    def reno_window(p: float) -> float:
        return 1.2 / math.sqrt(p)

    assert highspeed(1e-7, 0.835) == pytest.approx(83_000, rel=0.02)
    assert highspeed(1e-7, 0.035) < 1
    ratio = {percent: highspeed(percent / 100, 0.835) / reno_window(percent / 100) for percent in (1e-3, 1e-4, 1e-6)}
    assert ratio[1e-3] == pytest.approx(4.7, rel=0.02)
    assert ratio[1e-4] == pytest.approx(10.2, rel=0.02)
    assert ratio[1e-6] > 40


def test_l_4() -> None:
    """w/W for each ACK doubles a single path's window each round trip; LIA's min(alpha/W, 1/w) is Reno there."""
    w = F(10)
    assert w + w * (w / w) == 20
    s = Subflows.of([10], [1])
    assert w + w * min(lia(s, 0)[0], 1 / w) == 11
    c = avoiding("lia", [10], [0.1])
    c.ack()
    assert c.paths[0].cwnd == near(10.1)


def jain(*rates: Fraction | float | int) -> Fraction:
    values = [F(r) for r in rates]
    return sum(values) ** 2 / (len(values) * sum(v**2 for v in values))


def test_l_5() -> None:
    """Jain's index of two flows starts at 1/2, and 0.973 is not the worst of the runs that the thesis tells."""
    assert jain(1, 0) == F(1, 2)
    assert min(jain(1, F(k, 100)) for k in range(101)) == F(1, 2)
    assert float(jain(683, 842)) == pytest.approx(0.989, abs=1e-3)
    assert float(jain(158, 221)) == pytest.approx(0.973, abs=1e-3)
    assert jain(2, 1) == F(9, 10) < jain(158, 221)  # "MPTCP would be stuck at 1Gb/s"


def test_l_6() -> None:
    """A bandwidth over an RTT is no window; Westwood+ multiplies."""

    def changes_with_the_unit(window: Callable[[Fraction, Fraction], Fraction]) -> bool:
        per_second, seconds = F(1000), F(1, 10)
        return window(per_second, seconds) != window(per_second / 1000, seconds * 1000)

    assert changes_with_the_unit(lambda rate, rtt: rate / rtt)
    assert not changes_with_the_unit(lambda rate, rtt: rate * rtt)


def test_l_7() -> None:
    """Two paths of equal bandwidth send equally many packets; one to two is what equal windows give."""
    rtt = (F(50), F(100))
    equal_windows = [F(10) / t for t in rtt]
    assert equal_windows[0] == 2 * equal_windows[1]
    bandwidth = F(1, 5)
    assert [bandwidth * t / t for t in rtt] == [bandwidth, bandwidth]


def test_l_8() -> None:
    """The smallest RTT and the smallest queue over pacing rate, upstream's rule, choose different subflows."""
    subflows = {
        "near": {"srtt": 0.02, "queued": 60_000, "pacing": 1e6},
        "far": {"srtt": 0.05, "queued": 1_000, "pacing": 1e6},
    }
    by_rtt = min(subflows, key=lambda k: subflows[k]["srtt"])
    by_linger = min(subflows, key=lambda k: subflows[k]["queued"] / subflows[k]["pacing"])
    assert (by_rtt, by_linger) == ("near", "far")


def test_l_10() -> None:
    """Statements about a table or a sum that its own numbers contradict."""
    loss = [0, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 15, 20]
    illinois = [2860, 2840, 2380, 1830, 672, 107, 63.7, 96.5, 3.2, 1.78]
    yeah = [2860, 2230, 1930, 1860, 1310, 687, 49.6, 20, 7.1, 3.09]
    better = [p for p, a, b in zip(loss, yeah, illinois, strict=True) if p >= 0.1 and a <= b]
    assert better == [5, 10]  # where YeAH is not better, "after .1%"
    assert 96.5 > 63.7  # a bit rate that rises with the loss
    assert 44 / 11.5 < 4  # "more than four times"
    assert 60 / 11.5 > 4


def test_l_11() -> None:
    """One window of 40 for two subflows would halve both; a loss on one leaves the other's as it was."""
    shared = F(40)
    assert [shared / 2 / 2] * 2 == [10, 10]
    names = [a.name for a in algorithms() if a.kind == "multipath"]
    assert len(names) > 10
    for name in names:
        c = avoiding(name, [20, 20], [0.1, 0.1])
        c.loss(path=0)
        assert c.paths[0].cwnd < 20
        assert c.paths[1].cwnd == 20
