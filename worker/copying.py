"""Stores columns by PostgreSQL's COPY in its binary format (PostgreSQL's manual, COPY, "Binary Format").

Some thousands of rows are encoded at once: each column is a matrix of bytes, beside another that says which of them are
sent where not all are, so that no Python object is made for a row. Lists that differ from row to row, as those of a
fairness group's members, are encoded one by one.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sqlalchemy import ARRAY, REAL, BigInteger, Boolean, Float, Integer, SmallInteger, String, Uuid
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy.dialects.postgresql import INET, JSONB
from sqlalchemy.types import TypeEngine

from rewindow.findings.tables import Column
from store import attempts
from store.models import Base

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Field = tuple[Bytes, Mask | None]
"""Of each row the bytes of one field, and which of them are sent: None for all."""

ROWS_MAX = 8192
"""That are encoded at once: their matrices have some megabytes."""
LIST_MAX = 64
"""Items of a field's list, up to which so many rows are encoded at once."""

SESSIONS = 2
"""Of PostgreSQL, that one attempt writes by: a session uses one core, and waits while this process encodes."""
_AHEAD = 4
"""Tables that may wait to be written; it bounds the memory that they need."""

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_FLOAT4_OID, _FLOAT8_OID, _VARCHAR_OID, _INT4_OID, _INT8_OID, _INET_OID = 700, 701, 1043, 23, 20, 869
_INET4, _INET6 = bytes((2, 32, 0, 4)), bytes((3, 128, 0, 16))
"""Family, bits of the mask, not a network, bytes of the address."""

_NUMBERS: tuple[tuple[type[TypeEngine[Any]], str], ...] = (  # BigInteger and SmallInteger are Integers too
    (BigInteger, ">i8"),
    (SmallInteger, ">i2"),
    (Integer, ">i4"),
    (Float, ">f8"),
    (Boolean, "|b1"),
)


class AttemptWriter:
    """Writes rows of an attempt, which no reader sees, while its caller makes the next ones.

    Each call of `copy` is a transaction of its own, and two of them run at once. The end of the `with` block waits for
    all of them. It, or a later `copy`, raises what one of them raised: JobLost where the attempt is being removed.
    """

    def __init__(self, attempt_id: int) -> None:
        self._attempt_id = attempt_id
        self._threads = ThreadPoolExecutor(SESSIONS, "attempt-writer")
        self._unfinished: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._unfinished and kind is None:
                self._unfinished.popleft().result()
        finally:
            self._threads.shutdown(cancel_futures=True)

    def copy(self, table: type[Base], columns: Mapping[str, Column]) -> None:
        """The caller leaves the columns as they are."""
        if len(self._unfinished) >= _AHEAD:
            self._unfinished.popleft().result()
        self._unfinished.append(self._threads.submit(self._write, table, columns))

    def _write(self, table: type[Base], columns: Mapping[str, Column]) -> None:
        with attempts.writing(self._attempt_id) as database:
            copy(database, table, columns)


def copy(database: DatabaseConnection, table: type[Base], columns: Mapping[str, Column]) -> None:
    """Inserts rows into the named columns of a table, in the transaction of `database`."""
    count = len(next(iter(columns.values())).values)
    types = {name: table.__table__.columns[name].type for name in columns}
    raw: Any = database.connection.driver_connection
    with (
        raw.cursor() as cursor,
        cursor.copy(f"COPY {table.__tablename__} ({', '.join(columns)}) FROM STDIN (FORMAT binary)") as target,
    ):
        target.write(_HEADER)
        rows = _rows_at_once(columns)
        for first in range(0, count, rows):
            places = np.arange(first, min(first + rows, count))
            target.write(encoded({n: c.take(places) for n, c in columns.items()}, types))
        target.write(_TRAILER)


def _rows_at_once(columns: Mapping[str, Column]) -> int:
    """Fewer than usual where a field has a long list: each row of a matrix has room for it."""
    lists = (t for c in columns.values() for t in c.texts or () if isinstance(t, list | tuple))
    return max(1, ROWS_MAX * LIST_MAX // max(LIST_MAX, max(map(len, lists), default=0)))


def encoded(columns: Mapping[str, Column], types: Mapping[str, TypeEngine[Any]]) -> bytes:
    """Rows without header and trailer: of each the number of fields, then for each field its length and its bytes."""
    count = len(next(iter(columns.values())).values)
    fields = [_field(column, types[name]) for name, column in columns.items()]
    ends = np.cumsum([2, *(cells.shape[1] for cells, _ in fields)]).tolist()
    row = np.empty((count, ends[-1]), np.uint8)
    row[:, :2] = np.frombuffer(struct.pack(">h", len(fields)), np.uint8)
    sent = np.ones(row.shape, bool) if any(mask is not None for _, mask in fields) else None
    for begin, end, (cells, mask) in zip(ends, ends[1:], fields, strict=False):
        row[:, begin:end] = cells
        if mask is not None and sent is not None:
            sent[:, begin:end] = mask
    return row.tobytes() if sent is None else row[sent].tobytes()


def _field(column: Column, kind: TypeEngine[Any]) -> Field:
    if column.texts is not None:
        used, codes = np.unique(column.values, return_inverse=True)
        return _coded(codes, [_text(column.texts[code], kind) for code in used.tolist()])
    if column.family is not None:
        if not isinstance(kind, INET):
            raise TypeError(f"an address for a column of type {kind}")
        return _addresses(column.values, column.family)
    if isinstance(kind, Uuid):
        return _fixed(column.values, column.missing)
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, Float):
        return _fixed(_float_arrays(column.values, isinstance(kind.item_type, REAL)), column.missing)
    for number, form in _NUMBERS:
        if isinstance(kind, number):
            values = np.ascontiguousarray(column.values).astype(form)
            return _fixed(values.view(np.uint8).reshape(len(values), -1), column.missing)
    raise TypeError(f"numbers for a column of type {kind}")


