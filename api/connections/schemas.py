from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from api.pages import Page
from api.schemas import Schema, Wanted, with_columns
from api.selections import SelectionIn
from store.models import Connection, ConnectionKind, State, Subflow, Verdict

Address = Annotated[str, BeforeValidator(str)]
"""PostgreSQL's inet is read as an object of Python's `ipaddress`."""


@with_columns(
    Connection,
    without=(
        "attempt_id", "quality_id", "fallback", "checksum", "fast_closed", "steps", "violations", "first_violation",
    ),
)  # fmt: skip
class ConnectionOut(Schema):
    """Times in nanoseconds since 1970."""

    capture_id: uuid.UUID
    number: int
    """Its place in the capture, as the command line counts."""
    rows: int
    """How many rows its series has."""
    subflow_count: int
    quality: list[str]
    """Findings that concern it."""
    verdict: Verdict
    unreliable: list[str]
    """Results that rest on what is wrong with it."""


class UploaderOut(Schema):
    """Who uploaded a capture first."""

    id: uuid.UUID
    """Of the token that the upload was sent with."""
    name: str
    """The token's name."""


class ConnectionFound(Schema):
    """A connection among all of the team. Addresses, ports, RTTs and algorithm are those of its main subflow, which
    sent most bytes."""

    id: uuid.UUID
    capture_id: uuid.UUID
    filename: str
    """Name of the capture's file."""
    number: int
    """Its place in the capture, as the command line counts."""
    kind: ConnectionKind
    src: Address
    sport: int
    dst: Address
    dport: int
    bytes: int
    first_ns: int
    started_at: datetime | None
    """`first_ns` to a microsecond (RFC 3339); null where the capture's clock says a year that has not four digits."""
    duration_s: float
    completion_s: float | None
    goodput_bps: float | None
    rtt_us: int | None
    """Median round-trip time, microseconds; null without a measurement."""
    rtt_min_us: int | None
    rtt_inflation: float | None
    """Median round-trip time over the smallest; null without both."""
    retransmission_rate: float | None
    """Part of the packets of all subflows that sent data again, 0 to 1; null without packets."""
    retransmitted_packets: int
    subflow_count: int
    sender_algorithm: str
    verdict: Verdict
    quality: list[str]
    unreliable: list[str]
    tags: dict[str, str]
    """Tags of the capture, by key."""
    uploader: UploaderOut | None
    """Who uploaded the capture first; null: uploaded before that was kept."""
    uploaded_at: datetime
    """When the capture was uploaded."""
    addresses: Literal["kept", "replaced"]
    """replaced: by others, which have common prefixes where the addresses had them."""


class ConnectionsFound(Page[ConnectionFound]):
    """A page of connections, and how many the filters select in all."""

    total: int
    """Connections that the filters select, on all pages."""
    total_is_exact: bool
    """False: there are more than 10,000, and `total` is an estimate."""


@with_columns(Subflow, without=("attempt_id", "connection_number", "quality_id", "windows"))
class SubflowOut(Schema):
    """`src` is the side that sent more data. Times in nanoseconds since 1970."""

    src: Address
    dst: Address
    sender_match: float | None
    """The part of its full windows at which the window of `sender_algorithm` was what was in flight."""
    quality: list[str]
    verdict: Verdict
    unreliable: list[str]


class _OfConnection(Schema):
    capture_id: uuid.UUID
    filename: str
    """Name of the capture's file."""
    connection_id: uuid.UUID
    connection_number: int
    """Its place in the capture, as the command line counts."""
    connection_kind: ConnectionKind


class SubflowRow(SubflowOut, _OfConnection):
    """Of a file: the connection, then the subflow."""


class WindowOut(Schema):
    """cwnd after the ACKs of one subflow, in segments."""

    subflow: int
    mean: float
    max: float
    last: float


