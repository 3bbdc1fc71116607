"""Reads the segments of one connection from its capture, for the time-sequence graph of its page.

The analysis of a capture does not store them: they are as many as the packets, and few connections are ever looked at
so closely (docs/decisions/charts.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select, update

import rewindow
from rewindow.replays.columns import SEGMENTS_SCHEMA
from store import jobs, models, objects
from store.database import engine
from store.jobs import Claim, JobLost
from worker import results
from worker.overview import BLOCK_ROWS, CONNECTION_ROWS_MIN, block_places

ROW_GROUP_ROWS = 65536
_CONNECTION = pa.field("connection", pa.uint32())
SCHEMA = pa.schema([_CONNECTION, *SEGMENTS_SCHEMA])
BLOCKS_SCHEMA = pa.schema(
    [
        _CONNECTION,
        ("subflow", pa.uint32()),
        SEGMENTS_SCHEMA.field("kind"),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
        ("rows", pa.uint32()),
        ("position", pa.int64()),
        ("end", pa.int64()),
    ]
)
"""The overview. position, end: the least and the greatest."""


def run(taken: Claim, file: IO[bytes], name: str, report: Callable[[str, float], None]) -> None:
    with engine().connect() as connection:
        number = connection.execute(
            select(models.SegmentSeries.connection_number).where(models.SegmentSeries.id == taken.subject_id)
        ).scalar_one_or_none()
    if number is None:
        raise JobLost
    key = objects.series_key(taken.capture_id, f"segments-{taken.subject_id}", taken.fence)
    with (
        rewindow.open(file) as capture,
        tempfile.TemporaryFile(prefix="rewindow-segments-") as out,
        tempfile.TemporaryFile(prefix="rewindow-segments-overview-") as beside,
    ):
        capture.names[:] = [name]
        with capture.stream(segments_of=number) as replay:
            batches = replay.segments(lambda done: report("replaying", done * 0.9))
            is_long = write(batches, number, out, beside)
        report("storing", 0.9)
        try:
            size = objects.put_file(key, out)
            if is_long:
                size += objects.put_file(objects.overview_key(key), beside)
            _finish(taken, key, size)
        except BaseException:
            results.discard(taken, key, objects.overview_key(key))
            raise


def write(batches: Iterator[pa.RecordBatch], number: int, out: IO[bytes], overview: IO[bytes]) -> bool:
    """Writes the rows and their overview. False: they are few, and need none."""
    rows = 0
    with (
        pq.ParquetWriter(out, SCHEMA, compression="zstd", use_dictionary=["connection", "subflow", "kind"]) as writer,
        pq.ParquetWriter(overview, BLOCKS_SCHEMA, compression="zstd") as shorter,
    ):
        for group in _groups(batches):
            table = group.add_column(0, _CONNECTION, pa.array(np.full(group.num_rows, number, np.uint32)))
            writer.write_table(table)
            shorter.write_table(blocks(table))
            rows += table.num_rows
    return rows >= CONNECTION_ROWS_MIN


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of ROW_GROUP_ROWS and a rest."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= ROW_GROUP_ROWS:
            table = pa.Table.from_batches(held, SEGMENTS_SCHEMA)
            yield table.slice(0, ROW_GROUP_ROWS)
            held = table.slice(ROW_GROUP_ROWS).to_batches()
            count -= ROW_GROUP_ROWS
    if count:
        yield pa.Table.from_batches(held, SEGMENTS_SCHEMA)


def blocks(table: pa.Table) -> pa.Table:
    """Of the rows of one row group: for each BLOCK_ROWS rows of a subflow a block of each kind that is there.

    Of each kind by itself, a block of what is rare would reach over a long time.
    """
    kind = table["kind"].combine_chunks().indices.to_numpy()
    subflow = table["subflow"].to_numpy()
    _, counts = np.unique(subflow, return_counts=True)
    within = np.empty(len(subflow), np.int64)
    within[np.argsort(subflow, kind="stable")] = np.arange(len(subflow)) - np.repeat(np.cumsum(counts) - counts, counts)
    order, begins, ends = block_places(subflow.astype(np.int64) << 32 | within // BLOCK_ROWS, kind)
    times = table["time_ns"].to_numpy()[order]
    position = table["position"].to_numpy()[order]
    return pa.table(
        {
            "connection": table["connection"].to_numpy()[begins],
            "subflow": subflow[order][begins],
            "kind": table["kind"].take(pa.array(order[begins])),
            "first_ns": times[begins],
            "last_ns": times[ends],
            "rows": (ends - begins + 1).astype(np.uint32),
            "position": np.minimum.reduceat(position, begins),
            "end": np.maximum.reduceat(position + table["bytes"].to_numpy()[order], begins),
        },
        schema=BLOCKS_SCHEMA,
    )


def _finish(taken: Claim, key: str, size: int) -> None:
    with engine().begin() as connection:
        jobs.hold(connection, taken)
        connection.execute(
            update(models.SegmentSeries)
            .where(models.SegmentSeries.id == taken.subject_id)
            .values(state=models.State.done, error=None, object_key=key, series_bytes=size)
        )
        jobs.finish(connection, taken)
