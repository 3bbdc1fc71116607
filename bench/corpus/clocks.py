"""pcapng with clocks finer than tshark follows (beyond ten digits its 64 bits overflow), rewritten in nanoseconds."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from collections.abc import Iterator
from typing import IO

SECTION, INTERFACE, OLD_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 6
TSRESOL, DIGITS_MAX, NANOSECONDS = 9, 10, 9


def _blocks(file: IO[bytes]) -> Iterator[tuple[str, int, bytearray]]:
    """Byte order, type and all bytes of each block, up to the first incomplete one."""
    order = "<"
    while len(head := file.read(12)) == 12:
        if head[:4] == b"\n\r\r\n":
            order = "<" if head[8:] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, length = struct.unpack_from(order + "II", head)
        rest = file.read(max(length, 12) - 12)
        if len(rest) < length - 12:
            return
        yield order, kind, bytearray(head + rest)


def _resolution(order: str, block: bytearray) -> tuple[int, int] | None:
    """The clock's units in a second of an interface, and the offset of that option; None without the option."""
    at = 16
    while at + 4 <= len(block) - 4:
        code, length = struct.unpack_from(order + "HH", block, at)
        if code == TSRESOL and length == 1:
            value = block[at + 4]
            return (2 ** (value & 127) if value & 128 else 10**value), at + 4
        at += 4 + (length + 3) // 4 * 4
        if code == 0:
            break
    return None


def _coarsened(file: IO[bytes], out: IO[bytes]) -> bool:
    """Copies the capture; returns whether a clock was too fine."""
    units: list[int] = []
    found = False
    for order, kind, block in _blocks(file):
        if kind == SECTION:
            units = []
        elif kind == INTERFACE:
            per_s, at = _resolution(order, block) or (10**6, 0)
            units.append(per_s)
            if per_s > 10**DIGITS_MAX:
                block[at] = NANOSECONDS
                found = True
        elif kind in (PACKET, OLD_PACKET):
            (interface,) = struct.unpack_from(order + ("I" if kind == PACKET else "H"), block, 8)
            if interface < len(units) and units[interface] > 10**DIGITS_MAX:
                high, low = struct.unpack_from(order + "II", block, 12)
                time_ns = (high << 32 | low) * 10**9 // units[interface]
                struct.pack_into(order + "II", block, 12, time_ns >> 32, time_ns & 0xFFFFFFFF)
        out.write(block)
    return found


@contextlib.contextmanager
def in_nanoseconds(capture: int) -> Iterator[IO[bytes] | None]:
    """capture: a seekable descriptor. None: no clock is too fine."""
    with tempfile.TemporaryFile() as out, os.fdopen(os.dup(capture), "rb") as file:
        file.seek(0)
        pcapng = file.read(4) == b"\n\r\r\n"
        file.seek(0)
        found = pcapng and _coarsened(file, out)
        out.flush()
        yield out if found else None
