"""What every run of TLC in a worker is given, and why one gave no verdict (docs/decisions/model-checks.md)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from rewindow import confined, specs
from store.settings import settings

_DISK_SLACK_BYTES = 256 << 20
"""What may be written between two looks."""
_REASON_CHARACTERS_MAX = 2000
_JAVA_BYTES = 4 << 30
"""Address space beside the heap: Java reserves much more than it uses."""


class CannotCheck(Exception):
    """The check cannot be run, now or later: what it needs is missing, or is another one by now, or a limit struck."""


def manifest_of(spec: str, digest: str) -> specs.Manifest:
    """The specification that was asked for. Raises CannotCheck when it is another text by now, SpecUnreadable,
    UnknownSpec."""
    (manifest,) = specs.manifests(Path(settings().specs_folder), [spec])
    if manifest.digest() != digest:
        raise CannotCheck("the specification has changed since this check was asked for; ask again")
    return manifest


def confinement(seconds_max: float) -> list[str]:
    """No network, and limits below which the runner's own on heap, time and disk strike first."""
    cpu_s = 60 + int(2 * seconds_max)  # Java compiles and collects beside the one thread that checks
    memory_bytes = _JAVA_BYTES + (2 * settings().check_memory_mb << 20)
    limits = (cpu_s, memory_bytes, settings().check_disk_bytes_max + _DISK_SLACK_BYTES)
    return [sys.executable, "-I", "-S", str(Path(confined.__file__)), *map(str, limits)]


def failure(found: specs.Outcome, reached: str) -> str:
    """Why a run gave no verdict. reached: how far it was."""
    if found.stopped:
        return f"limit: {found.stopped}; {reached}"
    if found.exit == 0 and found.distinct == 0:
        return "no state was reached: with these constants there is no initial state"
    errors = [e for e in found.errors if not e.startswith(confined.NOT_ISOLATED)]
    said = "\n".join(errors)
    if "OutOfMemory" in said:
        return f"limit: a heap of {settings().check_memory_mb} MB is too small; {reached}"
    if found.exit == -signal.SIGXCPU:
        return f"limit: too much CPU time; {reached}"
    if found.exit == 10:
        said = f"these constants are against an assumption of the specification\n{said}"
    return (said or f"TLC ended with status {found.exit}")[:_REASON_CHARACTERS_MAX]
