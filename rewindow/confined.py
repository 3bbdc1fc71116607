"""Runs another program under limits, without a network.

    python -I -S confined.py CPU_S MEMORY_BYTES FILE_BYTES PROGRAM ...

FILE_BYTES bounds each file that it writes.

It is a program of its own because what happens between fork and exec in a process with threads may deadlock; it
imports only the standard library, to start at once. A line on standard error that begins with `NOT_ISOLATED` says that
the kernel permits no network of one's own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

NOT_ISOLATED = "network not isolated"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CPU_GRACE_S = 2
_FILES_MAX = 64


def _leave_network(libc: ctypes.CDLL) -> str | None:
    """Moves into a network namespace without interfaces; the reason when the kernel does not permit it."""
    for flags in (_CLONE_NEWNET, _CLONE_NEWUSER | _CLONE_NEWNET):  # privileged; as an ordinary user
        if libc.unshare(flags) == 0:
            return None
    return os.strerror(ctypes.get_errno())


def main(arguments: list[str]) -> None:
    cpu_s, memory_bytes, file_bytes, command = int(arguments[0]), int(arguments[1]), int(arguments[2]), arguments[3:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if reason := _leave_network(libc):
        print(f"{NOT_ISOLATED}: {reason}", file=sys.stderr, flush=True)
    for limit, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, _FILES_MAX, _FILES_MAX),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + _CPU_GRACE_S),  # first a signal that tells why, then the end
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
    ):
        resource.setrlimit(limit, (soft, hard))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
