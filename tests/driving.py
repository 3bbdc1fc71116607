"""Drives `rewindow.Controller` together with an oracle: states over the whole range, every event, the tolerances.

Windows 1 to 2^20 segments, RTTs 50 us to 10 s, 1 to 8 subflows. Registry and oracle define the state and events that a
controller takes; this module knows no controller by its name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

import rewindow
from rewindow import Controller
from tests.oracles import Oracle
from tests.oracles.linux import KernelPath, KernelReno

RELATIVE = Fraction(1, 2000)
"""Tolerance relative to the change: a step, or a decrease."""
ABSOLUTE = Fraction(1, 16384)
"""Tolerance in segments: four units of Q16."""

ALGORITHMS = {a.name: a for a in rewindow.algorithms()}

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
waits = st.sampled_from([0, 1, 10, 100, 1000, 100_000]).map(lambda ms: Fraction(ms, 1000))


def uses_sets(name: str) -> bool:
    return name in ALGORITHMS and ALGORITHMS[name].detector is not None


@st.composite
def word_values(draw: st.DrawFn, least: int, most: int, bits: int) -> Fraction:
    """Values of every size between the bounds, and the bounds."""
    low, high = least << bits, most << bits
    top = draw(st.integers(0, (high - low).bit_length()))
    return Fraction(min(low + draw(st.sampled_from([0, draw(st.integers(0, 1 << top)), high - low])), high), 1 << bits)


@st.composite
def path_lists(
    draw: st.DrawFn, phase: str = "any", least: int = 1, most: int = 8, of: type[Oracle] = Oracle,
    name: str | None = None, recoveries: bool = False,
) -> list[Any]:  # fmt: skip
    """Also identical paths, paths without a sample, and paths in slow start. phase: avoidance has none of these; start
    is the initial slow start of small windows. With the words that the oracle `of` says can be given, in the form that
    the controller `name` keeps them."""
    same, start = draw(st.booleans()), phase == "start"
    no_samples = draw(st.sampled_from([False, False, False, True]))
    cwnd, rtt = draw(small_windows if start else windows), draw(rtts)
    known = Controller(name, mode="paper").words if name else {}
    given = {w: word for w, word in of.words.items() if word.is_given and w in known}
    of_sets = {word.attribute for w, word in given.items() if known[w].of_set}

    def values() -> dict[str, Any]:
        drawn = {}
        for w, word in given.items():
            value = draw(word_values(word.least, word.most, known[w].bits))
            drawn[word.attribute] = value if known[w].bits else int(value)
        return drawn

    alike = values()
    paths = []
    for _ in range(draw(st.integers(least, most))):
        words = alike if same else values()
        w = cwnd if same else draw(small_windows if start else windows)
        p = of.path_class(w, rtt if same else draw(rtts), None if start else Fraction(1), draw(small_windows))
        if phase == "any":
            p.ssthresh = draw(st.sampled_from([None, Fraction(1), p.cwnd + 1, p.cwnd + Fraction(1, 2)]))
        if phase != "avoidance":
            p.rtt = None if no_samples else draw(st.sampled_from([p.rtt, p.rtt, p.rtt, None]))
            p.peak = draw(st.sampled_from([Fraction(0), p.peak]))
        p.recovering = recoveries and p.ssthresh is not None and draw(st.sampled_from([False, False, True]))
        if name is not None and uses_sets(name):
            p.group = draw(st.sampled_from([0, 1, 1, 1, 2]))
            p.group_state = draw(st.sampled_from(["", "", "", "monitor", "judgement", "final"]))
        for attribute, value in words.items():
            if attribute not in of_sets or p.group:
                setattr(p, attribute, value)
        paths.append(p)
    return paths


def any_paths(name: str, of: type[Oracle] = Oracle, most: int = 8) -> st.SearchStrategy[list[Any]]:
    """Paths in every phase, also in recovery; or no path, before the first join."""

    def phase(phase: str, least: int = 1) -> st.SearchStrategy[list[Any]]:
        return path_lists(phase, least=least, most=most, of=of, name=name, recoveries=True)

    return phase("any") | phase("avoidance") | phase("start", 0)


def as_given(name: str, p: Any) -> dict[str, Any]:
    """The path as `Controller` takes it: the contract's fields, and the words that its oracle has."""
    entry: dict[str, Any] = {"cwnd": float(p.cwnd)}
    if isinstance(p, KernelPath):
        entry["cwnd_cnt"] = p.cnt
    else:
        entry["max_packets_out"] = float(p.peak)
    if p.rtt is not None:
        entry["rtt"] = float(p.rtt)
    if p.ssthresh is not None:
        entry["ssthresh"] = float(p.ssthresh)
    if p.recovering:
        entry["recovering"] = True
    if uses_sets(name) and p.group:
        entry["set"] = p.group
    if uses_sets(name) and getattr(p, "group_state", ""):
        entry["set_state"] = p.group_state
    return entry


