"""How many connections have each value of some dimensions, in one selection or in two that are compared.

Facts are counted by what they have themselves: numbers, addresses, their capture and their quality. Text is made, and
what captures and qualities say is looked up, for the counts: these are fewer than the connections. Of whole days that
nothing but a period selects, PostgreSQL keeps the counts (store/counts.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from sqlalchemy.ext.asyncio import AsyncSession

from api import filters
from api.aggregates import maintained
from api.connections.search import selected
from api.dimensions import Dimension
from api.filters import Filters
from api.security import Caller
from store import counts, facts
from store.models import Capture, ConnectionFact, DayCount, QualityRecord

_COUNTS = ("selection", "baseline")
_TOTALS = tuple(f"{name}_total" for name in _COUNTS)
Inner = Literal["selection", "baseline"] | None


async def ranked(
    session: AsyncSession,
    caller: Caller,
    selections: Sequence[Filters],
    by: Sequence[Dimension],
    limit: int,
    order: Literal["selection", "difference"],
    containing: str | None = None,
) -> Sequence[Any]:
    """For each dimension the `limit` first values, those with the largest `order` first.

    selections: what is counted, and what it is compared with, if anything. containing: only values with this text.
    Rows: `dimension` (its place in `by`), `value`, `selection` and `baseline` (connections), `selection_share`,
    `baseline_share` and their `difference`; of the dimension `distinct` (values), `distance` (half the sum of all
    differences), `selection_total` and `baseline_total`. Ordered by difference also `numbers`, of values that have
    `in_selection` and `in_baseline` connections, in the same order. Raises BadRequest.
    """

    def first(values: Any) -> Select[Any]:
        return _first(values.cte("of_values"), limit, order, containing)

    def parts(days: Sequence[int], attempts: Sequence[int]) -> Any:
        values = _kept(caller, selections, by, days, attempts)
        return None if values is None else first(values)

    is_kept = all(filters.given(s) <= {"from_", "to"} for s in selections) and all(_is_kept(d) for d in by)
    rows = await maintained.Stale(caller.team_id).read(session, parts) if is_kept else None
    if rows is None:
        of_facts = _of_facts(by, [selected(caller, s, *_columns(by, place)) for place, s in enumerate(selections)])
        rows = (await session.execute(first(_values(by, [of_facts])))).all()
    return sorted((r for r in rows if r.dimension is not None), key=lambda r: r.place)


def _first(values: Any, limit: int, order: str, containing: str | None) -> Select[Any]:
    """values: as of `_values`. Also the `place` of each row."""
    sums = [cast(func.nullif(func.sum(values.c[name]), 0), BigInteger).label(name) for name in _COUNTS]
    totals = select(values.c.dimension, *sums).group_by(values.c.dimension).subquery("totals")
    shares = [func.coalesce(cast(values.c[name], Float(53)) / totals.c[name], 0.0) for name in _COUNTS]
    of_values = select(
        *values.c,
        *(share.label(f"{name}_share") for name, share in zip(_COUNTS, shares, strict=True)),
        func.abs(shares[0] - shares[1]).label("difference"),
        *(totals.c[name].label(f"{name}_total") for name in _COUNTS),
    ).join_from(values, totals, totals.c.dimension == values.c.dimension)
    if containing is not None:
        of_values = of_values.where(values.c.value.icontains(containing, autoescape=True))
    shared = of_values.cte("shared")
    alike = [shared.c[name] for name in ("dimension", *_COUNTS, "difference", *_TOTALS)]
    of_sizes = select(*alike, func.count().label("number")).group_by(*alike).subquery("of_sizes")
    found = select(
        of_sizes.c.dimension,
        cast(func.sum(of_sizes.c.number), BigInteger).label("distinct"),
        (func.sum(of_sizes.c.number * of_sizes.c.difference) / 2).label("distance"),
        *(func.max(of_sizes.c[name]).label(name) for name in _TOTALS),
    )
    if order == "difference":
        found = found.add_columns(
            *(func.array_agg(of_sizes.c[name]).label(f"in_{name}") for name in _COUNTS),
            func.array_agg(of_sizes.c.number).label("numbers"),
        )
    of_dimensions = found.group_by(of_sizes.c.dimension).subquery("of_dimensions")
    # Those of each dimension by themselves: PostgreSQL keeps the first ones, and does not sort the others.
    columns = [c for c in shared.c if c.name not in ("dimension", *_TOTALS)]
    ofs = select(*columns).where(shared.c.dimension == of_dimensions.c.dimension)
    best = ofs.order_by(*_importance(shared, order)).limit(limit).lateral("best")
    place = func.row_number().over(order_by=[of_dimensions.c.dimension, *_importance(best, order)])
    return select(*of_dimensions.c, *best.c, place.label("place")).join_from(of_dimensions, best, true())


def by_chance(row: Any, inner: Inner) -> float:
    """The mean distance of two selections of these sizes that are drawn at random from all their connections.

    row: as of `ranked`, ordered by difference. inner: all connections of this one are in the other one, too; None: they
    have none in common, as far as is known.
    """
    if not row.selection_total or not row.baseline_total:
        return 0.0
    if inner is None:
        drawn, size = row.selection_total, row.selection_total + row.baseline_total
        scale = size / row.baseline_total  # the others' share is as far from that of all, on the other side
        having = [a + b for a, b in zip(row.in_selection, row.in_baseline, strict=True)]
    elif inner == "selection":
        drawn, size, scale, having = row.selection_total, row.baseline_total, 1.0, row.in_baseline
    else:
        drawn, size, scale, having = row.baseline_total, row.selection_total, 1.0, row.in_selection
    each = math.fsum(number * _deviation(size, k, drawn) for k, number in zip(having, row.numbers, strict=True))
    return float(scale * each / drawn / 2)


def _deviation(size: int, having: int, drawn: int) -> float:
    """The mean of |X - E X|, where X of `drawn` have what `having` of `size` have (Ramasubban, Biometrika 45, 1958)."""
    above = having * drawn // size + 1
    if above > min(having, drawn):  # all have it, or none, or all are drawn
        return 0.0

    def ways(of: int, chosen: int) -> float:
        return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)

    chance = math.exp(ways(having, above) + ways(size - having, drawn - above) - ways(size, drawn))
    return 2 * above * (size - having - drawn + above) / size * chance


def _importance(rows: Any, order: str) -> list[ColumnElement[Any]]:
    return [rows.c[order].desc(), rows.c.selection.desc(), rows.c.value.asc().nulls_last()]


@dataclass(frozen=True)
class _Counted:
    """Connections in each selection by what they have themselves. plain: `dimension`, `value` (text) and counts;
    attempts, qualities: `key` (an id) and counts."""

    plain: list[Select[Any]]
    attempts: list[Select[Any]]
    qualities: list[Select[Any]]


def _plain(by: Sequence[Dimension]) -> dict[int, Dimension]:
    return {place: d for place, d in enumerate(by) if not (d.of_capture or d.by_quality)}


def _columns(by: Sequence[Dimension], selection: int, *, of_attempts: bool = True) -> list[ColumnElement[Any]]:
    """Of the facts of a selection, as `_of_facts` takes them; with those of attempts, if these are to be counted."""
    columns = {place: d.value if d.counted_by is None else d.counted_by for place, d in _plain(by).items()}
    if of_attempts and any(d.of_capture for d in by):
        columns[len(by)] = ConnectionFact.attempt_id.expression
    if any(d.by_quality for d in by):
        columns[len(by) + 1] = ConnectionFact.quality_id.expression
    labelled = [column.label(counts.key(place)) for place, column in columns.items()]
    return [literal(selection == 1).label("is_baseline"), *labelled]


def _of_all(caller: Caller, selections: int) -> Select[Any]:
    """Connections of each attempt, by its `key`, in as many selections as have them all."""
    numbers = [Capture.connection_count if place < selections else literal(0) for place in range(len(_COUNTS))]
    named = [number.label(name) for number, name in zip(numbers, _COUNTS, strict=True)]
    columns: list[Any] = [Capture.attempt_id.label("key"), *named]
    return select(*columns).where(Capture.team_id == caller.team_id, Capture.attempt_id.is_not(None))


def _of_facts(by: Sequence[Dimension], queries: Sequence[Select[Any]]) -> _Counted:
    """queries: rows of facts, each with `_columns`."""
    rows = union_all(*queries).subquery("rows")
    flags = zip(_COUNTS, (false(), true()), strict=True)
    numbers = [func.count().filter(rows.c.is_baseline == flag).label(name) for name, flag in flags]
    attempt, quality = len(by), len(by) + 1
    keys = {place: rows.c[name] for place in range(len(by) + 2) if (name := counts.key(place)) in rows.c}
    counted = counts.sets(keys, numbers).cte("counted")

    def of_key(place: int) -> list[Select[Any]]:
        if place not in keys:
            return []
        its = select(counted.c[counts.key(place)].label("key"), *(counted.c[name] for name in _COUNTS))
        return [its.where(counted.c.dimension == place)]

    plain = list(_plain(by))
    return _Counted([_texts(counted, plain)] if plain else [], of_key(attempt), of_key(quality))


def _is_kept(dimension: Dimension) -> bool:
    return dimension.of_capture or dimension.by_quality or dimension.name in counts.DIMENSIONS


def _kept(
    caller: Caller, selections: Sequence[Filters], by: Sequence[Dimension], days: Sequence[int], without: Sequence[int]
) -> Any:
    """As `_values`, from counts of days, and of facts where these cannot tell: of the days that are stale, of the
    attempts that have no part in counts, and of parts of days. None: that is too much for one statement."""
    splits = [maintained.Split.of(filters.periods(s)[0], days) for s in selections]
    if any(split.is_too_much for split in splits):
        return None
    day = DayCount.__table__.c.day
    of_day = {name: split.has(day, days) for name, split in zip(_COUNTS, splits, strict=False)}
    of_day |= {name: false() for name in _COUNTS if name not in of_day}

    def of_days(dimension: str) -> Any:
        return counts.of_days(caller.team_id, dimension, of_day).subquery(f"of_{dimension}")

    def of_ids(dimension: str) -> list[Select[Any]]:
        its = of_days(dimension)
        return [select(cast(its.c.value, BigInteger).label("key"), *(its.c[name] for name in _COUNTS))]

    plain = {place: of_days(d.name) for place, d in _plain(by).items()}
    are_all = not any(filters.given(s) for s in selections)  # then captures tell how many connections they have
    parts = [
        _Counted(
            [select(literal(place).label("dimension"), *its.c) for place, its in plain.items()],
            ([_of_all(caller, len(selections))] if are_all else of_ids(counts.ATTEMPT))
            if any(d.of_capture for d in by)
            else [],
            of_ids(counts.QUALITY) if any(d.by_quality for d in by) else [],
        )
    ]
    attempt = ConnectionFact.attempt_id
    queries = []
    for place, (wanted, split) in enumerate(zip(selections, splits, strict=True)):
        its = selected(caller, wanted, *_columns(by, place, of_attempts=not are_all))
        if split.of_facts:
            others = [attempt.not_in(without)] if without else []
            queries.append(its.where(facts.during(ConnectionFact.first_ns, split.of_facts), *others))
        if without:
            queries.append(its.where(attempt.in_(without)))
    if queries:
        parts.append(_of_facts(by, queries))
    return _values(by, parts)


def _values(by: Sequence[Dimension], parts: Sequence[_Counted]) -> Any:
    """Rows of a dimension, a value of it as text, and the connections that have this value in each selection."""
    plain = [rows for part in parts for rows in part.plain]
    found = []
    if plain:
        all_plain = union_all(*plain)
        found.append(all_plain if len(parts) == 1 else _added(all_plain.subquery("plain")))
    if of_qualities := {place: d for place, d in enumerate(by) if d.by_quality}:
        counted = union_all(*(rows for part in parts for rows in part.qualities)).cte("qualities_counted")
        for place, d in of_qualities.items():
            own = (literal(place).label("dimension"), d.value.label("value"))
            told = select(*own, *_sums(counted)).select_from(counted)
            told = told.join(QualityRecord, QualityRecord.id == counted.c.key)
            told = told if d.each is None else told.outerjoin(d.each, true())
            found.append(told.group_by(d.value))
    if of_captures := {place: d.value for place, d in enumerate(by) if d.of_capture}:
        of_each = union_all(*(rows for part in parts for rows in part.attempts)).subquery("attempts_counted")
        columns = [value.label(counts.key(place)) for place, value in of_captures.items()]
        tagged = select(*columns, *(of_each.c[name] for name in _COUNTS)).select_from(of_each)
        each = tagged.join(Capture, Capture.attempt_id == of_each.c.key).subquery("tagged")
        keys = {place: each.c[counts.key(place)] for place in of_captures}
        found.append(_texts(counts.sets(keys, _sums(each)).subquery("of_captures"), list(of_captures)))
    return union_all(*(select(*rows.subquery().c) for rows in found))


def _added(rows: Any) -> Select[Any]:
    """Counts of the same value as one."""
    return select(rows.c.dimension, rows.c.value, *_sums(rows)).group_by(rows.c.dimension, rows.c.value)


def _sums(counted: Any) -> list[ColumnElement[Any]]:
    return [cast(func.sum(counted.c[name]), BigInteger).label(name) for name in _COUNTS]


def _texts(sets: Any, places: Sequence[int]) -> Select[Any]:
    """Of the rows of `counts.sets`, those of some keys, each with its value as text."""
    value = case(*((sets.c.dimension == place, cast(sets.c[counts.key(place)], String)) for place in places))
    query = select(sets.c.dimension, value.label("value"), *(sets.c[name] for name in _COUNTS))
    return query.where(sets.c.dimension.in_(places))
