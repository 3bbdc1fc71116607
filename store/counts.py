"""How many connections of each day of a team have each value of a dimension, kept in PostgreSQL.

A row of `day_counts` has all values of one dimension on one day. Like histograms, rows are counted anew where a day is
stale, and captures of too many days have no part in them (store/histograms.py). What captures and qualities say is
looked up when it is asked for: the dimensions `attempt` and `quality` count their ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    String,
    case,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from store import facts
from store.facts import Period
from store.models import Attempt, ConnectionFact, DayCount

ATTEMPT, QUALITY = "attempt", "quality"
DIMENSIONS: dict[str, ColumnElement[Any]] = {
    "kind": ConnectionFact.kind.expression,
    "sender_algorithm": ConnectionFact.sender_algorithm.expression,
    "subflow_count": ConnectionFact.subflow_count.expression,
    "prefix": facts.network(ConnectionFact.src),
    "peer_prefix": facts.network(ConnectionFact.dst),
    "sport": ConnectionFact.sport.expression,
    "dport": ConnectionFact.dport.expression,
    QUALITY: ConnectionFact.quality_id.expression,
    ATTEMPT: ConnectionFact.attempt_id.expression,
}


def sets(keys: Mapping[int, ColumnElement[Any]], counts: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Rows for each value of each key: `dimension` (the key's number), the keys (the others are null), counts."""
    which = func.grouping(*keys.values())  # a bit for each key, the first one highest; 0 for the one that is grouped by
    bits = zip(reversed(range(len(keys))), keys, strict=True)
    dimension = case(*((which.op("&")(1 << bit) == 0, place) for bit, place in bits))
    labelled = [column.label(key(place)) for place, column in keys.items()]
    return select(dimension.label("dimension"), *labelled, *counts).group_by(func.grouping_sets(*keys.values()))


def key(place: int) -> str:
    """The name of a key's column."""
    return f"key{place}"


def count(database: Connection, team_id: uuid.UUID, day: int, period: Period) -> None:
    """Adds the rows of a day, of which there are none."""
    columns = dict(enumerate(DIMENSIONS.values()))
    in_counts = ConnectionFact.attempt_id.in_(select(Attempt.id).where(Attempt.days.is_not(None)))
    each = facts.facts(team_id, *(column.label(key(place)) for place, column in columns.items()))
    rows = each.where(facts.during(ConnectionFact.first_ns, [period]), in_counts).subquery("rows")
    numbers = {place: rows.c[key(place)] for place in columns}
    found = sets(numbers, [cast(func.count(), Integer).label("count")]).subquery("found")
    name = case(*((found.c.dimension == place, name) for place, name in enumerate(DIMENSIONS)))
    value = case(*((found.c.dimension == place, cast(found.c[key(place)], String)) for place in columns))
    of_each = select(name.label("dimension"), value.label("value"), found.c["count"]).subquery("of_each")
    packed = select(
        literal(team_id),
        literal(day, Integer),
        of_each.c.dimension,
        func.array_agg(aggregate_order_by(of_each.c.value, of_each.c.value)),
        func.array_agg(aggregate_order_by(of_each.c["count"], of_each.c.value)),
    ).group_by(of_each.c.dimension)
    database.execute(insert(DayCount).from_select([c.name for c in DayCount.__table__.c], packed))


def of_days(team_id: uuid.UUID, dimension: str, of_day: Mapping[str, ColumnElement[bool]]) -> Select[Any]:
    """`value` (text) and, for each condition on days, how many connections of such days have it."""
    table = DayCount.__table__
    pair = func.unnest(table.c["values"], table.c.counts).table_valued("value", "n").render_derived()
    counts = [cast(func.coalesce(func.sum(pair.c.n).filter(where), 0), BigInteger) for where in of_day.values()]
    labelled = [count.label(name) for name, count in zip(of_day, counts, strict=True)]
    query = select(pair.c.value, *labelled).join_from(table, pair, true()).group_by(pair.c.value)
    return query.where(table.c.team_id == team_id, table.c.dimension == dimension, or_(*of_day.values()))
