from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits
from api.errors import NotFound, TooMany, Unprocessable
from api.pages import Keyset, Page
from api.security import Caller
from api.webhooks.schemas import DeliveryOut, WebhookChange, WebhookIn, WebhookMade, WebhookOut
from store import webhooks
from store.models import Delivery, Webhook

WEBHOOKS_MAX = 20
"""Of a team."""
TESTS_MAX = 5
"""Of a webhook, which wait."""
OVERLAP = timedelta(days=1)
"""For so long messages are signed with the secret before, too."""

_LATEST_FIRST = Keyset((Delivery.created_at, Delivery.id), descending=True)


def _out(caller: Caller, webhook: Webhook) -> WebhookOut:
    until = webhook.old_secret_until
    return WebhookOut(
        id=webhook.id,
        name=webhook.name,
        host=urlsplit(webhook.url).netloc,
        url=webhook.url if "admin" in caller.scopes else None,
        created_at=webhook.created_at,
        old_secret_until=until if until and until > datetime.now(UTC) else None,
    )


def _made(caller: Caller, webhook: Webhook, secret: bytes) -> WebhookMade:
    return WebhookMade(**_out(caller, webhook).model_dump(), secret=webhooks.shown(secret))


async def find(session: AsyncSession, caller: Caller) -> list[WebhookOut]:
    own = select(Webhook).where(Webhook.team_id == caller.team_id)
    return [_out(caller, w) for w in await session.scalars(own.order_by(Webhook.created_at, Webhook.id))]


async def load(session: AsyncSession, caller: Caller, webhook_id: uuid.UUID) -> Webhook:
    """Raises NotFound."""
    own = select(Webhook).where(Webhook.team_id == caller.team_id, Webhook.id == webhook_id)
    webhook = await session.scalar(own)
    if webhook is None:
        raise NotFound("no such webhook")
    return webhook


async def make(session: AsyncSession, caller: Caller, wanted: WebhookIn) -> WebhookMade:
    """Raises Unprocessable."""
    await limits.hold_team(session, caller.team_id)
    held = select(func.count()).select_from(Webhook).where(Webhook.team_id == caller.team_id)
    if (await session.scalar(held) or 0) >= WEBHOOKS_MAX:
        raise Unprocessable(f"a team has at most {WEBHOOKS_MAX} webhooks")
    secret = webhooks.new_secret()
    webhook = Webhook(id=uuid.uuid4(), team_id=caller.team_id, name=wanted.name, url=wanted.url, secret=secret)
    session.add(webhook)
    await session.flush()
    await session.refresh(webhook)
    await audit.note(session, caller, "change", webhook.id, webhook.name, what="webhook made", host=_host(webhook))
    return _made(caller, webhook, secret)


def _host(webhook: Webhook) -> str:
    return urlsplit(webhook.url).netloc


async def change(session: AsyncSession, caller: Caller, webhook_id: uuid.UUID, wanted: WebhookChange) -> WebhookOut:
    """Raises NotFound."""
    webhook = await load(session, caller, webhook_id)
    for name, value in wanted.model_dump(exclude_none=True).items():
        setattr(webhook, name, value)
    await session.flush()
    await audit.note(session, caller, "change", webhook.id, webhook.name, what="webhook changed", host=_host(webhook))
    return _out(caller, webhook)


async def renew_secret(session: AsyncSession, caller: Caller, webhook_id: uuid.UUID) -> WebhookMade:
    """Raises NotFound."""
    webhook = await load(session, caller, webhook_id)
    before, secret = await session.scalar(select(Webhook.secret).where(Webhook.id == webhook_id)), webhooks.new_secret()
    webhook.old_secret, webhook.old_secret_until = before, datetime.now(UTC) + OVERLAP
    webhook.secret = secret
    await session.flush()
    await audit.note(session, caller, "change", webhook.id, webhook.name, what="secret of webhook renewed")
    return _made(caller, webhook, secret)


async def remove(session: AsyncSession, caller: Caller, webhook_id: uuid.UUID) -> None:
    """Its messages are removed, too; alerts that named it name none. Raises NotFound."""
    webhook = await load(session, caller, webhook_id)
    await session.delete(webhook)
    await session.flush()
    await audit.note(session, caller, "delete", webhook_id, webhook.name, what="webhook")


def message(
    webhook_id: uuid.UUID, kind: str, data: dict[str, Any], at: datetime, alert_id: uuid.UUID | None = None
) -> Delivery:
    """For the outbox: it is posted when the caller's transaction is committed."""
    body = {"type": kind, "timestamp": at.isoformat(), "data": data}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Delivery(id=uuid.uuid4(), webhook_id=webhook_id, alert_id=alert_id, type=kind, body=text)


async def send_test(session: AsyncSession, caller: Caller, webhook_id: uuid.UUID) -> DeliveryOut:
    """Raises NotFound, TooMany."""
    webhook = await load(session, caller, webhook_id)
    await limits.hold_team(session, caller.team_id)
    waiting = select(func.count()).where(
        Delivery.webhook_id == webhook_id, Delivery.state == "waiting", Delivery.alert_id.is_(None)
    )
    if (await session.scalar(waiting) or 0) >= TESTS_MAX:
        raise TooMany(f"{TESTS_MAX} tests of this webhook wait already", headers={"Retry-After": "60"})
    told = {"webhook": {"id": str(webhook.id), "name": webhook.name}, "asked_by": caller.member}
    delivery = message(webhook.id, "webhook.test", told, datetime.now(UTC))
    session.add(delivery)
    await session.flush()
    await session.refresh(delivery)
    await audit.note(session, caller, "change", webhook.id, webhook.name, what="webhook tested")
    return shown(delivery)


def shown(delivery: Delivery) -> DeliveryOut:
    return DeliveryOut(
        id=webhooks.message_id(delivery.id),
        alert_id=delivery.alert_id,
        type=delivery.type,
        created_at=delivery.created_at,
        state=delivery.state,
        attempts=delivery.attempts,
        status=delivery.status,
        error=delivery.error,
        due_at=delivery.due_at if delivery.state == "waiting" else None,
        finished_at=delivery.finished_at,
    )


async def deliveries(
    session: AsyncSession, caller: Caller, webhook_id: uuid.UUID, *, cursor: str | None, limit: int
) -> Page[DeliveryOut]:
    """The latest first. Raises NotFound, BadRequest."""
    await load(session, caller, webhook_id)
    query = select(Delivery).where(Delivery.webhook_id == webhook_id)
    return await _LATEST_FIRST.page(session, query, cursor, limit, lambda row: shown(row[0]))
