"""Opening captures: files, several of them as one observation, streams, and compressed ones."""

import bz2
import contextlib
import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import lz4.frame
import zstandard

from rewindow.core import Choice, extract
from rewindow.dissector import PROGRAM, Dissection, NotUnderstood, dissect
from rewindow.errors import CaptureUnreadable, DissectorFailed, DissectorMissing, NotACapture
from rewindow.replays import Decoded, Replay, Result, link_type_name

Source = str | os.PathLike[str] | IO[bytes]

COMPRESSED_RATIO_MAX = 1000
"""Headers repeat, so captures compress well; a bomb compresses far better."""
COMPRESSED_RATIO_FREE_BYTES = 64 << 20
"""Below this size the ratio is not asked."""
EXPANDED_BYTES_MAX = 64 << 30
UNKNOWN_BYTES_MAX = 1 << 30
"""Of a stream that is neither pcap nor pcapng, and perhaps has no end."""
XZ_MEMORY_MAX = 256 << 20
"""`xz -9` asks for 65 MiB; the format allows 4 GiB, which a few kilobytes could ask for."""

ACROSS_OPTIONS: dict[str, object] = {"grouping": "correlation", "N": 20}
"""Of the detector sbd over all flows of a capture, which has one clock for all of them. N: the most recent intervals,
those that RFC 8382 weighs fully (F); docs/decisions/bottlenecks.md has what this was compared with."""

_CHUNK = 1 << 20
_ZSTD_CHUNK = 1 << 10
"""A block takes four bytes at least."""

_OTHER_FORMATS = (
    b"snoop\0\0\0", b"RTSS", b"GMBU", b"TRSNIFF data", b"XCP\0", b"\x7fver", b"ObserverPktBuffe", b"iptrace ",
)  # fmt: skip
"""Captures of other formats that announce themselves: what is missing for them is tshark."""

_PCAP_MAGICS = tuple(bytes.fromhex(m) for m in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1",
                                                "0a0d0d0a"))  # fmt: skip

_PCAPNG_LINK_TYPE_MAX = 0xFFFF


def _skippable(head: bytes) -> bool:
    """A frame of zstd or lz4 that holds no data; its length follows."""
    return len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18"


class _Zstd:
    """What zstandard's stream_reader does, which takes a frame that is cut for the end."""

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
    """What lzma.open does, within XZ_MEMORY_MAX."""

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


class Capture:
    """One observation: one capture, or several merged by time. Use it as a context manager, or close it."""

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise ValueError("no capture given")
        self.names: list[str] = []
        self._files: list[IO[bytes]] = []
        self._copies: list[IO[bytes]] = []
        self._decoded = Decoded(list(range(len(sources))))
        self._link_types_decoded = False
        try:
            for source in sources:
                name, file = _seekable(source)
                self.names.append(name)
                self._files.append(file)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for file in (*self._files, *self._copies):
            file.close()
        self._files, self._copies = [], []

    def stream(
        self,
        algorithms: Sequence[str | Choice] = (),
        *,
        batch_rows: int = 65536,
        detectors: Sequence[str | Choice] = (),
        bottlenecks: bool | Choice = False,
        monitor: bool = False,
        transitions: bool = False,
        hidden: Sequence[str] = (),
    ) -> Replay:
        """Starts a replay whose batches are drawn one by one: memory stays bounded however long the capture is.

        detectors: of shared bottlenecks, whose sets of subflows are told; those that algorithms need are run too.
        bottlenecks: compare the flows of all connections, to find which share one (`Subflow.bottleneck`); True, or the
        detector sbd with options of its own.
        monitor: check each step of a controller with a specification; transitions: keep those steps in the batches.
        hidden: labels of algorithms that are replayed for the summary's sake alone, and have no columns.

        What the core cannot decode, tshark does, the first time; then it is kept until the capture is closed.

        Raises CaptureUnreadable, UnknownAlgorithm, BadOption, LimitReached, DissectorMissing, DissectorFailed.
        """
        choices = [Choice.of(a) for a in algorithms]
        asked = {
            "batch_rows": batch_rows,
            "detectors": [Choice.of(d) for d in detectors],
            "across": _across(bottlenecks),
            "monitor": monitor,
            "transitions": transitions,
            "hidden": hidden,
        }
        replay = self._open(choices, asked)
        if self._link_types_decoded or not replay.unknown_link_types():
            return replay
        replay.close()
        self._decode_link_types()
        return self._open(choices, asked)

    def _open(self, choices: Sequence[Choice], asked: dict[str, Any]) -> Replay:
        while True:
            try:
                return Replay(self.descriptors, self.names, choices, decoded=self._decoded, **asked)
            except NotACapture as e:
                self._replace(e)

    def _replace(self, why: NotACapture) -> None:
        """Puts what tshark finds in a file in the file's place; raises when that is nothing."""
        place, file = why.file, self._files[why.file]
        file.seek(0)
        head = file.read(16)
        if not head:
            raise why
        try:
            found = dissect(file, why.name, every_record=True)
        except NotUnderstood as e:
            raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM}: {e}") from why
        except DissectorMissing:
            if head.startswith(_OTHER_FORMATS):
                raise
            raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM}, which knows more, is not installed") from why
        if not found.ip and not head.startswith(_OTHER_FORMATS):
            found.file.close()
            raise CaptureUnreadable(why.name, f"{why.reason}; {PROGRAM} finds no IP in it") from why
        file.close()
        self._files[place] = found.file
        self._decoded.replaced.add(place)
        self._decoded.replaced_records += found.records
        self._decoded.replaced_link_types += found.link_types
        self._decoded.by |= dict.fromkeys(found.link_types, found.tool)

    def _decode_link_types(self) -> None:
        for place, (name, file) in enumerate(zip(self.names, self._files, strict=True)):
            with Replay([file.fileno()], [name], []) as survey:
                unknown = survey.unknown_link_types()
            for link_type in unknown:
                found = _decoded_link_type(name, file, link_type)
                if found is not None:
                    self._copies.append(found.file)
                    self._decoded.origins.append(place)
                    self._decoded.copies += 1
                    self._decoded.copied_records += found.records
                    self._decoded.by[link_type_name(link_type)] = found.tool
        self._link_types_decoded = True

    @property
    def descriptors(self) -> list[int]:
        """Of the files that the core reads: the captures, decompressed, then what was decoded of them by now."""
        return [f.fileno() for f in (*self._files, *self._copies)]

    @property
    def copies(self) -> int:
        """How many of the descriptors, the last ones, hold records of the captures before them."""
        return len(self._copies)

    def replay(
        self,
        algorithms: Sequence[str | Choice] = (),
        *,
        detectors: Sequence[str | Choice] = (),
        bottlenecks: bool | Choice = False,
    ) -> Result:
        """Replays everything and holds it in memory: `acks`, `marks` and `sets` as Arrow tables, `connections`,
        `summary`. The rest as in `stream`.
        """
        with self.stream(algorithms, detectors=detectors, bottlenecks=bottlenecks) as replay:
            return replay.collect()


