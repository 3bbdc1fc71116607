"""The overview of a series: for each 256 rows of a subflow what a chart needs of them, in a small object of its own.

A chart of a long connection is drawn from the overview, a zoomed one from the rows.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

BLOCK_ROWS = 256
ROW_GROUP_ROWS = 16384
CONNECTION_ROWS_MIN = 1 << 18
"""A connection with fewer rows has no overview: its rows are read as fast."""


def _columns(table: pa.Table, labels: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """What charts show; NaN where a row has no value."""
    segment = np.maximum(table["segment_bytes"].to_numpy(), 1)
    found = {
        "flight": table["in_flight_bytes"].to_numpy() / segment,
        "window": table["window_bytes"].to_numpy(zero_copy_only=False) / segment,
        "rtt": table["rtt_us"].to_numpy(zero_copy_only=False) / 1000.0,
    }
    for label in labels:
        found |= {f"{label}.{c}": table[f"{label}.{c}"].to_numpy() for c in ("cwnd", "ssthresh")}
    return found


def schema(labels: Sequence[str]) -> pa.Schema:
    names = ["flight", "window", "rtt", *(f"{label}.{c}" for label in labels for c in ("cwnd", "ssthresh"))]
    fields = [
        ("connection", pa.uint32()), ("subflow", pa.uint32()),
        ("first_ns", pa.int64()), ("last_ns", pa.int64()), ("rows", pa.uint32()),
    ]  # fmt: skip
    return pa.schema(
        fields + [(f"{n}.{what}", pa.float64()) for n in names for what in ("first", "least", "most", "last")]
    )


def blocks(table: pa.Table, labels: Sequence[str]) -> pa.Table:
    """Of rows that are sorted by connection: one row for each 256 of a subflow, or for what is left of them."""
    connection, subflow = table["connection"].to_numpy(), table["subflow"].to_numpy()
    order = np.lexsort((subflow, connection))  # stable: in capture order within a subflow
    connection, subflow = connection[order], subflow[order]
    changes = np.flatnonzero((np.diff(connection) != 0) | (np.diff(subflow) != 0)) + 1
    starts = np.concatenate([[0], changes])
    lengths = np.diff(np.concatenate([starts, [len(order)]]))
    counts = -(-lengths // BLOCK_ROWS)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.repeat(starts, counts) + within * BLOCK_ROWS
    ends = np.concatenate([begins[1:], [len(order)]]) - 1
    times = table["time_ns"].to_numpy()[order]
    found = {
        "connection": connection[begins], "subflow": subflow[begins],
        "first_ns": times[begins], "last_ns": times[ends], "rows": (ends - begins + 1).astype(np.uint32),
    }  # fmt: skip
    for name, unordered in _columns(table, labels).items():
        values = unordered[order]
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
