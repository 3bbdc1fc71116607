"""Limits of TLC's runs in a worker, and the reason when a run gave no verdict (docs/decisions/model-checks.md)."""

from __future__ import annotations

import signal
from pathlib import Path

from rewindow import confined, specs
from store.settings import settings

_DISK_SLACK_BYTES = 256 << 20
"""What a run may write between two measurements of its disk space."""
_REASON_CHARACTERS_MAX = 2000
_JAVA_BYTES = 4 << 30
"""Address space beside the heap: Java reserves much more than it uses."""


class CannotCheck(Exception):
    """The check has failed for good: something that it needs is missing or has changed, or it reached a limit."""


def manifest_of(spec: str, digest: str) -> specs.Manifest:
    """The requested specification. Raises CannotCheck when its text has changed since, SpecUnreadable, UnknownSpec."""
    (manifest,) = specs.manifests(Path(settings().specs_folder), [spec])
    if manifest.digest() != digest:
        raise CannotCheck("the specification has changed since this check was requested; request it again")
    return manifest


def confinement(seconds_max: float) -> list[str]:
    """The command that confines a run: no network, and limits wider than the runner's own on heap, time and disk."""
    cpu_s = 60 + int(2 * seconds_max)  # Java compiles and collects beside the one thread that checks
    memory_bytes = _JAVA_BYTES + (2 * settings().check_memory_mb << 20)
    file_bytes = settings().check_disk_bytes_max + _DISK_SLACK_BYTES
    return confined.command(confined.NETWORK, cpu_s, memory_bytes, file_bytes)


def failure(found: specs.Outcome, reached: str) -> str:
    """The reason why a run gave no verdict. reached: its progress, for the text."""
    if found.stopped:
        return f"limit: {found.stopped}; {reached}"
    if found.exit == 0 and found.distinct == 0:
        return "no state was reached: with these constants there is no initial state"
    errors = [e for e in found.errors if not e.startswith(confined.NOT_ISOLATED)]
    said = "\n".join(errors)
    if "OutOfMemory" in said:
        return f"limit: a heap of {settings().check_memory_mb} MB is too small; {reached}"
    if found.exit == -signal.SIGXCPU:
        return f"limit: CPU time; {reached}"
    if found.exit == 10:
        said = f"these constants violate an assumption of the specification\n{said}"
    return (said or f"TLC ended with status {found.exit}")[:_REASON_CHARACTERS_MAX]
