"""tshark's fields of a capture, from one run with tshark's defaults except for three settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.corpus import clocks
from bench.corpus.order import Frame, order_of

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, HEADER_BYTES_MIN, PAYLOAD_BYTES_MAX = 6, 20, 1 << 20

_FIELDS = (
    "frame.number", "frame.time_epoch", "frame.section_number", "frame.interface_id", "frame.protocols",
    "_ws.malformed", "_ws.short",
    "frame.len", "frame.cap_len", "wlan.qos.amsdupresent",
    "ip.src", "ip.dst", "ip.id", "ip.len", "ip.hdr_len", "ip.proto",
    "ip.flags.mf", "ip.frag_offset", "ip.reassembled.length",
    "ipv6.src", "ipv6.dst", "ipv6.fraghdr.more", "ipv6.fraghdr.offset", "ipv6.fraghdr.nxt", "ipv6.fraghdr.ident",
    "ipv6.reassembled.length", "ipv6.plen", "ah.length",
    "ipv6.routing.type", "ipv6.routing.segleft", "ipv6.routing.src.addr", "ipv6.routing.mipv6.home_address",
    "ipv6.routing.srh.addr", "ipv6.opt.mipv6.home_address",
    "tcp.stream", "mptcp.stream", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.len",
    "tcp.hdr_len", "tcp.window_size_value", "tcp.urgent_pointer", "tcp.options",
    "tcp.analysis.retransmission", "tcp.analysis.out_of_order", "tcp.analysis.keep_alive",
    "tcp.analysis.zero_window_probe", "tcp.analysis.ack_rtt",
)  # fmt: skip
_ANALYSIS = ("retransmission", "out_of_order", "keep_alive", "zero_window_probe")

_OLD_TAGS = ("-d", "ethertype==0x9200,vlan", "-d", "ethertype==0x9300,vlan")

_BELOW_TCP = {
    "eth",
    "ethertype",
    "vlan",
    "mpls",
    "sll",
    "null",
    "ppp",
    "llc",
    "wlan",
    "gre",
    "erspan",
    "ip",
    "ipv6",
    "ah",
}
"""Layers that may contain TCP even if no layer follows them."""

_UNDECODED = {"capwap.data", "l2tp", "null", "nflog", "mpls", "pwethheuristic", "pwethcw", "pwethnocw"}
"""Layers whose content tshark shows as bytes when it does not know what the content is."""

_NO_PACKETS = {"systemd_journal"}
"""pcapng blocks that are no packets but are shown as frames with a time; other such blocks have no time."""

_MAGICS = {str(int(magic, 16)) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1")}

Endpoint = tuple[str, int]


@dataclass(slots=True)
class Packet:
    """One TCP packet with a whole header. Sequence numbers are those on the wire; payload_bytes follows from IP's
    length."""

    number: int
    time_ns: int
    source: Endpoint
    target: Endpoint
    identification: int | None
    stream: int
    mptcp_streams: frozenset[int]
    sequence: int
    ack: int
    flags: int
    payload_bytes: int
    shown_bytes: int
    header_bytes: int
    window: int
    options: bytes
    fragmented: bool
    mptcp_broken: bool
    analysis: frozenset[str]
    ack_rtt_us: float | None


@dataclass
class Seen:
    """tshark's output for a capture.

    frames, tcp_frames: as tshark counts them. packets: TCP with a whole header, outside ICMP errors.
    icmp_errors, passed_over, broken_headers: streams of the other frames with TCP. blocks: frames that are no packets.
    aggregated: TCP packets that are not the first of their frame. aggregates_cut: such frames, cut by the snap length.
    undecoded: frames with bytes behind a link or tunnel that tshark knows.
    fragments: frames whose TCP packet IP has fragmented. lost_fragments: packets whose fragments are not all there.
    tunnel_starts: first fragments of something else whose rest is not in the capture. options_cut: by the snap length.
    headers_cut: frames of which nothing as far as a TCP header was captured.
    backward, without_time, bad_time: frames by their time. late: frames put before one that the file has before them.
    ending: cut, corrupt or nothing. refusal: why none is read.
    """

    frames: int = 0
    tcp_frames: int = 0
    packets: list[Packet] = field(default_factory=list)
    icmp_errors: set[int] = field(default_factory=set)
    passed_over: set[int] = field(default_factory=set)
    broken_headers: set[int] = field(default_factory=set)
    frames_in_icmp: int = 0
    frames_passed_over: int = 0
    frames_broken: int = 0
    streams: set[int] = field(default_factory=set)
    mptcp_streams: set[int] = field(default_factory=set)
    blocks: int = 0
    aggregated: int = 0
    aggregates_cut: int = 0
    undecoded: int = 0
    fragments: int = 0
    lost_fragments: int = 0
    tunnel_starts: int = 0
    backward: int = 0
    late: int | None = 0
    without_time: int = 0
    bad_time: int = 0
    options_cut: int = 0
    headers_cut: int = 0
    ending: str = ""
    refusal: str = ""


def see(capture: int, home: str) -> Seen:
    """capture: a descriptor, seekable, uncompressed. home: an empty folder, so that no profile changes the defaults."""
    with clocks.in_nanoseconds(capture) as file:
        return _see(capture if file is None else file.fileno(), home)


def _see(capture: int, home: str) -> Seen:
    seen = Seen()
    rows = list(_rows(capture, home, seen))
    frames = _count_frames(rows, seen)
    if any(row["ip.reassembled.length"] or row["ipv6.reassembled.length"] for row in rows) or seen.tunnel_starts:
        # The core reads each packet by itself.
        whole = _packets(rows)
        rows = list(_rows(capture, home, seen, "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"))
        seen.packets = _as_when_whole(_packets(rows), whole)
    else:
        seen.packets = _packets(rows)
    order = order_of(frames)
    seen.backward, seen.late = order.backward, order.late
    seen.packets.sort(key=lambda p: order.place[p.number])
    return seen


def _packets(rows: Sequence[dict[str, str]]) -> list[Packet]:
    return [p for row in rows for part in _parts(row) if (p := _packet(part)) is not None]


def _parts(row: dict[str, str]) -> list[dict[str, str]]:
    """A row for each TCP packet of an aggregate (802.11 A-MSDU). Values that tshark has once go to the first."""
    layers = row["frame.protocols"].split(":")
    ends = [place for place, layer in enumerate(layers) if layer == "tcp"]
    if len(ends) < 2 or "wlan" not in layers[: ends[0]] or "icmp" in layers or "icmpv6" in layers:
        return [row]
    parts, begin, with_options = [], 0, 0
    for which, end in enumerate(ends):
        part = {name: _of_part(name, text, which) for name, text in row.items()}
        for ip in ("ip", "ipv6"):
            first, after = (layers[:place].count(ip) for place in (begin, end))
            for name in row:
                if name.startswith(ip + "."):
                    part[name] = ",".join(row[name].split(",")[first:after])
        if number(part["tcp.hdr_len"]) > HEADER_BYTES_MIN:
            part["tcp.options"] = _of_part("tcp.", row["tcp.options"], with_options)
            with_options += 1
        else:
            part["tcp.options"] = ""
        part["frame.protocols"] = ":".join(layers[begin : end + 1])
        parts.append(part)
        begin = end + 1
    return parts


def _of_part(name: str, text: str, which: int) -> str:
    if not name.startswith("tcp."):
        return text
    values = text.split(",")
    return values[which] if which < len(values) else ""


def _as_when_whole(packets: Sequence[Packet], whole: Sequence[Packet]) -> list[Packet]:
    """Packets of tunnels as captured, with tshark's analysis of them after reassembly."""
    known: dict[object, deque[Packet]] = defaultdict(deque)
    for p in whole:
        if not p.fragmented:
            known[p.source, p.target, p.sequence, p.ack, p.flags, p.identification].append(p)
    for p in packets:
        waiting = known[p.source, p.target, p.sequence, p.ack, p.flags, p.identification]
        same = waiting.popleft() if waiting else None
        p.shown_bytes = same.shown_bytes if same else p.payload_bytes
        p.analysis, p.ack_rtt_us = (same.analysis, same.ack_rtt_us) if same else (frozenset(), None)
    return sorted([*packets, *(p for p in whole if p.fragmented)], key=lambda p: p.number)


