"""What a request is about that changes many things at once: filters, ids, or everything. Such a request does a part of
it, and says where the next one begins."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from api import filters
from api.errors import Unprocessable
from api.filters import Filters
from api.pages import decode, encode, foreign
from api.schemas import Schema
from api.security import Caller
from store import facts
from store.models import Capture, Connection, ConnectionFact, State

IDS_MAX = 1000

Ids = Annotated[list[uuid.UUID], Field(max_length=IDS_MAX)]


class Selection(Filters):
    """The filters of GET /v1/connections and GET /v1/captures, and ids. All hold together."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    capture_ids: Ids = Field(default_factory=list)
    """Only these captures, or connections of them; none: all that the filters select."""
    everything: bool = False
    """All that the team has, where neither filters nor ids are given."""

    def refuse_empty(self, ids: str) -> None:
        """Raises Unprocessable."""
        if not any(getattr(self, name) for name in self.model_fields_set):
            raise Unprocessable(f"the selection is empty: give filters, {ids}, or everything=true")


class SelectionIn(Selection):
    """The filters of GET /v1/connections, and ids. All hold together."""

    connection_ids: Ids = Field(default_factory=list)
    """Only these connections; none: all that the filters select."""


class CaptureSelection(Selection):
    state: State | None = None
    """Only captures in this state."""


class RefusedCaptures(Schema):
    reason: str
    """Why they were not changed."""
    captures: int
    """How many were not changed for this reason."""


class PartOut(Schema):
    """What was done to a part of the selection."""

    done: int
    """How many captures were changed or deleted."""
    refused: list[RefusedCaptures]
    """Captures of this part that were not changed."""
    next_cursor: str | None
    """For the next part: the same request with this `cursor`. Null: this was the last one."""


class RefusedOut(Schema):
    reason: str
    """Why nothing is said or done; of several reasons that differ in their numbers, one."""
    connections: int
    """How many connections."""


class ReplaysOut(Schema):
    """What was requested of a part of the selection."""

    done: int
    """Connections that have the replay now, or whose replay waits or runs."""
    begun: int
    """Of them, how many have a replay that this request began."""
    refused: list[RefusedOut]
    """Connections of this part of which nothing was requested."""
    next_cursor: str | None
    """For the next part: the same request with this `cursor`. Null: this was the last one."""


def of_captures(wanted: Selection) -> list[ColumnElement[bool]]:
    """Conditions on `captures`. Raises BadRequest."""
    conditions = filters.of_captures(wanted)
    if wanted.capture_ids:
        conditions.append(Capture.id.in_(wanted.capture_ids))
    return conditions


def of_connections(wanted: SelectionIn) -> list[ColumnElement[bool]]:
    """Conditions on captures, connections and their facts. Raises BadRequest."""
    conditions = [*of_captures(wanted), *filters.of_connections(wanted)]
    if wanted.connection_ids:
        conditions.append(Connection.id.in_(wanted.connection_ids))
    return conditions


def own_connections(caller: Caller, *columns: Any) -> Select[Any]:
    """Of the connections that the team sees, with their facts."""
    is_of_fact = (Connection.attempt_id == ConnectionFact.attempt_id, Connection.number == ConnectionFact.number)
    return facts.facts(caller.team_id, *columns).join(Connection, and_(*is_of_fact))


async def part(
    session: AsyncSession, query: Select[Any], id_column: ColumnElement[Any], cursor: str | None, most: int
) -> tuple[Sequence[Any], str | None]:
    """Some rows of a query about captures, by an id, and the cursor of those behind them. What was uploaded after the
    first part was asked for is in none: nobody has seen it when they chose. Raises BadRequest."""
    began, last = await _parsed(session, cursor)
    query = query.where(Capture.created_at <= began)
    if last is not None:
        query = query.where(id_column > last)
    rows = (await session.execute(query.order_by(id_column).limit(most + 1))).all()
    more = len(rows) > most
    return rows[:most], encode([began.isoformat(), str(rows[most - 1][0])]) if more else None


async def _parsed(session: AsyncSession, cursor: str | None) -> tuple[datetime, uuid.UUID | None]:
    """Raises BadRequest."""
    if cursor is None:
        return (await session.execute(select(func.clock_timestamp()))).scalar_one(), None
    try:
        began, last = decode(cursor)
        time, row = datetime.fromisoformat(began), uuid.UUID(last)
    except (TypeError, ValueError, AttributeError) as e:
        raise foreign() from e
    if time.tzinfo is None:
        raise foreign()
    return time, row


def refused_captures(refused: Counter[str]) -> list[RefusedCaptures]:
    return [RefusedCaptures(reason=reason, captures=count) for reason, count in refused.most_common()]
