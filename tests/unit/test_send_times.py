"""Captures beside the receiver, 40 ms away: when the sender sent what it sent, lost data included. Its clock: ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewindow import Result
from tests.packets import ACK, SYN, Trace, sack
from tests.unit.test_senders import MSS, ack, marks, replayed, segment, stamped, ten_in_flight, windows

WAY = 0.04
BEFORE = 20


class Far:
    """Times: when an ACK passes the receiver, and when the data that answers it is sent. Segments count from 2 s on."""

    def __init__(self, opening: float = WAY, step: int = 1) -> None:
        self.trace, self.number, self.step = Trace(), 10, step
        options = b"\x02\x04\x05\xc0\x04\x02"  # 12 bytes of timestamps leave MSS
        self.trace.packet(1.0, True, 0, 0, SYN, options=options + stamped(1000, 0))
        self.trace.packet(1.00001, False, 1000, 1, SYN | ACK, options=options + stamped(9000, 1000))
        self.trace.packet(1.0 + opening, True, 1, 1001, options=stamped(1040, 9000))
        for i in range(-BEFORE, 0):
            self.sent(2.0005 + i * 0.048, i, 2.0 + i * 0.048)
            self.answered(2.0405 + i * 0.048, i + 1)

    def sent(self, time: float, segment: int, echo: float, lost: bool = False, late: float = 0) -> None:
        """`echo`: when the newest ACK passed. What is lost takes a packet number too."""
        self.number += self.step
        at = 1 + (BEFORE + segment) * MSS
        if not lost:
            self.trace.packet(time + WAY + late, True, at, 1001, payload=MSS, ident=self.number,
                              options=stamped(int(time * 1000) + 40, 8000 + int(echo * 1000)))  # fmt: skip

    def answered(self, time: float, segments: int, *blocks: tuple[int, int]) -> None:
        options = stamped(8000 + int(time * 1000), 0)
        if blocks:
            options += sack(*((1 + (BEFORE + a) * MSS, 1 + (BEFORE + b) * MSS) for a, b in blocks))
        self.trace.packet(time, False, 1001, 1 + (BEFORE + segments) * MSS, options=options)

    def replayed(self, tmp_path: Path) -> tuple[Result, list[int]]:
        """And the segments in flight before each ACK from 2.0 s on."""
        result = replayed(self.trace, tmp_path)
        assert result.connections[0].subflows[0].send_times == "timestamps"
        return result, [f // MSS for f in result.acks["in_flight_bytes"].to_pylist()[BEFORE:]]


def test_lost_data_was_sent_when_an_ack_set_it_free(tmp_path: Path) -> None:
    """Ten in flight, 4 ms apart. 15 answered the ACK of 5, not that of 6, after which data arrived again."""
    far = Far()
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in range(8):
        time = 2.1005 + i * 0.004
        far.answered(time, i + 1)
        far.sent(time + 1e-5, 10 + i, time, lost=i == 5)
    _, flights = far.replayed(tmp_path)
    assert flights == [10] * 8


def test_of_a_pair_the_second_is_lost(tmp_path: Path) -> None:
    """Slow start, two for each ACK: the queue has room for the first of them."""
    far = Far()
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in range(8):
        time = 2.1005 + i * 0.004
        far.answered(time, i + 1)
        for k in (0, 1):
            far.sent(time + 1e-5, 10 + 2 * i + k, time, lost=k == 1 and i in (2, 3))
    _, flights = far.replayed(tmp_path)
    assert flights == list(range(10, 18))


def test_what_was_lost_before_a_recovery_was_sent_before_it(tmp_path: Path) -> None:
    """2 and 13 are lost, and new data comes late: packet numbers say that the retransmission came after 13."""
    far = Far()
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in (0, 1):
        far.answered(2.1005 + i * 0.004, i + 1)
        far.sent(2.1006 + i * 0.004, 10 + i, 2.1005 + i * 0.004)
    for i in (3, 4):  # limited transmit
        far.answered(2.1005 + i * 0.004, 2, (3, i + 1))
        far.sent(2.1006 + i * 0.004, 9 + i, 2.1005 + i * 0.004, lost=i == 4)
    far.answered(2.1205, 2, (3, 6))
    far.sent(2.1206, 2, 2.1205)
    far.answered(2.1245, 2, (3, 7))
    far.sent(2.1246, 14, 2.1245)
    far.answered(2.1645, 13, (14, 15))
    result, flights = far.replayed(tmp_path)
    assert marks(result)[0] == "fast_retransmit"
    assert flights[4] == 14 - 2 - 2  # 0 to 13 sent, two acknowledged, two SACKed before


def test_what_came_late_was_not_lost(tmp_path: Path) -> None:
    """15 is overtaken by 16 on the way, and packet numbers say nothing."""
    far = Far(step=0)
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in range(8):
        time = 2.1005 + i * 0.004
        far.answered(time, i + 1)
        far.sent(time + 1e-5, 10 + i, time, late=0.005 if i == 5 else 0)
    result, flights = far.replayed(tmp_path)
    assert result.connections[0].retransmitted_packets == 0
    assert flights == [10] * 8


def test_packets_of_one_tick_were_set_free_by_its_acks_in_turn(tmp_path: Path) -> None:
    """Four ACKs within a millisecond of the receiver's clock, and what they set free within one of the sender's."""
    far = Far()
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in range(4):
        far.answered(2.1001 + i * 1e-4, i + 1)
    for i in range(8):
        far.sent(2.1005 + i * 1e-5, 10 + i, 2.1001)
    far.answered(2.1405, 18)
    _, flights = far.replayed(tmp_path)
    assert flights[:4] == [10, 11, 12, 13]


def test_a_head_that_waits_for_a_timeout_had_one_though_retransmissions_were_lost(tmp_path: Path) -> None:
    far = Far()
    for i in range(10):
        far.sent(2.0605 + i * 0.004, i, 2.0)
    for i in (3, 4, 5):
        far.answered(2.1005 + i * 0.004, 0, (3, i + 1))
    for i in (0, 1):
        far.sent(2.1206, i, 2.1205, lost=i == 1)
    far.answered(2.1606, 1, (3, 6))
    far.sent(2.5, 1, 2.1606)
    far.answered(2.54, 2, (3, 6))
    result, _ = far.replayed(tmp_path)
    assert marks(result)[:2] == ["fast_retransmit", "timeout"]


def test_the_handshakes_round_trip_is_the_senders(tmp_path: Path) -> None:
    """Its last ACK was held up on the way, but says when it was sent."""
    first = Far(opening=0.03 + WAY).replayed(tmp_path)[0].acks["srtt_us"].to_pylist()[0]
    assert first == 40_000


def test_what_a_capture_missed_was_sent_all_the_same(tmp_path: Path) -> None:
    """Proportional rate reduction, 20 to 10: one segment for two delivered. Of 10, 30 and 31 the capture has no 30."""
    trace = ten_in_flight()
    ack(trace, 1.3, 10)
    for i in range(10, 30):
        segment(trace, 1.31 + i * 1e-5, i)
    for delivered in range(1, 9):
        time = 1.41 + delivered * 1e-3
        ack(trace, time, 10, (11, 11 + delivered))
        if delivered in (3, 7):
            segment(trace, time + 1e-4, 10 if delivered == 3 else 31)
    result = replayed(trace, tmp_path)
    # The third begins recovery. With the eighth six are delivered in it, and three had been sent: no room for one more.
    assert windows(result)[-1] == 32 - 10 - 8


@pytest.mark.parametrize("source_opens", [True, False])
@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("before", [0.015, 0.045])
def test_in_the_middle_only_the_senders_part_lies_before(
    ticks: bool, before: float, source_opens: bool, tmp_path: Path
) -> None:
    """60 ms to and fro, `before` of it between capture and sender; data leaves 5 ms after the ACK of the last."""
    behind, trace = 0.06 - before, Trace()

    def packet(time: float, from_source: bool, *numbers: int, echo: float = 0.0, **kw: int) -> None:
        """Times and echoes are those of the packets' hosts, on one clock."""
        passes = time + before / 2 if from_source else time + behind / 2
        options = stamped(
            int(time * 1000) + (50 if from_source else 9000), int(echo * 1000) + (9000 if from_source else 50)
        )
        trace.packet(passes, from_source == source_opens, *numbers, options=options if ticks else b"", **kw)

    opener = 0 if source_opens else 1000
    packet(1.0, source_opens, opener, 0, SYN)
    packet(1.03, not source_opens, 1000 - opener, opener + 1, SYN | ACK, echo=1.0)
    packet(1.06, source_opens, opener + 1, 1001 - opener, echo=1.03)
    mine, other = (1, 1001) if source_opens else (1001, 1)
    for i in range(40):
        time = 2.0005 + i * 0.065
        packet(time, True, mine + i * MSS, other, echo=time - 0.035 if i else 1.03, payload=MSS)
        packet(time + 0.03, False, other, mine + (i + 1) * MSS, echo=time)
    subflow = replayed(trace, tmp_path).connections[0].subflows[0]
    assert subflow.vantage == "middle"
    assert subflow.send_times == ("timestamps" if ticks else "round_trip")
    assert subflow.rtt_median_us is not None
    assert abs(subflow.rtt_median_us - 60_000) < 3_000


