"""Lists as files: CSV, JSON lines and Parquet, written page by page, so that the memory they need does not grow.

CSV and Parquet have a column for each field of the list's items. A nested object's fields are columns of their own,
with its name before theirs; what has no fixed number of parts is text of JSON. Each page is a transaction of its own:
a client that reads slowly holds no row back, and what changes meanwhile is read as it is then, as on pages.
"""

from __future__ import annotations

import csv
import io
import json
import types
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
import pydantic_core
from fastapi import Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.concurrency import run_in_threadpool

from api import audit, filters
from api.filters import Filters
from api.pages import More, Page
from api.schemas import Schema
from api.security import Caller, transaction
from store.models import Capture

PAGE = 1000
"""Items that are read, and written, at once."""
MEDIA_TYPES = {
    "csv": "text/csv",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
Suffix = Annotated[
    Literal["csv", "jsonl", "parquet"],
    Path(description="csv: RFC 4180 with a header; jsonl: a line of JSON for each item, as the list has it; parquet"),
]
Addresses = Literal["kept", "replaced", "some-replaced"]
"""What is stored of the addresses in some captures."""
Most = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The most rows; without it, all.")]
_TEXT: dict[str, Any] = {"type": "string"}
FILE: dict[str, Any] = {
    "description": "The file, all pages of the list in one.",
    "content": {
        MEDIA_TYPES["csv"]: {"schema": _TEXT},
        MEDIA_TYPES["jsonl"]: {"schema": _TEXT},
        MEDIA_TYPES["parquet"]: {"schema": {**_TEXT, "format": "binary"}},
    },
}
"""The answer, as OpenAPI describes it."""
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        **FILE,
        "headers": {
            "Rewindow-Addresses": {
                "description": "Of the captures that the rows are from: kept, replaced (by others, which have common"
                " prefixes where the addresses had them), or some-replaced.",
                "schema": {"type": "string"},
            }
        },
    }
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet takes for a formula (OWASP, CSV injection)."""


def defused(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would compute it."""
    return f"'{text}" if text.startswith(_FORMULA) else text


@dataclass(frozen=True)
class Column:
    """path: the way to its value in an item that is made of dictionaries and lists."""

    name: str
    kind: pa.DataType
    path: tuple[str | int, ...]
    is_json: bool = False

    def value(self, item: Any) -> Any:
        """None: it, or an object around it, is null."""
        for step in self.path:
            if item is None:
                return None
            item = item[step]
        if item is None:
            return None
        if self.is_json:
            return pydantic_core.to_json(item).decode()
        if isinstance(item, uuid.UUID):
            return str(item)
        return item.value if isinstance(item, Enum) else item


