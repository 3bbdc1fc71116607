"""Runs of one network under several algorithms, and what-ifs of each beside the runs that really happened.

The folder has a folder for each run, named NETWORK-ALGORITHM-NUMBER, with a capture and, where the lab made it, its
scenario. `rewindow-lab pairs` makes them.
"""

from __future__ import annotations

import json
import re
import struct
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

import rewindow
from lab.pairs import JUDGED
from rewindow.core import Choice
from rewindow.scenarios import Bernoulli, Direction, EcnThreshold, Scenario, load
from rewindow.simulator.simulation import registry_name
from rewindow.whatif import Observation, WhatIf, observe
from rewindow.whatif.fitting import Fit
from rewindow.whatif.prediction import METRICS

NAME = re.compile(r"(?P<network>.+)-(?P<algorithm>[^-]+)-(?P<number>\d+)")
JUDGED_NAMES = frozenset(p.network.name for p in JUDGED)


@dataclass(frozen=True)
class Run:
    """Of a folder. alone: nothing is known of the connections beside the client's, as if the capture lacked them."""

    name: str
    network: str
    algorithm: str
    capture: Path
    alone: bool = False

    @property
    def judged(self) -> bool:
        return self.network in JUDGED_NAMES

    @property
    def number(self) -> int:
        name = NAME.fullmatch(self.name)
        return int(name["number"]) if name else 0

    @cached_property
    def observation(self) -> Observation:
        whole = _observed(self.capture)
        return replace(whole, connections=(_client(whole, self.scenario),)) if self.alone else whole

    @cached_property
    def connection(self) -> int:
        """The id of the client's: the MPTCP connection, or else the scenario's first transfer, or the largest one."""
        return _client(self.observation, self.scenario).id

    @cached_property
    def recorded(self) -> dict[str, float | None]:
        """The client's metrics; None where it has no such value."""
        found: dict[str, float | None] = _client(self.observation, self.scenario).outcome().metrics()
        return found

    @property
    def byte_limited(self) -> bool:
        return self.scenario is not None and self.scenario.transfers[0].bytes is not None

    @cached_property
    def scenario(self) -> Scenario | None:
        path = self.capture.parent / "scenario.toml"
        return load(path) if path.exists() else None


@dataclass(frozen=True)
class Asked:
    """A what-if of a run. simulated: for each metric the logarithms before and after. real: of each run that really
    used the algorithm, its metrics."""

    run: str
    network: str
    judged: bool
    algorithm: str
    beside: bool
    byte_limited: bool
    verdict: str
    reason: str | None
    recorded: dict[str, float | None]
    predicted: dict[str, tuple[float, float, float]]
    simulated: dict[str, tuple[list[float], list[float]]]
    real: list[dict[str, float | None]]


@dataclass(frozen=True)
class Repeated:
    """Two runs of the same algorithm."""

    network: str
    judged: bool
    one: dict[str, float | None]
    other: dict[str, float | None]


@dataclass(frozen=True)
class Fitted:
    """A parameter of a bottleneck. truth: the scenario's; started: the estimate that the fit began with."""

    run: str
    judged: bool
    parameter: str
    truth: float
    started: float
    fitted: float


@dataclass(frozen=True)
class Planted:
    """A capture that cannot be answered, and what the what-if said of it."""

    run: str
    judged: bool
    how: str
    verdict: str
    reason: str | None


@dataclass
class Results:
    asked: list[Asked] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)
    fitted: list[Fitted] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        stored = json.loads(path.read_text())
        return cls(
            [Asked(**row) for row in stored["asked"]], [Repeated(**row) for row in stored["repeated"]],
            [Fitted(**row) for row in stored["fitted"]], [Planted(**row) for row in stored["planted"]],
        )  # fmt: skip

    def of(self, judged: bool) -> Results:
        return Results(*([row for row in rows if row.judged == judged] for rows in
                         (self.asked, self.repeated, self.fitted, self.planted)))  # fmt: skip


