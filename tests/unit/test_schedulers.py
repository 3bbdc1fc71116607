"""Packet schedulers: the papers' numbers, forward prediction over exact rationals, what holds of any decision."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import BadOption, Decision, Scheduler, SendingSubflow, SendQueue
from tests.oracles.schedulers import Sending, fps_forward, sbfps_forward

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "schedulers.json").read_text())["vectors"]
NAMES = [s.name for s in rewindow.schedulers()]
ORACLES = {"fps": fps_forward, "sbfps": sbfps_forward}


def near(got: float, expected: float) -> bool:
    return got == pytest.approx(expected, rel=1e-3, abs=1e-3)


def policy(v: dict[str, Any]) -> None:
    given = [dict(s) for s in v["inputs"]["subflows"]]
    ids = [s.pop("id") for s in given]
    decision = Scheduler(v["alg"]).pick(given)
    assert (None if decision.subflow is None else ids[decision.subflow]) == v["expected"]["pick"]


def one_faster(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    faster = [{"cwnd": i["w_r"], "srtt": i["rtt_r"], "ssthresh": i.get("ssthresh")}]
    if i.get("set_cwnd"):
        faster = [
            {"cwnd": w, "srtt": r, "beta": b} for w, r, b in zip(i["set_cwnd"], i["set_rtt"], i["beta"], strict=True)
        ]
    forecast = Scheduler(v["alg"]).forward([*faster, {"srtt": i["rtt_j"]}], len(faster))
    part = forecast.parts[0]
    assert part
    assert near(part.segments, e["M_r"])
    assert near(part.m, e.get("m", 1))
    if v["alg"] == "fps":
        assert (part.rounds, part.segments) == (e["rounds"], e["M_r"])
    else:
        assert near(part.rounds, e["rounds"])
    if len(faster) == 1:
        assert forecast.skipped == e.get("M_floor", math.floor(e["M_r"]))


def several_faster(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    subflows = [{"cwnd": f["w"], "srtt": f["rtt"]} for f in i["faster"]] + [{"srtt": i["rtt_j"]}]
    forecast = Scheduler(v["alg"]).forward(subflows, len(subflows) - 1, SendQueue(next=i["seq1"]))
    assert [p.segments for p in forecast.parts if p] == pytest.approx(e["M_parts"], rel=1e-3)
    assert near(forecast.segments, e["M"])
    assert forecast.first == e["seq2"]


STEPS = {"schedule": policy, "M_r": one_faster, "M": several_faster}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_vector(vector: dict[str, Any]) -> None:
    STEPS[vector["op"]](vector)


windows = st.integers(1 << 16, 1 << 36).map(lambda q: Fraction(q, 1 << 16))
rtts = st.integers(50_000, 10**10).map(lambda ns: Fraction(ns, 10**9))
betas = st.integers(0, 1 << 16).map(lambda q: Fraction(q, 1 << 16))


def like(base: Fraction) -> st.SearchStrategy[Fraction]:
    """Round trips up to 500 times another."""
    ns = int(base * 10**9)
    return st.integers(max(ns // 500, 50_000), min(ns * 500, 10**10)).map(lambda x: Fraction(x, 10**9))


@st.composite
def senders(draw: st.DrawFn, rtt: st.SearchStrategy[Fraction]) -> list[Sending]:
    return [
        Sending(
            draw(windows), draw(rtt), draw(st.none() | windows | st.just(math.inf)), draw(betas),
            draw(st.integers(0, 2)), draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]  # fmt: skip


def views(subflows: list[Sending]) -> list[SendingSubflow]:
    return [
        SendingSubflow(
            cwnd=float(s.cwnd), srtt=float(s.rtt), ssthresh=None if s.ssthresh is None else float(s.ssthresh),
            beta=float(s.beta), set=s.group, recovering=s.recovering,
        )
        for s in subflows
    ]  # fmt: skip


def compare(name: str, subflows: list[Sending], horizon: str, relative: Fraction) -> None:
    """M_r within 2^-16 segments and `relative` of the exact; floor(M) that of a number up to 2^-16 above exact M."""
    j = len(subflows) - 1
    exact = ORACLES[name](subflows, j, horizon)
    forecast = Scheduler(name, horizon=horizon).forward(views(subflows), j)
    for part, expected in zip(forecast.parts, exact, strict=True):
        assert (part is None) is (expected is None)
        if part and expected is not None:
            assert abs(Fraction(part.segments) - expected) <= Fraction(1, 1 << 16) + relative * expected
    total = sum((x for x in exact if x is not None), Fraction(0))
    slack = relative * total
    assert math.floor(total - slack) <= forecast.skipped <= math.floor(total + slack + Fraction(1, 1 << 16))


@pytest.mark.parametrize("horizon", ["half_rtt", "difference"])
@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_forward(name: str, horizon: str, data: st.DataObject) -> None:
    """Round trips of the house's range with a ratio of up to 500: no relative error is needed."""
    compare(name, data.draw(senders(like(data.draw(rtts)))), horizon, Fraction(0))


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=300, deadline=None)
@given(subflows=senders(rtts))
def test_forward_at_any_ratio(name: str, subflows: list[Sending]) -> None:
    """50 us beside 10 s: 100,000 rounds; sets round to 2^-36 of M."""
    compare(name, subflows, "half_rtt", Fraction(1, 1 << 36))


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 500), each=st.integers(1, 1 << 20), ns=st.integers(50_000, 10**7), count=st.integers(1, 7)
)  # fmt: skip
def test_whole_m_is_not_rounded_down(name: str, n: int, each: int, ns: int, count: int) -> None:
    """n whole rounds outside sets: M is an integer, and floor must find that one."""
    fast = SendingSubflow(cwnd=float(each), srtt=ns / 1e9)
    slow = SendingSubflow(srtt=2 * n * ns / 1e9)
    forecast = Scheduler(name).forward([fast] * count + [slow], count)
    assert forecast.skipped == count * (n * each + n * (n - 1) // 2)


def test_parts_that_make_a_whole_are_not_rounded_down() -> None:
    """6/5 and 8/5 rounds: 4.92 and 2.08 segments."""
    subflows = [{"cwnd": 4, "srtt": 0.020}, {"cwnd": 1, "srtt": 0.015}, {"srtt": 0.048}]
    assert Scheduler("sbfps").forward(subflows, 2).skipped == 7


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[SendingSubflow], SendQueue, int | None]:
    n = draw(st.integers(1, 8))
    subflows = [
        SendingSubflow(
            cwnd=draw(st.integers(1, 40)), srtt=draw(st.sampled_from([None, 0.01, 0.02, 0.05, 0.1, 1.0])),
            ssthresh=draw(st.sampled_from([None, 5.0, 30.0, math.inf])), in_flight=draw(st.integers(0, 40)),
            queued=draw(st.integers(0, 3)), established=draw(st.booleans()), loss_state=draw(st.booleans()),
            backup=draw(st.booleans()), recovering=draw(st.booleans()), set=draw(st.sampled_from([None, 1])),
            beta=draw(st.sampled_from([None, 0.1, 1.0])), since_penalty=draw(st.sampled_from([0.0, 0.03, math.inf])),
        )
        for _ in range(n)
    ]  # fmt: skip
    who = st.lists(st.integers(0, n - 1), max_size=n)
    start = draw(st.integers(0, 1000))
    queue = SendQueue(
        next=start, queued=draw(st.integers(0, 200)), window_left=draw(st.none() | st.integers(0, 200)),
        taken=draw(st.sampled_from([(), ((start + 3, start + 8), (start + 20, start + 21))])), sent_on=draw(who),
        buffer=draw(st.none() | st.integers(0, 200)), oldest=max(start - 10, 0), oldest_sent_on=draw(who),
    )  # fmt: skip
    return subflows, queue, draw(st.none() | st.integers(0, n - 1))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=500, deadline=None)
