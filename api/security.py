"""The caller of a request: its token belongs to one team, and every query is scoped by `Caller.team_id`.

A script sends the token with each request (`Authorization: Bearer`). A browser sends it once (api/sessions) and has a
cookie instead. What a cookie may change is refused to pages of other origins.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection

from api.errors import Forbidden, Unauthenticated
from store.database import async_engine
from store.models import BrowserSession, Member, Role, Token
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


def cookie_name(request: HTTPConnection) -> str:
    """A browser sends cookies to all ports of a host: those of two services there must have two names."""
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:  # no number
        port = None
    return COOKIE if port is None else f"{COOKIE}_{port}"


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


async def authenticate(session: AsyncSession, token: str) -> Caller:
    """Raises Unauthenticated."""
    if not token.startswith(PREFIX):
        raise Unauthenticated(f"this is not a token of rewindow: those begin with {PREFIX}")
    caller = await _holder(session, Token.hash == token_hash(token))
    if caller is None:
        raise Unauthenticated("the token is unknown, expired or revoked")
    return caller


async def _holder(session: AsyncSession, which: ColumnElement[bool]) -> Caller | None:
    """Of the token for which this holds, unless it was revoked or has expired."""
    now = func.clock_timestamp()
    valid = (Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), Token.expires_at > now))
    query = (
        select(Token.id, Token.team_id, Token.scopes, Token.member_id, Member.name, Member.role)
        .join(Member, Member.id == Token.member_id)
        .where(which, *valid, Member.removed_at.is_(None))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return None
    scopes = frozenset(row.scopes) & frozenset(SCOPES_OF[row.role])
    return Caller(row.team_id, row.id, row.member_id, row.name, row.role, scopes)


async def _signed_in(session: AsyncSession, secret: str) -> Caller:
    """Raises Unauthenticated."""
    of_it = select(BrowserSession.token_id).where(
        BrowserSession.hash == token_hash(secret), BrowserSession.expires_at > func.clock_timestamp()
    )
    caller = await _holder(session, Token.id.in_(of_it))
    if caller is None:
        raise Unauthenticated("the session has ended: sign in again")
    return caller


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
        # A transaction of its own, so that an upload, which may take hours, holds no database connection meanwhile.
        async with transaction() as session:
            if credentials is not None:
                found = await authenticate(session, credentials.credentials)
            elif secret is not None:
                if request.method not in _READING:
                    refuse_other_origins(request)
                found = await _signed_in(session, secret)
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
