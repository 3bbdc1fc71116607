"""The captures that `make bench` measures with: what analyze finds in them is what was put there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import rewindow

GENERATE = Path(__file__).parents[2] / "build" / "Release" / "bench" / "generate"


def generate(kind: str, amount: str, path: Path) -> dict[str, int]:
    """The counts that the generator reports."""
    done = subprocess.run([GENERATE, kind, amount, path], check=True, capture_output=True, text=True)
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", done.stderr)}


@pytest.mark.parametrize(("kind", "amount"), [("bulk", "20000"), ("mptcp", "20000"), ("many", "500"), ("churn", "20m")])
def test_the_same_bytes_every_time(kind: str, amount: str, tmp_path: Path) -> None:
    paths = [tmp_path / "first.pcap", tmp_path / "second.pcap"]
    assert generate(kind, amount, paths[0]) == generate(kind, amount, paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(("kind", "connections", "subflows"), [("bulk", 8, 1), ("mptcp", 4, 2)])
def test_senders_and_losses_are_found(kind: str, connections: int, subflows: int, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    put = generate(kind, "20000", path)
    with rewindow.open(path) as capture:
        found = capture.replay(["newreno", "cubic"])
    assert put["connections"] == len(found.connections) == connections
    assert [len(c.subflows) for c in found.connections] == [subflows] * connections
    assert found.summary.packets == put["packets"]
    assert not found.summary.oddities
    each = [s for c in found.connections for s in c.subflows]
    assert sum(s.retransmitted_packets for s in each) == put["retransmissions"] > 0
    assert not any(s.spurious_retransmissions for s in each)
    assert {s.sender_algorithm.name for s in each} == {"newreno"}
    assert {s.rtt_min_us for s in each} == {20_000}
