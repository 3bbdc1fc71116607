"""The tables. Times are UTC; windows are segments; rates bits per second."""

from __future__ import annotations

import enum
import uuid
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import (
    REAL,
    BigInteger,
    CheckConstraint,
    Computed,
    DateTime,
    Enum,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INET, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

Verdict = Literal["good", "limited", "poor"]
"""How far the results of a capture, connection or subflow can be relied on."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The best one first."""
ConnectionKind = Literal["tcp", "mptcp"]
Payload = Literal["kept", "cut"]
Addresses = Literal["kept", "replaced"]
Downloads = Literal["allowed", "forbidden"]
Statistic = Literal[
    "count", "mean", "min", "max", "p5", "p25", "p50", "p75", "p95", "p99", "unreliable_share",
]  # fmt: skip
"""Of a measure's values. unreliable_share: the part of the values that are left out as unreliable."""
Condition = Literal["above", "below", "rises", "falls", "changes"]
"""above, below: a threshold in the measure's unit. rises, falls, changes: by more than so many percent of what it was
in the window before."""
Clock = Literal["captured", "uploaded"]
AlertState = Literal["new", "ok", "pending", "firing", "too_few", "error", "off"]
"""new: not evaluated since it was made or changed; pending: its condition holds, not yet often enough in a row;
too_few: a window has too few connections."""
DeliveryState = Literal["waiting", "delivered", "given_up"]
Role = Literal["viewer", "analyst", "owner"]
"""viewer: reads; analyst: uploads, asks and deletes, too; owner: decides about members, tokens and settings, too."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        list[str]: ARRAY(String),
        list[float]: ARRAY(Float(53)),
        int: BigInteger,
        Verdict: String,
        ConnectionKind: String,
        Payload: String,
        Addresses: String,
        Downloads: String,
        Role: String,
        Statistic: String,
        Condition: String,
        Clock: String,
        AlertState: String,
        DeliveryState: String,
    }


class State(enum.StrEnum):
    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"


class JobKind(enum.StrEnum):
    analyze = "analyze"
    replay = "replay"
    check = "check"
    whatif = "whatif"
    fit = "fit"
    segments = "segments"


class CheckState(enum.StrEnum):
    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


def _enum(kind: type[enum.Enum], name: str) -> Enum:
    return Enum(kind, name=name, values_callable=lambda e: [m.value for m in e])


_state = _enum(State, "state")


def _id() -> Mapped[uuid.UUID]:
    return mapped_column(primary_key=True, default=uuid.uuid4)


def _verdicts() -> CheckConstraint:
    return CheckConstraint("verdict IN ('good', 'limited', 'poor')", name="verdict")


def _created() -> Mapped[datetime]:
    return mapped_column(server_default=func.clock_timestamp())


BIGINT_MAX = 2**63 - 1
"""Of a column. In nanoseconds since 1970: in the year 2262."""
_RANDOM = text("uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())")
"""244 random bits."""


DAYS_MAX = 36_500
"""The longest time to keep something that is not for ever."""
_DAYS = ("raw_days", "series_days", "metrics_days")


class Team(Base):
    __tablename__ = "teams"
    __table_args__ = (
        CheckConstraint("octet_length(secret) = 32", name="secret"),
        CheckConstraint("payload IN ('kept', 'cut')", name="payload"),
        CheckConstraint("addresses = 'kept' OR (addresses = 'replaced' AND payload = 'cut')", name="addresses"),
        CheckConstraint("downloads IN ('allowed', 'forbidden')", name="downloads"),
        CheckConstraint("audit_days BETWEEN 30 AND 3650", name="audit_days"),
        *(CheckConstraint(f"{days} BETWEEN 1 AND {DAYS_MAX}", name=days) for days in _DAYS),
        CheckConstraint("raw_days <= metrics_days AND series_days <= metrics_days", name="metrics_last"),
    )

    id: Mapped[uuid.UUID] = _id()
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = _created()
    secret: Mapped[bytes] = mapped_column(LargeBinary, server_default=_RANDOM, deferred=True)
    """What recognises captures and replaces addresses follows from it (api/privacy.py). Nothing tells it."""
    payload: Mapped[Payload] = mapped_column(server_default="cut")
    """Of what is uploaded from now on."""
    addresses: Mapped[Addresses] = mapped_column(server_default="kept")
    downloads: Mapped[Downloads] = mapped_column(server_default="allowed")
    """May members have stored copies?"""
    audit_days: Mapped[int] = mapped_column(Integer, server_default="365")
    """How long the log of actions is kept."""
    raw_days: Mapped[int | None] = mapped_column(Integer)
    """How long the stored copy of a capture is kept (store/retention.py). None: for ever."""
    series_days: Mapped[int | None] = mapped_column(Integer)
    metrics_days: Mapped[int | None] = mapped_column(Integer)


class Member(Base):
    """Who works with a team's data: a person, or a program. What a member may do is that of the role."""

    __tablename__ = "members"
    __table_args__ = (
        Index("ix_members_present", "team_id", "name", unique=True, postgresql_where=text("removed_at IS NULL")),
        Index(
            "ix_members_identity",
            "issuer",
            "subject",
            "team_id",
            unique=True,
            postgresql_where=text("removed_at IS NULL AND subject IS NOT NULL"),
        ),
        CheckConstraint("role IN ('viewer', 'analyst', 'owner')", name="role"),
        CheckConstraint("num_nulls(issuer, subject, confirmed_at) IN (0, 3)", name="identity"),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    name: Mapped[str]
    role: Mapped[Role]
    created_at: Mapped[datetime] = _created()
    removed_at: Mapped[datetime | None]
    issuer: Mapped[str | None]
    """The OpenID Connect provider whose claims give the role, and the person's id there; null: owners give it."""
    subject: Mapped[str | None]
    confirmed_at: Mapped[datetime | None]
    """When the provider last said so."""


class AuditEvent(Base):
    """What a member did. The services' role may only read and add rows; `forget_audit_events` deletes old ones."""

    __tablename__ = "audit_events"
    __table_args__ = (
        Index("ix_audit_events_newest", "team_id", "id"),
        Index("ix_audit_events_seen", "token_id", "object_id", "at", postgresql_where=text("action = 'see'")),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    team_id: Mapped[uuid.UUID]
    at: Mapped[datetime] = _created()
    token_id: Mapped[uuid.UUID | None]
    member: Mapped[str]
    """The member's name then."""
    action: Mapped[str]
    object_id: Mapped[uuid.UUID | None]
    object_name: Mapped[str | None]
    detail: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))


class Token(Base):
    """A bearer token of a member; only its SHA-256 is kept. scopes: read, write, admin, as far as the role has them."""

    __tablename__ = "tokens"

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"), index=True)
    member_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("members.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Attempt(Base):
    """The results of one claim of a capture's analysis. Its worker writes connections and subflows under its id in many
    transactions; readers see them from the moment at which the capture's row names the attempt.

    It is tied to capture and job by no foreign key: deleting these must not wait for a million rows. The sweeper
    removes an attempt, with its rows, that no capture names and whose claim is over (store/attempts.py).
    """

    __tablename__ = "attempts"
    __table_args__ = (
        UniqueConstraint("job_id", "fence"),
        Index("ix_attempts_without_days", "id", postgresql_where=text("days IS NULL")),
        Index("ix_attempts_of_several_days", "id", postgresql_where=text("cardinality(days) IS DISTINCT FROM 1")),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    capture_id: Mapped[uuid.UUID]
    job_id: Mapped[uuid.UUID]
    fence: Mapped[int]
    """Of the claim that writes it."""
    labels: Mapped[list[str]]
    """The algorithms that were replayed over every connection: the order of `Subflow.windows`."""
    days: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    """UTC days since 1970 on which its connections began. None: it is not published, or they are too many for
    histograms (store/histograms.py)."""
    created_at: Mapped[datetime] = _created()
    closed_at: Mapped[datetime | None]
    """Since when no worker may write rows of it, because it is being removed."""


class BrowserSession(Base):
    """A browser that has signed in. The browser holds a secret, of which only the SHA-256 is kept.

    A member who comes by OpenID Connect has a token that nobody knows, which is there for their sessions.
    """

    __tablename__ = "sessions"
    __table_args__ = (
        Index("ix_sessions_expires_at", "expires_at"),
        CheckConstraint("num_nulls(claims_until, renew_at, sealed) IN (0, 3)", name="claims"),
    )

    hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    token_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime]
    claims_until: Mapped[datetime | None]
    """The end of the ID token: then the session is of no use before the provider has confirmed it again."""
    renew_at: Mapped[datetime | None]
    """From when on the provider is asked."""
    renewing_until: Mapped[datetime | None]
    """A process asks it. Others do not: some refresh tokens can be used once."""
    sealed: Mapped[str | None]
    """The provider's tokens (JWE). The key follows from the browser's secret, which is not here."""


class Capture(Base):
    __tablename__ = "captures"
    __table_args__ = (
        UniqueConstraint("team_id", "received"),
        UniqueConstraint("attempt_id"),
        Index("ix_captures_team_id_created_at_id", "team_id", text("created_at DESC"), text("id DESC")),
        Index("ix_captures_first_ns", "team_id", "first_ns", "id"),
        Index("ix_captures_stored", "team_id", postgresql_include=["bytes", "raw_deleted_at"]),
        Index("ix_captures_object_key", "object_key", postgresql_using="hash"),
        Index("ix_captures_tags", "tags", postgresql_using="gin"),
        CheckConstraint("octet_length(sha256) = 32", name="sha256"),
        CheckConstraint("octet_length(received) = 32", name="received"),
        CheckConstraint("payload IN ('kept', 'cut')", name="payload"),
        CheckConstraint("addresses IN ('kept', 'replaced')", name="addresses"),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """Of what is stored."""
    received: Mapped[bytes] = mapped_column(LargeBinary, server_default=_RANDOM)
    """What the same bytes, uploaded again, are recognised by: keyed with the team's secret. A random one is never."""
    bytes: Mapped[int]
    """Of what is stored."""
    payload: Mapped[Payload] = mapped_column(server_default="kept")
    addresses: Mapped[Addresses] = mapped_column(server_default="kept")
    not_kept: Mapped[str | None]
    """Why nothing is stored: payload was to be cut, and this is no capture from which it can be."""
    filename: Mapped[str]
    tags: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    site: Mapped[str | None] = mapped_column(Text, Computed("tags ->> 'site'", persisted=True))
    """The value of the tag `site`."""
    object_key: Mapped[str]
    """Of what is stored. Its folder is that of the upload that brought it, which may be a later one than the first."""
    created_at: Mapped[datetime] = _created()
    uploaded_at: Mapped[datetime] = _created()
    """When its bytes were uploaded the last time; retention counts from then."""
    raw_deleted_at: Mapped[datetime | None]
    """When retention deleted what was stored. None: it is there, unless `not_kept` says why not."""
    series_deleted_at: Mapped[datetime | None]
    """When retention deleted the series of its analysis."""
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    error: Mapped[str | None]
    analysed_at: Mapped[datetime | None]
    summary: Mapped[dict[str, Any] | None]
    """Results about the whole capture: rewindow's Summary as JSON, and how bottlenecks were found."""
    first_ns: Mapped[int | None] = mapped_column(
        Computed(
            "CASE WHEN (summary ->> 'packets')::bigint > 0 THEN (summary ->> 'first_ns')::bigint END",
            persisted=True,
        )
    )
    """Of the summary: when its first packet was captured, nanoseconds since 1970. None: it has no packets."""
    packets: Mapped[int | None] = mapped_column(Computed("(summary ->> 'packets')::bigint", persisted=True))
    verdict_rank: Mapped[int | None] = mapped_column(
        Integer,
        Computed("array_position(ARRAY['good', 'limited', 'poor'], summary #>> '{quality,verdict}')", persisted=True),
    )
    """Of the summary's verdict: 1 good, 2 limited, 3 poor. None: it is not analysed."""
    acks_key: Mapped[str | None]
    """Object with a row for each ACK: Parquet, clustered by connection, in capture order within each connection."""
    marks_key: Mapped[str | None]
    series_bytes: Mapped[int | None]
    """Of these two objects and the overview. None: there are none, or an earlier version stored them."""
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    """The attempt whose rows are the capture's results; of every other one readers see nothing."""
    connection_count: Mapped[int | None] = mapped_column(Integer)
    notes: Mapped[str] = mapped_column(server_default="")
    """What the team has written about it."""
    uploader_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("tokens.id", ondelete="SET NULL"), index=True)
    """The token that uploaded it first. None: uploaded before that was kept."""

    uploader: Mapped[Token | None] = relationship()
    attempt: Mapped[Attempt | None] = relationship()
    jobs: Mapped[list[Job]] = relationship(back_populates="capture", passive_deletes=True)


class Deletion(Base):
    """A capture that was deleted, and whose objects the sweeper has still to delete."""

    __tablename__ = "deletions"

    capture_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    deleted_at: Mapped[datetime] = _created()


class RetentionCount(Base):
    """How much retention has deleted since the service began, for Prometheus."""

    __tablename__ = "retention_counts"

    kind: Mapped[str] = mapped_column(primary_key=True)
    captures: Mapped[int]
    bytes: Mapped[int]


class QualityRecord(Base):
    """A verdict with its reasons. Connections and subflows refer to it by its id, as few different ones occur."""

    __tablename__ = "qualities"
    __table_args__ = (
        # `unreliable` follows from `quality` within one version of rewindow, not across versions.
        UniqueConstraint("quality", "verdict", "unreliable"),
        _verdicts(),
    )

    id: Mapped[int] = mapped_column(Integer, Identity(), primary_key=True)
    quality: Mapped[list[str]]
    """Findings that concern it."""
    verdict: Mapped[Verdict]
    unreliable: Mapped[list[str]]
    """Results that the findings make unreliable."""


class Connection(Base):
    """Readers find connections by way of the capture whose row names their attempt.

    There may be millions: the columns stand in the order of their alignment, and no foreign key is checked for each
    row.
    """

    __tablename__ = "connections"
    __table_args__ = (
        Index("ix_connections_id", "id", postgresql_using="hash"),
        CheckConstraint("kind IN ('tcp', 'mptcp')", name="kind"),
    )

    attempt_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[uuid.UUID]
    """Follows from capture and number, so that each attempt makes the same one."""
    bytes: Mapped[int]
    goodput_bps: Mapped[float | None]
    completion_s: Mapped[float | None]
    retransmitted_packets: Mapped[int]
    first_ns: Mapped[int]
    last_ns: Mapped[int]
    rows: Mapped[int]
    """How many rows its series has."""
    steps: Mapped[int | None]
    """How many steps of controllers the monitor has checked. None: it was analysed before steps were checked."""
    violations: Mapped[int | None]
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    subflow_count: Mapped[int] = mapped_column(Integer)
    quality_id: Mapped[int] = mapped_column(Integer)
    version: Mapped[int | None] = mapped_column(SmallInteger)
    fallback: Mapped[bool]
    checksum: Mapped[bool]
    fast_closed: Mapped[bool]
    kind: Mapped[ConnectionKind]
    token: Mapped[str | None]
    first_violation: Mapped[dict[str, Any] | None]


class Subflow(Base):
    __tablename__ = "subflows"

    attempt_id: Mapped[int] = mapped_column(primary_key=True)
    connection_number: Mapped[int] = mapped_column(Integer, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    bytes: Mapped[int]
    packets: Mapped[int]
    retransmitted_packets: Mapped[int]
    retransmitted_bytes: Mapped[int]
    spurious_retransmissions: Mapped[int]
    rtt_min_us: Mapped[int | None]
    rtt_median_us: Mapped[int | None]
    rtt_p95_us: Mapped[int | None]
    goodput_bps: Mapped[float | None]
    duration_s: Mapped[float]
    ece_acks: Mapped[int]
    ce_packets: Mapped[int]
    fast_retransmits: Mapped[int]
    timeouts: Mapped[int]
    first_unseen_ns: Mapped[int | None]
    sender_match: Mapped[float | None]
    sport: Mapped[int] = mapped_column(Integer)
    dport: Mapped[int] = mapped_column(Integer)
    quality_id: Mapped[int] = mapped_column(Integer)
    paced: Mapped[bool]
    src: Mapped[Any] = mapped_column(INET)
    dst: Mapped[Any] = mapped_column(INET)
    vantage: Mapped[str]
    interface: Mapped[str]
    send_times: Mapped[str]
    ecn: Mapped[str]
    sender_algorithm: Mapped[str]
    sender_candidates: Mapped[list[str]]
    windows: Mapped[list[float] | None]
    """Mean, maximum and last cwnd in segments under each of the attempt's algorithms; NaN for one without rows on this
    subflow, None where none has any."""


class ConnectionFact(Base):
    """What connections are searched, sorted and aggregated by: one narrow row for each row of `connections`.

    Rows are written, published and removed with those of `connections`. `team_id` only leads to an index: what the team
    sees is decided by the capture that names the attempt. What a connection has only one of (addresses, ports, RTTs,
    sender's algorithm) is that of its main subflow, which sent most bytes.
    """

    __tablename__ = "connection_facts"
    __table_args__ = (
        Index("ix_connection_facts_newest", "team_id", "first_ns", "attempt_id", "number"),
        Index("ix_connection_facts_of_several", "attempt_id", postgresql_where=text("cardinality(group_ids) > 1")),
        CheckConstraint("kind IN ('tcp', 'mptcp')", name="kind"),
    )

    attempt_id: Mapped[int] = mapped_column(primary_key=True)
    first_ns: Mapped[int]
    bytes: Mapped[int]
    duration_s: Mapped[float]
    """From the first packet to the last."""
    goodput_bps: Mapped[float | None]
    completion_s: Mapped[float | None]
    retransmission_rate: Mapped[float | None]
    """Part of the packets of all subflows that sent data again; None without packets."""
    rtt_us: Mapped[int | None]
    """Median."""
    rtt_min_us: Mapped[int | None]
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    subflow_count: Mapped[int] = mapped_column(Integer)
    quality_id: Mapped[int] = mapped_column(Integer)
    sport: Mapped[int] = mapped_column(Integer)
    dport: Mapped[int] = mapped_column(Integer)
    team_id: Mapped[uuid.UUID]
    kind: Mapped[ConnectionKind]
    sender_algorithm: Mapped[str]
    src: Mapped[Any] = mapped_column(INET)
    dst: Mapped[Any] = mapped_column(INET)
    addresses: Mapped[list[Any] | None] = mapped_column(ARRAY(INET))
    """Of both ends of all subflows, each once, ascending. None: there is one subflow, with `src` and `dst`."""
    ports: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    """As `addresses`."""
    mean_windows: Mapped[list[float] | None] = mapped_column(ARRAY(REAL))
    """Sum over the subflows of the mean cwnd in segments under each of the attempt's algorithms; NaN for one without
    rows, None where none has any."""
    group_ids: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    """Of the fairness groups that it is a member of, ascending; None: of none."""
    fair_share_ratios: Mapped[list[float] | None] = mapped_column(ARRAY(Float(53)))
    """In the order of `group_ids`, what it got of its fair share; NaN: not known."""


class DayHistogram(Base):
    """The values of one measure on one day of a team, divided or not (store/histograms.py), that are of one group."""

    __tablename__ = "day_histograms"

    team_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    divided: Mapped[bool] = mapped_column(primary_key=True)
    """By kind, sender_algorithm and site? Else the row has all values of the day, and none of these."""
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Since 1970, UTC."""
    place: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Nothing but a number among the rows that are alike so far."""
    kind: Mapped[str | None]
    sender_algorithm: Mapped[str | None]
    site: Mapped[str | None]
    unreliable: Mapped[bool]
    count: Mapped[int] = mapped_column(Integer)
    """Of values."""
    missing: Mapped[int] = mapped_column(Integer)
    """Of connections without one."""
    total: Mapped[float | None]
    """The sum of the values. None, as `least` and `most`: there is none."""
    least: Mapped[float | None]
    most: Mapped[float | None]
    buckets: Mapped[bytes] = mapped_column(LargeBinary)
    """Of each bucket that has values its number, and how many: two 32-bit integers, big-endian; ascending."""


class DaySpread(Base):
    """Sums over the captures whose connections all began on this day: of how many reliable values of a measure each
    has, where a dimension has one value, and of their sum (store/spreads.py)."""

    __tablename__ = "day_spreads"

    team_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Since 1970, UTC."""
    place: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Nothing but a number among the rows of a day."""
    measure: Mapped[str]
    dimension: Mapped[str]
    value: Mapped[str | None]
    """Of the dimension. None: without one."""
    connections: Mapped[float]
    captures: Mapped[float]
    total: Mapped[float]
    squares: Mapped[float]
    products: Mapped[float]
    connections_squared: Mapped[float]


class DayCount(Base):
    """How many connections that began on this day have each value of a dimension (store/counts.py)."""

    __tablename__ = "day_counts"

    team_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Since 1970, UTC."""
    dimension: Mapped[str] = mapped_column(primary_key=True)
    values: Mapped[list[str | None]] = mapped_column(ARRAY(String))
    """As text. None: without one."""
    counts: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    """Of connections, in the order of the values."""


class StaleDay(Base):
    """A day of a team whose histograms may not be those of its facts. Each change adds a row, so that none waits for
    another one."""

    __tablename__ = "stale_days"
    __table_args__ = (Index("ix_stale_days_of_team", "team_id", "day"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    team_id: Mapped[uuid.UUID]
    day: Mapped[int] = mapped_column(Integer)


class Replay(Base):
    """One algorithm, with its options, replayed over one connection because a team asked for it.

    The attempt's own algorithms have no rows here: their windows are in `Subflow.windows`.
    """

    __tablename__ = "replays"
    __table_args__ = (UniqueConstraint("connection_id", "label"), Index("ix_replays_capture_id", "capture_id"))

    id: Mapped[uuid.UUID] = _id()
    capture_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    connection_id: Mapped[uuid.UUID]
    """Derived from capture and number: it names the connection of each attempt."""
    connection_number: Mapped[int] = mapped_column(Integer)
    position: Mapped[int] = mapped_column(server_default="0")
    label: Mapped[str]
    """The algorithm's name, followed by the options that differ from their defaults."""
    algorithm: Mapped[str]
    options: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    error: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    acks_key: Mapped[str | None]
    """The object with its windows. None: it is not done, or retention has deleted the object."""
    series_bytes: Mapped[int | None]
    """Of this object and its overview. None: there is none, or an earlier version stored it."""
    windows: Mapped[dict[str, Any] | None]
    """For each subflow: mean, maximum and last cwnd, in segments."""
    mean_window: Mapped[float | None]
    """Sum over the subflows of the mean cwnd, as in `ConnectionFact.mean_windows`; of a replay that is done. None: it
    has no rows."""

    @property
    def has_series(self) -> bool:
        return self.acks_key is not None


class SegmentSeries(Base):
    """The segments of one connection, read from the capture because a team asked for them: what a time-sequence graph
    shows beside the ACKs."""

    __tablename__ = "segment_series"
    __table_args__ = (
        UniqueConstraint("connection_id"),
        Index("ix_segment_series_capture_id", "capture_id"),
        CheckConstraint("(object_key IS NOT NULL) = (state = 'done')", name="done"),
    )

    id: Mapped[uuid.UUID] = _id()
    capture_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    connection_id: Mapped[uuid.UUID]
    connection_number: Mapped[int] = mapped_column(Integer)
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    error: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    object_key: Mapped[str | None]
    series_bytes: Mapped[int | None]
    """Of this object and its overview. None: there is none, or an earlier version stored it."""


class PinnedNote(Base):
    """What a member wrote about a time of a connection."""

    __tablename__ = "pinned_notes"
    __table_args__ = (
        Index("ix_pinned_notes_capture_id", "capture_id"),
        Index("ix_pinned_notes_in_order", "connection_id", "at_ns", "id"),
        CheckConstraint("(changed_by IS NULL) = (changed_at IS NULL)", name="changed"),
    )

    id: Mapped[uuid.UUID] = _id()
    capture_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    connection_id: Mapped[uuid.UUID]
    """Derived from capture and number: it names the connection of each attempt."""
    at_ns: Mapped[int]
    """Since 1970, as the capture's clock says."""
    text: Mapped[str]
    author: Mapped[str]
    """The member's name at that time."""
    created_at: Mapped[datetime] = _created()
    changed_by: Mapped[str | None]
    changed_at: Mapped[datetime | None]


class SavedView(Base):
    """A page of the dashboard with filters, order and period, under a name."""

    __tablename__ = "saved_views"
    __table_args__ = (
        UniqueConstraint("team_id", "page", "name"),
        CheckConstraint("(changed_by IS NULL) = (changed_at IS NULL)", name="changed"),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    page: Mapped[str]
    name: Mapped[str]
    query: Mapped[str]
    """The parameters of the page's address."""
    author: Mapped[str]
    """The member's name at that time."""
    created_at: Mapped[datetime] = _created()
    changed_by: Mapped[str | None]
    changed_at: Mapped[datetime | None]


class WhatIf(Base):
    """What would have come of a connection under another algorithm, because a team asked (rewindow/whatif).

    The same question about a connection has one row.
    """

    __tablename__ = "whatifs"
    __table_args__ = (
        UniqueConstraint("connection_id", "label", "everyone", "repeat", "settings"),
        Index("ix_whatifs_capture_id", "capture_id"),
        Index("ix_whatifs_newest", "connection_id", text("created_at DESC"), text("id DESC")),
        CheckConstraint("(result IS NOT NULL) = (state = 'done')", name="done"),
        CheckConstraint("progress >= 0 AND progress <= 1", name="progress"),
    )

    id: Mapped[uuid.UUID] = _id()
    capture_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    connection_id: Mapped[uuid.UUID]
    connection_number: Mapped[int] = mapped_column(Integer)
    label: Mapped[str]
    """The algorithm's name, followed by the options that differ from their defaults."""
    algorithm: Mapped[str]
    options: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    everyone: Mapped[bool]
    """Do all connections that share a bottleneck with it change, too?"""
    repeat: Mapped[int] = mapped_column(Integer)
    """How many runs of each world are simulated."""
    settings: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    """Changes of the network, as `rewindow whatif --set` has them."""
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    error: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    finished_at: Mapped[datetime | None]
    result: Mapped[dict[str, Any] | None]
    """An element of `connections` in the JSON document of `rewindow whatif`."""
    progress: Mapped[float] = mapped_column(server_default="0")
    """Of its own simulations: the fit's are not counted."""


class Fit(Base):
    """The fit of a connection's paths, which its what-ifs share. What it found follows from its parts."""

    __tablename__ = "fits"
    __table_args__ = (
        UniqueConstraint("connection_id"),
        Index("ix_fits_capture_id", "capture_id"),
        CheckConstraint("progress >= 0 AND progress <= 1", name="progress"),
    )

    id: Mapped[uuid.UUID] = _id()
    capture_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    connection_id: Mapped[uuid.UUID]
    connection_number: Mapped[int] = mapped_column(Integer)
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    error: Mapped[str | None]
    progress: Mapped[float] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = _created()
    finished_at: Mapped[datetime | None]


class Part(Base):
    """Simulated runs of one batch of a fit or of a what-if (rewindow/whatif/batches.py), which one job has made."""

    __tablename__ = "parts"
    __table_args__ = (
        UniqueConstraint("fit_id", "batch", "first_run"),
        UniqueConstraint("whatif_id", "batch", "first_run"),
        CheckConstraint("num_nonnulls(fit_id, whatif_id) = 1", name="of"),
        CheckConstraint("batch >= 0 AND first_run >= 0 AND runs > 0", name="runs"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    seconds: Mapped[float]
    """What its runs took."""
    finished_at: Mapped[datetime] = _created()
    fit_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("fits.id", ondelete="CASCADE"))
    whatif_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("whatifs.id", ondelete="CASCADE"))
    batch: Mapped[int] = mapped_column(Integer)
    first_run: Mapped[int] = mapped_column(Integer)
    runs: Mapped[int] = mapped_column(Integer)
    rows: Mapped[bytes | None] = mapped_column(LargeBinary)
    """What came of each run, as doubles. None: the what-if is done, and its result has what was made of them."""


class Sweep(Base):
    """What-ifs of several connections, algorithms and settings that a team asked for at once."""

    __tablename__ = "sweeps"
    __table_args__ = (
        UniqueConstraint("team_id", "digest"),
        Index("ix_sweeps_newest", "team_id", text("created_at DESC"), text("id DESC")),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    digest: Mapped[str]
    """SHA-256 of the request: the same request twice is one sweep."""
    request: Mapped[dict[str, Any]]
    refused: Mapped[list[Any]] = mapped_column(JSONB)
    """Reasons for which connections were not asked about, with how many."""
    connections: Mapped[int] = mapped_column(Integer)
    """That were selected, refused ones included."""
    captures: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[datetime] = _created()


class SweepWhatIf(Base):
    """A what-if of a sweep. Another sweep, or a request for one connection, may have asked for it, too."""

    __tablename__ = "sweep_whatifs"
    __table_args__ = (Index("ix_sweep_whatifs_whatif_id", "whatif_id"),)

    sweep_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True)
    whatif_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("whatifs.id", ondelete="CASCADE"), primary_key=True)


class FairnessGroup(Base):
    __tablename__ = "fairness_groups"
    __table_args__ = (
        UniqueConstraint("id", postgresql_include=["verdict", "jain", "mptcp_to_tcp_ratio"]),
        CheckConstraint("jain >= 0 AND jain <= 1.000001", name="jain"),
        _verdicts(),
        Index("ix_fairness_groups_first_ns", "first_ns"),
        Index("ix_fairness_groups_in_order", "attempt_id", "id"),
    )

    attempt_id: Mapped[int] = mapped_column(primary_key=True)
    bottleneck: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column(Identity())
    """`ConnectionFact.group_ids` of the members has it."""
    method: Mapped[str]
    """How it was found that the members share a bottleneck: sbd, declared or interface."""
    members: Mapped[dict[str, Any]]
    """`connections`: the members' numbers; `goodput_bps`, `kinds` and `shares` in the same order; `capacity_bps`. The
    last two are missing in what was analysed before fair shares were computed."""
    jain: Mapped[float]
    mptcp_to_tcp_ratio: Mapped[float | None]
    declared: Mapped[bool]
    verdict: Mapped[Verdict] = mapped_column(server_default="good")
    first_ns: Mapped[int | None]
    """When the first of its members began; None until the attempt is published."""


ALONE_FROM = 2
"""A job that was at work when so many outages began runs alone from then on: it may be their cause."""


class Job(Base):
    """Work to do. The row is the truth about the job; Redis only carries a wake-up (docs/decisions/jobs.md)."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_waiting", "state", "lease_until", postgresql_where=text("state IN ('queued', 'running')")),
        *(
            Index(
                f"ix_jobs_queue_{queue}",
                "team_id",
                "queued_at",
                "id",
                postgresql_where=text(f"state = 'queued' AND {of}"),
            )
            for queue, of in (("captures", "check_id IS NULL"), ("checks", "check_id IS NOT NULL"))
        ),
        Index("ix_jobs_alone", "state", postgresql_where=text(f"outages >= {ALONE_FROM}")),
        Index("ix_jobs_capture_id", "capture_id"),
        CheckConstraint("progress >= 0 AND progress <= 1", name="progress"),
        CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="lease"),
        CheckConstraint("state = 'queued' OR not_before IS NULL", name="not_before"),
        Index("ix_jobs_check_id", "check_id", postgresql_where=text("check_id IS NOT NULL")),
        Index("ix_jobs_whatif_id", "whatif_id", postgresql_where=text("whatif_id IS NOT NULL")),
        # As text: PostgreSQL refuses a new value of an enumeration in the transaction that adds it.
        CheckConstraint(
            "(capture_id IS NULL) = (kind::text = 'check') AND (check_id IS NULL) = (kind::text <> 'check')", name="of"
        ),
        CheckConstraint("(whatif_id IS NULL) = (kind::text <> 'whatif')", name="of_whatif"),
        Index("ix_jobs_fit_id", "fit_id", postgresql_where=text("fit_id IS NOT NULL")),
        CheckConstraint("(fit_id IS NULL) = (kind::text <> 'fit')", name="of_fit"),
        Index("ix_jobs_segments_id", "segments_id", postgresql_where=text("segments_id IS NOT NULL")),
        CheckConstraint("(segments_id IS NULL) = (kind::text <> 'segments')", name="of_segments"),
        CheckConstraint(
            "num_nonnulls(batch, first_run, runs) IN (0, 3) AND (batch IS NULL OR kind::text IN ('fit', 'whatif'))",
            name="part",
        ),
    )

    id: Mapped[uuid.UUID] = _id()
    kind: Mapped[JobKind] = mapped_column(_enum(JobKind, "job_kind"))
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    """Of the capture or the check: whose turn it is follows from it."""
    capture_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"))
    replay_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("replays.id", ondelete="CASCADE"))
    whatif_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("whatifs.id", ondelete="CASCADE"))
    fit_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("fits.id", ondelete="CASCADE"))
    check_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("model_checks.id", ondelete="CASCADE"))
    segments_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("segment_series.id", ondelete="CASCADE"))
    batch: Mapped[int | None] = mapped_column(Integer)
    """With first_run and runs: which simulations of the fit or what-if are to be run. None: what is to be run next is
    to be found out."""
    first_run: Mapped[int | None] = mapped_column(Integer)
    runs: Mapped[int | None] = mapped_column(Integer)
    state: Mapped[State] = mapped_column(_state, server_default="queued")
    stage: Mapped[str] = mapped_column(server_default="queued")
    progress: Mapped[float] = mapped_column(server_default="0")
    error: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default="0")
    deferrals: Mapped[int] = mapped_column(server_default="0")
    """How often an outage of something that the service depends on made it wait, which is no attempt."""
    outages: Mapped[int] = mapped_column(server_default="0")
    """How many of these outages began while it was at work."""
    deferred_since: Mapped[datetime | None]
    """When it met the latest outage for the first time."""
    fence: Mapped[int] = mapped_column(server_default="0")
    """Grows with every claim: a worker whose claim has a smaller number has lost the job."""
    lease_until: Mapped[datetime | None]
    """Of the worker that runs it: without a report until then it has lost the job. None: no worker runs it."""
    not_before: Mapped[datetime | None]
    """The end of the pause after an error: no worker may claim the job earlier. None: it does not pause."""
    queued_at: Mapped[datetime] = _created()
    """When it began to wait for a worker."""
    sent_at: Mapped[datetime | None]
    """When its last wake-up was sent."""
    created_at: Mapped[datetime] = _created()
    finished_at: Mapped[datetime | None]

    capture: Mapped[Capture | None] = relationship(back_populates="jobs")


class Change(Base):
    """Something that a team works on has changed, come or gone: what event streams tell. Triggers add the rows; the
    sweeper deletes them when they are old (store/changes.py).
    """

    __tablename__ = "changes"
    __table_args__ = (Index("ix_changes_of_team", "team_id", "xact"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    xact: Mapped[int]
    """The transaction that changed it: a snapshot of PostgreSQL tells whether somebody has seen it."""
    at: Mapped[datetime] = _created()
    team_id: Mapped[uuid.UUID]
    kind: Mapped[str]
    """capture, replay, segments, whatif, sweep or check."""
    object_id: Mapped[uuid.UUID]
    connection_id: Mapped[uuid.UUID | None]
    """Of a replay, segments, a what-if, or the check of a connection's steps."""


class Turn(Base):
    """When a worker last took a job of a team from a queue: the teams of a queue are served in turn."""

    __tablename__ = "turns"

    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True)
    queue: Mapped[str] = mapped_column(primary_key=True)
    served_at: Mapped[datetime] = _created()


class RequestRate(Base):
    """The requests that a team has sent, as one time (docs/decisions/limits.md).

    It is not logged: after a crash of PostgreSQL it is empty, and every team has its whole allowance again.
    """

    __tablename__ = "request_rates"
    __table_args__ = {"prefixes": ["UNLOGGED"]}  # noqa: RUF012

    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True)
    due_at: Mapped[datetime]
    """When the requests so far would have ended, had they come evenly at the rate that a team may keep up."""


class Incoming(Base):
    """An upload under way, and the room that it takes of what its team may store."""

    __tablename__ = "incoming"
    __table_args__ = (Index("ix_incoming_team_id", "team_id"),)

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    bytes: Mapped[int]
    alive_until: Mapped[datetime]
    """The process that receives it renews this; when it is past, that process has died."""


class ResumableUpload(Base):
    """An upload that goes on after an interruption (api/resumable). Its room is the row of `incoming` with its id.

    Its bytes lie in a folder of the API's, encrypted with a key that follows from the secret in its address; the
    database has a hash of the secret only.
    """

    __tablename__ = "resumable_uploads"
    __table_args__ = (
        UniqueConstraint("secret_hash", name="uq_resumable_uploads_secret_hash"),
        Index("ix_resumable_uploads_team_id", "team_id"),
        Index("ix_resumable_uploads_expires_at", "expires_at"),
        CheckConstraint(
            "length > 0 AND received BETWEEN 0 AND length AND kept_bytes >= received"
            " AND (received = length) = (capture_id IS NOT NULL)",
            name="received",
        ),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary)
    folder: Mapped[uuid.UUID]
    """Where its bytes lie: the id in that folder."""
    length: Mapped[int]
    """Bytes that it will have."""
    received: Mapped[int] = mapped_column(server_default=text("0"))
    """Bytes of it that are safe. All of them are when the capture is stored, in the same transaction."""
    kept_bytes: Mapped[int] = mapped_column(server_default=text("0"))
    """The length of its file with these bytes in it."""
    filename: Mapped[str]
    tags: Mapped[dict[str, Any]]
    told: Mapped[str]
    """Upload-Metadata, as it was given."""
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime]
    capture_id: Mapped[uuid.UUID | None]
    """What it has become; the capture may be deleted since."""
    was_here: Mapped[bool | None]
    is_restored: Mapped[bool | None]


