"""Distributions of simulated runs beside the kernel's: `make distributions RUNS=FOLDER`.

The folder has many runs of each network, which the lab made (`rewindow-lab suite --runs 20 --only NETWORK`), with seeds
of their own. The simulation has the network's true parameters and the same seeds, and both are measured in the same
way, by their captures. Prints Markdown.

Two batches of runs differ by chance. The distance of two batches is the area between their distribution functions
(Wasserstein's first distance). The bound is what 95 % of pairs of batches stay below that are drawn with replacement
from the kernel's runs; where these hardly differ, a resolution. Goal: a distance of GOAL bounds at most. Where the
first loss of the kernel's runs comes early in some and late in others, since HyStart ended slow start only in some of
them, the shares of early ones are compared, too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import rewindow
from bench.simulation import lab_runs
from bench.speed import table
from rewindow.scenarios import Scenario, Transfer, load
from rewindow.simulator import simulate
from rewindow.whatif import Observation, observe
from rewindow.whatif.observation import ObservedConnection

GOAL = 1.25
RESAMPLES = 2000
RUNS_LEAST = 10
RESOLUTIONS = {
    "goodput, log": 0.01,
    "retransmissions": 1.0,
    "share of the first subflow": 0.01,
    "queueing delay p50, ms": 0.5,
    "queueing delay p95, ms": 0.5,
    "first loss, log": 0.05,
}
"""What each quantity is called, and the distance below which two batches count as equal."""
NO_LOSS_S = 1000.0
"""The time of the first loss of a run without one."""
MODES_APART, MODE_LEAST = 1.6, 2
"""The ratio of two first losses, neighbours in order, that are of two modes; and the runs of a mode at least."""

Array = npt.NDArray[np.float64]


def distance(one: Array, other: Array) -> float:
    """The area between the distribution functions of two batches of the same size."""
    return float(np.abs(np.sort(one) - np.sort(other)).mean())


def bound(kernel: Array, seed: int = 1) -> float:
    """What two batches of the kernel's runs differ by, in 95 % of cases."""
    random = np.random.default_rng(seed)
    drawn = np.sort(random.choice(kernel, (2, RESAMPLES, len(kernel))), axis=2)
    return float(np.percentile(np.abs(drawn[0] - drawn[1]).mean(axis=1), 95))


def early(kernel: Array) -> float | None:
    """The first loss that is between two modes of the kernel's runs, as a logarithm; None: they have one mode."""
    ordered = np.sort(kernel)
    gaps = np.diff(ordered)[MODE_LEAST - 1 : len(ordered) - MODE_LEAST]
    if not len(gaps) or gaps.max() < np.log(MODES_APART):
        return None
    place = int(gaps.argmax()) + MODE_LEAST - 1
    return float((ordered[place] + ordered[place + 1]) / 2)


def connection_of(observation: Observation, transfer: Transfer) -> ObservedConnection | None:
    senders = {str(path.start.address) for path in transfer.paths}
    own = [
        c for c in observation.connections
        if any(s.facts.src in senders and s.facts.dport == transfer.port for s in c.subflows)
    ]  # fmt: skip
    return max(own, key=lambda c: c.facts.bytes, default=None)


def measured(connection: ObservedConnection, transfer: Transfer) -> dict[str, float]:
    """By the names of RESOLUTIONS; what a capture does not show is missing."""
    outcome = connection.outcome()
    found = {"retransmissions": float(outcome.retransmitted)}
    if outcome.goodput_bps:
        found["goodput, log"] = float(np.log(outcome.goodput_bps))
    if transfer.protocol == "mptcp" and len(transfer.paths) > 1 and outcome.bytes:
        first = str(transfer.paths[0].start.address)
        own = sum(s.facts.bytes for s in connection.subflows if s.facts.src == first)
        found["share of the first subflow"] = own / sum(s.facts.bytes for s in connection.subflows)
    for percent in (50, 95):
        queued = outcome.queueing_ms(percent)
        if queued is not None:
            found[f"queueing delay p{percent}, ms"] = queued
    begin = min((s.series.time_s[0] for s in connection.subflows if len(s.series.time_s)), default=0.0)
    lost = [s.series.losses_s[0] - begin for s in connection.subflows if len(s.series.losses_s)]
    found["first loss, log"] = float(np.log(max(min(lost, default=NO_LOSS_S), 1e-3)))
    return found


def _measured_all(path: Path, scenario: Scenario) -> list[dict[str, float]]:
    with rewindow.open(path) as capture:
        observation = observe(capture)
    connections = [connection_of(observation, t) for t in scenario.transfers]
    return [measured(c, t) if c else {} for c, t in zip(connections, scenario.transfers, strict=True)]


def captured_beside_receivers(scenario: Scenario) -> bool:
    receivers = {t.receiver for t in scenario.transfers}
    return any(interface.host in receivers for point in scenario.captures for interface in point.interfaces)


def both(run: Path) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """What each transfer had in the kernel, and in the simulator with the run's seed."""
    scenario = load(run / "scenario.toml")
    (captured,) = [*run.glob("*.pcap"), *run.glob("*.pcapng")]
    seed = int(run.name.rpartition("-")[2])
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        simulate(scenario, seed, capture=file.fileno(), beside_receivers=captured_beside_receivers(scenario))
        return _measured_all(captured, scenario), _measured_all(Path(file.name), scenario)


@dataclass(frozen=True)
class Compared:
    """A quantity of a transfer. apart: the distance of the simulated batch. chance: the bound."""

    network: str
    transfer: str
    quantity: str
    kernel: Array
    simulated: Array
    apart: float
    chance: float

    @property
    def bounds(self) -> float:
        return self.apart / self.chance


def compared(network: str, runs: Sequence[Path], processes: ProcessPoolExecutor) -> Iterator[Compared]:
    scenario = load(runs[0] / "scenario.toml")
    pairs = list(processes.map(both, runs))
    for i, transfer in enumerate(scenario.transfers):
        for quantity, resolution in RESOLUTIONS.items():
            known = [(k[i][quantity], s[i][quantity]) for k, s in pairs if quantity in k[i] and quantity in s[i]]
            if len(known) < RUNS_LEAST:
                continue
            kernel, simulated = np.array(known).T
            yield Compared(
                network, transfer.name, quantity, kernel, simulated, distance(kernel, simulated),
                max(bound(kernel), resolution),
            )  # fmt: skip


def mode_rows(found: Sequence[Compared]) -> Iterator[tuple[list[str], bool]]:
    """Of transfers whose kernel's runs have two modes; and whether the shares are within the goal."""
    for c in found:
        between = early(c.kernel) if c.quantity == "first loss, log" else None
        if between is None:
            continue
        theirs, ours = np.mean(c.kernel < between), np.mean(c.simulated < between)
        chance = bound((c.kernel < between).astype(float))
        met = bool(abs(theirs - ours) <= GOAL * chance)
        yield (
            [c.network, c.transfer, f"{np.exp(between):.2f}", f"{theirs:.0%}", f"{ours:.0%}", f"{chance:.0%}",
             "met" if met else "**missed**"],
            met,
        )  # fmt: skip


def _spread(values: Array, quantity: str) -> str:
    if quantity.endswith(", log"):
        values = np.exp(values)
        scale = 1e6 if quantity.startswith("goodput") else 1
        return " ".join(f"{v / scale:.2f}" for v in np.percentile(values, (50, 5, 95)))
    return " ".join(f"{v:.2f}" if v < 10 else f"{v:.0f}" for v in np.percentile(values, (50, 5, 95)))


def main() -> int:
    parser = argparse.ArgumentParser(description="simulated runs beside the kernel's, as distributions")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    found: list[Compared] = []
    counts = []
    with ProcessPoolExecutor() as processes:
        for network, runs in lab_runs(options.folder).items():
            if len(runs) >= RUNS_LEAST:
                print(network, file=sys.stderr, flush=True)
                found += compared(network, runs, processes)
                counts.append(len(runs))
    if not found:
        print(f"{options.folder} has no network with {RUNS_LEAST} runs", file=sys.stderr)
        return 1
    head = ["network", "transfer", "quantity", "kernel: median, 5 %, 95 %", "simulated", "distance", "bound", "ratio"]
    rows = [
        [c.network, c.transfer, c.quantity.removesuffix(", log"), _spread(c.kernel, c.quantity),
         _spread(c.simulated, c.quantity), f"{c.apart:.3g}", f"{c.chance:.3g}",
         f"{c.bounds:.2f}" if c.bounds <= GOAL else f"**{c.bounds:.2f}**"]
        for c in found
    ]  # fmt: skip
    print("\n".join(table(head, rows, 3)))
    print()
    summary = []
    for quantity in RESOLUTIONS:
        own = [c.bounds for c in found if c.quantity == quantity]
        if own:
            summary.append(
                [quantity.removesuffix(", log"), f"{sum(b <= GOAL for b in own)} of {len(own)}",
                 f"{statistics.median(own):.2f}", f"{max(own):.2f}"]
            )  # fmt: skip
    print("\n".join(table(["quantity", f"within {GOAL} bounds", "median ratio", "largest"], summary, 1)))
    print()
    modes = [row for row, _ in mode_rows(found)]
    if modes:
        head = ["network", "transfer", "modes part at, s", "early in the kernel", "simulated", "bound", ""]
        print("\n".join(table(head, modes, 2)))
    print(f"\n{len(counts)} networks, {min(counts)} to {max(counts)} runs of each.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
