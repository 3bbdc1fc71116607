"""What a webhook is told of an alert."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from api.aggregates import measures
from api.webhooks.service import message
from store.models import Alert, Delivery
from store.settings import settings

COMPARING = ("rises", "falls", "changes")
"""Conditions that ask for the window before."""


def change_percent(value: float | None, before: float | None) -> float | None:
    """None: one of them is missing, or there is no percent of 0."""
    if value is None or before is None or before == 0:
        return None
    return 100 * (value - before) / abs(before)


def bounds(alert: Alert, end: datetime) -> dict[str, datetime]:
    """Begin and end of the window that ends then, as filters by its clock."""
    names = ("from", "to") if alert.clock == "captured" else ("since", "until")
    return dict(zip(names, (end - timedelta(seconds=alert.window_s), end), strict=True))


def link(alert: Alert, end: datetime) -> str:
    """The connections of the window, in the dashboard."""
    times = [(n, t.isoformat()) for n, t in bounds(alert, end).items()]
    query = urlencode([*parse_qsl(alert.filters, keep_blank_values=True), *times])
    return f"{settings().public_origin or ''}/connections?{query}"


def of_alert(
    alert: Alert, kind: Literal["firing", "resolved"], reason: Literal["condition", "changed", "removed"]
) -> Delivery | None:
    """The message about what the alert's row says now. None: the alert has no webhook."""
    if alert.webhook_id is None:
        return None
    now = datetime.now(UTC)
    end = alert.evaluated_at or now
    told: dict[str, Any] = {
        "alert": {"id": str(alert.id), "name": alert.name},
        "state": kind,
        "reason": reason,
        "firing_since": alert.firing_since.isoformat() if alert.firing_since else None,
        "measure": alert.measure,
        "unit": measures.of(alert.measure).unit,
        "statistic": alert.statistic,
        "condition": alert.condition,
        "threshold": alert.threshold,
        "value": alert.value,
        "before": alert.before,
        "change_percent": change_percent(alert.value, alert.before),
        "connections": alert.connections,
        "filters": alert.filters,
        "window": {n: t.isoformat() for n, t in bounds(alert, end).items()},
        "link": link(alert, end),
    }
    return message(alert.webhook_id, f"alert.{kind}", told, now, alert.id)
