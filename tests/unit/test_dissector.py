"""tshark decodes what the core does not: the same packets give the same rows, whichever way they are read."""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import pytest

import rewindow
from rewindow import confined
from rewindow.captures import decompression, dissector, redaction, tshark
from rewindow.captures.redaction import redacted
from rewindow.core import Redaction
from rewindow.replays.replay import Result
from tests.packets import ACK, CWR, ECE, ETHERNET_HEADER, SYN, Trace, iptrace, sack

CAPTURES = Path(__file__).parent.parent / "captures"
REWINDOW = Path(sys.executable).parent / "rewindow"
TSHARK = str(shutil.which("tshark"))
TOOL = tshark.version(TSHARK)

RAW, ETHERNET, FRAME_RELAY, UPPER_PDU = 101, 1, 107, 252
HEADERS: dict[int, Callable[[int], bytes]] = {
    FRAME_RELAY: lambda n: b"\x18\x41\x03\xcc",
    104: lambda n: b"\x0f\x00\x08\x00",  # Cisco HDLC
    100: lambda n: b"\xaa\xaa\x03\0\0\0\x08\0",  # RFC 1483 over ATM
    138: lambda n: b"\1" * 8 + b"\2" * 8 + b"\x08\0",  # IP over IEEE 1394
    6: lambda n: b"\x10\x40" + b"\2" * 6 + b"\4" * 6 + b"\xaa\xaa\x03\0\0\0\x08\0",  # Token Ring
    UPPER_PDU: lambda n: struct.pack("!HH4sHH", 12, 4, b"ip", 0, 0),  # which dissector it is for
    # Endace: Ethernet in a record with a time and lengths of its own
    197: lambda n: (
        struct.pack("<IIBBHHH", 0, 1, 2, 0, *(_swapped(v) for v in (32 + n, 0, 14 + n))) + b"\0\0" + ETHERNET_HEADER
    ),
}
"""What stands before IP in a record of a link type, for a packet of n bytes."""

Record = tuple[int, int, bytes, int]
"""Nanoseconds, interface, bytes, bytes on the wire."""


def _swapped(value: int) -> int:
    return value >> 8 | (value & 0xFF) << 8


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def pcapng(link_types: Sequence[int], records: Sequence[Record]) -> bytes:
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out += [block(1, struct.pack("<HHIHHBxxxHH", n, 0, 0, 9, 1, 9, 0, 0)) for n in link_types]
    for time_ns, interface, data, wire in records:
        head = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), wire)
        out.append(block(6, head + data))
    return b"".join(out)


def pcap(link_type: int, records: Sequence[Record]) -> bytes:
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type)]
    for time_ns, _, data, wire in records:
        out.append(struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(data), wire) + data)
    return b"".join(out)


def records_of(path: Path, most: int) -> list[Record]:
    """The first records of one of our captures, which are nanosecond pcap."""
    data, records, at = path.read_bytes(), [], 24
    while at < len(data) and len(records) < most:
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        records.append((seconds * 10**9 + fraction, 0, data[at + 16 : at + 16 + captured], wire))
        at += 16 + captured
    return records


def within(link_type: int, records: Sequence[Record]) -> list[Record]:
    found = []
    for time_ns, interface, data, wire in records:
        header = HEADERS[link_type](len(data))
        found.append((time_ns, interface, header + data, wire + len(header)))
    return found


def result(*captures: bytes) -> Result:
    with rewindow.open(*(io.BytesIO(c) for c in captures)) as capture:
        return capture.replay(["newreno"])


def assert_same(found: Result, expected: Result) -> None:
    assert found.connections == expected.connections
    assert found.acks.equals(expected.acks)
    assert found.marks.equals(expected.marks)
    for name in ("packets", "tcp_packets", "first_ns", "last_ns", "vantage", "rows", "interfaces"):
        assert getattr(found.summary, name) == getattr(expected.summary, name), name
    counts = [{k: v["count"] for k, v in r.summary.oddities.items()} for r in (found, expected)]
    assert counts[0] == counts[1]


@pytest.fixture(scope="module")
def sample() -> list[Record]:
    """No two of one time: what tshark decodes is a file of its own, and files are merged by time."""
    records = records_of(CAPTURES / "mptcp-ecn.pcap", 1500)
    return [(time_ns + number, *rest) for number, (time_ns, *rest) in enumerate(records)]


