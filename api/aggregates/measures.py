"""What is aggregated: the value of each measure, and which of its values are unreliable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Float, Integer, Select, and_, cast, false, func, literal_column, select, true

from api import filters, measured
from api.connections.search import selected
from api.dimensions import Dimension, joined
from api.errors import Unprocessable
from api.filters import Filters
from api.measured import NAMES as NAMES
from api.measured import Name as Name
from api.security import Caller
from store import facts
from store.models import Attempt, Capture, ConnectionFact, FairnessGroup, Replay, WhatIf

FENCE: ColumnElement[int] = literal_column("'0'::bigint")
"""As the OFFSET of a subquery: PostgreSQL does not merge it with the query around it. With a constant of this type
several of its processes may take part."""


@dataclass(frozen=True)
class Measure:
    """rows: what a team's filters select, one row for each value: the columns `value` and `unreliable`, and any further
    ones of facts, captures and these dimensions. of_captures: dimensions that need a connection do not apply."""

    unit: str
    rows: Callable[[Caller, Filters, Sequence[ColumnElement[Any]], Sequence[Dimension]], Select[Any]]
    of_captures: bool = False


def _of_facts(of: facts.Measured) -> Measure:
    def rows(
        caller: Caller, wanted: Filters, columns: Sequence[ColumnElement[Any]], by: Sequence[Dimension]
    ) -> Select[Any]:
        conditions = (*filters.of_captures(wanted), *filters.of_connections(wanted, times=False))
        return joined(of.rows(caller.team_id, columns, *conditions, periods=filters.periods(wanted)), by)

    return Measure(of.unit, rows, of.of_captures)


def _of_windows(algorithm: str) -> Measure:
    def rows(
        caller: Caller, wanted: Filters, columns: Sequence[ColumnElement[Any]], by: Sequence[Dimension]
    ) -> Select[Any]:
        unreliable = facts.made_unreliable("windows").label("unreliable")
        # The place of the algorithm is found once for each attempt, and not for each connection.
        place = func.array_position(Attempt.labels, algorithm, type_=Integer).label("place")
        attempts = select(Attempt.id, place).offset(FENCE).subquery("attempts")
        value = measured.window(attempts.c.place).label("value")
        query = selected(caller, wanted, value, unreliable, *columns)
        query = query.join(attempts, attempts.c.id == ConnectionFact.attempt_id)
        return joined(query.outerjoin(Replay, measured.asked_for(algorithm)), by)

    return Measure("segments", rows)


def _of_fair_share(
    caller: Caller, wanted: Filters, columns: Sequence[ColumnElement[Any]], by: Sequence[Dimension]
) -> Select[Any]:
    """A value for each member of each group."""
    arrays = {"group_id": ConnectionFact.group_ids, "ratio": ConnectionFact.fair_share_ratios}
    members = facts.memberships(lambda *of: joined(selected(caller, wanted, *of), by), arrays, *columns)
    value = func.nullif(members.c.ratio, cast("NaN", Float(53))).label("value")
    unreliable = FairnessGroup.id.is_not(None).label("unreliable")
    query = select(value, unreliable, *(members.c[str(c.key)] for c in columns))
    is_poor = and_(FairnessGroup.id == members.c.group_id, FairnessGroup.verdict == "poor")
    return query.join_from(members, FairnessGroup, is_poor, isouter=True)


def _of_whatif(algorithm: str) -> Measure:
    """A value for each finished what-if that changes this connection alone, without settings of the network."""

    def rows(
        caller: Caller, wanted: Filters, columns: Sequence[ColumnElement[Any]], by: Sequence[Dimension]
    ) -> Select[Any]:
        query = selected(caller, wanted, measured.GAINED.label("value"), false().label("unreliable"), *columns)
        return joined(query.join(WhatIf, measured.alone(algorithm)), by)

    return Measure("1", rows)


def _of_harm(algorithm: str | None) -> Measure:
    """A value for each connection beside one that a what-if changed, and nothing else, where harm could be said."""

    def rows(
        caller: Caller, wanted: Filters, columns: Sequence[ColumnElement[Any]], by: Sequence[Dimension]
    ) -> Select[Any]:
        beside, harm, about = measured.harmed(algorithm)
        query = selected(caller, wanted, harm.label("value"), false().label("unreliable"), *columns)
        return joined(query.join(WhatIf, WhatIf.capture_id == Capture.id).join(beside, true()).where(about), by)

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
                " group it by site, tag:KEY, uploader, capture_verdict, hour or day"
            )
