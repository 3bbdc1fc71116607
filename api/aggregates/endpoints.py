from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from api import dimensions
from api.aggregates import measures, service
from api.aggregates.schemas import AggregatesOut, ComparisonOut
from api.errors import problem
from api.filters import Filters, from_query
from api.security import Reader, Session

router = APIRouter(prefix="/v1/aggregates", tags=["aggregates"])

_TAG = {400: problem("A tag is not of the form key=value.")}
Unreliable = Annotated[
    bool, Query(description="Count values, too, that something wrong with their connection makes unreliable.")
]
Selection = Annotated[
    str, Query(max_length=2000, description="Filters as a query string, whose special characters are escaped.")
]


@router.get("", responses=_TAG)  # type: ignore[arg-type]
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


@router.get("/comparison", responses=_TAG)  # type: ignore[arg-type]
async def compare(
    session: Session,
    caller: Reader,
    measure: Annotated[measures.Name, Query()],
    selection: Selection,
    baseline: Selection = "",
    include_unreliable: Unreliable = False,
    limit: Annotated[int, Query(ge=1, le=50, description="The most values of a dimension.")] = 10,
) -> ComparisonOut:
    """Two selections of connections: the measure in each, and the dimensions in which they differ, the most different
    one first. Without a baseline all of the team's connections are it."""
    return await service.compare(
        session, caller, measure, selection, baseline, include_unreliable=include_unreliable, limit=limit
    )
