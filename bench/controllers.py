"""Our own controllers in a real kernel beside their replay: whole segments, at each ACK.

The kernel ran a controller of the registry with its defaults (senders.py tells which). Its replay has mode=kernel.
Beside each stand two floors (floors.py).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rewindow
from bench import floors
from bench.senders import has_ecn, what_ran
from kernel import toolchain
from rewindow import Choice

RECOVERING = {"recovery", "loss", "cwr"}
GOALS = {False: (0.99, 1.0), True: (0.95, 0.98)}
"""Of a network with ECN: shares of the ACKs outside of recovery where the windows are equal, and within one segment."""
BY_SAMPLES = frozenset({"illinois", "vegas", "westwood"})
"""Single round trips decide on a segment here, and a capture shows them a little otherwise than the kernel saw them:
the windows must be within one segment, no more."""


@dataclass(frozen=True)
class Compared:
    """One subflow."""

    run: str
    algorithm: str
    endpoint: str
    ecn: bool
    acks: int
    """Outside of recovery."""
    equal: int
    within_one: int
    inputs: tuple[int, int] | None
    """Of the replay of the inputs in the kernel: ACKs, and equal windows. None: the run did not write them down."""
    later: tuple[int, int, int] | None
    """Of the replay in which ACKs arrive 20 us later: ACKs outside of recovery, windows equal to the other replay's,
    and windows within a segment of it. None: the capture is no pcap file."""

    @property
    def goal(self) -> tuple[float, float]:
        equal, within_one = GOALS[self.ecn]
        return (0.0 if self.algorithm in BY_SAMPLES else equal), within_one

    @property
    def falls_short(self) -> bool:
        """Below the goal, and below what two replays of one capture agree on, where there are two."""
        shares = [count / max(self.acks, 1) for count in (self.equal, self.within_one)]
        agreed = [count / max(self.later[0], 1) for count in self.later[1:]] if self.later else self.goal
        return any(share < min(goal, floor) for share, goal, floor in zip(shares, self.goal, agreed, strict=True))

    @property
    def reaches_goal(self) -> bool:
        equal, within_one = self.goal
        return self.equal >= equal * self.acks and self.within_one >= within_one * self.acks


def senders(folder: Path) -> dict[tuple[str, int], str]:
    """Address and port of each subflow that ran one of ours, with its name in the registry."""
    return {end: its.algorithm for end, its in what_ran(folder).items() if its.ours}


def detecting() -> set[str]:
    """Controllers that run in the kernel with a detector of shared bottlenecks."""
    return {c.name for c in toolchain.controllers() if c.detector}


def compare(folder: Path, truth: dict[tuple[str, int], list[tuple[int, float, int]]]) -> Iterator[Compared]:
    """truth: by address and port, (una, cwnd, srtt) of each ACK that reached the sender, before it was processed.

    Not of controllers that follow a detector's sets (kernel_sets.py): a set decided an ACK later is another window.
    """
    ours = {end: name for end, name in senders(folder).items() if name not in detecting()}
    if not ours:
        return
    ecn = has_ecn(folder)
    captured = next(folder.glob("capture.pcap*"))
    later = None
    if captured.suffix == ".pcap":
        with tempfile.TemporaryDirectory() as scratch:
            floors.write_later(captured, ours, Path(scratch) / "later.pcap")
            later = _replayed(Path(scratch) / "later.pcap", ours)
    replayed, inputs = _replayed(captured, ours), floors.of_inputs(folder)
    for (address, port), name in sorted(ours.items()):
        rows = replayed[address, port]
        acks = equal = within_one = 0
        for (_, cwnd, phase), (_, kernel, _) in _paired(rows, truth.get((address, port), [])):
            if phase not in RECOVERING:
                error = abs(_segments(cwnd) - kernel)
                acks, equal, within_one = acks + 1, equal + (error == 0), within_one + (error <= 1)
        yield Compared(
            folder.name, name, f"{address}:{port}", ecn, acks, equal, within_one, inputs.get(port),
            _apart(rows, later[address, port]) if later else None,
        )  # fmt: skip


def _apart(rows: Sequence[tuple[int, float, str]], later: Sequence[tuple[int, float, str]]) -> tuple[int, int, int]:
    """Compared.later, of two replays."""
    apart = [
        abs(_segments(cwnd) - _segments(shifted))
        for (_, cwnd, phase), (_, shifted, _) in _paired(rows, later)
        if phase not in RECOVERING
    ]
    return len(apart), sum(a == 0 for a in apart), sum(a <= 1 for a in apart)


def _segments(cwnd: float) -> int:
    return math.floor(cwnd + 1e-9)


def _replayed(path: Path, ours: dict[tuple[str, int], str]) -> dict[tuple[str, int], list[tuple[int, float, str]]]:
    """una, cwnd and phase before each ACK, of each sender under what it ran."""
    with rewindow.open(path) as capture:
        result = capture.replay([Choice(name, {"mode": "kernel"}) for name in sorted(set(ours.values()))])
    ends = {(c.id, s.id): (s.src, s.sport) for c in result.connections for s in c.subflows}
    rows: dict[tuple[str, int], list[tuple[int, float, str]]] = {end: [] for end in ours}
    subflows = [result.acks[name].to_pylist() for name in ("connection", "subflow", "una")]
    for name in set(ours.values()):
        windows = [result.acks[f"{name}.{column}"].to_pylist() for column in ("cwnd_before", "phase")]
        for c, s, una, cwnd, phase in zip(*subflows, *windows, strict=True):
            if ours.get(ends[c, s]) == name:
                rows[ends[c, s]].append((una, cwnd, phase))
    return rows


def _paired(ours: Sequence[Any], truth: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Rows of the same cumulative acknowledgment, in order."""
    i = j = 0
    while i < len(ours) and j < len(truth):
        if ours[i][0] == truth[j][0]:
            yield ours[i], truth[j]
            i, j = i + 1, j + 1
        elif (ours[i][0] - truth[j][0]) & 0xFFFFFFFF > 0x7FFFFFFF:
            i += 1
        else:
            j += 1


def _share(counts: Sequence[tuple[int, int] | None]) -> str:
    acks, equal = (sum(column) for column in zip(*(c for c in counts if c), strict=True)) if any(counts) else (0, 0)
    return f"{equal / acks:.2%}" if acks else "–"


def table(found: Sequence[Compared]) -> list[str]:
    """Markdown lines, one for each subflow, then one for each algorithm."""
    lines = [
        "| run | algorithm | subflow | ACKs outside recovery | equal | within one | inputs | 20 us later |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for c in found:
        acks = max(c.acks, 1)
        lines.append(
            f"| {c.run} | {c.algorithm} | {c.endpoint} | {c.acks} | {c.equal / acks:.2%} | {c.within_one / acks:.2%} "
            f"| {_share([c.inputs])} | {_share([c.later and c.later[:2]])} |"
        )
    for name in dict.fromkeys(c.algorithm for c in found):
        of = [c for c in found if c.algorithm == name]
        acks = max(sum(c.acks for c in of), 1)
        equal, within_one = sum(c.equal for c in of) / acks, sum(c.within_one for c in of) / acks
        good = sum(c.reaches_goal for c in of)
        lines.append(
            f"| **all** | {name} | {good} of {len(of)} reach the goal | {acks} | {equal:.2%} | {within_one:.2%} "
            f"| {_share([c.inputs for c in of])} | {_share([c.later and c.later[:2] for c in of])} |"
        )
    return lines
