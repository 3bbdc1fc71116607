"""Subflows grouped into MPTCP connections: tokens of both versions, joins from either side, and what is missing."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

import rewindow
from rewindow import Connection
from tests.packets import ACK, FIN, SYN, Trace

CLIENT_KEY, SERVER_KEY = 0x0102030405060708, 0x1112131415161718


def token(key: int, version: int) -> int:
    digest = (hashlib.sha256 if version else hashlib.sha1)(struct.pack("!Q", key)).digest()
    return int.from_bytes(digest[:4], "big")


def capable(version: int, *keys: int) -> bytes:
    body = bytes([version, 0x01]) + b"".join(struct.pack("!Q", k) for k in keys)
    return bytes([30, 2 + len(body)]) + body


def join_syn(value: int) -> bytes:
    return bytes([30, 12, 0x10, 1]) + struct.pack("!II", value, 7)


def join_answer() -> bytes:
    return bytes([30, 16, 0x10, 1]) + bytes(12)


def mapping(sequence: int, subflow_sequence: int, length: int, *, fin: bool = False) -> bytes:
    flags = 0x04 | (0x10 if fin else 0)
    return bytes([30, 16, 0x20, flags]) + struct.pack("!IIHH", sequence, subflow_sequence, length, 0)


def first_subflow(trace: Trace, version: int, time: float = 1.0) -> None:
    first = capable(version) if version else capable(version, CLIENT_KEY)
    trace.packet(time, True, 0, 0, SYN, options=first)
    trace.packet(time + 0.1, False, 1000, 1, SYN | ACK, options=capable(version, SERVER_KEY))
    trace.packet(time + 0.10001, True, 1, 1001, options=capable(version, CLIENT_KEY, SERVER_KEY))


def joined(trace: Trace, value: int, time: float, *, by_client: bool = True, port: int = 2000) -> None:
    """The second subflow is 10.0.1.1 - 10.0.1.2; its client end is the connection's client."""
    ends = {"client": "10.0.1.1", "server": "10.0.1.2", "ports": (port, 80)}
    trace.packet(time, by_client, 50, 0, SYN, options=join_syn(value), **ends)  # type: ignore[arg-type]
    trace.packet(time + 0.1, not by_client, 900, 51, SYN | ACK, options=join_answer(), **ends)  # type: ignore[arg-type]
    trace.packet(time + 0.10001, by_client, 51, 901, **ends)  # type: ignore[arg-type]


def offset_of(path: Path, record: int) -> int:
    """Of a record of a pcap file, from 1 on."""
    data, offset = path.read_bytes(), 24
    for _ in range(record - 1):
        offset += 16 + struct.unpack_from("<I", data, offset + 8)[0]
    return offset


def connections(trace: Trace, tmp_path: Path) -> list[Connection]:
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        return capture.replay(["tccc"]).connections


@pytest.mark.parametrize("version", [0, 1])
def test_joins_are_found_by_token(version: int, tmp_path: Path) -> None:
    trace = Trace()
    first_subflow(trace, version)
    joined(trace, token(SERVER_KEY, version), 2.0)
    joined(trace, 0xDEADBEEF, 3.0, port=3000)
    ours, orphan = connections(trace, tmp_path)
    assert (ours.kind, ours.version, len(ours.subflows)) == ("mptcp", version, 2)
    assert ours.token == f"0x{token(SERVER_KEY, version):08x}"
    assert (orphan.kind, orphan.version, orphan.token) == ("mptcp", None, "0xdeadbeef")


def test_joins_without_their_connection_share_a_token(tmp_path: Path) -> None:
    trace = Trace()
    joined(trace, 77, 1.0, port=2000)
    joined(trace, 77, 2.0, port=2001)
    joined(trace, 78, 3.0, port=2002)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture:
        result = capture.replay()
    assert [len(c.subflows) for c in result.connections] == [2, 1]
    assert result.summary.oddities["unmatched_join"]["count"] == 2


def test_a_join_seen_before_its_connection(tmp_path: Path) -> None:
    """Two interfaces with clocks apart: the join comes first in the capture."""
    trace = Trace()
    joined(trace, token(SERVER_KEY, 1), 0.5)
    first_subflow(trace, 1, time=1.0)
    (connection,) = connections(trace, tmp_path)
    assert len(connection.subflows) == 2


