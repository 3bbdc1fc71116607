"""Every controller against its oracle, and what holds of all of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import rewindow
from kernel.loaded import REPLAYS_OPTIONS
from rewindow import Algorithm, Controller
from rewindow.controllers.registry import detector_numbers, option_numbers
from rewindow.core import Choice
from tests.driving import (
    ALGORITHMS,
    KINDS,
    Clock,
    Event,
    Model,
    acks,
    any_paths,
    apply,
    compare,
    courses,
    decided,
    drive,
    events_on,
    history,
    kernel_paths,
    kinds_of,
    path_lists,
    rtts,
    uses_sets,
    windows,
)  # fmt: skip
from tests.oracles import KERNEL, OTHER, PAPER, Oracle, Path
from tests.oracles.linux import KernelPath, KernelReno
from tests.outcomes import missed, recorded

MULTIPATH = [a.name for a in ALGORITHMS.values() if a.kind == "multipath"]
IN_PAPER_MODE = [name for name in ALGORITHMS if name in PAPER]
IN_KERNEL_MODE = [name for name in ALGORITHMS if name in KERNEL]
IN_ITS_MODES = [(n, "paper") for n in IN_PAPER_MODE] + [(n, "kernel") for n in IN_KERNEL_MODE]
EXAMPLES, ROUNDS = 20, 500
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_has_an_oracle(name: str) -> None:
    assert name in PAPER or name in KERNEL or name in OTHER, (
        f"{name} has no oracle: write its formula over exact rationals in tests/oracles/ and list it in __init__.py"
    )


@pytest.mark.parametrize("name", sorted({*PAPER, *KERNEL, *OTHER}))
def test_no_oracle_is_left_over(name: str) -> None:
    assert name in ALGORITHMS


@pytest.mark.parametrize(("name", "mode"), IN_ITS_MODES)
def test_an_oracle_has_the_words_and_options_of_its_controller(name: str, mode: str) -> None:
    """What a controller keeps of a path is compared with its oracle, or told to be no more than a result."""
    oracle = PAPER[name] if mode == "paper" else KERNEL[name]
    words = Controller(name, mode=mode).words
    of_path = {word for word, known in words.items() if known.of_path}
    misplaced = (set(oracle.words) & set(words)) - of_path
    assert not misplaced, f"the C file keeps {misplaced} of the connection, the oracle of each path"
    unknown = of_path - set(oracle.words) - oracle.results
    assert not unknown, f"add {unknown} to `words` of the oracle of {name}, or to `results` if nothing depends on it"
    options = {o.name: o for o in ALGORITHMS[name].options}
    fresh = oracle()
    for option, setting in oracle.settings.items():
        if option in options:
            default = setting.values[options[option].default]
            assert getattr(fresh, setting.attribute) == default, (
                f"{option}: the registry's default is the oracle's, too"
            )


@pytest.mark.parametrize("name", IN_PAPER_MODE)
@settings(max_examples=75, deadline=None)
@given(data=st.data(), acked=acks)
def test_increase(name: str, data: st.DataObject, acked: int) -> None:
    """A step of congestion avoidance, from any state."""
    paths = data.draw(path_lists("avoidance", of=PAPER[name], name=name))
    step(name, paths, Event("ack", data.draw(st.integers(0, len(paths) - 1)), acked))


@pytest.mark.parametrize("kind", ["loss", "ece", "timeout"])
@pytest.mark.parametrize("name", IN_PAPER_MODE)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_decrease(name: str, kind: str, data: st.DataObject) -> None:
    """Of a loss, an ECN echo, a timeout, from any state."""
    paths = data.draw(path_lists("avoidance", of=PAPER[name], name=name, recoveries=True))
    event = Event(kind, data.draw(st.integers(0, len(paths) - 1)))
    controller = step(name, paths, event)
    if kind == "timeout":
        assert controller.paths[event.path].cwnd == 1.0


def step(name: str, paths: list[Any], event: Event) -> Controller:
    controller, oracle = drive(name, paths, PAPER[name], mode="paper"), PAPER[name](paths)
    before = [p.cwnd for p in paths]
    apply(oracle, name, event)
    apply(controller, name, event)
    decided(oracle)
    compare(controller, oracle, before, event)
    return controller


def drawn_paths(name: str, mode: str) -> st.SearchStrategy[list[Any]]:
    if mode == "kernel":
        return kernel_paths(KERNEL[name], name)
    return any_paths(name, PAPER[name])


def oracle_of(name: str, mode: str) -> type[Any]:
    return PAPER[name] if mode == "paper" else KERNEL[name]


@pytest.mark.parametrize(("name", "mode"), IN_ITS_MODES)
@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_any_order_of_events(name: str, mode: str, data: st.DataObject) -> None:
    """Slow starts, recoveries, joins, sets, samples, undone losses in between; compared at every event."""
    history(data, name, oracle_of(name, mode), data.draw(drawn_paths(name, mode)), mode)


@pytest.mark.parametrize(("name", "mode"), IN_ITS_MODES)
def test_the_comparison_reaches_every_event_and_outcome(name: str, mode: str) -> None:
    """In some history each kind of event comes, and each decision in the oracle's own class goes each way. What is
    never decided otherwise is not compared. What one round of histories reaches is chance: rounds follow until all is
    reached."""
    counts: Counter[str] = Counter()
    oracle = oracle_of(name, mode)
    shared = (Oracle, Path, KernelReno, KernelPath)
    own = {(c.__module__, c.__name__) for c in (oracle, oracle.path_class) if c not in shared}

    @settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=SLOW)
    @given(data=st.data())
    def histories(data: st.DataObject) -> None:
        counts.update(history(data, name, oracle, data.draw(drawn_paths(name, mode)), mode))

    with recorded() as seen:
        for number in range(ROUNDS):
            seed(number)(histories)()
            never = set(kinds_of(name)) - set(counts)
            one_sided = [
                f"{d.function}, line {d.line}: {d.text}"
                for d in missed(seen, own)
                if not {d.text, d.function} & set(oracle.decided_elsewhere)
            ]
            if not never and not one_sided:
                return
    assert not never
    assert not one_sided, "\n".join(one_sided)


def observed(
    name: str, mode: str, options: dict[str, str], paths: list[Any], happens: list[Event], without: str | None
) -> list[Any]:
    """All that a controller shows of itself in this history."""
    controller, clock = drive(name, paths, without=without, mode=mode, **options), Clock()
    seen: list[Any] = [controller.tick]
    for event in happens:
        seen.append(apply(controller, name, event, clock))
        clock.now += event.wait
        if event.path in controller.live:
            p = controller.paths[event.path]
            seen.append((p.cwnd, p.ssthresh, p.cwnd_cnt, p.phase))
    return [*seen, controller.state]


def registry_options(name: str) -> st.SearchStrategy[dict[str, str]]:
    """Any choice of the registry, for each option that is one."""
    choices = {
        o.name: o.values.split("|") for o in ALGORITHMS[name].options if "|" in o.values and o.name != "detector"
    }
    drawn = st.fixed_dictionaries({k: st.sampled_from(v) for k, v in choices.items() if k != "mode"})
    return drawn.map(lambda d: d | {"detector": "none"}) if uses_sets(name) else drawn


REQUIRED = {"ack", "loss", "rate", "model"}
SHOWN_ELSEWHERE = {
    "cubic": {
        "resume": "test_hystart_that_hangs_on_the_clocks_is_overruled_by_the_flight",
        "withheld": "test_a_cubic_window_one_above_the_flight_keeps_its_curve",
    },
    "bbr": {"versions": "test_versions_of_bbr_are_told_apart"},
    "bbr3": {
        "versions": "test_versions_of_bbr_are_told_apart",
        "begin": "test_is_its_draft",
        "rtt": "test_is_its_draft",
        "phase": "test_is_its_draft",
        "lost": "test_too_many_losses_while_probing_bound_the_flight_and_end_the_probe",
        "ece": "test_a_mark_is_congestion",
        "timeout": "test_the_window_before_a_recovery_is_restored_after_it",
        "undo": "test_a_spurious_recovery_gives_bounds_back_and_probes_again",
        "idle": "test_a_restart_from_idle_paces_at_the_bandwidth_and_needs_no_probe_of_the_round_trip",
    },
}
"""Callbacks that nothing driven here shows: the test of another file that shows them."""


class AllMatter(Exception):
    """Nothing is left to look for."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_callback_matters_to_what_is_driven(name: str) -> None:
    """Without it, some history of those that are drawn comes out otherwise: it is called, and what it does is seen."""
    left = set(ALGORITHMS[name].callbacks) - REQUIRED - set(SHOWN_ELSEWHERE.get(name, {}))

    @settings(max_examples=10_000, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
              suppress_health_check=SLOW)  # fmt: skip
    @given(data=st.data())
    def search(data: st.DataObject) -> None:
        mode, options = data.draw(st.sampled_from(["paper", "kernel"])), data.draw(registry_options(name))
        paths = [whole(p) for p in data.draw(any_paths(name, most=2))]
        course = data.draw(courses(kinds_of(name)))
        happens, model, clock = [], Model(paths_of(paths)), Clock()
        for _ in range(data.draw(st.integers(5, 40))):
            happens.append(data.draw(events_on(model, course)))
            apply(model, name, happens[-1], clock)
            clock.now += happens[-1].wait
        came = {event.kind for event in happens}
        called = [c for c in left if c not in KINDS or c in came]
        if called:
            whole_one = observed(name, mode, options, paths, happens, None)
            left.difference_update([c for c in called if observed(name, mode, options, paths, happens, c) != whole_one])
        if not left:
            raise AllMatter

    with contextlib.suppress(AllMatter):
        search()
    assert not left, f"{left} of {name} can be left out, and nothing that tests/driving.py draws shows it"


