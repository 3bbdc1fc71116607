from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AwareDatetime, Field

from api.audit import Action
from api.schemas import Schema, Wanted
from store.models import DAYS_MAX, Addresses, Downloads, Payload, Role

Name = Annotated[str, Field(min_length=1, max_length=100)]
Scope = Literal["read", "write", "admin"]


class OtherTeam(Schema):
    id: uuid.UUID
    name: str


class TeamOut(Schema):
    id: uuid.UUID
    name: str
    member: str
    """Who asks: the name of the token's member."""
    role: Role
    """Of this member."""
    scopes: list[Scope]
    """What the token may do, as far as the member's role has it."""
    downloads: Downloads
    """May members download stored captures?"""
    others: list[OtherTeam]
    """Further teams of a person who has signed in by OpenID Connect; `PATCH /v1/session` leads there."""
    events_since: str
    """Where the team's events are now: `GET /v1/events?since=` tells what has changed after this answer."""


class UsageOut(Schema):
    """What the team stores and does, beside what it may (docs/decisions/limits.md)."""

    captures: int
    """How many are stored."""
    bytes: int
    """Of all captures, as they are stored. Copies that retention has deleted do not count."""
    bytes_max: int
    """What all captures of the team may have together, uploads under way included."""
    jobs: int
    """That wait or run."""
    jobs_max: int
    """How many of its jobs may wait or run."""


class SettingsOut(Schema):
    """What the team keeps of the captures that it uploads from now on, who gets what is kept, and for how long it
    keeps its log."""

    payload: Payload
    """cut: headers only; kept: the file as it is uploaded."""
    addresses: Addresses
    """replaced: by others, which have common prefixes where the addresses had them."""
    downloads: Downloads
    """forbidden: nobody gets the stored copy of a capture, not even an owner."""
    audit_days: int
    """Days for which the log of actions is kept."""


class SettingsChange(Wanted):
    """What is to be changed; what is left out stays."""

    payload: Payload | None = None
    """cut: headers only; kept: the file as it is uploaded. Of later uploads."""
    addresses: Addresses | None = None
    """replaced: only together with payload that is cut. Of later uploads."""
    downloads: Downloads | None = None
    """May members download stored captures? It concerns those that are stored, too."""
    audit_days: Annotated[int, Field(ge=30, le=3650)] | None = None
    """Days for which the log of actions is kept."""


Days = Annotated[int | None, Field(ge=1, le=DAYS_MAX)]


class RetentionWanted(Wanted):
    """For how many days the team keeps what. null: for ever.

    The age counts from the last upload of a capture's bytes; that of a replay's series and of segments from the request
    for them, where that is later.
    """

    raw_days: Days
    """Stored copies of captures. Metrics and series stay when one is deleted."""
    series_days: Days
    """What charts are drawn from: series of ACKs, and segments. Metrics stay."""
    metrics_days: Days
    """Captures with all that was derived from them; at least as long as the other two."""


class DueOfKind(Schema):
    """What would be deleted now."""

    captures: int
    """How many captures it concerns."""
    bytes: int
    """Of the objects in the store."""
    bytes_are_exact: bool
    """False: an earlier version stored some of the series, and their sizes are not counted."""
    oldest: datetime | None
    """When the oldest of them was uploaded; null where there is none."""
    newest: datetime | None
    """When the newest of them was uploaded."""
    at_work: int
    """Captures that are as old, but have jobs or checks that wait or run: they are left until these have ended."""


class DueOut(Schema):
    raw: DueOfKind
    """Stored copies of captures that stay."""
    series: DueOfKind
    """Series of captures that stay."""
    metrics: DueOfKind
    """Whole captures, their stored copies and series included."""


class DueRow(DueOfKind):
    """Of a file."""

    kind: Literal["raw", "series", "metrics"]
    """Stored copies of captures that stay, series of captures that stay, or whole captures."""


class RetentionOut(Schema):
    """For how long the team keeps what, and what is due. The sweeper deletes it within minutes."""

    raw_days: int | None
    """Stored copies of captures; null: for ever."""
    series_days: int | None
    """What charts are drawn from; null: for ever."""
    metrics_days: int | None
    """Captures with all that was derived from them; null: for ever."""
    due: DueOut
    """What would be deleted now."""


class MemberOut(Schema):
    id: uuid.UUID
    name: str
    role: Role
    """viewer: reads; analyst: uploads, asks and deletes, too; owner: decides about members, tokens, settings, too."""
    created_at: datetime
    confirmed_at: datetime | None
    """When the OpenID Connect provider last said that the person has the role; null: owners give it."""


class MemberIn(Wanted):
    name: Name
    """Of a person or a program; no other member of the team has it."""
    role: Role = "viewer"
    """viewer: reads; analyst: uploads, asks and deletes, too; owner: decides about members, tokens, settings, too."""


class MemberChange(Wanted):
    role: Role
    """From now on; tokens that have more scopes do not have them any more."""


class TokenOut(Schema):
    id: uuid.UUID
    name: str
    member_id: uuid.UUID
    """Whose it is."""
    member: str
    """The member's name."""
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def _only_read() -> list[Scope]:
    return ["read"]


class TokenIn(Wanted):
    name: Name
    member_id: uuid.UUID | None = None
    """Whose it is to be; left out: the caller's own."""
    scopes: Annotated[list[Scope], Field(min_length=1)] = Field(default_factory=_only_read)
    """At least one, of those that the member's role has."""
    expires_at: AwareDatetime | None = None


class TokenMade(TokenOut):
    token: str
    """The token itself, which is shown only in this answer."""


@dataclass(frozen=True)
class AuditFilters:
    """Query parameters that choose events of the log; all hold together."""

    action: Action | None = None
    member: Annotated[str | None, Query(description="Only events of members with this name.")] = None
    since: Annotated[AwareDatetime | None, Query(description="Only events of this time or later (RFC 3339).")] = None
    until: Annotated[AwareDatetime | None, Query(description="Only events before this time (RFC 3339).")] = None


class AuditEventOut(Schema):
    id: int
    at: datetime
    """When it was done."""
    member: str
    """Who did it: the member's name then."""
    token_id: uuid.UUID | None
    """With which token."""
    action: Action
    object_id: uuid.UUID | None
    """With what: a capture, a connection, a token, a member."""
    object_name: str | None
    """Its name then."""
    detail: dict[str, Any]
    """More about the action, such as what was exported or which settings were changed."""
