"""Compares detectors of shared bottlenecks with the networks that the runs had; part of `make validate`.

For a run of the lab, `scenario.toml` tells which paths share their slowest link. For other runs, `result.json` names
the scenario: `shared` has one bottleneck for all flows, any other name one for each path. The path is the third number
of a flow's addresses (10.0.p.x, and 10.0.1p.x for plain TCP). In runs without either file each subflow has its own
path.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rewindow
from rewindow import Choice, Connection, Subflow
from rewindow.replays.replay import Result
from rewindow.scenarios import Scenario, load

INSIDE = {
    "sbcc": Choice("sbcc"),
    "dwc": Choice("dwc"),
    "sbd": Choice("sbd"),
    "sbcc, trigger_loss": Choice("sbcc", {"trigger_loss": "on"}),
    "sbd, correlation": Choice("sbd", {"grouping": "correlation", "N": 20}),
}
"""Detectors within a connection. A replay runs each detector once, so those with an option run in a second replay."""
ACROSS: dict[str, bool | Choice] = {"default": True, "RFC 8382": Choice("sbd")}
"""Comparisons of all flows of a capture."""


def path_of(subflow: Subflow) -> int:
    """The path p from the address: 10.0.p.1, 10.0.1p.1, fd00:p::1."""
    address = ipaddress.ip_address(subflow.src)
    return (address.packed[2] if address.version == 4 else address.packed[3]) % 10


def shares_of(scenario: Scenario) -> tuple[str, Callable[[Subflow, Subflow], bool]]:
    """For a run of the lab: two flows share a bottleneck if the slowest link of their paths is the same."""
    links: dict[tuple[str, str], frozenset[str]] = {}
    for path in scenario.paths:
        for way in (path, path.seen_from(path.end.host)):
            links[str(way.start.address), str(way.end.address)] = scenario.bottlenecks(way)
    used = [scenario.bottlenecks(p) for t in scenario.transfers for p in t.paths]
    meeting = {bool(a & b) for a, b in itertools.combinations(used, 2)}
    kind = "mixed" if len(meeting) == 2 else "shared" if True in meeting else "disjoint"
    return kind, lambda a, b: bool(links[a.src, a.dst] & links[b.src, b.dst])


def truth_of(folder: Path) -> tuple[str, Callable[[Subflow, Subflow], bool]]:
    """The kind of network, and a function that tells whether two flows share a bottleneck."""
    if (folder / "scenario.toml").exists():
        return shares_of(load(folder / "scenario.toml"))
    described = folder / "result.json"
    scenario = json.loads(described.read_text())["scenario"] if described.exists() else "disjoint"
    if scenario == "shared":
        return scenario, lambda a, b: True
    return scenario, lambda a, b: path_of(a) == path_of(b)


@dataclass
class Verdicts:
    """The verdicts of one detector on the pairs of subflows of a connection."""

    time_ns: int = 0
    right_ns: int = 0
    decisions: int = 0
    right: int = 0
    at_the_end: list[bool] = field(default_factory=list)

    def add(self, other: Verdicts) -> None:
        self.time_ns += other.time_ns
        self.right_ns += other.right_ns
        self.decisions += other.decisions
        self.right += other.right
        self.at_the_end += other.at_the_end

    def cells(self) -> str:
        share = f"{self.right_ns / self.time_ns:.0%}" if self.time_ns else "–"
        return f"{share} | {self.right}/{self.decisions} | {sum(self.at_the_end)}/{len(self.at_the_end)}"


def pair_verdicts(rows: list[dict[str, Any]], a: int, b: int, together: bool, end_ns: int) -> Verdicts:
    """From the time at which both are watched to the end of the connection. A decision is a change between being in one
    final set and not."""
    found, last = Verdicts(), None
    sets: dict[int, int | None] = {}
    said: bool | None = None
    for time, changes in itertools.groupby(rows, key=lambda r: r["time_ns"]):
        if last is not None:
            found.time_ns += time - last
            found.right_ns += (time - last) * (said is together)
        sets |= {r["subflow"]: r["set"] if r["state"] == "final" else None for r in changes if r["subflow"] in (a, b)}
        if len(sets) < 2:
            continue
        now = sets[a] is not None and sets[a] == sets[b]
        if said is not None and now is not said:
            found.decisions += 1
            found.right += now is together
        said, last = now, time
    if last is not None:
        found.time_ns += end_ns - last
        found.right_ns += (end_ns - last) * (said is together)
        found.at_the_end.append(said is together)
    return found


def connection_verdicts(result: Result, detector: str, shared: Callable[[Subflow, Subflow], bool]) -> Verdicts:
    total = Verdicts()
    for c in result.connections:
        rows = [r for r in result.sets.to_pylist() if r["connection"] == c.id and r["detector"] == detector]
        for a, b in itertools.combinations(c.subflows, 2):
            total.add(pair_verdicts(rows, a.id, b.id, shared(a, b), c.last_ns))
    return total


def compared(connections: list[Connection], shared: Callable[[Subflow, Subflow], bool]) -> dict[str, int]:
    """Pairs of flows: right, wrong, undecided."""
    counts = {"right": 0, "wrong": 0, "undecided": 0}
    for a, b in itertools.combinations([s for c in connections for s in c.subflows], 2):
        if not {a.bottleneck_state, b.bottleneck_state} <= {"alone", "shared"}:
            counts["undecided"] += 1
            continue
        said = a.bottleneck is not None and a.bottleneck == b.bottleneck
        counts["right" if said is shared(a, b) else "wrong"] += 1
    return counts


@dataclass
class Run:
    name: str
    scenario: str
    inside: dict[str, Verdicts]
    across: dict[str, dict[str, int]]
    interface: dict[str, int]


def run(folder: Path) -> Run:
    scenario, shared = truth_of(folder)
    capture_file = next(folder.glob("capture.pcap*"))
    inside: dict[str, Verdicts] = {}
    across: dict[str, dict[str, int]] = {}
    with rewindow.open(capture_file) as capture:
        first = capture.replay(detectors=["sbcc", "dwc", "sbd"])
        second = capture.replay(detectors=[choice for name, choice in INSIDE.items() if "," in name])
        for name, choice in INSIDE.items():
            inside[name] = connection_verdicts(first if "," not in name else second, choice.name, shared)
        for name, how in ACROSS.items():
            with capture.stream(bottlenecks=how) as replay:
                replay.run()
                across[name] = compared(replay.connections(), shared)
    flows = [s for c in first.connections for s in c.subflows]
    guessed = [(a.interface == b.interface) is shared(a, b) for a, b in itertools.combinations(flows, 2)]
    return Run(folder.name, scenario, inside, across, {"right": sum(guessed), "wrong": len(guessed) - sum(guessed)})


def _inside_table(runs: list[Run]) -> Iterator[str]:
    yield "| run | paths | " + " | ".join(f"{n}: time | decisions | end" for n in INSIDE) + " |"
    yield "|---|---|" + "---:|---:|---:|" * len(INSIDE)
    totals: dict[str, dict[str, Verdicts]] = {}
    for r in runs:
        if not r.inside["sbcc"].at_the_end:
            continue
        yield f"| {r.name} | {r.scenario} | " + " | ".join(v.cells() for v in r.inside.values()) + " |"
        for name, v in r.inside.items():
            totals.setdefault(r.scenario, {}).setdefault(name, Verdicts()).add(v)
    for scenario, found in totals.items():
        yield f"| **all** | {scenario} | " + " | ".join(v.cells() for v in found.values()) + " |"


def _across_table(runs: list[Run]) -> Iterator[str]:
    yield (
        "| run | paths | "
        + " | ".join(f"{n}: right | wrong | undecided" for n in ACROSS)
        + " | interface: right | wrong |"
    )
    yield "|---|---|" + "---:|---:|---:|" * len(ACROSS) + "---:|---:|"
    for r in [*runs, _total(runs)]:
        cells = [str(n) for counts in (*r.across.values(), r.interface) for n in counts.values()]
        yield f"| {r.name} | {r.scenario} | " + " | ".join(cells) + " |"


def _total(runs: list[Run]) -> Run:
    across = {
        name: {k: sum(r.across[name][k] for r in runs) for k in ("right", "wrong", "undecided")} for name in ACROSS
    }
    return Run("**all**", "", {}, across, {k: sum(r.interface[k] for r in runs) for k in ("right", "wrong")})


def report(corpus: Path) -> tuple[str, list[str]]:
    """Markdown, and the failures: with ECN, SB-CC's detector must be right at the end."""
    runs = [run(p.parent) for p in sorted(corpus.glob("*/capture.pcap*"))]
    lines = ["Within connections:", "", *_inside_table(runs), "", "Over all flows of a capture, pairs:", ""]
    lines += _across_table(runs)
    short = [f"{r.name}: sbcc" for r in runs if r.name.endswith("-ecn") and not all(r.inside["sbcc"].at_the_end)]
    return "\n".join(lines), short
