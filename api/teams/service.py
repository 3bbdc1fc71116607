from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, limits
from api.errors import Conflict, NotFound, Unprocessable
from api.pages import Keyset, Page
from api.security import Caller
from api.teams.schemas import (
    AuditEventOut,
    AuditFilters,
    MemberChange,
    MemberIn,
    MemberOut,
    OtherTeam,
    Scope,
    SettingsChange,
    SettingsOut,
    TeamOut,
    TokenIn,
    TokenMade,
    TokenOut,
    UsageOut,
)
from store import changes
from store.changes import Cursor
from store.models import AuditEvent, Capture, Job, Member, State, Team, Token
from store.settings import settings
from store.tokens import SCOPES_OF, new_token, token_hash

_NEWEST_FIRST = Keyset((AuditEvent.id,), descending=True)


async def mine(session: AsyncSession, caller: Caller) -> TeamOut:
    team = await session.get_one(Team, caller.team_id)
    scopes = cast(list[Scope], sorted(caller.scopes))
    others = select(Team.id, Team.name).join(Member, Member.team_id == Team.id).where(*same_person(caller))
    rows = await session.execute(others.where(Team.id != caller.team_id).order_by(Team.name))
    return TeamOut(
        id=team.id, name=team.name, member=caller.member, role=caller.role, scopes=scopes,
        downloads=team.downloads,
        others=[OtherTeam.model_validate(row) for row in rows],
        events_since=str(Cursor(*(await session.execute(changes.NOW)).one())),
    )  # fmt: skip


