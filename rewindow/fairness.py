"""Fairness among flows that share a bottleneck: Jain's index and the MPTCP-to-TCP ratio."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewindow.connections import Connection, Subflow
from rewindow.quality import GOOD, worst

BULK_BYTES_MIN = 15000
"""About one initial window (RFC 6928): what sends less never competes."""


@dataclass
class FairnessGroup:
    """Connections that share a bottleneck. Goodput is what each sent through it, over its own life."""

    bottleneck: str
    members: list[int]
    goodput_bps: list[float]
    jain: float
    mptcp_to_tcp_ratio: float | None
    """Mean goodput of the MPTCP members over that of the TCP members; None without both."""
    declared: bool = False
    kinds: list[str] = field(default_factory=list)
    verdict: str = GOOD
    """The worst verdict on the quality of its members."""


def jain_index(values: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe 1984)."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


class FairnessTally:
    """Gathers connections one by one: what it keeps of each is a few numbers.

    declared: for each bottleneck the addresses or networks whose flows cross it; without any, flows captured on one
    interface are taken to share one.

    Raises ValueError for something that is neither address nor network.
    """

    def __init__(self, declared: Sequence[Sequence[str]] = ()) -> None:
        self._declared = {", ".join(p): [ipaddress.ip_network(n, strict=False) for n in p] for p in declared}
        self._members: dict[str, dict[int, _Member]] = {name: {} for name in self._declared}

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

    def _bottlenecks(self, subflow: Subflow) -> list[str]:
        if not self._declared:
            return [f"interface {subflow.interface}"]
        ends = (ipaddress.ip_address(subflow.src), ipaddress.ip_address(subflow.dst))
        return [name for name, nets in self._declared.items() if any(e in net for e in ends for net in nets)]

    def groups(self) -> list[FairnessGroup]:
        """Those of two connections or more that overlap in time."""
        groups = (_group(name, members, bool(self._declared)) for name, members in self._members.items())
        return [g for g in groups if g is not None]


def fairness_groups(connections: Iterable[Connection], declared: Sequence[Sequence[str]] = ()) -> list[FairnessGroup]:
    """Groups connections by bottleneck; see FairnessTally."""
    tally = FairnessTally(declared)
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


def _group(name: str, members: Mapping[int, _Member], declared: bool) -> FairnessGroup | None:
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
    return FairnessGroup(name, numbers, rates, jain_index(rates), ratio, declared, kinds, verdict)