@given(scene=scenes())
def test_invariants(name: str, scene: tuple[list[SendingSubflow], SendQueue, int | None]) -> None:
    subflows, queue, previous = scene
    d = Scheduler(name).pick(subflows, queue, previous)
    free = [s for first, n in queue.spans() for s in range(first, first + n)]
    if d.action == "wait":
        assert (d.subflow, d.segments) == (None, 0)
        return
    assert d.subflow is not None
    chosen = subflows[d.subflow]
    room = chosen.cwnd - chosen.in_flight - chosen.queued
    assert chosen.established
    assert not chosen.loss_state
    assert 1 <= d.segments <= room
    active = [s for s in subflows if s.established and not s.loss_state and not s.backup]
    assert not (chosen.backup and active)
    if d.action == "reinject":
        assert (d.first, d.segments, queue.window_left) == (queue.oldest, 1, 0)
        assert d.subflow not in queue.oldest_sent_on
        return
    data = list(range(d.first, d.first + d.segments))
    assert data == free[d.skipped : d.skipped + d.segments], "data that nobody has, in one piece"
    if queue.window_left is not None:
        assert data[-1] < queue.next + queue.window_left
    in_use = [i for i, s in enumerate(subflows) if s.established and not s.loss_state and s.backup is chosen.backup]
    if data[0] == queue.next and d.subflow in queue.sent_on:
        assert set(in_use) <= set(queue.sent_on), "it goes twice on one only after it went on all"
    order = [subflows[i].srtt or math.inf for i in in_use]
    if (chosen.srtt or math.inf) == min(order):
        assert d.skipped == 0, "the fastest skips nothing"


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=100, deadline=None)
@given(
    rtt_ms=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    windows=st.lists(st.integers(1, 30), min_size=4, max_size=4), data=st.data(),
)  # fmt: skip
def test_every_segment_goes_once(name: str, rtt_ms: list[int], windows: list[int], data: st.DataObject) -> None:
    """A whole transfer in any order of ACKs: nothing is given out twice, nothing is left behind."""
    scheduler = Scheduler(name)
    flights = [0] * len(rtt_ms)
    given_out: list[int] = []
    total = 300
    while len(given_out) < total:
        left = sorted(set(range(total)) - set(given_out))
        taken = tuple(_ranges([s for s in given_out if s > left[0]]))
        subflows = [
            SendingSubflow(cwnd=w, srtt=r / 1000, in_flight=f)
            for w, r, f in zip(windows, rtt_ms, flights, strict=False)
        ]
        queue = SendQueue(next=left[0], queued=len(left), taken=taken, buffer=100)
        d = scheduler.pick(subflows, queue)
        if d.subflow is None:
            assert min(s.cwnd - s.in_flight for s in subflows if s.srtt == min(rtt_ms) / 1000) == 0, "no starvation"
            i = data.draw(st.sampled_from([i for i, f in enumerate(flights) if f]))
            flights[i] -= data.draw(st.integers(1, flights[i]))
            continue
        sent = range(d.first, d.first + d.segments)
        assert set(sent) <= set(left)
        given_out += sent
        flights[d.subflow] += d.segments
    assert sorted(given_out) == list(range(total))


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for n in sorted(numbers):
        if found and found[-1][1] == n:
            found[-1] = (found[-1][0], n + 1)
        else:
            found.append((n, n + 1))
    return found


