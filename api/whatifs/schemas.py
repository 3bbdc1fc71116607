from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from pydantic import Field

from api.connections.schemas import ReplayIn
from api.schemas import Schema, with_columns
from store.models import ConnectionKind, State, WhatIf

RUNS = 48
RUNS_MAX = 400


class WhatIfIn(ReplayIn):
    repeat: Annotated[int, Field(ge=1, le=RUNS_MAX)] = RUNS
    """How many runs of each world are simulated."""
    everyone: bool = False
    """All connections that share a bottleneck with this one run the algorithm, too."""
    settings: dict[str, str | int | float] = Field(default_factory=dict, max_length=48)
    """Changes of the network: pathN.rate (bit/s, as 20M), pathN.queue and pathN.ecn (packets), pathN.loss (a share, as
    1%), pathN.rtt and pathN.jitter (seconds, as 20ms) of the connection's N-th subflow, and send_buffer (bytes).
    source: the application's writes, instead of those that the capture suggests: bytes (a transfer of the recorded
    bytes), time (always data to send, for the recorded time), clock (writes at the recorded times) or requests (each at
    the recorded time after the data before it was acknowledged)."""


class SpreadOut(Schema):
    median: float
    """Half of the runs have less."""
    low: float
    """Low end of the 90 % interval."""
    high: float
    """High end of the 90 % interval."""


class CalibratedOut(Schema):
    recorded: float | None
    """What the capture shows."""
    simulated: SpreadOut
    """The recorded algorithm on the fitted path."""


class HarmOut(Schema):
    """Harm of the connection that changes to one beside it (Ware et al., HotNets 2019), of goodput: (x - y) / x, where
    x is what the other one has without it, and y beside it, in runs on the same networks. 0: none; 1: all is lost;
    below 0: the other one gains by it."""

    goodput_without_bps: SpreadOut
    """x, on the network of the predicted world."""
    recorded: SpreadOut
    """Of the recorded algorithm, simulated on the recorded network."""
    predicted: SpreadOut
    """Of the algorithm that is asked about."""
    change: SpreadOut
    """In each run, predicted less recorded."""


class NeighbourOut(Schema):
    """A connection beside the one that changes."""

    id: int
    """Its number in the capture."""
    kind: ConnectionKind
    algorithm: str | None
    """What it ran; null: not known."""
    recorded: dict[str, float | None]
    """What the capture shows, by metric."""
    predicted: dict[str, SpreadOut]
    """By metric."""
    change: dict[str, SpreadOut]
    """Against the recorded world, by metric: a ratio less 1; of retransmitted packets a difference."""
    harm: HarmOut | None
    """Null where it cannot be said: where all change, where what it ran is not known, or where the recorded algorithms
    do not give its recorded goodput on the fitted path. Also in predictions of an earlier version."""


class FlightsOut(Schema):
    """Bytes that were sent and not acknowledged, over all subflows, at up to 200 times."""

    times_s: list[float]
    """Seconds since the connection's first packet: ends of even intervals."""
    recorded_bytes: list[float]
    """What the capture shows: the mean over the ACKs of the interval."""
    median_bytes: list[float]
    """Half of the simulated runs have less."""
    low_bytes: list[float]
    """5 % of the simulated runs have less."""
    high_bytes: list[float]
    """5 % of the simulated runs have more."""