@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("late", [-0.005, -0.00002, 0.0, 0.001])
def test_answers_captured_before_what_they_answer(late: float, ticks: bool, tmp_path: Path) -> None:
    """Beside the receiver, 60 ms away: its packets pass another interface, with a clock of its own, or processor."""
    trace = Trace()

    def packet(time: float, from_source: bool, *numbers: int, echo: float = 0.0, **kw: int) -> None:
        value = int(time * 1000) + (50 if from_source else 9000)
        options = stamped(value, int(echo * 1000) + (9000 if from_source else 50))
        trace.packet(
            time + (0.03 if from_source else late), from_source, *numbers, options=options if ticks else b"", **kw
        )

    packet(1.0, True, 0, 0, SYN)
    packet(1.03, False, 1000, 1, SYN | ACK, echo=1.0)
    packet(1.0601, True, 1, 1001, echo=1.03)
    for i in range(40):
        time = 2.0005 + i * 0.0613
        packet(time, True, 1 + i * MSS, 1001, echo=time - 0.0313 if i else 1.03, payload=MSS)
        packet(time + 0.03, False, 1001, 1 + (i + 1) * MSS, echo=time)
    trace.records.sort(key=lambda r: r[0])  # stable: of one time, the first above
    (connection,) = replayed(trace, tmp_path).connections
    subflow = connection.subflows[0]
    assert (subflow.vantage, subflow.bytes, subflow.retransmitted_packets) == ("receiver", 40 * MSS, 0)
    assert "unseen_data" not in subflow.quality
    assert "no_handshake" not in subflow.quality
    assert subflow.rtt_median_us is not None
    assert abs(subflow.rtt_median_us - 60_000) < 6_500
