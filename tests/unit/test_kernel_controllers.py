"""Linux's integer forms: windows, thresholds and counters equal to the last bit, over any order of events."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import Controller
from tests.oracles import KERNEL, LinuxCubic
from tests.oracles.linux import KernelPath, KernelReno, KernelWvegas, KernelWvegasPath

ALGORITHMS = [a.name for a in rewindow.algorithms() if a.name in KERNEL]
ONLY_KERNEL = {"wvegas"}

cwnds = st.one_of(st.integers(1, 1 << 20), st.integers(1, 64), st.sampled_from([1, 2, 10]))
rtts_us = st.one_of(st.integers(50, 10_000_000), st.sampled_from([50, 20_000, 100_000, 10_000_000]))


@st.composite
def kernel_paths(draw: st.DrawFn) -> list[dict[str, Any]]:
    same = draw(st.booleans())
    cwnd, rtt = draw(cwnds), draw(rtts_us)
    paths = []
    for _ in range(draw(st.integers(1, 8))):
        w = cwnd if same else draw(cwnds)
        paths.append({
            "cwnd": w, "rtt_us": rtt if same else draw(rtts_us),
            "ssthresh": draw(st.sampled_from([None, 1, w, w + 3])),
        })  # fmt: skip
    return paths


def path_class(name: str) -> type[KernelPath]:
    return KERNEL[name].path_class


def both(name: str, paths: list[dict[str, Any]]) -> tuple[Controller, KernelReno]:
    oracle = KERNEL[name]([path_class(name)(**p) for p in paths])
    return Controller(name, paths=[as_given(p) for p in paths], mode="kernel"), oracle


def as_given(p: dict[str, Any]) -> dict[str, Any]:
    entry = {"cwnd": float(p["cwnd"]), "rtt": p["rtt_us"] / 1e6}
    if p["ssthresh"] is not None:
        entry["ssthresh"] = float(p["ssthresh"])
    return entry


happenings = st.lists(st.tuples(st.sampled_from("aaaaaaaaaaletjx"), st.integers(0, 7), st.integers(1, 64)), max_size=60)


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=200, deadline=None)
@given(paths=kernel_paths(), happens=happenings)
@example(  # BALIA's module shifts the rate of the slower path to 0
    paths=[{"cwnd": 1177, "rtt_us": 50, "ssthresh": None}, {"cwnd": 1, "rtt_us": 44556, "ssthresh": 1}],
    happens=[("a", 1, 1)] * 4,
)
def test_integers(name: str, paths: list[dict[str, Any]], happens: list[tuple[str, int, int]]) -> None:
    controller, oracle = both(name, paths)
    for kind, where, acked in happens:
        live = [i for i, p in enumerate(oracle.paths) if p.live]
        r = live[where % len(live)]
        if kind == "a":
            for _ in range(3):  # counters of ACKs need some
                oracle.ack(r, acked)
                controller.ack(r, acked)
        elif kind == "j":
            if len(live) < 8:
                fresh = {"cwnd": 10, "rtt_us": 30_000, "ssthresh": None}
                oracle.join(path_class(name)(**fresh))
                controller.join(as_given(fresh))
        elif kind == "x":
            if len(live) > 1:
                oracle.leave(r)
                controller.leave(r)
        else:
            event = {"l": "loss", "e": "ece", "t": "timeout"}[kind]
            getattr(oracle, event)(r)
            getattr(controller, event)(r)
        same(controller, oracle)


def same(controller: Controller, oracle: KernelReno) -> None:
    for i, p in enumerate(oracle.paths):
        if not p.live:
            continue
        got = controller.paths[i]
        expected = (p.cwnd, math.inf if p.ssthresh is None else p.ssthresh, p.cnt)
        assert (got.cwnd, got.ssthresh, got.cwnd_cnt) == expected, (i, oracle)


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


@settings(max_examples=300, deadline=None)
@given(
    paths=st.lists(st.tuples(st.integers(1, 100), st.integers(50, 10**6)), min_size=1, max_size=4),
    slow=st.booleans(),
    happens=st.lists(
        st.tuples(st.sampled_from("rrrrrrasalt"), st.integers(0, 3), st.integers(0, 60), st.integers(1, 300)),
        max_size=50,
    ),
)
@example(
    [(6, 262_000)], False, [("r", 0, 0, 1), ("r", 0, 0, 300), ("r", 0, 0, 300)]
)  # less than a segment in 65 ms: no rate
def test_wvegas_rounds(paths: list[tuple[int, int]], slow: bool, happens: list[tuple[str, int, int, int]]) -> None:
    """With samples of a queue that comes and goes: every decision, alpha and the smallest queue too."""
    ssthresh = None if slow else 1
    oracle = KernelWvegas([KernelWvegasPath(w, us, ssthresh) for w, us in paths])
    states = [{"cwnd": w, "rtt_us": us, "ssthresh": ssthresh} for w, us in paths]
    controller = Controller("wvegas", paths=[as_given(p) for p in states])
    for kind, where, acked, queue in happens:
        r = where % len(paths)
        us = paths[r][1] + queue * paths[r][1] // 400
        # A whole round, an ACK, or a sample that acknowledges nothing.
        whole = [0, 0, oracle.paths[r].cwnd + 1]
        for segments in {"r": whole, "a": [acked], "s": [0]}.get(kind, []):
            oracle.ack(r, segments, rtt=Fraction(us, 10**6), newest=Fraction(us, 10**6))
            controller.ack(r, segments, rtt=us / 1e6)
        if kind in "lt":
            event = "loss" if kind == "l" else "timeout"
            getattr(oracle, event)(r)
            getattr(controller, event)(r)
        same(controller, oracle)
        state = controller.state
        assert state["alpha"] == [p.alpha for p in oracle.paths]
        assert state["queue_delay_us"] == [p.queue_us for p in oracle.paths]
        assert state["instant_rate"] == [p.rate for p in oracle.paths]


@pytest.mark.parametrize("cwnd", [1, 2, 10, 63, 64, 65, 1000, 5000])
def test_lia_alone_needs_one_ack_more_than_its_threshold(cwnd: int) -> None:
    """So that it is not NewReno, which needs a window's worth; and an ACK of many segments counts as one."""
    threshold = max(4096 // max((cwnd << 32) // (cwnd << 10) ** 2, 1), cwnd)
    for acked in (1, 5):
        c = Controller("lia", paths=[{"cwnd": float(cwnd), "rtt": 0.1, "ssthresh": 1.0}], mode="kernel")
        for _ in range(threshold):
            c.ack(acked=acked)
        assert c.paths[0].cwnd == cwnd
        c.ack(acked=acked)
        assert (c.paths[0].cwnd, c.paths[0].cwnd_cnt) == (cwnd + 1, 0)


@pytest.mark.parametrize("name", ["lia", "olia", "balia"])
@settings(max_examples=50, deadline=None)
@given(cwnd=st.integers(1, 200), n=st.integers(1, 600))
def test_modules_alone_are_no_faster_than_newreno(name: str, cwnd: int, n: int) -> None:
    """ACK by ACK, a segment each; and no less than a module's rounding behind it."""
    path = {"cwnd": float(cwnd), "rtt": 0.1, "ssthresh": 1.0}
    module, newreno = Controller(name, paths=[path], mode="kernel"), Controller("newreno", paths=[path])
    for _ in range(n):
        module.ack()
        newreno.ack()
        assert cwnd <= module.paths[0].cwnd <= newreno.paths[0].cwnd


@pytest.mark.parametrize("name", ["lia", "olia", "balia"])
@settings(max_examples=100, deadline=None)
@given(cwnd=st.integers(4, 1 << 20), kind=st.sampled_from(["loss", "ece", "timeout"]))
def test_modules_alone_halve_as_newreno(name: str, cwnd: int, kind: str) -> None:
    path = {"cwnd": float(cwnd), "rtt": 0.1, "ssthresh": 1.0}
    module, newreno = Controller(name, paths=[path], mode="kernel"), Controller("newreno", paths=[path])
    for c in (module, newreno):
        getattr(c, kind)()
    odd = (cwnd & 1) if name == "balia" else 0  # it takes the half away, rounded down
    assert module.paths[0].ssthresh == newreno.paths[0].ssthresh + odd


def test_wvegas_alone_has_all_of_alpha() -> None:
    """The share of one is 10 segments: it yields to a queue of 11 and grows at one of 8."""
    for rtt, change in ((0.13, -1), (0.12, 1)):
        c = Controller("wvegas", paths=[{"cwnd": 50.0, "rtt": 0.1, "ssthresh": 1.0}])
        c.ack(acked=1, rtt=0.1)  # the base, and the beginning of a round
        c.ack(acked=60, rtt=rtt)  # its end, with two samples: a step of NewReno
        assert c.state["alpha"] == [2]
        before = c.paths[0].cwnd
        for acked in (0, 0, 60):
            c.ack(acked=acked, rtt=rtt)
        assert c.state["alpha"] == [10]
        assert c.paths[0].cwnd == before + change
