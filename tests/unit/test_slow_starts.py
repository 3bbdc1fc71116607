"""The initial slow start of a connection: CSS, TCCC and LISA, from the first join to the last leave."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import Controller
from tests.driving import (
    ABSOLUTE,
    Event,
    acks,
    apply,
    as_given,
    close,
    compare,
    courses,
    decided,
    drive,
    events_on,
    path_lists,
    rtts,
    small_windows,
)
from tests.oracles import PAPER, Path
from tests.oracles.slow_starts import Css, CssPath, Lisa, LisaPath, Tccc

NAMES = {a.name for a in rewindow.algorithms()}
COUPLED = sorted(name for name, oracle in PAPER.items() if issubclass(oracle, Css) and name in NAMES)
CON = st.integers(2 << 16, 3000 << 16).map(lambda q: Fraction(q, 1 << 16))


def oracle_of(name: str, *args: Any, **named: Any) -> Css:
    oracle = PAPER[name](*args, **named)
    assert isinstance(oracle, Css)
    return oracle


@st.composite
def coupled_starts(draw: st.DrawFn) -> list[CssPath]:
    return [CssPath(draw(small_windows), draw(rtts)) for _ in range(draw(st.integers(1, 8)))]


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=300, deadline=None)
@given(paths=coupled_starts(), con=CON, acked=acks, form=st.booleans(), scale=st.booleans(), data=st.data())
def test_growth_and_exit(
    name: str, paths: list[Path], con: Fraction, acked: int, form: bool, scale: bool, data: st.DataObject
) -> None:
    r = data.draw(st.integers(0, len(paths) - 1))
    named = {"alpha_form": "product" if form else "exponent", "L_scale": "on" if scale else "off"}
    controller = drive(name, paths, con_ssthresh=float(con), **named)
    oracle = oracle_of(name, paths, con=con, product=form, cap_scales=scale)
    before = [p.cwnd for p in paths]
    for target in (oracle, controller):
        apply(target, name, Event("ack", r, acked))
    decided(oracle)
    assert bool(controller.state["initial_ss"]) is oracle.initial_ss
    compare(controller, oracle, before, Event("ack", r, acked))
    if not oracle.initial_ss:
        assert all(p.ssthresh == p.cwnd for p in controller.paths)
        assert {p.phase for p in controller.paths} == {"congestion_avoidance"}


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=100, deadline=None)
@given(acked=acks, rtt=st.integers(500, 200_000).map(lambda ms: Fraction(ms, 1000)))
def test_a_ratio_of_round_trips_of_500_stops_at_the_cap(name: str, acked: int, rtt: Fraction) -> None:
    """alpha^(R_r/min R) has no bound of its own."""
    paths = [CssPath(Fraction(10), rtt / 500), CssPath(Fraction(10), rtt)]
    controller, oracle = drive(name, paths, con_ssthresh=1000), oracle_of(name, paths, con=Fraction(1000))
    controller.ack(1, acked)
    assert controller.paths[1].cwnd == 10 + oracle.cap


@pytest.mark.parametrize("name", COUPLED)
def test_the_last_one_above_its_threshold_takes_the_connection_with_it(name: str) -> None:
    """It keeps its threshold: a loss of the other that is undone later couples that one again."""
    c = Controller(name, paths=[{"cwnd": 10.0, "rtt": 0.02}, {"cwnd": 60.0, "rtt": 0.2}], mss=1400)
    c.loss(0)
    c.ack(1)
    assert (c.state["initial_ss"], c.paths[1].phase) == (0, "congestion_avoidance")
    assert c.paths[1].ssthresh == pytest.approx(65535 / 1400, abs=1e-4)
    c.undo(0)
    assert (c.paths[0].phase, c.paths[1].phase) == ("coupled_slow_start", "congestion_avoidance")


@pytest.mark.parametrize("name", COUPLED)
def test_any_subflows_ack_ends_coupled_slow_start(name: str) -> None:
    """CSS Algorithm 1 line 8, TCCC Algorithm 1 line 13: also the ACK of one that left by a loss, which grows by it."""
    paths = [{"cwnd": 20.0, "rtt": 0.1}, {"cwnd": 60.0, "rtt": 0.1, "ssthresh": 100.0}]
    c = Controller(name, paths=paths, con_ssthresh=46.8)
    c.ack(path=1, acked=2)
    assert c.paths[1].cwnd == 62.0
    assert c.state["initial_ss"] == 0
    assert (c.paths[0].phase, c.paths[0].ssthresh) == ("congestion_avoidance", 20.0)


@pytest.mark.parametrize("name", COUPLED)
def test_a_subflow_that_comes_with_a_threshold_is_not_coupled(name: str) -> None:
    c = Controller(name, paths=[{"cwnd": 10.0, "rtt": 0.1}], con_ssthresh=200.0)
    c.join({"cwnd": 10.0, "rtt": 0.1, "ssthresh": 30.0})
    assert [p.phase for p in c.paths] == ["coupled_slow_start", "slow_start"]
    assert (c.state["alpha"], c.state["initial_ss"]) == (1.5, 1)


def test_a_verdict_uncouples_the_slow_start_of_tccc_plus() -> None:
    """TCCC IV.D: each with its own static threshold, for a slow start of its own; a later set does not undo it."""
    c = Controller("tccc+", paths=[{"cwnd": 10.0, "rtt": 0.1}] * 3, mss=1400)
    c.loss(2)
    c.verdict({0: 1, 1: 1}, state="judgement")
    assert c.paths[0].phase == "coupled_slow_start", "not final"
    c.verdict({0: None, 1: 1, 2: None})
    c.ack(0, 4)
    assert (c.paths[0].phase, c.paths[0].cwnd) == ("slow_start", 14.0)
    assert c.paths[0].ssthresh == pytest.approx(65535 / 1400, abs=1e-4)
    assert (c.paths[1].phase, c.state["initial_ss"]) == ("slow_start", 0), "alone in its set"
    c.undo(2)
    assert c.paths[2].phase == "slow_start", "its loss was none, but it shares with nobody"
    c.verdict({0: 1, 1: 1})
    c.ack(0, 30)
    c.ack(0, 30)
    assert c.paths[0].phase == "congestion_avoidance"
    assert c.paths[0].cwnd > 65535 / 1400
    assert c.state["initial_ss"] == 0


def test_a_verdict_leaves_a_set_coupled() -> None:
    c = Controller("tccc+", paths=[{"cwnd": 10.0, "rtt": 0.1}] * 3, con_ssthresh=200.0)
    c.verdict({0: 1, 1: 1, 2: None})
    assert [p.phase for p in c.paths] == ["coupled_slow_start", "coupled_slow_start", "slow_start"]
    assert [p.set for p in c.paths] == [1, 1, None]
    c.leave(1)
    with pytest.raises(rewindow.BadOption):
        c.verdict({1: 1})


def test_who_shares_with_nobody_does_not_count_for_the_others() -> None:
    """TCCC III.B compares rates at the shared bottleneck: one beside it ends no coupled slow start (T-24)."""
    c, two = Controller("tccc+", con_ssthresh=46.8), Controller("tccc+", con_ssthresh=46.8)
    for rtt in (0.1, 0.2, 0.2):
        c.join({"cwnd": 10.0, "rtt": rtt})
    for rtt in (0.2, 0.2):
        two.join({"cwnd": 10.0, "rtt": rtt})
    assert c.state["alpha"] < two.state["alpha"]
    c.verdict({0: None, 1: 1, 2: 1})
    assert c.state["alpha"] == pytest.approx(two.state["alpha"], rel=1e-5), "as if the first had closed"
    c.ack(0, 50)
    assert c.paths[0].cwnd > 46.8
    for path in (1, 2):
        c.ack(path, 4)
        two.ack(path - 1, 4)
    assert [p.phase for p in c.paths] == ["congestion_avoidance", "coupled_slow_start", "coupled_slow_start"]
    assert [p.cwnd for p in c.paths[1:]] == pytest.approx([p.cwnd for p in two.paths], rel=1e-5)
    c.loss(0)
    c.undo(0)
    alpha = c.state["alpha"]
    c.leave(0)
    assert (c.state["alpha"], c.state["initial_ss"]) == (alpha, 1)
    assert c.paths[1].phase == "coupled_slow_start"
    c.ack(1, 40)
    while c.state["initial_ss"]:
        c.ack(1, 40)
    assert sum(p.cwnd for p in c.paths[1:]) > 46.8


def test_avoidance_still_updates_where_nobody_shares() -> None:
    """aca_period=rtt waits for the smallest RTT of all subflows, also of those that share with nobody."""
    c = Controller("tccc+", paths=[{"cwnd": 10.0, "rtt": 0.1}] * 2, aca_period="rtt", mss=1400)
    c.verdict({0: None, 1: None})
    for k in range(400):
        c.ack(0, 4, time=1.0 + k / 10)
    before = c.paths[0].cwnd
    assert before > 60
    c.ack(0, 4, time=50.0)
    assert c.paths[0].cwnd - before == pytest.approx(4 / before, rel=1e-2)


def test_a_verdict_may_be_given_with_the_paths() -> None:
    """Told with the first event: two sets of one are two subflows that share nothing."""
    alone = {"cwnd": 10.0, "rtt": 0.1, "set_state": "final"}
    for sets in ({}, {"set": 1}):
        c = Controller("tccc+", paths=[alone | sets, alone | {k: 2 for k in sets}])
        c.ack(0, 2)
        assert [p.phase for p in c.paths] == ["slow_start", "slow_start"]
        assert c.paths[0].cwnd == 12.0


@pytest.mark.parametrize("name", [n for n in COUPLED if n != "tccc+"])
def test_only_tccc_plus_listens_to_verdicts(name: str) -> None:
    c = Controller(name, paths=[{"cwnd": 10.0, "rtt": 0.1}] * 2)
    c.verdict({0: None, 1: None})
    c.ack(0)
    assert {p.phase for p in c.paths} == {"coupled_slow_start"}


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=200, deadline=None)
@given(first=small_windows, joins=st.lists(small_windows, min_size=1, max_size=4), rtt=rtts, con=CON)
def test_joins(name: str, first: Fraction, joins: list[Fraction], rtt: Fraction, con: Fraction) -> None:
    """Also joins at and above con_ssthresh, and after an exit: alpha never leaves [1, alpha0], nothing shrinks."""
    controller, oracle = Controller(name, con_ssthresh=float(con)), oracle_of(name, con=con)
    controller.join({"cwnd": float(first), "rtt": float(rtt)})
    oracle.join(CssPath(first, rtt))
    for cwnd in joins:
        before = sum((p.cwnd for p in oracle.paths), Fraction(0))
        if oracle.initial_ss and con > before and con / before - 1 < Fraction(1, 10**6):
            return  # the quotient of two logarithms near zero
        controller.join({"cwnd": float(cwnd), "rtt": float(rtt)})
        oracle.join(CssPath(cwnd, rtt))
        assert bool(controller.state["initial_ss"]) is oracle.initial_ss
        if not oracle.initial_ss:
            break
        alpha = controller.state["alpha"]
        assert 1.0 <= alpha <= 1.5
        assert alpha == pytest.approx(float(oracle.alpha_now), abs=2e-6)
    if not oracle.initial_ss:
        assert all(p.phase != "coupled_slow_start" for p in controller.paths)


@pytest.mark.parametrize("name", COUPLED)
def test_three_joins_keep_the_time_to_completion(name: str) -> None:
    """log_alpha(con/W) is the same before and after each join (C7)."""
    c = Controller(name, con_ssthresh=200.0)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    left = math.log(200 / 10) / math.log(1.5)
    for n in (2, 3, 4):
        c.join({"cwnd": 10.0, "rtt": 0.1})
        assert math.log(200 / (10 * n)) / math.log(c.state["alpha"]) == pytest.approx(left, rel=1e-5)


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=150, deadline=None)
@given(cwnds=st.lists(small_windows, min_size=2, max_size=6), rtt=rtts, con=CON, data=st.data())
def test_leave(name: str, cwnds: list[Fraction], rtt: Fraction, con: Fraction, data: st.DataObject) -> None:
    """The mirror of join, never above alpha0; the last one that leaves restores it."""
    controller, oracle = Controller(name, con_ssthresh=float(con)), oracle_of(name, con=con)
    for cwnd in cwnds:
        before = sum((p.cwnd for p in oracle.paths), Fraction(0))
        if con > before and before and con / before - 1 < Fraction(1, 1000):
            return
        controller.join({"cwnd": float(cwnd), "rtt": float(rtt)})
        oracle.join(CssPath(cwnd, rtt))
        if not oracle.initial_ss:
            return
    for r in data.draw(st.permutations(range(len(cwnds)))):
        whole = sum((p.cwnd for p in oracle.paths if p.live), Fraction(0))
        if abs(con / whole - 1) < Fraction(1, 1000):
            return
        controller.leave(r)
        oracle.leave(r)
        assert controller.state["alpha"] == pytest.approx(float(oracle.alpha_now), abs=2e-5)
        assert controller.state["alpha"] <= 1.5


def rounded(oracle: Css, least: Fraction) -> tuple[float, float]:
    """Where the sum of weighted windows of the live may be: each is rounded to Q16, and so is each ratio of RTTs."""
    live = [p for p in oracle.paths if p.live]
    whole = float(oracle.sum_of(live, least))
    return whole - len(live) / 65536 - whole / 32768, whole + len(live) / 65536 + whole / 32768


def held_alpha(
    controller: Controller, oracle: Css, was: float, sums: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    """alpha is what some sums within the rounding make of it; the oracle goes on from there."""
    con = float(oracle.con)
    corners = [was ** (math.log(con / after) / math.log(con / before)) for before in sums[0] for after in sums[1]]
    got = controller.state["alpha"]
    assert min(corners) - 2e-5 <= float(oracle.alpha_now) <= max(corners) + 2e-5, "the test's own sums"
    assert min(corners) - 2e-5 <= got <= max(corners) + 2e-5
    oracle.alpha_now = Fraction(got)


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=300, deadline=None)
@given(paths=coupled_starts(), con=CON, data=st.data())
def test_joins_and_leaves_may_count_rates(name: str, paths: list[Path], con: Fraction, data: st.DataObject) -> None:
    """join_weighted, with RTTs apart (C9)."""
    controller = Controller(name, con_ssthresh=float(con), join_weighted="on")
    oracle = oracle_of(name, con=con, weighted=True)

    def near_con(*sums: tuple[float, float]) -> bool:
        """The quotient of two logarithms near zero, or a sum that rounds to nothing."""
        return any(low <= 0 or low / float(con) - 0.001 < 1 < high / float(con) + 0.001 for low, high in sums)

    for n, p in enumerate(paths):
        least = min((q.rtt for q in [*oracle.paths, p] if q.rtt), default=Fraction(1))
        before, was = rounded(oracle, least), float(oracle.alpha_now)
        controller.join(as_given(name, p))
        oracle.join(p)
        after = rounded(oracle, least)
        if n and near_con(before, after):
            return
        assert bool(controller.state["initial_ss"]) is oracle.initial_ss
        if not oracle.initial_ss:
            return
        if n:
            held_alpha(controller, oracle, was, (before, after))
    for r in data.draw(st.permutations(range(len(paths))))[:-1]:
        least, was = oracle.least_coupled(), float(oracle.alpha_now)
        before = rounded(oracle, least)
        controller.leave(r)
        oracle.leave(r)
        after = rounded(oracle, least)
        if near_con(before, after):
            return
        if before[0] > con:  # others' weights grew when the fastest left
            assert controller.state["alpha"] == was == float(oracle.alpha_now)
        elif oracle.alpha_now == oracle.alpha0:
            assert controller.state["alpha"] == pytest.approx(1.5, rel=1e-3)
            oracle.alpha_now = Fraction(controller.state["alpha"])
        else:
            held_alpha(controller, oracle, was, (before, after))


@pytest.mark.parametrize("name", COUPLED)
def test_leave_is_the_mirror_of_join(name: str) -> None:
    controller = Controller(name, paths=[{"cwnd": 20.0, "rtt": 0.1}], con_ssthresh=46.81)
    controller.join({"cwnd": 10.0, "rtt": 0.1})
    assert controller.state["alpha"] < 1.3
    controller.leave(path=1)
    assert controller.state["alpha"] == pytest.approx(1.5, abs=1e-6)
    with pytest.raises(rewindow.BadOption):
        _ = controller.paths[1].cwnd


@pytest.mark.parametrize("name", COUPLED)
def test_the_next_connection_begins_with_alpha0(name: str) -> None:
    c = Controller(name, con_ssthresh=100.0)
    for _ in range(2):
        c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] < 1.5
    c.leave(path=0)
    c.leave(path=1)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] == 1.5


@pytest.mark.parametrize("name", COUPLED)
@pytest.mark.parametrize("event", ["loss", "ece", "timeout"])
def test_only_the_subflow_that_lost_leaves(name: str, event: str) -> None:
    c = Controller(name, paths=[{"cwnd": 10.0, "rtt": 0.1}, {"cwnd": 8.0, "rtt": 0.1}], con_ssthresh=100.0)
    getattr(c, event)(path=0)
    first = "slow_start" if event == "timeout" else "congestion_avoidance"
    assert [p.phase for p in c.paths] == [first, "coupled_slow_start"]
    c.loss(path=1)
    assert c.state["initial_ss"] == 0
    assert c.join({"cwnd": 10.0, "rtt": 0.1}) == 2
    assert c.paths[2].phase == "slow_start"


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=100, deadline=None)
@given(paths=path_lists("avoidance"), rule=st.sampled_from(["auto", "eq8", "half"]))
def test_a_loss_before_the_exit_halves(name: str, paths: list[Path], rule: str) -> None:
    """Whatever the decrease of avoidance is (C12)."""
    for p in paths:
        p.ssthresh = None
    controller = drive(name, paths, **({"aca_md": rule} if name == "tccc" else {}))
    controller.loss(path=0)
    close("cwnd", controller.paths[0].cwnd, max(paths[0].cwnd / 2, Fraction(2)), Fraction(0))


@pytest.mark.parametrize("rule", ["auto", "eq8", "half"])
@settings(max_examples=200, deadline=None)
@given(paths=path_lists("avoidance", of=Tccc, name="tccc"), data=st.data())
def test_tccc_decrease(rule: str, paths: list[Path], data: st.DataObject) -> None:
    r = data.draw(st.integers(0, len(paths) - 1))
    controller, oracle = drive("tccc", paths, aca_md=rule), Tccc(paths, decrease_rule=rule)
    before = [p.cwnd for p in paths]
    for target in (oracle, controller):
        target.loss(r)
    compare(controller, oracle, before, Event("loss", r))
    assert controller.paths[r].cwnd >= 2.0


@pytest.mark.parametrize("name", COUPLED)
@settings(max_examples=200, deadline=None)
@given(paths=coupled_starts(), con=CON, data=st.data())
def test_undo_gives_the_coupling_back(name: str, paths: list[CssPath], con: Fraction, data: st.DataObject) -> None:
    """In any order with losses, joins and closes of others, also after they have left coupled slow start."""
    controller, oracle = drive(name, paths, con_ssthresh=float(con)), oracle_of(name, paths, con=con)
    kinds = ["ack", "ack", "ack", "loss", "ece", "timeout", "undo", "undo", "undo", "join", "leave"]
    course = data.draw(courses(kinds))
    for _ in range(data.draw(st.integers(0, 25))):
        event = data.draw(events_on(oracle, course))
        before = [p.cwnd for p in oracle.paths]
        for target in (oracle, controller):
            apply(target, name, event)
        decided(oracle)
        compare(controller, oracle, before, event)
        for r, (p, q) in enumerate(zip(controller.paths, oracle.paths, strict=True)):
            if q.live:
                assert (p.phase == "coupled_slow_start") is oracle.coupled(r)


@pytest.mark.parametrize("name", COUPLED)
def test_who_comes_while_nobody_is_coupled_starts_alone(name: str) -> None:
    """Also when the loss that had taken the others out is undone."""
    paths = [CssPath(Fraction(8), Fraction(1, 20))]
    controller, oracle = drive(name, paths, con_ssthresh=40.0), oracle_of(name, paths, con=Fraction(40))
    comes = CssPath(Fraction(10), Fraction(1, 20))
    for event in (Event("loss", 0), Event("join", joins=comes), Event("undo", 0)):
        for target in (oracle, controller):
            apply(target, name, event)
    assert [p.phase for p in controller.paths] == ["coupled_slow_start", "slow_start"]
    assert [oracle.coupled(r) for r in range(2)] == [True, False]


def test_undo_needs_a_reduction() -> None:
    c = Controller("tccc", paths=[{"cwnd": 20.0, "rtt": 0.1}])
    with pytest.raises(ValueError, match="undone"):
        c.undo(0)
    c.loss(0)
    c.undo(0)
    assert (c.paths[0].cwnd, c.paths[0].phase) == (20.0, "coupled_slow_start")
    with pytest.raises(ValueError, match="undone"):
        c.undo(0)


def test_identical_subflows_stop_at_the_floor() -> None:
    """The printed decrease of n identical subflows is n w/2: zero or negative windows without a floor."""
    for n in (2, 3, 8):
        controller = Controller("tccc", paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 10.0}] * n, aca_md="eq8")
        controller.loss(path=1)
        assert controller.paths[1].cwnd == 2.0
        assert controller.paths[0].cwnd == 20.0


def test_by_hand_the_peaks_are_learnt() -> None:
    """Once every path has had a reduction from a like window, TCCC takes the decrease of eq. 8."""
    c = Controller("tccc", paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 2.0}] * 2)
    for path in (0, 1):
        c.ack(path=path)
        c.loss(path=path)
    assert c.paths[0].cwnd == pytest.approx(10.0, abs=0.1), "the other path had none yet: half"
    assert c.paths[1].cwnd == pytest.approx(20 - (10 + 20) / 2, abs=0.1), "equal RTTs: less half of the sum"


@settings(max_examples=100, deadline=None)
@given(paths=path_lists("avoidance", least=2), acked=acks, data=st.data())
def test_aca_safe(paths: list[Path], acked: int, data: st.DataObject) -> None:
    """Against the long-RTT hazard: a step is never longer than Reno's, a decrease never smaller (12.1)."""
    r = data.draw(st.integers(0, len(paths) - 1))
    safe, reno = drive("tccc", paths, aca_safe="on", aca_md="eq8"), drive("newreno", [paths[r]], mode="paper")
    safe.ack(r, acked)
    reno.ack(0, acked)
    assert safe.paths[r].cwnd <= reno.paths[0].cwnd
    safe, reno = drive("tccc", paths, aca_safe="on", aca_md="eq8"), drive("newreno", [paths[r]], mode="paper")
    safe.loss(r)
    reno.loss(0)
    assert safe.paths[r].ssthresh <= reno.paths[0].ssthresh


