"""A network that explains a capture, and the scenario that runs the capture's connections on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Traffic,
    Transfer,
)
from rewindow.simulator import KERNEL
from rewindow.whatif.observation import ObservedConnection, ObservedSubflow
from rewindow.whatif.sources import Source

_SEGMENT_MEMORY, _SEGMENT_MORE = 2304, 704
"""Of its buffer a simulated receiver offers what is data of that (core-c/src/simulator/receiver.c)."""
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
_OF_UNSEEN = {"unseen_rate_bps": "rate_bps", "unseen_rtt_s": "rtt_s"}
"""Names of values that are of a bottleneck's unseen traffic."""
_UNSEEN_PACKET_BYTES, _UNSEEN_PORT = 1500, 5001
_STAYS_TIMES = 1.5
"""Unseen traffic that stays does so for so many times as long as the capture."""
_HANDSHAKE_OPTIONS_BYTES, _JOIN_BYTES = 20, 12
"""Of Linux's SYN: segment size, SACK, timestamps and window scale; and MP_JOIN (RFC 8684 3.2)."""


@dataclass(frozen=True)
class Unseen:
    """Traffic at a bottleneck that is not in the capture. algorithm: of a TCP connection that sends as much as it can
    in each of the periods, by Linux's name; None: packets at a constant rate in these periods, which react to nothing.

    rate_bps: of such packets. rtt_s: of such connections, without queue. periods_s: since the capture's first packet;
    less than 0: it was there before; inf: it stays.
    """

    algorithm: str | None
    rate_bps: float
    rtt_s: float
    periods_s: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Bottleneck:
    """The link that limits some subflows. queue_packets None: its queue was never seen full. ecn_packets None: it marks
    nothing. loss: the share of packets that it loses though its queue has room.

    factors: where its rate changes, the seconds since the capture's first packet from which it is so many times
    rate_bps; the first one holds before its time, too. Empty: it is constant.

    jitter_s: the mean of an exponentially distributed addition to the delay, in both directions.
    """

    rate_bps: float
    queue_packets: float | None
    ecn_packets: float | None
    loss: float
    factors: tuple[tuple[float, float], ...] = ()
    unseen: Unseen | None = None
    jitter_s: float = 0.0

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
    send_buffers_bytes: tuple[float, ...]
    """Of each connection's subflows, at most."""

    def with_values(self, number: int, values: Mapping[str, float]) -> Network:
        """Another network, in which these values of a bottleneck or of its unseen traffic differ, by their names."""
        kept = list(self.bottlenecks)
        own = {name: value for name, value in values.items() if name not in _OF_UNSEEN}
        kept[number] = replace(kept[number], **dict[str, Any](own))
        traffic = kept[number].unseen
        if traffic is not None:
            changed = {_OF_UNSEEN[name]: value for name, value in values.items() if name in _OF_UNSEEN}
            kept[number] = replace(kept[number], unseen=replace(traffic, **dict[str, Any](changed)))
        return replace(self, bottlenecks=tuple(kept))

    def with_shorter_rtts(self, by_s: Sequence[Sequence[float]]) -> Network:
        """Another network, in which round trips without queue are shorter by so much, in the order of members."""
        members = tuple(
            tuple((number, max(rtt_s - less_s, 0.0)) for (number, rtt_s), less_s in zip(own, less, strict=True))
            for own, less in zip(self.members, by_s, strict=True)
        )
        return replace(self, members=members)

    @property
    def before_s(self) -> float:
        """How long before the capture's first packet the network is simulated."""
        begins = [from_s for b in self.bottlenecks if b.unseen for from_s, _ in b.unseen.periods_s]
        return max(0.0, -min(begins, default=0.0))

    def with_constant_rate(self, number: int) -> Network:
        """Another network, in which the rate of a bottleneck does not change."""
        kept = list(self.bottlenecks)
        kept[number] = replace(kept[number], factors=())
        return replace(self, bottlenecks=tuple(kept))

    def with_source(self, connection: int, source: Source) -> Network:
        """Another network, in which a connection, by its place, has this source."""
        return replace(self, sources=(*self.sources[:connection], source, *self.sources[connection + 1 :]))

    def with_send_buffer(self, connection: int, size_bytes: float) -> Network:
        """Another network, in which a connection, by its place, has this send buffer."""
        kept = self.send_buffers_bytes
        return replace(self, send_buffers_bytes=(*kept[:connection], size_bytes, *kept[connection + 1 :]))


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


