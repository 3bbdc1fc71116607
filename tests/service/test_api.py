"""The API on a real PostgreSQL, Redis and object store; jobs run as the worker's own task body."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text

import rewindow
from api.connections.schemas import SeriesOut
from tests.conftest import CAPTURES, make_token

SAMPLE = CAPTURES / "mptcp-ecn.pcap"
PCAP = {"Content-Type": "application/vnd.tcpdump.pcap"}

Run = Callable[[], None]


def upload(client: TestClient, path: Path = SAMPLE) -> dict[str, Any]:
    response = client.post(f"/v1/captures?filename={path.name}", content=path.read_bytes(), headers=PCAP)
    assert response.status_code == 202, response.text
    assert response.headers["Location"] == f"/v1/captures/{response.json()['id']}"
    assert response.headers["Retry-After"] == "1"
    return dict(response.json())


@pytest.fixture
def analysed(client: TestClient, run_jobs: Run) -> dict[str, Any]:
    capture = upload(client)
    run_jobs()
    return dict(client.get(f"/v1/captures/{capture['id']}").json())


def mptcp(client: TestClient, capture: dict[str, Any]) -> dict[str, Any]:
    items = client.get(f"/v1/captures/{capture['id']}/connections").json()["items"]
    return dict(next(c for c in items if c["kind"] == "mptcp"))


def assert_problem(response: Any, status: int, detail: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert detail in body["detail"]


def test_capture_from_upload_to_result(analysed: dict[str, Any], client: TestClient) -> None:
    assert analysed["state"] == "done"
    assert analysed["progress"] == 1.0
    assert analysed["sha256"] == hashlib.sha256(SAMPLE.read_bytes()).hexdigest()
    assert analysed["connections"] == 2
    assert analysed["summary"]["vantage"] == "sender"
    (group,) = analysed["fairness"]
    assert (analysed["fairness_total"], analysed["fairness_cursor"]) == (1, None)
    assert (group["bottleneck"], group["method"]) == ("detected: sbd #1", "sbd")
    assert group["connections"] == [0, 1]
    of_capture = client.get(f"/v1/captures/{analysed['id']}/connections").json()["items"]
    by_number = {c["number"]: c for c in of_capture}
    assert [m["connection_id"] for m in group["members"]] == [by_number[n]["id"] for n in group["connections"]]
    for member, number in zip(group["members"], group["connections"], strict=True):
        begin_s = (by_number[number]["first_ns"] - analysed["summary"]["first_ns"]) / 1e9
        assert (member["begin_s"], member["duration_s"]) == pytest.approx(
            (begin_s, (by_number[number]["last_ns"] - by_number[number]["first_ns"]) / 1e9), abs=1e-6
        )
    assert max(m["begin_s"] for m in group["members"]) > 0
    assert analysed["summary"]["bottlenecks"] == {"method": "sbd", "undecided": 0, "not_judged": 0}
    connection = client.get(f"/v1/connections/{mptcp(client, analysed)['id']}").json()
    assert connection["bytes"] == 4128768
    assert [s["sport"] for s in connection["subflows"]] == [55090, 43575]
    assert sum(s["ece_acks"] for s in connection["subflows"]) > 0
    assert [r["label"] for r in connection["replays"]] == ["newreno", "cubic", "uncoupled", "css", "tccc"]
    assert {r["state"] for r in connection["replays"]} == {"done"}
    assert connection["replays"][4]["windows"][0]["max"] > 10
    # Each ACK that a window may grow by is a step of css and one of tccc.
    assert connection["conformance"]["steps"] > connection["rows"]
    assert connection["conformance"] | {"steps": 0} == {"steps": 0, "violations": 0, "first": None}


def test_groups_of_a_capture_are_paged(analysed: dict[str, Any], client: TestClient) -> None:
    """As of a capture with many bottlenecks: an answer does not grow with their number."""
    from store.database import engine

    more = """INSERT INTO fairness_groups (attempt_id, bottleneck, method, members, jain, declared, first_ns)
        SELECT attempt_id, 'detected: sbd #2' || lpad(n::text, 3, '0'), method, members, jain, declared, first_ns
        FROM fairness_groups, generate_series(1, 419) n
        WHERE attempt_id = (SELECT attempt_id FROM captures WHERE id = :id)"""
    with engine().begin() as database:
        database.execute(text(more), {"id": analysed["id"]})
    url = f"/v1/captures/{analysed['id']}"
    detail = client.get(url).json()
    assert detail["fairness_total"] == 420
    assert len(detail["fairness"]) == 20
    assert detail["fairness"][0] == analysed["fairness"][0]
    found, cursor = detail["fairness"], detail["fairness_cursor"]
    while cursor is not None:
        page = client.get(f"{url}/fairness", params={"cursor": cursor, "limit": 120}).json()
        found, cursor = found + page["items"], page["next_cursor"]
    assert [g["bottleneck"] for g in found] == ["detected: sbd #1", *(f"detected: sbd #2{n:03}" for n in range(1, 420))]
    assert all(g["members"] == analysed["fairness"][0]["members"] for g in found), "each with its members"
    at_once = client.get(f"{url}/fairness?limit=500").json()["items"]
    assert at_once == found[:400] + [{**g, "members": []} for g in found[400:]], "at most 800 members in all"
    assert_problem(client.get(f"{url}/fairness?cursor=x"), 400, "this cursor was not made")
    assert_problem(client.get(f"/v1/captures/{uuid.uuid4()}/fairness"), 404, "no such capture")


def test_multipart_upload_is_the_same_capture(client: TestClient, run_jobs: Run) -> None:
    raw = upload(client)
    with SAMPLE.open("rb") as f:
        form = client.post("/v1/captures", files={"file": ("../evil\\name.pcap", f)})
    assert form.status_code == 202
    assert form.json()["id"] == raw["id"]
    again = client.post("/v1/captures?tag=site=lab", content=SAMPLE.read_bytes(), headers=PCAP)
    assert again.json()["tags"] == {"site": "lab"}
    assert len(client.get("/v1/captures").json()["items"]) == 1


def test_multipart_keeps_the_last_part_of_a_name(client: TestClient) -> None:
    content = SAMPLE.read_bytes()[:5000]
    form = client.post("/v1/captures", files={"file": ("/etc/../evil\\na\x07me.pcap", io.BytesIO(content))})
    assert form.json()["filename"] == "na%07me.pcap"
    assert form.json()["bytes"] == 5000


def test_series_json(analysed: dict[str, Any], client: TestClient) -> None:
    url = f"/v1/connections/{mptcp(client, analysed)['id']}/series"
    whole = client.get(url, params={"algorithms": "tccc,uncoupled", "width": 64}).json()
    assert {(line["algorithm"], line["subflow"]) for line in whole["lines"]} == {
        ("tccc", 0), ("tccc", 1), ("uncoupled", 0), ("uncoupled", 1),
    }  # fmt: skip
    SeriesOut.model_validate(whole, strict=True, extra="forbid")  # it is not rendered by way of its schema
    for line in whole["lines"]:
        assert len(line["cwnd"]) == len(line["time_ns"]) == len(line["ssthresh"]) < line["rows"]
        assert line["time_ns"] == sorted(line["time_ns"])
    ece = [m for m in whole["marks"] if m["kind"] == "ece"]
    assert sum(m["count"] for m in ece) > 3
    first = int(whole["first_ns"])
    part = client.get(
        url, params={"algorithms": "tccc", "from": first + 4_000_000_000, "to": first + 5_000_000_000, "width": 5000}
    ).json()
    line = next(x for x in part["lines"] if x["subflow"] == 0)
    inside = [t for t in line["time_ns"] if 4e9 <= t <= 5e9]
    assert len(line["time_ns"]) - 2 <= len(inside) > 20
    coarse = next(x for x in whole["lines"] if x["subflow"] == 0 and x["algorithm"] == "tccc")
    assert len(inside) > len([t for t in coarse["time_ns"] if 4e9 <= t <= 5e9]), "a zoom shows more"


def test_reduction_keeps_extremes(analysed: dict[str, Any], client: TestClient) -> None:
    url = f"/v1/connections/{mptcp(client, analysed)['id']}/series"
    few = client.get(url, params={"algorithms": "uncoupled", "width": 16}).json()["lines"][0]
    all_of_it = client.get(url, params={"algorithms": "uncoupled", "width": 10000}).json()["lines"][0]
    assert len(few["cwnd"]) < len(all_of_it["cwnd"]) == few["rows"]
    assert max(few["cwnd"]) == max(all_of_it["cwnd"])
    assert min(few["cwnd"]) == min(all_of_it["cwnd"])


def test_series_arrow_and_parquet(analysed: dict[str, Any], client: TestClient) -> None:
    connection = mptcp(client, analysed)
    response = client.get(
        f"/v1/connections/{connection['id']}/series", headers={"Accept": "application/vnd.apache.arrow.stream"}
    )
    table = pa.ipc.open_stream(response.content).read_all()
    assert {"cwnd", "ece", "join"} <= set(table["kind"].to_pylist())
    parquet = pq.read_table(io.BytesIO(client.get(f"/v1/connections/{connection['id']}/acks.parquet").content))
    assert parquet.num_rows == connection["rows"]
    assert parquet["time_ns"].to_pylist() == sorted(parquet["time_ns"].to_pylist())
    assert {"tccc.cwnd", "newreno.ssthresh", "una", "flags"} <= set(parquet.column_names)


def test_replay_with_options(analysed: dict[str, Any], client: TestClient, run_jobs: Run) -> None:
    url = f"/v1/connections/{mptcp(client, analysed)['id']}"
    wanted = {"algorithm": "tccc", "options": {"aca_safe": True, "L": 1}}
    first = client.post(f"{url}/replays", json=wanted)
    assert first.status_code == 202
    assert first.json()["label"] == "tccc(aca_safe=on)"  # L=1 is the default
    assert client.post(f"{url}/replays", json=wanted).json()["id"] == first.json()["id"]
    assert_problem(client.get(f"{url}/series?algorithms=tccc(aca_safe=on)"), 422, "no finished replay")
    run_jobs()
    lines = client.get(f"{url}/series?algorithms=tccc(aca_safe=on),tccc&width=10000").json()["lines"]
    assert {line["algorithm"] for line in lines} == {"tccc", "tccc(aca_safe=on)"}
    replays = client.get(url).json()["replays"]
    assert [r["label"] for r in replays if r["asked_for"]] == ["tccc(aca_safe=on)"]
    table = pq.read_table(io.BytesIO(client.get(f"{url}/acks.parquet").content))
    assert "tccc(aca_safe=on).cwnd" in table.column_names
    assert_problem(client.post(f"{url}/replays", json={"algorithm": "nope"}), 422, "unknown algorithm")
    assert_problem(client.post(f"{url}/replays", json={"algorithm": "tccc", "options": {"x": 1}}), 422, "no option 'x'")


def test_algorithms(client: TestClient) -> None:
    told = client.get("/v1/algorithms").json()["algorithms"]
    assert told == json.loads(json.dumps([a.as_json() for a in rewindow.algorithms()]))


@pytest.mark.parametrize(
    ("content", "state", "said"),
    [
        (b"only text", "failed", "neither pcap nor pcapng"),
        (b"snoop\0\0\0" + bytes(100), "failed", "snoop version 0 is not known"),
        (SAMPLE.read_bytes()[:24], "done", None),
        (SAMPLE.read_bytes()[:100_001], "done", None),
    ],
)
def test_what_is_no_whole_capture(
    client: TestClient, run_jobs: Run, content: bytes, state: str, said: str | None
) -> None:
    capture = client.post("/v1/captures?filename=odd.pcap", content=content, headers=PCAP).json()
    run_jobs()
    found = client.get(f"/v1/captures/{capture['id']}").json()
    assert found["state"] == state
    if said:
        assert said in found["error"]
        assert found["error"].startswith("odd.pcap")
    elif len(content) > 24:
        assert found["summary"]["oddities"]["cut_capture"]["count"] == 1


def test_refused_uploads(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.settings import settings

    assert_problem(client.post("/v1/captures", content=b"", headers=PCAP), 422, "empty")
    form = {"file": ("a.pcap", b"x"), "tag": (None, "site=lab")}
    assert_problem(
        client.post("/v1/captures", files=form), 422, "the field 'tag': a form has one file, and tags are in the"
    )
    two = [("file", ("a.pcap", b"x")), ("file", ("b.pcap", b"y"))]
    assert_problem(client.post("/v1/captures", files=two), 422, "a second file: a form has one file")
    nothing = b"--b--\r\n"
    multipart = {"Content-Type": "multipart/form-data; boundary=b"}
    assert_problem(client.post("/v1/captures", content=nothing, headers=multipart), 422, "has no file")
    assert client.get("/v1/captures").json()["items"] == []
    broken = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nstops here'
    assert_problem(client.post("/v1/captures", content=broken, headers=multipart), 422, "stopped halfway")
    nothing = client.post("/v1/captures", content=b"zzzz", headers=multipart)
    assert nothing.status_code in (400, 422)
    assert_problem(client.post("/v1/captures?tag=novalue", content=b"x", headers=PCAP), 400, "key=value")
    assert_problem(client.post("/v1/captures?tag=a%3D%00b", content=b"x", headers=PCAP), 400, "key=value")
    monkeypatch.setattr(settings(), "upload_bytes_max", 1000)
    assert_problem(client.post("/v1/captures", content=bytes(100_000), headers=PCAP), 413, "at most 1000 bytes")
    chunked = client.post("/v1/captures", content=(bytes(600) for _ in range(3)), headers=PCAP)
    assert_problem(chunked, 413, "at most 1000 bytes")
    assert client.get("/v1/captures").json()["items"] == []


def test_slow_uploads_hold_no_connection(client: TestClient, services: object) -> None:
    """An upload under way must not keep others waiting for the database."""
    from store.database import async_engine

    def slowly() -> Any:
        for _ in range(3):
            assert async_engine().pool.checkedout() == 0  # type: ignore[attr-defined]
            yield SAMPLE.read_bytes()[:1000]

    assert client.post("/v1/captures", content=slowly(), headers=PCAP).status_code == 202


def objects() -> set[str]:
    import obstore

    from store.objects import object_store

    return {entry["path"] for page in obstore.list(object_store()) for entry in page}


def test_nothing_is_left_of_a_refused_upload(client: TestClient) -> None:
    before = objects()
    broken = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + bytes(50_000)
    client.post("/v1/captures", content=broken, headers={"Content-Type": "multipart/form-data; boundary=b"})
    upload(client)
    upload(client)
    assert len(objects() - before) == 1


def stored_rows() -> dict[str, int]:
    """How many rows the tables of results have, seen or unseen."""
    from store.database import engine
    from store.models import Attempt, Connection, ConnectionFact, Deletion, FairnessGroup, Replay, Subflow

    with engine().connect() as database:
        return {
            t.__tablename__: int(database.scalar(select(func.count()).select_from(t)) or 0)
            for t in (Attempt, Connection, ConnectionFact, Deletion, FairnessGroup, Replay, Subflow)
        }


def remove_unseen() -> None:
    """What the sweeper does."""
    from worker.sweeper import remove_once

    remove_once(60)


def test_delete_takes_everything(client: TestClient, run_jobs: Run) -> None:
    run_jobs()  # what other tests left
    remove_unseen()
    before = stored_rows()
    capture = upload(client)
    run_jobs()
    analysed = client.get(f"/v1/captures/{capture['id']}").json()
    connection = mptcp(client, analysed)
    assert any(analysed["id"] in path for path in objects())
    assert stored_rows()["connections"] >= 2
    assert client.delete(f"/v1/captures/{analysed['id']}").status_code == 204
    assert_problem(client.get(f"/v1/captures/{analysed['id']}"), 404, "no such capture")
    assert_problem(client.get(f"/v1/connections/{connection['id']}"), 404, "no such connection")
    assert upload(client)["id"] != analysed["id"], "the same bytes are a new capture"
    remove_unseen()
    assert not any(analysed["id"] in path for path in objects())
    assert stored_rows() == before


def test_another_team_sees_nothing(analysed: dict[str, Any], client: TestClient, other: TestClient) -> None:
    connection = mptcp(client, analysed)["id"]
    capture = analysed["id"]
    assert other.get("/v1/captures").json()["items"] == []
    for url in (
        f"/v1/captures/{capture}", f"/v1/captures/{capture}/connections", f"/v1/captures/{capture}/events",
        f"/v1/connections/{connection}", f"/v1/connections/{connection}/series",
        f"/v1/connections/{connection}/acks.parquet",
    ):  # fmt: skip
        assert_problem(other.get(url), 404, "no such")
    assert_problem(other.delete(f"/v1/captures/{capture}"), 404, "no such capture")
    replay = other.post(f"/v1/connections/{connection}/replays", json={"algorithm": "tccc"})
    assert_problem(replay, 404, "no such connection")
    whatifs = f"/v1/connections/{connection}/whatifs"
    assert_problem(other.post(whatifs, json={"algorithm": "tccc"}), 404, "no such connection")
    assert_problem(other.get(whatifs), 404, "no such connection")
    whatif = "/v1/whatifs/" + client.post(whatifs, json={"algorithm": "tccc"}).json()["id"]
    for answer in (other.get(whatif), other.delete(whatif), other.get(f"{whatif}/events")):
        assert_problem(answer, 404, "no such what-if")
    hook = client.post("/v1/webhooks", json={"name": "x", "url": "https://hooks.example/"}).json()["id"]
    wanted = {"name": "x", "measure": "rtt_us", "threshold": 1, "webhook_id": hook}
    alert = client.post("/v1/alerts", json=wanted).json()["id"]
    for method, url in (
        ("get", f"webhooks/{hook}/deliveries"), ("get", f"webhooks/{hook}/deliveries.csv"),
        ("delete", f"webhooks/{hook}"), ("post", f"webhooks/{hook}/secret"), ("post", f"webhooks/{hook}/test"),
        ("get", f"alerts/{alert}"), ("delete", f"alerts/{alert}"),
    ):  # fmt: skip
        assert_problem(getattr(other, method)(f"/v1/{url}"), 404, "no such")
    for url in (f"webhooks/{hook}", f"alerts/{alert}"):
        assert_problem(other.patch(f"/v1/{url}", json={"name": "y"}), 404, "no such")
        assert client.delete(f"/v1/{url}").status_code == 204
    assert client.delete(whatif).status_code == 204
    assert client.get(f"/v1/captures/{capture}").status_code == 200
    # The same bytes are another capture for another team.
    assert upload(other)["id"] != capture


def test_tokens(client: TestClient, application: TestClient, client_for: Callable[[str], TestClient]) -> None:
    assert_problem(application.get("/v1/captures"), 401, "required")
    assert application.get("/v1/captures").headers["WWW-Authenticate"] == "Bearer"
    assert_problem(client_for("rw_wrong").get("/v1/captures"), 401, "unknown, expired or revoked")
    assert_problem(client_for("wrong").get("/v1/captures"), 401, "not a token of rewindow")
    team = client.get("/v1/teams/me").json()["id"]
    made = client.post(f"/v1/teams/{team}/tokens", json={"name": "ci", "scopes": ["read"]}).json()
    reader = client_for(made["token"])
    assert reader.get("/v1/captures").status_code == 200
    assert_problem(reader.post("/v1/captures", content=b"x"), 403, "lacks the scope 'write'")
    assert_problem(reader.get(f"/v1/teams/{team}/tokens"), 403, "lacks the scope 'admin'")
    listed = client.get(f"/v1/teams/{team}/tokens").json()
    assert made["token"] not in json.dumps(listed)
    assert_problem(client.get(f"/v1/teams/{uuid.uuid4()}/tokens"), 404, "no such team")
    assert client.delete(f"/v1/teams/{team}/tokens/{made['id']}").status_code == 204
    assert_problem(reader.get("/v1/captures"), 401, "unknown, expired or revoked")
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    late = client.post(f"/v1/teams/{team}/tokens", json={"name": "x", "expires_at": past})
    assert_problem(late, 422, "past")


def test_an_expired_token(client_for: Callable[[str], TestClient], services: object) -> None:
    from store.database import engine
    from store.models import Token
    from store.tokens import token_hash

    token = make_token(["read"])
    assert client_for(token).get("/v1/captures").status_code == 200
    with engine().begin() as connection:
        connection.execute(
            Token.__table__.update()  # type: ignore[attr-defined]
            .where(Token.hash == token_hash(token))
            .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
        )
    assert_problem(client_for(token).get("/v1/captures"), 401, "expired")


def test_sessions_of_two_dashboards_on_one_host(application: TestClient, token: str, services: object) -> None:
    """A browser sends the cookies of both to both."""

    def ask(method: str, port: str, path: str, **kw: Any) -> Any:
        cookies = "; ".join(f"{n}={v}" for n, v in kept.items())
        application.cookies.clear()
        host = {"Host": f"lab.example{port}", "Origin": f"http://lab.example{port}", "Cookie": cookies}
        response = application.request(method, path, headers=host, **kw)
        for name, value in response.cookies.items():
            kept[name] = value
        return response

    kept: dict[str, str] = {}
    tokens = {":8000": token, ":8001": make_token(["read"]), "": make_token(["read"])}
    teams = {p: ask("POST", p, "/v1/session", json={"token": t}).json()["team_id"] for p, t in tokens.items()}
    assert len(set(teams.values())) == len(kept) == 3
    for port, team in teams.items():
        assert ask("GET", port, "/v1/teams/me").json()["id"] == team
    assert ask("DELETE", ":8001", "/v1/session").status_code == 204
    assert [ask("GET", p, "/v1/teams/me").status_code for p in teams] == [200, 401, 200]
    assert ask("GET", ":x", "/v1/teams/me").json()["id"] == teams[""]


def test_pages_neither_skip_nor_repeat(client: TestClient) -> None:
    made = []
    for i in range(7):
        content = SAMPLE.read_bytes()[: 1000 + i]
        response = client.post(f"/v1/captures?tag=half={i % 2}", content=content, headers=PCAP)
        made.append(response.json()["id"])
    seen, cursor = [], None
    while True:
        page = client.get("/v1/captures", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        seen += [c["id"] for c in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert len(client.get("/v1/captures?tag=half=1").json()["items"]) == 3
    assert client.get("/v1/captures?state=done").json()["items"] == []
    for bad in ("nonsense", "WyJhIl0", "WzEsMl0", "%00", "WyJhIiwiYiJd"):
        assert_problem(client.get(f"/v1/captures?cursor={bad}"), 400, "cursor")
    assert_problem(client.get("/v1/captures?limit=0"), 422, "limit")


def cursor_of(*parts: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def test_each_list_knows_its_own_cursors(analysed: dict[str, Any], client: TestClient) -> None:
    url = f"/v1/captures/{analysed['id']}/connections"
    first = client.get(url, params={"limit": 1}).json()
    second = client.get(url, params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert [c["number"] for c in first["items"] + second["items"]] == [0, 1]
    assert second["next_cursor"] is None
    assert client.get(url, params={"cursor": cursor_of("1")}).json() == {"items": [], "next_cursor": None}
    for bad in (cursor_of("-1"), cursor_of(str(2**63)), cursor_of("1.5"), cursor_of(), cursor_of("1", "2")):
        assert_problem(client.get(url, params={"cursor": bad}), 400, "cursor")
    assert_problem(client.get("/v1/captures", params={"cursor": first["next_cursor"]}), 400, "cursor")
    for time in ("2026-01-01T00:00:00", "2026-13-01T00:00:00+00:00", "yesterday"):
        assert_problem(client.get("/v1/captures", params={"cursor": cursor_of(time, str(uuid.uuid4()))}), 400, "cursor")


def test_events_end_with_the_result(analysed: dict[str, Any], client: TestClient) -> None:
    response = client.get(f"/v1/captures/{analysed['id']}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert json.loads(response.text.split("data: ")[1])["state"] == "done"


def test_health(application: TestClient) -> None:
    assert application.get("/healthz").json() == {"status": "ok"}
    assert set(application.get("/readyz").json().values()) == {"ok"}
    metrics = application.get("/metrics").text
    assert 'rewindow_queue_length{queue="rewindow"}' in metrics
    assert 'rewindow_jobs{state="failed"}' in metrics


def test_unknown_routes_and_ids(client: TestClient) -> None:
    assert_problem(client.get("/v1/nothing"), 404, "")
    assert_problem(client.get("/v1/captures/not-an-id"), 422, "capture_id")
    assert_problem(client.get(f"/v1/captures/{uuid.uuid4()}"), 404, "no such capture")
    assert "/v1/captures" in client.get("/v1/openapi.json").json()["paths"]
