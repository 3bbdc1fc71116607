"""How much captures differ: of each day what tells the mean of a measure, and the variance that captures give it.

Captures are the sample of a comparison (api/aggregates/changes.py), with how many values each has, and their sum. A row
has the sums of these over captures, of their squares and of their products, which add up over days for captures that
lie within one; of others the facts are read. Like histograms they are counted anew where a day is stale
(store/histograms.py). Only reliable values are in them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    CompoundSelect,
    Connection,
    Float,
    Integer,
    Select,
    String,
    and_,
    case,
    cast,
    column,
    func,
    insert,
    literal,
    select,
    union_all,
    values,
)

from store import facts
from store.facts import OfConnections, OfGroups, Period
from store.models import Attempt, Capture, ConnectionFact, DaySpread

LEAST = 1e-9
"""Smaller values have no logarithm of use."""
PLAIN = ("retransmission_rate", "jain")
"""Measures within 0 to 1, whose means are arithmetic; those of others are geometric."""
MEASURES: dict[str, OfConnections] = {n: m for n, m in facts.MEASURES.items() if isinstance(m, OfConnections)}
OF_GROUPS: dict[str, OfGroups] = {n: m for n, m in facts.MEASURES.items() if isinstance(m, OfGroups)}
DIMENSIONS: dict[str, Any] = {
    "kind": ConnectionFact.kind,
    "sender_algorithm": ConnectionFact.sender_algorithm,
    "site": Capture.site.expression,
    "peer_prefix": facts.prefix(ConnectionFact.dst),
}
OF_CAPTURES = "site"
"""The only one that groups of connections have, too."""
SUMS = ("connections", "captures", "total", "squares", "products", "connections_squared")
"""The columns of `DaySpread`; products: of a capture's count and sum."""


def added(name: str, value: Any) -> Any:
    """What is summed of a measure's value, which must be there: GREATEST passes over a missing one."""
    return value if name in PLAIN else func.ln(func.greatest(value, cast(literal(LEAST), Float(53))))


def has(name: str, dimension: str) -> bool:
    """Is this kept of a measure and a dimension?"""
    return dimension in DIMENSIONS and (name in MEASURES or (name in OF_GROUPS and dimension == OF_CAPTURES))


def sums(count: Any, total: Any) -> list[Any]:
    """In the order of `SUMS`, of captures with their counts and sums."""
    found = (
        func.sum(count),
        func.count().filter(count > 0),
        func.sum(total),
        func.sum(total * total),
        func.sum(count * total),
        func.sum(count * count),
    )
    return [cast(func.coalesce(s, 0), Float(53)).label(name) for s, name in zip(found, SUMS, strict=True)]


def of_facts(team_id: uuid.UUID, *where: Any, periods: Sequence[Period], late: Any) -> CompoundSelect[Any]:
    """measure, dimension, value, is_late and `SUMS`, of the connections that the conditions select and of their groups.

    late: an expression that parts a capture in two samples.
    """
    of_connections = _of_connections(team_id, *where, periods=periods, late=late)
    return union_all(of_connections, _of_groups(team_id, *where, periods=periods, late=late))


def _of_groups(team_id: uuid.UUID, *where: Any, periods: Sequence[Period], late: Any) -> Select[Any]:
    key = DIMENSIONS[OF_CAPTURES].label("key")
    columns = [key, ConnectionFact.attempt_id.label("of_attempt"), late.label("is_late")]
    numbered = [
        case((measure.value.is_not(None), added(name, measure.value))).label(f"value{place}")
        for place, (name, measure) in enumerate(OF_GROUPS.items())
    ]
    any_measure = next(iter(OF_GROUPS.values()))  # the rows of all are the same groups
    rows = any_measure.rows(team_id, [*columns, *numbered], *where, periods=periods).subquery("rows")
    of_captures = (
        select(rows.c.key, rows.c.is_late, *_sums_of_values(rows.c, len(OF_GROUPS)))
        .where(~rows.c.unreliable)
        .group_by(rows.c.key, rows.c.is_late, rows.c.of_attempt)
        .subquery("of_captures")
    )
    return _of_measures(OF_GROUPS, of_captures, literal(OF_CAPTURES, String), of_captures.c.key)