_SCALARS: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    uuid.UUID: pa.string(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def _without_null(annotation: Any) -> Any:
    """The type without metadata and without None."""
    if get_origin(annotation) is Annotated:
        return _without_null(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        (kind,) = (a for a in get_args(annotation) if a is not type(None))
        return _without_null(kind)
    return annotation


def columns_of(schema: type[BaseModel], besides: Sequence[str] = (), path: tuple[str, ...] = ()) -> list[Column]:
    """A column for each field, but for those in `besides`."""
    found = []
    for name, field in schema.model_fields.items():
        if name not in besides:
            found += _columns(_without_null(field.annotation), (*path, name))
    return found


def _columns(kind: Any, path: tuple[str, ...]) -> list[Column]:
    name = "_".join(path)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return columns_of(kind, path=path)
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return [Column(name, pa.string(), path)]
    if kind in _SCALARS:
        return [Column(name, _SCALARS[kind], path)]
    if get_origin(kind) is list and _without_null(get_args(kind)[0]) is str:
        return [Column(name, pa.list_(pa.string()), path)]
    return [Column(name, pa.string(), path, is_json=True)]


class _Writer(Protocol):
    def page(self, items: Sequence[Schema]) -> bytes: ...

    def end(self) -> bytes: ...


class _Csv:
    def __init__(self, columns: Sequence[Column], about: dict[str, Any]) -> None:
        self._columns = columns
        self._has_header = False

    def page(self, items: Sequence[Schema]) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text)
        if not self._has_header:
            writer.writerow(defused(c.name) for c in self._columns)
            self._has_header = True
        for item in items:
            row = item.model_dump()
            writer.writerow([_cell(c.value(row)) for c in self._columns])
        return text.getvalue().encode()

    def end(self) -> bytes:
        return b""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return defused("|".join(value))
    return defused(value) if isinstance(value, str) else str(value)


class _JsonLines:
    def __init__(self, columns: Sequence[Column], about: dict[str, Any]) -> None:
        pass

    def page(self, items: Sequence[Schema]) -> bytes:
        return b"".join(item.model_dump_json().encode() + b"\n" for item in items)

    def end(self) -> bytes:
        return b""


class _Parquet:
    """A row group for each page. The file's metadata has `about`, as JSON under the key rewindow."""

    def __init__(self, columns: Sequence[Column], about: dict[str, Any]) -> None:
        self._columns = columns
        self._schema = pa.schema([(c.name, c.kind) for c in columns], metadata={"rewindow": json.dumps(about)})
        self._out = Written()
        self._writer = pq.ParquetWriter(self._out, self._schema, compression="zstd")

    def page(self, items: Sequence[Schema]) -> bytes:
        rows = [item.model_dump() for item in items]
        arrays = [pa.array([c.value(row) for row in rows], c.kind) for c in self._columns]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        return self._out.taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._out.taken()


class Written(io.RawIOBase):
    """What was written since it was last taken; it counts on, as Parquet's footer names offsets."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


_WRITERS: dict[str, Callable[[Sequence[Column], dict[str, Any]], _Writer]] = {
    "csv": _Csv,
    "jsonl": _JsonLines,
    "parquet": _Parquet,
}


@dataclass(frozen=True)
class Table:
    """name: of the file, and of the table in the log and in the file's metadata."""

    name: str
    columns: Sequence[Column]
    filters: str
    """What selected the rows, as a query string."""


def given(rows: Sequence[Any]) -> More:
    """All rows of a table that is known as a whole, as its one page."""

    async def all_rows(session: AsyncSession, cursor: str | None, size: int) -> Page[Any]:
        return Page(items=list(rows), next_cursor=None)

    return all_rows


async def addresses_of(session: AsyncSession, caller: Caller, captures: Filters | ColumnElement[bool]) -> Addresses:
    """What is stored of the addresses in the captures that the filters of captures, or the condition, select."""
    query = select(Capture.addresses).distinct()
    conditions = filters.of_captures(captures) if isinstance(captures, Filters) else [captures]
    found = set(await session.scalars(query.where(Capture.team_id == caller.team_id, *conditions)))
    return "some-replaced" if len(found) == 2 else next(iter(found), "kept")


def about(table: str, selected_by: str, addresses: str | None) -> dict[str, Any]:
    """What a Parquet file says of itself. selected_by: a query string. addresses: kept, replaced, some-replaced; None:
    it has none."""
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"table": table, "made_at": made_at, "filters": selected_by, "addresses": addresses}


async def export(
    session: AsyncSession,
    caller: Caller,
    suffix: Suffix,
    table: Table,
    captures: Filters | ColumnElement[bool] | None,
    more: More,
    most: int | None = None,
) -> StreamingResponse:
    """The file with all pages of `more`, or its first `most` rows; a page may have more items than were asked for. The
    first page is read at once: what it raises is answered. captures: those that the rows are of; None: of none."""
    addresses = None if captures is None else await addresses_of(session, caller, captures)
    first = await more(session, None, min(PAGE, most or PAGE))
    await audit.note(session, caller, "export", None, table.name, what=suffix, filters=table.filters[:2000])
    writer = await run_in_threadpool(_WRITERS[suffix], table.columns, about(table.name, table.filters, addresses))
    name = table.name if addresses in (None, "kept") else f"{table.name}.other-addresses"
    return StreamingResponse(
        _written(writer, first, more, most),
        media_type=MEDIA_TYPES[suffix],
        headers={
            "Content-Disposition": f'attachment; filename="{name}.{suffix}"',
            **({} if addresses is None else {"Rewindow-Addresses": addresses}),
        },
    )


async def _written(writer: _Writer, first: Page[Any], more: More, most: int | None) -> AsyncIterator[bytes]:
    page, left = first, most
    while True:
        items = page.items[:left]
        yield await run_in_threadpool(writer.page, items)
        if left is not None:
            left -= len(items)
        if page.next_cursor is None or left == 0:
            break
        async with transaction() as session:
            page = await more(session, page.next_cursor, PAGE if left is None else min(PAGE, left))
    yield await run_in_threadpool(writer.end)
