"""Drives `rewindow.Controller` beside an oracle: states over the whole range, events, and the bounds.

Windows 1 to 2^20 segments, RTTs 50 us to 10 s, 1 to 8 subflows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from rewindow import Controller
from tests.oracles import Oracle, Path
from tests.oracles.slow_starts import Css, Lisa

RELATIVE = Fraction(1, 2000)
"""Of what changes: a step, or a decrease."""
ABSOLUTE = Fraction(1, 16384)
"""Segments: four units of Q16."""

COUPLES_SETS = {"sbcc", "dwc", "mptcp-sbd", "tccc+"}
COUNTS_BYTES = {"olia", "mptcp-sbd"}

windows = st.one_of(
    st.integers(1 << 16, 1 << 36).map(lambda q: Fraction(q, 1 << 16)),
    st.integers(1 << 16, 64 << 16).map(lambda q: Fraction(q, 1 << 16)),
    st.sampled_from([Fraction(1), Fraction(2), Fraction(10), Fraction(1 << 20)]),
)
small_windows = st.integers(1 << 16, 64 << 16).map(lambda q: Fraction(q, 1 << 16))
rtts = st.one_of(
    st.integers(50_000, 10_000_000_000).map(lambda ns: Fraction(ns, 10**9)),
    st.sampled_from([Fraction(50, 10**6), Fraction(20, 1000), Fraction(1, 10), Fraction(10)]),
)
acks = st.integers(1, 64)
lengths = st.sampled_from([0, 1460, 14600, 10**6, 10**9, 10**12])
"""Bytes between losses."""


@st.composite
def path_lists(draw: st.DrawFn, avoidance: bool | None = None, least: int = 1, most: int = 8) -> list[Path]:
    """Also identical paths, paths without a sample, and paths in slow start (avoidance: none of these)."""
    same = draw(st.booleans())
    cwnd, rtt, ell = draw(windows), draw(rtts), draw(lengths)
    paths = []
    for _ in range(draw(st.integers(least, most))):
        p = Path(cwnd if same else draw(windows), rtt if same else draw(rtts), Fraction(1), draw(small_windows))
        if avoidance is not True:
            p.ssthresh = draw(st.sampled_from([None, Fraction(1), p.cwnd + 1, p.cwnd + Fraction(1, 2)]))
            p.rtt = draw(st.sampled_from([p.rtt, p.rtt, p.rtt, None]))
            p.peak = draw(st.sampled_from([Fraction(0), p.peak]))
        p.interval_bytes = ell if same else draw(lengths)
        p.beta = draw(st.integers(0, 1 << 16).map(lambda q: Fraction(q, 1 << 16)))
        p.group = draw(st.sampled_from([0, 1, 1, 1, 2]))
        paths.append(p)
    return paths


def as_given(name: str, p: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"cwnd": float(p.cwnd), "max_packets_out": float(p.peak)}
    if p.rtt is not None:
        entry["rtt"] = float(p.rtt)
    if p.ssthresh is not None:
        entry["ssthresh"] = float(p.ssthresh)
    if name in COUPLES_SETS and p.group:
        entry["set"] = p.group
    if name in COUNTS_BYTES:
        entry["loss_interval_bytes"] = p.interval_bytes
    if name == "sbcc" and p.group:
        entry["beta"] = float(p.beta)
    return entry


def drive(name: str, paths: list[Path], **named: object) -> Controller:
    return Controller(name, paths=[as_given(name, p) for p in paths], **named)  # type: ignore[arg-type]


def close(got: float, expected: Fraction, change: Fraction, slack: Fraction = Fraction(0)) -> None:
    """slack: what an algorithm's terms come to before they cancel each other."""
    bound = ABSOLUTE + RELATIVE * (abs(change) + slack)
    assert abs(Fraction(got) - expected) <= bound, (got, float(expected), float(bound))


@dataclass
class Event:
    kind: str
    path: int = 0
    acked: int = 1
    marked: int = 0
    joins: Path | None = None


@st.composite
def events(draw: st.DrawFn, kinds: str = "aaaaaaletjx") -> Event:
    kind = draw(st.sampled_from(kinds))
    acked = draw(acks)
    event = Event(kind, draw(st.integers(0, 7)), acked, draw(st.sampled_from([0, 0, acked // 2, acked])))
    if kind == "j":
        event.joins = Path(Fraction(10), draw(st.sampled_from([Fraction(1, 20), Fraction(1, 10), None])))
    return event


def apply(target: Any, name: str, event: Event) -> None:
    """To a Controller or an oracle: the same names."""
    match event.kind:
        case "a":
            target.ack(event.path, event.acked, marked=event.marked)
        case "l":
            target.loss(event.path)
        case "e":
            target.ece(event.path)
        case "t":
            target.timeout(event.path)
        case "u":
            target.undo(event.path)
        case "x":
            target.leave(event.path)
        case "j":
            assert event.joins is not None
            p = event.joins
            fresh = Path(p.cwnd, p.rtt, p.ssthresh)
            target.join(as_given(name, fresh) if isinstance(target, Controller) else fresh)


def applicable(event: Event, paths: list[Path]) -> bool:
    """Also moves the event to a path that there is."""
    live = [i for i, p in enumerate(paths) if p.live]
    if event.kind == "j":
        return len(live) < 8 and len(paths) < 40
    if not live or (event.kind == "x" and len(live) == 1):
        return False
    event.path = live[event.path % len(live)]
    return True


def at_an_edge(oracle: Oracle, kind: str) -> bool:
    """Whether rounding decides a strict comparison at such an event, or which of two that are alike comes first."""
    if isinstance(oracle, Lisa) and kind == "j":
        rates = sorted(oracle.donor_rates())
        return len(rates) > 1 and abs(rates[-1] - rates[-2]) <= rates[-1] / 2**32
    if isinstance(oracle, Css) and oracle.initial_ss and any(p.counts for p in oracle.paths):
        # Of a subflow that grew by a ratio of RTTs, the window is rounded.
        at_threshold = any(
            p.ssthresh is not None and abs(p.cwnd - p.ssthresh) < Fraction(1, 1000) for p in oracle.initials()
        )
        return at_threshold or abs(oracle.rate_test() - oracle.con) < Fraction(1, 1000)
    return False


def compare(controller: Controller, oracle: Oracle, before: list[Fraction], event: Event) -> None:
    """Every live path; then the oracle goes on from the controller's own windows, so that no error adds up."""
    for i, expected in enumerate(oracle.paths):
        if not expected.live:
            continue
        got = controller.paths[i]
        was = before[i] if i < len(before) else expected.cwnd
        slack = event.acked / was if event.kind == "a" and i == event.path else Fraction(0)
        try:
            close(got.cwnd, expected.cwnd, expected.cwnd - was, slack)
        except AssertionError as wrong:
            raise AssertionError(f"{event} on {oracle} ({controller.state}): {wrong}") from None
        assert math.isinf(got.ssthresh) is (expected.ssthresh is None), (i, event)
        expected.cwnd = Fraction(got.cwnd)
        if expected.ssthresh is not None:
            close(got.ssthresh, expected.ssthresh, expected.ssthresh - was)
            expected.ssthresh = Fraction(got.ssthresh)