FAST, SLOW = SendingSubflow(cwnd=10, srtt=0.02), SendingSubflow(cwnd=10, srtt=0.2)
FULL = replace(FAST, in_flight=10)


def test_minrtt_fills_the_window() -> None:
    d = Scheduler("minrtt").pick([SLOW, replace(FAST, in_flight=3, queued=2)], SendQueue(next=70, queued=40))
    assert d == Decision("send", 1, 70, 5, 0, {})
    assert Scheduler("minrtt").pick([FAST], SendQueue(queued=4)).segments == 4
    assert Scheduler("minrtt").pick([FAST], SendQueue(window_left=3)).segments == 3
    assert Scheduler("minrtt").pick([FAST], SendQueue(queued=0)).action == "wait"
    assert Scheduler("minrtt").pick([replace(FAST, srtt=None), SLOW]).subflow == 1, "no sample yet: last"


def test_minrtt_backups() -> None:
    backup = replace(FAST, backup=True)
    pick = Scheduler("minrtt").pick
    assert pick([replace(SLOW, in_flight=10), backup]).action == "wait", "merely full"
    assert pick([replace(SLOW, loss_state=True), backup]).subflow == 1
    assert pick([replace(SLOW, established=False), replace(backup, srtt=0.3), backup]).subflow == 2
    assert pick([replace(SLOW, established=False), replace(backup, loss_state=True)]).subflow is None


