"""All connections of a team: filters, orders, pages and totals, compared with what Python makes of the same rows."""

from __future__ import annotations

import importlib
import ipaddress
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update

from api.pages import encode
from store.database import engine
from store.models import Capture
from tests.conftest import CAPTURES, make_token
from tests.packets import SYN, Trace
from tests.service.test_api import PCAP, Run, assert_problem

NAMES = {
    "mptcp-ecn.pcap": ("site=lab", "run=1"),
    "mptcp-receiver-side.pcap": ("site=lab", "run=2"),
    "mptcp-recurrences.pcap": ("site=100%_far",),
    "begun.pcap": (),
}
Row = dict[str, Any]


def begun() -> bytes:
    """A capture of two connections that only begin: most of what is known of others is missing."""
    trace = Trace()
    for number in range(2):
        trace.packet(number * 1e-3, True, number, 0, SYN, client=f"10.9.0.{number + 1}")
    return trace.bytes()


All = list[Row]


@pytest.fixture(scope="module")
def team(services: object) -> str:
    return make_token(["read", "write", "admin"])


@pytest.fixture
def client(client_for: Callable[[str], TestClient], team: str) -> TestClient:
    return client_for(team)


_FOUND: dict[str, All] = {}
"""Rows by team: they are asked for once."""


@pytest.fixture
def rows(client: TestClient, team: str, run_jobs: Run) -> All:
    """All connections of the team, and in `subflows` those of each."""
    if team in _FOUND:
        return _FOUND[team]
    for name, tags in NAMES.items():
        content = begun() if name == "begun.pcap" else (CAPTURES / name).read_bytes()
        params = {"filename": name, "tag": tags}
        assert client.post("/v1/captures", params=params, content=content, headers=PCAP).status_code == 202
    run_jobs()
    found: All = client.get("/v1/connections?limit=500").json()["items"]
    for row in found:
        row["subflows"] = client.get(f"/v1/connections/{row['id']}").json()["subflows"]
    _FOUND[team] = found
    return found


def ends(row: Row) -> list[tuple[str, int]]:
    return [(s[end], s[port]) for s in row["subflows"] for end, port in (("src", "sport"), ("dst", "dport"))]


def within(row: Row, network: str) -> bool:
    return any(ipaddress.ip_address(a) in ipaddress.ip_network(network) for a, _ in ends(row))


def middle(rows: All, name: str) -> Any:
    values = sorted(r[name] for r in rows if r[name] is not None)
    return values[len(values) // 2]


NUMBERS = (
    "bytes", "duration_s", "completion_s", "rtt_us", "rtt_inflation", "retransmission_rate", "goodput_bps",
    "subflow_count",
)  # fmt: skip


def found(client: TestClient, **wanted: Any) -> set[str]:
    answer = client.get("/v1/connections", params={**wanted, "limit": 500})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["total"], answer.json()["total_is_exact"]) == (len(answer.json()["items"]), True)
    return {r["id"] for r in answer.json()["items"]}


def splits(client: TestClient, rows: All, holds: Callable[[Row], bool], **wanted: Any) -> None:
    """The filter selects the rows for which it holds: some, and not all."""
    expected = {r["id"] for r in rows if holds(r)}
    assert 0 < len(expected) < len(rows), wanted
    assert found(client, **wanted) == expected, wanted


def test_facts_are_those_of_the_main_subflow(rows: All) -> None:
    assert len(rows) >= 4
    for row in rows:
        subflows = row["subflows"]
        main = max(subflows, key=lambda s: (s["bytes"], -s["number"]))
        assert [row[n] for n in ("src", "sport", "dst", "dport", "sender_algorithm", "rtt_min_us")] == [
            main[n] for n in ("src", "sport", "dst", "dport", "sender_algorithm", "rtt_min_us")
        ]
        assert row["rtt_us"] == main["rtt_median_us"]
        rate = sum(s["retransmitted_packets"] for s in subflows) / sum(s["packets"] for s in subflows)
        assert row["retransmission_rate"] == rate
        if row["rtt_us"]:
            assert row["rtt_inflation"] == row["rtt_us"] / row["rtt_min_us"]


