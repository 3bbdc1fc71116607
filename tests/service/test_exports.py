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
from sqlalchemy import insert, select, update

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
            params = {"filename": f"={name}", "tag": ["site=lab", "@run=,1", "step==1"]}
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


def value_of(item: dict[str, Any], column: str) -> Any:
    """What a column has of an item of a list: a field, or one of a nested object with the object's name before it."""
    if column in item:
        return item[column]
    for name, inner in item.items():
        if column.startswith(f"{name}_") and (inner is None or isinstance(inner, dict)):
            return None if inner is None else value_of(inner, column.removeprefix(f"{name}_"))
    raise KeyError(column)


def assert_alike(client: TestClient, url: str, query: str, told: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The table as CSV and as Parquet has each of the items, in their order, with all of their values; returns the rows
    of the CSV. No text of the items may begin as a formula."""
    rows = csv_of(client, f"{url}.csv{query}")
    table = parquet_of(client, f"{url}.parquet{query}")
    assert len(rows) == len(table) == len(told) > 0
    assert list(rows[0]) == table.column_names
    for row, typed, item in zip(rows, table.to_pylist(), told, strict=True):
        for name, value in typed.items():
            expected = value_of(item, name)
            if isinstance(value, datetime):
                assert value == datetime.fromisoformat(expected) == datetime.fromisoformat(row[name])
            elif isinstance(value, str) and not isinstance(expected, str):
                assert json.loads(value) == json.loads(row[name]) == expected
            else:
                assert value == expected, name
                text = "" if value is None else "|".join(value) if isinstance(value, list) else str(value)
                assert row[name] == (text.lower() if isinstance(value, bool) else text)
    return rows


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


def capture_and_mptcp(client: TestClient) -> tuple[str, dict[str, Any]]:
    """Of the capture with a fairness group: its id, and its connection of MPTCP."""
    (found,) = client.get("/v1/connections?kind=mptcp").json()["items"]
    return found["capture_id"], found


@pytest.mark.parametrize("size", [1, 1000])
def test_subflows_of_a_connection_and_of_all(client: TestClient, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(exports, "PAGE", size)
    expected = []
    for c in client.get("/v1/connections?sort=bytes").json()["items"]:
        of = {"capture_id": c["capture_id"], "filename": c["filename"], "connection_id": c["id"]}
        of |= {"connection_number": c["number"], "connection_kind": c["kind"]}
        own = client.get(f"/v1/connections/{c['id']}").json()["subflows"]
        expected += [of | s for s in own]
        assert json_of(client, f"/v1/connections/{c['id']}/subflows.jsonl") == expected[-len(own) :]
    assert len(expected) > 4, "one has several subflows"
    assert json_of(client, "/v1/subflows.jsonl?sort=bytes") == expected
    rows = csv_of(client, "/v1/subflows.csv?sort=bytes")
    assert [r["filename"] for r in rows] == [f"'{s['filename']}" for s in expected], "they begin with ="
    for most in range(1, len(expected) + 2):
        limited = json_of(client, f"/v1/subflows.jsonl?sort=bytes&limit={most}")
        assert limited == expected[:most], "also where a page of connections has more subflows"
    _, one = capture_and_mptcp(client)
    table = parquet_of(client, f"/v1/connections/{one['id']}/subflows.parquet").to_pylist()
    own = [s for s in expected if s["connection_id"] == one["id"]]
    assert [{n: s[n] for n in ("number", "src", "dport", "bytes", "rtt_p95_us", "quality")} for s in table] == [
        {n: s[n] for n in ("number", "src", "dport", "bytes", "rtt_p95_us", "quality")} for s in own
    ]
    assert json_of(client, "/v1/subflows.jsonl?kind=mptcp&sort=bytes") == own


@pytest.mark.parametrize("size", [1, 1000])
def test_who_shared_with_whom(client: TestClient, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """All members, also those that a page has no place for."""
    from api.captures import service

    monkeypatch.setattr(exports, "PAGE", size)
    capture_id, _ = capture_and_mptcp(client)
    (group,) = client.get(f"/v1/captures/{capture_id}").json()["fairness"]
    assert len(group["members"]) == len(group["connections"]) == 2
    whole = {n: group[n] for n in ("bottleneck", "method", "declared", "jain", "mptcp_to_tcp_ratio", "capacity_bps")}
    each = zip(*(group[n] for n in ("connections", "kinds", "goodput_bps", "members", "shares")), strict=True)
    told = [
        {
            **whole,
            "group_verdict": group["verdict"],
            "connection": c,
            "kind": k,
            "goodput_bps": g,
            "member": m,
            "share": s,
        }
        for c, k, g, m, s in each
    ]
    assert any(t["share"] for t in told)
    monkeypatch.setattr(service, "MEMBERS_MAX", 1)
    assert_alike(client, f"/v1/captures/{capture_id}/fairness", "", told)
    assert sorted(json_of(client, f"/v1/captures/{capture_id}/fairness.jsonl")[0]) == sorted(told[0])
    (other,) = {c["capture_id"] for c in client.get("/v1/connections").json()["items"]} - {capture_id}
    assert csv_of(client, f"/v1/captures/{other}/fairness.csv") == [], "nobody shared"


def test_findings_of_a_capture(client: TestClient) -> None:
    capture_id, _ = capture_and_mptcp(client)
    of_capture = Capture.id == uuid.UUID(capture_id)
    finding = {"what": "gap", "count": 3, "since_s": 1.5, "packet": 7, "unreliable": ["rtt_us", "cwnd"], "file": 0}
    findings = [{**finding, "meaning": "packets are missing"}, {**finding, "meaning": "=1+1", "since_s": None}]
    with engine().begin() as database:
        before = database.scalar(select(Capture.summary).where(of_capture))
        assert before is not None
        quality = {"verdict": "limited", "findings": findings}
        database.execute(update(Capture).where(of_capture).values(summary={**before, "quality": quality}))
    try:
        told = client.get(f"/v1/captures/{capture_id}").json()["summary"]["quality"]["findings"]
        url = f"/v1/captures/{capture_id}/findings"
        assert json_of(client, f"{url}.jsonl") == told == findings
        table = parquet_of(client, f"{url}.parquet").to_pylist()
        rows = csv_of(client, f"{url}.csv")
    finally:
        with engine().begin() as database:
            database.execute(update(Capture).where(of_capture).values(summary=before))
    assert table == findings
    assert [r["meaning"] for r in rows] == ["packets are missing", "'=1+1"]
    assert [(r["since_s"], r["unreliable"]) for r in rows] == [("1.5", "rtt_us|cwnd"), ("", "rtt_us|cwnd")]


def test_how_two_selections_differ(client: TestClient) -> None:
    asked = "measure=goodput_bps&selection=kind%3Dmptcp&baseline=kind%3Dtcp"
    found = client.get(f"/v1/aggregates/comparison?{asked}&limit=50").json()["dimensions"]
    told = [{**{n: d[n] for n in ("dimension", "distance", "chance")}, **v} for d in found for v in d["values"]]
    assert {"kind", "tag:site"} <= {t["dimension"] for t in told}
    assert json_of(client, f"/v1/aggregates/comparison.jsonl?{asked}") == told
    rows = csv_of(client, f"/v1/aggregates/comparison.csv?{asked}")
    assert rows[0]["dimension"] == told[0]["dimension"]
    assert [r["value"] for r in rows if r["dimension"] == "tag:step"] == ["'=1"]
    table = parquet_of(client, f"/v1/aggregates/comparison.parquet?{asked}").to_pylist()
    assert [{n: t[n] for n in row} for row, t in zip(table, told, strict=True)] == table
    answer = client.get(f"/v1/aggregates/comparison.csv?{asked}&limit=1")
    assert len(answer.text.splitlines()) == 1 + len(found)
    assert answer.headers["Rewindow-Addresses"] == "kept"
    wrong = client.get("/v1/aggregates/comparison.csv?measure=rtt_us&selection=kinds%3Dtcp")
    assert_problem(wrong, 422, "selection: there is no filter 'kinds'")


def test_members_and_tokens(client_for: Any, services: object) -> None:
    client = client_for(make_token(["read", "write", "admin"]))
    url = team_url(client)
    viewer = client_for(token_of(client, "viewer")["token"])
    assert_alike(viewer, f"{url}/members", "", viewer.get(f"{url}/members").json())
    assert_alike(client, f"{url}/tokens", "", client.get(f"{url}/tokens").json())
    assert client.post(f"{url}/members", json={"name": "=cmd()"}).status_code == 201
    assert "'=cmd()" in {r["name"] for r in csv_of(viewer, f"{url}/members.csv")}
    assert_problem(viewer.get(f"{url}/tokens.csv"), 403, "is a viewer")
    newest = client.get(f"{url}/audit?action=export").json()["items"][0]
    assert (newest["object_name"], newest["detail"]["what"]) == ("members", "csv")


def test_tables_of_another_team(client: TestClient, other: TestClient, client_for: Any) -> None:
    capture_id, one = capture_and_mptcp(client)
    viewer = client_for(token_of(client, "viewer")["token"])
    urls = (
        f"/v1/connections/{one['id']}/subflows", f"/v1/captures/{capture_id}/fairness",
        f"/v1/captures/{capture_id}/findings", f"{team_url(client)}/members",
    )  # fmt: skip
    for url in urls:
        assert viewer.get(f"{url}.parquet").status_code == 200
        assert_problem(other.get(f"{url}.csv"), 404, "no such")
    assert_problem(other.get(f"{team_url(client)}/tokens.csv"), 404, "no such team")
    assert csv_of(other, f"/v1/subflows.csv?capture_id={capture_id}") == []
    assert viewer.get("/v1/subflows.parquet").headers["Rewindow-Addresses"] == "kept"
    asked = f"measure=rtt_us&selection=capture_id%3D{capture_id}&baseline=capture_id%3D{capture_id}"
    assert csv_of(other, f"/v1/aggregates/comparison.csv?{asked}") == []
    for url in ("sweeps", "model-checks"):
        assert csv_of(other, f"/v1/{url}.csv") == []


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
        compared = private.get("/v1/aggregates/comparison", params={"measure": "rtt_us", "selection": asked,
                                                                     "baseline": asked})  # fmt: skip
        assert compared.json()["addresses"] == says
    one = {"measure": "rtt_us", "selection": "tag=a%3Dkept", "baseline": "tag=a%3Dreplaced"}
    assert private.get("/v1/aggregates/comparison", params=one).json()["addresses"] == "some-replaced"
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
