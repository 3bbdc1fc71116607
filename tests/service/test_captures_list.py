"""The list of captures: its orders, its pages and its total."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, null, update

from api.captures import service
from api.pages import encode
from store.database import engine
from store.models import Capture
from tests.service.test_api import assert_problem

NAMES = ["b.pcap", "a.pcap", "\N{TEST TUBE}" * 255, "a.pcap", "\N{PETRI DISH}.pcap"]
"""One is as long as a name may be, and the last one of a page in both directions."""


@pytest.fixture
def captures(client: TestClient) -> list[dict[str, Any]]:
    """Five captures of the client's team that nobody analyses."""
    team_id = uuid.UUID(client.get("/v1/teams/me").json()["id"])
    with engine().begin() as database:
        for number, name in enumerate(NAMES):
            key = uuid.uuid4()
            values = {
                "received": key.bytes * 2,
                "sha256": key.bytes * 2,
                "bytes": 1000 + number % 3,
                "object_key": str(key),
            }
            database.execute(insert(Capture).values(id=key, team_id=team_id, filename=name, state="failed", **values))
    return list(client.get("/v1/captures").json()["items"])


CAPTURED = (3_000, None, -5, 3_000, None)
"""When the first packet of each was captured; None: that is not known."""
SUMMARY = {
    "packets": 1, "tcp_packets": 1, "bytes": 1, "duration_s": 0, "last_ns": 9, "link_types": [], "interfaces": 1,
    "oddities": {}, "vantage": "unknown", "rows": 0,
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3])
def test_pages_by_capture_time(captures: list[dict[str, Any]], client: TestClient, size: int) -> None:
    times = {c["id"]: time for c, time in zip(captures, CAPTURED, strict=True)}
    with engine().begin() as database:
        for key, first_ns in times.items():
            summary: Any = {**SUMMARY, "first_ns": first_ns}
            if first_ns is None:  # not analysed yet, or without packets
                summary = {**SUMMARY, "first_ns": 0, "packets": 0} if key == captures[1]["id"] else null()
            database.execute(update(Capture).where(Capture.id == uuid.UUID(key)).values(summary=summary))
    for sort in ("first_ns", "-first_ns"):
        seen: list[str] = []
        query = f"/v1/captures?sort={sort}&limit={size}"
        page = client.get(query).json()
        while True:
            seen += [c["id"] for c in page["items"]]
            if page["next_cursor"] is None:
                break
            page = client.get(f"{query}&cursor={page['next_cursor']}").json()
        assert sorted(seen) == sorted(times), "each once"
        known = sorted((t for t in CAPTURED if t is not None), reverse=sort[0] == "-")
        assert [times[c] for c in seen] == [*known, None, None]
    assert_problem(client.get(f"/v1/captures?sort=bytes&cursor={encode(['bytes', None, seen[0]])}"), 400, "this cursor")
    for key in (["first_ns", None], ["first_ns", None, None], ["first_ns", "x", seen[0]]):
        assert_problem(client.get(f"/v1/captures?sort=first_ns&cursor={encode(key)}"), 400, "this cursor")


STATES = ("done", "failed", "queued", "running", "done")
VERDICTS = ("poor", None, "good", "limited", "good")
COUNTS = (7, None, 0, 7, 12)


@pytest.mark.parametrize(
    ("name", "values", "order"),
    [
        ("state", STATES, ["queued", "running", "done", "failed"]),
        ("verdict", VERDICTS, ["good", "limited", "poor"]),
        ("packets", COUNTS, [0, 7, 12]),
        ("connections", COUNTS, [0, 7, 12]),
    ],
)
def test_pages_by_what_the_analysis_found(
    captures: list[dict[str, Any]], client: TestClient, name: str, values: tuple[Any, ...], order: list[Any]
) -> None:
    of = {c["id"]: value for c, value in zip(captures, values, strict=True)}
    with engine().begin() as database:
        for key, value in of.items():
            summary = {**SUMMARY, "first_ns": 1, "quality": {"verdict": value, "findings": []}}
            written = {
                "state": {"state": value},
                "connections": {"connection_count": value},
                "verdict": {"summary": null() if value is None else summary},
                "packets": {"summary": null() if value is None else {**SUMMARY, "first_ns": 1, "packets": value}},
            }[name]
            database.execute(update(Capture).where(Capture.id == uuid.UUID(key)).values(**written))
    for sort in (name, f"-{name}"):
        page = client.get(f"/v1/captures?sort={sort}&limit=2").json()
        seen = [of[c["id"]] for c in page["items"]]
        while page["next_cursor"]:
            page = client.get(f"/v1/captures?sort={sort}&limit=2&cursor={page['next_cursor']}").json()
            seen += [of[c["id"]] for c in page["items"]]
        known = sorted((v for v in values if v is not None), key=order.index, reverse=sort[0] == "-")
        assert seen == [*known, *[None] * values.count(None)]


