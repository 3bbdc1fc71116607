"""Server-sent progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from api.errors import NotFound
from store.database import async_engine

STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""What an endpoint that streams events answers, for the OpenAPI document."""

_INTERVAL_S = 0.3
_LONGEST_S = 600


async def changes(current: Callable[[AsyncSession], Awaitable[tuple[dict[str, Any], bool]]]) -> AsyncIterator[str]:
    """Yields an event for each change of the object that `current` returns.

    It ends when `current` says that no further change follows (the second value), or raises NotFound.
    """
    last = None
    for _ in range(int(_LONGEST_S / _INTERVAL_S)):
        async with AsyncSession(async_engine()) as session:
            try:
                shown, ended = await current(session)
            except NotFound:
                return
        if shown != last:
            yield f"event: progress\ndata: {json.dumps(shown)}\n\n"
            last = shown
        if ended:
            return
        await asyncio.sleep(_INTERVAL_S)
