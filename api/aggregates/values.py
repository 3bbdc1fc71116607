"""The most frequent values among connections, and what filters can name; their addresses would otherwise be those of
a connection."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from api import dimensions
from api.aggregates import service
from api.aggregates.schemas import NamesOut, ValuesOut
from api.filters import Filters, from_query
from api.security import Reader, Session

router = APIRouter(prefix="/v1/connections", tags=["connections"])


@router.get("/values")
async def values(
    session: Session,
    caller: Reader,
    wanted: Annotated[Filters, Depends(from_query)],
    field: Annotated[
        list[dimensions.Name],
        Query(min_length=1, max_length=8, description=f"Some of {', '.join(dimensions.NAMES)}"),
    ],
    containing: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Only values with this text in them, in capitals or not."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=50, description="The most values of a field.")] = 10,
) -> ValuesOut:
    """The most frequent values of some fields among the connections that the filters select, with their counts."""
    return await service.values(session, caller, wanted, field, limit, containing)


@router.get("/names")
async def names(session: Session, caller: Reader) -> NamesOut:
    """What filters and dimensions can name among the team's captures: keys of tags, and who uploaded them."""
    return await service.names(session, caller)
