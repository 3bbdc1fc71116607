from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from api.schemas import Schema, Wanted
from store.destinations import policy
from store.models import DeliveryState

Name = Annotated[str, Field(min_length=1, max_length=100)]


def _allowed(url: str) -> str:
    """Raises ValueError."""
    policy().check_url(url)
    return url


Url = Annotated[str, Field(max_length=2000, pattern=r"^[!-~]+$"), AfterValidator(_allowed)]


class WebhookIn(Wanted):
    name: Name
    """For people."""
    url: Url
    """https://HOST/PATH, which must be at a public address when a message is sent; names have letters of ASCII only."""


class WebhookChange(Wanted):
    """What is to be changed; what is left out stays."""

    name: Name | None = None
    """For people."""
    url: Url | None = None
    """From the next attempt on, also for messages that wait."""


class WebhookOut(Schema):
    id: uuid.UUID
    name: str
    host: str
    """Where it goes to."""
    url: str | None
    """The whole address; null for all but owners, because it may hold a secret of the receiver's."""
    created_at: datetime
    old_secret_until: datetime | None
    """Until then messages are also signed with the secret before; null: there is none."""


class WebhookMade(WebhookOut):
    secret: str
    """What messages are signed with from now on; it is shown only in this answer."""


class DeliveryOut(Schema):
    id: str
    """The header `webhook-id`, the same with each attempt."""
    alert_id: uuid.UUID | None
    """Of which it tells, also when that is gone; null: a test."""
    type: str
    """alert.firing, alert.resolved or webhook.test."""
    created_at: datetime
    state: DeliveryState
    """given_up: the receiver took it neither within a day, or said that it is gone (410)."""
    attempts: int
    """How often it was posted."""
    status: int | None
    """HTTP status of the last answer; null: there was none."""
    error: str | None
    """Why the last attempt did not succeed; null: it did, or there was none."""
    due_at: datetime | None
    """When it is tried next, unless an earlier message of the same alert waits; null: not any more."""
    finished_at: datetime | None
    """When it was taken or given up; null: it waits."""
