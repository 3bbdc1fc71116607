"""Requests to a service, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from rewindow.errors import RewindowError

AGAIN = (429, 503)
"""Statuses of a server that has done nothing, and will take the same request later."""
PATIENCE_S = 120.0
"""A server that is busy for longer has refused the request."""
_RETRY_S = 1.0
"""The pause where the server does not say when to try again."""
_SILENT_S = 60.0
_CHUNK_BYTES = 1 << 20
_JSON_BYTES_MAX = 256 << 20
_REFUSED, _STOPPED = (400, 404, 422), (401, 403)


class ServerFailed(RewindowError):
    """The server cannot be reached, or does not do what is asked."""


class ServerBusy(ServerFailed):
    """The server has asked to wait for longer than the caller does."""

    def __init__(self, text: str, wait_s: float) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Stopped(ServerFailed):
    """The server does not serve this caller: the same request would never succeed."""


class Refused(ServerFailed):
    """The server does not know what is asked for: a filter, a value, an id."""


class Answer:
    """Of a server. Reading raises ServerFailed where the answer ends before its end."""

    def __init__(self, server: str, response: http.client.HTTPResponse) -> None:
        self._server, self._response = server, response
        self.status = response.status
        self.headers = response.headers

    @property
    def wait_s(self) -> float:
        """After which the server wants to be asked again."""
        after = self.headers.get("Retry-After", "")
        return float(after) if after.isascii() and after.isdigit() else _RETRY_S

    def chunks(self) -> Iterator[bytes]:
        length, size = self.headers.get("Content-Length"), 0
        while True:
            try:
                chunk = self._response.read(_CHUNK_BYTES)
            except (OSError, http.client.HTTPException) as e:
                raise ServerFailed(f"{self._server}: the answer ends before its end: {e!r}") from e
            if not chunk:
                break
            size += len(chunk)
            yield chunk
        # read() with a size does not tell an answer that is too short.
        if length is not None and length.isdigit() and size != int(length):
            raise ServerFailed(f"{self._server}: the answer ends after {size} of {length} bytes")

    def document(self) -> dict[str, Any]:
        """The answer's object of JSON. What is no such object is empty where the server is busy: it may be a proxy's
        text."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) > _JSON_BYTES_MAX:
                raise ServerFailed(f"{self._server}: the answer has more than {_JSON_BYTES_MAX} bytes")
        try:
            return dict(json.loads(body or b"{}"))
        except (ValueError, TypeError, RecursionError) as e:
            if self.status in AGAIN:
                return {}
            raise ServerFailed(f"{self._server}: {self.status}, and the answer is no JSON") from e

    def failure(self) -> ServerFailed:
        """What the answer says, which is not what was asked for."""
        text = f"{self._server}: {self.status} {self.document().get('detail', '')}"
        if self.status in AGAIN:
            return ServerBusy(text, self.wait_s)
        if self.status in _STOPPED:
            return Stopped(text)
        return Refused(text) if self.status in _REFUSED else ServerFailed(text)


@dataclass(frozen=True)
class Service:
    """patience_s: how long a server may ask to wait, in all."""

    address: str
    token: str
    patience_s: float = PATIENCE_S

    @contextlib.contextmanager
    def answer(
        self, method: str, path: str, *, body: IO[bytes] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """Sends the request again while the server is busy, after the pauses that it names. Raises ServerFailed."""
        end = time.monotonic() + self.patience_s
        while True:
            with contextlib.closing(self._connection()) as connection:
                answer = self._sent(connection, method, path, body, headers or {})
                if answer.status not in AGAIN or time.monotonic() + answer.wait_s > end:
                    yield answer
                    return
            time.sleep(answer.wait_s)

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer to a request that succeeds. Raises ServerFailed, Refused."""
        with self.answer(method, path, body=body, headers=headers) as answer:
            if not 200 <= answer.status < 300:
                raise answer.failure()
            return answer.document()

    def items(self, path: str, query: list[tuple[str, str]], size: int) -> Iterator[dict[str, Any]]:
        """The pages of a list. Raises ServerFailed, Refused."""
        cursor: str | None = ""
        while cursor is not None:
            asked = [*query, ("limit", str(size)), *([("cursor", cursor)] if cursor else [])]
            page = self.ask("GET", f"{path}?{urllib.parse.urlencode(asked)}")
            yield page
            cursor = page.get("next_cursor")

    def _connection(self) -> http.client.HTTPConnection:
        """Raises ServerFailed."""
        try:
            url = urllib.parse.urlsplit(self.address)
            if url.scheme not in ("http", "https") or not url.hostname:
                raise ValueError("not an http address")
            kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
            return kind(url.hostname, url.port, timeout=_SILENT_S)
        except ValueError as e:
            raise ServerFailed(f"{self.address}: {e}") from e

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: IO[bytes] | None,
        headers: Mapping[str, str],
    ) -> Answer:
        """Raises ServerFailed."""
        fields = {"Authorization": f"Bearer {self.token}", "Accept": "*/*", **headers}
        if body is not None:
            body.seek(0)
        try:
            # A server may refuse and close before it has read the whole body; its answer can still be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, _path_of(self.address) + path, body=body, headers=fields)
            return Answer(self.address, connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise ServerFailed(f"{self.address}: {e}") from e


def _path_of(address: str) -> str:
    return urllib.parse.urlsplit(address).path.rstrip("/")