def test_minrtt_sends_again_where_it_did_not_before() -> None:
    pick = Scheduler("minrtt").pick
    assert pick([FAST, SLOW], SendQueue(sent_on=[0])) == Decision("send", 1, 0, 1, 0, {})
    assert pick([FAST, SLOW], SendQueue(sent_on=[0, 1])).subflow == 0, "it passed all"
    assert pick([FAST, replace(SLOW, in_flight=10)], SendQueue(sent_on=[0])).subflow is None, (
        "the other one is only full"
    )


def blocked(*holders: int) -> SendQueue:
    return SendQueue(next=50, queued=9, window_left=0, oldest=30, oldest_sent_on=holders)


def test_minrtt_opens_the_receive_window() -> None:
    pick = Scheduler("minrtt").pick
    assert pick([FAST, SLOW], blocked(1)) == Decision("reinject", 0, 30, 1, 0, {1: (5.0, 5.0)})
    near_by = replace(SLOW, srtt=0.08)
    assert pick([FAST, near_by], blocked(1)).action == "wait", "4 times as slow is not more than that"
    assert pick([FAST, replace(near_by, srtt=0.080000001)], blocked(1)).action == "reinject"
    assert pick([FAST, replace(near_by, cwnd=4)], blocked(1)).action == "reinject", "a small window"
    assert pick([FAST, replace(near_by, cwnd=5)], blocked(1)).action == "wait"
    assert pick([FAST, SLOW, near_by], blocked(1, 2)).action == "wait", "near_by's copy will be there soon"
    assert pick([FAST, SLOW], blocked(0, 1)).action == "wait", "it has it already"
    assert pick([FAST, SLOW], replace(blocked(1), queued=0)).action == "wait", "nothing waits for the window"
    assert pick([FULL, SLOW], blocked(0)).penalized == {}, "a faster one is not to blame"


def test_minrtt_penalizes_once_in_a_round_trip() -> None:
    pick = Scheduler("minrtt").pick
    for since, halved in ((0.199, {}), (0.2, {1: (5.0, 5.0)}), (math.inf, {1: (5.0, 5.0)})):
        assert pick([FAST, replace(SLOW, since_penalty=since)], blocked(1)).penalized == halved
    starting = replace(SLOW, ssthresh=math.inf)
    assert pick([FAST, starting], blocked(1)).penalized == {1: (5.0, math.inf)}
    assert pick([FAST, replace(SLOW, cwnd=1, ssthresh=1)], blocked(1)).penalized == {1: (1.0, 2.0)}
    assert Scheduler("minrtt", penalize="off").pick([FAST, SLOW], blocked(1)).penalized == {}
    off = Scheduler("minrtt", reinject="off").pick([FAST, SLOW], blocked(1))
    assert (off.action, off.penalized) == ("wait", {1: (5.0, 5.0)})


def test_roundrobin_takes_turns() -> None:
    scheduler, previous, turns = Scheduler("roundrobin"), None, []
    subflows = [FAST, FULL, SLOW, replace(SLOW, backup=True)]
    for _ in range(5):
        d = scheduler.pick(subflows, SendQueue(), previous)
        previous = d.subflow
        turns.append((d.subflow, d.segments))
    assert turns == [(0, 1), (2, 1), (0, 1), (2, 1), (0, 1)]
    assert Scheduler("roundrobin", quantum=7).pick([FAST]).segments == 7
    assert Scheduler("roundrobin", quantum=70).pick([FAST]).segments == 10
    assert scheduler.pick([FULL, FULL]).subflow is None


