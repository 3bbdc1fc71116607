from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, Field, StringConstraints

from api.schemas import Schema, Wanted

QUERY_MAX = 4000
"""Characters of the parameters of one view."""
_PARAMETERS_MAX = 100

PageOfViews = Literal["team", "captures", "connections", "comparison"]


def _parameters(text: str) -> str:
    """The same parameters in the same order, written in one way. Raises ValueError."""
    pairs = parse_qsl(text.removeprefix("?"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX)
    if any(not word.isprintable() for pair in pairs for word in pair):
        raise ValueError("parameters have printable characters only")
    return urlencode(pairs)


ViewName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Parameters = Annotated[str, Field(max_length=QUERY_MAX), AfterValidator(_parameters)]


class ViewOut(Schema):
    """A page of the dashboard with filters, order and period, under a name."""

    id: uuid.UUID
    page: PageOfViews
    """The page that it is a view of."""
    name: str
    """Each page's views have different names."""
    query: str
    """The parameters of the page's address: `kind=mptcp&sort=-bytes`."""
    author: str
    """The member who saved it, by the name at that time."""
    created_at: datetime
    """When it was saved first."""
    changed_by: str | None
    """The member who changed it last; null: nobody did."""
    changed_at: datetime | None
    """When it was changed last."""


class ViewIn(Wanted):
    page: PageOfViews
    """The page that it is a view of."""
    name: ViewName
    """Another name than that of the page's other views."""
    query: Parameters
    """The parameters of the page's address."""


class ViewChange(Wanted):
    """What is to be changed; what is left out stays."""

    name: ViewName | None = None
    """Another name."""
    query: Parameters | None = None
    """Takes the place of the parameters."""
