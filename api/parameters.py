"""Query parameters that a route does not have are refused: a misspelt filter would answer everything. So are two values
where one is taken: of kind=tcp&kind=mptcp one would be left out without a word."""

from __future__ import annotations

import typing
from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.errors import Unprocessable


def _query_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Names, and whether a parameter may be given several times."""
    for field in dependant.query_params:
        yield field.alias, typing.get_origin(field.field_info.annotation) is list
    for below in dependant.dependencies:
        yield from _query_parameters(below)


async def refuse_unknown(request: Request) -> None:
    """A dependency of every route of the API. Raises Unprocessable."""
    route = request.scope["route"]
    if not isinstance(route, APIRoute):
        return
    known = dict(_query_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            there = f"there are: {', '.join(sorted(known))}" if known else "this address takes none"
            raise Unprocessable(f"unknown query parameter '{name[:60]}'; {there}")
        if not known[name] and len(request.query_params.getlist(name)) > 1:
            raise Unprocessable(f"the query parameter '{name}' may be given once")
