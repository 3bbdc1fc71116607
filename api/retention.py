"""For how long a team keeps what, and what is refused where something is gone (store/retention.py)."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits
from api.errors import Conflict, Unprocessable
from api.security import Caller
from api.teams.schemas import DueOfKind, DueOut, RetentionOut, RetentionWanted
from store import retention
from store.models import Capture, Team
from store.retention import KINDS, Due, Policy


def refuse_without_copy(capture: Capture) -> None:
    """Whatever reads the capture itself needs its stored copy. Raises Conflict."""
    refuse_deleted(capture.raw_deleted_at)


def refuse_deleted(raw_deleted_at: datetime | None) -> None:
    """Raises Conflict."""
    if raw_deleted_at is not None:
        raise Conflict(retention.copy_deleted(raw_deleted_at))


async def refuse_checks_without_copy(session: AsyncSession, capture_id: uuid.UUID) -> None:
    """The caller holds the team. Raises Conflict."""
    refuse_deleted(await session.scalar(select(Capture.raw_deleted_at).where(Capture.id == capture_id)))


def _policy(wanted: RetentionWanted | Team) -> Policy:
    return Policy(wanted.raw_days, wanted.series_days, wanted.metrics_days)


def checked(wanted: RetentionWanted) -> Policy:
    """Raises Unprocessable."""
    policy = _policy(wanted)
    for kind in ("raw", "series"):
        days = policy.days(kind)
        if days is not None and policy.metrics_days is not None and days > policy.metrics_days:
            raise Unprocessable(
                f"{kind}_days: {days} days are longer than the {policy.metrics_days} of metrics_days, after which the"
                " whole capture is deleted"
            )
    return policy


async def due(session: AsyncSession, caller: Caller, policy: Policy) -> DueOut:
    """What would be deleted now."""
    found = {}
    for kind in KINDS:
        totals = Due(kind, policy).totals(caller.team_id)
        found[kind] = DueOfKind(**(await session.execute(totals)).one()._mapping)
    return DueOut(**found)


async def of_team(session: AsyncSession, caller: Caller) -> RetentionOut:
    return await _out(session, caller, _policy(await session.get_one(Team, caller.team_id)))


async def change(session: AsyncSession, caller: Caller, wanted: RetentionWanted) -> RetentionOut:
    """Raises Unprocessable."""
    policy = checked(wanted)
    await limits.hold_team(session, caller.team_id)
    team = await session.get_one(Team, caller.team_id)
    before = vars(_policy(team))
    changed = {name: days for name, days in vars(policy).items() if before[name] != days}
    for name, days in changed.items():
        setattr(team, name, days)
    await session.flush()
    if changed:
        await audit.note(
            session, caller, "change_settings", before={name: before[name] for name in changed}, after=changed
        )
    return await _out(session, caller, policy)


async def _out(session: AsyncSession, caller: Caller, policy: Policy) -> RetentionOut:
    return RetentionOut(**vars(policy), due=await due(session, caller, policy))