def _rows(capture: int, home: str, seen: Seen, *options: str) -> Iterator[dict[str, str]]:
    os.lseek(capture, 0, os.SEEK_SET)
    # By default tshark knows IANA's port of VXLAN only, one of the old VLAN tags, and BIG TCP's length of 0 for IPv4
    # only.
    settings = ("-d", "udp.port==8472,vxlan", *_OLD_TAGS, "-o", "ipv6.tso_support:TRUE")
    command = [str(shutil.which("tshark")), "-r", "-", "-n", *settings, *options]
    command += ["-T", "fields", "-E", "occurrence=a"]
    command += [word for name in _FIELDS for word in ("-e", name)]
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": home, "XDG_CONFIG_HOME": home}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=capture, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True, errors="replace"
        ) as run,
    ):
        assert run.stdout is not None
        shown = 0
        for line in run.stdout:
            shown += 1
            yield dict(zip(_FIELDS, line.rstrip("\n").split("\t"), strict=True))
        status = run.wait()
        errors.seek(0)
        said = " ".join(line for line in errors.read().splitlines() if not line.startswith("Running as user"))
    if status < 0 or status == 1:  # killed, or given an option that it does not know
        raise RuntimeError(f"tshark ended with status {status}: {said}")
    if status:
        seen.ending = "cut" if "cut short" in said else "corrupt"
        seen.refusal = "" if shown else said.removeprefix("tshark: ")