def _buffer(window_bytes: int, mss_bytes: int) -> int:
    """The receive buffer that offers such a window."""
    parts = 256 * mss_bytes // max(_SEGMENT_MEMORY, mss_bytes + _SEGMENT_MORE)
    return min(max(window_bytes * 256 // max(parts, 1), 1), 1 << 30)


def receive_buffers(connection: ObservedConnection) -> tuple[int | None, int | None]:
    """The first one, and the largest; None: as Linux has it.

    A window that grew would have grown further for an algorithm that sends more: how far is not in the capture. A first
    window of what the handshake can say at most (RFC 7323 2.2) does not tell the buffer, either.
    """
    first = connection.subflows[0].window_first_bytes
    most = max(s.window_most_bytes for s in connection.subflows)
    mss = connection.subflows[0].facts.mss_bytes
    buffer_first = _buffer(first, mss) if 0 < first <= _FIRST_TELLS else None
    if most <= _GREW * first:
        return buffer_first, (_buffer(most, mss) if most else None)
    return buffer_first, max(_buffer(most, mss), KERNEL.receive_buffer_bytes)


def _direction(link: str, forward: bool, delay_s: float = 0.0, jitter_s: float = 0.0) -> Direction:
    """Of a link without a queue."""
    return Direction(
        link, forward, None, _ns(delay_s), _ns(jitter_s), None, None, DropTail(), Bernoulli(0.0), Reordering(0.0, 0), ()
    )


def _limiting(link: str, b: Bottleneck, before_s: float) -> Direction:
    queue = None if b.queue_packets is None else max(round(b.queue_packets), 1)
    (_, first_bps), *later = b.rates_bps()
    return Direction(
        link, True, max(round(first_bps), 1), 0, _ns(b.jitter_s), queue, None,
        DropTail() if b.ecn_packets is None else EcnThreshold(max(round(b.ecn_packets), 1)),
        Bernoulli(min(b.loss, 0.9)), Reordering(0.0, 0),
        tuple(Change(_ns(before_s + at_s), rate_bps=max(round(bps), 1)) for at_s, bps in later),
    )  # fmt: skip


def scenario(
    connections: tuple[ObservedConnection, ...],
    network: Network,
    first_ns: int,
    duration_s: float,
    absent: int | None = None,
) -> Scenario:
    """Each connection is a transfer, in the same order, and each of its subflows a path. It runs until all is sent.
    Unseen connections are transfers behind them. All is network.before_s later than in the capture.

    absent: the place of a connection that never was.
    """
    before_s = network.before_s
    directions = {
        (number, forward): (
            _limiting(f"bottleneck{number}", b, before_s)
            if forward
            else _direction(f"bottleneck{number}", forward, jitter_s=b.jitter_s)
        )
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
        buffer_first, buffer_most = receive_buffers(connection)
        transfers.append(
            Transfer(
                name=str(connection.id), protocol="mptcp" if connection.facts.kind == "mptcp" else "tcp",
                sender=ends[0][0].host, receiver=ends[1][0].host, paths=tuple(own), bytes=source.bytes,
                duration_ns=None if source.stop_s is None else _ns(source.stop_s),
                start_ns=_ns(before_s) + connection.facts.first_ns - first_ns, write_bytes=_WRITE_BYTES, pause_ns=0,
                congestion_control=None, send_buffer_bytes=round(network.send_buffers_bytes[c]),
                receive_buffer_bytes=buffer_most,
                port=connection.subflows[0].facts.dport,
                receive_buffer_first_bytes=buffer_first,
                writes=source.writes,
            )
        )  # fmt: skip
    traffic: list[Traffic] = []
    for number, b in enumerate(network.bottlenecks):
        for i, (begin_s, end_s) in enumerate(b.unseen.periods_s if b.unseen else ()):
            begin_ns, end_ns = _ns(before_s + begin_s), _ns(before_s + min(end_s, _STAYS_TIMES * duration_s))
            there, back = directions[number, True], directions[number, False]
            if b.unseen is None or b.unseen.algorithm is None:
                rate_bps = round(b.unseen.rate_bps) if b.unseen else 0
                traffic.append(
                    Traffic(
                        there, max(rate_bps, 1), _UNSEEN_PACKET_BYTES, begin_ns, max(end_ns, begin_ns + 1), None, None
                    )
                )
                continue
            transfer, both = _unseen_transfer(f"unseen{number}.{i}", b.unseen, there, back, begin_ns, end_ns)
            transfers.append(transfer)
            hosts += both
            links += [transfer.paths[0].links[-1], transfer.paths[0].links_back[0]]
            paths += transfer.paths
    return Scenario(
        name="fit", duration_ns=_ns(before_s + 4 * duration_s), grace_ns=_ns(_GRACE_S), seed=0, hosts=tuple(hosts),
        links=tuple(links), paths=tuple(paths), transfers=tuple(transfers), traffic=tuple(traffic), captures=(),
        files=(),
    )  # fmt: skip


def _unseen_transfer(
    name: str, unseen: Unseen, there: Direction, back: Direction, begin_ns: int, end_ns: int
) -> tuple[Transfer, list[Host]]:
    """A connection through a bottleneck, whose directions these are."""
    mtu = _UNSEEN_PACKET_BYTES
    start, end = (
        Interface(f"{name}.{side}", "i", ip_address(address), mtu)
        for side, address in (("sender", "192.0.2.1"), ("receiver", "192.0.2.2"))
    )
    delay_s = max(unseen.rtt_s - mtu * 8 / (there.rate_bps or 1), 0.0) / 2
    access = [_direction(f"{name}.access", forward, delay_s) for forward in (True, False)]
    path = Path(name, start, end, (there, access[0]), (access[1], back))
    hosts = [Host(i.host, (i,), True, True, False, False, None, None) for i in (start, end)]
    transfer = Transfer(
        name=name, protocol="tcp", sender=start.host, receiver=end.host, paths=(path,), bytes=None,
        duration_ns=max(end_ns - begin_ns, 1), start_ns=begin_ns, write_bytes=_WRITE_BYTES, pause_ns=0,
        congestion_control=unseen.algorithm, send_buffer_bytes=None, receive_buffer_bytes=None, port=_UNSEEN_PORT,
    )  # fmt: skip
    return transfer, hosts
