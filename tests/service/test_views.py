"""The views that other programs read, and the dashboards for Grafana that read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from fastapi.testclient import TestClient
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, text
from sqlalchemy.orm import Session

from deploy.run import CHECKOUT, Services, wait_for
from store.models import State, WhatIf
from tests.service.test_api import upload
from tests.service.test_connections import All, client, rows, team  # noqa: F401  # fixtures

GRAFANA = CHECKOUT / "deploy/grafana"
VIEWS = ("v1_captures", "v1_connections", "v1_fairness", "v1_shares", "v1_whatifs")


@pytest.fixture
def reader(services: Services) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """As docs/dashboards.md has an operator make it: a role that may read the views, and nothing else."""
    assert services.owner_address is not None
    with psycopg.connect(services.owner_address) as database:
        database.execute("CREATE ROLE reads_views NOLOGIN")
        database.execute("GRANT USAGE ON SCHEMA public TO reads_views")
        database.execute(f"GRANT SELECT ON {', '.join(VIEWS)} TO reads_views")
        database.execute("SET ROLE reads_views")
        yield database.cursor(row_factory=psycopg.rows.dict_row)  # type: ignore[misc]
        database.rollback()


@pytest.fixture
def predicted(rows: All) -> Iterator[str]:  # noqa: F811
    """A connection with a what-if that is done, and one that is not."""
    from store.database import engine

    row = rows[0]
    result = {
        "verdict": "ok",
        "recorded": {"goodput_bps": 2e6},
        "predicted": {"goodput_bps": {"median": 3e6, "low": 2.5e6, "high": 3.5e6}},
    }
    own = {"capture_id": row["capture_id"], "connection_id": row["id"], "connection_number": row["number"]}
    common = {**own, "algorithm": "tccc", "label": "tccc", "everyone": False}
    done = WhatIf(**common, repeat=5, state=State.done, result=result)
    with Session(engine()) as database, database.begin():
        database.add_all([done, WhatIf(**common, repeat=6)])
    yield row["id"]
    with engine().begin() as connection:
        connection.execute(delete(WhatIf).where(WhatIf.connection_id == row["id"]))


def test_views_have_what_the_api_has(rows: All, client: TestClient, reader: Any) -> None:  # noqa: F811
    captures = {r["capture_id"] for r in rows}
    found = reader.execute("SELECT * FROM v1_connections WHERE capture_id::text = ANY(%s)", [list(captures)]).fetchall()
    assert len(found) == len(rows)
    by_key = {(str(f["capture_id"]), f["number"]): f for f in found}
    shared = (
        "filename", "tags", "kind", "sport", "dport", "sender_algorithm", "subflow_count", "bytes", "duration_s",
        "completion_s", "goodput_bps", "retransmission_rate", "rtt_us", "rtt_min_us", "rtt_inflation", "verdict",
        "quality", "unreliable",
    )  # fmt: skip
    for row in rows:
        view = by_key[row["capture_id"], row["number"]]
        assert {n: view[n] for n in shared} == {n: row[n] for n in shared}
        assert (str(view["src"]), view["site"]) == (row["src"], row["tags"].get("site"))
        assert abs(view["started_at"].timestamp() - row["first_ns"] / 1e9) < 1e-5
    groups = reader.execute("SELECT * FROM v1_fairness WHERE capture_id::text = ANY(%s)", [list(captures)]).fetchall()
    told = [g for c in captures for g in client.get(f"/v1/captures/{c}").json()["fairness"]]
    assert sorted((g["members"], g["jain"]) for g in groups) == sorted((len(g["connections"]), g["jain"]) for g in told)
    assert all(g["started_at"] is not None for g in groups)
    shares = reader.execute("SELECT * FROM v1_shares WHERE capture_id::text = ANY(%s)", [list(captures)]).fetchall()
    by_member = {(str(s["capture_id"]), s["bottleneck"], s["number"]): s for s in shares}
    assert len(by_member) == len(shares) == sum(len(g["connections"]) for g in told)
    for capture in captures:
        for group in client.get(f"/v1/captures/{capture}").json()["fairness"]:
            for number, kind, share in zip(group["connections"], group["kinds"], group["shares"], strict=True):
                view = by_member[capture, group["bottleneck"], number]
                assert (view["kind"], view["verdict"]) == (kind, group["verdict"])
                names = ("goodput_bps", "fair_bps", "ratio", "shared_s", "limited_by")
                assert {n: view[n] for n in names} == {n: None if share is None else share[n] for n in names}
    shown = reader.execute("SELECT * FROM v1_captures WHERE capture_id::text = ANY(%s)", [list(captures)]).fetchall()
    assert sum(c["connections"] for c in shown) == len(rows)


def test_the_view_of_whatifs_has_those_that_are_done(predicted: str, rows: All, reader: Any) -> None:  # noqa: F811
    row = next(r for r in rows if r["id"] == predicted)
    query = "SELECT * FROM v1_whatifs WHERE capture_id::text = %s AND number = %s"
    (found,) = reader.execute(query, [row["capture_id"], row["number"]]).fetchall()
    shared = ("filename", "kind", "sender_algorithm")
    assert {n: found[n] for n in shared} == {n: row[n] for n in shared}
    assert (found["site"], found["label"], found["everyone"], found["runs"], found["verdict"]) == (
        row["tags"].get("site"), "tccc", False, 5, "ok",
    )  # fmt: skip
    assert (found["recorded_goodput_bps"], found["predicted_goodput_bps"], found["gain"]) == (2e6, 3e6, 1.5)
    assert (found["predicted_goodput_bps_low"], found["predicted_goodput_bps_high"]) == (2.5e6, 3.5e6)


def test_a_reader_of_views_reads_nothing_else(reader: Any) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("SELECT hash FROM tokens")


@pytest.mark.parametrize("view", VIEWS)
def test_a_reader_of_views_changes_nothing(reader: Any, view: str) -> None:
    rights = "SELECT has_table_privilege('reads_views', %s, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') AS may"
    assert reader.execute(rights, [view]).fetchone() == {"may": False}


def test_a_reader_of_views_changes_no_table(reader: Any) -> None:
    for table in ("captures", "connection_facts", "fairness_groups"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), reader.connection.transaction():
            reader.execute(f"DELETE FROM {table}")


def test_a_view_keeps_what_it_has(reader: Any) -> None:
    """A version of a view may get further columns, with a line in the file; none goes, and none has another type."""
    found = reader.execute(
        "SELECT attrelid::regclass::text AS view, attname AS name, format_type(atttypid, atttypmod) AS type"
        " FROM pg_attribute WHERE attrelid::regclass::text = ANY(%s) AND attnum > 0",
        [list(VIEWS)],
    ).fetchall()
    types = {(f["view"], f["name"]): f["type"] for f in found}
    kept = [line.split(None, 2) for line in (Path(__file__).parent / "v1_views.txt").read_text().splitlines()]
    assert {view for view, _, _ in kept} == set(VIEWS)
    assert types == {(view, name): kind for view, name, kind in kept}


def test_every_column_of_a_view_is_described(reader: Any) -> None:
    found = reader.execute(
        "SELECT attrelid::regclass::text AS view, attname, col_description(attrelid, attnum) AS meaning"
        " FROM pg_attribute WHERE attrelid::regclass::text = ANY(%s) AND attnum > 0",
        [list(VIEWS)],
    ).fetchall()
    assert {f["view"] for f in found} == set(VIEWS)
    assert [f for f in found if not f["meaning"]] == []


def dashboard(name: str) -> dict[str, Any]:
    """Its panels have different ids and one query each, of the panel's own source."""
    found = json.loads((GRAFANA / "dashboards" / f"{name}.json").read_text())
    assert len({p["id"] for p in found["panels"]}) == len(found["panels"]) > 0
    assert {"uid", "title", "schemaVersion", "time", "templating"} <= found.keys()
    for panel in found["panels"]:
        (target,) = panel["targets"]
        assert target["datasource"] == panel["datasource"]
    return dict(found)


def test_sources_of_grafana_are_those_of_its_dashboards() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/rewindow.yaml").read_text())["datasources"]
    known = {(s["type"], s["uid"]) for s in sources}
    paths = sorted((GRAFANA / "dashboards").glob("*.json"))
    used = {(p["datasource"]["type"], p["datasource"]["uid"]) for path in paths for p in dashboard(path.stem)["panels"]}
    assert used == known
    assert len({dashboard(path.stem)["uid"] for path in paths}) == len(paths) == 2


def lost(of: Any, among: Any, place: str = "") -> Iterator[str]:
    """What of a document is not in another one, or is otherwise there."""
    if isinstance(of, dict) and isinstance(among, dict):
        for name, value in of.items():
            yield from lost(value, among[name], f"{place}.{name}") if name in among else [f"{place}.{name}"]
    elif isinstance(of, list) and isinstance(among, list) and len(of) == len(among):
        for number, pair in enumerate(zip(of, among, strict=True)):
            yield from lost(*pair, f"{place}[{number}]")
    elif of != among:
        yield place


@pytest.mark.parametrize("name", ["team", "service"])
def test_grafana_knows_all_that_a_dashboard_says(name: str) -> None:
    """Grafana's own model of a dashboard keeps what it knows."""
    register_default_plugins()
    written = dashboard(name)
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert list(lost(written, read)) == []


