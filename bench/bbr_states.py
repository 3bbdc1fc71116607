"""Compares BBR's replay with the state that the lab recorded of the kernel's BBR (bbr.csv.gz; docs/lab.md)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rewindow

FILE = "bbr.csv.gz"
MODES = ("startup", "drain", "probe_bw", "probe_rtt")
LEAST = 0.95
"""Of the ACKs, in each mode: the window within one segment or 2 %, whichever is more; the bandwidth within 2 %."""


@dataclass
class Count:
    acks: int = 0
    window: int = 0
    bandwidth: int = 0

    def add(self, other: Count) -> None:
        self.acks += other.acks
        self.window += other.window
        self.bandwidth += other.bandwidth

    @property
    def falls_short(self) -> bool:
        return min(self.window, self.bandwidth) < LEAST * self.acks


@dataclass
class Compared:
    """A sender with BBR; its counts by the kernel's mode. told: the algorithm that its replay names."""

    run: str
    endpoint: str
    told: str
    modes: dict[str, Count] = field(default_factory=lambda: {mode: Count() for mode in MODES})

    @property
    def all(self) -> Count:
        return total([self], MODES)


def total(senders: Sequence[Compared], modes: Sequence[str]) -> Count:
    result = Count()
    for sender in senders:
        for mode in modes:
            result.add(sender.modes[mode])
    return result


def _truth(folder: Path) -> dict[tuple[str, int], list[dict[str, str]]]:
    rows: dict[tuple[str, int], list[dict[str, str]]] = {}
    with gzip.open(folder / FILE, "rt") as f:
        for row in csv.DictReader(f):
            rows.setdefault((row["src"], int(row["sport"])), []).append(row)
    return rows


def before(a: int, b: int) -> bool:
    return (a - b) & 0xFFFFFFFF > 0x7FFFFFFF


def compare(folder: Path) -> Iterator[Compared]:
    """Both are taken before an ACK: ours is the replay's state after the ACK before."""
    truth = _truth(folder)
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        result = capture.replay(["bbr"])
    acks = {n: result.acks[n].to_pylist() for n in ("una", "bbr.cwnd_before", "bbr.bandwidth_segments_s")}
    places = list(zip(result.acks["connection"].to_pylist(), result.acks["subflow"].to_pylist(), strict=True))
    for connection in result.connections:
        for subflow in connection.subflows:
            kernel = truth.get((subflow.src, subflow.sport))
            if not kernel:
                continue
            rows = [i for i, place in enumerate(places) if place == (connection.id, subflow.id)]
            found = Compared(folder.name, f"{subflow.src}:{subflow.sport}", subflow.sender_algorithm.name)
            previous, i, j = None, 0, 0
            while i < len(rows) and j < len(kernel):
                una, row, its = acks["una"][rows[i]], rows[i], kernel[j]
                if una != int(its["snd_una"]):
                    i, j = (i + 1, j) if before(una, int(its["snd_una"])) else (i, j + 1)
                    continue
                cwnd, policed = int(its["snd_cwnd"]), its["policed"] == "1"
                bandwidth = float(its["policed_bandwidth_segments_s" if policed else "bandwidth_segments_s"])
                ours = (acks["bbr.bandwidth_segments_s"][previous] or 0.0) if previous is not None else 0.0
                found.modes[its["mode"]].add(
                    Count(
                        1,
                        abs(acks["bbr.cwnd_before"][row] - cwnd) <= max(1.0, 0.02 * cwnd),
                        abs(ours - bandwidth) <= 0.02 * bandwidth,
                    )
                )
                previous, i, j = row, i + 1, j + 1
            yield found


def table(senders: Sequence[Compared]) -> list[str]:
    """Markdown lines, one for each sender; the last one has all senders."""

    def shares(count: Count) -> str:
        if not count.acks:
            return "–"
        return f"{count.window / count.acks:.2%} / {count.bandwidth / count.acks:.2%}"

    lines = ["| " + " | ".join(("run", "sender", "told", "ACKs", "all", *MODES)) + " |"]
    lines.append("|---|---|---|---:" + "|---:" * (1 + len(MODES)) + "|")
    for s in senders:
        cells = (s.run, s.endpoint, s.told, str(s.all.acks), shares(s.all), *(shares(s.modes[m]) for m in MODES))
        lines.append("| " + " | ".join(cells) + " |")
    every = total(senders, MODES)
    cells = ("**all**", "", "", str(every.acks), shares(every), *(shares(total(senders, (m,))) for m in MODES))
    lines.append("| " + " | ".join(cells) + " |")
    return lines


def short(senders: Sequence[Compared]) -> list[str]:
    """What misses the goal: a sender that is named, over all its ACKs; a mode, over all senders."""
    found = [f"{s.run} {s.endpoint} (state of BBR)" for s in senders if s.told == "bbr" and s.all.falls_short]
    return found + [f"BBR's {mode} over all senders" for mode in MODES if total(senders, (mode,)).falls_short]
