"""tshark decodes what the core does not: other link types, other file formats.

tshark reads a capture and prints, for each packet, the fields of its first TCP header and of the IP header around it.
They are written as raw IP with the headers alone, into a pcapng that the core reads like any other. tshark reads
hostile bytes, so it runs confined (`rewindow/confined.py`, docs/decisions/tshark.md). Where the system cannot confine
it, tshark does not run, unless REWINDOW_ALLOW_UNCONFINED is 1.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

from rewindow import confined
from rewindow.captures import tshark
from rewindow.captures.tshark import PROGRAM, Limits
from rewindow.errors import (
    CaptureUnreadable,
    DependencyFailed,
    DissectorFailed,
    DissectorInterrupted,
    DissectorMissing,
    DissectorNotConfined,
    NotACapture,
)

_NOT_THE_FILES_FAULT = (1, 126, 127)
"""Exit statuses that do not depend on the file: an unknown option; tshark could not be started."""
_TCP, _FRAGMENT = 6, 44
_RAW_IP = 101
_CUT = b"\x45"
"""The first byte of a packet that the core counts as a header that was not captured."""
_TIME_UNUSABLE = (1 << 64) - 1
"""A time that the core counts as a bad timestamp."""
_LINK_TYPE_NAMES = {"eth": "ethernet", "sll": "linux_sll"}
"""tshark's names of link layers -> the core's, where they differ."""


@dataclass
class Dissection:
    """What tshark found in a capture.

    file: raw IP in a pcapng. tool: name and version. link_types: names of the outermost layers.
    records: packets in the capture; ip: packets with IP in them; tcp: packets with TCP in them.
    """

    file: IO[bytes]
    tool: str = ""
    records: int = 0
    ip: int = 0
    tcp: int = 0
    link_types: list[str] = field(default_factory=list)


_OTHER_FORMATS = (
    b"snoop\0\0\0", b"RTSS", b"GMBU", b"TRSNIFF data", b"XCP\0", b"\x7fver", b"ObserverPktBuffe", b"iptrace ",
)  # fmt: skip
"""The first bytes of captures in formats that the core does not read and tshark does."""


class NotUnderstood(Exception):
    """tshark does not take the file for a capture; the text is its reason."""


def dissect(
    capture: IO[bytes],
    name: str,
    *,
    every_record: bool,
    limits: Limits | None = None,
    file: IO[bytes] | None = None,
) -> Dissection:
    """Has tshark decode a capture. The caller closes the result's file.

    capture: a seekable file. every_record: records without TCP are kept, empty, so that they are counted. file: where
    the result is written; None: a temporary file.

    Raises NotUnderstood, DissectorMissing, DissectorAway, DissectorNotConfined, DissectorFailed.
    """
    limits = limits or Limits.for_size(os.fstat(capture.fileno()).st_size)
    if file is None:
        file = cast(IO[bytes], tempfile.TemporaryFile(prefix="rewindow-"))  # noqa: SIM115  # closed by the caller
    try:
        writer = _Writer(file)
        with _Run(capture, name, limits) as run:
            found = Dissection(file, run.tool)
            for line in run.lines():
                try:
                    _take(line.decode("utf-8", "replace").rstrip("\n").split("\t"), writer, found, every_record)
                except (ValueError, struct.error) as e:
                    raise DissectorFailed(f"{name}: {PROGRAM} printed for packet {found.records}: {e}") from e
            found.tool += run.note
            found.link_types = [_LINK_TYPE_NAMES.get(name, name) for name in found.link_types]
            writer.end(run.cut)
        if run.reason and not found.records:
            raise NotUnderstood(run.reason)
        file.seek(0)
        return found
    except BaseException:
        file.close()
        raise


def dissect_format(capture: IO[bytes], why: NotACapture, *, file: IO[bytes] | None = None) -> Dissection:
    """Has tshark decode a file that the core takes for no capture (`why`), from its start; the rest as in `dissect`.

    Raises CaptureUnreadable where it is no capture for tshark either, and what `dissect` raises.
    """
    capture.seek(0)
    head = capture.read(16)
    capture.seek(0)
    is_announced = head.startswith(_OTHER_FORMATS)
    if not head:
        raise why
    try:
        found = dissect(capture, why.name, every_record=True, file=file)
    except NotUnderstood as e:
        raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM}: {e}") from why
    except DissectorMissing:
        if is_announced:
            raise
        raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM}, which knows more, is not installed") from why
    except DissectorNotConfined:
        if is_announced:
            raise
        raise CaptureUnreadable(
            why.name, f"{why.reason}; {PROGRAM}, which knows more, cannot be confined on this system"
        ) from why
    if not found.ip and not is_announced:
        found.file.close()
        raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM} finds no IP in it") from why
    return found


class _Run:
    """One run of tshark. After its lines: `reason`, `cut`: why and how the capture ends too early."""

    def __init__(self, capture: IO[bytes], name: str, limits: Limits) -> None:
        self._capture, self._name, self._limits = capture, name, limits
        self._late = False
        self.cut: str | None = None
        self.tool = self.reason = self.note = ""

    def __enter__(self) -> _Run:
        with contextlib.ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            rows, output = os.pipe()
            self._rows = stack.enter_context(open(rows, "rb"))
            # Opened again: tshark may read only, and from the start, whatever the caller may do.
            with open(output, "wb") as end, open(f"/proc/self/fd/{self._capture.fileno()}", "rb") as capture:
                try:
                    self._process = tshark.start(self._limits, capture.fileno(), end.fileno(), self._errors.fileno())
                except DependencyFailed as e:
                    raise type(e)(f"{self._name}: {e}") from e
            self.tool = self._process.tool
            stack.callback(self._process.wait)
            stack.callback(self._process.kill)
            self._timer = threading.Timer(self._limits.clock_s, self._stop)
            self._timer.start()
            stack.callback(self._timer.cancel)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _stop(self) -> None:
        self._late = True
        self._process.kill()

    def lines(self) -> Iterator[bytes]:
        """Rows of fields.

        Raises DissectorFailed when a limit is reached or the program breaks, DissectorInterrupted when its service
        ends.
        """
        room = self._limits.output_bytes
        while (line := self._rows.readline(room)).endswith(b"\n"):
            room -= len(line)
            yield line
        if room <= len(line):
            raise self._failed(f"wrote more than {self._limits.output_bytes} bytes")
        try:
            status = self._process.wait()
        except DissectorInterrupted as e:
            raise DissectorInterrupted(f"{self._name}: {e}") from e
        self._judge(status)

    def _failed(self, what: str) -> DissectorFailed:
        return DissectorFailed(f"{self._name}: {PROGRAM} {what}")

    def _judge(self, status: int) -> None:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").splitlines()
        unconfined = next((line for line in lines if line.startswith(confined.NOT_CONFINED)), "")
        if status == confined.REFUSED and unconfined:
            why = unconfined.removeprefix(f"{confined.NOT_CONFINED}: ")
            raise DissectorNotConfined(
                f"{self._name}: {PROGRAM} is needed to read it and cannot be confined on this system ({why}); "
                "REWINDOW_ALLOW_UNCONFINED=1 runs it all the same"
            )
        self.note = unconfined and f", {unconfined}"
        passed_over = (confined.NOT_CONFINED, "Running as user")
        said = " ".join(line.removeprefix(f"{PROGRAM}: ") for line in lines if not line.startswith(passed_over))
        said = said.replace("The standard input", "it")
        if self._late:
            raise self._failed(f"took more than {self._limits.clock_s:g} s")
        if status == -signal.SIGXCPU:
            raise self._failed(f"used more than {self._limits.cpu_s} s of CPU time")
        if status < 0 or status in _NOT_THE_FILES_FAULT:
            raise self._failed(f"ended with status {status}{': ' if said else ''}{said}")
        if status:
            self.reason = said
            self.cut = "cut" if "cut short" in said else "corrupt"


class _Writer:
    """Raw IP in a pcapng of nanoseconds (draft-ietf-opsawg-pcapng)."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._interfaces = 0
        file.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28))

    def add(self, time_ns: int, interface: int, packet: bytes, wire_bytes: int) -> None:
        while self._interfaces <= interface:
            # if_tsresol (9): ten to the minus 9
            self._file.write(struct.pack("<IIHHIHHBxxxHHI", 1, 32, _RAW_IP, 0, 0, 9, 1, 9, 0, 0, 32))
            self._interfaces += 1
        padded = packet + bytes(-len(packet) % 4)
        length = 32 + len(padded)
        head = struct.pack("<7I", 6, length, interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), wire_bytes)
        self._file.write(head + padded + struct.pack("<I", length))

    def end(self, cut: str | None) -> None:
        """cut: ends as the capture did, within a record or with one that cannot be, so that the core says so."""
        if cut == "cut":
            self._file.write(struct.pack("<I", 6))
        elif cut == "corrupt":
            self._file.write(struct.pack("<3I", 6, 0, 0))
        self._file.flush()


