"""What-ifs in parts: whoever runs which part, and however often one breaks off, the answer is that of the library."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

import rewindow
from rewindow.core import Choice
from rewindow.reports import whatifs
from rewindow.whatif import WhatIf, observe
from tests.service.test_api import SAMPLE, Run, assert_problem, mptcp, upload
from tests.service.test_jobs import in_transaction
from tests.service.test_whatifs import ask

RUNS = 12


@pytest.fixture
def sample(client: TestClient, run_jobs: Run) -> dict[str, Any]:
    capture = upload(client)
    run_jobs()
    return mptcp(client, capture)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs, in parts of ten, however fast the machine is; and nothing is kept from another test."""
    from rewindow.whatif import fitting
    from worker import what_if

    monkeypatch.setattr(fitting, "WORK_PACKETS", 0)
    monkeypatch.setattr(what_if, "PART_S", 0.0)
    monkeypatch.setattr(what_if, "runs_of_a_part", lambda seconds_per_run: 10)
    what_if.forget()


def jobs_of(whatif: dict[str, Any], state: str | None = None) -> list[Any]:
    """Of the what-if and its fit, by place in the queue."""
    from store.database import engine
    from store.models import Fit, Job

    table = Job.__table__
    connection = uuid.UUID(whatif["connection_id"])
    fit = select(Fit.id).where(Fit.connection_id == connection)
    query = select(table).where((table.c.whatif_id == uuid.UUID(whatif["id"])) | table.c.fit_id.in_(fit))
    with engine().connect() as database:
        found = database.execute(query.order_by(table.c.queued_at, table.c.id)).all()
    return [job for job in found if state is None or job.state == state]


def parts(whatif: dict[str, Any]) -> list[Any]:
    """Of the what-if and its fit."""
    from store.database import engine
    from store.models import Fit, Part

    fit = select(Fit.id).where(Fit.connection_id == uuid.UUID(whatif["connection_id"]))
    own = (Part.whatif_id == uuid.UUID(whatif["id"])) | Part.fit_id.in_(fit)
    with engine().connect() as database:
        return list(database.execute(select(Part.__table__).where(own).order_by(Part.batch, Part.first_run)))


def run_one(job_id: uuid.UUID) -> None:
    """As a process that knows nothing of the parts before."""
    from worker import tasks, what_if

    what_if.forget()
    tasks.run_job(job_id)


def died(job_id: uuid.UUID) -> None:
    """The job's worker: its lease runs out, and the sweeper sees it."""
    from store import jobs
    from store.database import engine
    from store.models import Job

    with engine().begin() as database:
        gone = {"lease_until": func.now() - timedelta(seconds=1)}
        database.execute(update(Job).where(Job.id == job_id).values(**gone))
    assert job_id in in_transaction(jobs.sweep)


