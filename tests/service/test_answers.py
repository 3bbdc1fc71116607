"""Validators and compression of answers."""

from __future__ import annotations

import gzip
import uuid

import httpx2
import pytest
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.testclient import TestClient
from sqlalchemy import insert

from api.answers import Validated
from store.database import engine
from store.models import Capture
from tests.service.test_members import team_url
from tests.service.test_openapi import document

GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture
def long(client: TestClient) -> str:
    """The address of an answer that is long enough to be compressed."""
    team_id = uuid.UUID(client.get("/v1/teams/me").json()["id"])
    with engine().begin() as database:
        for _ in range(5):
            key = uuid.uuid4()
            values = {"received": key.bytes * 2, "sha256": key.bytes * 2, "bytes": 1, "object_key": str(key)}
            database.execute(insert(Capture).values(id=key, team_id=team_id, filename="x", state="failed", **values))
    return "/v1/captures"


@pytest.fixture
def script(token: str) -> dict[str, str]:
    """What a script sends."""
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def browser(application: TestClient, token: str) -> dict[str, str]:
    """What a browser that has signed in sends."""
    origin = {"Origin": "http://testserver"}
    begun = application.post("/v1/session", json={"token": token}, headers=origin)
    assert begun.status_code == 201
    cookie = begun.headers["set-cookie"].partition(";")[0]
    application.cookies.clear()
    return {"Cookie": cookie}


def raw(application: TestClient, url: str, headers: dict[str, str]) -> tuple[httpx2.Response, bytes]:
    """The answer, and its body as it is sent."""
    with application.stream("GET", url, headers=headers) as response:
        return response, b"".join(response.iter_raw())


def encoding(application: TestClient, url: str, headers: dict[str, str]) -> str | None:
    response, body = raw(application, url, {**GZIP, **headers})
    assert response.status_code == 200
    assert (response.headers.get("content-encoding") == "gzip") is body.startswith(b"\x1f\x8b")
    return response.headers.get("content-encoding")


def test_an_answer_that_is_known_is_not_sent_again(client: TestClient, long: str) -> None:
    first = client.get(long)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = client.get(long, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in again.headers
    for known in ('"other"', f"x{tag}", ""):
        assert client.get(long, headers={"If-None-Match": known}).json() == first.json()
    capture = first.json()["items"][0]["id"]
    assert (
        client.patch(f"{long}/{capture}", json={"notes": "changed"}, headers={"If-None-Match": "*"}).status_code == 200
    )
    changed = client.get(long, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["items"][0]["notes"]) == (200, "changed")
    assert changed.headers["etag"] != tag


def test_the_tag_is_that_of_the_answer_in_any_encoding(
    application: TestClient, client: TestClient, long: str, script: dict[str, str]
) -> None:
    plain, _ = raw(application, long, {**script, "Accept-Encoding": "identity"})
    packed, body = raw(application, long, {**script, **GZIP})
    assert packed.headers["etag"] == plain.headers["etag"]
    assert gzip.decompress(body) == client.get(long).content
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) == len(body) < int(plain.headers["content-length"])
    known, body = raw(application, long, {**script, **GZIP, "If-None-Match": plain.headers["etag"]})
    assert (known.status_code, body) == (304, b"")


def test_a_known_answer_is_still_for_who_may_see_it(client: TestClient, other: TestClient, long: str) -> None:
    tag = {"If-None-Match": client.get(long).headers["etag"]}
    assert other.get(long, headers=tag).status_code == 200
    capture = client.get(long).json()["items"][0]["id"]
    seen = client.get(f"{long}/{capture}")
    known = {"If-None-Match": seen.headers["etag"]}
    assert client.get(f"{long}/{capture}", headers=known).status_code == 304
    assert other.get(f"{long}/{capture}", headers=known).status_code == 404
    assert other.get(f"{long}/{capture}", headers={"If-None-Match": "*"}).status_code == 404


def test_errors_streams_and_files_have_no_tag(client: TestClient, long: str) -> None:
    capture = client.get(long).json()["items"][0]["id"]
    for url in (f"{long}?nothing=1", f"{long}.csv", f"{long}.parquet", f"{long}/{capture}/events"):
        assert "etag" not in client.get(url, headers={"If-None-Match": "*"}).headers, url


def test_what_is_compressed(application: TestClient, client: TestClient, long: str, script: dict[str, str]) -> None:
    capture = client.get(long).json()["items"][0]["id"]
    for url in (long, f"{long}.csv", "/v1/openapi.json"):
        assert encoding(application, url, script) == "gzip"
    for url, why in (
        ("/v1/teams/me", "it is short"),
        (f"{long}.parquet", "it is compressed already"),
        (f"{long}/{capture}/events", "each event is sent when it happens"),
    ):
        assert encoding(application, url, script) is None, why
    response, _ = raw(application, long, {**script, "Accept-Encoding": "br"})
    assert "content-encoding" not in response.headers


def test_sizes_tell_another_site_nothing(application: TestClient, long: str, browser: dict[str, str]) -> None:
    """A page of another site can send the reader to an address with a guess in it, and the browser adds the cookie."""
    for site in ("cross-site", "same-site", "none"):
        assert encoding(application, long, {**browser, "Sec-Fetch-Site": site}) is None
    assert encoding(application, long, browser) is None, "the browser does not say who asks"
    assert encoding(application, long, {**browser, "Sec-Fetch-Site": "same-origin"}) == "gzip"


@pytest.mark.parametrize("answer", [JSONResponse({"state": "away"}, 503), PlainTextResponse("up 1")])
def test_only_json_that_succeeds_has_a_tag(answer: Response) -> None:
    found = TestClient(Validated(answer)).get("/", headers={"If-None-Match": "*"})
    assert (found.status_code, found.content, found.headers.get("etag")) == (answer.status_code, answer.body, None)


def test_what_changes_something_is_not_compressed(client: TestClient, long: str) -> None:
    capture = client.get(long).json()["items"][0]["id"]
    changed = client.patch(f"{long}/{capture}", json={"notes": "x" * 5000}, headers=GZIP)
    assert len(changed.json()["notes"]) == 5000
    assert "content-encoding" not in changed.headers


def test_a_new_token_is_not_compressed(client: TestClient) -> None:
    wanted = {"name": "x" * 100, "scopes": ["read"]}
    made = client.post(f"{team_url(client)}/tokens", json=wanted, headers=GZIP)
    assert made.status_code == 201
    assert "content-encoding" not in made.headers
    assert "etag" not in made.headers


def test_the_document_tells_of_it() -> None:
    described = document()["paths"]
    assert described["/v1/captures"]["get"]["responses"]["304"]["description"]
    assert "ETag" in described["/v1/captures"]["get"]["responses"]["200"]["headers"]
    assert "304" not in described["/v1/captures"]["post"]["responses"]
    assert "304" not in described["/v1/captures/{capture_id}/events"]["get"]["responses"]
    assert "304" not in described["/v1/captures.{suffix}"]["get"]["responses"]
