"""One test for each entry of docs/paper-notes.md: the printed rule fails, what stands in its place holds.

Windows in segments, round-trip times in seconds where a controller is driven. Exact rationals, except for logarithms.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rewindow import Controller, algorithms, detectors, schedulers
from tests.printed import (
    PrintedDetector,
    RepairedDetector,
    Subflows,
    aca,
    balia,
    coupled,
    enmcc,
    events,
    ewtcp,
    fluid,
    grid,
    lia,
    reno,
    threshold_factor,
)

ROOT = Path(__file__).parent.parent.parent
F = Fraction
CON = 65535 / 1400  # segments: the ssthresh of both slow-start papers


def driven(name: str, w: list[float], rtt: list[float], **named: object) -> Controller:
    """All paths in the initial slow start."""
    return Controller(name, paths=[{"cwnd": a, "rtt": b} for a, b in zip(w, rtt, strict=True)], mss=1400, **named)


def avoiding(name: str, w: list[float], rtt: list[float], **named: object) -> Controller:
    """All paths in congestion avoidance."""
    paths = [{"cwnd": a, "rtt": b, "ssthresh": 1.0, "max_packets_out": a} for a, b in zip(w, rtt, strict=True)]
    return Controller(name, paths=paths, mss=1400, **named)


def windows(c: Controller) -> list[float]:
    return [p.cwnd for p in c.paths]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-3)


def joined(alpha: float, con: float, before: float, window: float) -> float:
    """alpha after a join, as CSS Algorithm 2 and TCCC Algorithm 1 print it."""
    round_trips = math.log(con / before) / math.log(alpha)
    return float((con / (before + window)) ** (1 / round_trips))


# Coupled slow start -------------------------------------------------------------------------------------------------


def test_c_1() -> None:
    """Growth by alpha in each smallest RTT is alpha^rho in an RTT rho times as long; the product grows at alpha = 1."""
    for rho in (1, 2, 5):
        for alpha in (F(1), F(5, 4), F(3, 2)):
            short = F(10)
            for _ in range(rho):
                short *= alpha
            assert F(10) * alpha**rho == short
            assert (F(10) * alpha * rho == short) == (rho == 1)

    def after_its_round_trip(form: str) -> list[float]:
        c = driven("tccc", [10, 10], [0.1, 0.2], alpha=1.5, con_ssthresh=1e5, L=1024, alpha_form=form)
        for acked in (10, 15):
            c.ack(path=0, acked=acked)
        c.ack(path=1, acked=10)
        return windows(c)

    assert after_its_round_trip("exponent") == [near(22.5), near(22.5)]
    assert after_its_round_trip("product") == [near(22.5), near(30)]


def test_c_2() -> None:
    """One ACK for a whole train grows by the cap, not by the share of what it acknowledges."""

    def step(name: str, rtt: list[float], acked: int, **options: object) -> float:
        c = driven(name, [20, 20], rtt, alpha=1.5, con_ssthresh=1e5, **options)
        c.ack(path=1, acked=acked)
        return c.paths[1].cwnd - 20

    assert (step("css", [0.1, 0.1], 12), step("tccc", [0.1, 0.1], 12)) == (near(2), near(1))
    assert step("tccc", [0.1, 0.1], 12, L_scale="on") == near(6)
    assert step("css", [0.1, 0.1], 2) == step("tccc", [0.1, 0.1], 2) == near(1)
    assert (step("css", [0.1, 0.2], 2), step("tccc", [0.1, 0.2], 2)) == (
        near(2),
        near(1),
    )  # not the same on a long path


def test_c_3() -> None:
    """A subflow with a smaller RTT raises the expected throughput; the one computed at the start ends it too early."""
    con = 46.0
    at_start = con / 0.2
    c = driven("tccc", [20], [0.2], con_ssthresh=con)
    c.join({"cwnd": 10.0, "rtt": 0.05})
    current = 20 / 0.2 + 10 / 0.05
    assert at_start < current < con / 0.05
    c.ack(path=1, acked=1)
    assert c.state["initial_ss"] == 1


def test_c_4() -> None:
    """One path whose queue doubles the RTT: against the smallest RTT ever seen it would leave at twice con_ssthresh."""
    con, empty, full = 46.0, 0.1, 0.2
    c = driven("css", [40], [full], con_ssthresh=con)
    while c.state["initial_ss"]:
        c.ack(acked=2, rtt=full)
    assert con < c.paths[0].cwnd < con + 2
    assert not c.paths[0].cwnd / full > con / empty
    assert (2 * con + 1) / full > con / empty


def test_c_5() -> None:
    """g rtt + (1 - g) rtt is rtt: the printed line never changes it."""
    for g, rtt in ((F(1, 2), F(1, 10)), (F(1, 8), F(3, 7))):
        assert g * rtt + (1 - g) * rtt == rtt
    c = driven("tccc", [10], [0.1], con_ssthresh=1e5)
    c.ack(acked=1, rtt=0.14)
    assert c.state["coupled_rtt"][0] / 1e9 == pytest.approx(0.12)


def test_c_6() -> None:
    """max ssth_r over min rtt mixes two paths; 65535 can only be bytes."""
    ssthresh, rtt = (F(10), F(100)), (F(1, 100), F(2, 10))
    best_tcp = max(a / b for a, b in zip(ssthresh, rtt, strict=True))
    assert max(ssthresh) / min(rtt) == 10 * best_tcp
    assert ssthresh[0] / rtt[0] == best_tcp  # the estimate of the path with the smallest RTT

    link = 5_000_000
    as_segments, as_bytes = 65535 * 1400 * 8 / 0.1, 65535 * 8 / 0.1
    assert as_segments > 1000 * link
    assert as_bytes < 1.1 * link
    for window, coupled_still in ((46.0, 1), (47.0, 0)):
        c = driven("css", [window], [0.1])
        c.ack(acked=1)
        assert c.state["initial_ss"] == coupled_still


def test_c_7() -> None:
    """The time left to con_ssthresh survives a second join only with the alpha that the first one left."""
    first = joined(1.5, CON, 20, 10)
    left = math.log(CON / 36) / math.log(first)
    assert math.log(CON / 46) / math.log(joined(first, CON, 36, 10)) == pytest.approx(left)
    assert math.log(CON / 46) / math.log(joined(1.5, CON, 36, 10)) < left / 1.5

    c = driven("css", [20], [0.1])
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] == near(first)
    c.ack(path=0, acked=26)  # 2 by the cap
    before = sum(windows(c))
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] == near(joined(first, CON, before, 10))


@pytest.mark.parametrize("before", [30.0, 36.0, 40.0, 46.0, 50.0])
def test_c_8(before: float) -> None:
    """A join whose windows reach con_ssthresh: alpha below 1, no alpha at all, or one that is larger than before."""
    con = 46.0
    c = driven("css", [before], [0.1], alpha=1.5, con_ssthresh=con)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    if before + 10 < con:
        assert 1 < joined(1.5, con, before, 10) < 1.5
        assert c.state["initial_ss"] == 1
        assert c.state["alpha"] == near(joined(1.5, con, before, 10))
        return
    if before + 10 == con:
        assert joined(1.5, con, before, 10) == 1
    elif before < con:
        assert joined(1.5, con, before, 10) < 1
    elif before == con:
        with pytest.raises(ZeroDivisionError):
            joined(1.5, con, before, 10)
    else:
        assert joined(1.5, con, before, 10) > 3.6
    assert c.state["initial_ss"] == 0
    assert [p.ssthresh for p in c.paths] == [before, 10.0]


def test_c_9() -> None:
    """When the windows have reached con_ssthresh, the rates have not, unless all RTTs are equal."""
    con = F(30)
    equal, unequal = Subflows.of([15, 15], [1, 1]), Subflows.of([15, 15], [1, 2])
    assert equal.total == unequal.total == con
    assert equal.rate == con / equal.rtt_min
    assert unequal.rate == F(3, 4) * con / unequal.rtt_min

    def alpha(weighted: str) -> float:
        c = driven("css", [20], [0.1], alpha=1.5, join_weighted=weighted)
        c.join({"cwnd": 10.0, "rtt": 0.2})
        return float(c.state["alpha"])

    assert alpha("off") == near(joined(1.5, CON, 20, 10))
    assert alpha("on") == near(joined(1.5, CON, 20, 5))


def test_c_10() -> None:
    """alpha_r fixed at the join keeps the exponent of an RTT that has changed since."""
    c = driven("css", [20, 20], [0.1, 0.1], alpha=1.2, con_ssthresh=1e5)
    c.ack(path=1, acked=1, rtt=0.3)  # smoothed: 0.2
    assert c.paths[1].cwnd - 20 == near(1.2**2 - 1)
    assert 1.2**2 - 1 > 2 * (1.2**1 - 1)


def test_c_11() -> None:
    """Counting bytes, the growth does not depend on how the receiver acknowledges: 1.5 a round trip, TCP doubles."""

    def round_trip(each: int, **options: object) -> float:
        c = driven("css", [16], [0.1], con_ssthresh=1e5, **options)
        for _ in range(16 // each):
            c.ack(acked=each)
        return c.paths[0].cwnd

    def segment_for_each_ack(each: int) -> int:
        return 16 + 16 // each

    assert (segment_for_each_ack(1), segment_for_each_ack(2)) == (32, 24)  # what delayed ACKs do to a TCP of 1999
    assert round_trip(1) == round_trip(2) == near(24)
    assert round_trip(1, alpha0=2) == round_trip(2, alpha0=2) == near(32)


@pytest.mark.parametrize("event", ["loss", "timeout"])
def test_c_12(event: str) -> None:
    """The exit of TCCC line 23-24 takes the ssthresh from a subflow that has lost; a lost one keeps coupled growth."""
    c = driven("tccc", [30, 10], [0.1, 0.1], alpha=1.5, con_ssthresh=30)
    getattr(c, event)(path=0)
    assert c.paths[0].ssthresh == 15
    assert c.state["initial_ss"] == 1  # the other stays coupled
    assert [p.phase == "coupled_slow_start" for p in c.paths] == [False, True]
    while c.state["initial_ss"]:
        c.ack(path=1, acked=2)
    at_exit = windows(c)
    assert c.paths[0].ssthresh == 15
    assert c.paths[1].ssthresh == at_exit[1]
    if event == "timeout":
        assert at_exit[0] != c.paths[0].ssthresh  # what line 24 would have made of it

    alone = driven("tccc", [30], [0.1], con_ssthresh=40)
    getattr(alone, event)()
    assert alone.state["initial_ss"] == 0  # nobody is left in it


def test_c_13() -> None:
    """After the exit, both papers' slow-start listings go on adding what was acknowledged, above ssthresh too."""

    def tccc_printed(w: F, ssthresh: F, acked: F) -> F:
        w += acked  # Algorithm 1, line 29
        return w + acked if w - acked < ssthresh else w + acked / w  # Algorithm 2, lines 3-6, one path

    assert tccc_printed(F(10), F(20), F(2)) == 14  # twice what slow start adds
    assert tccc_printed(F(20), F(20), F(2)) > 22  # and slow start in congestion avoidance

    def css_printed(w: int) -> int:
        for _ in range(w):
            w += 1  # Algorithm 3, line 5: each ACK, without a look at ssthresh
        return w

    assert css_printed(css_printed(10)) == 40
    for name in ("css", "tccc"):
        below, above = driven(name, [10], [0.1]), driven(name, [10], [0.1])
        below.timeout()
        below.ack(acked=2)
        assert below.paths[0].cwnd == 3
        above.loss()
        for _ in range(5):
            above.ack()
        assert 5.9 < above.paths[0].cwnd < 6.1