@settings(max_examples=200, deadline=None)
@given(
    paths=path_lists(least=0, most=5, of=Lisa, name="lisa"),
    joins=st.lists(st.sampled_from([Fraction(1, 20), None]), min_size=1, max_size=3),
    happens=st.lists(acks, max_size=8),
)
def test_lisa_joins(paths: list[LisaPath], joins: list[Fraction | None], happens: list[int]) -> None:
    """The sum of windows does not rise, but by what a donor of fewer than four segments lacks; donors wait in ACKs."""
    controller, oracle = drive("lisa", paths, Lisa, mode="paper"), Lisa(paths)
    for rtt in joins:
        before = [p.cwnd for p in oracle.paths]
        has_donor = any(oracle.is_first(p) for p in oracle.paths)
        oracle.join(LisaPath(Fraction(10), rtt))
        controller.join({"cwnd": 10.0} | ({"rtt": float(rtt)} if rtt else {}))
        decided(oracle)
        compare(controller, oracle, [*before, Fraction(10)], Event("join"))
        if has_donor:
            assert sum(Fraction(p.cwnd) for p in controller.paths) <= sum(before, Fraction(0)) + 3 + ABSOLUTE
    for acked in happens:
        for r in range(len(oracle.paths)):
            before = [p.cwnd for p in oracle.paths]
            for target in (oracle, controller):
                apply(target, "lisa", Event("ack", r, acked))
            compare(controller, oracle, before, Event("ack", r, acked))