@pytest.mark.parametrize("name", ["created_at", "filename", "bytes"])
def test_pages_of_any_order_have_each_capture_once(
    captures: list[dict[str, Any]], client: TestClient, name: str
) -> None:
    for sort in (name, f"-{name}"):
        seen, cursor = [], ""
        while cursor is not None:
            page = client.get(
                "/v1/captures", params={"sort": sort, "limit": 2} | ({"cursor": cursor} if cursor else {})
            )
            assert page.status_code == 200, page.text
            assert (page.json()["total"], page.json()["total_is_exact"]) == (len(NAMES), True)
            seen += page.json()["items"]
            cursor = page.json()["next_cursor"]
        assert sorted(c["id"] for c in seen) == sorted(c["id"] for c in captures)
        assert [c[name] for c in seen] == sorted((c[name] for c in captures), reverse=sort[0] == "-")


def test_a_cursor_of_another_order_is_refused(captures: list[dict[str, Any]], client: TestClient) -> None:
    cursor = client.get("/v1/captures?sort=filename&limit=2").json()["next_cursor"]
    for other in ("-filename", "bytes", "-created_at"):
        assert_problem(client.get(f"/v1/captures?sort={other}&cursor={cursor}"), 400, "this cursor was not made")
    newest = client.get("/v1/captures?limit=2").json()["next_cursor"]
    assert_problem(client.get(f"/v1/captures?sort=filename&cursor={newest}"), 400, "this cursor was not made")
    assert_problem(client.get("/v1/captures?sort=notes"), 422, "sort")


def test_two_who_tag_at_the_same_time(captures: list[dict[str, Any]], client: TestClient) -> None:
    """Each adds and removes what it knows of; what the other did stays."""
    url = f"/v1/captures/{captures[0]['id']}"
    assert client.patch(url, json={"tags": {"site": "a", "rack": "1"}}).is_success
    assert client.patch(url, json={"add_tags": {"x": "1", "site": "b"}}).json()["tags"] == {
        "site": "b", "rack": "1", "x": "1",
    }  # fmt: skip
    now = client.patch(url, json={"add_tags": {"y": "2"}, "remove_tags": ["rack", "nothing"], "notes": "n"}).json()
    assert (now["tags"], now["notes"]) == ({"site": "b", "x": "1", "y": "2"}, "n")
    team = client.get("/v1/teams/me").json()["id"]
    noted = client.get(f"/v1/teams/{team}/audit?action=change").json()["items"][0]
    assert noted["detail"] == {
        "fields": ["add_tags", "notes", "remove_tags"], "add_tags": {"y": "2"}, "remove_tags": ["rack", "nothing"],
    }  # fmt: skip
    lost = client.patch(url, json={"notes": "mine", "notes_before": "", "add_tags": {"lost": "1"}})
    assert_problem(lost, 409, "somebody has changed the notes meanwhile")
    assert {k: client.get(url).json()[k] for k in ("tags", "notes")} == {"tags": now["tags"], "notes": "n"}
    assert client.patch(url, json={"notes": "", "notes_before": "n"}).json()["notes"] == ""
    many = {f"k{n}": "v" for n in range(62)}
    assert_problem(client.patch(url, json={"add_tags": many}), 422, "at most 64 tags, and this would make 65")
    assert client.get(url).json()["tags"] == now["tags"]
    for wrong, why in (
        ({"tags": {}, "add_tags": {"x": "1"}}, "either tags"),
        ({"tags": {}, "remove_tags": ["x"]}, "either tags"),
        ({"add_tags": {"x": "1"}, "remove_tags": ["x"]}, "both added and removed"),
        ({"add_tags": {"a=b": "1"}}, "has '='"),
    ):
        assert_problem(client.patch(url, json=wrong), 422, why)


