"""Fairness among flows that share a bottleneck: Jain's index and the MPTCP-to-TCP ratio."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
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


def fairness_groups(connections: Iterable[Connection], declared: Sequence[Sequence[str]] = ()) -> list[FairnessGroup]:
    """Groups connections by bottleneck.

    declared: for each bottleneck the addresses or networks whose flows cross it; without any, flows captured on one
    interface are taken to share one. Groups of fewer than two connections that overlap in time are left out.

    Raises ValueError for something that is neither address nor network.
    """
    flows = [(c, s) for c in connections for s in c.subflows]
    chosen: dict[str, list[tuple[Connection, Subflow]]] = {}
    if declared:
        for places in declared:
            networks = [ipaddress.ip_network(p, strict=False) for p in places]
            chosen[", ".join(places)] = [(c, s) for c, s in flows if _crosses(s, networks)]
    else:
        for c, s in flows:
            chosen.setdefault(f"interface {s.interface}", []).append((c, s))
    groups = (_group(name, members, bool(declared)) for name, members in chosen.items())
    return [g for g in groups if g is not None]


def _crosses(subflow: Subflow, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    ends = (ipaddress.ip_address(subflow.src), ipaddress.ip_address(subflow.dst))
    return any(end in network for end in ends for network in networks)


def _group(name: str, flows: Sequence[tuple[Connection, Subflow]], declared: bool) -> FairnessGroup | None:
    goodput: dict[int, float] = {}
    kinds: dict[int, str] = {}
    lives: dict[int, tuple[int, int]] = {}
    verdicts: dict[int, str] = {}
    for c, s in flows:
        if s.bytes < BULK_BYTES_MIN or not s.goodput_bps:
            continue
        goodput[c.id] = goodput.get(c.id, 0.0) + s.goodput_bps
        kinds[c.id] = c.kind
        verdicts[c.id] = c.verdict
        start, end = lives.get(c.id, (s.first_ns, s.last_ns))
        lives[c.id] = (min(start, s.first_ns), max(end, s.last_ns))
    members = sorted(
        i
        for i, (start, end) in lives.items()
        if any(j != i and start < other_end and other_start < end for j, (other_start, other_end) in lives.items())
    )
    if len(members) < 2:
        return None
    rates = [goodput[i] for i in members]
    by_kind = {k: [goodput[i] for i in members if kinds[i] == k] for k in ("mptcp", "tcp")}
    ratio = None
    if by_kind["mptcp"] and by_kind["tcp"]:
        mean = {k: sum(v) / len(v) for k, v in by_kind.items()}
        ratio = mean["mptcp"] / mean["tcp"]
    verdict = worst([verdicts[i] for i in members])
    return FairnessGroup(name, members, rates, jain_index(rates), ratio, declared, [kinds[i] for i in members], verdict)
