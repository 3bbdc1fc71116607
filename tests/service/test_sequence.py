"""The time-sequence graph of a subflow: lines from the series, segments that a job reads from the capture."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import rewindow
from api.connections import sequence
from deploy.run import Services
from tests.service.test_api import assert_problem, mptcp, upload
from worker import segments

Run = Callable[[], None]
SAMPLE = Path(__file__).parent.parent / "captures" / "mptcp-two-subflows.pcap"


@pytest.fixture
def analysed(client: TestClient, run_jobs: Run) -> dict[str, Any]:
    """Its MPTCP connection is number 1, with losses."""
    capture = upload(client, SAMPLE)
    run_jobs()
    return capture


def graph(client: TestClient, connection: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/v1/connections/{connection}/sequence", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_segments_are_read_when_somebody_asks(
    analysed: dict[str, Any],
    client: TestClient,
    run_jobs: Run,
) -> None:
    connection = mptcp(client, analysed)["id"]
    before = graph(client, connection, subflow=1, algorithms="tccc")
    assert (before["asked"], before["segments"]) == (None, [])
    assert [(line["what"], line["algorithm"]) for line in before["lines"]] == [
        ("acked", None), ("edge", None), ("sent", None), ("allowed", "tccc"),
    ]  # fmt: skip

    asked = client.post(f"/v1/connections/{connection}/segments")
    assert asked.status_code == 202
    again = client.post(f"/v1/connections/{connection}/segments").json()
    assert again["id"] == asked.json()["id"], "the same request is one"
    assert graph(client, connection)["asked"]["state"] == "queued"
    run_jobs()
    found = graph(client, connection, subflow=1, algorithms="tccc")
    assert found["asked"]["state"] == "done"
    assert found["lines"] == before["lines"]
    with rewindow.open(SAMPLE) as capture, capture.stream(segments_of=1) as replay:
        table = pa.Table.from_batches(replay.segments()).filter(pc.field("subflow") == 1)
    assert {s["kind"]: s["count"] for s in found["segments"]} == dict(Counter(table["kind"].to_pylist()))
    for kind in found["segments"]:
        assert kind["is_exact"]
        mine = table.filter(pc.field("kind") == kind["kind"])
        assert [int(found["first_ns"]) + t for t in kind["time_ns"]] == mine["time_ns"].to_pylist()
        assert kind["position"] == mine["position"].to_pylist()
        assert kind["bytes"] == mine["bytes"].to_pylist()
    # What the graph draws fits together: data stays below the receiver's edge, and all of it is acknowledged.
    values = {line["what"]: line["values"] for line in found["lines"]}
    ends = [p + b for s in found["segments"] for p, b in zip(s["position"], s["bytes"], strict=True)]
    assert max(ends) <= max(values["acked"]) <= max(ends) + 1
    assert max(ends) <= max(values["edge"])


def test_a_period_of_the_graph(analysed: dict[str, Any], client: TestClient, run_jobs: Run) -> None:
    connection = mptcp(client, analysed)["id"]
    client.post(f"/v1/connections/{connection}/segments")
    run_jobs()
    whole = graph(client, connection, algorithms="")
    begin = int(whole["first_ns"]) + 3 * 10**9
    part = graph(client, connection, algorithms="", **{"from": begin, "to": begin + 10**9})
    data = next(s for s in whole["segments"] if s["kind"] == "data")
    inside = [i for i, t in enumerate(data["time_ns"]) if 3 * 10**9 <= t <= 4 * 10**9]
    mine = next(s for s in part["segments"] if s["kind"] == "data")
    shift = int(part["first_ns"]) - int(whole["first_ns"])
    assert [t + shift for t in mine["time_ns"]] == [data["time_ns"][i] for i in inside]
    assert mine["position"] == [data["position"][i] for i in inside]
    assert 0 < len(inside) < data["count"]
    assert_problem(client.get(f"/v1/connections/{connection}/sequence?subflow=2"), 404, "no subflow 2")
    assert_problem(
        client.get(f"/v1/connections/{connection}/sequence?algorithms=nothing"), 422, "no finished replay 'nothing'"
    )


def test_segments_that_could_not_be_read_are_read_again(
    analysed: dict[str, Any],
    client: TestClient,
    client_for: Callable[[str], TestClient],
    run_jobs: Run,
) -> None:
    """The original is damaged for a while: the team is told, and may ask again. Who may only read does not ask."""
    from store import objects

    key = objects.capture_key(analysed["id"])
    with objects.local_file(key, 0) as file:
        content = file.read()
    connection = mptcp(client, analysed)["id"]
    url = f"/v1/connections/{connection}/segments"
    team = client.get("/v1/teams/me").json()["id"]
    reader = client.post(f"/v1/teams/{team}/tokens", json={"name": "reads", "scopes": ["read"]}).json()["token"]
    assert_problem(client_for(reader).post(url), 403, "lacks the scope 'write'")
    try:
        objects.put_file(key, io.BytesIO(b"no capture at all, whatever was here before"))
        first = client.post(url).json()
        run_jobs()
        failed = graph(client, connection)["asked"]
        assert (failed["id"], failed["state"]) == (first["id"], "failed")
        assert failed["error"]
    finally:
        objects.put_file(key, io.BytesIO(content))
    second = client.post(url).json()
    assert second["id"] != first["id"]
    run_jobs()
    assert graph(client_for(reader), connection)["asked"] == {**second, "state": "done"}


def test_the_rows_behind_the_chart(analysed: dict[str, Any], client: TestClient, run_jobs: Run) -> None:
    """Pages and files have the same rows, those of a replay in an object of its own among them."""
    connection = mptcp(client, analysed)["id"]
    url = f"/v1/connections/{connection}"
    client.post(f"{url}/replays", json={"algorithm": "tccc", "options": {"L": 2}})
    run_jobs()
    stored = pq.read_table(io.BytesIO(client.get(f"{url}/acks.parquet").content))
    first_ns = stored["time_ns"][0].as_py()
    begin, end = first_ns + 3 * 10**9, first_ns + 6 * 10**9
    labels = ["tccc(L=2)", "css"]
    query: dict[str, Any] = {"from": begin, "to": end, "subflow": 1, "algorithms": ";".join(labels)}
    chosen = stored.filter((pc.field("subflow") == 1) & (pc.field("time_ns") >= begin) & (pc.field("time_ns") <= end))
    names = [n for n in stored.column_names if "." not in n]
    names += [n for label in labels for n in stored.column_names if n.startswith(f"{label}.")]
    assert len(names) == 15 + 8

    rows: list[list[Any]] = []
    cursor, pages = "0", 0
    while cursor is not None:
        page = client.get(f"{url}/acks", params={**query, "limit": 200, "cursor": cursor}).json()
        assert page["columns"] == names
        rows += page["rows"]
        cursor, pages = page["next_cursor"], pages + 1
    assert pages == -(-chosen.num_rows // 200) > 1
    for place, name in enumerate(names):
        expected = [v if not isinstance(v, float) or np.isfinite(v) else None for v in chosen[name].to_pylist()]
        assert [r[place] for r in rows] == ([str(v) for v in expected] if name == "time_ns" else expected), name

    answer = client.get(f"{url}/acks.csv", params=query)
    assert answer.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(lines[0]) == names
    assert [int(line["time_ns"]) for line in lines] == chosen["time_ns"].to_pylist()
    assert [float(line["tccc(L=2).cwnd"]) for line in lines] == chosen["tccc(L=2).cwnd"].to_pylist()
    lines = [json.loads(line) for line in client.get(f"{url}/acks.jsonl", params=query).text.splitlines()]
    assert lines == [dict(zip(names, row, strict=True)) for row in rows]
    answer = client.get(f"{url}/acks.parquet", params=query)
    assert "attachment" in answer.headers["content-disposition"]
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.replace_schema_metadata() == chosen.select(names).replace_schema_metadata()
    about = json.loads(table.schema.metadata[b"rewindow"])
    assert (about["connection_id"], about["addresses"]) == (connection, None)

    nothing = client.get(f"{url}/acks", params={"from": 0, "to": 1}).json()
    assert (nothing["rows"], nothing["next_cursor"]) == ([], None)
    assert client.get(f"{url}/acks.csv?from=0&to=1").text.count("\n") == 1
    assert client.get(f"{url}/acks.jsonl?from=0&to=1").text == ""
    assert pq.read_table(io.BytesIO(client.get(f"{url}/acks.parquet?from=0&to=1").content)).num_rows == 0


ROWS = 400_000


@pytest.fixture(scope="module")
def many(services: Services) -> Iterator[tuple[str, pa.Table]]:
    """Segments of connection 3: data of 1000 bytes each 10 us, now and then one again, and SACK blocks above it."""
    from store import objects

    place = np.arange(ROWS)
    again = place % 1009 == 1008
    sacks = (place % 7 == 6) & ~again
    kind = np.where(again, "retransmission", np.where(sacks, "sack", "data"))
    table = pa.table(
        {
            "time_ns": 10**18 + place * 10_000,
            "subflow": np.zeros(ROWS, np.uint32),
            "kind": pa.array(kind).dictionary_encode(),
            "position": np.where(again, place - 900, place) * 1000,
            "bytes": np.where(sacks, 5000, 1000).astype(np.uint32),
        }
    ).cast(segments.SEGMENTS_SCHEMA)
    out, beside = io.BytesIO(), io.BytesIO()
    assert segments.write(iter(table.to_batches(10_000)), 3, out, beside), "there are enough for an overview"
    key = "captures/of-test-sequence/segments-1.parquet"
    objects.put_file(key, out)
    objects.put_file(objects.overview_key(key), beside)
    yield key, table
    objects.delete_keys(key, objects.overview_key(key))


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_no_segment_of_a_pixel_is_lost(many: tuple[str, pa.Table], part: float) -> None:
    """Whether it is read from the overview or from the rows, each pixel with a segment has one in the answer, and none
    is far from any."""
    key, table = many
    end = 10**18 + int(ROWS * part) * 10_000
    found = sequence._segments(key, 3, 0, 10**18, end, 500)
    assert {s.kind: s.count for s in found} == pytest.approx(
        dict(Counter(table["kind"].to_pylist()[: int(ROWS * part)])), abs=256
    )
    across, up = (end - 10**18) / 500, ROWS * part * 1000 / 100

    def pixels(times: Any, low: Any, high: Any) -> set[tuple[int, int]]:
        """A hundred from the bottom to the top: fewer than the answer tells apart."""
        return {
            (int((t - 10**18) // across), row)
            for t, begin, end in zip(times, low, high, strict=True)
            for row in range(int(begin // up), int((end - 1) // up) + 1)
        }

    for s in found:
        assert not s.is_exact
        assert len(s.time_ns) <= 4 * 500
        mine = table.filter((pc.field("kind") == s.kind) & (pc.field("time_ns") < end))
        times, low, size = (mine[n].to_numpy() for n in ("time_ns", "position", "bytes"))
        there, drawn = pixels(times, low, low + size), pixels(s.time_ns, s.position, s.position + s.bytes)
        # A block of 256 rows begins less than a pixel before its last one.
        for some, others in ((there, drawn), (drawn, there)):
            near = {(c + d, r + e) for c, r in others for d in (-1, 0, 1) for e in (-1, 0, 1)}
            assert some <= near, s.kind


def test_a_short_period_has_every_segment(many: tuple[str, pa.Table]) -> None:
    key, table = many
    begin, end = 10**18 + 200_000 * 10_000, 10**18 + 201_000 * 10_000
    found = {s.kind: s for s in sequence._segments(key, 3, 0, begin, end, 500)}
    inside = table.slice(200_000, 1001)
    assert {k: s.count for k, s in found.items()} == dict(Counter(inside["kind"].to_pylist()))
    for kind, s in found.items():
        assert s.is_exact
        mine = inside.filter(pc.field("kind") == kind)
        assert s.position.tolist() == mine["position"].to_pylist()
        assert s.bytes.tolist() == mine["bytes"].to_pylist()