def words_given(controller: Controller, oracle: type[Any], p: Any) -> dict[str, Any]:
    given = {}
    for name, word in oracle.words.items():
        known = controller.words.get(name)
        if word.is_given and known and (not known.of_set or p.group):
            given[name] = float(getattr(p, word.attribute)) if known.bits else getattr(p, word.attribute)
    return given


def drive(name: str, paths: Sequence[Any], oracle: type[Any] | None = None, **named: object) -> Controller:
    """oracle: the oracle whose words the paths are given; without it they are given none."""
    words: list[dict[str, Any]] = [{} for _ in paths]
    if oracle is not None:
        empty = Controller(name, mode=named.get("mode", "paper"))
        words = [words_given(empty, oracle, p) for p in paths]
    entries = [as_given(name, p) | w for p, w in zip(paths, words, strict=True)]
    return Controller(name, paths=entries, **named)  # type: ignore[arg-type]


def close(what: str, got: float, expected: Fraction, change: Fraction, slack: Fraction = Fraction(0)) -> None:
    """what: of the path. slack: the size of an algorithm's terms before they cancel each other."""
    bound = ABSOLUTE + RELATIVE * (abs(change) + slack)
    wrong = f"{what} is {got}, not {float(expected)} (tolerance {float(bound):.2g})"
    assert abs(Fraction(got) - expected) <= bound, wrong


KINDS = [*["ack"] * 6, "withheld", "kept", "loss", "ece", "timeout", "undo", "idle", "resume", "join", "leave"]
"""Events of a connection. withheld, kept: ACKs at which the window may not grow."""


@dataclass
class Event:
    kind: str
    path: int = 0
    acked: int = 1
    marked: int = 0
    joins: Any = None
    rtt: Fraction | None = None
    newest: Fraction | None = None
    wait: Fraction = Fraction(0)
    """Seconds since the event before."""
    sets: dict[int, int] = field(default_factory=dict)
    state: str = ""


@dataclass
class Clock:
    now: Fraction = Fraction(1)


def kinds_of(name: str) -> list[str]:
    return [*KINDS, *["verdict"] * 2] if uses_sets(name) else KINDS


@dataclass
class Course:
    """The mix of events in a history: all kinds equally often, or a transfer that is seldom disturbed; with ACKs at any
    time, or at one pace, as a measurement of delays needs them."""

    kinds: Sequence[str]
    waits: st.SearchStrategy[Fraction]


def courses(kinds: Sequence[str]) -> st.SearchStrategy[Course]:
    calm = [*["ack"] * (4 * len(kinds)), *kinds]
    paces = [waits, *(st.just(Fraction(us, 10**6)) for us in (200, 1000, 1000, 20_000))]
    return st.builds(Course, st.sampled_from([kinds, calm]), st.sampled_from(paces))


class Model(Oracle):
    """Decides which events are possible for a controller whose windows are not compared; its windows do not grow."""

    def grow(self, r: int, acked: int) -> None: ...