class ModelCheck(Base):
    """A run of TLC on one configuration of a specification with constants that a team chose, or on the steps of one
    connection under one controller; the latter has no configuration and no constants."""

    __tablename__ = "model_checks"
    __table_args__ = (
        UniqueConstraint("team_id", "spec", "configuration", "constants", "digest", name="uq_model_checks_asked"),
        Index("ix_model_checks_team_id_created_at_id", "team_id", text("created_at DESC"), text("id DESC")),
        UniqueConstraint(
            "team_id", "capture_sha256", "connection_number", "algorithm", "digest", name="uq_model_checks_conformance"
        ),
        Index("ix_model_checks_capture_id", "capture_id"),
        Index("ix_model_checks_connection_id", "connection_id"),
        CheckConstraint(
            "verdict IN ('holds', 'violated') AND algorithm IS NULL"
            " OR verdict IN ('conforms', 'does_not_conform') AND algorithm IS NOT NULL",
            name="verdict",
        ),
        CheckConstraint("(verdict IS NOT NULL) = (state = 'done')", name="done"),
        CheckConstraint(
            "num_nonnulls(algorithm, capture_sha256, capture_filename, connection_id, connection_number)"
            " = CASE WHEN configuration IS NULL THEN 5 ELSE 0 END",
            name="of",
        ),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    spec: Mapped[str]
    configuration: Mapped[str | None]
    constants: Mapped[dict[str, Any]]
    """Every constant that may be chosen, including those that have the configuration's own value."""
    digest: Mapped[str]
    """SHA-256 of the specification's text: a check of another text is another check."""
    seconds_max: Mapped[float]
    state: Mapped[CheckState] = mapped_column(_enum(CheckState, "check_state"), server_default="queued")
    error: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    finished_at: Mapped[datetime | None]
    verdict: Mapped[str | None]
    violated: Mapped[str | None]
    """The property that does not hold."""
    as_pinned: Mapped[bool | None]
    """Is the result the one that the manifest pins? None: nothing is pinned for these constants."""
    generated: Mapped[int | None]
    distinct: Mapped[int | None]
    queued: Mapped[int | None]
    depth: Mapped[int | None]
    seconds: Mapped[float | None]
    coverage: Mapped[list[Any] | None] = mapped_column(JSONB)
    counterexample: Mapped[list[Any] | None] = mapped_column(JSONB)
    counterexample_states: Mapped[int | None]
    """How many states it has; of a very long one only the first and the last are kept."""
    algorithm: Mapped[str | None]
    """The controller whose steps are followed; this column and those below are of such checks only."""
    capture_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("captures.id", ondelete="SET NULL"))
    """None: the capture was deleted."""
    capture_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Part of the check's key: the same bytes uploaded again are the same check."""
    capture_filename: Mapped[str | None]
    connection_id: Mapped[uuid.UUID | None]
    """Derived from capture and number, so that it names the connection also when its row is made again."""
    connection_number: Mapped[int | None]
    events: Mapped[int | None]
    """Steps of the connection's log that have been read."""
    followed: Mapped[int | None]
    """Steps that TLC has followed."""
    pieces: Mapped[int | None]
    pieces_followed: Mapped[int | None]
    first_violation: Mapped[dict[str, Any] | None]


