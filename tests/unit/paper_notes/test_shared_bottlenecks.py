"""S-1 to S-25: SB-CC with its detector, and SB-FPS."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from rewindow import Controller
from tests.printed import PrintedDetector, RepairedDetector, Subflows, events, grid, lia
from tests.unit.paper_notes.controllers import F, near, windows


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


def test_s_26() -> None:
    """Two alike subflows behind one bottleneck are one TCP under each of the five: throughput tells no detector."""
    observed, concluded = {"dwc", "sbcc"}, {"mptcp-sbd", "sbcc"}
    assert observed != concluded
    for name in ("sbcc", "dwc", "mptcp-sbd", "balia", "olia"):
        paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 2.0, "set": 1} for _ in range(2)]
        c = Controller(name, paths=paths)
        c.ack(0)
        grown = c.paths[0].cwnd - 20
        c = Controller(name, paths=paths)
        c.loss(0)
        fallen = 40 - sum(p.cwnd for p in c.paths)
        assert grown / fallen == pytest.approx((1 / 40) / (40 / 2), rel=1e-3), "the balance of a TCP with their sum"
