"""What Linux senders do beyond the RFCs, each as a small trace. Replays departed there from the kernel's window."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rewindow import Choice
from tests.packets import ACK, SYN, Trace, sack
from tests.unit.test_senders import MSS, RTT, ack, marks, replayed, segment, stamped, ten_in_flight, windows


def stamped_flight(segments: int = 20) -> Trace:
    """`segments` at 1.2 s, TSval 1200; the sender's clock counts milliseconds, and began at 0."""
    trace, options = Trace(), b"\x02\x04\x05\xc0\x04\x02"  # 12 bytes of timestamps leave MSS
    trace.packet(0.8, True, 0, 0, SYN, options=options + stamped(800, 0))
    trace.packet(0.9, False, 1000, 1, SYN | ACK, options=options + stamped(9000, 800))
    trace.packet(0.90001, True, 1, 1001, options=stamped(900, 9000))
    for i in range(segments):
        sent(trace, 1.2, i)
    return trace


def sent(trace: Trace, time: float, number: int, value: int | None = None) -> None:
    value = int(time * 1000) if value is None else value
    trace.packet(time, True, 1 + number * MSS, 1001, payload=MSS, options=stamped(value, 9000))


def answered(trace: Trace, time: float, segments: int, echo: int, *blocks: tuple[int, int]) -> None:
    options = stamped(9000 + int(time * 1000), echo)
    if blocks:
        options += sack(*((1 + a * MSS, 1 + b * MSS) for a, b in blocks))
    trace.packet(time, False, 1001, 1 + segments * MSS, options=options)


@pytest.mark.parametrize(("arrived", "ticks"), [(2.2036, 100), (2.2039, 100), (2.20398, 101)])
def test_what_was_sent_again_and_arrived_gives_a_round_trip_by_its_echo(
    arrived: float, ticks: int, tmp_path: Path
) -> None:
    """In the sender's ticks. It reads its clock some 40 us after the capture has seen the ACK."""
    trace = stamped_flight(1)
    for i in range(1, 40):  # until the clock is known
        sent(trace, 1.2 + i * 0.02, i)
        answered(trace, 1.21 + i * 0.02, i, 1180 + i * 20)
    answered(trace, 1.995, 40, 1980)
    for i in (40, 41, 42, 43):
        sent(trace, 2.0, i)
    for n in (1, 2, 3):
        answered(trace, 2.1 + n * 1e-3, 40, 1980, (41, 41 + n))
    sent(trace, 2.1031, 40)
    answered(trace, arrived, 44, 2103)  # covers the retransmission, and nothing else that was not SACKed before
    assert replayed(trace, tmp_path).acks["rtt_us"].to_pylist()[-1] == ticks * 1000


def test_an_echo_older_than_a_retransmission_does_not_deliver_it_for_rack(tmp_path: Path) -> None:
    """Segments 1 and 2 came late, before their retransmissions at 1.31 could: what was sent at 1.305 is not lost."""
    trace = stamped_flight(10)
    answered(trace, 1.3, 0, 1200, (3, 6))
    sent(trace, 1.3001, 0)
    sent(trace, 1.305, 10)
    for i in (1, 2):
        sent(trace, 1.31, i)
    answered(trace, 1.415, 6, 1300)
    answered(trace, 1.416, 6, 1300)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit"]
    assert result.acks["in_flight_bytes"].to_pylist()[-1] == MSS  # 6 to 9 are lost, 10 is on its way


def test_reordering_found_by_timestamps_counts_from_what_was_missing(tmp_path: Path) -> None:
    """Nine segments overtook one. From then on three SACKed ones are no loss, and raise the window out of order."""
    trace = stamped_flight(20)
    for n in (1, 2, 3):
        answered(trace, 1.3 + n * 1e-3, 0, 1200, (1, 1 + n))
    sent(trace, 1.3031, 0)
    answered(trace, 1.31, 10, 1200)
    for n in (1, 2, 3):
        answered(trace, 1.32 + n * 1e-3, 10, 1200, (11, 11 + n))
    answered(trace, 1.33, 20, 1200)
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit", "undo"]
    assert windows(result)[4:7] == [w + 1 for w in windows(result)[3:6]]


def test_a_duplicate_that_the_network_made_is_nothing_to_the_sender(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.3, 5)
    ack(trace, 1.301, 5, (0, 1))  # nothing was ever sent again
    ack(trace, 1.302, 10)
    result = replayed(trace, tmp_path)
    assert result.connections[0].subflows[0].spurious_retransmissions == 0
    assert result.acks["acked_segments"].to_pylist() == [5, 0, 5]