def test_c_14() -> None:
    """The lines and sections that TCCC's text points to, against its own listing and headings."""
    assigned = {5: "con_ssth", 6: "exp_th", 8: "Totcd", 9: "NewTotcd", 10: "CT", 11: "alpha", 15: "rtt_r", 16: "cur_th",
                18: "alpha_r", 19: "cwnd_r", 24: "ssth_r", 25: "ini_SS_r", 29: "cwnd_r"}  # fmt: skip
    headings = {"IV.A": "Fluid Model", "IV.B": "Fairness Analysis", "IV.C": "Ssthresh Estimation"}
    assert assigned.get(7) != "exp_th"
    assert assigned[6] == "exp_th"
    assert assigned.get(20) != "alpha_r"
    assert assigned[18] == "alpha_r"
    assert "Estimation" not in headings["IV.B"]
    assert "Estimation" in headings["IV.C"]


def test_c_15() -> None:
    """`cwnd_r < ssth` without an index: against the connection's threshold, slow start goes on after the exit."""
    w = [30.0, 18.0]
    assert sum(w) > CON
    assert all(a < CON for a in w)
    c = driven("tccc", w, [0.1, 0.1])
    c.ack(path=0, acked=2)
    assert c.state["initial_ss"] == 0
    assert [p.ssthresh for p in c.paths] == w
    for path in (0, 1):
        c.ack(path=path, acked=2)
        assert c.paths[path].cwnd < w[path] + 0.1  # not w + 2


def test_c_16() -> None:
    """Before the first join no line has given a subflow its alpha; and the first subflow's own join divides by zero."""
    subflow: dict[str, float] = {"cwnd": 10.0}  # CSS: `subflow[i].alpha` is written in Algorithm 2, line 9 alone
    with pytest.raises(KeyError):
        subflow["cwnd"] += min(2.0, subflow["alpha"] - 1)
    with pytest.raises(ZeroDivisionError):
        joined(1.5, CON, 0, 10)
    c = Controller("css", mss=1400)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] == 1.5
    c.ack(acked=2)
    assert c.paths[0].cwnd == near(11)


def test_c_17() -> None:
    """A join after the exit: as printed alpha grows and the new subflow runs coupled with an exit that cannot come."""
    con, now = 46.0, 50.0
    literal = joined(1.5, con, now, 10)
    assert literal > 3.6

    def printed_exit_fires(initial_ss: bool, rate: float) -> bool:
        return initial_ss and rate > con / 0.1  # CSS Algorithm 1, line 10

    assert not any(printed_exit_fires(False, w / 0.1) for w in (60, 600, 6000))
    c = driven("css", [now], [0.1], con_ssthresh=con)
    c.ack()
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert (c.state["initial_ss"], c.state["alpha"]) == (0, 1.5)
    assert c.paths[1].phase == "slow_start"

    all_lost = driven("css", [20], [0.1], con_ssthresh=con)
    all_lost.loss()
    all_lost.join({"cwnd": 10.0, "rtt": 0.1})
    assert (all_lost.state["initial_ss"], all_lost.state["alpha"]) == (0, 1.5)
    assert all_lost.paths[1].phase == "slow_start"


def test_c_18() -> None:
    """Windows that add up to con_ssthresh exactly: alpha 1, no growth, no exit, and the next join divides by ln 1."""
    con = 30.0
    alpha = joined(1.5, con, 20, 10)
    assert alpha == 1
    rate = (20 + 10) / 0.1
    assert not rate > con / 0.1  # the exit asks for more
    with pytest.raises(ZeroDivisionError):
        joined(alpha, con, 20, 5)
    c = driven("css", [20], [0.1], con_ssthresh=con)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["initial_ss"] == 0
    c.ack(path=0, acked=2)
    assert c.paths[0].cwnd > 20


def test_c_19() -> None:
    """The cap of one ACK takes away what the exponent gives to a long path."""

    def round_trip(name: str, **options: object) -> float:
        c = driven(name, [10, 10], [0.1, 0.2], alpha=1.5, con_ssthresh=1e5, **options)
        for _ in range(5):
            c.ack(path=1, acked=2)
        return c.paths[1].cwnd

    meant = 10 * 1.5**2
    assert round_trip("tccc", L=1024) == near(meant)
    assert round_trip("tccc") == near(15)  # as if alpha_r were alpha
    assert round_trip("css") == near(20)
    assert round_trip("css", L=4) == near(meant)
    binds = math.log(2) / math.log(1.5)  # two segments acknowledged, a cap of two
    assert binds == pytest.approx(1.71, abs=0.005)


def test_c_20() -> None:
    """5 Mb/s and 100 ms hold 44.6 packets of 1400 bytes; 47 is the ssthresh; sizes and ratios that do not fit."""
    product = F(5_000_000, 8) / 10 / 1400
    assert float(product) == pytest.approx(44.64, abs=0.01)
    assert round(product) != 47
    assert math.ceil(F(65535, 1400)) == 47
    assert 400 * 1400 == 560_000 != 5_600  # CSS, captions of Fig. 5 and 6
    assert F(80, 47) < F(9, 5)  # TCCC V.B: 80 packets, "200% of the path's BDP"
    assert F(80) / product < F(9, 5)
    assert F(100) / product > 2  # TCCC V.B: 100 packets, "one BDP"


def test_c_21() -> None:
    """45 % less time is 82 % more goodput; 45 % more goodput is 31 % less time."""
    size, time = F(560_000), F(2)
    goodput = size / time
    assert size / (time * (1 - F(45, 100))) / goodput == F(20, 11)
    assert 1 - size / (goodput * F(145, 100)) / time == F(9, 29)


def test_c_22() -> None:
    """Taking the whole initial window from a donor leaves it nothing when it has no more than that."""
    for donor in (3, 5, 10):
        assert donor - 10 <= 0
    for donor in (12, 20, 40):
        assert donor - 10 > 0
    for donor, gift in ((40, 10), (20, 10), (14, 7), (5, 3), (3, 3)):
        c = driven("lisa", [float(donor)], [0.1])
        c.join({"cwnd": 10.0, "rtt": 0.1})
        assert windows(c) == [max(donor - gift, 1), gift]


def test_c_23() -> None:
    """Nothing is printed for a subflow that closes: with alpha kept, the rest arrives late."""
    before, leaving = 36.0, 4.0
    alpha = joined(1.5, CON, 20, 10)
    left = math.log(CON / before) / math.log(alpha)
    assert math.log(CON / (before - leaving)) / math.log(alpha) > left + 0.5
    c = driven("css", [before - leaving, leaving], [0.1, 0.1], alpha=alpha)
    c.leave(path=1)
    assert math.log(CON / (before - leaving)) / math.log(c.state["alpha"]) == near(left)
    c.leave(path=0)
    assert c.state["alpha"] == 1.5


def test_c_24() -> None:
    """A subflow that a spurious loss took out, with its threshold given back (none), passes con_ssthresh alone."""
    alone = driven("newreno", [20.0], [0.1])
    coupled = driven("css", [20.0, 10.0], [0.1, 0.1], con_ssthresh=CON, alpha=joined(1.5, CON, 20, 10))
    for c in (alone, coupled):
        c.loss(0)
        c.undo(0)
        assert (c.paths[0].cwnd, c.paths[0].ssthresh) == (20.0, math.inf)
    while alone.paths[0].cwnd <= CON:
        alone.ack(0, 1)
    assert coupled.paths[0].phase == "coupled_slow_start"
    coupled.ack(0, 1)
    assert coupled.paths[0].cwnd - 20 == near(coupled.state["alpha"] - 1)

    late = driven("css", [20.0, 10.0], [0.1, 0.1], con_ssthresh=25)
    late.loss(0)
    late.ack(1, 5)
    late.ack(1, 5)
    late.ack(1, 5)
    late.ack(1, 5)
    assert late.state["initial_ss"] == 0
    late.undo(0)
    assert (late.paths[0].cwnd, late.paths[0].ssthresh) == (20.0, 20.0)


# TCCC: aggressive congestion avoidance and its fluid model -----------------------------------------------------------


