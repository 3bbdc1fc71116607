"""`make corpus`: our counts beside tshark's, each difference with its reason; a count that is off has none."""

from __future__ import annotations

import copy
import hashlib
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rewindow
from bench.corpus import __main__ as corpus
from bench.corpus import tshark
from bench.corpus.compare import compare
from bench.corpus.reasons import REASONS
from tests.interfaces import SECOND_NS, drained, two_subflows
from tests.interfaces import pcapng as pcapng_of
from tests.packets import ACK, FIN, RST, SYN, Trace, sack

CAPTURES = Path(__file__).parent.parent / "captures"


def test_our_captures(tmp_path: Path) -> None:
    """packets, TCP, streams, MPTCP, bytes, retransmissions: ours and tshark's."""
    found = {o.name: o for o in corpus.run(CAPTURES, None)}
    expected = {
        "mptcp-ecn.pcap": ([7985, 7985, 3, 1, 6750208, 0], {}),
        "mptcp-receiver-side.pcap": ([7305, 7305, 3, 1, 5570560, 107], {5: 38}),
        "mptcp-recurrences.pcap": ([3612, 3612, 6, 2, 1089688, 15], {}),
        "mptcp-three-subflows.pcap": ([20506, 20506, 4, 1, 15138816, 150], {5: 84}),
        "mptcp-tccc-kernel.pcap": ([12350, 12350, 3, 1, 10420224, 75], {5: 45}),
        "mptcp-two-subflows.pcap": ([10337, 10337, 3, 1, 7602176, 118], {5: 63}),
    }
    assert set(found) == set(expected)
    for name, (ours, otherwise) in expected.items():
        comparison = found[name].comparison
        assert comparison is not None, found[name].failure
        theirs = [otherwise.get(i, n) for i, n in enumerate(ours)]
        assert [comparison.numbers[c] for c in corpus.COLUMNS[:6]] == list(zip(ours, theirs, strict=True)), name
        assert found[name].unexplained == []
    reasons = {d.what: dict(d.reasons) for d in found["mptcp-two-subflows.pcap"].comparison.differences}  # type: ignore[union-attr]
    assert reasons["retransmissions"] == {"sent twice": 55}


@pytest.fixture(scope="module")
def sample() -> tuple[dict[str, Any], tshark.Seen]:
    path = CAPTURES / "mptcp-two-subflows.pcap"
    ours, failure = corpus.read_ours(path, None)
    assert failure == ""
    with rewindow.open(path) as capture, tempfile.TemporaryDirectory() as home:
        return ours, tshark.see(capture.descriptors[0], home)


def off_by_one(name: str) -> Callable[[dict[str, Any]], None]:
    def change(ours: dict[str, Any]) -> None:
        ours["summary"][name] += 1

    return change


def off_in_a_subflow(name: str, by: float) -> Callable[[dict[str, Any]], None]:
    def change(ours: dict[str, Any]) -> None:
        ours["connections"][1]["subflows"][0][name] += by

    return change


WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "packets": off_by_one("packets"),
    "TCP packets": off_by_one("tcp_packets"),
    "TCP streams": lambda ours: ours["connections"][1]["subflows"].pop(),
    "MPTCP streams": lambda ours: ours["connections"][0].update(kind="mptcp"),
    "bytes": off_in_a_subflow("bytes", 1),
    "retransmissions": off_in_a_subflow("retransmitted_packets", -1),
    "more retransmissions": off_in_a_subflow("retransmitted_packets", 1),
    "median RTT": off_in_a_subflow("rtt_median_us", 20_000),
    "cut_capture": lambda ours: ours["summary"]["oddities"].update(cut_capture={"count": 1}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_count_that_is_off_is_unexplained(what: str, sample: tuple[dict[str, Any], tshark.Seen]) -> None:
    ours = copy.deepcopy(sample[0])
    assert [d.unexplained for d in compare(ours, sample[1]).differences if d.unexplained] == []
    WRONG[what](ours)
    unexplained = [d.what for d in compare(ours, sample[1]).differences if d.unexplained]
    assert what.removeprefix("more ") in unexplained


def multipath(trace: Trace, at: float, port: int, keys: tuple[bytes, bytes], *, joins: bool) -> None:
    """RFC 6824: a first subflow, or one that joins it by the token of the second key."""
    capable = [b"\x1e\x0c\x00\x01" + key for key in keys] + [b"\x1e\x14\x00\x01" + keys[0] + keys[1]]
    token = hashlib.sha1(keys[1]).digest()[:4]
    join = [b"\x1e\x0c\x10\1" + token + b"nnnn", b"\x1e\x10\x10\1hhhhhhhhnnnn", b"\x1e\x18\x10\0" + b"h" * 20]
    options = join if joins else capable
    trace.packet(at, True, 0, 0, SYN, options=options[0], ports=(port, 80))
    trace.packet(at + 0.1, False, 1000, 1, SYN | ACK, options=options[1], ports=(port, 80))
    trace.packet(at + 0.1001, True, 1, 1001, options=options[2], ports=(port, 80))


def with_every_reason() -> Trace:
    """One flow, or a few packets, for each reason that plain packets can show."""
    trace, ports = Trace(), iter((p, 80) for p in range(2000, 3000))
    permitted = b"\x02\x04\x05\xb4\x04\x02"

    def flow(at: float, *, beside_receiver: bool = False) -> tuple[int, int]:
        here = next(ports)
        rtts = (1e-5, 0.1) if beside_receiver else (0.1, 1e-5)
        trace.packet(at, True, 0, 0, SYN, options=permitted, ports=here)
        trace.packet(at + rtts[0], False, 1000, 1, SYN | ACK, options=permitted, ports=here)
        trace.packet(at + sum(rtts), True, 1, 1001, ports=here)
        return here

    def data(at: float, here: tuple[int, int], first: int, size: int = 1000, **kw: Any) -> None:
        trace.packet(at, True, first, 1001, payload=size, ports=here, **kw)

    def ack(at: float, here: tuple[int, int], number: int, **kw: Any) -> None:
        trace.packet(at, False, 1001, number, ports=here, **kw)

    p = flow(1.0)  # ICMP error, broken header: added below; other side
    data(1.2, p, 1)
    trace.packet(1.3, False, 1001, 1001, payload=50, ports=p)
    trace.packet(1.8, False, 1001, 1001, payload=50, ports=p)

    p = flow(2.0)  # segments, sent twice: out of order for tshark within the handshake's round trip
    data(2.2, p, 1, 5000)
    data(2.5, p, 1, 5000)
    data(2.6, p, 5001)
    data(2.6001, p, 6001)
    data(2.62, p, 5001)
    ack(2.7, p, 7001)

    p = flow(3.0, beside_receiver=True)  # hole filled, overtaken, as sent
    for place in (0, 1, 3, 4, 5):
        data(3.2 + place * 0.04, p, 1 + place * 1000, ident=10 + place)
    data(3.41, p, 2001, ident=16)
    data(3.5, p, 7001, ident=18)
    data(3.501, p, 6001, ident=17)
    ack(3.6, p, 8001)

    p = flow(4.0)  # after the end, before the capture, probe
    data(4.2, p, 1)
    ack(4.3, p, 1001, window=0)
    data(4.6, p, 1001, 1)
    ack(4.7, p, 1001, window=0)
    data(5.0, p, 1001, 1)
    ack(5.1, p, 1001, window=500)
    data(5.2, p, 1001, 200)
    ack(5.3, p, 1201, flags=RST | ACK)
    data(5.31, p, 1001, 200)
    data(5.32, p, 1201, 200)

    p = next(ports)  # in the middle of a flow, of which older data comes then
    data(6.0, p, 100_001)
    ack(6.1, p, 101_001)
    data(6.2, p, 90_001)
    ack(6.3, p, 101_001)

    p = next(ports)  # other attempt: RFC 5961
    trace.packet(7.0, True, 0, 0, SYN, ports=p)
    trace.packet(7.1, False, 900_000, 77, ACK, ports=p)
    trace.packet(7.1001, True, 77, 0, RST, ports=p)
    trace.packet(7.5, True, 0, 0, SYN, ports=p)
    trace.packet(7.6, False, 1000, 1, SYN | ACK, ports=p)
    trace.packet(7.6001, True, 1, 1001, ports=p)
    trace.packet(7.7, False, 1001, 1, payload=500, ports=p)
    trace.packet(7.7001, True, 1, 1501, ports=p)

    p = flow(8.0)  # port reuse: the SYN is missing
    data(8.2, p, 1)
    ack(8.3, p, 1001)
    trace.packet(8.4, True, 1001, 1001, FIN | ACK, ports=p)
    ack(8.5, p, 1002, flags=FIN | ACK)
    trace.packet(9.0, False, 700_000, 500_001, SYN | ACK, ports=p)
    data(9.1, p, 500_001)

    p = flow(10.0)  # overtaken: a FIN by an ACK after it
    data(10.2, p, 1)
    trace.packet(10.3, True, 1002, 1001, ports=p)
    trace.packet(10.3, True, 1001, 1001, FIN | ACK, ports=p)
    ack(10.4, p, 1002)

    p = flow(11.0)  # probe: the last one is not answered
    data(11.2, p, 1)
    ack(11.3, p, 1001, window=0)
    data(11.6, p, 1001, 1)

    # Round trips: in each flow most samples are of one kind, and the handshake's 100 ms differ from them.
    p = flow(12.0)  # delayed ACK
    for i in range(3):
        data(12.2 + i, p, 1 + i * 2000)
        data(12.4 + i, p, 1001 + i * 2000)
        ack(12.45 + i, p, 2001 + i * 2000)
    p = flow(12.0)  # partial ACK: of a packet of several segments
    data(12.2, p, 1, 6000)
    for i in range(3):
        ack(12.5 + i / 100, p, 1461 + i * 1460)
    p = flow(12.0)  # SACK
    for i in range(6):
        data(12.2 + i / 1000, p, 1 + i * 1000)
    for i in range(1, 6):
        ack(12.6 + i / 1000, p, 1, options=sack((1001, 1001 + i * 1000)))
    p = flow(12.0)  # retransmitted
    for i in range(3):
        data(12.2 + i, p, 1 + i * 1000)
        data(12.6 + i, p, 1 + i * 1000)
        ack(12.65 + i, p, 1001 + i * 1000)
    p = flow(12.0)  # nothing new: keep-alives
    data(12.2, p, 1)
    ack(12.3, p, 1001)
    for i in range(4):
        data(12.5 + i, p, 1000, 1)
        ack(12.54 + i, p, 1001)
    p = flow(12.0)  # outside: after a RST
    ack(12.1, p, 1, flags=RST | ACK)
    for i in range(4):
        data(12.2 + i, p, 1 + i * 1000)
        ack(12.25 + i, p, 1001 + i * 1000)
    p = flow(12.0)  # unseen data: probes of a closed window that are taken
    ack(12.2, p, 1, window=0)
    for i in range(4):
        data(12.5 + i, p, 1 + i, 1)
        ack(12.54 + i, p, 2 + i, window=0)
    p = next(ports)  # handshake: its SYN was repeated
    for time in (12.0, 12.05):
        trace.packet(time, True, 0, 0, SYN, ports=p)
    trace.packet(12.1, False, 1000, 1, SYN | ACK, ports=p)
    trace.packet(12.1001, True, 1, 1001, ports=p)
    data(12.2, p, 1)
    ack(12.5, p, 1001)

    p = next(ports)  # captured twice
    for i in range(4):
        for twice in range(2):
            trace.packet(16.0 + i + twice * 1e-4, True, 1 + i * 100, 1, payload=100, ports=p, ident=5 + i)

    multipath(trace, 20.0, 900, (b"AAAAAAAA", b"BBBBBBBB"), joins=True)  # join by token
    multipath(trace, 20.01, 901, (b"AAAAAAAA", b"BBBBBBBB"), joins=False)
    for at, port in ((20.5, 906), (20.8, 907)):  # token again
        multipath(trace, at, port, (b"DDDDDDDD", b"EEEEEEEE"), joins=False)
    trace.packet(21.0, True, 0, 0, SYN, options=b"\x1e\x0c\x00\x01CCCCCCCC", ports=(902, 80))  # offered only
    trace.packet(21.1, False, 1000, 1, SYN | ACK, ports=(902, 80))
    trace.packet(21.1001, True, 1, 1001, ports=(902, 80))

    p = next(ports)  # both open
    trace.packet(21.2, True, 0, 0, SYN, ports=p)
    trace.packet(21.21, False, 1000, 0, SYN, ports=p)
    trace.packet(21.22, True, 0, 1001, SYN | ACK, ports=p)
    data(21.3, p, 1)

    trace.packet(21.5, True, 1, 1, options=b"\x1e\x04\xf0\x00", ports=(905, 80))  # no subtype

    quoted = trace.records[0][1]
    icmp = struct.pack("!BBHI", 3, 1, 0, 0) + quoted
    header = bytes([0x45, 0]) + struct.pack("!HHHBBH", 20 + len(icmp), 0, 0, 64, 1, 0)
    trace.records.append((22 * 10**9, header + bytes([10, 0, 0, 9, 10, 0, 0, 1]) + icmp, 20 + len(icmp)))
    trace.records.append((23 * 10**9, quoted[:32] + b"\x40" + quoted[33:], len(quoted)))  # 16 bytes of header
    trace.packet(24.0, True, 1, 1, payload=100, ports=(903, 80))  # shortened record
    trace.records[-1] = (*trace.records[-1][:2], 80)
    # Cut tunnel: the first fragment of GTP-U.
    inner = Trace()
    inner.packet(0, True, 1, 1, payload=1400, ports=(904, 80))
    gtp = struct.pack("!HHHHBBHI", 2152, 2152, 1456, 0, 0x30, 255, 1440, 1) + inner.records[0][1]
    header = bytes([0x45, 0]) + struct.pack("!HHHBBH", 1396, 7, 0x2000, 64, 17, 0) + bytes([10, 0, 0, 9, 10, 0, 0, 8])
    trace.records.append((25 * 10**9, (header + gtp).ljust(1396, b"\0"), 1396))
    return trace


def reasons_of(comparison: Any) -> Iterator[str]:
    for difference in comparison.differences:
        assert difference.unexplained == ""
        yield from (name for name, amount in difference.reasons.items() if amount)


def test_reasons(tmp_path: Path) -> None:
    """Each is found on packets that were made for it; what they cannot show needs more than plain packets."""
    outcome = corpus.outcome_of(with_every_reason().write(tmp_path / "reasons.pcap"), "reasons", None)
    assert outcome.unexplained == []
    assert outcome.comparison is not None
    elsewhere = {"no packet", "lost twice", "echo", "clock", "not followed", "read on", "no number", "cut option"}
    elsewhere |= {"put in order", "aggregate", "cut aggregate", "undecoded", "passed over"}
    found = set(reasons_of(outcome.comparison))
    assert found == set(REASONS) - elsewhere, found ^ (set(REASONS) - elsewhere)


def pcapng(*blocks: tuple[int, bytes]) -> bytes:
    """A section with these blocks: type, body."""
    section = (0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    return b"".join(
        struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))
        for kind, body in (section, *((k, b + bytes(-len(b) % 4)) for k, b in blocks))
    )


