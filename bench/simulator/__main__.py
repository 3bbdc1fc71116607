"""The simulator's speed beside ns-3's, on one dumbbell: `make bench-simulator`.

A hop is a packet, data or ACK, passing a link. Programs take turns, and the run with the least processor time counts.
Prints Markdown; --write puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.documents import put
from bench.speed import table

CHECKOUT = Path(__file__).parent.parent.parent
BUILD = CHECKOUT / "build" / "Ns3"
OURS, NS3 = "dumbbell-ours", "dumbbell-ns3"
HEADER = Path("ns3/internet-module.h")
GOAL_RATIO, GOAL_MS = 80, 5
GOALS_HOPS = {4: 10e6, 1000: 6e6}


@dataclass(frozen=True)
class Dumbbell:
    flows: int
    mbit_per_s: int
    seconds: int
    with_ns3: bool = True


DUMBBELLS = (
    Dumbbell(4, 40, 10),
    Dumbbell(4, 400, 10, with_ns3=False),
    Dumbbell(100, 1000, 2),
    Dumbbell(1000, 1000, 2),
)
SHORT = Dumbbell(3, 10, 10, with_ns3=False)


@dataclass(frozen=True)
class Run:
    hops: int
    cpu_s: float
    goodput_mbit_s: float

    @property
    def hops_per_s(self) -> float:
        return self.hops / self.cpu_s


def run(program: str, of: Dumbbell) -> Run:
    words = [BUILD / "dumbbell" / program, str(of.flows), str(of.mbit_per_s), str(of.seconds)]
    hops, cpu_s, goodput = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return Run(int(hops), float(cpu_s), float(goodput))


def best(of: Dumbbell, runs: int) -> dict[str, Run]:
    programs = [OURS, NS3] if of.with_ns3 else [OURS]
    turns = [{program: run(program, of) for program in programs} for _ in range(runs)]
    return {program: min((turn[program] for turn in turns), key=lambda r: r.cpu_s) for program in programs}


def build() -> None:
    found = subprocess.run(
        ["g++", "-E", "-x", "c++", "-"],
        check=False,
        input=f"#include <{HEADER}>\n",
        capture_output=True,
        text=True,
    )
    if found.returncode:
        sys.exit("ns-3 is not installed here: apt-get install libns3-dev")
    subprocess.run(
        ["cmake", "-S", CHECKOUT / "core-c", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DREWINDOW_NS3=ON"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["cmake", "--build", BUILD, "--target", OURS, NS3], check=True, stdout=subprocess.DEVNULL)


def millions(value: float) -> str:
    return f"{value / 1e6:.3g} M"


def measured(runs: int) -> Iterator[str]:
    rows = []
    for of in DUMBBELLS:
        found = best(of, runs)
        ours, ns3 = found[OURS], found.get(NS3)
        goal = GOALS_HOPS.get(of.flows)
        rows.append(
            (
                str(of.flows),
                f"{of.mbit_per_s} Mbit/s",
                f"{of.seconds} s",
                millions(ours.hops),
                f"{ours.goodput_mbit_s:.0f}",
                millions(ours.hops_per_s),
                millions(goal) if goal else "-",
                f"{ns3.goodput_mbit_s:.0f}" if ns3 else "-",
                millions(ns3.hops_per_s) if ns3 else "-",
                f"{ours.hops_per_s / ns3.hops_per_s:.0f}" if ns3 else "-",
            )
        )
    head = ("flows", "bottleneck", "time", "hops", "goodput, Mbit/s", "hops/s", "goal", "ns-3: goodput", "ns-3: hops/s",
            "ratio")  # fmt: skip
    yield from table(head, rows, 0)
    short = best(SHORT, runs)[OURS]
    yield (
        f"{SHORT.flows} flows over {SHORT.mbit_per_s} Mbit/s for {SHORT.seconds} s take {1e3 * short.cpu_s:.1f} ms "
        f"(goal: {GOAL_MS} ms). The goal for the ratio with 4 flows is {GOAL_RATIO}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each program [5]")
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    args = parser.parse_args(arguments)
    build()
    text = "\n".join(measured(args.runs))
    print(text)
    if args.write:
        put("performance.md", "simulator", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
