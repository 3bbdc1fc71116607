"""Members, what their roles let them do, and the log of what they did."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from api import events as streams
from store.database import engine
from store.models import AuditEvent, Member, Role, Token
from store.teams import create_token, ensure_team
from store.tokens import SCOPES_OF, role_for
from tests.service.conftest import Client
from tests.service.test_api import PCAP, SAMPLE, Run, assert_problem, mptcp, upload
from tests.service.test_openapi import document
from worker.collector import forget_audit_events

OPEN = {
    "POST /v1/session", "DELETE /v1/session", "GET /v1/session/ways", "POST /v1/session/openid", "GET /healthz",
    "GET /readyz", "GET /metrics", "OPTIONS /v1/uploads",
}  # fmt: skip
"""Operations that ask for no role."""
ADMIN = re.compile(
    r"(POST|PUT|PATCH|DELETE) /v1/(teams/|webhooks)|GET /v1/teams/\{team_id\}/(tokens|audit)(\.\{suffix\})?$"
)
OPERATIONS = [
    f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods
]  # fmt: skip


def scope_of(operation: str) -> str:
    """By what it does: owners decide about the team, analysts change its data, viewers read."""
    reads = operation.startswith("GET") or operation == "PATCH /v1/session"
    return "admin" if ADMIN.match(operation) else "read" if reads else "write"


def team_url(client: TestClient) -> str:
    return f"/v1/teams/{client.get('/v1/teams/me').json()['id']}"


def token_of(owner: TestClient, role: Role, **more: Any) -> dict[str, Any]:
    """Of a new member with this role."""
    url = team_url(owner)
    member = owner.post(f"{url}/members", json={"name": f"{role}-{uuid.uuid4()}", "role": role})
    assert member.status_code == 201, member.text
    wanted = {"name": "laptop", "member_id": member.json()["id"], "scopes": SCOPES_OF[role], **more}
    made = owner.post(f"{url}/tokens", json=wanted)
    assert made.status_code == 201, made.text
    return dict(made.json())


@pytest.fixture(scope="module")
def roles(application: TestClient, services: object) -> dict[Role, dict[str, str]]:
    """Of each role, what a request has to carry."""
    team = f"team-{uuid.uuid4()}"
    with engine().begin() as connection:
        team_id = ensure_team(connection, team)
        made = {role: create_token(connection, team_id, role, list(has)) for role, has in SCOPES_OF.items()}
    return {role: {"Authorization": f"Bearer {token}"} for role, token in made.items()}


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in OPEN])
def test_each_operation_is_refused_to_who_may_not(
    operation: str, application: TestClient, roles: dict[Role, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing exists at the address: who may do it gets another answer than 403."""
    monkeypatch.setattr(streams, "_LONGEST_S", 0)
    method, path = operation.split()
    address = re.sub(r"\{\w+\}", lambda _: str(uuid.uuid4()), path)
    for role, headers in roles.items():
        response = application.request(method, address, headers=headers, json={} if method != "GET" else None)
        may = scope_of(operation) in SCOPES_OF[role]
        assert (response.status_code != 403) is may, (role, response.status_code, response.text)
        assert response.status_code != 401
    assert application.request(method, address).status_code == 401


def test_every_operation_is_there() -> None:
    assert set(OPERATIONS) > OPEN
    assert {scope_of(o) for o in OPERATIONS} == {"read", "write", "admin"}


def test_a_role_bounds_the_tokens_at_once(client: TestClient, client_for: Client) -> None:
    made = token_of(client, "analyst")
    analyst, url = client_for(made["token"]), team_url(client)
    me = analyst.get("/v1/teams/me").json()
    assert (me["role"], me["scopes"], me["member"]) == ("analyst", ["read", "write"], made["member"])
    assert upload(analyst)["state"] == "queued"
    changed = client.patch(f"{url}/members/{made['member_id']}", json={"role": "viewer"})
    assert changed.json()["role"] == "viewer"
    assert_problem(analyst.post("/v1/captures", content=b"x", headers=PCAP), 403, f"{made['member']} is a viewer")
    assert analyst.get("/v1/teams/me").json()["scopes"] == ["read"]
    assert client.delete(f"{url}/members/{made['member_id']}").status_code == 204
    assert_problem(analyst.get("/v1/captures"), 401, "unknown, expired or revoked")
    assert made["member"] not in {m["name"] for m in client.get(f"{url}/members").json()}
    (token,) = (t for t in client.get(f"{url}/tokens").json() if t["id"] == made["id"])
    assert token["revoked_at"]