class PredictionOut(Schema):
    """An element of `connections` in the JSON document of `rewindow whatif`."""

    id: int
    """The connection's number in the capture."""
    kind: ConnectionKind
    recorded_algorithm: str | None
    """What it ran; null: not known."""
    algorithm: str
    """What it runs in the predicted world, with its options."""
    verdict: Literal["ok", "cannot_say"]
    """cannot_say is an answer, too: `reason` tells why there is no prediction."""
    reason: str | None
    """Why nothing can be said; null with a prediction."""
    calibration: dict[str, CalibratedOut | float | None]
    """By metric, how well the recorded algorithm on the fitted path gives what was recorded; `misfit` is the whole
    fit's, 1 where it is as good as can be expected."""
    recorded: dict[str, float | None]
    """What the capture shows, by metric."""
    predicted: dict[str, SpreadOut]
    """Of single runs, by metric."""
    change: dict[str, SpreadOut]
    """Against the recorded algorithm on the same networks, by metric: a ratio less 1; of retransmitted packets a
    difference."""
    better: float | None
    """The probability of a higher goodput."""
    subflow_shares: list[SpreadOut]
    """Bytes of each subflow over the connection's."""
    jain: SpreadOut | None
    """Jain's fairness index of all connections that were simulated; null for one alone."""
    neighbours: list[NeighbourOut]
    """The others that were simulated with it."""
    runs: int
    """How many runs of each world were simulated."""
    source: list[Literal["bytes", "time", "clock", "requests"]] = Field(default_factory=list)
    """What its application was taken to send, as in the setting of that name; two where both may be."""
    unseen: float | None = None
    """Of its runs, in how many traffic that is not in the capture, but in the queue, yields as TCP does. Null: none was
    seen, or an earlier version answered."""
    flights: FlightsOut | None = None
    """Null without a prediction."""


@with_columns(WhatIf)
class WhatIfOut(Schema):
    id: uuid.UUID
    state: State
    connection_number: int
    """Its number in the capture, as the command line counts."""
    label: str
    """The algorithm's name, and its options where they are not the defaults."""
    options: dict[str, str]
    settings: dict[str, str]
    """Changes of the network."""
    everyone: bool
    """Do all connections that share a bottleneck with it change, too?"""
    repeat: int
    """How many runs of each world were asked for."""
    stage: str
    progress: float
    """From 0 to 1, of the fit and of the simulation."""
    result: PredictionOut | None
    """Null until it is done."""


class PredictedRow(Schema):
    """A metric of a what-if, of a file; one without a metric where there is none yet, or nothing can be said."""

    id: uuid.UUID
    connection: int
    """Its number in the capture: that of the connection that is asked about, or of one beside it."""
    label: str
    """The algorithm's name, and its options where they are not the defaults."""
    settings: dict[str, str]
    everyone: bool
    state: State
    verdict: Literal["ok", "cannot_say"] | None
    reason: str | None
    metric: str | None
    recorded: float | None
    """What the capture shows."""
    simulated: SpreadOut | None
    """The recorded algorithm on the fitted path; not told of a connection beside the one that is asked about."""
    predicted: SpreadOut | None
    change: SpreadOut | None
    """Against the recorded algorithm on the same networks: a ratio less 1; of retransmitted packets a difference."""


def predicted_rows(whatif: WhatIfOut) -> list[PredictedRow]:
    """A row for each metric of the connection that is asked about, then those of the ones beside it."""
    result = whatif.result

    def row(connection: int, **told: Any) -> PredictedRow:
        return PredictedRow(
            id=whatif.id,
            connection=connection,
            label=whatif.label,
            settings=whatif.settings,
            everyone=whatif.everyone,
            state=whatif.state,
            verdict=result.verdict if result else None,
            reason=result.reason if result else None,
            **{"metric": None, "recorded": None, "simulated": None, "predicted": None, "change": None, **told},
        )

    if result is None or not result.recorded:
        return [row(whatif.connection_number)]
    simulated: list[PredictionOut | NeighbourOut] = [result, *result.neighbours]
    return [
        row(
            of.id,
            metric=metric,
            recorded=recorded,
            simulated=_simulated(result, metric) if of is result else None,
            predicted=of.predicted.get(metric),
            change=of.change.get(metric),
        )
        for of in simulated
        for metric, recorded in of.recorded.items()
    ]


def _simulated(result: PredictionOut, metric: str) -> SpreadOut | None:
    found = result.calibration.get(metric)
    return found.simulated if isinstance(found, CalibratedOut) else None
