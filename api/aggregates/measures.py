"""What is aggregated: the value of each measure, and which of its values are unreliable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, false, true

from api import filters, measured
from api.connections.search import selected
from api.dimensions import Dimension
from api.errors import Unprocessable
from api.filters import Filters
from api.measured import NAMES as NAMES
from api.measured import Name as Name
from api.security import Caller
from store import facts
from store.models import Attempt, Capture, ConnectionFact, FairnessGroup, Replay, WhatIf


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
    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        unreliable = facts.made_unreliable("windows").label("unreliable")
        query = selected(caller, wanted, measured.window(algorithm).label("value"), unreliable, *columns)
        query = query.join(Attempt, Attempt.id == ConnectionFact.attempt_id)
        return query.outerjoin(Replay, measured.asked_for(algorithm))

    return Measure("segments", rows)


def _of_fair_share(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
    """A value for each member of each group."""
    share, ratio, is_own = measured.shares()
    unreliable = (FairnessGroup.verdict == "poor").label("unreliable")
    query = selected(caller, wanted, ratio.label("value"), unreliable, *columns)
    query = query.join(FairnessGroup, FairnessGroup.attempt_id == ConnectionFact.attempt_id).join(share, true())
    return query.where(is_own)


def _of_whatif(algorithm: str) -> Measure:
    """A value for each finished what-if that changes this connection alone, without settings of the network."""

    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        query = selected(caller, wanted, measured.GAINED.label("value"), false().label("unreliable"), *columns)
        return query.join(WhatIf, measured.alone(algorithm))

    return Measure("1", rows)


def _of_harm(algorithm: str | None) -> Measure:
    """A value for each connection beside one that a what-if changed, and nothing else, where harm could be said."""

    def rows(caller: Caller, wanted: Filters, columns: list[ColumnElement[Any]]) -> Select[Any]:
        beside, harm, about = measured.harmed(algorithm)
        query = selected(caller, wanted, harm.label("value"), false().label("unreliable"), *columns)
        return query.join(WhatIf, WhatIf.capture_id == Capture.id).join(beside, true()).where(about)

    return Measure("1", rows)


_FIXED = {
    **{name: _of_facts(measure) for name, measure in facts.MEASURES.items()},
    measured.FAIR_SHARE: Measure("1", _of_fair_share),
    measured.HARM: _of_harm(None),
}
_BY_LABEL: dict[str, Callable[[str], Measure]] = {"window": _of_windows, "whatif": _of_whatif, "harm": _of_harm}


def of(name: str) -> Measure:
    """name: as `Name` allows."""
    prefix, colon, label = name.partition(":")
    return _BY_LABEL[prefix](label) if colon else _FIXED[name]


def applies(measure: Measure, dimension: Dimension) -> bool:
    return not measure.of_captures or dimension.of_capture or dimension.is_time


def check(measure: Measure, name: str, dimensions: list[Dimension]) -> None:
    """Raises Unprocessable."""
    for dimension in dimensions:
        if not applies(measure, dimension):
            raise Unprocessable(
                f"{name} is of groups of connections, whose members differ in {dimension.name};"
                " group it by site, tag:KEY, uploader, hour or day"
            )
