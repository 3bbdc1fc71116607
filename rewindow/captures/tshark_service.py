"""Runs tshark for other processes of this host, one run for each connection to a Unix socket.

    python -m rewindow.captures.tshark_service SOCKET

It belongs into a container without network, secrets and store (docker-compose.yml), where a program that breaks out of
tshark's walls finds nothing. A client sends its limits with three open files: the capture, the pipe for the rows, a
file for messages. The service answers with tshark's version, and with the exit status when tshark has ended. When the
client ends, so does its run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
from pathlib import Path

from rewindow.captures import tshark
from rewindow.errors import DependencyFailed, DissectorMissing

_FILES = 3


def _run(connection: socket.socket, asked: bytes, files: list[int]) -> None:
    try:
        limits = tshark.Limits(**json.loads(asked))
        tool = tshark.version(tshark.installed())
        process = tshark.launch(limits, *files)
    except DependencyFailed as e:
        answer = {"missing": isinstance(e, DissectorMissing), "reason": str(e)}
        connection.sendall(json.dumps(answer).encode())
        return
    finally:
        for file in files:
            os.close(file)
    ended = os.pidfd_open(process.pid)
    try:
        connection.sendall(json.dumps({"tool": tool}).encode())
        ready, _, _ = select.select([ended, connection.fileno()], [], [])
        if ended in ready:
            connection.sendall(json.dumps({"status": process.wait()}).encode())
    finally:
        process.kill()
        process.wait()
        os.close(ended)


def _serve(connection: socket.socket) -> None:
    # A client that has gone needs no answer.
    with connection, contextlib.suppress(ConnectionError):
        asked, files, _, _ = socket.recv_fds(connection, tshark.MESSAGE_BYTES_MAX, _FILES, socket.MSG_CMSG_CLOEXEC)
        if len(files) == _FILES:
            _run(connection, asked, files)
            return
        for file in files:
            os.close(file)


def main(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
