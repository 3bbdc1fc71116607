from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, String, case, cast, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from api import limits, retention
from api.connections import replays
from api.connections import service as connections
from api.errors import NotFound, Unprocessable
from api.events import Progress
from api.jobs import lock_jobs
from api.pages import Keyset, Page
from api.security import Caller
from api.whatifs import settings
from api.whatifs.schemas import WhatIfIn, WhatIfOut
from store.models import Capture, Fit, Job, JobKind, State, WhatIf

WHATIFS_MAX = 64
"""Of one connection."""
_NEWEST_FIRST = Keyset((WhatIf.created_at, WhatIf.id), descending=True)
_SHOWN = {"state", "stage", "progress", "error"}
"""What an event of a what-if tells."""


FIT_SHARE = 0.6
"""Of the progress of a what-if that needs a fit."""
_PAUSES = (
    select(Job.stage)
    .where(
        or_(Job.whatif_id == WhatIf.id, Job.fit_id == Fit.id),
        Job.state == State.queued,
        Job.not_before.is_not(None),
    )
    .order_by(Job.queued_at)
    .limit(1)
    .correlate(WhatIf, Fit)
    .scalar_subquery()
)
STAGE = case(
    (WhatIf.state != State.running, func.coalesce(_PAUSES, cast(WhatIf.state, String))),
    (Fit.state == State.done, func.coalesce(_PAUSES, "simulating")),
    else_=func.coalesce(_PAUSES, "fitting"),
).label("stage")
"""What is done: the fit, or the simulation; or what its job waits for."""
PROGRESS = case(
    (WhatIf.state == State.done, 1.0),
    (Fit.id.is_(None), 0.0),
    (Fit.state == State.done, FIT_SHARE + (1 - FIT_SHARE) * WhatIf.progress),
    else_=FIT_SHARE * Fit.progress,
).label("progress")
"""Of the fit and of its own simulations, 0 to 1. A what-if without a fit has not begun or was answered without one."""


def _all() -> Select[Any]:
    entities: tuple[Any, ...] = (WhatIf, STAGE, PROGRESS)
    return select(*entities).outerjoin(Fit, Fit.connection_id == WhatIf.connection_id)


def _scoped(caller: Caller) -> Select[Any]:
    return _all().join(Capture, Capture.id == WhatIf.capture_id).where(Capture.team_id == caller.team_id)


def _out(row: Any) -> WhatIfOut:
    own = {n: getattr(row.WhatIf, n) for n in WhatIfOut.model_fields.keys() - {"stage", "progress"}}
    return WhatIfOut(**own, stage=row.stage, progress=row.progress)


async def get(session: AsyncSession, caller: Caller, whatif_id: uuid.UUID) -> WhatIfOut:
    """Raises NotFound."""
    row = (await session.execute(_scoped(caller).where(WhatIf.id == whatif_id))).one_or_none()
    if row is None:
        raise NotFound("no such what-if")
    return _out(row)


async def find(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, cursor: str | None, limit: int
) -> Page[WhatIfOut]:
    """Of a connection, newest first. Raises NotFound."""
    await connections.load(session, caller, connection_id)
    query = _scoped(caller).where(WhatIf.connection_id == connection_id)
    return await _NEWEST_FIRST.page(session, query, cursor, limit, _out)


def _told(whatif: WhatIfOut) -> Progress:
    return Progress(whatif.model_dump(mode="json", include=_SHOWN), whatif.state in (State.done, State.failed))


