from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.schemas import Schema, Wanted
from store.models import Role


class SessionIn(Wanted):
    token: Annotated[str, Field(max_length=200)]
    """A token of the team; spaces around it do not matter."""


class SessionOut(Schema):
    team_id: uuid.UUID
    team: str
    """The team's name."""
    role: Role
    """Of the token's member."""
    scopes: list[str]
    expires_at: datetime
    """When the session ends; it ends sooner when its token expires or is revoked."""


class SessionChange(Wanted):
    team_id: uuid.UUID
    """One of `others` of `GET /v1/teams/me`."""


class WaysOut(Schema):
    openid_connect: str | None
    """Name of the provider that people sign in with; null: with tokens only."""


class AttemptIn(Wanted):
    return_to: Annotated[str, Field(max_length=1001)] = "/"
    """Path and query of the page to come back to, on this host."""


class AttemptOut(Schema):
    address: str
    """Of the provider: the browser is to go there, and comes back signed in."""


class SignedOut(Schema):
    address: str
    """Of the provider: there the browser signs out of it, too."""
