"""Algorithms that couple a set of subflows behind one bottleneck; by hand the set is given."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewindow import Controller
from tests.driving import ALGORITHMS, Event, acks, apply, compare, drive, events, path_lists, rtts, uses_sets, windows
from tests.oracles import Path
from tests.oracles.sets import MptcpSbd, Sbcc, SbccPath

NAMES = sorted(name for name in ALGORITHMS if uses_sets(name))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("beta", [0, 1])
@settings(max_examples=60, deadline=None)
@given(
    cwnds=st.lists(windows, min_size=4, max_size=4), rtt=rtts, acked=acks, floor=st.sampled_from([0, Fraction(1, 8)])
)
def test_sbcc_extreme_congestion_degrees(
    size: int, beta: int, cwnds: list[Fraction], rtt: Fraction, acked: int, floor: Fraction
) -> None:
    """beta 1 is LIA on the set, beta 0 neither grows nor falls; the subflow outside is NewReno."""
    paths = [SbccPath(w, rtt, Fraction(1), beta=Fraction(beta), group=1) for w in cwnds[:size]]
    paths.append(SbccPath(cwnds[3], rtt, Fraction(1)))
    for event in (
        Event("ack", 0, acked),
        Event("ece", 0),
        Event("loss", 0),
        Event("timeout", 0),
        Event("ack", size, acked),
    ):
        copies = [SbccPath(p.cwnd, p.rtt, p.ssthresh, beta=p.beta, group=p.group) for p in paths]
        controller = drive("sbcc", copies, Sbcc, sbcc_beta_floor=float(floor))
        oracle = Sbcc(copies, beta_floor=Fraction(floor))
        for target in (oracle, controller):
            apply(target, "sbcc", event)
        compare(controller, oracle, [p.cwnd for p in paths], event)
        if beta == 0 and floor == 0 and size > 1 and event.path == 0 and event.kind != "timeout":
            assert controller.paths[0].cwnd == max(paths[0].cwnd, 2 if event.kind != "ack" else 1)


@pytest.mark.parametrize("options", [{"sbcc_loss": "full"}, {"sbcc_beta_floor": 0.125}, {"beta_inside_max": "on"}])
@settings(max_examples=150, deadline=None)
@given(paths=path_lists("avoidance", least=2, of=Sbcc, name="sbcc"), event=events("ack", "loss", "ece", "timeout"))
def test_sbcc_options(options: dict[str, Any], paths: list[Path], event: Event) -> None:
    event.path %= len(paths)
    oracle = Sbcc(
        paths, beta_floor=Fraction(options.get("sbcc_beta_floor", 0)), literal="sbcc_loss" not in options,
        inside_max="beta_inside_max" in options,
    )  # fmt: skip
    controller, before = drive("sbcc", paths, Sbcc, **options), [p.cwnd for p in paths]
    for target in (oracle, controller):
        apply(target, "sbcc", event)
    compare(controller, oracle, before, event)


@settings(max_examples=150, deadline=None)
@given(
    cwnds=st.lists(st.integers(2, 300), min_size=2, max_size=3),
    happens=st.lists(st.tuples(st.integers(0, 2), acks, st.integers(0, 64)), max_size=80),
)
def test_sbcc_congestion_degree(cwnds: list[int], happens: list[tuple[int, int, int]]) -> None:
    """Window by window, over any order of ACKs: within 2^-28 of the exact filter."""
    paths = [SbccPath(Fraction(w), Fraction(1, 10), Fraction(1), group=1) for w in cwnds]
    controller, oracle = drive("sbcc", paths, Sbcc), Sbcc(paths)
    for where, acked, marked in happens:
        event = Event("ack", where % len(paths), acked, min(marked, acked))
        before = [p.cwnd for p in oracle.paths]
        for target in (oracle, controller):
            apply(target, "sbcc", event)
        compare(controller, oracle, before, event)
        for got, p in zip(controller.state["beta"], oracle.paths, strict=True):
            assert abs(got - p.beta) < 1 / (1 << 28)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(paths=path_lists("avoidance", least=2, name=NAMES[0]), acked=acks)
def test_outside_of_a_set_it_is_newreno(name: str, paths: list[Path], acked: int) -> None:
    paths[0].group, paths[0].group_state = 0, ""
    for event in (Event("ack", 0, acked), Event("loss", 0), Event("ece", 0), Event("timeout", 0)):
        ours, newreno = drive(name, paths, mode="paper"), drive("newreno", [paths[0]], mode="paper")
        for c in (ours, newreno):
            apply(c, name, event)
        assert (ours.paths[0].cwnd, ours.paths[0].ssthresh) == (newreno.paths[0].cwnd, newreno.paths[0].ssthresh)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_of_which_one_is_left_dissolves(name: str) -> None:
    path = {"cwnd": 30.0, "rtt": 0.1, "ssthresh": 2.0, "set": 1} | ({"beta": 0.25} if name == "sbcc" else {})
    c = Controller(name, paths=[path] * 3, mode="paper")
    c.leave(0)
    assert [c.paths[i].set for i in (1, 2)] == [1, 1]
    c.leave(2)
    assert c.paths[1].set is None
    if name == "sbcc":
        assert c.state["beta"] == [1.0], "what it enters the next set with"
    newreno = Controller("newreno", paths=[{"cwnd": 30.0, "rtt": 0.1, "ssthresh": 2.0}], mode="paper")
    for event in (Event("ack", 1, 5), Event("ece", 1), Event("ack", 1, 7), Event("loss", 1)):
        apply(c, name, event)
        event.path = 0
        apply(newreno, "newreno", event)
        assert c.paths[1].cwnd == newreno.paths[0].cwnd


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(paths=path_lists("avoidance", least=4, name=NAMES[0]), acked=acks)
def test_sets_do_not_meet(name: str, paths: list[Path], acked: int) -> None:
    """What happens in one set has no part in the sums of the other."""
    for i, p in enumerate(paths):
        p.group, p.group_state = 1 + i % 2, "final"
    both = drive(name, paths, mode="paper")
    alone = drive(name, paths[::2], mode="paper")
    for event in (Event("ack", 0, acked), Event("ece", 0)):
        apply(both, name, event)
        apply(alone, name, event)
        assert both.paths[0].cwnd == alone.paths[0].cwnd
    assert all(both.paths[i].cwnd == float(paths[i].cwnd) for i in range(1, len(paths), 2))


@pytest.mark.parametrize("event", ["loss", "ece"])
def test_dwc_a_loss_halves_the_group(event: str) -> None:
    """Only its members in congestion avoidance; a timeout is its subflow's alone."""

    def group() -> Controller:
        paths = [{"cwnd": 20.0, "ssthresh": 4.0, "set": 1}, {"cwnd": 30.0, "ssthresh": 5.0, "set": 1}]
        paths += [{"cwnd": 40.0, "ssthresh": 50.0, "set": 1}, {"cwnd": 50.0, "ssthresh": 5.0, "set": 2}]
        paths += [{"cwnd": 60.0, "ssthresh": 5.0}]
        return Controller("dwc", paths=[{**p, "rtt": 0.1} for p in paths])

    c = group()
    getattr(c, event)(0)
    assert [p.cwnd for p in c.paths] == [10, 15, 40, 50, 60]
    assert [p.ssthresh for p in c.paths] == [10, 15, 50, 5, 5]
    c = group()
    c.timeout(0)
    assert [p.cwnd for p in c.paths] == [1, 30, 40, 50, 60]


@pytest.mark.parametrize("inner", ["olia", "lia"])
@settings(max_examples=200, deadline=None)
@given(paths=path_lists("avoidance", least=2, of=MptcpSbd, name="mptcp-sbd"), acked=acks, data=st.data())
def test_sbd_couples_by_either(inner: str, paths: list[Path], acked: int, data: st.DataObject) -> None:
    event = Event("ack", data.draw(st.integers(0, len(paths) - 1)), acked)
    controller, oracle = drive("mptcp-sbd", paths, MptcpSbd, inner=inner), MptcpSbd(paths, inner=inner)
    before = [p.cwnd for p in paths]
    for target in (oracle, controller):
        apply(target, "mptcp-sbd", event)
    compare(controller, oracle, before, event)


@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_joins_is_in_no_set(name: str) -> None:
    c = Controller(name, paths=[{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 2.0, "set": 1}] * 2, mode="paper")
    c.join({"cwnd": 10.0, "rtt": 0.1, "ssthresh": 2.0})
    assert c.paths[2].set is None
    c.ack(2, 10)
    assert c.paths[2].cwnd == pytest.approx(11, abs=1e-3)
