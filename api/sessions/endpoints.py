"""Sessions of browsers: a token is sent once, or an OpenID Connect provider says who it is.

From then on there is a cookie that no script of a page can read.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from api import audit
from api.bodies import Route
from api.errors import NotFound, Unauthenticated, Unavailable, Unprocessable, problem
from api.openid.attempts import LASTS_S, Attempt, is_own
from api.openid.provider import Refused
from api.openid.sessions import NoTeam, OpenId
from api.security import (
    SESSION_LASTS,
    Reader,
    Session,
    authenticate,
    cookie_name,
    delete_cookie,
    of_session,
    refuse_other_origins,
    set_cookie,
    transaction,
)
from api.sessions.schemas import AttemptIn, AttemptOut, SessionChange, SessionIn, SessionOut, SignedOut, WaysOut
from api.teams.service import same_person
from store.models import BrowserSession, Member, Team, Token
from store.tokens import new_token, token_hash

log = structlog.get_logger()

router = APIRouter(prefix="/v1/session", tags=["session"], route_class=Route)
arriving = APIRouter(prefix="/v1/session")
"""Where the provider sends browsers. It may add parameters of its own, which are to be ignored (RFC 6749, 4.1.2)."""

_REFUSED: dict[int | str, dict[str, Any]] = {
    403: problem("The request comes from a page of another origin, or from no page: scripts send a token.")
}


def _openid(request: Request) -> OpenId | None:
    found: OpenId | None = request.app.state.openid
    return found


OpenIdOrNone = Annotated[OpenId | None, Depends(_openid)]


@router.get("/ways")
async def ways(openid: OpenIdOrNone) -> WaysOut:
    """How one can sign in, beside with a token. This asks for no session."""
    return WaysOut(openid_connect=openid.name if openid else None)


@router.post("", status_code=201, responses={401: problem("The token is unknown, expired or revoked."), **_REFUSED})
async def begin(request: Request, response: Response, session: Session, wanted: SessionIn) -> SessionOut:
    """Signs a browser in: the cookie that this sets stands for the token, on this host alone."""
    refuse_other_origins(request)
    caller = await authenticate(session, wanted.token.strip())
    secret = new_token()
    expires_at = datetime.now(UTC) + SESSION_LASTS
    await session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= func.clock_timestamp()))
    await session.execute(
        insert(BrowserSession).values(hash=token_hash(secret), token_id=caller.token_id, expires_at=expires_at)
    )
    set_cookie(request, response, cookie_name(request), secret, SESSION_LASTS)
    await audit.note(session, caller, "sign_in")
    team = await session.get_one(Team, caller.team_id)
    scopes = sorted(caller.scopes)
    return SessionOut(team_id=team.id, team=team.name, role=caller.role, scopes=scopes, expires_at=expires_at)


@router.patch("", status_code=204, responses={404: problem("The person is in no such team.")})
async def change(request: Request, session: Session, caller: Reader, wanted: SessionChange) -> None:
    """Leads a session that began by OpenID Connect to another team of the same person."""
    secret = request.cookies.get(cookie_name(request), "")
    its_own = BrowserSession.hash == token_hash(secret)
    token = await session.scalar(
        select(Token.id)
        .join(Member, Member.id == Token.member_id)
        .where(*same_person(caller), Member.team_id == wanted.team_id, Token.revoked_at.is_(None))
    )
    changed = update(BrowserSession).where(its_own, BrowserSession.token_id == caller.token_id)
    if token is None or (await session.execute(changed.values(token_id=token))).rowcount == 0:  # type: ignore[attr-defined]
        raise NotFound("the session leads to no such team")
    entered = await of_session(session, secret)
    await audit.note(session, entered, "sign_in", by="another team")


@router.delete(
    "",
    status_code=204,
    response_model=None,
    responses={200: {"model": SignedOut, "description": "The provider is to be left, too."}, **_REFUSED},
)
async def end(request: Request, openid: OpenIdOrNone) -> Response:
    """Signs a browser out. Without a session nothing happens."""
    refuse_other_origins(request)
    secret = request.cookies.get(cookie_name(request))
    sealed = None
    if secret:
        async with transaction() as session:  # which ends before the provider is asked
            with suppress(Unauthenticated):  # it has ended
                await audit.note(session, await of_session(session, secret), "sign_out")
            its_own = BrowserSession.hash == token_hash(secret)
            sealed = await session.scalar(delete(BrowserSession).where(its_own).returning(BrowserSession.sealed))
    leave_at = await openid.leaving_address(secret, sealed) if secret and sealed and openid else None
    response = JSONResponse({"address": leave_at}) if leave_at else Response(status_code=204)
    delete_cookie(request, response, cookie_name(request))
    return response


def _attempts_cookie(request: Request, state: str) -> str:
    """Of its own for each attempt: several tabs may sign in at the same time."""
    return f"{cookie_name(request)}_to_{state[:16]}"


@router.post("/openid", status_code=201, responses={404: problem("People sign in with tokens only."), **_REFUSED})
async def begin_by_openid(request: Request, response: Response, openid: OpenIdOrNone, wanted: AttemptIn) -> AttemptOut:
    """Begins a sign-in by OpenID Connect: the cookie that this sets lets this browser, and no other, end it."""
    refuse_other_origins(request)
    if openid is None:
        raise NotFound("there is no provider to sign in with: sign in with a token")
    if not is_own(wanted.return_to):
        raise Unprocessable("return_to must be the path of a page on this host")
    attempt = Attempt.begin(wanted.return_to)
    address = await openid.address(attempt)
    name = _attempts_cookie(request, attempt.state)
    set_cookie(request, response, name, attempt.cookie, timedelta(seconds=LASTS_S))
    return AttemptOut(address=address)


@arriving.get("/openid", include_in_schema=False)
async def arrive(
    request: Request, openid: OpenIdOrNone, state: str = "", code: str = "", error: str = "", iss: str | None = None
) -> Response:
    """Ends a sign-in by OpenID Connect, and leads back to the page where it began. A page says what went wrong, so the
    reason is a word behind the address, which stays in the browser."""
    name = _attempts_cookie(request, state)
    attempt = Attempt.of_cookie(request.cookies.get(name, ""), state)
    secret, trouble = None, None
    if openid is None or attempt is None:
        trouble = "stale"
    elif error or not code:
        log.info("openid.refused", reason=f"the provider answers {error[:60]!r}")
        trouble = "refused"
    else:
        try:
            secret = await openid.begin(attempt, code, iss, request.cookies.get(cookie_name(request)))
        except Refused as e:
            log.warning("openid.refused", reason=str(e))
            trouble = "refused"
        except NoTeam:
            trouble = "no-team"
        except Unavailable:
            trouble = "away"
    place = attempt.return_to if attempt else "/"
    response = RedirectResponse(f"{place}#sign-in-{trouble}" if trouble else place, status_code=303)
    response.headers["Cache-Control"] = "no-store"
    if attempt is not None:
        delete_cookie(request, response, name)
    if secret is not None:
        set_cookie(request, response, cookie_name(request), secret, SESSION_LASTS)
    return response
