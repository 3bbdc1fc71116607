from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from api.schemas import Schema
from store.models import CheckState

Verdict = Literal["holds", "violated", "conforms", "does_not_conform", "failed", "cancelled"]


class ModelCheckIn(Schema):
    """Either `spec`, with constants, or `connection`, whose steps under a controller are followed."""

    spec: Annotated[str | None, Field(max_length=80, description="a specification of GET /v1/specs")] = None
    configuration: Annotated[
        str | None, Field(max_length=80, description="of the spec, to start from; default: its first")
    ] = None
    constants: dict[str, StrictInt] = Field(
        default_factory=dict,
        max_length=32,
        description="of the spec; GET /v1/specs tells their ranges, and for others the configuration's values hold",
    )
    connection: Annotated[
        uuid.UUID | None,
        Field(description="instead of a spec: the connection whose steps are held against the controller's own"),
    ] = None
    algorithm: Annotated[
        str | None,
        Field(
            max_length=40,
            description="for a connection: the controller, run with its defaults; GET /v1/specs tells which each "
            "specification has (`controllers`). Default: the first of them",
        ),
    ] = None
    seconds_max: Annotated[float | None, Field(gt=0, description="how long TLC may run; default 300")] = None


class ModelCheckOut(Schema):
    id: uuid.UUID
    spec: str
    configuration: str | None
    """None where a connection's steps are followed."""
    constants: dict[str, int]
    algorithm: str | None
    """The controller whose steps are followed; None where a specification is checked with constants."""
    connection: uuid.UUID | None
    """None, too, when its capture was deleted meanwhile."""
    connection_number: int | None
    """Its place in the capture, as the command line counts."""
    capture_filename: str | None
    events: int | None
    """Steps in the connection's log, as far as it has been read."""
    followed: int | None
    """Of them, those that TLC is through with."""
    pieces: int | None
    """A long log is followed in pieces."""
    pieces_followed: int | None
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


class Covered(Schema):
    action: str
    place: str
    """Module, line and column."""
    taken: int
    """How often it led to a state."""


class Step(Schema):
    number: int
    action: str
    """What led to this state."""
    state: dict[str, Any]
    """Each variable's value: sets and sequences are lists, records and functions objects."""
    back_to: int | None = None
    """The state that follows the last one again, and so for ever."""


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
    """A set whose members a decision waits on."""

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
    """The subflow whose ECN echo asked for the decision that waits; None: none waits."""
    seen: list[int]
    """Subflows that had an event in its window by now."""


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
    """The first step that the specification does not allow, as `rewindow specs trace --json` tells it."""

    event: int
    """Its number in the connection's log, from 0."""
    time_ns: int
    row: int
    """Rows of the whole replay before it."""
    step: str
    path: int
    acked_segments: int
    before: ControllerState | DetectorState | None
    """None: it is the first step."""
    expected: list[Allowed | DetectorAllowed]
    """Empty: there is no such step at all."""
    found: ControllerState | DetectorState
    why: str
    """refused, differs, start, broken; untimely: a decision that is not due, or a step that passes one over."""


class ModelCheckDetail(ModelCheckOut):
    first_violation: StepRefused | None
    coverage: list[Covered] | None
    counterexample: list[Step] | None
    counterexample_states: int | None
    """How many it has: of a very long one, the first and the last are kept."""
    windows: str | None
    """The variable that holds a window for each subflow."""
