"""Series of long connections: what a chart gets from the overview has every extreme that the rows have."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from api.connections import sequence, series
from deploy.run import Services
from rewindow.reports.exports import parquet_writer
from worker import overview
from worker.series import ROW_GROUP_ROWS

ROWS = 400_000
SPIKES = {100_003: 9000.0, 250_001: 0.25}
"""Rows with a window that no other row has."""
FIRST_NUMBER = 2**32 - 5_000_000
"""Sequence numbers wrap."""


def rows() -> pa.Table:
    """Rows of connection 7, one each 10 us, by turns of two subflows; every third has an RTT."""
    place = np.arange(ROWS)
    windows = 100 + 50 * np.sin(place / 3000) + place % 7
    for row, value in SPIKES.items():
        windows[row] = value
    threshold = np.where(place < 60_000, np.inf, 70.0)
    acked = place // 2 * 1000
    numbers = (FIRST_NUMBER + acked).astype(np.uint32)
    return pa.table(
        {
            "time_ns": 10**18 + place * 10_000,
            "connection": np.full(ROWS, 7, np.uint32),
            "subflow": (place % 2).astype(np.uint32),
            "in_flight_bytes": (windows * 1000).astype(np.uint32),
            "window_bytes": pa.array(np.full(ROWS, 5_000_000, np.uint32), mask=place < 10),
            "segment_bytes": np.full(ROWS, 1000, np.uint32),
            "position": acked,
            "ack": numbers,
            "una": numbers - np.uint32(1000),
            "next": numbers + np.uint32(7000),
            "rtt_us": pa.array((20_000 + place % 1000).astype(np.uint32), mask=place % 3 != 0),
            "a.cwnd": windows,
            "a.ssthresh": threshold,
        }
    )


@pytest.fixture(scope="module")
def key(services: Services) -> Iterator[str]:
    """The object of the rows, beside which there is an overview."""
    from store import objects

    table, out, beside = rows(), io.BytesIO(), io.BytesIO()
    counts = np.zeros(8, np.int64)
    counts[7] = ROWS
    writer = overview.Overview(beside, ["a"], counts)
    with parquet_writer(out, table.schema) as rows_writer:
        for begin in range(0, ROWS, ROW_GROUP_ROWS):
            rows_writer.write_table(table.slice(begin, ROW_GROUP_ROWS))
            writer.add(table.slice(begin, ROW_GROUP_ROWS))
    writer.close()
    name = "captures/of-test-series/acks-1.parquet"
    objects.put_file(name, out)
    objects.put_file(objects.overview_key(name), beside)
    yield name
    objects.delete_keys(name, objects.overview_key(name))


def read(key: str, **period: Any) -> series.Series:
    wanted = {"from_ns": None, "to_ns": None, "width": 500, "recorded": series.RECORDED} | period
    return series.read(key, None, 7, {"a": None}, **wanted)


def test_no_extreme_of_a_pixel_is_lost(key: str) -> None:
    found, table = read(key), rows()
    assert found.is_reduced
    assert (found.first_ns, found.last_ns) == (10**18, 10**18 + (ROWS - 1) * 10_000)
    assert {(r.subflow, r.what) for r in found.recorded} == {(s, w) for s in (0, 1) for w in series.RECORDED}
    windows, times = table["a.cwnd"].to_numpy(), table["time_ns"].to_numpy()
    for line in found.lines:
        assert line.rows == ROWS / 2
        assert len(line.time_ns) <= 500 * 5, "four points of a pixel's window, one of its threshold"
        assert (np.diff(line.time_ns) >= 0).all()
        mine = table["subflow"].to_numpy() == line.subflow
        for begin in range(0, 400, 8):
            low, high = 10**18 + begin * ROWS * 25, 10**18 + (begin + 8) * ROWS * 25
            # A pixel may reach over the edge by its 8 ms, and a block that has its extreme by 256 rows of 20 us.
            part = windows[mine & (times >= low) & (times <= high)]
            wide = (line.time_ns >= low - 13_120_000) & (line.time_ns <= high + 13_120_000)
            assert line.cwnd[wide].max() >= part.max()
            assert line.cwnd[wide].min() <= part.min()
        assert math.isinf(line.ssthresh[0])
        assert line.ssthresh[-1] == 70.0
    odd = next(line for line in found.lines if line.subflow == 1)
    assert {9000.0, 0.25} <= set(odd.cwnd)
    rtt = next(r for r in found.recorded if r.what == "rtt")
    assert (rtt.values.min(), rtt.values.max()) == (20.0, 20.998), "of the even rows"


def test_a_short_period_has_every_row(key: str) -> None:
    begin, end = 10**18 + 250_000 * 10_000, 10**18 + 250_999 * 10_000
    found = read(key, from_ns=begin, to_ns=end)
    assert not found.is_reduced
    assert (found.first_ns, found.last_ns) == (10**18, 10**18 + (ROWS - 1) * 10_000), "of the whole connection"
    for line in found.lines:
        assert line.rows == 502, "500 of the period, and one on each side"
        assert len(line.time_ns) == line.rows
    odd = next(line for line in found.lines if line.subflow == 1)
    assert odd.cwnd[list(odd.time_ns).index(10**18 + 250_001 * 10_000)] == 0.25


def sequence_of(key: str, **period: Any) -> dict[str, sequence.Line]:
    wanted = {"from_ns": None, "to_ns": None, "width": 500} | period
    return {line.what: line for line in sequence.read(key, None, 7, 1, {"a": None}, **wanted).lines}


def test_positions_follow_from_the_rows(key: str) -> None:
    """Of the odd rows, each with an ACK of 1000 bytes more, whose number wraps after the first 5000."""
    begin, end = 10**18 + 9_990 * 10_000, 10**18 + 10_020 * 10_000
    found = sequence_of(key, from_ns=begin, to_ns=end)
    windows, place = rows()["a.cwnd"].to_numpy(), np.arange(9_989, 10_022, 2)
    assert set(found) == {"acked", "edge", "sent", "allowed"}
    for line in found.values():
        assert line.time_ns.tolist() == (10**18 + place * 10_000).tolist()
    acked = place // 2 * 1000
    assert found["acked"].values.tolist() == acked.tolist()
    assert found["edge"].values.tolist() == (acked + 5_000_000).tolist()
    assert found["sent"].values.tolist() == (acked + 7000).tolist()
    assert found["allowed"].values == pytest.approx(acked + windows[place] * 1000)


def test_an_overview_of_positions_loses_no_extreme(key: str) -> None:
    """A band may be wider by what one block of 256 ACKs acknowledged."""
    found, table = sequence_of(key), rows()
    mine = table["subflow"].to_numpy() == 1
    times, windows = table["time_ns"].to_numpy()[mine], table["a.cwnd"].to_numpy()[mine]
    acked = table["position"].to_numpy()[mine]
    edge = np.where(np.arange(ROWS)[mine] < 10, np.nan, acked + 5_000_000.0)
    exact = {"acked": acked, "edge": edge, "sent": acked + 7000, "allowed": acked + windows * 1000}
    for what, values in exact.items():
        line = found[what]
        assert len(line.values) <= 500 * 4 < line.rows
        for begin in range(0, 400, 40):
            low, high = 10**18 + begin * ROWS * 25, 10**18 + (begin + 40) * ROWS * 25
            part = values[(times >= low) & (times <= high)]
            drawn = line.values[(line.time_ns >= low - 13_120_000) & (line.time_ns <= high + 13_120_000)]
            assert drawn.min() <= np.nanmin(part)
            assert drawn.max() >= np.nanmax(part)
            # What the two pixels beside and a block acknowledge.
            near = values[(times >= low - 27_000_000) & (times <= high + 27_000_000)]
            assert drawn.max() <= np.nanmax(near) + 256_000


def test_without_an_overview_the_rows_tell_the_same(key: str) -> None:
    from store import objects

    beside = objects.overview_key(key)
    with objects.local_file(beside, 0) as file:
        kept = file.read()
    whole = read(key)
    objects.delete_keys(beside)
    try:
        found = read(key)
    finally:
        objects.put_file(beside, io.BytesIO(kept))
    assert not found.is_reduced
    for mine, other in zip(found.lines, whole.lines, strict=True):
        assert (mine.subflow, mine.rows) == (other.subflow, other.rows)
        assert (mine.cwnd.min(), mine.cwnd.max()) == (other.cwnd.min(), other.cwnd.max())
