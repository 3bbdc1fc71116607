"""Teams are served in turn: the one that was served longest ago is next."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import ColumnElement, and_, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from store.models import Turn


def of(team_id: Any, queue: str) -> ColumnElement[bool]:
    """Joins a team's last turn in this queue."""
    return and_(Turn.team_id == team_id, Turn.queue == queue)


async def serve(session: AsyncSession, team_id: uuid.UUID, queue: str) -> None:
    """Puts the team at the end of the queue's teams."""
    served = {"served_at": func.clock_timestamp()}
    await session.execute(
        insert(Turn)
        .values(team_id=team_id, queue=queue, **served)
        .on_conflict_do_update(index_elements=[Turn.team_id, Turn.queue], set_=served)
    )
