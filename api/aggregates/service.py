"""Aggregates: one scan of the selected facts makes cells (group, bucket), PostgreSQL sums these into groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Integer,
    Select,
    and_,
    cast,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from api import dimensions, exports, filters
from api.aggregates import histograms, maintained, measures, shares
from api.aggregates.histograms import PERCENTILES, Histogram
from api.aggregates.schemas import (
    AggregateOut,
    AggregatesOut,
    BucketOut,
    ComparisonOut,
    DimensionShares,
    FieldValues,
    NamesOut,
    PercentilesOut,
    ValueCount,
    ValueShares,
    ValuesOut,
)
from api.connections.schemas import UploaderOut
from api.dimensions import Dimension
from api.errors import Unprocessable
from api.filters import Filters
from api.security import Caller
from store import histograms as kept
from store.models import Capture, Token

COMPARED = (
    "kind", "sender_algorithm", "subflow_count", "verdict", "prefix", "peer_prefix", "sport", "dport", "uploader",
)  # fmt: skip
"""Dimensions of a comparison; those of the team's tags follow."""
TAG_KEYS_MAX = 16
"""Keys of tags that a comparison looks at, the most frequent ones of the two selections."""
NAMES_MAX = 500


async def find(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    name: str,
    group_by: list[str],
    *,
    include_unreliable: bool,
    histogram: bool,
    limit: int,
) -> AggregatesOut:
    """Raises BadRequest, Unprocessable."""
    measure, by = measures.of(name), [dimensions.of(n) for n in group_by]
    if len({d.name for d in by}) < len(by):
        raise Unprocessable("group_by names a dimension twice")
    measures.check(measure, name, by)
    summed = await maintained.find(session, caller, wanted, name, by, include_unreliable)
    if summed is not None:
        return AggregatesOut(
            measure=name,
            unit=measure.unit,
            total=_aggregate([], summed.total, histogram),
            groups=[_aggregate(_shown(by, g.key), g, histogram) for g in summed.best(by, limit)],
            groups_total=len(summed.groups),
        )
    rows = measure.rows(caller, wanted, _keys(by), by)
    found = await session.execute(_grouped(rows, by, include_unreliable, limit))
    groups, total, count = [], _nothing(), 0
    for row in found:
        if row.is_total:
            total = _aggregate([], row, histogram)
        else:
            count = row.groups_total
            key = [getattr(row, f"key{place}") for place in range(len(by))]
            groups.append((row.place, _aggregate(_shown(by, key), row, histogram)))
    groups.sort(key=lambda item: item[0])
    if any(d.each is not None for d in by):  # the groups have some connections more than once
        once = await session.execute(_grouped(measure.rows(caller, wanted, [], []), [], include_unreliable, limit))
        total = _aggregate([], once.one(), histogram)
    return AggregatesOut(
        measure=name, unit=measure.unit, total=total, groups=[g for _, g in groups], groups_total=count
    )


def _keys(by: Sequence[Dimension]) -> list[ColumnElement[Any]]:
    return [d.value.label(f"key{place}") for place, d in enumerate(by)]


