"""Captures without payload, and with other addresses: what is left, and that an analysis finds the same in it."""

from __future__ import annotations

import dataclasses
import gzip
import io
import ipaddress
import os
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

import pytest

import rewindow
from rewindow.captures import redaction_service
from rewindow.captures.redaction import redacted as stream
from rewindow.cli import main
from rewindow.core import Redaction, redact
from rewindow.errors import CaptureUnreadable, NotACapture
from tests.conftest import CAPTURES
from tests.packets import ACK, SYN, Trace, snoop

KEY = bytes(range(16))
SECRET = b"correct horse battery staple"
"""What packets carry here: it must never come out."""


def redacted(content: bytes, key: bytes | None = None) -> tuple[bytes, Redaction]:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(content)
        source.seek(0)
        did = redact(source.fileno(), target.fileno(), key, "capture")
        target.seek(0)
        return target.read(), did


def found(content: bytes) -> tuple[Any, list[Any], Any, Any]:
    """Everything that an analysis finds; places in the file differ, where it is another file."""
    with rewindow.open(io.BytesIO(content)) as capture:
        result = capture.replay(["tccc"])
    summary = dataclasses.asdict(result.summary)
    for oddity in summary["oddities"].values():
        del oddity["first_offset"]
    return summary, [dataclasses.asdict(c) for c in result.connections], result.acks, result.marks


def without_addresses(everything: tuple[Any, list[Any], Any, Any]) -> tuple[Any, list[Any], Any, Any]:
    summary, connections, acks, marks = everything
    for connection in connections:
        for subflow in connection["subflows"]:
            del subflow["src"], subflow["dst"]
    return summary, connections, acks, marks


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap")), ids=lambda p: p.stem)
def test_an_analysis_finds_the_same(path: Path) -> None:
    content = path.read_bytes()
    whole = found(content)
    copy, did = redacted(content)
    assert did.records == whole[0]["packets"]
    assert found(copy) == whole
    assert without_addresses(found(redacted(content, KEY)[0])) == without_addresses(whole)


def records(copy: bytes) -> list[bytes]:
    """Of a pcap in nanoseconds."""
    assert copy[:4] == bytes.fromhex("4d3cb2a1")
    at, out = 24, []
    while at < len(copy):
        (captured,) = struct.unpack_from("<I", copy, at + 8)
        out.append(copy[at + 16 : at + 16 + captured])
        at += 16 + captured
    return out


def pcap(link_type: int, *packets: bytes) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link_type)
    return head + b"".join(struct.pack("<IIII", 1, i, len(p), len(p)) + p for i, p in enumerate(packets))


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol: int, content: bytes, options: bytes = b"") -> bytes:
    head = struct.pack(
        "!BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(content), 7, 0, 64, protocol, 0
    )
    head += ipaddress.IPv4Address("192.0.2.1").packed + ipaddress.IPv4Address("198.51.100.9").packed + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + content


def ipv6(following: int, content: bytes) -> bytes:
    ends = ipaddress.IPv6Address("2001:db8::1").packed + ipaddress.IPv6Address("2001:db8:0:1::2").packed
    return struct.pack("!IHBB", 6 << 28, len(content), following, 64) + ends + content


