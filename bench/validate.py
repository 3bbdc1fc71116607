"""Compares replays with the Linux kernel's own window: `make validate CORPUS=DIR`.

DIR holds a folder for each run with `capture.pcap` or `capture.pcapng` and `truth.csv.gz`: the tcp_probe trace point,
a line for each ACK before it is processed (src, sport, snd_una, snd_cwnd, srtt_us). Rows are matched by subflow and
snd_una, in order. `result.json` may tell what each sender ran (senders.py). Prints the tables of docs/validation.md;
--write puts there those that come from such a folder: the suite's with --networks, those of single runs without.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rewindow
from bench import bbr_states, bottlenecks, controllers, kernel_sets, lockstep, names
from bench.documents import put
from bench.senders import Ran, what_ran
from rewindow import Choice
from rewindow.findings.senders import CANDIDATE_OPTIONS, COUPLED_CANDIDATES, RARE_CANDIDATES, SINGLE_PATH_CANDIDATES
from rewindow.replays.replay import Result

RECOVERING = {"recovery", "loss", "cwr"}


@dataclass
class Score:
    """How one algorithm's window compares with the kernel's on one subflow."""

    rows: int = 0
    exact: int = 0
    within_one: int = 0
    within_two_percent: int = 0
    """Or within one segment, whichever is more."""
    outside: int = 0
    outside_exact: int = 0
    errors: list[float] = field(default_factory=list)
    """Errors relative to the kernel's window."""
    rtt_errors: list[float] = field(default_factory=list)

    def add(self, ours: float, kernel: float, phase: str, srtt_us: int | None, kernel_srtt_us: int) -> None:
        error = abs(math.floor(ours + 1e-9) - kernel)
        self.rows += 1
        self.exact += error < 0.5
        self.within_one += error <= 1.0
        self.within_two_percent += error <= max(1.0, 0.02 * kernel)
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


@dataclass
class Judged:
    """A data sender of a run. trusted: whether its windows are reliable; label: the candidate that is scored.

    ran: what the run says that it ran; None where the run does not tell.
    """

    run: str
    endpoint: str
    send_times: str
    trusted: bool
    named: names.Named
    ran: Ran | None
    label: str
    score: Score

    @property
    def told(self) -> str:
        return self.named.name


REPLAYED = {**CANDIDATE_OPTIONS, **{name: {} for name in RARE_CANDIDATES}}
"""Every algorithm that a sender may be named by, with the options of its replay."""


def compare(folder: Path) -> Iterator[Judged]:
    with rewindow.open(next(folder.glob("capture.pcap*"))) as capture:
        result = capture.replay([Choice(name, dict(options)) for name, options in REPLAYED.items()])
    subflows = {(s.src, s.sport): s for c in result.connections for s in c.subflows}
    coupled = {(s.src, s.sport) for c in result.connections if c.kind == "mptcp" for s in c.subflows}
    truth, ran = truth_rows(folder / "truth.csv.gz"), what_ran(folder)
    scores = {label: {k: score(v, truth[k]) for k, v in our_rows(result, label).items() if k in truth}
              for label in REPLAYED}  # fmt: skip
    for key, s in sorted(subflows.items()):
        found = {label: scores[label][key] for label in REPLAYED if key in scores[label]}
        if found:
            told = s.sender_algorithm
            # A TCP connection under a coupled algorithm may be any of these; under another one it has the simpler name.
            of = CANDIDATE_OPTIONS if key in coupled or _ran_coupled(ran.get(key)) else SINGLE_PATH_CANDIDATES
            within_one = {
                label: its.within_one / its.rows
                for label, its in found.items()
                if its.rows and (label in of or label in RARE_CANDIDATES)
            }
            losses = s.fast_retransmits + s.timeouts
            named = names.Named(told.name, told.candidates, losses, s.verdict == "good", within_one)
            label = told.name if told.name in found else max(found, key=lambda k: found[k].exact)
            yield Judged(
                folder.name, f"{key[0]}:{key[1]}", s.send_times, "windows" not in s.unreliable, named, ran.get(key),
                label, found[label],
            )  # fmt: skip


def _ran_coupled(ran: Ran | None) -> bool:
    return ran is not None and ran.algorithm in COUPLED_CANDIDATES


GOALS = {"newreno": ("outside recovery", 0.99), "cubic": ("within one", 0.95), "bbr": ("within 2%", 0.95)}
"""The share of ACKs required for a sender that is named and whose windows are reliable."""


def falls_short(told: str, trusted: bool, s: Score) -> bool:
    """Whether the replay of a named sender with reliable windows misses the goal."""
    if told not in GOALS or not trusted:
        return False
    name, least = GOALS[told]
    shares = {
        "outside recovery": s.outside_exact / max(s.outside, 1),
        "within one": s.within_one / s.rows,
        "within 2%": s.within_two_percent / s.rows,
    }
    share = shares[name]
    return share < least or statistics.median(s.rtt_errors or [0.0]) > 0.02


def judged(folders: Sequence[Path]) -> list[Judged]:
    return [found for folder in folders for found in compare(folder) if found.score.rows]


