"""What a team does not want to keep any longer is deleted, and nothing else is."""

from __future__ import annotations

import os
import threading
import uuid
from datetime import timedelta
from random import Random
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, insert, select, text, update

from deploy.run import Services
from store import objects
from store.database import engine
from store.models import Capture, Job, JobKind, Replay, SegmentSeries, State, Team
from store.retention import Due, Policy
from store.settings import settings
from tests.service.conftest import Client
from tests.service.test_api import PCAP, SAMPLE, Run, assert_problem, mptcp, upload
from tests.service.test_exports import assert_alike
from tests.service.test_members import team_url, token_of
from worker import retention
from worker.collector import collect_once, remove_deleted

FOR_EVER = {"raw_days": None, "series_days": None, "metrics_days": None}


def keep(client: TestClient, **days: int) -> dict[str, Any]:
    answer = client.put(f"{team_url(client)}/retention", json={**FOR_EVER, **days})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["due"])


def due(client: TestClient, **days: int) -> dict[str, Any]:
    """As the page has it, and as files have it."""
    address = f"{team_url(client)}/retention/due"
    answer = client.get(address, params=days)
    assert answer.status_code == 200, answer.text
    query = "&".join(f"{name}={n}" for name, n in days.items())
    assert_alike(client, address, f"?{query}", [{"kind": k} | v for k, v in answer.json().items()])
    return dict(answer.json())


def grow_old(capture: dict[str, Any], days: int = 40) -> None:
    """As if it, and what was asked about it, were so much older."""
    back = text(f"interval '{days} days'")
    capture_id = uuid.UUID(capture["id"])
    with engine().begin() as database:
        database.execute(update(Capture).where(Capture.id == capture_id).values(uploaded_at=Capture.uploaded_at - back))
        for table in (Replay, SegmentSeries):
            its = table.capture_id == capture_id
            database.execute(update(table).where(its).values(created_at=table.created_at - back))


def team_of(client: TestClient) -> uuid.UUID:
    return uuid.UUID(client.get("/v1/teams/me").json()["id"])


def stored_of(*captures: uuid.UUID | str) -> dict[str, int]:
    """The objects in these folders, with their bytes."""
    return {
        entry["path"]: entry["size"]
        for capture in captures
        for entry in obstore.list(objects.object_store(), prefix=f"captures/{capture}").collect()
    }


def let_age(key: str) -> None:
    """As if the object had been stored long ago."""
    path = f"{urlsplit(settings().store_url).path}/{key}"
    past = os.stat(path).st_mtime - 7200
    os.utime(path, (past, past))


