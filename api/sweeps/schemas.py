from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from api.connections.schemas import Address, ReplayIn
from api.schemas import Schema, Wanted
from api.selections import RefusedOut, SelectionIn
from api.whatifs.schemas import RUNS, RUNS_MAX, SpreadOut
from store.models import State
from store.models import Verdict as ConnectionVerdict

SEVERAL_MAX = 16
"""Algorithms, and settings, of one sweep."""


class SweepIn(Wanted):
    selection: SelectionIn
    """The connections to ask about. At least one filter or id is needed, or `everything`."""
    algorithms: Annotated[
        list[Annotated[str, Field(max_length=40)] | ReplayIn], Field(min_length=1, max_length=SEVERAL_MAX)
    ]
    """Names, or names with options of their own."""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=32)
    """For the algorithms that are given by their names only."""
    settings: Annotated[
        list[Annotated[dict[str, str | int | float], Field(max_length=48)]], Field(min_length=1, max_length=SEVERAL_MAX)
    ] = [{}]  # noqa: RUF012
    """Changes of the network, as of a single what-if. With several of them each is asked with each algorithm."""
    everyone: bool = False
    """All connections that share a bottleneck with one that is asked about run the algorithm, too."""
    repeat: Annotated[int, Field(ge=1, le=RUNS_MAX)] = RUNS
    """How many runs of each world are simulated."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Ask about so many of the selected connections, chosen at random; about all, where fewer are selected. The same
    connections are chosen whenever the same ones are selected."""


class TotalOut(Schema):
    sum: float
    """Over the connections."""
    median: float
    """Half of the connections have less."""


class ChangeOfMeanOut(Schema):
    """Of the paired differences to the recorded algorithm on the same networks: their mean over the connections, with
    its 95 % interval. The captures are the sample, because the connections of one are alike."""

    mean: float
    """A ratio less 1 (of the geometric mean); of retransmitted packets a difference."""
    low: float | None
    """Low end of the interval; null with a single capture."""
    high: float | None
    """High end of the interval; null with a single capture."""


class MeasureOut(Schema):
    connections: int
    """How many have a recorded and a predicted value."""
    captures: int
    """How many captures these are of."""
    recorded: TotalOut
    """What the captures show."""
    simulated: TotalOut | None
    """The medians of the recorded algorithm on the same networks, in simulations; null where an answer has none."""
    predicted: TotalOut
    """The medians of the predictions."""
    change: ChangeOfMeanOut
    """Of the predictions against the recorded algorithm on the same networks."""


class AnswerOut(Schema):
    """What would have been, had the selected connections run an algorithm."""

    label: str
    """The algorithm's name, and its options where they are not the defaults."""
    settings: dict[str, str]
    """Changes of the network."""
    asked: int
    """What-ifs, one for each connection."""
    predicted: int
    """What-ifs with a prediction."""
    failed: int
    """What-ifs that ended with an error."""
    cannot_say: list[RefusedOut]
    """What-ifs that ended without a prediction, by reason."""
    more: int
    """Connections that have more goodput with a probability of at least 90 %."""
    less: int
    """Connections that have more goodput with a probability of at most 10 %."""
    measures: dict[str, MeasureOut]
    """goodput_bps, completion_s, retransmitted_packets, queueing_delay_ms, queueing_delay_p95_ms, where there is a
    prediction."""


class AnswerRow(Schema):
    """A measure of an answer, of a file; one without measures where there is no prediction."""

    label: str
    settings: dict[str, str]
    asked: int
    predicted: int
    failed: int
    cannot_say: list[RefusedOut]
    more: int
    less: int
    measure: str | None
    of: MeasureOut | None


class SweepOut(Schema):
    id: uuid.UUID
    created_at: datetime
    algorithms: list[str]
    """Labels: names, with the options that are not the defaults."""
    settings: list[dict[str, str]]
    """Changes of the network."""
    everyone: bool
    """Do all connections that share a bottleneck with one that is asked about run the algorithm, too?"""
    repeat: int
    """How many runs of each world were asked for."""
    selection: dict[str, bool | str | int | float | list[str | int]]
    """The filters and ids, as they were given."""
    sample: int | None
    """Of how many of the selected connections, chosen at random, it was asked; null: of all."""
    connections: int
    """How many were selected, those that were refused or are not in the sample included."""
    captures: int
    """Of how many captures are those that it was asked of."""
    refused: list[RefusedOut]
    """Connections that were selected and not asked about."""
    whatifs: int
    """How many what-ifs it has now; those of deleted captures are gone."""
    waiting: int
    """Of them, how many wait."""
    running: int
    """Of them, how many run."""
    done: int
    """Of them, how many are done."""
    failed: int
    """Of them, how many have failed."""
    state: Literal["running", "done"]
    """running: while one of its what-ifs waits or runs."""
    progress: float
    """From 0 to 1, the mean of all its what-ifs; of failed ones 1."""


class SweepDetail(SweepOut):
    answers: list[AnswerOut]
    """One for each algorithm and settings, of the what-ifs that are done."""


class SweptOut(Schema):
    """A what-if of a sweep."""

    whatif_id: uuid.UUID
    """GET /v1/whatifs/ID has all of it."""
    connection_id: uuid.UUID
    connection_number: int
    """Its number in the capture."""
    capture_id: uuid.UUID
    filename: str
    """Name of the capture's file."""
    src: Address
    """The sender of the connection's main subflow, which sent most bytes."""
    sport: int
    dst: Address
    dport: int
    connection_verdict: ConnectionVerdict
    """How far the connection's results can be relied on."""
    label: str
    """The algorithm's name, and its options where they are not the defaults."""
    settings: dict[str, str]
    """Changes of the network."""
    state: State
    error: str | None
    verdict: Literal["ok", "cannot_say"] | None
    """Null until it is done."""
    reason: str | None
    """Why nothing can be said; null with a prediction."""
    recorded_bps: float | None
    """The goodput that the capture shows, bits per second."""
    predicted_bps: SpreadOut | None
    """The goodput that it would have had, bits per second; null without a prediction."""
    better: float | None
    """The probability of a higher goodput."""
