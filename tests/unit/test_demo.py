"""The captures of `make demo`."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import rewindow
from deploy import demo

_ENDS = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])


def test_the_demo_is_the_same_each_time_and_lies_where_its_tags_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = list(demo.recordings())
    assert len({r.name for r in every}) == len(every) == demo.DAYS * len(demo.SITES)
    wanted = next(r for r in every if r.algorithm == "tccc")
    files = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        monkeypatch.setattr(demo, "FOLDER", folder)
        files.append(demo.record(wanted))
    assert files[0].read_bytes() == files[1].read_bytes()
    with rewindow.open(files[0]) as capture:
        found = capture.replay().connections
    assert min(c.first_ns for c in found) == wanted.begin_ns
    assert [c.kind for c in found] == ["mptcp", "tcp", "tcp", "tcp"]
    assert [c.quality for c in found] == [[]] * 4, "a finding makes values of the team's page unreliable"


def test_only_a_receiver_that_has_all_data_closes() -> None:
    """Of two flows one is acknowledged to its end."""

    def packet(source: int, port: int, sequence: int, ack: int, payload: int) -> bytes:
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + payload, 0, 0, 64, 6, 0, *_ENDS[:: 1 if source == 1 else -1])
        ports = (port, 80) if source == 1 else (80, port)
        data = ip + struct.pack(">HHIIBBHHH", *ports, sequence, ack, 0x50, 0x10, 1000, 0, 0)
        return struct.pack("<IIIIIII", 6, 32 + len(data), 0, 0, 0, len(data), len(data)) + data + bytes(4)

    sent = [packet(1, port, 1, 1, 500) for port in (1000, 2000)]
    answered = [packet(2, 1000, 1, 501, 0), packet(2, 2000, 1, 400, 0)]
    capture = b"".join(sent + answered)
    changed = [n for n, (a, b) in enumerate(zip(capture, demo.closed(capture), strict=True)) if a != b]
    assert changed == [2 * len(sent[0]) + 28 + 20 + 13]
    assert demo.closed(capture)[changed[0]] == 0x11