class ReplayOut(Schema):
    id: uuid.UUID
    label: str
    """The algorithm's name, and its options where they are not the defaults."""
    algorithm: str
    options: dict[str, str]
    state: State
    error: str | None
    created_at: datetime
    windows: list[WindowOut] | None
    """None until the replay is done."""
    has_series: bool
    """Can its windows be drawn over time? Not before it is done, and not after retention has deleted its series."""
    asked_for: bool = True
    """Did a member ask for it? It can be deleted when it has ended; others are part of the capture's analysis."""


class FirstViolation(Schema):
    algorithm: str
    property: str
    """As the specification calls it."""
    step: str
    path: int
    row: int
    """Rows of the capture before it."""
    time_ns: int


class ConformanceOut(Schema):
    """What the monitor found of the controllers' steps, when the capture was analysed."""

    steps: int
    violations: int
    first: FirstViolation | None


class ConnectionFlags(Schema):
    """Of Multipath TCP; all false for TCP."""

    fallback: bool
    """It went on as plain TCP."""
    checksum: bool
    """Its data sequence mappings carry checksums."""
    fast_closed: bool
    """It was closed by MP_FASTCLOSE."""


class ConnectionDetail(ConnectionOut):
    started_at: datetime | None
    """The first packet's time, to a microsecond (RFC 3339); null where the capture's clock says a year that has not
    four digits."""
    details: ConnectionFlags
    conformance: ConformanceOut | None
    """None: analysed before steps were checked."""
    capture_filename: str
    raw_deleted_at: datetime | None
    """When retention deleted the stored copy: nothing can be replayed or predicted since. null: it did not."""
    series_deleted_at: datetime | None
    """When retention deleted the capture's series. null: it did not. Replays since then have their own."""
    subflows: list[SubflowOut]
    replays: list[ReplayOut]


class LineOut(Schema):
    """The window of one subflow under one algorithm, in segments. Times: nanoseconds since `first_ns` of the series."""

    subflow: int
    algorithm: str
    """The label of a replay."""
    rows: int
    """Before the reduction to what the width shows."""
    time_ns: list[int]
    cwnd: list[float]
    ssthresh: list[float | None]
    """None: not set."""


class MarksOut(Schema):
    """Events of one kind on one subflow. Times in nanoseconds since `first_ns` of the series."""

    subflow: int
    kind: str
    count: int
    """How many there are; `time_ns` has fewer where they are too many."""
    time_ns: list[int]


class RecordedOut(Schema):
    """What the sender of one subflow had, before each ACK. Times: nanoseconds since `first_ns` of the series."""

    subflow: int
    what: Literal["flight", "window", "rtt"]
    """Data in flight and the receiver's window in segments, samples of the round-trip time in milliseconds."""
    rows: int
    """ACKs of the subflow in the period, before the reduction to what the width shows."""
    time_ns: list[int]
    """Nanoseconds since `first_ns` of the series."""
    values: list[float]
    """Before the ACKs at `time_ns`; the receiver's window is that of the ACK."""


class SeriesOut(Schema):
    """Nanoseconds since 1970 are text: they do not fit a double.

    Where a line has more ACKs than the width shows, it has the first, least, greatest and last value of each column of
    pixels.
    """

    first_ns: str
    last_ns: str
    is_reduced: bool
    """Read from an overview: the times of extremes are those of blocks of at most 256 ACKs."""
    lines: list[LineOut]
    marks: list[MarksOut]
    recorded: list[RecordedOut]
    """One for each subflow and each of what the parameter `recorded` names."""


def _is_time(text: str) -> str:
    if abs(int(text)) > 2**62:
        raise ValueError("a time has to be within 2^62 ns of 1970")
    return text


Nanoseconds = Annotated[str, BeforeValidator(str)]
TimeOfNote = Annotated[str, Field(pattern=r"^-?[0-9]{1,19}$"), AfterValidator(_is_time)]
NoteText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class NoteOut(Schema):
    """A note that is pinned to a time of a connection."""

    id: uuid.UUID
    at_ns: Nanoseconds
    """Nanoseconds since 1970, as text: they do not fit a double."""
    text: str
    """What the member wrote."""
    author: str
    """The member's name at that time."""
    created_at: datetime
    """When it was written."""
    changed_by: str | None
    """The member who changed it last; null: nobody did."""
    changed_at: datetime | None
    """When it was changed last."""


