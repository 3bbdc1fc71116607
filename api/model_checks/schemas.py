from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from api.schemas import Schema, Wanted
from store.models import CheckState

Verdict = Literal["holds", "violated", "conforms", "does_not_conform", "failed", "cancelled"]


class ModelCheckIn(Wanted):
    """Either `spec`, with constants, or `connection`, on which TLC follows the steps of a controller."""

    spec: Annotated[str | None, Field(max_length=80, description="a specification of GET /v1/specs")] = None
    configuration: Annotated[
        str | None, Field(max_length=80, description="of the specification; default: its first")
    ] = None
    constants: dict[str, StrictInt] = Field(
        default_factory=dict,
        max_length=32,
        description="of the specification, within the ranges of GET /v1/specs; others have the configuration's values",
    )
    connection: Annotated[
        uuid.UUID | None,
        Field(description="instead of spec: the connection on which TLC follows the steps of `algorithm`"),
    ] = None
    algorithm: Annotated[
        str | None,
        Field(
            max_length=40,
            description="with connection: the controller, with its default options; GET /v1/specs lists those that a "
            "specification describes (`controllers`). Default: the first of them",
        ),
    ] = None
    seconds_max: Annotated[float | None, Field(gt=0, description="how long TLC may run; default 300")] = None


class ModelCheckOut(Schema):
    id: uuid.UUID
    spec: str
    configuration: str | None
    """None for a check of a connection's steps."""
    constants: dict[str, int]
    algorithm: str | None
    """The controller whose steps TLC follows; None for a check of a specification with constants."""
    connection: uuid.UUID | None
    """None for a check of a specification, and after the capture was deleted."""
    connection_number: int | None
    """The connection's number in the capture, as the command line counts."""
    capture_filename: str | None
    events: int | None
    """Steps of the connection's log that have been read."""
    followed: int | None
    """Steps that TLC has followed."""
    pieces: int | None
    """TLC follows a long log in pieces: how many there are."""
    pieces_followed: int | None
    seconds_max: float
    state: CheckState
    verdict: Verdict | None
    """None while it is queued or running."""
    violated: str | None
    """The property that does not hold, or Deadlock."""
    as_pinned: bool | None
    """Is the result the one that the specification's manifest pins? None with other constants."""
    error: str | None
    """The reason why there is no verdict: a limit with the progress until then, or TLC's own message."""
    created_at: datetime
    finished_at: datetime | None
    generated: int | None
    distinct: int | None
    queued: int | None
    """States that TLC has found and not yet explored."""
    depth: int | None
    seconds: float | None


class Covered(Schema):
    action: str
    place: str
    """Module, line and column."""
    taken: int
    """How often it led to a state."""


class Step(Schema):
    number: int
    action: str
    """The action that led to this state."""
    state: dict[str, Any]
    """The value of each variable: sets and sequences are lists, records and functions are objects."""
    back_to: int | None = None
    """In a behaviour without end: the number of the state that follows the last one."""


class SubflowState(Schema):
    """Windows in segments."""

    path: int
    cwnd: float
    ssthresh: float | None
    """None: not set."""
    coupled: bool
    """Is it in the initial, coupled slow start?"""
    rtt_s: float | None


class ControllerState(Schema):
    initial_slow_start: bool
    alpha: float
    con_ssthresh: float
    subflows: list[SubflowState]


class SubflowAllowed(Schema):
    path: int
    cwnd: tuple[float, float]
    """Least and most, segments."""
    ssthresh: tuple[float, float] | None
    coupled: bool


class Allowed(Schema):
    """One of the states that the specification allows after this step."""

    initial_slow_start: bool
    alpha: tuple[float, float]
    subflows: list[SubflowAllowed]


class DetectedSet(Schema):
    """A set for which a decision is pending."""

    set: int
    asked_by: int | None
    seen: list[int]


class DetectedSubflow(Schema):
    path: int
    set: int
    """0: in none."""
    state: str
    """monitor, judgement or final."""
    asked_by: int | None
    """The subflow whose ECN echo requested the pending decision; None: no decision is pending."""
    seen: list[int]
    """Subflows that have had an event in the decision's window."""


class DetectedSubflowNow(DetectedSubflow):
    srtt_s: float | None


class DetectorState(Schema):
    """Of a detector of shared bottlenecks."""

    subflows: list[DetectedSubflowNow]
    sets: list[DetectedSet]


class DetectorAllowed(Schema):
    subflows: list[DetectedSubflow]
    sets: list[DetectedSet]


class StepRefused(Schema):
    """The first step that the specification does not allow, as in `rewindow specs trace --json`."""

    event: int
    """Its number in the connection's log, from 0."""
    time_ns: int
    row: int
    """How many rows of the whole replay came before the step."""
    step: str
    path: int
    acked_segments: int
    before: ControllerState | DetectorState | None
    """The state before the step; None: it is the first step."""
    expected: list[Allowed | DetectorAllowed]
    """The states that the specification allows after it. Empty: it allows no such step in the state before."""
    found: ControllerState | DetectorState
    why: str
    """refused, differs, start, broken, or untimely: a decision that is not due, or a step that skips a due one."""


class ViolationRow(Schema):
    """A variable of a state, of a file."""

    state: Literal["before", "expected", "found"]
    """Before the step, allowed after it, or found after it."""
    alternative: int | None
    """Of the states that the specification allows, from 0."""
    of: str | None
    """The subflow or set whose variable it is; null: the whole state's."""
    variable: str
    least: float | None
    """Of a number; null where it is none, or not set. Windows are segments."""
    most: float | None
    """The same as least where one value only is allowed, or was found."""
    text: str | None
    """Of what is no number."""


class ModelCheckDetail(ModelCheckOut):
    first_violation: StepRefused | None
    coverage: list[Covered] | None
    counterexample: list[Step] | None
    counterexample_states: int | None
    """How many states it has; of a very long one only the first and the last are kept."""
    windows: str | None
    """The variable that holds a window for each subflow."""