def open(*sources: Source) -> Capture:
    """Opens a capture.

    sources: paths or binary file objects; several are one observation. `-` is standard input. A stream that cannot
    seek and a compressed capture (gzip, bzip2, xz, zstd, lz4) are first written to a temporary file, within limits.

    Raises CaptureUnreadable.
    """
    return Capture(sources)


def _across(bottlenecks: bool | Choice) -> Choice | None:
    if isinstance(bottlenecks, Choice):
        return bottlenecks
    return Choice("sbd", ACROSS_OPTIONS) if bottlenecks else None


def _decoded_link_type(name: str, file: IO[bytes], link_type: int) -> Dissection | None:
    """What tshark makes of a capture's packets of one link type; None when it finds no IP in any of them."""
    if link_type > _PCAPNG_LINK_TYPE_MAX:
        return None
    with tempfile.TemporaryFile(prefix="rewindow-") as packets:
        count = extract(file.fileno(), link_type, packets.fileno(), name)
        try:
            found = dissect(cast(IO[bytes], packets), name, every_record=False)
        except NotUnderstood as e:
            raise DissectorFailed(f"{name}: {PROGRAM}: {e}") from e
    if found.records != count:
        found.file.close()
        raise DissectorFailed(f"{name}: {PROGRAM} decoded {found.records} of {count} packets")
    if not found.ip:
        found.file.close()
        return None
    return found


def _seekable(source: Source) -> tuple[str, IO[bytes]]:
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name == "-":
            import sys

            return "standard input", _spooled("standard input", sys.stdin.buffer)
        with contextlib.ExitStack() as unreadable:
            try:
                file = unreadable.enter_context(Path(name).open("rb"))
                plain = _plain(name, file)
            except OSError as e:
                raise CaptureUnreadable(name, e.strerror or str(e)) from e
            unreadable.pop_all()
        return name, plain
    name = str(getattr(source, "name", "capture"))
    try:
        descriptor = source.fileno()
    except (AttributeError, OSError):
        return name, _spooled(name, source)  # not a file of the system
    return name, _plain(name, os.fdopen(os.dup(descriptor), "rb"))


def _plain(name: str, file: IO[bytes]) -> IO[bytes]:
    """The file itself when it is a seekable, uncompressed one."""
    if not file.seekable():
        with file:
            return _spooled(name, file)
    file.seek(0)
    head = file.read(6)
    file.seek(0)
    if _skippable(head) or any(head.startswith(magic) for magic, _, _ in _DECOMPRESSORS):
        with file:
            return _spooled(name, file)
    return file


class _Peeked:
    """A stream whose first bytes have been read already; counts what goes through."""

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
    """So many bytes, or as many as there are."""
    found = b""
    while len(found) < size and (part := stream.read(size - len(found))):
        found += part
    return found


def _spooled(name: str, stream: IO[bytes]) -> IO[bytes]:
    """Writes a stream, decompressed, to a temporary file that is gone when it is closed."""
    head = _read(stream, 6)
    while _skippable(head):
        length = int.from_bytes((head + _read(stream, 8 - len(head)))[4:8], "little")
        while length and (part := stream.read(min(length, _CHUNK))):
            length -= len(part)
        head = _read(stream, 6)
    counted = _Peeked(head, stream)
    out = tempfile.TemporaryFile(prefix="rewindow-")  # noqa: SIM115  # closed by Capture
    try:
        size = most = 0
        for chunk in _expanded(name, head, counted):
            most = most or (EXPANDED_BYTES_MAX if chunk.startswith(_PCAP_MAGICS) else UNKNOWN_BYTES_MAX)
            size += len(chunk)
            if size > most:
                raise CaptureUnreadable(name, f"more than {most} bytes", offset=most)
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
            # read1, not read: what was decompressed before a cut is kept
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
        # Cut or damaged: what came before is analysed, and the core counts a record that is cut, also where none was.
        if not str(e).startswith("Not a gzipped file"):  # something else behind it, which gunzip ignores
            yield b"\0"
