"""Views of the dashboard's pages that a team saves under a name."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient
from sqlalchemy import insert

from api.views.service import VIEWS_MAX
from store.database import engine
from store.models import SavedView
from tests.service.test_api import assert_problem

URL = "/v1/views"
LOSSY = {"page": "team", "name": " Lossy in Berlin ", "query": "?tag=site%3Dberlin&retransmission_rate_min=0.01&q="}


def test_a_team_saves_views(client: TestClient, other: TestClient, client_for: Callable[[str], TestClient]) -> None:
    made = client.post(URL, json=LOSSY)
    assert made.status_code == 201, made.text
    view = made.json()
    assert view["query"] == "tag=site%3Dberlin&retransmission_rate_min=0.01&q="
    assert (view["name"], view["page"], view["changed_by"]) == ("Lossy in Berlin", "team", None)
    assert_problem(client.post(URL, json=LOSSY), 409, "has the name 'Lossy in Berlin'")
    second = client.post(URL, json={**LOSSY, "name": "all"}).json()
    elsewhere = client.post(URL, json={**LOSSY, "page": "captures"}).json()
    assert [v["id"] for v in client.get(URL).json()] == [elsewhere["id"], second["id"], view["id"]]
    assert client.get(URL, params={"page": "team"}).json() == [second, view], "by name"

    url = f"{URL}/{view['id']}"
    changed = client.patch(url, json={"query": "kind=mptcp"}).json()
    assert (changed["query"], changed["name"], changed["changed_by"]) == ("kind=mptcp", view["name"], view["author"])
    assert client.patch(url, json={"name": "Lossy in Berlin"}).status_code == 200, "its own name"
    assert_problem(client.patch(url, json={"name": "all"}), 409, "has the name 'all'")
    assert_problem(client.post(URL, json={**LOSSY, "page": "settings", "name": "x"}), 422, "page")
    misspelt = {**LOSSY, "name": "x", "query": "protcol=mptcp"}
    assert_problem(client.post(URL, json=misspelt), 422, "query: there is no filter 'protcol'")
    for page, query in (
        ("team", "span=4+weeks&compare=before&unreliable=counted&measure=window%3Atccc&rows=tag%3Aos&columns=day"),
        ("captures", "sort=-verdict&from=2026-11-01T00%3A00%3A00Z&state=failed"),
        ("connections", "sort=-tag%3Aos&dport=443&dport=80&columns=src%2Crtt_us"),
        ("comparison", "selection=tag%3Dsite%253Dberlin&baseline=kind%3Dtcp&measure=harm%3Atccc&unreliable=counted"),
    ):
        whole = client.post(URL, json={"page": page, "name": "whole", "query": query})
        assert whole.status_code == 201, whole.text
        assert whole.json()["query"] == query
        assert client.delete(f"{URL}/{whole.json()['id']}").status_code == 204
    for query, said in (
        ("kind=tcp", "the page has no kind; each of its selections has filters of its own"),
        ("selection=protcol%3Dmptcp", "the page has no selection 'protcol=mptcp'"),
        ("baseline=tag%3Dsite", "the page has no baseline 'tag=site'"),
        ("span=week", "the page has no span"),  # of other pages
        ("measure=window", "the page has no measure 'window'"),
    ):
        asked = {"page": "comparison", "name": "x", "query": query}
        assert_problem(client.post(URL, json=asked), 422, f"query: {said}")
    for wrong in (
        {"query": "a=%00"},
        {"query": "&".join("ab" * 60)},
        {"query": "a=%ff"},
        {"query": "protcol=mptcp"},
        {"query": "bytes_min=many"},
        {"query": "sort=-bytes"},  # of other pages
        {"query": "rows=weather"},
        {"query": "state=failed"},  # of other pages
        {"query": "columns=src%2Cdst"},  # of other pages
        {"query": "span=week&span=4+weeks"},
        {"query": "tag=site"},
        {"name": " "},
        {"name": "a\x00b"},
    ):
        assert client.patch(url, json=wrong).status_code == 422, wrong

    team = client.get("/v1/teams/me").json()["id"]
    token = client.post(f"/v1/teams/{team}/tokens", json={"name": "reads", "scopes": ["read"]}).json()["token"]
    viewer = client_for(token)
    assert [v["name"] for v in viewer.get(URL).json()] == ["Lossy in Berlin", "all", "Lossy in Berlin"]
    for refused in (viewer.post(URL, json=LOSSY), viewer.patch(url, json={"name": "x"}), viewer.delete(url)):
        assert_problem(refused, 403, "lacks the scope 'write'")
    assert other.get(URL).json() == []
    for foreign in (other.patch(url, json={"name": "x"}), other.delete(url)):
        assert_problem(foreign, 404, "no such view")
    assert client.delete(url).status_code == 204
    assert_problem(client.delete(url), 404, "no such view")
    log = client.get(f"/v1/teams/{team}/audit").json()["items"]
    assert [e["detail"]["what"] for e in log if e["object_id"] == view["id"]] == [
        "view", "view changed", "view changed", "view saved",
    ]  # fmt: skip


def test_a_team_has_so_many_views(client: TestClient) -> None:
    mine = {"team_id": client.get("/v1/teams/me").json()["id"], "page": "connections", "query": "", "author": "y"}
    held = len(client.get(URL).json())
    with engine().begin() as database:
        database.execute(insert(SavedView), [{**mine, "name": str(n)} for n in range(VIEWS_MAX - 1 - held)])
    assert client.post(URL, json={**LOSSY, "name": "the last"}).status_code == 201
    assert_problem(client.post(URL, json={**LOSSY, "name": "one more"}), 422, "at most 200 views")
