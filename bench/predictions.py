"""What-ifs beside runs that really happened: `make predictions PAIRS=FOLDER`.

The folder has runs of the same network under different algorithms, one folder each, named NETWORK-ALGORITHM-NUMBER,
with a capture. For each run and each other algorithm of its network the prediction is compared with the single runs
that really used it. In the same table: the null model, that nothing changes, and the floor, another run of the same
algorithm. Prints Markdown.

An error is |log(predicted / real)|, of counts with 5 packets and of delays with 1 ms added. The score is the interval
score of log goodput (Gneiting, Raftery 2007): the width, and 20 times the distance to what lies outside.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rewindow
from bench.speed import table
from rewindow.core import Choice
from rewindow.simulator.simulation import KERNEL_NAMES
from rewindow.whatif import Observation, WhatIf, observe

ADDED = {"goodput_bps": 0.0, "completion_s": 0.0, "retransmitted_packets": 5.0, "queueing_delay_ms": 1.0,
         "queueing_delay_p95_ms": 1.0}  # fmt: skip
NAME = re.compile(r"(?P<network>.+)-(?P<algorithm>[^-]+)-(?P<number>\d+)")
ALPHA = 0.1


@dataclass(frozen=True)
class Recorded:
    name: str
    network: str
    algorithm: str
    observation: Observation
    connection: int
    metrics: dict[str, float | None]


@dataclass
class Errors:
    """By metric. scores and covered: of log goodput's intervals."""

    predicted: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    null: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    floor: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    covered: list[bool] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """log(real / recorded) of goodput: what the null model's interval is made of."""
    refusals: list[str] = field(default_factory=list)
    asked: int = 0


def error(metric: str, value: float, real: float) -> float:
    return float(abs(np.log((value + ADDED[metric]) / (real + ADDED[metric]))))


def interval_score(low: float, high: float, real: float) -> float:
    outside = max(low - real, real - high, 0.0)
    return high - low + 2 / ALPHA * outside


def read(folder: Path) -> list[Recorded]:
    """The connection of a run is its MPTCP connection, or the one with the most data."""
    found = []
    for path in sorted(folder.iterdir()):
        name = NAME.fullmatch(path.name)
        captures = sorted([*path.glob("*.pcap"), *path.glob("*.pcapng")])
        if not name or not captures:
            continue
        with rewindow.open(*captures[:1]) as capture:
            observation = observe(capture)
        chosen = max(observation.connections, key=lambda c: (c.facts.kind == "mptcp", c.facts.bytes))
        metrics = chosen.outcome().metrics()
        found.append(Recorded(path.name, name["network"], name["algorithm"], observation, chosen.id, metrics))
    return found


def compare(run: Recorded, others: Sequence[Recorded], errors: Errors) -> None:
    """Predicts for each algorithm of the others, which ran on the same network."""
    whatif = WhatIf(run.observation)
    for algorithm in sorted({o.algorithm for o in others}):
        real = [o.metrics for o in others if o.algorithm == algorithm]
        asked = None
        if algorithm != run.algorithm:
            asked = whatif.ask(run.connection, Choice(KERNEL_NAMES.get(algorithm, algorithm)))
            errors.asked += 1
            if asked.verdict != "ok":
                errors.refusals.append(f"{run.name} with {algorithm} ({asked.reason})")
                asked = None
        for metrics in real:
            for metric in ADDED:
                truth, recorded = metrics[metric], run.metrics[metric]
                if truth is None or recorded is None:
                    continue
                if algorithm == run.algorithm:
                    errors.floor[metric].append(error(metric, recorded, truth))
                elif asked and metric in asked.predicted:
                    errors.null[metric].append(error(metric, recorded, truth))
                    errors.predicted[metric].append(error(metric, asked.predicted[metric].median, truth))
            truth, recorded = metrics["goodput_bps"], run.metrics["goodput_bps"]
            if asked and truth and recorded:
                spread = asked.predicted["goodput_bps"]
                errors.covered.append(spread.low <= truth <= spread.high)
                errors.scores.append(interval_score(np.log(spread.low), np.log(spread.high), np.log(truth)))
                errors.ratios.append(float(np.log(truth / recorded)))


def mean(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f}" if values else "-"


def report(networks: dict[str, Errors]) -> list[str]:
    """The tables: by metric over all networks, and goodput by network."""
    rows = []
    for metric in ADDED:
        rows.append(
            (
                metric,
                *(
                    mean([e for errors in networks.values() for e in getattr(errors, kind)[metric]])
                    for kind in ("predicted", "null", "floor")
                ),
            )
        )
    lines = list(table(("mean error", "what-if", "null: nothing changes", "floor: another run"), rows, 1))
    rows = [
        (
            name,
            *(mean(getattr(e, kind)["goodput_bps"]) for kind in ("predicted", "null", "floor")),
            f"{sum(e.covered)} of {len(e.covered)}",
            mean(e.scores),
        )
        for name, e in networks.items()
    ]
    heading = ("goodput of", "what-if", "null", "floor", "within the 90 % interval", "interval score")
    lines += ["", *table(heading, rows, 1)]
    ratios = [r for e in networks.values() for r in e.ratios]
    if ratios:
        low, high = np.percentile(ratios, (5, 95))
        null = statistics.mean(interval_score(float(low), float(high), r) for r in ratios)
        ours = statistics.mean(s for e in networks.values() for s in e.scores)
        lines += ["", f"Mean interval score of log goodput: {ours:.3f}; of the null model's interval: {null:.3f}."]
    refusals = [r for e in networks.values() for r in e.refusals]
    lines += [f"Refused: {len(refusals)} of {sum(e.asked for e in networks.values())}.", *(f"- {r}" for r in refusals)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="compares what-ifs with runs that really happened")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    runs = read(options.folder)
    if not runs:
        print(f"{options.folder}: no run named NETWORK-ALGORITHM-NUMBER with a capture", file=sys.stderr)
        return 1
    networks: dict[str, Errors] = defaultdict(Errors)
    for run in runs:
        compare(run, [o for o in runs if o.network == run.network and o is not run], networks[run.network])
    print("\n".join(report(networks)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