@pytest.mark.usefixtures("predicted")
def test_every_panel_of_the_team_shows_something(rows: All, reader: Any) -> None:  # noqa: F811
    shown_to = dashboard("team")
    (variable,) = shown_to["templating"]["list"]
    capture = rows[0]["capture_id"]
    own = reader.execute("SELECT team FROM v1_captures WHERE capture_id::text = %s", [capture]).fetchone()["team"]
    assert {"team": own} in reader.execute(variable["query"]).fetchall()
    for panel in shown_to["panels"]:
        (target,) = panel["targets"]
        query = target["rawSql"].replace("${team:sqlstring}", f"'{own}'")
        for column in ("started_at", "uploaded_at"):
            query = query.replace(f"$__timeFilter({column})", f"{column} BETWEEN '1970-01-01' AND now()")
        assert "$" not in query, "a macro that this test does not know"
        shown = reader.execute(query).fetchall()
        assert shown, panel["title"]
        assert ("time" in shown[0]) == (target["format"] == "time_series")
        words = ("time", "site", "state", "sender_algorithm", "algorithm", "metric")
        values = [v for row in shown for n, v in row.items() if n not in words]
        assert any(v is not None for v in values), panel["title"]


_SELECTOR = re.compile(r"\b(rewindow_\w+)(?:{([^}]*)})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def scraped(application: TestClient) -> str:
    """What Prometheus reads. Where Redis is slow, it is told to come again."""
    answers: list[str] = []

    def is_there() -> bool:
        response = application.get("/metrics")
        assert response.status_code in (200, 503)
        answers.append(response.text)
        return response.status_code == 200

    wait_for("the metrics", is_there)
    return answers[-1]


def selected(expression: str, application: TestClient) -> list[list[dict[str, str]]]:
    """What each selector of a query finds in /metrics: the labels of the samples."""
    families = text_string_to_metric_families(scraped(application))
    samples = [s for f in families for s in f.samples]
    found = []
    for name, matchers in _SELECTOR.findall(expression):
        parts = _MATCHER.findall(matchers)
        assert ",".join(f'{label}{how}"{value}"' for label, how, value in parts) == matchers
        matching = [s.labels for s in samples if s.name == name]
        for label, how, value in parts:
            assert all(label in labels for labels in matching), f"{name} has no label {label}"
            is_it = re.compile(value if "~" in how else re.escape(value)).fullmatch
            matching = [labels for labels in matching if bool(is_it(labels[label])) == (how[0] == "=")]
        found.append(matching)
    return found


def grouped(expression: str) -> set[str]:
    """Labels by which a query groups."""
    return {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(",")}


@pytest.fixture
def answered(application: TestClient) -> None:
    """The API has answered with each kind of status that operators ask for."""
    assert application.get("/v1/captures").status_code == 401
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("api.health.endpoints._DEPENDENCIES", {"nothing": None})
        assert application.get("/readyz").status_code == 503
        patches.setattr("api.security.transaction", None)
        assert application.get("/v1/captures", headers={"Authorization": "Bearer rw_x"}).status_code == 500


@pytest.mark.usefixtures("answered")
def test_every_panel_of_the_service_has_its_metric(application: TestClient) -> None:
    for panel in dashboard("service")["panels"]:
        expression = panel["targets"][0]["expr"]
        samples = selected(expression, application)
        assert samples, panel["title"]
        assert all(samples), panel["title"]
        shown = set(re.findall(r"{{(\w+)}}", panel["targets"][0]["legendFormat"]))
        by = grouped(expression)
        assert by - {"le"} == shown if by else shown <= samples[0][0].keys()
        assert all(by <= labels.keys() for found in samples for labels in found)


@pytest.mark.usefixtures("answered")
def test_the_operators_alerts_are_about_metrics_that_there_are(application: TestClient) -> None:
    rules = yaml.safe_load((CHECKOUT / "deploy/prometheus/rewindow.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary", "description"}
        samples = selected(rule["expr"], application)
        assert all(samples), rule["alert"]
        told_of = [labels.get("route", "") for found in samples for labels in found]
        assert not {"/healthz", "/readyz", "/metrics"} & set(told_of), "a probe is no answer to a team"
        assert grouped(rule["expr"]) <= {name for found in samples for labels in found for name in labels}
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_metrics_tell_what_is_late(application: TestClient, other: TestClient) -> None:
    from store.database import engine

    capture = upload(other)["id"]
    wanted = {"name": "x", "measure": "rtt_us", "threshold": 1}
    alert = other.post("/v1/alerts", json=wanted).json()["id"]
    with engine().begin() as connection:
        for table, column, of, its in (("jobs", "queued_at", "capture_id", capture), ("alerts", "due_at", "id", alert)):
            aged = f"UPDATE {table} SET {column} = now() - interval '1 day' WHERE {of} = :id"
            connection.execute(text(aged), {"id": its})
    told = dict(line.rsplit(" ", 1) for line in scraped(application).splitlines() if line[0] != "#")
    assert float(told['rewindow_oldest_wait_seconds{queue="rewindow"}']) >= 86400
    assert float(told["rewindow_alert_overdue_seconds"]) >= 86400
    assert told['rewindow_dependency_up{dependency="object_store"}'] == "1.0"
    for url in (f"captures/{capture}", f"alerts/{alert}"):
        assert other.delete(f"/v1/{url}").status_code == 204