def _of_connections(team_id: uuid.UUID, *where: Any, periods: Sequence[Period], late: Any) -> Select[Any]:
    keys = {name: expression.label(name) for name, expression in DIMENSIONS.items()}
    each = facts.facts(team_id, ConnectionFact.attempt_id, late.label("is_late"), *keys.values())
    for place, (name, measure) in enumerate(MEASURES.items()):
        counts = and_(measure.value.is_not(None), ~facts.made_unreliable(measure.result), *measure.conditions)
        each = each.add_columns(case((counts, added(name, measure.value))).label(f"value{place}"))
    of_each = each.where(facts.during(ConnectionFact.first_ns, periods), *where).subquery("of_each")
    by = [of_each.c[name] for name in DIMENSIONS]
    which = func.grouping(*by).label("which")
    of_captures = (
        select(which, *by, of_each.c.is_late, *_sums_of_values(of_each.c, len(MEASURES)))
        .group_by(of_each.c.attempt_id, of_each.c.is_late, func.grouping_sets(*by))
        .subquery("of_captures")
    )
    # A bit of GROUPING for each column, the first one highest, which is 0 for the column that is grouped by.
    bits = {name: 1 << (len(by) - 1 - place) for place, name in enumerate(DIMENSIONS)}
    dimension = case(*((of_captures.c.which.op("&")(bit) == 0, name) for name, bit in bits.items()))
    value = case(*((of_captures.c.which.op("&")(bit) == 0, of_captures.c[name]) for name, bit in bits.items()))
    return _of_measures(MEASURES, of_captures, dimension, value)


def _sums_of_values(columns: Any, measures: int) -> list[Any]:
    """Of the columns value0, value1 and so on: how many are known, and their sum."""
    known = (func.count(columns[f"value{n}"]).label(f"count{n}") for n in range(measures))
    total = (func.coalesce(func.sum(columns[f"value{n}"]), 0.0).label(f"total{n}") for n in range(measures))
    return [*known, *total]


def _of_measures(names: Iterable[str], of_captures: Any, dimension: Any, value: Any) -> Select[Any]:
    """of_captures: `is_late`, and of each measure, by its place, count and total of each capture."""
    of_measure = values(
        column("measure", String), column("count", Float(53)), column("total", Float(53)), name="of_measure"
    )
    of_measure = of_measure.data(
        [(name, of_captures.c[f"count{n}"], of_captures.c[f"total{n}"]) for n, name in enumerate(names)]
    ).lateral()
    return (
        select(
            of_measure.c.measure,
            cast(dimension, String).label("dimension"),
            cast(value, String).label("value"),
            cast(of_captures.c.is_late, Boolean).label("is_late"),
            *sums(of_measure.c["count"], of_measure.c.total),
        )
        .select_from(of_captures.join(of_measure, literal(True)))
        .where(of_measure.c["count"] > 0)
        .group_by(of_measure.c.measure, dimension, value, of_captures.c.is_late)
    )


def within_one_day() -> Any:
    """Has an attempt connections of one day only?"""
    return func.cardinality(Attempt.days).is_not_distinct_from(1)


def count(database: Connection, team_id: uuid.UUID, day: int, period: Period) -> None:
    """Adds the rows of a day, of which there are none."""
    whole = ConnectionFact.attempt_id.in_(select(Attempt.id).where(within_one_day()))
    found = of_facts(team_id, whole, periods=[period], late=literal(False)).subquery("found")
    own = {"team_id": literal(team_id), "day": literal(day), "place": cast(func.row_number().over(), Integer)}
    columns: dict[str, Any] = {c.name: own.get(c.name, found.c.get(c.name)) for c in DaySpread.__table__.c}
    rows = select(*(c.label(name) for name, c in columns.items()))
    database.execute(insert(DaySpread).from_select(list(columns), rows))
