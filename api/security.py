"""The caller of a request: its token belongs to one team, and every query is scoped by `Caller.team_id`.

A script sends the token with each request (`Authorization: Bearer`). A browser sends it once (api/sessions) and has a
cookie instead. What a cookie may change is refused to pages of other origins.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection

from api.errors import Forbidden, Unauthenticated
from store.database import async_engine
from store.models import BrowserSession, Member, Role, Token
from store.settings import settings
from store.tokens import PREFIX, SCOPES_OF, token_hash


@asynccontextmanager
async def transaction() -> AsyncIterator[AsyncSession]:
    """A transaction that is committed at the end and rolled back after an exception.

    It takes a connection from the pool at its first statement.
    """
    async with AsyncSession(async_engine(), expire_on_commit=False) as session, session.begin():
        yield session


async def _session() -> AsyncIterator[AsyncSession]:
    """One request, one transaction."""
    async with transaction() as session:
        yield session


# "function": committed before the response is sent, so that the row exists when a client reads the 202.
Session = Annotated[AsyncSession, Depends(_session, scope="function")]

COOKIE = "rewindow_session"
SESSION_LASTS = timedelta(days=7)
ENDED = "the session has ended: sign in again"


def is_secure(request: HTTPConnection) -> bool:
    """Did the browser ask by https? A proxy that ends TLS may not say so; the address that it serves is configured."""
    public = urlsplit(settings().public_origin or "")
    is_public = public.scheme == "https" and request.headers.get("host") == public.netloc
    return request.url.scheme == "https" or is_public


def cookie_name(request: HTTPConnection) -> str:
    """A browser sends cookies to all ports of a host: those of two services there must have two names.

    By https the name has the prefix with which no other host, as one below the same domain, can set it.
    """
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:  # no number
        port = None
    name = f"__Host-{COOKIE}" if is_secure(request) else COOKIE
    return name if port is None else f"{name}_{port}"


def set_cookie(request: HTTPConnection, response: Response, name: str, value: str, lasts: timedelta) -> None:
    """A cookie that no script reads, of this host alone."""
    most = int(lasts.total_seconds())
    response.set_cookie(name, value, max_age=most, secure=is_secure(request), httponly=True, samesite="lax")


def delete_cookie(request: HTTPConnection, response: Response, name: str) -> None:
    response.delete_cookie(name, secure=is_secure(request), httponly=True, samesite="lax")


class _SessionCookie(APIKeyCookie):
    async def __call__(self, request: HTTPConnection) -> str | None:
        return request.cookies.get(cookie_name(request))


_bearer = HTTPBearer(auto_error=False, description="A token that begins with rw_")
_cookie = _SessionCookie(
    name=COOKIE,
    auto_error=False,
    description="Of a browser that has signed in (POST /v1/session); the name ends with _PORT if the address has one",
)


@dataclass(frozen=True)
class Caller:
    team_id: uuid.UUID
    token_id: uuid.UUID
    member_id: uuid.UUID
    member: str
    """The name."""
    role: Role
    scopes: frozenset[str]
    """Of the token, as far as the role has them now."""
    session_hash: bytes | None = None
    """Of a browser that has signed in. None: the request brought the token itself."""


async def authenticate(session: AsyncSession, token: str) -> Caller:
    """Raises Unauthenticated."""
    if not token.startswith(PREFIX):
        raise Unauthenticated(f"this is not a token of rewindow: those begin with {PREFIX}")
    caller = await _holder(session, Token.hash == token_hash(token))
    if caller is None:
        raise Unauthenticated("the token is unknown, expired or revoked")
    return caller


def _valid() -> tuple[ColumnElement[bool], ...]:
    """Of a token, joined with its member."""
    lasts = or_(Token.expires_at.is_(None), Token.expires_at > func.clock_timestamp())
    return Token.revoked_at.is_(None), lasts, Member.removed_at.is_(None)


def _lasts() -> tuple[ColumnElement[bool], ...]:
    """Of a browser's session."""
    now = func.clock_timestamp()
    ends = func.coalesce(BrowserSession.claims_until, BrowserSession.expires_at)
    return BrowserSession.expires_at > now, ends > now