@pytest.mark.parametrize("by_client", [True, False])
def test_either_side_may_join(by_client: bool, tmp_path: Path) -> None:
    """The server's data on both subflows: the source is the server on both, whoever opened them."""
    trace = Trace()
    first_subflow(trace, 1)
    joined(trace, token(SERVER_KEY if by_client else CLIENT_KEY, 1), 2.0, by_client=by_client)
    for i in range(5):
        trace.packet(3.0 + i * 1e-3, False, 1001 + i * 100, 1, payload=100, options=mapping(i * 200, 1 + i * 100, 100))
    # On the second subflow the client sends a little more than the server: the connection's direction counts.
    sequence = {True: 51, False: 901} if by_client else {True: 901, False: 51}
    ends = {"client": "10.0.1.1", "server": "10.0.1.2", "ports": (2000, 80)}
    trace.packet(3.1, False, sequence[False], sequence[True], payload=10, **ends)  # type: ignore[arg-type]
    trace.packet(3.2, True, sequence[True], sequence[False] + 10, payload=20, **ends)  # type: ignore[arg-type]
    (connection,) = connections(trace, tmp_path)
    assert [s.src for s in connection.subflows] == ["10.0.0.2", "10.0.1.2"]
    assert [s.bytes for s in connection.subflows] == [500, 10]


def test_bytes_are_counted_at_data_level(tmp_path: Path) -> None:
    """A reinjection on another subflow and a DATA_FIN are no data."""
    trace = Trace()
    first_subflow(trace, 1)
    joined(trace, token(SERVER_KEY, 1), 2.0)
    base = 2**32 - 50  # the low half of the data sequence number wraps
    trace.packet(3.0, True, 1, 1001, payload=100, options=mapping(base, 1, 100))
    trace.packet(3.1, True, 101, 1001, payload=100, options=mapping((base + 100) % 2**32, 101, 101, fin=True))
    again = {"client": "10.0.1.1", "server": "10.0.1.2", "ports": (2000, 80)}
    trace.packet(3.2, True, 51, 901, payload=100, options=mapping(base, 1, 100), **again)  # type: ignore[arg-type]
    (connection,) = connections(trace, tmp_path)
    assert connection.bytes == 200
    assert sum(s.bytes for s in connection.subflows) == 300


def test_fallback_to_tcp(tmp_path: Path) -> None:
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, options=capable(1))
    trace.packet(1.1, False, 1000, 1, SYN | ACK)
    trace.packet(1.11, True, 1, 1001, payload=10)
    (connection,) = connections(trace, tmp_path)
    assert (connection.kind, connection.version, connection.fallback) == ("tcp", None, True)


def test_fallback_after_the_handshake(tmp_path: Path) -> None:
    """Both SYNs carried MP_CAPABLE, then a box on the path removed every option (RFC 8684 3.7)."""
    trace = Trace()
    trace.packet(1.0, True, 0, 0, SYN, options=capable(1))
    trace.packet(1.1, False, 1000, 1, SYN | ACK, options=capable(1, SERVER_KEY))
    trace.packet(1.11, True, 1, 1001)
    trace.packet(1.12, True, 1, 1001, payload=10)
    (connection,) = connections(trace, tmp_path)
    assert (connection.kind, connection.fallback) == ("tcp", True)


@pytest.mark.parametrize("subflows", [1, 2])
def test_fallback_by_a_mapping_without_an_end(subflows: int, tmp_path: Path) -> None:
    """RFC 8684 3.7: what follows has no mapping. It is the whole connection's only where there is no other subflow."""
    trace = Trace()
    first_subflow(trace, 1)
    if subflows > 1:
        joined(trace, token(SERVER_KEY, 1), 2.0)
    trace.packet(3.0, True, 1, 1001, payload=100, options=mapping(5, 1, 100))
    trace.packet(3.1, True, 101, 1001, payload=100, options=mapping(105, 101, 0))
    trace.packet(3.2, True, 201, 1001, payload=50)
    (connection,) = connections(trace, tmp_path)
    assert (connection.kind, connection.fallback) == ("mptcp", subflows == 1)
    assert connection.bytes == (250 if subflows == 1 else 100)


def test_a_priority_changes_what_the_join_said(tmp_path: Path) -> None:
    """MP_PRIO (RFC 8684 3.3.8): for its own subflow; with an address, as RFC 6824 had it, for another."""
    backup, regular, elsewhere = b"\x1e\3\x51", b"\x1e\3\x50", b"\x1e\4\x51\2"
    trace = Trace()
    first_subflow(trace, 1)
    joined(trace, token(SERVER_KEY, 1), 2.0)
    trace.packet(3.0, True, 1, 1001, options=elsewhere)
    trace.packet(3.1, False, 901, 51, options=backup, client="10.0.1.1", server="10.0.1.2", ports=(2000, 80))
    (connection,) = connections(trace, tmp_path)
    assert [s.backup for s in connection.subflows] == [False, True]
    trace.packet(3.2, False, 901, 51, options=regular, client="10.0.1.1", server="10.0.1.2", ports=(2000, 80))
    (connection,) = connections(trace, tmp_path)
    assert [s.backup for s in connection.subflows] == [False, False]