def test_each_filter_selects_what_it_says(rows: All, client: TestClient) -> None:
    for name in NUMBERS:
        bound = middle(rows, name)
        for side, holds in (("min", lambda v, b: v >= b), ("max", lambda v, b: v <= b)):
            expected = {r["id"] for r in rows if r[name] is not None and holds(r[name], bound)}
            assert found(client, **{f"{name}_{side}": bound}) == expected, name
    for name in ("kind", "sender_algorithm", "verdict"):
        for value in {r[name] for r in rows}:
            assert found(client, **{name: value}) == {r["id"] for r in rows if r[name] == value}
    splits(client, rows, lambda r: r["kind"] == "mptcp", kind="mptcp")
    seen = {m for r in rows for m in r["quality"]}
    for mark in seen:
        assert found(client, mark=mark) == {r["id"] for r in rows if mark in r["quality"]}
    main = {(r["src"], r["sport"]) for r in rows} | {(r["dst"], r["dport"]) for r in rows}
    beside = [(a, p) for r in rows for a, p in ends(r) if (a, p) not in main]
    assert beside, "no subflow beside a main one: the filter could ignore them"
    for address, port in {beside[0], ends(rows[0])[0]}:
        splits(client, rows, lambda r, p=port: p in [x for _, x in ends(r)], port=port)  # type: ignore[misc]
        assert found(client, address=address) == {r["id"] for r in rows if within(r, address)}
    prefix = str(ipaddress.ip_network(f"{rows[0]['src']}/24", strict=False))
    assert found(client, address=prefix) == {r["id"] for r in rows if within(r, prefix)}
    assert found(client, address=["192.0.2.0/24", prefix]) == found(client, address=prefix) != set()
    assert found(client, address="192.0.2.0/24") == set()


def test_each_end_of_the_main_subflow_has_its_filters(rows: All, client: TestClient) -> None:
    """`address` and `port` mean both ends of any subflow; a value of a dimension is one end of the main one."""
    for end, port in (("src", "sport"), ("dst", "dport")):
        for row in rows:
            prefix = ipaddress.ip_network(f"{row[end]}/24", strict=False)
            expected = {r["id"] for r in rows if ipaddress.ip_address(r[end]) in prefix}
            assert found(client, **{end: str(prefix)}) == expected
            assert found(client, **{end: row[end]}) == {r["id"] for r in rows if r[end] == row[end]}
            assert found(client, **{port: row[port]}) == {r["id"] for r in rows if r[port] == row[port]}
        values = sorted({r[end] for r in rows})[:2]
        assert found(client, **{end: values}) == {r["id"] for r in rows if r[end] in values}
    one = next(r for r in rows if r["sport"] != r["dport"])
    assert one["id"] in found(client, port=one["dport"])
    assert one["id"] not in found(client, sport=one["dport"])
    assert found(client, src=one["src"], dst=one["dst"]) == {
        r["id"] for r in rows if (r["src"], r["dst"]) == (one["src"], one["dst"])
    }
    assert found(client, src=one["dst"]) == {r["id"] for r in rows if r["src"] == one["dst"]}


def test_what_has_none_is_selected(rows: All, client: TestClient) -> None:
    """No tag of a key, no finding, no known uploader; and all findings, not one of them."""
    from store.database import engine

    splits(client, rows, lambda r: "run" not in r["tags"], without_tag="run")
    splits(client, rows, lambda r: not r["tags"].keys() & {"run", "site"}, without_tag=["run", "site"])
    assert found(client, mark="none") == found(client, all_marks="none") == {r["id"] for r in rows if not r["quality"]}
    one = max(rows, key=lambda r: len(r["quality"]))
    assert len(one["quality"]) >= 2
    other = next(m for r in rows for m in r["quality"] if m not in one["quality"])
    assert found(client, all_marks=one["quality"]) == {
        r["id"] for r in rows if set(one["quality"]) <= set(r["quality"])
    }
    assert one["id"] not in found(client, all_marks=[one["quality"][0], other])
    assert one["id"] in found(client, mark=[one["quality"][0], other])
    assert found(client, uploader="none") == set()
    unknown = text("UPDATE captures SET uploader_id = :uploader WHERE id = :id")
    with engine().begin() as database:
        database.execute(unknown, {"uploader": None, "id": one["capture_id"]})
    try:
        of_capture = {r["id"] for r in rows if r["capture_id"] == one["capture_id"]}
        assert found(client, uploader="none") == of_capture
        assert found(client, uploader=["none", one["uploader"]["id"]]) == {r["id"] for r in rows}
    finally:
        with engine().begin() as database:
            database.execute(unknown, {"uploader": one["uploader"]["id"], "id": one["capture_id"]})


