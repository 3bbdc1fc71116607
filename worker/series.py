"""Series for the object store: they are spooled in capture order, then clustered by connection."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rewindow.replays.columns import MARKS_SCHEMA
from rewindow.replays.replay import Batch
from rewindow.reports.exports import parquet_writer

ROW_GROUP_ROWS = 65536


class Spool:
    """Batches on disk, in capture order. Its files have no name, so that they disappear with the process."""

    def __init__(self, schema: pa.Schema, file: IO[bytes]) -> None:
        self._file = file
        self._schema = schema
        self._writer = pa.ipc.new_file(file, schema)
        self._marks: list[pa.RecordBatch] = []
        self._keys: list[Any] = []

    def add(self, batch: Batch) -> None:
        if batch.acks.num_rows:
            self._writer.write_batch(batch.acks)
            self._keys.append(batch.acks["connection"].to_numpy())
        if batch.marks.num_rows:
            self._marks.append(batch.marks)

    def rows_of_connections(self) -> dict[int, int]:
        keys = np.concatenate(self._keys) if self._keys else np.zeros(0, np.uint32)
        numbers, counts = np.unique(keys, return_counts=True)
        return {int(n): int(c) for n, c in zip(numbers, counts, strict=True)}

    @contextlib.contextmanager
    def clustered(self, only: int | None = None) -> Iterator[IO[bytes]]:
        """A Parquet file sorted by connection, in capture order within each; `only` keeps one connection."""
        self._writer.close()
        self._file.flush()
        keys = np.concatenate(self._keys) if self._keys else np.zeros(0, np.uint32)
        order = np.argsort(keys, kind="stable")
        if only is not None:
            order = order[keys[order] == only]
        with tempfile.TemporaryFile(prefix="rewindow-acks-") as out:
            source = pa.memory_map(f"/proc/self/fd/{self._file.fileno()}")
            table = pa.ipc.open_file(source).read_all()
            with parquet_writer(out, self._schema) as writer:
                for start in range(0, len(order), ROW_GROUP_ROWS):
                    writer.write_table(table.take(pa.array(order[start : start + ROW_GROUP_ROWS])))
            yield out

    @contextlib.contextmanager
    def marks(self) -> Iterator[IO[bytes]]:
        table = pa.Table.from_batches(self._marks, schema=MARKS_SCHEMA)
        order = np.argsort(table["connection"].to_numpy(), kind="stable")
        with tempfile.TemporaryFile(prefix="rewindow-marks-") as out:
            pq.write_table(table.take(pa.array(order)), out, compression="zstd", row_group_size=ROW_GROUP_ROWS)
            yield out


@contextlib.contextmanager
def spool(schema: pa.Schema) -> Iterator[Spool]:
    with tempfile.TemporaryFile(prefix="rewindow-spool-") as file:
        yield Spool(schema, file)
