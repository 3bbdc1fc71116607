"""Columns as the text of JSON objects. The core writes the same text as json.dumps, much faster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from rewindow.core import ffi, lib
from rewindow.findings.tables import Column, Columns

_BUFFER_BYTES = 1 << 20


def objects(columns: Columns, rows: int, parts: tuple[str, Columns, Any] | None = None) -> Iterator[memoryview]:
    """Rows as JSON objects, separated by commas, in pieces. Each piece is valid until the next one is requested.

    parts: a list as last member of each object: the member's name, the columns of the list's objects, and how many
    objects each list has.
    """
    keep: list[Any] = []
    table = _table(columns, keep, parts[0] if parts else None)
    part, part_count = ffi.NULL, ffi.NULL
    if parts:
        part = _table(parts[1], keep)
        part_count = ffi.from_buffer("uint32_t[]", np.ascontiguousarray(parts[2], np.uint32))
    first, first_part, written = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("uint64_t *")
    out = bytearray(_BUFFER_BYTES)
    while first[0] < rows:
        view = ffi.from_buffer("char[]", out, require_writable=True)
        done = lib.rw_text_rows(table, part, part_count, rows, first, first_part, view, len(out), written)
        ffi.release(view)
        if done:
            yield memoryview(out)[: written[0]]
        else:  # one row is longer than all of it
            out = bytearray(2 * len(out))


def _table(columns: Columns, keep: list[Any], list_name: str | None = None) -> Any:
    """An rw_text_table. keep: receives the objects that must live as long as the table."""

    def text(value: str) -> Any:
        keep.append(held := ffi.new("char[]", value.encode()))
        return held

    entries = ffi.new("rw_text_column[]", len(columns))
    for place, (name, column) in enumerate(columns.items()):
        before = f"{', ' if place else '{'}{json.dumps(name)}: "
        entries[place].before, entries[place].before_bytes = text(before), len(before)
        _set_values(entries[place], column, keep)
    table = ffi.new("rw_text_table *", {"column": entries, "columns": len(columns)})
    before_parts = "" if list_name is None else f", {json.dumps(list_name)}: ["
    after = "}" if list_name is None else "]}"
    table.between, table.between_bytes = text(", "), 2
    table.before_parts, table.before_parts_bytes = text(before_parts), len(before_parts)
    table.after, table.after_bytes = text(after), len(after)
    keep += [entries, table]
    return table


def _set_values(entry: Any, column: Column, keep: list[Any]) -> None:
    values = column.values
    if column.texts is not None:
        texts = [json.dumps(value, default=vars).encode() for value in column.texts]
        held, sizes = [ffi.new("char[]", t) for t in texts], ffi.new("uint32_t[]", [len(t) for t in texts])
        places = ffi.new("char *[]", held)
        entry.kind, entry.texts, entry.text_bytes, entry.text_count = lib.RW_TEXT_CODED, places, sizes, len(texts)
        values = np.ascontiguousarray(values, np.uint32)
        keep += [held, sizes, places]
    elif column.family is not None:
        family = np.ascontiguousarray(column.family, np.uint8)
        entry.kind, entry.family = lib.RW_TEXT_ADDRESS, ffi.cast("uint8_t *", family.ctypes.data)
        keep.append(family)
    elif values.dtype.kind == "i":
        entry.kind, values = lib.RW_TEXT_SIGNED, values.astype(np.int64, copy=False)
    else:
        entry.kind = {"u": lib.RW_TEXT_UNSIGNED, "b": lib.RW_TEXT_BOOLEAN, "f": lib.RW_TEXT_DOUBLE}[values.dtype.kind]
    if column.missing is not None:
        missing = np.ascontiguousarray(column.missing, np.uint8)
        entry.missing = ffi.cast("uint8_t *", missing.ctypes.data)
        keep.append(missing)
    entry.width, entry.stride = values.dtype.itemsize, values.strides[0]
    entry.values = ffi.cast("void *", values.ctypes.data)
    keep.append(values)
