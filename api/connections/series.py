"""Series for charts: what was recorded and replayed, read from Parquet and reduced to the chart's width, and marks.

A reduced line keeps the first, least, greatest and last value of each pixel column (M4; Jugel et al., 2014), so that no
spike is lost. Long connections have an overview (worker/overview.py): a period of many rows is read from it, a short
one from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pydantic_core

from store import charts, objects
from store.charts import Floats

MARKS_MAX = 2000
"""The most marks of one kind in an answer. Of more, evenly spaced ones are answered; `count` is of all."""
ROWS_READ_MAX = 1 << 18
"""A period with more rows is read from the overview, where there is one."""
RECORDED = charts.RECORDED
Times = npt.NDArray[np.int64]


@dataclass
class Line:
    subflow: int
    label: str
    time_ns: Times
    cwnd: Floats
    ssthresh: Floats
    rows: int
    """Before reduction."""


@dataclass
class Recorded:
    subflow: int
    what: str
    """One of RECORDED."""
    time_ns: Times
    values: Floats
    rows: int


@dataclass
class Marks:
    subflow: int
    kind: str
    time_ns: Times
    count: int


@dataclass
class Series:
    first_ns: int
    last_ns: int
    lines: list[Line]
    marks: list[Marks]
    recorded: list[Recorded]
    is_reduced: bool
    """The period was read from an overview."""


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


@dataclass
class Groups:
    """The row groups of a file that can have rows of one connection, with their time span and number of rows."""

    file: pq.ParquetFile
    number: int
    places: list[int]
    rows: npt.NDArray[np.int64]
    first_ns: Times
    last_ns: Times

    @classmethod
    def of(cls, key: str, number: int) -> Groups:
        file = _open(key)
        names = file.schema_arrow.names
        connection = names.index("connection")
        time = names.index("time_ns" if "time_ns" in names else "first_ns")
        found: list[tuple[int, int, int, int]] = []
        for g in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(g)
            held = group.column(connection).statistics
            if held is None or held.min <= number <= held.max:
                times = group.column(time).statistics
                low, high = (-(2**63), 2**63 - 1) if times is None else (times.min, times.max)
                found.append((g, group.num_rows, low, high))
        columns = np.array(found, np.int64).reshape(-1, 4).T
        return cls(file, number, columns[0].tolist(), columns[1], columns[2], columns[3])

    def has(self, columns: Iterable[str]) -> bool:
        return set(columns) <= set(self.file.schema_arrow.names)

    def around(self, from_ns: int | None, to_ns: int | None) -> list[int]:
        """Indices of the groups with rows of the period, and of the group before and behind them: a line is drawn to
        both edges of a chart. Rows of several connections are mixed by time at the first and the last group only."""
        count = len(self.places)
        low = 0 if from_ns is None else int(np.count_nonzero(self.last_ns < from_ns)) - 1
        high = count if to_ns is None else count - int(np.count_nonzero(self.first_ns > to_ns)) + 1
        return list(range(max(low, 0), min(max(high, 1), count)))

    def read(self, columns: Sequence[str], chosen: Iterable[int] | None = None) -> pa.Table:
        places = self.places if chosen is None else [self.places[i] for i in chosen]
        table = self.file.read_row_groups(places, columns=["connection", *columns])
        return table.filter(pc.equal(table["connection"], self.number)).drop_columns(["connection"])


def rows_of(key: str, number: int, columns: Sequence[str]) -> pa.Table:
    """The rows of one connection in capture order. Reads only the row groups that can contain them."""
    return Groups.of(key, number).read(columns)


def _between(first_ns: Times, last_ns: Times, from_ns: int | None, to_ns: int | None) -> slice:
    """Rows or blocks of the period and one on each side, so that a line reaches both edges of the chart."""
    low = max(int(np.searchsorted(last_ns, from_ns)) - 1, 0) if from_ns is not None else 0
    high = int(np.searchsorted(first_ns, to_ns, side="right")) + 1 if to_ns is not None else len(first_ns)
    return slice(low, high)


@dataclass
class Blocks:
    """Values over time, in blocks of one row or more: the first, least, greatest and last of each."""

    first_ns: Times
    last_ns: Times
    first: Floats
    least: Floats
    most: Floats
    last: Floats

    @classmethod
    def of_rows(cls, times: Times, values: Floats) -> Blocks:
        return cls(times, times, values, values, values, values)

    def known(self) -> Blocks:
        """Those that have a value."""
        there = ~np.isnan(self.most)
        if there.all():
            return self
        if self.last_ns is self.first_ns:
            return Blocks.of_rows(self.first_ns[there], self.first[there])
        return Blocks(*(column[there] for column in vars(self).values()))

    def points(self, width: int) -> tuple[Times, Floats]:
        """The line, reduced where it has more than four points for each of `width` columns of pixels."""
        own = self.known()
        count = len(own.first_ns)
        if count == 0 or (own.first_ns is own.last_ns and count <= 4 * width):
            return own.first_ns, own.first
        begin, end = int(own.first_ns[0]), int(own.last_ns[-1])
        column = np.minimum((own.first_ns - begin) * (width / max(end - begin, 1)), width - 1).astype(np.int64)
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        ends = np.append(starts[1:], count) - 1
        size = np.diff(np.append(starts, count))
        least = _first_where(own.least == np.repeat(np.minimum.reduceat(own.least, starts), size), starts)
        most = _first_where(own.most == np.repeat(np.maximum.reduceat(own.most, starts), size), starts)
        low, high = np.minimum(least, most), np.maximum(least, most)
        least_is_low = least <= most
        times = np.stack([own.first_ns[starts], own.first_ns[low], own.last_ns[high], own.last_ns[ends]], axis=1)
        values = np.stack(
            [
                _filled(own.first, own.least)[starts],
                np.where(least_is_low, own.least[low], own.most[low]),
                np.where(least_is_low, own.most[high], own.least[high]),
                _filled(own.last, own.most)[ends],
            ],
            axis=1,
        )
        times, values = times.ravel(), values.ravel()
        differs = np.append(True, (times[1:] != times[:-1]) | (values[1:] != values[:-1]))
        return times[differs], values[differs]


def _filled(values: Floats, other: Floats) -> Floats:
    """A block may begin with a row that has no value."""
    return np.where(np.isnan(values), other, values)


def _first_where(holds: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """In each group that begins at `starts`, the first place where it holds; there is one."""
    places = np.flatnonzero(holds)
    return places[np.searchsorted(places, starts)]


class Source:
    """One object of a series, and its overview: gives the values of a subflow over a period (store/charts.py)."""

    def __init__(self, key: str, number: int, names: Sequence[str], from_ns: int | None, to_ns: int | None) -> None:
        """Raises FileNotFoundError."""
        groups = Groups.of(key, number)
        chosen = groups.around(from_ns, to_ns)
        self.is_reduced = False
        overview: Groups | None = None
        if groups.rows.sum() > ROWS_READ_MAX:
            try:
                overview = Groups.of(objects.overview_key(key), number)
            except FileNotFoundError:  # of a capture that an earlier version analysed, or whose connections are short
                chosen = list(range(len(groups.places)))
        else:
            chosen = list(range(len(groups.places)))
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        if overview is not None and overview.places:
            whole = overview.read(["first_ns", "last_ns"])
            self.first_ns, self.last_ns = pc.min(whole["first_ns"]).as_py(), pc.max(whole["last_ns"]).as_py()
            self.is_reduced = int(groups.rows[chosen].sum()) > ROWS_READ_MAX and overview.has(_kept(names))
        if self.is_reduced and overview is not None:
            self._table = overview.read(["subflow", "first_ns", "last_ns", "rows", *_kept(names)])
        else:
            wanted = dict.fromkeys(column for n in names for column in charts.sources(n))
            there = set(groups.file.schema_arrow.names)
            self._table = groups.read(["time_ns", "subflow", *(c for c in wanted if c in there)], chosen)
            if self.first_ns is None and self._table.num_rows:
                extent = pc.min_max(self._table["time_ns"]).as_py()
                self.first_ns, self.last_ns = extent["min"], extent["max"]
        self._subflow = self._table["subflow"].to_numpy()
        self._from_ns, self._to_ns = from_ns, to_ns
        self._of: dict[int, tuple[Any, Times, Times, int]] = {}

    def subflows(self) -> list[int]:
        return [int(s) for s in np.unique(self._subflow)]

    def _period(self, subflow: int) -> tuple[Any, Times, Times, int]:
        """The places of the subflow's rows in the period, their times, and how many rows they stand for."""
        if subflow not in self._of:
            mine = np.flatnonzero(self._subflow == subflow)
            names = ("first_ns", "last_ns") if self.is_reduced else ("time_ns", "time_ns")
            first_ns = self._table[names[0]].to_numpy()[mine]
            last_ns = self._table[names[1]].to_numpy()[mine] if self.is_reduced else first_ns
            part = _between(first_ns, last_ns, self._from_ns, self._to_ns)
            mine, first_ns = mine[part], first_ns[part]
            last_ns = last_ns[part] if self.is_reduced else first_ns
            rows = int(self._table["rows"].to_numpy()[mine].sum()) if self.is_reduced else len(mine)
            self._of[subflow] = mine, first_ns, last_ns, rows
        return self._of[subflow]

    def rows(self, subflow: int) -> int:
        return self._period(subflow)[3]

    def has(self, name: str) -> bool:
        """Captures that an earlier version analysed lack some."""
        return self.is_reduced or set(charts.sources(name)) <= set(self._table.column_names)

    def blocks(self, subflow: int, name: str) -> Blocks:
        mine, first_ns, last_ns, _ = self._period(subflow)
        if not self.is_reduced:
            return Blocks.of_rows(first_ns, charts.values(self._table, name)[mine])
        if not name.endswith(charts.ALLOWED):
            return Blocks(first_ns, last_ns, *(self._table[f"{name}.{w}"].to_numpy()[mine] for w in _OF_BLOCK))
        # una does not fall: the extremes are at most one block's advance of it too far apart.
        window = [f"{name.removesuffix(charts.ALLOWED)}.cwnd.{what}" for what in _OF_BLOCK]
        una = ["acked.first", "acked.first", "acked.last", "acked.last"]
        segment = self._table[f"{charts.SEGMENT}.last"].to_numpy()[mine]
        edges = [
            self._table[u].to_numpy()[mine] + self._table[w].to_numpy()[mine] * segment
            for u, w in zip(una, window, strict=True)
        ]
        return Blocks(first_ns, last_ns, *edges)


