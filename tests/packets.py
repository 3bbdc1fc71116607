"""Builds captures for tests: TCP segments over IPv4 in a nanosecond pcap with raw IP."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

FIN, SYN, RST, PSH, ACK, ECE, CWR, AE = 1, 2, 4, 8, 16, 64, 128, 256
TIMESTAMPS, SACK_PERMITTED, MSS = 8, 4, 2


@dataclass
class Trace:
    """client 10.0.0.1:1000 sends to server 10.0.0.2:80 unless told otherwise; times in seconds."""

    records: list[tuple[int, bytes, int]] = field(default_factory=list)

    def packet(
        self, time: float, from_client: bool, seq: int, ack: int, flags: int = ACK, payload: int = 0,
        options: bytes = b"", window: int = 65535, client: str = "10.0.0.1", server: str = "10.0.0.2",
        ports: tuple[int, int] = (1000, 80), ident: int = 0, ecn: int = 0,
    ) -> None:  # fmt: skip
        options += b"\x01" * (-len(options) % 4)
        ends = [bytes(map(int, a.split("."))) for a in (client, server)]
        source, target = ends if from_client else reversed(ends)
        sport, dport = ports if from_client else reversed(ports)
        total = 40 + len(options) + payload
        ip = struct.pack("!BBHHHBBH", 0x45, ecn, total & 0xFFFF, ident, 0x4000, 64, 6, 0) + source + target
        tcp = struct.pack("!HHIIHHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                          (5 + len(options) // 4) << 12 | flags, window, 0, 0)  # fmt: skip
        self.records.append((round(time * 1e9), ip + tcp + options, total))

    def handshake(self, time: float, rtt: float, options: bytes = b"\x02\x04\x05\xb4\x04\x02", **kw: object) -> None:
        """Seen beside the client; ISNs 0 and 1000."""
        self.packet(time, True, 0, 0, SYN, options=options, **kw)  # type: ignore[arg-type]
        self.packet(time + rtt, False, 1000, 1, SYN | ACK, options=options, **kw)  # type: ignore[arg-type]
        self.packet(time + rtt + 1e-5, True, 1, 1001, **kw)  # type: ignore[arg-type]

    def bytes(self, *, magic: int = 0xA1B23C4D, order: str = "<") -> bytes:
        out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 101)]
        for time_ns, data, wire in sorted(self.records, key=lambda r: r[0]):
            out.append(struct.pack(order + "IIII", time_ns // 10**9, time_ns % 10**9, len(data), wire) + data)
        return b"".join(out)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


ETHERNET_HEADER = b"\2" * 6 + b"\4" * 6 + b"\x08\0"


def snoop(trace: Trace, datalink: int = 4) -> bytes:
    """RFC 1761, Ethernet."""
    out = [b"snoop\0\0\0" + struct.pack("!II", 2, datalink)]
    for time_ns, data, wire in trace.records:
        frame = ETHERNET_HEADER + data
        padded = frame + bytes(-len(frame) % 4)
        times = (time_ns // 10**9, time_ns // 1000 % 10**6)
        out.append(struct.pack("!6I", 14 + wire, len(frame), 24 + len(padded), 0, *times) + padded)
    return b"".join(out)


def iptrace(trace: Trace, content: bytes = b"\0") -> bytes:
    """AIX's iptrace 2.0, Ethernet: a format that only tshark reads. It has no length but that of what was captured, so
    that packets are whole: `content`, again and again, is what they carry."""
    out = [b"iptrace 2.0"]
    for time_ns, data, wire in trace.records:
        frame = ETHERNET_HEADER + data + (content * wire)[: wire - len(data)]
        seconds, fraction = divmod(time_ns, 10**9)
        interface = (b"en", b"", 6, 0, 0)  # names, Ethernet, received
        out.append(struct.pack("!III4s12sBBHII", len(frame) + 32, seconds, 0, *interface, seconds, fraction) + frame)
    return b"".join(out)


def sack(*blocks: tuple[int, int]) -> bytes:
    return bytes([5, 2 + 8 * len(blocks)]) + b"".join(struct.pack("!II", *b) for b in blocks)
