"""Max-min fair shares, computed by hand."""

from __future__ import annotations

import math

import pytest

from rewindow.findings.fair_shares import MEMBERS_MAX, Usage, fair_shares, max_min

S = 10**9
MBIT = 125_000
"""Bytes."""


def usage(first_s: float, last_s: float, mbit: float, limited: bool = True) -> Usage:
    return Usage(int(first_s * S), int(last_s * S), int(mbit * MBIT), limited)


def ratios(*members: Usage) -> list[float | None]:
    _, shares = fair_shares(members)
    return [None if s is None else pytest.approx(s.ratio) for s in shares]


@pytest.mark.parametrize(
    ("capacity", "demands", "rates"),
    [
        (10, [math.inf, math.inf], [5, 5]),
        (10, [2, math.inf, math.inf], [2, 4, 4]),
        (10, [2, 3, 20], [2, 3, 5]),
        (10, [20, 3, 2.6, 4], [2.5 + 0.0, 2.5, 2.5, 2.5]),
        (12, [20, 2.6, 4, 2], [3.7, 2.6, 3.7, 2]),
        (10, [1, 2], [1, 2]),
    ],
)
def test_max_min(capacity: float, demands: list[float], rates: list[float]) -> None:
    assert max_min(capacity, demands) == pytest.approx(rates)


def test_one_takes_from_the_other() -> None:
    capacity, shares = fair_shares([usage(0, 10, 75), usage(0, 10, 25)])
    assert capacity == pytest.approx(10e6)
    assert [(s.goodput_bps, s.fair_bps, s.ratio, s.shared_s) for s in shares if s] == [
        pytest.approx((7.5e6, 5e6, 1.5, 10)),
        pytest.approx((2.5e6, 5e6, 0.5, 10)),
    ]


def test_what_is_sent_alone_does_not_count() -> None:
    """The first has 10 Mbit/s for ten seconds, then half of it for ten: nobody took anything."""
    capacity, shares = fair_shares([usage(0, 20, 150), usage(10, 20, 50)])
    assert capacity == pytest.approx(10e6)
    assert [(s.goodput_bps, s.ratio, s.shared_s) for s in shares if s] == [pytest.approx((5e6, 1, 10))] * 2


def test_a_member_of_little_demand_gets_its_demand() -> None:
    capacity, shares = fair_shares([usage(0, 10, 20, limited=False), usage(0, 10, 50), usage(0, 10, 30)])
    assert capacity == pytest.approx(10e6)
    assert [(s.limited_by, s.fair_bps, s.ratio) for s in shares if s] == [
        ("demand", pytest.approx(2e6), pytest.approx(1)),
        ("network", pytest.approx(4e6), pytest.approx(1.25)),
        ("network", pytest.approx(4e6), pytest.approx(0.75)),
    ]


def test_demand_beside_an_idle_bottleneck_is_no_capacity() -> None:
    """The first lives ten seconds before the second, which fills what the first leaves of 10 Mbit/s."""
    capacity, shares = fair_shares([usage(0, 20, 40, limited=False), usage(10, 20, 80)])
    assert capacity == pytest.approx(10e6)
    assert [s.ratio for s in shares if s] == pytest.approx([1, 1])
    assert [s.shared_s for s in shares if s] == [10, 10]


def test_without_a_full_bottleneck_nothing_is_known() -> None:
    members = [usage(0, 10, 75, limited=False), usage(0, 10, 25, limited=False)]
    assert fair_shares(members) == (None, [None, None])


def test_without_a_time_in_common_there_is_no_share() -> None:
    assert ratios(usage(0, 10, 75), usage(10, 20, 25)) == [None, None]


def test_an_estimate_that_leaves_nothing_is_no_share() -> None:
    """25 Mbit in ten seconds alone, where the capacity is 10 Mbit/s: the second could not have shared."""
    (first, second) = ratios(usage(0, 11, 25), usage(10, 20, 175))
    assert first is None
    assert second is not None


def test_large_groups_and_lives_without_duration_have_no_shares() -> None:
    many = [usage(0, 10, 1)] * (MEMBERS_MAX + 1)
    assert fair_shares(many) == (None, [None] * len(many))
    assert fair_shares(many[1:])[0] is not None
    assert fair_shares([usage(0, 10, 1), usage(5, 5, 1)]) == (None, [None, None])