def test_an_answer_that_waited_says_nothing_of_the_way(tmp_path: Path) -> None:
    """Without the handshake's last ACK, what follows the answer comes when there is something to send."""
    for missing in (False, True):
        trace = Trace()
        trace.packet(1.0, True, 0, 0, SYN)
        trace.packet(1.05, False, 1000, 1, SYN | ACK)
        if not missing:
            trace.packet(1.09, True, 1, 1001)
        for i in range(30):
            trace.packet(1.1 + i * 0.06, True, 1 + i * 100, 1001, payload=100)
            trace.packet(1.15 + i * 0.06, False, 1001, 101 + i * 100)
        (connection,) = connections(trace, tmp_path)
        assert connection.subflows[0].vantage == ("unknown" if missing else "middle")
        rtt_us = connection.subflows[0].rtt_median_us
        assert rtt_us is not None
        assert (rtt_us < 55_000) == missing


@pytest.mark.parametrize(
    ("client", "server", "vantage"),
    [("127.0.0.1", "127.0.0.1", "sender"), ("127.0.0.1", "127.0.1.1", "sender"), ("10.0.0.1", "10.0.0.2", "receiver")],
)
def test_on_one_host_a_capture_is_beside_the_sender(client: str, server: str, vantage: str, tmp_path: Path) -> None:
    """The kernel answers within 20 us, the program that opened after 90: that places the capture only between hosts."""
    trace, ends = Trace(), {"client": client, "server": server}
    trace.packet(1.0, True, 0, 0, SYN, **ends)  # type: ignore[arg-type]
    trace.packet(1.00002, False, 1000, 1, SYN | ACK, **ends)  # type: ignore[arg-type]
    trace.packet(1.00011, True, 1, 1001, **ends)  # type: ignore[arg-type]
    for i in range(20):
        trace.packet(1.1 + i * 0.001, True, 1 + i * 100, 1001, payload=100, **ends)  # type: ignore[arg-type]
        trace.packet(1.10002 + i * 0.001, False, 1001, 101 + i * 100, **ends)  # type: ignore[arg-type]
    (connection,) = connections(trace, tmp_path)
    (subflow,) = connection.subflows
    assert subflow.vantage == vantage
    assert subflow.rtt_median_us is not None
    assert (subflow.rtt_median_us <= 21) == (vantage == "sender")


def test_mptcp_without_its_handshake(tmp_path: Path) -> None:
    trace = Trace()
    trace.packet(1.0, True, 1, 1001, payload=100, options=mapping(5, 1, 100))
    (connection,) = connections(trace, tmp_path)
    assert (connection.kind, connection.version, connection.token, connection.bytes) == ("mptcp", None, None, 100)


@pytest.mark.parametrize("jobs", [1, 2])
def test_more_subflows_than_a_controller_has_places(jobs: int, tmp_path: Path) -> None:
    trace = Trace()
    first_subflow(trace, 1)
    trace.packet(1.5, True, 1, 1001, payload=100, client="10.9.0.1", server="10.9.0.2")  # threads need two connections
    for i in range(9):
        joined(trace, token(SERVER_KEY, 1), 2.0 + i * 0.2, port=2000 + i)
    with rewindow.open(trace.write(tmp_path / "trace.pcap")) as capture, capture.stream(["tccc"], jobs=jobs) as replay:
        result = replay.collect()
    connection = next(c for c in result.connections if c.kind == "mptcp")
    assert len(connection.subflows) == 10
    assert [s.replayed for s in connection.subflows] == [True] * 8 + [False] * 2
    found = result.summary.oddities["too_many_subflows"]
    assert found["count"] == 2
    record = 3 + 1 + 7 * 3 + 2  # the answer to the ninth subflow's SYN, from which on it counts as there
    assert (found["first_record"], found["first_ns"]) == (record, 3_500_000_000)
    assert found["first_offset"] == offset_of(tmp_path / "trace.pcap", record)


def test_goodput_and_completion_count_from_the_first_data_to_its_last_acknowledgment(tmp_path: Path) -> None:
    """Neither the handshake nor the end of the connection, which takes a round trip of its own, is a part of it."""
    trace = Trace()
    trace.handshake(1.0, 0.1)
    for i, at in enumerate((1.5, 1.7)):
        trace.packet(at, True, 1 + 1000 * i, 1001, payload=1000)
        trace.packet(at + 0.1, False, 1001, 1001 + 1000 * i)
    trace.packet(2.5, True, 2001, 1001, FIN | ACK)
    trace.packet(2.6, False, 1001, 2002, FIN | ACK)
    trace.packet(2.60001, True, 2002, 1002)
    [found] = connections(trace, tmp_path)
    assert found.completion_s == pytest.approx(0.3)
    assert found.goodput_bps == pytest.approx(2000 * 8 / 0.3)
    assert found.subflows[0].goodput_bps == pytest.approx(2000 * 8 / 0.3)
