"""Series for charts: windows, read from Parquet and reduced to the chart's width, and marks, which are not reduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tsdownsample import M4Downsampler

from store import objects

MARKS_MAX = 2000
"""The most marks of one kind in an answer. Of more, evenly spaced ones are answered; `count` is of all."""


@dataclass
class Line:
    subflow: int
    label: str
    time_ns: npt.NDArray[np.int64]
    cwnd: npt.NDArray[np.float64]
    ssthresh: npt.NDArray[np.float64]
    rows: int
    """Before reduction."""


@dataclass
class Marks:
    subflow: int
    kind: str
    time_ns: npt.NDArray[np.int64]
    count: int


@dataclass
class Series:
    first_ns: int
    last_ns: int
    lines: list[Line]
    marks: list[Marks]


class _Object:
    """An object of the store as a file for Arrow, which reads only the ranges that it needs."""

    closed = False

    def __init__(self, key: str) -> None:
        self._reader = obstore.open_reader(objects.object_store(), key)

    def read(self, size: int | None = None) -> bytes:
        return bytes(self._reader.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _open(key: str) -> pq.ParquetFile:
    return pq.ParquetFile(pa.PythonFile(_Object(key), mode="r"))


def rows_of(key: str, number: int, columns: Sequence[str]) -> pa.Table:
    """The rows of one connection in capture order. Reads only the row groups that can contain them."""
    file = _open(key)
    place = file.schema_arrow.get_field_index("connection")
    groups = []
    for g in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(g).column(place).statistics
        if statistics is None or statistics.min <= number <= statistics.max:
            groups.append(g)
    table = file.read_row_groups(groups, columns=["connection", *columns])
    return table.filter(pc.equal(table["connection"], number)).drop_columns(["connection"])


def _between(table: pa.Table, from_ns: int | None, to_ns: int | None) -> pa.Table:
    """Rows of the period and one row on each side, so that a line reaches both edges of the chart."""
    times = table["time_ns"].to_numpy()
    low = max(int(np.searchsorted(times, from_ns)) - 1, 0) if from_ns is not None else 0
    high = int(np.searchsorted(times, to_ns, side="right")) + 1 if to_ns is not None else len(times)
    return table.slice(low, high - low)


def _reduced(table: pa.Table, label: str, width: int) -> tuple[pa.Table, int]:
    """Reduces by M4 (Jugel et al., 2014): a line of `width` pixel columns does not change. Also returns the old number
    of rows."""
    rows = table.num_rows
    points = max(width // 4, 1) * 16  # four for each column, in buckets that tsdownsample wants to be multiples of 4
    if rows <= points:
        return table, rows
    cwnd = np.ascontiguousarray(table[f"{label}.cwnd"].to_numpy())
    times = np.ascontiguousarray(table["time_ns"].to_numpy())
    keep = M4Downsampler().downsample(times, cwnd, n_out=points)
    return table.take(pa.array(np.unique(keep))), rows


def read(
    acks_key: str,
    marks_key: str | None,
    number: int,
    replays: Mapping[str, str | None],
    *,
    from_ns: int | None,
    to_ns: int | None,
    width: int,
) -> Series:
    """The windows of the replays over one connection's period. Raises FileNotFoundError.

    replays: by label, the object that has their windows; None: `acks_key`.
    """
    lines: list[Line] = []
    first, last = None, None
    for label, key in replays.items():
        columns = ["time_ns", "subflow", f"{label}.cwnd", f"{label}.ssthresh"]
        table = rows_of(key or acks_key, number, columns)
        for subflow in pc.unique(table["subflow"]).sort().to_pylist():
            mine = table.filter(pc.equal(table["subflow"], subflow))
            start, end = mine["time_ns"][0].as_py(), mine["time_ns"][-1].as_py()
            first, last = min(first or start, start), max(last or end, end)
            cut, rows = _reduced(_between(mine, from_ns, to_ns), label, width)
            lines.append(
                Line(
                    subflow,
                    label,
                    cut["time_ns"].to_numpy(),
                    cut[f"{label}.cwnd"].to_numpy(),
                    cut[f"{label}.ssthresh"].to_numpy(),
                    rows,
                )
            )
    marks = _marks(marks_key, number, from_ns, to_ns) if marks_key else []
    return Series(first or 0, last or 0, lines, marks)


def _marks(key: str, number: int, from_ns: int | None, to_ns: int | None) -> list[Marks]:
    table = rows_of(key, number, ["time_ns", "subflow", "kind"])
    times = table["time_ns"]
    chosen = pc.and_(
        pc.greater_equal(times, from_ns if from_ns is not None else np.iinfo(np.int64).min),
        pc.less_equal(times, to_ns if to_ns is not None else np.iinfo(np.int64).max),
    )
    table = table.filter(chosen)
    found: dict[tuple[int, str], list[int]] = {}
    for time_ns, subflow, kind in zip(*(table[c].to_pylist() for c in ("time_ns", "subflow", "kind")), strict=True):
        found.setdefault((subflow, kind), []).append(time_ns)
    marks = []
    for (subflow, kind), all_times in sorted(found.items()):
        step = -(-len(all_times) // MARKS_MAX)
        marks.append(Marks(subflow, kind, np.array(all_times[::step], np.int64), len(all_times)))
    return marks


def as_json(series: Series) -> dict[str, Any]:
    """The answer as `SeriesOut` describes it. Times are relative to first_ns, so that they fit a double."""
    return {
        "first_ns": str(series.first_ns),
        "last_ns": str(series.last_ns),
        "lines": [
            {
                "subflow": line.subflow,
                "algorithm": line.label,
                "rows": line.rows,
                "time_ns": (line.time_ns - series.first_ns).tolist(),
                "cwnd": line.cwnd.tolist(),
                "ssthresh": [None if v == np.inf else v for v in line.ssthresh.tolist()],
            }
            for line in series.lines
        ],
        "marks": [
            {
                "subflow": m.subflow,
                "kind": m.kind,
                "count": m.count,
                "time_ns": (m.time_ns - series.first_ns).tolist(),
            }
            for m in series.marks
        ],
    }


def as_arrow(series: Series) -> bytes:
    """One stream of rows. `kind` is `cwnd` or the name of a mark; a mark has no algorithm, cwnd and ssthresh."""
    tables = [
        pa.table(
            {
                "kind": pa.repeat("cwnd", len(line.time_ns)),
                "algorithm": pa.repeat(line.label, len(line.time_ns)),
                "subflow": pa.repeat(pa.scalar(line.subflow, pa.uint32()), len(line.time_ns)),
                "time_ns": line.time_ns,
                "cwnd": line.cwnd,
                "ssthresh": line.ssthresh,
            }
        )
        for line in series.lines
    ]
    for m in series.marks:
        n = len(m.time_ns)
        tables.append(
            pa.table(
                {
                    "kind": pa.repeat(m.kind, n),
                    "algorithm": pa.nulls(n, pa.string()),
                    "subflow": pa.repeat(pa.scalar(m.subflow, pa.uint32()), n),
                    "time_ns": m.time_ns,
                    "cwnd": pa.nulls(n, pa.float64()),
                    "ssthresh": pa.nulls(n, pa.float64()),
                }
            )
        )
    schema = pa.schema(
        [
            ("kind", pa.string()),
            ("algorithm", pa.string()),
            ("subflow", pa.uint32()),
            ("time_ns", pa.int64()),
            ("cwnd", pa.float64()),
            ("ssthresh", pa.float64()),
        ]
    )
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table.cast(schema))
    return bytes(sink.getvalue())


def parquet(acks_key: str, number: int, replays: Mapping[str, str | None]) -> bytes:
    """Every row of one connection: the columns of events once, then the columns of each replay."""
    base: pa.Table | None = None
    for label, own_key in replays.items():
        key = own_key or acks_key
        names = [n for n in _open(key).schema_arrow.names if n != "connection"]
        own = [n for n in names if n.startswith(f"{label}.")]
        events = [n for n in names if "." not in n]
        if base is None:
            base = rows_of(key, number, events + own)
        else:
            table = rows_of(key, number, own)
            for name in own:
                base = base.append_column(name, table[name])
    sink = pa.BufferOutputStream()
    pq.write_table(base if base is not None else pa.table({}), sink, compression="zstd")
    return bytes(sink.getvalue())
