"""All connections of the team: filtered, sorted by any column, counted."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy import BigInteger, ColumnElement, Integer, Select, and_, cast, func, literal, or_, select, tuple_
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.ext.asyncio import AsyncSession

from api import filters, totals
from api.connections.schemas import ConnectionFound, ConnectionsFound, UploaderOut
from api.filters import Filters
from api.pages import Page, decode, encode, foreign
from api.security import Caller
from store import facts
from store.models import BIGINT_MAX, Capture, Connection, ConnectionFact, QualityRecord, Token

Column = Literal[
    "first_ns", "bytes", "duration_s", "completion_s", "goodput_bps", "rtt_us", "rtt_inflation",
    "retransmission_rate", "subflow_count", "kind", "sender_algorithm", "verdict", "marks", "src", "dst", "sport",
    "dport", "uploaded_at", "filename", "uploader",
]  # fmt: skip
SORTS = [sign + name for name in get_args(Column) for sign in ("", "-")]
TAG = "tag:"
"""Begins what is sorted by a tag; its key follows."""
TAG_PATTERN = rf"^-?{TAG}[^=]{{1,199}}$"

_OF_TABLES: dict[str, ColumnElement[Any]] = {
    "rtt_inflation": facts.RTT_INFLATION,
    "verdict": QualityRecord.verdict.expression,
    "marks": func.cardinality(QualityRecord.quality, type_=Integer),
    "uploaded_at": Capture.created_at.expression,
    "filename": Capture.filename.expression,
    "uploader": Token.name.expression,
}
_NULLABLE = ("rtt_inflation", "uploader")
"""Of these."""


@dataclass(frozen=True)
class Order:
    """By one column, then by what is unique; connections without a value come last in both directions."""

    name: str
    descending: bool

    @classmethod
    def parse(cls, text: str) -> Order:
        return cls(text.removeprefix("-"), text.startswith("-"))

    @property
    def column(self) -> ColumnElement[Any]:
        if self.name.startswith(TAG):
            value: ColumnElement[Any] = Capture.tags[self.name.removeprefix(TAG)].astext
            return value
        found = _OF_TABLES.get(self.name)
        return ConnectionFact.__table__.c[self.name] if found is None else found

    @property
    def text(self) -> str:
        return ("-" if self.descending else "") + self.name

    @property
    def _is_nullable(self) -> bool:
        of_other = self.name in _NULLABLE or self.name.startswith(TAG)
        return of_other or bool(getattr(self.column, "nullable", False))

    def by(self) -> list[ColumnElement[Any]]:
        keys = (self.column, *_UNIQUE)
        order: list[ColumnElement[Any]] = [k.desc() if self.descending else k.asc() for k in keys]
        if self._is_nullable:
            order[0] = order[0].nulls_last()
        return order

    def behind(self, cursor: str) -> ColumnElement[bool]:
        """Holds for the rows that follow the cursor's. Raises BadRequest."""
        parts = decode(cursor)
        if len(parts) != 4 or parts[0] != self.text:
            raise foreign()
        try:
            attempt, number = _KEY.validate_python(parts[2:])
            value = None if parts[1] is None else self._bound(parts[1])
        except (ValidationError, ValueError, OverflowError) as e:
            raise foreign() from e
        unique = tuple_(*_UNIQUE)
        last = tuple_(literal(attempt, ConnectionFact.attempt_id.type), literal(number, ConnectionFact.number.type))
        follows = unique < last if self.descending else unique > last
        if value is None:
            return and_(self.column.is_(None), follows)
        if not self._is_nullable:  # an index has these columns
            whole, bound = tuple_(self.column, *_UNIQUE), tuple_(value, *last.clauses)
            return whole < bound if self.descending else whole > bound
        beyond = self.column < value if self.descending else self.column > value
        return or_(beyond, and_(self.column == value, follows), self.column.is_(None))

    def _bound(self, text: Any) -> ColumnElement[Any]:
        """Raises ValueError."""
        kind: type = _KINDS.get(self.name, str)
        value: Any = TypeAdapter(kind).validate_python(text)
        if kind is int and not -_MOST[self.column.type.__class__] <= value <= _MOST[self.column.type.__class__]:
            raise ValueError("out of range")
        if kind is float and math.isnan(value):
            raise ValueError("not a number")
        if kind is datetime and value.tzinfo is None:
            raise ValueError("a time without a zone")
        if self.name in ("src", "dst"):
            return cast(str(TypeAdapter(filters.Network).validate_python(text)).split("/")[0], INET)
        return literal(value, self.column.type)

    def cursor_at(self, value: Any, attempt: int, number: int) -> str:
        if isinstance(value, datetime):
            value = value.isoformat()
        elif value is not None and self.name in ("src", "dst"):
            value = str(value)
        return encode([self.text, value, attempt, number])


