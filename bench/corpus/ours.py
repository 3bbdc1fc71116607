"""rewindow's result for a capture, in a process of its own: `python -m bench.corpus.ours CAPTURE [SANITIZED]`.

SANITIZED is core-c/tests/replay_file under sanitizers: it replays the same files with every controller.
Prints JSON: `summary` and `connections`, or `error`; `sanitizer`: its error, or null.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import rewindow

SANITIZED_S = 120


def sanitizer_report(program: str, capture: rewindow.Capture) -> str | None:
    files = [f"/dev/fd/{fd}" for fd in capture.descriptors]
    command = [program, "-c", str(capture.copies), *files]
    try:
        done = subprocess.run(
            command, pass_fds=capture.descriptors, capture_output=True, text=True, timeout=SANITIZED_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"took more than {SANITIZED_S} s under sanitizers"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "ERROR" in line or "runtime error" in line]
    return (lines or done.stderr.splitlines() or [f"status {done.returncode}"])[0]


def read(path: str, sanitized: str | None) -> dict[str, Any]:
    try:
        with rewindow.open(path) as capture:
            with capture.stream() as replay:
                replay.run()
                found: dict[str, Any] = {
                    "summary": asdict(replay.summary()),
                    "connections": [asdict(c) for c in replay.connections()],
                }
            found["sanitizer"] = sanitizer_report(sanitized, capture) if sanitized else None
            return found
    except rewindow.CaptureUnreadable as e:
        return {"error": e.reason, "sanitizer": None}


if __name__ == "__main__":
    json.dump(read(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None), sys.stdout)
