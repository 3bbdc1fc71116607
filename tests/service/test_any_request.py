"""Any request that the OpenAPI document allows: no answer is a fault of the server's, and the document has each answer.

Each operation is asked with places of the caller's own team, and with drawn ones, which are nobody's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from store.settings import settings as settings_of_services
from tests.conftest import CAPTURES, make_token
from tests.service.test_openapi import document

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = int(os.environ.get("EXAMPLES") or 0)
"""Of each operation, others each time: `make soak`. Without it they are few, and always the same ones."""
DRAWN = settings(
    max_examples=EXAMPLES or 10, derandomize=not EXAMPLES, deadline=None, database=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip
REQUEST = ("method", "url", "headers", "files", "data", "params", "cookies", "json")
SCOPES = ["read", "write", "admin"]


schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
SCHEMA: Any = schemathesis.openapi.from_dict(document())
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]


@pytest.fixture(scope="module")
def token(application: TestClient) -> Iterator[str]:
    """Of a team that has nothing. What the drawn requests begin is deleted in the end: nobody works on it later."""
    token = make_token(SCOPES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings_of_services(), "team_requests_per_s", 1e6)  # 429 would hide all other answers
        yield token
    for kind in ("captures", "model-checks", "alerts"):
        while items := application.get(f"/v1/{kind}", headers=bearer(token)).json()["items"]:
            for item in items:
                assert application.delete(f"/v1/{kind}/{item['id']}", headers=bearer(token)).status_code == 204
    for item in application.get("/v1/webhooks", headers=bearer(token)).json():
        assert application.delete(f"/v1/webhooks/{item['id']}", headers=bearer(token)).status_code == 204


@pytest.fixture(scope="module")
def places(application: TestClient, run_jobs: Callable[[], None], token: str) -> dict[str, str]:
    """A place of the token's team for each parameter of a path."""

    def asked(method: str, url: str, **what: Any) -> Any:
        response = application.request(method, url, headers=bearer(token), **what)
        assert response.is_success, response.text
        return response.json()

    with open(CAPTURES / "mptcp-ecn.pcap", "rb") as file:
        capture = asked("POST", "/v1/captures", files={"file": file})["id"]
    run_jobs()
    connection = asked("GET", f"/v1/captures/{capture}/connections")["items"][0]["id"]
    begun = application.post("/v1/uploads", headers={**bearer(token), "Tus-Resumable": "1.0.0", "Upload-Length": "9"})
    return {
        "upload_id": begun.headers["Location"].rsplit("/", 1)[1],
        "team_id": asked("GET", "/v1/teams/me")["id"],
        "capture_id": capture,
        "connection_id": connection,
        "whatif_id": asked("POST", f"/v1/connections/{connection}/whatifs", json={"algorithm": "tccc"})["id"],
        "sweep_id": asked("POST", "/v1/whatifs", json={"selection": {"kind": "tcp"}, "algorithms": ["cubic"]})["id"],
        "webhook_id": asked("POST", "/v1/webhooks", json={"name": "x", "url": "https://hooks.example/"})["id"],
        "alert_id": asked("POST", "/v1/alerts", json={"name": "x", "measure": "rtt_us", "threshold": 1})["id"],
        "check_id": asked("POST", "/v1/model-checks", json={"spec": "Windows"})["id"],
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def answered(case: schemathesis.Case[Any], application: TestClient, token: str) -> None:
    """Asks, and checks the answer."""
    wanted = case.as_transport_kwargs(base_url="http://testserver", headers=bearer(token))
    sent: Any = requests.Request(**{name: wanted[name] for name in REQUEST if name in wanted}).prepare()
    response = application.request(sent.method, sent.url, headers=dict(sent.headers), content=sent.body)
    case.validate_response(response, checks=CHECKS)


def name_of(operation: Any) -> str:
    return str(operation.label)


def follows(operation: Any) -> bool:
    """A stream would not end."""
    return str(operation.path).endswith("/events")


def follows_or_deletes(operation: Any) -> bool:
    """What is deleted, or revoked, is not there for the next operation."""
    deletes = operation.method.upper() == "DELETE" or str(operation.path).endswith("/deletions")
    return deletes or follows(operation)


def follows_the_team(operation: Any) -> bool:
    """Its place is always the caller's own."""
    return follows(operation) and "{" not in operation.path


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if not follows_or_deletes(o)], ids=name_of)
def test_places_of_the_own_team(operation: Any, application: TestClient, token: str, places: dict[str, str]) -> None:
    @DRAWN
    @given(case=operation.as_strategy())
    def asks(case: schemathesis.Case[Any]) -> None:
        case.path_parameters = {name: places.get(name, value) for name, value in (case.path_parameters or {}).items()}
        answered(case, application, token)

    asks()


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if not follows_the_team(o)], ids=name_of)
def test_places_that_are_nobodys(operation: Any, application: TestClient, token: str) -> None:
    @DRAWN
    @given(case=operation.as_strategy())
    def asks(case: schemathesis.Case[Any]) -> None:
        answered(case, application, token)

    asks()
