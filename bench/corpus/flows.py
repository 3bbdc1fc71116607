"""Packets -> flows -> connections: a second implementation of the core's rules."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.corpus.copies import CERTAIN, NAMELESS, Copies, share_of
from bench.corpus.sequence import Options, read_options, well_formed
from bench.corpus.tshark import ACK, FIN, RST, SYN, Endpoint, Packet

CAPABLE, JOIN, SUBTYPE_MAX = 0, 1, 8
COPIES_MIN, COPIES_PART = 3, 4
"""A flow was captured twice if it has this many copies, and one for every so many packets."""
SAME_ISN_NS = 1_000_000_000
"""A SYN with the number of the SYN before opens a new flow if both sides closed this long ago."""


@dataclass
class Flow:
    """One four-tuple used once; ends[0] sent first. Lists of two are by end."""

    number: int
    ends: tuple[Endpoint, Endpoint]
    packets: list[Packet] = field(default_factory=list)
    options: list[Options] = field(default_factory=list)
    isn: list[int | None] = field(default_factory=lambda: [None, None])
    copies: list[Packet] = field(default_factory=list)
    finished: bool = False
    fins: set[int] = field(default_factory=set)
    begins_with_syn: bool = False
    goes_on: bool = False
    """tshark continues the stream that used the four-tuple before."""
    capable: set[int] = field(default_factory=set)
    confirmed: bool = False
    data_level: bool = False
    joined: bool = False
    join_token: bytes | None = None
    version: int | None = None
    keys: dict[int, bytes] = field(default_factory=dict)
    payload: bool = False

    def side(self, packet: Packet) -> int:
        return int(packet.source != self.ends[0])

    @property
    def is_put_in_order(self) -> bool:
        """Its packets have another order in the file, so that tshark reads another flow."""
        numbers = [p.number for p in self.packets]
        return numbers != sorted(numbers)

    @property
    def is_mptcp(self) -> bool:
        """RFC 8684 3.7: without any option after the SYNs, it has fallen back."""
        both = self.capable == {0, 1}
        return self.joined or self.data_level or self.confirmed or (both and not self.payload)

    def tokens(self) -> list[bytes]:
        algorithm = hashlib.sha256 if self.version else hashlib.sha1
        return [algorithm(key).digest()[:4] for key in self.keys.values()]


def _used_again(flow: Flow, packet: Packet) -> bool:
    """Whether this SYN or SYN/ACK opens the four-tuple anew. One with the same number is a retransmission."""
    if not packet.flags & SYN:
        return False
    side, answer = flow.side(packet), bool(packet.flags & ACK)
    if flow.isn[side] == packet.sequence:
        return not answer and flow.fins == {0, 1} and packet.time_ns - flow.packets[-1].time_ns > SAME_ISN_NS
    if flow.isn[side] is not None:
        return not answer or flow.finished
    return not answer and (flow.finished or flow.isn[1 - side] is None)


def _see_mptcp(flow: Flow, packet: Packet, side: int, contents: Sequence[bytes]) -> None:
    for content in contents:
        subtype = content[0] >> 4 if content else SUBTYPE_MAX + 1
        if subtype > SUBTYPE_MAX:
            continue
        flow.data_level |= subtype != CAPABLE
        if subtype == CAPABLE:
            _see_capable(flow, packet, side, content)
        elif subtype == JOIN:
            flow.joined = True
            if packet.flags & (SYN | ACK) == SYN:
                flow.join_token = content[2:6]


def _see_capable(flow: Flow, packet: Packet, side: int, content: bytes) -> None:
    if packet.flags & SYN:
        flow.capable.add(side)
    else:
        flow.confirmed = True
    if packet.flags & (SYN | ACK) != SYN or flow.version is None:  # the answer settles what was offered
        flow.version = content[0] & 15
    for i, at in enumerate(range(2, min(len(content), 18) - 7, 8)):
        flow.keys[side ^ i] = content[at : at + 8]


def _drop_copies(flow: Flow, copies: dict[int, int]) -> None:
    mine = [p for p in flow.packets if p.number in copies]
    acks = sum(copies[p.number] == NAMELESS and not p.payload_bytes and not p.flags & (SYN | FIN) for p in mine)
    telling = len(mine) - acks
    if telling < COPIES_MIN or telling * COPIES_PART < len(flow.packets) - 2 * acks:
        return
    kept = [(p, o) for p, o in zip(flow.packets, flow.options, strict=True) if p.number not in copies]
    flow.copies, flow.packets, flow.options = mine, [p for p, _ in kept], [o for _, o in kept]


def flows_of(packets: Sequence[Packet]) -> list[Flow]:
    """In the order of their first packets."""
    flows: list[Flow] = []
    live: dict[frozenset[Endpoint], Flow] = {}
    seen, copies = Copies(), dict[int, int]()
    for packet in packets:
        key = frozenset((packet.source, packet.target))
        flow = live.get(key)
        if flow is None or _used_again(flow, packet):
            ends, syn = (packet.source, packet.target), bool(packet.flags & SYN)
            flow = live[key] = Flow(len(flows), ends, begins_with_syn=syn)
            flows.append(flow)
        side, options = flow.side(packet), read_options(packet.options)
        flow.packets.append(packet)
        flow.options.append(options)
        if packet.flags & SYN:
            flow.isn[side] = packet.sequence
        flow.finished |= bool(packet.flags & (FIN | RST))
        if packet.flags & FIN:
            flow.fins.add(side)
        flow.payload |= packet.payload_bytes > 0
        if copy := seen.see(packet, options, flow.packets[0].number - 1, share_of(flow.ends), side):
            copies[packet.number] = copy
        if copy != CERTAIN and not packet.mptcp_broken:
            syn, ack = bool(packet.flags & SYN), bool(packet.flags & ACK)
            good = [content for content in options.mptcp if well_formed(content, syn=syn, ack=ack)]
            options.broken |= len(good) < len(options.mptcp)
            _see_mptcp(flow, packet, side, good)
    for flow in flows:
        _drop_copies(flow, copies)
    return flows


def connections_of(flows: Sequence[Flow]) -> list[list[Flow]]:
    """A joined flow belongs to the last flow before it with the token that it names, else to the first after it."""
    owners: dict[bytes, list[int]] = {}
    for place, flow in enumerate(flows):
        if flow.is_mptcp and not flow.joined:
            for token in flow.tokens():
                owners.setdefault(token, []).append(place)
    connections: dict[object, list[Flow]] = {}
    for place, flow in enumerate(flows):
        leader: object = place
        if flow.joined and flow.join_token is not None:
            known = owners.get(flow.join_token, [])
            before = [owner for owner in known if owner < place]
            leader = before[-1] if before else known[0] if known else flow.join_token
        connections.setdefault(leader, []).append(flow)
    return list(connections.values())