def test_a_captures_verdict_selects_and_groups(rows: All, client: TestClient) -> None:
    """It is not that of the connections: one capture gets another verdict, and they keep theirs."""
    from store.database import engine

    verdicts = {c["id"]: c["summary"]["quality"]["verdict"] for c in client.get("/v1/captures").json()["items"]}
    one = rows[0]["capture_id"]
    change = text(
        "UPDATE captures SET summary = jsonb_set(summary, '{quality,verdict}', to_jsonb(CAST(:verdict AS text)))"
        " WHERE id = :id"
    )
    with engine().begin() as database:
        database.execute(change, {"verdict": "poor", "id": one})
    try:
        now = {**verdicts, one: "poor"}
        assert len(set(now.values())) > 1
        for verdict in ("good", "limited", "poor"):
            expected = {r["id"] for r in rows if now[r["capture_id"]] == verdict}
            assert found(client, capture_verdict=verdict) == expected
            listed = client.get("/v1/captures", params={"capture_verdict": verdict}).json()["items"]
            assert {c["id"] for c in listed} == {i for i, v in now.items() if v == verdict}
        assert found(client, capture_verdict=["good", "limited", "poor"]) == {r["id"] for r in rows}
        (field,) = client.get("/v1/connections/values", params={"field": "capture_verdict"}).json()["fields"]
        counts = Counter(now[r["capture_id"]] for r in rows)
        assert {v["value"]: v["connections"] for v in field["values"]} == counts
        by = client.get("/v1/aggregates", params={"measure": "rtt_us", "group_by": "capture_verdict"}).json()["groups"]
        totals = {g["key"][0]: g["count"] + g["unreliable"] + g["missing"] for g in by}
        assert totals == counts
    finally:
        with engine().begin() as database:
            database.execute(change, {"verdict": verdicts[one], "id": one})
    assert client.get("/v1/connections", params={"capture_verdict": "splendid"}).status_code == 422


def test_filters_of_captures_and_times(rows: All, client: TestClient) -> None:
    splits(client, rows, lambda r: r["tags"] == {"site": "lab", "run": "1"}, tag=["site=lab", "run=1"])
    splits(client, rows, lambda r: r["tags"].get("site") == "lab", tag="site=lab")
    splits(client, rows, lambda r: "RECEIVER" in r["filename"].upper(), q="ReCeiver")
    assert found(client, q="%") == found(client, q="_") == set(), "these are no patterns"
    splits(client, rows, lambda r: r["capture_id"] == rows[0]["capture_id"], capture_id=rows[0]["capture_id"])
    (uploader,) = {r["uploader"]["id"] for r in rows}
    assert found(client, uploader=uploader) == {r["id"] for r in rows}
    assert found(client, uploader=str(uuid.uuid4())) == set()
    uploaded = sorted({r["uploaded_at"] for r in rows})
    splits(client, rows, lambda r: r["uploaded_at"] >= uploaded[1], since=uploaded[1])
    splits(client, rows, lambda r: r["uploaded_at"] < uploaded[1], until=uploaded[1])
    started = sorted({datetime.fromisoformat(r["started_at"]) for r in rows})
    border = (started[1] + timedelta(microseconds=1)).isoformat()
    later = {r["id"] for r in rows if datetime.fromisoformat(r["started_at"]) > started[1]}
    assert found(client, **{"from": border}) == later != set()
    assert found(client, to=border) == {r["id"] for r in rows} - later


def test_filters_hold_together_and_select_captures(rows: All, client: TestClient) -> None:
    lab = {r["id"] for r in rows if r["tags"].get("site") == "lab" and r["kind"] == "mptcp"}
    assert found(client, tag="site=lab", kind="mptcp") == lab != found(client, tag="site=lab")
    for wanted in ({"kind": "mptcp"}, {"tag": "run=2"}, {"bytes_min": middle(rows, "bytes")}, {"q": "recurrences"}):
        selected = client.get("/v1/connections", params=wanted).json()["items"]
        captures = client.get("/v1/captures", params=wanted).json()["items"]
        assert {c["id"] for c in captures} == {r["capture_id"] for r in selected} != set()


COLUMNS = (
    *NUMBERS, "first_ns", "kind", "sender_algorithm", "verdict", "sport", "dport", "uploaded_at", "filename",
)  # fmt: skip


VALUES: dict[str, Callable[[Row], Any]] = {
    **{end: lambda r, end=end: ipaddress.ip_address(r[end]) for end in ("src", "dst")},
    "marks": lambda r: len(r["quality"]),
    "uploader": lambda r: r["uploader"] and r["uploader"]["name"],
    **{f"tag:{key}": lambda r, key=key: r["tags"].get(key) for key in ("site", "run", "none")},
}
"""What a row is sorted by that is no field of its own."""