@pytest.mark.parametrize("above", [False, True])
def test_a_retransmission_that_came_twice_was_delivered(above: bool, tmp_path: Path) -> None:
    """RFC 2883 reports it below the cumulative ACK, or above within a second block."""
    trace = ten_in_flight()
    for n in (3, 4, 5):  # 0 and 2 are missing
        ack(trace, 1.3 + n * 1e-3, 0, (3, 1 + n), (1, 2))
    segment(trace, 1.3061, 0)
    segment(trace, 1.3062, 2)
    if above:
        ack(trace, 1.31, 0, (1, 6))  # the original of 2
        ack(trace, 1.405, 0, (2, 3), (1, 6))
    else:
        ack(trace, 1.31, 6)
        ack(trace, 1.405, 6, (2, 3))
    result = replayed(trace, tmp_path)
    assert result.connections[0].subflows[0].spurious_retransmissions == 1
    assert result.acks["acked_segments"].to_pylist()[-1] == 1


def test_segments_of_one_burst_were_sent_at_one_time(tmp_path: Path) -> None:
    """One ACK acknowledges the first and shows holes: RACK finds them no younger than what arrived."""
    trace = ten_in_flight()
    ack(trace, 1.3, 10)
    for i in range(10, 20):
        segment(trace, 1.30001 + i * 2e-6, i)
    ack(trace, 1.4, 11, (14, 20))
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit"]


