"""Estimates of ssthresh: what `--option ssthresh=` takes, with newreno alone and as con_ssthresh."""

from __future__ import annotations

import math

import pytest

from rewindow import Controller

MSS = 1400


def train(c: Controller, gap: float, *, start: float = 1.0, acks: int = 3, acked: int = 1, path: int = 0) -> None:
    """Closely spaced ACKs: the bottleneck's rate is acked segments every gap."""
    for i in range(acks):
        c.ack(path=path, acked=acked, time=start + i * gap)


def test_hoe_is_the_product_of_rate_and_round_trip() -> None:
    c = Controller("newreno", paths=[{"cwnd": 10.0, "rtt": 0.1}], mss=MSS, ssthresh="hoe")
    train(c, 0.002)
    assert c.state["ssth"] == [50.0]
    assert c.paths[0].ssthresh == 50.0


def test_hoe_takes_the_median_of_five() -> None:
    c = Controller("tccc", paths=[{"cwnd": 1.0, "rtt": 0.1}], mss=MSS, ssthresh="hoe", con_ssthresh=10000)
    for i, gap in enumerate((0.002, 0.004, 0.001, 0.005, 0.0025)):
        train(c, gap, start=1.0 + i)
        assert c.state["ssth"] == [50.0 if i < 4 else 40.0], "the first one counts until there are five"
    train(c, 0.01, start=7.0)
    assert c.state["ssth"] == [25.0], "of the last five: 10, 20, 25, 40, 100"


def test_hoe_discards_wide_gaps_and_ack_compression() -> None:
    c = Controller("tccc", paths=[{"cwnd": 1.0, "rtt": 0.1}], mss=MSS, ssthresh="hoe", con_ssthresh=10000)
    train(c, 0.0501, acks=9)  # more than half a round trip apart
    train(c, 0.0, start=9.0)  # all at once: no rate
    assert c.state["ssth"] == [0.0]


def test_hystart_estimates_where_cubic_leaves_slow_start() -> None:
    for delay, leaves in ((0.0451, True), (0.045, False)):
        ours = Controller("newreno", paths=[{"cwnd": 20.0}], ssthresh="hystart")
        cubic = Controller("cubic", paths=[{"cwnd": 20.0}])
        for c in (ours, cubic):
            c.ack(acked=1, rtt=0.04, time=1.0)
            for i in range(9):
                c.ack(acked=21 * (i == 0), rtt=delay, time=2.0 + i * 0.01)
        assert (ours.state["ssth"][0] > 0) is leaves
        assert math.isinf(cubic.paths[0].ssthresh) is not leaves
        if leaves:
            assert ours.state["ssth"][0] == cubic.paths[0].ssthresh


def rounds(c: Controller, *rtts: float, samples: int = 8) -> None:
    """A round trip each, with that many ACKs; the windows are small enough for one ACK to end a round."""
    for rtt in rtts:
        for i in range(samples):
            c.ack(acked=int(c.paths[0].cwnd) + 1 if i == 0 else 0, rtt=rtt)


def growth(c: Controller, acked: int) -> float:
    before = c.paths[0].cwnd
    c.ack(acked=acked)
    return c.paths[0].cwnd - before


def test_hystartpp_slows_down_and_resumes() -> None:
    c = Controller("newreno", paths=[{"cwnd": 4.0}], ssthresh="hystart++", mode="paper")
    rounds(c, 0.1)
    assert growth(c, 4) == 4.0
    rounds(c, 0.113)
    assert growth(c, 4) == 1.0, "Conservative Slow Start: a quarter"
    assert growth(c, 20) == 2.0, "not more than L = 8 of an ACK"
    rounds(c, 0.1)
    assert growth(c, 4) == 4.0, "the delay had not grown for good"
    assert math.isinf(c.paths[0].ssthresh)


@pytest.mark.parametrize("mode", ["paper", "kernel"])
def test_hystartpp_ends_after_five_rounds(mode: str) -> None:
    c = Controller("newreno", paths=[{"cwnd": 4.0}], ssthresh="hystart++", mode=mode)
    rounds(c, 0.1, 0.113)
    for _ in range(4):
        rounds(c, 0.113)
        assert math.isinf(c.paths[0].ssthresh)
    rounds(c, 0.113)
    growth(c, 1)
    assert c.paths[0].phase == "congestion_avoidance"
    assert c.paths[0].ssthresh == c.state["ssth"][0]


def test_hystartpp_by_quarters_in_whole_segments() -> None:
    c = Controller("newreno", paths=[{"cwnd": 4.0}], ssthresh="hystart++", mode="kernel")
    rounds(c, 0.1, 0.113)
    assert [growth(c, 1) for _ in range(8)].count(1.0) == 2
    assert c.paths[0].cwnd == int(c.paths[0].cwnd)


def test_static_is_65535_bytes() -> None:
    c = Controller("newreno", paths=[{"cwnd": 46.0}], ssthresh="static", mss=MSS, mode="paper")
    c.ack(acked=4)
    assert c.paths[0].ssthresh == pytest.approx(65535 / MSS, abs=1e-4)


def test_coupled_slow_start_takes_the_estimate_of_the_shortest_path() -> None:
    paths = [{"cwnd": 10.0, "rtt": 0.1}, {"cwnd": 30.0, "rtt": 0.02}]
    c = Controller("tccc", paths=paths, ssthresh="hoe", mss=MSS)
    train(c, 0.002, path=0, acks=2)
    assert c.state["initial_ss"] == 1, "32 segments a shorter round trip are below 65535 bytes"
    train(c, 0.004, path=0, start=2.0)  # 25 segments on the longer path
    assert c.state["initial_ss"] == 0, "the only estimate there is"
    c = Controller("tccc", paths=paths, ssthresh="hoe", mss=MSS)
    train(c, 0.0002, path=1)  # 100 segments on the shorter one
    train(c, 0.002, path=0, start=2.0)
    c.ack(path=1, acked=1, time=3.0)
    assert c.state["ssth"] == [50.0, 100.0]
    assert c.state["initial_ss"] == 1, "the shortest path's counts, though there is another"


def test_con_ssthresh_overrules_an_estimate() -> None:
    c = Controller("css", paths=[{"cwnd": 10.0, "rtt": 0.1}], ssthresh="hoe", con_ssthresh=9, mss=MSS)
    c.ack(acked=1, time=1.0)
    assert c.state["initial_ss"] == 0
