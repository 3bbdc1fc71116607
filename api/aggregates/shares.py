"""How many connections have each value of some dimensions, in one selection or in two that are compared.

Facts are counted by what they have themselves: numbers, addresses, their capture and their quality. Text is made, and
what captures and qualities say is looked up, for the counts: these are fewer than the connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    Select,
    String,
    case,
    cast,
    false,
    func,
    literal,
    select,
    true,
    union_all,
)

from api.connections.search import selected
from api.dimensions import Dimension
from api.filters import Filters
from api.security import Caller
from store.models import Capture, ConnectionFact, QualityRecord

_COUNTS = ("selection", "baseline")


def ranked(
    caller: Caller,
    selections: Sequence[Filters],
    by: Sequence[Dimension],
    limit: int,
    order: Literal["selection", "difference"],
    containing: str | None = None,
) -> Select[Any]:
    """For each dimension the `limit` first values, those with the largest `order` first.

    selections: what is counted, and what it is compared with, if anything. containing: only values with this text.
    Rows: `dimension` (its place in `by`), `value`, `selection` and `baseline` (connections), `selection_share`,
    `baseline_share` and their `difference`; of the dimension `distinct` (values) and `distance` (half the sum of all
    differences). Raises BadRequest.
    """
    values = _counted(caller, selections, by).cte("of_values")
    sums = [func.nullif(func.sum(values.c[name]), 0).label(name) for name in _COUNTS]
    totals = select(values.c.dimension, *sums).group_by(values.c.dimension).subquery("totals")
    shares = [func.coalesce(cast(values.c[name], Float(53)) / totals.c[name], 0.0) for name in _COUNTS]
    of_values = select(
        *values.c,
        *(share.label(f"{name}_share") for name, share in zip(_COUNTS, shares, strict=True)),
        func.abs(shares[0] - shares[1]).label("difference"),
    ).join_from(values, totals, totals.c.dimension == values.c.dimension)
    if containing is not None:
        of_values = of_values.where(values.c.value.icontains(containing, autoescape=True))
    shared = of_values.cte("shared")
    found = select(
        shared.c.dimension, func.count().label("distinct"), (func.sum(shared.c.difference) / 2).label("distance")
    )
    of_dimensions = found.group_by(shared.c.dimension).subquery("of_dimensions")
    # Those of each dimension by themselves: PostgreSQL keeps the first ones, and does not sort the others.
    columns = [c for c in shared.c if c.name != "dimension"]
    ofs = select(*columns).where(shared.c.dimension == of_dimensions.c.dimension)
    best = ofs.order_by(*_importance(shared, order)).limit(limit).lateral("best")
    query = select(*of_dimensions.c, *best.c).join_from(of_dimensions, best, true())
    return query.order_by(of_dimensions.c.dimension, *_importance(best, order))


def _importance(rows: Any, order: str) -> list[ColumnElement[Any]]:
    return [rows.c[order].desc(), rows.c.selection.desc(), rows.c.value.asc().nulls_last()]


def _counted(caller: Caller, selections: Sequence[Filters], by: Sequence[Dimension]) -> Any:
    """Rows of a dimension, a value of it as text, and the connections that have this value in each selection."""
    of_captures = {place: d.value for place, d in enumerate(by) if d.of_capture}
    of_qualities = {place: d for place, d in enumerate(by) if d.by_quality}
    columns = {
        place: d.value if d.counted_by is None else d.counted_by
        for place, d in enumerate(by)
        if not (d.of_capture or d.by_quality)
    }
    attempt, quality = len(by), len(by) + 1
    if of_captures:
        columns[attempt] = ConnectionFact.attempt_id.expression
    if of_qualities:
        columns[quality] = ConnectionFact.quality_id.expression
    both = [
        selected(caller, wanted, literal(place == 1).label("is_baseline"), *_labelled(columns))
        for place, wanted in enumerate(selections)
    ]
    rows = union_all(*both).subquery("rows")
    flags = zip(_COUNTS, (false(), true()), strict=True)
    counts = [func.count().filter(rows.c.is_baseline == flag).label(name) for name, flag in flags]
    counted = _sets({place: rows.c[_key(place)] for place in columns}, counts).cte("counted")
    parts = []
    if of_facts := [place for place in columns if place < attempt]:
        parts.append(_texts(counted, of_facts))
    for place, d in of_qualities.items():
        own = (literal(place).label("dimension"), d.value.label("value"))
        of_each = select(*own, *_sums(counted)).select_from(counted)
        of_each = of_each.join(QualityRecord, QualityRecord.id == counted.c[_key(quality)])
        of_each = of_each if d.each is None else of_each.outerjoin(d.each, true())
        parts.append(of_each.where(counted.c.dimension == quality).group_by(d.value))
    if of_captures:
        tagged = select(*_labelled(of_captures), *(counted.c[name] for name in _COUNTS)).select_from(counted)
        tagged = tagged.join(Capture, Capture.attempt_id == counted.c[_key(attempt)])
        each = tagged.where(counted.c.dimension == attempt).subquery("tagged")
        sets = _sets({place: each.c[_key(place)] for place in of_captures}, _sums(each)).subquery("of_captures")
        parts.append(_texts(sets, list(of_captures)))
    return union_all(*parts)


def _key(place: int) -> str:
    return f"key{place}"


def _labelled(columns: Mapping[int, ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    return [column.label(_key(place)) for place, column in columns.items()]


def _sums(counted: Any) -> list[ColumnElement[Any]]:
    return [cast(func.sum(counted.c[name]), BigInteger).label(name) for name in _COUNTS]


def _sets(keys: Mapping[int, ColumnElement[Any]], counts: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Rows for each value of each key: `dimension` (the key's place), the keys (the others are null), counts."""
    which = func.grouping(*keys.values())  # a bit for each key, the first one highest; 0 for the one that is grouped by
    bits = zip(reversed(range(len(keys))), keys, strict=True)
    dimension = case(*((which.op("&")(1 << bit) == 0, place) for bit, place in bits))
    return select(dimension.label("dimension"), *_labelled(keys), *counts).group_by(func.grouping_sets(*keys.values()))


def _texts(sets: Any, places: Sequence[int]) -> Select[Any]:
    """Of the rows of `_sets`, those of some keys, each with its value as text."""
    value = case(*((sets.c.dimension == place, cast(sets.c[_key(place)], String)) for place in places), else_=None)
    query = select(sets.c.dimension, value.label("value"), *(sets.c[name] for name in _COUNTS))
    return query.where(sets.c.dimension.in_(places))
