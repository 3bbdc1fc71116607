"""Lists as files: each row once, the same values in each format, and nothing that a spreadsheet computes."""

from __future__ import annotations

import csv
import io
import json
import uuid
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, update

from api import exports
from store.database import engine
from store.models import Capture
from tests.conftest import CAPTURES, make_token
from tests.service.test_api import PCAP, Run, assert_problem
from tests.service.test_connections import begun
from tests.service.test_members import token_of

HOSTILE = {"=cmd()": "@x", "site": 'a,"b"'}
NAMES = ["=1+1.pcap", "+1.pcap", "-1.pcap", "@SUM(A1).pcap", 'quoted " and, split.pcap', "plain.pcap"]
_TEAM: dict[str, str] = {}


@pytest.fixture
def client(client_for: Any, services: object, run_jobs: Run) -> TestClient:
    """Of a team with two analysed captures, which all tests here read."""
    if not _TEAM:
        _TEAM["token"] = make_token(["read", "write", "admin"])
        made = client_for(_TEAM["token"])
        for name in ("mptcp-ecn.pcap", "begun.pcap"):
            content = begun() if name == "begun.pcap" else (CAPTURES / name).read_bytes()
            params = {"filename": f"={name}", "tag": ["site=lab", "@run=,1"]}
            assert made.post("/v1/captures", params=params, content=content, headers=PCAP).status_code == 202
        run_jobs()
    return client_for(_TEAM["token"])  # type: ignore[no-any-return]


def csv_of(client: TestClient, url: str) -> list[dict[str, str]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].split(";")[0] == "text/csv"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def parquet_of(client: TestClient, url: str) -> Any:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    return pq.read_table(io.BytesIO(answer.content))


def json_of(client: TestClient, url: str) -> list[dict[str, Any]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in answer.text.splitlines()]


