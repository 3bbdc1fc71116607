"""TCP sequence numbers as integers that do not wrap, and options as they stand in a header."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

MODULUS = 1 << 32
JUMP_MAX = 1 << 30
"""Further away is another connection's number."""


def difference(a: int, b: int) -> int:
    """a - b on the circle of 32-bit numbers."""
    d = (a - b) % MODULUS
    return d - MODULUS if d >= MODULUS // 2 else d


def near(number: int, reference: int) -> int:
    """The integer with these lowest 32 bits that is nearest to the reference."""
    return reference + difference(number, reference % MODULUS)


class Spans:
    """Which numbers were there, in spans apart from each other."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> int:
        """How many of [start, end) were not there before."""
        first = bisect.bisect_left(self._spans, start, key=lambda s: s[1])
        last = bisect.bisect_right(self._spans, end, key=lambda s: s[0])
        touched = self._spans[first:last]
        known = sum(min(b, end) - max(a, start) for a, b in touched)
        self._spans[first:last] = [(min([start, *(a for a, _ in touched)]), max([end, *(b for _, b in touched)]))]
        return end - start - known


@dataclass
class Options:
    mss: int | None = None
    window_scale: int | None = None
    sack_permitted: bool = False
    sacks: list[tuple[int, int]] = field(default_factory=list)
    timestamps: tuple[int, int] | None = None
    mptcp: list[bytes] = field(default_factory=list)
    broken: bool = False


def _each(raw: bytes) -> Iterator[tuple[int, bytes] | None]:
    """Kind and content of each option; None where the list contradicts itself."""
    at = 0
    while at < len(raw) and raw[at] != 0:
        if raw[at] == 1:
            at += 1
            continue
        length = raw[at + 1] if at + 1 < len(raw) else 0
        if length < 2 or at + length > len(raw):
            yield None
            return
        yield raw[at], raw[at + 2 : at + length]
        at += length


def read_options(raw: bytes) -> Options:
    options = Options()
    for option in _each(raw):
        match option:
            case None:
                options.broken = True
            case (2, content) if len(content) == 2:
                options.mss = int.from_bytes(content, "big")
            case (3, content) if len(content) == 1:
                options.window_scale = min(content[0], 14)
            case (4, _):
                options.sack_permitted = True
            case (5, content) if len(content) % 8 == 0:
                options.sacks = [struct.unpack_from("!II", content, i) for i in range(0, min(len(content), 32), 8)]
            case (8, content) if len(content) == 8:
                options.timestamps = struct.unpack("!II", content)
            case (30, content):
                options.mptcp.append(content)
            case (2 | 3 | 5 | 8, _):
                options.broken = True
    return options


def well_formed(content: bytes, *, syn: bool, ack: bool) -> bool:
    """An MPTCP option's content, by its length (RFC 8684 3, RFC 6824 3). syn, ack: of the packet."""
    if not content:
        return False
    subtype, size = content[0] >> 4, len(content)
    if subtype == 0:
        return size in (2, 10, 18, 20, 22)
    if subtype == 1:
        return size == ((14 if ack else 10) if syn else 22)
    if subtype == 2:
        flags = content[1] if size > 1 else 0
        data_ack = (8 if flags & 2 else 4) if flags & 1 else 0
        return size >= 2 + data_ack + ((14 if flags & 8 else 10) if flags & 4 else 0)
    return size >= {3: 6, 4: 2, 6: 10, 7: 10, 8: 2}.get(subtype, 1)