_OF_BLOCK = ("first", "least", "most", "last")


def _kept(names: Sequence[str]) -> list[str]:
    """The columns of an overview that these values are read from."""
    found: dict[str, None] = {}
    for name in names:
        own = [name]
        if name.endswith(charts.ALLOWED):
            own = [f"{name.removesuffix(charts.ALLOWED)}.cwnd", "acked", charts.SEGMENT]
        found |= dict.fromkeys(f"{n}.{what}" for n in own for what in _OF_BLOCK)
    return list(found)


def read(
    acks_key: str,
    marks_key: str | None,
    number: int,
    replays: Mapping[str, str | None],
    *,
    from_ns: int | None,
    to_ns: int | None,
    width: int,
    recorded: Sequence[str] = (),
) -> Series:
    """What the chart of one connection's period shows. Raises FileNotFoundError.

    replays: by label, the object that has their windows; None: `acks_key`. recorded: of RECORDED.
    """
    found = Series(0, 0, [], [], [], False)
    firsts, lasts = [], []
    for key in dict.fromkeys([acks_key, *(key or acks_key for key in replays.values())]):
        labels = [label for label, own in replays.items() if (own or acks_key) == key]
        wanted = list(recorded) if key == acks_key else []
        names = [*wanted, *(f"{label}.{c}" for label in labels for c in ("cwnd", "ssthresh"))]
        if not names:
            continue
        source = Source(key, number, names, from_ns, to_ns)
        if source.first_ns is None or source.last_ns is None:
            continue
        firsts.append(source.first_ns)
        lasts.append(source.last_ns)
        found.is_reduced |= source.is_reduced
        for subflow in source.subflows():
            rows = source.rows(subflow)
            for what in filter(source.has, wanted):
                found.recorded.append(Recorded(subflow, what, *source.blocks(subflow, what).points(width), rows))
            for label in labels:
                found.lines.append(_line(source, subflow, label, width))
    if firsts:
        found.first_ns, found.last_ns = min(firsts), max(lasts)
    order = list(replays)
    found.lines.sort(key=lambda line: (order.index(line.label), line.subflow))
    found.marks = _marks(marks_key, number, from_ns, to_ns) if marks_key else []
    return found


