from __future__ import annotations

import uuid

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from api import exports
from api.bodies import Route
from api.pages import Cursor, Limit, Page
from api.security import Admin, Reader, Session
from api.webhooks import service
from api.webhooks.schemas import DeliveryOut, WebhookChange, WebhookIn, WebhookMade, WebhookOut

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=Route)


@router.get("")
async def find(session: Session, caller: Reader) -> list[WebhookOut]:
    """The team's webhooks, oldest first."""
    return await service.find(session, caller)


@router.post("", status_code=201)
async def make(session: Session, caller: Admin, wanted: WebhookIn) -> WebhookMade:
    """Makes a webhook, whose secret only this answer shows. A team has at most 20 of them."""
    return await service.make(session, caller, wanted)


@router.patch("/{webhook_id}")
async def change(session: Session, caller: Admin, webhook_id: uuid.UUID, wanted: WebhookChange) -> WebhookOut:
    """Gives a webhook another name or another address."""
    return await service.change(session, caller, webhook_id, wanted)


@router.delete("/{webhook_id}", status_code=204)
async def remove(session: Session, caller: Admin, webhook_id: uuid.UUID) -> None:
    """Removes a webhook with its messages, also those that wait. Alerts that named it name none from then on."""
    await service.remove(session, caller, webhook_id)


@router.post("/{webhook_id}/secret")
async def renew_secret(session: Session, caller: Admin, webhook_id: uuid.UUID) -> WebhookMade:
    """Makes a new secret, which only this answer shows. For a day messages are signed with the one before, too."""
    return await service.renew_secret(session, caller, webhook_id)


@router.post("/{webhook_id}/test", status_code=202)
async def send_test(session: Session, caller: Admin, webhook_id: uuid.UUID) -> DeliveryOut:
    """Sends a message that says nothing, to try out the receiver; the deliveries show what came of it."""
    return await service.send_test(session, caller, webhook_id)


@router.get("/{webhook_id}/deliveries")
async def deliveries(
    session: Session, caller: Reader, webhook_id: uuid.UUID, cursor: Cursor = None, limit: Limit = 50
) -> Page[DeliveryOut]:
    """Messages for the webhook, the latest first. What has ended is forgotten after 30 days."""
    return await service.deliveries(session, caller, webhook_id, cursor=cursor, limit=limit)


_COLUMNS = exports.columns_of(DeliveryOut)


@router.get(
    "/{webhook_id}/deliveries.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse
)  # fmt: skip
async def export_deliveries(
    request: Request,
    session: Session,
    caller: Reader,
    webhook_id: uuid.UUID,
    suffix: exports.Suffix,
    limit: exports.Most = None,
) -> StreamingResponse:
    """Messages for the webhook, the latest first, as a file."""
    await service.load(session, caller, webhook_id)
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("deliveries", _COLUMNS, request.url.query),
        None,
        lambda s, cursor, size: service.deliveries(s, caller, webhook_id, cursor=cursor, limit=size),
        limit,
    )