@pytest.mark.parametrize("link_type", HEADERS)
def test_another_link_type(link_type: int, sample: list[Record]) -> None:
    expected, found = result(pcap(RAW, sample)), result(pcap(link_type, within(link_type, sample)))
    assert_same(found, expected)
    assert expected.acks.num_rows > 500
    assert found.summary.bytes == expected.summary.bytes + len(sample) * len(HEADERS[link_type](0))
    assert found.summary.link_types == [f"link_type_{link_type}"]
    assert found.summary.decoded_by == {f"link_type_{link_type}": TOOL}
    assert expected.summary.decoded_by == {}


def test_link_types_beside_each_other(sample: list[Record]) -> None:
    """Each packet counts once, on its interface, whoever decoded it; ARP on the other link type counts as well."""
    mixed, plain = [], []
    for number, record in enumerate(sample):
        record = (record[0], number % 3, *record[2:])
        plain.append(record)
        mixed.append(record if number % 3 == 0 else within((FRAME_RELAY, UPPER_PDU)[number % 3 - 1], [record])[0])
    arp = (sample[-1][0] + 1, 1, b"\x18\x41\x03\x80\0\0\0\x08\x06" + bytes(28), 60)
    mixed.append(arp)
    plain.append((arp[0], 1, b"\0", 60))
    found = result(pcapng([RAW, FRAME_RELAY, UPPER_PDU], mixed))
    expected = result(pcapng([RAW, RAW, RAW], plain))
    assert_same(found, expected)
    assert {s.interface for c in found.connections for s in c.subflows} == {"0.0", "0.1"}
    assert found.summary.link_types == ["raw", "link_type_107", "link_type_252"]
    assert found.summary.decoded_by == {"link_type_107": TOOL, "link_type_252": TOOL}
    assert found.summary.bytes == sum(r[3] for r in mixed)
    assert "unknown_link_type" not in found.summary.oddities


def test_several_captures_of_which_one_needs_tshark(sample: list[Record]) -> None:
    ways: list[list[Record]] = [[], []]
    for record in sample:
        ways[record[2][12:16] == sample[0][2][12:16]].append(record)
    found = result(pcap(RAW, ways[0]), pcap(FRAME_RELAY, within(FRAME_RELAY, ways[1])))
    assert_same(found, result(pcap(RAW, ways[0]), pcap(RAW, ways[1])))
    assert {s.interface for c in found.connections for s in c.subflows} == {"0.0", "1.0"}


