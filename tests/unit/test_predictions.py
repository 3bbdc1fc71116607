"""How what-ifs are compared with real runs: the networks that are told apart, the tables, the fitted error model."""

import itertools
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rewindow
from bench import pair_runs, prediction_errors, predictions
from bench.pair_runs import Asked, Planted, Repeated, Results
from lab.pairs import ALL, JUDGED, TUNED
from lab.suite import text_of
from rewindow.core import Choice
from rewindow.scenarios import parse
from rewindow.whatif import WhatIf, errors, observe
from rewindow.whatif.errors import METRICS, Error

CAPTURE = Path(__file__).parent.parent / "captures" / "mptcp-two-subflows.pcap"
NONE: dict[str, float | None] = dict.fromkeys(METRICS)


def test_networks_of_pairs_can_be_run_and_are_told_apart() -> None:
    names = [p.network.name for p in ALL]
    assert len(set(names)) == len(names)
    assert len(JUDGED) >= 12
    assert all(not p.judged for p in TUNED)
    for each in ALL:
        assert len(each.algorithms) == 3
        for algorithm, network in zip(each.algorithms, each.networks(), strict=True):
            scenario = parse(text_of(network), network.name)
            found = pair_runs.NAME.fullmatch(f"{scenario.name}-1")
            assert found is not None
            assert (found["network"], found["algorithm"]) == (each.network.name, algorithm)
            assert (scenario.transfers[0].congestion_control or "").removeprefix("rw_") == algorithm
            assert (each.network.name in pair_runs.JUDGED_NAMES) == each.judged


def test_a_rivals_transfer_may_end_early() -> None:
    network = next(p.network for p in ALL if p.network.name == "tune-neighbours-14m")
    rival, late = parse(text_of(network), "x").transfers[1:]
    assert (rival.start_ns, rival.duration_ns) == (1_500_000_000, 2_500_000_000)
    assert (late.name, late.start_ns, late.duration_ns) == ("late", 5_500_000_000, 2_000_000_000)


# Intervals


PLAIN = Error(level=0.0, reach=3.0, follow=1.0, spread=0.0, fixed=0.1, change=0.0, off=0.0)
RUNS = np.zeros(9)


def test_a_predictions_median_follows_the_change_and_a_part_of_the_level() -> None:
    assert replace(PLAIN, level=0.5, follow=0.8).median(2.0, 1.0, 3.0) == pytest.approx(1.0 + 0.8 * 2 + 0.5 * 1)
    assert replace(PLAIN, level=0.5).median(None, 1.0, 3.0) == pytest.approx(3.0)
    near = replace(PLAIN, level=0.5, reach=0.4)
    assert [near.median(recorded, 1.0, 3.0) for recorded in (0.0, 1.2, 9.0)] == pytest.approx([2.8, 3.1, 3.2])


def test_an_interval_is_wider_where_more_changes_and_where_the_level_was_wrong() -> None:
    middle, low, high = PLAIN.interval(None, RUNS, RUNS + 1)
    assert (middle, low, high) == pytest.approx((1.0, 1 - 0.1645, 1 + 0.1645), abs=0.01)
    _, _, changed = replace(PLAIN, change=0.2).interval(None, RUNS, RUNS + 1)
    assert changed - middle == pytest.approx(1.645 * np.hypot(0.1, 0.2), abs=0.02)
    _, _, off = replace(PLAIN, off=0.5).interval(0.4, RUNS, RUNS + 1)
    assert off - middle == pytest.approx(1.645 * np.hypot(0.1, 0.2), abs=0.02)


def test_an_interval_keeps_the_shape_of_the_runs() -> None:
    two_worlds = np.array([0.0] * 8 + [3.0] * 2)
    _, low, high = replace(PLAIN, spread=1.0, fixed=0.01).interval(None, RUNS, two_worlds)
    assert low > -0.05
    assert high > 2.9


def test_the_stored_errors_have_all_metrics_and_their_origin() -> None:
    assert set(errors.stored()) == set(METRICS)
    text = Path(errors.__file__).with_name("errors.toml").read_text()
    named = text.splitlines()[1].split(": ")[1].rstrip(".").split(", ")
    assert set(named) >= {p.network.name for p in TUNED}
    assert not set(named) & {p.network.name for p in JUDGED}


# The tables


def asked(network: str, real: float, *, judged: bool = False, verdict: str = "ok", noise: float = 0.0) -> Asked:
    """What was recorded has 1 Mbit/s, simulations of it have as much, and of the other algorithm 2 Mbit/s."""
    before, after = ([float(np.log(mbps * 1e6))] * 8 for mbps in (1, 2))
    simulated = {"goodput_bps": (before, after)}
    recorded = NONE | {"goodput_bps": 1e6 * float(np.exp(noise))}
    return Asked(
        run=f"{network}-reno-1", network=network, judged=judged, algorithm="cubic", beside=False, byte_limited=False,
        verdict=verdict, reason=None if verdict == "ok" else "poor", recorded=recorded,
        predicted=errors.predicted(recorded, simulated, dict.fromkeys(METRICS, PLAIN)), simulated=simulated,
        real=[NONE | {"goodput_bps": real}],
    )  # fmt: skip


