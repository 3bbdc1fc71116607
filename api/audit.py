"""What members of a team did, for its owners. The services' role in PostgreSQL can add to the log, and change nothing
in it (store/role.py). An event is committed with what it tells of."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import exists, func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from api.security import Caller
from store.models import AuditEvent

Action = Literal[
    "upload", "see", "export", "delete", "change", "retry", "replay", "read_segments", "predict", "check", "sign_in",
    "sign_out", "change_settings", "add_member", "change_member", "remove_member", "make_token", "revoke_token",
]  # fmt: skip
SEEN_AGAIN = timedelta(hours=1)
"""Who looks at the same thing meanwhile is not noted again: a page asks often."""


def _values(
    caller: Caller, action: Action, object_id: uuid.UUID | None, object_name: str | None, detail: dict[str, Any]
) -> dict[str, Any]:
    return {
        "team_id": caller.team_id,
        "token_id": caller.token_id,
        "member": caller.member,
        "action": action,
        "object_id": object_id,
        "object_name": object_name,
        "detail": detail,
    }


async def note(
    session: AsyncSession,
    caller: Caller,
    action: Action,
    object_id: uuid.UUID | None = None,
    object_name: str | None = None,
    **detail: Any,
) -> None:
    """Notes an action of the caller. object_name: as the team knows it, also when the object is gone."""
    await session.execute(insert(AuditEvent).values(_values(caller, action, object_id, object_name, detail)))


async def note_all(
    session: AsyncSession, caller: Caller, action: Action, objects: Iterable[Sequence[Any]], **detail: Any
) -> None:
    """Notes the same action for several objects: their ids and names."""
    rows = [_values(caller, action, object_id, name, detail) for object_id, name in objects]
    if rows:
        await session.execute(insert(AuditEvent), rows)


async def note_seen(session: AsyncSession, caller: Caller, object_id: uuid.UUID, object_name: str) -> None:
    """Notes that the caller looks at something, once in SEEN_AGAIN."""
    values = _values(caller, "see", object_id, object_name, {})
    recent = exists().where(
        AuditEvent.token_id == caller.token_id,
        AuditEvent.object_id == object_id,
        AuditEvent.at > func.clock_timestamp() - SEEN_AGAIN,
        AuditEvent.action == "see",
    )
    columns = AuditEvent.__table__.c
    row = select(*(literal(v, columns[n].type) for n, v in values.items())).where(~recent)
    await session.execute(insert(AuditEvent).from_select(list(values), row))
