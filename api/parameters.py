"""Query parameters that a route does not have are refused: a misspelt filter would answer everything."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.errors import Unprocessable


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for below in dependant.dependencies:
        yield from _query_names(below)


async def refuse_unknown(request: Request) -> None:
    """A dependency of every route of the API. Raises Unprocessable."""
    route = request.scope["route"]
    if not isinstance(route, APIRoute):
        return
    known = sorted(set(_query_names(route.dependant)))
    for name in request.query_params:
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "this address takes none"
            raise Unprocessable(f"unknown query parameter '{name[:60]}'; {there}")
