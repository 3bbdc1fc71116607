"""What somebody meets who uses the API for the first time: mistakes are answered at once, and say what there is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from tests.service.test_api import Run, analysed, assert_problem, mptcp  # noqa: F401  # analysed is a fixture
from tests.service.test_openapi import document


@pytest.fixture
def replays(analysed: dict[str, Any], client: TestClient) -> str:  # noqa: F811
    return f"/v1/connections/{mptcp(client, analysed)['id']}/replays"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"algorithm": "nope"}, "unknown algorithm 'nope'; there are: newreno, cubic, "),
        ({"algorithm": "tccc", "options": {"aca": "half"}}, "tccc has no option 'aca'; there are: mode, "),
        ({"algorithm": "tccc", "options": {"aca_md": "foo"}}, "option aca_md takes auto|eq8|half, not 'foo'"),
        ({"algorithm": "tccc", "options": {"aca_md": ""}}, "option aca_md takes auto|eq8|half, not ''"),
        ({"algorithm": "tccc", "options": {"L": "wide"}}, "option L takes 0.125 to 1024 segments, not 'wide'"),
        ({"algorithm": "tccc", "options": {"L": 0.1249}}, "option L takes"),
        ({"algorithm": "tccc", "options": {"L": 1024.1}}, "option L takes"),
        ({"algorithm": "tccc", "options": {"L": "1e2"}}, "option L takes"),
        ({"algorithm": "tccc", "options": {"L": "."}}, "option L takes"),
        ({"algorithm": "tccc", "options": {"L": "²"}}, "option L takes"),
        ({"algorithm": "tccc", "options": {"alpha0": 1}}, "option alpha0 takes above 1 to 4, not '1'"),
        ({"algorithm": "tccc", "options": {"aca_safe": 1}}, "option aca_safe takes off|on, not '1'"),
    ],
)
def test_options_are_checked_at_once(client: TestClient, replays: str, wanted: dict[str, Any], said: str) -> None:
    before = len(client.get(replays.removesuffix("/replays")).json()["replays"])
    assert_problem(client.post(replays, json=wanted), 422, said)
    assert len(client.get(replays.removesuffix("/replays")).json()["replays"]) == before


def test_what_the_api_takes_the_worker_runs(client: TestClient, replays: str, run_jobs: Run) -> None:
    """Every choice of every option, the bounds of every number, and half a step of 1/65536 beyond a bound."""
    (tccc,) = (a for a in client.get("/v1/algorithms").json()["algorithms"] if a["name"] == "tccc")
    tried = {}
    for option in tccc["options"]:
        for value in option["choices"] or [option["least"], option["most"] + 2**-18]:
            answer = client.post(replays, json={"algorithm": " TCCC ", "options": {option["name"]: value}})
            assert answer.status_code == 202, answer.text
            tried[answer.json()["label"]] = answer.json()["id"]
    assert len(tried) > 20
    run_jobs()
    found = {r["id"]: r for r in client.get(replays.removesuffix("/replays")).json()["replays"]}
    assert {label: found[i]["error"] for label, i in tried.items() if found[i]["state"] != "done"} == {}


def test_a_replay_that_was_asked_for_can_be_deleted(
    client: TestClient, other: TestClient, replays: str, run_jobs: Run
) -> None:
    from store.database import engine
    from store.models import Job, Replay

    made = client.post(replays, json={"algorithm": "lia", "options": {"min_ssthresh": 3}}).json()
    url = f"{replays}/{made['id']}"
    assert_problem(client.delete(url), 409, "only a replay that has ended can be deleted; this one is queued")
    with engine().begin() as connection:
        for table, column in ((Job, Job.replay_id), (Replay, Replay.id)):
            connection.execute(update(table).where(column == uuid.UUID(made["id"])).values(state="failed"))
    assert_problem(other.delete(url), 404, "no such connection")
    assert_problem(client.delete(f"{replays}/{uuid.uuid4()}"), 404, "no such replay")
    assert client.delete(url).status_code == 204
    assert_problem(client.delete(url), 404, "no such replay")
    assert made["id"] not in {r["id"] for r in client.get(replays.removesuffix("/replays")).json()["replays"]}
    with engine().connect() as connection:
        left = select(func.count()).select_from(Job).where(Job.replay_id == uuid.UUID(made["id"]))
        assert connection.scalar(left) == 0
    again = client.post(replays, json={"algorithm": "lia", "options": {"min_ssthresh": 3}}).json()
    assert (again["state"], again["label"]) == ("queued", made["label"])
    run_jobs()
    connection = replays.removesuffix("/replays")
    (done,) = (r for r in client.get(connection).json()["replays"] if r["id"] == again["id"])
    assert (done["state"], done["has_series"]) == ("done", True)
    assert client.delete(f"{replays}/{done['id']}").status_code == 204
    labels = {r["label"]: r["id"] for r in client.get(connection).json()["replays"]}
    assert made["label"] not in labels
    assert_problem(client.delete(f"{replays}/{labels['tccc']}"), 409, "part of the capture's analysis")


def test_unknown_fields_of_a_body_are_refused(client: TestClient, replays: str) -> None:
    """Most are typing errors: a token without its end would never expire."""
    team = client.get("/v1/teams/me").json()["id"]
    for url, body in (
        (replays, {"algorithm": "tccc", "option": {"aca_md": "half"}}),
        (f"/v1/teams/{team}/tokens", {"name": "x", "expires": "2030-01-01T00:00:00Z"}),
        ("/v1/model-checks", {"spec": "Windows", "constant": {"Limit": 1}}),
    ):
        assert_problem(client.post(url, json=body), 422, f"body.{list(body)[1]}: Extra inputs are not permitted")


def test_unknown_query_parameters_are_refused(client: TestClient, replays: str) -> None:
    assert_problem(client.get("/v1/captures?lmit=2"), 422, "unknown query parameter 'lmit'; there are: address, ")
    assert_problem(client.get("/v1/algorithms?x"), 422, "unknown query parameter 'x'; this address takes none")
    series = replays.removesuffix("/replays") + "/series"
    assert_problem(client.get(series, params={"form": "1"}), 422, "there are: algorithms, from, recorded, to, width")
    assert client.get(series, params={"width": 16}).status_code == 200
    assert_problem(client.post("/v1/captures?name=x", content=b"x"), 422, "unknown query parameter 'name'")
    assert client.get("/v1/captures").json()["items"][0]["filename"] != "x"


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/captures/"])
def test_unknown_addresses_of_the_api_are_no_pages(application: TestClient, path: str) -> None:
    assert_problem(application.get(path, headers={"Accept": "text/html,*/*"}), 404, "/docs")


@pytest.mark.parametrize("path", ["/v2/captures", "/api", "/openapi.json", "/metrics/x", "/x.php", "/Team"])
def test_other_unknown_addresses_are_a_page_for_browsers_alone(application: TestClient, path: str) -> None:
    assert_problem(application.get(path), 404, "/docs")
    page = application.get(path, headers={"Accept": "text/html,*/*"})
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (404, "text/html")
    assert 'id="app"' in page.text


@pytest.mark.parametrize(
    "path", ["/", "/captures/1", "/connections/1?algorithms=x", "/specifications", "/model-checks/1"]
)
def test_the_pages_are_pages(application: TestClient, path: str) -> None:
    answer = application.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert 'id="app"' in answer.text


def test_the_documentation_is_a_page_of_our_own(application: TestClient) -> None:
    answer = application.get("/docs")
    assert answer.status_code == 200
    assert 'id="docs"' in answer.text
    assert "//" not in answer.text.replace("<!doctype html>", ""), "nothing is loaded from elsewhere"


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_every_field_and_parameter_is_described() -> None:
    found = document()
    silent = {
        f"{name}.{field}"
        for name, schema in found["components"]["schemas"].items()
        for field, its in schema.get("properties", {}).items()
        if not its.get("description")
    }
    silent |= {
        f"{method} {path} {p['name']}"
        for method, path, operation in operations()
        for p in operation.get("parameters", [])
        if not p.get("description")
    }
    silent |= {f"{method} {path}" for method, path, operation in operations() if not operation.get("description")}
    assert silent == set()


def test_every_meaning_is_used() -> None:
    """A field that is gone leaves nothing behind in the glossary."""
    from api import glossary

    used = set()
    found = document()
    for name, schema in found["components"]["schemas"].items():
        for field, its in schema.get("properties", {}).items():
            used |= {key for key in (f"{name}.{field}", field) if glossary.MEANINGS.get(key) == its["description"]}
    for _, _, operation in operations():
        for p in operation.get("parameters", []):
            used |= {p["name"]} if glossary.MEANINGS.get(p["name"]) == p["description"] else set()
    assert glossary.MEANINGS.keys() - used == set()


def test_problems_are_documented_as_they_are_sent() -> None:
    schemas = document()["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    for method, path, operation in operations():
        expected = {"422"} if path.startswith("/v1") else set()
        if "security" in operation:
            expected |= {"401", "403"}
        if "{" in path:
            expected |= {"404"}
        if path == "/v1/model-checks" and method == "post":
            expected |= {"429"}
        assert expected <= operation["responses"].keys(), (method, path)
        for status, answer in operation["responses"].items():
            if status.startswith(("4", "5")):
                content = answer["content"]
                assert content.keys() == {"application/problem+json"}, (method, path, status)
                schema = content["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ProblemOut"}, (method, path, status)


def test_a_validation_error_is_as_documented(client: TestClient) -> None:
    from api.errors import ProblemOut

    answer = client.get("/v1/captures?limit=0&state=x")
    assert_problem(answer, 422, "query.limit")
    found = ProblemOut.model_validate(answer.json(), strict=True, extra="forbid")
    assert [e.where for e in found.errors] == [["query", "limit"], ["query", "state"]]


def signed_in(application: TestClient, token: str) -> str:
    answer = application.post("/v1/session", json={"token": f" {token}\n"}, headers={"Origin": "http://testserver"})
    assert answer.status_code == 201, answer.text
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert token not in cookie
    assert "Secure" not in cookie, "the request came by http"
    application.cookies.clear()
    return cookie.split(";")[0]


def test_sessions(application: TestClient, token: str, client: TestClient) -> None:
    cookie = {"Cookie": signed_in(application, token)}
    own = {**cookie, "Origin": "http://testserver"}
    by_cookie, by_token = application.get("/v1/teams/me", headers=cookie).json(), client.get("/v1/teams/me").json()
    now = {"events_since": by_token["events_since"]}
    assert by_cookie | now == by_token
    assert_problem(application.post("/v1/captures", content=b"x", headers=cookie), 403, "own pages")
    for origin in ("http://elsewhere", "null", "http://testserver:81", "http://testserver.elsewhere"):
        other = {**cookie, "Origin": origin}
        assert_problem(application.post("/v1/captures", content=b"x", headers=other), 403, "own pages")
        assert_problem(application.delete("/v1/session", headers=other), 403, "own pages")
    assert application.post("/v1/captures", content=b"x", headers=own).status_code == 202
    # A token that is sent counts, and needs no origin.
    both = {**cookie, "Authorization": "Bearer rw_wrong"}
    assert_problem(application.get("/v1/teams/me", headers=both), 401, "unknown, expired or revoked")
    assert application.delete("/v1/session", headers=own).status_code == 204
    assert_problem(application.get("/v1/teams/me", headers=cookie), 401, "the session has ended")
    assert client.get("/v1/teams/me").status_code == 200


def test_a_session_ends_with_its_token_and_its_time(
    application: TestClient, token: str, client: TestClient, client_for: Callable[[str], TestClient]
) -> None:
    from store.database import engine
    from store.models import BrowserSession

    team = client.get("/v1/teams/me").json()["id"]
    made = client.post(f"/v1/teams/{team}/tokens", json={"name": "page", "scopes": ["read"]}).json()
    cookie = {"Cookie": signed_in(application, made["token"]), "Origin": "http://testserver"}
    assert application.get("/v1/captures", headers=cookie).status_code == 200
    assert_problem(application.post("/v1/captures", content=b"x", headers=cookie), 403, "lacks the scope 'write'")
    assert client.delete(f"/v1/teams/{team}/tokens/{made['id']}").status_code == 204
    assert_problem(application.get("/v1/captures", headers=cookie), 401, "the session has ended")
    cookie = {"Cookie": signed_in(application, token)}
    with engine().begin() as connection:
        connection.execute(update(BrowserSession).values(expires_at=func.now()))
    assert_problem(application.get("/v1/captures", headers=cookie), 401, "the session has ended")
    signed_in(application, token)
    with engine().connect() as connection:
        left = select(func.count()).select_from(BrowserSession).where(BrowserSession.expires_at <= func.now())
        assert connection.scalar(left) == 0, "those that have ended are removed"


def test_signing_in_with_a_wrong_token(application: TestClient) -> None:
    own = {"Origin": "http://testserver"}
    answer = application.post("/v1/session", json={"token": "rw_wrong"}, headers=own)
    assert_problem(answer, 401, "unknown, expired or revoked")
    assert "set-cookie" not in answer.headers
    assert_problem(application.post("/v1/session", json={"token": "rw_wrong"}), 403, "own pages")


def test_a_text_that_postgresql_cannot_hold(client: TestClient) -> None:
    """The character NUL is refused; it is no fault of the server's."""
    team = client.get("/v1/teams/me").json()["id"]
    assert_problem(client.post(f"/v1/teams/{team}/tokens", json={"name": "a\0b"}), 422, "NUL")
