"""Sweeps over REST: what-ifs of many connections at once, and what would have been over all of them."""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, func, select, update

from api.connections import replays
from store.database import engine
from store.models import Capture, WhatIf
from tests.service.test_api import SAMPLE, Run, assert_problem
from tests.service.test_exports import assert_alike, csv_of
from tests.service.test_jobs import in_transaction
from tests.service.test_whatifs import SHORT_BYTES

CAPTURES = 3


@pytest.fixture
def connections(client: TestClient, run_jobs: Run, tmp_path: Path) -> list[dict[str, Any]]:
    """Of captures that tell too little, so that their what-ifs cost no simulation: two each, one of MPTCP."""
    for place in range(CAPTURES):
        path = tmp_path / f"short-{place}.pcap"
        path.write_bytes(SAMPLE.read_bytes()[: SHORT_BYTES - 500 * place])
        assert client.post("/v1/captures", content=path.read_bytes(), params={"tag": f"site={'ab'[place % 2]}"})
    run_jobs()
    return list(client.get("/v1/connections", params={"sort": "first_ns"}).json()["items"])


def ask(client: TestClient, selection: dict[str, Any], *algorithms: Any, **wanted: Any) -> dict[str, Any]:
    body = {"selection": selection, "algorithms": list(algorithms) or ["tccc"], **wanted}
    response = client.post("/v1/whatifs", json=body)
    assert response.status_code == 202, response.text
    assert response.headers["Location"] == f"/v1/sweeps/{response.json()['id']}"
    return dict(response.json())