def test_t_1() -> None:
    """Small windows at equal RTTs: the printed decrease leaves 0 or less in most states, with the floor 2 in none."""
    for n in (2, 3):
        infeasible = [s for s in grid(n, windows=range(1, 9), rtts=(1,)) for r in range(n) if s.w[r] <= aca(s, r)[1]]
        states = sum(1 for _ in grid(n, windows=range(1, 9), rtts=(1,)))
        assert len(infeasible) > states
    assert aca(Subflows.of([10, 10], [1, 1]), 0)[1] == 10
    assert aca(Subflows.of([10, 10, 10], [1, 1, 1]), 0)[1] == 15
    assert aca(Subflows.of([4, 10], [1, 1]), 0)[1] == 7
    for w in ([10, 10], [10, 10, 10], [4, 10], [30, 10]):
        c = avoiding("tccc", [float(v) for v in w], [0.1] * len(w), aca_md="eq8")
        c.loss(path=0)
        left = w[0] - aca(Subflows.of(w, [1] * len(w)), 0)[1]
        assert c.paths[0].ssthresh == max(left, 2)
    one = avoiding("tccc", [4, 10], [0.1, 0.1], aca_md="eq8", min_ssthresh=1)
    one.loss(path=0)
    assert one.paths[0].ssthresh == 1


def test_t_2() -> None:
    """With equal RTTs ACA is the fully coupled algorithm, whatever the windows."""
    for n in (1, 2, 3):
        for s in grid(n, rtts=(5,)):
            assert all(aca(s, r) == (1 / s.total, s.total / 2) for r in range(n))
    unequal = Subflows.of([10, 10], [1, 2])
    assert aca(unequal, 0) != (1 / unequal.total, unequal.total / 2)


def test_t_3() -> None:
    """Measured loss rates are the same only by chance; within a factor of four they are for neighbouring windows."""
    peaks = range(10, 60)
    rates = [(F(2, a * a), F(2, b * b)) for a in peaks for b in peaks]
    assert sum(a == b for a, b in rates) / len(rates) == 1 / len(peaks)
    assert sum(max(a, b) <= 4 * min(a, b) for a, b in rates) / len(rates) > 0.6

    def after_a_loss(peaks: tuple[float, float, float], **options: object) -> float:
        paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 1.0, "max_packets_out": m} for m in peaks]
        c = Controller("tccc", paths=paths, **options)
        c.loss(path=0)
        return c.paths[0].cwnd

    eq8, half = 2.0, 10.0
    assert after_a_loss((20, 21, 40)) == eq8
    assert after_a_loss((20, 21, 41)) == half
    assert after_a_loss((20, 21, 0)) == half  # the third has not had a reduction yet
    assert after_a_loss((20, 21, 22), same_loss_ratio=1) == half
    assert (after_a_loss((20, 21, 41), aca_md="eq8"), after_a_loss((20, 20, 20), aca_md="half")) == (eq8, half)


def test_t_4() -> None:
    """The increase of eq. 6 with halving: n subflows are more than the best TCP, at nearly equal loss sqrt(n)."""
    for p in ((F(1, 50), F(1, 72)), (F(1, 50), F(1, 50)), (F(1, 200), F(1, 50), F(1, 800))):
        total_squared = sum(2 / a for a in p)  # I = 1/W, D = w_r/2: w_r = 2/(W p_r)
        total = math.sqrt(total_squared)
        for a in p:
            w = 2 / (total * a)
            assert 1 / total == pytest.approx(a * w / 2)
        assert total_squared > 2 / min(p)
    assert 2 / F(1, 50) + 2 / F(1, 50) == 2 * (2 / F(1, 50))

    half = avoiding("tccc", [10, 10], [0.1, 0.1], aca_md="half")
    eq8 = avoiding("tccc", [10, 10], [0.1, 0.1], aca_md="eq8")
    for c in (half, eq8):
        c.loss(path=0)
    assert sum(windows(half)) == 15  # a TCP of 20 would have 10
    assert sum(windows(eq8)) == 12


def test_t_5() -> None:
    """On a long path the increase passes Reno's and the decrease nearly vanishes; the two bounds of aca_safe hold."""
    s = Subflows.of([1, 100], [1, 10])
    step, decrease = aca(s, 1)
    assert step == 5 * reno(s, 1)[0]
    assert decrease / s.w[1] < F(1, 32)
    phi, phi_reno = fluid(s, 1, step, decrease)[1], fluid(s, 1, *reno(s, 1))[1]
    assert phi / phi_reno == (s.x[1] * s.rtt[1] / (s.rate * s.rtt_min)) ** 2 == F(10000, 121)

    for n in (1, 2, 3):
        for t in grid(n, rtts=(1,)):
            assert all(aca(t, r)[0] <= reno(t, r)[0] and aca(t, r)[1] >= reno(t, r)[1] for r in range(n))
    for safe, expected in (("off", (0.05, 96.975)), ("on", (0.01, 50.0))):
        grown = avoiding("tccc", [1, 100], [0.02, 0.2], aca_safe=safe)
        grown.ack(path=1)
        lost = avoiding("tccc", [1, 100], [0.02, 0.2], aca_safe=safe, aca_md="eq8")
        lost.loss(path=1)
        assert grown.paths[1].cwnd - 100 == pytest.approx(expected[0], rel=1e-3, abs=2**-16)
        assert lost.paths[1].ssthresh == near(expected[1])


def test_t_6() -> None:
    """Eq. 3 holds in steps of each subflow's own RTT; in a second the sum grows less than the best TCP."""
    slower = 0
    for s in grid(2):
        per_round = [aca(s, r)[0] * s.w[r] for r in range(2)]
        assert sum(e / t for e, t in zip(per_round, s.rtt, strict=True)) == 1 / s.rtt_min
        per_second = sum(e / t**2 for e, t in zip(per_round, s.rtt, strict=True))
        assert (per_second == 1 / s.rtt_min**2) == (s.rtt[0] == s.rtt[1])
        assert per_second <= 1 / s.rtt_min**2
        slower += per_second < F(9, 10) / s.rtt_min**2
    assert slower > 20


def test_t_7() -> None:
    """Eq. 5 shares the growth in proportion to rate; in proportion to RTT, as the text says, eq. 6 fails."""
    for s in grid(2):
        by_rate = [x / (s.rtt_min * sum(s.quad)) for x in s.x]
        by_rtt = [t / (s.rtt_min * s.n) for t in s.rtt]
        for share in (by_rate, by_rtt):
            assert sum(a / t for a, t in zip(share, s.rtt, strict=True)) == 1 / s.rtt_min  # eq. 3, either way
        assert s.w[0] / s.w[1] == by_rate[0] * s.rtt[0] / (by_rate[1] * s.rtt[1])  # eq. 5
        assert by_rate == [aca(s, r)[0] * s.w[r] for r in range(2)]  # eq. 6
    s = Subflows.of([10, 10], [1, 2])
    assert s.w[0] / s.w[1] != F(1) * 1 / (F(2) * 2)


def test_t_8() -> None:
    """Eq. 8 follows from eq. 7 with the window of eq. 1; with eq. 2's it would depend on t."""

    def eta(s: Subflows, r: int, tcp: Fraction) -> Fraction:
        p = 2 / tcp**2
        return 2 * aca(s, r)[0] / (p * s.w[r])  # eq. 7 with 1 - p = 1

    for s in grid(2):
        for r in range(2):
            assert eta(s, r, s.rtt_min * s.rate) * s.w[r] / 2 == aca(s, r)[1]
            for t in (1, 5):
                grown = sum(((w + t * aca(s, k)[0] * w) / s.rtt[k] for k, w in enumerate(s.w)), F(0))
                assert eta(s, r, s.rtt_min * grown) * s.w[r] / 2 != aca(s, r)[1]


def test_t_9() -> None:
    """phi is the same on every path: with equal loss any split is an equilibrium, with unequal loss none uses both."""
    for s in grid(2):
        phi = [fluid(s, r, *aca(s, r))[1] for r in range(2)]
        assert phi[0] == phi[1] == 2 / (s.rtt_min * s.rate) ** 2
        moved = s.with_rates((s.x[0] / 2, s.x[1] + s.x[0] / 2))
        assert [fluid(moved, r, *aca(moved, r))[1] for r in range(2)] == phi
        halving = [aca(t, 0)[0] / (t.w[0] / 2) for t in (s, moved)]  # the other branch has a split of its own
        assert halving[0] != halving[1]


def test_t_10() -> None:
    """BALIA in Table II: k is not x_r min x_r / 2, and phi holds only up to alpha = 1.5."""
    apart = 0
    for s in grid(2):
        for r in range(2):
            a = max(s.x) / s.x[r]
            k, phi = fluid(s, r, *balia(s, r))
            assert k == s.x[r] * min(max(s.x), F(3, 2) * s.x[r]) / 2
            base = 2 / (s.rtt[r] * s.rate) ** 2 * (4 + 5 * a + a**2)
            assert phi == base / (10 * min(a, F(3, 2)))
            assert (phi == base / (10 * a)) == (a <= F(3, 2))
            apart += k != s.x[r] * min(s.x) / 2
    assert apart > 50


def test_t_11() -> None:
    """e-NMCC in Table II: the last sum is squared as a whole, or phi depends on the unit of time; k is right."""

    def phis(s: Subflows, r: int) -> tuple[Fraction, Fraction]:
        squares, inverse = sum(x**2 for x in s.x), [1 / t**2 for t in s.rtt]
        both = 2 * max(inverse) * squares / ((s.x[r] * s.rtt[r]) ** 2 * sum(inverse))
        return both / s.rate**2, both / squares**2

    for s in grid(2):
        for r in range(2):
            k, phi = fluid(s, r, *enmcc(s, r))
            assert k == s.x[r] ** 2 * s.rate**2 / (2 * sum(x**2 for x in s.x))
            corrected, printed = phis(s, r)
            assert phi == corrected
            in_milliseconds = phis(s.in_units_of(F(1, 1000)), r)
            assert in_milliseconds[0] == corrected
            assert in_milliseconds[1] != printed


def test_t_12() -> None:
    """Eq. 17: phi of Coupled is above BALIA's between alpha 1 and 4 as printed, between 1 and 1.653 with the cap."""

    def below_coupled(a: Fraction) -> tuple[bool, bool]:
        f = 4 + 5 * a + a**2
        return f < 10 * a, f < 10 * min(a, F(3, 2))

    for tenths in range(11, 60):
        a = F(tenths, 10)
        assert below_coupled(a) == (a < 4, a < F(1653, 1000))
    assert below_coupled(F(1)) == (False, False)
    assert below_coupled(F(1653, 1000))[1]
    assert not below_coupled(F(1654, 1000))[1]
    s = Subflows.of([13, 10], [1, 1])
    assert fluid(s, 1, *balia(s, 1))[1] < fluid(s, 1, *coupled(s, 1))[1]


