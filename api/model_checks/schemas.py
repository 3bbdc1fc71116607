from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictInt

from store.models import CheckState

Verdict = Literal["holds", "violated", "failed", "cancelled"]


class ModelCheckIn(BaseModel):
    spec: Annotated[str, Field(max_length=80)]
    configuration: Annotated[str | None, Field(max_length=80, description="default: the spec's first")] = None
    constants: Annotated[dict[str, StrictInt], Field(max_length=32)] = {}
    """GET /v1/specs tells their ranges; the configuration's own values hold for the others."""
    seconds_max: Annotated[float | None, Field(gt=0, description="how long TLC may run; default 300")] = None


class ModelCheckOut(BaseModel):
    id: uuid.UUID
    spec: str
    configuration: str
    constants: dict[str, int]
    seconds_max: float
    state: CheckState
    verdict: Verdict | None
    """None while it is queued or running."""
    violated: str | None
    """The property that does not hold, or Deadlock."""
    as_pinned: bool | None
    """Is the result what the specification's manifest pins; None with other constants."""
    error: str | None
    """Why there is no verdict: a limit and what was reached until then, or what TLC said."""
    created_at: datetime
    finished_at: datetime | None
    generated: int | None
    distinct: int | None
    queued: int | None
    """States that are found and not yet explored."""
    depth: int | None
    seconds: float | None


class Covered(BaseModel):
    action: str
    place: str
    """Module, line and column."""
    taken: int
    """How often it led to a state."""


class Step(BaseModel):
    number: int
    action: str
    """What led to this state."""
    state: dict[str, Any]
    """Each variable's value: sets and sequences are lists, records and functions objects."""
    back_to: int | None = None
    """The state that follows the last one again, and so for ever."""


class ModelCheckDetail(ModelCheckOut):
    coverage: list[Covered] | None
    counterexample: list[Step] | None
    counterexample_states: int | None
    """How many it has: of a very long one, the first and the last are kept."""
    windows: str | None
    """The variable that holds a window for each subflow."""
