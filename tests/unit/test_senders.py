"""The reconstructed sender, on traces made for one situation each. Windows are NewReno's as Linux keeps them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import rewindow
from rewindow import Choice, Result
from tests.packets import ACK, AE, CWR, ECE, FIN, RST, SYN, Trace, sack

MSS = 1460
RTT = 0.1


def replayed(trace: Trace, tmp_path: Path, algorithm: str | Choice = "newreno") -> Result:
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        return capture.replay([algorithm])


def marks(result: Result) -> list[str]:
    return [k for k in result.marks["kind"].to_pylist() if k not in ("join", "leave")]


def windows(result: Result, column: str = "cwnd") -> list[float]:
    return result.acks[f"newreno.{column}"].to_pylist()


def segment(trace: Trace, time: float, number: int) -> None:
    trace.packet(time, True, 1 + number * MSS, 1001, payload=MSS)


def ack(trace: Trace, time: float, segments: int, *blocks: tuple[int, int], flags: int = ACK) -> None:
    """Acknowledges `segments`; blocks are segment numbers, the end not included."""
    options = sack(*((1 + a * MSS, 1 + b * MSS) for a, b in blocks)) if blocks else b""
    trace.packet(time, False, 1001, 1 + segments * MSS, flags, options=options)


def ten_in_flight() -> Trace:
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    return trace


def test_slow_start_counts_segments_not_acks(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.3, 1)
    ack(trace, 1.31, 10)  # one stretch ACK
    result = replayed(trace, tmp_path)
    assert windows(result, "cwnd_before") == [10.0, 11.0]
    assert windows(result) == [11.0, 20.0]
    assert result.acks["acked_segments"].to_pylist() == [1, 9]
    assert result.acks["rtt_us"].to_pylist() == [100000, 109900]
    assert marks(result) == []


def test_rack_enters_recovery_at_the_third_sacked_segment_and_prr_leads_to_ssthresh(tmp_path: Path) -> None:
    trace = ten_in_flight()
    for n in (1, 2, 3):  # segment 0 is lost
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    for n in range(4, 10):
        ack(trace, 1.303 + n * 1e-3, 0, (1, 1 + n))
    ack(trace, 1.4035, 10)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit", "recovered"]
    entered = result.marks["row"].to_pylist()[result.marks["kind"].to_pylist().index("fast_retransmit")]
    assert entered == 2
    assert windows(result, "ssthresh")[2] == 5.0
    assert windows(result)[-1] == 5.0
    assert windows(result)[2] == 7.0  # in flight: 10 - 3 sacked - 1 lost = 6, and one more to send
    assert result.connections[0].subflows[0].retransmitted_packets == 1
    assert result.acks["flags"].to_pylist()[0] == "dup|sack"


def test_reordering_is_no_loss(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.301, 0, (1, 2))
    ack(trace, 1.302, 2)
    ack(trace, 1.303, 10)
    result = replayed(trace, tmp_path)
    assert marks(result) == []
    assert windows(result) == [10.0, 11.0, 19.0]  # what was SACKed out of order does not raise the window


def test_timeout_restarts_from_one_segment(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT, options=b"\x02\x04\x05\xb4")  # no SACK: no tail loss probe
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    for i in range(11):  # one by one, as each is acknowledged; without SACK the last one ends it (RFC 6582)
        segment(trace, 1.51 + i * 0.1, i)
        ack(trace, 1.61 + i * 0.1, i + 1)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["timeout", "recovered"]
    assert windows(result, "cwnd_before")[:3] == [1.0, 2.0, 3.0]
    assert windows(result, "ssthresh") == [5.0] * 11
    assert result.connections[0].subflows[0].timeouts == 1


def test_ece_reduces_once_a_window(tmp_path: Path) -> None:
    trace = ten_in_flight()
    for n in range(1, 6):
        ack(trace, 1.3 + n * 1e-3, n, flags=ACK | ECE)
    ack(trace, 1.31, 10)
    segment(trace, 1.311, 10)
    ack(trace, 1.42, 11)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["ece", "recovered"]
    assert windows(result, "ssthresh") == [5.0] * 7
    assert windows(result)[-1] == 5.0
    assert result.connections[0].subflows[0].ece_acks == 5


def test_dsack_undoes_a_spurious_reduction(tmp_path: Path) -> None:
    trace = ten_in_flight()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    ack(trace, 1.31, 5)  # the original of segment 0 arrives late
    ack(trace, 1.404, 8, (0, 1))  # and the copy is reported as a duplicate
    ack(trace, 1.41, 10)
    result = replayed(trace, tmp_path)
    assert marks(result)[:2] == ["fast_retransmit", "undo"]
    assert max(windows(result)[-2:]) >= 10.0
    assert result.connections[0].subflows[0].spurious_retransmissions == 1


@pytest.mark.parametrize("duplicate", [False, True])
def test_tail_loss_probe(duplicate: bool, tmp_path: Path) -> None:
    """A probe that repaired a loss reduces the window once; one that was a duplicate, says the DSACK, does not."""
    trace = ten_in_flight()
    ack(trace, 1.3, 9)
    segment(trace, 1.52, 9)  # the last one, two round trips later
    if duplicate:
        ack(trace, 1.6, 10)
        segment(trace, 1.601, 10)
        ack(trace, 1.62, 10, (9, 10))
        ack(trace, 1.71, 11)
    else:
        segment(trace, 1.55, 10)
        ack(trace, 1.63, 11)
    result = replayed(trace, tmp_path)
    assert marks(result) == ([] if duplicate else ["tail_loss"])
    assert windows(result)[-1] == (20.0 if duplicate else 9.0)


def test_in_recovery_every_hole_is_lost_at_once(tmp_path: Path) -> None:
    """No reordering was seen: within recovery RACK waits for nothing."""
    trace = ten_in_flight()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    ack(trace, 1.304, 0, (5, 6), (1, 4))  # segment 4 is missing too
    segment(trace, 1.3041, 4)
    ack(trace, 1.41, 10)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit", "recovered"]
    # in flight 10 - 4 sacked - 2 lost + 1 sent again; PRR: 5 * 2 delivered / 10 rounds up to the one that was sent
    assert windows(result)[3] == 5.0


def test_f_rto_undoes_a_spurious_timeout(tmp_path: Path) -> None:
    trace = ten_in_flight()
    segment(trace, 1.55, 9)  # the tail loss probe
    segment(trace, 1.95, 0)  # the timeout
    ack(trace, 1.96, 5)  # segments that were never sent again: the originals were only late
    result = replayed(trace, tmp_path)
    assert marks(result)[:2] == ["timeout", "undo"]
    assert windows(result)[-1] >= 10.0


def test_application_that_pauses(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.3, 10)
    segment(trace, 5.0, 10)  # idle for many timeouts
    ack(trace, 5.1, 11)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["idle"]
    assert windows(result, "cwnd_before") == [10.0, 10.0]  # 20, halved until the initial window


def test_window_does_not_grow_while_the_application_limits_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(40):  # one segment a round trip
        segment(trace, 1.2 + i * 0.11, i)
        ack(trace, 1.3 + i * 0.11, i + 1)
    result = replayed(trace, tmp_path)
    assert set(windows(result)) == {10.0}


def test_capture_without_its_beginning(tmp_path: Path) -> None:
    trace = Trace()
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    ack(trace, 1.3, 10)
    result = replayed(trace, tmp_path)
    assert result.summary.oddities["no_handshake"]["count"] == 1
    assert "no_handshake" in result.connections[0].quality
    assert result.connections[0].bytes == 10 * MSS
    assert windows(result, "cwnd_before") == [10.0]


def test_acknowledged_but_never_captured(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.3, 30)
    result = replayed(trace, tmp_path)
    assert result.summary.oddities["unseen_data"]["count"] == 1
    assert result.connections[0].subflows[0].unseen_bytes == 20 * MSS
    assert "unseen_data" in result.connections[0].quality


def test_a_clock_that_is_set_back_counts_on(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(100.0, RTT)
    for i in range(40):
        late = 5.0 if i >= 10 else 0.0
        segment(trace, 100.2 + i * 0.11 - late, i)
        ack(trace, 100.3 + i * 0.11 - late, i + 1)
    times = [t for t, _, _ in trace.records]
    path = tmp_path / "set.pcap"
    whole = trace.bytes()[:24]
    for time_ns, data, wire in trace.records:  # in the order captured
        whole += struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(data), wire) + data
    path.write_bytes(whole)
    with rewindow.open(path) as capture:
        result = capture.replay(["newreno"])
    assert times != sorted(times)
    assert [r for r in result.acks["rtt_us"].to_pylist() if r != 100_000] == []


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    trace = Trace()
    base = 2**32 - 3 * MSS
    trace.packet(1.0, True, base - 1, 0, SYN, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.1, False, 1000, base, SYN | ACK, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.10001, True, base, 1001)
    for i in range(10):
        trace.packet(1.2 + i * 1e-4, True, base + i * MSS, 1001, payload=MSS)
    trace.packet(1.3, False, 1001, base + 10 * MSS)
    result = replayed(trace, tmp_path)
    assert result.connections[0].bytes == 10 * MSS
    assert result.connections[0].retransmitted_packets == 0
    assert windows(result) == [20.0]


def test_direction_is_the_side_that_sent_more(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT)
    trace.packet(1.2, True, 1, 1001, payload=300)
    for i in range(4):
        trace.packet(1.3 + i * 1e-4, False, 1001 + i * MSS, 301, payload=MSS)
    trace.packet(1.301, True, 301, 1001 + 4 * MSS)
    result = replayed(trace, tmp_path)
    subflow = result.connections[0].subflows[0]
    assert (subflow.src, subflow.sport) == ("10.0.0.2", 80)
    assert (subflow.bytes, subflow.reverse_bytes) == (4 * MSS, 300)
    assert subflow.vantage == "receiver"


def test_super_segments_count_as_what_goes_out(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT)
    trace.packet(1.2, True, 1, 1001, payload=10 * MSS)
    ack(trace, 1.3, 10)
    result = replayed(trace, tmp_path)
    assert result.acks["acked_segments"].to_pylist() == [10]
    assert windows(result) == [20.0]


def test_four_tuple_used_again_is_another_connection(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT)
    trace.packet(1.2, True, 1, 1001, payload=100)
    trace.packet(1.3, False, 1001, 101)
    trace.packet(1.4, True, 101, 1001, FIN | ACK)
    trace.packet(2.0, True, 500000, 0, SYN)
    trace.packet(2.1, False, 900000, 500001, SYN | ACK)
    trace.packet(2.10001, True, 500001, 900001, payload=200)
    result = replayed(trace, tmp_path)
    assert [c.bytes for c in result.connections] == [100, 200]


def beside_the_receiver(trace: Trace, ident: int = 0) -> None:
    trace.packet(1.0, True, 0, 0, SYN, options=b"\x02\x04\x05\xb4\x04\x02", ident=ident)
    trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.1, True, 1, 1001, ident=ident + 1)


@pytest.mark.parametrize(("late_s", "retransmitted"), [(0.001, 1), (0.2, 4)], ids=["reordered", "sent again"])
def test_a_hole_filled_by_packets_of_other_sizes(tmp_path: Path, late_s: float, retransmitted: int) -> None:
    """Each byte counts once, whatever packets fill a hole; a hole that is old was filled by retransmission."""
    trace = Trace()
    beside_the_receiver(trace)
    trace.packet(1.2, True, 1, 1001, payload=500)
    trace.packet(1.3, True, 601, 1001, payload=MSS)  # 100 bytes are missing
    trace.packet(1.5, True, 601 + MSS + 2500, 1001, payload=MSS)  # and 2500
    trace.packet(1.5004, True, 501, 1001, payload=100)
    trace.packet(1.5004, False, 1001, 601 + MSS)
    first = 601 + MSS
    for i, size in enumerate((1200, 300, 1000)):
        trace.packet(1.5 + late_s + i * 1e-4, True, first, 1001, payload=size)
        first += size
    trace.packet(2.0, False, 1001, first + MSS)
    trace.packet(2.1, True, first + 2 * MSS + 100, 1001, FIN | ACK, payload=100)  # the last but one is missing
    trace.packet(2.5, True, first + MSS, 1001, payload=MSS)
    trace.packet(2.51, True, first + 2 * MSS, 1001, payload=200, flags=FIN | ACK)
    trace.packet(2.52, False, 1001, first + 2 * MSS + 201)
    [subflow] = replayed(trace, tmp_path).connections[0].subflows
    assert subflow.bytes == first - 1 + 2 * MSS + 200
    assert subflow.retransmitted_packets == retransmitted + 2
    assert subflow.unseen_bytes == 0


@pytest.mark.parametrize("again", [True, False], ids=["sent again", "overtaken"])
def test_packets_that_were_overtaken_are_told_by_their_numbers(tmp_path: Path, again: bool) -> None:
    """For longer than capture points reorder packets, but within a round trip; what was sent again has new numbers."""
    trace = Trace()
    beside_the_receiver(trace, ident=1)
    order = [*range(10), 14, 10, 11, 12, 13, *range(15, 20)]
    for time, place in enumerate(order):
        ident = 7 + time if again and time > 10 else 3 + place
        trace.packet(1.2 + time * 0.005, True, 1 + place * MSS, 1001, payload=MSS, ident=ident)
    trace.packet(2.0, False, 1001, 1 + 20 * MSS)
    [subflow] = replayed(trace, tmp_path).connections[0].subflows
    assert subflow.retransmitted_packets == (4 if again else 0)
    assert subflow.bytes == 20 * MSS


@pytest.mark.parametrize("late_s", [0.05, 0.2], ids=["within a round trip", "later"])
@pytest.mark.parametrize("number", [1 + 3 * MSS, 1 + 1000 * MSS], ids=["within the window", "beyond it"])
def test_an_ack_tells_of_data_that_was_lost_before_the_capture(tmp_path: Path, number: int, late_s: float) -> None:
    """A whole answer is lost; the next ACK has the number after it. What then comes is a repetition."""
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.1, True, 1, 1001)
    trace.packet(1.2, False, 1001, 1, payload=100)
    trace.packet(1.31, True, number, 1101)
    for i in range(3):
        trace.packet(1.31 + late_s + i * 1e-3, True, 1 + i * MSS, 1101, payload=MSS)
        trace.packet(1.31 + late_s + i * 1e-3 + 1e-5, False, 1101, 1 + (i + 1) * MSS)
    result = replayed(trace, tmp_path)
    [subflow] = result.connections[0].subflows
    assert subflow.vantage == "receiver"
    assert subflow.bytes == 3 * MSS
    assert subflow.retransmitted_packets == (3 if number == 1 + 3 * MSS else 0)
    assert "unseen_data" not in subflow.quality


@pytest.mark.parametrize("taken", [True, False], ids=["probe taken", "probe dropped"])
def test_probes_of_a_closed_window_are_no_losses(tmp_path: Path, taken: bool) -> None:
    """RFC 9293 3.8.6.1, as BSD does it: the next byte, again and again; whether it is taken in the end or not."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    trace.packet(1.2, True, 1, 1001, payload=1000)
    trace.packet(1.3, False, 1001, 1001, window=0)
    for time in (2.0, 4.0, 8.0, 16.0):
        trace.packet(time, True, 1001, 1001, payload=1)
        trace.packet(time + RTT, False, 1001, 1001, window=0)
    trace.packet(32.0, True, 1001, 1001, payload=1)
    trace.packet(32.1, False, 1001, 1001 + taken, window=65535)
    for i in range(5):
        trace.packet(32.2 + i * RTT, True, 1001 + taken + i * MSS, 1001, payload=MSS)
        trace.packet(32.3 + i * RTT, False, 1001, 1001 + taken + (i + 1) * MSS)
    result = replayed(trace, tmp_path)
    [subflow] = result.connections[0].subflows
    assert (subflow.retransmitted_packets, subflow.timeouts, subflow.unseen_bytes) == (0, 0, 0)
    assert subflow.bytes == 1000 + taken + 5 * MSS
    assert "unseen_data" not in result.summary.oddities