def _grouped(rows: Select[Any], by: Sequence[Dimension], include_unreliable: bool, limit: int) -> Any:
    """A row for each group that is shown, and one for all; each with its buckets, and how many values they have."""
    # OFFSET: PostgreSQL computes each bucket once, and expects fewer buckets than values, so that it need not sort them
    # and several of its processes may take part.
    if not isinstance(rows.selected_columns.value.element, ColumnClause):  # a bucket needs the value several times
        rows = select(*rows.offset(measures.FENCE).subquery("valued").c)
    buckets = rows.add_columns(kept.bucket(rows.selected_columns.value).label("bucket"))
    scanned = buckets.offset(measures.FENCE).subquery("scanned")
    keys = [scanned.c[f"key{place}"] for place in range(len(by))]
    cells = (
        select(
            *keys,
            scanned.c.unreliable,
            scanned.c.bucket,
            func.count().label("n"),
            func.sum(scanned.c.value).label("total"),
            func.min(scanned.c.value).label("least"),
            func.max(scanned.c.value).label("most"),
        )
        .group_by(*keys, "unreliable", "bucket")
        .cte("cells")
    )
    all_cells = (
        select(
            cells.c.unreliable,
            cells.c.bucket,
            func.sum(cells.c.n).label("n"),
            func.sum(cells.c.total).label("total"),
            func.min(cells.c.least).label("least"),
            func.max(cells.c.most).label("most"),
        )
        .group_by(cells.c.unreliable, cells.c.bucket)
        .cte("all_cells")
    )
    keys = [cells.c[f"key{place}"] for place in range(len(by))]
    whole = (
        *_sums(all_cells, include_unreliable),
        true().label("is_total"),
        literal(0).label("groups_total"),
        literal(0).label("place"),
    )
    if not by:
        return select(*whole)
    times = [k for k, d in zip(keys, by, strict=True) if d.is_time]
    others = [k for k, d in zip(keys, by, strict=True) if not d.is_time]
    importance = [*(t.desc() for t in times), func.sum(cells.c.n).desc(), *(o.asc().nulls_last() for o in others)]
    order = [*(t.asc() for t in times), *importance[len(times) :]]
    best = (
        select(
            *keys,
            *_sums(cells, include_unreliable),
            false().label("is_total"),
            func.count().over().label("groups_total"),
            func.row_number().over(order_by=order).label("place"),
        )
        .group_by(*keys)
        .order_by(*importance)
        .limit(limit)
        .subquery("best")
    )
    return union_all(select(*best.c), select(*(null() for _ in keys), *whole))


def _sums(cells: Any, include_unreliable: bool) -> list[ColumnElement[Any]]:
    has_value = cells.c.bucket.is_not(None)
    is_valid = has_value if include_unreliable else and_(has_value, ~cells.c.unreliable)

    def counted(which: ColumnElement[bool]) -> ColumnElement[Any]:
        return cast(func.coalesce(func.sum(cells.c.n).filter(which), 0), Integer)

    return [
        counted(is_valid).label("valid"),
        counted(and_(has_value, not_(is_valid))).label("unreliable"),
        counted(~has_value).label("missing"),
        func.sum(cells.c.total).filter(is_valid).label("sum"),
        func.min(cells.c.least).filter(is_valid).label("least"),
        func.max(cells.c.most).filter(is_valid).label("most"),
        func.array_agg(aggregate_order_by(cells.c.bucket, cells.c.bucket)).filter(is_valid).label("buckets"),
        func.array_agg(aggregate_order_by(cast(cells.c.n, Integer), cells.c.bucket)).filter(is_valid).label("counts"),
    ]


def _shown(by: Sequence[Dimension], key: Sequence[Any]) -> list[str | None]:
    return [_time(v) if d.is_time else v for d, v in zip(by, key, strict=True)]