def test_a_larger_initial_window_shows_before_the_first_ack(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(30):
        segment(trace, 1.2 + i * 1e-5, i)
    ack(trace, 1.3, 2)
    ack(trace, 1.301, 30)
    segment(trace, 9.0, 30)  # after an idle time it begins there again
    ack(trace, 9.1, 31)
    assert windows(replayed(trace, tmp_path), "cwnd_before") == [30.0, 32.0, 30.0]


@pytest.mark.parametrize("pause", [0.05, 1.0])
def test_a_larger_initial_window_shows_in_the_first_flight_that_fills_it(pause: float, tmp_path: Path) -> None:
    """An answer of three segments, then one of thirty; after an idle time too, which has nothing to take back."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(3):
        segment(trace, 1.2 + i * 1e-5, i)
    ack(trace, 1.3, 3)
    for i in range(3, 33):
        segment(trace, 1.3 + pause + i * 1e-5, i)
    ack(trace, 1.4 + pause, 33)
    assert windows(replayed(trace, tmp_path), "cwnd_before") == [10.0, 30.0]


def test_a_window_that_grew_before_the_capture_is_what_is_in_flight(tmp_path: Path) -> None:
    """40 and 41 segments, then a loss: from its reduction on the window is known."""
    trace = Trace()
    for i in range(40):
        segment(trace, 1.0 + i * 1e-5, i)
    ack(trace, 1.1, 40)
    for i in range(40, 81):
        segment(trace, 1.10001 + i * 1e-6, i)
    ack(trace, 1.201, 41)
    for n in (1, 2, 3):
        ack(trace, 1.202 + n * 1e-3, 41, (42, 42 + n))
    segment(trace, 1.2051, 41)
    ack(trace, 1.31, 81)
    for i in range(81, 101):
        segment(trace, 1.3101 + i * 1e-6, i)
    ack(trace, 1.42, 101)
    result = replayed(trace, tmp_path)
    assert windows(result, "cwnd_before")[:3] == [40.0, 41.0, 41.0]
    assert windows(result, "ssthresh")[-1] == 20.0
    assert windows(result)[-2:] == [21.0, 22.0]


def test_losses_in_the_first_round_trip_of_a_capture_may_have_been_seen_before_it(tmp_path: Path) -> None:
    """What it does not show looks lost; the window goes on being what is in flight."""
    trace = Trace()
    ack(trace, 1.0, 0)
    for i in range(10, 30):
        segment(trace, 1.001 + i * 1e-5, i)
    ack(trace, 1.1, 0, (10, 14))
    ack(trace, 1.11, 30)
    for i in range(30, 55):
        segment(trace, 1.2 + i * 1e-5, i)
    ack(trace, 1.3, 55)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[-1] == 25.0


def test_a_tail_loss_probe_is_no_sign_of_a_larger_initial_window(tmp_path: Path) -> None:
    trace = ten_in_flight()
    segment(trace, 1.41, 10)
    ack(trace, 1.45, 11)
    assert windows(replayed(trace, tmp_path), "cwnd_before") == [10.0]


def test_a_window_that_an_application_does_not_use_stays(tmp_path: Path) -> None:
    trace = ten_in_flight()
    ack(trace, 1.3, 10)
    for i in range(10, 30):
        segment(trace, 1.31 + i * 1e-5, i)
    ack(trace, 1.41, 30)
    for i in range(20):  # two segments every 100 ms: never idle for a timeout
        for k in (0, 1):
            segment(trace, 1.5 + i * 0.1 + k * 1e-5, 30 + 2 * i + k)
        ack(trace, 1.59 + i * 0.1, 32 + 2 * i)
    assert windows(replayed(trace, tmp_path))[-20:] == [40.0] * 20


def grown_to_80(window: int = 65535, gap: float = 1e-5) -> Trace:
    """70 segments were sent and acknowledged at 1.52 s, with this receiver's window; the timeout is 300 ms. gap:
    between the last 40 of them, seconds."""
    trace = ten_in_flight()
    ack(trace, 1.3, 10)
    for i in range(10, 30):
        segment(trace, 1.31 + i * 1e-5, i)
    ack(trace, 1.41, 30)
    for i in range(30, 70):
        segment(trace, 1.42 + (i - 30) * gap, i)
    trace.packet(1.52, False, 1001, 1 + 70 * MSS, window=window)
    return trace


def mapping(first: int, segments: int, more: int = 0) -> bytes:
    """The option that maps the data of `segments` full segments, and `more` bytes, from this segment on."""
    start = 1 + first * MSS
    return struct.pack("!BBBBIIH", 30, 14, 0x20, 0x04, start, start, segments * (MSS - 16) + more)


@pytest.mark.parametrize(
    ("mapped", "sent", "window"), [(20, 20, 40.0), (44, 40, 40.0), (44, 20, 20.0), (44, 10, 10.0), (20, 10, 10.0)]
)  # fmt: skip
def test_mptcp_fills_an_idle_subflow_before_it_sends(mapped: int, sent: int, window: float, tmp_path: Path) -> None:
    """Each mapping queued halves the idle window. Those that are as long as may be have another behind them; the
    flight that ends within one shows the window itself."""
    trace, size = grown_to_80(), MSS - 16
    start = 1 + 70 * MSS
    options = mapping(70, mapped, 16 * mapped)
    for i in range(sent):
        last = i == sent - 1 and sent == mapped
        trace.packet(1.9 + i * 1e-6, True, start + i * size, 1001, payload=size + last * 16 * mapped, options=options)
    trace.packet(2.0, False, 1001, start + size)
    assert windows(replayed(trace, tmp_path), "cwnd_before") == [10.0, 20.0, 40.0, window]


@pytest.mark.parametrize(("gap", "window"), [(1e-6, 20.0), (0.0045, 40.0)])
def test_data_that_other_subflows_ack_releases_is_not_paced(gap: float, window: float, tmp_path: Path) -> None:
    """Much of the data followed no ACK of this subflow. A flight after which the sender is quiet for most of the round
    trip filled its window all the same; one that goes on until the ACK may be paced."""
    trace, size, start = grown_to_80(gap=2.5e-4), MSS - 16, 1 + 70 * MSS
    for i in range(20):
        trace.packet(1.9 + i * gap, True, start + i * size, 1001, payload=size, options=mapping(70, 44))
    trace.packet(2.0, False, 1001, start + size)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[-1] == window


@pytest.mark.parametrize(
    ("sent", "mapped", "window"), [(18, 40, 20.0), (17, 40, 20.0), (16, 40, 40.0), (18, 18, 40.0)]
)  # fmt: skip
def test_a_later_flight_shows_that_mptcp_halved_an_idle_window_twice(
    sent: int, mapped: int, window: float, tmp_path: Path
) -> None:
    """Two segments and 28 bytes are all that there is to send after the idle time. The next flight has more
    behind it."""
    trace, size, start = grown_to_80(), MSS - 16, 1 + 70 * MSS
    for i, payload in enumerate((size, size, 28)):
        trace.packet(1.9 + i * 1e-6, True, start + i * size, 1001, payload=payload, options=mapping(70, 2, 28))
    trace.packet(2.0, False, 1001, start + size)
    more = struct.pack("!BBBBIIH", 30, 14, 0x20, 0x04, start + 2 * size + 28, start, mapped * size)
    for i in range(sent):
        end = start + 2 * size + 28 + i * size
        trace.packet(2.002 + i * 1e-6, True, end, 1001, payload=size, options=more)
    trace.packet(2.004, False, 1001, start + 2 * size)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[-2:] == [40.0, window]


def test_a_window_that_outlasts_idle_times(tmp_path: Path) -> None:
    """tcp_slow_start_after_idle=0: flights after idle times are larger than a reduced window. The second one tells."""
    trace, sent = grown_to_80(), 70
    for turn, flight in enumerate((75, 150, 20)):
        for i in range(flight):
            segment(trace, 1.9 + turn * 0.5 + i * 1e-6, sent + i)
        ack(trace, 2.0 + turn * 0.5, sent + flight)
        sent += flight
    result = replayed(trace, tmp_path)
    assert windows(result, "cwnd_before")[3:] == [80.0, 155.0, 305.0]
    assert windows(result, "ssthresh") == [float("inf")] * 6


def test_a_window_that_outlasts_an_idle_time_keeps_its_fraction(tmp_path: Path) -> None:
    """While the kernel leaves its window alone, a controller keeps the part of a segment that it has grown by."""
    trace = grown_to_80()
    for i in range(70, 90):
        segment(trace, 1.9 + i * 1e-6, i)
    ack(trace, 2.0, 90)
    steps = Choice("css", {"mode": "kernel", "L": "2.3"})
    windows_before = replayed(trace, tmp_path, steps).acks["css.cwnd_before"].to_pylist()
    assert windows_before == pytest.approx([10, 12.3, 14.6, 16.9], abs=0.001)


@pytest.mark.parametrize(("quiet", "window"), [(0.3015, 80.0), (0.3035, 40.0)])
def test_idle_times_are_compared_in_ticks(quiet: float, window: float, tmp_path: Path) -> None:
    """Linux's timeout is rounded up to ticks of 4 ms, and so many must have passed and one more."""
    trace = grown_to_80()
    segment(trace, 1.42039 + quiet, 70)
    ack(trace, 1.83, 71)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[-1] == window


def test_a_later_flight_shows_that_a_window_outlasted_an_idle_time(tmp_path: Path) -> None:
    """The first flight after it is small, the next one fills the window that there was before."""
    trace = grown_to_80()
    for i in range(70, 80):
        segment(trace, 1.9 + i * 1e-6, i)
    ack(trace, 2.0, 80)
    for i in range(80, 156):
        segment(trace, 2.05 + i * 1e-6, i)
    ack(trace, 2.15, 156)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[3:] == [40.0, 80.0]


@pytest.mark.parametrize(("bytes_sent", "window"), [(500, 80.0), (400, 40.0)])
def test_what_fills_a_window_that_the_receiver_closed_was_not_idle(
    bytes_sent: int, window: float, tmp_path: Path
) -> None:
    """500 bytes are left of the receiver's window. A timer sends as many, of data that waits; fewer are new data."""
    trace, end = grown_to_80(500), 1 + 70 * MSS
    trace.packet(1.9, True, end, 1001, payload=bytes_sent)
    trace.packet(2.0, False, 1001, end + bytes_sent)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[-1] == window


def test_one_idle_time_that_a_window_outlasted_may_have_been_shorter_than_the_timeout(tmp_path: Path) -> None:
    trace = grown_to_80()
    for turn, (first, last) in enumerate(((70, 140), (140, 150))):
        for i in range(first, last):
            segment(trace, 1.9 + turn * 0.5 + i * 1e-6, i)
        ack(trace, 2.0 + turn * 0.5, last)
    assert windows(replayed(trace, tmp_path), "cwnd_before")[3:] == [80.0, 75.0]


@pytest.mark.parametrize(
    ("window", "late", "payload", "seen"),
    [
        (65535, 0.0, MSS, [10.0, 6.0, 8.0]),
        (65535, 0.01, MSS, [10.0, 10.0, 12.0]),
        (4 * MSS, 0.0, MSS, [10.0, 10.0, 12.0]),
        (65535, 0.0, 900, [10.0, 10.0, 12.0]),
    ],
)
def test_a_smaller_initial_window_shows_after_the_first_ack(
    window: int, late: float, payload: int, seen: list[float], tmp_path: Path
) -> None:
    """Four segments, and for two acknowledged four more, at once: that was all that the window allowed. It is not so
    where they come later, where the receiver had no more room, or where the application had no more."""
    trace, options = Trace(), b"\x02\x04\x05\xb4\x04\x02"
    trace.packet(1.0, True, 0, 0, SYN, options=options)
    trace.packet(1.1, False, 1000, 1, SYN | ACK, options=options, window=window)
    trace.packet(1.10001, True, 1, 1001)
    for i in range(3):
        segment(trace, 1.2 + i * 1e-5, i)
    trace.packet(1.20003, True, 1 + 3 * MSS, 1001, payload=payload)
    sent = 1 + 3 * MSS + payload
    ack(trace, 1.3, 2)
    for i in range(4):
        trace.packet(1.30002 + late + i * 1e-5, True, sent + i * MSS, 1001, payload=MSS)
    trace.packet(1.4, False, 1001, sent)
    trace.packet(1.41, False, 1001, sent + MSS)
    assert windows(replayed(trace, tmp_path), "cwnd_before") == seen


def test_the_duplicate_of_a_probe_may_undo_the_recovery_before(tmp_path: Path) -> None:
    """Linux counts retransmissions of the recovery only: a probe's DSACK makes the one that there was look spurious."""
    trace = ten_in_flight()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    ack(trace, 1.404, 10)
    for i in (10, 11):
        segment(trace, 1.5 + i * 1e-5, i)
    segment(trace, 1.71, 11)  # two round trips later
    ack(trace, 1.711, 12)
    ack(trace, 1.81, 12, (11, 12))
    assert marks(replayed(trace, tmp_path)) == ["fast_retransmit", "recovered", "undo"]


def test_without_sack_recovery_ends_beyond_what_was_sent_before_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT, options=b"\x02\x04\x05\xb4")
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    for n in range(4):
        ack(trace, 1.301 + n * 1e-3, 0)
    segment(trace, 1.3035, 0)
    ack(trace, 1.4, 10)
    segment(trace, 1.4001, 10)
    ack(trace, 1.5, 11)
    phases = replayed(trace, tmp_path).acks["newreno.phase"].to_pylist()
    assert phases[-2:] == ["recovery", "recovery"]  # before each ACK


