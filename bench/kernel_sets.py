"""Sets of subflows that SB-CC's detector found in the kernel, beside those of the replay of the capture.

Where the lab ran rw_sbcc, its steps have the set and the state of each subflow after each decision. The replay's
detector sees the same ACKs in the capture. Compared is what each subflow was told, over the time in which both of its
detectors ran: the share of that time with the same set and state, and how often either changed.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import rewindow
from bench import controllers
from lab.controllers import STEPS_FILE
from rewindow import Choice

GOAL = 0.95
"""Share of the time with the same set and state."""
STATES = ("monitor", "judgement", "final")
Decision = tuple[int, int, str]
"""Time in nanoseconds, set (0: none), state."""


@dataclass(frozen=True)
class Sets:
    """One subflow. kernel, replay: how often its set or state changed; final: the share of time in a final set."""

    run: str
    endpoint: str
    seconds: float
    equal: float
    kernel: int
    replay: int
    kernel_final: float
    replay_final: float

    @property
    def falls_short(self) -> bool:
        return self.equal < GOAL


def in_the_kernel(folder: Path) -> dict[int, list[Decision]]:
    """By a subflow's own port, from its join on. Times are of the kernel's clock."""
    found: dict[int, list[Decision]] = {}
    with gzip.open(folder / STEPS_FILE, "rt") as f:
        for r in csv.DictReader(f):
            at = round(float(r["t"]) * 1e9), int(r["set"] or 0), STATES[int(r["set_state"] or 0)]
            if r["kind"] in ("join", "sets"):
                found.setdefault(int(r["sport"]), []).append(at)
    return found


def kernel_ahead_ns(folder: Path, result: rewindow.Result) -> int:
    """The kernel's clock less the capture's: ACKs of data are in both, and tcp_probe reads the clock of the steps."""
    with gzip.open(folder / "truth.csv.gz", "rt") as f:
        truth = {(int(r["sport"]), int(r["snd_una"])): round(float(r["t"]) * 1e9) for r in csv.DictReader(f)}
    ends = {(c.id, s.id): s.sport for c in result.connections for s in c.subflows}
    rows = (result.acks[name].to_pylist() for name in ("connection", "subflow", "una"))
    times = result.acks["time_ns"].cast("int64").to_pylist()
    apart = sorted(
        truth[ends[c, s], una] - time
        for c, s, una, time in zip(*rows, times, strict=True)
        if (ends[c, s], una) in truth
    )
    return int(apart[len(apart) // 2])


def _told(decisions: Sequence[Decision], times: Sequence[int]) -> list[tuple[int, str]]:
    """Set and state at each of the times, which rise."""
    told, at, now = [], 0, (0, STATES[0])
    for time in times:
        while at < len(decisions) and decisions[at][0] <= time:
            now, at = decisions[at][1:], at + 1
        told.append(now)
    return told


def _changes(decisions: Sequence[Decision]) -> int:
    return sum(a[1:] != b[1:] for a, b in itertools.pairwise(decisions))


def agreement(kernel: Sequence[Decision], replay: Sequence[Decision], end_ns: int) -> tuple[float, float, float, float]:
    """Seconds in which both ran, and shares of them: told the same, final in the kernel, final in the replay."""
    begin_ns = max(kernel[0][0], replay[0][0])
    edges = sorted({begin_ns, end_ns, *(t for t, *_ in (*kernel, *replay) if begin_ns < t < end_ns)})
    spans = [b - a for a, b in itertools.pairwise(edges)]
    ours, theirs = _told(kernel, edges[:-1]), _told(replay, edges[:-1])
    whole = max(sum(spans), 1)
    equal = sum(span for span, a, b in zip(spans, ours, theirs, strict=True) if a == b)
    final = [sum(s for s, (_, state) in zip(spans, of, strict=True) if state == "final") for of in (ours, theirs)]
    return sum(spans) / 1e9, equal / whole, final[0] / whole, final[1] / whole


def compare(folder: Path) -> Iterator[Sets]:
    """Each subflow of the run that ran rw_sbcc."""
    wanted = {port: address for (address, port), name in controllers.senders(folder).items() if name == "sbcc"}
    if not wanted:
        return
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        result = capture.replay([Choice("sbcc", {"mode": "kernel"})], detectors=["sbcc"])
    ahead_ns, kernel = kernel_ahead_ns(folder, result), in_the_kernel(folder)
    ends = {(c.id, s.id): s.sport for c in result.connections for s in c.subflows}
    replay: dict[int, list[Decision]] = {}
    columns = [result.sets[name].to_pylist() for name in ("connection", "subflow", "detector", "set", "state")]
    for time, c, s, detector, number, state in zip(
        result.sets["time_ns"].cast("int64").to_pylist(), *columns, strict=True
    ):
        if detector == "sbcc":
            replay.setdefault(ends[c, s], []).append((time + ahead_ns, number or 0, state))
    end_ns = max(result.acks["time_ns"].cast("int64").to_pylist()) + ahead_ns
    for port, address in sorted(wanted.items(), key=lambda item: item[1]):
        if port in kernel and port in replay:
            seconds, equal, *final = agreement(kernel[port], replay[port], end_ns)
            changed = _changes(kernel[port]), _changes(replay[port])
            yield Sets(folder.name, f"{address}:{port}", seconds, equal, *changed, *final)


def table(found: Sequence[Sets]) -> list[str]:
    """Markdown lines, one for each subflow."""
    lines = [
        "| run | subflow | seconds | same set and state | changes: kernel | replay | final: kernel | replay |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for s in found:
        lines.append(
            f"| {s.run} | {s.endpoint} | {s.seconds:.1f} | {s.equal:.2%} | {s.kernel} | {s.replay} "
            f"| {s.kernel_final:.1%} | {s.replay_final:.1%} |"
        )
    return lines