def _one_of(name: str, values: Any) -> CheckConstraint:
    return CheckConstraint(f"{name} IN ({', '.join(repr(v) for v in get_args(values))})", name=name)


class Webhook(Base):
    """An address that a team's messages are posted to, one after the other."""

    __tablename__ = "webhooks"
    __table_args__ = (
        Index("ix_webhooks_team_id", "team_id"),
        CheckConstraint("(old_secret IS NULL) = (old_secret_until IS NULL)", name="old_secret"),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    name: Mapped[str]
    url: Mapped[str]
    """It may hold a secret of the receiver's: only owners see more of it than the host."""
    secret: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    """What messages are signed with."""
    old_secret: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """The one before, which messages are signed with, too, until it ends."""
    old_secret_until: Mapped[datetime | None]
    created_at: Mapped[datetime] = _created()
    lease_until: Mapped[datetime | None]
    """A process posts a message to it, and says by then how that went. None: none does."""
    fence: Mapped[int] = mapped_column(server_default="0")
    """Grows with every message that is taken: who has a smaller number has lost its lease."""


class Delivery(Base):
    """A message for a webhook; the row is the outbox."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_latest", "webhook_id", text("created_at DESC"), text("id DESC")),
        Index("ix_deliveries_of_alert", "alert_id", text("created_at DESC")),
        Index("ix_deliveries_due", "due_at", postgresql_where=text("state = 'waiting'")),
        Index("ix_deliveries_ended", "finished_at", postgresql_where=text("state <> 'waiting'")),
        _one_of("state", DeliveryState),
        CheckConstraint("(state = 'waiting') = (finished_at IS NULL)", name="finished"),
    )

    id: Mapped[uuid.UUID] = _id()
    webhook_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    alert_id: Mapped[uuid.UUID | None]
    """Of which it tells; the alert may be gone. None: a test."""
    type: Mapped[str]
    body: Mapped[str] = mapped_column(deferred=True)
    """As it is posted, the same bytes with each attempt."""
    created_at: Mapped[datetime] = _created()
    due_at: Mapped[datetime] = _created()
    """When it is to be tried next."""
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    state: Mapped[DeliveryState] = mapped_column(server_default="waiting")
    status: Mapped[int | None] = mapped_column(Integer)
    """Of the last attempt's answer. None: there was none."""
    error: Mapped[str | None]
    """Why the last attempt did not succeed."""
    finished_at: Mapped[datetime | None]


class Alert(Base):
    """A rule on an aggregate of a team's connections, and how it stands."""

    __tablename__ = "alerts"
    __table_args__ = (
        Index("ix_alerts_of_team", "team_id", "created_at", "id"),
        Index("ix_alerts_webhook_id", "webhook_id"),
        Index("ix_alerts_due", "due_at", postgresql_where=text("enabled")),
        _one_of("statistic", Statistic),
        _one_of("condition", Condition),
        _one_of("clock", Clock),
        _one_of("state", AlertState),
        CheckConstraint("window_s > 0 AND interval_s > 0 AND least > 0 AND in_a_row > 0", name="positive"),
    )

    id: Mapped[uuid.UUID] = _id()
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("teams.id", ondelete="CASCADE"))
    webhook_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("webhooks.id", ondelete="SET NULL"))
    name: Mapped[str]
    measure: Mapped[str]
    statistic: Mapped[Statistic]
    filters: Mapped[str]
    """A query string, as /v1/aggregates takes it."""
    clock: Mapped[Clock]
    window_s: Mapped[int] = mapped_column(Integer)
    condition: Mapped[Condition]
    threshold: Mapped[float]
    least: Mapped[int] = mapped_column(Integer)
    in_a_row: Mapped[int] = mapped_column(Integer)
    interval_s: Mapped[int] = mapped_column(Integer)
    enabled: Mapped[bool]
    created_at: Mapped[datetime] = _created()
    state: Mapped[AlertState]
    since: Mapped[datetime] = _created()
    """When this state began."""
    firing_since: Mapped[datetime | None]
    """It told that it fires, and not yet that this is over. It may be in another state than firing meanwhile: too few
    connections say nothing."""
    streak: Mapped[int] = mapped_column(Integer, server_default="0")
    """How many evaluations in a row have spoken for the other of firing and not firing."""
    value: Mapped[float | None]
    before: Mapped[float | None]
    """The value in the window before, where the condition asks for it."""
    connections: Mapped[int | None] = mapped_column(Integer)
    """How many values the last evaluation rests on."""
    evaluated_at: Mapped[datetime | None]
    error: Mapped[str | None]
    due_at: Mapped[datetime] = _created()
    lease_until: Mapped[datetime | None]
    fence: Mapped[int] = mapped_column(server_default="0")
    """Grows with every evaluation and every change: what an evaluation of a smaller number finds is not kept."""


class SpecRecord(Base):
    """A specification that the workers can check. A worker publishes them when it starts."""

    __tablename__ = "specs"

    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    digest: Mapped[str]
    description: Mapped[dict[str, Any]]


class AlgorithmRecord(Base):
    """An algorithm that the workers can run. A worker publishes them when it starts."""

    __tablename__ = "algorithms"

    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    description: Mapped[dict[str, Any]]