def results() -> Results:
    rows = [asked("a", 2e6), asked("b", 2.1e6), asked("c", 2e6, verdict="cannot_say"), asked("d", 1.9e6, judged=True)]
    repeated = [Repeated("a", False, NONE | {"goodput_bps": 1e6}, NONE | {"goodput_bps": 1.1e6})]
    return Results(rows, repeated, [], [Planted("a-reno-1", False, "one direction", "ok", None)])


def rows_of(lines: list[str], first: str) -> list[list[str]]:
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith(f"| {first}")]


def test_judged_networks_are_reported_apart_and_not_by_name() -> None:
    lines = list(predictions.report(results(), each_judged=False))
    assert [line for line in lines if line.startswith("###")] == [
        "### Tuned on: 3 networks, 3 what-ifs", "### Only judged on: 1 networks, 1 what-ifs",
    ]  # fmt: skip
    assert rows_of(lines, "a ")
    assert not rows_of(lines, "d ")
    assert rows_of(list(predictions.report(results(), each_judged=True)), "d ")


def test_goals_are_compared_with_what_was_reached() -> None:
    lines = list(predictions.report(results(), each_judged=False))
    tuned, judged = rows_of(lines, "goodput: mean error over")
    expected = np.mean([0, np.log(2.1 / 2)]) / np.mean([np.log(2), np.log(2.1)])
    assert tuned[1:] == ["0.5", f"{expected:.2f}", "met"]
    assert judged[2] == f"{np.log(2 / 1.9) / np.log(1.9):.2f}"
    assert rows_of(lines, "refusals")[0][2:] == ["1 of 3", "**missed**"]
    assert rows_of(lines, "captures that cannot be answered")[0][2:] == ["0 of 1", "**missed**"]
    assert rows_of(lines, "networks worse than")[0][2:] == ["0 of 2", "met"]
    floor = rows_of(lines, "goodput_bps")[0][4]
    assert floor == f"{np.log(1.1):.3f}"


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    results().write(tmp_path / "results.json")
    again = Results.read(tmp_path / "results.json")
    assert list(predictions.report(again, True)) == list(predictions.report(results(), True))


def test_the_error_model_is_fitted_to_tuned_networks() -> None:
    random = np.random.default_rng(3)
    rows = []
    for i, name in itertools.product(range(12), "abcde"):
        noise = float(random.normal(0, 0.3))
        real = 2e6 * float(np.exp(noise + random.normal(0, 0.05)))
        rows.append(asked(name, real, noise=noise, judged=i % 6 == 5))
    own = prediction_errors.cases(Results(rows).of(False), "goodput_bps")
    found = prediction_errors.fitted(own)
    assert len(own) == 50
    assert found.level == pytest.approx(1.0, abs=0.1)
    assert found.sd(14.0, 14.0, 14.7) == pytest.approx(0.05, abs=0.03)


# Captures that cannot be answered


def test_captures_without_the_answer_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "net-reno-1"
    folder.mkdir()
    (folder / "capture.pcap").symlink_to(CAPTURE)
    (run,) = pair_runs.runs_of(tmp_path, lambda network: network == "net")
    assert not run.judged
    found = list(pair_runs.planted(run, "cubic"))
    assert [p.how for p in found] == ["one direction", "a third is missing", "the first 25 packets"]
    assert {p.verdict for p in found} == {"cannot_say"}
    assert all(p.reason for p in found)


def test_a_capture_without_acknowledgements_is_refused(tmp_path: Path) -> None:
    data = CAPTURE.read_bytes()
    kept, at = [data[:24]], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        if data[at + 16 + 12 : at + 16 + 16] == bytes((10, 0, 1, 1)):
            kept.append(data[at : at + 16 + size])
        at += 16 + size
    (tmp_path / "one.pcap").write_bytes(b"".join(kept))
    with rewindow.open(tmp_path / "one.pcap") as capture:
        observation = observe(capture)
    said = WhatIf(observation).ask(observation.connections[0].id, Choice("cubic"))
    assert said.verdict == "cannot_say"


def test_the_same_bytes_are_complete_sooner_by_as_much_as_they_are_faster() -> None:
    """Completion says the same as goodput then, and has its error; of an application that stops in time it does not."""
    rates, half = np.log([1e6, 2e6, 4e6]), np.log(2)
    goodput = (rates, rates + half)
    fixed, stopped = ((-rates, -rates - half), (np.zeros(3), np.zeros(3)))
    assert errors.same_bytes({"goodput_bps": goodput, "completion_s": fixed})
    assert not errors.same_bytes({"goodput_bps": goodput, "completion_s": stopped})
    own = {n: errors.Error(level=0, reach=3, follow=f, spread=1, fixed=0, change=0, off=0)
           for n, f in (("goodput_bps", 1.0), ("completion_s", 0.5))}  # fmt: skip
    recorded = NONE | {"goodput_bps": 2e6, "completion_s": 4e-6}
    for completion, ratio in ((fixed, 2.0), (stopped, 1.0)):
        said = errors.predicted(recorded, {"goodput_bps": goodput, "completion_s": completion}, own)
        assert said["goodput_bps"][0] == pytest.approx(4e6)
        assert said["completion_s"][0] == pytest.approx(np.exp(np.median(completion[0])) / ratio)