def team_url(client: TestClient) -> str:
    return f"/v1/teams/{client.get('/v1/teams/me').json()['id']}"


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_every_connection_once_in_every_format(client: TestClient, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(exports, "PAGE", size)
    told = client.get("/v1/connections?sort=bytes").json()["items"]
    assert len(told) == 4
    assert json_of(client, "/v1/connections.jsonl?sort=bytes") == told
    columns = parquet_of(client, "/v1/connections.parquet?sort=bytes")
    rows = csv_of(client, "/v1/connections.csv?sort=bytes")
    assert [r["id"] for r in rows] == columns["id"].to_pylist() == [c["id"] for c in told]
    assert list(rows[0]) == columns.column_names
    for row, typed, item in zip(rows, columns.to_pylist(), told, strict=True):
        for name in ("bytes", "first_ns", "goodput_bps", "rtt_us", "src", "dport", "verdict", "addresses"):
            assert typed[name] == item[name]
            assert row[name] == ("" if item[name] is None else str(item[name]))
        assert typed["quality"] == item["quality"] == [m for m in row["quality"].split("|") if m]
        assert json.loads(typed["tags"]) == json.loads(row["tags"]) == item["tags"]
        assert typed["uploader_id"] == row["uploader_id"] == item["uploader"]["id"]
        assert typed["uploaded_at"] == datetime.fromisoformat(row["uploaded_at"])
        assert typed["uploaded_at"] == datetime.fromisoformat(item["uploaded_at"])
    assert any(c["goodput_bps"] is None for c in told), "nothing is missing: how it is written is not seen"


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_filters_order_and_the_most_rows(client: TestClient, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(exports, "PAGE", 2)
    told = client.get("/v1/connections?sort=-bytes").json()["items"]
    assert json_of(client, f"/v1/connections.jsonl?sort=-bytes&limit={most}") == told[:most]
    assert len(parquet_of(client, f"/v1/connections.parquet?limit={most}")) == min(most, 4)
    (only,) = json_of(client, "/v1/connections.jsonl?kind=mptcp")
    assert only["kind"] == "mptcp"


def test_nothing_is_a_file_too(client: TestClient) -> None:
    assert csv_of(client, "/v1/connections.csv?bytes_min=9000000000000000") == []
    header = client.get("/v1/connections.csv?port=1").text.split(",")
    table = parquet_of(client, "/v1/connections.parquet?port=1")
    assert (len(table), table.column_names) == (0, [h.strip() for h in header])
    assert client.get("/v1/connections.jsonl?port=1").text == ""


def test_captures_with_all_that_is_known_of_them(client: TestClient) -> None:
    told = client.get("/v1/captures?sort=filename").json()["items"]
    assert json_of(client, "/v1/captures.jsonl?sort=filename") == told
    rows, columns = (csv_of(client, "/v1/captures.csv?sort=filename"), parquet_of(client, "/v1/captures.parquet"))
    assert [r["summary_packets"] for r in rows] == [str(c["summary"]["packets"]) for c in told]
    assert [r["summary_link_types"] for r in rows] == ["|".join(c["summary"]["link_types"]) for c in told]
    assert sorted(columns["summary_quality_verdict"].to_pylist()) == sorted(
        c["summary"]["quality"]["verdict"] for c in told
    )
    assert list(rows[0]) == columns.column_names
    (mptcp,) = json_of(client, "/v1/captures.jsonl?kind=mptcp&state=done")
    own = client.get(f"/v1/captures/{mptcp['id']}/connections").json()["items"]
    assert json_of(client, f"/v1/captures/{mptcp['id']}/connections.jsonl") == own
    assert [int(r["number"]) for r in csv_of(client, f"/v1/captures/{mptcp['id']}/connections.csv")] == [0, 1]


def test_aggregates_have_a_column_for_each_dimension(client: TestClient) -> None:
    asked = "measure=goodput_bps&group_by=kind&group_by=tag:site"
    told = client.get(f"/v1/aggregates?{asked}").json()
    assert len(told["groups"]) > 1
    rows = csv_of(client, f"/v1/aggregates.csv?{asked}")
    assert [[r["kind"], r["tag:site"]] for r in rows] == [g["key"] for g in told["groups"]]
    assert {(r["measure"], r["unit"]) for r in rows} == {("goodput_bps", "bit/s")}
    table = parquet_of(client, f"/v1/aggregates.parquet?{asked}&histogram=true").to_pylist()
    for row, typed, group in zip(rows, table, told["groups"], strict=True):
        median = None if group["percentiles"] is None else group["percentiles"]["p50"]
        assert typed["percentiles_p50"] == median
        assert row["percentiles_p50"] == ("" if median is None else str(median))
        assert (typed["count"], int(row["missing"])) == (group["count"], group["missing"])
        assert sum(b["count"] for b in json.loads(typed["histogram"])) == group["count"]
    (whole,) = json_of(client, "/v1/aggregates.jsonl?measure=goodput_bps")
    assert whole["count"] == told["total"]["count"]


def test_too_many_groups_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.aggregates import endpoints

    monkeypatch.setattr(endpoints, "_GROUPS_MAX", 1)
    answer = client.get("/v1/aggregates.csv?measure=rtt_us&group_by=sport")
    assert_problem(answer, 422, "and a file may have 1: add a filter")


def test_cells_do_not_become_formulas(client_for: Any, services: object) -> None:
    client = client_for(make_token(["read", "write", "admin"]))
    team_id = uuid.UUID(client.get("/v1/teams/me").json()["id"])
    with engine().begin() as database:
        for name in NAMES:
            key = uuid.uuid4()
            values = {"received": key.bytes * 2, "sha256": key.bytes * 2, "bytes": 1, "object_key": str(key)}
            notes = "\t=1" if name == "plain.pcap" else "-2+3"
            values |= {"notes": notes, "tags": HOSTILE, "error": "\r=1"}
            database.execute(insert(Capture).values(id=key, team_id=team_id, filename=name, state="failed", **values))
    rows = csv_of(client, "/v1/captures.csv")
    expected = [n if n[0] not in "=+-@" else f"'{n}" for n in NAMES]
    assert sorted(r["filename"] for r in rows) == sorted(expected)
    assert {r["notes"] for r in rows} == {"'-2+3", "'\t=1"}
    assert {r["error"] for r in rows} == {"'\r=1"}
    assert all(json.loads(r["tags"]) == HOSTILE for r in rows)
    exact = parquet_of(client, "/v1/captures.parquet")
    assert sorted(exact["filename"].to_pylist()) == sorted(NAMES), "no spreadsheet reads this: it is as it is"
    asked = "/v1/aggregates.csv?measure=goodput_bps&group_by=tag:%3D1"
    assert client.get(asked).status_code == 422, "no dimension may begin so"


def test_the_log_as_a_file(client: TestClient, client_for: Any) -> None:
    url = team_url(client)
    made = token_of(client, "viewer")
    viewer = client_for(made["token"])
    assert viewer.get("/v1/connections.parquet?kind=tcp").status_code == 200
    rows = csv_of(client, f"{url}/audit.csv")
    assert rows[0]["member"] == made["member"]
    assert (rows[0]["action"], rows[0]["object_name"]) == ("export", "connections")
    assert json.loads(rows[0]["detail"]) == {"what": "parquet", "filters": "kind=tcp"}
    newest = csv_of(client, f"{url}/audit.csv?limit=1&action=export")
    assert (len(newest), newest[0]["object_name"]) == (1, "audit"), "the export before is noted, too"
    told = client.get(f"{url}/audit?action=make_token").json()["items"]
    assert json_of(client, f"{url}/audit.jsonl?action=make_token") == told
    assert_problem(viewer.get(f"{url}/audit.csv"), 403, "is a viewer")


def test_a_file_says_what_it_contains(client: TestClient, client_for: Any, run_jobs: Run) -> None:
    asked = "kind=mptcp&tag=site%3Dlab"
    answer = client.get(f"/v1/connections.parquet?{asked}")
    about = json.loads(pq.read_schema(io.BytesIO(answer.content)).metadata[b"rewindow"])
    made = datetime.fromisoformat(about.pop("made_at"))
    assert made.tzinfo is not None
    assert about == {"table": "connections", "filters": asked, "addresses": "kept"}
    assert answer.headers["Rewindow-Addresses"] == "kept"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="connections.parquet"'
    assert "Rewindow-Addresses" not in client.get(f"{team_url(client)}/audit.csv").headers
    private = client_for(make_token(["read", "write", "admin"], payload="cut"))
    url = team_url(private)
    content = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    for addresses, file in (("kept", content), ("replaced", begun())):
        assert private.patch(f"{url}/settings", json={"addresses": addresses}).status_code == 200
        assert private.post(f"/v1/captures?tag=a={addresses}", content=file, headers=PCAP).status_code == 202
    run_jobs()
    for asked, says in (("tag=a=kept", "kept"), ("tag=a=replaced", "replaced"), ("", "some-replaced")):
        answer = private.get(f"/v1/connections.csv?{asked}")
        assert answer.headers["Rewindow-Addresses"] == says
        assert ("other-addresses" in answer.headers["Content-Disposition"]) is (says != "kept")
    rows = csv_of(private, "/v1/connections.csv")
    assert {(json.loads(r["tags"])["a"], r["addresses"]) for r in rows} == {("kept", "kept"), ("replaced", "replaced")}


def test_what_is_wrong_is_refused_before_a_file_begins(client: TestClient, other: TestClient) -> None:
    assert_problem(client.get("/v1/connections.csv?adress=10.0.0.1"), 422, "unknown query parameter 'adress'")
    assert_problem(client.get("/v1/connections.csv?tag=site"), 400, "key=value")
    assert_problem(client.get("/v1/connections.xlsx"), 422, "suffix")
    assert_problem(client.get("/v1/connections.csv?limit=0"), 422, "limit")
    capture = client.get("/v1/captures").json()["items"][0]["id"]
    assert_problem(other.get(f"/v1/captures/{capture}/connections.csv"), 404, "no such capture")
    assert csv_of(other, f"/v1/connections.csv?capture_id={capture}") == []
    assert csv_of(other, "/v1/captures.csv") == []
    assert_problem(other.get(f"{team_url(client)}/audit.csv"), 404, "no such team")


def test_a_row_that_is_deleted_meanwhile_ends_no_file(
    client_for: Any, services: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are read one after the other: between them a capture may go and another one may come."""
    from api.captures import service

    client = client_for(make_token(["read", "write", "admin"]))
    team_id = uuid.UUID(client.get("/v1/teams/me").json()["id"])
    ids = sorted(uuid.uuid4() for _ in range(4))
    with engine().begin() as database:
        for key in ids:
            values = {"received": key.bytes * 2, "sha256": key.bytes * 2, "bytes": 1, "object_key": str(key)}
            database.execute(insert(Capture).values(id=key, team_id=team_id, filename="x", state="failed", **values))
    monkeypatch.setattr(exports, "PAGE", 2)
    read = service.find_page

    async def between(*given: Any, **wanted: Any) -> Any:
        page = await read(*given, **wanted)
        with engine().begin() as database:
            database.execute(update(Capture).where(Capture.id == ids[3]).values(notes="late"))
            database.execute(Capture.__table__.delete().where(Capture.id == ids[0]))
        return page

    monkeypatch.setattr(service, "find_page", between)
    found = json_of(client, "/v1/captures.jsonl?sort=bytes")
    assert [c["id"] for c in found] == [str(i) for i in ids]
    assert found[3]["notes"] == "late"