@pytest.fixture
def transfer() -> Trace:
    """Times are whole milliseconds: what the coarsest of the formats keeps."""
    trace = Trace()
    trace.handshake(1.0, 0.1)
    for i in range(50):
        trace.packet(1.2 + i / 1000, True, 1 + i * 100, 1001, payload=100)
        trace.packet(1.3 + i / 1000, False, 1001, 101 + i * 100)
    trace.records = [(time_ns // 10**6 * 10**6, data, wire) for time_ns, data, wire in sorted(trace.records)]
    return trace


def ethernet(trace: Trace) -> bytes:
    return pcap(ETHERNET, [(t, 0, ETHERNET_HEADER + d, 14 + w) for t, d, w in trace.records])


@pytest.mark.parametrize("kind", ["netmon1", "netmon2", "ngwsniffer_2_0"])
def test_another_file_format(kind: str, transfer: Trace, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(ethernet(transfer))
    subprocess.run(["editcap", "-F", kind, tmp_path / "plain", tmp_path / "other"], check=True, capture_output=True)
    found, expected = result((tmp_path / "other").read_bytes()), result(ethernet(transfer))
    assert found.summary.packets == 103
    assert found.summary.tcp_packets == 103
    assert found.summary.bytes == expected.summary.bytes
    assert found.summary.link_types == ["ethernet"]
    assert found.summary.decoded_by == {"ethernet": TOOL}
    assert found.summary.oddities == {}
    shift = found.summary.first_ns - expected.summary.first_ns  # Network Monitor keeps the local time
    assert shift % (900 * 10**9) == 0
    times = [t.as_py() + shift for t in expected.acks["time_ns"]]
    assert found.acks["time_ns"].to_pylist() == times
    assert found.acks.drop_columns("time_ns").equals(expected.acks.drop_columns("time_ns"))


def test_another_format_beside_pcap(transfer: Trace) -> None:
    """What stands for it is raw IP, which is not one of the observation's link types unless a capture is."""
    other = Trace()
    other.handshake(1.0, 0.1, ports=(1001, 80))
    both = result(other.bytes(), iptrace(transfer))
    assert both.summary.link_types == ["raw", "ethernet"]
    assert result(ethernet(other), iptrace(transfer)).summary.link_types == ["ethernet"]
    assert both.summary.packets == 106
    assert [s.interface for c in both.connections for s in c.subflows] == ["0.0", "1.0"]


def test_another_format_cut(transfer: Trace) -> None:
    found = result(iptrace(transfer)[:-30])
    assert found.summary.packets == 102
    cut = found.summary.oddities["cut_capture"]
    assert (cut["count"], cut["first_offset"], cut["first_record"], cut["file"]) == (1, None, None, 0)


def test_another_format_damaged(transfer: Trace) -> None:
    whole = bytearray(iptrace(transfer))
    at = len(whole) - 2 * (40 + 54)  # the length of the last record but one
    whole[at : at + 4] = b"\x7f\xff\xff\xff"
    found = result(bytes(whole))
    assert 0 < found.summary.packets < 103
    assert found.summary.oddities["corrupt_record"]["count"] == 1


def odd_packets() -> Iterator[bytes]:
    """IP packets, as captured, that a capture of another link type may hold; each with a port of its own."""
    ports = itertools.count(1000)

    def ipv4(protocol: int, body: bytes, *, total: int | None = None, fragment: int = 0, ecn: int = 0) -> bytes:
        size = 20 + len(body) if total is None else total
        return struct.pack("!BBHHHBBH", 0x45, ecn, size, 7, fragment, 64, protocol, 0) + b"\x0a\0\0\1\x0a\0\0\2" + body

    def ipv6(following: int, body: bytes, *, size: int | None = None, ecn: int = 0) -> bytes:
        length = len(body) if size is None else size
        return (
            struct.pack("!IHBB", 6 << 28 | ecn << 20, length, following, 64)
            + bytes(15)
            + b"\1"
            + bytes(15)
            + b"\2"
            + body
        )

    def tcp(options: bytes = b"", *, words: int | None = None, seq: int = 1, flags: int = ACK) -> bytes:
        bits = (5 + len(options) // 4 if words is None else words) << 12 | flags
        return struct.pack("!HHIIHHHH", next(ports), 80, seq, 1, bits, 500, 0, 0) + options

    yield ipv4(6, tcp(b"\2\4\5\xb4\4\2\1\1", flags=SYN | ECE | CWR), ecn=2)
    yield ipv4(6, tcp(sack((5, 9), (20, 30)) + b"\1\1", flags=0x1FF), ecn=3)
    yield ipv4(6, tcp(), total=1040)
    yield ipv4(6, tcp(), total=0)  # segmentation offload
    yield ipv4(6, tcp(b"\2\4\5\xb4")[:22], total=1044)  # cut in the options
    yield ipv4(6, tcp()[:15], total=40)  # cut in the header
    yield ipv4(6, b"", total=40)
    yield ipv4(6, tcp(words=4))  # a header length that cannot be
    yield ipv4(6, tcp(words=15))  # longer than its packet
    yield ipv4(6, tcp(b"\2\0\5\xb4"))  # an option that cannot be
    yield ipv4(6, tcp(b"\x1e\3\x51\1"))  # MP_PRIO
    yield ipv4(6, tcp(), fragment=0x2000)
    yield ipv4(6, bytes(100), fragment=0x00B9)
    yield ipv4(17, struct.pack("!HHHH", 1, 2, 8, 0))
    yield ipv4(1, struct.pack("!BBHI", 3, 4, 0, 0) + ipv4(6, tcp()))  # in an ICMP error
    yield ipv4(4, ipv4(6, tcp(seq=100), ecn=1))
    yield ipv4(41, ipv6(6, tcp(seq=200), ecn=1))
    yield ipv4(47, struct.pack("!HH", 0, 0x0800) + ipv4(6, tcp(seq=300)))
    yield ipv4(
        17, struct.pack("!HHHHBBHI", 2152, 2152, 1500, 0, 0x30, 255, 40, 1) + ipv4(6, tcp(seq=400)), fragment=0x2000
    )
    yield ipv6(6, tcp(b"\x08\x0a\0\0\0\1\0\0\0\2\1\1"), ecn=3)
    yield ipv6(6, tcp(), size=1000)
    yield ipv6(6, tcp(words=15))
    yield ipv6(0, struct.pack("!BBBBI", 6, 0, 0xC2, 4, 80028) + tcp(), size=0)  # a jumbogram
    yield ipv6(44, struct.pack("!BBHI", 6, 0, 1, 0) + tcp())
    yield ipv6(44, struct.pack("!BBHI", 6, 0, 0xB8, 0) + bytes(50))
    yield ipv6(44, struct.pack("!BBHI", 6, 0, 0, 0) + tcp())  # atomic
    yield ipv6(58, struct.pack("!BBHI", 1, 0, 0, 0) + ipv6(6, tcp()))
    yield ipv6(4, ipv4(6, tcp(seq=500)))


def test_odd_packets() -> None:
    """Each is a flow of its own. IPv4 without a length has the record's."""
    plain = []
    for number, packet in enumerate(odd_packets()):
        total = struct.unpack_from("!H", packet, 2)[0] or 90_000
        wire = max(total, 80_076 if packet[0] >> 4 == 6 and not packet[4] | packet[5] else len(packet))
        plain.append((1_500_000_000_000_000_007 + number, 0, packet, wire))
    found, expected = result(pcap(UPPER_PDU, within(UPPER_PDU, plain))), result(pcap(RAW, plain))
    assert_same(found, expected)
    counts = {name: oddity["count"] for name, oddity in expected.summary.oddities.items()}
    assert (expected.summary.tcp_packets, counts) == (
        16,
        {
            "truncated_header": 3,
            "bad_length": 3,
            "bad_option_length": 1,
            "ip_fragment": 4,
            "lost_fragment": 2,
            "no_handshake": 14,
        },
    )


def copied(content: bytes, key: bytes | None = None) -> tuple[bytes, Redaction]:
    with tempfile.TemporaryFile() as file:
        did = redacted("capture", io.BytesIO(content), cast(IO[bytes], file), key)
        file.seek(0)
        return file.read(), did


def assert_as_through_tshark(content: bytes) -> None:
    """An analysis of the copy is that of the capture, but that no tshark is named and places in the file are known."""
    copy, did = copied(content)
    assert did.decoded_by == TOOL
    found, expected = result(copy), result(content)
    assert (found.summary.decoded_by, found.summary.link_types) == ({}, ["raw"])
    summaries = []
    for one in (found, expected):
        summary = dataclasses.asdict(one.summary)
        del summary["decoded_by"], summary["link_types"]
        for place in (*summary["oddities"].values(), *summary["quality"]["findings"]):
            place["first_offset"] = place["first_record"] = place["packet"] = None
        summaries.append(summary)
    assert summaries[0] == summaries[1]
    assert found.connections == expected.connections
    assert found.acks.equals(expected.acks)
    assert found.marks.equals(expected.marks)


def test_a_copy_without_payload_is_what_tshark_finds(sample: list[Record], transfer: Trace, tmp_path: Path) -> None:
    odd = [(10**18 + i, 0, packet, 90_000) for i, packet in enumerate(odd_packets())]
    (tmp_path / "plain").write_bytes(ethernet(transfer))
    subprocess.run(["editcap", "-F", "netmon2", tmp_path / "plain", tmp_path / "other"], check=True)
    for content in (
        pcap(FRAME_RELAY, within(FRAME_RELAY, sample[:500])),
        pcap(UPPER_PDU, within(UPPER_PDU, odd)),
        (tmp_path / "other").read_bytes(),
        iptrace(transfer)[:-30],
    ):
        assert_as_through_tshark(content)


def test_a_copy_through_tshark_has_no_payload_and_other_addresses(transfer: Trace) -> None:
    """Also where it is compressed; not even the memory in which it is held is a file with a name."""
    secret = b"correct horse battery staple"
    content = iptrace(transfer, secret)
    assert secret in content
    copy, did = copied(gzip.compress(content), bytes(range(16)))
    assert did.records == 103
    assert not any(secret[i : i + 4] in copy for i in range(len(secret) - 3))
    for address in (b"\x0a\0\0\1", b"\x0a\0\0\2"):
        assert address in content
        assert address not in copy
    assert result(copy).summary.tcp_packets == 103


def test_what_is_held_in_memory_is_bounded(transfer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture, and what is found in it, which may be more."""
    rows = [(t, 0, data, wire) for t, data, wire in transfer.records]
    whole = pcap(FRAME_RELAY, within(FRAME_RELAY, rows))
    monkeypatch.setattr(redaction, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(decompression, "_CHUNK", 1000)
    for most, said in ((len(whole) - 1, "it has more than"), (len(whole), "tshark finds more than")):
        monkeypatch.setattr(redaction, "HELD_BYTES_MAX", most)
        with pytest.raises(rewindow.CaptureUnreadable, match=f"{said} {most} bytes"):
            copied(whole)
    monkeypatch.setattr(redaction, "HELD_BYTES_MAX", 2 * len(whole))
    assert copied(whole)[1].records == 103


def test_a_copy_of_what_tshark_knows_no_better(sample: list[Record]) -> None:
    copy, did = copied(pcap(147, sample[:10]))
    assert (did.records, did.kept_bytes, did.decoded_by) == (10, 0, "")
    assert result(copy).summary.oddities["unknown_link_type"]["count"] == 10
    copy, did = copied(pcap(RAW, sample[:10]))
    assert (did.records, did.decoded_by) == (10, "")
    with pytest.raises(rewindow.CaptureUnreadable, match="neither pcap nor pcapng nor snoop; tshark: it isn't"):
        copied(b"not a capture, only text\n")


def test_a_time_that_cannot_be() -> None:
    assert dissector._time_ns("1500000000.000000007") == 1_500_000_000_000_000_007
    assert dissector._time_ns("1.5") == 1_500_000_000
    for text in ("-1.000000000", "4294967296.000000000", ""):
        assert dissector._time_ns(text) == (1 << 64) - 1


def test_what_tshark_does_not_know_stays_unknown(sample: list[Record]) -> None:
    for link_type in (147, 9999, 70_000):
        found = result(pcap(link_type, sample[:10]))
        assert found.summary.oddities["unknown_link_type"]["count"] == 10
        assert found.summary.decoded_by == {}
    with pytest.raises(rewindow.CaptureUnreadable, match="finds no IP in it"):
        result((CAPTURES.parent.parent / "docs" / "dashboard.png").read_bytes())  # tshark opens pictures
    with pytest.raises(
        rewindow.CaptureUnreadable, match="neither pcap nor pcapng nor snoop; tshark: it isn't a capture file"
    ):
        result(b"not a capture, only text\n")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(REWINDOW), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_reports(sample: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "relay.pcap"
    path.write_bytes(pcap(FRAME_RELAY, within(FRAME_RELAY, sample)))
    capture = json.loads(run("analyze", "--json", path).stdout)["capture"]
    assert capture["decoded_by"] == {"link_type_107": TOOL}
    assert capture["packets"] == len(sample)
    assert f"link_type_107 decoded by {TOOL}" in run("analyze", path).stdout


def test_without_tshark(sample: list[Record], transfer: Trace, tmp_path: Path) -> None:
    """An error of its own for the captures that need it, and for them only."""
    captures: dict[str, tuple[bytes, int, str]] = {
        "relay.pcap": (pcap(FRAME_RELAY, within(FRAME_RELAY, sample[:10])), 4, "tshark is needed to read it"),
        "aix.iptrace": (iptrace(transfer), 4, "tshark is needed to read it"),
        "text": (b"only text", 3, "neither pcap nor pcapng nor snoop; tshark, which knows more, is not installed"),
        "empty": (b"", 3, "the file is empty"),
        "plain.pcap": (pcap(RAW, sample[:10]), 0, ""),
    }
    for name, (content, status, said) in captures.items():
        path = tmp_path / name
        path.write_bytes(content)
        done = run("analyze", path, PATH=str(tmp_path))
        assert done.returncode == status, name
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == (status > 0)


def limited(**limits: Any) -> tshark.Limits:
    return tshark.Limits(**{"cpu_s": 60, "clock_s": 60, **limits})


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"cpu_s": 0}, "used more than 0 s of CPU time"),
        ({"clock_s": 0.01}, r"took more than 0\.01 s"),
        ({"memory_bytes": 64 << 20}, "ended with status"),
        ({"output_bytes": 1000}, "wrote more than 1000 bytes"),
    ],
)
def test_limits(limits: dict[str, Any], said: str, sample: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "relay.pcap"
    path.write_bytes(pcap(FRAME_RELAY, within(FRAME_RELAY, sample)))
    with path.open("rb") as file, pytest.raises(rewindow.DissectorFailed, match=said) as e:
        dissector.dissect(file, "relay.pcap", every_record=False, limits=limited(**limits))
    assert str(e.value).startswith("relay.pcap: tshark ")
    with path.open("rb") as file:
        found = dissector.dissect(file, "relay.pcap", every_record=False, limits=limited())
        found.file.close()
    assert found.tcp == len(sample)


BROKEN = """
#include <signal.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{{
	fputs(count > 1 && strcmp(words[1], "--version") == 0 ? {version} : {rows}, stdout);
	fflush(stdout);
	{ending};
}}
"""
"""A program of its own, not a script: confined, it could start no interpreter."""


def test_a_broken_tshark(sample: list[Record], everybodys_folder: Path) -> None:
    """What begins like tshark and dies is not half believed."""
    program = everybodys_folder / "tshark"
    capture = everybodys_folder / "relay.pcap"
    capture.write_bytes(pcap(FRAME_RELAY, within(FRAME_RELAY, sample)))
    fields = [word for name in tshark.FIELDS for word in ("-e", name)]
    rows = subprocess.run(
        [TSHARK, "-r", capture, *tshark.OPTIONS, "-T", "fields", "-E", "occurrence=a", *fields],
        capture_output=True, check=True, text=True,
    ).stdout.splitlines(keepends=True)  # fmt: skip

    def run_instead(version: str, ending: str) -> subprocess.CompletedProcess[str]:
        printed = "\n".join(json.dumps(row) for row in rows[:700])
        source = BROKEN.format(version=json.dumps(version), rows=printed, ending=ending)
        subprocess.run(["cc", "-xc", "-", "-o", program], input=source, text=True, check=True)
        return run("analyze", capture, PATH=f"{everybodys_folder}:{os.environ['PATH']}")

    for ending, said in (
        ("raise(SIGSEGV)", "ended with status -11"),
        ("return count > 2", "ended with status 1"),
        ("return 0", "of 1500"),
    ):
        done = run_instead("TShark (Wireshark) 4.0.17", ending)
        assert done.returncode == 4
        assert said in done.stderr
    done = run_instead("something else", "return 0")
    assert done.returncode == 4
    assert "--version is not understood" in done.stderr


def test_no_profile_is_read(sample: list[Record], tmp_path: Path) -> None:
    """A user who told tshark to leave Frame Relay alone, and to run a script, is not heard."""
    profile = tmp_path / ".config" / "wireshark"
    profile.mkdir(parents=True)
    (profile / "disabled_protos").write_text("fr\n")
    (profile / "init.lua").write_text(f"io.open('{tmp_path}/ran', 'w'):close()\n")
    path = tmp_path / "relay.pcap"
    path.write_bytes(pcap(FRAME_RELAY, within(FRAME_RELAY, sample[:20])))
    own = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    heard = subprocess.run(
        ["tshark", "-r", path, "-Y", "tcp"], capture_output=True, check=True, env=os.environ | own, text=True
    )
    assert heard.stdout == "", "the profile would have an effect"
    (tmp_path / "ran").unlink()
    done = run("analyze", "--json", path, **own)
    assert json.loads(done.stdout)["capture"]["tcp_packets"] == 20
    assert not (tmp_path / "ran").exists()


def confine(
    *command: str, walls: str = confined.NETWORK, cpu_s: int = 5, memory_bytes: int = 1 << 30
) -> subprocess.CompletedProcess[str]:
    launcher = confined.command(walls, cpu_s, memory_bytes, file_bytes=1 << 16)
    return subprocess.run([*launcher, *command], capture_output=True, text=True, check=False)


def test_no_network() -> None:
    """No interface but an unconfigured loopback; where the kernel permits none of that, it is said."""
    permitted = any(
        subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0
        for flags in (["-n"], ["-r", "-n"])
    )
    done = confine("/bin/cat", "/proc/net/dev")
    interfaces = [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]]
    assert (interfaces == ["lo"]) == permitted
    assert done.stderr.startswith(confined.NOT_ISOLATED) == (not permitted)


def test_confinement() -> None:
    assert confine("/bin/sh", "-c", "while :; do :; done", cpu_s=1).returncode == -24
    limits = confine("/bin/sh", "-c", "ulimit -c; ulimit -n; ulimit -v").stdout.split()
    assert limits == ["0", "64", str((1 << 30) // 1024)]
    assert confine("/bin/sh", "-c", "grep NoNewPrivs /proc/self/status").stdout.split() == ["NoNewPrivs:", "1"]