@pytest.fixture
def one_unknown_uploader(rows: All) -> Iterator[None]:
    """Of the captures: then the order has a place without a value."""
    capture = Capture.id == uuid.UUID(rows[0]["capture_id"])
    with engine().begin() as database:
        uploader = database.scalar(select(Capture.uploader_id).where(capture))
        database.execute(update(Capture).where(capture).values(uploader_id=None))
    yield
    with engine().begin() as database:
        database.execute(update(Capture).where(capture).values(uploader_id=uploader))


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("name", [*COLUMNS, *VALUES])
@pytest.mark.usefixtures("one_unknown_uploader")
def test_pages_in_every_order(rows: All, client: TestClient, name: str, sign: str) -> None:
    """Pages behind one another are the whole, also where several rows have the same value, or none."""
    seen: All = []
    cursor = None
    while True:
        params = {"sort": sign + name, "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = client.get("/v1/connections", params=params).json()
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["items"]) == 2
    assert sorted(r["id"] for r in seen) == sorted(r["id"] for r in rows)
    values = [VALUES.get(name, lambda r: r[name])(r) for r in seen]
    if name in ("marks", "uploader", "tag:site"):
        assert 1 < len(set(values)) < len(values), "no ties, or nothing else"
    known = [v for v in values if v is not None]
    assert values == sorted(known, reverse=sign == "-") + [None] * (len(values) - len(known))