def paths_of(paths: list[Path]) -> list[Path]:
    return [Path(p.cwnd, p.rtt, p.ssthresh, p.peak, p.group, p.group_state, p.recovering) for p in paths]


def whole(p: Any) -> Path:
    ssthresh = None if p.ssthresh is None else Fraction(int(p.ssthresh))
    return Path(Fraction(int(p.cwnd)), p.rtt, ssthresh, p.peak, p.group, p.group_state, p.recovering)


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_windows_have_bounds(name: str, mode: str, data: st.DataObject) -> None:
    """Between 1 and 2^20 segments; ssthresh never below the floor."""
    paths = data.draw(any_paths(name))
    paths = [whole(p) for p in paths] if mode == "kernel" else paths
    named: dict[str, Any] = {"detector": "none"} if uses_sets(name) else {}
    controller, model, clock = drive(name, paths, mode=mode, **named), Model(paths_of(paths)), Clock()
    course = data.draw(courses(kinds_of(name)))
    for _ in range(data.draw(st.integers(0, 40))):
        event = data.draw(events_on(model, course))
        apply(controller, name, event, clock)
        apply(model, name, event, clock)
        clock.now += event.wait
        for i, p in enumerate(model.paths):
            if not p.live:
                continue
            got = controller.paths[i]
            assert 1 <= got.cwnd <= 1 << 20
            assert got.ssthresh >= 1
            if mode == "kernel" and name in KERNEL:
                assert got.cwnd == int(got.cwnd)


