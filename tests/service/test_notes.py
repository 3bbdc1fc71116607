"""Notes that are pinned to a time of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

from tests.service.test_api import analysed, assert_problem, mptcp  # noqa: F401


def test_a_team_pins_notes(
    analysed: dict[str, Any],  # noqa: F811
    client: TestClient,
    other: TestClient,
    client_for: Callable[[str], TestClient],
) -> None:
    connection = mptcp(client, analysed)
    url = f"/v1/connections/{connection['id']}/notes"
    assert client.get(url).json() == []
    late, early = str(connection["first_ns"] + 2 * 10**9 + 1), str(connection["first_ns"] + 10**9)
    made = client.post(url, json={"at_ns": late, "text": " the queue is full "})
    assert made.status_code == 201, made.text
    note = made.json()
    assert (note["at_ns"], note["text"], note["changed_by"]) == (late, "the queue is full", None)
    first = client.post(url, json={"at_ns": early, "text": "joins"}).json()
    assert [n["id"] for n in client.get(url).json()] == [first["id"], note["id"]], "in the order of their times"

    for path in ("captures", "connections"):
        for part, is_found in (("QUEUE is", True), ("joins", True), ("q%f", False)):
            assert bool(client.get(f"/v1/{path}", params={"q": part}).json()["items"]) == is_found
        assert other.get(f"/v1/{path}", params={"q": "queue is"}).json()["items"] == []

    changed = client.patch(f"{url}/{note['id']}", json={"text": "the queue overflows"}).json()
    assert (changed["text"], changed["at_ns"], changed["created_at"]) == (
        "the queue overflows",
        late,
        note["created_at"],
    )
    assert changed["changed_by"] == note["author"]
    lost = client.patch(f"{url}/{note['id']}", json={"text": "mine", "text_before": "the queue is full"})
    assert_problem(lost, 409, "somebody has changed this note meanwhile")
    assert client.get(url).json()[1] == changed
    kept = client.patch(f"{url}/{note['id']}", json={"text": "it", "text_before": "the queue overflows"})
    assert kept.json()["text"] == "it"
    changed = client.patch(f"{url}/{note['id']}", json={"text": "the queue overflows"}).json()
    team = client.get("/v1/teams/me").json()["id"]
    token = client.post(f"/v1/teams/{team}/tokens", json={"name": "reads", "scopes": ["read"]}).json()["token"]
    viewer = client_for(token)
    assert viewer.get(url).json() == [first, changed]
    for refused in (
        viewer.post(url, json={"at_ns": early, "text": "x"}),
        viewer.patch(f"{url}/{note['id']}", json={"text": "x"}),
        viewer.delete(f"{url}/{note['id']}"),
    ):
        assert_problem(refused, 403, "lacks the scope 'write'")
    for foreign in (
        other.get(url),
        other.post(url, json={"at_ns": early, "text": "x"}),
        other.patch(f"{url}/{note['id']}", json={"text": "x"}),
        other.delete(f"{url}/{note['id']}"),
    ):
        assert_problem(foreign, 404, "no such connection")
    for wrong in ({"at_ns": late, "text": "  "}, {"at_ns": "soon", "text": "x"}, {"at_ns": "9" * 19, "text": "x"}):
        assert client.post(url, json=wrong).status_code == 422

    assert client.delete(f"{url}/{first['id']}").status_code == 204
    assert_problem(client.delete(f"{url}/{first['id']}"), 404, "no such note")
    assert_problem(client.patch(f"{url}/{first['id']}", json={"text": "x"}), 404, "no such note")
    log = client.get(f"/v1/teams/{team}/audit").json()["items"]
    assert [e["detail"]["what"] for e in log if e["object_id"] == connection["id"] and e["action"] != "see"] == [
        "note", "note changed", "note changed", "note changed", "note added", "note added",
    ]  # fmt: skip
    assert client.delete(f"/v1/captures/{analysed['id']}").status_code == 204


def test_a_connection_has_so_many_notes(analysed: dict[str, Any], client: TestClient) -> None:  # noqa: F811
    from sqlalchemy import insert

    from api.connections.notes import NOTES_MAX
    from store.database import engine
    from store.models import PinnedNote

    connection = mptcp(client, analysed)
    values = {"capture_id": analysed["id"], "connection_id": connection["id"], "at_ns": 1, "text": "x", "author": "y"}
    with engine().begin() as database:
        database.execute(insert(PinnedNote), [values] * (NOTES_MAX - 1))
    url = f"/v1/connections/{connection['id']}/notes"
    assert client.post(url, json={"at_ns": "2", "text": "the last"}).status_code == 201
    assert_problem(client.post(url, json={"at_ns": "2", "text": "one more"}), 422, "at most 200 notes")
