"""The captures of `make demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewindow
from deploy import demo


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
