from __future__ import annotations

import uuid

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from api import exports
from api.alerts import service
from api.alerts.schemas import AlertChange, AlertIn, AlertOut
from api.bodies import Route
from api.events import STREAM, Events, streamed
from api.pages import Cursor, Limit, Page
from api.security import Reader, Session, Writer

router = APIRouter(prefix="/v1/alerts", tags=["alerts"], route_class=Route)


@router.get("")
async def find(session: Session, caller: Reader, cursor: Cursor = None, limit: Limit = 50) -> Page[AlertOut]:
    """The team's alerts and how they stand, oldest first."""
    return await service.find(session, caller, cursor=cursor, limit=limit)


@router.post("", status_code=201)
async def make(session: Session, caller: Writer, wanted: AlertIn) -> AlertOut:
    """Makes an alert: its aggregate is evaluated from now on, and a webhook is told when it fires and when that is
    over."""
    return await service.make(session, caller, wanted)


_COLUMNS = exports.columns_of(AlertOut)


@router.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request, session: Session, caller: Reader, suffix: exports.Suffix, limit: exports.Most = None
) -> StreamingResponse:
    """The team's alerts as a file, oldest first."""
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("alerts", _COLUMNS, request.url.query),
        None,
        lambda s, cursor, size: service.find(s, caller, cursor=cursor, limit=size),
        limit,
    )


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def events(session: Session, caller: Reader, poller: Events) -> StreamingResponse:
    """Server-sent events, of `alerts`, all alerts of the team as GET /v1/alerts has them, and `messages`, a text for
    each webhook: the first at once, then one when an alert is made, changed, evaluated or removed, or a message made or
    posted. The server ends the stream after ten minutes."""
    first = (await service.progress(session, {caller.team_id}))[caller.team_id]
    return streamed(poller, service.progress, caller.team_id, first, caller)


@router.get("/{alert_id}")
async def one(session: Session, caller: Reader, alert_id: uuid.UUID) -> AlertOut:
    """An alert and how it stands."""
    return await service.one(session, caller, alert_id)


@router.patch("/{alert_id}")
async def change(session: Session, caller: Writer, alert_id: uuid.UUID, wanted: AlertChange) -> AlertOut:
    """Changes an alert. Unless only name or interval change, it begins anew, and one that fires is told to be over."""
    return await service.change(session, caller, alert_id, wanted)


@router.delete("/{alert_id}", status_code=204)
async def remove(session: Session, caller: Writer, alert_id: uuid.UUID) -> None:
    """Removes an alert. If it fires, its webhook is told that this is over."""
    await service.remove(session, caller, alert_id)
