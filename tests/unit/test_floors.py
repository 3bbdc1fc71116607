"""A controller that follows the steps of another sender, and the floors of `make validate`."""

from __future__ import annotations

import csv
import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rewindow
from bench import floors, kernel_sets
from bench.controllers import Compared
from kernel import tracing
from lab import controllers
from rewindow import BadOption, Controller
from rewindow.controllers.steps import UNSET, Step

CAPTURE = Path(__file__).parent.parent / "captures" / "mptcp-two-subflows.pcap"
ONE = 1 << 16


def driven(name: str) -> list[Step]:
    """What another controller of this name did: slow start on two paths, a loss and its undo, a timeout, avoidance."""
    c = Controller(name, mode="kernel", mss=1324)
    c.observe()
    first, second = (c.join({"cwnd": 10.0, "rtt": rtt}) for rtt in (0.03, 0.09))
    for i in range(20):
        c.ack(first, acked=2, rtt=0.03 + 0.001 * i)
        c.ack(second, acked=1, rtt=0.09 - 0.0005 * i)
    c.loss(first)
    c.undo(first)
    c.ece(second)
    for _ in range(30):
        c.ack(first, acked=1, rtt=0.05)
        c.ack(second, acked=3, rtt=0.08)
    c.timeout(second)
    for _ in range(30):
        c.ack(second, acked=1, rtt=0.1)
    c.leave(first)
    return c.steps()


def told(step: Step) -> dict[str, Any]:
    """The arguments of `follow`."""
    after = step.paths[step.path]
    state = {
        "cwnd_q16": after.cwnd_q16, "ssthresh_q16": after.ssthresh_q16, "srtt_ns": after.srtt_ns,
        "recovering": after.recovering,
    } if after else {"cwnd_q16": ONE, "ssthresh_q16": UNSET}  # fmt: skip
    facts = {
        "acked": step.acked_segments, "marked": step.marked_segments, "rtt_ns": step.rtt_ns,
        "rtt_newest_ns": step.rtt_ns, "una": step.una, "following": step.next,
    }  # fmt: skip
    return {"kind": step.kind, "path": step.path, **state, **facts}


@pytest.mark.parametrize("name", ["css", "tccc", "tccc+"])
def test_the_same_facts_give_the_same_windows(name: str) -> None:
    steps = driven(name)
    assert {"join", "ack", "rtt", "loss", "undo", "ece", "timeout", "machinery", "leave"} <= {s.kind for s in steps}
    follower = Controller(name, mode="kernel", mss=1324)
    for step in steps:
        follower.follow(**told(step))
        windows = [round(follower.paths[i].cwnd * ONE) for i in follower.live]
        assert windows == [p.cwnd_q16 for p in step.paths if p], step


def test_another_algorithm_does_not_follow() -> None:
    """Only the machinery's part of a window is taken over."""
    follower, differ = Controller("newreno", mode="kernel", mss=1324), 0
    for step in driven("tccc"):
        follower.follow(**told(step))
        differ += any(round(follower.paths[i].cwnd * ONE) != p.cwnd_q16 for i, p in enumerate(step.paths) if p)
    assert differ > 50


def test_steps_that_cannot_be_followed() -> None:
    c = Controller("css", mode="kernel")
    there: dict[str, Any] = {"cwnd_q16": 10 * ONE, "ssthresh_q16": UNSET}
    with pytest.raises(BadOption, match="no such path"):
        c.follow("ack", 0, **there)
    c.follow("join", 3, **there)
    assert (c.live, c.paths[3].cwnd) == ([3], 10.0)
    with pytest.raises(BadOption, match="joined already"):
        c.follow("join", 3, **there)
    with pytest.raises(BadOption, match="no reduction"):
        c.follow("undo", 3, **there)
    with pytest.raises(BadOption, match="of a detector"):
        c.follow("judge_set", 3, **there)
    with pytest.raises(BadOption, match="1 to 1048576 segments"):
        c.follow("machinery", 3, cwnd_q16=ONE - 1, ssthresh_q16=UNSET)
    c.follow("machinery", 3, cwnd_q16=7 * ONE, ssthresh_q16=8 * ONE, recovering=True)
    assert (c.paths[3].cwnd, c.paths[3].ssthresh, c.paths[3].recovering) == (7.0, 8.0, True)


def records(steps: list[Step]) -> Iterator[tracing.Record]:
    """As the program in the kernel writes them: the subflow on path i has port 1000 + i."""
    for s in steps:
        own = told(s)
        head = (own["cwnd_q16"], own["ssthresh_q16"], own.get("srtt_ns", 0))
        words = (*head, 0, 0, 0, 0, 1, int(own.get("recovering", 0)), 0, 0, 0)
        paths = tuple(words if i == s.path else (0,) * 12 for i in range(8))
        yield tracing.Record(
            s.time_ns, 77, s.rtt_ns, s.rtt_ns, s.acked_segments, s.marked_segments, s.una, s.next, 1324, 1000 + s.path,
            s.kind, s.path, (), paths,
        )  # fmt: skip