def test_without_sack_an_ack_fills_one_hole_and_takes_the_others_off_the_duplicates(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, RTT, options=b"\x02\x04\x05\xb4")
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    for n in range(6):  # 0 and 4 are lost
        ack(trace, 1.301 + n * 1e-3, 0)
    segment(trace, 1.3065, 0)
    ack(trace, 1.4, 4)
    ack(trace, 1.401, 4)
    # Of six duplicates three were for 1, 2 and 3; the three others, for 5 to 9, and one hole are not in flight.
    assert replayed(trace, tmp_path).acks["in_flight_bytes"].to_pylist()[-1] == (6 - 3 - 1) * MSS


def test_room_for_one_segment_waits_for_room_for_two(tmp_path: Path) -> None:
    """Avoidance at 5: pairs go out, so at 6 there are 5 in flight, and the window is the limit all the same."""
    trace = ten_in_flight()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    ack(trace, 1.404, 10)
    for i in range(10, 15):
        segment(trace, 1.41 + i * 1e-6, i)
    for turn in range(10):
        ack(trace, 1.52 + turn * 0.03, 12 + 2 * turn)
        for k in (0, 1):
            segment(trace, 1.5201 + turn * 0.03 + k * 1e-5, 15 + 2 * turn + k)
    grown = windows(replayed(trace, tmp_path))[-10:]
    assert (grown[0], grown[-1]) == (6.0, 7.0)


