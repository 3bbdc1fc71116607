"""Views of the dashboard's pages that members save for their team."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from api import limits
from api.errors import Conflict, NotFound, Unprocessable
from api.security import Caller
from api.views import addresses
from api.views.schemas import PageOfViews, ViewChange, ViewIn
from store.models import SavedView

VIEWS_MAX = 200
"""Of a team."""


async def of_team(session: AsyncSession, caller: Caller, page: PageOfViews | None) -> Sequence[SavedView]:
    """By page and name."""
    views = select(SavedView).where(SavedView.team_id == caller.team_id)
    if page:
        views = views.where(SavedView.page == page)
    return (await session.scalars(views.order_by(SavedView.page, func.lower(SavedView.name), SavedView.id))).all()


def _taken(name: str) -> Conflict:
    return Conflict(f"a view of this page has the name '{name}'")


async def add(session: AsyncSession, caller: Caller, wanted: ViewIn) -> SavedView:
    """Raises Conflict, Unprocessable."""
    addresses.check(wanted.page, wanted.query)
    await limits.hold_team(session, caller.team_id)  # two requests at once count both views
    held = select(func.count()).where(SavedView.team_id == caller.team_id)
    if (await session.scalar(held) or 0) >= VIEWS_MAX:
        raise Unprocessable(f"a team has at most {VIEWS_MAX} views")
    values = {
        "id": uuid.uuid4(), "team_id": caller.team_id, "page": wanted.page, "name": wanted.name, "query": wanted.query,
        "author": caller.member,
    }  # fmt: skip
    added = insert(SavedView).values(values).on_conflict_do_nothing().returning(SavedView)
    view = (await session.scalars(added)).one_or_none()
    if view is None:
        raise _taken(wanted.name)
    return view


def _of(caller: Caller, view_id: uuid.UUID) -> tuple[ColumnElement[bool], ...]:
    return SavedView.id == view_id, SavedView.team_id == caller.team_id


async def change(session: AsyncSession, caller: Caller, view_id: uuid.UUID, wanted: ViewChange) -> SavedView:
    """Raises Conflict, NotFound, Unprocessable."""
    await limits.hold_team(session, caller.team_id)  # no other view gets the name meanwhile
    view = (await session.scalars(select(SavedView).where(*_of(caller, view_id)))).one_or_none()
    if view is None:
        raise NotFound("the team has no such view")
    values: dict[str, Any] = {"changed_by": caller.member, "changed_at": func.clock_timestamp()}
    if wanted.name is not None:
        same = (SavedView.team_id == caller.team_id, SavedView.page == view.page, SavedView.name == wanted.name)
        if await session.scalar(select(exists().where(*same, SavedView.id != view_id))):
            raise _taken(wanted.name)
        values["name"] = wanted.name
    if wanted.query is not None:
        addresses.check(cast(PageOfViews, view.page), wanted.query)
        values["query"] = wanted.query
    changed = update(SavedView).where(*_of(caller, view_id)).values(values).returning(SavedView)
    return (await session.scalars(changed, execution_options={"populate_existing": True})).one()


async def remove(session: AsyncSession, caller: Caller, view_id: uuid.UUID) -> str:
    """Its name. Raises NotFound."""
    removed = delete(SavedView).where(*_of(caller, view_id)).returning(SavedView.name)
    name = (await session.execute(removed)).scalar_one_or_none()
    if name is None:
        raise NotFound("the team has no such view")
    return str(name)
