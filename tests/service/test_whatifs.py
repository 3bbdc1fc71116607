"""What-ifs over REST, on a real PostgreSQL, Redis and object store; jobs run as the worker's own task body."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, func, select, text, update

from deploy.run import Services
from tests.service.test_api import SAMPLE, Run, assert_problem, mptcp, upload
from tests.service.test_exports import assert_alike
from tests.service.test_jobs import alembic, in_transaction, new_database

SHORT_BYTES = 20_000
"""Of the sample: too few to tell what its senders ran, so that the answer costs no simulation."""


@pytest.fixture
def connection(client: TestClient, run_jobs: Run, tmp_path: Path) -> dict[str, Any]:
    """Of a capture that tells too little."""
    path = tmp_path / "short.pcap"
    path.write_bytes(SAMPLE.read_bytes()[:SHORT_BYTES])
    capture = upload(client, path)
    run_jobs()
    return mptcp(client, capture)


def ask(client: TestClient, connection: dict[str, Any], algorithm: str = "tccc", **wanted: Any) -> dict[str, Any]:
    response = client.post(f"/v1/connections/{connection['id']}/whatifs", json={"algorithm": algorithm, **wanted})
    assert response.status_code == 202, response.text
    assert response.headers["Location"] == f"/v1/whatifs/{response.json()['id']}"
    return dict(response.json())


def job_of(whatif: dict[str, Any]) -> Any:
    from store.database import engine
    from store.models import Job

    with engine().connect() as database:
        return database.execute(
            select(Job.__table__).where(Job.__table__.c.whatif_id == uuid.UUID(whatif["id"]))
        ).one_or_none()


def fail(whatif: dict[str, Any]) -> None:
    """As a job that has used up its attempts."""
    from store import jobs

    taken = in_transaction(jobs.claim, job_of(whatif).id)
    in_transaction(jobs.fail, taken, "it took too long")


def simulated(whatif: dict[str, Any]) -> list[dict[str, Any]]:
    """The connection that is asked about, and those beside it."""
    return [whatif["result"], *whatif["result"]["neighbours"]]


def row_of(whatif: dict[str, Any], connection: dict[str, Any], metric: str) -> dict[str, Any]:
    result = whatif["result"]
    calibrated = result["calibration"].get(metric) if connection is result else None
    return {
        **{name: whatif[name] for name in ("id", "label", "settings", "everyone", "state")},
        "verdict": result["verdict"],
        "reason": result["reason"],
        "connection": connection["id"],
        "metric": metric,
        "recorded": connection["recorded"][metric],
        "simulated": calibrated and calibrated["simulated"],
        "predicted": connection["predicted"].get(metric),
        "change": connection["change"].get(metric),
    }


def test_a_what_if_from_request_to_prediction(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)
    run_jobs()
    connection = mptcp(client, capture)
    wanted = {"options": {"aca_md": "half"}, "repeat": 6, "settings": {"path2.rate": "20M"}}
    asked = ask(client, connection, " TCCC", **wanted)
    assert (asked["label"], asked["state"], asked["result"]) == ("tccc(aca_md=half)", "queued", None)
    assert (asked["settings"], asked["repeat"], asked["everyone"]) == ({"path2.rate": "20M"}, 6, False)
    assert ask(client, connection, "tccc", **wanted)["id"] == asked["id"], "the same request twice is one what-if"
    assert ask(client, connection, "tccc", **wanted, everyone=True)["id"] != asked["id"]
    run_jobs()
    whatif = client.get(f"/v1/whatifs/{asked['id']}").json()
    assert (whatif["state"], whatif["progress"], whatif["error"]) == ("done", 1, None)
    assert whatif["created_at"] < whatif["finished_at"]
    found = whatif["result"]
    assert (found["id"], found["verdict"], found["reason"]) == (connection["number"], "ok", None)
    assert (found["algorithm"], found["runs"]) == ("tccc(aca_md=half)", 6)
    assert found["recorded"]["goodput_bps"] == pytest.approx(connection["goodput_bps"], rel=1e-5)
    goodput = found["predicted"]["goodput_bps"]
    assert 0 < goodput["low"] < goodput["median"] < goodput["high"]
    assert found["calibration"]["goodput_bps"]["simulated"]["median"] > 0
    [beside] = found["neighbours"]
    assert beside["id"] == 1 - connection["number"]
    assert set(beside["harm"]) == {"goodput_without_bps", "recorded", "predicted", "change"}
    assert beside["harm"]["goodput_without_bps"]["median"] > beside["predicted"]["goodput_bps"]["median"]
    assert len(found["subflow_shares"]) == 2
    assert found["source"] in (["bytes"], ["time"])
    listed = client.get(f"/v1/connections/{connection['id']}/whatifs").json()["items"]
    assert [w["everyone"] for w in listed] == [True, False], "newest first"
    assert listed[1] == whatif
    told = [row_of(w, c, metric) for w in listed for c in simulated(w) for metric in c["recorded"]]
    assert_alike(client, f"/v1/connections/{connection['id']}/whatifs", "", told)
    assert {(t["connection"], t["metric"]) for t in told} >= {(n, "goodput_bps") for n in (0, 1)}
    (event,) = client.get(f"/v1/whatifs/{asked['id']}/events").text.split("\n\n")[:-1]
    assert json.loads(event.split("data: ")[1]) == {n: whatif[n] for n in ("state", "stage", "progress", "error")}


def test_harm_of_before_is_taken_out_of_stored_answers(services: Services) -> None:
    """It was what a neighbour loses, compared with the recorded algorithm, which a downgrade tells of new answers."""
    url = new_database(services)
    alembic(services, url, "upgrade 0035")
    database = create_engine(url)
    goodput = {"goodput_bps": {"median": -0.25, "low": -0.5, "high": 0.125}}
    was = {"median": 0.25, "low": -0.125, "high": 0.5}
    beside = [{"id": 7, "change": goodput, "harm": was}, {"id": 3, "change": {}, "harm": None}]
    results: list[Any] = [{"verdict": "ok", "neighbours": beside}, {"verdict": "ok", "neighbours": []}, None]
    with database.begin() as connection:
        connection.execute(text("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'a')"))
        connection.execute(
            text(
                "INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key)"
                " SELECT gen_random_uuid(), id, sha256('a'), 1, 'a', '' FROM teams"
            )
        )
        for number, result in enumerate(results):
            connection.execute(
                text(
                    "INSERT INTO whatifs (id, capture_id, connection_id, connection_number, label, algorithm, repeat,"
                    " everyone, settings, state, result) SELECT gen_random_uuid(), id, gen_random_uuid(), :number,"
                    " 'cubic', 'cubic', 48, false, '{}', cast(:state AS state), cast(:result AS jsonb) FROM captures"
                ),
                {
                    "number": number, "state": "queued" if result is None else "done",
                    "result": None if result is None else json.dumps(result),
                },
            )  # fmt: skip

    def found() -> list[Any]:
        with database.connect() as connection:
            return list(connection.scalars(text("SELECT result FROM whatifs ORDER BY connection_number")))

    alembic(services, url, "upgrade 0036")
    without = [n | {"harm": None} for n in beside]
    assert found() == [{"verdict": "ok", "neighbours": without}, *results[1:]]
    alembic(services, url, "downgrade 0035")
    assert found() == results
    database.dispose()


def test_that_nothing_can_be_said_is_an_answer(client: TestClient, connection: dict[str, Any], run_jobs: Run) -> None:
    asked = ask(client, connection)
    run_jobs()
    whatif = client.get(f"/v1/whatifs/{asked['id']}").json()
    assert (whatif["state"], whatif["error"]) == ("done", None)
    found = whatif["result"]
    assert (found["verdict"], found["predicted"]) == ("cannot_say", {})
    assert found["reason"] == "the algorithm that it ran is not known"
    assert found["recorded"]["goodput_bps"] == pytest.approx(connection["goodput_bps"], rel=1e-5)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"algorithm": "tcccc"}, "unknown algorithm 'tcccc'; there are: "),
        ({"algorithm": "tccc", "options": {"aca": "half"}}, "tccc has no option 'aca'"),
        ({"algorithm": "tccc", "options": {"L": 0}}, "tccc: option L takes 0.125 to 1024 segments, not '0'"),
        ({"algorithm": "cubic", "options": {"mode": "paper"}}, "mode=paper: a what-if simulates mode=kernel"),
        ({"algorithm": "tccc", "repeat": 0}, "repeat"),
        ({"algorithm": "tccc", "repeat": 401}, "repeat"),
        ({"algorithm": "tccc", "setting": {}}, "setting"),
        ({"algorithm": "tccc", "settings": {"path3.rate": "20M"}}, "unknown setting 'path3.rate'; there are: path"),
        ({"algorithm": "tccc", "settings": {"path0.rate": "20M"}}, "with N from 1 to 2"),
        ({"algorithm": "tccc", "settings": {"rate": "20M"}}, "unknown setting 'rate'"),
        ({"algorithm": "tccc", "settings": {"path1.rate": "20 M"}}, "takes 1k to 100G bit/s, as 20M, not '20 M'"),
        ({"algorithm": "tccc", "settings": {"path1.rate": "-1M"}}, "path1.rate takes"),
        ({"algorithm": "tccc", "settings": {"path1.rate": 1e400}}, "path1.rate takes"),
        ({"algorithm": "tccc", "settings": {"path1.queue": "1.5"}}, "takes 1 to 1000000 packets, not '1.5'"),
        ({"algorithm": "tccc", "settings": {"path1.loss": "60%"}}, "path1.loss takes a share from 0 to 0.5"),
        ({"algorithm": "tccc", "settings": {"path1.rtt": "20s"}}, "path1.rtt takes"),
        ({"algorithm": "tccc", "settings": {"send_buffer": "1"}}, "send_buffer takes 4096 to 1G bytes, not '1'"),
        ({"algorithm": "tccc", "settings": {"source": "much"}}, "source takes one of bytes, time, clock, requests"),
        ({"algorithm": "tccc", "settings": {"source": 1}}, "source takes one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_at_once(
    client: TestClient, connection: dict[str, Any], wanted: dict[str, Any], said: str
) -> None:
    url = f"/v1/connections/{connection['id']}/whatifs"
    response = client.post(url, content=json.dumps(wanted), headers={"Content-Type": "application/json"})
    assert_problem(response, 422, said)
    assert client.get(url).json()["items"] == []


def test_the_worker_takes_every_setting_that_the_api_takes() -> None:
    """Bounds included, in each way to write them: the two do not share code."""
    from api.whatifs.settings import SOURCES, checked
    from rewindow.whatif.network import Bottleneck, Network
    from rewindow.whatif.prediction import changed, read_settings
    from rewindow.whatif.sources import KINDS, Source

    network = Network(
        bottlenecks=(Bottleneck(1e6, 10.0, None, 0.0), Bottleneck(2e6, None, None, 0.0)),
        members=(((0, 0.01), (1, 0.02)),),
        sources=(Source(None, None),),
        send_buffers_bytes=(4e6,),
    )
    second = network.bottlenecks[1]
    assert SOURCES == KINDS

    def of(settings: dict[str, str | int | float]) -> Network:
        return changed(network, 0, read_settings(checked(settings, 2), 2))

    for field, key, values in (
        ("rate_bps", "rate", {"1k": 1e3, "1000": 1e3, "20M": 2e7, "1.5M": 1.5e6, 2000000: 2e6, "100G": 1e11}),
        ("queue_packets", "queue", {"1": 1, 1000000: 1e6}),
        ("ecn_packets", "ecn", {"1": 1, "1000000": 1e6}),
        ("loss", "loss", {"0": 0, 0.5: 0.5, "50%": 0.5, "0.01": 0.01, 1e-7: 1e-7}),
        ("jitter_s", "jitter", {"0": 0, "2ms": 0.002, 0.5: 0.5, 1: 1.0}),
    ):
        for given, value in values.items():
            made = of({f"path2.{key}": given})
            assert made.bottlenecks[1] == replace(second, **{field: pytest.approx(value)}), (key, given)
            assert made.bottlenecks[0] == network.bottlenecks[0]
    for given, seconds in {"0.0001": 1e-4, "0.1ms": 1e-4, "20ms": 0.02, 10: 10.0}.items():
        assert of({"path1.rtt": given}).members == (((0, pytest.approx(seconds)), (1, 0.02)),)
    sizes = [of({"send_buffer": given}).send_buffers_bytes for given in ("4096", "16M", "1G")]
    assert sizes == [(4096,), (16e6,), (1e9,)]


def test_a_deleted_what_if_is_cancelled(client: TestClient, connection: dict[str, Any]) -> None:
    from store import jobs

    waiting, running = ask(client, connection), ask(client, connection, everyone=True)
    taken = in_transaction(jobs.claim, job_of(running).id)
    in_transaction(jobs.begin, taken)
    assert client.get(f"/v1/whatifs/{running['id']}").json()["state"] == "running"
    for whatif in (waiting, running):
        assert client.delete(f"/v1/whatifs/{whatif['id']}").status_code == 204
        assert job_of(whatif) is None
        assert_problem(client.get(f"/v1/whatifs/{whatif['id']}"), 404, "no such what-if")
    with pytest.raises(jobs.JobLost):
        in_transaction(jobs.report, taken, "simulating", 0.5)


def test_what_ifs_go_with_their_capture(client: TestClient, connection: dict[str, Any], run_jobs: Run) -> None:
    done = ask(client, connection)
    run_jobs()
    waiting = ask(client, connection, everyone=True)
    assert client.delete(f"/v1/captures/{connection['capture_id']}").status_code == 204
    for whatif in (done, waiting):
        assert job_of(whatif) is None
        assert_problem(client.get(f"/v1/whatifs/{whatif['id']}"), 404, "no such what-if")


def test_a_what_if_that_failed_begins_anew(client: TestClient, connection: dict[str, Any], run_jobs: Run) -> None:
    first, second = ask(client, connection), ask(client, connection, everyone=True)
    fail(first)
    fail(second)
    failed = client.get(f"/v1/whatifs/{first['id']}").json()
    assert (failed["state"], failed["error"]) == ("failed", "it took too long")
    assert failed["finished_at"] is not None
    again = ask(client, connection)
    assert (again["id"], again["state"], again["error"]) == (first["id"], "queued", None)
    assert again["finished_at"] is None
    assert client.get(f"/v1/whatifs/{second['id']}").json()["state"] == "failed", "of the same capture"
    run_jobs()
    assert client.get(f"/v1/whatifs/{first['id']}").json()["state"] == "done"


def test_a_capture_is_retried_without_its_what_ifs(client: TestClient, connection: dict[str, Any]) -> None:
    from store.database import engine
    from store.models import Capture, Job

    whatif = ask(client, connection)
    fail(whatif)
    capture = uuid.UUID(connection["capture_id"])
    with engine().begin() as database:
        database.execute(update(Capture).where(Capture.id == capture).values(state="failed"))
        database.execute(update(Job).where(Job.capture_id == capture).values(state="failed"))
    assert client.post(f"/v1/captures/{capture}/retry").status_code == 202
    assert job_of(whatif).state == "failed"


def test_a_worker_that_lost_a_what_if_writes_nothing(
    client: TestClient, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from store import jobs
    from store.database import engine
    from store.models import Job
    from worker import tasks, what_if

    real = what_if.observe
    whatif = ask(client, connection)
    job = job_of(whatif)

    def taken_over_meanwhile(capture: Any) -> Any:
        with engine().begin() as database:
            gone = {"lease_until": func.now() - timedelta(seconds=1)}
            database.execute(update(Job).where(Job.id == job.id).values(**gone))
        assert in_transaction(jobs.claim, job.id) is not None
        return real(capture)

    monkeypatch.setattr(what_if, "observe", taken_over_meanwhile)
    tasks.run_job(job.id)
    found = client.get(f"/v1/whatifs/{whatif['id']}").json()
    assert (found["state"], found["result"]) == ("running", None)
    assert job_of(whatif).fence == 2


def test_a_connection_has_so_many_what_ifs(
    client: TestClient, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from api.whatifs import service

    monkeypatch.setattr(service, "WHATIFS_MAX", 1)
    asked = ask(client, connection)
    url = f"/v1/connections/{connection['id']}/whatifs"
    refused = client.post(url, json={"algorithm": "cubic"})
    assert_problem(refused, 422, "a connection has at most 1 what-ifs: delete some")
    assert ask(client, connection)["id"] == asked["id"]


def test_the_jobs_of_a_team_are_bounded(
    client: TestClient, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.settings import settings

    monkeypatch.setattr(settings(), "team_jobs_max", 1)
    ask(client, connection)
    url = f"/v1/connections/{connection['id']}/whatifs"
    refused = client.post(url, json={"algorithm": "cubic"})
    assert_problem(refused, 429, "a team may have 1 jobs that wait or run")
    assert [w["algorithm"] for w in client.get(url).json()["items"]] == ["tccc"]
