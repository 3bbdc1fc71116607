"""Server-sent progress.

One poller in each API process asks PostgreSQL for all streams of the process together, so that the database's work does
not grow with their number. (LISTEN would need a session of its own that no pooler between may share, and NOTIFY lets
commits wait for one another.)
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from api.security import transaction

log = structlog.get_logger()

STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""What an endpoint that streams events answers, for the OpenAPI document."""

_INTERVAL_S = 0.3
_LONGEST_S = 600.0
_SILENT_S = 15.0
"""A stream without a change sends a comment so often: proxies close a connection that says nothing."""


@dataclass(frozen=True)
class Progress:
    shown: dict[str, Any]
    has_ended: bool
    """No further change follows."""


Look = Callable[[AsyncSession, Collection[uuid.UUID]], Awaitable[dict[uuid.UUID, Progress]]]
"""The progress of the objects with these ids, as far as they exist. The caller has checked whose they are."""


@dataclass(eq=False)
class _Stream:
    look: Look
    id: uuid.UUID
    latest: Progress | None
    """None: the object does not exist any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, progress: Progress | None) -> None:
        if progress != self.latest:
            self.latest = progress
            self.changed.set()


class Poller:
    """Looks at the objects of all streams of this process, while there are any."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Never returns; it is cancelled at the end of the process."""
        while True:
            await self._wanted.wait()
            await self._look()
            await asyncio.sleep(_INTERVAL_S)

    async def _look(self) -> None:
        by_look: dict[Look, list[_Stream]] = {}
        for stream in self._streams:
            by_look.setdefault(stream.look, []).append(stream)
        for look, streams in by_look.items():
            try:
                async with transaction() as session:
                    found = await look(session, {s.id for s in streams})
            except (SQLAlchemyError, OSError) as e:
                log.warning("events.not_polled", reason=str(e))  # the streams stay: the next look may succeed
                continue
            except Exception:
                log.exception("events.error")  # an error of one look ends neither the poller nor the other looks
                continue
            for stream in streams:
                stream.tell(found.get(stream.id))

    async def changes(self, look: Look, subject: uuid.UUID, first: Progress) -> AsyncIterator[str]:
        """Yields an event for the first progress and for each change. Ends when no further change follows."""
        stream = _Stream(look, subject, first)
        self._streams.add(stream)
        self._wanted.set()
        end = asyncio.get_running_loop().time() + _LONGEST_S
        try:
            while (progress := stream.latest) is not None:
                yield f"event: progress\ndata: {json.dumps(progress.shown)}\n\n"
                if progress.has_ended:
                    return
                while not stream.changed.is_set():
                    if asyncio.get_running_loop().time() > end:
                        return
                    try:
                        await asyncio.wait_for(stream.changed.wait(), _SILENT_S)
                    except TimeoutError:
                        yield ": no change\n\n"
                stream.changed.clear()
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._wanted.clear()


def _poller(request: Request) -> Poller:
    poller: Poller = request.app.state.poller
    return poller


Events = Annotated[Poller, Depends(_poller)]


def streamed(poller: Poller, look: Look, subject: uuid.UUID, first: Progress) -> StreamingResponse:
    return StreamingResponse(
        poller.changes(look, subject, first), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )
