"""Notes that members pin to a time of a connection."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from api import limits
from api.connections import service
from api.connections.schemas import NoteChange, NoteIn
from api.errors import Conflict, NotFound, Unprocessable
from api.security import Caller
from store.models import PinnedNote

NOTES_MAX = 200
"""Of a connection."""


async def of_connection(session: AsyncSession, caller: Caller, connection_id: uuid.UUID) -> Sequence[PinnedNote]:
    """In the order of their times. Raises NotFound."""
    await service.load(session, caller, connection_id)
    notes = select(PinnedNote).where(PinnedNote.connection_id == connection_id)
    return (await session.scalars(notes.order_by(PinnedNote.at_ns, PinnedNote.id))).all()


async def add(session: AsyncSession, caller: Caller, connection_id: uuid.UUID, wanted: NoteIn) -> PinnedNote:
    """Raises NotFound, Unprocessable."""
    await limits.hold_team(session, caller.team_id)  # two requests at once count both notes
    found = await service.load(session, caller, connection_id)
    held = select(func.count()).where(PinnedNote.connection_id == connection_id)
    if (await session.scalar(held) or 0) >= NOTES_MAX:
        raise Unprocessable(f"a connection has at most {NOTES_MAX} notes")
    values = {
        "id": uuid.uuid4(), "capture_id": found.capture.id, "connection_id": connection_id,
        "at_ns": int(wanted.at_ns), "text": wanted.text, "author": caller.member,
    }  # fmt: skip
    return (await session.scalars(insert(PinnedNote).values(values).returning(PinnedNote))).one()


def _of(connection_id: uuid.UUID, note_id: uuid.UUID) -> tuple[ColumnElement[bool], ...]:
    return PinnedNote.id == note_id, PinnedNote.connection_id == connection_id


async def change(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, note_id: uuid.UUID, wanted: NoteChange
) -> PinnedNote:
    """Raises NotFound, Conflict."""
    await service.load(session, caller, connection_id)
    text = await session.scalar(select(PinnedNote.text).where(*_of(connection_id, note_id)).with_for_update())
    if text is None:
        raise NotFound("the connection has no such note")
    if wanted.text_before is not None and text != wanted.text_before:
        raise Conflict("somebody has changed this note meanwhile: read it before you change it")
    values: dict[str, Any] = {"changed_by": caller.member, "changed_at": func.clock_timestamp()}
    if wanted.text is not None:
        values["text"] = wanted.text
    if wanted.at_ns is not None:
        values["at_ns"] = int(wanted.at_ns)
    changed = update(PinnedNote).where(*_of(connection_id, note_id)).values(values).returning(PinnedNote)
    return (await session.scalars(changed)).one()


async def remove(session: AsyncSession, caller: Caller, connection_id: uuid.UUID, note_id: uuid.UUID) -> str:
    """Its text. Raises NotFound."""
    await service.load(session, caller, connection_id)
    removed = delete(PinnedNote).where(*_of(connection_id, note_id)).returning(PinnedNote.text)
    text = (await session.execute(removed)).scalar_one_or_none()
    if text is None:
        raise NotFound("the connection has no such note")
    return str(text)