@pytest.mark.parametrize("data_from_client", [True, False])
@pytest.mark.parametrize("answer", ["refused", "another connection's"])
def test_an_attempt_that_fails_and_is_made_again(tmp_path: Path, data_from_client: bool, answer: str) -> None:
    """With the same initial sequence number, half a second later: one flow, which begins with the second attempt."""
    trace = Trace()
    trace.packet(1.0, True, 5000, 0, SYN)
    if answer == "refused":
        trace.packet(1.01, False, 0, 5001, RST | ACK)
    else:  # RFC 5961: the host still has a connection of these ports, and says where it is
        trace.packet(1.01, False, 4_000_000_000, 300_000_000, ACK)
        trace.packet(1.010001, True, 300_000_000, 0, RST)
    trace.packet(1.5, True, 5000, 0, SYN)
    trace.packet(1.51, False, 2_000_000_000, 5001, SYN | ACK)
    trace.packet(1.510001, True, 5001, 2_000_000_001)
    for i in range(5):
        if data_from_client:
            trace.packet(1.6 + i / 10, True, 5001 + 100 * i, 2_000_000_001, payload=100)
            trace.packet(1.61 + i / 10, False, 2_000_000_001, 5101 + 100 * i)
        else:
            trace.packet(1.61 + i / 10, False, 2_000_000_001 + 100 * i, 5001, payload=100)
            trace.packet(1.610001 + i / 10, True, 5001, 2_000_000_101 + 100 * i)
    result = replayed(trace, tmp_path)
    [connection] = result.connections
    [subflow] = connection.subflows
    assert subflow.src == ("10.0.0.1" if data_from_client else "10.0.0.2")
    assert subflow.bytes == 500
    assert result.acks["acked_bytes"].to_pylist() == [100] * 5
    assert subflow.rtt_median_us == 10_000 if data_from_client else subflow.vantage == "receiver"
    assert subflow.retransmitted_packets == data_from_client, "the SYN"