def test_room_for_one_segment_waits_in_slow_start_too(tmp_path: Path) -> None:
    """12 in flight fill a window of 13: until all of them are acknowledged, sending less does not end its growth."""
    trace = ten_in_flight()
    ack(trace, 1.3, 3)
    for i in range(10, 15):
        segment(trace, 1.30002 + i * 1e-6, i)
    ack(trace, 1.4, 12)
    trace.packet(1.40002, True, 1 + 15 * MSS, 1001, payload=100)
    ack(trace, 1.41, 13)
    assert windows(replayed(trace, tmp_path)) == [13.0, 22.0, 23.0]


@pytest.mark.parametrize(
    ("room", "offload", "grown"), [(7, False, 7.0), (5, False, 6.0), (7, True, 8.0), (5, True, 6.0)]
)
def test_a_receiver_with_no_more_room_is_the_limit_itself(
    room: int, offload: bool, grown: float, tmp_path: Path
) -> None:
    """As above: five in flight because the receiver takes no sixth do not raise a window of six. Nor do they with
    segmentation offload, where two thirds of a window would count as full."""
    trace = ten_in_flight()
    if offload:
        trace = Trace()
        trace.handshake(1.0, RTT)
        trace.packet(1.2, True, 1, 1001, payload=10 * MSS)
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    trace.packet(1.404, False, 1001, 1 + 10 * MSS, window=room * MSS)
    for i in range(10, 15):
        segment(trace, 1.41 + i * 1e-6, i)
    for turn in range(10):
        trace.packet(1.52 + turn * 0.03, False, 1001, 1 + (12 + 2 * turn) * MSS, window=room * MSS)
        for k in (0, 1):
            segment(trace, 1.5201 + turn * 0.03 + k * 1e-5, 15 + 2 * turn + k)
    seen = windows(replayed(trace, tmp_path))[-10:]
    assert (seen[0], seen[-1]) == (6.0, grown)


MAPPED = MSS - 16
"""What a segment carries beside a mapping."""


def mapped(
    trace: Trace, time: float, first: int, count: int, left: int = 0, *, before: int = 0, part: int = 0, pieces: int = 1
) -> None:
    """Of a mapping: segments sent before, `count` and a part of one that are sent now, and bytes that are left."""
    start, begin = 1 + first * MAPPED, 1 + (first - before) * MAPPED
    mapping = struct.pack("!BBBBIIH", 30, 14, 0x20, 0x04, begin, begin, (before + count) * MAPPED + part + left)
    for k in range(0, count, pieces):  # segments of one packet
        size = min(pieces, count - k) * MAPPED
        trace.packet(time + k * 1e-6, True, start + k * MAPPED, 1001, payload=size, options=mapping)
    if part:
        trace.packet(time + count * 1e-6, True, start + count * MAPPED, 1001, payload=part, options=mapping)