def capture_of(client: TestClient, capture: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/captures/{capture['id']}").json())


def counted(application: TestClient, kind: str) -> tuple[float, float]:
    lines = dict(line.rsplit(" ", 1) for line in application.get("/metrics").text.splitlines() if line[0] != "#")
    of = f'{{kind="{kind}"}}'
    return float(lines[f"rewindow_retention_captures_total{of}"]), float(lines[f"rewindow_retention_bytes_total{of}"])


@pytest.fixture(autouse=True)
def _only_this_team(services: Services) -> None:
    """Teams of earlier tests keep all."""
    with engine().begin() as database:
        database.execute(update(Team).values(FOR_EVER))


@pytest.fixture
def analysed(client: TestClient, run_jobs: Run) -> dict[str, Any]:
    capture = upload(client)
    run_jobs()
    return capture_of(client, capture)


def test_owners_decide_and_all_see_what_would_go(client: TestClient, client_for: Client) -> None:
    viewer, url = client_for(token_of(client, "viewer")["token"]), f"{team_url(client)}/retention"
    assert {n: d for n, d in viewer.get(url).json().items() if n != "due"} == FOR_EVER
    assert_problem(viewer.put(url, json=FOR_EVER), 403, "is a viewer")
    capture = upload(client)
    with engine().begin() as database:
        database.execute(update(Job).where(Job.capture_id == uuid.UUID(capture["id"])).values(state=State.failed))
    grow_old(capture)
    nothing = {"captures": 0, "bytes": 0, "bytes_are_exact": True, "oldest": None, "newest": None, "at_work": 0}
    whole = {**nothing, "captures": 1, "bytes": capture["bytes"]}
    assert due(viewer, raw_days=41) == {"raw": nothing, "series": nothing, "metrics": nothing}
    raw = due(viewer, raw_days=40)["raw"]
    assert raw == {**whole, "oldest": raw["oldest"], "newest": raw["oldest"]}
    both = due(viewer, raw_days=10, metrics_days=40)
    assert (both["raw"]["captures"], both["metrics"]["captures"]) == (0, 1), "what goes as a whole counts once"
    for wrong, told in (
        ({"raw_days": 31, "metrics_days": 30}, "raw_days: 31 days are longer than the 30 of metrics_days"),
        ({"series_days": 31, "metrics_days": 30}, "series_days: 31 days are longer"),
        ({"raw_days": 0}, "greater than or equal to 1"),
    ):
        assert_problem(client.put(url, json={**FOR_EVER, **wrong}), 422, told)
        assert_problem(viewer.get(f"{url}/due", params=wrong), 422, told)
    assert_problem(client.put(url, json={"raw_days": 3}), 422, "series_days")
    assert client.put(url, json={"raw_days": 5, "series_days": None, "metrics_days": 5}).json()["raw_days"] == 5
    assert viewer.get(url).json()["metrics_days"] == 5
    event = client.get(f"{team_url(client)}/audit?action=change_settings").json()["items"][0]
    change = {"raw_days": 5, "metrics_days": 5}
    assert event["detail"] == {"before": dict.fromkeys(change), "after": change}


def test_a_stored_copy_goes_and_its_metrics_stay(
    analysed: dict[str, Any], client: TestClient, application: TestClient, run_jobs: Run
) -> None:
    connection = f"/v1/connections/{mptcp(client, analysed)['id']}"
    young = client.post("/v1/captures", content=SAMPLE.read_bytes()[:5000], headers=PCAP).json()
    run_jobs()
    grow_old(analysed)
    before, usage = client.get(connection).json(), client.get(f"{team_url(client)}/usage").json()
    would_go = keep(client, raw_days=30)["raw"]
    assert (would_go["captures"], would_go["bytes"]) == (1, analysed["bytes"])
    counts = counted(application, "raw")
    assert retention.retain_once(60)["raw"] == would_go["captures"]
    assert retention.retain_once(60).total() == 0, "it is done once"
    assert counted(application, "raw") == (counts[0] + 1, counts[1] + would_go["bytes"])

    now = capture_of(client, analysed)
    assert now == {**analysed, "uploaded_at": now["uploaded_at"], "raw_deleted_at": now["raw_deleted_at"]}
    assert now["raw_deleted_at"] is not None
    assert capture_of(client, young)["raw_deleted_at"] is None
    assert {key.rsplit("/")[-1] for key in stored_of(analysed["id"])} == {"acks-1.parquet", "marks-1.parquet"}
    left = client.get(f"{team_url(client)}/usage").json()
    assert (left["captures"], left["bytes"]) == (usage["captures"], usage["bytes"] - analysed["bytes"])
    (event,) = client.get(f"{team_url(client)}/audit?member=retention").json()["items"]
    assert (event["action"], event["object_id"], event["token_id"]) == ("delete", analysed["id"], None)
    assert event["detail"] == {"what": "raw", "bytes": analysed["bytes"], "days": 30}

    told = "the stored copy of this capture was deleted by retention on "
    assert_problem(client.get(f"/v1/captures/{analysed['id']}/file"), 410, told)
    assert client.get(connection).json() == {**before, "raw_deleted_at": now["raw_deleted_at"]}
    assert client.get(f"{connection}/series").status_code == 200
    for what, body in (
        ("replays", {"algorithm": "lia"}), ("whatifs", {"algorithm": "lia"}), ("segments", None),
    ):  # fmt: skip
        assert_problem(client.post(f"{connection}/{what}", json=body), 409, told)
    assert client.post(f"{connection}/replays", json={"algorithm": "tccc"}).json()["state"] == "done", "it is there"
    assert_problem(client.post("/v1/model-checks", json={"connection": before["id"]}), 409, told)
    sweep = client.post(
        "/v1/whatifs", json={"selection": {"connection_ids": [before["id"]]}, "algorithms": ["lia"]}
    ).json()
    assert (sweep["whatifs"], sweep["refused"][0]["reason"]) == (
        0, "retention has deleted the stored copies of their captures",
    )  # fmt: skip
    with engine().connect() as database:
        own = Job.team_id == uuid.UUID(client.get("/v1/teams/me").json()["id"])
        waiting = select(func.count()).where(own, Job.state == State.queued)
        assert database.scalar(waiting) == 0, "a refusal leaves nothing behind"


def test_the_same_file_again_is_the_copy_of_the_same_capture(
    analysed: dict[str, Any], client: TestClient, run_jobs: Run
) -> None:
    grow_old(analysed)
    keep(client, raw_days=30)
    assert retention.retain_once(60)["raw"] == 1
    again = upload(client)
    assert (again["id"], again["already_here"], again["restored"], again["state"]) == (
        analysed["id"],
        True,
        True,
        "done",
    )
    assert again["raw_deleted_at"] is None
    assert client.get(f"/v1/captures/{analysed['id']}/file").content == SAMPLE.read_bytes()
    assert retention.retain_once(60).total() == 0, "its age counts from this upload"
    third = upload(client)
    assert (third["id"], third["already_here"], third["restored"]) == (analysed["id"], True, False)

    with engine().connect() as database:
        key = database.scalar(select(Capture.object_key).where(Capture.id == uuid.UUID(analysed["id"])))
    assert key is not None
    let_age(key)
    collect_once()
    replay = client.post(f"/v1/connections/{mptcp(client, analysed)['id']}/replays", json={"algorithm": "lia"})
    assert replay.status_code == 202
    run_jobs()
    replays = client.get(f"/v1/connections/{mptcp(client, analysed)['id']}").json()["replays"]
    assert {r["label"]: r["state"] for r in replays}["lia"] == "done"
    assert client.delete(f"/v1/captures/{analysed['id']}").status_code == 204
    remove_deleted()
    assert stored_of(analysed["id"], objects.upload_of(key) or "") == {}


def test_an_analysis_that_failed_begins_anew_with_the_same_file(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)
    capture_id = uuid.UUID(capture["id"])
    with engine().begin() as database:
        database.execute(update(Job).where(Job.capture_id == capture_id).values(state=State.failed))
        database.execute(update(Capture).where(Capture.id == capture_id).values(state=State.failed, error="a fault"))
    grow_old(capture)
    keep(client, raw_days=30)
    assert retention.retain_once(60)["raw"] == 1
    assert_problem(client.post(f"/v1/captures/{capture['id']}/retry"), 409, "deleted by retention")
    again = upload(client)
    assert (again["id"], again["restored"], again["state"]) == (capture["id"], True, "queued")
    run_jobs()
    assert capture_of(client, capture)["state"] == "done"


def test_series_go_and_a_replay_makes_its_own(analysed: dict[str, Any], client: TestClient, run_jobs: Run) -> None:
    connection = f"/v1/connections/{mptcp(client, analysed)['id']}"
    for what, body in (("replays", {"algorithm": "lia"}), ("segments", None)):
        assert client.post(f"{connection}/{what}", json=body).status_code == 202
    run_jobs()
    before = client.get(connection).json()
    whole = client.get(f"{connection}/series?algorithms=tccc;lia&recorded=flight&width=10000").json()
    grow_old(analysed)
    would_go = keep(client, series_days=30)["series"]
    objects_of_series = {key: n for key, n in stored_of(analysed["id"]).items() if not key.endswith("/capture")}
    assert len(objects_of_series) == 4
    assert would_go["bytes"] == sum(objects_of_series.values())
    assert (would_go["captures"], would_go["bytes_are_exact"]) == (1, True)
    assert retention.retain_once(60)["series"] == 1
    assert retention.retain_once(60).total() == 0

    assert [key.rsplit("/")[-1] for key in stored_of(analysed["id"])] == ["capture"]
    after = client.get(connection).json()
    assert {r["label"]: r["windows"] for r in after["replays"]} == {r["label"]: r["windows"] for r in before["replays"]}
    assert {r["has_series"] for r in before["replays"]} == {True}
    assert {r["has_series"] for r in after["replays"]} == {False}
    told = "the series were deleted by retention on "
    for what in ("series", "series?algorithms=tccc", "sequence", "acks", "acks.csv", "acks.parquet"):
        assert_problem(client.get(f"{connection}/{what}"), 410, told)

    # One of the analysis' own algorithms, and one that was asked for.
    for name in ("tccc", "lia"):
        answer = client.post(f"{connection}/replays", json={"algorithm": name})
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")
        assert answer.json()["windows"] or name == "tccc"
    shown = {r["label"]: r for r in client.get(connection).json()["replays"]}
    assert (shown["tccc"]["state"], shown["tccc"]["windows"]) == ("queued", before["replays"][4]["windows"])
    run_jobs()
    found = client.get(f"{connection}/series?algorithms=tccc;lia&recorded=flight&width=10000").json()
    assert (found["lines"], found["recorded"]) == (whole["lines"], whole["recorded"])
    assert_problem(client.get(f"{connection}/series?algorithms=cubic"), 410, told)
    assert client.get(f"{connection}/acks?algorithms=lia&limit=3").json()["rows"]
    assert client.get(f"{connection}/sequence?algorithms=tccc").json()["lines"]
    assert client.get(f"{connection}/acks.parquet").status_code == 200
    assert due(client, series_days=30)["series"]["captures"] == 0, "they are as young as the requests"
    grow_old(analysed)
    assert retention.retain_once(60)["series"] == 1
    assert [key.rsplit("/")[-1] for key in stored_of(analysed["id"])] == ["capture"]


def test_metrics_go_with_all_that_a_capture_has(analysed: dict[str, Any], client: TestClient) -> None:
    connection = f"/v1/connections/{mptcp(client, analysed)['id']}"
    grow_old(analysed)
    would_go = keep(client, raw_days=20, series_days=20, metrics_days=30)
    assert [would_go[kind]["captures"] for kind in ("raw", "series", "metrics")] == [0, 0, 1]
    assert would_go["metrics"]["bytes"] == sum(stored_of(analysed["id"]).values())
    assert {kind: n for kind, n in retention.retain_once(60).items() if n} == {"metrics": 1}
    for gone in (f"/v1/captures/{analysed['id']}", connection):
        assert client.get(gone).status_code == 404
    assert client.get("/v1/connections").json()["total"] == 0
    remove_deleted()
    assert stored_of(analysed["id"]) == {}
    (event,) = client.get(f"{team_url(client)}/audit?member=retention").json()["items"]
    assert (event["object_name"], event["detail"]["what"]) == (SAMPLE.name, "metrics")
    again = upload(client)
    assert (again["already_here"], again["state"]) == (False, "queued")


def test_nothing_goes_while_a_job_needs_it(analysed: dict[str, Any], client: TestClient, run_jobs: Run) -> None:
    """A job that waits, and one that a request is just adding when the sweeper comes."""
    days = {"raw_days": 30, "series_days": 30, "metrics_days": 35}
    connection = f"/v1/connections/{mptcp(client, analysed)['id']}"
    client.post(f"{connection}/replays", json={"algorithm": "lia"})
    grow_old(analysed)
    would_go = keep(client, **days)["metrics"]
    assert (would_go["captures"], would_go["at_work"]) == (0, 1)
    assert retention.retain_once(60).total() == 0
    run_jobs()
    team_id, capture_id = uuid.UUID(client.get("/v1/teams/me").json()["id"]), uuid.UUID(analysed["id"])
    its_jobs = update(Job).where(Job.capture_id == capture_id, Job.replay_id.is_not(None))
    deleted: list[bool] = []
    sweeper = threading.Thread(target=lambda: deleted.append(retention._delete(team_id, capture_id, "metrics")))
    with engine().begin() as request:
        request.execute(select(Team.id).where(Team.id == team_id).with_for_update(key_share=True))
        sweeper.start()
        waits = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%metrics_days%'"
        )
        with engine().connect() as watch:
            while sweeper.is_alive() and not watch.execute(waits).scalar_one():
                watch.rollback()
        request.execute(its_jobs.values(state=State.queued, finished_at=None))
    sweeper.join()
    assert deleted == [False]
    run_jobs()
    with engine().begin() as database:
        database.execute(update(Team).where(Team.id == team_id).values(metrics_days=50))
    assert not retention._delete(team_id, capture_id, "metrics"), "the team has changed its mind meanwhile"
    assert capture_of(client, analysed)["state"] == "done"
    keep(client, **days)
    assert retention.retain_once(60)["metrics"] == 1


