"""CUBIC in both forms: step by step beside computed numbers, and mode=paper beside RFC 9438 in 50 digits."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rewindow import BadOption, Controller
from tests.oracles import Rfc9438

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "cubic.json").read_text())["vectors"]
RELATIVE = Fraction(1, 2000)
ABSOLUTE = Fraction(1, 16384)


def near(got: float, expected: float) -> bool:
    return got == pytest.approx(expected, rel=1e-3, abs=1e-3)


def paper_ack(v: dict[str, Any]) -> None:
    i, e = dict(v["inputs"]), v["expected"]
    path = {"cwnd": i.pop("w"), "rtt": i.pop("rtt"), "ssthresh": 1.0}
    acked = i.pop("acked")
    c = Controller("cubic", paths=[path | i], mode="paper")
    c.ack(acked=acked, time=17.5)
    assert near(c.paths[0].cwnd, e["cwnd"])
    assert c.paths[0].cwnd - path["cwnd"] == pytest.approx(e["cwnd"] - path["cwnd"], rel=1e-3, abs=2**-15)
    assert near(c.state["K"][0], e["K"])
    assert near(c.state["w_est"][0], e["W_est"])
    assert c.state["t"][0] == pytest.approx(i["t"], abs=1e-9)


def paper_loss(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("cubic", paths=[{"cwnd": i["cwnd"], "wmax": i["wmax"], "ssthresh": 1.0}], mode="paper")
    c.loss()
    assert near(c.state["wmax"][0], e["wmax"])
    assert near(c.paths[0].ssthresh, e["ssthresh"])
    assert c.state["cwnd_prior"] == [i["cwnd"]]


EPOCH_S = 1000


def linux_count(v: dict[str, Any]) -> None:
    """t_1024 as the first tick of the finest clock that has passed it."""
    i, e = v["inputs"], v["expected"]
    names = ("origin_point", "K_1024", "last_max_cwnd", "ack_cnt", "tcp_cwnd")
    path = {"cwnd": i["cwnd"], "ssthresh": 1.0, "epoch_ns": EPOCH_S * 10**9} | {n: i[n] for n in names}
    c = Controller("cubic", paths=[path], hz=1000)
    c.ack(acked=0, time=EPOCH_S + math.ceil(i["t_1024"] * 1000 / 1024) / 1000)
    assert {n: c.state[n][0] for n in ("cnt", "tcp_cwnd", "ack_cnt")} == {
        n: e[n] for n in ("cnt", "tcp_cwnd", "ack_cnt")
    }


def linux_constants(v: dict[str, Any]) -> None:
    """By what they do: a loss, the credit for one segment of the Reno-friendly window, K."""
    i, e = v["inputs"], v["expected"]
    c = Controller("cubic", paths=[{"cwnd": 1024.0, "ssthresh": 1.0}])
    c.loss()
    assert c.paths[0].cwnd == i["beta"]
    step = 1024 * e["beta_scale"] // 8
    c = Controller("cubic", paths=[{"cwnd": 1024.0, "ssthresh": 1.0, "ack_cnt": step, "tcp_cwnd": 9, "epoch_ns": 1}])
    c.ack(acked=0, time=1.0)
    assert c.state["tcp_cwnd"] == [9]
    c = Controller("cubic", paths=[{"cwnd": 1024.0, "ssthresh": 1.0, "ack_cnt": step, "tcp_cwnd": 9, "epoch_ns": 1}])
    c.ack(acked=1, time=1.0)
    assert c.state["tcp_cwnd"] == [10]
    assert e["cube_factor"] == 2**40 // e["cube_rtt_scale"]
    for below in (1, 100, 10**6):
        c = Controller("cubic", paths=[{"cwnd": 2.0, "ssthresh": 1.0, "last_max_cwnd": 2 + below}])
        c.ack(acked=1, time=1.0)
        k = c.state["K_1024"][0]
        assert k**3 <= e["cube_factor"] * below < (k + 1) ** 3


def hystart_delay(v: dict[str, Any]) -> None:
    """The round's first samples reveal nothing; the one that makes `samples` of them is the first that may."""
    i, e = v["inputs"], v["expected"]
    c = Controller("cubic", paths=[{"cwnd": 20.0, "delay_min_us": i["delay_min_us"]}])
    for sample in range(i["samples"]):
        assert c.paths[0].phase == "slow_start"
        c.ack(acked=0, rtt=i["curr_rtt_us"] / 1e6, time=2.0 + sample * 0.01)
    assert (c.paths[0].phase == "congestion_avoidance") is e["exit"]
    assert c.paths[0].ssthresh == (20.0 if e["exit"] else math.inf)
    assert c.state["found"] == [int(e["exit"])]
    at_the_threshold = Controller("cubic", paths=[{"cwnd": 20.0, "delay_min_us": i["delay_min_us"]}])
    for sample in range(20):
        at_the_threshold.ack(acked=0, rtt=e["threshold_us"] / 1e6, time=2.0 + sample * 0.01)
    assert at_the_threshold.state["found"] == [0]