@pytest.mark.parametrize("a", [F(1, 4), F(7071, 10000), F(1), F(2)])
def test_t_13(a: Fraction) -> None:
    """Eq. 17: no weight a puts EWTCP between TCCC and TCP in every state, equal RTTs or not."""
    tcp_first = tccc_first = False
    for s in grid(2, windows=(1, 3, 10, 60), rtts=(1,)):
        for r in range(2):
            phi = fluid(s, r, *ewtcp(s, r, a))[1]
            tcp_first |= not phi < fluid(s, r, *reno(s, r))[1]
            tccc_first |= not fluid(s, r, *aca(s, r))[1] < phi
    assert tcp_first == (a >= 1)
    assert tccc_first == (a < 1)
    alike = Subflows.of([10, 10], [1, 1])
    assert fluid(alike, 0, *aca(alike, 0))[1] == fluid(alike, 0, *ewtcp(alike, 0, F(1, 4)))[1]
    long = Subflows.of([1, 100], [1, 10])
    assert fluid(long, 1, *aca(long, 1))[1] > 80 * fluid(long, 1, *reno(long, 1))[1]


def test_t_14() -> None:
    """Eq. 18 and 19 hold with equal RTTs; with a long path TCCC's k falls below Coupled's."""
    for n in (2, 3):
        for s in grid(n, rtts=(2,)):
            for r in range(n):
                ks = [fluid(s, r, *rule(s, r))[0] for rule in (aca, balia, coupled)]
                assert ks[0] == s.x[r] * s.rate / 2
                assert ks == sorted(ks, reverse=True)
    s = Subflows.of([1, 100], [1, 10])
    assert fluid(s, 1, *aca(s, 1))[0] * 16 < fluid(s, 1, *coupled(s, 1))[0]


def test_t_15() -> None:
    """Eq. 20: moving traffic between alike subflows changes no phi of TCCC: the largest real part is 0, above TCP's."""
    s = Subflows.of([10, 10], [1, 1])
    moved = s.with_rates((F(11), F(9)))

    def change(rule: Callable[[Subflows, int], tuple[Fraction, Fraction]]) -> list[Fraction]:
        return [fluid(moved, r, *rule(moved, r))[1] - fluid(s, r, *rule(s, r))[1] for r in range(2)]

    # One shared link: the rates move by (1, -1) and the link's load stays, so (1, -1, 0) is an eigenvector.
    assert change(aca) == change(coupled) == [0, 0]
    more, less = change(reno)
    assert more < 0 < less  # TCP is brought back
    # TCP's other two eigenvalues solve z^2 + k f z + 2 k gamma = 0: all coefficients positive.
    k, f, gamma = s.x[0] ** 2 / 2, 4 / s.x[0] ** 3, F(1, 100)
    for sign in (1, -1):
        z = (-k * f + sign * cmath.sqrt(complex((k * f) ** 2 - 8 * k * gamma))) / 2
        assert z.real < 0
    # Two links, no shared one: z^2 = -k gamma in that direction, again without a real part.
    z = cmath.sqrt(complex(-fluid(s, 0, *aca(s, 0))[0] * gamma))
    assert z.real == pytest.approx(0, abs=1e-12)
    # Both rates up together: k times the slope of phi is that of one TCP of the same rate, 2/S.
    total, both = s.rate, s.with_rates((s.x[0] * F(1001, 1000),) * 2)
    slope = (fluid(both, 0, *aca(both, 0))[1] - fluid(s, 0, *aca(s, 0))[1]) / (s.x[0] / 1000)
    assert float(-slope * fluid(s, 0, *aca(s, 0))[0]) == pytest.approx(float(2 / total), rel=2e-3)
    # BALIA has a kink there (alpha is a maximum), and the subflow that became the smaller one is pushed down.
    assert change(balia)[0] == 0
    assert change(balia)[1] < 0


def test_t_16() -> None:
    """Eq. 11 without the projection that eq. 10 has lets an idle link's price go below zero."""
    price, gamma, load, capacity = F(0), F(1, 10), F(3), F(5)
    assert price + gamma * (load - capacity) < 0
    drift = gamma * (load - capacity)
    assert price + (drift if price > 0 else max(F(0), drift)) == 0


def test_t_17() -> None:
    """Eq. 12 gives k and phi from I and D; x and p of eq. 13 are an eigenvector's parts, not rates and prices."""
    for s in grid(2, windows=(1, 10), rtts=(1, 2)):
        for r in range(2):
            for p in (F(1, 100), F(1, 7)):
                increase, decrease = reno(s, r)
                k, phi = fluid(s, r, increase, decrease)
                assert s.x[r] / s.rtt[r] * (increase - p * decrease) == k * (phi - p)
    # One TCP on one link: J = ((-k f, -k), (gamma, 0)).
    x = 10.0
    k, f, gamma = x**2 / 2, 4 / x**3, 0.01
    z = (-k * f + cmath.sqrt((k * f) ** 2 - 4 * k * gamma)) / 2
    rate, price = z / gamma, 1  # the eigenvector

    def eq13(a: complex, b: complex) -> float:
        return -f * abs(a) ** 2 / (abs(a) ** 2 / k + abs(b) ** 2 / gamma)

    assert eq13(rate, price) == pytest.approx(z.real)
    assert eq13(x, 2 / x**2) != pytest.approx(z.real, rel=0.5)  # the equilibrium itself


def test_t_18() -> None:
    """EWTCP's equilibrium is sqrt(2a/p): with 1/sqrt(n) two subflows are 1.68 TCPs, with 1/n^2 one."""
    p = 0.01
    one = math.sqrt(2 / p)
    for n in (2, 3, 4):
        for a, tcps in ((1 / math.sqrt(n), n**0.75), (1 / n**2, 1.0)):
            w = math.sqrt(2 * a / p)
            assert a / w == pytest.approx(p * w / 2)
            assert n * w / one == pytest.approx(tcps)
    assert round(2**0.75, 2) == 1.68
    for rule, step in (("inv_n2", 0.25), ("inv_sqrt", 2**-0.5)):
        c = avoiding("ewtcp", [10, 10], [0.1, 0.1], ewtcp_a=rule)
        c.ack()
        assert c.paths[0].cwnd - 10 == near(step / 10)


def test_t_19() -> None:
    """A timeout under eq. 8 would leave nothing to return to; half of the window does."""
    s = Subflows.of([20, 20], [1, 1])
    assert s.w[0] - aca(s, 0)[1] == 0
    c = avoiding("tccc", [20, 20], [0.1, 0.1], aca_md="eq8")
    c.timeout(path=0)
    assert (c.paths[0].ssthresh, c.paths[0].cwnd) == (10, 1)
    marked = avoiding("tccc", [20, 20], [0.1, 0.1], aca_md="eq8")
    marked.ece(path=0)
    assert marked.paths[0].ssthresh == 2


def test_t_20() -> None:
    """Factors kept for a period go stale: a window that fell since leaves a step that is too small by its share."""
    before, after = Subflows.of([30, 10], [1, 1]), Subflows.of([2, 10], [1, 1])
    assert aca(before, 1)[0] == F(1, 40)
    assert aca(after, 1)[0] == F(1, 12)
    c = avoiding("tccc", [30, 10], [0.1, 0.1], aca_md="eq8")
    c.timeout(path=0)
    c.ack(path=1)
    # In slow start at 1 segment: its ssthresh is where it stands, the sums count its window.
    assert c.paths[1].cwnd - 10 == near(1 / 11)


def test_t_21() -> None:
    """Section V: ratios and directions that its own tables and examples contradict."""
    table3, text3 = F(979, 1000), F(9799, 10000)
    assert round(float(text3), 3) != float(table3)
    enmcc_ratio, tccc_ratio = F(983, 1000), F(1017, 1000)  # Table IV
    assert tccc_ratio > 1  # "still does not exceed TCP" (IV.B)
    assert abs(1 - enmcc_ratio) == abs(1 - tccc_ratio)  # "performs best"
    shared_gap, non_shared_gap = F(3155, 100), F(1313, 100)
    assert non_shared_gap < shared_gap  # "in the sharing bottleneck scenario, the gap ... is smaller"
    order, detectors = ["one-way delay", "loss", "ECN"], {"DWC": "loss", "MPTCP-SBD": "one-way delay", "SB-CC": "ECN"}
    assert [detectors[name] for name in ("DWC", "MPTCP-SBD", "SB-CC")] != order  # IV.D, "respectively"


def test_t_22() -> None:
    """The path with the smallest RTT is the best TCP's only where the loss rates are equal."""
    rtt, equal, unequal = (0.02, 0.1), (0.01, 0.01), (0.1, 0.001)

    def tcp(t: float, p: float) -> float:
        return math.sqrt(2 / p) / t

    assert tcp(rtt[0], equal[0]) > tcp(rtt[1], equal[1])
    assert tcp(rtt[0], unequal[0]) < tcp(rtt[1], unequal[1])
    assert tcp(0.01, 0.01) == pytest.approx(tcp(0.1, 0.0001))
    long = avoiding("tccc", [5, 200], [0.02, 0.1])
    long.ack(path=0)
    s = Subflows.of([5, 200], [F(2, 100), F(1, 10)])
    assert long.paths[0].cwnd - 5 == near(float(aca(s, 0)[0]))  # the smallest RTT, as in a shared bottleneck