def number(text: str, place: int = 0) -> int:
    """The occurrence of a field at a place, counted from the outermost layer; 0 when there is none."""
    values = text.split(",")
    value = values[place] if -len(values) <= place < len(values) else ""
    return int(value == "True") if value in ("True", "False") else int(value or "0", 0)


def _numbers(text: str) -> list[int]:
    return [int(v, 0) for v in text.split(",") if v]


def _layers(row: dict[str, str]) -> tuple[list[str], int]:
    """The layers, and the place of the first TCP, -1 when there is none."""
    layers = row["frame.protocols"].split(":")
    return layers, layers.index("tcp") if "tcp" in layers else -1


def _lowest(layers: Sequence[str]) -> str:
    return next((layer for layer in reversed(layers) if layer != "_ws.malformed"), "")


def _is_passed_over(layers: Sequence[str], tcp: int) -> bool:
    """Compressed or multiplexed PPP (RFC 1144, 3153)."""
    return "vjc" in layers[:tcp] or "pppmux" in layers[:tcp]


def _in_icmp(layers: Sequence[str], tcp: int) -> bool:
    return "icmp" in layers[:tcp] or "icmpv6" in layers[:tcp]


def _broken(row: dict[str, str]) -> bool:
    """Whether the TCP header is cut, or has an impossible header or payload length."""
    header, payload = number(row["tcp.hdr_len"]), number(row["tcp.len"])
    if not row["tcp.urgent_pointer"] or header < HEADER_BYTES_MIN or payload > PAYLOAD_BYTES_MAX:
        return True
    # tshark has no length for a header that is longer than its packet, or than what a record says of it.
    lengths = zip(_numbers(row["ip.len"]), _numbers(row["ip.hdr_len"]), strict=False)
    return not row["tcp.len"] and header > max((whole - ip for whole, ip in lengths), default=0)


