"""Corners of the coupled increases and decreases: ties, extremes, options."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewindow import Controller
from tests.driving import Event, acks, apply, compare, drive, path_lists
from tests.oracles import Path
from tests.oracles.coupled import Olia, OliaPath, olia_sets
from tests.oracles.linux import KernelOlia, KernelOliaPath
from tests.oracles.normalised import Enmcc
from tests.oracles.paths import Oracle
from tests.oracles.reno import Ewtcp


def beside(name: str, oracle: Oracle, event: Event, **options: Any) -> Controller:
    """One event from one state on both; returns the controller."""
    before = [p.cwnd for p in oracle.paths]
    controller = drive(name, oracle.paths, type(oracle), mode="paper", **options)
    for target in (oracle, controller):
        apply(target, name, event)
    compare(controller, oracle, before, event)
    return controller


@settings(max_examples=300, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.sampled_from([8, 10, 20]), st.sampled_from([1, 2]), st.sampled_from([1, 4, 16])),
                    min_size=2, max_size=8),
    rule=st.sampled_from(["kernel", "draft"]), data=st.data(),
)  # fmt: skip
def test_olia_sets_with_ties(shapes: list[tuple[int, int, int]], rule: str, data: st.DataObject) -> None:
    """Several largest windows, several best paths, paths in both: each share is that of its set."""
    paths = [OliaPath(Fraction(w), Fraction(r, 20), Fraction(1), interval_bytes=10**6 * ell) for w, r, ell in shapes]
    r = data.draw(st.integers(0, len(paths) - 1))
    in_m, collected = olia_sets(paths, rule)
    share = Fraction(0)
    if collected:
        share += Fraction(any(p is paths[r] for p in collected), len(paths) * len(collected))
        share -= Fraction(any(p is paths[r] for p in in_m), len(paths) * len(in_m))
    c = beside("olia", Olia(paths, best=rule), Event("ack", r), best=rule)
    assert c.state["alpha"][r] == pytest.approx(float(share), abs=1e-9)


@pytest.mark.parametrize("rule", ["kernel", "draft"])
@settings(max_examples=200, deadline=None)
@given(paths=path_lists("avoidance", least=2, of=Olia, name="olia"), acked=acks, data=st.data())
def test_olia_rules(rule: str, paths: list[Path], acked: int, data: st.DataObject) -> None:
    """Beyond 4 GiB between losses, and RTTs apart by 200 000."""
    r = data.draw(st.integers(0, len(paths) - 1))
    beside("olia", Olia(paths, best=rule), Event("ack", r, acked), best=rule)


def test_olia_shrinks_but_never_below_a_segment() -> None:
    """The largest windows give to the best path: one of 1 segment has nothing to give."""
    far = {"rtt": 1.0, "ssthresh": 1.0}
    c = Controller("olia", paths=[{"cwnd": 20.0, **far, "loss_interval_bytes": 1000},
                                  {"cwnd": 10.0, **far, "loss_interval_bytes": 10**8}])  # fmt: skip
    c.ack(0)
    assert c.paths[0].cwnd < 20
    paths = [{"cwnd": 1.0, **far, "loss_interval_bytes": 1000}, {"cwnd": 1.0, **far, "loss_interval_bytes": 10**8}]
    c = Controller("olia", paths=paths)
    for _ in range(50):
        c.ack(0)
        assert 1 <= c.paths[0].cwnd <= 2


@settings(max_examples=200, deadline=None)
@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([20_000, 40_000]), st.sampled_from([0, 10**4, 10**7])),
        min_size=2, max_size=4,
    ),
    happens=st.lists(st.tuples(st.integers(0, 3), acks, st.sampled_from("aaaaaaaal")), max_size=100),
)  # fmt: skip
def test_olia_module_with_losses_behind_it(
    shapes: list[tuple[int, int, int]], happens: list[tuple[int, int, str]]
) -> None:
    """Counters below zero, windows that shrink: equal to the last bit."""
    oracle = KernelOlia([KernelOliaPath(w, us, 1, interval_bytes=ell) for w, us, ell in shapes])
    controller = Controller("olia", mode="kernel", paths=[
        {"cwnd": w, "rtt": us / 1e6, "ssthresh": 1, "loss_interval_bytes": ell} for w, us, ell in shapes
    ])  # fmt: skip
    for where, acked, kind in happens:
        r = where % len(shapes)
        for _ in range(10 if kind == "a" else 1):
            for target in (oracle, controller):
                target.ack(r, acked) if kind == "a" else target.loss(r)  # type: ignore[attr-defined]
        assert [(p.cwnd, p.cwnd_cnt) for p in controller.paths] == [(p.cwnd, p.cnt) for p in oracle.paths]


@settings(max_examples=200, deadline=None)
@given(paths=path_lists("avoidance"), acked=acks, data=st.data())
def test_ewtcp_as_printed(paths: list[Path], acked: int, data: st.DataObject) -> None:
    r = data.draw(st.integers(0, len(paths) - 1))
    beside("ewtcp", Ewtcp(paths, weight="inv_sqrt"), Event("ack", r, acked), ewtcp_a="inv_sqrt")


@settings(max_examples=200, deadline=None)
@given(paths=path_lists("avoidance", least=2), cap=st.sampled_from([1, 1.25, 1.5, 2]), data=st.data())
def test_enmcc_threshold_factor(paths: list[Path], cap: float, data: st.DataObject) -> None:
    """m_th has no bound when loss rates differ: it is told as it is, and clamped."""
    r = data.draw(st.integers(0, len(paths) - 1))
    for p in paths:
        p.peak = data.draw(st.sampled_from([p.peak, Fraction(1), Fraction(1 << 20), Fraction(0)]))
    oracle = Enmcc(paths, cap=Fraction(cap))
    raw, clamped = oracle.m_th_raw(r), oracle.m_th(r)
    c = beside("enmcc", oracle, Event("loss", r), mth_cap=cap)
    assert 1 <= c.state["m_th_clamped"][r] <= cap
    assert c.state["m_th_clamped"][r] == pytest.approx(float(clamped), rel=1e-3)
    if raw < 1 << 20:
        assert c.state["m_th"][r] == pytest.approx(float(raw), rel=1e-3)


def test_enmcc_a_dominant_subflow_falls_to_the_floor() -> None:
    """By p of the smallest: the clamp at 2 sends one with ten times the window to 2 segments, a cap of 1.5 does not."""
    paths = [{"cwnd": 100.0, "rtt": 0.1, "ssthresh": 1.0, "max_packets_out": 100},
             {"cwnd": 10.0, "rtt": 0.1, "ssthresh": 1.0, "max_packets_out": 10}]  # fmt: skip
    for cap, cwnd in ((2, 2), (1.5, 25)):
        c = Controller("enmcc", paths=paths, mth_cap=cap)
        c.loss(0)
        assert c.paths[0].cwnd == pytest.approx(cwnd, abs=1e-3)


@pytest.mark.parametrize("n", range(1, 9))
def test_alike_subflows_together_grow_as_one(n: int) -> None:
    """In a round trip by 1 segment, or by the 1/n that balances n decreases by a half."""
    path = {"cwnd": 16.0, "rtt": 0.1, "ssthresh": 1.0}
    by_rates, by_windows = ("nmcc", "enmcc", "coupled-full", "tccc"), ("lia", "olia", "balia", "coupled", "ewtcp")
    for name in by_rates + by_windows:
        c = Controller(name, paths=[path] * n, mode="paper")
        c.ack(0, 16)
        grown = n * (c.paths[0].cwnd - 16)
        assert grown == pytest.approx(1 if name in by_rates else 1 / n, rel=1e-3), name


def test_an_update_interval_keeps_the_step_for_a_round_trip() -> None:
    """aca_period=rtt: the step of an ACK is that of the interval's first, until the smallest RTT has passed."""
    paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 2.0}, {"cwnd": 10.0, "rtt": 0.05, "ssthresh": 2.0}]
    c = Controller("tccc", paths=paths, aca_period="rtt")

    def step(path: int, time: float) -> float:
        before = c.paths[path].cwnd
        c.ack(path=path, acked=1, time=time)
        return c.paths[path].cwnd - before

    first = step(1, 1.0)
    c.ack(path=0, acked=64, time=1.01)
    assert step(1, 1.04) == first, "the windows have grown, the step is the interval's"
    assert step(1, 1.06) < first
    c.join({"cwnd": 10.0, "rtt": 0.05})
    joined = step(1, 1.07)
    assert joined < first * 0.9, "a join is counted at once"


def test_loss_intervals_decide_which_decrease() -> None:
    """p_est=interval: losses over packets. Alike subflows go to the floor by eq. 8, to half where rates differ."""

    def after(packets: tuple[int, int, int], losses: int) -> float:
        paths = [{"cwnd": 40.0, "rtt": 0.1, "ssthresh": 2.0}] * 3
        c = Controller("tccc", paths=paths, p_est="interval")
        for path, n in enumerate(packets):
            for _ in range(losses):
                c.ack(path=path, acked=n)
                c.timeout(path=path)
        for path in range(3):
            for _ in range(100):
                if c.paths[path].cwnd < 30:
                    c.ack(path=path, acked=1)
        before = c.paths[0].cwnd
        c.ack(path=0, acked=packets[0])
        c.loss(path=0)
        return c.paths[0].cwnd / before

    assert after((100, 120, 90), 8) < 0.3, "the same"
    assert after((100, 100, 1000), 8) >= 0.5, "a tenth of the losses"
    assert after((100, 100, 1000), 1) < 0.3, "one loss each says little"