NEVER_NEWRENO = {"wvegas": "it listens to delay; test_kernel_controllers.py says what it is alone"}
NEVER_FASTER_THAN_RENO = {"lia", "lisa", "css", "ewtcp", "coupled-full", "nmcc", "enmcc", "enmcc+", "sbcc", "dwc"}


@pytest.mark.parametrize("name", sorted(NEVER_FASTER_THAN_RENO & set(ALGORITHMS)))
@settings(max_examples=100, deadline=None)
@given(data=st.data(), acked=acks)
def test_no_step_is_longer_than_renos(name: str, data: st.DataObject, acked: int) -> None:
    """Bit by bit: not a unit of rounding above."""
    paths = data.draw(path_lists("avoidance", of=PAPER[name], name=name))
    for r in range(len(paths)):
        ours, reno = drive(name, paths, PAPER[name], mode="paper"), drive("newreno", [paths[r]], mode="paper")
        ours.ack(r, acked)
        reno.ack(0, acked)
        assert ours.paths[r].cwnd <= reno.paths[0].cwnd


@pytest.mark.parametrize("name", [name for name in MULTIPATH if name not in NEVER_NEWRENO])
@settings(max_examples=100, deadline=None)
@given(
    cwnd=windows, rtt=rtts, acked=acks,
    happens=st.lists(st.sampled_from(["ack", "ack", "ack", "loss", "ece", "timeout"]), max_size=30),
    begins=st.sampled_from(["alone", "others left"]),
)  # fmt: skip
def test_one_path_is_newreno(
    name: str, cwnd: Fraction, rtt: Fraction, acked: int, happens: list[str], begins: str
) -> None:
    """To the last bit, over any order of events; also when all others left."""
    given_path = Path(cwnd, rtt, Fraction(2), Fraction(10))
    paths = [given_path] if begins == "alone" else [given_path, Path(Fraction(30), Fraction(1, 20), Fraction(2))]
    ours = drive(name, paths, mode="paper", min_ssthresh=2)
    newreno = drive("newreno", [given_path], mode="paper")
    if begins == "others left":
        ours.leave(1)
    for kind in ["ack", *happens]:
        event = Event(kind, 0, acked)
        apply(ours, name, event)
        apply(newreno, name, event)
        assert (ours.paths[0].cwnd, ours.paths[0].ssthresh) == (newreno.paths[0].cwnd, newreno.paths[0].ssthresh)


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_a_place_is_used_again_from_scratch(name: str, mode: str, data: st.DataObject) -> None:
    """What a path that left has been through is not in the one that takes its place, nor in what that one does."""
    first, second = Path(Fraction(20), Fraction(1, 10), Fraction(2)), Path(Fraction(30), Fraction(1, 20), Fraction(2))
    named: dict[str, Any] = {"detector": "none"} if uses_sets(name) else {}
    used, fresh = (drive(name, [first, second], mode=mode, **named) for _ in range(2))
    course = data.draw(courses([kind for kind in KINDS if kind not in ("join", "leave")]))
    model, clock = Model(paths_of([first, second])), Clock()
    model.paths[0].live = False  # events are the second's alone
    for _ in range(data.draw(st.integers(1, 20))):
        event = data.draw(events_on(model, course))
        apply(used, name, event, clock)
        apply(model, name, event, clock)
        clock.now += event.wait
    for c in (used, fresh):
        c.leave(1)
        c.join({"cwnd": 10.0, "rtt": 0.05})
    model.leave(1)
    model.join(Path(Fraction(10), Fraction(1, 20)))

    def told(c: Controller) -> list[Any]:
        words = {k: v[1] for k, v in c.state.items() if isinstance(v, list)}
        return [words, c.paths[2].cwnd, c.paths[2].ssthresh, c.paths[2].phase]

    assert told(used) == told(fresh)
    for _ in range(data.draw(st.integers(0, 20))):
        event = data.draw(events_on(model, course))
        for c in (used, fresh, model):
            apply(c, name, event, clock)
        clock.now += event.wait
        assert told(used) == told(fresh), event