def _is_header(row: dict[str, str]) -> bool:
    """A second file header of pcap, in either byte order, as a record: nothing in it, and the magic number its time."""
    empty = row["frame.len"] == row["frame.cap_len"] == "0" and not row["frame.interface_id"]
    return empty and row["frame.time_epoch"].partition(".")[0] in _MAGICS


def _time_ns(text: str) -> int | None:
    """None where there is none, the fraction is none of a second, or pcap could not say it: 1970 to 2106."""
    seconds, _, fraction = text.partition(".")
    if not seconds.isdigit() or len(fraction) > 9 or int(seconds) >= 1 << 32:
        return None
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0"))


def _count_frames(rows: Sequence[dict[str, str]], seen: Seen) -> list[Frame]:
    """The frames that are packets; one without a time has that of the one before."""
    frames: list[Frame] = []
    latest = 0
    partial: set[tuple[str, ...]] = set()
    for row in rows:
        seen.frames += 1
        if row["frame.protocols"] in _NO_PACKETS or _is_header(row):
            seen.blocks += 1
            continue
        if not row["frame.time_epoch"]:
            seen.without_time += bool(row["frame.interface_id"])
            seen.blocks += not row["frame.interface_id"]
        elif (time_ns := _time_ns(row["frame.time_epoch"])) is None:
            seen.bad_time += 1
        else:
            latest = time_ns
        if row["frame.time_epoch"] or row["frame.interface_id"]:
            frames.append(Frame(seen.frames, latest, row["frame.section_number"], row["frame.interface_id"]))
        _count_fragments(row, seen, partial)
        layers, tcp = _layers(row)
        short = bool(row["_ws.short"] or row["_ws.malformed"])
        cut = number(row["frame.cap_len"]) < number(row["frame.len"])
        seen.aggregates_cut += cut and bool(number(row["wlan.qos.amsdupresent"]))
        streams = set(_numbers(row["tcp.stream"]))
        seen.streams |= streams
        seen.mptcp_streams |= set(_numbers(row["mptcp.stream"]))
        if tcp < 0:
            seen.undecoded += bool(_UNDECODED.intersection(layers))
            seen.headers_cut += short and _lowest(layers) in _BELOW_TCP
            continue
        seen.tcp_frames += 1
        seen.aggregated += len(_parts(row)) - 1
        if _in_icmp(layers, tcp):
            seen.frames_in_icmp += 1
            seen.icmp_errors |= streams
        elif _is_passed_over(layers, tcp):
            seen.frames_passed_over += 1
            seen.passed_over |= streams
        elif _broken(row):
            seen.frames_broken += 1
            seen.broken_headers |= streams
        else:
            seen.options_cut += len(_options(row)) < number(row["tcp.hdr_len"]) - HEADER_BYTES_MIN
    seen.lost_fragments = len(partial)
    return frames


def _count_fragments(row: dict[str, str], seen: Seen, partial: set[tuple[str, ...]]) -> None:
    names = ("ip.flags.mf", "ip.frag_offset", "ip.proto")
    if row["ipv6.fraghdr.nxt"]:
        names = ("ipv6.fraghdr.more", "ipv6.fraghdr.offset", "ipv6.fraghdr.nxt")
    headers = [tuple(number(row[n], i) for n in names) for i in range(row[names[0]].count(",") + 1)]
    more, offset, protocol = next((h for h in headers if h[0] or h[1]), (0, 0, 0))
    whole = bool(row["ip.reassembled.length"] or row["ipv6.reassembled.length"])  # with this, the last fragment
    if protocol == TCP:
        seen.fragments += bool(more or offset)
        key = (row["ip.src"], row["ip.dst"], row["ip.id"], row["ipv6.src"], row["ipv6.dst"], row["ipv6.fraghdr.ident"])
        (partial.discard if whole else partial.add)(key)
    else:
        seen.tunnel_starts += bool(more and not offset) - whole


