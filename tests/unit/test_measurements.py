"""What `make bench` measures of a program is the program's own."""

from __future__ import annotations

import sys

import pytest

from bench.speed import Process

MB = 1_000_000


def test_peak_memory_is_not_that_of_who_started_the_program() -> None:
    """This process has needed more than the program does before it starts it."""
    assert len(bytearray(300 * MB)) == 300 * MB
    run = Process([sys.executable, "-I", "-S", "-c", f"bytearray({60 * MB}); print('done')"]).finish()
    assert run.output == "done\n"
    assert 60 * MB < run.peak_rss_bytes < 120 * MB
    assert run.seconds > 0
    assert run.cpu_seconds > 0


def test_peak_memory_that_cannot_be_told_is_refused() -> None:
    run = Process(["true"]).finish()
    with pytest.raises(SystemExit, match="peak memory is not known"):
        print(run.peak_rss_bytes)


def test_a_program_that_fails_ends_the_measurement() -> None:
    with pytest.raises(SystemExit, match="not a file"):
        Process([sys.executable, "-I", "-S", "-c", "raise SystemExit('not a file')"]).finish()
