"""Captures without payload, and with other addresses: a stream in, a stream out, nothing on a disk between them."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import IO

from rewindow.captures.decompression import expanded
from rewindow.core import Redaction, redact
from rewindow.errors import CaptureUnreadable

KEY_BYTES = 16


def redacted(name: str, source: IO[bytes], target: IO[bytes], key: bytes | None) -> Redaction:
    """Reads a capture, which may be compressed, to its end, and writes its copy (rw_redact).

    key: of KEY_BYTES, from which the other addresses follow; None: addresses stay. Raises CaptureUnreadable.
    """
    if key is not None and len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    plain, sink = os.pipe()
    failed: list[BaseException] = []

    def pump() -> None:
        try:
            with os.fdopen(sink, "wb", buffering=0) as pipe:
                for chunk in expanded(name, source):
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