def _options(row: dict[str, str]) -> bytes:
    text = row["tcp.options"].split(",")[0]
    return b"" if text == "<MISSING>" else bytes.fromhex(text.replace(":", ""))


def _ends(row: dict[str, str], ip: str, place: int, between: Sequence[str]) -> tuple[str, str]:
    """Source and destination of TCP: with a route the last address on it, away from home the home address."""
    source, target = (row[f"{ip}.{end}"].split(",")[place] for end in ("src", "dst"))
    if "ipv6.routing" in between and number(row["ipv6.routing.segleft"], -1):
        names = {0: "ipv6.routing.src.addr", 2: "ipv6.routing.mipv6.home_address", 4: "ipv6.routing.srh.addr"}
        kind = number(row["ipv6.routing.type"], -1)
        route = row[names[kind]].split(",") if kind in names else []
        # The segments of routing headers of tunnels stand before it: as many as it has itself, or nothing is known.
        headers = row["ipv6.routing.type"].split(",").count(str(kind))
        if route and kind == 4:
            target = route[-(len(route) // headers)]
        elif route:
            target = route[-1]
    if "ipv6.dstopts" in between and row["ipv6.opt.mipv6.home_address"]:
        source = row["ipv6.opt.mipv6.home_address"].split(",")[-1]
    return source, target


def _packet(row: dict[str, str]) -> Packet | None:
    layers, tcp = _layers(row)
    if tcp < 0 or _in_icmp(layers, tcp) or _is_passed_over(layers, tcp) or _broken(row):
        return None
    around = [layer for layer in layers[:tcp] if layer in ("ip", "ipv6")]
    ip, place = around[-1], around.count(around[-1]) - 1
    whole = bool(row["ip.reassembled.length"] or row["ipv6.reassembled.length"])
    names = ("ip.flags.mf", "ip.frag_offset") if ip == "ip" else ("ipv6.fraghdr.more", "ipv6.fraghdr.offset")
    fragmented = any(number(row[n], place if ip == "ip" else -1) for n in names)
    if fragmented and not whole:
        return None
    between = layers[len(layers[:tcp]) - layers[:tcp][::-1].index(ip) : tcp]
    source, target = _ends(row, ip, place, between)
    header, shown = number(row["tcp.hdr_len"]), number(row["tcp.len"])
    said = shown
    if ip == "ip" and not fragmented:
        said = number(row["ip.len"], place) - number(row["ip.hdr_len"], place) - header
        said -= sum(
            (length + 2) * 4 for length in _numbers(row["ah.length"])[-between.count("ah") :] if "ah" in between
        )
    elif ip == "ipv6" and not between and number(row["ipv6.plen"], place):
        said = number(row["ipv6.plen"], place) - header  # nothing stands between them
    rtt = row["tcp.analysis.ack_rtt"].split(",")[0]
    options = _options(row)
    return Packet(
        number=int(row["frame.number"]),
        time_ns=_time_ns(row["frame.time_epoch"]) or 0,
        source=(source, number(row["tcp.srcport"])),
        target=(target, number(row["tcp.dstport"])),
        identification=number(row["ip.id"], place) if ip == "ip" else None,
        stream=number(row["tcp.stream"]),
        mptcp_streams=frozenset(_numbers(row["mptcp.stream"])),
        sequence=number(row["tcp.seq_raw"]),
        ack=number(row["tcp.ack_raw"]),
        flags=number(row["tcp.flags"]) & 0x1FF,
        payload_bytes=said,
        shown_bytes=shown,
        header_bytes=header,
        window=number(row["tcp.window_size_value"]),
        options=options,
        fragmented=fragmented,
        mptcp_broken="Packet: MPTCP]" in row["_ws.malformed"],
        analysis=frozenset(a for a in _ANALYSIS if row[f"tcp.analysis.{a}"]),
        ack_rtt_us=float(rtt) * 1e6 if rtt else None,
    )
