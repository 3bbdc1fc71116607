from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from api import exports, retention
from api.bodies import Route
from api.errors import NotFound, problem
from api.pages import Cursor, Limit, Page
from api.security import Admin, Caller, Reader, Session
from api.teams import service
from api.teams.schemas import (
    AuditEventOut,
    AuditFilters,
    DueOut,
    DueRow,
    MemberChange,
    MemberIn,
    MemberOut,
    RetentionOut,
    RetentionWanted,
    SettingsChange,
    SettingsOut,
    TeamOut,
    TokenIn,
    TokenMade,
    TokenOut,
    UsageOut,
)
from store.models import DAYS_MAX
from store.retention import KINDS

router = APIRouter(prefix="/v1/teams", tags=["teams"], route_class=Route)


def _own(caller: Caller, team_id: uuid.UUID) -> None:
    if team_id != caller.team_id:
        raise NotFound("no such team")


@router.get("/me")
async def mine(session: Session, caller: Reader) -> TeamOut:
    """The caller's own team, and what the caller may do in it."""
    return await service.mine(session, caller)


@router.get("/{team_id}/usage")
async def usage(session: Session, caller: Reader, team_id: uuid.UUID) -> UsageOut:
    """What the team stores, beside what it may."""
    _own(caller, team_id)
    return await service.usage(session, caller)


@router.get("/{team_id}/settings")
async def settings_of(session: Session, caller: Reader, team_id: uuid.UUID) -> SettingsOut:
    """What is kept of captures that are uploaded, and how long the log is kept."""
    _own(caller, team_id)
    return await service.settings_of(session, caller)


@router.patch("/{team_id}/settings")
async def change_settings(session: Session, caller: Admin, team_id: uuid.UUID, wanted: SettingsChange) -> SettingsOut:
    """Changes what is kept of captures that are uploaded from now on. Those that are stored stay as they are."""
    _own(caller, team_id)
    return await service.change_settings(session, caller, wanted)


@router.get("/{team_id}/retention")
async def retention_of(session: Session, caller: Reader, team_id: uuid.UUID) -> RetentionOut:
    """For how long what is kept, and what is due now."""
    _own(caller, team_id)
    return await retention.of_team(session, caller)


@router.put("/{team_id}/retention")
async def change_retention(
    session: Session, caller: Admin, team_id: uuid.UUID, wanted: RetentionWanted
) -> RetentionOut:
    """Decides for how long what is kept. The sweeper deletes what is due from now on, whenever it was uploaded."""
    _own(caller, team_id)
    return await retention.change(session, caller, wanted)


_ForSoLong = Annotated[int | None, Query(ge=1, le=DAYS_MAX, description="Days; left out: for ever.")]


@router.get("/{team_id}/retention/due")
async def retention_due(
    session: Session,
    caller: Reader,
    team_id: uuid.UUID,
    raw_days: _ForSoLong = None,
    series_days: _ForSoLong = None,
    metrics_days: _ForSoLong = None,
) -> DueOut:
    """What would be deleted now if the team decided so. Nothing is changed."""
    _own(caller, team_id)
    wanted = RetentionWanted(raw_days=raw_days, series_days=series_days, metrics_days=metrics_days)
    return await retention.due(session, caller, retention.checked(wanted))


_DUE_COLUMNS = exports.columns_of(DueRow)


@router.get("/{team_id}/retention/due.{suffix}", responses={200: exports.FILE}, response_class=StreamingResponse)
async def export_retention_due(
    request: Request,
    session: Session,
    caller: Reader,
    team_id: uuid.UUID,
    suffix: exports.Suffix,
    raw_days: _ForSoLong = None,
    series_days: _ForSoLong = None,
    metrics_days: _ForSoLong = None,
) -> StreamingResponse:
    """What would be deleted now if the team decided so, as a file: a row for each kind."""
    found = await retention_due(session, caller, team_id, raw_days, series_days, metrics_days)
    rows = [DueRow(kind=kind, **getattr(found, kind).model_dump()) for kind in KINDS]
    table = exports.Table("due", _DUE_COLUMNS, request.url.query)
    return await exports.export(session, caller, suffix, table, None, exports.given(rows))


@router.get("/{team_id}/members")
async def list_members(session: Session, caller: Reader, team_id: uuid.UUID) -> list[MemberOut]:
    """The team's members, by name."""
    _own(caller, team_id)
    return await service.members(session, caller)


