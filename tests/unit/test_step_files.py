"""Logs of steps as files: written, read again, judged by TLC; what is no such log is told with its line."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import rewindow
from rewindow import Choice, cli
from rewindow.conformance import step_files
from rewindow.controllers.steps import Step

CAPTURES = Path(__file__).parent.parent / "captures"
KERNEL = Path(__file__).parent.parent / "kernel" / "tccc.steps.gz"
"""What tccc did in a real kernel: docs/kernel.md says how it was recorded."""


def steps_of(name: str) -> list[Step]:
    with rewindow.open(CAPTURES / name) as capture, capture.stream([Choice("tccc")], transitions=True) as replay:
        return [s for s in replay.steps() if s.connection == 1]


@pytest.mark.parametrize("name", ["some.steps", "some.steps.gz"])
def test_steps_are_read_as_they_were_written(tmp_path: Path, name: str) -> None:
    path, choice = tmp_path / name, Choice("tccc", {"L": "1", "aca_md": "auto"})
    steps = steps_of("mptcp-two-subflows.pcap")
    assert step_files.write(path, choice, steps) == len(steps) > 1000
    told, *read = step_files.read(path)
    assert isinstance(told, Choice)
    assert (told.name, told.options) == (choice.name, choice.options)
    # Where a replay stood is not in the file.
    assert [(s.kind, s.paths, s.alpha_q32) for s in read] == [(s.kind, s.paths, s.alpha_q32) for s in steps]


HEAD = {"steps": 1, "algorithm": "tccc", "options": {}}


def damaged() -> list[bytes]:
    step = {
        "time_ns": 1, "connection": 0, "path": 0, "acked_segments": 0, "initial_ss": True, "alpha_q32": 1,
        "con_ssthresh_q16": 0, "mss_bytes": 1460, "set_asked": [0] * 4, "set_seen": [0] * 4, "rtt_ns": 0,
        "marked_segments": 0, "una": 0, "next": 0, "kind": "join", "paths": [None] * 8,
    }  # fmt: skip
    wrong: list[object] = [
        [], 7, None, step | {"path": 8}, step | {"path": -1}, step | {"paths": []},
        step | {"paths": [[1]] + [None] * 7},
        step | {"kind": "jump"}, step | {"time_ns": 1 << 70}, step | {"alpha_q32": "1"}, step | {"set_seen": [1]},
        {k: v for k, v in step.items() if k != "una"}, step | {"paths": [[0.5] * 13] + [None] * 7},
    ]  # fmt: skip
    lines = [json.dumps(w).encode() + b"\n" for w in wrong]
    return [*lines, b"{", b"\xff\n", b"[" * 40000 + b"\n", json.dumps(step).encode()]


@pytest.mark.parametrize("line", damaged())
def test_a_damaged_line_is_told(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "some.steps"
    path.write_bytes(json.dumps(HEAD).encode() + b"\n" + line)
    with pytest.raises(step_files.StepsUnreadable, match="line 2"):
        list(step_files.read(path))


@pytest.mark.parametrize(
    "head", [b"", b"\n", b'{"steps": 2, "algorithm": "tccc", "options": {}}\n', b"\x1f\x8b\x08\x00"]
)
def test_a_file_of_something_else_is_told(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "some.steps"
    path.write_bytes(head)
    with pytest.raises(step_files.StepsUnreadable, match="line 1"):
        list(step_files.read(path))


def test_tlc_follows_what_a_real_kernel_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And not where a window that the kernel had is another one."""
    _, *steps = step_files.read(KERNEL)
    kinds = {s.kind for s in steps if isinstance(s, Step)}
    assert {"join", "ack", "loss", "rtt", "machinery", "leave"} <= kinds
    lines = gzip.decompress(KERNEL.read_bytes()).splitlines(keepends=True)
    acks = [n for n, line in enumerate(lines) if b'"kind":"ack"' in line]
    n = random.Random(7).choice(acks)
    step = json.loads(lines[n])
    step["paths"][step["path"]][0] += 1 << 14
    changed = tmp_path / "changed.steps"
    changed.write_bytes(b"".join([*lines[:n], json.dumps(step).encode() + b"\n", *lines[n + 1 :]]))
    assert cli.main(["specs", "trace", "--steps", "--json", str(KERNEL), str(changed)]) == 1
    verdicts = json.loads(capsys.readouterr().out)["connections"]
    count = len({s.connection for s in steps if isinstance(s, Step)})
    assert [v["conforms"] for v in verdicts[:count]] == [True] * count
    (violation,) = [v["first_violation"] for v in verdicts[count:] if not v["conforms"]]
    assert (violation["step"], violation["time_ns"]) == ("ack", step["time_ns"])
