"""Evaluates alerts that are due, the teams in turn.

An alert is claimed under a lease with a fencing number, evaluated without a lock, and its new state is stored, in one
transaction with the message, only if no other claim and no change came between.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
import structlog
from sqlalchemy import func, or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from alerts import turns
from alerts.transitions import Standing, follow, holds
from api import filters
from api.aggregates import service
from api.aggregates.schemas import AggregateOut
from api.alerts.messages import COMPARING, bounds, of_alert
from api.errors import Problem
from api.filters import Filters
from api.security import Caller, transaction
from store import outages
from store.models import Alert, Turn

log = structlog.get_logger()

_QUEUE = "alerts"
_LEASE = timedelta(seconds=90)
"""Longer than the two queries of an evaluation may take (store/database.py)."""


async def evaluate_next() -> bool:
    """Evaluates the alert whose turn it is. False: none is due."""
    async with transaction() as session:
        alert = await _claim(session)
    if alert is None:
        return False
    value: float | None = None
    before: float | None = None
    count, held, error = None, None, None
    try:
        async with transaction() as session:
            value, before, count, held = await _evaluated(session, alert)
    except Problem as e:
        error = e.detail
    except Exception as e:
        if outages.outage_of(e):
            raise
        error = _told(e, alert)
    async with transaction() as session:
        await _finish(session, alert, value, before, count, held, error)
    return True


def _told(error: Exception, alert: Alert) -> str:
    if isinstance(error, DBAPIError) and isinstance(error.orig, psycopg.errors.QueryCanceled):
        return "the query took too long: choose a shorter window or more filters"
    log.exception("alert.error", alert=str(alert.id))
    return f"an internal error, which the operator finds in the alerter's log under alert {alert.id}"


async def _claim(session: AsyncSession) -> Alert | None:
    now = func.clock_timestamp()
    due = (
        select(Alert, now.label("now"))
        .outerjoin(Turn, turns.of(Alert.team_id, _QUEUE))
        .where(Alert.enabled, Alert.due_at <= now, or_(Alert.lease_until.is_(None), Alert.lease_until <= now))
        .order_by(Turn.served_at.nulls_first(), Alert.due_at)
        .limit(1)
        .with_for_update(of=Alert, skip_locked=True)
    )
    row = (await session.execute(due)).one_or_none()
    if row is None:
        return None
    alert: Alert = row[0]
    alert.fence += 1
    alert.lease_until, alert.evaluated_at = row.now + _LEASE, row.now
    await turns.serve(session, alert.team_id, _QUEUE)
    await session.flush()
    session.expunge(alert)
    return alert


def _reader(team_id: uuid.UUID) -> Caller:
    """An alert sees what a viewer of its team sees."""
    nobody = uuid.UUID(int=0)
    return Caller(team_id, nobody, nobody, "an alert", "viewer", frozenset({"read"}))


async def _aggregate(session: AsyncSession, alert: Alert, end: datetime) -> AggregateOut:
    """Raises Problem."""
    times = urlencode({n: t.isoformat() for n, t in bounds(alert, end).items()})
    wanted: Filters = filters.parsed("&".join(q for q in (alert.filters, times) if q), "filters")
    found = await service.find(
        session, _reader(alert.team_id), wanted, alert.measure, [], include_unreliable=False, histogram=False, limit=1
    )
    return found.total


def _statistic(alert: Alert, found: AggregateOut) -> tuple[float | None, int]:
    """Its value, and how many values it rests on; without a value where these are too few."""
    if alert.statistic == "count":
        return float(found.count), found.count
    count = found.count + (found.unreliable if alert.statistic == "unreliable_share" else 0)
    if count < alert.least:
        return None, count
    if alert.statistic == "unreliable_share":
        return found.unreliable / count, count
    of: Any = found.percentiles if alert.statistic.startswith("p") else found
    return getattr(of, alert.statistic), count


async def _evaluated(session: AsyncSession, alert: Alert) -> tuple[float | None, float | None, int | None, bool | None]:
    """Value, value before, how many values the former rests on, and whether the condition holds. Raises Problem."""
    assert alert.evaluated_at is not None  # since it was claimed
    value, count = _statistic(alert, await _aggregate(session, alert, alert.evaluated_at))
    before = None
    if alert.condition in COMPARING:
        end = alert.evaluated_at - timedelta(seconds=alert.window_s)
        before, _ = _statistic(alert, await _aggregate(session, alert, end))
    return value, before, count, holds(alert.condition, alert.threshold, value, before)


async def _finish(
    session: AsyncSession,
    claimed: Alert,
    value: float | None,
    before: float | None,
    count: int | None,
    held: bool | None,
    error: str | None,
) -> None:
    own = select(Alert).where(Alert.id == claimed.id, Alert.fence == claimed.fence).with_for_update()
    alert = await session.scalar(own)
    if alert is None:
        log.info("alert.lost", alert=str(claimed.id))  # it was changed or removed meanwhile, or the lease ran out
        return
    alert.lease_until, alert.value, alert.before, alert.connections, alert.error = None, value, before, count, error
    was = Standing(alert.state, alert.firing_since is not None, alert.streak)
    if error is None:
        standing, due = follow(was, held, alert.in_a_row)
    else:
        standing, due = Standing("error", was.is_firing, 0), None
    if standing.state != alert.state:
        alert.state, alert.since = standing.state, alert.evaluated_at or alert.since
    alert.streak = standing.streak
    if due == "firing":
        alert.firing_since = alert.evaluated_at
    if due is not None and (delivery := of_alert(alert, due, "condition")):
        session.add(delivery)
    if not standing.is_firing:
        alert.firing_since = None
    await session.flush()
    # By the database's clock, and never in a burst that makes good what was missed.
    later = func.clock_timestamp() + timedelta(seconds=alert.interval_s)
    await session.execute(update(Alert).where(Alert.id == alert.id).values(due_at=later))
    if due is not None:
        log.info(f"alert.{due}", alert=str(alert.id), team=str(alert.team_id))
