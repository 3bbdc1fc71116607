"""Filters of connections and captures: the same query parameters on every route that searches or counts.

All filters hold together. The values of a request reach PostgreSQL as bound parameters only.
"""

from __future__ import annotations

import inspect
import ipaddress
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, ValidationError
from sqlalchemy import ColumnElement, Integer, Text, and_, any_, cast, func, not_, or_, select
from sqlalchemy.dialects.postgresql import ARRAY, INET

from api.errors import BadRequest, Unprocessable
from api.measured import Name as Measure
from api.measured import has_value
from api.schemas import Schema
from store import facts
from store.models import BIGINT_MAX, VERDICTS, Capture, ConnectionFact, PinnedNote, QualityRecord, Verdict

SEVERAL_MAX = 16
"""Values of one filter."""
NONE = "none"
"""As a value of some filters: there is no such thing."""
_COUNT_MAX = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _network(text: str) -> str:
    """Raises ValueError. No zone of an IPv6 address: captures have none."""
    try:
        if "%" in text:
            raise ValueError
        return str(ipaddress.ip_network(text.strip(), strict=False))
    except ValueError:
        raise ValueError(f"'{text}' is no address and no prefix; 10.0.0.1, 10.0.0.0/8 and fd00::/8 are") from None


Network = Annotated[str, Field(max_length=64), AfterValidator(_network)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(min_length=1, max_length=60)]
Pair = Annotated[str, Field(max_length=200)]
Size = Annotated[int | None, Field(ge=0, le=BIGINT_MAX)]
Count = Annotated[int | None, Field(ge=0, le=_COUNT_MAX)]
Number = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]
Several: Any = Field(default_factory=list, max_length=SEVERAL_MAX)


class CaptureFilters(Schema):
    """Of the capture itself, whatever its connections are."""

    model_config = ConfigDict(extra="forbid")

    capture_id: uuid.UUID | None = None
    """Only this capture."""
    tag: list[Pair] = Several
    """key=value; may be given several times, with different keys, and then all must be there."""
    without_tag: list[Name] = Several
    """Keys of tags: the capture has none of them."""
    uploader: list[uuid.UUID | Literal["none"]] = Several
    """Ids of tokens: the capture was uploaded first with one of them; none: it is not known with which."""
    since: AwareDatetime | None = None
    """Only captures that were uploaded at this time or later (RFC 3339, with a zone)."""
    until: AwareDatetime | None = None
    """Only captures that were uploaded before this time (RFC 3339, with a zone)."""
    capture_verdict: list[Verdict] = Several
    """The capture itself, as a record of the traffic, has one of these verdicts; what is not analysed has none."""
    q: Annotated[str | None, Field(max_length=200)] = None
    """A part of the capture's file name, of its notes, or of a note pinned to one of its connections; small and capital
    letters are the same."""


class ConnectionFilters(Schema):
    """Results about a connection."""

    model_config = ConfigDict(extra="forbid")

    address: list[Network] = Several
    """Addresses or prefixes: either end of a subflow is in one of them."""
    port: list[Port] = Several
    """Either end of a subflow has one of these ports."""
    src: list[Network] = Several
    """Addresses or prefixes: the main subflow's sender is in one of them."""
    dst: list[Network] = Several
    """Addresses or prefixes: the main subflow's receiver is in one of them."""
    sport: list[Port] = Several
    """The main subflow's sender has one of these ports."""
    dport: list[Port] = Several
    """The main subflow's receiver has one of these ports."""
    kind: Literal["tcp", "mptcp"] | None = None
    """tcp or mptcp."""
    sender_algorithm: list[Name] = Several
    """The main subflow's sender most likely ran one of these."""
    verdict: list[Verdict] = Several
    """The connection has one of these verdicts."""
    mark: list[Name] = Several
    """Names of findings (`quality`): the connection has one of them; none: it has no finding."""
    all_marks: list[Name] = Several
    """Names of findings: the connection has all of them; none: it has no finding."""
    reliable: list[Measure] = Several
    """Measures of /v1/aggregates: the connection has a reliable value of each of them, or is a member of a group that
    has."""
    measured: list[Measure] = Several
    """Measures of /v1/aggregates: the connection has a value of each of them, reliable or not, or is a member of a
    group that has."""
    bytes_min: Size = None
    """Least bytes of data."""
    bytes_max: Size = None
    """Most bytes of data."""
    duration_s_min: Number = None
    """Least seconds from the first packet to the last."""
    duration_s_max: Number = None
    """Most seconds from the first packet to the last."""
    completion_s_min: Number = None
    """Least seconds from the first data to its last acknowledgment."""
    completion_s_max: Number = None
    """Most seconds from the first data to its last acknowledgment."""
    rtt_us_min: Size = None
    """Least median RTT of the main subflow, microseconds."""
    rtt_us_max: Size = None
    """Most median RTT of the main subflow, microseconds."""
    rtt_inflation_min: Number = None
    """Least ratio of the main subflow's median RTT to its smallest."""
    rtt_inflation_max: Number = None
    """Most ratio of the main subflow's median RTT to its smallest."""
    retransmission_rate_min: Annotated[float | None, Field(ge=0, le=1)] = None
    """Least part of the packets that sent data again, 0 to 1."""
    retransmission_rate_max: Annotated[float | None, Field(ge=0, le=1)] = None
    """Most part of the packets that sent data again, 0 to 1."""
    goodput_bps_min: Number = None
    """Least goodput, bits per second."""
    goodput_bps_max: Number = None
    """Most goodput, bits per second."""
    subflow_count_min: Count = None
    """Least number of subflows."""
    subflow_count_max: Count = None
    """Largest number of subflows."""
    from_: Annotated[AwareDatetime | None, Field(alias="from")] = None
    """Only connections whose first packet was captured at this time or later (RFC 3339, with a zone)."""
    to: AwareDatetime | None = None
    """Only connections whose first packet was captured before this time (RFC 3339, with a zone)."""


