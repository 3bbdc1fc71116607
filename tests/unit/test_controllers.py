"""Every controller against its oracle, and what holds of all of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import Controller
from tests.driving import (
    Event,
    acks,
    applicable,
    apply,
    as_given,
    at_an_edge,
    compare,
    drive,
    events,
    path_lists,
    rtts,
    windows,
)  # fmt: skip
from tests.oracles import KERNEL, OTHER, PAPER, Path

ALGORITHMS = {a.name: a for a in rewindow.algorithms()}
MULTIPATH = [a.name for a in ALGORITHMS.values() if a.kind == "multipath"]
IN_PAPER_MODE = [name for name in ALGORITHMS if name in PAPER]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_has_an_oracle(name: str) -> None:
    assert name in PAPER or name in KERNEL or name in OTHER, (
        f"{name} has no oracle: write its formula over exact rationals in tests/oracles/ and list it in __init__.py"
    )


@pytest.mark.parametrize("name", sorted({*PAPER, *KERNEL, *OTHER}))
def test_no_oracle_is_left_over(name: str) -> None:
    assert name in ALGORITHMS


@pytest.mark.parametrize("name", IN_PAPER_MODE)
@settings(max_examples=150, deadline=None)
@given(paths=path_lists(avoidance=True), acked=acks, data=st.data())
def test_increase(name: str, paths: list[Path], acked: int, data: st.DataObject) -> None:
    """A step of congestion avoidance, from any state."""
    event = Event("a", data.draw(st.integers(0, len(paths) - 1)), acked)
    step(name, paths, event)


@pytest.mark.parametrize("kind", ["l", "e", "t"])
@pytest.mark.parametrize("name", IN_PAPER_MODE)
@settings(max_examples=60, deadline=None)
@given(paths=path_lists(avoidance=True), data=st.data())
def test_decrease(name: str, kind: str, paths: list[Path], data: st.DataObject) -> None:
    """Of a loss, an ECN echo, a timeout, from any state."""
    event = Event(kind, data.draw(st.integers(0, len(paths) - 1)))
    controller = step(name, paths, event)
    if kind == "t":
        assert controller.paths[event.path].cwnd == 1.0


def step(name: str, paths: list[Path], event: Event) -> Controller:
    controller, oracle = drive(name, paths, mode="paper"), PAPER[name](paths)
    before = [p.cwnd for p in paths]
    apply(oracle, name, event)
    apply(controller, name, event)
    compare(controller, oracle, before, event)
    return controller


@pytest.mark.parametrize("name", IN_PAPER_MODE)
@settings(max_examples=80, deadline=None)
@given(paths=path_lists(), happens=st.lists(events(), max_size=25))
def test_any_order_of_events(name: str, paths: list[Path], happens: list[Event]) -> None:
    """Slow starts, joins, leaves and places used again in between; within bounds at every event."""
    controller, oracle = drive(name, paths, mode="paper"), PAPER[name](paths)
    for event in happens:
        if not applicable(event, oracle.paths):
            continue
        if at_an_edge(oracle, event.kind):
            return
        before = [p.cwnd for p in oracle.paths]
        apply(oracle, name, event)
        apply(controller, name, event)
        compare(controller, oracle, before, event)


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=60, deadline=None)
@given(paths=path_lists(), happens=st.lists(events(), max_size=40))
def test_windows_have_bounds(name: str, mode: str, paths: list[Path], happens: list[Event]) -> None:
    """Between 1 and 2^20 segments; ssthresh never below the floor."""
    controller = drive(name, [whole(p) for p in paths] if mode == "kernel" else paths, mode=mode)
    model = list(paths)
    for event in happens:
        if not applicable(event, model):
            continue
        if event.kind == "j":
            model.append(Path(Fraction(10), None))
        apply(controller, name, event)
        if event.kind == "x":
            model[event.path].live = False
        for i, p in enumerate(model):
            if not p.live:
                continue
            got = controller.paths[i]
            assert 1 <= got.cwnd <= 1 << 20
            assert got.ssthresh >= 1
            if mode == "kernel" and name in KERNEL:
                assert got.cwnd == int(got.cwnd)


def whole(p: Path) -> Path:
    return Path(Fraction(int(p.cwnd)), p.rtt, None if p.ssthresh is None else Fraction(int(p.ssthresh)), p.peak)


NEVER_NEWRENO = {"wvegas": "it listens to delay; test_kernel_controllers.py says what it is alone"}
NEVER_FASTER_THAN_RENO = {"lia", "lisa", "css", "ewtcp", "coupled-full", "nmcc", "enmcc", "enmcc+", "sbcc", "dwc"}


@pytest.mark.parametrize("name", sorted(NEVER_FASTER_THAN_RENO & set(ALGORITHMS)))
@settings(max_examples=100, deadline=None)
@given(paths=path_lists(avoidance=True), acked=acks)
def test_no_step_is_longer_than_renos(name: str, paths: list[Path], acked: int) -> None:
    """Bit by bit: not a unit of rounding above."""
    for r in range(len(paths)):
        ours, reno = drive(name, paths, mode="paper"), drive("newreno", [paths[r]], mode="paper")
        ours.ack(r, acked)
        reno.ack(0, acked)
        assert ours.paths[r].cwnd <= reno.paths[0].cwnd


@pytest.mark.parametrize("name", [name for name in MULTIPATH if name not in NEVER_NEWRENO])
@settings(max_examples=100, deadline=None)
@given(
    cwnd=windows, rtt=rtts, acked=acks, happens=st.lists(st.sampled_from("aaalet"), max_size=30),
    begins=st.sampled_from(["alone", "others left"]),
)  # fmt: skip
def test_one_path_is_newreno(
    name: str, cwnd: Fraction, rtt: Fraction, acked: int, happens: list[str], begins: str
) -> None:
    """To the last bit, over any order of events; also when all others left."""
    given_path = Path(cwnd, rtt, Fraction(2), Fraction(10))
    paths = [given_path] if begins == "alone" else [given_path, Path(Fraction(30), Fraction(1, 20), Fraction(2))]
    ours = drive(name, paths, mode="paper", min_ssthresh=2)
    newreno = drive("newreno", [given_path], mode="paper")
    if begins == "others left":
        ours.leave(1)
    for kind in ["a", *happens]:
        event = Event(kind, 0, acked)
        apply(ours, name, event)
        apply(newreno, name, event)
        assert (ours.paths[0].cwnd, ours.paths[0].ssthresh) == (newreno.paths[0].cwnd, newreno.paths[0].ssthresh)


@pytest.mark.parametrize("name", [n for n in ALGORITHMS if n in PAPER])
@settings(max_examples=40, deadline=None)
@given(happens=st.lists(events("aaalet"), min_size=1, max_size=20))
def test_a_place_is_used_again_from_scratch(name: str, happens: list[Event]) -> None:
    """What a path that left has been through is not in the one that takes its place."""
    first, second = Path(Fraction(20), Fraction(1, 10), Fraction(2)), Path(Fraction(30), Fraction(1, 20), Fraction(2))
    used, fresh = drive(name, [first, second], mode="paper"), drive(name, [first, second], mode="paper")
    for event in happens:
        if event.kind == "t" or name == "dwc":
            event.path = 1
        event.path = 1
        apply(used, name, event)
    for c in (used, fresh):
        c.leave(1)
        c.join(as_given(name, Path(Fraction(10), Fraction(1, 20))))
    ours = {k: v[1] for k, v in used.state.items() if isinstance(v, list)}
    assert ours == {k: v[1] for k, v in fresh.state.items() if isinstance(v, list)}
    assert (used.paths[2].cwnd, used.paths[2].ssthresh) == (fresh.paths[2].cwnd, fresh.paths[2].ssthresh)


def test_options_and_names_are_checked() -> None:
    with pytest.raises(rewindow.UnknownAlgorithm, match="unknown algorithm 'nope'"):
        Controller("nope")
    with pytest.raises(rewindow.BadOption, match="has no option 'nope'"):
        Controller("tccc", nope=1)
    with pytest.raises(rewindow.BadOption, match=r"aca_md takes auto\|eq8\|half"):
        Controller("tccc", aca_md="never")
    for bad in ("-1", "1e3", "", "99999999999999999999", "nan", "2000000"):
        with pytest.raises(rewindow.BadOption):
            Controller("tccc", L=bad)
    with pytest.raises(rewindow.BadOption, match="at most 8 paths"):
        Controller("tccc", paths=[{"cwnd": 2.0, "rtt": 0.1}] * 9)
    with pytest.raises(rewindow.BadOption, match="cwnd must be"):
        Controller("tccc", paths=[{"cwnd": 0.5, "rtt": 0.1}])
    with pytest.raises(ValueError, match="a path has no"):
        Controller("tccc", paths=[{"cwnd": 2.0, "colour": 1}])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_option_is_described(name: str) -> None:
    options = ALGORITHMS[name].options
    assert options[0].name == "mode"
    for option in options:
        assert option.reason
        rewindow.Controller(name, **{option.name: option.default})
        if "|" in option.values:
            for value in option.values.split("|"):
                rewindow.Controller(name, **{option.name: value})
