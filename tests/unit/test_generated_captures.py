"""The captures that `make bench` measures with: what analyze finds in them is what was put there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import rewindow

GENERATE = Path(__file__).parents[2] / "build" / "Release" / "bench" / "generate"


def generate(kind: str, path: Path) -> dict[str, int]:
    """kind: the generator's words. The counts that it reports."""
    done = subprocess.run([GENERATE, *kind.split(), path], check=True, capture_output=True, text=True)
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", done.stderr)}


KINDS = [
    "bulk 20000",
    "bulk-us 20000",
    "mptcp 20000 2",
    "mptcp 20000 8",
    "lossy 20000 500 100",
    "many 500",
    "churn 20m",
]
KINDS += ["interleaved 1m 500", "balanced 2m 20", "short 500 100", "offload 1m"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes_every_time(kind: str, tmp_path: Path) -> None:
    paths = [tmp_path / "first.pcap", tmp_path / "second.pcap"]
    assert generate(kind, paths[0]) == generate(kind, paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("kind", "connections", "subflows"),
    [("bulk 20000", 8, 1), ("bulk-us 20000", 8, 1), ("mptcp 20000 2", 4, 2), ("mptcp 20000 8", 1, 8)],
)
def test_senders_and_losses_are_found(kind: str, connections: int, subflows: int, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    put = generate(kind, path)
    with rewindow.open(path) as capture:
        found = capture.replay(["newreno", "cubic"])
    assert put["connections"] == len(found.connections) == connections
    assert [len(c.subflows) for c in found.connections] == [subflows] * connections
    assert found.summary.packets == put["packets"]
    assert not found.summary.oddities
    each = [s for c in found.connections for s in c.subflows]
    assert sum(s.retransmitted_packets for s in each) == put["retransmissions"] > 0
    assert not any(s.spurious_retransmissions for s in each)
    # A second of MPTCP with a long round trip is slow start alone, where coupled algorithms have NewReno's window.
    assert {s.sender_algorithm.candidates[0] for s in each} == {"newreno"}
    assert {c.kind for c in found.connections if c.subflows[0].sender_algorithm.name != "newreno"} <= {"mptcp"}
    assert {s.rtt_min_us for s in each} == {20_000}


@pytest.mark.parametrize("window", [40_000, 80_000])
def test_nothing_is_given_up_in_a_large_window(window: int, tmp_path: Path) -> None:
    """10 Gbit/s and 100 ms: slow start to the window, then one segment in 100 lost with the window full."""
    path = tmp_path / "capture.pcap"
    put = generate(f"lossy {5 * window} {window} 100", path)
    with rewindow.open(path) as capture:
        found = capture.replay(["newreno"])
    sender = found.connections[0].subflows[0]
    assert found.summary.packets == put["packets"]
    assert not found.summary.oddities
    assert sender.retransmitted_packets == put["retransmissions"] > 100
    assert sender.spurious_retransmissions == 0


@pytest.mark.parametrize(
    ("kind", "segments"), [("interleaved 1m 500", 1), ("balanced 2m 20", 1), ("short 500 100", 1), ("offload 1m", 44)]
)
def test_uploads_are_found_whole(kind: str, segments: int, tmp_path: Path) -> None:
    """segments: in each frame of data."""
    path = tmp_path / "capture.pcap"
    put = generate(kind, path)
    with rewindow.open(path) as capture:
        found = capture.replay(["newreno"])
    assert put["connections"] == len(found.connections)
    assert found.summary.packets == put["packets"]
    each = [c.subflows[0] for c in found.connections]
    assert all(s.bytes % (segments * 1448) == 0 for s in each)
    assert any(s.bytes for s in each)
    assert not any(s.retransmitted_packets for s in each)
    assert {s.vantage for s in each} == {"sender"}
    if kind.startswith("short"):
        assert {s.bytes for s in each} == {3 * 1448}