def test_t_23() -> None:
    """Two segments an ACK: counted by ACK the window grows half as much, and settles at 0.71 of Reno's."""
    window, step = 20, F(1, 20)
    by_ack = sum(step for _ in range(window // 2))
    by_segment = sum(2 * step for _ in range(window // 2))
    assert (by_ack, by_segment) == (F(1, 2), 1)
    p = 0.01
    w = math.sqrt(2 * 0.5 / p)
    assert 0.5 / w == pytest.approx(p * w / 2)
    assert w / math.sqrt(2 / p) == pytest.approx(math.sqrt(0.5))
    for name in ("tccc", "lia", "nmcc", "balia"):
        one, two = avoiding(name, [20, 20], [0.1, 0.1]), avoiding(name, [20, 20], [0.1, 0.1])
        one.ack(acked=1)
        two.ack(acked=2)
        assert two.paths[0].cwnd - 20 == pytest.approx(2 * (one.paths[0].cwnd - 20), abs=2**-15)
    counts = {}
    for name in ("newreno", "lia"):
        c = avoiding(name, [20], [0.1], mode="kernel")
        for _ in range(5):
            c.ack(acked=2)
        counts[name] = c.paths[0].cwnd_cnt
    assert counts == {"newreno": 10, "lia": 5}


def test_t_24() -> None:
    """Without a set NewReno, in a final set ACA; two subflows that share a bottleneck would else be two TCPs."""

    def step(name: str, **of_path: int) -> float:
        paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 1.0, **of_path} for _ in range(2)]
        c = Controller(name, paths=paths)
        c.ack()
        return c.paths[0].cwnd - 20

    uncoupled = 1 / 20
    assert step("tccc+") == step("enmcc+") == near(uncoupled)
    assert step("tccc+", set=1) == step("tccc") == near(uncoupled / 2)
    s = Subflows.of([20, 20], [1, 1])
    assert 4 * fluid(s, 0, *aca(s, 0))[1] == fluid(s, 0, *reno(s, 0))[1]


# SB-CC and SB-FPS ----------------------------------------------------------------------------------------------------


def in_a_set(w: list[float], beta: list[float], rtt: float = 0.1, **options: object) -> Controller:
    paths = [{"cwnd": a, "rtt": rtt, "ssthresh": 1.0, "set": 1, "beta": b} for a, b in zip(w, beta, strict=True)]
    return Controller("sbcc", paths=paths, mss=1400, **options)


def reached(n: int, steps: int, holds: Callable[[PrintedDetector], bool], **options: bool) -> int | None:
    """The fewest ECEs after which a printed detector breaks a property; None: not within these steps."""
    for length in range(1, steps + 1):
        for sequence in _sequences(events(n), length):
            d = PrintedDetector(n, **options)
            for r, seen in sequence:
                d.step(r, seen)
                if not holds(d):
                    return length
    return None


def repaired_always(n: int, steps: int, holds: Callable[[RepairedDetector], bool], **options: Any) -> bool:
    for sequence in _sequences(events(n), steps):
        d = RepairedDetector(n, **options)
        for r, seen in sequence:
            d.step(r, seen)
            if not holds(d):
                return False
    return True


def _sequences(choices: list[Any], length: int) -> Any:
    return product(choices, repeat=length)


def one_set_each(sets: list[set[int]], n: int) -> bool:
    return all(sum(k in s for s in sets) <= 1 for k in range(n))


def test_s_1() -> None:
    """Half a window of packets is half an RTT while the subflow sends at w/R, and any time at all when it does not."""
    w, rtt = F(20), F(1, 10)
    assert (w / 2) / (w / rtt) == rtt / 2
    idle_rate = F(1)  # one packet a second
    assert (w / 2) / idle_rate == 100 * rtt


def test_s_2() -> None:
    """A verdict at the ECE itself cannot have seen the future half of the window."""
    srtt, ece, other = 0.06, 1.00, 1.02

    def seen(decided: float) -> bool:
        return other <= decided and abs(other - ece) <= srtt / 2

    assert not seen(ece)
    assert seen(ece + srtt / 2)


def test_s_3() -> None:
    """Line 6 takes every subflow, monitored or not: one can come to be in two sets."""
    assert reached(3, 3, lambda d: one_set_each(d.sets, 3)) == 2
    assert repaired_always(3, 3, lambda d: one_set_each([s for _, s in d.sets], 3))
    assert repaired_always(4, 2, lambda d: one_set_each([s for _, s in d.sets], 4))


def test_s_4() -> None:
    """With two states a subflow couples (Algorithm 2, line 4) on the first coincidence; with three on the second."""
    printed, repaired = PrintedDetector(3), RepairedDetector(3)
    for d in (printed, repaired):
        d.step(0, frozenset({1, 2}))
    assert any({0, 1} <= s for s in printed.sets)
    assert repaired.state(0) == "judgement"
    repaired.step(1, frozenset({0, 2}))
    assert repaired.state(0) == "final"


def test_s_5() -> None:
    """Losses alone never begin a judgement, and paths without ECN have nothing else."""
    trace = [("loss", k) for _ in range(10) for k in (0, 1)]  # both subflows lose at the same times

    def verdict(triggers: set[str]) -> str:
        d = RepairedDetector(2)
        for kind, k in trace:
            if kind in triggers:
                d.step(k, frozenset({0, 1} - {k}))
        return d.state(0)

    assert verdict({"ece"}) == "monitor"
    assert verdict({"ece", "loss"}) == "final"


def test_s_6() -> None:
    """A receiver of RFC 3168 echoes one mark until CWR arrives, a round trip later: T is near 1, not 1/w."""
    window, marked = 20, 7
    echoes = [packet >= marked for packet in range(window)]  # CWR comes with the next window
    assert F(sum(echoes), window) == F(13, 20)
    assert F(sum(packet == marked for packet in range(window)), window) == F(1, 20)

    def runs(echo_times: list[float], srtt: float) -> int:
        count, begun = 0, -math.inf
        for t in echo_times:
            if t - begun >= srtt:
                count, begun = count + 1, t
        return count

    times = [packet * 0.1 / window for packet, echo in enumerate(echoes) if echo]
    assert len(times) == 13
    assert runs(times, 0.1) == 1


def test_s_7() -> None:
    """Eq. 1 at each ACK (Algorithm 2, line 5) forgets in one window what eq. 1 at each window keeps for eight."""
    g, window = F(1, 8), 20
    per_window = per_ack = F(1)
    per_window *= 1 - g
    for _ in range(window):
        per_ack *= 1 - g
    assert per_window == F(7, 8)
    assert per_ack < F(7, 100)
    c = in_a_set([20, 20], [1, 1])
    for _ in range(30):
        c.ack(path=0)
    first, changes = c.state["beta"][0], 0
    for _ in range(100):
        c.ack(path=0)
        changes += c.state["beta"][0] != first
        first = c.state["beta"][0]
    assert 3 <= changes <= 5  # a hundred segments in windows of a good twenty


def test_s_8() -> None:
    """A beta kept from a set makes an independent subflow, which grows as Reno, larger than a TCP."""
    p = 0.01
    for beta in (1.0, 0.25, 0.04):
        w = math.sqrt(2 / (beta * p))  # I = 1/w, D = beta w/2
        assert 1 / w == pytest.approx(p * beta * w / 2)
        assert w / math.sqrt(2 / p) == pytest.approx(1 / math.sqrt(beta))
    assert 1 / math.sqrt(1.0) == 1  # beta = 1 outside a set
    alone = Controller("sbcc", paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 1.0, "set": 0, "beta": 0.04}])
    alone.loss()
    assert windows(alone) == [10]


def test_s_9() -> None:
    """Without marks beta decays and all growth to come is eight first steps: 8/n segments for n alike subflows."""

    def growth(floor: Fraction, windows_: int) -> Fraction:
        n, beta, gained = 2, F(1), F(0)
        for _ in range(windows_):
            gained += beta / n  # w_r a/W in one round trip of equal RTTs
            beta = max(beta * F(7, 8), floor)
        return gained

    assert growth(F(0), 400) < 4
    assert growth(F(0), 40) > F(39, 10)
    assert growth(F(1, 8), 400) > 25
    forty = F(7, 8) ** 40
    assert 1 - forty / 2 > F(997, 1000)  # what a loss leaves, eq. 2
    assert 1 - max(forty, F(1)) / 2 == F(1, 2)
    decayed = float(forty)
    for options, step, left in (
        ({}, decayed / 80, 20 * (1 - decayed / 2)),
        ({"sbcc_beta_floor": 0.125}, 0.125 / 80, 20 * (1 - 0.125 / 2)),
        ({"sbcc_loss": "full"}, decayed / 80, 10),
    ):
        c = in_a_set([20, 20], [decayed, decayed], **options)
        c.ack(path=0, acked=20)
        assert c.paths[0].cwnd - 20 == pytest.approx(20 * step, rel=2e-2, abs=2**-16)
        c = in_a_set([20, 20], [decayed, decayed], **options)
        c.loss(path=0)
        assert c.paths[0].cwnd == near(left)


def test_s_10() -> None:
    """Eq. 3 and 4 have both forms of eq. 5 as solutions; with the own beta outside, beta drops out of the windows."""
    for s in grid(2):
        for betas in ((F(1, 2), F(1, 8)), (F(1), F(1, 3))):
            outside = [b * max(s.quad) / s.rate**2 for b in betas]  # a/W, one for each subflow
            inside = [max(b * q for b, q in zip(betas, s.quad, strict=True)) / s.rate**2] * 2
            for steps in (outside, inside):
                p = [2 * i / (b * w) for i, b, w in zip(steps, betas, s.w, strict=True)]  # eq. 4, 1 - p = 1
                squares = [2 / a / t**2 for a, t in zip(p, s.rtt, strict=True)]
                assert max(squares) == s.rate**2  # eq. 3
            p_lia = [2 * lia(s, r)[0] / s.w[r] for r in range(2)]
            assert [2 * i / (b * w) for i, b, w in zip(outside, betas, s.w, strict=True)] == p_lia
    s = Subflows.of([10, 60], [1, 2])
    betas = (F(1), F(1, 8))
    common = max(b * q for b, q in zip(betas, s.quad, strict=True)) / s.rate**2
    assert [2 * common / (b * w) for b, w in zip(betas, s.w, strict=True)] != [
        2 * lia(s, r)[0] / s.w[r] for r in (0, 1)
    ]
    for option, path, expected in (("off", 1, 0.5 / 60), ("on", 1, 1 / 60), ("off", 0, 1 / 60)):
        c = in_a_set([30, 30], [1.0, 0.5], beta_inside_max=option)
        c.ack(path=path, acked=10)
        assert c.paths[path].cwnd - 30 == pytest.approx(10 * expected / 2, rel=1e-2)