def test_a_large_total_is_estimated(rows: All, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from api import totals

    monkeypatch.setattr(totals, "COUNTED_MAX", 1)
    page = client.get("/v1/connections?bytes_min=0&limit=1").json()
    assert page["total"] >= 2
    assert not page["total_is_exact"]
    for wanted in ("bytes_min=0", "limit=1"):
        found = client.get(f"/v1/connections?{wanted}").json()
        assert (found["total"], found["total_is_exact"]) == (len(rows), True)


def test_a_total_is_that_of_all_pages(rows: All, client: TestClient) -> None:
    page = client.get("/v1/connections?bytes_min=0&limit=2").json()
    last = client.get(f"/v1/connections?bytes_min=0&limit=500&cursor={page['next_cursor']}").json()
    assert (page["total"], last["total"], last["next_cursor"]) == (len(rows), len(rows), None)
    assert len(last["items"]) == len(rows) - 2


def test_what_is_wrong_is_refused(rows: All, client: TestClient) -> None:
    for url in ("/v1/connections", "/v1/captures"):
        assert_problem(client.get(f"{url}?adress=10.0.0.1"), 422, "unknown query parameter 'adress'")
        for wanted, said in (
            ({"address": "10.0.0.256"}, "address"),
            (
                {"address": "fe80::1%eth0"},
                "'fe80::1%eth0' is no address and no prefix; 10.0.0.1, 10.0.0.0/8 and fd00::/8",
            ),
            ({"kind": ["tcp", "mptcp"]}, "the query parameter 'kind' may be given once"),
            ({"bytes_min": [1, 2]}, "the query parameter 'bytes_min' may be given once"),
            ({"address": ["10.0.0.1"] * 17}, "at most 16"),
            ({"port": 65536}, "65535"),
            ({"kind": "udp"}, "kind"),
            ({"bytes_min": -1}, "bytes_min"),
            ({"bytes_max": 2**63}, "bytes_max"),
            ({"goodput_bps_min": "nan"}, "goodput_bps_min"),
            ({"retransmission_rate_max": 1.5}, "retransmission_rate_max"),
            ({"from": "2026-01-01T00:00:00"}, "timezone"),
            ({"since": "2026-01-01T00:00:00"}, "timezone"),
            ({"until": "2026-01-01"}, "timezone"),
            ({"q": "x" * 201}, "q"),
        ):
            assert_problem(client.get(url, params=wanted), 422, said)
        assert_problem(client.get(url, params={"tag": "site"}), 400, "key=value")
        both = {"tag": ["site=lab", "site=osaka"]}
        assert_problem(client.get(url, params=both), 400, "two values, and a capture has one: 'lab' or 'osaka'")
        assert client.get(url, params={"tag": ["site=lab", "site=lab"]}).status_code == 200
    for name in ("subflow_count_min", "subflow_count_max"):
        assert_problem(client.get("/v1/connections", params={name: 2**31}), 422, name)
    for sort in ("ids", "tag:", "tag:a=b", "xtag:a", "--tag:a", f"tag:{'x' * 200}"):
        assert_problem(client.get("/v1/connections", params={"sort": sort}), 422, "sort")
    hostile = client.get("/v1/connections", params={"sort": "-tag:' || '", "limit": 1}).json()
    assert hostile["next_cursor"], "a key is a value"
    cursor = client.get("/v1/connections?sort=bytes&limit=1").json()["next_cursor"]
    assert_problem(client.get(f"/v1/connections?sort=-bytes&cursor={cursor}"), 400, "not made by this API")
    for broken in ("W10", "WyItZmlyc3RfbnMiLDEsMiwieCJd", cursor[:-3]):
        assert_problem(client.get(f"/v1/connections?cursor={broken}"), 400, "not made by this API")
    large = ["subflow_count", 2**31, 1, 1], ["-first_ns", 2**63, 1, 1], ["-first_ns", 1, 1, 2**31], ["src", "x", 1, 1]
    for key in large:
        name, made = str(key[0]), encode(key)
        assert_problem(client.get(f"/v1/connections?sort={name}&cursor={made}"), 400, "not made by this API")
    assert client.get("/v1/connections?from=9999-12-31T23:59:59Z").json()["items"] == []
    assert client.get("/v1/connections?to=0001-01-01T00:00:00Z").json()["items"] == []


def test_another_teams_connections_are_not_there(rows: All, other: TestClient) -> None:
    assert other.get("/v1/connections").json() == {
        "items": [], "next_cursor": None, "total": 0, "total_is_exact": True,
    }  # fmt: skip
    for wanted in ({"capture_id": rows[0]["capture_id"]}, {"bytes_min": 0}, {"uploader": rows[0]["uploader"]["id"]}):
        assert other.get("/v1/connections", params=wanted).json()["total"] == 0
    assert_problem(other.patch(f"/v1/captures/{rows[0]['capture_id']}", json={"notes": "x"}), 404, "no such capture")


def test_tags_and_notes_are_changed(rows: All, client: TestClient) -> None:
    url = f"/v1/captures/{rows[0]['capture_id']}"
    before = client.get(url).json()
    assert before["notes"] == ""
    changed = client.patch(url, json={"tags": {"site": "moved"}, "notes": "lossy uplink, 50% of it"}).json()
    assert (changed["tags"], changed["notes"]) == ({"site": "moved"}, "lossy uplink, 50% of it")
    of_capture = {r["id"] for r in rows if r["capture_id"] == before["id"]}
    assert found(client, tag="site=moved") == found(client, q="50% OF") == of_capture
    again = client.patch(url, json={"tags": before["tags"]}).json()
    assert again["notes"] == "lossy uplink, 50% of it", "what is left out stays"
    assert client.patch(url, json={}).json() == again
    assert client.patch(url, json={"notes": ""}).json() == before
    for tags in ({"": "x"}, {"a=b": "x"}, {"a": "x\n"}, {"a": "x" * 200}, {f"k{n}": "" for n in range(65)}):
        assert_problem(client.patch(url, json={"tags": tags}), 422, "body.tags")
    assert_problem(client.patch(url, json={"note": ""}), 422, "body.note")


def test_what_was_stored_before_gets_the_same_facts(rows: All, services: object) -> None:
    """Migrations make the rows that the worker copies."""
    from store.database import engine

    backfills = [
        importlib.import_module(f"migrations.versions.{name}").BACKFILL
        for name in ("0017_connection_facts", "0034_all_ends", "0040_read_by_aggregates")
    ]
    every = text(
        "SELECT * FROM connection_facts WHERE attempt_id IN (SELECT attempt_id FROM captures WHERE id = ANY(:captures))"
        " ORDER BY attempt_id, number"
    ).bindparams(captures=[uuid.UUID(r["capture_id"]) for r in rows])
    names = ("attempt_id", "number")
    with engine().connect() as database:
        copied = [dict(r) for r in database.execute(every).mappings()]
        database.execute(text("DELETE FROM connection_facts"))
        for backfill in backfills:
            database.execute(text(backfill))
        made = [dict(r) for r in database.execute(every).mappings()]
        database.rollback()
    assert len(copied) == len(made) == len(rows)
    assert any(len(r["mean_windows"] or ()) == 5 for r in made)
    assert any(len(r["addresses"] or ()) == 4 for r in made)
    assert any(r["group_ids"] for r in made)
    for one, other_one in zip(copied, made, strict=True):
        assert [one[n] for n in names] == [other_one[n] for n in names]
        for name in one:
            expected = (
                pytest.approx(one[name], rel=1e-6, nan_ok=True) if name == "mean_windows" and one[name] else one[name]
            )
            assert other_one[name] == expected, name