STEPS = {
    ("ack", "paper-float"): paper_ack, ("loss", "paper-float"): paper_loss, ("update", "linux-int"): linux_count,
    ("const", "linux-int"): linux_constants, ("delay", "linux-int"): hystart_delay,
}  # fmt: skip


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_vector(vector: dict[str, Any]) -> None:
    STEPS[vector["op"], vector["mode"]](vector)


windows = st.integers(1 << 16, 1 << 36).map(lambda q: Fraction(q, 1 << 16))
times = st.integers(0, 300 * 10**9).map(lambda ns: Fraction(ns, 10**9))
rtts = st.integers(50_000, 10**10).map(lambda ns: Fraction(ns, 10**9))


def around(w: Fraction) -> st.SearchStrategy[Fraction]:
    """Half to twice a window, in Q16."""
    q = int(w * 65536)
    return st.integers(max(q // 2, 1 << 16), min(2 * q, 1 << 36)).map(lambda x: Fraction(x, 1 << 16))


@settings(max_examples=1000, deadline=None)
@given(data=st.data(), cwnd=windows, rtt=rtts, acked=st.integers(1, 64))
def test_paper_ack(data: st.DataObject, cwnd: Fraction, rtt: Fraction, acked: int) -> None:
    """One ACK at any place of the curve: within 1/2000 of the step and 2^-14 segments."""
    nearby = around(cwnd) | windows
    wmax, epoch, est, prior = (data.draw(nearby) for _ in range(4))
    epoch = min(epoch, data.draw(st.just(wmax) | windows))
    t = data.draw(times | st.integers(0, 10**9).map(lambda ns: Fraction(ns, 10**9)))
    oracle = Rfc9438(cwnd, rtt, wmax, epoch, t, est, prior, Fraction(1))
    path = {
        "cwnd": float(cwnd), "rtt": float(rtt), "ssthresh": 1.0, "wmax": float(wmax), "w_epoch": float(epoch),
        "w_est": float(est), "cwnd_prior": float(prior), "t": float(t),
    }  # fmt: skip
    ours = Controller("cubic", paths=[path], mode="paper")
    oracle.ack(acked)
    assume(not oracle.near_the_border())
    ours.ack(acked=acked)
    expected = min(oracle.cwnd, Fraction(1 << 20))
    assert abs(Fraction(ours.paths[0].cwnd) - expected) <= ABSOLUTE + RELATIVE * abs(oracle.cwnd - cwnd)
    assert abs(Fraction(ours.state["K"][0]) - oracle.k) <= Fraction(1, 1 << 31)
    assert abs(Fraction(ours.state["w_est"][0]) - oracle.w_est) <= Fraction(1, 1 << 30)


@settings(max_examples=300, deadline=None)
@given(
    cwnd=st.integers(2, 3000), rtt=st.integers(50_000, 10**9),
    steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 64), st.sampled_from("aaaaaaaalt")), max_size=60),
)  # fmt: skip
def test_paper_life(cwnd: int, rtt: int, steps: list[tuple[int, int, str]]) -> None:
    """Epochs, losses and timeouts in a row. Windows within 2^-10 segments and 10^-5: rounding adds up."""
    path = {"cwnd": float(cwnd), "rtt": rtt / 1e9, "ssthresh": 1.0}
    ours = Controller("cubic", paths=[path], mode="paper", hystart="off")
    oracle = Rfc9438(Fraction(cwnd), Fraction(rtt, 10**9), ssthresh=Fraction(1))
    now, since = 10**9, 0
    for wait, acked, event in steps:
        now += wait
        since += wait
        if event == "a":
            ours.ack(acked=acked, time=now / 1e9)
            oracle.ack(acked, Fraction(since, 10**9))
            since = 0
            assume(not oracle.near_the_border())
        elif event == "l":
            ours.loss()
            oracle.loss()
        else:
            ours.timeout()
            oracle.timeout()
        oracle.settle()
        assume(oracle.cwnd < 1 << 20)
        for got, expected in ((ours.paths[0].cwnd, oracle.cwnd), (ours.paths[0].ssthresh, oracle.ssthresh)):
            assert abs(Fraction(got) - expected) <= Fraction(1, 1 << 10) + expected / 10**5


