"""Frames captured more than once, recognised as in the core: by a digest of the fields that routers do not change,
within half a second.

The core's memory is bounded, so that under load it may miss a copy. To miss the same copies, this module uses the same
memory: for each share of the flows, sets of four digests, of which the first makes room.
"""

from __future__ import annotations

from collections import defaultdict, deque
from ipaddress import ip_address

from bench.corpus.sequence import Options
from bench.corpus.tshark import Endpoint, Packet

UNIT_NS, COPY_UNITS, SOON_UNITS = 1 << 20, 477, 2
NONE, CERTAIN, NAMELESS = range(3)
SETS_BITS, WAYS = 9, 4
SHARE_BITS = 3
_WORD, _HALF = (1 << 64) - 1, (1 << 32) - 1
_FACTORS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def _mix(a: int, b: int) -> int:
    product = (a ^ _FACTORS[0]) * (b ^ _FACTORS[1])
    return (product & _WORD) ^ (product >> 64)


def _fields(*parts: tuple[int, int]) -> int:
    """Values packed into a word of 64 bits, each from its bit on."""
    return sum(value << at for value, at in parts)


def share_of(ends: tuple[Endpoint, Endpoint]) -> int:
    """The share of a flow, by its addresses and ports (core-c/src/packet/link.c)."""
    words = 0
    for address, _ in ends:
        packed = ip_address(address).packed
        words += sum(int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4))
    ports = sum(port for _, port in ends)
    return ((words * 0x85EBCA6B + ports) * 0x9E3779B1 & _HALF) >> 32 - SHARE_BITS


def _digest(packet: Packet, options: Options, flow: int, side: int) -> int:
    numbers = _fields((packet.sequence, 0), (packet.ack, 32))
    which = _fields((packet.identification or 0, 0), (side, 16), (flow, 17))
    counts = _fields((packet.payload_bytes, 0), (packet.flags, 32), (packet.window, 48))
    rest = _fields((options.timestamps[0], 0), (options.timestamps[1], 32)) if options.timestamps else 0
    if options.sacks:
        rest ^= options.sacks[0][1] << 7 ^ options.sacks[0][0] << 29
    return _mix(numbers, which) + _mix(counts, rest) & _WORD


class Copies:
    """The frames of the last half second."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(lambda: deque([(0, 0)] * WAYS, WAYS))

    def see(self, packet: Packet, options: Options, flow: int, share: int, side: int) -> int:
        """Whether this frame was seen before: NONE, CERTAIN, or NAMELESS for one without an IPv4 number or timestamp,
        which counts for a short time only. flow: the place of its first record in the capture, from 0 on."""
        nameless = not packet.identification and options.timestamps is None
        most = SOON_UNITS if nameless else COPY_UNITS
        whole = _digest(packet, options, flow, side)
        known, digest, now = (
            self._sets[share, whole >> 64 - SETS_BITS],
            whole & _HALF | 1,
            packet.time_ns // UNIT_NS & _HALF,
        )
        if any(d == digest and now - time & _HALF < most for d, time in known):
            return NAMELESS if nameless else CERTAIN
        known.append((digest, now))
        return NONE
