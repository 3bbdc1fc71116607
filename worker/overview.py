"""The overview of a series: for each 256 rows of a subflow what a chart needs of them, in a small object of its own.

A chart of a long connection is drawn from the overview, a zoomed one from the rows.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from store import charts

BLOCK_ROWS = 256
ROW_GROUP_ROWS = 16384
CONNECTION_ROWS_MIN = 1 << 18
"""A connection with fewer rows has no overview: its rows are read as fast."""


def _names(labels: Sequence[str]) -> list[str]:
    """What charts show of the rows."""
    return [
        *charts.RECORDED, *charts.POSITIONS, charts.SEGMENT,
        *(f"{label}.{c}" for label in labels for c in ("cwnd", "ssthresh")),
    ]  # fmt: skip


def schema(labels: Sequence[str]) -> pa.Schema:
    fields = [
        ("connection", pa.uint32()), ("subflow", pa.uint32()),
        ("first_ns", pa.int64()), ("last_ns", pa.int64()), ("rows", pa.uint32()),
    ]  # fmt: skip
    return pa.schema(
        fields + [(f"{n}.{what}", pa.float64()) for n in _names(labels) for what in ("first", "least", "most", "last")]
    )


Places = npt.NDArray[np.int64]


def block_places(major: npt.NDArray[Any], minor: npt.NDArray[Any]) -> tuple[Places, Places, Places]:
    """Blocks of BLOCK_ROWS rows with the same two values, or of what is left of them.

    An order of the rows that keeps rows with the same values in theirs, and in it the first and the last place of each
    block.
    """
    order = np.lexsort((minor, major))
    changes = np.flatnonzero((np.diff(major[order]) != 0) | (np.diff(minor[order]) != 0)) + 1
    starts = np.concatenate([[0], changes])
    lengths = np.diff(np.concatenate([starts, [len(order)]]))
    counts = -(-lengths // BLOCK_ROWS)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.repeat(starts, counts) + within * BLOCK_ROWS
    return order, begins, np.concatenate([begins[1:], [len(order)]]) - 1


def blocks(table: pa.Table, labels: Sequence[str]) -> pa.Table:
    """Of rows that are sorted by connection: one row for each block of a subflow."""
    connection, subflow = table["connection"].to_numpy(), table["subflow"].to_numpy()
    order, begins, ends = block_places(connection, subflow)
    times = table["time_ns"].to_numpy()[order]
    found = {
        "connection": connection[order][begins], "subflow": subflow[order][begins],
        "first_ns": times[begins], "last_ns": times[ends], "rows": (ends - begins + 1).astype(np.uint32),
    }  # fmt: skip
    for name in _names(labels):
        values = charts.values(table, name)[order]
        found |= {
            f"{name}.first": values[begins],
            f"{name}.least": np.fmin.reduceat(values, begins),
            f"{name}.most": np.fmax.reduceat(values, begins),
            f"{name}.last": values[ends],
        }
    return pa.table(found, schema=schema(labels))


class Overview:
    """Writes the overview while the rows are written."""

    def __init__(self, out: IO[bytes], labels: Sequence[str], rows_of_connections: npt.NDArray[np.int64]) -> None:
        self._labels = labels
        self._long = rows_of_connections >= CONNECTION_ROWS_MIN
        self._writer = pq.ParquetWriter(out, schema(labels), compression="zstd")
        self._held: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        chosen = self._long[table["connection"].to_numpy()]
        if chosen.any():
            self._held.append(blocks(table.filter(pa.array(chosen)), self._labels))
            self._rows += self._held[-1].num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held, self._rows = [], 0

    def close(self) -> None:
        self._write()
        self._writer.close()


@contextlib.contextmanager
def file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile(prefix="rewindow-overview-") as out:
        yield out
