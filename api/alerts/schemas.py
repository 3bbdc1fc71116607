from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from api import filters
from api.aggregates import measures
from api.errors import BadRequest, Unprocessable
from api.schemas import Schema, Wanted
from store.models import AlertState, Clock, Condition, Statistic

DAY_S = 24 * 3600
_OF_WINDOW = ("from", "to", "since", "until")


def _selection(query: str) -> str:
    """Raises ValueError."""
    try:
        wanted = filters.parsed(query, "filters")
        filters.tags_of(wanted.tag)
    except (BadRequest, Unprocessable) as e:
        raise ValueError(e.detail) from e
    if named := [n for n in _OF_WINDOW if getattr(wanted, "from_" if n == "from" else n) is not None]:
        raise ValueError(f"{named[0]} is not allowed: the alert's window says which time it is about")
    return query


Name = Annotated[str, Field(min_length=1, max_length=100)]
Filters = Annotated[str, Field(max_length=2000), AfterValidator(_selection)]
Window = Annotated[int, Field(ge=60, le=92 * DAY_S)]
Interval = Annotated[int, Field(ge=60, le=DAY_S)]
Threshold = Annotated[float, Field(allow_inf_nan=False)]
Least = Annotated[int, Field(ge=1, le=10**9)]
InARow = Annotated[int, Field(ge=1, le=100)]


class AlertIn(Wanted):
    """What is watched, when it is worth a message, and where that goes."""

    name: Name
    """For people; messages have it, too."""
    measure: measures.Name
    statistic: Statistic = "p50"
    """Of the measure's values; count: how many there are; unreliable_share: the part of them that is left out because
    something is wrong with its connection."""
    filters: Filters = ""
    """A query string with the filters of /v1/aggregates, but for those of time."""
    clock: Clock = "captured"
    """The window's time is that at which a connection began, or at which its capture was uploaded."""
    window_s: Window = 3600
    """Seconds of the window, which ends now."""
    condition: Condition = "above"
    """above, below: the threshold. rises, falls, changes: by more than so many percent of what it was in the window
    before."""
    threshold: Threshold
    """In the measure's unit, or percent."""
    least: Least = 20
    """With fewer values in a window the alert says nothing (too_few), unless the statistic is count."""
    in_a_row: InARow = 1
    """It fires after so many evaluations in a row in which the condition held, and is over after as many in which it
    did not."""
    interval_s: Interval = 300
    """Seconds from one evaluation to the next."""
    webhook_id: uuid.UUID | None = None
    """Where its messages go; null: nowhere, the state alone tells."""
    enabled: bool = True
    """Is it evaluated?"""


class AlertChange(Wanted):
    """What is to be changed; what is left out stays."""

    name: Name | None = None
    """For people; messages have it, too."""
    measure: measures.Name | None = None
    """As /v1/aggregates takes it."""
    statistic: Statistic | None = None
    """Of the measure's values."""
    filters: Filters | None = None
    """A query string with the filters of /v1/aggregates, but for those of time."""
    clock: Clock | None = None
    """The time that the window is about."""
    window_s: Window | None = None
    """Seconds of the window, which ends now."""
    condition: Condition | None = None
    """above, below, rises, falls or changes."""
    threshold: Threshold | None = None
    """In the measure's unit, or percent."""
    least: Least | None = None
    """With fewer values in a window the alert says nothing, unless the statistic is count."""
    in_a_row: InARow | None = None
    """How many evaluations in a row it takes to fire, and to be over."""
    interval_s: Interval | None = None
    """Seconds from one evaluation to the next."""
    webhook_id: uuid.UUID | None = None
    """Where its messages go; null: nowhere."""
    enabled: bool | None = None
    """Is it evaluated?"""


class AlertOut(Schema):
    id: uuid.UUID
    name: str
    measure: str
    """As /v1/aggregates takes it."""
    unit: str
    """Of the value: bit/s, s, us, segments, or 1."""
    statistic: Statistic
    """Of the measure's values."""
    filters: str
    """A query string."""
    clock: Clock
    """The time that the window is about."""
    window_s: int
    """Seconds of the window."""
    condition: Condition
    """When it fires."""
    threshold: float
    """In the measure's unit, or percent."""
    least: int
    """With fewer values in a window it says nothing."""
    in_a_row: int
    """How many evaluations in a row it takes to fire, and to be over."""
    interval_s: int
    """Seconds from one evaluation to the next."""
    webhook_id: uuid.UUID | None
    """Where its messages go; null: nowhere."""
    enabled: bool
    """Is it evaluated?"""
    created_at: datetime
    state: AlertState
    """new: not evaluated since it was made or changed; pending: the condition holds, not yet often enough in a row;
    too_few: it says nothing."""
    since: datetime
    """When this state began."""
    firing_since: datetime | None
    """It fired then, and is not over: also while connections are too few to tell. Null: it does not fire."""
    value: float | None
    """At the last evaluation; null without values."""
    before: float | None
    """In the window before; null where the condition does not ask for it, and without values."""
    change_percent: float | None
    """From `before` to `value`; null where one is missing, and from 0."""
    connections: int | None
    """How many values the last evaluation rests on; null: there was none."""
    evaluated_at: datetime | None
    """When it was last evaluated; null: not since it was made or changed."""
    error: str | None
    """Why it could not be evaluated; null: it could."""
    delivery: Literal["none", "waiting", "delivered", "given_up"]
    """Its latest message; given_up: the receiver did not take it."""
    delivery_error: str | None
    """Why the latest message was not taken at the last attempt; null: it was, or there is none."""


class AlertsNow(Schema):
    """What an event tells."""

    alerts: list[AlertOut]
    """All of the team, oldest first."""
    messages: dict[uuid.UUID, str]
    """For each webhook a text that is another one when its messages have changed."""