def tcp(content: bytes = SECRET, options: bytes = b"") -> bytes:
    return struct.pack("!HHIIHHHH", 1000, 80, 1, 1, (5 + len(options) // 4) << 12 | ACK, 1000, 0, 0) + options + content


ETHER = b"\x02\xaa\xbb\xcc\xdd\xee\x02\x11\x22\x33\x44\x55"
GENEVE = struct.pack("!HHHH", 9, 6081, 0, 0) + b"\x01\0\x08\0\0\0\1\0" + b"tags"
ICMP_UNREACHABLE = b"\x03\x01\0\0\0\0\0\0"

CARRIERS = {
    "raw": (101, ipv4(6, tcp())),
    "raw-v6": (101, ipv6(6, tcp())),
    "ethernet": (1, ETHER + b"\x08\0" + ipv4(6, tcp())),
    "padded-ethernet": (1, ETHER + b"\x08\0" + ipv4(6, tcp(b"")) + SECRET),
    "ip-in-ip": (101, ipv4(4, ipv4(6, tcp()))),
    "geneve": (101, ipv4(17, GENEVE + ipv4(6, tcp()))),
    "udp": (101, ipv4(17, struct.pack("!HHHH", 9, 53, 8, 0xAAAA) + SECRET)),
    "icmp-quote": (101, ipv4(1, ICMP_UNREACHABLE + ipv4(6, tcp()))),
    "arp-or-anything": (1, ETHER + b"\x08\x06" + SECRET),
    "unknown-link": (147, SECRET),
    "encrypted-wireless": (105, b"\x08\x40" + bytes(22) + SECRET),
    "unknown-protocol": (101, ipv4(132, SECRET)),
    "later-fragment": (101, ipv4(6, SECRET)[:6] + b"\0\x40" + ipv4(6, SECRET)[8:]),
    "bad-tcp-length": (101, ipv4(6, tcp()[:12] + b"\x10" + tcp()[13:])),
    "ip-options": (101, ipv4(6, tcp(), b"\x07\x07\x04" + b"\xc0\0\x02\x63" + b"\0")),
}


@pytest.mark.parametrize("key", [None, KEY], ids=["cut", "renamed"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_payload_comes_out(carrier: str, key: bytes | None) -> None:
    link_type, packet = CARRIERS[carrier]
    copy, did = redacted(pcap(link_type, packet), key)
    (record,) = records(copy)
    assert not any(SECRET[i : i + 4] in copy for i in range(len(SECRET) - 3))
    assert struct.unpack_from("<I", copy, 24 + 12) == (len(packet),), "the length on the wire is told"
    assert (did.records, did.captured_bytes, did.kept_bytes) == (1, len(packet), len(record))
    if key:
        for address in ("192.0.2.1", "198.51.100.9", "2001:db8::1", "2001:db8:0:1::2", "192.0.2.99"):
            assert ipaddress.ip_address(address).packed not in copy
        assert ETHER[:6] not in copy
        assert ETHER[6:] not in copy


def test_of_an_unknown_link_type_nothing_is_kept() -> None:
    copy, did = redacted(pcap(147, SECRET))
    assert records(copy) == [b""]
    assert did.unrecognised == 1


def test_checksums_are_right_or_0() -> None:
    """Adjusted, a wrong one would tell how the sum of the addresses changed: one for a card to fill is known."""
    head, rest = ipv4(6, tcp(b""))[:20], bytearray(tcp(b""))
    pseudo = head[12:20] + struct.pack("!HH", 6, len(rest))
    left_to_card = bytes(rest[:16]) + struct.pack("!H", ~checksum(pseudo) & 0xFFFF) + bytes(rest[18:])
    head_left_to_card = head[:10] + b"\0\0" + head[12:]
    rest[16:18] = struct.pack("!H", checksum(pseudo + bytes(rest)))
    good, bad = records(redacted(pcap(101, head + rest, head_left_to_card + left_to_card), KEY)[0])
    assert good[12:16] != head[12:16]
    assert checksum(good[:20]) == 0
    assert checksum(good[12:20] + struct.pack("!HH", 6, 20) + good[20:]) == 0
    assert bad[12:20] == good[12:20]
    assert (bad[10:12], bad[36:38]) == (b"\0\0", b"\0\0")
    (kept,) = records(redacted(pcap(101, head_left_to_card + left_to_card))[0])
    assert kept == head_left_to_card + left_to_card, "it tells nothing where the addresses stay"
    (with_payload,) = records(redacted(pcap(101, head[:2] + b"\0\x2c" + head[4:] + bytes(rest) + b"data"))[0])
    assert with_payload[36:38] == b"\0\0", "it would tell something of the payload"


def test_advertised_addresses_are_those_of_the_packets() -> None:
    """MPTCP's ADD_ADDR names the address of another subflow, and proves it with a code that the keys can check."""
    address = ipaddress.IPv4Address("192.0.2.1").packed
    v4 = bytes([30, 18, 0x30, 5]) + address + b"\x13\x88" + b"HMACHMAC" + b"\x01\x01"
    six = ipaddress.IPv6Address("2001:db8::1").packed
    v6 = bytes([30, 28, 0x30, 6]) + six + b"HMACHMAC"
    older = bytes([30, 8, 0x34, 7]) + address
    odd = bytes([30, 9, 0x30, 7]) + b"WHATS" + b"\x01\x01\x01"
    copy, _ = redacted(pcap(101, *(ipv4(6, tcp(b"", o)) for o in (v4, v6, older, odd)), ipv6(6, tcp(b""))), KEY)
    *tcps, plain6 = records(copy)
    mine = tcps[0][12:16]
    assert tcps[0][40:60] == v4[:4] + mine + b"\x13\x88" + bytes(8) + v4[18:]
    assert tcps[1][40:68] == v6[:4] + plain6[8:24] + bytes(8)
    assert tcps[2][40:48] == older[:4] + mine
    assert tcps[3][40:52] == odd[:4] + bytes(5) + odd[9:]
    kept, _ = redacted(pcap(101, ipv4(6, tcp(b"", v4))))
    assert v4 in kept, "without a key addresses stay"


def test_options_that_may_name_a_host_are_blanked() -> None:
    """Load balancers tell a server the client's address in a TCP option; analyses read others."""
    address = ipaddress.IPv4Address("192.0.2.1").packed
    analysed = b"\x02\x04\x05\xb4\x03\x03\x07\x04\x02" + b"\x08\x0a" + b"ABCDEFGH" + b"\x01"
    options = (
        analysed + b"\xfe\x06" + address + b"\x1c\x08\x1f\x90" + address + b"\x01\x01",
        b"\xfe\x0c" + address + b"\x01\x01",  # longer than what there is
        b"\x01\x00" + address + b"\x01\x01",  # after the end of the options
    )
    packets = [ipv4(6, tcp(b"", o)) for o in options]
    first, cut, ended = records(redacted(pcap(101, *packets), KEY)[0])
    assert first[40:] == analysed + b"\xfe\x06" + bytes(4) + b"\x1c\x08" + bytes(6) + b"\x01\x01"
    assert cut[40:] == b"\xfe\x0c" + bytes(6)
    assert ended[40:] == b"\x01" + bytes(7)
    kept, _ = redacted(pcap(101, *packets))
    assert all(o in kept for o in options), "without a key addresses stay"


def test_sums_over_data_are_cut() -> None:
    dss = bytes([30, 20, 0x20, 0x05]) + struct.pack("!IIIH", 1, 2, 3, 4) + b"SU"
    (record,) = records(redacted(pcap(101, ipv4(6, tcp(SECRET, dss))))[0])
    assert record[40:60] == dss[:18] + bytes(2)


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def option(code: int, text: bytes) -> bytes:
    return struct.pack("<HH", code, len(text)) + text + bytes(-len(text) % 4)


def test_of_a_pcapng_only_packets_and_clocks_are_kept() -> None:
    packet = ipv4(6, tcp())
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option(1, SECRET))
    told = option(2, SECRET) + option(9, b"\x03") + option(14, struct.pack("<q", 5)) + bytes(4)
    interface = block(1, struct.pack("<HHI", 101, 0, 0) + told)
    enhanced = block(6, struct.pack("<IIIII", 0, 0, 7000, len(packet), 2000) + packet + bytes(-len(packet) % 4)
                     + option(1, SECRET) + option(4, struct.pack("<Q", 3)) + bytes(4))  # fmt: skip
    simple = block(3, struct.pack("<I", len(packet)) + packet)
    others = b"".join(block(kind, SECRET) for kind in (4, 10, 0xBAD, 9))  # names, keys of TLS, custom, a journal
    statistics = block(5, struct.pack("<III", 0, 0, 0) + option(7, struct.pack("<Q", 9)) + option(1, SECRET))
    capture = section + interface + others + enhanced + simple + statistics + block(6, b"") + b"\x06\0"
    copy, did = redacted(capture)
    assert SECRET[:4] not in copy
    assert did.records == 2
    assert (b"staple" in copy, copy[:4]) == (False, capture[:4])
    whole = found(capture)[0]
    assert {n: o["count"] for n, o in whole["oddities"].items()} == {
        "bad_block": 1, "cut_capture": 1, "dropped_packets": 9, "no_handshake": 1,
        "no_timestamp": 1,
    }  # fmt: skip
    again = found(copy)[0]
    for oddity in (*whole["oddities"].values(), *again["oddities"].values()):
        del oddity["first_record"], oddity["first_ns"]
    assert again["oddities"] == whole["oddities"]
    assert (again["first_ns"], again["bytes"]) == (whole["first_ns"], whole["bytes"]) == (12_000_000_000, 2000 + 68)


def test_snoop_stays_snoop() -> None:
    """With its drops, its two headers, its bad time and its damage; the copy of a copy is the same."""
    trace = Trace([(1_500_000_000_000_000_000 + i, ipv4(6, tcp()), 90) for i in range(3)])
    content = bytearray(snoop(trace) + snoop(trace, datalink=2) + snoop(trace))
    size = len(snoop(trace)) - 16
    first = [16 + place * (16 + size) for place in range(3)]
    for at, total in ((first[0] + size // 3, 7), (first[0] + size // 3 * 2, 9)):
        struct.pack_into("!I", content, at + 12, total)
    struct.pack_into("!I", content, first[2] + 20, 1_000_001)
    content += struct.pack("!6I", 1, 1 << 30, 0, 0, 0, 0)
    copy, did = redacted(bytes(content), KEY)
    assert copy.startswith(b"snoop\0\0\0\0\0\0\2\0\0\0\4")
    assert SECRET[:4] not in copy
    assert did.records == 9
    assert redacted(copy)[0] == copy
    counts = {name: odd["count"] for name, odd in found(copy)[0]["oddities"].items()}
    assert counts == {
        "dropped_packets": 9,
        "second_header": 2,
        "bad_timestamp": 1,
        "backward_timestamp": 1,
        "captured_twice": 4,
        "corrupt_record": 1,
        "unknown_link_type": 3,
        "no_handshake": 1,
    }
    assert found(copy)[0] == found(bytes(content))[0]


def test_a_pipe_is_read_once() -> None:
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN)
    content = trace.bytes()
    source, sink = os.pipe()
    threading.Thread(target=lambda: (os.write(sink, content), os.close(sink))).start()
    with tempfile.TemporaryFile() as target, os.fdopen(source, "rb") as stream:
        assert redact(stream.fileno(), target.fileno(), None, "pipe").records == 1
        assert target.tell() == len(content)


def test_what_is_no_capture_is_refused() -> None:
    with pytest.raises(NotACapture, match="neither pcap nor pcapng"):
        redacted(SECRET)


def test_a_full_disk_is_an_error() -> None:
    cannot = pytest.raises(CaptureUnreadable, match="cannot be written: No space")
    with (CAPTURES / "mptcp-ecn.pcap").open("rb") as source, Path("/dev/full").open("wb") as target, cannot:
        redact(source.fileno(), target.fileno(), None, "capture")


def test_the_command_reads_what_is_compressed_and_hides_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packet = CARRIERS["ethernet"][1]
    source, key, copy = (tmp_path / name for name in ("secret.pcap.gz", "key", "copy.pcap"))
    source.write_bytes(gzip.compress(pcap(1, packet)))
    key.write_text(KEY.hex() + "\n")
    assert main(["redact", str(source), "--output", str(copy), "--key", str(key)]) == 0
    assert copy.read_bytes() == redacted(pcap(1, packet), KEY)[0]
    kept = len(packet) - len(SECRET)
    assert f"{kept} of {len(packet)} bytes of 1 packets are kept" in capsys.readouterr().err
    for wrong in ("00" * 15, "no"):
        key.write_text(wrong)
        assert main(["redact", str(source), "--output", str(copy), "--key", str(key)]) == 2
    source.write_bytes(b"\x1f\x8b no")
    before = copy.read_bytes()
    assert main(["redact", str(source), "--output", str(copy)]) == 3
    assert "gzip" in capsys.readouterr().err
    assert copy.read_bytes() == before, "an output is whole or as it was"


def test_a_damaged_record_ends_the_copy_and_not_the_reading() -> None:
    """A sender of a pipe that is not read to its end would wait, or fail."""
    content = pcap(101, ipv4(6, tcp())) + struct.pack("<IIII", 0, 0, 1 << 31, 1 << 31) + bytes(1 << 20)
    source = io.BytesIO(content)
    with tempfile.TemporaryFile() as target:
        assert read_on(source, target, KEY) == 1
        assert source.tell() == len(content)
        target.seek(0)
        assert found(target.read())[0]["oddities"]["corrupt_record"]["count"] == 1


def test_so_many_captures_are_held_at_a_time() -> None:
    """A place is free again when the process that took it has ended, however it ended."""
    places = os.memfd_create("places")
    taken: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(redaction_service._HELD_MAX):
            hold = f"from rewindow.captures.redaction_service import _hold; _hold({places}); print(); input()"
            holder = subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1, pass_fds=[places])
            taken.append(holder)
            assert holder.stdout
            assert holder.stdout.readline() == b"\n"
        with pytest.raises(redaction_service._TooManyHeld):
            redaction_service._hold(places)
        taken[1].kill()
        taken[1].wait()
        redaction_service._hold(places)
    finally:
        for holder in taken:
            holder.kill()
            holder.communicate()
        os.close(places)


def read_on(source: io.BytesIO, target: IO[bytes], key: bytes) -> int:
    return stream("capture", source, target, key).records
