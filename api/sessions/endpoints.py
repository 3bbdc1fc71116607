"""Sessions of browsers: a token is sent once, and from then on a cookie that no script of a page can read."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from sqlalchemy import delete, func
from sqlalchemy.dialects.postgresql import insert

from api import audit
from api.bodies import Route
from api.errors import problem
from api.schemas import Schema, Wanted
from api.security import Session, authenticate, cookie_name, refuse_other_origins
from store.models import BrowserSession, Role, Team
from store.tokens import new_token, token_hash

router = APIRouter(prefix="/v1/session", tags=["session"], route_class=Route)

LASTS = timedelta(days=7)


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


_REFUSED: dict[int | str, dict[str, Any]] = {
    403: problem("The request comes from a page of another origin, or from no page: scripts send a token.")
}


@router.post("", status_code=201, responses={401: problem("The token is unknown, expired or revoked."), **_REFUSED})
async def begin(request: Request, response: Response, session: Session, wanted: SessionIn) -> SessionOut:
    """Signs a browser in: the cookie that this sets stands for the token, on this host alone."""
    refuse_other_origins(request)
    caller = await authenticate(session, wanted.token.strip())
    secret = new_token()
    expires_at = datetime.now(UTC) + LASTS
    await session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= func.clock_timestamp()))
    await session.execute(
        insert(BrowserSession).values(hash=token_hash(secret), token_id=caller.token_id, expires_at=expires_at)
    )
    response.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(LASTS.total_seconds()),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    await audit.note(session, caller, "sign_in")
    team = await session.get_one(Team, caller.team_id)
    scopes = sorted(caller.scopes)
    return SessionOut(team_id=team.id, team=team.name, role=caller.role, scopes=scopes, expires_at=expires_at)


@router.delete("", status_code=204, responses={**_REFUSED})
async def end(request: Request, response: Response, session: Session) -> None:
    """Signs a browser out. Without a session nothing happens."""
    refuse_other_origins(request)
    secret = request.cookies.get(cookie_name(request))
    if secret:
        await session.execute(delete(BrowserSession).where(BrowserSession.hash == token_hash(secret)))
    response.delete_cookie(cookie_name(request), httponly=True, samesite="lax")
