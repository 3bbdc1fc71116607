"""When Linux senders time out, what they take back of it, and what duplicate ACKs tell without SACK: small traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packets import ACK, SYN, Trace
from tests.unit.test_linux_senders import answered, sent, stamped_flight
from tests.unit.test_senders import MSS, RTT, ack, marks, replayed, segment, stamped, ten_in_flight, windows


def flight_without_sack(window: int = 65535) -> Trace:
    """Ten segments at 1.2 s of a sender without SACK; its round trip is 100 ms, its timeout 300 ms."""
    trace = Trace()
    trace.handshake(1.0, RTT, options=b"\x02\x04\x05\xb4", window=window)
    for i in range(10):
        segment(trace, 1.2 + i * 1e-4, i)
    return trace


def recovered_without_sack() -> Trace:
    """The first of ten segments was lost and sent again. All ten, and no more, are acknowledged at 1.404 s."""
    trace = flight_without_sack()
    for n in (1, 2, 3):
        ack(trace, 1.3 + n * 1e-3, 0)
    segment(trace, 1.3031, 0)
    ack(trace, 1.404, 10)
    return trace


def test_rack_does_not_lose_again_what_an_undo_took_back(tmp_path: Path) -> None:
    """0 and 4 are lost. Two timeouts send 0 again; an ACK then says that its fast retransmission had arrived. The
    timeouts were spurious: Linux gives the window back. RACK has judged 4 once, and leaves it to the next timeout."""
    trace = stamped_flight(10)
    for n in (1, 2, 3):
        answered(trace, 1.3 + n * 1e-3, 0, 1200, (1, 1 + n))
    sent(trace, 1.3031, 0)
    answered(trace, 1.304, 0, 1200, (5, 6), (1, 4))
    answered(trace, 1.305, 0, 1200, (5, 7), (1, 4))
    sent(trace, 1.62, 0)
    sent(trace, 2.24, 0)
    answered(trace, 2.3, 4, 1303, (0, 1), (5, 10))
    result = replayed(trace, tmp_path)
    assert marks(result) == ["fast_retransmit", "timeout", "timeout", "undo", "recovered"]
    assert windows(result)[-1] >= 10.0


def test_sack_blocks_are_read_in_sequence_order(tmp_path: Path) -> None:
    """The block of the latest arrival stands first. The sample is of the oldest segment, as the kernel's srtt says."""
    trace = Trace()
    trace.handshake(1.0, RTT)
    for i in range(10):
        segment(trace, 1.2 if i < 5 else 1.25, i)
    ack(trace, 1.35, 0, (6, 7), (2, 4))
    assert replayed(trace, tmp_path).acks["rtt_us"].to_pylist() == [150_000]


def test_sacks_of_what_was_sent_later_do_not_put_off_the_timeout(tmp_path: Path) -> None:
    """The retransmission of 0 is lost, and new data goes on being SACKed. The timer runs from the last SACK of what
    had been sent before that retransmission."""
    trace = ten_in_flight()
    for n in range(1, 10):
        ack(trace, 1.3 + n * 1e-3, 0, (1, 1 + n))
        if n == 3:
            segment(trace, 1.3031, 0)
    for i, time in enumerate((1.3101, 1.4101, 1.5101)):
        segment(trace, time, 10 + i)
        ack(trace, time + 0.0999, 0, (1, 11 + i))
    segment(trace, 1.625, 0)
    ack(trace, 1.73, 13)
    assert "timeout" in marks(replayed(trace, tmp_path))


def test_without_sack_a_retransmission_that_no_ack_prompts_is_a_timeout(tmp_path: Path) -> None:
    """In recovery, a round trip after the last duplicate ACK. The kernel's window is one segment then."""
    trace = recovered_without_sack()
    segment(trace, 1.4041, 10)
    segment(trace, 1.45, 11)
    ack(trace, 1.55, 10)
    segment(trace, 1.73, 10)
    ack(trace, 1.83, 12)
    result = replayed(trace, tmp_path)
    assert "timeout" in marks(result)
    assert windows(result, "cwnd_before")[-1] == 1.0


def test_without_sack_duplicates_at_the_end_of_recovery_stand_for_nothing(tmp_path: Path) -> None:
    """All that was sent before recovery is acknowledged, and nothing beyond (RFC 6582): five stay in flight."""
    trace = recovered_without_sack()
    for i in range(10, 15):
        segment(trace, 1.405 + i * 1e-5, i)
    for n in range(4):
        ack(trace, 1.505 + n * 1e-3, 10)
    result = replayed(trace, tmp_path)
    assert result.acks["in_flight_bytes"].to_pylist()[-4:] == [5 * MSS] * 4
    assert windows(result)[-5:] == [5.0] * 5


def test_without_sack_duplicates_at_the_end_of_a_timeout_begin_no_recovery(tmp_path: Path) -> None:
    """RFC 6582 3.2: not before something beyond what was sent before the timeout is acknowledged."""
    trace = flight_without_sack()
    segment(trace, 1.51, 0)
    ack(trace, 1.61, 10)
    for i in range(10, 15):
        segment(trace, 1.611 + i * 1e-5, i)
    for n in range(4):
        ack(trace, 1.712 + n * 1e-3, 10)
    assert marks(replayed(trace, tmp_path)) == ["timeout"]


@pytest.mark.parametrize(("step", "recovers"), [(0, True), (-1024, True), (1024, False)])
def test_a_duplicate_ack_may_offer_less_but_not_more(step: int, recovers: bool, tmp_path: Path) -> None:
    """A sender does not take back room that it has been given, so that a smaller window is no news."""
    trace = flight_without_sack(60000)
    for n in range(4):
        trace.packet(1.301 + n * 1e-3, False, 1001, 1, window=60000 + step * n)
    assert ("fast_retransmit" in marks(replayed(trace, tmp_path))) == recovers


@pytest.mark.parametrize("echo", [1405, 1720])
def test_without_sack_a_timeout_after_recovery_has_a_timestamp_of_its_own(echo: int, tmp_path: Path) -> None:
    """RFC 3522: an echo of what was sent before the timeout's retransmission says that the timeout was spurious."""
    trace, options = Trace(), b"\x02\x04\x05\xc0"
    trace.packet(0.8, True, 0, 0, SYN, options=options + stamped(800, 0))
    trace.packet(0.9, False, 1000, 1, SYN | ACK, options=options + stamped(9000, 800))
    trace.packet(0.90001, True, 1, 1001, options=stamped(900, 9000))
    for i in range(10):
        sent(trace, 1.2, i)
    for n in (1, 2, 3):
        answered(trace, 1.3 + n * 1e-3, 0, 1200)
    sent(trace, 1.3031, 0)
    answered(trace, 1.404, 10, 1303)
    for i in (10, 11):
        sent(trace, 1.405, i)
    sent(trace, 1.72, 10)
    answered(trace, 1.9, 12, echo)
    assert ("undo" in marks(replayed(trace, tmp_path))) == (echo < 1720)
