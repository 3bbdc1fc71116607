"""Detectors of shared bottlenecks: by hand, step by step, and on captures."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewindow
from rewindow import BadOption, Choice, Detector, UnknownAlgorithm, group_flows
from tests.packets import Trace

CAPTURES = Path(__file__).parent.parent / "captures"
VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "detectors.json").read_text())["vectors"]

Event = tuple[float, str, str]


def run_sbcc(srtt: dict[str, float], events: Sequence[Event], end: float, **options: object) -> tuple[Any, Any]:
    """States before each event and at the end; the sets at the end."""
    d = Detector("sbcc", **options)
    paths = {name: d.join(srtt=value) for name, value in srtt.items()}
    names = {place: name for name, place in paths.items()}

    def states() -> dict[str, str]:
        return {names[i]: s for i, s in d.states.items()}

    seen: list[list[Any]] = []
    for time, name, kind in events:
        d.advance(time)
        seen.append([time, states()])
        {"ece": d.ece, "loss": d.loss, "timeout": d.timeout}[kind](paths[name], time=time)
    d.advance(end)
    seen.append([end, states()])
    return seen, [{"members": [names[m] for m in s.members], "final": s.final} for s in d.sets]


def sbcc(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    states, sets = run_sbcc(i["srtt"], i["events"], i["end"])
    assert states == e["states"]
    assert sets == e["sets"]


def dwc(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    d = Detector("dwc", delay_fraction=i["frac"])
    loser, observed = d.join(srtt=0.05), d.join(srtt=0.05)
    for delay in (i["rtt_min"], i["rtt_max"]):
        d.sample(observed, delay, time=1.0, srtt=i["srtt"])
    d.loss(loser, time=1.1)
    assert d.statistics(observed)["threshold"] == pytest.approx(e["threshold"], rel=1e-5)
    assert bool(d.sets) is e["correlated"]


def sbd(v: dict[str, Any]) -> None:
    i, e = v["inputs"], v["expected"]
    if v["op"] == "bottleneck":
        flow = {"skew": i["skew_est"], "previously": i["previously"], "loss": i["pkt_loss"]}
        assert group_flows([flow])[0].bottleneck is e["bottleneck"]
        return
    if v["op"] == "grouping":
        flows = [{"freq": f["freq"], "var": f["var"] / 1e3, "skew": f["skew"], "loss": f["loss"]} for f in i["flows"]]
        found: dict[int, list[str]] = {}
        for flow, verdict in zip(i["flows"], group_flows(flows), strict=True):
            found.setdefault(verdict.group, []).append(flow["id"])
        assert sorted(found.values()) == sorted(e["groups"])
        return
    d = Detector("sbd", p_v=i["p_v"])
    path = d.join(time=0.0)
    means = []
    for number, delays in enumerate(i["owd_ms"]):
        for place, delay in enumerate(delays):
            d.sample(path, delay / 1e3, time=number * 0.35 + place * 0.01)
        d.advance((number + 1) * 0.35)
        means.append(d.statistics(path)["E_T"] * 1e3)
    assert means == pytest.approx(e["E_T"], abs=1e-5)
    found_statistics = d.statistics(path)
    assert found_statistics["mean_delay"] * 1e3 == pytest.approx(e["mean_delay"], abs=1e-5)
    assert found_statistics["var_est"] * 1e3 == pytest.approx(e["var_est"], abs=1e-4)
    assert found_statistics["skew_est"] == pytest.approx(e["skew_est"], abs=2e-5)
    assert found_statistics["freq_est"] == pytest.approx(e["freq_est"], abs=2e-5)


@pytest.mark.parametrize("vector", VECTORS, ids=[v["id"] for v in VECTORS])
def test_vectors(vector: dict[str, Any]) -> None:
    {"sbcc": sbcc, "dwc": dwc, "sbd": sbd}[vector["alg"]](vector)


THREE = {"1": 0.06, "2": 0.06, "3": 0.06}


def test_three_members_are_verified_together() -> None:
    formed: list[Event] = [(1.0, "1", "ece"), (1.01, "2", "ece"), (1.02, "3", "loss")]
    _, sets = run_sbcc(THREE, formed, 1.5)
    assert sets == [{"members": ["1", "2", "3"], "final": False}]
    _, sets = run_sbcc(THREE, [*formed, (2.0, "3", "ece"), (2.01, "1", "timeout"), (2.02, "2", "ece")], 3.0)
    assert sets == [{"members": ["1", "2", "3"], "final": True}]
    _, sets = run_sbcc(THREE, [*formed, (2.0, "3", "ece"), (2.01, "1", "loss")], 3.0)
    assert sets == []  # 2 was silent


def test_an_outsider_that_coincides_refutes_a_set() -> None:
    events: list[Event] = [(1.0, "1", "ece"), (1.01, "2", "ece"), (2.0, "1", "ece"), (2.01, "2", "ece")]
    assert run_sbcc(THREE, events, 3.0)[1] == [{"members": ["1", "2"], "final": True}]
    assert run_sbcc(THREE, [*events, (2.02, "3", "loss")], 3.0)[1] == []
    assert run_sbcc(THREE, [*events, (2.04, "3", "loss")], 3.0)[1] != []  # 0.04 s > srtt/2


def test_several_sets_side_by_side() -> None:
    four = {name: 0.06 for name in "1234"}
    events: list[Event] = []
    for start in (1.0, 2.0):
        for offset, pair in ((0.0, "12"), (0.5, "34")):
            events += [(start + offset, pair[0], "ece"), (start + offset + 0.01, pair[1], "ece")]
    _, sets = run_sbcc(four, events, 3.0)
    assert sets == [{"members": ["1", "2"], "final": True}, {"members": ["3", "4"], "final": True}]


def test_a_run_of_echoes_is_one_event() -> None:
    """Echoes that follow one another within a round trip do not verify what they began."""
    run: list[Event] = [(1.0 + k * 0.05, "1", "ece") for k in range(10)]
    _, sets = run_sbcc(THREE, sorted([*run, (1.01, "2", "ece"), (1.2, "2", "loss")]), 3.0)
    assert sets == [{"members": ["1", "2"], "final": False}]


def test_losses_begin_a_judgement_when_asked() -> None:
    events: list[Event] = [(1.0, "1", "loss"), (1.01, "2", "loss"), (2.0, "1", "loss"), (2.01, "2", "timeout")]
    assert run_sbcc(THREE, events, 3.0)[1] == []
    assert run_sbcc(THREE, events, 3.0, trigger_loss="on")[1] == [{"members": ["1", "2"], "final": True}]


def test_the_window_is_of_the_observed_subflow() -> None:
    events: list[Event] = [(1.0, "1", "ece"), (1.05, "2", "loss")]
    assert run_sbcc({"1": 0.2, "2": 0.06}, events, 2.0)[1] == []
    assert run_sbcc({"1": 0.06, "2": 0.2}, events, 2.0)[1] == [{"members": ["1", "2"], "final": False}]


def test_a_decision_waits_for_the_longest_window() -> None:
    d = Detector("sbcc")
    a, b, _ = d.join(srtt=0.06), d.join(srtt=0.06), d.join(srtt=0.1)
    d.ece(a, time=1.0)
    d.loss(b, time=1.03)  # the last moment of its window
    d.advance(1.05)  # what happens now still counts
    assert d.sets == []
    d.advance(1.050000001)
    assert [(s.members, s.state) for s in d.sets] == [([a, b], "judgement")]


def test_who_was_taken_into_a_set_begins_no_other() -> None:
    """2 would have found 3 in its own window, had 1 not found it first."""
    events: list[Event] = [(1.0, "1", "ece"), (1.02, "2", "ece"), (1.045, "3", "loss")]
    assert run_sbcc(THREE, events, 2.0)[1] == [{"members": ["1", "2"], "final": False}]


def test_leaving_and_joining() -> None:
    d = Detector("sbcc")
    paths = [d.join(srtt=0.06) for _ in range(3)]
    for time in (1.0, 2.0):
        for k, path in enumerate(paths):
            d.ece(path, time=time + 0.01 * k)
    d.advance(3.0)
    assert [(s.members, s.state) for s in d.sets] == [(paths, "final")]
    d.leave(paths[0], time=3.0)
    assert [(s.members, s.state) for s in d.sets] == [(paths[1:], "final")]
    again = d.join(time=3.0, srtt=0.06)
    assert d.states[again] == "monitor"
    d.leave(paths[1], time=3.1)
    assert d.sets == []  # one is no set
    assert set(d.states) == {paths[2], again}
    with pytest.raises(ValueError, match="has left"):
        d.ece(paths[1], time=3.2)


def test_a_member_that_leaves_under_judgement_is_not_waited_for() -> None:
    d = Detector("sbcc")
    paths = [d.join(srtt=0.06) for _ in range(3)]
    for k, path in enumerate(paths):
        d.ece(path, time=1.0 + 0.01 * k)
    d.ece(paths[0], time=2.0)
    d.loss(paths[1], time=2.01)
    d.leave(paths[2], time=2.02)
    d.advance(2.1)
    assert [(s.members, s.state) for s in d.sets] == [(paths[:2], "final")]


def test_dwc_looks_back_over_the_longer_window() -> None:
    d = Detector("dwc")
    a, b, c = d.join(srtt=0.04), d.join(srtt=0.2), d.join(srtt=0.04)
    d.loss(a, time=1.0)
    assert d.sets == []
    d.loss(b, time=1.09)
    assert [s.members for s in d.sets] == [[a, b]]
    d.loss(c, time=1.12)  # 0.03 s after b, whose half window is 0.1 s; 0.12 s after a
    assert [s.members for s in d.sets] == [[b, c]]
    assert d.states == {a: "monitor", b: "final", c: "final"}
    d.loss(c, time=3.0)
    assert d.sets == []


def test_dwc_forgets_delays() -> None:
    d = Detector("dwc", memory_s=1)
    loser, observed = d.join(srtt=0.05), d.join(srtt=0.05)
    d.sample(observed, 0.05, time=0.0)
    d.sample(observed, 0.1, time=0.5, srtt=0.095)
    d.loss(loser, time=0.6)
    assert d.sets != []
    d.sample(observed, 0.1, time=1.7, srtt=0.1)  # the small one is out of memory: the range is flat
    d.loss(loser, time=1.8)
    assert d.sets == []


def test_sbd_decides_after_ten_observations() -> None:
    """Two full queues of one depth, a third of another; statistics from 10 intervals on, decisions 9 later."""
    d = Detector("sbd")
    paths = [d.join(time=0.0) for _ in range(3)]
    shapes = [lambda k: 60 if k % 5 else 40, lambda k: 160 if k % 5 else 140, lambda k: 90 if k % 5 else 40]
    first = None
    for interval in range(30):
        for step in range(20):
            for path, shape in zip(paths, shapes, strict=True):
                d.sample(path, shape(interval * 20 + step) / 1e3, time=(interval + step / 20) * 0.35)
        if d.sets and first is None:
            first = interval
    assert [(s.members, s.state) for s in d.sets] == [(paths[:2], "final")]
    assert first == 19


def test_correlation_needs_one_rhythm_not_one_shape() -> None:
    """Delays of one shape, shifted by half a period: RFC 8382 takes them for one queue, correlation does not."""
    wave = [40, 50, 60, 70, 80, 70, 60, 50]

    def members(shift: int, **options: object) -> list[list[int]]:
        d = Detector("sbd", c_s=1, p_s=2, **options)
        paths = [d.join(time=0.0) for _ in range(2)]
        for interval in range(45):
            for step in range(10):
                for path in paths:
                    delay = wave[(interval + path * shift) % 8] + step % 2
                    d.sample(path, delay / 1e3, time=(interval + step / 10) * 0.35)
        return [s.members for s in d.sets]

    assert members(0, grouping="correlation") == members(0) == members(4) == [[0, 1]]
    assert members(4, grouping="correlation") == []


def test_names_and_options() -> None:
    assert [d.name for d in rewindow.detectors()] == ["sbcc", "dwc", "sbd"]
    defaults = {o.name: o.default for o in rewindow.detectors()[2].options}
    assert {"T_ms": "350", "N": "50", "c_s": "0.1", "p_f": "0.1", "p_v": "0.7"}.items() <= defaults.items()
    with pytest.raises(UnknownAlgorithm, match="unknown detector 'nope'"):
        Detector("nope")
    with pytest.raises(BadOption, match="c_s takes -1 to 1"):
        Detector("sbd", c_s=-1.5)
    with pytest.raises(BadOption, match="8 paths"):
        [Detector.join(d) for d in [Detector("sbcc")] for _ in range(9)]
    with pytest.raises(BadOption, match="skew -1 to 1"):
        group_flows([{"skew": 3.0}])
    with pytest.raises(ValueError, match="a flow has no skewness"):
        group_flows([{"skewness": 3.0}])


@settings(deadline=None)
@given(
    st.sampled_from(["sbcc", "dwc", "sbd"]),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 7), st.floats(-1, 2), st.floats(0, 1e6)), min_size=1, max_size=60
    ),
)
def test_any_sequence_leaves_proper_sets(name: str, steps: list[tuple[int, int, float, float]]) -> None:
    """Time may go back, paths come and go: sets have two members or more, and only members have a state but monitor."""
    d, time = Detector(name), 0.0
    there: list[int] = []
    for what, which, passed, delay in steps:
        time += passed
        if not there or (what == 0 and len(there) < 8):
            there.append(d.join(time=time, srtt=delay))
            continue
        path = there[which % len(there)]
        if what == 1:
            d.leave(path, time=time)
            there.remove(path)
        elif what == 5:
            d.sample(path, delay, time=time, lost=which)
        else:
            [d.ece, d.loss, d.timeout][what - 2](path, time=time)
        members = list(itertools.chain.from_iterable(s.members for s in d.sets))
        assert all(len(s.members) > 1 for s in d.sets)
        assert len(set(members)) == len(members)
        assert {p for p, state in d.states.items() if state != "monitor"} == set(members)


def test_sets_of_a_capture() -> None:
    """A run whose two subflows meet in one queue that marks: preliminary at one congestion, final at the next."""
    with rewindow.open(CAPTURES / "mptcp-ecn.pcap") as capture:
        result = capture.replay(["newreno"], detectors=["sbcc", "dwc"])
        alone = capture.replay(["newreno"])
    rows = [r for r in result.sets.to_pylist() if r["detector"] == "sbcc"]
    assert [(r["subflow"], r["state"], r["set"]) for r in rows] == [
        (0, "monitor", None), (1, "monitor", None),
        (0, "judgement", 1), (1, "judgement", 1),
        (0, "final", 1), (1, "final", 1),
    ]  # fmt: skip
    (mptcp,) = [c.id for c in result.connections if c.kind == "mptcp"]
    assert {r["connection"] for r in rows} == {mptcp}
    joins = {
        m["subflow"]: m["time_ns"] for m in result.marks.to_pylist() if m["kind"] == "join" and m["connection"] == mptcp
    }
    assert rows[1]["time_ns"] == joins[1]
    assert result.acks.equals(alone.acks)
    assert alone.sets.num_rows == 0


def test_flows_of_a_capture_are_compared() -> None:
    def bottlenecks(name: str, how: bool | Choice) -> list[tuple[int | None, str]]:
        with rewindow.open(CAPTURES / name) as capture, capture.stream(bottlenecks=how) as replay:
            replay.run()
            return [(s.bottleneck, s.bottleneck_state) for c in replay.connections() for s in c.subflows]

    assert bottlenecks("mptcp-three-subflows.pcap", True) == [(1, "shared")] * 4
    assert bottlenecks("mptcp-ecn.pcap", Choice("sbd", {"r_min": 1})) == [(None, "alone")] * 3
    assert bottlenecks("mptcp-ecn.pcap", Choice("sbd", {"T_ms": 5000})) == [(None, "undecided")] * 3
    with pytest.raises(BadOption, match="sbcc cannot compare"):
        bottlenecks("mptcp-ecn.pcap", Choice("sbcc", {}))


def controller_vector(v: dict[str, Any]) -> None:
    """The same through a controller that brings its detector."""
    i, e = v["inputs"], v["expected"]
    c = rewindow.Controller("sbcc", paths=[{"cwnd": 20.0, "rtt": srtt} for srtt in i["srtt"].values()])
    names = list(i["srtt"])
    seen = []
    for time, name, kind in i["events"]:
        c.advance(time)
        seen.append([time, {n: p.set_state for n, p in zip(names, c.paths, strict=True)}])
        {"ece": c.ece, "loss": c.loss, "timeout": c.timeout}[kind](names.index(name), time=time)
    c.advance(i["end"])
    seen.append([i["end"], {n: p.set_state for n, p in zip(names, c.paths, strict=True)}])
    assert seen == e["states"]
    assert [{"members": [names[m] for m in s.members], "final": s.final} for s in c.sets] == e["sets"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["op"] == "detector"], ids=lambda v: v["id"])
def test_vectors_through_the_controller(vector: dict[str, Any]) -> None:
    controller_vector(vector)


def test_a_controller_couples_final_sets_only() -> None:
    paths = [{"cwnd": 10.0, "rtt": 0.1, "ssthresh": 1.0} for _ in range(2)]
    c = rewindow.Controller("sbcc", paths=paths)
    for time in (1.0, 2.0):
        before = c.paths[0].cwnd
        c.ack(0, time=time)
        assert c.paths[0].cwnd - before == pytest.approx(1 / before, rel=1e-3)  # alone: NewReno
        c.ece(0, time=time)
        c.ece(1, time=time + 0.01)
    c.advance(2.2)
    assert [(s.members, s.state) for s in c.sets] == [([0, 1], "final")]
    before = c.paths[0].cwnd
    c.ack(0, time=2.3)
    assert 0 < c.paths[0].cwnd - before < 0.8 / before
    without = rewindow.Controller("sbcc", paths=paths, detector="none")
    without.ece(0, time=1.0)
    without.ece(1, time=1.01)
    without.advance(3.0)
    assert without.sets == []
    assert without.paths[0].set is None


def test_dwc_halves_the_set_that_its_loss_makes() -> None:
    c = rewindow.Controller("dwc", paths=[{"cwnd": w, "rtt": 0.1, "ssthresh": 1.0} for w in (20.0, 30.0, 40.0)])
    c.loss(0, time=1.0)
    c.loss(1, time=1.02)  # 0 has lost within srtt/2: it halves again, with the loser
    assert [p.cwnd for p in c.paths] == [5.0, 15.0, 40.0]
    assert [s.members for s in c.sets] == [[0, 1]]


def test_a_replay_couples_what_its_detector_says() -> None:
    """Until the set is final, and without a detector, SB-CC is the same; from there on its windows differ."""
    with rewindow.open(CAPTURES / "mptcp-ecn.pcap") as capture:
        choices = [Choice("sbcc"), Choice("sbcc", {"detector": "none"}, label="alone")]
        result = capture.replay(choices)
    final = min(r["time_ns"] for r in result.sets.to_pylist() if r["state"] == "final")
    rows = [r for r in result.acks.to_pylist() if r["connection"] == 0]
    assert len({r["connection"] for r in result.sets.to_pylist()}) == 1
    assert all(r["sbcc.cwnd"] == r["alone.cwnd"] for r in rows if r["time_ns"] < final)
    assert any(r["sbcc.cwnd"] != r["alone.cwnd"] for r in rows if r["time_ns"] > final)


def test_a_detector_runs_with_the_options_asked_for() -> None:
    def sets(*detectors: Choice) -> int:
        with rewindow.open(CAPTURES / "mptcp-ecn.pcap") as capture:
            found = capture.replay(["mptcp-sbd"], detectors=detectors).sets
        assert set(found["detector"].to_pylist()) == {"sbd"}
        return sum(state == "final" for state in found["state"].to_pylist())

    assert sets() == 0
    assert sets(Choice("sbd", {"grouping": "correlation", "N": 20})) == 2


def swinging(trace: Trace, client: str, phase: float, *, loses: bool) -> None:
    """A flow whose round trips swing with a period of two seconds; its first segment may time out."""
    trace.handshake(10.0, 0.05, client=client)
    for i in range(150):
        sent = 12.0 + i * 0.1
        trace.packet(sent, True, 1 + i * 1000, 1001, payload=1000, client=client)
        if loses and i == 0:
            trace.packet(sent - 1.5, True, 1, 1001, payload=1000, client=client)
        delay = 0.06 + 0.02 * math.sin(math.pi * (sent + phase))
        trace.packet(sent + delay, False, 1001, 1 + (i + 1) * 1000, client=client)


@pytest.mark.parametrize(
    ("phases", "loses", "expected"),
    [
        ((0.0, 0.0), True, [(1, "shared"), (1, "shared")]),
        ((0.0, 0.5), True, [(None, "alone"), (None, "alone")]),
        ((0.0, 0.0), False, [(None, "undecided"), (None, "undecided")]),
    ],
)
def test_flows_count_from_their_first_congestion_on(
    tmp_path: Path, phases: tuple[float, float], loses: bool, expected: list[tuple[int | None, str]]
) -> None:
    trace = Trace()
    for number, phase in enumerate(phases):
        swinging(trace, f"10.0.0.{number + 5}", phase, loses=loses)
    with (
        rewindow.open(trace.write(tmp_path / "two.pcap")) as capture,
        capture.stream(bottlenecks=True) as replay,
    ):
        replay.run()
        assert [(s.bottleneck, s.bottleneck_state) for c in replay.connections() for s in c.subflows] == expected


def test_no_more_than_64_flows_are_compared(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(70):
        swinging(trace, f"10.0.1.{number + 1}", 0.0, loses=True)
    trace.packet(40.0, True, 1 + 150 * 1000, 1001, payload=1000, client="10.0.1.70")  # it sends the most
    with (
        rewindow.open(trace.write(tmp_path / "many.pcap")) as capture,
        capture.stream(bottlenecks=True) as replay,
    ):
        replay.run()
        states = [s.bottleneck_state for c in replay.connections() for s in c.subflows]
    assert (states.count("shared"), states.count("not_judged")) == (64, 6)
    assert states[69] == "shared"
