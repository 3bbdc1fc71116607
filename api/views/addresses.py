"""What the addresses of the dashboard's pages may have: the filters of connections, and parameters of each page."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, Field, ValidationError

from api import dimensions, filters, measured
from api.captures.service import SORTS
from api.connections import search
from api.errors import BadRequest, Unprocessable
from api.schemas import Wanted
from api.views.schemas import PageOfViews
from store.models import State

_Columns = Annotated[str, Field(pattern=r"^[a-z_]+(,[a-z_]+)*$", max_length=400)]
"""Names of a list's columns that are shown."""


def _selection(text: str) -> str:
    """Raises ValueError."""
    try:
        filters.tags_of(filters.parsed(text, "it").tag)
    except (BadRequest, Unprocessable) as e:
        raise ValueError(e.detail) from e
    return text


class _OfTeam(Wanted):
    span: Literal["week", "4 weeks", "12 weeks"] | None = None
    compare: Literal["before"] | None = None
    unreliable: Literal["counted"] | None = None
    measure: measured.Name | None = None
    rows: dimensions.Name | None = None
    columns: dimensions.Name | None = None


class _OfCaptures(Wanted):
    state: State | None = None
    sort: Literal[SORTS] | None = None  # type: ignore[valid-type]
    columns: _Columns | None = None


class _OfConnections(Wanted):
    sort: (
        Literal[tuple(search.SORTS)]  # type: ignore[valid-type]
        | Annotated[str, Field(pattern=search.TAG_PATTERN)]
        | None
    ) = None
    columns: _Columns | None = None


class _OfComparison(Wanted):
    selection: Annotated[str, AfterValidator(_selection)] | None = None
    baseline: Annotated[str, AfterValidator(_selection)] | None = None
    measure: measured.Name | None = None
    unreliable: Literal["counted"] | None = None


_OWN: dict[PageOfViews, type[Wanted]] = {
    "team": _OfTeam, "captures": _OfCaptures, "connections": _OfConnections, "comparison": _OfComparison,
}  # fmt: skip


def check(page: PageOfViews, query: str) -> None:
    """Would the page take all of these parameters? Raises Unprocessable."""
    model = _OWN[page]
    pairs = parse_qsl(query, keep_blank_values=True)
    own = [(n, v) for n, v in pairs if n in model.model_fields]
    if len(dict(own)) < len(own):
        raise Unprocessable("query: a parameter of the page itself is given more than once")
    others = [p for p in pairs if p[0] not in model.model_fields]
    if page == "comparison" and others:
        other = others[0][0][:60]
        raise Unprocessable(f"query: the page has no {other}; each of its selections has filters of its own")
    wanted = filters.parsed(urlencode(others), "query")
    try:
        filters.tags_of(wanted.tag)
        model.model_validate(dict(own))
    except BadRequest as e:
        raise Unprocessable(f"query: {e.detail}") from e
    except ValidationError as e:
        name = e.errors()[0]["loc"][0]
        raise Unprocessable(f"query: the page has no {name} '{dict(own)[str(name)][:60]}'") from e
