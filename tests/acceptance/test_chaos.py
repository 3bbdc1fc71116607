"""A short round of `make chaos`: the service keeps its promises while parts of it break."""

from __future__ import annotations

import subprocess
import sys

from deploy.run import CHECKOUT

FAULTS = "PostgreSQL stops|the store is full"


def test_what_was_accepted_is_analysed_whatever_breaks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.chaos", "--only", FAULTS], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| none |") == 2, done.stdout
    assert "| accepted and lost, or not ended | 0 | yes |" in done.stdout
    assert "| what-ifs accepted and lost, or not ended | 0 | yes |" in done.stdout
