"""The body of an upload, raw or multipart, as chunks; it is never in memory as a whole."""

from __future__ import annotations

import asyncio
import hashlib
import time
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


class Upload:
    """An upload's body. Computes its SHA-256 and size, and refuses more than `bytes_max` bytes."""

    def __init__(self, request: Request, bytes_max: int) -> None:
        self._request, self.bytes_max = request, bytes_max
        self._hash = hashlib.sha256()
        self.size = 0
        self.filename: str | None = None
        length = request.headers.get("content-length", "")
        # The slack is for the headers of a multipart body.
        if length.isdigit() and int(length) > bytes_max + (1 << 16):
            raise TooLarge(f"a capture may have at most {bytes_max} bytes")
        self.size_max = min(int(length), bytes_max) if length.isdigit() else bytes_max
        """What it may turn out to have."""

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises TooLarge, BadRequest; Unprocessable when the body stops halfway or holds no file."""
        kind, options = parse_options_header(self._request.headers.get("content-type", ""))
        source = self._multipart(options.get(b"boundary")) if kind == b"multipart/form-data" else self._body()
        async for chunk in source:
            self.size += len(chunk)
            if self.size > self.bytes_max:
                raise TooLarge(f"a capture may have at most {self.bytes_max} bytes")
            self._hash.update(chunk)
            yield chunk
        if self.size == 0:
            raise Unprocessable("the upload is empty")

    async def _body(self) -> AsyncIterator[bytes]:
        stream = self._request.stream()
        since, arrived = time.monotonic(), 0
        while True:
            if time.monotonic() - since >= STALL_S:
                if arrived < SLOWEST_BYTES:
                    raise TimedOut(f"{arrived} bytes arrived in {STALL_S:.0f} s; the upload was discarded")
                since, arrived = time.monotonic(), 0
            try:
                chunk = await asyncio.wait_for(anext(stream), STALL_S)
            except StopAsyncIteration:
                return
            except TimeoutError as e:
                raise TimedOut(f"no data arrived for {STALL_S:.0f} s; the upload was discarded") from e
            except ClientDisconnect as e:
                raise Unprocessable("the upload stopped halfway and was discarded") from e
            arrived += len(chunk)
            if chunk:
                yield chunk

    async def _multipart(self, boundary: bytes | None) -> AsyncIterator[bytes]:
        if not boundary:
            raise BadRequest("multipart without a boundary")
        part = _FilePart()
        parser = MultipartParser(boundary, part.callbacks())
        try:
            async for chunk in self._body():
                parser.write(chunk)
                self.filename = part.filename
                for data in part.take():
                    yield data
            parser.finalize()
        except MultipartParseError as e:
            raise BadRequest(f"multipart: {e}") from e
        if not part.complete:
            raise Unprocessable("the upload stopped halfway, or has no file; it was discarded")


class _FilePart:
    """The first part with a filename; other parts are ignored."""

    def __init__(self) -> None:
        self.filename: str | None = None
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
            if name is not None and not self.complete:
                self.filename = name.decode("utf-8", "replace")
                self._inside = True
        self._field, self._value = b"", b""

    def _end(self) -> None:
        if self._inside:
            self.complete, self._inside = True, False

    def take(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready
