from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rewindow
from rewindow import fairness_groups, jain_index
from rewindow.findings.fairness import FairnessTally, _Member, _overlapping

SAMPLE = Path(__file__).parent.parent / "captures" / "mptcp-two-subflows.pcap"


@given(st.lists(st.floats(0.001, 1e12), min_size=1, max_size=50))
def test_jain_lies_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain_index(values) <= 1 + 1e-9
    assert jain_index([values[0]] * len(values)) == pytest.approx(1.0)


def test_jain_of_known_shares() -> None:
    assert jain_index([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain_index([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)


def connections() -> list[rewindow.Connection]:
    with rewindow.open(SAMPLE) as capture, capture.stream(bottlenecks=True) as replay:
        replay.run()
        return replay.connections()


@pytest.mark.parametrize(("method", "name"), [("sbd", "detected: sbd #1"), ("interface", "interface 0.0")])
def test_flows_of_one_bottleneck_are_one_group(method: str, name: str) -> None:
    found = connections()
    (group,) = fairness_groups(found, method=method)
    assert (group.bottleneck, group.method, group.declared) == (name, method, False)
    assert group.members == [0, 1]
    tcp, mptcp = (c for c in found)
    rates = [tcp.subflows[0].goodput_bps, sum(s.goodput_bps or 0 for s in mptcp.subflows)]
    assert group.goodput_bps == rates
    assert group.mptcp_to_tcp_ratio == pytest.approx(rates[1] / rates[0])
    assert group.jain == pytest.approx(jain_index(rates))


def test_groups_are_in_the_order_of_the_numbers_in_their_names() -> None:
    tally = FairnessTally()
    for bottleneck in (10, 2, 1, 9):
        for connection in connections():
            for subflow in connection.subflows:
                subflow.bottleneck = bottleneck
            tally.add(connection)
    assert [g.bottleneck for g in tally.groups()] == [f"detected: sbd #{n}" for n in (1, 2, 9, 10)]


def test_declared_bottlenecks() -> None:
    found = connections()
    (group,) = fairness_groups(found, [["10.0.1.0/24", "10.0.11.1"]])
    assert group.declared
    assert (group.method, group.bottleneck) == ("declared", "declared 10.0.1.0/24, 10.0.11.1")
    assert group.goodput_bps[1] == found[1].subflows[0].goodput_bps  # the other subflow goes elsewhere
    both = fairness_groups(found, [["10.0.1.0/24", "10.0.11.1"], ["10.0.1.0/25", "10.0.11.1"]][::-1])
    assert [g.bottleneck for g in both] == ["declared 10.0.1.0/25, 10.0.11.1", "declared 10.0.1.0/24, 10.0.11.1"]
    assert fairness_groups(found, [["192.0.2.0/24"]]) == []
    with pytest.raises(ValueError, match="does not appear to be"):
        fairness_groups(found, [["nowhere"]])


def test_flows_that_were_not_compared_are_no_group() -> None:
    with rewindow.open(SAMPLE) as capture, capture.stream() as replay:
        replay.run()
        found = replay.connections()
    assert {s.bottleneck_state for c in found for s in c.subflows} == {"not_asked"}
    with pytest.raises(ValueError, match="bottlenecks=True"):
        fairness_groups(found)
    with pytest.raises(ValueError, match="none of sbd, interface"):
        fairness_groups(found, method="guess")


def test_the_tally_says_what_is_not_known() -> None:
    tally = rewindow.FairnessTally()
    (first, *_) = connections()[1:]
    for state in ("undecided", "not_judged", "alone"):
        first.subflows[0].bottleneck, first.subflows[0].bottleneck_state = None, state
        first.subflows[1:] = []
        tally.add(first)
    assert tally.groups() == []
    assert tally.bottlenecks() == {"method": "sbd", "undecided": 1, "not_judged": 1}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_overlaps_are_found_without_comparing_all(lives: list[tuple[int, int]]) -> None:
    members = {i: _Member("tcp", "good", start, start + length) for i, (start, length) in enumerate(lives)}
    expected = [
        i
        for i, a in members.items()
        if any(i != j and a.first_ns < b.last_ns and b.first_ns < a.last_ns for j, b in members.items())
    ]
    assert _overlapping(members) == expected
