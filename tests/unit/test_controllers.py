"""Every controller against its oracle over the whole range: windows 1 to 2^20, RTTs 50 us to 10 s, 1 to 8 subflows."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import Controller
from tests.oracles import Css, LinuxCubic, NewReno, Path, Tccc

RELATIVE = Fraction(1, 2000)
"""Of a step or a decrease."""
ABSOLUTE = Fraction(1, 16384)
"""Segments: four units of Q16."""

windows = st.integers(1 << 16, 1 << 36).map(lambda q: Fraction(q, 1 << 16))
small_windows = st.integers(1 << 16, 64 << 16).map(lambda q: Fraction(q, 1 << 16))
rtts = st.integers(50_000, 10_000_000_000).map(lambda ns: Fraction(ns, 10**9))
acks = st.integers(1, 64)


@st.composite
def paths_in_avoidance(draw: st.DrawFn) -> list[Path]:
    n = draw(st.integers(1, 8))
    same = draw(st.booleans())
    cwnd, rtt = draw(windows), draw(rtts)
    return [
        Path(cwnd if same else draw(windows), rtt if same else draw(rtts), Fraction(1), draw(small_windows))
        for _ in range(n)
    ]


def drive(name: str, paths: list[Path], **named: object) -> Controller:
    given_paths = []
    for p in paths:
        entry = {"cwnd": float(p.cwnd), "rtt": float(p.rtt), "max_packets_out": float(p.peak)}
        if p.ssthresh is not None:
            entry["ssthresh"] = float(p.ssthresh)
        given_paths.append(entry)
    return Controller(name, paths=given_paths, **named)


def close(got: float, expected: Fraction, change: Fraction) -> None:
    assert abs(Fraction(got) - expected) <= ABSOLUTE + RELATIVE * abs(change), (got, float(expected))


ORACLES = {"newreno": NewReno, "uncoupled": NewReno, "css": Css, "tccc": Tccc}


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=200, deadline=None)
@given(paths=paths_in_avoidance(), acked=acks, data=st.data())
def test_increase(name: str, paths: list[Path], acked: int, data: st.DataObject) -> None:
    r = data.draw(st.integers(0, len(paths) - 1))
    controller = drive(name, paths, mode="paper")
    oracle = ORACLES[name](paths)
    before = oracle.paths[r].cwnd
    oracle.ack(r, acked)
    expected = min(oracle.paths[r].cwnd, Fraction(1 << 20))
    controller.ack(path=r, acked=acked)
    close(controller.paths[r].cwnd, expected, expected - before)


@pytest.mark.parametrize("rule", ["auto", "eq8", "half"])
@settings(max_examples=200, deadline=None)
@given(paths=paths_in_avoidance(), data=st.data())
def test_tccc_decrease(rule: str, paths: list[Path], data: st.DataObject) -> None:
    r = data.draw(st.integers(0, len(paths) - 1))
    controller = drive("tccc", paths, aca_md=rule)
    oracle = Tccc(paths, decrease_rule=rule)
    decrease = oracle.decrease(r)
    oracle.loss(r)
    controller.loss(path=r)
    assert controller.paths[r].cwnd >= 2.0
    expected = oracle.paths[r].cwnd
    if rule == "auto":  # exactly at the ratio, the rounding of the peaks decides
        other = Tccc([Path(p.cwnd, p.rtt, p.ssthresh, p.peak) for p in paths])
        peaks = [p.peak for p in other.paths]
        if max(peaks) ** 2 == 4 * min(peaks) ** 2:
            return
    close(controller.paths[r].cwnd, expected, decrease)


@pytest.mark.parametrize("name", ["newreno", "uncoupled", "css"])
@settings(max_examples=100, deadline=None)
@given(paths=paths_in_avoidance())
def test_halving(name: str, paths: list[Path]) -> None:
    controller = drive(name, paths, mode="paper")
    controller.loss(path=0)
    close(controller.paths[0].cwnd, max(paths[0].cwnd / 2, Fraction(2)), Fraction(0))
    assert controller.paths[0].cwnd == controller.paths[0].ssthresh


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=50, deadline=None)
@given(paths=paths_in_avoidance())
def test_timeout(name: str, paths: list[Path]) -> None:
    controller = drive(name, paths, mode="paper")
    controller.timeout(path=0)
    assert controller.paths[0].cwnd == 1.0
    close(controller.paths[0].ssthresh, max(paths[0].cwnd / 2, Fraction(2)), Fraction(0))


@settings(max_examples=100, deadline=None)
@given(paths=paths_in_avoidance(), rule=st.sampled_from(["auto", "eq8", "half"]))
def test_tccc_halves_before_the_exit(paths: list[Path], rule: str) -> None:
    """Within coupled slow start a loss halves one window, whatever the decrease of avoidance is (C12)."""
    for p in paths:
        p.ssthresh = None
    controller = drive("tccc", paths, aca_md=rule)
    controller.loss(path=0)
    close(controller.paths[0].cwnd, max(paths[0].cwnd / 2, Fraction(2)), Fraction(0))


@st.composite
def coupled_starts(draw: st.DrawFn) -> tuple[list[Path], Fraction]:
    paths = [Path(draw(small_windows), draw(rtts)) for _ in range(draw(st.integers(1, 8)))]
    return paths, draw(st.integers(2 << 16, 2000 << 16).map(lambda q: Fraction(q, 1 << 16)))


@pytest.mark.parametrize("name", ["css", "tccc"])
@settings(max_examples=300, deadline=None)
@given(start=coupled_starts(), acked=acks, data=st.data())
def test_coupled_slow_start(name: str, start: tuple[list[Path], Fraction], acked: int, data: st.DataObject) -> None:
    paths, con = start
    r = data.draw(st.integers(0, len(paths) - 1))
    controller = drive(name, paths, con_ssthresh=float(con))
    oracle = ORACLES[name](paths, con=con)
    if abs(oracle.sums()[0] - con) < Fraction(1, 1 << 20):
        return  # the test is strict, and rates are rounded
    before = [p.cwnd for p in paths]
    oracle.ack(r, acked)
    controller.ack(path=r, acked=acked)
    assert bool(controller.state["initial_ss"]) is oracle.initial_ss
    for path, expected, was in zip(controller.paths, oracle.paths, before, strict=True):
        close(path.cwnd, expected.cwnd, expected.cwnd - was)
        assert math.isinf(path.ssthresh) is (expected.ssthresh is None)
        if expected.ssthresh is not None:
            assert path.ssthresh == path.cwnd


@pytest.mark.parametrize("name", ["css", "tccc"])
@settings(max_examples=200, deadline=None)
@given(
    first=small_windows, joins=st.lists(small_windows, min_size=1, max_size=4), rtt=rtts,
    con=st.integers(2 << 16, 3000 << 16).map(lambda q: Fraction(q, 1 << 16)),
)  # fmt: skip
def test_joins(name: str, first: Fraction, joins: list[Fraction], rtt: Fraction, con: Fraction) -> None:
    """Also joins at and above con_ssthresh, and after an exit: alpha never leaves [1, alpha0], nothing shrinks."""
    controller = Controller(name, con_ssthresh=float(con))
    oracle = ORACLES[name]([], con=con)
    controller.join({"cwnd": float(first), "rtt": float(rtt)})
    oracle.join(Path(first, rtt))
    for cwnd in joins:
        before = sum((p.cwnd for p in oracle.paths), Fraction(0))
        if oracle.initial_ss and con > before and con / before - 1 < Fraction(1, 10**6):
            return  # the quotient of two logarithms near zero
        controller.join({"cwnd": float(cwnd), "rtt": float(rtt)})
        oracle.join(Path(cwnd, rtt))
        assert bool(controller.state["initial_ss"]) is oracle.initial_ss
        if not oracle.initial_ss:
            break
        alpha = controller.state["alpha"]
        assert 1.0 <= alpha <= 1.5
        assert alpha == pytest.approx(float(oracle.alpha), abs=2e-6)
    if not oracle.initial_ss:
        assert all(p.phase != "coupled_slow_start" for p in controller.paths)


@pytest.mark.parametrize("name", ["css", "tccc"])
@settings(max_examples=100, deadline=None)
@given(cwnd=windows, rtt=rtts, acked=acks, events=st.lists(st.sampled_from(["ack", "loss", "timeout"]), max_size=30))
def test_one_path_is_newreno(name: str, cwnd: Fraction, rtt: Fraction, acked: int, events: list[str]) -> None:
    path = {"cwnd": float(cwnd), "rtt": float(rtt), "ssthresh": 2.0, "max_packets_out": 10.0}
    ours = Controller(name, paths=[path], mode="paper")
    newreno = Controller("newreno", paths=[path], mode="paper")
    for event in ["ack", *events]:
        for c in (ours, newreno):
            c.ack(acked=acked) if event == "ack" else getattr(c, event)()
        assert ours.paths[0].cwnd == newreno.paths[0].cwnd
        assert ours.paths[0].ssthresh == newreno.paths[0].ssthresh


@settings(max_examples=200, deadline=None)
@given(
    cwnd=st.integers(2, 5000), rtt=st.integers(50_000, 10**10),
    steps=st.lists(st.tuples(st.integers(0, 2 * 10**9), st.integers(0, 64), st.sampled_from("aaaaaal")), max_size=80),
)  # fmt: skip
def test_cubic_is_its_integers(cwnd: int, rtt: int, steps: list[tuple[int, int, str]]) -> None:
    """Equal to the last bit, over losses, idle times and stretch ACKs; without HyStart, which has its own test."""
    ours = Controller("cubic", paths=[{"cwnd": float(cwnd), "ssthresh": 2.0}], hystart="off")
    oracle = LinuxCubic(cwnd, ssthresh=2)
    now = 10**9
    for wait, acked, event in steps:
        now += wait
        if event == "l":
            ours.loss()
            oracle.loss()
        else:
            oracle.sample(now, rtt)
            oracle.ack(now, acked)
            ours.ack(acked=acked, rtt=rtt / 1e9, time=now / 1e9)
        assert (ours.paths[0].cwnd, ours.paths[0].cwnd_cnt) == (min(oracle.cwnd, 1 << 20), oracle.credit)


def test_hystart_leaves_slow_start_when_the_delay_grows() -> None:
    """delay_min 40 ms: the threshold is 45 ms, and the ninth sample of a round is the first that counts."""
    for delay, leaves in ((0.0451, True), (0.045, False)):
        c = Controller("cubic", paths=[{"cwnd": 20.0}])
        c.ack(acked=1, rtt=0.04, time=1.0)
        for i in range(8):
            c.ack(acked=21 * (i == 0), rtt=delay, time=2.0 + i * 0.01)  # beyond the window: the first begins a round
        assert c.paths[0].phase == "slow_start"
        c.ack(acked=0, rtt=delay, time=2.2)
        assert (c.paths[0].phase == "congestion_avoidance") is leaves
    off = Controller("cubic", paths=[{"cwnd": 20.0}], hystart="off")
    for i in range(20):
        off.ack(acked=21 * (i < 2), rtt=0.04 if i == 0 else 0.09, time=1.0 + i * 0.01)
    assert math.isinf(off.paths[0].ssthresh)


def test_identical_subflows_stop_at_the_floor() -> None:
    """The printed decrease of n identical subflows is n w/2: zero or negative windows without a floor."""
    paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 10.0}] * 3
    controller = Controller("tccc", paths=paths, aca_md="eq8")
    controller.loss(path=1)
    assert controller.paths[1].cwnd == 2.0
    assert controller.paths[0].cwnd == 20.0


def test_loss_takes_only_its_subflow_out_of_coupled_slow_start() -> None:
    controller = Controller("tccc", paths=[{"cwnd": 10.0, "rtt": 0.1}, {"cwnd": 8.0, "rtt": 0.1}], con_ssthresh=100.0)
    controller.loss(path=0)
    assert [p.phase for p in controller.paths] == ["congestion_avoidance", "coupled_slow_start"]
    controller.loss(path=1)
    assert controller.state["initial_ss"] == 0
    assert controller.join({"cwnd": 10.0, "rtt": 0.1}) == 2
    assert controller.paths[2].phase == "slow_start"


def test_leave_is_the_mirror_of_join() -> None:
    controller = Controller("css", paths=[{"cwnd": 20.0, "rtt": 0.1}], con_ssthresh=46.81)
    controller.join({"cwnd": 10.0, "rtt": 0.1})
    assert controller.state["alpha"] < 1.3
    controller.leave(path=1)
    assert controller.state["alpha"] == pytest.approx(1.5, abs=1e-6)
    with pytest.raises(rewindow.BadOption):
        _ = controller.paths[1].cwnd


def test_by_hand_the_peaks_are_learnt() -> None:
    """Once every path has had a reduction from a like window, TCCC takes the decrease of eq. 8."""
    c = Controller("tccc", paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 2.0}] * 2)
    for path in (0, 1):
        c.ack(path=path)
        c.loss(path=path)
    assert c.paths[0].cwnd == pytest.approx(10.0, abs=0.1), "the other path had none yet: half"
    assert c.paths[1].cwnd == pytest.approx(20 - (10 + 20) / 2, abs=0.1), "equal RTTs: less half of the sum"


def test_the_next_connection_begins_with_alpha0() -> None:
    c = Controller("css", con_ssthresh=100.0)
    for _ in range(2):
        c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] < 1.5
    c.leave(path=0)
    c.leave(path=1)
    c.join({"cwnd": 10.0, "rtt": 0.1})
    assert c.state["alpha"] == 1.5


def test_options_and_names_are_checked() -> None:
    with pytest.raises(rewindow.UnknownAlgorithm, match="unknown algorithm 'nope'"):
        Controller("nope")
    with pytest.raises(rewindow.BadOption, match="has no option 'nope'"):
        Controller("tccc", nope=1)
    with pytest.raises(rewindow.BadOption, match=r"aca_md takes auto\|eq8\|half"):
        Controller("tccc", aca_md="never")
    for bad in ("-1", "1e3", "", "99999999999999999999", "nan", "2000000"):
        with pytest.raises(rewindow.BadOption):
            Controller("tccc", con_ssthresh_="x") if bad == "x" else rewindow.Controller("tccc", L=bad)
    with pytest.raises(rewindow.BadOption, match="at most 8 paths"):
        Controller("tccc", paths=[{"cwnd": 2.0, "rtt": 0.1}] * 9)
    with pytest.raises(rewindow.BadOption, match="cwnd must be"):
        Controller("tccc", paths=[{"cwnd": 0.5, "rtt": 0.1}])
    with pytest.raises(ValueError, match="a path has no"):
        Controller("tccc", paths=[{"cwnd": 2.0, "colour": 1}])


def test_every_option_is_described() -> None:
    for algorithm in rewindow.algorithms():
        assert algorithm.options[0].name == "mode"
        for option in algorithm.options:
            assert option.reason
            rewindow.Controller(algorithm.name, **{option.name: option.default})
            if "|" in option.values:
                for value in option.values.split("|"):
                    rewindow.Controller(algorithm.name, **{option.name: value})
