"""How close a replay of our own controllers in the kernel can come: two floors.

The *inputs*: the controller gets what the lab wrote down in the kernel (`steps.csv.gz`), so that clocks and the
capture do not matter. *Later*: the capture is replayed with every ACK arriving 20 us later, about as far as the clocks
of kernel and capture are apart, and compared with the replay of the capture as it is.
"""

from __future__ import annotations

import csv
import gzip
import ipaddress
import struct
from collections.abc import Container
from pathlib import Path

from kernel import toolchain
from lab.controllers import STEPS_FILE
from rewindow import Controller

LATER_NS = 20_000

_MAGIC_US, _MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
_LINK_HEADER_BYTES = {1: 14, 101: 0, 113: 16, 276: 20}
_FILE_HEADER, _RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")


def of_inputs(folder: Path) -> dict[int, tuple[int, int]]:
    """By a subflow's own port: ACKs that the window could grow by, and how many of them left the kernel's whole window.

    What the kernel's machinery did to a window is taken over; what the controller did is computed anew. Empty where the
    run has no steps.
    """
    if not (folder / STEPS_FILE).exists():
        return {}
    names = {c.kernel_name: c.name for c in toolchain.controllers()}
    followed: dict[str, Controller] = {}
    counts: dict[int, tuple[int, int]] = {}
    with gzip.open(folder / STEPS_FILE, "rt") as f:
        for r in csv.DictReader(f):
            if r["connection"] not in followed:
                name = names[r["congestion_control"]]
                followed[r["connection"]] = Controller(name, mss=int(r["mss"]), mode="kernel")
            controller, path, cwnd_q16 = followed[r["connection"]], int(r["path"]), int(r["cwnd_q16"])
            controller.follow(
                r["kind"], path, cwnd_q16=cwnd_q16, ssthresh_q16=int(r["ssthresh_q16"]), srtt_ns=int(r["srtt_ns"]),
                recovering=r["recovering"] == "1", acked=int(r["acked"]), marked=int(r["marked"]),
                rtt_ns=int(r["rtt_ns"]), rtt_newest_ns=int(r["rtt_newest_ns"]), una=int(r["una"]),
                following=int(r["next"]), time_ns=round(float(r["t"]) * 1e9),
            )  # fmt: skip
            if r["kind"] == "ack":
                acks, equal = counts.get(int(r["sport"]), (0, 0))
                counts[int(r["sport"])] = acks + 1, equal + (int(controller.paths[path].cwnd) == cwnd_q16 >> 16)
    return counts


def _destination(packet: bytes) -> tuple[str, int] | None:
    """Address and port of a TCP packet; None for anything else. IPv6 without extension headers."""
    if packet[:1] and packet[0] >> 4 == 4 and len(packet) >= 20 and packet[9] == 6:
        address, at = packet[16:20], (packet[0] & 15) * 4
    elif packet[:1] and packet[0] >> 4 == 6 and len(packet) >= 40 and packet[6] == 6:
        address, at = packet[24:40], 40
    else:
        return None
    if len(packet) < at + 4:
        return None
    return str(ipaddress.ip_address(address)), int.from_bytes(packet[at + 2 : at + 4], "big")


def write_later(capture: Path, senders: Container[tuple[str, int]], target: Path) -> None:
    """The same pcap file, in which what these senders receive arrives LATER_NS later. ValueError for another format."""
    data = capture.read_bytes()
    magic, *_, link = _FILE_HEADER.unpack_from(data)
    if magic not in (_MAGIC_US, _MAGIC_NS) or link not in _LINK_HEADER_BYTES:
        raise ValueError(f"{capture} is no pcap file of a link type that is known here")
    unit_ns, records, offset = 1 if magic == _MAGIC_NS else 1000, [], _FILE_HEADER.size
    while offset + _RECORD.size <= len(data):
        seconds, fraction, captured, length = _RECORD.unpack_from(data, offset)
        packet = data[offset + _RECORD.size : offset + _RECORD.size + captured]
        time_ns = seconds * 10**9 + fraction * unit_ns
        if _destination(packet[_LINK_HEADER_BYTES[link] :]) in senders:
            time_ns += LATER_NS
        records.append((time_ns, length, packet))
        offset += _RECORD.size + captured
    records.sort(key=lambda r: r[0])
    with open(target, "wb") as f:
        f.write(_FILE_HEADER.pack(_MAGIC_NS, *_FILE_HEADER.unpack_from(data)[1:]))
        for time_ns, length, packet in records:
            f.write(_RECORD.pack(time_ns // 10**9, time_ns % 10**9, len(packet), length) + packet)