async def _holder(session: AsyncSession, which: ColumnElement[bool]) -> Caller | None:
    """Of the token for which this holds, unless it was revoked or has expired."""
    query = (
        select(Token.id, Token.team_id, Token.scopes, Token.member_id, Member.name, Member.role)
        .join(Member, Member.id == Token.member_id)
        .where(which, *_valid())
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return None
    scopes = frozenset(row.scopes) & frozenset(SCOPES_OF[row.role])
    return Caller(row.team_id, row.id, row.member_id, row.name, row.role, scopes)


async def of_session(session: AsyncSession, secret: str) -> Caller:
    """Who has signed in with the browser that holds this secret. Raises Unauthenticated."""
    own = token_hash(secret)
    of_it = select(BrowserSession.token_id).where(BrowserSession.hash == own, *_lasts())
    caller = await _holder(session, Token.id.in_(of_it))
    if caller is None:
        raise Unauthenticated(ENDED)
    return replace(caller, session_hash=own)


async def still_there(session: AsyncSession, callers: Collection[Caller]) -> set[Caller]:
    """Those whose token still holds, and the session by which they came: what a stream asks that lasts long."""
    tokens = {c.token_id for c in callers}
    found = select(Token.id).join(Member, Member.id == Token.member_id).where(Token.id.in_(tokens), *_valid())
    hold = set(await session.scalars(found))
    hashes = {c.session_hash for c in callers if c.session_hash is not None}
    last: set[tuple[bytes, uuid.UUID]] = set()
    if hashes:
        of_sessions = select(BrowserSession.hash, BrowserSession.token_id)
        rows = await session.execute(of_sessions.where(BrowserSession.hash.in_(hashes), *_lasts()))
        last = {(bytes(row.hash), row.token_id) for row in rows}
    return {
        c for c in callers if c.token_id in hold and (c.session_hash is None or (c.session_hash, c.token_id) in last)
    }


async def _renew(request: HTTPConnection, secret: str) -> None:
    """Has the provider confirm the session, where it began by OpenID Connect and it is time. Raises Unauthenticated,
    Unavailable."""
    if request.app.state.openid is None:
        return
    due = select(BrowserSession.hash).where(
        BrowserSession.hash == token_hash(secret), BrowserSession.renew_at <= func.clock_timestamp()
    )
    async with transaction() as session:
        is_due = await session.scalar(due) is not None
    if is_due:
        await request.app.state.openid.renew(secret)


def refuse_other_origins(request: Request) -> None:
    """A browser adds the cookie also to what a page of another origin sends. Raises Forbidden."""
    origin = request.headers.get("origin")
    # Not the scheme: a proxy may have ended TLS.
    if origin is None or urlsplit(origin).netloc != request.headers.get("host"):
        raise Forbidden("a session may change something only from the dashboard's own pages; scripts send a token")


_ARTICLE: dict[Role, str] = {"viewer": "a viewer", "analyst": "an analyst", "owner": "an owner"}
_READING = ("GET", "HEAD", "OPTIONS")


def _caller(scope: str) -> Callable[..., Awaitable[Caller]]:
    async def caller(
        request: Request,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
        secret: Annotated[str | None, Depends(_cookie)],
    ) -> Caller:
        if credentials is None and secret is not None:
            if request.method not in _READING:
                refuse_other_origins(request)
            await _renew(request, secret)
        # A transaction of its own, so that an upload, which may take hours, holds no database connection meanwhile.
        async with transaction() as session:
            if credentials is not None:
                found = await authenticate(session, credentials.credentials)
            elif secret is not None:
                found = await of_session(session, secret)
            else:
                raise Unauthenticated("a bearer token is required")
            await request.app.state.requests.count(session, found.team_id)
        if scope not in found.scopes:
            raise Forbidden(f"the token lacks the scope '{scope}'; {found.member} is {_ARTICLE[found.role]}")
        return found

    return caller


Reader = Annotated[Caller, Depends(_caller("read"), scope="function")]
Writer = Annotated[Caller, Depends(_caller("write"), scope="function")]
Admin = Annotated[Caller, Depends(_caller("admin"), scope="function")]