class NoteIn(Wanted):
    at_ns: TimeOfNote
    """Nanoseconds since 1970, as text: they do not fit a double."""
    text: NoteText
    """What is to be said of this time."""


class NoteChange(Wanted):
    """What is to be changed; what is left out stays."""

    at_ns: TimeOfNote | None = None
    """Another time, nanoseconds since 1970."""
    text: NoteText | None = None
    """Takes the place of the text."""
    text_before: NoteText | None = None
    """The text that `text` was made from. Where it is another by now, nothing is changed: the answer is 409."""


class AcksOut(Schema):
    """Rows of a connection's series, in capture order: one for each ACK that reached the sender."""

    columns: list[str]
    """Names of the columns: those of the event, then those of each replay, with its label and a point before them."""
    rows: list[list[str | int | float | bool | None]]
    """A value for each column. `time_ns`, nanoseconds since 1970, is text: it does not fit a double."""
    next_cursor: str | None
    """Of the next page; null: this is the last one."""


class SegmentsOut(Schema):
    """The segments of a connection, which a job reads from the capture."""

    id: uuid.UUID
    state: State
    error: str | None
    """Why they could not be read."""
    created_at: datetime
    """When they were asked for."""


class SequenceLineOut(Schema):
    """A position over time, after each ACK of the subflow."""

    what: Literal["acked", "edge", "sent", "allowed"]
    """Acknowledged; the edge of the receiver's window; sent before the ACK; una + cwnd of a replayed algorithm."""
    algorithm: str | None
    """The label of a replay, of what it allows."""
    rows: int
    """ACKs of the subflow in the period, before the reduction to what the width shows."""
    time_ns: list[int]
    """Nanoseconds since `first_ns` of the graph."""
    values: list[float | None]
    """Bytes from the subflow's first byte. None: not known."""


class SequenceSegmentsOut(Schema):
    """Data segments or SACK blocks of one kind."""

    kind: Literal["data", "retransmission", "reinjection", "sack", "dsack"]
    """Reinjection: new to the subflow, but the MPTCP connection has sent all of it before. SACK blocks are those that
    the ACK before did not have; dsack reports a duplicate."""
    count: int
    """How many there are in the period; where they are read from an overview, in its blocks of at most 256."""
    is_exact: bool
    """False: an element stands for all that fall on the same pixels."""
    time_ns: list[int]
    """Nanoseconds since `first_ns` of the graph."""
    position: list[int]
    """Of the first byte, from the subflow's first byte on."""
    bytes: list[int]
    """From the first byte to the end of the last one."""


class SequenceOut(Schema):
    """The time-sequence graph of a subflow. Nanoseconds since 1970 are text: they do not fit a double."""

    first_ns: str
    last_ns: str
    """Last ACK of the connection."""
    subflow: int
    """Its number within the connection."""
    is_reduced: bool
    """Lines are read from an overview: the times of extremes are those of blocks of at most 256 ACKs."""
    lines: list[SequenceLineOut]
    """Empty where an earlier version analysed the capture, or no ACK reached the subflow's sender."""
    asked: SegmentsOut | None
    """None: nobody has asked for the connection's segments."""
    segments: list[SequenceSegmentsOut]
    """Empty unless they are read."""


class ReplayIn(Wanted):
    algorithm: Annotated[str, Field(max_length=40)]
    """Case and spaces do not matter."""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=32)
    """Values by name, as GET /v1/algorithms lists them; those that are left out have their defaults."""


class ReplaysIn(ReplayIn):
    """The same replay of many connections."""

    selection: SelectionIn
    """Which connections. At least one filter or id is needed, or `everything`."""
    cursor: Annotated[str | None, Field(max_length=200)] = None
    """`next_cursor` of the part before."""
