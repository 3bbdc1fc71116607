"""Connections in bulk: columns from the core's rows, and the JSON that the core writes of them."""

from __future__ import annotations

import ipaddress
import itertools
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rewindow
from rewindow.findings import tables
from rewindow.findings.tables import Column
from rewindow.replays import replay as replays
from rewindow.reports import json_rows
from tests.packets import Trace
from tests.unit.test_quality import conversation

CAPTURES = Path(__file__).parent.parent / "captures"


def written(columns: dict[str, Column], rows: int, parts: Any = None) -> str:
    return "[" + b"".join(bytes(piece) for piece in json_rows.objects(columns, rows, parts)).decode() + "]"


def document(connection: rewindow.Connection) -> dict[str, Any]:
    subflows = [{**vars(s), "sender_algorithm": vars(s.sender_algorithm)} for s in connection.subflows]
    return {**vars(connection), "subflows": subflows}


def crowd(path: Path) -> Path:
    """Connections without a handshake, with data that is missing, not closed, of one direction: one of each."""
    kinds = itertools.product((True, False), repeat=4)
    records = [
        record
        for number, (handshake, hole, close, answered) in enumerate(kinds)
        for record in conversation(
            handshake=handshake, hole=hole, close=close, answered=answered, client=f"10.0.0.{number + 3}"
        ).records
    ]
    return Trace(records).write(path)


@pytest.fixture(params=["crowd", *sorted(p.name for p in CAPTURES.glob("*.pcap"))])
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rewindow.Replay]:
    path = crowd(tmp_path / "crowd.pcap") if request.param == "crowd" else CAPTURES / request.param
    with (
        rewindow.open(path) as capture,
        capture.stream(["newreno", "cubic"], bottlenecks=True, monitor=True) as replay,
    ):
        replay.run()
        yield replay


@pytest.mark.parametrize(("connections_at_once", "buffer_bytes"), [(8192, 1 << 20), (1, 1), (2, 5000)])
def test_json_of_tables_is_that_of_the_objects(
    replay: rewindow.Replay, connections_at_once: int, buffer_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = json.dumps([document(c) for c in replay.connections()])
    monkeypatch.setattr(replays, "TABLE_CONNECTIONS", connections_at_once)
    monkeypatch.setattr(json_rows, "_BUFFER_BYTES", buffer_bytes)
    found = [written(t.connections(), len(t), ("subflows", t.subflows(), t.counts)) for t in replay.tables()]
    assert "[" + ", ".join(text[1:-1] for text in found) + "]" == wanted


def test_doubles_are_written_as_repr_writes_them() -> None:
    draw = random.Random(1)
    values = [draw.randint(1, 10**7) * 8e9 / draw.randint(1, 10**10) for _ in range(20_000)]
    values += [draw.randint(0, 10 ** draw.randint(0, 17)) / 1e9 for _ in range(20_000)]
    values += [v for v in struct.unpack("20000d", draw.randbytes(160_000)) if abs(v) < float("inf")]
    values += [0.0, -0.0, 1e15, 1e16, 1e22, 1e23, 9007199254740992.0, 5e-324, 1e-4, 9.999e-5]
    column = Column(np.array(values))
    assert written({"v": column}, len(values)) == json.dumps([{"v": v} for v in values])
    missing = Column(np.array(values), np.arange(len(values)) % 2 == 0)
    assert [o["v"] for o in json.loads(written({"v": missing}, len(values)))] == missing.tolist()


def test_addresses_are_written_as_ipaddress_writes_them() -> None:
    draw = random.Random(1)
    raw = [bytes(draw.choice((0, 0, 1, 255) if k % 2 else (0, 17)) for k in range(16)) for _ in range(3000)]
    family = [draw.choice((4, 6)) for _ in raw]
    column = Column(np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 16), family=np.array(family, np.uint8))
    wanted = [
        str(ipaddress.IPv6Address(r) if f == 6 else ipaddress.IPv4Address(r[:4]))
        for r, f in zip(raw, family, strict=True)
        if f == 4 or not ipaddress.IPv6Address(r).ipv4_mapped  # newer Pythons write these with an IPv4 address inside
    ]
    mapped = [f == 6 and ipaddress.IPv6Address(r).ipv4_mapped is not None for r, f in zip(raw, family, strict=True)]
    found = [a for a, is_mapped in zip(column.tolist(), mapped, strict=True) if not is_mapped]
    assert found == wanted
    assert [o["a"] for o in json.loads(written({"a": column}, len(raw)))] == column.tolist()


def test_texts_are_escaped() -> None:
    texts = ['a "quoted"\n text', "é", None, ["a", "b"]]
    column = Column(np.array([3, 1, 0, 2], np.uint32), texts=texts)
    assert json.loads(written({'"odd" name': column}, 4)) == [{'"odd" name': texts[k]} for k in (3, 1, 0, 2)]


def test_row_types_are_those_of_the_core() -> None:
    row = tables.ffi.new("rw_connection_row *", {"id": 7, "version": -1, "last_ns": -5, "data_bytes": 2**64 - 1})
    found = np.frombuffer(tables.ffi.buffer(row), tables.ROW_TYPES["rw_connection_row"])[0]
    assert (found["id"], found["version"], found["last_ns"], found["data_bytes"]) == (7, -1, -5, 2**64 - 1)