def windows_table(senders: Sequence[Judged]) -> list[str]:
    """Markdown lines, one for each data sender."""
    columns = ("run", "data sender", "send times", "sender told", "replayed", "ACKs", "exact", "outside recovery")
    lines = ["| " + " | ".join((*columns, "within one", "or 2%", "median error", "median srtt error")) + " |"]
    lines.append("|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for j in senders:
        s = j.score
        rtt = f"{statistics.median(s.rtt_errors):.4%}" if s.rtt_errors else "–"
        lines.append(
            f"| {j.run} | {j.endpoint} | {j.send_times} | {j.told} | {j.label} | {s.rows} | "
            f"{s.exact / s.rows:.2%} | {s.outside_exact / max(s.outside, 1):.2%} | {s.within_one / s.rows:.2%} | "
            f"{s.within_two_percent / s.rows:.2%} | "
            f"{statistics.median(s.errors):.2%} | {rtt} |"
        )
    return lines


def networks_table(senders: Sequence[Judged]) -> list[str]:
    """Markdown lines, one for each run, with the sender that is replayed least exactly; the last line has all runs."""
    runs: dict[str, list[Judged]] = {}
    for j in senders:
        runs.setdefault(j.run, []).append(j)
    columns = ("run", "senders", "of them unknown", "ACKs of the others", "exact", "within one", "least exact sender")
    lines = ["| " + " | ".join(columns) + " |", "|---|---:|---:|---:|---:|---:|---:|"]
    for run, found in [*runs.items(), ("**all**", list(senders))]:
        told = [j.score for j in found if j.told != "unknown"]
        rows = sum(s.rows for s in told)
        shares = ["–"] * 3
        if rows:
            counted = (sum(s.exact for s in told) / rows, sum(s.within_one for s in told) / rows)
            shares = [f"{share:.2%}" for share in (*counted, min(s.exact / s.rows for s in told))]
        lines.append(f"| {run} | {len(found)} | {len(found) - len(told)} | {rows} | {' | '.join(shares)} |")
    return lines


OF_SINGLE_RUNS = ("windows", "bottlenecks", "lockstep")
"""The tables of the document that are written without --networks; all others are of the lab's suite."""


def in_step(folder: Path, told: Mapping[tuple[str, str], str]) -> list[lockstep.Stepped]:
    """told: the controller of each sender, by run and endpoint."""
    truth = truth_rows(folder / "truth.csv.gz")
    named = {key: told.get((folder.name, f"{key[0]}:{key[1]}"), "unknown") for key in truth}
    return lockstep.compare(folder, named, truth)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 when a replay or a detector misses its goal."""
    parser = argparse.ArgumentParser(prog="validate", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--write", action="store_true", help="also put the tables into docs/validation.md")
    parser.add_argument("--networks", action="store_true", help="a line for each run only; no bottlenecks")
    chosen = parser.parse_args(arguments)
    folders = sorted(p.parent for p in chosen.corpus.glob("*/truth.csv.gz"))
    if not folders:
        parser.error(f"no run with a truth.csv.gz in {chosen.corpus}; `make lab` makes runs in build/lab")
    detecting = controllers.detecting()
    senders = [j for j in judged(folders) if not (j.ran and j.ran.algorithm in detecting)]
    short = [f"{j.run} {j.endpoint}" for j in senders if falls_short(j.told, j.trusted, j.score)]
    known = [(j.ran, j.named) for j in senders if j.ran]
    short += [
        f"{j.run} {j.endpoint} ran {j.ran.algorithm} and is called {j.told}"
        for j in senders
        if j.ran and names.wrong(j.ran, j.named)
    ]
    short += names.falls_short(known)
    ours = [c for folder in folders for c in controllers.compare(folder, truth_rows(folder / "truth.csv.gz"))]
    short += [f"{c.run} {c.endpoint} ({c.algorithm} in the kernel)" for c in ours if c.falls_short]
    sets = [s for folder in folders for s in kernel_sets.compare(folder)]
    short += [f"{s.run} {s.endpoint} (sets in the kernel)" for s in sets if s.falls_short]
    states = [s for folder in folders if (folder / bbr_states.FILE).exists() for s in bbr_states.compare(folder)]
    short += bbr_states.short(states)
    more: list[str] = []
    if chosen.networks:
        parts = {"networks": "\n".join(networks_table(senders))}
    else:
        found, more = bottlenecks.report(chosen.corpus)
        parts = {"windows": "\n".join(windows_table(senders)), "bottlenecks": found}
        told = {(j.run, j.endpoint): j.told for j in senders}
        stepped = [s for folder in folders for s in in_step(folder, told)]
        if stepped:
            parts["lockstep"] = "\n".join(lockstep.table(stepped))
    if known:
        parts["names"] = "\n".join(names.tables(known))
    if ours:
        parts["controllers"] = "\n".join(controllers.table(ours))
    if sets:
        parts["kernel sets"] = "\n".join(kernel_sets.table(sets))
    if states:
        parts["bbr"] = "\n".join(bbr_states.table(states))
    print(*parts.values(), sep="\n\n")
    for name, text in parts.items() if chosen.write else ():
        if chosen.networks or name in OF_SINGLE_RUNS:
            put("validation.md", name, text)
    for name in short + more:
        print(f"falls short of the goal: {name}", file=sys.stderr)
    return 1 if short + more else 0


if __name__ == "__main__":
    sys.exit(main())