WINDOW_BASED = [a.name for a in ALGORITHMS.values() if "rate" not in a.callbacks]
SINGLE_PATH = [a.name for a in ALGORITHMS.values() if a.kind != "multipath"]


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", WINDOW_BASED)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_timeout_lowers_the_threshold(name: str, mode: str, data: st.DataObject) -> None:
    """RFC 5681 halves it; none of these leaves more than nine tenths of the window."""
    paths = [whole(p) for p in data.draw(path_lists("avoidance", of=PAPER.get(name, Oracle), name=name))]
    named: dict[str, Any] = {"detector": "none"} if uses_sets(name) else {}
    controller = drive(name, paths, mode=mode, **named)
    at = data.draw(st.integers(0, len(paths) - 1))
    before = controller.paths[at].cwnd
    controller.timeout(at)
    assert controller.paths[at].ssthresh <= max(2, 0.9 * before)


@pytest.mark.parametrize("mode", ["paper", "kernel"])
@pytest.mark.parametrize("name", SINGLE_PATH)
@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_a_path_of_a_single_path_algorithm_is_alone(name: str, mode: str, data: st.DataObject) -> None:
    """To the last bit: what happens on another one changes nothing of it, whichever of the two came first."""
    paths = [whole(p) for p in data.draw(path_lists("avoidance", least=2, most=2))]
    beside, alone = drive(name, paths, mode=mode), [drive(name, [p], mode=mode) for p in paths]
    course = data.draw(courses([kind for kind in KINDS if kind not in ("join", "leave")]))
    model, clock = Model(paths_of(paths)), Clock()
    for _ in range(data.draw(st.integers(1, 30))):
        event = data.draw(events_on(model, course))
        for c in (beside, model):
            apply(c, name, event, clock)
        apply(alone[event.path], name, dataclasses.replace(event, path=0), clock)
        clock.now += event.wait
        for i, c in enumerate(alone):
            assert kept_of(beside, i) == kept_of(c, 0), event