def mapped_ack(trace: Trace, time: float, segments: int, options: bytes = b"") -> None:
    trace.packet(time, False, 1001, 1 + segments * MAPPED, options=options)


def recovered_subflow(flight: int = 10) -> Trace:
    """Of a slow start's flight of 10 or 20 segments the first was lost. At 1.504 s the window is half of it and one."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    mapped(trace, 1.2, 0, 10)
    first = flight - 10
    if first:
        mapped_ack(trace, 1.3, 10)
        mapped(trace, 1.3001, 10, 20)
    for n in (1, 2, 3):
        blocks = sack((1 + (first + 1) * MAPPED, 1 + (first + 1 + n) * MAPPED))
        mapped_ack(trace, 1.4 + n * 1e-3, first, blocks)
    mapped(trace, 1.4031, first, 1)
    mapped_ack(trace, 1.504, first + flight)
    return trace


@pytest.mark.parametrize(("left", "grown"), [(2 * MSS, 7.0), (MSS, 6.0), (MSS // 2, 6.0), (0, 6.0)])
def test_a_subflow_with_less_than_two_segments_to_send_does_not_wait_for_room(
    left: int, grown: float, tmp_path: Path
) -> None:
    """As above, for MPTCP: what is left of a pair's mapping is less than the pair that a sender waits to send."""
    trace = recovered_subflow()
    mapped(trace, 1.51, 10, 5, left)
    for turn in range(10):
        mapped_ack(trace, 1.62 + turn * 0.03, 12 + 2 * turn)
        mapped(trace, 1.6201 + turn * 0.03, 15 + 2 * turn, 2, left)
    seen = windows(replayed(trace, tmp_path))[-10:]
    assert (seen[0], seen[-1]) == (6.0, grown)


@pytest.mark.parametrize(("left", "grown"), [(2 * MSS, 7.0), (MSS, 6.0)])
def test_a_subflow_that_waits_to_send_two_is_limited_also_when_it_was_not_before(
    left: int, grown: float, tmp_path: Path
) -> None:
    """Five segments of a window of six, twice, from nothing in flight."""
    trace = recovered_subflow()
    mapped(trace, 1.51, 10, 1)
    mapped_ack(trace, 1.62, 11)
    for turn in (0, 1):
        mapped(trace, 1.63 + turn * 0.12, 11 + 5 * turn, 5, left)
        mapped_ack(trace, 1.74 + turn * 0.12, 16 + 5 * turn)
    assert windows(replayed(trace, tmp_path))[-1] == grown


