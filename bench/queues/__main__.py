"""RED and CoDel of core-c/src/network beside ns-3's, with the same packets: `make queues`.

Each row is one setting over several seeds. Random numbers differ, and so do single fates; compared are how many packets
are dropped or marked, and the mean delay of the others. A difference is the mean over the seeds of ours over ns-3's,
less one, with its 95 % bound (Student's t). It must be within the setting's tolerance, or within its own bound.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parent.parent.parent
BUILD = CHECKOUT / "build" / "Ns3"
PROGRAM = BUILD / "queues" / "rewindow-queues"
HEADER = Path("ns3/traffic-control-module.h")
SEEDS, SECONDS, JOBS = 20, 60, 2
T_95 = 2.093
"""Of Student's t with SEEDS - 1 degrees of freedom, two-sided."""


@dataclass(frozen=True)
class Setting:
    """load: offered over the link's rate in odd seconds; tolerances: of counts and of the delay."""

    discipline: str
    load: float
    ecn: bool = False
    gentle: bool = False
    count_tolerance: float = 0.03
    delay_tolerance: float = 0.02

    @property
    def name(self) -> str:
        words = (self.discipline, "gentle" if self.gentle else "", "ECN" if self.ecn else "", f"load {self.load:g}")
        return " ".join(filter(None, words))


# ns-3 takes a root by a step of Newton's method from the one before: the second interval after CoDel began to drop is
# 50 % of the first, where RFC 8289 has 71 %. Marks, which do not shorten the queue, follow those intervals alone.
CODEL_MARKS = 0.20

# Those whom ns-3 lets pass because at most one packet waits have short delays: its mean is lower.
RED_DELAY = 0.08

SETTINGS = (
    Setting("red", 1.1, delay_tolerance=RED_DELAY),
    Setting("red", 1.5, delay_tolerance=RED_DELAY),
    Setting("red", 1.1, gentle=True, delay_tolerance=RED_DELAY),
    Setting("red", 1.5, gentle=True, delay_tolerance=RED_DELAY),
    Setting("red", 1.1, ecn=True, delay_tolerance=RED_DELAY),
    Setting("codel", 1.1),
    Setting("codel", 1.5),
    Setting("codel", 1.1, ecn=True, count_tolerance=CODEL_MARKS),
)


def build() -> None:
    """Exits where ns-3 is not there."""
    found = subprocess.run(
        ["c++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-"],
        input=f"#include <{HEADER}>\n",
        capture_output=True,
        text=True,
    )
    if found.returncode:
        sys.exit("ns-3 is not installed here: apt-get install libns3-dev")
    subprocess.run(
        ["cmake", "-S", CHECKOUT / "core-c", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DREWINDOW_NS3=ON",
         "-DREWINDOW_LTO=OFF"], check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run(["cmake", "--build", BUILD, "--target", "rewindow-queues"], check=True, stdout=subprocess.DEVNULL)


def measured(setting: Setting, seed: int) -> dict[str, Any]:
    words = [setting.discipline, int(setting.ecn), int(setting.gentle), setting.load, SECONDS, seed]
    told = subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True, text=True).stdout
    return dict(json.loads(told))


def chosen(queue: dict[str, Any]) -> int:
    """Dropped or marked; RED's of packets that found the queue all but empty apart: ns-3 lets those pass."""
    return int(queue["dropped"] + queue["marked"] - queue["short"])


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Relative, and its 95 % bound."""
    ratios = [a / b - 1 for a, b in zip(ours, theirs, strict=True)]
    return statistics.mean(ratios), T_95 * statistics.stdev(ratios) / len(ratios) ** 0.5


def main() -> int:
    """1 where a queue is further from ns-3's than its tolerance."""
    build()
    print("| queue | packets | ours: chosen | ns-3 | difference | ours: ms | ns-3 | difference | same fate | short |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    failed = 0
    for setting in SETTINGS:
        with ThreadPoolExecutor(JOBS) as pool:
            runs = list(pool.map(lambda seed, s=setting: measured(s, seed), range(1, SEEDS + 1)))
        packets = sum(r["packets"] for r in runs)
        counts, counts_bound = difference([chosen(r["ours"]) for r in runs], [chosen(r["ns3"]) for r in runs])
        delays, delays_bound = difference([r["ours"]["delay_ms"] for r in runs], [r["ns3"]["delay_ms"] for r in runs])
        good = abs(counts) <= max(setting.count_tolerance, counts_bound) and abs(delays) <= max(
            setting.delay_tolerance, delays_bound
        )
        failed += not good
        means = {q: statistics.mean(r[q]["delay_ms"] for r in runs) for q in ("ours", "ns3")}
        shares = [sum(chosen(r[q]) for r in runs) / packets for q in ("ours", "ns3")]
        same, short = sum(r["same"] for r in runs) / packets, sum(r["ours"]["short"] for r in runs) / packets
        cells = [
            setting.name, str(packets), *(f"{share:.2%}" for share in shares), f"{counts:+.1%} ± {counts_bound:.1%}",
            f"{means['ours']:.2f}", f"{means['ns3']:.2f}", f"{delays:+.1%} ± {delays_bound:.1%}", f"{same:.1%}",
            f"{short:.2%}",
        ]  # fmt: skip
        print(f"| {' | '.join(cells)} |" + ("" if good else " **too far**"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
