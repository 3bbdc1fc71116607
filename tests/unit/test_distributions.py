"""Batches of simulated runs beside the kernel's (bench/distributions.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.distributions import both, bound, captured_beside_receivers, distance, early
from lab.suite import Network, text_of
from rewindow.scenarios import parse
from rewindow.simulator import simulate


def test_the_distance_is_the_area_between_distribution_functions() -> None:
    assert distance(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == 0
    assert distance(np.array([0.0, 0.0]), np.array([0.0, 3.0])) == 1.5


def test_two_batches_of_one_kernel_are_within_its_bound_and_one_of_another_is_not() -> None:
    random = np.random.default_rng(3)
    kernel = random.normal(0, 1, 20)
    chance = bound(kernel)
    same = [distance(kernel, random.normal(0, 1, 20)) for _ in range(200)]
    assert np.mean(np.array(same) <= chance) > 0.8
    moved = [distance(kernel, random.normal(2, 1, 20)) for _ in range(200)]
    assert np.mean(np.array(moved) <= chance) < 0.05


def test_two_modes_have_a_gap_and_more_than_one_run_each() -> None:
    late = np.log(np.linspace(4, 5, 14))
    assert early(late) is None
    assert early(np.append(late, np.log(0.5))) is None  # one run is no mode
    between = early(np.append(late, np.log([0.5, 0.6])))
    assert between is not None
    assert 0.6 < np.exp(between) < 4


@pytest.mark.parametrize("at_receiver", [False, True])
def test_a_capture_of_the_simulated_network_is_measured_as_the_simulation_itself(
    at_receiver: bool, tmp_path: Path
) -> None:
    """A run that the simulator made, in place of the kernel."""
    network = Network("small", (4,), (10,), paths=2, seconds=2, at_receiver=at_receiver)
    text = text_of(network)
    scenario = parse(text, "small.toml")
    run = tmp_path / "small-7"
    run.mkdir()
    (run / "scenario.toml").write_text(text)
    assert captured_beside_receivers(scenario) is at_receiver
    with open(run / "capture.pcapng", "wb", 0) as file:
        made = simulate(scenario, 7, capture=file.fileno(), beside_receivers=at_receiver)
    kernel, simulated = both(run)
    assert kernel == simulated
    client, rival = kernel
    assert ("share of the first subflow" in client, "share of the first subflow" in rival) == (True, False)
    first, second = (s.bytes for s in made.transfers[0].subflows)
    assert client["share of the first subflow"] == pytest.approx(first / (first + second), abs=0.01)
    assert client["retransmissions"] == pytest.approx(made.transfers[0].retransmitted, abs=1)
    assert np.exp(client["goodput, log"]) == pytest.approx(made.transfers[0].goodput_bps or 0, rel=0.05)
