"""Posts the messages that wait in the outbox: teams in turn, one message of a webhook at a time, an alert's in order.

A message is claimed under a lease before it is posted, and what came of it is stored afterwards. A process that dies
between the two leaves a lease that runs out: the message is then posted again, under the same id.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpcore2
import structlog
from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, undefer

from alerts import turns
from alerts.network import POST_S, Guarded, post
from api.security import transaction
from store import webhooks
from store.destinations import DestinationRefused
from store.models import Delivery, Turn, Webhook

log = structlog.get_logger()

_QUEUE = "webhooks"
_LEASE = timedelta(seconds=3 * POST_S)
GIVEN_UP_AFTER = timedelta(days=1)
_PAUSE_FIRST, _PAUSE_MOST, _PAUSE_GROWTH = timedelta(seconds=5), timedelta(hours=4), 4
_JITTER = 0.2
_KEPT = timedelta(days=30)
_FORGOTTEN_AT_ONCE = 1000
_GONE = 410


@dataclass(frozen=True)
class _Claim:
    delivery: Delivery
    url: str
    secrets: list[bytes]
    fence: int
    now: datetime
    """By the database's clock."""


@dataclass(frozen=True)
class _Outcome:
    status: int | None
    error: str | None
    """None: it was taken."""


def pause(attempts: int, chance: float) -> timedelta:
    """After so many attempts. chance: from 0 to 1, so that not all try again at the same time."""
    grown: timedelta = min(_PAUSE_MOST, _PAUSE_FIRST * _PAUSE_GROWTH ** min(attempts - 1, 20))
    return grown * (1 + _JITTER * (2 * chance - 1))


async def deliver_next(backend: Guarded) -> bool:
    """Posts the message whose turn it is. False: none is due."""
    async with transaction() as session:
        claim = await _claim(session)
    if claim is None:
        return False
    outcome = await _posted(backend, claim)
    async with transaction() as session:
        await _finish(session, claim, outcome)
    return True


async def _claim(session: AsyncSession) -> _Claim | None:
    now = func.clock_timestamp()
    earlier = aliased(Delivery)
    must_wait = exists().where(
        earlier.alert_id == Delivery.alert_id,
        earlier.webhook_id == Delivery.webhook_id,
        earlier.state == "waiting",
        or_(
            earlier.created_at < Delivery.created_at,
            and_(earlier.created_at == Delivery.created_at, earlier.id < Delivery.id),
        ),
    )
    # Both rows are locked, so that both are seen as the process before left them.
    due = (
        select(Webhook, Delivery, now.label("now"))
        .join(Delivery, Delivery.webhook_id == Webhook.id)
        .outerjoin(Turn, turns.of(Webhook.team_id, _QUEUE))
        .where(Delivery.state == "waiting", Delivery.due_at <= now, ~must_wait)
        .where(or_(Webhook.lease_until.is_(None), Webhook.lease_until <= now))
        .order_by(Turn.served_at.nulls_first(), Delivery.due_at)
        .limit(1)
        .with_for_update(of=[Webhook, Delivery], skip_locked=True)
        .options(undefer(Webhook.secret), undefer(Webhook.old_secret), undefer(Delivery.body))
    )
    row = (await session.execute(due)).one_or_none()
    if row is None:
        return None
    webhook, delivery = row[0], row[1]
    webhook.fence += 1
    webhook.lease_until = row.now + _LEASE
    delivery.attempts += 1  # also if this process dies
    await turns.serve(session, webhook.team_id, _QUEUE)
    await session.flush()
    session.expunge(delivery)
    secrets = [webhook.secret]
    if webhook.old_secret is not None and webhook.old_secret_until > row.now:
        secrets.append(webhook.old_secret)
    return _Claim(delivery, webhook.url, secrets, webhook.fence, row.now)


async def _posted(backend: Guarded, claim: _Claim) -> _Outcome:
    body, message, timestamp = claim.delivery.body.encode(), webhooks.message_id(claim.delivery.id), int(time.time())
    headers: dict[bytes | str, bytes | str] = {
        "Content-Type": "application/json",
        "User-Agent": "rewindow-webhooks",
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": webhooks.signature(claim.secrets, message, timestamp, body),
    }
    try:
        status = await post(backend, claim.url, headers, body)
    except DestinationRefused as e:
        return _Outcome(None, str(e))
    except (TimeoutError, httpcore2.TimeoutException):
        return _Outcome(None, f"the receiver did not answer within {POST_S:g} s")
    except httpcore2.RemoteProtocolError:  # it quotes what the receiver sent, which nobody reads
        return _Outcome(None, "the receiver answered no HTTP")
    except (OSError, httpcore2.NetworkError, httpcore2.UnsupportedProtocol) as e:
        return _Outcome(None, f"the receiver could not be reached: {e}"[:300])
    except Exception:
        log.exception("webhook.error", delivery=str(claim.delivery.id))
        return _Outcome(None, f"an internal error, which the operator finds in the alerter's log under {message}")
    if 200 <= status < 300:
        return _Outcome(status, None)
    told = "; redirects are not followed" if 300 <= status < 400 else ""
    return _Outcome(status, f"the receiver answered {status}{told}")


async def _finish(session: AsyncSession, claim: _Claim, outcome: _Outcome) -> None:
    own = update(Webhook).where(Webhook.id == claim.delivery.webhook_id, Webhook.fence == claim.fence)
    held = await session.execute(own.values(lease_until=None).returning(Webhook.id))
    if held.one_or_none() is None:
        log.info("webhook.lost", delivery=str(claim.delivery.id))  # it was removed, or the lease ran out
        return
    found = claim.delivery
    next_at = claim.now + pause(found.attempts, random.random())
    values: dict[str, object] = {"status": outcome.status, "error": outcome.error}
    if outcome.error is None:
        values |= {"state": "delivered", "finished_at": func.clock_timestamp()}
    elif outcome.status == _GONE or next_at > found.created_at + GIVEN_UP_AFTER:
        values |= {"state": "given_up", "finished_at": func.clock_timestamp()}
    else:
        values["due_at"] = next_at
    await session.execute(update(Delivery).where(Delivery.id == found.id).values(values))
    log.info(
        "webhook.posted", delivery=str(found.id), attempts=found.attempts, status=outcome.status, error=outcome.error
    )


async def forget() -> int:
    """Deletes messages that ended long ago, a bounded number of them. Returns how many."""
    old = select(Delivery.id).where(Delivery.finished_at < func.clock_timestamp() - _KEPT).limit(_FORGOTTEN_AT_ONCE)
    async with transaction() as session:
        gone = await session.execute(delete(Delivery).where(Delivery.id.in_(old)).returning(Delivery.id))
        return len(gone.all())
