"""The API says truly what it answers, and the dashboard's types are made from that."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

import rewindow
from api.app import routes
from rewindow.findings.connections import Connection, Subflow
from store import models
from tests.conftest import CAPTURES
from tests.service.test_api import SAMPLE, Run, mptcp, upload

DASHBOARD = Path(__file__).parents[2] / "dashboard"

LOOSE = {
    "AuditEventOut.detail": "what there is to say depends on the action",
    "Step.state": "the values of a specification's variables, whatever they are",
}
"""Fields whose content no schema describes, and why."""


@functools.cache
def _printed() -> bytes:
    done = subprocess.run([sys.executable, "-m", "api.openapi"], capture_output=True, check=True, cwd=DASHBOARD.parent)
    return done.stdout


def document() -> dict[str, Any]:
    return dict(json.loads(_printed()))


def test_the_dashboards_types_are_those_of_the_api(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document()))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = json.loads((DASHBOARD / "package.json").read_text())["scripts"]["types"]
    command = ["node_modules/.bin/openapi-typescript", str(path), *script.split()[2:], "--check"]
    done = subprocess.run(command, cwd=DASHBOARD, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"run `make types`: {done.stdout}{done.stderr}"


def anything(schema: Any) -> bool:
    """Does this schema allow any value?"""
    if not isinstance(schema, dict):
        return True
    if any(anything(s) for s in schema.get("anyOf", [])) or ("items" in schema and anything(schema["items"])):
        return True
    if schema.get("type") == "object" and "properties" not in schema:
        return anything(schema.get("additionalProperties", True))
    return not schema.keys() & {"type", "$ref", "anyOf", "enum", "const"}


def test_every_field_has_a_type() -> None:
    schemas = document()["components"]["schemas"]
    assert {
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, its in schema.get("properties", {}).items()
        if anything(its)
    } == LOOSE.keys()


BODILESS = {("/v1/uploads", "post", "201"), ("/v1/uploads/{upload_id}", "head", "200")}
"""Answers that are headers alone, besides 204."""


def test_every_answer_has_a_schema() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                if status.startswith("2") and status != "204" and (path, method, status) not in BODILESS:
                    for media_type, content in response["content"].items():
                        assert not anything(content["schema"]), (method, path, media_type)


def test_a_broken_tag_is_told_as_an_answer_of_every_address_that_takes_tags() -> None:
    document = routes().openapi()
    takes = {
        path: operations["get"]["responses"]
        for path, operations in document["paths"].items()
        if any(p["name"] in ("tag", "selection") for p in operations.get("get", {}).get("parameters", []))
    }
    assert len(takes) >= 11
    assert [path for path, answers in takes.items() if "tag" not in answers.get("400", {}).get("description", "")] == []


def test_what_the_library_finds_is_what_the_api_tells(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)
    run_jobs()
    told = client.get(f"/v1/captures/{capture['id']}").json()
    with rewindow.open(SAMPLE) as opened:
        result = opened.replay()
    summary, connections = result.summary, result.connections
    found = json.loads(json.dumps(dataclasses.asdict(summary)))
    for verdict in told["summary"]["connection_quality"].values():
        verdict.pop("byte_share")
    assert {**told["summary"], "bottlenecks": None} == {**found, "bottlenecks": None}
    detail = client.get(f"/v1/connections/{mptcp(client, told)['id']}").json()
    connection = next(c for c in connections if c.kind == "mptcp")
    same(detail, connection, {"id", "subflows"})
    for mine, theirs in zip(detail["subflows"], connection.subflows, strict=True):
        same(mine, theirs, {"sender_algorithm"})
        assert mine["number"] == theirs.id
        assert (mine["sender_algorithm"], mine["sender_match"], mine["sender_candidates"]) == (
            theirs.sender_algorithm.name, theirs.sender_algorithm.match, theirs.sender_algorithm.candidates,
        )  # fmt: skip


def same(told: dict[str, Any], found: Any, besides: set[str]) -> None:
    for name in told.keys() & {f.name for f in dataclasses.fields(found)} - besides:
        assert told[name] == getattr(found, name), name


NOT_KEPT = {
    Connection: {"subflows", "quality", "verdict", "unreliable"},
    Subflow: {
        "quality", "verdict", "unreliable",
        "id", "first_ns", "last_ns", "reverse_bytes", "reverse_packets", "acks", "unseen_bytes",
        "mss_bytes", "handshake_rtt_us", "backup", "replayed", "bottleneck", "bottleneck_state", "file",
    },
}  # fmt: skip
"""Fields of the library's results that are no columns of their own: the service keeps them elsewhere, or not."""


def test_a_new_field_of_the_library_is_kept_or_named_here() -> None:
    for found, table in ((Connection, models.Connection), (Subflow, models.Subflow)):
        fields = {f.name for f in dataclasses.fields(found)}
        columns = {c.name for c in table.__table__.columns}
        assert fields - columns == NOT_KEPT[found]


def test_shares_of_a_capture_whose_connections_differ(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client, CAPTURES / "mptcp-receiver-side.pcap")
    run_jobs()
    told = client.get(f"/v1/captures/{capture['id']}").json()["summary"]["connection_quality"]
    items = client.get(f"/v1/captures/{capture['id']}/connections").json()["items"]
    total = sum(c["bytes"] for c in items)
    for verdict, counted in told.items():
        mine = [c["bytes"] for c in items if c["verdict"] == verdict]
        assert counted == {"connections": len(mine), "bytes": sum(mine), "byte_share": sum(mine) / total}