def read(client: TestClient, sweep: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/sweeps/{sweep['id']}").json())


def swept(client: TestClient, sweep: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return list(client.get(f"/v1/sweeps/{sweep['id']}/whatifs", params=wanted).json()["items"])


def test_a_sweep_is_one_request_with_one_progress(
    client: TestClient, connections: list[dict[str, Any]], run_jobs: Run
) -> None:
    assert len(connections) == 2 * CAPTURES
    two = ("olia", {"algorithm": "tccc", "options": {"aca_md": "half"}})
    settings = [{}, {"path2.rate": "20M"}]
    asked = ask(client, {"tag": ["site=a"]}, *two, "olia", settings=settings, repeat=2)
    assert (asked["connections"], asked["captures"]) == (4, 2)
    assert asked["algorithms"] == ["olia", "tccc(aca_md=half)"], "each once"
    assert asked["refused"] == [{"reason": "the settings name a subflow that it does not have", "connections": 2}]
    assert (asked["whatifs"], asked["waiting"], asked["state"], asked["progress"]) == (8, 8, "running", 0)
    again = ask(client, {"tag": ["site=a"]}, *two, settings=settings, repeat=2)
    assert (again["id"], again["whatifs"]) == (asked["id"], 8), "the same request twice is one sweep"
    run_jobs()
    found = read(client, asked)
    assert (found["state"], found["done"], found["waiting"], found["progress"]) == ("done", 8, 0, 1)
    assert [(a["label"], a["settings"]) for a in found["answers"]] == [
        (label, network) for label in asked["algorithms"] for network in settings
    ]
    for answer in found["answers"]:
        said = [{"reason": "the algorithm that it ran is not known", "connections": 2}]
        assert (answer["asked"], answer["predicted"], answer["cannot_say"]) == (2, 0, said)
        assert answer["measures"] == {}
    told = csv_of(client, f"/v1/sweeps/{asked['id']}/answers.csv")
    assert [(r["label"], r["predicted"], r["measure"], r["recorded_sum"]) for r in told] == [
        (answer["label"], "0", "", "") for answer in found["answers"]
    ]
    own = swept(client, asked, label="olia")
    assert {w["connection_id"] for w in own} < {c["id"] for c in connections if c["kind"] == "mptcp"}
    assert {(w["label"], w["state"], w["verdict"]) for w in own} == {("olia", "done", "cannot_say")}
    (event,) = client.get(f"/v1/sweeps/{asked['id']}/events").text.split("\n\n")[:-1]
    assert json.loads(event.split("data: ")[1]) == {
        n: found[n] for n in ("state", "progress", "whatifs", "waiting", "running", "done", "failed")
    }
    assert [s["id"] for s in client.get("/v1/sweeps").json()["items"]] == [asked["id"]]


def answer_with(values: dict[uuid.UUID, float]) -> None:
    """Stores predictions, as workers do: of each connection its goodput as recorded and `values` times it."""
    from store.database import engine
    from store.models import Job, WhatIf

    with engine().begin() as database:
        for number, (connection, ratio) in enumerate(values.items()):
            of = WhatIf.connection_id == connection
            recorded = {"goodput_bps": 1e6 * (number + 1), "retransmitted_packets": 10.0}
            result = {
                "verdict": "ok", "reason": None, "better": 0.95 if ratio > 1 else 0.05, "recorded": recorded,
                "predicted": {
                    "goodput_bps": {"median": recorded["goodput_bps"] * ratio, "low": 1.0, "high": 9e9},
                    "retransmitted_packets": {"median": 4.0, "low": 1.0, "high": 9.0},
                },
                "calibration": {
                    "goodput_bps": {"simulated": {"median": recorded["goodput_bps"] / 2, "low": 1.0, "high": 9e9}},
                },
                "change": {
                    "goodput_bps": {"median": ratio - 1, "low": -0.9, "high": 9.0},
                    "retransmitted_packets": {"median": -6.0, "low": -7.0, "high": 1.0},
                },
            }  # fmt: skip
            database.execute(delete_jobs(Job, WhatIf, of))
            database.execute(update(WhatIf).where(of).values(state="done", result=result, finished_at=func.now()))


def delete_jobs(job: Any, whatif: Any, of: Any) -> Any:
    from sqlalchemy import delete

    return delete(job).where(job.whatif_id.in_(select(whatif.id).where(of)))


def test_what_would_have_been_over_a_selection(client: TestClient, connections: list[dict[str, Any]]) -> None:
    """Sums, medians and paired differences; the interval is that of captures, not of connections."""
    asked = ask(client, {"connection_ids": [c["id"] for c in connections]}, "tccc", everyone=True)
    ratios = [1.1, 1.2, 0.9, 1.5, 1.3, 1.25]
    answer_with(dict(zip([uuid.UUID(c["id"]) for c in connections], ratios, strict=True)))
    found = read(client, asked)
    (answer,) = found["answers"]
    assert (answer["asked"], answer["predicted"], answer["more"], answer["less"]) == (6, 6, 5, 1)
    goodput = answer["measures"]["goodput_bps"]
    recorded = [1e6 * (i + 1) for i in range(6)]
    predicted = [r * x for r, x in zip(recorded, ratios, strict=True)]
    assert (goodput["connections"], goodput["captures"]) == (6, CAPTURES)
    assert goodput["recorded"] == {"sum": sum(recorded), "median": 3.5e6}
    assert goodput["simulated"] == {"sum": sum(recorded) / 2, "median": 1.75e6}
    assert answer["measures"]["retransmitted_packets"]["simulated"] is None
    assert goodput["predicted"]["sum"] == pytest.approx(sum(predicted))
    logs: dict[str, list[float]] = {}
    for c, ratio in zip(connections, ratios, strict=True):
        logs.setdefault(c["capture_id"], []).append(math.log(ratio))
    mean = sum(sum(own) for own in logs.values()) / 6
    error = math.sqrt(sum((sum(own) - mean * len(own)) ** 2 for own in logs.values()) * 3 / 2) / 6
    t = 4.302652729911275  # 97.5 % of Student's distribution with 2 degrees of freedom
    assert goodput["change"]["mean"] == pytest.approx(math.expm1(mean))
    assert goodput["change"]["low"] == pytest.approx(math.expm1(mean - t * error))
    assert goodput["change"]["high"] == pytest.approx(math.expm1(mean + t * error))
    assert answer["measures"]["retransmitted_packets"]["change"] == {"mean": -6, "low": -6, "high": -6}
    own = swept(client, asked)
    assert {w["recorded_bps"] for w in own} == set(recorded)
    assert {w["better"] for w in own} == {0.95, 0.05}
    url = f"/v1/sweeps/{asked['id']}"
    assert_alike(client, f"{url}/whatifs", "", own)
    assert_alike(client, f"{url}/whatifs", "?label=tccc&limit=2", own[:2])
    assert csv_of(client, f"{url}/whatifs.csv?label=olia") == []
    assert_alike(client, "/v1/sweeps", "", client.get("/v1/sweeps").json()["items"])
    of_measures = [
        {
            **{n: v for n, v in answer.items() if n != "measures"},
            **{"measure": name, "connections": m["connections"], "captures": m["captures"]},
            **{f"{of}_{n}": v for of in ("recorded", "predicted", "change") for n, v in m[of].items()},
            **{f"simulated_{n}": (m["simulated"] or {}).get(n) for n in ("sum", "median")},
        }
        for name, m in answer["measures"].items()
    ]
    assert_alike(client, f"{url}/answers", "", of_measures)


def test_what_finishes_while_it_is_read_is_counted_in_all_sums_or_in_none(
    client: TestClient, connections: list[dict[str, Any]]
) -> None:
    """The first what-if is finished after each statement that has read what-ifs of the sweep."""
    from store.database import async_engine

    asked = ask(client, {"connection_ids": [c["id"] for c in connections]}, "tccc")
    first, *_ = (uuid.UUID(c["id"]) for c in connections)
    statements = 0

    def finish(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal statements
        if statement.startswith("SELECT") and "sweep_whatifs" in statement:
            statements += 1
            answer_with({first: 1.5})

    event.listen(async_engine().sync_engine, "after_cursor_execute", finish)
    try:
        before = read(client, asked)
    finally:
        event.remove(async_engine().sync_engine, "after_cursor_execute", finish)
    assert statements > 1
    assert (before["done"], [(a["predicted"], a["measures"]) for a in before["answers"]]) == (0, [(0, {})])
    after = read(client, asked)
    assert (after["done"], after["answers"][0]["predicted"]) == (1, 1)
    assert after["answers"][0]["measures"]["goodput_bps"]["connections"] == 1


def test_a_cancelled_sweep_keeps_what_is_done_and_what_others_asked_for(
    client: TestClient, connections: list[dict[str, Any]], run_jobs: Run
) -> None:
    done = ask(client, {"connection_ids": [connections[0]["id"]]}, "tccc")
    run_jobs()
    both = ask(client, {"connection_ids": [c["id"] for c in connections[:3]]}, "tccc")
    assert (both["whatifs"], both["done"], both["waiting"]) == (3, 1, 2)
    other = ask(client, {"connection_ids": [connections[1]["id"]]}, "tccc")
    assert client.delete(f"/v1/sweeps/{both['id']}").status_code == 204
    assert_problem(client.get(f"/v1/sweeps/{both['id']}"), 404, "no such sweep")

    def whatifs(connection: dict[str, Any]) -> list[str]:
        items = client.get(f"/v1/connections/{connection['id']}/whatifs").json()["items"]
        return [w["state"] for w in items]

    assert [whatifs(c) for c in connections[:3]] == [["done"], ["queued"], []]
    run_jobs()
    assert read(client, other)["state"] == "done"
    assert client.delete(f"/v1/captures/{connections[0]['capture_id']}").status_code == 204
    assert (read(client, done)["whatifs"], read(client, done)["state"]) == (0, "done")


def test_what_failed_begins_anew_with_the_same_request(
    client: TestClient, connections: list[dict[str, Any]], run_jobs: Run
) -> None:
    from store import jobs
    from store.database import engine
    from store.models import Job

    selection = {"connection_ids": [c["id"] for c in connections[:2]]}
    asked = ask(client, selection)
    with engine().connect() as database:
        own = select(WhatIf.id).where(WhatIf.connection_id.in_(uuid.UUID(i) for i in selection["connection_ids"]))
        queued = select(Job.id).where(Job.state == "queued", Job.kind == "whatif", Job.whatif_id.in_(own))
        first = database.scalars(queued.limit(1)).one()
    in_transaction(jobs.fail, in_transaction(jobs.claim, first), "it took too long")
    assert (read(client, asked)["failed"], read(client, asked)["waiting"]) == (1, 1)
    again = ask(client, selection)
    assert (again["failed"], again["waiting"]) == (0, 2)
    run_jobs()
    assert read(client, asked)["done"] == 2


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"selection": {}}, "the selection is empty"),
        ({"selection": {"tag": []}}, "the selection is empty"),
        ({"selection": {"colour": "red"}}, "colour"),
        ({"selection": {"kind": "udp"}}, "kind"),
        ({"algorithms": []}, "algorithms"),
        ({"algorithms": ["tcccc"]}, "unknown algorithm 'tcccc'; there are: "),
        ({"algorithms": [{"algorithm": "tccc", "options": {"aca": "half"}}]}, "tccc has no option 'aca'"),
        ({"algorithms": ["cubic"], "options": {"mode": "paper"}}, "mode=paper: a what-if simulates mode=kernel"),
        ({"settings": []}, "settings"),
        ({"settings": [{"path1.rate": "fast"}]}, "path1.rate takes"),
        ({"repeat": 401}, "repeat"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(client: TestClient, wanted: dict[str, Any], said: str) -> None:
    body = {"selection": {"kind": "tcp"}, "algorithms": ["tccc"], **wanted}
    assert_problem(client.post("/v1/whatifs", json=body), 422, said)
    assert client.get("/v1/sweeps").json()["items"] == []


def test_a_selection_of_nothing_is_refused(client: TestClient, connections: list[dict[str, Any]]) -> None:
    for selection in ({"port": ["1"]}, {"q": "no such file"}):
        body = {"selection": selection, "algorithms": ["tccc"]}
        assert_problem(client.post("/v1/whatifs", json=body), 422, "no connection has all of these filters")
    assert client.get("/v1/sweeps").json()["items"] == []


def test_all_is_asked_for_or_nothing(
    client: TestClient, connections: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from api.sweeps import service
    from store.settings import settings

    body = {"selection": {"kind": "tcp"}, "algorithms": ["tccc", "olia"]}
    with monkeypatch.context() as patch:
        patch.setattr(service, "WHATIFS_MAX", 2 * CAPTURES - 1)
        assert_problem(client.post("/v1/whatifs", json=body), 422, "this selects more than 2 connections with 2 each")
        too_large = client.post("/v1/whatifs", json={**body, "sample": 3})
        assert_problem(too_large, 422, "with 2 for each connection, sample at most 2")
    with monkeypatch.context() as patch:
        patch.setattr(settings(), "team_jobs_max", 2 * CAPTURES - 1)
        assert_problem(client.post("/v1/whatifs", json=body), 429, "this one has 0 and asks for 6 more")
    assert client.get("/v1/sweeps").json()["items"] == []
    assert client.post("/v1/whatifs", json=body).json()["waiting"] == 2 * CAPTURES


def asked_of(client: TestClient, sweep: dict[str, Any]) -> set[str]:
    return {w["connection_id"] for w in swept(client, sweep)}


def test_a_random_sample_of_the_selected_connections_is_asked_about(
    client: TestClient, connections: list[dict[str, Any]], run_jobs: Run, tmp_path: Path
) -> None:
    """The same ones each time; of a selection that has grown those that a first request would choose."""
    one, two = ask(client, {"kind": "tcp"}, sample=1), ask(client, {"kind": "tcp"}, "tccc", "olia", sample=2)
    assert (one["connections"], one["captures"], one["sample"], one["whatifs"]) == (CAPTURES, 1, 1, 1)
    assert (two["connections"], two["captures"], two["sample"], two["whatifs"]) == (CAPTURES, 2, 2, 4)
    assert asked_of(client, one) < asked_of(client, two) < {c["id"] for c in connections}
    enough = ask(client, {"kind": "tcp"}, sample=CAPTURES + 1)
    assert (enough["connections"], enough["captures"], enough["whatifs"]) == (CAPTURES, CAPTURES, CAPTURES)
    assert ask(client, {"kind": "tcp"})["sample"] is None
    given = {"connection_ids": [c["id"] for c in connections] + [str(uuid.uuid4())]}
    partly = ask(client, given, sample=2)
    assert (partly["connections"], partly["whatifs"]) == (len(connections) + 1, 2)
    assert [r["connections"] for r in partly["refused"]] == [1], "of the given ids one is of no connection"

    for place in range(4):
        path = tmp_path / f"later-{place}.pcap"
        path.write_bytes(SAMPLE.read_bytes()[: SHORT_BYTES - 500 * (CAPTURES + place)])
        assert client.post("/v1/captures", content=path.read_bytes()).status_code == 202
    run_jobs()
    own = sorted(c["id"] for c in client.get("/v1/connections", params={"kind": "tcp"}).json()["items"])
    again = ask(client, {"kind": "tcp"}, sample=1)
    assert (again["id"], again["connections"], again["whatifs"]) == (one["id"], CAPTURES + 4, 1)
    assert asked_of(client, again) == {own[0]}


def test_another_team_sees_no_sweep(client: TestClient, connections: list[dict[str, Any]], other: TestClient) -> None:
    asked = ask(client, {"connection_ids": [connections[0]["id"]]})
    url = f"/v1/sweeps/{asked['id']}"
    for answer in (
        other.get(url), other.delete(url), other.get(f"{url}/events"), other.get(f"{url}/whatifs"),
        other.get(f"{url}/whatifs.csv"), other.get(f"{url}/answers.parquet"),
    ):  # fmt: skip
        assert_problem(answer, 404, "no such sweep")
    assert csv_of(other, "/v1/sweeps.csv") == []
    assert other.get("/v1/sweeps").json()["items"] == []
    theirs = ask(other, {"connection_ids": [connections[0]["id"]]})
    assert (theirs["whatifs"], [r["connections"] for r in theirs["refused"]]) == (0, [1])
    assert theirs["id"] != asked["id"]
    assert read(client, asked)["waiting"] == 1


def test_many_replays_are_requested_at_once(
    client: TestClient, other: TestClient, connections: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts; one that is there is not begun again, and what cannot be replayed is counted."""
    monkeypatch.setattr(replays, "REQUESTED_AT_ONCE", 2)
    one = connections[0]
    assert client.post(f"/v1/connections/{one['id']}/replays", json={"algorithm": "olia"}).is_success
    with engine().begin() as database:
        gone = update(Capture).where(Capture.id == uuid.UUID(connections[-1]["capture_id"]))
        database.execute(gone.values(raw_deleted_at=func.clock_timestamp()))
    wanted: dict[str, Any] = {"selection": {"kind": "mptcp"}, "algorithm": "olia", "options": {}}
    mptcp = [c for c in connections if c["kind"] == "mptcp"]
    left = [c for c in mptcp if c["capture_id"] != connections[-1]["capture_id"]]
    parts: list[dict[str, Any]] = []
    while not parts or parts[-1]["next_cursor"]:
        cursor = {"cursor": parts[-1]["next_cursor"]} if parts else {}
        answer = client.post("/v1/replays", json={**wanted, **cursor})
        assert answer.status_code == 202, answer.text
        parts.append(answer.json())
    assert len(parts) == 2
    assert sum(p["done"] for p in parts) == len(left)
    assert sum(p["begun"] for p in parts) == len([c for c in left if c["id"] != one["id"]])
    (refused,) = [r for p in parts for r in p["refused"]]
    assert refused["connections"] == len(mptcp) - len(left)
    assert "retention" in refused["reason"]
    for c in left:
        assert "olia" in [r["label"] for r in client.get(f"/v1/connections/{c['id']}").json()["replays"]]
    empty = {"selection": {"capture_ids": [c["capture_id"] for c in connections]}, "algorithm": "olia"}
    assert other.post("/v1/replays", json=empty).json()["done"] == 0
    assert_problem(client.post("/v1/replays", json={**wanted, "algorithm": "none"}), 422, "unknown algorithm")
    assert_problem(client.post("/v1/replays", json={**wanted, "selection": {}}), 422, "the selection is empty")
