"""The simulator's sender in step with captured ones, for bench/validate.py.

Each sender that rewindow names gets the ACKs of the capture at their times, under the controller it is said to run.
A segment agrees when the simulated sender sends it too, in the same order, with the same bounds, as a retransmission or
not; after the two part, everything is wrong until the captured sender ends a recovery, where the simulated one is put
right. A window agrees when it is the kernel's own (truth.csv.gz), in segments.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import rewindow
from rewindow.core import Choice
from rewindow.simulator.lockstep import Lockstep, lockstep

GOALS = {"newreno": 0.99, "cubic": 0.97}
"""The share of segments that must agree."""

Truth = Mapping[tuple[str, int], Sequence[tuple[int, float, int]]]


@dataclass(frozen=True)
class Stepped:
    """One sender of a run. acks: that the kernel's windows are known of; windows: of these, those that agree."""

    run: str
    found: Lockstep
    acks: int
    windows: int


def windows_that_agree(found: Lockstep, truth: Sequence[tuple[int, float, int]]) -> tuple[int, int]:
    """How many ACKs are in both, matched by what was unacknowledged before each; at how many the windows are equal."""
    ours = list(zip(found.windows["una"].tolist(), found.windows["cwnd"].tolist(), strict=True))
    i = j = acks = agree = 0
    while i < len(ours) and j < len(truth):
        ahead = (ours[i][0] - truth[j][0]) & 0xFFFFFFFF
        if ahead == 0:
            acks += 1
            agree += ours[i][1] == round(truth[j][1])
        i += ahead == 0 or ahead > 0x7FFFFFFF
        j += ahead <= 0x7FFFFFFF
    return acks, agree


def compare(folder: Path, told: Mapping[tuple[str, int], str], truth: Truth) -> list[Stepped]:
    """told: the controller of each sender, by address and port."""
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        found = lockstep(capture.descriptors, [Choice(name) for name in GOALS], capture.names)
    return [
        Stepped(folder.name, f, *windows_that_agree(f, truth.get((f.src, f.sport), ())))
        for f in found
        if told.get((f.src, f.sport)) == f.algorithm
    ]


def row(name: str, stepped: Sequence[Stepped]) -> str:
    segments, agreed = sum(s.found.segments for s in stepped), sum(s.found.agreed for s in stepped)
    acks, windows = sum(s.acks for s in stepped), sum(s.windows for s in stepped)
    runs = [run.segments for s in stepped for run in s.found.runs]
    share = f"{windows / acks:.2%}" if acks else "–"
    return (
        f"| {name} | {len(stepped)} | {segments} | {agreed / segments:.2%} | {acks} | {share} | {len(runs)} | "
        f"{statistics.median(runs):.0f} | {max(runs)} |"
    )


def table(stepped: Sequence[Stepped]) -> list[str]:
    """Markdown lines: one for each run and controller, then one for each controller, with its goal."""
    head = "| run | senders | segments | agree | ACKs | windows agree | free runs | median segments | longest |"
    lines = [head, "|---|" + "---:|" * 8]
    runs: dict[str, list[Stepped]] = {}
    totals: dict[str, list[Stepped]] = {name: [] for name in GOALS}
    for s in stepped:
        runs.setdefault(f"{s.run}, {s.found.algorithm}", []).append(s)
        totals[s.found.algorithm].append(s)
    lines += [row(name, found) for name, found in runs.items()]
    return lines + [row(f"**{name}** (goal {GOALS[name]:.0%})", found) for name, found in totals.items() if found]