@pytest.mark.parametrize("gap", range(1, 4))
def test_behind_the_sender_missing_packet_numbers_are_lost_retransmissions(tmp_path: Path, gap: int) -> None:
    """Beside the receiver a retransmission that was lost too is seen only as a gap in the IPv4 identification."""
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, options=b"\x02\x04\x05\xb4\x04\x02", ident=1)
    trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.1, True, 1, 1001, ident=2)
    number = 3
    for i in range(8):
        if i != 2:
            trace.packet(1.1 + i * 1e-3, True, 1 + i * MSS, 1001, payload=MSS, ident=number)
        number += 1
    trace.packet(1.3, True, 1 + 2 * MSS, 1001, payload=MSS, ident=number + gap)
    trace.packet(1.30001, False, 1001, 1 + 8 * MSS)
    result = replayed(trace, tmp_path)
    assert result.summary.vantage == "receiver"
    assert result.connections[0].retransmitted_packets == 1 + gap


def stamped(value: int, echo: int) -> bytes:
    return struct.pack("!BBBBII", 1, 1, 8, 10, value, echo)


def transfer_behind_a_queue(wait: float) -> Trace:
    """A sender of ten segments per 40 ms round trip, each captured `wait` seconds after TCP sent it; ACKs at once."""
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN, options=options + stamped(1000, 0))
    trace.packet(1.04, False, 1000, 1, SYN | ACK, options=options + stamped(9000, 1000))
    trace.packet(1.04001, True, 1, 1001, options=stamped(1040, 9000))
    acked = 0
    for turn in range(20):
        start = 1.05 + turn * 0.04
        for k in range(10):
            data = 1 + (acked + k) * MSS
            trace.packet(start + wait * (k > 0), True, data, 1001, payload=MSS,
                         options=stamped(round(start * 1000), 9000 + turn))  # fmt: skip
        acked += 10
        trace.packet(start + 0.0399, False, 1001, 1 + acked * MSS, options=stamped(9001 + turn, round(start * 1000)))
    return trace