def _fixed(data: Bytes, missing: Mask | None) -> Field:
    """data: of each row as many bytes; missing: rows whose field is NULL, which is a length of -1 without bytes."""
    count, width = data.shape
    cells = np.empty((count, 4 + width), np.uint8)
    cells[:, :4] = np.frombuffer(struct.pack(">i", width), np.uint8)
    cells[:, 4:] = data
    if missing is None or not missing.any():
        return cells, None
    sent = np.ones(cells.shape, bool)
    cells[missing, :4] = 255
    sent[missing, 4:] = False
    return cells, sent


def _coded(codes: npt.NDArray[Any], texts: Sequence[bytes | None]) -> Field:
    width = max((len(t) for t in texts if t is not None), default=0)
    cells, sent = np.zeros((len(texts), 4 + width), np.uint8), np.zeros((len(texts), 4 + width), bool)
    for place, text in enumerate(texts):
        field = struct.pack(">i", -1) if text is None else struct.pack(">i", len(text)) + text
        cells[place, : len(field)] = np.frombuffer(field, np.uint8)
        sent[place, : len(field)] = True
    if len(texts) == 1:  # as for most columns
        return np.broadcast_to(cells[:, sent[0]], (len(codes), int(sent.sum()))), None
    return cells[codes], sent[codes]


def _text(value: Any, kind: TypeEngine[Any]) -> bytes | None:
    if value is None:
        return None
    if isinstance(kind, JSONB):
        return b"\x01" + json.dumps(value).encode()  # the version of the format
    if isinstance(kind, String):
        return str(value).encode()
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, String):
        return _array(_VARCHAR_OID, [str(v).encode() for v in value])
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, INET):
        return _array(_INET_OID, [_inet(v) for v in value])
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, Float) and not isinstance(kind.item_type, REAL):
        return _array(_FLOAT8_OID, [struct.pack(">d", v) for v in value])
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, BigInteger):
        return _array(_INT8_OID, [struct.pack(">q", v) for v in value])
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, Integer):
        return _array(_INT4_OID, [struct.pack(">i", v) for v in value])
    raise TypeError(f"a text for a column of type {kind}")


def _array(oid: int, values: Sequence[bytes]) -> bytes:
    """An array in one dimension, without NULLs, that begins at 1; without values it has no dimension."""
    head = struct.pack(">iiI", bool(values), 0, oid) + (struct.pack(">ii", len(values), 1) if values else b"")
    return head + b"".join(struct.pack(">i", len(v)) + v for v in values)


def _inet(address: str) -> bytes:
    found = ipaddress.ip_address(address)
    return (_INET4 if found.version == 4 else _INET6) + found.packed


def _addresses(addresses: Bytes, family: npt.NDArray[Any]) -> Field:
    count, is_4 = len(addresses), (family == 4)[:, np.newaxis]
    cells, sent = np.empty((count, 24), np.uint8), np.ones((count, 24), bool)
    v4, v6 = (np.frombuffer(struct.pack(">i", n) + head, np.uint8) for n, head in ((8, _INET4), (20, _INET6)))
    cells[:, :8] = np.where(is_4, v4, v6)
    cells[:, 8:] = addresses
    sent[:, 12:] = ~is_4
    return cells, sent


def _float_arrays(values: npt.NDArray[np.float64], are_short: bool) -> Bytes:
    """Of each row an array of float4 or float8 in one dimension, without NULLs, that begins at 1."""
    count, width = values.shape
    oid, form, size = (_FLOAT4_OID, ">f4", 4) if are_short else (_FLOAT8_OID, ">f8", 8)
    elements = np.empty((count, width, 4 + size), np.uint8)
    elements[:, :, :4] = np.frombuffer(struct.pack(">i", size), np.uint8)
    elements[:, :, 4:] = np.ascontiguousarray(values).astype(form).view(np.uint8).reshape(count, width, size)
    head = np.frombuffer(struct.pack(">iiIii", 1, 0, oid, width, 1), np.uint8)
    return np.hstack([np.broadcast_to(head, (count, len(head))), elements.reshape(count, width * (4 + size))])
