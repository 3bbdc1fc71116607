"""What a team's event stream tells of the objects that have changed."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from api.captures import service as captures
from api.connections import replays, sequence
from api.events import Changes, Look, TeamLook
from api.model_checks import service as model_checks
from api.sweeps import service as sweeps
from api.whatifs import service as whatifs
from store import changes
from store.changes import Cursor
from store.models import Sweep, SweepWhatIf

DELETED = "deleted"
"""The state of what is not there any more."""

_LOOKS: dict[str, Look] = {
    "capture": captures.progress,
    "replay": replays.progress,
    "segments": sequence.progress,
    "whatif": whatifs.progress,
    "sweep": sweeps.progress,
    "check": model_checks.progress,
}

_Asked = tuple[Cursor, uuid.UUID]
_Object = tuple[str, uuid.UUID]


async def look(session: AsyncSession, asked: Collection[_Asked]) -> TeamLook:
    """What has changed for each team since a cursor of its own, as it is now. The transaction has one snapshot."""
    now = Cursor(*(await session.execute(changes.NOW)).one())
    found = await _changed(session, asked, now)
    await _add_sweeps(session, found)
    shown = await _shown(session, found)
    told: dict[_Asked, Changes | None] = {}
    for one in asked:
        objects = found[one]
        is_told = objects is not None and len(objects) <= changes.MOST
        told[one] = [shown[key] for key in objects] if objects is not None and is_told else None
    return TeamLook(now, told)


async def _changed(
    session: AsyncSession, asked: Collection[_Asked], now: Cursor
) -> dict[_Asked, dict[_Object, uuid.UUID | None] | None]:
    """The objects that have changed, with their connections; None: too many to be told, or nobody knows any more."""
    teams: dict[Cursor, list[uuid.UUID]] = defaultdict(list)
    for cursor, team_id in asked:
        teams[cursor].append(team_id)
    kept_ms = changes.KEPT.total_seconds() * 1000
    found: dict[_Asked, dict[_Object, uuid.UUID | None] | None] = {}
    for cursor, of in teams.items():
        # Half of the time that changes are kept: what is asked for is deleted meanwhile by nobody.
        is_known = abs(now.at_ms - cursor.at_ms) < kept_ms / 2
        found |= {(cursor, team_id): {} if is_known else None for team_id in of}
        if not is_known:
            continue
        for row in await session.execute(*changes.since(cursor, of)):
            objects = found[cursor, row.team_id]
            if objects is not None:
                objects[row.kind, row.object_id] = row.connection_id
    return {
        key: None if objects is not None and len(objects) > changes.MOST else objects for key, objects in found.items()
    }


async def _add_sweeps(session: AsyncSession, found: dict[_Asked, dict[_Object, uuid.UUID | None] | None]) -> None:
    """A sweep changes with each of its what-ifs."""
    of_whatifs = {i for objects in found.values() for kind, i in objects or {} if kind == "whatif"}
    if not of_whatifs:
        return
    query = select(Sweep.id, Sweep.team_id).join(SweepWhatIf).where(SweepWhatIf.whatif_id.in_(of_whatifs)).distinct()
    for sweep_id, team_id in (await session.execute(query)).all():
        for (_, of), objects in found.items():
            if of == team_id and any(kind == "whatif" for kind, _ in objects or {}):
                objects["sweep", sweep_id] = None  # type: ignore[index]  # it has one


async def _shown(
    session: AsyncSession, found: dict[_Asked, dict[_Object, uuid.UUID | None] | None]
) -> dict[_Object, dict[str, Any]]:
    """Each of them as it is now."""
    connections = {key: connection for objects in found.values() for key, connection in (objects or {}).items()}
    shown: dict[_Object, dict[str, Any]] = {}
    for kind, look_at in _LOOKS.items():
        ids = {i for k, i in connections if k == kind}
        progress = await look_at(session, ids) if ids else {}
        for i in ids:
            connection = connections[kind, i]
            now = progress[i].shown if i in progress else {"state": DELETED}
            of = None if connection is None else str(connection)
            shown[kind, i] = {"kind": kind, "id": str(i), "connection_id": of, **now}
    return shown