def test_a_token_has_no_more_than_the_members_role(client: TestClient) -> None:
    url = team_url(client)
    viewer = client.post(f"{url}/members", json={"name": "eve"}).json()
    wanted = {"name": "x", "member_id": viewer["id"], "scopes": ["read", "write"]}
    assert_problem(
        client.post(f"{url}/tokens", json=wanted), 422, "eve has the role viewer, which has no scope 'write'"
    )
    assert_problem(client.post(f"{url}/members", json={"name": "eve"}), 409, "has a member eve")
    assert_problem(client.post(f"{url}/tokens", json={**wanted, "scopes": []}), 422, "body.scopes")
    nobody = {**wanted, "member_id": str(uuid.uuid4())}
    assert_problem(client.post(f"{url}/tokens", json=nobody), 404, "no such member")


def test_a_team_keeps_an_owner(client: TestClient, client_for: Client) -> None:
    url = team_url(client)
    (me,) = client.get(f"{url}/members").json()
    only = f"{url}/members/{me['id']}"
    assert_problem(client.delete(only), 409, "only owner")
    assert_problem(client.patch(only, json={"role": "analyst"}), 409, "only owner")
    second = client_for(token_of(client, "owner")["token"])
    assert second.patch(only, json={"role": "analyst"}).json()["role"] == "analyst"
    assert_problem(client.get(f"{url}/tokens"), 403, "is an analyst")


def test_members_of_another_team_do_not_exist(client: TestClient, other: TestClient) -> None:
    made = token_of(client, "viewer")
    url = team_url(other)
    assert other.delete(f"{url}/members/{made['member_id']}").status_code == 404
    assert other.patch(f"{url}/members/{made['member_id']}", json={"role": "owner"}).status_code == 404
    wanted = {"name": "x", "member_id": made["member_id"]}
    assert other.post(f"{url}/tokens", json=wanted).status_code == 404
    for what in ("members", "usage", "settings", "audit"):
        assert other.get(f"{team_url(client)}/{what}").status_code == 404


def test_the_shells_tokens_have_members(services: object) -> None:
    with engine().begin() as connection:
        team = ensure_team(connection, f"team-{uuid.uuid4()}")
        for scopes in (["read"], ["read", "write", "admin"], ["write"]):
            create_token(connection, team, "ci", scopes)
        members = connection.execute(select(Member.name, Member.role).where(Member.team_id == team)).all()
        assert members == [("ci", "owner")]
        count = select(func.count()).select_from(Token).where(Token.team_id == team)
        assert connection.scalar(count) == 3
    assert [role_for(s) for s in ([], ["read"], ["write"], ["read", "admin"])] == [
        "viewer", "viewer", "analyst", "owner",
    ]  # fmt: skip


def events(client: TestClient, **query: Any) -> list[dict[str, Any]]:
    return list(client.get(f"{team_url(client)}/audit", params=query).json()["items"])


def test_the_log_has_what_was_deleted(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)
    run_jobs()
    connection = mptcp(client, capture)["id"]
    asked = client.post(f"/v1/connections/{connection}/whatifs", json={"algorithm": "lia"}).json()
    sweep = client.post("/v1/whatifs", json={"selection": {"connection_ids": [connection]}, "algorithms": ["tccc"]})
    check = client.post("/v1/model-checks", json={"spec": "CoupledSlowStart"}).json()
    gone = [(f"whatifs/{asked['id']}", "lia"), (f"sweeps/{sweep.json()['id']}", "a sweep"),
            (f"model-checks/{check['id']}", "CoupledSlowStart")]  # fmt: skip
    for path, _ in gone:
        assert client.delete(f"/v1/{path}").status_code == 204
    told = [(e["object_id"], e["object_name"]) for e in reversed(events(client, action="delete"))]
    assert told == [(path.split("/")[1], name) for path, name in gone]


