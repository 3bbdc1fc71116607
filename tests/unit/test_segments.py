"""What a connection sent and what SACK blocks reported, for its time-sequence graph."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rewindow
from rewindow.errors import BadOption
from tests.packets import Trace
from tests.unit.test_connections import SERVER_KEY, first_subflow, joined, mapping, token

CAPTURES = Path(__file__).parent.parent / "captures"


def segments(path: Path, connection: int) -> pa.Table:
    with rewindow.open(path) as capture, capture.stream(segments_of=connection) as replay:
        return pa.Table.from_batches(replay.segments())


def of_kind(table: pa.Table, subflow: int, *kinds: str) -> list[tuple[int, int, int]]:
    """Time, position and bytes."""
    mine = table.filter(pc.and_(pc.equal(table["subflow"], subflow), pc.is_in(table["kind"], pa.array(kinds))))
    return list(zip(*(mine[n].to_pylist() for n in ("time_ns", "position", "bytes")), strict=True))


def tshark(path: Path, chosen: str, *fields: str) -> list[list[str]]:
    found = subprocess.run(
        ["tshark", "-r", path, "-Y", chosen, "-T", "fields", *(a for f in fields for a in ("-e", f))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split("\t") for line in found.stdout.splitlines()]


def ns(epoch: str) -> int:
    seconds, fraction = epoch.split(".")
    return int(seconds) * 10**9 + int(fraction)


def test_segments_are_those_of_the_capture() -> None:
    """tshark's time, number and length of each packet with data, and each SACK block that an ACK brings anew."""
    path = CAPTURES / "mptcp-two-subflows.pcap"
    table = segments(path, 1)
    for subflow, port in enumerate((59584, 47667)):
        sent = tshark(path, f"tcp.srcport=={port} && tcp.len>0", "frame.time_epoch", "tcp.seq_raw", "tcp.len")
        first = int(sent[0][1])
        expected = [(ns(t), (int(seq) - first) % 2**32, int(length)) for t, seq, length in sent]
        assert of_kind(table, subflow, "data", "retransmission", "reinjection") == expected

        blocks, before = [], set[tuple[str, str]]()
        for t, left, right in tshark(
            path, f"tcp.dstport=={port}", "frame.time_epoch", "tcp.options.sack_le", "tcp.options.sack_re"
        ):
            now = list(zip(left.split(","), right.split(","), strict=True)) if left else []
            blocks += [(ns(t), int(low) - 1, int(high) - int(low)) for low, high in now if (low, high) not in before]
            before = set(now)
        assert of_kind(table, subflow, "sack", "dsack") == blocks
        assert len(blocks) > 50


@pytest.mark.parametrize(("name", "connection"), [("mptcp-two-subflows", 1), ("mptcp-three-subflows", 0)])
def test_retransmissions_are_those_that_the_kernel_counted(name: str, connection: int) -> None:
    path = CAPTURES / f"{name}.pcap"
    table = segments(path, connection)
    with rewindow.open(path) as capture:
        result = capture.replay()
    subflows = result.connections[connection].subflows
    assert sum(s.retransmitted_packets for s in subflows) > 50
    for s in subflows:
        assert len(of_kind(table, s.id, "retransmission")) == s.retransmitted_packets
        new = of_kind(table, s.id, "data")
        assert sum(size for _, _, size in new) == s.bytes
        # New data follows on what was sent before: there is no hole in this capture, and it ends with the last byte.
        assert all(low + size == high for (_, low, size), (_, high, _) in pairwise(new))


def test_positions_are_those_of_the_acks() -> None:
    """No ACK is ahead of what had left by then, and in the end all of it is acknowledged."""
    path = CAPTURES / "mptcp-three-subflows.pcap"
    table = segments(path, 1)
    with rewindow.open(path) as capture:
        acks = capture.replay().acks.filter(pc.field("connection") == 1)
    for subflow in (0, 1, 2):
        sent = np.array(of_kind(table, subflow, "data"), np.int64)
        mine = acks.filter(pc.field("subflow") == subflow)
        times, positions = mine["time_ns"].to_numpy(), mine["position"].to_numpy()
        ends = sent[:, 1] + sent[:, 2]
        left = ends[np.searchsorted(sent[:, 0], times, "right") - 1]
        assert (positions <= left + (left == ends[-1])).all()  # the FIN takes a number
        assert positions.max() - ends[-1] in (0, 1)


ON_SECOND: dict[str, Any] = {"client": "10.0.1.1", "server": "10.0.1.2", "ports": (2000, 80)}


def reinjecting() -> Trace:
    """One reinjection and one retransmission. The same data on another subflow is a reinjection, on the same one a
    retransmission; a part of it is neither."""
    trace = Trace()
    first_subflow(trace, 1)
    joined(trace, token(SERVER_KEY, 1), 2.0)
    base = 2**32 - 50  # the low half of the data sequence number wraps
    trace.packet(3.0, True, 1, 1001, payload=100, options=mapping(base, 1, 100))
    trace.packet(3.1, True, 51, 901, payload=100, options=mapping(base, 1, 100), **ON_SECOND)
    trace.packet(3.2, True, 101, 1001, payload=100, options=mapping((base + 100) % 2**32, 101, 100))
    trace.packet(3.3, True, 151, 901, payload=100, options=mapping((base + 150) % 2**32, 101, 100), **ON_SECOND)
    trace.packet(4.3, True, 1, 1001, payload=100, options=mapping(base, 1, 100))
    trace.packet(4.4, False, 1001, 201)
    trace.packet(4.5, False, 901, 251, **ON_SECOND)
    return trace


def test_reinjections_and_retransmissions_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "reinjected.pcap"
    reinjecting().write(path)
    table = segments(path, 0)
    kinds = list(zip(table["subflow"].to_pylist(), table["kind"].to_pylist(), strict=True))
    assert kinds == [(0, "data"), (1, "reinjection"), (0, "data"), (1, "data"), (0, "retransmission")]


def test_a_connection_that_is_not_there_is_refused() -> None:
    with (
        rewindow.open(CAPTURES / "mptcp-ecn.pcap") as capture,
        pytest.raises(BadOption, match=r"connection 7; .* have 2"),
    ):
        capture.stream(segments_of=7)
