"""Other programs, run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.errors import LabFailed

TIMEOUT_S = 60


def run(words: Sequence[str], stdin: str = "") -> str:
    """Returns the program's output. Raises LabFailed with its error message."""
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise LabFailed(f"{' '.join(words)}: {e}") from e
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise LabFailed(f"{' '.join(words)}: exit status {done.returncode}: {'; '.join(said[-2:])}")
    return done.stdout


def ip(commands: Sequence[str], namespace: str | None = None) -> None:
    """Runs commands of ip(8), one on each line, in one process."""
    where = ["-n", namespace] if namespace else []
    run(["ip", *where, "-batch", "-"], "".join(f"{c}\n" for c in commands))


def inside(namespace: str, *words: str) -> list[str]:
    """The command line that runs a program in a network namespace, in the same process."""
    return ["ip", "netns", "exec", namespace, *words]