def test_lisa_after_the_initial_slow_start_nothing_is_given() -> None:
    c = Controller("lisa", paths=[{"cwnd": 40.0, "rtt": 0.1}])
    c.timeout(0)  # slow start again, but not the first one
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert [p.cwnd for p in c.paths] == [1.0, 10.0]
    assert c.state["ignore_acks"] == [0, 0]


def test_lisa_the_fastest_of_several_donors_gives() -> None:
    """By rate, not by window; one that left slow start does not give."""
    paths = [{"cwnd": 30.0, "rtt": 0.1}, {"cwnd": 24.0, "rtt": 0.05}, {"cwnd": 90.0, "rtt": 0.01, "ssthresh": 20.0}]
    c = Controller("lisa", paths=paths)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert [p.cwnd for p in c.paths] == [30, 14, 90, 10]
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert [p.cwnd for p in c.paths] == [20, 14, 90, 10, 10], "30/0.1 is now the highest rate"


BASELINES = [
    a.name for a in rewindow.algorithms() if any((o.name, o.values) == ("ssthresh", "none|static") for o in a.options)
]


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", BASELINES)
def test_baselines_may_begin_with_the_static_threshold(name: str, mode: str) -> None:
    """65535 bytes, as in the papers' simulations: slow start ends there without a loss."""
    c = Controller(name, paths=[{"cwnd": 40.0, "rtt": 0.1}], ssthresh="static", mode=mode, mss=1400)
    static = 65535 / 1400 if mode == "paper" or name not in ("lia", "olia", "balia") else 46.0
    assert c.paths[0].ssthresh == pytest.approx(static, abs=1e-4)
    for _ in range(10):
        c.ack(acked=2)
    assert static <= c.paths[0].cwnd < static + 1
    assert c.paths[0].phase == "congestion_avoidance"
    none = Controller(name, paths=[{"cwnd": 40.0, "rtt": 0.1}], mode=mode)
    assert none.paths[0].ssthresh == math.inf
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.paths[1].ssthresh == pytest.approx(static, abs=1e-4), "who joins begins with it, too"


def test_every_window_based_controller_for_mptcp_may() -> None:
    """Delays alone end wvegas's slow start."""
    multipath = [a for a in rewindow.algorithms() if a.kind == "multipath"]
    without = [a.name for a in multipath if not any(o.name == "ssthresh" and "static" in o.values for o in a.options)]
    assert without == ["wvegas"]


def test_lisa_knows_its_first_slow_start_by_the_threshold_that_it_began_with() -> None:
    for ssthresh in ("none", "static"):
        c = Controller("lisa", paths=[{"cwnd": 30.0, "rtt": 0.1}], ssthresh=ssthresh, mss=1400)
        c.loss(0)
        c.undo(0)
        c.join({"cwnd": 10.0, "rtt": 0.1})
        assert [p.cwnd for p in c.paths] == [20.0, 10.0], "the loss was none"
        c.timeout(0)
        c.timeout(1)
        c.join({"cwnd": 10.0, "rtt": 0.1})
        assert [p.cwnd for p in c.paths] == [1.0, 1.0, 10.0], "slow start, but not the first"