def _time(ns: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()
    except OverflowError:  # the capture's clock says a year that has not four digits
        return f"{ns} ns"


def _nothing() -> AggregateOut:
    return AggregateOut(
        key=[], count=0, unreliable=0, missing=0, mean=None, min=None, max=None, percentiles=None, histogram=None
    )


def _aggregate(key: list[str | None], row: Any, histogram: bool) -> AggregateOut:
    found = Histogram.of(row.buckets or (), row.counts or ())
    counts = {"key": key, "count": row.valid, "unreliable": row.unreliable, "missing": row.missing}
    shown = None
    if histogram:
        places = [(*histograms.borders(number), n) for number, n in zip(found.numbers, found.counts, strict=True)]
        shown = [BucketOut(low=low, high=high, count=n) for low, high, n in places]
    if not row.valid:
        return AggregateOut(**counts, mean=None, min=None, max=None, percentiles=None, histogram=shown)
    percentiles = {f"p{p}": min(max(found.percentile(p), row.least), row.most) for p in PERCENTILES}
    return AggregateOut(
        **counts,
        mean=row.sum / row.valid,
        min=row.least,
        max=row.most,
        percentiles=PercentilesOut(**percentiles),
        histogram=shown,
    )


async def values(
    session: AsyncSession, caller: Caller, wanted: Filters, names: list[str], limit: int, containing: str | None
) -> ValuesOut:
    """The most frequent values of some dimensions, of those that contain a text. Raises BadRequest, Unprocessable."""
    by = [dimensions.of(name) for name in dict.fromkeys(names)]
    found: dict[str, list[Any]] = defaultdict(list)
    for row in await shares.ranked(session, caller, [wanted], by, limit, "selection", containing):
        found[by[row.dimension].name].append(row)
    return ValuesOut(
        fields=[
            FieldValues(
                field=d.name,
                values=[ValueCount(value=r.value, connections=r.selection) for r in found[d.name]],
                distinct=found[d.name][0].distinct if found[d.name] else 0,
            )
            for d in by
        ]
    )


async def names(session: AsyncSession, caller: Caller) -> NamesOut:
    """What filters and dimensions can name among the team's captures."""
    of_team = Capture.team_id == caller.team_id
    keys = select(func.jsonb_object_keys(Capture.tags).label("key")).where(of_team).subquery()
    frequent = select(keys.c.key).group_by(keys.c.key).order_by(func.count().desc(), keys.c.key).limit(NAMES_MAX)
    uploaders = (
        select(Token.id, Token.name)
        .where(Token.id.in_(select(Capture.uploader_id).where(of_team)))
        .order_by(Token.name, Token.id)
        .limit(NAMES_MAX)
    )
    return NamesOut(
        tag_keys=[k for k in await session.scalars(frequent) if "=" not in k],
        uploaders=[UploaderOut(id=u.id, name=u.name) for u in await session.execute(uploaders)],
    )


async def compare(
    session: AsyncSession,
    caller: Caller,
    name: str,
    selection: str,
    baseline: str,
    *,
    include_unreliable: bool,
    histogram: bool,
    limit: int,
) -> ComparisonOut:
    """Raises BadRequest, Unprocessable."""
    both = [filters.parsed(selection, "selection"), filters.parsed(baseline, "baseline")]
    measure = measures.of(name)
    stats = [await _whole(session, caller, wanted, name, include_unreliable, histogram) for wanted in both]
    tags = await _tag_keys(session, caller, both)
    by = [dimensions.of(n) for n in (*COMPARED, *(f"{dimensions.TAG}{key}" for key in tags))]
    found: dict[int, list[Any]] = defaultdict(list)
    for row in await shares.ranked(session, caller, both, by, limit, "difference"):
        found[row.dimension].append(row)
    inner: shares.Inner = None
    if filters.are_within(*both):
        inner = "selection"
    elif filters.are_within(*reversed(both)):
        inner = "baseline"
    spread = [
        DimensionShares(
            dimension=by[place].name,
            distance=its[0].distance,
            chance=shares.by_chance(its[0], inner),
            values=[ValueShares.model_validate(r) for r in its],
        )
        for place, its in found.items()
    ]
    return ComparisonOut(
        measure=name,
        unit=measure.unit,
        selection=stats[0],
        baseline=stats[1],
        addresses=await exports.addresses_of(session, caller, captures_of(both)),
        dimensions=sorted(spread, key=lambda d: (-round(d.distance - d.chance, 9), d.dimension)),  # of sums of floats
    )


def captures_of(several: Sequence[Filters]) -> ColumnElement[bool]:
    """Is a capture one that any of them select? Raises BadRequest."""
    return or_(*(and_(true(), *filters.of_captures(wanted)) for wanted in several))


async def _whole(
    session: AsyncSession, caller: Caller, wanted: Filters, name: str, include_unreliable: bool, histogram: bool
) -> AggregateOut:
    """Of all values that the filters select. Raises BadRequest."""
    summed = await maintained.find(session, caller, wanted, name, [], include_unreliable)
    if summed is not None:
        return _aggregate([], summed.total, histogram)
    rows = measures.of(name).rows(caller, wanted, [], [])
    return _aggregate([], (await session.execute(_grouped(rows, [], include_unreliable, 1))).one(), histogram)


async def _tag_keys(session: AsyncSession, caller: Caller, both: Sequence[Filters]) -> list[str]:
    """Of the captures of both selections."""
    keys = func.jsonb_object_keys(Capture.tags).label("key")
    of_captures = [and_(Capture.team_id == caller.team_id, *filters.of_captures(w)) for w in both]
    if of_captures[0].compare(of_captures[1]):  # periods of connections differ, captures do not
        del of_captures[1]
    found = union_all(*(select(keys).where(where) for where in of_captures)).subquery()
    query = select(found.c.key).group_by(found.c.key).order_by(func.count().desc(), found.c.key).limit(TAG_KEYS_MAX)
    return [k for k in (await session.scalars(query)).all() if "=" not in k]
