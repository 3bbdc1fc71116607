"""Server-sent progress: of one object, or of all that a team works on.

One poller in each API process asks PostgreSQL for all streams of the process together, so that the database's work does
not grow with their number. (LISTEN would need a session of its own that no pooler between may share, and NOTIFY lets
commits wait for one another.) With each look it asks who may still see what: the stream of a caller whose token or
session has ended ends.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from api.security import Caller, still_there, transaction
from store import changes
from store.changes import Cursor
from store.models import State

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


def of_job(row: Any) -> Progress:
    """Of something that has one job: its own state and error, and the job's stage and progress, where it has one."""
    shown = {
        "state": row.state,
        "stage": row.stage or row.state,
        "progress": row.progress or 0.0,
        "error": row.error,
    }
    return Progress(shown, row.state in (State.done, State.failed))


Look = Callable[[AsyncSession, Collection[uuid.UUID]], Awaitable[dict[uuid.UUID, Progress]]]
"""The progress of the objects with these ids, as far as they exist. The caller has checked whose they are."""


Changes = list[dict[str, Any]]
"""Objects that have changed: `kind`, `id`, and what is shown of them."""


@dataclass(frozen=True)
class TeamLook:
    now: Cursor
    found: Mapping[tuple[Cursor, uuid.UUID], Changes | None]
    """By what was asked: what has changed since then. None: too much to be told."""


LookAtTeams = Callable[[AsyncSession, Collection[tuple[Cursor, uuid.UUID]]], Awaitable[TeamLook]]
"""What has changed for these teams since these cursors, all with one snapshot."""


@dataclass(eq=False)
class _Stream:
    look: Look
    id: uuid.UUID
    latest: Progress | None
    """None: the object does not exist any more."""
    caller: Caller | None = None
    """None: nobody in particular, whose right to see it cannot end."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, progress: Progress | None) -> None:
        if progress != self.latest:
            self.latest = progress
            self.changed.set()

    def end(self) -> None:
        self.tell(None)


@dataclass(eq=False)
class _TeamStream:
    """Changes wait here until the client has taken those before; of each object only the last."""

    look: LookAtTeams
    caller: Caller
    cursor: Cursor | None
    """What the client will have seen when it has taken what waits. None: nothing yet."""
    waiting: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    is_lost: bool = False
    """Not all of what has changed is in `waiting`: the client has to read everything anew."""
    has_ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, now: Cursor, found: Changes | None) -> None:
        self.cursor = now
        self.waiting |= {(c["kind"], c["id"]): c for c in found or []}
        if found is None or len(self.waiting) > changes.MOST:
            self.is_lost = True
            self.waiting = {}
        if self.is_lost or self.waiting:
            self.changed.set()

    def end(self) -> None:
        self.has_ended = True
        self.changed.set()

    def take(self) -> str:
        """An event with what waits. Without any it only names the cursor, which browsers keep and tell nobody."""
        self.changed.clear()
        event = "event: refresh\ndata: {}\n" if self.is_lost else ""
        if self.waiting and not self.is_lost:
            event = f"event: changes\ndata: {json.dumps(list(self.waiting.values()))}\n"
        self.is_lost, self.waiting = False, {}
        return f"{'' if self.cursor is None else f'id: {self.cursor}'}\n{event}\n"


class Poller:
    """Looks at the objects of all streams of this process, while there are any."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
        self._of_teams: set[_TeamStream] = set()
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Never returns; it is cancelled at the end of the process."""
        while True:
            await self._wanted.wait()
            by_look: dict[Look, list[_Stream]] = {}
            for stream in self._streams:
                by_look.setdefault(stream.look, []).append(stream)
            of_teams: dict[LookAtTeams, list[_TeamStream]] = {}
            for of_team in self._of_teams:
                of_teams.setdefault(of_team.look, []).append(of_team)
            for look, streams in by_look.items():
                await self._try(self._look(look, streams))
            for look_at_teams, streams_of_teams in of_teams.items():
                await self._try(self._look_at_teams(look_at_teams, streams_of_teams))
            await asyncio.sleep(_INTERVAL_S)

    async def _try(self, look: Awaitable[None]) -> None:
        try:
            await look
        except (SQLAlchemyError, OSError) as e:
            log.warning("events.not_polled", reason=str(e))  # the streams stay: the next look may succeed
        except Exception:
            log.exception("events.error")  # an error of one look ends neither the poller nor the other looks

    async def _look(self, look: Look, streams: list[_Stream]) -> None:
        async with transaction() as session:
            present = await still_there(session, {s.caller for s in streams if s.caller})
            found = await look(session, {s.id for s in streams})
        for stream in streams:
            if stream.caller and stream.caller not in present:
                stream.end()
            else:
                stream.tell(found.get(stream.id))

    async def _look_at_teams(self, look: LookAtTeams, streams: list[_TeamStream]) -> None:
        async with transaction() as session:
            # One snapshot: whose right has ended is told nothing that happened since then.
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            present = await still_there(session, {s.caller for s in streams})
            seen = await look(session, {(s.cursor, s.caller.team_id) for s in streams if s.cursor})
        for stream in streams:
            if stream.caller not in present:
                stream.end()
            else:
                of_it = None if stream.cursor is None else seen.found[stream.cursor, stream.caller.team_id]
                stream.tell(seen.now, of_it)

    async def changes_of_team(self, look: LookAtTeams, caller: Caller, cursor: Cursor | None) -> AsyncIterator[str]:
        """Yields events with what has changed since the cursor. Ends when the caller may not see it any more, and after
        a while: clients come again."""
        stream = _TeamStream(look, caller, cursor)
        self._of_teams.add(stream)
        self._wanted.set()
        end = asyncio.get_running_loop().time() + _LONGEST_S
        try:
            while not stream.has_ended and (left := end - asyncio.get_running_loop().time()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stream.changed.wait(), min(_SILENT_S, left))
                if not stream.has_ended:
                    yield stream.take()
        finally:
            self._of_teams.discard(stream)
            self._rest()

    def _rest(self) -> None:
        if not self._streams and not self._of_teams:
            self._wanted.clear()

    async def changes(
        self, look: Look, subject: uuid.UUID, first: Progress, caller: Caller | None = None
    ) -> AsyncIterator[str]:
        """Yields an event for the first progress and for each change. Ends when no further change follows."""
        stream = _Stream(look, subject, first, caller)
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
            self._rest()


def _poller(request: Request) -> Poller:
    poller: Poller = request.app.state.poller
    return poller


Events = Annotated[Poller, Depends(_poller)]


def streamed(poller: Poller, look: Look, subject: uuid.UUID, first: Progress, caller: Caller) -> StreamingResponse:
    return as_events(poller.changes(look, subject, first, caller))


def as_events(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
