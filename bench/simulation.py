"""Simulated runs beside the kernel's: `python -m bench.simulation FOLDER`, a folder of runs that the lab made.

Runs of one scenario are one row for each of its transfers. The simulation knows the network's true parameters. Prints
Markdown: medians with the least and the most, and the error as log(simulated / kernel) of the medians. The floor is the
mean |log| of the ratio of two kernel runs, where a scenario has several.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.speed import table
from rewindow.errors import BadOption, UnknownAlgorithm
from rewindow.scenarios import Scenario, load
from rewindow.simulator import simulate

RUNS = 20


def lab_runs(folder: Path) -> dict[str, list[Path]]:
    """The folders of each scenario's runs, by the scenario's name."""
    found = defaultdict(list)
    for result in sorted(folder.glob("*/result.json")):
        found[str(json.loads(result.read_text())["scenario"])].append(result.parent)
    return found


def kernel_rates(run: Path, scenario: Scenario) -> list[float]:
    """Goodput of each transfer, bit/s: acknowledged bytes from connecting to the last acknowledgement."""
    transfers = {t["name"]: t for t in json.loads((run / "result.json").read_text())["transfers"]}
    return [8 * transfers[t.name]["bytes"] / transfers[t.name]["seconds"] for t in scenario.transfers]


def kernel_retransmissions(run: Path, host: str) -> int:
    counters: dict[str, Any] = json.loads((run / "result.json").read_text())["counters"].get(host, {})
    return int(counters.get("TcpRetransSegs", 0))


def spread(values: Sequence[float], digits: int) -> str:
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.{digits}f} {max(values):.{digits}f}]"


def rows_of(name: str, runs: list[Path], seeds: int) -> tuple[list[list[str]], list[float], list[float]]:
    """Rows of the table, the errors, and the logs of ratios of two kernel runs."""
    scenario = load(runs[0] / "scenario.toml")
    kernel = [kernel_rates(run, scenario) for run in runs]
    simulated = [simulate(scenario, seed) for seed in range(1, seeds + 1)]
    rows, errors, floors = [], [], []
    for i, transfer in enumerate(scenario.transfers):
        theirs = [rates[i] / 1e6 for rates in kernel]
        ours = [(run.transfers[i].goodput_bps or 0) / 1e6 for run in simulated]
        error = math.log(statistics.median(ours) / statistics.median(theirs)) if min(ours) else -math.inf
        sent = [kernel_retransmissions(run, transfer.sender) for run in runs]
        again = [run.transfers[i].retransmitted for run in simulated]
        rows.append(
            [
                name,
                transfer.name,
                spread(theirs, 2),
                spread(ours, 2),
                f"{error:+.2f}",
                spread(sent, 0),
                spread(again, 0),
            ]
        )
        errors.append(error)
        floors += [abs(math.log(a / b)) for a, b in itertools.combinations(theirs, 2)]
    return rows, errors, floors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated ones of each scenario")
    args = parser.parse_args(arguments)
    rows, errors, floors, left_out = [], [], [], []
    for name, runs in lab_runs(args.folder).items():
        try:
            more, wrong, floor = rows_of(name, runs, args.runs)
        except (UnknownAlgorithm, BadOption) as e:
            left_out.append(f"{name} ({e})")
            continue
        rows += more
        errors += wrong
        floors += floor
    if not rows:
        print(f"{args.folder} has no run of the lab", file=sys.stderr)
        return 1
    head = ["network", "transfer", "kernel, Mbit/s", "simulated", "log error", "kernel's retransmissions", "simulated"]
    print("\n".join(table(head, rows, 2)))
    print(
        f"Mean |log error| {statistics.mean(map(abs, errors)):.3f}, median {statistics.median(map(abs, errors)):.3f}."
    )
    if floors:
        print(f"The floor, two runs of the kernel: {statistics.mean(floors):.3f}.")
    if left_out:
        print(f"Not simulated: {'; '.join(left_out)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