def same_person(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    """Of members: those that the caller is, in all teams, by what an OpenID Connect provider says. Others are none."""
    own = select(Member.issuer, Member.subject).where(Member.id == caller.member_id)
    return (tuple_(Member.issuer, Member.subject).in_(own), Member.removed_at.is_(None))


def _is_from_claims(member: Member) -> bool:
    return member.subject is not None


async def usage(session: AsyncSession, caller: Caller) -> UsageOut:
    own = Capture.team_id == caller.team_id
    there = Capture.raw_deleted_at.is_(None)
    stored = select(func.count(), func.coalesce(func.sum(Capture.bytes).filter(there), 0)).where(own)
    captures, stored_bytes = (await session.execute(stored)).one()
    waiting = select(func.count()).where(Job.team_id == caller.team_id, Job.state.in_((State.queued, State.running)))
    return UsageOut(
        captures=captures,
        bytes=int(stored_bytes),
        bytes_max=settings().team_bytes_max,
        jobs=await session.scalar(waiting) or 0,
        jobs_max=settings().team_jobs_max,
    )


async def settings_of(session: AsyncSession, caller: Caller) -> SettingsOut:
    return SettingsOut.model_validate(await session.get_one(Team, caller.team_id))


async def change_settings(session: AsyncSession, caller: Caller, wanted: SettingsChange) -> SettingsOut:
    """Raises Unprocessable."""
    await limits.hold_team(session, caller.team_id)
    team = await session.get_one(Team, caller.team_id)
    changes = {n: v for n, v in wanted.model_dump(exclude_none=True).items() if getattr(team, n) != v}
    before = {n: getattr(team, n) for n in changes}
    for name, value in changes.items():
        setattr(team, name, value)
    if (team.payload, team.addresses) == ("kept", "replaced"):
        raise Unprocessable("addresses can be replaced only where payload is cut: it may hold addresses, too")
    await session.flush()
    if changes:
        await audit.note(session, caller, "change_settings", before=before, after=changes)
    return SettingsOut.model_validate(team)


def _present(caller: Caller) -> Select[Member]:
    return select(Member).where(Member.team_id == caller.team_id, Member.removed_at.is_(None))


async def members(session: AsyncSession, caller: Caller) -> list[MemberOut]:
    rows = await session.scalars(_present(caller).order_by(Member.name))
    return [MemberOut.model_validate(m) for m in rows]


async def add_member(session: AsyncSession, caller: Caller, wanted: MemberIn) -> MemberOut:
    """Raises Conflict."""
    await limits.hold_team(session, caller.team_id)
    if await session.scalar(_present(caller).where(Member.name == wanted.name)):
        raise Conflict(f"the team has a member {wanted.name}")
    member = Member(id=uuid.uuid4(), team_id=caller.team_id, name=wanted.name, role=wanted.role)
    session.add(member)
    await session.flush()
    await session.refresh(member)
    await audit.note(session, caller, "add_member", member.id, member.name, role=member.role)
    return MemberOut.model_validate(member)


async def _member(session: AsyncSession, caller: Caller, member_id: uuid.UUID) -> Member:
    """Raises NotFound."""
    member = await session.scalar(_present(caller).where(Member.id == member_id))
    if member is None:
        raise NotFound("no such member")
    return member


async def _keep_an_owner(session: AsyncSession, caller: Caller, member: Member) -> None:
    """The caller holds the team, so that two owners cannot remove one another. Raises Conflict."""
    another = _present(caller).where(Member.role == "owner", Member.id != member.id).limit(1)
    if member.role == "owner" and await session.scalar(another) is None:
        raise Conflict(f"{member.name} is the team's only owner: make another member an owner before")


async def change_member(session: AsyncSession, caller: Caller, member_id: uuid.UUID, wanted: MemberChange) -> MemberOut:
    """Raises NotFound, Conflict."""
    await limits.hold_team(session, caller.team_id)
    member = await _member(session, caller, member_id)
    if _is_from_claims(member):
        raise Conflict(f"the role of {member.name} follows from what the sign-in provider says: change it there")
    if wanted.role != member.role:
        await _keep_an_owner(session, caller, member)
        before, member.role = member.role, wanted.role
        await session.flush()
        await audit.note(session, caller, "change_member", member.id, member.name, before=before, after=member.role)
    return MemberOut.model_validate(member)


async def remove_member(session: AsyncSession, caller: Caller, member_id: uuid.UUID) -> None:
    """Raises NotFound, Conflict."""
    await limits.hold_team(session, caller.team_id)
    member = await _member(session, caller, member_id)
    if not _is_from_claims(member):
        await _keep_an_owner(session, caller, member)
    now = func.clock_timestamp()
    await session.execute(update(Member).where(Member.id == member_id).values(removed_at=now))
    of_member = (Token.member_id == member_id, Token.revoked_at.is_(None))
    await session.execute(update(Token).where(*of_member).values(revoked_at=now))
    await audit.note(session, caller, "remove_member", member.id, member.name, role=member.role)


def _token_out(token: Token, member: str) -> dict[str, Any]:
    return {**{n: getattr(token, n) for n in TokenOut.model_fields if n != "member"}, "member": member}


async def tokens(session: AsyncSession, caller: Caller) -> list[TokenOut]:
    query = select(Token, Member.name).join(Member, Member.id == Token.member_id)
    rows = await session.execute(query.where(Token.team_id == caller.team_id).order_by(Token.created_at))
    return [TokenOut(**_token_out(row.Token, row.name)) for row in rows]


async def create_token(session: AsyncSession, caller: Caller, wanted: TokenIn) -> TokenMade:
    """Raises NotFound, Unprocessable, Conflict."""
    if wanted.expires_at and wanted.expires_at <= datetime.now(UTC):
        raise Unprocessable("expires_at lies in the past")
    member = await _member(session, caller, wanted.member_id or caller.member_id)
    if _is_from_claims(member):
        raise Conflict(
            f"{member.name} comes by the sign-in provider, and a token would last longer than what it says:"
            " add a member for what needs a token"
        )
    beyond = sorted(set(wanted.scopes) - set(SCOPES_OF[member.role]))
    if beyond:
        raise Unprocessable(f"{member.name} has the role {member.role}, which has no scope '{beyond[0]}'")
    token = new_token()
    made = Token(
        id=uuid.uuid4(),
        team_id=caller.team_id,
        member_id=member.id,
        name=wanted.name,
        hash=token_hash(token),
        scopes=sorted(set(wanted.scopes)),
        expires_at=wanted.expires_at,
    )
    session.add(made)
    await session.flush()
    await session.refresh(made)
    await audit.note(session, caller, "make_token", made.id, made.name, of=member.name, scopes=made.scopes)
    return TokenMade(**_token_out(made, member.name), token=token)


async def revoke_token(session: AsyncSession, caller: Caller, token_id: uuid.UUID) -> None:
    """Raises NotFound."""
    name = await session.scalar(
        update(Token)
        .where(Token.id == token_id, Token.team_id == caller.team_id, Token.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
        .returning(Token.name)
    )
    if name is None:
        raise NotFound("no such token")
    await audit.note(session, caller, "revoke_token", token_id, name)


async def audit_events(
    session: AsyncSession, caller: Caller, *, cursor: str | None, limit: int, wanted: AuditFilters
) -> Page[AuditEventOut]:
    """Raises BadRequest."""
    query = select(AuditEvent).where(AuditEvent.team_id == caller.team_id)
    if wanted.action is not None:
        query = query.where(AuditEvent.action == wanted.action)
    if wanted.member is not None:
        query = query.where(AuditEvent.member == wanted.member)
    if wanted.since is not None:
        query = query.where(AuditEvent.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(AuditEvent.at < wanted.until)
    return await _NEWEST_FIRST.page(
        session, query, cursor, limit, lambda row: AuditEventOut.model_validate(row.AuditEvent)
    )