def interface(link_type: int) -> tuple[int, bytes]:
    return 1, struct.pack("<HHI", link_type, 0, 0)


def enhanced(packet: bytes, number: int, *, index: int = 0, wire: int | None = None) -> tuple[int, bytes]:
    size = len(packet) if wire is None else wire
    return 6, struct.pack("<5I", index, 0, number, len(packet), size) + packet


def one_packet(**kw: Any) -> bytes:
    trace = Trace()
    trace.packet(1.0, True, 1, 1, payload=0, **kw)
    return trace.records[0][1]


def test_blocks_that_are_passed_over(tmp_path: Path) -> None:
    """What comes before is compared; before the first packet there is nothing to compare."""
    path = tmp_path / "capture.pcapng"
    good = enhanced(one_packet(), 1)
    for bad in (enhanced(one_packet(), 2, index=7), (6, struct.pack("<5I", 0, 0, 2, 5000, 5000))):
        path.write_bytes(pcapng(interface(101), good, bad, good, good))
        outcome = corpus.outcome_of(path, "capture", None)
        assert outcome.unexplained == []
        assert outcome.comparison is not None, outcome.failure
        assert dict(outcome.comparison.differences[-1].reasons) == {"read on": 2}
        path.write_bytes(pcapng(interface(101), bad, good))
        assert corpus.outcome_of(path, "capture", None).neither == "nothing before a bad block"
    path.write_bytes(pcapng((10, struct.pack("<II", 1, 0)), interface(101)) + struct.pack("<II", 0xBAD, 0xFFFFFFFC))
    assert corpus.outcome_of(path, "capture", None).neither == "cut_capture"