def test_paper_first_epoch_has_no_plateau() -> None:
    """Without a loss before it: W_max is the window, K is 0, and the Reno-friendly window grows as Reno."""
    c = Controller("cubic", paths=[{"cwnd": 40.0, "rtt": 0.1, "ssthresh": 1.0}], mode="paper")
    c.ack(time=5.0)
    assert (c.state["wmax"], c.state["K"], c.state["t"]) == ([40.0], [0.0], [0.0])
    assert c.state["w_est"][0] == pytest.approx(40 + 1 / 40)


def test_paper_timeout_forgets_the_plateau() -> None:
    c = Controller("cubic", paths=[{"cwnd": 100.0, "rtt": 0.1, "ssthresh": 1.0, "wmax": 90.0}], mode="paper")
    c.timeout()
    assert (c.paths[0].cwnd, c.paths[0].ssthresh) == (1.0, 70.0)
    assert (c.state["wmax"], c.state["cwnd_prior"]) == ([0.0], [100.0])
    c.ack(acked=70, time=1.0)
    assert c.state["wmax"] == [70.0], "congestion avoidance began there"


def test_paper_floor() -> None:
    c = Controller("cubic", paths=[{"cwnd": 2.0, "ssthresh": 1.0}], mode="paper", min_ssthresh=2)
    c.loss()
    assert c.paths[0].ssthresh == 2.0
    c.ack(time=1.0)
    assert (c.state["wmax"], c.state["K"]) == ([2.0], [0.0]), "not below the window that the epoch begins with"


def test_paper_slow_start_ends_with_hystart() -> None:
    for hystart, ends in (("on", True), ("off", False)):
        c = Controller("cubic", paths=[{"cwnd": 20.0}], mode="paper", hystart=hystart)
        c.ack(acked=1, rtt=0.04, time=1.0)
        for i in range(20):
            c.ack(acked=30 * (i == 0), rtt=0.08, time=2.0 + i * 0.01)
        assert math.isfinite(c.paths[0].ssthresh) is ends
    c = Controller("cubic", paths=[{"cwnd": 20.0}], mode="paper")
    c.loss()
    for i in range(20):
        c.ack(rtt=0.04 + 0.01 * i, time=3.0 + 0.1 * i)
    assert c.paths[0].ssthresh == pytest.approx(14.0, abs=1e-4), "not after it"


def test_each_form_has_its_own_names() -> None:
    kernel, paper = (set(Controller("cubic", paths=[{"cwnd": 2.0}], mode=m).state) for m in ("kernel", "paper"))
    assert {"last_max_cwnd", "origin_point", "K_1024", "ack_cnt", "tcp_cwnd", "cnt", "epoch_ns"} <= kernel
    assert paper == {"wmax", "w_epoch", "w_est", "cwnd_prior", "K", "t"}
    assert not kernel & paper
    with pytest.raises(ValueError, match="a path has no wmax"):
        Controller("cubic", paths=[{"cwnd": 2.0, "wmax": 3.0}])
    with pytest.raises(BadOption, match="cnt is a number of 32 bits"):
        Controller("cubic", paths=[{"cwnd": 2.0, "cnt": 1 << 32}])
