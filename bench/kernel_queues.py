"""The emulator's drop-tail links beside the kernel's token buckets, under the same transfers: `make kernel-queues`.

Each network runs several times each way, one after the other, so that both meet the machine in the same state. A
difference is the mean over these pairs of the emulator's value over the kernel's, less one, with its 95 % bound
(Student's t). It must be within its tolerance, or within its own bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import rewindow
from lab import runs
from lab.errors import LabError
from lab.suite import NETWORKS, text_of
from rewindow.scenarios import parse

CHOSEN = ("tcp-reno-5m", "tcp-v6-cubic-15m", "shallow-queue", "shared-5m-30ms")
OUTPUT = Path("build/kernel-queues")
T_95 = {
    3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 12: 2.201, 15: 2.145, 20: 2.093,
}  # fmt: skip
"""Number of pairs -> of Student's t with one degree of freedom less, two-sided."""


@dataclass(frozen=True)
class Measured:
    """One run. goodput_mbps: of all transfers; round trips: of the client, mean over its subflows."""

    goodput_mbps: float
    rtt_median_ms: float
    rtt_p95_ms: float
    dropped: float
    """Share of the packets that came to a queue with a rate and found it full."""


TOLERANCES = {"goodput_mbps": 0.03, "rtt_median_ms": 0.03, "rtt_p95_ms": 0.03, "dropped": 0.1}


def measured(folder: Path) -> Measured:
    result = json.loads((folder / "result.json").read_text())
    if "queues" in result:
        counted = [(q["packets"], q["dropped"]) for q in result["queues"]]
    else:
        links = json.loads((folder / "emulator.json").read_text())["links"]
        counted = [(q["forwarded"], q["dropped"]["queue"]) for q in links]
    dropped = sum(d for _, d in counted)
    came = sum(passed + d for passed, d in counted if d)
    ends = {f["local"] for t in result["transfers"] if t["name"] == "client" for f in t["subflows"]}
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        subflows = [s for c in capture.replay().connections for s in c.subflows]
    own = [s for s in subflows if f"{s.src}:{s.sport}" in ends or f"[{s.src}]:{s.sport}" in ends]
    return Measured(
        sum(t["bytes"] * 8 / t["seconds"] / 1e6 for t in result["transfers"]),
        statistics.mean(s.rtt_median_us for s in own) / 1e3,
        statistics.mean(s.rtt_p95_us for s in own) / 1e3,
        dropped / max(came, 1),
    )


def difference(emulator: Sequence[float], kernel: Sequence[float]) -> tuple[float, float]:
    """Relative, and its 95 % bound."""
    ratios = [a / b - 1 for a, b in zip(emulator, kernel, strict=True)]
    return statistics.mean(ratios), T_95[len(ratios)] * statistics.stdev(ratios) / len(ratios) ** 0.5


def row(name: str, value: str, emulator: Sequence[float], kernel: Sequence[float]) -> tuple[str, bool]:
    """A line of the table, and whether the two ways agree."""
    apart, bound = difference(emulator, kernel)
    agree = abs(apart) <= max(TOLERANCES[value], bound)
    form = ".2%" if value == "dropped" else ".2f"
    cells = [name, value.removesuffix("_mbps").removesuffix("_ms").replace("_", " "), str(len(emulator))]
    cells += [f"{statistics.mean(of):{form}} ({min(of):{form}}–{max(of):{form}})" for of in (emulator, kernel)]
    cells.append(f"{apart:+.1%} ± {bound:.1%}")
    return f"| {' | '.join(cells)} |" + ("" if agree else " **too far**"), agree


def _run(name: str, seed: int, way: runs.Queues, output: Path) -> Measured:
    text = text_of(next(n for n in NETWORKS if n.name == name))
    described = runs.Described(parse(text, name), text, Path())
    target = output / way / runs.folder_name(described.scenario, seed)
    if not runs.is_there(described, target, way) and not runs.run(described, seed, output / way, queues=way).folder:
        raise SystemExit(f"{target}: no attempt was valid")
    return measured(target)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where the two ways are further apart than a tolerance."""
    parser = argparse.ArgumentParser(prog="python -m bench.kernel_queues", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--runs", type=int, choices=T_95, default=6, help="of each network, each way (default %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where runs are kept (default %(default)s)")
    chosen = parser.parse_args(arguments)
    print("| network | value | pairs | emulator | kernel | difference |")
    print("|---|---|---:|---:|---:|---:|")
    good = True
    for name in CHOSEN:
        found: dict[str, list[Measured]] = {way: [] for way in get_args(runs.Queues)}
        for seed in range(1, chosen.runs + 1):
            for way in get_args(runs.Queues):
                found[way].append(_run(name, seed, way, chosen.output))
        for value in TOLERANCES:
            emulator, kernel = ([getattr(m, value) for m in found[way]] for way in ("emulator", "kernel"))
            line, agree = row(name, value, emulator, kernel)
            print(line, flush=True)
            good = good and agree
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as e:
        print(e, file=sys.stderr)
        sys.exit(4)
