"""A network that explains a capture, and the scenario that runs the capture's connections on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.scenarios import (
    Bernoulli,
    Change,
    Direction,
    DropTail,
    EcnThreshold,
    Host,
    Interface,
    Path,
    Reordering,
    Scenario,
    Transfer,
)
from rewindow.simulator import RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES
from rewindow.whatif.observation import ObservedConnection, ObservedSubflow
from rewindow.whatif.sources import Source

WINDOW_SHARE = 37 / 64
"""Of its buffer a simulated receiver offers so much as a window (core-c/src/simulator/receiver.c)."""
_FIRST_TELLS = 60_000
"""A first window up to so many bytes is its buffer's; beyond, it is what the 16 bits of the handshake can say."""
_GREW = 1.5
"""A window that was so many times the first one is tuned by the kernel; a smaller one is of a fixed buffer."""
MTU_MIN_BYTES = 576
"""That the simulator has: what every IPv4 host accepts (RFC 791)."""
_SECOND_NS = 1_000_000_000
_WRITE_BYTES = 1 << 16
_GRACE_S = 60.0
_IP_BYTES, _TCP_BYTES, _TIMESTAMP_BYTES, _MAPPING_BYTES = {4: 20, 6: 40}, 20, 12, 24
_HANDSHAKE_OPTIONS_BYTES, _JOIN_BYTES = 20, 12
"""Of Linux's SYN: segment size, SACK, timestamps and window scale; and MP_JOIN (RFC 8684 3.2)."""