def test_s_11() -> None:
    """A partner whose window recovery holds at one segment triples the step; counted at its ssthresh it does not."""
    equilibrium, now, as_we_count = (Subflows.of(w, [1, 1]) for w in ([10, 20], [10, 1], [10, 10]))
    at_rest = lia(equilibrium, 0)[0]
    assert lia(now, 0)[0] > 3 * at_rest
    assert lia(as_we_count, 0)[0] == F(9, 8) * at_rest


def test_s_12() -> None:
    """The text reduces on ECE and timeout, Algorithm 2 on any loss: after three duplicate ACKs they differ."""

    def window_after(event: str, reduces: set[str]) -> F:
        return F(20) * (1 - F(1, 2)) if event in reduces else F(20)

    text, listing = {"ece", "timeout"}, {"ece", "timeout", "fast retransmit"}
    assert window_after("fast retransmit", text) == 20
    assert window_after("fast retransmit", listing) == 10
    assert all(window_after(e, text) == window_after(e, listing) for e in text)
    for event, left in (("loss", 10), ("ece", 10), ("timeout", 1)):
        c = in_a_set([20, 20], [1, 1])
        getattr(c, event)(path=0)
        assert (c.paths[0].cwnd, c.paths[0].ssthresh) == (left, 10)


def test_s_13() -> None:
    """lambda of eq. 8 counts rounds: put into eq. 4, where lambda is a loss rate, the balance is negative."""
    rounds = F(200, 2) / 40
    assert rounds == F(5, 2)
    assert 1 - rounds < 0
    assert 1 - F(1, 100) > 0


def test_s_14() -> None:
    """Any outsider's event breaks a set: two true sets break each other; only monitored outsiders: both live."""
    outcomes = {}
    for veto in ("any", "monitor"):
        d = RepairedDetector(4, veto=veto)
        for r, seen in ((0, {1}), (1, {0}), (2, {3}), (3, {2}), (0, {1, 2, 3}), (2, {0, 1, 3})):
            d.step(r, frozenset(seen))
        outcomes[veto] = [d.state(k) for k in range(4)]
    assert outcomes["any"] != ["final"] * 4
    assert outcomes["monitor"] == ["final"] * 4
    for veto in ("any", "monitor"):  # a monitored outsider breaks a set in either reading
        d = RepairedDetector(3, veto=veto)
        for seen in ({1}, {1}, {1, 2}):
            d.step(0, frozenset(seen))
        assert d.state(0) == "monitor"
    for sequence in _sequences(events(2), 4):  # a set of two of two has no outsider
        both = RepairedDetector(2, "any"), RepairedDetector(2, "monitor")
        for r, seen in sequence:
            for d in both:
                d.step(r, seen)
        assert both[0].sets == both[1].sets


def test_s_15() -> None:
    """`i++` stands after `Return`: with one index for ever, subflows of two bottlenecks come into one set."""
    apart = (0, frozenset({1})), (1, frozenset({0})), (2, frozenset({3}))

    def after(d: Any) -> Any:
        for r, seen in apart:
            d.step(r, seen)
        return d

    assert after(PrintedDetector(4, index_advances=False)).sets == [{0, 1, 2, 3}]
    assert sorted(map(sorted, (s for _, s in after(RepairedDetector(4)).sets))) == [[0, 1], [2, 3]]


def test_s_16() -> None:
    """The verification stands in the same pass: the ECE that made a set also verifies it."""
    assert reached(2, 1, lambda d: not d.verified_at_once) == 1
    repaired = RepairedDetector(2)
    repaired.step(0, frozenset({1}))
    assert repaired.state(0) == "judgement"
    assert repaired_always(3, 1, lambda d: all(state != "final" for state, _ in d.sets))


def test_s_17() -> None:
    """`foreach loss or ECE`: thirteen echoes of one mark take the window to nothing; once a window halves it."""
    w = F(20)
    for _ in range(13):
        w -= w / 2
    assert w < F(1, 100)
    assert F(20) - F(20) / 2 == 10


def staircase(w: Fraction, rounds: Fraction, m: Fraction) -> Fraction:
    """Packets of a window that gains one segment every m rounds."""
    whole = int(rounds / m)
    return m * sum((w + i for i in range(whole)), F(0)) + (rounds - whole * m) * (w + whole)


def eq8(w: Fraction, rounds: Fraction, m: Fraction) -> Fraction:
    return rounds / 2 * (2 * w + rounds / m - 1)


def test_s_18() -> None:
    """Eq. 8 counts the staircase of Fig. 5 after whole steps, between them up to m_r/8 packets less."""
    largest = F(0)
    for m in (F(1), F(9, 2), F(20)):
        for quarters in range(1, 100):
            rounds = F(quarters, 4)
            less = staircase(F(10), rounds, m) - eq8(F(10), rounds, m)
            assert 0 <= less <= m / 8
            assert (less == 0) == ((rounds / m).denominator == 1)
            largest = max(largest, less / m)
    assert largest == F(1, 8)


def test_s_19() -> None:
    """Algorithm 3 loses eq. 7's maximum and includes j itself: a window would gain more than one segment a round."""
    w, rounds = F(50), F(5, 2)
    a, total = F(5), F(52)
    m_listing, m_text = total / (a * w), max(total / (a * w), F(1))
    assert w * min(a / total, 1 / w) == 1  # eq. 6: the cap binds
    assert m_listing < 1 == m_text
    assert eq8(w, rounds, m_listing) > staircase(w, rounds, m_text) + 10
    assert 0 <= staircase(w, rounds, m_text) - eq8(w, rounds, m_text) <= F(1, 8)
    gaps = [eq8(F(10), F(60) / (2 * t), F(1)) for t in (F(20), F(60))]  # j is the second
    assert sum(gaps) > sum(gaps[:1]) + 4


def test_s_20() -> None:
    """What r sends in its last half RTT before R_j/2 arrives after j's data; two equal RTTs leave a gap of w/2."""
    w, rtt = F(10), F(1, 10)
    assert eq8(w, F(1, 2), F(1)) == F(39, 8)  # printed: (R_j/2)/R_r rounds, R_j = R_r
    arrives_in_time = (rtt - rtt) / (2 * rtt)
    assert eq8(w, arrives_in_time, F(1)) == 0
    for ratio in (2, 5):
        printed, exact = F(ratio, 2), F(ratio - 1, 2)
        assert printed - exact == F(1, 2)
        assert eq8(w, printed, F(1)) - eq8(w, exact, F(1)) > w / 2 - 1


def test_s_21() -> None:
    """Random loss does reach the detector: a loss in the window is evidence as good as an echo."""
    congested, random_loss = 0, 1
    for detector in (PrintedDetector(2), RepairedDetector(2)):
        detector.step(congested, frozenset({random_loss}))
        sets = detector.sets if isinstance(detector, PrintedDetector) else [s for _, s in detector.sets]
        assert {congested, random_loss} in sets
    ece_only = RepairedDetector(2)
    ece_only.step(congested, frozenset())
    assert ece_only.sets == []


def test_s_22() -> None:
    """When beta has decayed to nothing, Algorithm 3 line 6 divides by a w_r = 0; as 1/m_r it is 0 growth."""
    beta_q16 = 65536
    for _ in range(100):
        beta_q16 -= beta_q16 // 8
    assert beta_q16 < 8  # an integer stops there; a float goes on to 0
    with pytest.raises(ZeroDivisionError):
        F(20) / (F(0) * 10)
    rounds, w, inverse_m = F(5, 2), F(10), F(0)
    assert rounds / 2 * (2 * w + rounds * inverse_m - 1) <= rounds * w


def test_s_23() -> None:
    """No line removes a subflow that closes: a set keeps it, or is left with one member."""
    printed = PrintedDetector(3)
    printed.step(0, frozenset({1}))
    assert any(1 in s for s in printed.sets)  # whatever happens to 1
    for size in (2, 3):
        d = RepairedDetector(3)
        d.step(0, frozenset(range(1, size)))
        d.leave(0)
        assert [len(s) for _, s in d.sets] == ([] if size == 2 else [2])


def test_s_24() -> None:
    """A failed verification leaves bs_i as it was; a set that was verified is never looked at again."""

    def members_are_judged(d: PrintedDetector) -> bool:
        return all(d.state[k] != "monitor" for s in d.sets for k in s)

    assert reached(3, 2, members_are_judged, index_advances=False) == 2
    verified = PrintedDetector(2)
    verified.step(0, frozenset({1}))
    for _ in range(10):
        verified.step(0, frozenset())  # text: the set fails and is dissolved
    assert verified.sets[0] == {0, 1}
    assert verified.state == ["judgement", "judgement"]
    repaired = RepairedDetector(2)
    repaired.step(0, frozenset({1}))
    repaired.step(0, frozenset())
    assert repaired.sets == []
    assert repaired_always(3, 3, lambda d: all(d.state(k) != "monitor" for _, s in d.sets for k in s))


def test_s_25() -> None:
    """Two coincidences still make a false set, and one missed mark ends a true one."""
    false = RepairedDetector(3)
    for _ in range(2):
        false.step(0, frozenset({1}))
    assert false.state(0) == "final"
    true = RepairedDetector(2)
    for seen in ({1}, {1}, set[int](), {1}, set[int]()):
        true.step(0, frozenset(seen))
    assert true.state(0) == "monitor"


# NMCC and e-NMCC -----------------------------------------------------------------------------------------------------


def from_flights(flights: Iterable[int]) -> list[Fraction]:
    """Loss rates as section VIII estimates them."""
    return [F(2, f * f) for f in flights]


def test_e_1() -> None:
    """|S| >= m_th >= 1 needs equal loss rates; with unequal ones m_th has no bound."""
    for n in (1, 2, 3):
        for s in grid(n):
            assert 1 <= threshold_factor(s, [F(1, 100)] * n, F(1, 100)) <= n
    s = Subflows.of([100, 10], [1, 1])
    p = from_flights([100, 10])
    assert threshold_factor(s, p, max(p)) > 60
    c = avoiding("enmcc", [100, 10], [0.1, 0.1])
    c.loss(path=0)
    assert c.paths[0].ssthresh == 2
    gentle = avoiding("enmcc", [100, 10], [0.1, 0.1], mth_cap=1.5)
    gentle.loss(path=0)
    assert gentle.paths[0].ssthresh == near(25)


