"""C-1 to C-24: coupled slow start, of CSS (2017) and of TCCC."""

from __future__ import annotations

import math

import pytest

from rewindow import Controller
from tests.printed import Subflows
from tests.unit.paper_notes.controllers import CON, F, driven, joined, near, windows


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
    """One letter, two meanings: line 18 needs the threshold that all begin with, Algorithm 2 the subflow's own.

    Without line 18 the window of a long path counts for too little in the sum of rates to be stopped: it grew from 93
    to 868 segments, still coupled.
    """
    for name in ("css", "tccc", "tccc+"):
        c = Controller(name, paths=[{"cwnd": 10.0, "rtt": 0.02}], con_ssthresh=46.8, L=1024, mss=1400)
        c.join({"cwnd": 10.0, "rtt": 0.2})
        assert c.paths[1].ssthresh == near(CON)
        c.ack(path=1, acked=10)
        w = c.paths[1].cwnd
        assert (round(w), c.paths[1].phase) == (93, "coupled_slow_start")
        assert 10 + w / 10 < 46.8, "the sum of rates at the smallest RTT is not above the expected one"
        unbounded = w + (c.state["alpha"] ** 10 - 1) * round(w)
        assert round(unbounded) == 868
        c.ack(path=1, acked=round(w))
        assert w < c.paths[1].cwnd < w + 1.5
        assert (c.paths[1].phase, c.paths[0].phase) == ("congestion_avoidance", "coupled_slow_start")
        assert c.state["initial_ss"] == 1

    # After the exit: against con_ssthresh, which each of the windows is below, slow start would go on.
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
    """A subflow that a spurious loss took out, with its threshold given back, passes the rate of con_ssthresh alone."""
    alone = driven("newreno", [20.0], [0.1], ssthresh="static")
    coupled = driven("css", [20.0, 10.0], [0.1, 0.1], con_ssthresh=CON, alpha=joined(1.5, CON, 20, 10))
    for c in (alone, coupled):
        c.loss(0)
        c.undo(0)
        assert c.paths[0].cwnd == 20.0
    assert coupled.paths[0].ssthresh == near(CON)
    while alone.paths[0].cwnd + 10 <= CON:
        alone.ack(0, 1)
    assert alone.paths[0].phase == "slow_start"
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