def test_data_behind_a_queue_of_the_host_counts_from_when_tcp_sent_it(tmp_path: Path) -> None:
    result = replayed(transfer_behind_a_queue(0.02), tmp_path)
    assert result.summary.vantage == "sender"
    assert result.connections[0].subflows[0].send_times == "timestamps"
    rtts = [r for r in result.acks["rtt_us"].to_pylist() if r]
    assert len(rtts) == 20
    assert all(39_000 <= r <= 41_000 for r in rtts)
    assert set(result.acks["in_flight_bytes"].to_pylist()) == {10 * MSS}


def test_data_captured_as_it_is_sent_is_taken_as_it_is(tmp_path: Path) -> None:
    result = replayed(transfer_behind_a_queue(0.0), tmp_path)
    assert result.connections[0].subflows[0].send_times == "captured"


def test_a_stamp_ahead_of_the_clock_shows_no_queue(tmp_path: Path) -> None:
    """Linux stamps an ACK without data of a paced sender with the time at which its next data may leave."""
    trace = transfer_behind_a_queue(0.0)
    trace.packet(1.2505, True, 1 + 60 * MSS, 1001, options=stamped(1250 + 8, 9005))
    trace.records.sort(key=lambda record: record[0])
    result = replayed(trace, tmp_path)
    assert result.connections[0].subflows[0].send_times == "captured"