def test_e_2() -> None:
    """Three alike subflows: the text's bound allows m_th = 3 and a negative window, Algorithm 1 stops at 2."""
    s = Subflows.of([20, 20, 20], [1, 1, 1])
    m_th = threshold_factor(s, [F(1, 100)] * 3, F(1, 100))
    assert m_th == 3
    assert s.w[0] - s.w[0] / 2 * m_th == -10
    assert s.w[0] - s.w[0] / 2 * min(m_th, F(2)) == 0
    c = avoiding("enmcc", [20, 20, 20], [0.1, 0.1, 0.1])
    c.loss(path=0)
    assert (c.paths[0].ssthresh, c.state["m_th_clamped"][0]) == (2, near(2))


def test_e_3() -> None:
    """`w <- 2` on every loss is not the single-path behaviour that one subflow is to fall back to."""
    c, tcp = avoiding("enmcc", [40], [0.1]), avoiding("newreno", [40], [0.1], mode="paper")
    for one in (c, tcp):
        one.loss()
    assert windows(c) == windows(tcp) == [20]
    for one in (c, tcp):
        one.timeout()
    assert windows(c) == windows(tcp) == [1]


def test_e_4() -> None:
    """Linux's max_packets_out of a sender that its window limits is the flight of the last update, not the largest."""
    flights = [30, 36, 40, 20, 20]  # of each round; a reduction after the third
    linux = flights[-1]  # the field follows packets_out whenever the window limits
    largest_before_reduction = max(flights[:3])
    rate = {f: F(2, f * f) for f in (linux, largest_before_reduction)}
    assert rate[linux] == 4 * rate[largest_before_reduction]
    paths = [{"cwnd": 21.0, "rtt": 0.1, "ssthresh": 1.0, "max_packets_out": m} for m in (40.0, 21.0)]
    c = Controller("enmcc", paths=paths)
    c.loss(path=0)
    s = Subflows.of([21, 21], [1, 1])
    p = from_flights([40, 21])
    assert c.state["m_th_clamped"][0] == near(min(2.0, float(threshold_factor(s, p, max(p)))))


def test_e_5() -> None:
    """p = 2/w^2 is Reno's: n alike coupled subflows have n^2 times less; the ratio of the sums does not change."""
    for n in (2, 3):
        s = Subflows.of([20] * n, [1] * n)
        true = fluid(s, 0, *enmcc(s, 0))[1]
        assert from_flights([20])[0] == n * n * true
    s = Subflows.of([20, 30], [1, 2])
    p = from_flights([24, 36])
    assert threshold_factor(s, p, max(p)) == threshold_factor(s, [a / 4 for a in p], max(p) / 4)


def test_e_6() -> None:
    """10 and 250 ms: m is 1.0008, not 10079; and 1/(m r)^2 is not 1/m^2."""
    m_squared = (F(1, 10**2) + F(1, 250**2)) / F(1, 10**2)
    assert m_squared == F(626, 625)
    assert math.sqrt(m_squared) == pytest.approx(1.0008, abs=1e-5)
    m, r = F(5, 4), F(10)
    assert 1 / (m * r) ** 2 == 1 / (m**2 * r**2) != 1 / m**2
    c = avoiding("nmcc", [20, 20], [0.01, 0.25])
    c.ack(path=0)
    assert c.paths[0].cwnd - 20 == pytest.approx(625 / 626 / 20, rel=1e-3)


def test_e_7() -> None:
    """p_max is the best path's loss rate in the text, the largest in Algorithm 1, whose line 14 then never acts."""
    s = Subflows.of([20, 20], [10, 100])  # the first path has the largest growth rate
    p = (F(1, 1000), F(1, 100))
    text, listing = threshold_factor(s, p, p[0]), threshold_factor(s, p, max(p))
    assert listing == 10 * text
    below_one = {"text": 0, "listing": 0}
    for t in grid(2):
        for loss in ((F(1, 1000), F(1, 10)), (F(1, 10), F(1, 1000)), (F(1, 50), F(1, 50))):
            best = t.rtt.index(t.rtt_min)
            below_one["text"] += threshold_factor(t, loss, loss[best]) < 1
            below_one["listing"] += threshold_factor(t, loss, max(loss)) < 1
    assert below_one["text"] > 20
    assert below_one["listing"] == 0
    paths = [
        {"cwnd": w, "rtt": t, "ssthresh": 1.0, "max_packets_out": f}
        for w, t, f in ((20.0, 0.01, 28.0), (20.0, 0.1, 20.0))
    ]
    c = Controller("enmcc", paths=paths)
    c.loss(path=0)
    near_p = from_flights([28, 20])
    assert c.state["m_th_clamped"][0] == near(float(min(F(2), threshold_factor(s, near_p, max(near_p)))))
    assert threshold_factor(s, near_p, near_p[0]) < F(5, 4) < threshold_factor(s, near_p, max(near_p))


def test_e_8() -> None:
    """d_r = d_sp m_th, the first equality of eq. 11, gives m_th = 1; with the subflow's own w_r/2 eq. 12 follows."""
    for s in grid(2):
        p = F(1, 100)
        single = s.rate  # w_sp/r_sp
        f_single, f = p * single, [p * x for x in s.x]
        assert f_single * (single / 2) == sum(f) * (single / 2) * 1
        m_th = threshold_factor(s, [p, p], p)
        assert f_single * (single / 2) == sum(a * x / 2 * m_th for a, x in zip(f, s.x, strict=True))
        assert m_th > 1


def test_e_9() -> None:
    """I in eq. 18 is neither eq. 14's nor independent of the unit of a window; eq. 19's phi goes with eq. 14's."""
    for s in grid(2):
        inverse = [1 / t**2 for t in s.rtt]
        for r in range(2):
            printed = 2 * max(inverse) / (s.w[r] ** 2 * sum(inverse))
            step, decrease = enmcc(s, r)
            assert printed == 2 / s.w[r] * step
            squares = sum(x**2 for x in s.x)
            eq19 = 2 * max(inverse) * squares / (s.w[r] ** 2 * sum(inverse) * s.rate**2)
            assert step / decrease == eq19
            assert (printed / decrease == eq19) == (s.w[r] == 2)
    one = avoiding("enmcc", [16, 16], [0.1, 0.1])
    one.ack()
    assert one.paths[0].cwnd - 16 == near(1 / 32)


def test_e_10() -> None:
    """k in eq. 19 falls where it must rise: of a single subflow it would be Reno's k turned over."""
    for w in (2, 10, 60):
        s = Subflows.of([w], [3])
        k = fluid(s, 0, *enmcc(s, 0))[0]
        assert k == fluid(s, 0, *reno(s, 0))[0] == s.x[0] ** 2 / 2
        assert k != 1 / (2 * s.x[0] ** 2)
    for s in grid(2):
        squares = sum(x**2 for x in s.x)
        assert fluid(s, 0, *enmcc(s, 0))[0] == s.x[0] ** 2 * s.rate**2 / (2 * squares)


def test_e_11() -> None:
    """LIA's phi in Table I has a unit and no window in it."""
    for s in grid(2):
        for r in range(2):
            phi = fluid(s, r, *lia(s, r))[1]
            best = max(x / t for x, t in zip(s.x, s.rtt, strict=True))
            assert phi == 2 * best / (s.x[r] * s.rtt[r] * s.rate**2)
            in_ms = s.in_units_of(F(1, 1000))
            assert fluid(in_ms, r, *lia(in_ms, r))[1] == phi
            assert 2 / in_ms.rtt[r] ** 2 != 2 / s.rtt[r] ** 2


def test_e_12() -> None:
    """Eq. 21: with equal RTTs and windows LIA's phi is not larger, it is the same."""
    for n in (2, 3, 4):
        for w in (3, 20):
            s = Subflows.of([w] * n, [2] * n)
            phis = [fluid(s, 0, *rule(s, 0))[1] for rule in (coupled, enmcc, lia)]
            assert phis[0] == phis[1] == phis[2]
            assert lia(s, 0)[0] < 1 / s.w[0]  # the cap does not bind
            assert phis[1] < 2 / s.rtt[0] ** 2  # the truncated entry


def test_e_13() -> None:
    """(A.2) as printed makes uncoupled Reno friendlier than Coupled; with <= turned round, the order of Table I."""

    def friendlier_printed(phi: F, other: F) -> bool:
        return other <= phi

    def friendlier(phi: F, other: F) -> bool:
        return phi <= other

    for s in grid(2, rtts=(1,)):
        for r in range(2):
            phi = {
                name: fluid(s, r, *rule(s, r))[1] for name, rule in (("coupled", coupled), ("lia", lia), ("reno", reno))
            }
            assert friendlier(phi["coupled"], phi["lia"])
            assert friendlier(phi["lia"], phi["reno"])
            assert not friendlier_printed(phi["coupled"], phi["reno"])
            assert friendlier_printed(phi["reno"], phi["coupled"])


def test_e_14() -> None:
    """(A.3) as printed calls a smaller gain k more responsive; the eigenvalue's real part says a larger one."""
    x, gamma = 10.0, 1.0
    slope = 4 / x**3  # -d phi/dx of one Reno flow
    real = []
    for k in (10.0, 20.0, 50.0):
        z = (-k * slope + cmath.sqrt((k * slope) ** 2 - 4 * k * gamma)) / 2
        real.append(z.real)
    assert real == sorted(real, reverse=True)
    assert real[-1] < real[0] < 0