_MEMBER_COLUMNS = exports.columns_of(MemberOut)


@router.get("/{team_id}/members.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_members(
    session: Session, caller: Reader, team_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """The team's members as a file, by name."""
    _own(caller, team_id)
    table = exports.Table("members", _MEMBER_COLUMNS, "")
    rows = await service.members(session, caller)
    return await exports.export(session, caller, suffix, table, None, exports.given(rows))


@router.post("/{team_id}/members", status_code=201, responses={409: problem("A member has this name.")})
async def add_member(session: Session, caller: Admin, team_id: uuid.UUID, wanted: MemberIn) -> MemberOut:
    """Adds a member, who can do nothing before there is a token for them."""
    _own(caller, team_id)
    return await service.add_member(session, caller, wanted)


_LAST: dict[int | str, dict[str, Any]] = {409: problem("The team would have no owner any more.")}
_CLAIMED: dict[int | str, dict[str, Any]] = {
    409: problem("The team would have no owner any more, or the role follows from the sign-in provider's claims.")
}


@router.patch("/{team_id}/members/{member_id}", responses=_CLAIMED)
async def change_member(
    session: Session, caller: Admin, team_id: uuid.UUID, member_id: uuid.UUID, wanted: MemberChange
) -> MemberOut:
    """Gives a member another role, at once also for the tokens that there are."""
    _own(caller, team_id)
    return await service.change_member(session, caller, member_id, wanted)


@router.delete("/{team_id}/members/{member_id}", status_code=204, responses=_LAST)
async def remove_member(session: Session, caller: Admin, team_id: uuid.UUID, member_id: uuid.UUID) -> None:
    """Removes a member: all their tokens and sessions are refused from now on. Who comes by OpenID Connect is a member
    again after the next sign-in, while the claims say so."""
    _own(caller, team_id)
    await service.remove_member(session, caller, member_id)


@router.get("/{team_id}/tokens")
async def list_tokens(session: Session, caller: Admin, team_id: uuid.UUID) -> list[TokenOut]:
    """The team's tokens, oldest first, without the tokens themselves."""
    _own(caller, team_id)
    return await service.tokens(session, caller)


_TOKEN_COLUMNS = exports.columns_of(TokenOut)


@router.get("/{team_id}/tokens.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_tokens(
    session: Session, caller: Admin, team_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """The team's tokens as a file, oldest first, without the tokens themselves."""
    _own(caller, team_id)
    table = exports.Table("tokens", _TOKEN_COLUMNS, "")
    rows = await service.tokens(session, caller)
    return await exports.export(session, caller, suffix, table, None, exports.given(rows))


@router.post("/{team_id}/tokens", status_code=201, responses={409: problem("The member comes by OpenID Connect.")})
async def create_token(session: Session, caller: Admin, team_id: uuid.UUID, wanted: TokenIn) -> TokenMade:
    """Makes a token, which only this answer shows."""
    _own(caller, team_id)
    return await service.create_token(session, caller, wanted)


@router.delete("/{team_id}/tokens/{token_id}", status_code=204)
async def revoke_token(session: Session, caller: Admin, team_id: uuid.UUID, token_id: uuid.UUID) -> None:
    """Revokes a token: it is refused from now on."""
    _own(caller, team_id)
    await service.revoke_token(session, caller, token_id)


@router.get("/{team_id}/audit")
async def audit_events(
    session: Session,
    caller: Admin,
    team_id: uuid.UUID,
    wanted: Annotated[AuditFilters, Depends()],
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[AuditEventOut]:
    """What members did, the latest first. Who looks at the same thing within an hour is noted once."""
    _own(caller, team_id)
    return await service.audit_events(session, caller, cursor=cursor, limit=limit, wanted=wanted)


_AUDIT_COLUMNS = exports.columns_of(AuditEventOut)


@router.get("/{team_id}/audit.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_audit_events(
    request: Request,
    session: Session,
    caller: Admin,
    team_id: uuid.UUID,
    suffix: exports.Suffix,
    wanted: Annotated[AuditFilters, Depends()],
    limit: exports.Most = None,
) -> StreamingResponse:
    """What members did, the latest first, as a file."""
    _own(caller, team_id)
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("audit", _AUDIT_COLUMNS, request.url.query),
        None,
        lambda s, cursor, size: service.audit_events(s, caller, cursor=cursor, limit=size, wanted=wanted),
        limit,
    )