@pytest.mark.parametrize(("segments", "coarse"), [(10, False), (30, True)])
def test_beside_the_receiver_flights_and_round_trips_are_the_senders(
    segments: int, coarse: bool, tmp_path: Path
) -> None:
    """40 ms away from the sender: each ACK frees the data that passes one round trip later."""
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN, options=options + stamped(980, 0))
    trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=options + stamped(9000, 980))
    trace.packet(1.04, True, 1, 1001, options=stamped(1020, 9000))
    for turn in range(20):
        start = 1.041 + turn * 0.041
        for k in range(segments):
            sent = round((start - 0.02) * 1000)
            trace.packet(start + k * 1e-5, True, 1 + (turn * segments + k) * MSS, 1001, payload=MSS,
                         options=stamped(sent, 9000 + turn * 41))  # fmt: skip
        trace.packet(start + 1e-3, False, 1001, 1 + (turn + 1) * segments * MSS,
                     options=stamped(9041 + turn * 41, round((start - 0.02) * 1000)))  # fmt: skip
    result = replayed(trace, tmp_path)
    assert result.summary.vantage == "receiver"
    assert result.connections[0].subflows[0].send_times == "timestamps"
    # Closer than the ticks of that clock nobody knows what an ACK found in flight.
    assert ("send_times_coarse" in result.connections[0].subflows[0].quality) == coarse
    assert set(result.acks["in_flight_bytes"].to_pylist()) == {segments * MSS}
    rtts = [r for r in result.acks["rtt_us"].to_pylist()[2:] if r]
    assert rtts
    assert all(40_000 <= r <= 42_000 for r in rtts)


