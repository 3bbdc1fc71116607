from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from api.connections.schemas import Address, UploaderOut
from api.pages import Page
from api.schemas import Schema, Wanted
from api.selections import CaptureSelection
from store.models import ConnectionKind, State, Verdict


class OddityOut(Schema):
    """A kind of damage in the capture, and its first occurrence. None: not known, or analysed before it was kept."""

    count: int
    first_offset: int | None = None
    """Bytes from the file's start."""
    first_record: int | None = None
    """Number of the record, from 1 on."""
    first_ns: int | None = None
    """Nanoseconds since 1970."""
    file: int = 0
    """Of several captures that are one observation, which one; from 0 on."""


class FindingOut(Schema):
    """One thing that is wrong with a capture."""

    what: str
    count: int
    since_s: float | None
    """After the capture's start."""
    packet: int | None
    """Number of the first record that shows it, from 1 on."""
    unreliable: list[str]
    """Results that rest on it."""
    meaning: str
    file: int = 0


class QualityOut(Schema):
    """About the capture as a file: how much of what was on the wire it holds. Each connection has its own verdict."""

    verdict: Verdict
    findings: list[FindingOut]


class VerdictShare(Schema):
    """The connections that have one verdict."""

    connections: int
    bytes: int
    byte_share: float | None
    """Part of the bytes of all connections, 0 to 1; None where they have none."""


class ConnectionQuality(Schema):
    """How many connections are good, limited and poor, and how many of the capture's bytes are theirs."""

    good: VerdictShare
    limited: VerdictShare
    poor: VerdictShare


class BottlenecksOut(Schema):
    """How shared bottlenecks were found, and of how many flows it is not known which one they cross."""

    method: str
    undecided: int
    not_judged: int


class SummaryOut(Schema):
    """What was found in the whole capture. Times in nanoseconds since 1970.

    Fields that are None are of captures that were analysed before this was looked at.
    """

    packets: int
    tcp_packets: int
    bytes: int
    duration_s: float
    first_ns: int
    last_ns: int
    link_types: list[str]
    interfaces: int
    oddities: dict[str, OddityOut]
    vantage: str
    """Where it was captured: sender, receiver, middle or unknown."""
    rows: int
    """How many rows the series of all its connections have."""
    decoded_by: dict[str, str] = Field(default_factory=dict)
    """Link types that another program decoded, and which."""
    quality: QualityOut | None = None
    connection_quality: ConnectionQuality | None = None
    bottlenecks: BottlenecksOut | None = None


class CaptureOut(Schema):
    id: uuid.UUID
    filename: str
    bytes: int
    sha256: str
    payload: Literal["kept", "cut"]
    """Of what is stored: kept: the file as it was uploaded; cut: its headers only."""
    addresses: Literal["kept", "replaced"]
    """replaced: by others, which have common prefixes where the addresses had them."""
    tags: dict[str, str]
    notes: str
    """What the team has written about it."""
    uploader: UploaderOut | None
    """Who uploaded it first; null: uploaded before that was kept."""
    state: State
    stage: str
    progress: float
    """0 to 1."""
    error: str | None
    created_at: datetime
    uploaded_at: datetime
    """When its bytes were uploaded the last time: retention counts from then."""
    raw_deleted_at: datetime | None
    """When retention deleted the stored copy; null: it did not. An upload of the same bytes stores it again."""
    series_deleted_at: datetime | None
    """When retention deleted the series of the analysis; null: it did not. Its metrics stay."""
    not_kept: str | None
    """Why nothing of it is stored: payload was to be cut, and it could not be read; null: something was stored."""
    analysed_at: datetime | None
    summary: SummaryOut | None
    """None before the analysis is done."""
    connections: int | None
    """The number of connections; None before the analysis is done."""


def _is_tag(pair: tuple[str, str]) -> bool:
    key, value = pair
    return bool(key) and "=" not in key and len(key) + len(value) < 200 and (key + value).isprintable()


def _checked(tags: dict[str, str]) -> dict[str, str]:
    """Raises ValueError."""
    for pair in tags.items():
        if not _is_tag(pair):
            wrong = "is empty, has 200 characters or more, or has '=' or a control character"
            raise ValueError(f"tag '{pair[0][:40]}' {wrong}")
    return tags


TAGS_MAX = 64
Tags = Annotated[dict[str, str], Field(max_length=TAGS_MAX), AfterValidator(_checked)]