def read(client: TestClient, whatif: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/whatifs/{whatif['id']}").json())


def until_parts_wait(whatif: dict[str, Any]) -> list[Any]:
    while not (waiting := [job for job in jobs_of(whatif) if job.batch is not None]):
        run_one(jobs_of(whatif)[0].id)
    return waiting


def test_the_answer_is_the_librarys_whoever_runs_which_part(client: TestClient, sample: dict[str, Any]) -> None:
    """The last parts first, each by a fresh process. No run is made twice, and none is left out."""
    asked = ask(client, sample, "cubic", repeat=RUNS)
    seen, handed_out = [0.0], 0
    while waiting := jobs_of(asked, "queued"):
        handed_out += waiting[-1].batch is not None
        run_one(waiting[-1].id)
        seen.append(read(client, asked)["progress"])
    assert handed_out >= 6, "cut into parts"
    assert seen == sorted(seen)
    assert seen[-1] == 1
    with rewindow.open(SAMPLE) as capture:
        truth = WhatIf(observe(capture)).ask(sample["number"], Choice("cubic"), runs=RUNS)
    found = read(client, asked)
    assert (found["state"], found["result"]) == ("done", json.loads(json.dumps(whatifs.prediction(truth))))
    assert len(found["result"]["flights"]["times_s"]) <= 200
    for of in ("fit_id", "whatif_id"):
        batches: dict[int, int] = {}
        for part in (p for p in parts(asked) if getattr(p, of) is not None):
            assert part.first_run == batches.get(part.batch, 0)
            batches[part.batch] = part.first_run + part.runs
        assert len(set(batches.values())) == 1, "batches of one fit are equally long"
    assert {p.rows is None for p in parts(asked) if p.whatif_id is not None} == {True}, "the answer has replaced them"
    assert jobs_of(asked) == []


def test_a_batch_is_cut_where_runs_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from store.jobs import Runs
    from worker import what_if
    from worker.what_if import cut

    monkeypatch.undo()
    assert what_if.runs_of_a_part(0.3) == 3
    assert what_if.runs_of_a_part(2.5) == 1, "a run is not cut"
    some = [Runs(2, 0, 2), Runs(2, 2, 2), Runs(2, 4, 1), Runs(2, 8, 2), Runs(2, 10, 1)]
    assert cut(2, [(0, 5), (8, 11)], 2) == some
    assert cut(0, [(0, 3)], 1) == [Runs(0, i, 1) for i in range(3)]


def test_what_ifs_of_a_connection_share_its_fit(client: TestClient, sample: dict[str, Any], run_jobs: Run) -> None:
    first, second = (ask(client, sample, name, repeat=2) for name in ("cubic", "tccc"))
    run_jobs()
    assert [read(client, w)["state"] for w in (first, second)] == ["done", "done"]
    before = [p.id for p in parts(first) if p.fit_id is not None]
    third = ask(client, sample, "olia", repeat=2)
    run_jobs()
    assert read(client, third)["result"]["algorithm"] == "olia"
    assert [p.id for p in parts(third) if p.fit_id is not None] == before


def test_a_part_whose_worker_died_is_run_again_and_counts_once(client: TestClient, sample: dict[str, Any]) -> None:
    from store import jobs
    from store import parts as stored

    asked = ask(client, sample, "cubic", repeat=2)
    job = until_parts_wait(asked)[0]
    dead = in_transaction(jobs.claim, job.id)
    assert dead.part == jobs.Runs(job.batch, job.first_run, job.runs)
    died(job.id)
    successor = in_transaction(jobs.claim, job.id)
    with pytest.raises(jobs.JobLost):
        in_transaction(stored.hold, dead)
    assert in_transaction(stored.hold, successor)
    died(job.id)
    run_one(job.id)
    assert [p.runs for p in parts(asked) if (p.batch, p.first_run) == (job.batch, job.first_run)] == [job.runs]
    with pytest.raises(jobs.JobLost):
        in_transaction(stored.hold, successor)
    while waiting := jobs_of(asked, "queued"):
        run_one(waiting[0].id)
    assert read(client, asked)["state"] == "done"


def test_a_cancelled_what_if_leaves_no_job_and_no_unfinished_fit(client: TestClient, sample: dict[str, Any]) -> None:
    from store import jobs
    from worker import tasks

    first, second = (ask(client, sample, name, repeat=2) for name in ("cubic", "tccc"))
    while not any(job.batch == 1 for job in jobs_of(first)):
        run_one(jobs_of(first, "queued")[0].id)
    running = in_transaction(jobs.claim, jobs_of(first, "queued")[-1].id)
    assert client.delete(f"/v1/whatifs/{first['id']}").status_code == 204
    assert {job.kind for job in jobs_of(second)} == {"fit", "whatif"}, "the other one needs the fit"
    assert client.delete(f"/v1/whatifs/{second['id']}").status_code == 204
    assert (jobs_of(second), parts(second)) == ([], [])
    with pytest.raises(jobs.JobLost):
        in_transaction(jobs.report, running, "simulating", 0.5)
    again = ask(client, sample, "cubic", repeat=2)
    while waiting := jobs_of(again, "queued"):
        tasks.run_job(waiting[0].id)
    assert read(client, again)["state"] == "done"
    made = {p.batch for p in parts(again) if p.fit_id is not None}
    assert made == set(range(len(made))), "what the process has kept is of the fit that is gone"


def test_a_fit_that_fails_fails_those_that_wait_and_can_be_asked_for_again(
    client: TestClient, sample: dict[str, Any]
) -> None:
    from store import jobs

    asked = ask(client, sample, "cubic", repeat=2)
    waiting = until_parts_wait(asked)
    assert len(waiting) > 1
    assert (read(client, asked)["state"], read(client, asked)["stage"]) == ("running", "fitting")
    taken = in_transaction(jobs.claim, waiting[0].id)
    in_transaction(jobs.fail, taken, "it took too long")
    failed = read(client, asked)
    assert (failed["state"], failed["error"]) == ("failed", "it took too long")
    assert jobs_of(asked, "queued") == []
    done = len(parts(asked))
    assert ask(client, sample, "cubic", repeat=2)["state"] == "queued"
    assert len(parts(asked)) == done, "what was simulated is kept"
    while waiting := jobs_of(asked, "queued"):
        run_one(waiting[0].id)
    assert read(client, asked)["state"] == "done"


def test_who_asks_while_a_part_of_a_failed_fit_still_runs_is_answered(
    client: TestClient, sample: dict[str, Any]
) -> None:
    """The what-if's job sees that somebody works on the fit, and ends. The last of them begins the fit anew."""
    from store import jobs
    from store import parts as stored

    asked = ask(client, sample, "cubic", repeat=2)
    failing, running = (in_transaction(jobs.claim, job.id) for job in until_parts_wait(asked)[:2])
    in_transaction(jobs.fail, failing, "it took too long")
    again = ask(client, sample, "cubic", repeat=2)
    run_one(jobs_of(again, "queued")[0].id)
    assert [job.id for job in jobs_of(again, "queued")] == []
    assert not in_transaction(stored.hold, running), "its fit has failed"
    assert in_transaction(stored.leave_failed, running) == 1, "somebody has to be told"
    while waiting := jobs_of(again, "queued"):
        run_one(waiting[0].id)
    assert read(client, again)["state"] == "done"


def test_a_capture_is_deleted_in_the_middle(client: TestClient, sample: dict[str, Any]) -> None:
    asked = ask(client, sample, "cubic", repeat=2)
    until_parts_wait(asked)
    assert client.delete(f"/v1/captures/{sample['capture_id']}").status_code == 204
    assert_problem(client.get(f"/v1/whatifs/{asked['id']}"), 404, "no such what-if")
    assert (jobs_of(asked), parts(asked)) == ([], [])