def test_packet_numbers_missing_while_nothing_is_lost_were_used_elsewhere(tmp_path: Path) -> None:
    """A host that numbers all its packets from one counter; in order, within one round trip, nothing was sent again."""
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, options=b"\x02\x04\x05\xb4\x04\x02", ident=1)
    trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=b"\x02\x04\x05\xb4\x04\x02")
    trace.packet(1.1, True, 1, 1001, ident=5)
    for i in range(12):
        trace.packet(1.1 + i * 1e-3, True, 1 + i * MSS, 1001, payload=MSS, ident=100 + i + 6 * (i > 9))
    trace.packet(1.2, False, 1001, 1 + 12 * MSS)
    result = replayed(trace, tmp_path)
    assert result.summary.vantage == "receiver"
    assert result.connections[0].retransmitted_packets == 0


def test_accurate_ecn_counts_marks_and_does_not_echo_them(tmp_path: Path) -> None:
    """The three bits start at 5 (RFC 9768): what classic ECN would take for an echo is a count without a mark."""
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN | AE | CWR | ECE, options=options)
    trace.packet(1.1, False, 1000, 1, SYN | ACK | CWR, options=options)
    trace.packet(1.10001, True, 1, 1001)
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    ack(trace, 1.3, 1, flags=ACK | AE | ECE)  # 5
    ack(trace, 1.31, 2, flags=ACK | AE | ECE)
    ack(trace, 1.32, 3, flags=ACK | AE | CWR)  # 6: a mark
    ack(trace, 1.33, 4, flags=ACK | AE | CWR)
    result = replayed(trace, tmp_path)
    (subflow,) = result.connections[0].subflows
    assert subflow.ecn == "accurate"
    assert subflow.ece_acks == 1
    assert marks(result) == ["ece"]
    assert windows(result, "ssthresh")[2:] == [6.0, 6.0]  # half of 12, at the third ACK


