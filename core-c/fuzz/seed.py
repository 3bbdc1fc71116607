"""
Seeds for the fuzz targets, cut from our own captures: `seed.py FOLDER` fills a folder for each target. The folder
`captures` has whole captures, for the comparison of short ways with the long one.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.pcap"))
REGRESSIONS = sorted((ROOT / "core-c" / "tests" / "regressions").glob("*.pcap*"))

SEED_BYTES = 4096
EVENTS_BYTES = 1024
FIN, SYN, RST, ACK, URG = 1, 2, 4, 16, 32

Record = tuple[int, bytes, int]
"""Time in nanoseconds, what was captured of an IP packet, its length on the wire."""


def read_pcap(path: Path) -> list[Record]:
    """The records of a little-endian pcap of raw IP, which ours are."""
    raw = path.read_bytes()
    unit_ns = 1 if raw[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    at, records = 24, []
    while at + 16 <= len(raw):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", raw, at)
        records.append((seconds * 10**9 + fraction * unit_ns, raw[at + 16 : at + 16 + captured], wire))
        at += 16 + captured
    return records


@dataclass
class Segment:
    time_ns: int
    data: bytes
    wire: int
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    window: int
    payload: int
    options: dict[int, bytes] = field(default_factory=dict)
    mptcp: bytes = b""


def parse(record: Record) -> Segment | None:
    """IPv4 without options, as in our captures."""
    time_ns, data, wire = record
    if len(data) < 40 or data[0] != 0x45 or data[9] != 6:
        return None
    sport, dport, seq, ack, bits, window = struct.unpack_from("!HHIIHH", data, 20)
    header = (bits >> 12) * 4
    s = Segment(time_ns, data, wire, (data[12:16], sport), (data[16:20], dport), seq, ack, bits & 0x1FF, window,
                wire - 20 - header)  # fmt: skip
    at, end = 40, min(20 + header, len(data))
    while at + 1 < end and data[at]:
        if data[at] == 1:
            at += 1
            continue
        kind, length = data[at], data[at + 1]
        if length < 2:
            break
        s.options[kind] = data[at + 2 : at + length]
        if kind == 30:
            s.mptcp = s.options[kind]
        at += length
    return s


# Captures in every format.


def pcap(records: list[Record], order: str = "<", nano: bool = True, link: int = 101) -> bytes:
    unit = 1 if nano else 1000
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    for t, data, wire in records:
        out.append(struct.pack(order + "IIII", t // 10**9, t % 10**9 // unit, len(data), wire) + data)
    return b"".join(out)


def snoop(records: list[Record], datalink: int = 4, dropped: int = 0) -> bytes:
    """Ethernet. dropped: how many more before each record."""
    out = [b"snoop\0\0\0" + struct.pack("!II", 2, datalink)]
    for i, (t, data, wire) in enumerate(records):
        frame = bytes(12) + b"\x08\0" + data
        padded = frame + bytes(-len(frame) % 4)
        times = (t // 10**9, t % 10**9 // 1000)
        out.append(struct.pack("!6I", 14 + wire, len(frame), 24 + len(padded), i * dropped, *times) + padded)
    return b"".join(out)


def block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order: str, link: int = 101, resolution: int | None = None, offset: int | None = None) -> bytes:
    body = struct.pack(order + "HHI", link, 0, 0)
    if resolution is not None:
        body += struct.pack(order + "HHB3x", 9, 1, resolution)
    if offset is not None:
        body += struct.pack(order + "HHq", 14, 8, offset)
    return block(1, body + struct.pack(order + "HH", 0, 0), order)


def enhanced(order: str, index: int, units: int, data: bytes, wire: int) -> bytes:
    head = struct.pack(order + "IIIII", index, units >> 32, units & 0xFFFFFFFF, len(data), wire)
    return block(6, head + data, order)


def pcapng(records: list[Record], order: str, delay_ns: int = 0) -> bytes:
    """Four clocks in one section, an obsolete, a simple and a foreign block in the next.

    delay_ns: by which each interface was drained later than the one before it.
    """
    clocks = [(None, 10**6), (9, 10**9), (0x80 | 20, 1 << 20), (10, 10**10)]
    out = section(order) + b"".join(interface(order, resolution=r) for r, _ in clocks)
    rows = [
        (t + i % len(clocks) * delay_ns, i % len(clocks), t, data, wire)
        for i, (t, data, wire) in enumerate(records[:-2])
    ]
    for _, k, t, data, wire in sorted(rows):
        out += enhanced(order, k, t * clocks[k][1] // 10**9, data, wire)
    out += section(order) + interface(order, resolution=6, offset=3600)
    out += block(5, bytes(12) + struct.pack(order + "HHQ", 5, 8, 3), order)
    for t, data, wire in records[-2:]:
        units = t // 1000
        head = struct.pack(order + "HHIIII", 0, 0, units >> 32, units & 0xFFFFFFFF, len(data), wire)
        out += block(2, head + data, order) + block(3, struct.pack(order + "I", len(data)) + data, order)
    return out


def first_records(records: list[Record], start: int, size: int = SEED_BYTES - 512) -> list[Record]:
    taken, used = [], 0
    for record in records[start:]:
        used += len(record[1]) + 16
        if used > size:
            break
        taken.append(record)
    return taken


def slices(records: list[Record]) -> Iterator[list[Record]]:
    """The first packets, and what came later with the handshakes before it."""
    yield first_records(records, 0)
    opening = [r for r in records if (s := parse(r)) and s.flags & SYN][:8]
    for part in range(1, 8):
        later = first_records(records, len(records) * part // 8, SEED_BYTES - 1500)
        yield opening + later


def segment(port: int, from_client: bool, seq: int, ack: int, flags: int, options: bytes, payload: int = 0) -> Record:
    """One without a time: MPTCP's own subflows in `crowd`."""
    options += b"\1" * (-len(options) % 4)
    ends = (port, 80) if from_client else (80, port)
    tcp = struct.pack("!HHIIHHI", *ends, seq, ack, (5 + len(options) // 4) << 12 | flags, 65535, 0) + options
    hosts = b"\x0a\0\0\1\x0a\0\0\2" if from_client else b"\x0a\0\0\2\x0a\0\0\1"
    total = 20 + len(tcp) + payload
    return 0, struct.pack("!BBHHHBBH", 0x45, 0, total, 1, 0, 64, 6, 0) + hosts + tcp, total


def crowd(subflows: int) -> list[Record]:
    """A connection with more subflows than a controller has places; the first of them leaves."""
    client, server = b"clientky", b"serverky"
    capable = b"\x1e\x0c\1\1" + server
    out = [segment(1000, True, 0, 0, SYN, b"\x1e\4\1\1"), segment(1000, False, 0, 1, SYN | ACK, capable),
           segment(1000, True, 1, 1, ACK, b"\x1e\x14\1\1" + client + server)]  # fmt: skip
    for port in range(1001, 1000 + subflows):
        out.append(segment(port, True, 0, 0, SYN, b"\x1e\x0c\x10\1" + token(server, 1) + b"nnnn"))
        out.append(segment(port, False, 0, 1, SYN | ACK, b"\x1e\x10\x10\1hhhhhhhhnnnn"))
        out.append(segment(port, True, 1, 1, ACK, b"\x1e\x18\x10\0" + b"h" * 20))
    for port in (1000, 1001, 999 + subflows):
        mapping = b"\x1e\x0e\x20\4" + struct.pack("!IIH", port, 1, 100)
        out += [segment(port, True, 1, 1, ACK, mapping, 100), segment(port, False, 1, 101, ACK, b"")]
    out += [segment(1000, True, 101, 1, ACK | FIN, b""), segment(1000, False, 1, 102, ACK, b"")]
    return [(10**9 + 10**7 * i, data, wire) for i, (_, data, wire) in enumerate(out)]


def capture_seeds() -> Iterator[bytes]:
    for path in CAPTURES:
        for i, part in enumerate(slices(read_pcap(path))):
            yield pcap(part)
            if i == 0:
                yield pcap(part, ">")
                yield pcap(part, "<", nano=False)
                yield snoop(part[:20])
                yield snoop(part[:10], dropped=3) + snoop(part[10:20], datalink=2)
            if i < 2:
                yield pcapng(part[:30], "<")
                yield pcapng(part[:30], ">")
                yield pcapng(part[:30], "<", 10**8)
    kuznetzov = pcap([], "<", nano=False)
    yield b"\x34\xcd\xb2\xa1" + kuznetzov[4:] + struct.pack("<IIII8x", 1, 2, 4, 4) + b"abcd"
    yield kuznetzov[:6] + b"\2\0" + kuznetzov[8:] + struct.pack("<IIII", 1, 2, 60, 4) + b"abcd"
    for path in REGRESSIONS:
        yield path.read_bytes()[:SEED_BYTES]


def replay_seeds() -> Iterator[bytes]:
    for path in CAPTURES:
        records = read_pcap(path)
        for part in slices(records):
            yield pcap(part)
        flows: dict[object, list[Record]] = {}
        for record in records:
            if s := parse(record):
                flows.setdefault(frozenset((s.source, s.target)), []).append(record)
        for flow in flows.values():
            yield from (pcap(part) for part in slices(flow))
    yield pcap(crowd(10))
    yield pcapng(crowd(9), "<")
    yield pcap([segment(port, True, 0, 0, SYN, b"") for port in range(50)])
    for path in REGRESSIONS:
        yield path.read_bytes()[:SEED_BYTES]


# Packets under every link layer and tunnel.

ETHERNET = b"ddddddssssss"
SNAP = b"\xaa\xaa\3\0\0\0\x08\0"
LINKS: list[tuple[int, bytes]] = [
    (101, b""), (12, b""), (14, b""), (228, b""), (1, ETHERNET + b"\x08\0"),
    (1, ETHERNET + b"\x88\xa8\0\x05\x81\0\0\x06\x08\0"), (1, ETHERNET + b"\x88\x47\0\1\0\x40\0\2\1\x40"),
    (1, ETHERNET + b"\x88\x64\x11\0\0\1\0\x64\0\x21"), (1, ETHERNET + b"\0\x50" + SNAP), (9, b"\xff\3\0\x21"),
    (50, b"\x21"), (10, b"\x50" + ETHERNET + SNAP), (105, b"\x08\1\0\0aaaaaabbbbbbcccccc\0\0" + SNAP),
    (127, b"\0\0\x0a\0\0\0\0\0xx\x88\2\0\0aaaaaabbbbbbcccccc\0\0qq" + SNAP), (242, b"g" * 40 + b"\x08\0\0\0"),
    (113, b"\0\0\0\1\0\6aaaaaaaa\x08\0"), (276, b"\x08\0\0\0\0\0\0\1\0\1\0\6aaaaaaaa"), (0, b"\2\0\0\0"),
    (108, b"\0\0\0\2"), (9, b"\xff\3\0\x3d\xc0\0\1\2\0\x21"), (9, b"\0\x3d\xc1\2\x21"),
    (105, b"\x88\1\0\0aaaaaabbbbbbcccccc\0\0\x80q" + ETHERNET + b"\0\x60" + SNAP),
]  # fmt: skip
TUNNELS: list[tuple[int, bytes]] = [
    (4, b""), (47, b"\0\0\x08\0"), (47, b"\xb0\0\x08\0cccckkkkssss"), (47, b"\0\0\x65\x58" + ETHERNET + b"\x08\0"),
    (47, b"\x30\x81\x88\x0bkkkkssssaaaa\0\x21"), (47, b"\0\0\x82\0\x08\1\0\0aaaaaabbbbbbcccccc\0\0" + SNAP),
    (17, b"\x10\0\x12\xb5\0\0\0\0\x08\0\0\0\0\0\1\0" + ETHERNET + b"\x08\0"),
    (17, b"\x10\0\x17\xc1\0\0\0\0\1\0\x65\x58\0\0\1\0oooo" + ETHERNET + b"\x08\0"),
    (17, b"\x10\0\x17\xc1\0\0\0\0\0\0\x08\0\0\0\1\0"), (17, b"\x10\0\x08\x68\0\0\0\0\x30\xff\0\0tttt"),
    (17, b"\x10\0\x08\x68\0\0\0\0\x36\xff\0\0ttttss\0\x85\1xx\x85\1xx\0"),
    (115, b"iiii\0\0\0\0" + ETHERNET + b"\x08\0"), (17, b"\x10\0\6\xa5\0\0\0\0\0\3rriiii\xff\3\0\x21"),
    (103, b"\x21\0cc\0\0\0\0"),
]  # fmt: skip


def ipv4(protocol: int, body: bytes) -> bytes:
    return struct.pack("!BBHHHBBH", 0x45, 3, 20 + len(body), 1, 0, 64, protocol, 0) + b"\x0a\0\0\1\x0a\0\0\2" + body


def ipv6(kind: int, body: bytes, length: int | None = None) -> bytes:
    head = struct.pack("!IHBB", 0x60300000, len(body) if length is None else length, kind, 64)
    return head + b"a" * 16 + b"b" * 16 + body


def packet_seed(link: int, longer: int, *records: bytes) -> bytes:
    before = b"".join(struct.pack("!H", len(r)) + r for r in records[:-1])
    return struct.pack("!HBB", link, longer, len(records) - 1) + before + records[-1]


def fragment4(body: bytes, offset: int, more: bool) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 77, more << 13 | offset // 8, 64, 6, 0)
    return head + b"\x0a\0\0\1\x0a\0\0\2" + body


def fragment6(body: bytes, offset: int, more: bool) -> bytes:
    return ipv6(44, struct.pack("!BBHI", 6, 0, offset | more, 77) + body)


def packet_seeds() -> Iterator[bytes]:
    kinds: dict[object, bytes] = {}
    for path in CAPTURES:
        for record in read_pcap(path):
            if s := parse(record):
                kinds.setdefault((s.flags, tuple(s.options), s.mptcp[:2], len(s.data)), s.data)
    packets = list(kinds.values())
    for data in packets[:120]:
        yield packet_seed(101, 9, data)
    for i, (link, header) in enumerate(LINKS):
        yield packet_seed(link, 9, header + packets[i % len(packets)])
    for i, (protocol, header) in enumerate(TUNNELS):
        yield packet_seed(101, 9, ipv4(protocol, header + packets[i % len(packets)]))
    tcp = packets[0][20:]
    extensions = b"\x2b\0\1\4\0\0\0\0" + b"\x2c\1\0\0\0\0\0\0aaaaaaaa" + b"\6\0\0\0\0\0\0\1"
    yield packet_seed(229, 0, ipv6(0, extensions + tcp))
    yield packet_seed(229, 99, ipv6(0, b"\6\0\xc2\4\0\1\0\0" + tcp, 0))
    yield packet_seed(229, 0, ipv6(51, b"\6\1\0\0aaaaaaaa" + tcp))
    attributes = struct.pack("<HH", 8, 1) + b"aaaa" + struct.pack("<HH", 4 + len(packets[0]), 9)
    yield packet_seed(239, 0, b"\2\0\0\0" + attributes + packets[0])
    whole = tcp[:12] + bytes([tcp[12] & 15 | len(tcp) // 4 << 4]) + tcp[13:] + bytes(80)
    for fragment in (fragment4, fragment6):
        parts = [fragment(whole[i : i + 48], i, i + 48 < len(whole)) for i in range(0, len(whole), 48)]
        yield packet_seed(101, 0, *parts)
        yield packet_seed(101, 0, *parts[::-1])
        yield packet_seed(101, 0, *parts[1:], parts[1], parts[0])


# Descriptions: flow_fuzz.c and events_fuzz.c say what the bytes mean.


def token(key: bytes, version: int) -> bytes:
    return (hashlib.sha256 if version else hashlib.sha1)(key).digest()[:4]


class Flows:
    """Hosts, ports and keys numbered as they appear."""

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.ports: list[int] = []
        self.keys: list[bytes] = []
        self.last_ns = 0

    def tuple_of(self, s: Segment) -> bytes:
        client = s.source[1] > s.target[1]
        ends = (s.source, s.target) if client else (s.target, s.source)
        pair, port = (ends[0][0], ends[1][0]), ends[0][1]
        for known, value in ((self.pairs, pair), (self.ports, port)):
            if value not in known:
                known.append(value)
        hosts = (3, 2, 1, 0)[self.pairs.index(pair) % 4]
        step = 2 if s.time_ns - self.last_ns > 10**7 else 1
        self.last_ns = s.time_ns
        first = hosts | self.ports.index(port) % 4 << 2 | client << 4 | step << 6
        return bytes([first] if hosts else [first, 0])

    def key(self, key: bytes) -> int:
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key) % 8

    def option(self, s: Segment) -> bytes:
        subtype, low = s.mptcp[0] >> 4, s.mptcp[0] & 15
        which, keys = 0, 0
        if subtype == 0:
            keys = (len(s.mptcp) - 2) // 8 if len(s.mptcp) >= 10 else 0
            numbers = [self.key(s.mptcp[2 + 8 * i : 10 + 8 * i]) for i in range(keys)]
            which = sum(n << 3 * i for i, n in enumerate(numbers)) | (low & 1) << 6
        elif subtype == 1 and s.flags & SYN and not s.flags & ACK:
            wanted = s.mptcp[2:6]
            which = next((i for i, k in enumerate(self.keys) if token(k, 1) == wanted), 7) % 8 | 8
        elif subtype == 2:
            which = 100
        kind = next(k for k in range(128) if k % 9 == subtype and k // 9 % 3 == keys)
        return bytes([kind, which])

    def packet(self, s: Segment) -> bytes:
        option = bool(s.mptcp) and s.mptcp[0] >> 4 < 9
        flags = s.flags & (FIN | SYN | RST | 8 | ACK) | (URG if option else 0)
        out = self.tuple_of(s) + bytes([flags, 1, min(s.payload, 127)])
        if s.flags & SYN:
            out += bytes([0xEF])
        return out + (self.option(s) if option else b"")


def flow_seeds() -> Iterator[bytes]:
    for path in CAPTURES:
        for part in slices(read_pcap(path)):
            flows, out = Flows(), b"\0"
            for record in part:
                if s := parse(record):
                    out += flows.packet(s)
            yield out
    for again in (1, 2):  # many flows
        yield b"\0" + b"".join(bytes([0, port, ACK, 1, 9]) * again for port in range(256))


class Events:
    """Sequence numbers in segments after the first one."""

    def __init__(self, flow: list[Segment], source: tuple[bytes, int]) -> None:
        self.flow, self.source = flow, source
        sent = [s for s in flow if s.source == source and s.payload]
        self.base = sent[0].seq if sent else 0
        self.size = max((s.payload for s in sent), default=1448)
        self.edge = [0, 0, 0, 0]
        self.left: dict[bytes, int] = {}  # when a timestamp was sent
        self.last_ns = flow[0].time_ns

    def segments(self, seq: int) -> int:
        ahead = (seq - self.base + 2**31) % 2**32 - 2**31
        return round(ahead / self.size)

    def place(self, at: int, edges: tuple[int, ...]) -> bytes:
        for e in edges:
            if abs(at - self.edge[e]) <= 30:
                return bytes([(at - self.edge[e] + 32) << 2 | e])
        return bytes([edges[0]]) + struct.pack("!i", (at - self.edge[edges[0]]) * 1436)

    def time(self, now: int) -> tuple[int, bytes]:
        waited, self.last_ns = now - self.last_ns, now
        for scale, unit in ((1, 20_000), (2, 2_000_000), (3, 400_000_000)):
            if waited < 255 * unit:
                return (scale, bytes([waited // unit])) if waited >= unit else (0, b"")
        return 3, b"\xff"

    def packet(self, s: Segment) -> bytes:
        scale, out = self.time(s.time_ns)
        acks = s.source != self.source
        first = acks | scale << 1
        if s.flags & ~(8 | ACK):
            first |= 8
            out += bytes([s.flags & ~(8 | URG) & 0xFF])
        if len(s.options.get(8, b"")) == 8:
            first |= 16
            value, echo = s.options[8][:4], s.options[8][4:]
            if not acks:
                self.left.setdefault(value, s.time_ns)
            out += bytes([min((s.time_ns - self.left.get(echo, s.time_ns)) // 10**6, 255)])
        start, end = self.segments(s.seq), self.segments(s.seq + s.payload)
        if acks:
            sacks = s.options.get(5, b"")
            blocks = [struct.unpack_from("!II", sacks, 8 * i) for i in range(min(len(sacks) // 8, 4))]
            at = self.segments(s.ack)
            out += self.place(at, (0, 1))
            self.edge[0] = max(self.edge[0], at)
            for low, high in blocks:
                a, b = self.segments(low), self.segments(high)
                out += self.place(a, (2, 0, 1)) + bytes([min(b - a, 63) & 63])
                self.edge[2] = max(self.edge[2], b)
            return bytes([first | len(blocks) << 5]) + out
        form = 0 if start == self.edge[1] and end == start + 1 else 1 if start == self.edge[1] else 5
        if form == 5:
            out += self.place(start, (0, 3, 1))
        if form:
            out += bytes([min(end - start, 63)])
        self.edge[3] = start
        self.edge[1] = max(self.edge[1], end)
        return bytes([first | form << 5]) + out


def events_seeds() -> Iterator[bytes]:
    at_next, closed, opened = 32 << 2 | 1, bytes([9, URG | ACK, 0]), bytes([9, URG | ACK, 16])
    probe = bytes([1 << 5, 64 + 1])
    yield bytes([5, 0, 0, 0]) + closed + bytes([at_next]) + probe + opened + bytes([at_next]) + bytes(3)
    number = 0
    for path in CAPTURES:
        flows: dict[object, list[Segment]] = {}
        for record in read_pcap(path):
            if s := parse(record):
                flows.setdefault(frozenset((s.source, s.target)), []).append(s)
        for flow in flows.values():
            sent: dict[tuple[bytes, int], int] = {}
            for s in flow:
                sent[s.source] = sent.get(s.source, 0) + s.payload
            source = max(sent, key=lambda end: sent[end])
            for part in range(8):
                events, number = Events(flow[len(flow) * part // 8 :], source), number + 1
                # Every vantage point, with and without SACK, window scaling on.
                # In turn without ECN, and with accurate ECN.
                out = bytes([5 | (0 if number % 5 == 0 else 2) | number % 4 << 3, number % 4, number % 2 * 23])
                for s in events.flow:
                    out += events.packet(s)
                    if len(out) > EVENTS_BYTES:
                        break
                yield out


def shadow_seeds() -> Iterator[bytes]:
    """Each controller: two subflows, slow start, a loss and what follows, a timeout, an end."""
    tick, rtt = bytes([33, 100]), bytes([37, 100])  # 356 * 2^16 ns, 356 * 2^18 ns

    def ack(path: int, steps: int, delivered: int, flight: int, state: int = 0) -> bytes:
        after = bytes([state | 64, 0, flight]) + struct.pack("!H", steps)
        return bytes([path | 3 << 3 | 64]) + tick + after + bytes([0, delivered, 0, delivered]) + rtt

    for choice in range(14):
        out = bytes([choice, 0, 0]) + rtt + bytes([1]) + bytes([39, 200])
        out += b"".join(ack(i % 2, 256, 2, 10 + 2 * i) for i in range(40))
        out += b"".join(ack(i % 2, 16 | 128 if i < 2 else 128, 1, 60 - i, 3) for i in range(40))
        out += b"".join(ack(i % 2, 4 if i < 2 else 256, 1, 40) for i in range(40))
        out += bytes([1 | 1 << 3]) + tick + bytes([32 | 4, 0, 20]) + ack(1, 8, 1, 3) + bytes([31 << 3])
        yield out + b"".join(ack(1, 256, 3, 200, 0) for _ in range(20))


def bottleneck_seeds() -> Iterator[bytes]:
    """Each detector with its options: three paths, coinciding events twice, samples, an end; then statistics."""
    join = bytes([0, 20, 60])  # srtt 60 * 2^20 ns
    sample = bytes([0, 1, 0, 0, 20, 80, 20, 70])  # one delivered, none lost, a delay, a smoothed one
    for choice in range(8):
        out = bytes([choice]) + join * 3
        for _ in range(2):
            for path in range(3):
                out += bytes([1 << 6 | path | (2 + path % 2) << 3, 5])
            out += bytes([1 << 6 | 5 << 3, 255])
        for i in range(60):
            out += bytes([1 << 6 | i % 3 | 6 << 3, 9]) + sample
        yield out + bytes([1 << 3, 1 << 3 | 1])
    flow = bytes([10, 40, 20, 90, 8, 60, 0, 0, 1])  # skew, var, freq, loss; congested before
    yield bytes([8, 12]) + b"".join(bytes([flow[0], i * 7 % 64]) + flow[2:] for i in range(12))


def network_seeds() -> Iterator[bytes]:
    """Each discipline at some 10 Mbit/s and 20 ms: plain, with losses, with late packets; routes over two links."""

    def number(bits: int, value: int) -> bytes:
        return bytes([bits, value])

    nothing = number(0, 0)
    codel = number(22, 1) + number(26, 1)
    source = number(20, 2) + number(8, 4) + nothing + number(24, 1) + number(24, 2) + number(6, 10) + bytes([0])
    change = bytes([1, 0b11110]) + number(24, 5) + number(16, 80) + nothing + number(20, 30)
    routes = b"".join(bytes([2 - 1, link, (link + 1) % 4]) for link in range(4))
    packets = b""
    for i in range(60):
        later = i % 8 == 0
        packets += bytes([(0x10 if later else 0) | i % 4 | 4]) + (number(20, 3) if later else b"") + number(8, 5)
    for discipline in range(8):  # with and without ECN
        queue = bytes([discipline | 5 << 4]) + number(0, 4) + number(0, 20) + nothing + number(0, 3)
        queue += number(0, 10) + number(29, 1) + codel
        for lossy, late in ((False, False), (True, False), (False, True)):
            loss = number(26, 1) if lossy else nothing
            link = number(16, 153) + number(20, 20) + (number(20, 1) if late else nothing) + loss * 5
            link += (number(28, 1) if late else nothing) + number(22, 1) + queue
            yield number(0, discipline) + link * 4 + routes + bytes([1]) + source + bytes([1]) + change + packets


def without_mptcp(record: Record) -> Record:
    """An IPv4 packet without its MPTCP options: plain TCP, of most packets with timestamps alone."""
    time_ns, data, wire = record
    if data[0] != 0x45 or data[9] != 6:
        return record
    header, options, at = (data[32] >> 4) * 4, b"", 40
    while at < 20 + header and data[at]:
        length = 1 if data[at] == 1 else data[at + 1]
        options += b"" if data[at] == 30 else data[at : at + length]
        at += length
    options += b"\x01" * (-len(options) % 4)
    less = header - 20 - len(options)
    ip = data[:2] + struct.pack(">H", struct.unpack_from(">H", data, 2)[0] - less) + data[4:20]
    tcp = data[20:32] + bytes([(20 + len(options)) // 4 << 4]) + data[33:40]
    return time_ns, ip + tcp + options + data[20 + header :], wire - less


def redaction_seeds() -> Iterator[bytes]:
    """Captures as files, and each packet seed as the only record of one."""
    yield from capture_seeds()
    for seed in packet_seeds():
        link_type, bytes_ = int.from_bytes(seed[:2], "big"), seed[4:]
        head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type)
        yield head + struct.pack("<IIII", 1, 0, len(bytes_), len(bytes_)) + bytes_


def whole_captures(folder: Path) -> None:
    """The committed captures as they are, and as plain TCP in Ethernet with microseconds."""
    ethernet = bytes(12) + b"\x08\x00"
    folder.mkdir(parents=True, exist_ok=True)
    for path in CAPTURES:
        plain = [without_mptcp(record) for record in read_pcap(path)]
        frames = [(time_ns, ethernet + data, wire + 14) for time_ns, data, wire in plain]
        (folder / path.name).write_bytes(path.read_bytes())
        (folder / f"plain-{path.name}").write_bytes(pcap(frames, nano=False, link=1))


def simulator_seeds() -> Iterator[bytes]:
    """Scenarios drawn from a hash: every byte of an input means something."""
    for i in range(12):
        yield b"".join(hashlib.sha256(bytes([i, k])).digest() for k in range(8))


def main() -> None:
    folder = Path(sys.argv[1])
    whole_captures(folder / "captures")
    seeds = {"capture": capture_seeds, "packet": packet_seeds, "flow": flow_seeds, "events": events_seeds,
             "bottleneck": bottleneck_seeds, "shadow": shadow_seeds, "replay": replay_seeds,
             "network": network_seeds, "simulator": simulator_seeds, "redaction": redaction_seeds}  # fmt: skip
    for target, make in seeds.items():
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(make()):
            (place / f"{i:03}").write_bytes(seed[:SEED_BYTES])


if __name__ == "__main__":
    main()