def test_the_floor_of_the_inputs(tmp_path: Path) -> None:
    """Steps as the lab writes them; a window that the controller would not have had is counted."""
    rows = [controllers.step_row("rw_tccc", 0, r) for r in records(driven("tccc"))]
    window = controllers.COLUMNS.index("cwnd_q16")
    at = next(i for i, r in enumerate(rows) if r[4] == "ack")
    for wrong in (0, 1):
        rows[at] = (*rows[at][:window], int(rows[at][window]) + wrong * ONE, *rows[at][window + 1 :])
        with gzip.open(tmp_path / controllers.STEPS_FILE, "wt", newline="") as f:
            csv.writer(f).writerows([controllers.COLUMNS, *rows])
        found = floors.of_inputs(tmp_path)
        assert sorted(found) == [1000, 1001]
        assert [acks - equal for acks, equal in found.values()] == [wrong, 0]
        assert found[1000][0] == sum(r[3] == 1000 and r[4] == "ack" for r in rows) > 40
    assert floors.of_inputs(tmp_path / "no run") == {}


def test_acks_that_arrive_later(tmp_path: Path) -> None:
    """Round trips are 20 us longer for one sender, and as they were for another; every packet is there."""
    later = tmp_path / "later.pcap"
    floors.write_later(CAPTURE, {("10.0.1.1", 59584)}, later)
    assert later.stat().st_size == CAPTURE.stat().st_size

    def samples(path: Path) -> dict[str, list[int | None]]:
        with rewindow.open(path) as capture:
            result = capture.replay(["newreno"])
        ends = {(c.id, s.id): s.src for c in result.connections for s in c.subflows}
        found: dict[str, list[int | None]] = {}
        columns = (result.acks[name].to_pylist() for name in ("connection", "subflow", "rtt_us"))
        for c, s, rtt in zip(*columns, strict=True):
            found.setdefault(ends[c, s], []).append(rtt)
        return found

    before, after = samples(CAPTURE), samples(later)
    shifted = [b - a for a, b in zip(before["10.0.1.1"], after["10.0.1.1"], strict=True) if a and b]
    # Not each: data that left just before the ACK belongs to its burst, and a retransmission is timed in milliseconds.
    assert len(shifted) > 1000
    assert sum(shift == 20 for shift in shifted) > 0.9 * len(shifted)
    assert after["10.0.2.1"] == before["10.0.2.1"]
    later.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 105))
    with pytest.raises(ValueError, match="is no pcap file of a link type"):
        floors.write_later(later, set(), tmp_path / "other.pcap")


@pytest.mark.parametrize(
    ("equal", "within_one", "later", "reaches", "short"),
    [
        (990, 1000, (1000, 1000, 1000), True, False),
        (989, 1000, (1000, 1000, 1000), False, True),
        (900, 1000, (1000, 900, 1000), False, False),
        (899, 1000, (1000, 900, 1000), False, True),
        (1000, 999, (1000, 1000, 1000), False, True),
        (1000, 999, (1000, 1000, 998), False, False),
    ],
)
def test_a_subflow_is_judged_by_the_goal_or_by_the_floor(
    equal: int, within_one: int, later: tuple[int, int, int], reaches: bool, short: bool
) -> None:
    compared = Compared("run", "css", "10.0.1.1:1", False, 1000, equal, within_one, None, later)
    assert (compared.reaches_goal, compared.falls_short) == (reaches, short)


def test_sets_agree_for_the_time_in_which_both_detectors_say_the_same() -> None:
    """From 1 s on, when the second one begins: final in the kernel from 3 to 7 s, in the replay from 4 to 7 s."""
    s = 10**9
    kernel = [(0, 0, "monitor"), (2 * s, 1, "judgement"), (3 * s, 1, "final"), (7 * s, 0, "monitor")]
    replay = [(s, 0, "monitor"), (2 * s, 1, "judgement"), (4 * s, 1, "final"), (7 * s, 0, "monitor")]
    assert kernel_sets.agreement(kernel, replay, 11 * s) == (10.0, 0.9, 0.4, 0.3)
    found = kernel_sets.Sets("run", "10.0.1.1:5", 10.0, 0.9, 3, 3, 0.4, 0.3)
    assert kernel_sets.table([found])[2] == "| run | 10.0.1.1:5 | 10.0 | 90.00% | 3 | 3 | 40.0% | 30.0% |"
    assert found.falls_short


def test_the_lab_writes_a_set_down_for_every_subflow(tmp_path: Path) -> None:
    """A decision is one step of the kernel, of the subflow whose callback took it."""
    idle = (0,) * 8 + (1, 0)
    path = {port: (*idle[:7], 1, 0, 0, 2, 2) + (0,) * 11 for port in (0, 1)}
    alone = {port: (*idle[:7], 1, 0, 0, 0, 0) + (0,) * 11 for port in (0, 1)}

    def record(kind: str, number: int, paths: dict[int, tuple[int, ...]]) -> tracing.Record:
        return tracing.Record(
            10**9, 77, 0, 0, 0, 0, 0, 0, 1400, 5000 + number, kind, number, (0,) * 4, (paths[0], paths[1])
        )

    steps = controllers.Steps.__new__(controllers.Steps)
    steps._found = {"rw_sbcc": [record("join", 0, alone), record("join", 1, alone), record("sets", 1, path)]}
    steps.write_truth(tmp_path / controllers.STEPS_FILE)
    assert kernel_sets.in_the_kernel(tmp_path) == {
        5000: [(10**9, 0, "monitor"), (10**9, 2, "final")],
        5001: [(10**9, 0, "monitor"), (10**9, 2, "final")],
    }
