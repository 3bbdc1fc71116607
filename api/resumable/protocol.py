"""Headers of the tus protocol 1.0.0 (https://tus.io/protocols/resumable-upload), and what may be in them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Annotated, Any

from fastapi import Depends, Header
from pydantic import JsonValue, TypeAdapter, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import (
    UPLOADS,
    BadRequest,
    ChecksumMismatch,
    PreconditionFailed,
    Unprocessable,
    UnsupportedMediaType,
)
from api.filters import tags_of
from api.security import Caller, Writer

VERSION = "1.0.0"
EXTENSIONS = "creation,expiration,checksum,termination"
MEDIA_TYPE = "application/offset+octet-stream"
_CHECKSUMS: dict[str, Callable[[], Any]] = {
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}
CHECKSUMS = ",".join(_CHECKSUMS)
_OVERRIDDEN = ("PATCH", "DELETE", "HEAD")
_TOLD_MAX, _FILENAME_MAX = 16 << 10, 500
_DIGITS = "[0-9]{1,18}"
NUMBER: dict[str, JsonValue] = {"pattern": f"^{_DIGITS}$"}
"""What the OpenAPI document says of a number of bytes; another text is answered as the protocol wants it."""
_KEY = re.compile(r"[!-+\--~]{1,100}")  # ASCII without the space and the comma
_KNOWN = ("filename", "filetype", "tags")
_TAGS = TypeAdapter(list[str])


class Tus:
    """Names the protocol's version in each answer below UPLOADS, and takes a method from X-HTTP-Method-Override, as the
    protocol wants it: some clients can send nothing but POST."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(UPLOADS):
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("x-http-method-override", "").upper()
        if scope["method"] == "POST" and wanted in _OVERRIDDEN:
            scope = {**scope, "method": wanted}

        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Tus-Resumable"] = VERSION
            await send(message)

        await self._app(scope, receive, with_version)


async def _writer(
    caller: Writer,
    tus_resumable: Annotated[
        str | None, Header(description="The protocol's version.", json_schema_extra={"enum": [VERSION]})
    ] = None,
) -> Caller:
    """Raises PreconditionFailed."""
    if tus_resumable != VERSION:
        raise PreconditionFailed(f"the header Tus-Resumable must be {VERSION}", headers={"Tus-Version": VERSION})
    return caller


TusWriter = Annotated[Caller, Depends(_writer, scope="function")]
"""Of every route but OPTIONS and GET: who may write, and speaks this version of the protocol."""


def number(name: str, value: str | None) -> int:
    """Of bytes. Raises BadRequest."""
    if value is None or not re.fullmatch(_DIGITS, value):
        raise BadRequest(f"the header {name} must be a number of bytes")
    return int(value)


def date(when: datetime) -> str:
    """As HTTP writes it (RFC 9110, section 5.6.7)."""
    return format_datetime(when.astimezone(UTC), usegmt=True)


@dataclass(frozen=True)
class Metadata:
    filename: str | None
    tags: dict[str, str]
    told: str
    """As the client wrote it."""


def metadata(told: str | None) -> Metadata:
    """Reads Upload-Metadata: pairs of a key and base64, with commas between them. Raises BadRequest, Unprocessable."""
    told = (told or "").strip()
    if len(told) > _TOLD_MAX:
        raise BadRequest(f"Upload-Metadata may have at most {_TOLD_MAX} characters")
    values: dict[str, str] = {}
    for pair in told.split(",") if told else ():
        key, _, encoded = pair.strip().partition(" ")
        if not _KEY.fullmatch(key) or key in values:
            raise BadRequest(f"Upload-Metadata: '{key[:40]}' is no key, or is given twice")
        try:
            values[key] = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, ValueError) as e:
            raise BadRequest(f"Upload-Metadata: the value of '{key[:40]}' is no text in base64") from e
        if key not in _KNOWN:
            raise Unprocessable(f"Upload-Metadata: unknown key '{key[:40]}'; there are: {', '.join(_KNOWN)}")
    if len(values.get("filename", "")) > _FILENAME_MAX:
        raise Unprocessable(f"Upload-Metadata: filename may have at most {_FILENAME_MAX} characters")
    try:
        tags = _TAGS.validate_json(values.get("tags", "[]"), strict=True)
    except ValidationError as e:
        raise BadRequest('Upload-Metadata: tags must be a JSON list of texts like "key=value"') from e
    return Metadata(values.get("filename"), tags_of(tags), told)


def require_media_type(value: str | None) -> None:
    """Raises UnsupportedMediaType."""
    if (value or "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type must be {MEDIA_TYPE}")


class Checksum:
    """What Upload-Checksum says of a request's body."""

    def __init__(self, value: str) -> None:
        """Raises BadRequest."""
        name, _, encoded = value.partition(" ")
        if name not in _CHECKSUMS:
            raise BadRequest(f"Upload-Checksum: there are: {CHECKSUMS}")
        self._hash = _CHECKSUMS[name]()
        try:
            self._wanted = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as e:
            raise BadRequest("Upload-Checksum is no base64") from e

    def add(self, chunk: bytes) -> None:
        self._hash.update(chunk)

    def check(self) -> None:
        """Raises ChecksumMismatch."""
        if self._hash.digest() != self._wanted:
            raise ChecksumMismatch("the body has another checksum than Upload-Checksum says; it was discarded")
