from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AwareDatetime, Field
from sqlalchemy import func, select, update

from api.bodies import Route
from api.errors import NotFound, Unprocessable
from api.schemas import Schema, Wanted
from api.security import Admin, Caller, Reader, Session
from store.models import Addresses, Payload, Team, Token
from store.tokens import new_token, token_hash

router = APIRouter(prefix="/v1/teams", tags=["teams"], route_class=Route)


class TeamOut(Schema):
    id: uuid.UUID
    name: str


class TokenOut(Schema):
    id: uuid.UUID
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


Scope = Literal["read", "write", "admin"]


def _only_read() -> list[Scope]:
    return ["read"]


class TokenIn(Wanted):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: list[Scope] = Field(default_factory=_only_read)
    expires_at: AwareDatetime | None = None


class TokenMade(TokenOut):
    token: str
    """The token itself, which is shown only in this answer."""


def _own(caller: Caller, team_id: uuid.UUID) -> None:
    if team_id != caller.team_id:
        raise NotFound("no such team")


@router.get("/me")
async def mine(session: Session, caller: Reader) -> TeamOut:
    """The caller's own team."""
    team = await session.get_one(Team, caller.team_id)
    return TeamOut(id=team.id, name=team.name)


class SettingsOut(Schema):
    """What the team keeps of the captures that it uploads from now on."""

    payload: Payload
    """cut: headers only; kept: the file as it is uploaded."""
    addresses: Addresses
    """replaced: by others, which have common prefixes where the addresses had them."""


class SettingsChange(Wanted):
    """What is to be changed; what is left out stays."""

    payload: Payload | None = None
    """cut: headers only; kept: the file as it is uploaded. Of later uploads."""
    addresses: Addresses | None = None
    """replaced: only together with payload that is cut. Of later uploads."""


@router.get("/{team_id}/settings")
async def settings_of(session: Session, caller: Reader, team_id: uuid.UUID) -> SettingsOut:
    """What is kept of captures that are uploaded."""
    _own(caller, team_id)
    team = await session.get_one(Team, team_id)
    return SettingsOut(**{n: getattr(team, n) for n in SettingsOut.model_fields})


@router.patch("/{team_id}/settings")
async def change_settings(session: Session, caller: Admin, team_id: uuid.UUID, wanted: SettingsChange) -> SettingsOut:
    """Changes what is kept of captures that are uploaded from now on. Those that are stored stay as they are."""
    _own(caller, team_id)
    team = await session.get_one(Team, team_id, with_for_update={"key_share": True})
    for name, value in wanted.model_dump(exclude_none=True).items():
        setattr(team, name, value)
    if (team.payload, team.addresses) == ("kept", "replaced"):
        raise Unprocessable("addresses can be replaced only where payload is cut: it may hold addresses, too")
    await session.flush()
    return SettingsOut(**{n: getattr(team, n) for n in SettingsOut.model_fields})


@router.get("/{team_id}/tokens")
async def list_tokens(session: Session, caller: Admin, team_id: uuid.UUID) -> list[TokenOut]:
    """The team's tokens, oldest first, without the tokens themselves."""
    _own(caller, team_id)
    rows = await session.scalars(select(Token).where(Token.team_id == team_id).order_by(Token.created_at))
    return [TokenOut(**{n: getattr(t, n) for n in TokenOut.model_fields}) for t in rows]


@router.post("/{team_id}/tokens", status_code=201)
async def create_token(session: Session, caller: Admin, team_id: uuid.UUID, wanted: TokenIn) -> TokenMade:
    """Makes a token, which only this answer shows."""
    _own(caller, team_id)
    if wanted.expires_at and wanted.expires_at <= datetime.now(UTC):
        raise Unprocessable("expires_at lies in the past")
    token = new_token()
    made = Token(
        id=uuid.uuid4(),
        team_id=team_id,
        name=wanted.name,
        hash=token_hash(token),
        scopes=sorted(set(wanted.scopes)),
        expires_at=wanted.expires_at,
    )
    session.add(made)
    await session.flush()
    await session.refresh(made)
    return TokenMade(**{n: getattr(made, n) for n in TokenOut.model_fields}, token=token)


@router.delete("/{team_id}/tokens/{token_id}", status_code=204)
async def revoke_token(session: Session, caller: Admin, team_id: uuid.UUID, token_id: uuid.UUID) -> None:
    """Revokes a token: it is refused from now on."""
    _own(caller, team_id)
    changed = await session.execute(
        update(Token)
        .where(Token.id == token_id, Token.team_id == team_id, Token.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
        .returning(Token.id)
    )
    if changed.one_or_none() is None:
        raise NotFound("no such token")
