"""Redacts captures for a process that does not load the core: `python -m rewindow.captures.redaction_service`.

Standard input is a socket (SOCK_SEQPACKET) to that process, whose end is the service's. Each message asks for one copy:
a JSON object with `name` and `key` (hexadecimal, or null), and three open files: the capture, as a pipe, where its copy
goes, and a socket for the answer. Each copy has a process of its own, under limits, so that a capture which breaks it
harms no other. Answers are JSON objects: `kept_bytes` and the other counts; or `reason`: why it cannot be copied; or
`passing`: a reason for which it cannot be copied now.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import resource
import signal
import socket
from dataclasses import asdict

from rewindow.captures.redaction import redacted
from rewindow.errors import CaptureUnreadable, DependencyFailed, DissectorAway

MESSAGE_BYTES_MAX = 4096
_FILES = 3
_MEMORY_BYTES = 2 << 30
"""Of a copy: more than `xz` may need, and buffers."""
_DRAIN_BYTES = 1 << 20


_HELD_MAX = 4
"""Captures that are held in memory at a time, because tshark decodes them."""


class _TooManyHeld(Exception):
    pass


def _hold(places: int) -> None:
    """Takes one of the places in a file that all copies share, until this process ends. Raises _TooManyHeld."""
    for place in range(_HELD_MAX):
        with contextlib.suppress(OSError):
            fcntl.lockf(places, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return
    raise _TooManyHeld("too many captures are decoded by tshark at the moment")


def _copy(asked: bytes, files: list[int], places: int) -> None:
    wanted = json.loads(asked)
    key = None if wanted["key"] is None else bytes.fromhex(wanted["key"])
    source, target, answer = files
    with (
        os.fdopen(source, "rb") as capture,
        os.fdopen(target, "wb") as copy,
        socket.socket(fileno=answer) as connection,
    ):
        try:
            said = asdict(redacted(wanted["name"], capture, copy, key, hold=functools.partial(_hold, places)))
        except (CaptureUnreadable, DependencyFailed, _TooManyHeld) as e:
            while capture.read(_DRAIN_BYTES):  # whoever sends it is not to fail
                pass
            said = {"passing" if isinstance(e, DissectorAway | _TooManyHeld) else "reason": str(e)}
        with contextlib.suppress(BrokenPipeError):  # the other side has gone
            copy.close()
            connection.sendall(json.dumps(said).encode())


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that have ended leave nothing behind
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it, which ends the socket
    places = os.memfd_create("places", os.MFD_CLOEXEC)
    with socket.socket(fileno=0) as control:
        while True:
            asked, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES_MAX, _FILES, socket.MSG_CMSG_CLOEXEC)
            if not asked:
                return
            if len(files) == _FILES and os.fork() == 0:
                status = 1
                try:
                    control.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it waits for tshark
                    for limit, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
                        resource.setrlimit(limit, (most, most))
                    _copy(asked, files, places)
                    status = 0
                finally:
                    os._exit(status)
            for file in files:
                os.close(file)


if __name__ == "__main__":
    main()
