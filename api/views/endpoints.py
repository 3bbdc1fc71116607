from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Query

from api import audit
from api.bodies import Route
from api.errors import problem
from api.security import Reader, Session, Writer
from api.views import service
from api.views.schemas import PageOfViews, ViewChange, ViewIn, ViewOut

router = APIRouter(prefix="/v1/views", tags=["views"], route_class=Route)

_TAKEN: dict[int | str, dict[str, Any]] = {409: problem("Another view of the page has this name.")}
_Only = Annotated[PageOfViews | None, Query(description="only views of this page")]


@router.get("")
async def find(session: Session, caller: Reader, page: _Only = None) -> list[ViewOut]:
    """The views that members of the team have saved, by page and name."""
    return [ViewOut.model_validate(v) for v in await service.of_team(session, caller, page)]


@router.post("", status_code=201, responses=_TAKEN)
async def post(session: Session, caller: Writer, wanted: ViewIn) -> ViewOut:
    """Saves a page's filters, order and period under a name. All members of the team see it."""
    view = ViewOut.model_validate(await service.add(session, caller, wanted))
    await audit.note(session, caller, "change", view.id, view.name, what="view saved")
    return view


@router.patch("/{view_id}", responses=_TAKEN)
async def patch(session: Session, caller: Writer, view_id: uuid.UUID, wanted: ViewChange) -> ViewOut:
    """Changes the name or the parameters of a view."""
    view = ViewOut.model_validate(await service.change(session, caller, view_id, wanted))
    await audit.note(session, caller, "change", view.id, view.name, what="view changed")
    return view


@router.delete("/{view_id}", status_code=204)
async def delete(session: Session, caller: Writer, view_id: uuid.UUID) -> None:
    """Deletes a view. What it showed stays."""
    name = await service.remove(session, caller, view_id)
    await audit.note(session, caller, "delete", view_id, name, what="view")
