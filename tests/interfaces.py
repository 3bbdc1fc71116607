"""Builds captures of several interfaces, for tests."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

SAMPLE = Path(__file__).parent / "captures" / "mptcp-two-subflows.pcap"
SECOND_NS = 10**9

Record = tuple[int, int, bytes, int]
"""Interface, time in nanoseconds, what was captured, length on the wire."""


def two_subflows() -> list[Record]:
    """The second subflow, of 10.0.2.x, is the second interface's."""
    raw, at, records = SAMPLE.read_bytes(), 24, []
    while at < len(raw):
        seconds, fraction, captured, wire = struct.unpack_from("<4I", raw, at)
        packet = raw[at + 16 : at + 16 + captured]
        records.append((int(packet[14] == 2), seconds * SECOND_NS + fraction, packet, wire))
        at += 16 + captured
    return records


def drained(records: Sequence[Record], delay: Callable[[int], int]) -> list[Record]:
    """In the order in which a capturing program writes them, when it gets those of an interface so much later."""
    return sorted(records, key=lambda r: r[1] + delay(r[0]))


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def section(interfaces: int) -> bytes:
    clock = struct.pack("<HHI", 9, 1, 9)  # if_tsresol: ten to the minus 9
    described = block(1, struct.pack("<HHI", 101, 0, 0) + clock)
    return block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + described * interfaces


def pcapng(records: Sequence[Record], interfaces: int = 2) -> bytes:
    return section(interfaces) + b"".join(
        block(6, struct.pack("<5I", index, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), wire) + packet)
        for index, time_ns, packet, wire in records
    )