def timed_transfer(gap: float, rounds: int) -> Trace:
    """Eight segments a round trip of 0.1 s, `gap` apart, each acknowledged as it arrives."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(8 * rounds):
        start = 1.2 + i // 8 * (8 * gap if gap > 1e-3 else RTT) + i % 8 * gap
        segment(trace, start, i)
        ack(trace, start + RTT, i + 1)
    return trace


@pytest.mark.parametrize(("gap", "paced"), [(0.0123, True), (2e-5, False)])
def test_data_that_leaves_on_a_timer_is_paced(gap: float, paced: bool, tmp_path: Path) -> None:
    result = replayed(timed_transfer(gap, 20), tmp_path)
    assert result.connections[0].subflows[0].paced == paced


def test_bbr_probes_the_round_trip_ten_seconds_after_the_handshake(tmp_path: Path) -> None:
    """Its time runs from the handshake's round trip (BBRInit), here from 1.1 s on, not from the first ACK at 1.92 s."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(280):
        segment(trace, 1.8 + 0.04 * i, i)
        ack(trace, 1.8 + 0.04 * i + 0.12, i + 1)
    acks = replayed(trace, tmp_path, "bbr").acks.to_pydict()
    entered = acks["time_ns"][acks["bbr.phase"].index("probe_rtt") - 1]
    assert 11.1e9 < entered <= 11.16e9


