"""Replays that a team asks for: their options, and what is done with those that failed."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from sqlalchemy import and_, delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from api import selections
from api.connections import service
from api.connections.schemas import ReplayIn, ReplaysIn
from api.connections.service import Chosen
from api.errors import Conflict, NotFound, Unprocessable
from api.events import Progress, of_job
from api.security import Caller
from api.selections import RefusedOut, ReplaysOut
from store.models import AlgorithmRecord, Connection, Job, Replay, State


async def chosen(session: AsyncSession, wanted: ReplayIn) -> Chosen:
    """What a request asks for, checked against what the workers can run. Raises Unprocessable."""
    name = "".join(wanted.algorithm.split()).casefold()
    record = await session.get(AlgorithmRecord, name) if name.isprintable() else None
    if record is None:
        known = await session.scalars(select(AlgorithmRecord.name).order_by(AlgorithmRecord.position))
        raise Unprocessable(f"unknown algorithm '{name[:40]}'; there are: {', '.join(known)}")
    known_options = {o["name"]: o for o in record.description["options"]}
    changed = {}
    for key, given in sorted(wanted.options.items()):
        option = known_options.get(key)
        if option is None:
            raise Unprocessable(f"{name} has no option '{key[:40]}'; there are: {', '.join(known_options)}")
        value = _text(given)
        if not _takes(option, value):
            raise Unprocessable(f"{name}: option {key} takes {option['values']}, not '{value[:60]}'")
        if value != option["default"]:
            changed[key] = value
    return Chosen(name, changed)


def _text(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value).strip()


def _takes(option: Mapping[str, Any], value: str) -> bool:
    """As the core reads an option: a choice, or a number that is kept in steps of 1/65536."""
    if "choices" not in option:  # as a worker of version 0.1.0 has published it, which checks the value itself
        return True
    if option["choices"] is not None:
        return value in option["choices"]
    if len(value) > 60 or not re.fullmatch(r"-?(\d{1,12}(\.\d*)?|\.\d+)", value, re.ASCII):
        return False
    read = Decimal(value).quantize(Decimal("1e-14"), ROUND_DOWN)
    steps = (read * 65536).to_integral_value(ROUND_HALF_UP)
    return bool(Decimal(option["least"]) * 65536 <= steps <= Decimal(option["most"]) * 65536)


async def remove(session: AsyncSession, caller: Caller, connection_id: uuid.UUID, replay_id: uuid.UUID) -> str:
    """Deletes a replay that somebody asked for, done or failed; its label. The collector removes what was stored of it.

    Raises NotFound, Conflict.
    """
    found = await service.load(session, caller, connection_id)
    label = next((r.label for r in found.replays if r.id == replay_id), None)
    if label is None:
        raise NotFound("the connection has no such replay")
    # Lock the job first, as a worker does.
    await session.execute(select(Job.id).where(Job.replay_id == replay_id).with_for_update())
    state = await session.scalar(
        select(Replay.state).where(Replay.id == replay_id, Replay.connection_id == connection_id).with_for_update()
    )
    if state is None:
        raise Conflict("this replay is part of the capture's analysis; only one that was asked for can be deleted")
    if state not in (State.done, State.failed):
        raise Conflict(f"only a replay that has ended can be deleted; this one is {state}")
    await session.execute(delete(Job).where(Job.replay_id == replay_id))
    await session.execute(delete(Replay).where(Replay.id == replay_id))
    return label


async def progress(session: AsyncSession, asked: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of replays of any team: the caller has checked whose they are."""
    columns: tuple[Any, ...] = (Replay.id, Replay.state, Replay.error, Job.stage, Job.progress)
    own = and_(Job.capture_id == Replay.capture_id, Job.replay_id == Replay.id)  # there is an index for captures
    rows = await session.execute(select(*columns).outerjoin(Job, own).where(Replay.id.in_(asked)))
    return {row.id: of_job(row) for row in rows}


REQUESTED_AT_ONCE = 50
"""Connections of one request."""


async def request_selected(
    session: AsyncSession, caller: Caller, wanted: ReplaysIn
) -> tuple[ReplaysOut, list[uuid.UUID]]:
    """The replays of a part of the selection, and the jobs to wake. Raises BadRequest, Unprocessable, TooMany."""
    wanted.selection.refuse_empty("connection_ids")
    asked = await chosen(session, wanted)
    own = selections.own_connections(caller, Connection.id).where(*selections.of_connections(wanted.selection))
    most = REQUESTED_AT_ONCE
    rows, following = await selections.part(session, own, Connection.id.expression, wanted.cursor, most)
    refused: Counter[str] = Counter()
    begun = []
    for row in rows:
        try:
            _, job_id = await service.request_replay(session, caller, row.id, asked)
        except (Conflict, NotFound, Unprocessable) as e:
            refused[e.detail] += 1
            continue
        if job_id:
            begun.append(job_id)
    told = [RefusedOut(reason=reason, connections=count) for reason, count in refused.most_common()]
    done = len(rows) - refused.total()
    return ReplaysOut(done=done, begun=len(begun), refused=told, next_cursor=following), begun
