"""Compares replays with the Linux kernel's own window: `make validate CORPUS=DIR`.

DIR holds a folder for each run with `capture.pcap` or `capture.pcapng` and `truth.csv.gz`: the tcp_probe trace point,
a line for each ACK before it is processed (src, sport, snd_una, snd_cwnd, srtt_us). Rows are matched by subflow and
snd_una, in order. Prints the table of docs/validation.md.
"""

from __future__ import annotations

import csv
import gzip
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import rewindow
from rewindow.replays import SENDER_CANDIDATES, Result

RECOVERING = {"recovery", "loss", "cwr"}


@dataclass
class Score:
    """How one algorithm's window compares with the kernel's on one subflow."""

    rows: int = 0
    exact: int = 0
    within_one: int = 0
    outside: int = 0
    outside_exact: int = 0
    errors: list[float] = field(default_factory=list)
    """Relative to the kernel's window."""
    rtt_errors: list[float] = field(default_factory=list)

    def add(self, ours: float, kernel: float, phase: str, srtt_us: int | None, kernel_srtt_us: int) -> None:
        error = abs(ours - kernel)
        self.rows += 1
        self.exact += error < 0.5
        self.within_one += error <= 1.0
        self.errors.append(error / kernel)
        if phase not in RECOVERING:
            self.outside += 1
            self.outside_exact += error < 0.5
        if srtt_us and kernel_srtt_us:
            self.rtt_errors.append(abs(srtt_us / kernel_srtt_us - 1))


def before(a: int, b: int) -> bool:
    return (a - b) & 0xFFFFFFFF > 0x7FFFFFFF


def truth_rows(path: Path) -> dict[tuple[str, int], list[tuple[int, float, int]]]:
    rows: dict[tuple[str, int], list[tuple[int, float, int]]] = {}
    with gzip.open(path, "rt") as f:
        for r in csv.DictReader(f):
            key = (r["src"], int(r["sport"]))
            rows.setdefault(key, []).append((int(r["snd_una"]), float(r["snd_cwnd"]), int(r["srtt_us"])))
    return rows


def our_rows(result: Result, label: str) -> dict[tuple[str, int], list[tuple[int, float, str, int | None]]]:
    ends = {(c.id, s.id): (s.src, s.sport) for c in result.connections for s in c.subflows}
    names = ("connection", "subflow", "una", f"{label}.cwnd_before", f"{label}.phase", "srtt_us")
    rows: dict[tuple[str, int], list[tuple[int, float, str, int | None]]] = {}
    for connection, subflow, una, cwnd, phase, srtt in zip(*(result.acks[n].to_pylist() for n in names), strict=True):
        rows.setdefault(ends[connection, subflow], []).append((una, cwnd, phase, srtt))
    return rows


def score(ours: list[tuple[int, float, str, int | None]], truth: list[tuple[int, float, int]]) -> Score:
    result, i, j = Score(), 0, 0
    while i < len(ours) and j < len(truth):
        if ours[i][0] == truth[j][0]:
            _, cwnd, phase, srtt = ours[i]
            result.add(cwnd, truth[j][1], phase, srtt, truth[j][2])
            i, j = i + 1, j + 1
        elif before(ours[i][0], truth[j][0]):
            i += 1
        else:
            j += 1
    return result


def compare(folder: Path) -> Iterator[tuple[str, str, str, str, Score]]:
    """endpoint, how send times are known, the sender's algorithm as told, the better candidate, its score."""
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        result = capture.replay(list(SENDER_CANDIDATES))
    told = {(s.src, s.sport): s.sender_algorithm.name for c in result.connections for s in c.subflows}
    send_times = {(s.src, s.sport): s.send_times for c in result.connections for s in c.subflows}
    truth = truth_rows(folder / "truth.csv.gz")
    scores = {label: {k: score(v, truth[k]) for k, v in our_rows(result, label).items() if k in truth}
              for label in SENDER_CANDIDATES}  # fmt: skip
    for key in sorted(told):
        found = {label: scores[label][key] for label in SENDER_CANDIDATES if key in scores[label]}
        if found:
            label = max(found, key=lambda k: found[k].exact)
            yield f"{key[0]}:{key[1]}", send_times[key], told[key], label, found[label]


def main(corpus: str) -> None:
    columns = ("run", "data sender", "send times", "sender told", "replayed", "ACKs", "exact", "outside recovery")
    print("|", " | ".join((*columns, "within one", "median error", "median srtt error")), "|")
    print("|---|---|---|---|---|---:|---:|---:|---:|---:|---:|")
    for folder in sorted(p.parent for p in Path(corpus).glob("*/truth.csv.gz")):
        for endpoint, send_times, told, label, s in compare(folder):
            if s.rows:
                rtt = f"{statistics.median(s.rtt_errors):.4%}" if s.rtt_errors else "–"
                print(
                    f"| {folder.name} | {endpoint} | {send_times} | {told} | {label} | {s.rows} | "
                    f"{s.exact / s.rows:.2%} | {s.outside_exact / max(s.outside, 1):.2%} | "
                    f"{s.within_one / s.rows:.2%} | "
                    f"{statistics.median(s.errors):.2%} | {rtt} |"
                )


if __name__ == "__main__":
    main(sys.argv[1])