@dataclass(frozen=True)
class Bottleneck:
    """The link that limits some subflows. queue_packets None: its queue was never seen full. ecn_packets None: it marks
    nothing. loss: the share of packets that it loses though its queue has room.

    factors: where its rate changes, the seconds since the capture's first packet from which it is so many times
    rate_bps; the first one holds before its time, too. Empty: it is constant.
    """

    rate_bps: float
    queue_packets: float | None
    ecn_packets: float | None
    loss: float
    factors: tuple[tuple[float, float], ...] = ()

    def rates_bps(self) -> list[tuple[float, float]]:
        """From when on which rate holds."""
        return [(at_s, self.rate_bps * factor) for at_s, factor in self.factors] or [(0.0, self.rate_bps)]

    def rates_at(self, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Bits per second, at times since the capture's first packet."""
        starts, rates = np.array(self.rates_bps()).T
        found: npt.NDArray[np.float64] = rates[np.maximum(np.searchsorted(starts, time_s, "right") - 1, 0)]
        return found


@dataclass(frozen=True)
class Network:
    """members: for each connection, for each of its subflows: which bottleneck, and the round trip without queue."""

    bottlenecks: tuple[Bottleneck, ...]
    members: tuple[tuple[tuple[int, float], ...], ...]
    sources: tuple[Source, ...]
    send_buffer_bytes: float = float(SEND_BUFFER_BYTES)
    """Of each subflow, at most: a capture does not show it."""

    def with_values(self, number: int, values: Mapping[str, float]) -> Network:
        """Another network, in which these values of a bottleneck differ, by their names."""
        kept = list(self.bottlenecks)
        kept[number] = replace(kept[number], **dict[str, Any](values))
        return replace(self, bottlenecks=tuple(kept))

    def with_constant_rate(self, number: int) -> Network:
        """Another network, in which the rate of a bottleneck does not change."""
        kept = list(self.bottlenecks)
        kept[number] = replace(kept[number], factors=())
        return replace(self, bottlenecks=tuple(kept))

    def with_source(self, connection: int, source: Source) -> Network:
        """Another network, in which a connection, by its place, has this source."""
        return replace(self, sources=(*self.sources[:connection], source, *self.sources[connection + 1 :]))


def mtu_bytes(subflow: ObservedSubflow, kind: str) -> int:
    """Of packets whose data is a whole segment: with timestamps, where they were agreed on, and MPTCP's mapping."""
    headers = _IP_BYTES[ip_address(subflow.facts.src).version] + _TCP_BYTES
    headers += (_TIMESTAMP_BYTES if subflow.timestamps else 0) + (_MAPPING_BYTES if kind == "mptcp" else 0)
    return subflow.facts.mss_bytes + headers


def handshake_bytes(subflow: ObservedSubflow, kind: str) -> int:
    """Of the packet whose round trip a handshake shows."""
    headers = _IP_BYTES[ip_address(subflow.facts.src).version] + _TCP_BYTES + _HANDSHAKE_OPTIONS_BYTES
    return headers + (_JOIN_BYTES if kind == "mptcp" else 0)


def _ns(seconds: float) -> int:
    return max(round(seconds * _SECOND_NS), 0)


def _buffer(window_bytes: int) -> int:
    """The receive buffer that offers such a window."""
    return min(max(round(window_bytes / WINDOW_SHARE), 1), 1 << 30)


def _receive_buffers(connection: ObservedConnection) -> tuple[int | None, int | None]:
    """The first one, and the largest; None: as Linux has it.

    A window that grew would have grown further for an algorithm that sends more: how far is not in the capture. A first
    window of what the handshake can say at most (RFC 7323 2.2) does not tell the buffer, either.
    """
    first = connection.subflows[0].window_first_bytes
    most = max(s.window_most_bytes for s in connection.subflows)
    told = 0 < first <= _FIRST_TELLS
    if most <= _GREW * first:
        return (_buffer(first) if told else None), (_buffer(most) if most else None)
    return (_buffer(first) if told else None), max(_buffer(most), RECEIVE_BUFFER_BYTES)


def _direction(link: str, forward: bool, delay_s: float = 0.0, bottleneck: Bottleneck | None = None) -> Direction:
    if bottleneck is None:
        return Direction(
            link, forward, None, _ns(delay_s), 0, None, None, DropTail(), Bernoulli(0.0), Reordering(0.0, 0), ()
        )
    b = bottleneck
    queue = None if b.queue_packets is None else max(round(b.queue_packets), 1)
    (_, first_bps), *later = b.rates_bps()
    return Direction(
        link, forward, max(round(first_bps), 1), 0, 0, queue, None,
        DropTail() if b.ecn_packets is None else EcnThreshold(max(round(b.ecn_packets), 1)),
        Bernoulli(min(b.loss, 0.9)), Reordering(0.0, 0),
        tuple(Change(_ns(at_s), rate_bps=max(round(bps), 1)) for at_s, bps in later),
    )  # fmt: skip


def scenario(
    connections: tuple[ObservedConnection, ...],
    network: Network,
    first_ns: int,
    duration_s: float,
    absent: int | None = None,
) -> Scenario:
    """Each connection is a transfer, in the same order, and each of its subflows a path. It runs until all is sent.

    absent: the place of a connection that never was.
    """
    directions = {
        (number, forward): _direction(f"bottleneck{number}", forward, bottleneck=b if forward else None)
        for number, b in enumerate(network.bottlenecks)
        for forward in (True, False)
    }
    hosts, links, paths, transfers = [], list(directions.values()), [], []
    for c, connection in enumerate(connections):
        if c == absent:
            continue
        ends: list[list[Interface]] = [[], []]
        own = []
        for s, subflow in enumerate(connection.subflows):
            number, base_rtt_s = network.members[c][s]
            facts = subflow.facts
            # A subflow that carried little has not shown a whole segment.
            mtu = max(mtu_bytes(subflow, connection.facts.kind), MTU_MIN_BYTES)
            start, end = (
                Interface(f"{side}{c}", f"i{s}", ip_address(address), mtu)
                for side, address in (("sender", facts.src), ("receiver", facts.dst))
            )
            # A packet's own transmission is a part of the shortest round trip.
            delay_s = max(base_rtt_s - mtu * 8 / network.bottlenecks[number].rate_bps, 0.0) / 2
            there, back = (_direction(f"access{c}.{s}", forward, delay_s) for forward in (True, False))
            links += [there, back]
            path = Path(f"{c}.{s}", start, end, (directions[number, True], there), (back, directions[number, False]))
            own.append(path)
            ends[0].append(start)
            ends[1].append(end)
        paths += own
        ecn = any(s.facts.ecn in ("classic", "accurate") for s in connection.subflows)
        hosts += [
            Host(
                ends[side][0].host,
                tuple(ends[side]),
                connection.subflows[0].sack,
                connection.subflows[0].timestamps,
                ecn,
                False,
                None,
                None,
            )
            for side in range(2)
        ]
        source = network.sources[c]
        buffer_first, buffer_most = _receive_buffers(connection)
        transfers.append(
            Transfer(
                name=str(connection.id), protocol="mptcp" if connection.facts.kind == "mptcp" else "tcp",
                sender=ends[0][0].host, receiver=ends[1][0].host, paths=tuple(own), bytes=source.bytes,
                duration_ns=None if source.stop_s is None else _ns(source.stop_s),
                start_ns=connection.facts.first_ns - first_ns, write_bytes=_WRITE_BYTES, pause_ns=0,
                congestion_control=None, send_buffer_bytes=round(network.send_buffer_bytes),
                receive_buffer_bytes=buffer_most,
                port=connection.subflows[0].facts.dport,
                receive_buffer_first_bytes=buffer_first,
                writes=source.writes,
            )
        )  # fmt: skip
    return Scenario(
        name="fit", duration_ns=_ns(4 * duration_s), grace_ns=_ns(_GRACE_S), seed=0, hosts=tuple(hosts),
        links=tuple(links), paths=tuple(paths), transfers=tuple(transfers), traffic=(), captures=(), files=(),
    )  # fmt: skip
