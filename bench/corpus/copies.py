"""Frames captured more than once, as the core tells them: a digest of what routers leave alone, within half a second.

Its memory is bounded, so that under load a copy may not be recognised any more; for the same answer it is read here in
the same way: sets of four digests, of which the oldest makes room.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from functools import cache

from bench.corpus.sequence import Options
from bench.corpus.tshark import Packet

UNIT_NS, COPY_UNITS, SOON_UNITS = 1 << 20, 477, 2
NONE, CERTAIN, NAMELESS = range(3)
SETS_BITS, WAYS = 9, 4
_WORD, _HALF = (1 << 64) - 1, (1 << 32) - 1
_FACTORS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def _mix(a: int, b: int) -> int:
    product = (a ^ _FACTORS[0]) * (b ^ _FACTORS[1])
    return (product & _WORD) ^ (product >> 64)


@cache
def _host(address: str) -> int:
    """An IPv4 address, or the half of an IPv6 address that tells hosts apart; the first byte is the lowest."""
    packed = ipaddress.ip_address(address).packed
    return int.from_bytes(packed if len(packed) == 4 else packed[8:], "little")


def _digest(packet: Packet, options: Options) -> int:
    numbers = packet.sequence << 32 | packet.ack
    ports = packet.source[1] << 48 | packet.target[1] << 32 | packet.payload_bytes
    rest = packet.flags << 48 | packet.window << 32 | (packet.identification or 0)
    times = options.timestamps[0] << 32 | options.timestamps[1] if options.timestamps else 0
    if options.sacks:
        times ^= options.sacks[0][1] << 7 ^ options.sacks[0][0] << 29
    source, target = _host(packet.source[0]), _host(packet.target[0])
    return _mix(_mix(numbers, ports), _mix(rest ^ source, times ^ (target << 32 & _WORD) ^ target >> 32))


class Copies:
    """The frames of the last half second."""

    def __init__(self) -> None:
        self._sets: dict[int, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)] * WAYS)

    def see(self, packet: Packet, options: Options) -> int:
        """Was this frame there before? Without a number or a clock of its own only where it was just now."""
        nameless = not packet.identification and options.timestamps is None
        most = SOON_UNITS if nameless else COPY_UNITS
        whole = _digest(packet, options)
        known, digest, now = self._sets[whole >> 64 - SETS_BITS], whole & _HALF | 1, packet.time_ns // UNIT_NS & _HALF
        ages = [now - time & _HALF for _, time in known]
        if any(d == digest and age < most for (d, _), age in zip(known, ages, strict=True)):
            return NAMELESS if nameless else CERTAIN
        known[ages.index(max(ages))] = (digest, now)
        return NONE
