"""Streams and compressed captures, written to a temporary file within limits."""

import bz2
import contextlib
import gzip
import lzma
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

import lz4.frame
import zstandard

from rewindow.errors import CaptureUnreadable

COMPRESSED_RATIO_MAX = 1000
"""Captures compress well, because headers repeat; a decompression bomb compresses far better."""
COMPRESSED_RATIO_FREE_BYTES = 64 << 20
"""Below this size the ratio is not checked."""
EXPANDED_BYTES_MAX = 64 << 30
UNKNOWN_BYTES_MAX = 1 << 30
"""Limit of a stream that is none of the formats that the core reads, and may have no end."""
XZ_MEMORY_MAX = 256 << 20
"""`xz -9` needs 65 MiB; the format allows 4 GiB, which a file of a few kilobytes may request."""

HEAD_BYTES = 6
"""The number of first bytes that tell how a stream is compressed."""

_CHUNK = 1 << 20
_ZSTD_CHUNK = 1 << 10
"""A block takes four bytes at least."""

_PCAP = ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1")
_KNOWN = (*map(bytes.fromhex, (*_PCAP, "0a0d0d0a")), b"snoop\0\0\0")


def _skippable(head: bytes) -> bool:
    """A frame of zstd or lz4 that holds no data; its length follows."""
    return len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18"


class _Zstd:
    """Replaces zstandard's stream_reader, which takes a frame that is cut for the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = self._next()
        self._rest = b""

    @staticmethod
    def _next() -> "zstandard.ZstdDecompressionObj":
        return zstandard.ZstdDecompressor().decompressobj()

    def read1(self, size: int) -> bytes:
        """At most a thousand blocks of 128 KiB, whatever the size."""
        while True:
            if self._decoder.eof:
                self._rest = self._decoder.unused_data or self._stream.read(_ZSTD_CHUNK)
                if not self._rest:
                    return b""
                self._decoder = self._next()
            elif not (chunk := self._rest or self._stream.read(_ZSTD_CHUNK)):
                raise EOFError("the end of the stream is missing")
            else:
                self._rest = b""
                if out := self._decoder.decompress(chunk):
                    return out

    def close(self) -> None:
        pass


class _Xz:
    """Replaces lzma.open, within XZ_MEMORY_MAX."""

    MAGIC = b"\xfd7zXZ\x00"

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = self._next()

    @staticmethod
    def _next() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_MAX)

    def read1(self, size: int) -> bytes:
        while True:
            rest = b""
            if self._decoder.eof:
                rest = (self._decoder.unused_data or self._stream.read(_CHUNK)).lstrip(b"\0")  # padding between streams
                if not rest.startswith(self.MAGIC):
                    return b""
                self._decoder = self._next()
            elif self._decoder.needs_input and not (rest := self._stream.read(_CHUNK)):
                raise EOFError("the end of the stream is missing")
            if out := self._decoder.decompress(rest, size):
                return out

    def close(self) -> None:
        pass


_DECOMPRESSORS: tuple[tuple[bytes, str, Any], ...] = (
    (b"\x1f\x8b", "gzip", gzip.open),
    (_Xz.MAGIC, "xz", _Xz),
    (b"BZh", "bzip2", bz2.open),
    (b"\x28\xb5\x2f\xfd", "zstd", _Zstd),
    (b"\x04\x22\x4d\x18", "lz4", lz4.frame.open),
)


def is_compressed(head: bytes) -> bool:
    """Whether a stream that begins with these HEAD_BYTES is compressed."""
    return _skippable(head) or any(head.startswith(magic) for magic, _, _ in _DECOMPRESSORS)


class _Peeked:
    """A stream whose first bytes have been read already; it counts the bytes that are read."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest, self.count = head, rest, 0

    def read(self, size: int = -1) -> bytes:
        if self._head:
            size = len(self._head) if size < 0 else size
            part, self._head = self._head[:size], self._head[size:]
        else:
            part = self._rest.read(size) or b""
        self.count += len(part)
        return part

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.count

    def close(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return False


def _read(stream: IO[bytes], size: int) -> bytes:
    """`size` bytes, or fewer at the end."""
    found = b""
    while len(found) < size and (part := stream.read(size - len(found))):
        found += part
    return found


def expanded(name: str, stream: IO[bytes]) -> Iterator[bytes]:
    """A stream in parts, decompressed, within limits. Raises CaptureUnreadable."""
    head = _read(stream, HEAD_BYTES)
    while _skippable(head):
        length = int.from_bytes((head + _read(stream, 8 - len(head)))[4:8], "little")
        while length and (part := stream.read(min(length, _CHUNK))):
            length -= len(part)
        head = _read(stream, HEAD_BYTES)
    size = most = 0
    for chunk in _expanded(name, head, _Peeked(head, stream)):
        most = most or (EXPANDED_BYTES_MAX if chunk.startswith(_KNOWN) else UNKNOWN_BYTES_MAX)
        size += len(chunk)
        if size > most:
            raise CaptureUnreadable(name, f"more than {most} bytes", offset=most)
        yield chunk


def spooled(name: str, stream: IO[bytes]) -> IO[bytes]:
    """Writes a stream, decompressed, to a temporary file, which is removed when it is closed."""
    out = tempfile.TemporaryFile(prefix="rewindow-")  # noqa: SIM115  # closed by Capture
    try:
        for chunk in expanded(name, stream):
            out.write(chunk)
        out.flush()
        out.seek(0)
    except OSError as e:
        out.close()
        raise CaptureUnreadable(name, f"cannot be kept in a temporary file: {e.strerror or e}") from e
    except BaseException:
        out.close()
        raise
    return cast(IO[bytes], out)


def _expanded(name: str, head: bytes, counted: _Peeked) -> Iterator[bytes]:
    for magic, kind, opener in _DECOMPRESSORS:
        if head.startswith(magic):
            yield from _decompressed(name, kind, opener, counted)
            return
    while chunk := counted.read(_CHUNK):
        yield chunk


def _decompressed(name: str, kind: str, opener: Any, counted: _Peeked) -> Iterator[bytes]:
    size = 0
    try:
        with contextlib.closing(opener(counted)) as plain:
            # read1, not read: it returns the bytes before a cut
            while chunk := plain.read1(_CHUNK):
                size += len(chunk)
                ratio = size / max(counted.count, 1)
                if size > COMPRESSED_RATIO_FREE_BYTES and ratio > COMPRESSED_RATIO_MAX:
                    reason = f"{kind}: expands more than {COMPRESSED_RATIO_MAX} times"
                    raise CaptureUnreadable(name, reason, offset=counted.count)
                if size > EXPANDED_BYTES_MAX:
                    reason = f"{kind}: expands to more than {EXPANDED_BYTES_MAX} bytes"
                    raise CaptureUnreadable(name, reason, offset=counted.count)
                yield chunk
    except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, RuntimeError, OSError) as e:
        if size == 0:
            raise CaptureUnreadable(name, f"{kind}: {e}", offset=counted.count) from e
        # Cut or damaged: the part before is analysed. One more byte makes the core count a record that is cut.
        if not str(e).startswith("Not a gzipped file"):  # other data after the end, which gunzip ignores
            yield b"\0"
