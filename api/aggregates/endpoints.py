from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime

from api import dimensions, exports, filters
from api.aggregates import changes, measures, service
from api.aggregates.schemas import AggregateRow, AggregatesOut, ChangeOut, ChangesOut, ComparisonOut, ComparisonRow
from api.errors import Unprocessable, problem
from api.filters import Filters, from_query
from api.security import Reader, Session

router = APIRouter(prefix="/v1/aggregates", tags=["aggregates"])

Unreliable = Annotated[
    bool, Query(description="Count values, too, that something wrong with their connection makes unreliable.")
]
Selection = Annotated[
    str, Query(max_length=2000, description="Filters as a query string, whose special characters are escaped.")
]

_OF = (f"Some of {', '.join(measures.NAMES)}", f"Some of {', '.join(dimensions.NAMES)}")
"""What is compared over time: measures and dimensions."""


_SELECTIONS: dict[int | str, dict[str, Any]] = {400: problem("A tag of a selection is not of the form key=value.")}


@router.get("")
async def find(
    session: Session,
    caller: Reader,
    wanted: Annotated[Filters, Depends(from_query)],
    measure: Annotated[measures.Name, Query()],
    group_by: dimensions.Names = [],  # noqa: B006  # FastAPI copies defaults
    include_unreliable: Unreliable = False,
    histogram: Annotated[bool, Query(description="Answer each group's histogram, too.")] = False,
    limit: Annotated[int, Query(ge=1, le=500, description="The most groups.")] = 100,
) -> AggregatesOut:
    """A measure over all selected connections: count, percentiles and histogram, also by groups."""
    return await service.find(
        session,
        caller,
        wanted,
        measure,
        group_by,
        include_unreliable=include_unreliable,
        histogram=histogram,
        limit=limit,
    )


_COLUMNS = exports.columns_of(AggregateRow, besides=["key"])
_GROUPS_MAX = 10_000
"""Of a file: they are computed at once."""


@router.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    wanted: Annotated[Filters, Depends(from_query)],
    measure: Annotated[measures.Name, Query()],
    group_by: dimensions.Names = [],  # noqa: B006  # FastAPI copies defaults
    include_unreliable: Unreliable = False,
    histogram: Annotated[bool, Query(description="Write each group's histogram, too.")] = False,
) -> StreamingResponse:
    """A measure over all selected connections by groups, as a file: a column for each dimension, then the measure's.
    Without `group_by` it has one row. More than 10,000 groups are refused."""
    found = await service.find(
        session,
        caller,
        wanted,
        measure,
        group_by,
        include_unreliable=include_unreliable,
        histogram=histogram,
        limit=_GROUPS_MAX,
    )
    if found.groups_total > _GROUPS_MAX:
        raise Unprocessable(f"these are {found.groups_total} groups, and a file may have {_GROUPS_MAX}: add a filter")
    groups = found.groups if group_by else [found.total]
    rows = [AggregateRow(measure=measure, unit=found.unit, **group.model_dump()) for group in groups]
    keys = [exports.Column(name, pa.string(), ("key", place)) for place, name in enumerate(group_by)]
    table = exports.Table("aggregates", [*keys, *_COLUMNS], request.url.query)
    return await exports.export(session, caller, suffix, table, wanted, exports.given(rows))


@router.get("/comparison", responses=_SELECTIONS)
async def compare(
    session: Session,
    caller: Reader,
    measure: Annotated[measures.Name, Query()],
    selection: Selection,
    baseline: Selection = "",
    include_unreliable: Unreliable = False,
    histogram: Annotated[bool, Query(description="Answer the histograms of both, too.")] = False,
    limit: Annotated[int, Query(ge=1, le=50, description="The most values of a dimension.")] = 10,
) -> ComparisonOut:
    """Two selections of connections: the measure in each, and the dimensions in which they differ, the most different
    one first. Without a baseline all of the team's connections are it."""
    return await service.compare(
        session,
        caller,
        measure,
        selection,
        baseline,
        include_unreliable=include_unreliable,
        histogram=histogram,
        limit=limit,
    )


_COMPARED = exports.columns_of(ComparisonRow)
_VALUES_MAX = 500
"""Of a dimension, in a file."""


@router.get("/comparison.{suffix}", responses=_SELECTIONS | exports.RESPONSES, response_class=StreamingResponse)
async def export_comparison(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    measure: Annotated[measures.Name, Query()],
    selection: Selection,
    baseline: Selection = "",
    include_unreliable: Unreliable = False,
    limit: Annotated[int, Query(ge=1, le=_VALUES_MAX, description="The most values of a dimension.")] = _VALUES_MAX,
) -> StreamingResponse:
    """The dimensions in which two selections of connections differ, as a file: a row for each value of each one."""
    found = await service.compare(
        session,
        caller,
        measure,
        selection,
        baseline,
        include_unreliable=include_unreliable,
        histogram=False,
        limit=limit,
    )
    rows = [
        ComparisonRow(dimension=d.dimension, distance=d.distance, chance=d.chance, **value.model_dump())
        for d in found.dimensions
        for value in d.values
    ]
    captures = service.captures_of([filters.parsed(selection, "selection"), filters.parsed(baseline, "baseline")])
    table = exports.Table("comparison", _COMPARED, request.url.query)
    return await exports.export(session, caller, suffix, table, captures, exports.given(rows))


@router.get("/changes")
async def find_changes(
    session: Session,
    caller: Reader,
    wanted: Annotated[Filters, Depends(from_query)],
    measure: Annotated[list[measures.Name], Query(min_length=1, max_length=8, description=_OF[0])],
    group_by: Annotated[list[dimensions.Name], Query(min_length=1, max_length=4, description=_OF[1])],
    split: Annotated[AwareDatetime, Query(description="Ends the earlier period, and begins the later one.")],
    include_unreliable: Unreliable = False,
) -> ChangesOut:
    """What changed from the period between `from` and `split` to the one between `split` and `to`: each measure by each
    dimension, where the difference of its means is more than chance. Captures are the sample, for their connections are
    alike, and the more is compared the larger a difference must be."""
    return await changes.find(session, caller, wanted, measure, group_by, split, include_unreliable=include_unreliable)


_PERIODS = [
    exports.Column(f"{name}_{period}", pa.int64(), (name, place))
    for name in ("connections", "captures")
    for place, period in enumerate(("before", "after"))
]
_CHANGED = [*exports.columns_of(ChangeOut, besides=["connections", "captures"]), *_PERIODS]


@router.get("/changes.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_changes(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    wanted: Annotated[Filters, Depends(from_query)],
    measure: Annotated[list[measures.Name], Query(min_length=1, max_length=8, description=_OF[0])],
    group_by: Annotated[list[dimensions.Name], Query(min_length=1, max_length=4, description=_OF[1])],
    split: Annotated[AwareDatetime, Query(description="Ends the earlier period, and begins the later one.")],
    include_unreliable: Unreliable = False,
) -> StreamingResponse:
    """What changed between two periods, as a file: a row for each difference that is more than chance."""
    found = await changes.find(session, caller, wanted, measure, group_by, split, include_unreliable=include_unreliable)
    table = exports.Table("changes", _CHANGED, request.url.query)
    return await exports.export(session, caller, suffix, table, wanted, exports.given(found.changes))