def kept_of(controller: Controller, path: int) -> list[Any]:
    words = {k: v[path] for k, v in controller.state.items() if isinstance(v, list)}
    return [words, controller.paths[path].cwnd, controller.paths[path].ssthresh]


def test_options_and_names_are_checked() -> None:
    with pytest.raises(rewindow.UnknownAlgorithm, match="unknown algorithm 'nope'"):
        Controller("nope")
    with pytest.raises(rewindow.BadOption, match="has no option 'nope'"):
        Controller("tccc", nope=1)
    with pytest.raises(rewindow.BadOption, match=r"aca_md takes auto\|eq8\|half"):
        Controller("tccc", aca_md="never")
    for bad in ("-1", "1e3", "", "99999999999999999999", "nan", "2000000"):
        with pytest.raises(rewindow.BadOption):
            Controller("tccc", L=bad)
    with pytest.raises(rewindow.BadOption, match="at most 8 paths"):
        Controller("tccc", paths=[{"cwnd": 2.0, "rtt": 0.1}] * 9)
    with pytest.raises(rewindow.BadOption, match="cwnd must be"):
        Controller("tccc", paths=[{"cwnd": 0.5, "rtt": 0.1}])
    with pytest.raises(ValueError, match="a path has no"):
        Controller("tccc", paths=[{"cwnd": 2.0, "colour": 1}])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_option_is_described(name: str) -> None:
    options = ALGORITHMS[name].options
    assert options[0].name == "mode"
    for option in options:
        assert option.reason
        rewindow.Controller(name, **{option.name: option.default})
        if "|" in option.values:
            for value in option.values.split("|"):
                rewindow.Controller(name, **{option.name: value})


@pytest.mark.parametrize(
    ("described", "numbers"),
    [
        *((a, option_numbers) for a in rewindow.algorithms()),
        *((d, detector_numbers) for d in rewindow.detectors()),
    ],
    ids=lambda v: getattr(v, "name", ""),
)  # fmt: skip
def test_a_default_reads_as_the_number_that_it_is(
    described: Algorithm, numbers: Callable[[Choice], tuple[int, ...]]
) -> None:
    """Defaults are numbers in the core's tables; the text is made from them."""
    defaults = numbers(Choice(described.name))
    for option in described.options:
        if option.name not in REPLAYS_OPTIONS:
            assert numbers(Choice(described.name, {option.name: option.default})) == defaults, option