class Filters(CaptureFilters, ConnectionFilters):
    """All filters."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @property
    def concern_connections(self) -> bool:
        return bool(self.model_fields_set & ConnectionFilters.model_fields.keys())


def _from_query() -> Callable[..., Filters]:
    """A dependency of FastAPI whose parameters are the fields of Filters: each is described once."""

    def filters(**values: Any) -> Filters:
        given = {n: v for n, v in values.items() if v is not None and v != []}
        return Filters.model_construct(_fields_set=set(given), **values)

    parameters = []
    for name, field in Filters.model_fields.items():
        default = [] if field.default_factory else field.default
        query = Query(alias=field.alias, description=field.description)
        kind = Annotated.__class_getitem__((field.annotation, *field.metadata, query))  # type: ignore[attr-defined]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    filters.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return filters


from_query = _from_query()

_RANGES: dict[str, ColumnElement[Any]] = {
    "bytes": ConnectionFact.bytes.expression,
    "duration_s": ConnectionFact.duration_s.expression,
    "completion_s": ConnectionFact.completion_s.expression,
    "rtt_us": ConnectionFact.rtt_us.expression,
    "rtt_inflation": facts.RTT_INFLATION,
    "retransmission_rate": ConnectionFact.retransmission_rate.expression,
    "goodput_bps": ConnectionFact.goodput_bps.expression,
    "subflow_count": ConnectionFact.subflow_count.expression,
}


def given(wanted: Filters) -> set[str]:
    """The names of the filters that select something."""
    return {name for name in wanted.model_fields_set if getattr(wanted, name) not in (None, [])}


def parsed(query: str, where: str) -> Filters:
    """Filters from a query string; where: what errors call it. Raises Unprocessable."""
    given: dict[str, Any] = {}
    fields = {f.alias or n: f for n, f in Filters.model_fields.items()}
    try:
        pairs = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=100)
    except ValueError as e:
        raise Unprocessable(f"{where} is no query string of filters") from e
    for name, several in pairs.items():
        field = fields.get(name)
        if field is not None and field.default_factory is None and len(several) > 1:
            raise Unprocessable(f"{where}: {name} is given more than once")
        given[name] = several if field is not None and field.default_factory else several[0]
    try:
        return Filters.model_validate(given)
    except ValidationError as e:
        first = e.errors()[0]
        if first["type"] == "extra_forbidden":
            raise Unprocessable(f"{where}: there is no filter '{str(first['loc'][0])[:60]}'") from e
        raise Unprocessable(
            f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
        ) from e


def are_within(part: Filters, whole: Filters) -> bool:
    """Does `whole` surely select all that `part` selects?"""
    names = given(whole)
    return names <= given(part) and all(_is_within(n, getattr(part, n), getattr(whole, n)) for n in names)


def _is_within(name: str, part: Any, whole: Any) -> bool:
    if name == "tag":  # all of them hold
        return set(whole) <= set(part)
    if name == "from_":
        return bool(whole <= part)
    if name == "to":
        return bool(part <= whole)
    return bool(part == whole)


def tags_of(pairs: list[str]) -> dict[str, str]:
    """Raises BadRequest."""
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or len(pair) > 200 or not pair.isprintable():
            raise BadRequest(f"tag '{pair[:40]}' is not of the form key=value")
        if tags.setdefault(key, value) != value:
            both = f"'{tags[key][:40]}' or '{value[:40]}'"
            raise BadRequest(f"tag '{key[:40]}' is given with two values, and a capture has one: {both}")
    return tags


def of_captures(wanted: Filters) -> list[ColumnElement[bool]]:
    """Conditions on `captures`. Raises BadRequest."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.capture_id:
        conditions.append(Capture.id == wanted.capture_id)
    if wanted.tag:
        conditions.append(Capture.tags.contains(tags_of(wanted.tag)))
    if wanted.without_tag:
        conditions.append(not_(Capture.tags.has_any(cast(wanted.without_tag, ARRAY(Text)))))
    if wanted.uploader:
        ids = [i for i in wanted.uploader if i != NONE]
        is_unknown = [Capture.uploader_id.is_(None)] if NONE in wanted.uploader else []
        conditions.append(or_(Capture.uploader_id.in_(ids), *is_unknown))
    if wanted.since:
        conditions.append(Capture.created_at >= wanted.since)
    if wanted.until:
        conditions.append(Capture.created_at < wanted.until)
    if wanted.capture_verdict:
        conditions.append(Capture.verdict_rank.in_([VERDICTS.index(v) + 1 for v in wanted.capture_verdict]))
    if wanted.q:
        pinned = select(PinnedNote.capture_id).where(PinnedNote.text.icontains(wanted.q, autoescape=True))
        conditions.append(
            or_(
                Capture.filename.icontains(wanted.q, autoescape=True),
                Capture.notes.icontains(wanted.q, autoescape=True),
                Capture.id.in_(pinned),
            )
        )
    return conditions