def test_a_sweeper_that_dies_leaves_objects_to_the_collector(
    client: TestClient, run_jobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(Exception):
        pass

    def die(*keys: str) -> None:
        raise Died

    capture = client.post("/v1/captures", content=SAMPLE.read_bytes()[:6000], headers=PCAP).json()
    run_jobs()
    grow_old(capture)
    keep(client, raw_days=30)
    with monkeypatch.context() as m:
        m.setattr(objects, "delete_keys", die)
        with pytest.raises(Died):
            retention.retain_once(60)
    key = objects.capture_key(capture["id"])
    assert key in stored_of(capture["id"])
    assert retention.retain_once(60)["raw"] == 0
    let_age(key)
    collect_once()
    assert key not in stored_of(capture["id"])
    assert len(stored_of(capture["id"])) == 2, "its series are named"


Part = tuple[str | None, int | None, int]
"""A replay or segments: the object's key, its bytes and its age in days."""


def drawn(client: TestClient, random: Random, count: int) -> list[dict[str, Any]]:
    """Captures of the client's team that have all kinds of series, as rows: nobody reads their objects."""
    team_id, found = team_of(client), []
    with engine().begin() as database:
        for number in range(count):
            own = random.choice([None, 0, 300])
            capture: dict[str, Any] = {
                "id": uuid.uuid4(),
                "age": random.choice([10, 40]),
                "bytes": number + 1,
                "own": own,
            }
            for name in ("replays", "segments"):
                sizes = random.choice([(), (5,), (7, 11)])
                capture[name] = [(random.choice([None, "key", "key"]), n, random.choice([10, 40])) for n in sizes]
            found.append(capture)
            database.execute(
                insert(Capture).values(
                    id=capture["id"], team_id=team_id, sha256=os.urandom(32), bytes=capture["bytes"], filename="x",
                    object_key="x", state=State.done, uploaded_at=days_ago(capture["age"]), series_bytes=own,
                    acks_key=None if own is None else "acks",
                )
            )  # fmt: skip
            for place, (key, size, age) in enumerate(capture["replays"]):
                of_replay = {"label": f"r{place}", "algorithm": "lia", "acks_key": key, "state": State.done}
                add_part(database, Replay, capture["id"], size if key else None, age, of_replay)
            for key, size, age in capture["segments"]:
                of_segments = {"object_key": key, "state": State.done if key else State.queued}
                add_part(database, SegmentSeries, capture["id"], size if key else None, age, of_segments)
    return found


def days_ago(days: int) -> Any:
    return func.now() - timedelta(days=days)


def add_part(database: Any, table: Any, capture: uuid.UUID, size: int | None, age: int, values: dict[str, Any]) -> None:
    its = {"id": uuid.uuid4(), "capture_id": capture, "connection_id": uuid.uuid4(), "connection_number": 0}
    database.execute(insert(table).values(**its, series_bytes=size, created_at=days_ago(age), **values))


def test_what_would_go_is_counted_exactly(client: TestClient, other: TestClient) -> None:
    """Beside a count in Python; other teams, younger series and those that are gone do not count."""
    captures = drawn(client, Random(4), 60)
    drawn(other, Random(5), 10)

    def parts(capture: dict[str, Any], least_age: int) -> list[Part]:
        return [p for p in capture["replays"] + capture["segments"] if p[0] and p[2] > least_age]

    old = [c for c in captures if c["age"] == 40]
    with_series = [c for c in old if c["own"] is not None or parts(c, 30)]
    assert 0 < len(with_series) < len(old) < len(captures)
    series = due(client, series_days=30)["series"]
    expected = sum((c["own"] or 0) + sum(p[1] or 0 for p in parts(c, 30)) for c in with_series)
    assert (series["captures"], series["bytes"], series["bytes_are_exact"]) == (len(with_series), expected, True)
    whole = due(client, metrics_days=30)["metrics"]
    all_of_old = sum(c["bytes"] + (c["own"] or 0) + sum(p[1] or 0 for p in parts(c, 0)) for c in old)
    assert (whole["captures"], whole["bytes"], whole["bytes_are_exact"]) == (len(old), all_of_old, True)

    (busy, *_) = (c for c in with_series if c["own"] and parts(c, 30))
    job = {"id": uuid.uuid4(), "team_id": team_of(client), "capture_id": busy["id"], "kind": JobKind.analyze}
    with engine().begin() as database:
        database.execute(insert(Job).values(**job, state=State.queued))
    left = due(client, series_days=30)["series"]
    with engine().begin() as database:
        database.execute(delete(Job).where(Job.id == job["id"]))
    its_bytes = busy["own"] + sum(p[1] or 0 for p in parts(busy, 30))
    found = (left["captures"], left["at_work"], left["bytes"])
    assert found == (len(with_series) - 1, 1, expected - its_bytes), "nothing of it goes"

    (one, *_) = (c for c in with_series if len(c["replays"]) == 2 and all(p[0] and p[2] == 40 for p in c["replays"]))
    with engine().begin() as database:
        its = (Replay.capture_id == one["id"], Replay.label == "r0")
        database.execute(update(Replay).where(*its).values(series_bytes=None))
    unknown = due(client, series_days=30)["series"]
    assert (unknown["bytes"], unknown["bytes_are_exact"]) == (expected - one["replays"][0][1], False)
    assert {*retention._due(team_of(client), Due("series", Policy(None, 30, None)))} == {c["id"] for c in with_series}
