"""Captures without payload, and with other addresses: a stream in, a stream out, nothing on a disk between them.

Where the core knows a capture's format and link type, the copy is made while the capture is read. tshark decodes other
captures, as for an analysis (dissector.py): the headers that it finds are the copy. It needs the whole file, which is
held in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import IO, cast

from rewindow.captures.decompression import expanded
from rewindow.captures.dissector import Dissection, NotUnderstood, dissect, dissect_format
from rewindow.core import Redaction, count_decoded, redact
from rewindow.errors import CaptureUnreadable, DissectorFailed, NotACapture

KEY_BYTES = 16
HELD_BYTES_MAX = 128 << 20
"""Of a capture that tshark decodes, and of what it finds; each is held in memory."""

_HEAD_BYTES = 1 << 20
"""The first bytes of a capture tell whether tshark decodes it."""

Hold = Callable[[], None]
"""Called before a capture is held in memory; it may raise."""


def redacted(
    name: str, source: IO[bytes], target: IO[bytes], key: bytes | None, *, hold: Hold = lambda: None
) -> Redaction:
    """Reads a capture, which may be compressed, to its end, and writes its copy (rw_redact).

    key: of KEY_BYTES, from which the other addresses follow; None: addresses stay. Raises CaptureUnreadable,
    DissectorMissing, DissectorAway, DissectorNotConfined, DissectorFailed, and what `hold` raises.
    """
    if key is not None and len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    chunks = expanded(name, source)
    with contextlib.ExitStack() as files:
        head = files.enter_context(_memory(buffering=0))
        for chunk in chunks:
            head.write(chunk)
            if head.tell() >= _HEAD_BYTES:
                break
        try:
            decoded, others = count_decoded(head.fileno(), name)
            unknown = None
        except NotACapture as e:
            decoded, others, unknown = 0, 1, e
        head.seek(0)
        if others and not decoded:
            hold()
            head.seek(0, os.SEEK_END)
            _hold(name, head, chunks)
            found = _dissected(name, head, unknown, files.enter_context(_memory()))
            if found is not None:
                did = redact(found.file.fileno(), target.fileno(), key, name)
                return dataclasses.replace(did, decoded_by=found.tool)
            head.seek(0)
        return _redacted(name, itertools.chain(iter(lambda: head.read(_HEAD_BYTES), b""), chunks), target, key)


def _memory(buffering: int = -1) -> IO[bytes]:
    return cast(IO[bytes], os.fdopen(os.memfd_create("rewindow", os.MFD_CLOEXEC), "w+b", buffering=buffering))


def _hold(name: str, file: IO[bytes], chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        if file.tell() + len(chunk) > HELD_BYTES_MAX:
            raise CaptureUnreadable(
                name,
                f"tshark is needed to read it, and it has more than {HELD_BYTES_MAX} bytes, which are too many to cut",
            )
        file.write(chunk)


class _Bounded:
    """A file of at most HELD_BYTES_MAX bytes, for who only writes it."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self._name, self._file, self._size = name, file, 0
        self.fileno, self.close, self.seek, self.flush = file.fileno, file.close, file.seek, file.flush

    def write(self, content: bytes) -> int:
        self._size += len(content)
        if self._size > HELD_BYTES_MAX:
            raise CaptureUnreadable(self._name, f"tshark finds more than {HELD_BYTES_MAX} bytes of headers in it")
        return self._file.write(content)


def _dissected(name: str, file: IO[bytes], unknown: NotACapture | None, room: IO[bytes]) -> Dissection | None:
    """What tshark finds; None: it finds no IP in a pcap, pcapng or snoop, so that there is nothing to keep."""
    into = cast(IO[bytes], _Bounded(name, room))
    if unknown is not None:
        return dissect_format(file, unknown, file=into)
    try:
        found = dissect(file, name, every_record=True, file=into)
    except NotUnderstood as e:
        raise DissectorFailed(f"{name}: tshark: {e}") from e
    return found if found.ip else None


def _redacted(name: str, chunks: Iterable[bytes], target: IO[bytes], key: bytes | None) -> Redaction:
    plain, sink = os.pipe()
    failed: list[BaseException] = []

    def pump() -> None:
        try:
            with os.fdopen(sink, "wb", buffering=0) as pipe:
                for chunk in chunks:
                    with contextlib.suppress(BrokenPipeError):  # what follows a damaged record is read and left out
                        rest = memoryview(chunk)
                        while rest:
                            rest = rest[pipe.write(rest) or 0 :]
        except BaseException as e:
            failed.append(e)

    pumping = threading.Thread(target=pump, name="expanded")
    pumping.start()
    try:
        with os.fdopen(plain, "rb", buffering=0) as stream:
            did = redact(stream.fileno(), target.fileno(), key, name)
    except CaptureUnreadable:
        pumping.join()
        if failed:
            raise failed[0] from None
        raise
    pumping.join()
    if failed:
        raise failed[0]
    return did
