"""Captures as files that the core can read: open, seekable and not compressed."""

import contextlib
import os
import sys
from pathlib import Path
from typing import IO

from rewindow.captures.decompression import HEAD_BYTES, is_compressed, spooled
from rewindow.errors import CaptureMissing, CaptureNotOpened

Source = str | os.PathLike[str] | IO[bytes]


def opened(source: Source) -> tuple[str, IO[bytes]]:
    """A capture's name, and a file of its bytes that can seek.

    source: a path, `-` for standard input, or a binary file object. Raises CaptureUnreadable; of these,
    CaptureNotOpened, an OSError, and CaptureMissing, a FileNotFoundError.
    """
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name == "-":
            return "standard input", spooled("standard input", sys.stdin.buffer)
        with contextlib.ExitStack() as unreadable:
            try:
                file = unreadable.enter_context(Path(name).open("rb"))
                plain = _plain(name, file)
            except FileNotFoundError as e:
                raise CaptureMissing(name, e) from e
            except OSError as e:
                raise CaptureNotOpened(name, e) from e
            unreadable.pop_all()
        return name, plain
    name = str(getattr(source, "name", "capture"))
    try:
        descriptor = source.fileno()
    except (AttributeError, OSError):
        return name, spooled(name, source)  # not a file of the system
    return name, _plain(name, os.fdopen(os.dup(descriptor), "rb"))


def _plain(name: str, file: IO[bytes]) -> IO[bytes]:
    """The file itself when it is a seekable, uncompressed one."""
    if not file.seekable():
        with file:
            return spooled(name, file)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(0)
    if is_compressed(head):
        with file:
            return spooled(name, file)
    return file
