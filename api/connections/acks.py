"""The rows of a series as they are: pages of a table, and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pydantic_core

from api.connections.series import Groups
from api.exports import Written

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Wanted:
    """Which rows. Without a bound: from the first, to the last, of all subflows."""

    from_ns: int | None
    to_ns: int | None
    subflow: int | None


class Table:
    """The rows of one connection: what was recorded, and the columns of replays, some of which are in other objects."""

    def __init__(self, acks_key: str, number: int, replays: Mapping[str, str | None]) -> None:
        """Raises FileNotFoundError."""
        self._base = _Rows(acks_key, number)
        self._parts: list[tuple[_Rows, list[str]]] = [(self._base, [n for n in self._base.names if "." not in n])]
        for label, key in replays.items():
            rows = self._base if key is None else _Rows(key, number)
            self._parts.append((rows, [n for n in rows.names if n.startswith(f"{label}.")]))

    @property
    def columns(self) -> list[str]:
        return [name for _, names in self._parts for name in names]

    def page(self, wanted: Wanted, first: int, limit: int) -> tuple[pa.Table, int | None]:
        """Rows from place `first` on, and the place at which the next page begins; None: there are no more."""
        found: Places = np.zeros(0, np.int64)
        for places in self._places(wanted, first):
            found = np.concatenate([found, places])
            if len(found) > limit:
                return self._read(found[:limit]), int(found[limit])
        return self._read(found), None

    def file(self, suffix: str, wanted: Wanted, about: Mapping[str, Any]) -> Iterator[bytes]:
        """The rows as csv, jsonl or parquet, in parts, of which each has at most 65536 rows. about: what is said of a
        Parquet file in its metadata."""
        return _FILES[suffix](self._batches(wanted), about)

    def _batches(self, wanted: Wanted) -> Iterator[pa.Table]:
        """At least one, which may be empty."""
        yield self._read(np.zeros(0, np.int64))
        for places in self._places(wanted, 0):
            for begin in range(0, len(places), _AT_ONCE):
                yield self._read(places[begin : begin + _AT_ONCE])

    def _places(self, wanted: Wanted, first: int) -> Iterator[Places]:
        """Those of the rows, for each row group."""
        for group in self._base.groups.around(wanted.from_ns, wanted.to_ns):
            begin, end = self._base.starts[group], self._base.starts[group + 1]
            if end <= first:
                continue
            table = self._base.groups.read(["time_ns", "subflow"], [group])
            times, subflows = table["time_ns"].to_numpy(), table["subflow"].to_numpy()
            chosen = np.arange(begin, end) >= first
            if wanted.from_ns is not None:
                chosen &= times >= wanted.from_ns
            if wanted.to_ns is not None:
                chosen &= times <= wanted.to_ns
            if wanted.subflow is not None:
                chosen &= subflows == wanted.subflow
            if chosen.any():
                yield begin + np.flatnonzero(chosen)

    def _read(self, places: Places) -> pa.Table:
        tables = [rows.take(places, names) for rows, names in self._parts]
        return pa.table(
            {name: table[name] for table, (_, names) in zip(tables, self._parts, strict=True) for name in names}
        )


_AT_ONCE = 1 << 16


class _Rows:
    """One object's rows of the connection, by their place among these."""

    def __init__(self, key: str, number: int) -> None:
        self.groups = Groups.of(key, number)
        self.names = [n for n in self.groups.file.schema_arrow.names if n != "connection"]
        counts = self.groups.rows.copy()
        # The first and the last row group may have rows of other connections, too.
        for group in {0, len(counts) - 1} if len(counts) else ():
            counts[group] = self.groups.read(["time_ns"], [group]).num_rows
        self.starts = np.concatenate([[0], np.cumsum(counts)])

    def take(self, places: Places, names: Sequence[str]) -> pa.Table:
        """places: ascending."""
        if not len(places):
            return self.groups.read(names, [])
        first = int(np.searchsorted(self.starts, places[0], "right")) - 1
        last = int(np.searchsorted(self.starts, places[-1], "right")) - 1
        table = self.groups.read(names, range(first, last + 1))
        return table.take(pa.array(places - self.starts[first]))


def _as_csv(batches: Iterator[pa.Table], about: Mapping[str, Any]) -> Iterator[bytes]:
    """Times are nanoseconds since 1970. An infinite threshold is one that is not set."""
    for place, table in enumerate(batches):
        out = pa.BufferOutputStream()
        plain = pa.table({n: c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for n, c in _columns(table)})
        options = pyarrow.csv.WriteOptions(include_header=place == 0, quoting_style="needed")
        pyarrow.csv.write_csv(plain, out, options)
        yield bytes(out.getvalue())


def _as_json_lines(batches: Iterator[pa.Table], about: Mapping[str, Any]) -> Iterator[bytes]:
    for table in batches:
        rows = zip(*_shown(table), strict=True)
        yield b"".join(pydantic_core.to_json(dict(zip(table.column_names, row, strict=True))) + b"\n" for row in rows)


def _as_parquet(batches: Iterator[pa.Table], about: Mapping[str, Any]) -> Iterator[bytes]:
    out = Written()
    schema = next(batches).schema.with_metadata({"rewindow": json.dumps(about)})
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for table in batches:
            writer.write_table(table.cast(schema))
            yield out.taken()
    yield out.taken()


_FILES: dict[str, Callable[[Iterator[pa.Table], Mapping[str, Any]], Iterator[bytes]]] = {
    "csv": _as_csv,
    "jsonl": _as_json_lines,
    "parquet": _as_parquet,
}


def _columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _shown(table: pa.Table) -> list[list[Any]]:
    """The values of each column, as JSON has them: times are text, and a threshold that is not set is null."""
    shown = []
    for name, column in _columns(table):
        values = column.to_pylist()
        if name == "time_ns":
            values = [str(v) for v in values]
        elif pa.types.is_floating(column.type):
            values = [v if np.isfinite(v) else None for v in values]
        shown.append(values)
    return shown


def as_json(columns: Sequence[str], table: pa.Table, following: int | None) -> bytes:
    """The answer as `AcksOut` describes it."""
    return pydantic_core.to_json(
        {
            "columns": columns,
            "rows": list(zip(*_shown(table), strict=True)),
            "next_cursor": None if following is None else str(following),
        }
    )
