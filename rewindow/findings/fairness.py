"""Fairness among flows that share a bottleneck: Jain's index and the MPTCP-to-TCP ratio."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rewindow.findings.connections import Connection, Subflow
from rewindow.findings.fair_shares import FairShare, Usage, fair_shares
from rewindow.findings.quality import GOOD, worst

if TYPE_CHECKING:
    from rewindow.findings.tables import ConnectionTable

BULK_BYTES_MIN = 15000
"""About one initial window (RFC 6928): a flow that sends less never competes."""


@dataclass
class FairnessGroup:
    """Connections that share a bottleneck. A member's goodput is its bytes through the bottleneck over its lifetime."""

    bottleneck: str
    members: list[int]
    goodput_bps: list[float]
    jain: float
    mptcp_to_tcp_ratio: float | None
    """Mean goodput of the MPTCP members over that of the TCP members; None without both."""
    declared: bool = False
    method: str = "declared"
    """How the members were found to share it: sbd, declared or interface."""
    kinds: list[str] = field(default_factory=list)
    capacity_bps: float | None = None
    """What the members have of the bottleneck together; None where nothing tells it (fair_shares.py)."""
    shares: list[FairShare | None] = field(default_factory=list)
    """Each member's part of its max-min fair share; None where it is not known."""
    verdict: str = GOOD
    """The worst verdict on the quality of its members."""


def jain_index(values: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe 1984)."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


METHODS = ("sbd", "interface")
"""How bottlenecks are found where none are declared. sbd: flows whose delays rise and fall together, in RFC 8382's
intervals (docs/decisions/bottlenecks.md). interface: flows captured on one interface are taken to share one."""


class FairnessTally:
    """Collects connections one by one, and keeps only a few numbers of each.

    declared: for each bottleneck the addresses or networks whose flows cross it. Without any, `method` decides; for sbd
    the flows must have been compared (`bottlenecks=True` of the replay).

    Raises ValueError for something that is neither address nor network, an unknown method, and flows not compared.
    """

    def __init__(self, declared: Sequence[Sequence[str]] = (), method: str = "sbd") -> None:
        if method not in METHODS:
            raise ValueError(f"'{method}' is none of {', '.join(METHODS)}")
        self._declared = {
            "declared " + ", ".join(p): [ipaddress.ip_network(n, strict=False) for n in p] for p in declared
        }
        self.method = "declared" if declared else method
        self._members: dict[str, dict[int, _Member]] = {name: {} for name in self._declared}
        self.states: dict[str, int] = {}
        """How many bulk flows the detector left in each state; empty for other methods."""

    def add(self, connection: Connection) -> None:
        for s in connection.subflows:
            if s.bytes < BULK_BYTES_MIN or not s.goodput_bps:
                continue
            for name in self._bottlenecks(s):
                members = self._members.setdefault(name, {})
                member = members.setdefault(
                    connection.id, _Member(connection.kind, connection.verdict, s.first_ns, s.last_ns)
                )
                member.goodput_bps += s.goodput_bps
                member.first_ns = min(member.first_ns, s.first_ns)
                member.last_ns = max(member.last_ns, s.last_ns)
                member.bytes += s.bytes
                member.is_limited_by_network |= bool(s.fast_retransmits or s.timeouts or s.ece_acks)

    def add_table(self, table: ConnectionTable) -> None:
        """Adds many connections; makes objects only of those that could count."""
        for connection in table.objects(table.with_bulk(BULK_BYTES_MIN)):
            self.add(connection)

    def _bottlenecks(self, subflow: Subflow) -> list[str]:
        if self.method == "interface":
            return [f"interface {subflow.interface}"]
        if self.method == "sbd":
            if subflow.bottleneck_state == "not_asked":
                raise ValueError("the flows were not compared: replay with bottlenecks=True")
            self.states[subflow.bottleneck_state] = self.states.get(subflow.bottleneck_state, 0) + 1
            return [] if subflow.bottleneck is None else [f"detected: sbd #{subflow.bottleneck}"]
        ends = (ipaddress.ip_address(subflow.src), ipaddress.ip_address(subflow.dst))
        return [name for name, nets in self._declared.items() if any(e in net for e in ends for net in nets)]

    def groups(self) -> list[FairnessGroup]:
        """Those of two connections or more that overlap in time: as the bottlenecks were declared, or ordered by what
        was found, #2 before #10."""
        names = list(self._members) if self._declared else sorted(self._members, key=_natural)
        groups = (_group(name, self._members[name], self.method) for name in names)
        return [g for g in groups if g is not None]

    def bottlenecks(self) -> dict[str, Any]:
        """How bottlenecks were found, and for how many bulk flows they are unknown; in JSON's types."""
        undecided, not_judged = self.states.get("undecided", 0), self.states.get("not_judged", 0)
        return {"method": self.method, "undecided": undecided, "not_judged": not_judged}


def _natural(name: str) -> list[str | int]:
    """Orders names with numbers in them by these numbers."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def fairness_groups(
    connections: Iterable[Connection], declared: Sequence[Sequence[str]] = (), method: str = "sbd"
) -> list[FairnessGroup]:
    """Groups connections by bottleneck; see FairnessTally."""
    tally = FairnessTally(declared, method)
    for connection in connections:
        tally.add(connection)
    return tally.groups()


@dataclass(slots=True)
class _Member:
    kind: str
    verdict: str
    first_ns: int
    last_ns: int
    goodput_bps: float = 0.0
    bytes: int = 0
    is_limited_by_network: bool = False


def _overlapping(members: Mapping[int, _Member]) -> list[int]:
    """Connections that live at the same time as another one."""
    found: set[int] = set()
    latest: int | None = None  # of those seen, in the order of their start, the one that ends last
    for number, m in sorted(members.items(), key=lambda item: (item[1].first_ns, item[1].last_ns)):
        if latest is not None and m.first_ns < members[latest].last_ns and members[latest].first_ns < m.last_ns:
            found |= {number, latest}
        if latest is None or m.last_ns > members[latest].last_ns:
            latest = number
    return sorted(found)


def _group(name: str, members: Mapping[int, _Member], method: str) -> FairnessGroup | None:
    numbers = _overlapping(members)
    if len(numbers) < 2:
        return None
    rates = [members[i].goodput_bps for i in numbers]
    kinds = [members[i].kind for i in numbers]
    by_kind = {k: [r for r, kind in zip(rates, kinds, strict=True) if kind == k] for k in ("mptcp", "tcp")}
    ratio = None
    if by_kind["mptcp"] and by_kind["tcp"]:
        mean = {k: sum(v) / len(v) for k, v in by_kind.items()}
        ratio = mean["mptcp"] / mean["tcp"]
    verdict = worst([members[i].verdict for i in numbers])
    usages = [Usage(m.first_ns, m.last_ns, m.bytes, m.is_limited_by_network) for m in (members[i] for i in numbers)]
    capacity, shares = fair_shares(usages)
    return FairnessGroup(
        name, numbers, rates, jain_index(rates), ratio, method == "declared", method, kinds, capacity, shares, verdict
    )
