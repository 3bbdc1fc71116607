"""E-1 to E-21: NMCC and e-NMCC."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable
from fractions import Fraction

import pytest

from rewindow import Controller
from tests.printed import Subflows, coupled, enmcc, ewtcp, fluid, grid, lia, reno, threshold_factor
from tests.unit.paper_notes.controllers import F, avoiding, driven, near, windows


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
