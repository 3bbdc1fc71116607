"""Bodies that are read as a whole: they are bounded in size and time before anything parses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from api.errors import BadRequest, TimedOut, TooLarge
from store.settings import settings

BYTES_MAX = 64 << 10
"""Far more than any request needs that is no upload."""


class Route(APIRoute):
    """Of every router whose routes take JSON. Uploads are read by their endpoint, piece by piece (api/uploads.py)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def bounded(request: Request) -> Response:
            return await handle(Request(request.scope, _again(await _whole(request), request)))

        return bounded


async def _whole(request: Request) -> bytes:
    """Raises TooLarge, TimedOut, BadRequest."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > BYTES_MAX:
        raise TooLarge(f"the body may have at most {BYTES_MAX} bytes")
    body = bytearray()
    seconds = settings().request_s
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise BadRequest("the request stopped halfway")
                body += message.get("body", b"")
                if len(body) > BYTES_MAX:
                    raise TooLarge(f"the body may have at most {BYTES_MAX} bytes")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError as e:
        raise TimedOut(f"the body did not arrive within {seconds:g} s") from e


def _again(body: bytes, request: Request) -> Callable[[], Coroutine[Any, Any, Message]]:
    """What receives this body, and then what comes after it."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    return receive
