"""Jobs that a request deletes, with what they are about."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.models import Job


async def lock_jobs(session: AsyncSession, which: ColumnElement[bool]) -> None:
    """Locks jobs before the request changes what they are about: a worker locks in this order, too.

    A worker may replace a job by others while the request waits for it. Only who holds a job adds others, so nothing
    is added any more when all are held.
    """
    held: set[Any] = set()
    query = select(Job.id).where(which).order_by(Job.id).with_for_update()
    while (now := set(await session.scalars(query))) - held:
        held = now