def _observed(capture: Path) -> Observation:
    with rewindow.open(capture) as opened:
        return observe(opened)


def _client(observation: Observation, scenario: Scenario | None) -> Any:
    connections = observation.connections
    if scenario is not None:
        port = scenario.transfers[0].port
        addresses = {str(p.start.address) for p in scenario.transfers[0].paths}
        own = [c for c in connections if any(s.facts.src in addresses and s.facts.dport == port for s in c.subflows)]
        connections = tuple(own) or connections
    return max(connections, key=lambda c: (c.facts.kind == "mptcp", c.facts.bytes))


def runs_of(folder: Path, only: Callable[[str], bool], alone: bool = False) -> list[Run]:
    """only: which networks, by name. alone: those in whose captures are several connections, without the others."""
    found = []
    for path in folder.iterdir():
        name = NAME.fullmatch(path.name)
        captures = sorted([*path.glob("*.pcap"), *path.glob("*.pcapng")])
        if name and captures and only(name["network"]):
            found.append(Run(path.name, name["network"], name["algorithm"], captures[0], alone))
    found.sort(key=lambda r: (r.network, r.algorithm, r.number))
    if alone:
        found = [r for r in found if r.scenario is None or len(r.scenario.transfers) > 1]
    return found


def ask_all(runs: Sequence[Run], asked: int, report: Callable[[str], None]) -> Results:
    """asked: of each algorithm of a network, of how many runs a what-if is asked; each is compared with all runs."""
    by_network: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_network[run.network].append(run)
    found = Results()
    for own in by_network.values():
        found.repeated += [
            Repeated(a.network, a.judged, a.recorded, b.recorded)
            for a in own for b in own if a is not b and a.algorithm == b.algorithm
        ]  # fmt: skip
        taken: dict[str, int] = defaultdict(int)
        for run in own:
            taken[run.algorithm] += 1
            if taken[run.algorithm] > asked:
                continue
            report(run.name)
            whatif = WhatIf(run.observation)
            for algorithm in sorted({o.algorithm for o in own} - {run.algorithm}):
                found.asked.append(_ask(whatif, run, algorithm, own))
            fits = whatif.fits(run.connection)
            if not isinstance(fits, str) and run.scenario is not None:
                found.fitted += _compared(run, run.scenario, fits[0])
            if taken[run.algorithm] == 1:
                found.planted += planted(run, min({o.algorithm for o in own}))
    return found


def source_of(scenario: Scenario | None) -> dict[str, str]:
    """What the scenario's application writes, as a setting: a capture does not tell bytes from time. Pauses it does."""
    if scenario is None or scenario.transfers[0].pause_ns or scenario.transfers[0].writes:
        return {}
    return {"source": "time" if scenario.transfers[0].bytes is None else "bytes"}


def _ask(whatif: WhatIf, run: Run, algorithm: str, own: Sequence[Run]) -> Asked:
    choice = Choice(registry_name(algorithm))
    said = whatif.ask(run.connection, choice, settings=source_of(run.scenario))
    return Asked(
        run=run.name, network=run.network, judged=run.judged, algorithm=algorithm, beside=bool(said.neighbours),
        byte_limited=run.byte_limited, verdict=said.verdict, reason=said.reason, recorded=run.recorded,
        predicted={m: (s.median, s.low, s.high) for m, s in said.predicted.items()},
        simulated={m: (list(s.before), list(s.after)) for m, s in said.simulated.items()},
        real=[o.recorded for o in own if o.algorithm == algorithm],
    )  # fmt: skip


def _limiting(links: Sequence[Direction]) -> Direction | None:
    """The link with the smallest rate; None: none has one, or the rates change."""
    limited = [d for d in links if d.rate_bps is not None]
    if not limited or any(d.changes for d in limited):
        return None
    return min(limited, key=lambda d: d.rate_bps or 0)