@st.composite
def events_on(draw: st.DrawFn, oracle: Any, course: Course) -> Event:
    """An event that is possible now."""
    live = [r for r, p in enumerate(oracle.paths) if p.live]
    places = {
        "ack": [r for r in live if not oracle.paths[r].recovering],
        "withheld": [r for r in live if not oracle.paths[r].recovering],
        "undo": [r for r in live if r in oracle.prior],
        "join": [0] if len(live) < 8 else [],
    }
    kind = draw(st.sampled_from([k for k in course.kinds if places.get(k, live)]))
    event = Event(kind, draw(st.sampled_from(places.get(kind, live))), wait=draw(course.waits))
    if kind in ("ack", "withheld", "kept"):
        window = min(int(oracle.paths[event.path].cwnd) + 1, 1 << 20)
        event.acked = draw(acks | st.integers(0, 3) | st.just(window))  # a whole round trip, or a part of it
        event.marked = draw(st.sampled_from([0, 0, event.acked // 2, event.acked]))
        usual = oracle.paths[event.path].rtt or draw(rtts)
        sample = draw(st.sampled_from(["none", "none", "ratio", "queue", "queue", "newest"]))
        if sample == "ratio":
            event.rtt = bounded(usual * draw(st.sampled_from([*map(Fraction, ("1/2", "1", "9/8", "2"))])))
        elif sample == "queue":
            event.rtt = bounded(usual * (1 + Fraction(draw(st.integers(0, 300)), 400)))
        if sample == "newest":
            event.newest = bounded(usual)
        elif event.rtt is not None:
            event.newest = draw(st.sampled_from([event.rtt, event.rtt, bounded(event.rtt / 2), None]))
    elif kind == "join":
        slow = draw(st.sampled_from([Fraction(1, 20), Fraction(1, 10), None]))
        threshold = draw(st.sampled_from([None, None, 20]))
        if isinstance(oracle, KernelReno):
            event.joins = oracle.path_class(10, int(slow * 10**6) if slow else 0, threshold)
        else:
            event.joins = oracle.path_class(Fraction(10), slow, None if threshold is None else Fraction(threshold))
    elif kind == "verdict":
        event.sets = {r: draw(st.sampled_from([0, 1, 1, 2])) for r in live if draw(st.booleans())}
        event.state = draw(st.sampled_from(["final", "final", "judgement", "monitor"]))
    return event


def bounded(rtt: Fraction) -> Fraction:
    """The value limited to the range, in whole nanoseconds."""
    return Fraction(min(max(int(rtt * 10**9), 50_000), 10**10), 10**9)


def events(*kinds: str) -> st.SearchStrategy[Event]:
    """Events on any path, whether it exists or not."""
    return st.builds(Event, st.sampled_from(kinds), st.integers(0, 7), acks)


def apply(target: Any, name: str, event: Event, clock: Clock | None = None) -> Any:
    """Applies an event to a Controller or an oracle, which have the same methods. clock: without it no time is
    given."""
    by_hand = isinstance(target, Controller)

    def seconds(t: Fraction | None) -> Any:
        return t if t is None or not by_hand else float(t)

    now = clock.now + event.wait if clock else None
    match event.kind:
        case "ack" | "withheld" | "kept":
            named = {
                "rtt": seconds(event.rtt),
                "growth": {"ack": "allowed", "kept": "none"}.get(event.kind, event.kind),
            }
            if by_hand:
                named |= {"rtt_newest": 0.0 if event.newest is None else seconds(event.newest), "time": seconds(now)}
            else:
                named |= {"newest": event.newest, "now": now or Fraction(0)}
            return target.ack(event.path, event.acked, marked=event.marked, **named)
        case "idle":
            return target.idle(event.path, seconds(event.wait), seconds(now or Fraction(0)))
        case "join":
            p = type(event.joins)(**fields_of(event.joins))
            return target.join(as_given(name, p) if by_hand else p)
        case "verdict":
            return target.verdict(event.sets, event.state)
    return getattr(target, event.kind)(event.path)


def fields_of(p: Any) -> dict[str, Any]:
    """The fields that make an equal path."""
    if isinstance(p, KernelPath):
        return {"cwnd": p.cwnd, "rtt_us": p.rtt_us, "ssthresh": p.ssthresh}
    return {"cwnd": p.cwnd, "rtt": p.rtt, "ssthresh": p.ssthresh}


def decided(oracle: Any) -> None:
    """Discards a history in which rounding made a decision, because the two may differ from there on."""
    assume(not oracle.undecided)


def compare(controller: Controller, oracle: Oracle, before: list[Fraction], event: Event) -> None:
    """Compares every live path and its words. Then the oracle takes over the controller's values, so that errors do not
    add up."""
    for i, expected in enumerate(oracle.paths):
        if not expected.live:
            continue
        got = controller.paths[i]
        was = before[i] if i < len(before) else expected.cwnd
        slack = event.acked / was if event.kind == "ack" and i == event.path else Fraction(0)
        is_unset = expected.ssthresh is None
        try:
            close("cwnd", got.cwnd, expected.cwnd, expected.cwnd - was, slack)
            assert math.isinf(got.ssthresh) is is_unset, f"ssthresh is {got.ssthresh}, not {expected.ssthresh}"
            if expected.ssthresh is not None:
                close("ssthresh", got.ssthresh, expected.ssthresh, expected.ssthresh - was)
        except AssertionError as wrong:
            raise AssertionError(f"{wrong}, on path {i} after {event}; {oracle}, {controller.state}") from None
        expected.cwnd = Fraction(got.cwnd)
        if expected.ssthresh is not None:
            expected.ssthresh = Fraction(got.ssthresh)
        same_fields(got, expected, event)
    same_words(controller, oracle, event)


def equal(controller: Controller, oracle: KernelReno, before: list[Fraction], event: Event) -> None:
    """Compares windows, thresholds and counters exactly."""
    for i, p in enumerate(oracle.paths):
        if not p.live:
            continue
        got = controller.paths[i]
        expected = (p.cwnd, math.inf if p.ssthresh is None else p.ssthresh, p.cnt)
        assert (got.cwnd, got.ssthresh, got.cwnd_cnt) == expected, (i, event, oracle)
        same_fields(got, p, event)
    same_words(controller, oracle, event)


def same_fields(got: Any, expected: Any, event: Event) -> None:
    """Compares the contract's fields, which the caller keeps."""
    rtt = None if expected.rtt is None else int(expected.rtt * 10**9)
    assert (None if got.rtt is None else round(got.rtt * 1e9)) == rtt, event
    assert got.recovering is expected.recovering, event
    assert (got.set or 0) == expected.group, event


def same_words(controller: Controller, oracle: Any, event: Event) -> None:
    state = controller.state
    live = [p for p in oracle.paths if p.live]
    for name, word in oracle.words.items():
        if name in controller.words:
            for p, got in zip(live, state[name], strict=True):
                same_word(name, word, p, got, event)
    for name, word in oracle.connection_words.items():
        same_word(name, word, oracle, state[name], event)


def same_word(name: str, word: Any, owner: Any, got: float, event: Event) -> None:
    expected = getattr(owner, word.attribute)
    assert abs(Fraction(got) - expected) <= word.tolerance, f"{name} is {got}, not {float(expected)}, after {event}"
    if word.tolerance:
        setattr(owner, word.attribute, Fraction(got))


def settings_of(name: str, oracle: type[Any]) -> st.SearchStrategy[dict[str, str]]:
    """The oracle's options, each with any of the values that it knows."""
    there = {o.name for o in ALGORITHMS[name].options} & set(oracle.settings)
    return st.fixed_dictionaries({o: st.sampled_from(sorted(oracle.settings[o].values)) for o in sorted(there)})


def made(oracle: type[Any], options: dict[str, str], paths: list[Any]) -> Any:
    named = {oracle.settings[option].attribute: oracle.settings[option].values[v] for option, v in options.items()}
    return oracle(paths, **named)


def history(
    data: st.DataObject, name: str, oracle_class: type[Any], paths: list[Any], mode: str, most: int = 25,
    kinds: Sequence[str] | None = None,
) -> Counter[str]:  # fmt: skip
    """Any order of events, with any of the oracle's options, compared after each. Returns how often each kind came."""
    options = data.draw(settings_of(name, oracle_class), label="options")
    course = data.draw(courses(kinds or kinds_of(name)), label="course")
    named: dict[str, Any] = options | ({"detector": "none"} if uses_sets(name) else {})  # time passes, sets are given
    controller = drive(name, paths, oracle_class, mode=mode, **named)
    oracle, clock, counts = made(oracle_class, options, paths), Clock(), Counter[str]()
    check = equal if isinstance(oracle, KernelReno) else compare
    for _ in range(data.draw(st.integers(0, data.draw(st.sampled_from([3, most]))))):
        event = data.draw(events_on(oracle, course), label="event")
        before = [Fraction(p.cwnd) for p in oracle.paths]
        expected = apply(oracle, name, event, clock)
        got = apply(controller, name, event, clock)
        clock.now += event.wait
        decided(oracle)
        if event.kind == "resume":
            assert got is expected
        check(controller, oracle, before, event)  # type: ignore[arg-type]
        counts[event.kind] += 1
    return counts


@st.composite
def kernel_paths(draw: st.DrawFn, oracle: type[KernelReno], name: str) -> list[Any]:
    """Whole windows, whole microseconds."""
    paths = []
    for p in draw(any_paths(name)):
        ssthresh = None if p.ssthresh is None else int(p.ssthresh)
        rtt_us = 0 if p.rtt is None else int(p.rtt * 10**6)
        credit = draw(st.sampled_from([0, 0, int(p.cwnd) - 1]))
        paths.append(oracle.path_class(int(p.cwnd), rtt_us, ssthresh, credit, p.recovering))
    return paths