@pytest.mark.parametrize("order", "<>")
def test_captures_put_one_behind_the_other(order: str, tmp_path: Path) -> None:
    """`cat a.pcap b.pcap`: tshark takes the second header for a packet of 2055 or 2083 and ends behind it."""
    path, first, second = tmp_path / "capture.pcap", transfer(100.0, 0.001), transfer(1.7e9, 0.001)
    path.write_bytes(first.bytes() + second.bytes(order=order))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.unexplained == []
    assert outcome.comparison is not None, outcome.failure
    amounts = [dict(d.reasons) for d in outcome.comparison.differences if d.what == "packets"]
    assert amounts == [{"no packet": -1}, {"read on": len(second.records)}]
    with rewindow.open(path) as capture:
        result = capture.replay(["newreno"])
    assert result.summary.packets == len(first.records) + len(second.records)
    findings = {f.what: (f.count, f.packet) for f in result.summary.quality.findings}
    assert findings["second_header"] == (1, len(first.records))
    assert "corrupt_record" not in findings


def test_a_simple_packet_that_is_short(tmp_path: Path) -> None:
    """No snap length says why: tshark ends there, the core reads what is there."""
    path = tmp_path / "capture.pcapng"
    packet = one_packet()
    whole, short = (3, struct.pack("<I", len(packet)) + packet), (3, struct.pack("<I", 1500) + packet)
    path.write_bytes(pcapng(interface(101), whole, short, whole))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert dict(outcome.comparison.differences[-1].reasons) == {"read on": 2}