_UNIQUE = (ConnectionFact.attempt_id, ConnectionFact.number)
_KEY = TypeAdapter(tuple[Annotated[int, Field(ge=0, le=BIGINT_MAX)], Annotated[int, Field(ge=0, lt=2**31)]])
_MOST: dict[type, int] = {BigInteger: BIGINT_MAX, Integer: 2**31 - 1}
_KINDS: dict[str, type] = {
    "first_ns": int, "bytes": int, "duration_s": float, "completion_s": float, "goodput_bps": float, "rtt_us": int,
    "rtt_inflation": float, "retransmission_rate": float, "subflow_count": int, "marks": int, "sport": int,
    "dport": int, "uploaded_at": datetime,
}  # fmt: skip
"""Of the columns that are no texts."""


def selected(caller: Caller, wanted: Filters, *columns: Any) -> Select[Any]:
    """Of the facts of the connections that the filters select. Raises BadRequest."""
    return facts.facts(caller.team_id, *columns).where(*filters.of_captures(wanted), *filters.of_connections(wanted))


async def find(
    session: AsyncSession, caller: Caller, wanted: Filters, order: Order, cursor: str | None, limit: int
) -> ConnectionsFound:
    """A page of them, and how many there are. Raises BadRequest."""
    page = await find_page(session, caller, wanted, order, cursor, limit)
    is_all = cursor is None and page.next_cursor is None
    total, is_exact = (len(page.items), True) if is_all else await _total(session, caller, wanted)
    return ConnectionsFound(items=page.items, next_cursor=page.next_cursor, total=total, total_is_exact=is_exact)


async def find_page(
    session: AsyncSession, caller: Caller, wanted: Filters, order: Order, cursor: str | None, limit: int
) -> Page[ConnectionFound]:
    """A page of them. Raises BadRequest."""
    keys = selected(caller, wanted, *_UNIQUE, order.column.label("value"), Capture.id.label("capture_id"))
    if order.name in ("verdict", "marks"):
        keys = keys.join(QualityRecord, QualityRecord.id == ConnectionFact.quality_id)
    if order.name == "uploader":
        keys = keys.outerjoin(Token, Token.id == Capture.uploader_id)
    if cursor is not None:
        keys = keys.where(order.behind(cursor))
    # One row more than asked for tells whether there is another page.
    rows = (await session.execute(keys.order_by(*order.by()).limit(limit + 1))).all()
    shown = rows[:limit]
    more = len(rows) > limit
    last = shown[-1] if more else None
    return Page(
        items=await _items(session, caller, [(r.attempt_id, r.number) for r in shown]),
        next_cursor=None if last is None else order.cursor_at(last.value, last.attempt_id, last.number),
    )


async def _total(session: AsyncSession, caller: Caller, wanted: Filters) -> tuple[int, bool]:
    """How many connections the filters select, and whether that is exact."""
    if not wanted.concern_connections:
        counts = select(func.coalesce(func.sum(Capture.connection_count), 0)).where(
            Capture.team_id == caller.team_id, Capture.attempt_id.is_not(None), *filters.of_captures(wanted)
        )
        return int((await session.execute(counts)).scalar_one() or 0), True
    return await totals.total(session, selected(caller, wanted, literal(1)))


async def _items(session: AsyncSession, caller: Caller, keys: list[tuple[int, int]]) -> list[ConnectionFound]:
    """In the order of the keys."""
    if not keys:
        return []
    entities: tuple[Any, ...] = (ConnectionFact, Connection, Capture, QualityRecord, Token.name)
    query = (
        facts.facts(caller.team_id, *entities)
        .join(
            Connection,
            and_(Connection.attempt_id == ConnectionFact.attempt_id, Connection.number == ConnectionFact.number),
        )
        .join(QualityRecord, QualityRecord.id == ConnectionFact.quality_id)
        .outerjoin(Token, Token.id == Capture.uploader_id)
        .where(tuple_(*_UNIQUE).in_(keys))
    )
    found = {}
    for row in await session.execute(query):
        found[row.ConnectionFact.attempt_id, row.ConnectionFact.number] = _out(row)
    return [found[key] for key in keys if key in found]


def _out(row: Any) -> ConnectionFound:
    fact, connection, capture, quality = row.ConnectionFact, row.Connection, row.Capture, row.QualityRecord
    names = (
        "number", "kind", "src", "sport", "dst", "dport", "bytes", "first_ns", "duration_s", "completion_s",
        "goodput_bps", "rtt_us", "rtt_min_us", "retransmission_rate", "subflow_count", "sender_algorithm",
    )  # fmt: skip
    has_ratio = fact.rtt_us is not None and fact.rtt_min_us
    return ConnectionFound(
        **{n: getattr(fact, n) for n in names},
        id=connection.id,
        capture_id=capture.id,
        filename=capture.filename,
        started_at=time_of(fact.first_ns),
        rtt_inflation=fact.rtt_us / fact.rtt_min_us if has_ratio else None,
        retransmitted_packets=connection.retransmitted_packets,
        verdict=quality.verdict,
        quality=quality.quality,
        unreliable=quality.unreliable,
        tags=capture.tags,
        uploader=uploader(capture.uploader_id, row.name),
        uploaded_at=capture.created_at,
        addresses=capture.addresses,
    )


def uploader(token_id: uuid.UUID | None, name: str | None) -> UploaderOut | None:
    return None if token_id is None else UploaderOut(id=token_id, name=name or "")


def time_of(ns: int) -> datetime | None:
    """None: the capture's clock says a year that has not four digits."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None