def _take(row: Sequence[str], writer: _Writer, found: Dissection, every_record: bool) -> None:
    """One packet of tshark's output. ValueError, struct.error: it is not what the fields are known to be."""
    f = dict(zip(tshark.FIELDS, row, strict=True))
    layers = f["frame.protocols"].split(":")
    if layers[0] not in found.link_types:
        found.link_types.append(layers[0])
    found.records += 1
    found.ip += "ip" in layers or "ipv6" in layers
    packet = _headers(f, layers)
    found.tcp += packet is not None
    if packet is None and (f["_ws.short"] or f["_ws.malformed"]) and _ends_in_ip(layers):
        packet = _CUT
    if packet is None and not every_record:
        return
    # A record without TCP: one byte that is no version of IP.
    writer.add(
        _time_ns(f["frame.time_epoch"]), _number(f["frame.interface_id"], -1), packet or b"\0", int(f["frame.len"])
    )


def _time_ns(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    if not seconds.isdigit() or int(seconds) >= 1 << 32:
        return _TIME_UNUSABLE
    return int(seconds) * 10**9 + int((fraction + "000000000")[:9])


def _text(occurrences: str, place: int) -> str:
    """One of a field's occurrences in a packet, which go from the outermost in; empty when there is none."""
    values = occurrences.split(",")
    return values[place] if -len(values) <= place < len(values) else ""


def _number(occurrences: str, place: int) -> int:
    text = _text(occurrences, place)
    return int(text == "True") if text in ("True", "False") else int(text or "0", 0)


def _bytes(text: str) -> bytes:
    """tshark prints <MISSING> where nothing of a field was captured."""
    return b"" if text == "<MISSING>" else bytes.fromhex(text.replace(":", ""))


def _ends_in_ip(layers: Sequence[str]) -> bool:
    lowest = next((layer for layer in reversed(layers) if layer != "_ws.malformed"), "")
    return lowest in ("ip", "ipv6") and not {"icmp", "icmpv6"}.intersection(layers)


def _headers(f: dict[str, str], layers: Sequence[str]) -> bytes | None:
    """IP and TCP headers of the packet; None when there is no TCP in it, or only inside an ICMP error."""
    tcp = layers.index("tcp") if "tcp" in layers else len(layers)
    around = [layer for layer in layers[:tcp] if layer in ("ip", "ipv6")]
    if not around or "icmp" in layers[:tcp] or "icmpv6" in layers[:tcp]:
        return None
    # From the end: a layer of IPv4 that passes IPv6 on stands first, and has no fields.
    place = around.count(around[-1]) - layers.count(around[-1]) - 1
    if around[-1] == "ip":
        fragment = _number(f["ip.flags.mf"], place) << 13 | _number(f["ip.frag_offset"], place) // 8
        if tcp == len(layers) and not (fragment and _number(f["ip.proto"], place) == _TCP):
            return None
        return _ipv4(f, place, fragment)
    more, offset = _number(f["ipv6.fraghdr.more"], -1), _number(f["ipv6.fraghdr.offset"], -1)
    if tcp == len(layers) and not ((more or offset) and _number(f["ipv6.fraghdr.nxt"], -1) == _TCP):
        return None
    return _ipv6_fragment(f, place, more > 0, offset) if more > 0 or offset > 0 else _ipv6(f, place)


def _tcp_header(f: dict[str, str]) -> bytes:
    """The TCP header with its options, as far as it was captured; nothing when it was cut before the options."""
    too_short = f["tcp.hdr_len"] and _number(f["tcp.hdr_len"], 0) < 20  # tshark reads no further than that
    if not too_short and not f["tcp.urgent_pointer"]:
        return b""
    bits = (_number(f["tcp.hdr_len"], 0) // 4) << 12 | _number(f["tcp.flags"], 0) & 0xFFF
    names = ("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw")
    fixed = struct.pack(
        "!HHIIHHHH", *(_number(f[n], 0) for n in names), bits, _number(f["tcp.window_size_value"], 0), 0, 0
    )
    return fixed + _bytes(_text(f["tcp.options"], 0))


def _ipv4(f: dict[str, str], place: int, fragment: int) -> bytes:
    # What IP says, not tshark's tcp.len: that is shortened where a record says less than IP.
    said = _number(f["ip.len"], place) - _number(f["ip.hdr_len"], place)
    if f["ah.length"]:  # what authenticates the packet stands between IP and TCP (RFC 4302: in words, less two)
        said -= (_number(f["ah.length"], -1) + 2) * 4
    total = 20 + max(said, 0)
    header = struct.pack(
        "!BBHHHBBH4s4s", 0x45, _number(f["ip.dsfield.ecn"], place), total if total < 1 << 16 else 0,
        _number(f["ip.id"], place), fragment, 64, _TCP, 0, ipaddress.IPv4Address(_text(f["ip.src"], place)).packed,
        ipaddress.IPv4Address(_text(f["ip.dst"], place)).packed,
    ) + _tcp_header(f)  # fmt: skip
    # More than IPv4 can say, left to segmentation offload: the length comes from a jumbogram around it.
    return header if total < 1 << 16 else _jumbogram(bytes(16), bytes(16), 0, 4, total) + header


def _ipv6_ends(f: dict[str, str], place: int) -> tuple[bytes, bytes, int]:
    """Source, destination, ECN."""
    source, target = (ipaddress.IPv6Address(_text(f[n], place)).packed for n in ("ipv6.src", "ipv6.dst"))
    return source, target, _number(f["ipv6.tclass.ecn"], place)


def _ipv6_fragment(f: dict[str, str], place: int, more: bool, offset: int) -> bytes:
    """offset: in bytes. The header of TCP is in the first."""
    identification = int(_text(f["ipv6.fraghdr.ident"], -1), 0)
    header = struct.pack("!BBHI", _TCP, 0, offset | more, identification)
    rest = max(_number(f["ipv6.plen"], place), len(header))
    return _ipv6_header(*_ipv6_ends(f, place), _FRAGMENT, rest) + header + (b"" if offset else _tcp_header(f))


def _ipv6(f: dict[str, str], place: int) -> bytes:
    source, target, ecn = _ipv6_ends(f, place)
    # Without tcp.len the header is longer than its packet: one of 20 bytes, which the core will find too short for it.
    segment_bytes = _number(f["tcp.hdr_len"], 0) + _number(f["tcp.len"], 0) if f["tcp.len"] else 20
    if segment_bytes >= 1 << 16:
        return _jumbogram(source, target, ecn, _TCP, segment_bytes) + _tcp_header(f)
    return _ipv6_header(source, target, ecn, _TCP, segment_bytes) + _tcp_header(f)


def _ipv6_header(source: bytes, target: bytes, ecn: int, following: int, payload_bytes: int) -> bytes:
    return struct.pack("!IHBB16s16s", 6 << 28 | ecn << 20, payload_bytes, following, 64, source, target)


def _jumbogram(source: bytes, target: bytes, ecn: int, following: int, payload_bytes: int) -> bytes:
    """RFC 2675: a hop-by-hop option has the length."""
    option = struct.pack("!BBBBI", following, 0, 0xC2, 4, 8 + payload_bytes)
    return _ipv6_header(source, target, ecn, 0, 0) + option
