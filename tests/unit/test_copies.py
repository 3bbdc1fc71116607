"""Frames that were captured more than once."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewindow
from tests.packets import ACK, FIN, SYN, Trace

MSS = 1460


def transfer(copy_after: float | None, every: int = 1, *, numbered: bool = True) -> Trace:
    """Twenty flights of ten segments; every `every`-th frame comes again after `copy_after` seconds."""
    trace, count = Trace(), 0

    def packet(time: float, from_client: bool, seq: int, ack: int, flags: int = ACK, payload: int = 0) -> None:
        nonlocal count
        count += 1
        for late in [0.0] if copy_after is None or count % every else [0.0, copy_after]:
            options = b"\x02\x04\x05\xb4" if flags & SYN else b""
            trace.packet(time + late, from_client, seq, ack, flags, payload, options, ident=count if numbered else 0)

    packet(1.0, True, 0, 0, SYN)
    packet(1.05, False, 1000, 1, SYN | ACK)
    packet(1.05001, True, 1, 1001)
    for turn in range(20):
        for k in range(10):
            packet(1.06 + turn * 0.06 + k * 1e-4, True, 1 + (turn * 10 + k) * MSS, 1001, payload=MSS)
        packet(1.11 + turn * 0.06, False, 1001, 1 + (turn + 1) * 10 * MSS)
    packet(3.0, True, 1 + 200 * MSS, 1001, FIN | ACK)
    return trace


@pytest.mark.parametrize(
    ("copy_after", "numbered"), [(3e-6, True), (0.0004, True), (0.02, True), (3e-6, False), (0.0009, False)]
)
def test_a_flow_captured_twice_is_the_flow_captured_once(copy_after: float, numbered: bool, tmp_path: Path) -> None:
    """Also without numbers and timestamps, as Windows sends over IPv6."""
    results = []
    for name, late in (("once", None), ("twice", copy_after)):
        with rewindow.open(transfer(late, numbered=numbered).write(tmp_path / f"{name}.pcap")) as capture:
            results.append(capture.replay(["newreno"]))
    once, twice = results
    assert twice.acks.equals(once.acks)
    (connection,) = twice.connections
    assert connection.retransmitted_packets == 0
    assert connection.subflows[0].packets == once.connections[0].subflows[0].packets
    assert "captured_twice" in connection.subflows[0].quality
    assert "captured_twice" not in once.connections[0].subflows[0].quality
    assert twice.summary.oddities["captured_twice"]["count"] == twice.summary.packets - once.summary.packets


def test_frames_before_and_after_address_translation_are_two_flows(tmp_path: Path) -> None:
    """Masquerading keeps ports and numbers: the same segments, of another host."""
    trace = transfer(None)
    inside = bytes([10, 0, 0, 1])
    for time_ns, packet, wire in list(trace.records):
        trace.records.append((time_ns + 3000, packet.replace(inside, bytes([192, 0, 2, 9])), wire))
    with rewindow.open(trace.write(tmp_path / "nat.pcap")) as capture:
        result = capture.replay(["newreno"])
    assert [c.quality for c in result.connections] == [[], []]
    assert {c.subflows[0].src for c in result.connections} == {"10.0.0.1", "192.0.2.9"}


def test_a_few_frames_that_come_again_are_the_networks_doing(tmp_path: Path) -> None:
    with rewindow.open(transfer(0.0004, every=30).write(tmp_path / "some.pcap")) as capture:
        result = capture.replay(["newreno"])
    assert "captured_twice" not in result.summary.oddities
    assert result.connections[0].retransmitted_packets > 0


def test_equal_acks_without_a_number_are_acks(tmp_path: Path) -> None:
    """A burst of duplicate ACKs, neither numbered nor with timestamps, is what reports a loss."""
    trace = Trace()
    trace.handshake(1.0, 0.1, options=b"\x02\x04\x05\xb4")
    for k in range(10):
        trace.packet(1.2 + k * 1e-4, True, 1 + k * MSS, 1001, payload=MSS)
    for k in range(9):
        trace.packet(1.3 + k * 1e-5, False, 1001, 1)
    trace.packet(1.301, True, 1, 1001, payload=MSS)
    trace.packet(1.401, False, 1001, 1 + 10 * MSS)
    with rewindow.open(trace.write(tmp_path / "acks.pcap")) as capture:
        result = capture.replay(["newreno"])
    assert "captured_twice" not in result.summary.oddities
    assert result.acks.num_rows == 10
    assert result.connections[0].subflows[0].fast_retransmits == 1


@pytest.mark.parametrize(("pause", "connections"), [(2.0, 2), (0.5, 1)])
def test_the_same_initial_number_after_the_end(pause: float, connections: int, tmp_path: Path) -> None:
    """Generators and captures that are played again begin with the same number; a SYN that was late comes sooner."""
    trace = Trace()
    for start in (1.0, 1.4 + pause):
        trace.packet(start, True, 0, 0, SYN)
        trace.packet(start + 0.1, False, 1000, 1, SYN | ACK)
        trace.packet(start + 0.1001, True, 1, 1001)
        trace.packet(start + 0.2, True, 1, 1001, payload=MSS)
        trace.packet(start + 0.3, True, 1 + MSS, 1001, FIN | ACK)
        trace.packet(start + 0.4, False, 1001, 2 + MSS, FIN | ACK)
    with rewindow.open(trace.write(tmp_path / "again.pcap")) as capture:
        found = capture.replay().connections
    assert [c.subflows[0].bytes for c in found] == [MSS] * connections
