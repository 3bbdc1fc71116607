"""Max-min fair shares of the members of a bottleneck (Bertsekas and Gallager, Data Networks, section 6.5.2).

What is known of a member is its life, its bytes through the bottleneck, and whether the network ever told it to slow
down. One that was told so is taken to want all it can get; each other one to want what it got (its demand). While one
of the former lives the bottleneck is busy, so the bytes of all members over that time are the capacity that they have
together. A member that lives alone gets the capacity, or its demand; what is left of its bytes it sent beside others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

MEMBERS_MAX = 256
"""Of a larger group no shares are computed."""


@dataclass(frozen=True)
class Usage:
    """A member's life at the bottleneck; a connection with several subflows there has one. is_limited_by_network: it
    has had a loss recovery, a timeout or an ECN echo."""

    first_ns: int
    last_ns: int
    bytes: int
    is_limited_by_network: bool


@dataclass(frozen=True)
class FairShare:
    """Over the time that the member shared with others.

    limited_by: network, or demand: the member had no sign of congestion, and is owed no more than it sent.
    """

    limited_by: str
    shared_s: float
    goodput_bps: float
    fair_bps: float
    ratio: float
    """goodput_bps over fair_bps: above 1 it took from the others."""


def max_min(capacity: float, demands: Sequence[float]) -> list[float]:
    """The max-min fair rates; a demand may be infinite. Units are those of the caller."""
    rates = [0.0] * len(demands)
    left = capacity
    for place, number in enumerate(sorted(range(len(demands)), key=lambda i: demands[i])):
        rates[number] = min(demands[number], left / (len(demands) - place))
        left -= rates[number]
    return rates


def fair_shares(members: Sequence[Usage]) -> tuple[float | None, list[FairShare | None]]:
    """The capacity in bits per second, None where no member shows it, and each member's share; None without capacity,
    and where the estimate leaves a member nothing that it could have sent beside others."""
    nothing: list[FairShare | None] = [None] * len(members)
    limited = [m for m in members if m.is_limited_by_network]
    if not limited or len(members) > MEMBERS_MAX or any(m.last_ns <= m.first_ns for m in members):
        return None, nothing
    busy_s = sum(end - begin for begin, end in _spans(limited)) / 1e9
    # What was sent while nobody filled the bottleneck says nothing of its capacity.
    bits = sum(8 * m.bytes * (1.0 if m.is_limited_by_network else _part_within(m, limited)) for m in members)
    capacity = bits / busy_s
    demands = [math.inf if m.is_limited_by_network else 8e9 * m.bytes / (m.last_ns - m.first_ns) for m in members]
    shared_s, fair_bits, alone_bits = ([0.0] * len(members) for _ in range(3))
    times = sorted({t for m in members for t in (m.first_ns, m.last_ns)})
    for begin, end in itertools.pairwise(times):
        alive = [n for n, m in enumerate(members) if m.first_ns <= begin and m.last_ns >= end]
        lasted_s = (end - begin) / 1e9
        for number, rate in zip(alive, max_min(capacity, [demands[n] for n in alive]), strict=True):
            if len(alive) == 1:
                alone_bits[number] += rate * lasted_s
            else:
                shared_s[number] += lasted_s
                fair_bits[number] += rate * lasted_s
    shares = list(nothing)
    for number, m in enumerate(members):
        own_bits = 8 * m.bytes - alone_bits[number]
        if shared_s[number] and fair_bits[number] and own_bits > 0:
            shares[number] = FairShare(
                "network" if m.is_limited_by_network else "demand",
                shared_s[number],
                own_bits / shared_s[number],
                fair_bits[number] / shared_s[number],
                own_bits / fair_bits[number],
            )
    return capacity, shares


def _spans(members: Sequence[Usage]) -> list[tuple[int, int]]:
    """The times at which at least one of them lives."""
    spans: list[tuple[int, int]] = []
    for m in sorted(members, key=lambda m: m.first_ns):
        if spans and m.first_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], m.last_ns))
        else:
            spans.append((m.first_ns, m.last_ns))
    return spans


def _part_within(member: Usage, others: Sequence[Usage]) -> float:
    """The part of its life in which another one lives."""
    inside = sum(max(0, min(end, member.last_ns) - max(begin, member.first_ns)) for begin, end in _spans(others))
    return inside / (member.last_ns - member.first_ns)
