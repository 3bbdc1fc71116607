"""Sending a large capture so that it goes on after an interruption: tus 1.0.0, as /v1/uploads of a service speaks it.

Where an upload is, is kept in a file of the user's (XDG_STATE_HOME), by which a later run of the command goes on with
it. The file's name follows from the whole content: nothing else is ever added to an upload.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from rewindow.client.service import AGAIN, Answer, Refused, ServerFailed, Service

_ADDRESS = re.compile(r"/v1/uploads/[\w-]{1,200}", re.ASCII)
_VERSION = {"Tus-Resumable": "1.0.0"}
_TYPE = {"Content-Type": "application/offset+octet-stream"}
_PAUSE_S, _PAUSE_MAX_S = 1.0, 10.0
"""After the first failure, and the longest; it doubles with each."""
_KEPT_S = 30 * 86400.0
"""Files of the user's about uploads that nobody went on with are deleted after this time."""
_NO_SUCH_ROUTE = (404, 405)
_GONE = (404, 410)
_ANOTHER_IS_AT_WORK = 423
_PASSING = (408, 409)


class NotOffered(Exception):
    """The service is of a version that has no such uploads."""


class _AnotherIsAtWork(ServerFailed):
    """The server stores what it has, or has not noticed yet that the connection before broke."""


_PASSING_KINDS = (ServerFailed, _AnotherIsAtWork)
"""Not those that say more: they do not pass by themselves."""


class _Rest:
    """A file from a place on, as http.client reads a body."""

    def __init__(self, file: IO[bytes], place: int) -> None:
        self._file, self._place = file, place

    def seek(self, offset: int) -> int:
        return self._file.seek(self._place + offset)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


def folder() -> Path:
    """Of the user's: what uploads there are. Raises OSError, RuntimeError."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rewindow" / "uploads"


class _Note:
    """Where the upload of one content under one name is. Whoever cannot keep that sends the content at once."""

    def __init__(self, about: str) -> None:
        self._path: Path | None = None
        with contextlib.suppress(OSError, RuntimeError):
            place = folder()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = place / hashlib.sha256(about.encode()).hexdigest()
            _forget_old(place)

    def read(self) -> str | None:
        try:
            told = self._path.read_text() if self._path else ""
        except (OSError, ValueError):
            return None
        return told if _ADDRESS.fullmatch(told) else None

    def write(self, address: str) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                handle, name = tempfile.mkstemp(dir=self._path.parent)  # nobody else may read it
                with os.fdopen(handle, "w") as out:
                    out.write(address)
                os.replace(name, self._path)

    def forget(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()


def _forget_old(place: Path) -> None:
    """Raises OSError."""
    for path in place.iterdir():
        if path.stat().st_mtime < time.time() - _KEPT_S:
            path.unlink()


def send(
    service: Service,
    body: IO[bytes],
    name: str,
    tags: Mapping[str, str],
    refused: Callable[[Answer], ServerFailed],
) -> dict[str, Any]:
    """Uploads an open file under a name. refused: makes the error of what the server does not take.

    Raises NotOffered, ServerFailed, OSError.
    """
    size = os.fstat(body.fileno()).st_size
    body.seek(0)
    content = hashlib.file_digest(cast(io.BufferedReader, body), "sha256").hexdigest()
    about = json.dumps([service.address, hashlib.sha256(service.token.encode()).hexdigest(), name, dict(tags), content])
    upload = _Upload(service, body, size, _Note(about), refused)
    if not upload.is_known():
        upload.begin(name, tags)
    return upload.sent()


class _Upload:
    def __init__(
        self, service: Service, body: IO[bytes], size: int, note: _Note, refused: Callable[[Answer], ServerFailed]
    ) -> None:
        self._service, self._body, self._size, self._note, self._refused = service, body, size, note, refused
        self._address = note.read()

    def begin(self, name: str, tags: Mapping[str, str]) -> None:
        """Raises NotOffered, ServerFailed."""
        told = {"filename": name, "tags": json.dumps([f"{k}={v}" for k, v in tags.items()])}
        pairs = [f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in told.items()]
        headers = {"Upload-Length": str(self._size), "Upload-Metadata": ",".join(pairs), "Content-Length": "0"}
        with self._service.answer("POST", "/v1/uploads", headers=_VERSION | headers) as answer:
            if answer.status in _NO_SUCH_ROUTE:
                raise NotOffered
            if answer.status != 201:
                raise self._refused(answer)
            place = answer.headers.get("Location", "")
        if not _ADDRESS.fullmatch(place):
            raise ServerFailed(f"{self._service.address}: the server names no address for the upload")
        self._address = place
        self._note.write(place)

    def is_known(self) -> bool:
        """Does the server have the upload that an earlier run has begun? Raises ServerFailed."""
        if self._address is None or (told := self._told()) is None:
            return False
        if told["received"] == self._size and told["capture"] is None:  # it was deleted, and is sent once more
            self._note.forget()
            return False
        return True

    def _told(self) -> dict[str, Any] | None:
        """What the server says of the upload; None: it has given it up. Raises ServerFailed."""
        with self._service.answer("GET", str(self._address)) as answer:
            if answer.status in _GONE:
                self._note.forget()
                return None
            if answer.status != 200:
                raise answer.failure()
            told = answer.document()
        if type(told.get("received")) is not int or not 0 <= told["received"] <= self._size or "capture" not in told:
            raise Refused(f"{self._service.address}: the server does not say how far the upload is")
        return told

    def sent(self) -> dict[str, Any]:
        """Sends what is missing, again and again as long as there is progress. Raises ServerFailed."""
        best, pause_s, end = -1, 0.0, 0.0
        while True:
            try:
                told = self._told()
                if told is None:
                    raise Refused(f"{self._service.address}: the server has given the upload up; send it again")
                if told["received"] == self._size:
                    break
                if told["received"] > best:
                    best, pause_s, end = told["received"], 0.0, time.monotonic() + self._service.patience_s
                self._send_from(best)
            except ServerFailed as e:
                if type(e) not in _PASSING_KINDS:
                    raise
                if isinstance(e, _AnotherIsAtWork):
                    end = time.monotonic() + self._service.patience_s
                pause_s = min(_PAUSE_MAX_S, max(2 * pause_s, _PAUSE_S))
                if time.monotonic() + pause_s > end:
                    raise
                time.sleep(pause_s)
        self._note.forget()
        if told["capture"] is None:
            raise ServerFailed(f"{self._service.address}: the capture was deleted while it was sent")
        return dict(told["capture"])

    def _send_from(self, place: int) -> None:
        """Raises ServerFailed."""
        rest = {"Upload-Offset": str(place), "Content-Length": str(self._size - place)}
        body = cast(IO[bytes], _Rest(self._body, place))
        with self._service.answer("PATCH", str(self._address), body=body, headers=_VERSION | _TYPE | rest) as answer:
            if answer.status == _ANOTHER_IS_AT_WORK:
                raise _AnotherIsAtWork(str(answer.failure()))
            if answer.status in _PASSING:
                raise ServerFailed(str(answer.failure()))
            if answer.status in AGAIN:  # the service has waited for long enough
                raise answer.failure()
            if answer.status != 204 and answer.status not in _GONE:  # what is gone is found next
                self._note.forget()
                raise self._refused(answer)