def _compared(run: Run, scenario: Scenario, fit: Fit) -> Iterator[Fitted]:
    """The medians of the fit beside the scenario's values, for each bottleneck of the client, and its round trips."""
    place = next(i for i, c in enumerate(fit.connections) if c.id == run.connection)
    connection, members = fit.connections[place], fit.networks[0].members[place]
    columns = {(p.name, p.bottleneck): i for i, p in enumerate(fit.parameters)}
    told: set[int] = set()
    for subflow, (number, base_rtt_s) in zip(connection.subflows, members, strict=True):
        path = next((p for p in scenario.paths if str(p.start.address) == subflow.facts.src), None)
        link = _limiting(path.links) if path else None
        if path is None or link is None:
            continue
        ways = (*path.links, *path.links_back)
        rtt_s = sum(d.delay_ns for d in ways) / 1e9 + path.start.mtu_bytes * 8 / (link.rate_bps or 1)
        yield Fitted(run.name, run.judged, "base_rtt_ms", rtt_s * 1e3, base_rtt_s * 1e3, base_rtt_s * 1e3)
        if number in told:
            continue
        told.add(number)
        marks = link.discipline.packets if isinstance(link.discipline, EcnThreshold) else None
        loss = link.loss.share if isinstance(link.loss, Bernoulli) else None
        truths = {"rate_bps": link.rate_bps, "queue_packets": link.limit_packets, "ecn_packets": marks, "loss": loss}
        for name, truth in truths.items():
            column = columns.get((name, number))
            if truth and column is not None:
                fitted = float(np.exp(np.median(fit.posterior_log[:, column])))
                started = float(np.exp(fit.parameters[column].log))
                yield Fitted(run.name, run.judged, name, float(truth), started, fitted)


_PCAP_HEADER, _RECORD_HEADER = 24, 16
_LITTLE_ENDIAN_MAGICS = (0xA1B23C4D, 0xA1B2C3D4)
_RAW_IP = 101
_SOURCE = {4: slice(12, 16), 6: slice(8, 24)}
"""Where an IP header has its sender's address, by version."""
_BEGINNING_PACKETS = 25


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Record with its header, and the packet in it."""
    at = _PCAP_HEADER
    while at + _RECORD_HEADER <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        end = at + _RECORD_HEADER + size
        yield data[at:end], data[at + _RECORD_HEADER : end]
        at = end


def planted(run: Run, algorithm: str) -> Iterator[Planted]:
    """Captures in which the answer is not: one direction, a third of the packets missing, the first packets only."""
    data = run.capture.read_bytes()
    magic, linktype = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, 20)[0]
    if magic not in _LITTLE_ENDIAN_MAGICS or linktype != _RAW_IP:
        return
    senders = {ip_address(s.facts.src).packed for c in run.observation.connections for s in c.subflows}
    records = list(_records(data))

    def sent(packet: bytes) -> bool:
        return packet[_SOURCE[packet[0] >> 4]] in senders

    kept = {
        "one direction": [r for r, packet in records if sent(packet)],
        "a third is missing": [r for i, (r, _) in enumerate(records) if i % 3],
        f"the first {_BEGINNING_PACKETS} packets": [r for r, _ in records[:_BEGINNING_PACKETS]],
    }
    with tempfile.TemporaryDirectory() as folder:
        for how, rest in kept.items():
            path = Path(folder) / "capture.pcap"
            path.write_bytes(data[:_PCAP_HEADER] + b"".join(rest))
            observation = _observed(path)
            client = _client(observation, run.scenario)
            said = WhatIf(observation).ask(client.id, Choice(registry_name(algorithm)))
            yield Planted(run.name, run.judged, how, said.verdict, said.reason)


__all__ = ["METRICS", "Asked", "Fitted", "Planted", "Repeated", "Results", "Run", "ask_all", "runs_of"]