async def progress(session: AsyncSession, whatifs: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of what-ifs of any team: the caller has checked whose they are."""
    rows = await session.execute(_all().where(WhatIf.id.in_(whatifs)))
    return {row.WhatIf.id: _told(_out(row)) for row in rows}


async def progress_of_own(session: AsyncSession, caller: Caller, whatif_id: uuid.UUID) -> Progress:
    """Raises NotFound."""
    return _told(await get(session, caller, whatif_id))


def refuse_other_modes(chosen: connections.Chosen) -> None:
    """Raises Unprocessable."""
    if chosen.options.get("mode", "kernel") != "kernel":
        raise Unprocessable(f"mode={chosen.options['mode']}: a what-if simulates mode=kernel")


async def request(
    session: AsyncSession, caller: Caller, connection_id: uuid.UUID, wanted: WhatIfIn
) -> tuple[WhatIfOut, uuid.UUID | None]:
    """The what-if, and the job to wake when there is one. Raises NotFound, Conflict, Unprocessable, TooMany.

    The same request twice is one what-if; one that failed begins anew.
    """
    await limits.hold_team(session, caller.team_id)  # requests of one team come here one after the other
    found = await connections.load(session, caller, connection_id)
    chosen = await replays.chosen(session, wanted)
    refuse_other_modes(chosen)
    asked = {
        "connection_id": connection_id,
        "label": chosen.label,
        "everyone": wanted.everyone,
        "repeat": wanted.repeat,
        "settings": settings.checked(wanted.settings, found.connection.subflow_count),
    }
    same = (await session.scalars(select(WhatIf).filter_by(**asked))).one_or_none()
    if same is None or same.state is State.failed:
        retention.refuse_without_copy(found.capture)
    if same is None:
        return await _insert(session, caller, found, asked, chosen)
    whatif_id = same.id
    job_id = await _begin_anew(session, caller, same) if same.state is State.failed else None
    session.expire_all()
    return await get(session, caller, whatif_id), job_id


async def _insert(
    session: AsyncSession,
    caller: Caller,
    found: connections.Found,
    asked: dict[str, Any],
    chosen: connections.Chosen,
) -> tuple[WhatIfOut, uuid.UUID]:
    """Raises NotFound, Unprocessable, TooMany."""
    others = select(func.count()).where(WhatIf.connection_id == asked["connection_id"])
    if (await session.execute(others)).scalar_one() >= WHATIFS_MAX:
        raise Unprocessable(f"a connection has at most {WHATIFS_MAX} what-ifs: delete some")
    await limits.admit_job(session, caller.team_id)
    whatif_id = uuid.uuid4()
    try:
        await session.execute(
            insert(WhatIf).values(
                id=whatif_id,
                capture_id=found.capture.id,
                connection_number=found.connection.number,
                algorithm=chosen.algorithm,
                options=chosen.options,
                **asked,
            )
        )
    except IntegrityError as e:  # its capture has been deleted since it was read
        raise NotFound("no such connection") from e
    job_id = await _insert_job(session, caller, found.capture.id, whatif_id)
    return await get(session, caller, whatif_id), job_id


async def _begin_anew(session: AsyncSession, caller: Caller, whatif: WhatIf) -> uuid.UUID | None:
    """Queues a failed what-if again. Returns its job. Raises NotFound, TooMany."""
    await limits.admit_job(session, caller.team_id)
    await session.execute(delete(Job).where(Job.whatif_id == whatif.id))
    values = {"state": State.queued, "error": None, "finished_at": None}
    again = update(WhatIf).where(WhatIf.id == whatif.id).values(values).returning(WhatIf.id)
    if (await session.execute(again)).one_or_none() is None:
        raise NotFound("no such what-if")  # its capture has been deleted since it was read
    return await _insert_job(session, caller, whatif.capture_id, whatif.id)


async def _insert_job(session: AsyncSession, caller: Caller, capture_id: uuid.UUID, whatif_id: uuid.UUID) -> uuid.UUID:
    job_id = uuid.uuid4()
    await session.execute(
        insert(Job).values(
            id=job_id,
            kind=JobKind.whatif,
            team_id=caller.team_id,
            capture_id=capture_id,
            whatif_id=whatif_id,
            sent_at=func.clock_timestamp(),
        )
    )
    return job_id


async def remove(session: AsyncSession, caller: Caller, whatif_id: uuid.UUID) -> str:
    """Deletes a what-if; workers that run its parts notice that their jobs are lost. Returns its label. Raises
    NotFound."""
    await limits.hold_team(session, caller.team_id)
    label = (await get(session, caller, whatif_id)).label
    await remove_all(session, [whatif_id])
    return label


async def remove_all(session: AsyncSession, whatifs: Collection[uuid.UUID]) -> None:
    """Deletes what-ifs, and the fits that no other what-if waits for and that are not done. The caller holds the team,
    so that none is asked for meanwhile.
    """
    of_them = select(WhatIf.connection_id).where(WhatIf.id.in_(whatifs))
    of_fits = select(Fit.id).where(Fit.connection_id.in_(of_them))
    await lock_jobs(session, or_(Job.whatif_id.in_(whatifs), Job.fit_id.in_(of_fits)))
    other = aliased(WhatIf)
    waits = exists().where(
        other.connection_id == Fit.connection_id,
        other.id.not_in(whatifs),
        other.state.in_((State.queued, State.running)),
    )
    given_up = (await session.scalars(select(Fit.id).where(Fit.id.in_(of_fits), Fit.state != State.done, ~waits))).all()
    await session.execute(delete(Job).where(or_(Job.whatif_id.in_(whatifs), Job.fit_id.in_(given_up))))
    await session.execute(delete(WhatIf).where(WhatIf.id.in_(whatifs)))
    await session.execute(delete(Fit).where(Fit.id.in_(given_up)))
