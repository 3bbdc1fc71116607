"""The list of captures: its orders, its pages and its total."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert

from tests.service.test_api import assert_problem

NAMES = ["b.pcap", "a.pcap", "c.pcap", "a.pcap", "é.pcap"]


@pytest.fixture
def captures(client: TestClient) -> list[dict[str, Any]]:
    """Five captures of the client's team that nobody analyses."""
    from store.database import engine
    from store.models import Capture

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
