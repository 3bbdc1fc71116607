"""Several threads give the rows, marks, sets and tables of one, in its order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rewindow
from rewindow.cli import main
from tests.packets import Trace

CAPTURES = sorted((Path(__file__).parent.parent / "captures").glob("*.pcap"))


def _replayed(paths: list[Path], jobs: int) -> rewindow.Result:
    with rewindow.open(*paths) as capture:
        stream = capture.stream(
            ["tccc", "newreno"], detectors=["sbcc"], bottlenecks=True, monitor=True, batch_rows=1000, jobs=jobs
        )
        with stream as replay:
            return replay.collect()


@pytest.mark.parametrize("paths", [*([p] for p in CAPTURES), CAPTURES], ids=lambda p: "+".join(c.stem for c in p))
def test_several_threads_give_what_one_gives(paths: list[Path]) -> None:
    one = _replayed(paths, 1)
    assert one.acks.num_rows > 0
    for jobs in (2, 3):
        several = _replayed(paths, jobs)
        assert several.acks.equals(one.acks)
        assert several.marks.equals(one.marks)
        assert several.sets.equals(one.sets)
        assert several.summary == one.summary
        assert several.connections == one.connections


def test_several_threads_read_to_the_end_where_the_packets_of_many_flows_are_mixed(tmp_path: Path) -> None:
    """Beyond a number of flows a thread reads some packets ahead of those that it surveys."""
    trace, flows, turns = Trace(), 6000, 3
    for turn in range(turns):
        for flow in range(flows):
            ends, at = (1024 + flow, 80), turn + flow / flows / 2
            trace.packet(at, True, 1 + 100 * turn, 1, payload=100, ports=ends)
            trace.packet(at + 0.1, False, 1, 101 + 100 * turn, ports=ends)
    path = trace.write(tmp_path / "mixed.pcap")
    one, two = (_replayed([path], jobs) for jobs in (1, 2))
    assert one.summary.packets == 2 * flows * turns
    assert two.summary == one.summary
    assert two.acks.equals(one.acks)


def test_a_replay_that_is_closed_early_ends_its_threads() -> None:
    with rewindow.open(*CAPTURES) as capture, capture.stream(["cubic"], batch_rows=10, jobs=4) as replay:
        assert next(iter(replay)).acks.num_rows > 0


def test_the_command_line_takes_a_number_of_threads(capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for jobs in ("1", "2"):
        assert main(["analyze", "--json", "--jobs", jobs, *map(str, CAPTURES)]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