def _line(source: Source, subflow: int, label: str, width: int) -> Line:
    """Window and threshold have common times: those at which one of the two has a point."""
    cwnd = source.blocks(subflow, f"{label}.cwnd")
    ssthresh = source.blocks(subflow, f"{label}.ssthresh")
    times, values = cwnd.points(width)
    if times is cwnd.first_ns:  # every row
        return Line(subflow, label, times, values, ssthresh.first, source.rows(subflow))
    thresholds_at, thresholds = ssthresh.points(max(width // 4, 1))
    every = np.concatenate([times, thresholds_at])
    order = np.argsort(every, kind="stable")
    held = np.concatenate([np.arange(len(times)), np.zeros(len(thresholds_at), np.int64)])[order]
    mine = np.concatenate([np.ones(len(times), bool), np.zeros(len(thresholds_at), bool)])[order]
    at = np.maximum.accumulate(np.where(mine, held, 0))
    theirs = np.concatenate([np.zeros(len(times), np.int64), np.arange(len(thresholds_at))])[order]
    threshold_at = np.maximum.accumulate(np.where(mine, 0, theirs))
    return Line(subflow, label, every[order], values[at], thresholds[threshold_at], source.rows(subflow))


def _marks(key: str, number: int, from_ns: int | None, to_ns: int | None) -> list[Marks]:
    table = rows_of(key, number, ["time_ns", "subflow", "kind"])
    times = table["time_ns"].to_numpy()
    chosen = np.ones(len(times), bool)
    if from_ns is not None:
        chosen &= times >= from_ns
    if to_ns is not None:
        chosen &= times <= to_ns
    kinds = table["kind"].combine_chunks()
    if isinstance(kinds, pa.ChunkedArray):
        kinds = kinds.chunk(0) if kinds.num_chunks else pa.array([], pa.dictionary(pa.int8(), pa.string()))
    names = kinds.dictionary.to_pylist()
    codes, subflows = kinds.indices.to_numpy()[chosen], table["subflow"].to_numpy()[chosen]
    times = times[chosen]
    marks = []
    for subflow, code in sorted(set(zip(subflows.tolist(), codes.tolist(), strict=True))):
        mine = times[(subflows == subflow) & (codes == code)]
        marks.append(Marks(subflow, names[code], mine[:: -(-len(mine) // MARKS_MAX)], len(mine)))
    return sorted(marks, key=lambda m: (m.subflow, m.kind))


def as_json(series: Series) -> bytes:
    """The answer as `SeriesOut` describes it. Times are relative to first_ns, so that they fit a double."""

    def relative(times: Times) -> list[int]:
        return list((times - series.first_ns).tolist())

    def numbers(values: Floats) -> list[float | None]:
        rounded = np.round(values, 4)
        return (
            rounded.tolist()
            if np.isfinite(rounded).all()
            else [v if np.isfinite(v) else None for v in rounded.tolist()]
        )

    return pydantic_core.to_json(
        {
            "first_ns": str(series.first_ns),
            "last_ns": str(series.last_ns),
            "is_reduced": series.is_reduced,
            "lines": [
                {
                    "subflow": line.subflow,
                    "algorithm": line.label,
                    "rows": line.rows,
                    "time_ns": relative(line.time_ns),
                    "cwnd": numbers(line.cwnd),
                    "ssthresh": numbers(line.ssthresh),
                }
                for line in series.lines
            ],
            "marks": [
                {"subflow": m.subflow, "kind": m.kind, "count": m.count, "time_ns": relative(m.time_ns)}
                for m in series.marks
            ],
            "recorded": [
                {
                    "subflow": r.subflow,
                    "what": r.what,
                    "rows": r.rows,
                    "time_ns": relative(r.time_ns),
                    "values": numbers(r.values),
                }
                for r in series.recorded
            ],
        }
    )


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
