"""What is done to answers on their way out: validators (RFC 9110, section 8.8) and compression."""

from __future__ import annotations

import hashlib
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEVEL = 6
_LEAST_BYTES = 1000
"""A shorter answer fits a packet anyway."""
_NOT_COMPRESSED = (
    *DEFAULT_EXCLUDED_CONTENT_TYPES,  # event streams among them
    "application/vnd.apache.parquet",
    "application/vnd.tcpdump.pcap",
)
"""What is compressed already, is a stream of single events, or has bytes that do not repeat."""
_PUBLIC = ("/assets/", "/docs")
"""Addresses whose answers are the same for everybody, and contain no secret."""


class Compressed:
    """gzip, where the size of an answer tells nobody what is in it.

    Who can make a browser ask for an address, and see how long the compressed answer is, could guess what the answer
    contains beside a word of the address (BREACH; Gluck, Harris, Prado, 2013). Another site's page can make a browser
    ask with its cookie, by a link. So what a cookie authorises is compressed only if the browser says that a page of
    this origin asks (Fetch Metadata, `Sec-Fetch-Site`), and only where nothing is changed: answers with a new token
    are not compressed at all. A token in `Authorization` is sent by scripts alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._plain = app
        self._gzip = GZipMiddleware(app, _LEAST_BYTES, _LEVEL, exclude_content_types=_NOT_COMPRESSED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_compressed = scope["type"] == "http" and _may_be_compressed(scope)
        await (self._gzip if is_compressed else self._plain)(scope, receive, send)


def _may_be_compressed(scope: Scope) -> bool:
    if scope["method"] != "GET":
        return False
    headers = Headers(scope=scope)
    if "authorization" in headers or "cookie" not in headers or scope["path"].startswith(_PUBLIC):
        return True
    return headers.get("sec-fetch-site") == "same-origin"


class Validated:
    """An ETag for each answer of JSON to GET, and 304 without a body to who has this answer already.

    The validator is weak: it is the same for the compressed answer. `private, no-cache`: a browser may keep an answer,
    and asks each time whether it still holds, so that what the caller may see is decided anew.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = _tags(Headers(scope=scope).getlist("if-none-match"))
        begin: Message | None = None

        async def validated(message: Message) -> None:
            nonlocal begin
            if message["type"] == "http.response.start" and _has_validator(message):
                begin = message  # it is sent with the body, which decides about it
                return
            if begin is not None and message["type"] == "http.response.body":
                start, begin = begin, None
                if not message.get("more_body"):
                    start, message = _answer(start, message, known)
                await send(start)
            await send(message)

        await self._app(scope, receive, validated)


def describe_validator(operation: dict[str, Any]) -> None:
    """Completes what the OpenAPI document says of a GET."""
    answers = operation["responses"]
    if "application/json" in answers.get("200", {}).get("content", {}):
        tag = {"description": "Of this answer, for If-None-Match.", "schema": {"type": "string"}}
        answers["200"].setdefault("headers", {})["ETag"] = tag
        answers["304"] = {"description": "The answer is the one that If-None-Match names."}
        operation["responses"] = dict(sorted(answers.items()))


def _has_validator(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    media_type = headers.get("content-type", "").partition(";")[0]
    return start["status"] == 200 and media_type == "application/json" and "cache-control" not in headers


def _answer(start: Message, body: Message, known: set[str]) -> tuple[Message, Message]:
    """The answer with its validator, or 304."""
    tag = hashlib.sha256(body.get("body", b"")).hexdigest()[:32]
    headers = MutableHeaders(raw=start["headers"])
    headers["ETag"] = f'W/"{tag}"'
    headers["Cache-Control"] = "private, no-cache"
    if not known & {tag, "*"}:
        return start, body
    for name in ("content-length", "content-type"):
        del headers[name]
    return {**start, "status": 304, "headers": headers.raw}, {**body, "body": b""}


def _tags(values: list[str]) -> set[str]:
    """The opaque parts of If-None-Match, whose comparison is weak; ours have no commas."""
    given = [tag.strip().removeprefix("W/") for value in values for tag in value.split(",")]
    return {tag if tag == "*" else tag.strip('"') for tag in given}