@pytest.mark.parametrize("name", ORACLES)
def test_forward_prediction_waits(name: str) -> None:
    """5 rounds of 10 and more: 60 segments are left to the fast one."""
    pick = Scheduler(name).pick
    assert pick([FULL, SLOW], SendQueue(next=7, queued=100)) == Decision("send", 1, 67, 10, 60, {})
    assert pick([FULL, SLOW], SendQueue(next=7, queued=61)) == Decision("send", 1, 67, 1, 60, {})
    assert pick([FULL, SLOW], SendQueue(next=7, queued=60)).action == "wait"
    assert pick([FULL, SLOW], SendQueue(next=7, window_left=60)).action == "wait"
    assert pick([FULL, SLOW], SendQueue(next=7, buffer=40)).first == 47, "M is at most the send buffer"
    assert pick([FULL, SLOW], SendQueue(next=7, taken=[(67, 77)])).first == 77, "what it has is no one else's"
    assert pick([FULL, SLOW], SendQueue(next=7, taken=[(20, 30)])).first == 77
    assert pick([FAST, SLOW], SendQueue(next=7)) == Decision("send", 0, 7, 10, 0, {}), "the fastest skips nothing"
    assert pick([replace(FULL, loss_state=True), SLOW], SendQueue(next=7)).first == 7, "who cannot send has no share"
    assert pick([replace(FULL, backup=True), SLOW], SendQueue(next=7)).first == 7


@pytest.mark.parametrize("name", ORACLES)
def test_forward_prediction_sends_again_what_tcp_gave_up(name: str) -> None:
    """The specification's limit-given-up: the slow one leaves all that waits to the fast one, which had it before."""
    pick = Scheduler(name).pick
    assert pick([FAST, SLOW], SendQueue(queued=3, sent_on=[0])).action == "wait", "TCP on the fast one retransmits it"
    assert pick([FAST, SLOW], SendQueue(queued=3, sent_on=[])) == Decision("send", 0, 0, 3, 0, {}), "TCP gave it up"
    assert pick([FAST, SLOW], SendQueue(queued=3, sent_on=[0, 1])) == Decision("send", 0, 0, 1, 0, {}), "all had it"


def test_bad_numbers_are_refused() -> None:
    scheduler = Scheduler("sbfps")
    with pytest.raises(rewindow.UnknownScheduler, match="unknown scheduler 'nope'"):
        Scheduler("nope")
    with pytest.raises(BadOption, match="has no option 'nope'"):
        Scheduler("fps", nope=1)
    with pytest.raises(BadOption, match="horizon takes"):
        Scheduler("fps", horizon="never")
    with pytest.raises(BadOption, match="1 to 8"):
        scheduler.pick([])
    with pytest.raises(BadOption, match="1 to 8"):
        scheduler.pick([FAST] * 9)
    with pytest.raises(BadOption, match="predicts nothing"):
        Scheduler("minrtt").forward([FAST, SLOW], 1)
    with pytest.raises(BadOption, match="no such subflow"):
        scheduler.forward([FAST, SLOW], 2)
    for bad in (
        {"cwnd": 0.5}, {"cwnd": math.nan}, {"cwnd": 2e6}, {"srtt": -1.0}, {"srtt": 1e4}, {"in_flight": -1},
        {"in_flight": 0.5}, {"queued": 1 << 32}, {"set": 256}, {"colour": 1}, {"ssthresh": math.nan}, {"beta": 1.5},
        {"since_penalty": -1},
    ):  # fmt: skip
        with pytest.raises(BadOption):
            scheduler.pick([bad])
    for queue in (
        SendQueue(queued=-1), SendQueue(next=1 << 61), SendQueue(taken=[(5, 5)]), SendQueue(taken=[(5, 9), (7, 12)]),
        SendQueue(next=8, taken=[(5, 9)]), SendQueue(sent_on=[1]), SendQueue(window_left=-1), SendQueue(buffer=-1),
        SendQueue(oldest_sent_on=[-1]),
    ):  # fmt: skip
        with pytest.raises(BadOption):
            scheduler.pick([FAST], queue)


def test_every_option_is_described() -> None:
    assert NAMES == ["minrtt", "roundrobin", "fps", "sbfps"]
    for scheduler in rewindow.schedulers():
        assert scheduler.source
        assert scheduler.deviations
        for option in scheduler.options:
            assert option.reason
            for value in option.values.split("|") if "|" in option.values else [option.default]:
                Scheduler(scheduler.name, **{option.name: value})