@pytest.mark.parametrize(("left", "grown"), [(0, 10.0), (2 * MSS, 11.0)])
def test_a_window_that_fell_below_the_flight_is_no_limit_for_a_subflow_with_nothing_to_send(
    left: int, grown: float, tmp_path: Path
) -> None:
    """A probe brought back a lost tail, which halves the window while more is in flight (RFC 8985 7.4)."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    mapped(trace, 1.2, 0, 10)
    mapped_ack(trace, 1.3, 10)
    mapped(trace, 1.31, 10, 2)
    mapped_ack(trace, 1.41, 11)
    mapped(trace, 1.7, 11, 1)
    mapped(trace, 1.71, 12, 17, left, part=MAPPED // 2)
    for n in range(12, 29):
        mapped_ack(trace, 1.8 + n * 1e-3, n)
    seen = windows(replayed(trace, tmp_path))
    assert (seen[-16], seen[-1]) == (10.0, grown)


@pytest.mark.parametrize(("gap", "grown"), [(1e-6, 7.0), (1e-3, 6.0)])
def test_a_sender_looks_at_an_ack_when_it_has_sent_its_burst(gap: float, grown: float, tmp_path: Path) -> None:
    """Three segments on top of three fill the window of six, though an ACK is captured before the last of them."""
    trace = recovered_subflow()
    mapped(trace, 1.51, 10, 3)
    for turn in range(4):
        time, sent = 1.62 + turn * 0.03, 13 + 3 * turn
        mapped(trace, time, sent, 2, MAPPED)
        mapped_ack(trace, time + 2e-6, sent - 2)
        mapped(trace, time + 2e-6 + gap, sent + 2, 1, before=2)
        mapped_ack(trace, time + 0.01, sent)
    assert windows(replayed(trace, tmp_path))[-1] == grown


@pytest.mark.parametrize(("gap", "grown"), [(2e-6, 11.0), (1e-3, 13.0)])
def test_with_offload_an_ack_amid_a_burst_does_not_tell_that_the_sender_waits(
    gap: float, grown: float, tmp_path: Path
) -> None:
    """Eight segments of a window of eleven are in flight when the ACK is captured; one more is all there is to send."""
    trace = recovered_subflow(20)
    mapped(trace, 1.51, 30, 3, pieces=3)
    for turn in range(8):
        time, sent = 1.62 + turn * 0.03, 33 + 6 * turn
        mapped(trace, time, sent, 5, MAPPED, pieces=5)
        mapped_ack(trace, time + gap, sent - 2)
        mapped(trace, time + gap + 1e-6, sent + 5, 1, before=5)
        mapped_ack(trace, time + 0.01, sent + 3)
    seen = windows(replayed(trace, tmp_path))
    assert (seen[-17], seen[-1]) == (11.0, grown)


def test_without_sack_an_ack_of_a_retransmission_does_not_tell_that_the_timeout_was_spurious(tmp_path: Path) -> None:
    """What was never sent again is acknowledged with it: without SACK nobody knows when that arrived."""
    trace = Trace()
    trace.handshake(1.0, RTT, options=b"\x02\x04\x05\xb4")
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    segment(trace, 1.51, 0)
    ack(trace, 1.61, 10)
    result = replayed(trace, tmp_path)
    assert "undo" not in marks(result)
    assert windows(result, "ssthresh")[-1] == 5.0


def recovered_from_ten() -> Trace:
    """One of ten segments was lost; all are acknowledged at 1.404 s."""
    trace = ten_in_flight()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
    segment(trace, 1.3031, 0)
    ack(trace, 1.404, 10)
    return trace


@pytest.mark.parametrize(("in_flight", "least", "most"), [(7, 20, 40), (6, 8, 12)])
def test_a_cubic_window_one_above_the_flight_keeps_its_curve(
    in_flight: int, least: float, most: float, tmp_path: Path
) -> None:
    """A window of 8, a segment above its sender's 7: that one counts its ACKs, for Reno's window too. Not one at 6."""
    trace = recovered_from_ten()
    sent, acked, time = 10, 10, 1.41
    for _ in range(300):
        while sent < acked + in_flight:
            segment(trace, time, sent)
            sent, time = sent + 1, time + 1e-5
        acked, time = acked + 1, time + 0.007
        ack(trace, time, acked)
    for _ in range(40):
        for _ in (1, 2):
            segment(trace, time + 1e-5, sent)
            sent, time = sent + 1, time + 1e-5
        acked, time = acked + 1, time + 0.007
        ack(trace, time, acked)
    grown = replayed(trace, tmp_path, "cubic").acks["cubic.cwnd"].to_pylist()
    assert grown[-41] == 8.0  # the window itself waits
    assert least <= grown[-1] <= most


@pytest.mark.parametrize(
    ("burst", "window", "paused", "seen"),
    [
        (6, 65535, 0, [10.0, 10.0, 11.0, 12.0, 9.0, 10.0, 11.0]),  # flights of 3, 6, 7, 8, 9, 10, 11
        (8, 65535, 0, [10.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),  # two below: it may wait for more
        (6, 65535, 2, [10.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),  # the third ACK sets one segment free
        (6, 7 * MSS, 0, [10.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),  # the receiver had no more room
    ],
)
def test_acks_that_set_free_twice_what_they_delivered_show_a_smaller_window(
    burst: int, window: int, paused: int, seen: list[float], tmp_path: Path
) -> None:
    """After a small request the window is still ten, as far as one knows; the next flights say that it is not."""
    trace = Trace()
    trace.handshake(1.0, RTT, window=window)
    for i in range(3):
        segment(trace, 1.2 + i * 1e-5, i)
    trace.packet(1.3, False, 1001, 1 + 3 * MSS, window=window)
    sent, time = 3, 1.35
    for i in range(burst):
        segment(trace, time + i * 1e-5, sent)
        sent += 1
    for i in range(6):
        time = 1.45 + i * 1e-3
        trace.packet(time, False, 1001, 1 + (4 + i) * MSS, window=window)
        for k in range(1 if paused == i + 1 else 2):
            segment(trace, time + 1e-5 * (k + 1), sent)
            sent += 1
    assert windows(replayed(trace, tmp_path), "cwnd_before") == seen


def test_what_is_sent_again_in_shorter_segments_is_in_flight_as_these(tmp_path: Path) -> None:
    """Two segments are lost, and sent again as three: the sender's own SACK blocks take room from them."""
    trace, short = ten_in_flight(), MSS - 24
    for n in (3, 4, 5):
        ack(trace, 1.3 + n * 1e-3, 0, (2, n))
    for i, (start, end) in enumerate([(0, short), (short, 2 * short), (2 * short, 2 * MSS)]):
        trace.packet(1.30501 + i * 1e-3, True, 1 + start, 1001, payload=end - start)
        ack(trace, 1.306 + i * 1e-3, 0, (2, 6 + i))
    trace.packet(1.404, False, 1001, 1 + short)
    trace.packet(1.405, False, 1001, 1 + 2 * short)
    ack(trace, 1.406, 10)
    acks = replayed(trace, tmp_path).acks
    # Beside what was sent again: five after the third SACK, and one less for each further one.
    assert [b // MSS for b in acks["in_flight_bytes"].to_pylist()[-6:]] == [6, 6, 6, 5, 4, 3]
    assert acks["acked_segments"].to_pylist()[-3:] == [1, 1, 3]


@pytest.mark.parametrize(("waits", "begin"), [((6, 6), 6), ((6, 5), 3), ((3, 3), 3)])
def test_a_sender_that_waits_for_more_duplicate_acks_is_believed_the_second_time(
    waits: tuple[int, int], begin: int, tmp_path: Path
) -> None:
    """Three recoveries: `begin` of its segments are SACKed when the last one begins."""
    trace = ten_in_flight()
    first, time = 0, 1.3
    for waited in (*waits, 6):
        for n in range(1, 8):
            time += 4e-3
            ack(trace, time, first, (first + 1, first + 1 + n))
            if n == waited:
                segment(trace, time + 1e-5, first)
        time += 0.1
        ack(trace, time, first + 10)
        first, time = first + 10, time + 0.01
        for i in range(10):
            segment(trace, time + i * 1e-5, first + i)
        time += 0.1
    result = replayed(trace, tmp_path)
    at = [mark["row"] for mark in result.marks.to_pylist() if mark["kind"] == "fast_retransmit"]
    assert [row % 8 + 1 for row in at] == [3, 3, begin]


def test_acks_over_what_was_sacked_before_are_no_slow_start(tmp_path: Path) -> None:
    """They deliver nothing and set nothing free: twice nothing is nothing. One segment that came late is no loss."""
    trace = ten_in_flight()
    ack(trace, 1.3, 0, (1, 3))
    ack(trace, 1.301, 10)
    for i in range(10, 22):
        segment(trace, 1.31 + (i - 10) * 1e-5, i)
    ack(trace, 1.41, 10, (11, 20))
    for i in range(11, 20):
        ack(trace, 1.411 + (i - 11) * 1e-4, i)
    before = windows(replayed(trace, tmp_path), "cwnd_before")
    assert min(before[3:]) == before[3] > 20


@pytest.mark.parametrize(
    ("excess_us", "goes_on", "resumed"), [(100, True, True), (100, False, False), (900, True, False)]
)
def test_hystart_that_hangs_on_the_clocks_is_overruled_by_the_flight(
    excess_us: int, goes_on: bool, resumed: bool, tmp_path: Path
) -> None:
    """CUBIC leaves slow start when a round's delay is an eighth above the least, of 100 ms. Its sender goes on."""
    acks = replayed(two_rounds(28, excess_us, goes_on), tmp_path, "cubic").acks
    in_flight, window = acks["in_flight_bytes"].to_pylist()[-1] // MSS, acks["cubic.cwnd_before"].to_pylist()[-1]
    assert (window == in_flight) == (resumed or not goes_on)
    assert (acks["cubic.ssthresh"].to_pylist()[-1] == float("inf")) == resumed


def two_rounds(acks: int, excess_us: int, goes_on: bool) -> Trace:
    """Of slow start, the second slower; a third, of 180 ms, where there are more than 30 ACKs."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    times = [1.2 + i * 1e-3 for i in range(10)]
    for i, time in enumerate(times):
        segment(trace, time, i)
    for i in range(acks):
        delay = 0.1 if i < 10 else 0.1125 + excess_us * 1e-6 if i < 30 else 0.18
        time = max(times[i] + delay, time + 3e-4)
        ack(trace, time, i + 1)
        for _ in range(2 if goes_on or i < 18 else 1):
            time += 1e-5
            segment(trace, time, len(times))
            times.append(time)
    return trace


def test_slow_start_that_was_resumed_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    """In the third round, whether it seemed to end in the second or not."""
    ends = []
    for excess_us in (-900, 100):
        acks = replayed(two_rounds(100, excess_us, True), tmp_path, "cubic").acks
        finite = [limit for limit in acks["cubic.ssthresh"].to_pylist()[36:] if limit != float("inf")]
        ends.append(finite[0] if finite else None)
    assert ends[0] is not None
    assert ends[0] == ends[1]


def test_windows_below_the_flight_that_are_asked_for_stay_below(tmp_path: Path) -> None:
    """losses=reached: what a smaller window would have done. The recorded flight does not raise it."""
    choice = Choice("cubic", {"losses": "reached"})
    acks = replayed(two_rounds(28, 100, True), tmp_path, choice).acks
    assert acks["cubic.cwnd_before"].to_pylist()[-1] < acks["in_flight_bytes"].to_pylist()[-1] // MSS
