"""Other programs, run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.errors import LabFailed

TIMEOUT_S = 60


def run(words: Sequence[str], stdin: str = "") -> str:
    """What it prints; LabFailed with what it complains about."""
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise LabFailed(f"{' '.join(words)}: {e}") from e
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise LabFailed(f"{' '.join(words)}: exit status {done.returncode}: {said[-1]}")
    return done.stdout


def ip(commands: Sequence[str], namespace: str | None = None) -> None:
    """Commands of ip(8), one a line, in one process."""
    where = ["-n", namespace] if namespace else []
    run(["ip", *where, "-batch", "-"], "".join(f"{c}\n" for c in commands))


def inside(namespace: str, *words: str) -> list[str]:
    """The words that run a program in a network namespace; the process is the program itself."""
    return ["ip", "netns", "exec", namespace, *words]