def test_the_log_tells_who_did_what(client: TestClient, client_for: Client, run_jobs: Run) -> None:
    made = token_of(client, "analyst")
    analyst = client_for(made["token"])
    capture = upload(analyst)
    upload(analyst)
    run_jobs()
    url = f"/v1/captures/{capture['id']}"
    for _ in range(3):
        analyst.get(url)
    client.get(url)
    analyst.get(f"{url}/file")
    connection = mptcp(analyst, capture)["id"]
    analyst.get(f"/v1/connections/{connection}/acks.parquet")
    analyst.post(f"/v1/connections/{connection}/replays", json={"algorithm": "lia"})
    for _ in range(2):
        analyst.post(f"/v1/connections/{connection}/segments")
    analyst.patch(url, json={"notes": "slow"})
    analyst.delete(url)
    client.patch(f"{team_url(client)}/settings", json={"payload": "cut", "audit_days": 365})
    client.delete(f"{team_url(client)}/tokens/{made['id']}")
    told = [(e["member"], e["action"], e["object_name"]) for e in reversed(events(client))]
    name, mine = SAMPLE.name, made["member"]
    assert told == [
        ("test", "add_member", mine), ("test", "make_token", "laptop"), (mine, "upload", name), (mine, "upload", name),
        (mine, "see", name), ("test", "see", name), (mine, "export", name),
        (mine, "export", f"connection 0 of {name}"), (mine, "replay", "lia"),
        (mine, "read_segments", f"connection 0 of {name}"), (mine, "change", name),
        (mine, "delete", name), ("test", "change_settings", None), ("test", "revoke_token", "laptop"),
    ]  # fmt: skip
    newest = {e["action"]: e for e in reversed(events(client))}
    assert newest["upload"]["detail"] == {"bytes": SAMPLE.stat().st_size, "again": True}
    assert newest["change_settings"]["detail"] == {"before": {"payload": "kept"}, "after": {"payload": "cut"}}
    assert (newest["delete"]["object_id"], newest["delete"]["token_id"]) == (capture["id"], made["id"])
    assert made["token"] not in json.dumps(newest)
    assert [e["action"] for e in events(client, member="test", action="see")] == ["see"]
    told = [(e["at"], e["action"]) for e in events(client)]
    begin, end = told[6][0], told[2][0]
    chosen = [(at, action) for at, action in told if begin <= at < end]
    assert [(e["at"], e["action"]) for e in events(client, since=begin, until=end)] == chosen == told[3:7]
    assert_problem(client.get(f"{team_url(client)}/audit", params={"action": "x"}), 422, "")
    assert_problem(client.get(f"{team_url(client)}/audit", params={"since": "2026-11-23T10:00:00"}), 422, "since")


def test_the_log_has_pages(client: TestClient) -> None:
    url = team_url(client)
    for i in range(5):
        client.post(f"{url}/members", json={"name": f"m{i}"})
    seen: list[str] = []
    cursor = None
    while True:
        page = client.get(f"{url}/audit", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [e["object_name"] for e in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["m4", "m3", "m2", "m1", "m0"]


def test_an_action_that_fails_is_not_noted(client: TestClient) -> None:
    assert client.delete(f"/v1/captures/{uuid.uuid4()}").status_code == 404
    assert client.patch(f"{team_url(client)}/settings", json={"addresses": "replaced"}).status_code == 422
    assert events(client) == []


def test_only_what_is_old_enough_is_forgotten(client: TestClient) -> None:
    url = team_url(client)
    client.post(f"{url}/members", json={"name": "new"})
    team_id = uuid.UUID(url.split("/")[3])
    with engine().begin() as connection:
        for days, name in ((400, "old"), (20, "young")):
            at = func.clock_timestamp() - func.make_interval(0, 0, 0, days)
            values = {"team_id": team_id, "member": name, "action": "see", "at": at}
            connection.execute(AuditEvent.__table__.insert().values(**values))  # type: ignore[attr-defined]
    assert forget_audit_events() >= 1
    assert forget_audit_events() == 0
    assert [e["member"] for e in events(client)] == ["young", "test"]
    assert client.patch(f"{url}/settings", json={"audit_days": 29}).status_code == 422
    with pytest.raises(IntegrityError, match="audit_days"), engine().begin() as connection:
        connection.execute(text("UPDATE teams SET audit_days = 1 WHERE id = :id"), {"id": team_id})


def test_usage(client: TestClient) -> None:
    before = client.get(f"{team_url(client)}/usage").json()
    assert (before["captures"], before["bytes"], before["jobs"]) == (0, 0, 0)
    upload(client)
    after = client.get(f"{team_url(client)}/usage").json()
    assert (after["captures"], after["bytes"], after["jobs"]) == (1, SAMPLE.stat().st_size, 1)
    assert after["bytes_max"] > after["bytes"]
