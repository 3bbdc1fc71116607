"""Series for the object store: they are spooled in capture order, then clustered by connection."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rewindow.replays.columns import MARKS_SCHEMA
from rewindow.replays.replay import Batch
from rewindow.reports.exports import parquet_writer
from worker import overview

ROW_GROUP_ROWS = 65536


class _Rows:
    """Batches of rows on disk, each sorted by connection. In memory are only the runs: a connection's rows of a batch.

    The file has no name, so that it disappears with the process.
    """

    def __init__(self, schema: pa.Schema, file: IO[bytes]) -> None:
        self._file = file
        self._writer = pa.ipc.new_file(file, schema)
        self._numbers: list[npt.NDArray[np.uint32]] = []
        self._counts: list[npt.NDArray[np.uint32]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        keys = batch["connection"].to_numpy()
        numbers, counts = np.unique(keys, return_counts=True)
        self._numbers.append(numbers)
        self._counts.append(counts.astype(np.uint32))
        self._writer.write_batch(batch.take(pa.array(np.argsort(keys, kind="stable"))))

    def _runs(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The connection and the number of rows of each run, as the runs stand in the file."""
        none: list[Any] = [np.zeros(0, np.uint32)]
        return np.concatenate(self._numbers or none), np.concatenate(self._counts or none).astype(np.int64)

    def of_connections(self, connections: int) -> npt.NDArray[np.int64]:
        """How many rows each connection has."""
        numbers, counts = self._runs()
        found: npt.NDArray[np.int64] = np.bincount(numbers, counts, connections).astype(np.int64)
        return found

    def clustered(self, only: int | None = None) -> Iterator[pa.Table]:
        """Row groups, sorted by connection, in capture order within each; `only` keeps one connection."""
        self._writer.close()
        self._file.flush()
        numbers, counts = self._runs()
        starts = np.cumsum(counts) - counts
        order = np.argsort(numbers, kind="stable")
        if only is not None:
            order = order[numbers[order] == only]
        starts, counts = starts[order], counts[order]
        ends = np.cumsum(counts)
        begins = ends - counts
        table = pa.ipc.open_file(pa.memory_map(f"/proc/self/fd/{self._file.fileno()}")).read_all()
        for begin in range(0, int(counts.sum()), ROW_GROUP_ROWS):
            end = min(begin + ROW_GROUP_ROWS, int(ends[-1]))
            first, last = np.searchsorted(ends, begin, "right"), np.searchsorted(begins, end, "left")
            runs = slice(first, last)
            places = np.repeat(starts[runs] - begins[runs], counts[runs]) + np.arange(begins[first], ends[last - 1])
            yield table.take(pa.array(places[begin - begins[first] : end - begins[first]]))


class Spool:
    """The rows of a replay: one for each ACK, and marks."""

    def __init__(self, schema: pa.Schema, acks: IO[bytes], marks: IO[bytes]) -> None:
        self._schema = schema
        self._acks, self._marks = _Rows(schema, acks), _Rows(MARKS_SCHEMA, marks)

    def add(self, batch: Batch) -> None:
        self._acks.add(batch.acks)
        self._marks.add(batch.marks)

    def rows_of_connections(self, connections: int) -> npt.NDArray[np.int64]:
        """How many ACKs' rows each connection has."""
        return self._acks.of_connections(connections)

    @contextlib.contextmanager
    def clustered(
        self, connections: int, labels: Sequence[str], only: int | None = None
    ) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
        """A Parquet file sorted by connection, in capture order within each, and the overview of its long connections;
        None: there are none. connections: how many there are. `only` keeps one of them."""
        rows = self.rows_of_connections(connections)
        is_long = (rows if only is None else rows[only : only + 1]).max(initial=0) >= overview.CONNECTION_ROWS_MIN
        with tempfile.TemporaryFile(prefix="rewindow-acks-") as out, overview.file() as beside:
            shorter = overview.Overview(beside, labels, rows) if is_long else None
            with parquet_writer(out, self._schema) as writer:
                for table in self._acks.clustered(only):
                    writer.write_table(table)
                    if shorter:
                        shorter.add(table)
            if shorter:
                shorter.close()
            yield out, beside if shorter else None

    @contextlib.contextmanager
    def marks(self) -> Iterator[IO[bytes]]:
        with tempfile.TemporaryFile(prefix="rewindow-marks-") as out:
            with pq.ParquetWriter(out, MARKS_SCHEMA, compression="zstd") as writer:
                for table in self._marks.clustered():
                    writer.write_table(table)
            yield out


@contextlib.contextmanager
def spool(schema: pa.Schema) -> Iterator[Spool]:
    with (
        tempfile.TemporaryFile(prefix="rewindow-acks-spool-") as acks,
        tempfile.TemporaryFile(prefix="rewindow-marks-spool-") as marks,
    ):
        yield Spool(schema, acks, marks)
