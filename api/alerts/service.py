from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits
from api.aggregates import measures
from api.alerts import messages
from api.alerts.schemas import AlertChange, AlertIn, AlertOut, AlertsNow
from api.errors import NotFound, Unprocessable
from api.events import Progress
from api.pages import Keyset, Page
from api.security import Caller
from api.webhooks import service as webhooks
from store.models import Alert, Delivery, Team, Webhook
from store.settings import settings

_OLDEST_FIRST = Keyset((Alert.created_at, Alert.id))
_TERMS = {
    "measure", "statistic", "filters", "clock", "window_s", "condition", "threshold", "least", "in_a_row", "webhook_id",
    "enabled",
}  # fmt: skip
"""What an evaluation rests on, and who is told: after a change the alert begins anew."""


def _out(alert: Alert, delivery: Delivery | None) -> AlertOut:
    known = {n: getattr(alert, n) for n in AlertOut.model_fields if hasattr(alert, n)}
    return AlertOut(
        **known,
        unit=measures.of(alert.measure).unit,
        change_percent=messages.change_percent(alert.value, alert.before),
        delivery=delivery.state if delivery else "none",
        delivery_error=delivery.error if delivery else None,
    )


async def _latest(session: AsyncSession, alerts: Sequence[Alert]) -> dict[uuid.UUID, Delivery]:
    """The latest message of each alert that has one."""
    query = (
        select(Delivery)
        .ext(distinct_on(Delivery.alert_id))
        .where(Delivery.alert_id.in_([a.id for a in alerts]))
        .order_by(Delivery.alert_id, Delivery.created_at.desc())
    )
    return {d.alert_id: d for d in await session.scalars(query) if d.alert_id}


async def find(session: AsyncSession, caller: Caller, *, cursor: str | None, limit: int) -> Page[AlertOut]:
    """The oldest first. Raises BadRequest."""
    query = select(Alert).where(Alert.team_id == caller.team_id)
    page = await _OLDEST_FIRST.page(session, query, cursor, limit, lambda row: row)
    alerts = [row[0] for row in page.items]
    latest = await _latest(session, alerts)
    return Page(items=[_out(a, latest.get(a.id)) for a in alerts], next_cursor=page.next_cursor)


async def progress(session: AsyncSession, teams: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """All alerts of each of these teams. It has no end: others may be made."""
    there = (await session.scalars(select(Team.id).where(Team.id.in_(teams)))).all()
    now = {team: AlertsNow(alerts=[], messages={}) for team in there}
    rows = await session.scalars(select(Alert).where(Alert.team_id.in_(there)).order_by(Alert.created_at, Alert.id))
    alerts = rows.all()
    latest = await _latest(session, alerts)
    for alert in alerts:
        now[alert.team_id].alerts.append(_out(alert, latest.get(alert.id)))
    for row in await session.execute(_messages().where(Webhook.team_id.in_(there))):
        now[row.team_id].messages[row.id] = row.state
    return {team: Progress(shown.model_dump(mode="json"), has_ended=False) for team, shown in now.items()}


def _messages() -> Select[Any]:
    """Team, id, and the state of the messages of each webhook: a message was made, is being posted, was posted."""
    newest = select(func.max(Delivery.created_at)).where(Delivery.webhook_id == Webhook.id).scalar_subquery()
    state = func.concat_ws(" ", newest, Webhook.fence, Webhook.lease_until)
    return select(Webhook.team_id, Webhook.id, func.md5(state).label("state"))


async def _load(session: AsyncSession, caller: Caller, alert_id: uuid.UUID, *, lock: bool = False) -> Alert:
    """Raises NotFound."""
    own = select(Alert).where(Alert.team_id == caller.team_id, Alert.id == alert_id)
    alert = await session.scalar(own.with_for_update() if lock else own)
    if alert is None:
        raise NotFound("no such alert")
    return alert


async def _shown(session: AsyncSession, alert: Alert) -> AlertOut:
    await session.flush()
    await session.refresh(alert)
    return _out(alert, (await _latest(session, [alert])).get(alert.id))


async def one(session: AsyncSession, caller: Caller, alert_id: uuid.UUID) -> AlertOut:
    """Raises NotFound."""
    return await _shown(session, await _load(session, caller, alert_id))


async def _check(session: AsyncSession, caller: Caller, alert: Alert) -> None:
    """What no field says alone. Raises Unprocessable."""
    if alert.condition in messages.COMPARING and alert.threshold <= 0:
        raise Unprocessable(f"threshold: a value {alert.condition} by more than so many percent, which are above 0")
    if alert.webhook_id is not None:
        try:
            await webhooks.load(session, caller, alert.webhook_id)
        except NotFound as e:
            raise Unprocessable("webhook_id: no such webhook") from e


async def make(session: AsyncSession, caller: Caller, wanted: AlertIn) -> AlertOut:
    """Raises Unprocessable."""
    await limits.hold_team(session, caller.team_id)
    held, most = select(func.count()).select_from(Alert).where(Alert.team_id == caller.team_id), _most()
    if (await session.scalar(held) or 0) >= most:
        raise Unprocessable(f"a team has at most {most} alerts")
    state = "new" if wanted.enabled else "off"
    alert = Alert(id=uuid.uuid4(), team_id=caller.team_id, state=state, **wanted.model_dump())
    await _check(session, caller, alert)
    session.add(alert)
    made = await _shown(session, alert)
    await audit.note(session, caller, "change", alert.id, alert.name, what="alert made")
    return made


def _most() -> int:
    return settings().team_alerts_max


async def change(session: AsyncSession, caller: Caller, alert_id: uuid.UUID, wanted: AlertChange) -> AlertOut:
    """Raises NotFound, Unprocessable."""
    alert = await _load(session, caller, alert_id, lock=True)
    given: dict[str, Any] = {n: getattr(wanted, n) for n in wanted.model_fields_set}
    changes = {n: v for n, v in given.items() if (v is not None or n == "webhook_id") and v != getattr(alert, n)}
    if changes.keys() & _TERMS:
        _end(session, alert, "changed")  # as it was until now
    for name, value in changes.items():
        setattr(alert, name, value)
    await _check(session, caller, alert)
    if changes.keys() & _TERMS:
        _begin_anew(alert)
    if "interval_s" in changes:
        alert.due_at = datetime.now(UTC)
    shown = await _shown(session, alert)
    if changes:
        names = ", ".join(sorted(changes))
        await audit.note(session, caller, "change", alert.id, alert.name, what="alert changed", fields=names)
    return shown


def _end(session: AsyncSession, alert: Alert, reason: Any) -> None:
    """Tells the receiver of an alert that fires that nothing will follow."""
    if alert.firing_since is not None and (delivery := messages.of_alert(alert, "resolved", reason)):
        session.add(delivery)


def _begin_anew(alert: Alert) -> None:
    now = datetime.now(UTC)
    alert.state, alert.since, alert.firing_since, alert.streak = ("new" if alert.enabled else "off"), now, None, 0
    alert.value = alert.before = alert.connections = alert.evaluated_at = alert.error = None
    alert.due_at, alert.lease_until, alert.fence = now, None, alert.fence + 1


async def remove(session: AsyncSession, caller: Caller, alert_id: uuid.UUID) -> None:
    """Raises NotFound."""
    alert = await _load(session, caller, alert_id, lock=True)
    _end(session, alert, "removed")
    await session.delete(alert)
    await session.flush()
    await audit.note(session, caller, "delete", alert_id, alert.name, what="alert")