class CaptureChange(Wanted):
    """What is to be changed; what is left out stays."""

    tags: Tags | None = None
    """Take the place of all tags that there are, also of those that somebody has added meanwhile."""
    add_tags: Tags | None = None
    """Are added to the tags that there are; one whose key is there gets the new value. Not together with `tags`."""
    remove_tags: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=TAGS_MAX)] | None = None
    """Keys of tags that are removed, where they are there. Not together with `tags`."""
    notes: Annotated[str, Field(max_length=10_000)] | None = None
    """Take the place of the notes that there are."""
    notes_before: Annotated[str, Field(max_length=10_000)] | None = None
    """The notes that `notes` were made from. Where there are others by now, nothing is changed: the answer is 409."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.tags is not None and (self.add_tags is not None or self.remove_tags is not None):
            raise ValueError("give either tags, which replace all, or add_tags and remove_tags")
        if both := set(self.add_tags or {}) & set(self.remove_tags or []):
            raise ValueError(f"tag '{min(both)[:40]}' is both added and removed")
        return self


Cursor = Annotated[str | None, Field(max_length=200)]


class CapturesChange(Wanted):
    """A change of the tags of many captures."""

    selection: CaptureSelection
    """Which captures. At least one filter or id is needed, or `everything`."""
    add_tags: Tags = Field(default_factory=dict)
    """Are added to the tags that there are; one whose key is there gets the new value."""
    remove_tags: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=TAGS_MAX)] = Field(
        default_factory=list
    )
    """Keys of tags that are removed, where they are there."""
    cursor: Cursor = None
    """`next_cursor` of the part before."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if not self.add_tags and not self.remove_tags:
            raise ValueError("give add_tags or remove_tags")
        if both := set(self.add_tags) & set(self.remove_tags):
            raise ValueError(f"tag '{min(both)[:40]}' is both added and removed")
        return self


class CapturesDeletion(Wanted):
    selection: CaptureSelection
    """Which captures. At least one filter or id is needed, or `everything`."""
    cursor: Cursor = None
    """`next_cursor` of the part before."""


class FairShareOut(Schema):
    """What a member got over the time that it shared with others, beside its max-min fair share."""

    limited_by: Literal["network", "demand"]
    """network: it had a loss recovery, a timeout or an ECN echo, and is owed all it can get; demand: it is owed no more
    than it sent."""
    shared_s: float
    """Seconds that it shared with others."""
    goodput_bps: float
    """What it got then, bits per second: its bytes without those of the time that it was alone."""
    fair_bps: float
    """Its max-min fair share then, bits per second."""
    ratio: float
    """goodput_bps over fair_bps: above 1 it took from the others."""


class GroupMemberOut(Schema):
    """A connection of a group, and when it lived."""

    connection_id: uuid.UUID
    src: Address
    """The sender of its main subflow, which sent most bytes."""
    sport: int
    dst: Address
    dport: int
    verdict: Verdict
    """How far its results can be relied on."""
    begin_s: float
    """Seconds from the capture's first packet to the connection's first one."""
    duration_s: float


class FairnessOut(Schema):
    bottleneck: str
    method: str
    """How it was found that its members share a bottleneck: sbd, declared or interface."""
    connections: list[int]
    kinds: list[ConnectionKind]
    goodput_bps: list[float]
    jain: float
    mptcp_to_tcp_ratio: float | None
    declared: bool
    verdict: Verdict
    capacity_bps: float | None
    """What the members have of the bottleneck together, bits per second: their bytes over the time in which a member
    that the network limits lives; null where there is none, or analysed before that was computed."""
    shares: list[FairShareOut | None]
    """Of each member; null where nothing tells it. Empty: analysed before that was computed."""
    members: list[GroupMemberOut]
    """Of the first members, in the order of `connections`: 40 of each group, and 800 of an answer."""


class SharingRow(Schema):
    """A member of a group, of a file: the group's columns, then its own."""

    bottleneck: str
    method: str
    declared: bool
    group_verdict: Verdict
    jain: float
    mptcp_to_tcp_ratio: float | None
    capacity_bps: float | None
    connection: int
    """Its number in the capture."""
    kind: ConnectionKind
    goodput_bps: float
    """Of its whole life, bits per second."""
    member: GroupMemberOut
    share: FairShareOut | None
    """Null where nothing tells it."""


class CaptureDetail(CaptureOut):
    fairness: list[FairnessOut]
    """Groups of connections that share a bottleneck, as declared or ordered by its name: the first 20."""
    fairness_total: int
    """How many such groups the capture has."""
    fairness_cursor: str | None
    """Of the groups after `fairness`, for /v1/captures/ID/fairness; null: these are all."""


class CapturesFound(Page[CaptureOut]):
    """A page of captures, and how many the filters select in all."""

    total: int
    """Captures that the filters select, on all pages."""
    total_is_exact: bool
    """False: there are more than 10,000, and `total` is an estimate."""


class CaptureReceived(CaptureDetail):
    already_here: bool
    """Were the same bytes uploaded before? The capture is then the earlier one."""
    restored: bool
    """Had retention deleted the stored copy of the earlier one? This upload is it now, and all results have stayed."""