def test_a_wait_after_a_burst_that_an_ack_released_is_not_a_pace(tmp_path: Path) -> None:
    """Linux makes up for a part of a delay: only between two bursts that its timer let go is the time its pace's."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(400):
        start = 1.2 + i * 0.01
        segment(trace, start + (1e-5 if i % 2 else 3e-3), i)  # every other one right after an ACK
        ack(trace, start + RTT, i + 1)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture, capture.stream(["bbr"]) as replay:
        replay.run()
        (row,) = replay._window_rows(0, 0, 1)
        assert int(row["rows"]) == 400
        assert int(row["paced_rows"]) < 5  # before the first ACK


def test_one_packet_may_release_more_marks_than_a_batch_has_rows(tmp_path: Path) -> None:
    """Beside the receiver, a round trip of 3.9 s: 4500 packets wait, and what they do is seen at the same moment."""
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN, options=options)
    trace.packet(1.001, False, 1000, 1, SYN | ACK, options=options)
    trace.packet(4.9, True, 1, 1001)
    trace.packet(5.0, False, 1001, 1)
    for i in range(1500):  # each time the sequence jumps too far to be followed, then a segment is sent twice
        start = 1 + i * 100_002_000
        for k, number in enumerate((start, start + 1000, start + 1000)):
            at = 5.05 + i * 1.5e-4 + k * 5e-5
            trace.packet(at, True, number & 0xFFFFFFFF, 1001, payload=1000, ident=1 + 3 * i + k)  # numbered: no copies
    trace.packet(7.0, False, 1001, 1)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture, capture.stream(["newreno"], batch_rows=1) as r:
        found = [kind for batch in r for kind in batch.marks["kind"].to_pylist()]
    assert found.count("fast_retransmit") > 1400


def lossy_flight(kind: str) -> Trace:
    """A hundred segments at once; the loss of the first is told by SACKs, by its retransmission, by a timeout after."""
    trace = Trace()
    trace.handshake(1.0, 0.05)
    for k in range(100):
        trace.packet(1.06 + k * 1e-5, True, 1 + k * MSS, 1001, payload=MSS)
    if kind != "retransmission":
        for k in range(1, 40):
            ack(trace, 1.115 + k * 1e-5, 0, (1, k + 1))
    segment(trace, 1.13, 0)
    if kind == "timeout":
        segment(trace, 1.9, 0)
    ack(trace, 1.96, 100)
    for k in range(100, 110):
        trace.packet(2.1 + k * 1e-5, True, 1 + k * MSS, 1001, payload=MSS)
    ack(trace, 2.2, 110)
    return trace


@pytest.mark.parametrize(("kind", "spared"), [("sacks", True), ("retransmission", True), ("timeout", False)])
def test_losses_that_a_window_did_not_reach_are_spared_but_timeouts_are_not(
    kind: str, spared: bool, tmp_path: Path
) -> None:
    with rewindow.open(lossy_flight(kind).write(tmp_path / "trace.pcap")) as capture:
        last = [
            capture.replay([rewindow.Choice("newreno", {"losses": losses})]).acks["newreno.ssthresh"].to_pylist()[-1]
            for losses in ("recorded", "reached")
        ]
    assert last[0] <= 50
    assert (last[1] == float("inf")) == spared


def test_accurate_ecn_of_an_overtaken_ack_is_no_count(tmp_path: Path) -> None:
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN | AE | CWR | ECE, options=options)
    trace.packet(1.1, False, 1000, 1, SYN | ACK | CWR, options=options)
    trace.packet(1.10001, True, 1, 1001)
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    ack(trace, 1.3, 2, flags=ACK | AE | CWR)  # 6 from the first ACK on: a mark
    ack(trace, 1.31, 1, flags=ACK | AE | ECE)  # 5, sent before it
    ack(trace, 1.32, 3, flags=ACK | AE | CWR)
    assert replayed(trace, tmp_path).connections[0].subflows[0].ece_acks == 1


@pytest.mark.parametrize(
    ("where", "syns", "answers", "sampled"),
    [
        ("client", 1, 1, True),
        ("client", 2, 1, False),
        ("server", 1, 1, True),
        ("server", 1, 2, False),
        ("receiver", 1, 1, True),
        ("receiver", 2, 1, False),
        ("receiver", 1, 2, False),
    ],
)
def test_a_handshake_that_was_sent_again_gives_no_sample(
    where: str, syns: int, answers: int, sampled: bool, tmp_path: Path
) -> None:
    """Karn's algorithm (RFC 6298 3), beside the data's sender, which opens the connection or answers, and beside its
    receiver."""
    trace, options, time = Trace(), b"\x02\x04\x05\xb4\x04\x02", 1.0
    to, fro = (0.0, 0.05) if where == "client" else (0.05, 0.0)
    for again in range(syns):
        trace.packet(time + again, True, 0, 0, SYN, options=options, ident=again + 1)
    time += syns - 1 + fro + 1e-5
    for again in range(answers):
        trace.packet(time + again, False, 1000, 1, SYN | ACK, options=options, ident=again + 1)
    time += answers - 1 + to + 1e-5
    trace.packet(time, True, 1, 1001, ident=10)
    client = where != "server"
    ends = (1, 1001) if client else (1001, 1)
    trace.packet(time + 1, client, ends[0], ends[1], payload=MSS, ident=20)
    trace.packet(time + 1.1, not client, ends[1], ends[0] + MSS, ident=20)
    result = replayed(trace, tmp_path)
    subflow = result.connections[0].subflows[0]
    assert subflow.vantage == ("receiver" if where == "receiver" else "sender")
    [before] = result.acks["srtt_us"].to_pylist()  # its own sample not included
    assert before == (pytest.approx(50000, abs=60) if sampled else None)


def test_data_that_follows_the_answer_to_data_in_a_syn(tmp_path: Path) -> None:
    """RFC 7413, beside the receiver: what the server sends before the handshake ends is sent once."""
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, payload=100, options=b"\x02\x04\x05\xb4")
    trace.packet(1.0 + RTT, False, 1000, 101, SYN | ACK, options=b"\x02\x04\x05\xb4")
    trace.packet(1.0 + RTT + 1e-4, False, 1001, 101, payload=MSS)
    trace.packet(1.0 + RTT + 2e-4, True, 101, 1001 + MSS)
    subflow = replayed(trace, tmp_path).connections[0].subflows[0]
    assert (subflow.vantage, subflow.send_times, subflow.bytes) == ("receiver", "round_trip", MSS)
    assert subflow.retransmitted_packets == 0


def test_both_sides_open_at_once(tmp_path: Path) -> None:
    """RFC 9293 3.5: a SYN, then with the same number the answer to the other's."""
    trace = Trace()
    options = b"\x02\x04\x05\xb4"
    trace.packet(1.0, True, 0, 0, SYN, options=options)
    trace.packet(1.01, False, 1000, 0, SYN, options=options)
    trace.packet(1.0101, True, 0, 1001, SYN | ACK, options=options)
    trace.packet(1.06, False, 1000, 1, SYN | ACK, options=options)
    segment(trace, 1.1, 0)
    ack(trace, 1.2, 1)
    [connection] = replayed(trace, tmp_path).connections
    assert connection.subflows[0].retransmitted_packets == 0
    trace.packet(1.05, True, 0, 1001, SYN | ACK, options=options)  # this one is sent again
    [connection] = replayed(trace, tmp_path).connections
    assert connection.subflows[0].retransmitted_packets == 1
