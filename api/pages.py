"""Keyset pagination: the cursor is the key of the last row of a page, so that pages neither skip nor repeat a row."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from sqlalchemy import ColumnElement, Select, and_, or_, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from api.errors import BadRequest
from api.schemas import Schema
from store.models import BIGINT_MAX, State

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=4000)]
"""A cursor has the last row's values, of which a file's name is the longest: 255 characters of up to 4 bytes."""


class Page(Schema, Generic[T]):
    items: list[T]
    next_cursor: str | None
    """For the next page; None on the last one."""


More = Callable[[AsyncSession, str | None, int], Awaitable[Page[Any]]]
"""The page behind a cursor, with so many items."""


@dataclass(frozen=True)
class Keyset:
    """The order of a list, by columns that together are unique. A cursor holds one value of each column's type."""

    columns: tuple[InstrumentedAttribute[Any], ...]
    descending: bool = False
    first_may_be_null: bool = False
    """Of the first column, which has integers. Rows without a value are the last in both directions."""
    name: str = ""
    """Of an order among several of one list: a cursor of another order is refused."""

    async def page(
        self, session: AsyncSession, query: Select[Any], cursor: str | None, limit: int, out: Callable[[Any], T]
    ) -> Page[T]:
        """The page behind the cursor; `out` makes an item of a row of the query. Raises BadRequest."""
        if cursor is not None:
            query = query.where(self._behind(self._parse(cursor)))
        order: list[ColumnElement[Any]] = [c.desc() if self.descending else c.asc() for c in self.columns]
        if self.first_may_be_null:
            order[0] = order[0].nulls_last()
        # One row more than asked for tells whether there is another page.
        query = query.add_columns(*self.columns).order_by(*order).limit(limit + 1)
        rows = (await session.execute(query)).all()
        shown = rows[:limit]
        more = len(rows) > limit
        return Page(
            items=[out(row) for row in shown],
            next_cursor=self._cursor(shown[-1][-len(self.columns) :]) if more else None,
        )

    def _behind(self, last: tuple[Any, ...]) -> ColumnElement[bool]:
        def follows(columns: Sequence[Any], values: tuple[Any, ...]) -> ColumnElement[bool]:
            return tuple_(*columns) < values if self.descending else tuple_(*columns) > values

        first, *others = self.columns
        if not self.first_may_be_null:
            return follows(self.columns, last)
        if last[0] is None:
            return and_(first.is_(None), follows(others, last[1:]))
        return or_(follows(self.columns, last), first.is_(None))

    def _cursor(self, key: Sequence[Any]) -> str:
        texts = [None if v is None else v.isoformat() if isinstance(v, datetime) else str(v) for v in key]
        return encode([self.name, *texts] if self.name else texts)

    def _parse(self, cursor: str) -> tuple[Any, ...]:
        parts = decode(cursor)
        if self.name and (not parts or parts.pop(0) != self.name):
            raise foreign()
        readers: list[Callable[[Any], Any]] = [_PARSE[c.type.python_type] for c in self.columns]
        if self.first_may_be_null:
            readers[0] = _perhaps_integer
        certain = parts[1:] if self.first_may_be_null else parts
        if len(parts) != len(readers) or not all(isinstance(part, str) for part in certain):
            raise foreign()
        try:
            return tuple(read(part) for read, part in zip(readers, parts, strict=True))
        except ValueError as e:
            raise foreign() from e


def foreign() -> BadRequest:
    return BadRequest("this cursor was not made by this API for this list")


def _time(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError("a time without a zone")
    return value


def _integer(text: str, least: int = 0) -> int:
    value = int(text)
    if not least <= value <= BIGINT_MAX:
        raise ValueError("out of range")
    return value


def _perhaps_integer(part: Any) -> int | None:
    """Raises ValueError."""
    return None if part is None else _integer(str(part), -BIGINT_MAX)


_PARSE: dict[type, Callable[[str], Any]] = {
    datetime: _time, uuid.UUID: uuid.UUID, int: _integer, str: str, State: State
}  # fmt: skip


def encode(key: Sequence[str | int | float | None]) -> str:
    return base64.urlsafe_b64encode(json.dumps(key, ensure_ascii=False).encode()).decode().rstrip("=")


def decode(cursor: str) -> list[Any]:
    """Raises BadRequest."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, UnicodeDecodeError, RecursionError) as e:
        raise foreign() from e
    if not isinstance(key, list):
        raise foreign()
    return key