def test_e_15() -> None:
    """Table I's EWTCP(a > 1) is no EWTCP, each subflow beats a TCP; with 1/n^2 eq. 20 fails in every state."""
    above = below = 0
    for s in grid(2, rtts=(1,)):
        for r in range(2):
            own = fluid(s, r, *enmcc(s, r))[1]
            assert fluid(s, r, *ewtcp(s, r, F(2)))[1] > fluid(s, r, *reno(s, r))[1]
            assert own < fluid(s, r, *ewtcp(s, r, F(1)))[1]
            assert own < fluid(s, r, *ewtcp(s, r, F(7071, 10000)))[1]
            above += own >= fluid(s, r, *ewtcp(s, r, F(1, 4)))[1]
            below += own < fluid(s, r, *ewtcp(s, r, F(1, 4)))[1]
    assert above > 0
    assert below == 0


def test_e_16() -> None:
    """With equal RTTs alone e-NMCC is as friendly as Coupled on no subflow; it takes equal windows."""
    equal = more = less = 0
    for s in grid(2, rtts=(1,)):
        for r in range(2):
            own, other = fluid(s, r, *enmcc(s, r))[1], fluid(s, r, *coupled(s, r))[1]
            assert (own == other) == (s.w[0] == s.w[1])
            equal, more, less = equal + (own == other), more + (own > other), less + (own < other)
    assert more == less > equal


def test_e_17() -> None:
    """In slow start the sum grows like the largest subflow, not like a TCP that is as fast as all of them."""
    s = Subflows.of([10, 10], [1, 1])
    omega = [w / t**2 for w, t in zip(s.w, s.rtt, strict=True)]
    m_squared = sum(omega) / max(omega)
    grown = sum(w / m_squared for w in s.w)
    assert grown == max(s.w)
    assert grown == F(1, 2) * s.rate * s.rtt_min  # a TCP of the same rate doubles
    c = driven("nmcc", [10, 10], [0.1, 0.1])
    for _ in range(10):
        for path in (0, 1):
            c.ack(path=path)
    assert sum(windows(c)) == pytest.approx(30, rel=0.02)


def test_e_18() -> None:
    """RTTs below 100 ms that differ by less than 50 ms can differ tenfold; above 50 ms they cannot by two."""
    assert any(a < 100 and b - a < 50 and F(b, a) > 10 for a in range(1, 100) for b in range(a, 100))
    assert all(F(b, a) < 2 for a in range(50, 300) for b in range(a, a + 50))


def test_e_19() -> None:
    """Algorithm 1: line 4 assigns r_t, 7 reads r_r; in integers all quotients are 0; a silent subflow divides by 0."""
    names = {"r_t": 800_000}
    with pytest.raises(KeyError):
        names["r_r"]
    srtt_us_x8, cwnd, flight = 800_000, 20, 24
    p = 2 // flight**2
    b = p * cwnd**2 // srtt_us_x8**2
    assert (cwnd // srtt_us_x8, p, b) == (0, 0, 0)
    with pytest.raises(ZeroDivisionError):
        p * 0 * 0 // b
    with pytest.raises(ZeroDivisionError):
        F(2, 0**2)
    s = Subflows.of([20, 30], [1, 2])
    loss = from_flights([24, 36])
    assert threshold_factor(s, loss, max(loss)) == threshold_factor(s.in_units_of(F(1, 8)), loss, max(loss))
    c = Controller(
        "enmcc", paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 1.0}, {"cwnd": 10.0, "rtt": 0.1, "ssthresh": 1.0}]
    )
    c.loss(path=1)  # no flight was seen yet: the window stands for it
    assert c.paths[1].ssthresh == 2


def test_e_20() -> None:
    """From three subflows on, one that gives up its whole window is less than eq. 6 asks of a partial event."""
    for n in (2, 3, 4, 8):
        s = Subflows.of([20] * n, [1] * n)
        asked = s.rate / 2
        most = s.x[0] / 2 * min(threshold_factor(s, [F(1, 9)] * n, F(1, 9)), F(2))
        assert (most == asked) == (n == 2)
        assert most == s.rate / n


def test_e_21() -> None:
    """Two of three flows are 66 %, not 0.66 %; three of four are 75 %, so that 75 % is not above theory."""
    assert float(F(2, 3)) == pytest.approx(0.667, abs=1e-3)
    assert float(F(2, 3)) != pytest.approx(0.0066, abs=1e-3)
    subflows, tcp = 4 * 3, 4  # VI.A: four connections of each kind; VI.G: a third subflow
    assert F(subflows, subflows + tcp) == F(75, 100)
    assert F(4 * 3, 4 * 3 + 6) == F(2, 3)  # two TCP flows on each of three paths


# The thesis on Linux 6.8 ---------------------------------------------------------------------------------------------


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


# The document --------------------------------------------------------------------------------------------------------

DOCUMENT = (ROOT / "docs" / "paper-notes.md").read_text()
KINDS = {"misprint", "ambiguity", "infeasible", "omission", "contradiction"}
FIELDS = ("Where", "Print", "Proof", "We do")


def entries(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Title and fields of each entry; the same id twice raises."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading, body = part.split("\n", 1)
        name, title = heading.split(" ", 1)
        if name in found:
            raise ValueError(name)
        body = re.split(r"^(?:## |<a )", body, flags=re.MULTILINE)[0]
        fields = re.findall(r"^- \*\*([^*]+)\*\*: (.*?)(?=^- \*\*|\Z)", body, flags=re.MULTILINE | re.DOTALL)
        found[name] = title, {key: " ".join(value.split()) for key, value in fields}
    return found


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def proofs(name: str, text: str) -> tuple[list[str], list[str]]:
    """What a proof names that exists, and what does not: tests of this file, or files (`::` a test)."""
    there, missing = [], []
    for span in spans(text):
        if re.fullmatch(r"test_[a-z]+_\d+", span):
            exists = callable(globals().get(span)) and span == f"test_{name.lower().replace('-', '_')}"
        elif "/" in span and " " not in span:
            path, _, test = span.partition("::")
            exists = (ROOT / path).is_file() and (not test or f"def {test}(" in (ROOT / path).read_text())
        else:
            continue
        (there if exists else missing).append(span)
    return there, missing


def faults(text: str) -> list[str]:
    """What is wrong with the document: entries, table, proofs, options."""
    found = []
    options = {a.name: {o.name: o for o in a.options} for a in (*algorithms(), *schedulers())}
    for detector in detectors():  # which may have a controller's name
        options[f"detector {detector.name}"] = {o.name: o for o in detector.options}
    by_name = {o.name: o for of in options.values() for o in of.values()}
    known = entries(text)
    rows = re.findall(r"^\| \[([A-Z]-\d+)\]\(#([a-z]-\d+)\) \| (\w+) \| (.*?) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    if [row[0] for row in rows] != list(known):
        found.append("the table does not list the entries")
    for name, anchor, kind, title, _ in rows:
        if anchor != name.lower() or f'<a id="{anchor}"></a>' not in text:
            found.append(f"{name}: no anchor")
        if kind not in KINDS:
            found.append(f"{name}: kind {kind}")
        if title != known.get(name, ("",))[0]:
            found.append(f"{name}: titles differ")
    for name, (_, fields) in known.items():
        if tuple(fields) != FIELDS or not all(fields.values()):
            found.append(f"{name}: fields")
            continue
        there, missing = proofs(name, fields["Proof"])
        if missing or not there:
            found.append(f"{name}: proof {missing or 'none'}")
        claimed = re.findall(r"Option: `(\w+)=([^`]+)` \(([^)]+)\)", fields["We do"])
        if len(claimed) != fields["We do"].count("Option:"):
            found.append(f"{name}: an option that cannot be read")
        for option, default, names in claimed:
            for algorithm in names.split(", "):
                if (has := options.get(algorithm, {}).get(option)) is None or has.default != default:
                    found.append(f"{name}: {algorithm} has no {option}={default}")
    for option, value in re.findall(r"`(\w+)=([^`\s]+)`", text):
        values = by_name[option].values if option in by_name else ""
        if not values or ("|" in values and value not in values.split("|")):
            found.append(f"{option}={value}")
    referred = {f"{letter}-{number}" for letter, number in re.findall(r"\b([CTSEL])-(\d+)\b", text)}
    found += [f"{name}: not an entry" for name in sorted(referred - set(known))]
    return found


def test_the_document_is_true() -> None:
    assert faults(DOCUMENT) == []
    tests = {name for name in globals() if re.fullmatch(r"test_[ctsel]_\d+", name)}
    cited = {span for _, fields in entries(DOCUMENT).values() for span in spans(fields["Proof"])}
    assert tests <= cited


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`alpha_form=exponent` (css", "`alpha_form=product` (css"),
        ("`mth_cap=2` (enmcc)", "`mth_cap=2` (nmcc)"),
        ("`mth_cap=2` (enmcc)", "`mth_cape=2` (enmcc)"),
        ("`mth_cap=2` (enmcc)", "`mth_cap=2`"),
        ("`aca_md=half`", "`aca_md=third`"),
        ("`test_c_5`", "`test_c_6`"),
        ("`test_c_5`", "`test_c_500`"),
        ("- **Proof**: `test_c_5`.\n", ""),
        ("- **Proof**: `test_c_5`.\n", "- **Proof**: obvious.\n"),
        ("test_replays.py::test_window", "test_replays.py::test_a_window"),
        ("### T-9 ", "### T-90 "),
        ("| misprint | RTT smoothing", "| mistake | RTT smoothing"),
        ("### C-5 RTT smoothing", "### C-5 Smoothing"),
        ('<a id="s-4"></a>', ""),
        ("corrects E-10", "corrects E-100"),
    ],
)
def test_a_wrong_document_is_found(right: str, wrong: str) -> None:
    assert right in DOCUMENT
    assert faults(DOCUMENT.replace(right, wrong, 1)) != []


def test_what_refers_to_an_entry_finds_it() -> None:
    """`(C-11)` in the reason of an option, in a comment or in another document."""
    known = entries(DOCUMENT)
    texts = [o.reason for a in (*algorithms(), *detectors(), *schedulers()) for o in a.options]
    for folder, kind in (("core-c", "*.[ch]"), ("rewindow", "*.py"), ("docs", "*.md")):
        texts += [path.read_text() for path in (ROOT / folder).rglob(kind)]
    referred = {name for text in texts for name in re.findall(r"\b[CTSEL]-\d{1,2}\b(?!-)", text)}
    assert len(referred) > 100
    assert sorted(referred - set(known)) == []