def periods(wanted: Filters) -> Sequence[facts.Period]:
    """When the connections began."""
    if not (wanted.from_ or wanted.to):
        return facts.ALWAYS
    begin, end = (None if time is None else nanoseconds(time) for time in (wanted.from_, wanted.to))
    return [(begin, end)]


def of_connections(wanted: Filters, *, times: bool = True) -> list[ColumnElement[bool]]:
    """Conditions on `connection_facts`; times: also that of `periods`."""
    conditions: list[ColumnElement[bool]] = []
    fact = ConnectionFact
    if times and (wanted.from_ or wanted.to):
        conditions.append(facts.during(fact.first_ns, periods(wanted)))
    if wanted.kind:
        conditions.append(fact.kind == wanted.kind)
    if wanted.sender_algorithm:
        conditions.append(fact.sender_algorithm.in_(wanted.sender_algorithm))
    for name, value in _RANGES.items():
        least, most = getattr(wanted, f"{name}_min"), getattr(wanted, f"{name}_max")
        if least is not None:
            conditions.append(value >= least)
        if most is not None:
            conditions.append(value <= most)
    if wanted.verdict:
        conditions.append(_of_qualities(QualityRecord.verdict.in_(wanted.verdict)))
    if wanted.mark:
        conditions.append(_of_qualities(or_(*(_has_mark(name) for name in wanted.mark))))
    if wanted.all_marks:
        conditions.append(_of_qualities(and_(*(_has_mark(name) for name in wanted.all_marks))))
    for end, networks in ((fact.src, wanted.src), (fact.dst, wanted.dst)):
        if networks:
            conditions.append(or_(*(_is_in(end, network) for network in networks)))
    for port, ports in ((fact.sport, wanted.sport), (fact.dport, wanted.dport)):
        if ports:
            conditions.append(port.in_(ports))
    conditions += [has_value(name, reliable=True) for name in wanted.reliable]
    conditions += [has_value(name, reliable=False) for name in wanted.measured]
    if wanted.address:
        conditions.append(or_(*(_has_address(network) for network in wanted.address)))
    if wanted.port:
        of_any = fact.ports.overlap(cast(wanted.port, ARRAY(Integer)))
        conditions.append(or_(fact.sport.in_(wanted.port), fact.dport.in_(wanted.port), of_any))
    return conditions


def _of_qualities(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return ConnectionFact.quality_id.in_(select(QualityRecord.id).where(condition))


def _has_mark(name: str) -> ColumnElement[bool]:
    return func.cardinality(QualityRecord.quality) == 0 if name == NONE else QualityRecord.quality.contains([name])


def _is_in(address: Any, network: str) -> ColumnElement[bool]:
    found: ColumnElement[bool] = address.op("<<=", is_comparison=True)(cast(network, INET))
    return found


def _has_address(network: str) -> ColumnElement[bool]:
    """Is an end of a subflow in the network?"""
    of_any = cast(network, INET).op(">>=", is_comparison=True)(any_(ConnectionFact.addresses))
    return or_(_is_in(ConnectionFact.src, network), _is_in(ConnectionFact.dst, network), of_any)


def nanoseconds(time: datetime) -> int:
    """Since 1970, within the range of a column of PostgreSQL."""
    since_epoch = (time - _EPOCH) // timedelta(microseconds=1) * 1000
    return max(-BIGINT_MAX, min(since_epoch, BIGINT_MAX))
