"""What is aggregated: the value of each measure, and which of its values are unreliable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Select,
    and_,
    case,
    cast,
    column,
    false,
    func,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from api import filters
from api.connections.search import selected
from api.dimensions import Dimension
from api.errors import Unprocessable
from api.filters import Filters
from api.security import Caller
from store import facts
from store.models import Attempt, Capture, ConnectionFact, FairnessGroup, State, WhatIf


@dataclass(frozen=True)
class Measure:
    """rows: what a team's filters select, one row for each value: the columns `value` and `unreliable`, and any further
    ones of facts, captures and qualities. of_captures: dimensions that need a connection do not apply."""

    unit: str
    rows: Callable[[Caller, Filters, list[ColumnElement[Any]]], Select[Any]]
    of_captures: bool = False


def _of_facts(of: facts.Measured) -> Measure:
    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        conditions = (*filters.of_captures(wanted), *filters.of_connections(wanted, times=False))
        return of.rows(caller.team_id, columns, *conditions, periods=filters.periods(wanted))

    return Measure(of.unit, rows, of.of_captures)


def _of_windows(algorithm: str) -> Measure:
    place = func.array_position(Attempt.labels, algorithm, type_=Integer)
    value = func.nullif(ConnectionFact.mean_windows[place], cast("NaN", Float))

    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        unreliable = facts.made_unreliable("windows").label("unreliable")
        query = selected(caller, wanted, value.label("value"), unreliable, *columns)
        return query.join(Attempt, Attempt.id == ConnectionFact.attempt_id)

    return Measure("segments", rows)


def _of_fair_share(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
    """A value for each member of each group."""
    shares = func.jsonb_array_elements(FairnessGroup.members["shares"])
    share = shares.table_valued(column("share", JSONB), with_ordinality="place").render_derived().alias("s")
    number = FairnessGroup.members["connections"][share.c.place.cast(Integer) - 1].astext.cast(Integer)
    value = share.c.share["ratio"].astext.cast(Float).label("value")
    unreliable = (FairnessGroup.verdict == "poor").label("unreliable")
    query = selected(caller, wanted, value, unreliable, *columns)
    query = query.join(FairnessGroup, FairnessGroup.attempt_id == ConnectionFact.attempt_id).join(share, true())
    return query.where(ConnectionFact.number == number)


_PREDICTED = WhatIf.result["predicted"]["goodput_bps"]["median"].astext.cast(Float)
_RECORDED = func.nullif(WhatIf.result["recorded"]["goodput_bps"].astext.cast(Float), 0)
_HAS_SPOKEN = (WhatIf.state == State.done, WhatIf.result["verdict"].astext == "ok")


def _of_whatif(algorithm: str) -> Measure:
    """A value for each finished what-if that changes this connection alone, without settings of the network."""

    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        value = case((WhatIf.result["verdict"].astext == "ok", _PREDICTED / _RECORDED)).label("value")
        query = selected(caller, wanted, value, false().label("unreliable"), *columns)
        about = and_(WhatIf.capture_id == Capture.id, WhatIf.connection_number == ConnectionFact.number)
        alone = (WhatIf.everyone.is_(False), WhatIf.settings == cast({}, JSONB))
        return query.join(WhatIf, about).where(WhatIf.state == State.done, WhatIf.label == algorithm, *alone)

    return Measure("1", rows)


def _of_harm(algorithm: str | None) -> Measure:
    """A value for each connection beside one that a what-if changed."""

    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        beside = func.jsonb_array_elements(WhatIf.result["neighbours"]).table_valued(column("value", JSONB)).alias("n")
        harm = beside.c.value["harm"]["median"].astext.cast(Float).label("value")
        query = selected(caller, wanted, harm, false().label("unreliable"), *columns)
        query = query.join(WhatIf, WhatIf.capture_id == Capture.id).join(beside, true())
        query = query.where(*_HAS_SPOKEN, ConnectionFact.number == beside.c.value["id"].astext.cast(Integer))
        return query if algorithm is None else query.where(WhatIf.label == algorithm)

    return Measure("1", rows)


_FIXED = {
    **{name: _of_facts(measure) for name, measure in facts.MEASURES.items()},
    "fair_share_ratio": Measure("1", _of_fair_share),
    "harm": _of_harm(None),
}
_BY_LABEL: dict[str, Callable[[str], Measure]] = {"window": _of_windows, "whatif": _of_whatif, "harm": _of_harm}
NAMES = (*_FIXED, *(f"{prefix}:ALGORITHM" for prefix in _BY_LABEL))

Name = Annotated[
    str,
    Field(
        pattern=r"^(" + "|".join(_FIXED) + r"|(" + "|".join(_BY_LABEL) + r"):.{1,200})$",
        description=f"One of {', '.join(NAMES)}; ALGORITHM is the label of a replay or of a what-if.",
    ),
]


def of(name: str) -> Measure:
    """name: as `Name` allows."""
    prefix, colon, label = name.partition(":")
    return _BY_LABEL[prefix](label) if colon else _FIXED[name]


def check(measure: Measure, name: str, dimensions: list[Dimension]) -> None:
    """Raises Unprocessable."""
    for dimension in dimensions:
        if measure.of_captures and not (dimension.of_capture or dimension.is_time):
            raise Unprocessable(
                f"{name} is of groups of connections, whose members differ in {dimension.name};"
                " group it by site, tag:KEY, uploader, hour or day"
            )
