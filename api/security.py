"""The caller of a request: its bearer token belongs to one team, and every query is scoped by `Caller.team_id`."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from api.errors import Forbidden, Unauthenticated
from store.database import async_engine
from store.models import Token
from store.tokens import PREFIX, token_hash


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

_bearer = HTTPBearer(auto_error=False, description="A token that begins with rw_")


@dataclass(frozen=True)
class Caller:
    team_id: uuid.UUID
    token_id: uuid.UUID
    scopes: frozenset[str]


async def authenticate(session: AsyncSession, token: str) -> Caller:
    """Raises Unauthenticated."""
    if not token.startswith(PREFIX):
        raise Unauthenticated(f"this is not a token of rewindow: those begin with {PREFIX}")
    now = func.clock_timestamp()
    row = (
        await session.execute(
            select(Token.id, Token.team_id, Token.scopes).where(
                Token.hash == token_hash(token),
                Token.revoked_at.is_(None),
                or_(Token.expires_at.is_(None), Token.expires_at > now),
            )
        )
    ).one_or_none()
    if row is None:
        raise Unauthenticated("the token is unknown, expired or revoked")
    return Caller(row.team_id, row.id, frozenset(row.scopes))


def _caller(scope: str) -> Callable[..., Awaitable[Caller]]:
    async def caller(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Caller:
        if credentials is None:
            raise Unauthenticated("a bearer token is required")
        # A transaction of its own, so that an upload, which may take hours, holds no database connection meanwhile.
        async with transaction() as session:
            found = await authenticate(session, credentials.credentials)
        if scope not in found.scopes:
            raise Forbidden(f"the token lacks the scope '{scope}'")
        return found

    return caller


Reader = Annotated[Caller, Depends(_caller("read"), scope="function")]
Writer = Annotated[Caller, Depends(_caller("write"), scope="function")]
Admin = Annotated[Caller, Depends(_caller("admin"), scope="function")]