def chosen_of(client: TestClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of all parts."""
    parts: list[dict[str, Any]] = []
    while not parts or parts[-1]["next_cursor"]:
        cursor = {"cursor": parts[-1]["next_cursor"]} if parts else {}
        response = client.post(path, json={**body, **cursor})
        assert response.is_success, response.text
        parts.append(response.json())
    return parts


def test_tags_of_many(
    captures: list[dict[str, Any]], client: TestClient, other: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts; by filters, ids, or all. Of another team nothing is changed, and too many tags are refused."""
    monkeypatch.setattr(service, "CHANGED_AT_ONCE", 2)
    many, chosen = "/v1/captures/changes", [c["id"] for c in captures]
    parts = chosen_of(client, many, {"selection": {"everything": True}, "add_tags": {"a": "1", "b": "2"}})
    assert [p["done"] for p in parts] == [2, 2, 1]
    found = {"q": "a.pcap", "capture_ids": chosen}
    parts = chosen_of(client, many, {"selection": found, "add_tags": {"a": "3"}, "remove_tags": ["b"]})
    assert sum(p["done"] for p in parts) == 2
    tags = {c["filename"]: c["tags"] for c in client.get("/v1/captures").json()["items"]}
    assert tags == {n: {"a": "3"} if n == "a.pcap" else {"a": "1", "b": "2"} for n in NAMES}
    assert client.patch(f"/v1/captures/{chosen[0]}", json={"tags": {f"k{n}": "" for n in range(64)}}).is_success
    parts = chosen_of(client, many, {"selection": {"capture_ids": chosen}, "add_tags": {"c": "1"}})
    assert sum(p["done"] for p in parts) == 4
    (refused,) = [r for p in parts for r in p["refused"]]
    assert refused == {"reason": "a capture has at most 64 tags", "captures": 1}
    assert chosen_of(other, many, {"selection": {"capture_ids": chosen}, "add_tags": {"d": "1"}})[0]["done"] == 0
    team = client.get("/v1/teams/me").json()["id"]
    noted = client.get(f"/v1/teams/{team}/audit?action=change").json()["items"]
    assert (len(noted), noted[0]["detail"]) == (5 + 2 + 1 + 4, {"fields": ["add_tags"], "add_tags": {"c": "1"}})
    for wrong, why in (
        ({"selection": {}, "add_tags": {"x": "1"}}, "the selection is empty"),
        ({"selection": {"everything": True}}, "give add_tags or remove_tags"),
        ({"selection": {"everything": True}, "add_tags": {"x": ""}, "remove_tags": ["x"]}, "both added and removed"),
    ):
        assert_problem(client.post(many, json=wrong), 422, why)
    foreign = {"selection": {"everything": True}, "remove_tags": ["a"], "cursor": "bm90aGluZw"}
    assert_problem(client.post(many, json=foreign), 400, "this cursor was not made")


def test_many_are_deleted(
    captures: list[dict[str, Any]], client: TestClient, other: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts; what is uploaded meanwhile stays."""
    monkeypatch.setattr(service, "DELETED_AT_ONCE", 3)
    wanted = {"selection": {"state": "failed"}}
    assert other.post("/v1/captures/deletions", json=wanted).json()["done"] == 0
    first = client.post("/v1/captures/deletions", json=wanted).json()
    later = client.post("/v1/captures", content=b"later").json()["id"]
    with engine().begin() as database:
        database.execute(update(Capture).where(Capture.id == uuid.UUID(later)).values(state="failed"))
    rest = client.post("/v1/captures/deletions", json={**wanted, "cursor": first["next_cursor"]}).json()
    assert (first["done"], rest["done"], rest["next_cursor"]) == (3, 2, None)
    assert [c["id"] for c in client.get("/v1/captures").json()["items"]] == [later]
    team = client.get("/v1/teams/me").json()["id"]
    noted = client.get(f"/v1/teams/{team}/audit?action=delete").json()["items"]
    assert {e["object_id"] for e in noted} == {c["id"] for c in captures}
