"""Uploads without payload before anything is stored: a process of its own reads them with the core, which the API does
not load (rewindow/captures/redaction_service.py)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

import structlog

from api.errors import Unavailable

log = structlog.get_logger()

_CHUNK = 1 << 20
_ANSWER_BYTES_MAX = 8192
_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR", "REWINDOW_TSHARK_SOCKET",
    "REWINDOW_ALLOW_UNCONFINED",
)  # fmt: skip
"""The service gets no passwords of the API's."""
_AWAY = "captures cannot be read at the moment; try again"


class NothingKept(Exception):
    """The upload is no capture from which payload can be cut."""


class Redactor:
    """The service of this process, which is started when it is first needed and again when it has ended."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.stop()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rewindow.captures.redaction_service"], stdin=theirs.fileno(), env=environment
            )

    def stop(self) -> None:
        """Copies under way end by themselves."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    def _ask(self, asked: bytes, files: list[int]) -> None:
        """Raises Unavailable."""
        for attempt in range(2):
            if self._control is None or self._process is None or self._process.poll() is not None:
                self.start()
            try:
                assert self._control is not None
                socket.send_fds(self._control, [asked], files)
                return
            except OSError as e:
                log.warning("redaction.service_ended", reason=str(e), attempt=attempt)
                self.stop()
        raise Unavailable(_AWAY, headers={"Retry-After": "1"})

    async def copy(self, chunks: AsyncIterator[bytes], name: str, key: bytes | None) -> AsyncIterator[bytes]:
        """The capture's copy, in parts. All of `chunks` are read, also where nothing can be kept.

        key: from which other addresses follow; None: addresses stay. Raises NothingKept, Unavailable, and what `chunks`
        raises.
        """
        asked = json.dumps({"name": name, "key": None if key is None else key.hex()}).encode()
        answers, their_answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        source, sink = os.pipe()
        copied, target = os.pipe()
        theirs = [source, target, their_answers.detach()]
        try:
            self._ask(asked, theirs)
        except BaseException:
            answers.close()
            os.close(sink)
            os.close(copied)
            raise
        finally:
            for file in theirs:
                os.close(file)
        feeding = asyncio.create_task(_feed(chunks, sink))
        try:
            async with aclosing(_read(copied)) as parts:
                async for part in parts:
                    yield part
            await feeding
            said = await _answer(answers)
        finally:
            answers.close()
            if not feeding.done():
                feeding.cancel()
                with suppress(asyncio.CancelledError):
                    await feeding
        if said is None:
            log.error("redaction.failed", capture=name)
            raise NothingKept(f"{name}: it broke the program that cuts payload")
        if "passing" in said:
            log.warning("redaction.put_off", capture=name, reason=said["passing"])
            raise Unavailable(f"{said['passing']}; try again", headers={"Retry-After": "10"})
        if "reason" in said:
            raise NothingKept(said["reason"])


async def _feed(chunks: AsyncIterator[bytes], sink: int) -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(sink, "wb", 0))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    reads = True
    try:
        async for chunk in chunks:
            if not reads:
                continue
            writer.write(chunk)
            try:
                await writer.drain()
            except (BrokenPipeError, ConnectionResetError):
                reads = False  # it has ended; the upload is read to its end
    finally:
        transport.close()


async def _read(copied: int) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(copied, "rb", 0)
    )
    try:
        while part := await reader.read(_CHUNK):
            yield part
    finally:
        transport.close()


async def _answer(answers: socket.socket) -> dict[str, str] | None:
    """None: the process ended without one."""
    answers.setblocking(False)
    loop = asyncio.get_running_loop()
    said = b""
    with suppress(ConnectionResetError):
        while part := await loop.sock_recv(answers, _ANSWER_BYTES_MAX):
            said += part
    return dict(json.loads(said)) if said else None
