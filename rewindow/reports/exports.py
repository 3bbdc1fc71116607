"""Rows as files: CSV and Parquet. NumPy and Arrow are loaded when something is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from rewindow.findings.connections import Connection

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rewindow.replays.replay import Batch, Replay

REPLAY_COLUMNS = (
    "time_ns",
    "connection",
    "subflow",
    "src",
    "sport",
    "dst",
    "dport",
    "una",
    "ack",
    "acked_bytes",
    "rtt_us",
    "srtt_us",
    "in_flight_bytes",
    "phase",
    "flags",
    "cwnd_before",
    "cwnd",
    "ssthresh",
)

REPEATED_COLUMNS = frozenset(
    {"connection", "subflow", "acked_bytes", "acked_segments", "segment_bytes", "sport", "dport", "set"}
)
"""Columns of numbers with few distinct values."""


def parquet_writer(out: str | BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer for rows of a replay. Columns whose numbers hardly repeat get no dictionary, which would only cost."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    repeated = [f.name for f in schema if f.name in REPEATED_COLUMNS or not pa.types.is_primitive(f.type)]
    return pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=repeated)


@contextlib.contextmanager
def _table_writer(out: str | BinaryIO, suffix: str, schema: pa.Schema) -> Iterator[Any]:
    """A writer for tables of a schema; suffix: .csv or .parquet."""
    import pyarrow.csv as pacsv

    if suffix == ".csv":
        quoting = pacsv.WriteOptions(quoting_style="none", quoting_header="none")
        with pacsv.CSVWriter(out, schema, write_options=quoting) as writer:
            yield writer
    else:
        with parquet_writer(out, schema) as writer:
            yield writer


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with texts instead of dictionary codes."""
    import pyarrow as pa

    return pa.schema([(f.name, pa.string()) if pa.types.is_dictionary(f.type) else f for f in schema])


def write_series(path: str, suffix: str, schema: pa.Schema, batches: Iterable[Batch]) -> None:
    """Every row; suffix: .csv or .parquet."""
    import pyarrow as pa

    written = _plain(schema) if suffix == ".csv" else schema
    with _table_writer(path, suffix, written) as writer:
        for batch in batches:
            if batch.acks.num_rows:
                writer.write_table(pa.Table.from_batches([batch.acks]).cast(written))


def write_rows(out: str | BinaryIO, suffix: str, replay: Replay, label: str, batches: Iterable[Batch]) -> None:
    """The contract's columns of one algorithm; suffix: .csv or .parquet."""
    import pyarrow as pa

    ends = _endpoints(replay.connections())
    empty = _rows(pa.RecordBatch.from_pylist([], schema=replay.schema), label, ends)
    with _table_writer(out, suffix, empty.schema) as writer:
        for batch in batches:
            if batch.acks.num_rows:
                writer.write_table(_rows(batch.acks, label, ends))


def _rows(acks: pa.RecordBatch, label: str, ends: dict[str, Any]) -> pa.Table:
    """ends: the four endpoint columns by subflow place."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    place = acks["connection"].to_numpy().astype(np.int64)
    index = pa.array(ends["first"][place] + acks["subflow"].to_numpy())
    columns = {
        "src": pc.take(ends["src"], index),
        "sport": pc.take(ends["sport"], index),
        "dst": pc.take(ends["dst"], index),
        "dport": pc.take(ends["dport"], index),
        "phase": pc.cast(acks[f"{label}.phase"], pa.string()),
        "flags": pc.cast(acks["flags"], pa.string()),
        **{c: acks[f"{label}.{c}"] for c in ("cwnd_before", "cwnd", "ssthresh")},
    }
    return pa.table({name: columns[name] if name in columns else acks[name] for name in REPLAY_COLUMNS})


def _endpoints(connections: Sequence[Connection]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    subflows = [s for c in connections for s in c.subflows]
    sizes = [len(c.subflows) for c in connections]
    return {
        "first": np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.zeros(0, np.int64),
        "src": pa.array([s.src for s in subflows], pa.string()),
        "dst": pa.array([s.dst for s in subflows], pa.string()),
        "sport": pa.array([s.sport for s in subflows], pa.uint16()),
        "dport": pa.array([s.dport for s in subflows], pa.uint16()),
    }


def write_sets(out: str | BinaryIO, suffix: str, batches: Iterable[Batch]) -> None:
    """Writes the sets that detectors found, batch by batch; suffix: .csv or .parquet."""
    import pyarrow as pa

    from rewindow.replays.columns import SETS_SCHEMA

    plain = _plain(SETS_SCHEMA)
    with _table_writer(out, suffix, plain) as writer:
        for batch in batches:
            if batch.sets.num_rows:
                writer.write_table(pa.Table.from_batches([batch.sets]).cast(plain))