def wireless(*packets: bytes) -> bytes:
    """Frames in one (IEEE 802.11-2020 9.3.2.2): addresses, length, LLC, and padding up to four bytes between them."""
    frames = [b"\xaa\xaa\3\0\0\0\x08\0" + packet for packet in packets]
    parts = [b"\2\0\0\0\0\1\2\0\0\0\0\2" + struct.pack("!H", len(f)) + f for f in frames]
    padded = [part + bytes(-len(part) % 4) for part in parts[:-1]] + parts[-1:]
    return b"\x88\1\0\0" + b"\2\0\0\0\0\1" * 3 + b"\x10\0\x80\0" + b"".join(padded)


def transfer(at: float, step: float) -> Trace:
    """A handshake, and two packets that are acknowledged, each after 80 ms; one of the ACKs has an option."""
    trace = Trace()
    trace.handshake(at, 0.08, options=b"\2\4\5\xb4")
    for i in range(2):
        trace.packet(at + 0.1 + i * step, True, 1 + 100 * i, 1001, payload=100, ident=7 + i)
        trace.packet(at + 0.18 + i * step, False, 1001, 101 + 100 * i, options=b"\x03\3\7" * i)
    trace.records.sort()
    return trace


def test_aggregates(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    packets = [data.ljust(wire, b"p") for _, data, wire in transfer(1.0, 0.0).records]
    joined = [*([p] for p in packets[:3]), packets[3:5], packets[5:]]
    blocks = []
    for at, group in zip((1000, 81000, 81010, 100000, 180000), joined, strict=True):
        frame = wireless(*group)
        blocks.append(enhanced(frame, at))
    path.write_bytes(pcapng(interface(105), *blocks))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert outcome.comparison.numbers["TCP packets"] == (7, 5)
    assert outcome.comparison.numbers["bytes"] == (200, 200)
    assert [dict(d.reasons) for d in outcome.comparison.differences] == [{"aggregate": 2}]
    frame = wireless(*packets[3:5])
    path.write_bytes(pcapng(interface(105), *blocks[:3], enhanced(frame[:120], 100000, wire=len(frame))))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert [dict(d.reasons) for d in outcome.comparison.differences] == [{"cut aggregate": 1}]


def test_a_handshake_in_the_wrong_order(tmp_path: Path) -> None:
    """By their times the packets are in order: what tshark calls a retransmission is none."""
    path = tmp_path / "capture.pcapng"
    records = transfer(1.0, 0.001).records
    shown = [enhanced(data, t // 1000, wire=w) for t, data, w in [*records[2::-1], *records[3:]]]
    path.write_bytes(pcapng(interface(101), *shown))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert [dict(d.reasons) for d in outcome.comparison.differences if d.what == "retransmissions"] == [{"clock": -1}]


def test_what_tshark_is_not_told(tmp_path: Path) -> None:
    """Ethernet in a session of L2TPv3: no more packets than there are frames with bytes behind such a header."""
    path = tmp_path / "capture.pcapng"
    body = b"\0\0\0\7\0\0\0\0" + b"ddddddssssss\x08\0" + one_packet()
    packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 115, 0) + b"\x0a\0\0\1\x0a\0\0\2" + body
    path.write_bytes(pcapng(interface(101), enhanced(packet, 1), enhanced(one_packet(ports=(2000, 80)), 2)))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert dict(outcome.comparison.differences[0].reasons) == {"undecoded": 1}
    ours, _ = corpus.read_ours(path, None)
    with rewindow.open(path) as capture, tempfile.TemporaryDirectory() as home:
        seen = tshark.see(capture.descriptors[0], home)
    ours["summary"]["tcp_packets"] += 1
    assert next(d.what for d in compare(ours, seen).differences if d.unexplained) == "TCP packets"


def test_compressed_headers_are_passed_over(tmp_path: Path) -> None:
    """RFC 1144: where TCP's number stands there is a connection's, and what follows has no header at all."""
    path = tmp_path / "capture.pcapng"
    packet = one_packet()
    frames = [b"\xff\3\0\x2f" + packet[:9] + b"\1" + packet[10:], b"\xff\3\0\x21" + one_packet(ports=(2000, 80))]
    frames += [b"\x2d\1\0\0", b"\xff\3\0\x59\x01\x21"]  # without the header before; RFC 3153
    path.write_bytes(pcapng(interface(9), *(enhanced(frame, i) for i, frame in enumerate(frames))))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert [dict(d.reasons) for d in outcome.comparison.differences] == [{"passed over": -1}] * 2
    assert outcome.comparison.oddities["compressed_ppp"][0] == 3


@pytest.mark.parametrize("order", "<>")
def test_clocks_finer_than_tshark_follows(tmp_path: Path, order: str) -> None:
    """Picoseconds, and microseconds on another interface beside them."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))

    out = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack(order + "HHI", 101, 0, 0)))
    out.append(block(1, struct.pack(order + "HHIHH4sHH", 101, 0, 0, 9, 1, b"\x0c", 0, 0)))
    for i, (time_ns, data, wire) in enumerate(transfer(100.0, 0.001).records):
        units = time_ns * 1000 if i % 2 else time_ns // 1000
        out.append(block(6, struct.pack(order + "5I", i % 2, units >> 32, units & 0xFFFFFFFF, len(data), wire) + data))
    path = tmp_path / "capture.pcapng"
    path.write_bytes(b"".join(out))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.comparison.differences == []
    assert outcome.comparison.numbers["median RTT"] == (pytest.approx(80_000, rel=0.01),) * 2


def test_interfaces_that_were_drained_late(tmp_path: Path) -> None:
    """Each subflow on an interface of its own is for tshark what it is for us; the order of all packets is not."""
    path = tmp_path / "capture.pcapng"
    path.write_bytes(pcapng_of(drained(two_subflows(), lambda interface: interface * SECOND_NS)))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.unexplained == []
    assert outcome.comparison is not None, outcome.failure
    late, theirs = outcome.comparison.oddities["late_record"]
    assert late == theirs
    assert late > 1000
    reasons = {d.what: dict(d.reasons) for d in outcome.comparison.differences}
    assert reasons["retransmissions"] == {"sent twice": 55}  # as in the capture of one interface


def test_directions_that_were_drained_one_after_the_other(tmp_path: Path) -> None:
    """Both ways of a flow are on two interfaces: tshark has ACKs before what they acknowledge."""
    records = [(int(packet[15] == 2), time_ns, packet, wire) for _, time_ns, packet, wire in two_subflows()]
    path = tmp_path / "capture.pcapng"
    for delay_ns in (SECOND_NS, -SECOND_NS):
        path.write_bytes(pcapng_of(drained(records, lambda interface, each=delay_ns: interface * each)))
        outcome = corpus.outcome_of(path, "capture", None)
        assert outcome.unexplained == []
        assert outcome.comparison is not None, outcome.failure
        assert outcome.comparison.numbers["bytes"][0] == 7602176
        assert outcome.comparison.numbers["retransmissions"][0] == 118
    reasons = {d.what: set(d.reasons) for d in outcome.comparison.differences}
    assert reasons["retransmissions"] == reasons["median RTT"] == {"put in order"}


def test_a_link_type_that_tshark_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    packet = b"\0\1\1\x40" + one_packet()  # labels
    path.write_bytes(
        struct.pack("<IHHiIII4I", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 219, 1, 0, len(packet), len(packet)) + packet
    )
    outcome = corpus.outcome_of(path, "capture", None)
    assert (outcome.failure, outcome.neither) == ("", "")
    assert "network type 219" in outcome.alone


def test_journal_entries_are_no_packets(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    path.write_bytes(pcapng(interface(101), (9, b"__REALTIME_TIMESTAMP=1\n"), enhanced(one_packet(), 1)))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert [dict(d.reasons) for d in outcome.comparison.differences] == [{"no packet": -1}]


def test_headers_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    frame = b"ddddddssssss\x08\0" + one_packet()
    cut = [enhanced(frame[:captured], captured, wire=len(frame)) for captured in range(len(frame) + 1)]
    path.write_bytes(pcapng(interface(1), *cut))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert outcome.comparison.oddities["header"] == (len(frame), len(frame))


def test_a_join_that_is_cut(tmp_path: Path) -> None:
    """Behind its token: tshark reads that, the core takes nothing from an option that is not whole."""
    trace = Trace()
    multipath(trace, 1.0, 900, (b"AAAAAAAA", b"BBBBBBBB"), joins=False)
    multipath(trace, 2.0, 901, (b"AAAAAAAA", b"BBBBBBBB"), joins=True)
    time_ns, join, wire = trace.records[3]
    trace.records[3] = (time_ns, join[:-2], wire)
    outcome = corpus.outcome_of(trace.write(tmp_path / "cut.pcap"), "cut", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    assert {d.what: dict(d.reasons) for d in outcome.comparison.differences} == {"MPTCP streams": {"cut option": 1}}


def over_ipv6(*headers: tuple[int, bytes], source: bytes = b"s" * 16, target: bytes = b"t" * 16) -> bytes:
    """The test's TCP header behind extension headers, each with its number and what follows its first byte."""
    numbers = [number for number, _ in headers] + [6]
    body = b"".join(bytes([after]) + rest for after, (_, rest) in zip(numbers[1:], headers, strict=True))
    body += one_packet()[20:]
    return struct.pack("!IHBB", 6 << 28, len(body), numbers[0], 64) + source + target + body


IPV6: dict[str, bytes] = {
    "plain": over_ipv6(),
    "segments": over_ipv6((43, b"\4\4\1\1\0\0\0" + b"t" * 16 + b"x" * 16), target=b"x" * 16),
    "arrived": over_ipv6((43, b"\4\4\0\1\0\0\0" + b"t" * 16 + b"x" * 16)),
    "source route": over_ipv6((43, b"\2\0\1\0\0\0\0" + b"t" * 16), target=b"x" * 16),
    "to a mobile node": over_ipv6((43, b"\2\2\1\0\0\0\0" + b"t" * 16), target=b"x" * 16),
    "from a mobile node": over_ipv6((60, b"\2\1\2\0\0\xc9\x10" + b"s" * 16), source=b"x" * 16),
    "authenticated": over_ipv6((51, b"\4\0\0" + b"iiiissss" + b"c" * 12)),
    "length 0": over_ipv6()[:4] + b"\0\0" + over_ipv6()[6:],
}


def test_ends_of_ipv6(tmp_path: Path) -> None:
    """Whatever stands between, it is one flow."""
    path = tmp_path / "capture.pcapng"
    path.write_bytes(pcapng(interface(101), *(enhanced(packet, i) for i, packet in enumerate(IPV6.values()))))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.unexplained == []
    numbers = outcome.comparison.numbers
    assert numbers["TCP packets"] == (len(IPV6), len(IPV6))
    assert numbers["TCP streams"] == (1, 1)


def test_what_authenticates_is_no_payload(tmp_path: Path) -> None:
    plain = one_packet()
    header = b"\6\4\0\0iiiissss" + b"c" * 12
    packet = (
        plain[:2]
        + struct.pack("!H", len(plain) + len(header))
        + plain[4:9]
        + b"\x33"
        + plain[10:20]
        + header
        + plain[20:]
    )
    path = tmp_path / "capture.pcapng"
    path.write_bytes(pcapng(interface(101), enhanced(packet, 1)))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.comparison.differences == []
    assert outcome.comparison.numbers["bytes"] == (0, 0)


def test_linux_port_of_vxlan(tmp_path: Path) -> None:
    inner = b"\x08\0\0\0\0\0\1\0" + b"ddddddssssss\x08\0" + one_packet()
    udp = struct.pack("!HHHH", 4096, 8472, 8 + len(inner), 0) + inner
    packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + b"\x0a\0\0\1\x0a\0\0\2" + udp
    path = tmp_path / "capture.pcapng"
    path.write_bytes(pcapng(interface(101), enhanced(packet, 1)))
    outcome = corpus.outcome_of(path, "capture", None)
    assert outcome.comparison is not None, outcome.failure
    assert outcome.comparison.numbers["TCP packets"] == (1, 1)
    assert outcome.comparison.differences == []


def test_what_breaks_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A crash, a sanitizer's report, a capture that neither reads; files that are no captures are left alone."""
    (tmp_path / "notes.txt").write_text("nothing to compare")
    good = tmp_path / "in" / "good.pcap"
    good.parent.mkdir()
    with_every_reason().write(good)
    program = tmp_path / "sanitized"
    for script, said in (
        ("echo '==1==ERROR: AddressSanitizer: heap-buffer-overflow' >&2; exit 1", "heap-buffer-overflow"),
        ("echo 'x.c:1: runtime error: signed integer overflow' >&2; exit 1", "signed integer overflow"),
        ("kill -SEGV $$", "status -11"),
        ("exit 0", ""),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        [outcome] = corpus.run(tmp_path, program)
        assert outcome.name == "in/good.pcap"
        assert said in outcome.failure
        assert bool(outcome.failure) == bool(said)
    assert corpus.read_ours(tmp_path / "missing.pcap", None)[0]["error"] == "No such file or directory"
    (tmp_path / "bad.pcap").write_bytes(good.read_bytes()[:10])
    assert corpus.outcome_of(tmp_path / "bad.pcap", "bad", None).neither.startswith("the pcap file header is cut")
    (tmp_path / "bad.pcap").unlink()
    report = tmp_path / "report.md"
    assert corpus.main([str(tmp_path), "--without-sanitizers", "--write", str(report)]) == 0
    assert report.read_text() == capsys.readouterr().out
    assert report.read_text().splitlines()[-1].endswith("differences explained, 0 unexplained, 0 failed")
    assert corpus.main([str(tmp_path / "nowhere"), "--without-sanitizers"]) == 2


def test_every_reason_is_in_the_documentation() -> None:
    text = (CAPTURES.parent.parent / "docs" / "corpus.md").read_text()
    assert [name for name in REASONS if f"**{name}**" not in text] == []
