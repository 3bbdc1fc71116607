"""Members whose team and role follow from what a provider says of a person: the claims win."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits
from api.openid.provider import Identity
from api.security import Caller
from store.models import Member, Team, Token
from store.tokens import SCOPES, SCOPES_OF, new_token, token_hash

_NAME_MAX = 80


def is_of(issuer: str, subject: str) -> tuple[ColumnElement[bool], ...]:
    """Of members: those that this person is."""
    return (Member.issuer == issuer, Member.subject == subject, Member.removed_at.is_(None))


async def admit(session: AsyncSession, issuer: str, person: Identity) -> dict[str, Caller]:
    """Makes the person a member of exactly the teams that the claims give, and returns who they are in each, by the
    team's name. Teams that do not exist are made."""
    for name in sorted(person.teams):
        await session.execute(insert(Team).values(id=uuid.uuid4(), name=name).on_conflict_do_nothing())
    rows = await session.execute(select(Team.name, Team.id).where(Team.name.in_(person.teams)))
    teams: dict[str, uuid.UUID] = {name: team_id for name, team_id in rows}
    was_in = await session.scalars(select(Member.team_id).where(*is_of(issuer, person.subject)))
    for team_id in sorted({*teams.values(), *was_in}):
        await limits.hold_team(session, team_id)
    present = {m.team_id: m for m in await session.scalars(select(Member).where(*is_of(issuer, person.subject)))}
    for team_id, member in present.items():
        if team_id not in teams.values():
            await _dismiss(session, member)
    return {name: await _admit(session, issuer, person, name, id, present.get(id)) for name, id in teams.items()}


async def _admit(
    session: AsyncSession, issuer: str, person: Identity, team: str, team_id: uuid.UUID, member: Member | None
) -> Caller:
    role = person.teams[team]
    before = member.role if member else None
    now = func.clock_timestamp()
    if member is None:
        name = await _free_name(session, team_id, person.names)
        member = Member(
            id=uuid.uuid4(), team_id=team_id, name=name, role=role, issuer=issuer, subject=person.subject,
            confirmed_at=now,
        )  # fmt: skip
        session.add(member)
        await session.flush()
    else:
        await session.execute(update(Member).where(Member.id == member.id).values(role=role, confirmed_at=now))
    caller = Caller(team_id, await _token(session, member), member.id, member.name, role, frozenset(SCOPES_OF[role]))
    if before is None:
        await audit.note(session, caller, "add_member", member.id, member.name, role=role, by="claims")
    elif before != role:
        told: dict[str, Any] = {"before": before, "after": role, "by": "claims"}
        await audit.note(session, caller, "change_member", member.id, member.name, **told)
    return caller


async def _dismiss(session: AsyncSession, member: Member) -> None:
    now = func.clock_timestamp()
    caller = Caller(member.team_id, await _token(session, member), member.id, member.name, member.role, frozenset())
    await session.execute(update(Member).where(Member.id == member.id).values(removed_at=now))
    of_member = (Token.member_id == member.id, Token.revoked_at.is_(None))
    await session.execute(update(Token).where(*of_member).values(revoked_at=now))
    await audit.note(session, caller, "remove_member", member.id, member.name, role=member.role, by="claims")


async def _token(session: AsyncSession, member: Member) -> uuid.UUID:
    """The token of the member's sessions, whose text nobody has ever seen. A revoked one is followed by another."""
    of_member = select(Token.id).where(Token.member_id == member.id, Token.revoked_at.is_(None)).limit(1)
    found = await session.scalar(of_member)
    if found is None:
        found = uuid.uuid4()
        values = {"id": found, "team_id": member.team_id, "member_id": member.id, "name": member.name}
        await session.execute(insert(Token).values(**values, hash=token_hash(new_token()), scopes=list(SCOPES)))
    return found


async def _free_name(session: AsyncSession, team_id: uuid.UUID, names: Iterable[str]) -> str:
    """The first of these names, or with a number: nobody can have the name of another member."""
    cleaned = ("".join(c for c in unicodedata.normalize("NFKC", n) if c.isprintable()).strip() for n in names)
    name = next((n for n in cleaned if n), "nameless")[:_NAME_MAX]
    taken = set(
        await session.scalars(select(Member.name).where(Member.team_id == team_id, Member.removed_at.is_(None)))
    )
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
