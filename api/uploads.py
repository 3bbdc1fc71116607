"""The body of an upload, raw or multipart, as chunks; it is never in memory as a whole."""

from __future__ import annotations

import asyncio
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from api.errors import BadRequest, TimedOut, TooLarge, Unprocessable

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

STALL_S = 60.0
"""After this time without data an upload is refused ..."""
SLOWEST_BYTES = 64 << 10
"""... and when less than this arrived in it: whoever sends a byte now and then holds a connection for ever."""


EMPTY = "the upload is empty"


def too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"a capture may have at most {bytes_max} bytes")


class Received(ABC):
    """The bytes of an upload. Computes their SHA-256 and size, and refuses more than `bytes_max` bytes.

    size_max: what it may turn out to have.
    """

    filename: str | None = None

    def __init__(self, bytes_max: int, size_max: int) -> None:
        self.bytes_max, self.size_max = bytes_max, size_max
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    @abstractmethod
    def source(self) -> AsyncIterator[bytes]: ...

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises TooLarge, Unprocessable where it is empty, and what the source raises."""
        async for chunk in self.source():
            self.size += len(chunk)
            if self.size > self.bytes_max:
                raise too_large(self.bytes_max)
            self._hash.update(chunk)
            yield chunk
        if self.size == 0:
            raise Unprocessable(EMPTY)


async def body_of(request: Request, stall_s: float, consequence: str) -> AsyncIterator[bytes]:
    """A body that is no JSON, as it arrives. consequence: what becomes of the upload when the body stops.

    Raises TimedOut after `stall_s` without data, or when less than SLOWEST_BYTES come in STALL_S; Unprocessable when
    the body stops halfway.
    """
    stream = request.stream()
    since, arrived = time.monotonic(), 0
    while True:
        if time.monotonic() - since >= STALL_S:
            if arrived < SLOWEST_BYTES:
                raise TimedOut(f"{arrived} bytes arrived in {STALL_S:.0f} s; {consequence}")
            since, arrived = time.monotonic(), 0
        try:
            chunk = await asyncio.wait_for(anext(stream), stall_s)
        except StopAsyncIteration:
            request.state.body_was_read = True
            return
        except TimeoutError as e:
            raise TimedOut(f"no data arrived for {stall_s:.0f} s; {consequence}") from e
        except ClientDisconnect as e:
            raise Unprocessable(f"the body stopped halfway; {consequence}") from e
        arrived += len(chunk)
        if chunk:
            yield chunk


class Upload(Received):
    """One that is the body of a request, raw or multipart."""

    def __init__(self, request: Request, bytes_max: int) -> None:
        self._request = request
        length = request.headers.get("content-length", "")
        # The slack is for the headers of a multipart body.
        if length.isdigit() and int(length) > bytes_max + (1 << 16):
            raise too_large(bytes_max)
        super().__init__(bytes_max, min(int(length), bytes_max) if length.isdigit() else bytes_max)

    def source(self) -> AsyncIterator[bytes]:
        """Raises TooLarge, BadRequest; Unprocessable when the body stops halfway or holds no file."""
        kind, options = parse_options_header(self._request.headers.get("content-type", ""))
        return self._multipart(options.get(b"boundary")) if kind == b"multipart/form-data" else self._body()

    def _body(self) -> AsyncIterator[bytes]:
        return body_of(self._request, STALL_S, "the upload was discarded")

    async def _multipart(self, boundary: bytes | None) -> AsyncIterator[bytes]:
        if not boundary:
            raise BadRequest("multipart without a boundary")
        part = _FilePart()
        parser = MultipartParser(boundary, part.callbacks())
        try:
            async for chunk in self._body():
                parser.write(chunk)
                if part.stranger:
                    raise Unprocessable(
                        f"{part.stranger}: a form has one file, and tags are in the address: ?tag=site=berlin"
                    )
                self.filename = part.filename
                for data in part.take():
                    yield data
            parser.finalize()
        except MultipartParseError as e:
            raise BadRequest(f"multipart: {e}") from e
        if not part.complete:
            raise Unprocessable("the upload stopped halfway, or has no file; it was discarded")


class _FilePart:
    """The part with a filename. stranger: what else the form has, which must not be lost without a word."""

    def __init__(self) -> None:
        self.filename: str | None = None
        self.stranger = ""
        self.complete = False
        self._inside = False
        self._field, self._value = b"", b""
        self._ready: list[bytes] = []

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda d, s, e: setattr(self, "_field", self._field + d[s:e]),
            "on_header_value": lambda d, s, e: setattr(self, "_value", self._value + d[s:e]),
            "on_header_end": self._header,
            "on_part_data": lambda d, s, e: self._ready.append(d[s:e]) if self._inside else None,
            "on_part_end": self._end,
        }

    def _begin(self) -> None:
        self._field, self._value = b"", b""

    def _header(self) -> None:
        if self._field.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            name = options.get(b"filename")
            if name is None:
                self.stranger = f"the field '{options.get(b'name', b'').decode('utf-8', 'replace')[:40]}'"
            elif self.complete:
                self.stranger = "a second file"
            else:
                self.filename = name.decode("utf-8", "replace")
                self._inside = True
        self._field, self._value = b"", b""

    def _end(self) -> None:
        if self._inside:
            self.complete, self._inside = True, False

    def take(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready
