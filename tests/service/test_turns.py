"""Whose job a worker takes: the teams of a queue are served in turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, select, text, update

from deploy.run import Services
from store import jobs
from store.database import engine
from store.jobs import CHECKS_QUEUE, QUEUE, Claim
from store.models import ALONE_FROM, Job, State
from store.teams import ensure_team
from worker.tasks import run_next

Enqueue = Callable[[int], list[uuid.UUID]]

MANY = """
WITH made AS (
    INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key)
    SELECT gen_random_uuid(), :team, sha256(gen_random_uuid()::text::bytea), 1, 'x', 'none'
    FROM generate_series(1, :count) RETURNING id
)
INSERT INTO jobs (id, kind, team_id, capture_id, queued_at)
SELECT gen_random_uuid(), 'analyze', :team, id, clock_timestamp() FROM made RETURNING id
"""


@pytest.fixture(autouse=True)
def nothing_waits(services: Services) -> Iterator[None]:
    """Jobs that other tests left are nobody's turn."""
    with engine().begin() as connection:
        connection.execute(
            update(Job).where(Job.state == State.queued).values(not_before=text("clock_timestamp() + interval '1 day'"))
        )
    yield
    with engine().begin() as connection:
        connection.execute(text("DELETE FROM teams WHERE name LIKE 'turn-%'"))


@pytest.fixture
def team() -> Callable[[], Enqueue]:
    """Makes a team, and gives what queues so many jobs for it."""

    def make() -> Enqueue:
        with engine().begin() as connection:
            team_id = ensure_team(connection, f"turn-{uuid.uuid4()}")

        def enqueue(count: int) -> list[uuid.UUID]:
            with engine().begin() as connection:
                return list(connection.scalars(text(MANY), {"team": team_id, "count": count}))

        return enqueue

    return make


def take() -> Claim:
    with engine().begin() as connection:
        taken = jobs.claim_next(connection, QUEUE)
    assert taken is not None
    return taken


def done(taken: Claim) -> None:
    with engine().begin() as connection:
        jobs.finish(connection, taken)


def rows_read(plan: dict[str, Any]) -> int:
    """By a plan and those below it, also those that a filter left out."""
    read = sum(plan.get(k, 0) for k in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"))
    return int(read * plan["Actual Loops"]) + sum(rows_read(below) for below in plan.get("Plans", ()))


def rows_read_by_a_claim() -> int:
    """By all statements of one claim, which is taken back."""
    statements: list[tuple[str, Any]] = []

    def keep(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    event.listen(engine(), "before_cursor_execute", keep)
    try:
        with engine().connect() as connection:
            assert jobs.claim_next(connection, QUEUE) is not None
    finally:
        event.remove(engine(), "before_cursor_execute", keep)
    read = 0
    with engine().connect() as connection:
        for statement, parameters in statements:
            if statement.startswith(("SELECT", "WITH", "UPDATE")):
                explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
                (found,) = connection.exec_driver_sql(explain, parameters).scalar_one()
                read += rows_read(found["Plan"])
    return read


def test_ten_thousand_jobs_delay_another_team_by_none(services: Services, team: Callable[[], Enqueue]) -> None:
    first, second = team(), team()
    many = set(first(10_000))
    assert services.owner_address
    with psycopg.connect(services.owner_address, autocommit=True) as owner:
        owner.execute("ANALYZE jobs")
    # A claim that sorts all jobs reads 10,000 rows at least; what other tests left is some hundred.
    assert rows_read_by_a_claim() < 1000
    running = [take() for _ in range(4)]  # all workers are busy
    assert {t.job_id for t in running} <= many
    (single,) = second(1)
    done(running[0])
    assert take().job_id == single, "the first worker that is free"
    assert take().job_id in many


def test_teams_take_turns(team: Callable[[], Enqueue]) -> None:
    queued = [team()(3) for _ in range(3)]
    owner = {job: place for place, of_team in enumerate(queued) for job in of_team}
    order = []
    for _ in range(9):
        taken = take()
        order.append(owner[taken.job_id])
        done(taken)
    assert sorted(order[:3]) == [0, 1, 2]
    assert order == order[:3] * 3
    with engine().begin() as connection:
        assert jobs.claim_next(connection, QUEUE) is None


def test_who_has_fewer_running_is_first(team: Callable[[], Enqueue]) -> None:
    """A team whose jobs take long must not get every worker in turn."""
    slow, quick = team(), team()
    slows, quicks = slow(3), quick(3)
    first, other = take(), take()
    assert {first.job_id, other.job_id} & set(slows)
    assert {first.job_id, other.job_id} & set(quicks)
    for _ in range(2):
        done(other if other.job_id in quicks else first)
        taken = take()
        assert taken.job_id in quicks
        other = first = taken
    done(other)
    assert take().job_id in slows


def test_oldest_first_within_a_team(team: Callable[[], Enqueue]) -> None:
    enqueue = team()
    queued = [*enqueue(1), *enqueue(1), *enqueue(1)]
    assert [take().job_id for _ in queued] == queued


def test_a_locked_job_holds_up_nobody(team: Callable[[], Enqueue]) -> None:
    enqueue = team()
    queued = [*enqueue(1), *enqueue(1)]
    with engine().begin() as request:
        request.execute(select(Job.id).where(Job.id == queued[0]).with_for_update())
        assert take().job_id == queued[1]
    assert take().job_id == queued[0]


def test_pauses_and_other_queues_are_left_alone(team: Callable[[], Enqueue]) -> None:
    (job,) = team()(1)
    with engine().begin() as connection:
        assert jobs.claim_next(connection, CHECKS_QUEUE) is None
        connection.execute(
            update(Job).where(Job.id == job).values(not_before=text("clock_timestamp() + interval '1 h'"))
        )
    with engine().begin() as connection:
        assert jobs.claim_next(connection, QUEUE) is None
        connection.execute(update(Job).where(Job.id == job).values(not_before=text("clock_timestamp()")))
    assert take().job_id == job


def test_a_job_that_has_to_run_alone_holds_up_no_team(team: Callable[[], Enqueue]) -> None:
    enqueue, other = team(), team()
    (alone,) = enqueue(1)
    behind, *others = [*enqueue(1), *other(3)]
    with engine().begin() as connection:
        long_ago = text("clock_timestamp() - interval '1 h'")
        connection.execute(update(Job).where(Job.id == alone).values(outages=ALONE_FROM, queued_at=long_ago))
        others_run = update(Job).where(Job.id == others[0])
        connection.execute(
            others_run.values(state=State.running, lease_until=text("clock_timestamp() + interval '1 h'"))
        )
    assert take().job_id == behind
    assert {take().job_id for _ in range(2)} == set(others[1:])
    with engine().begin() as connection:
        assert jobs.claim_next(connection, QUEUE) is None
        connection.execute(update(Job).where(Job.state == State.running).values(state=State.done, lease_until=None))
    assert take().job_id == alone


def test_a_job_that_is_passed_over_leaves_no_lock(team: Callable[[], Enqueue]) -> None:
    """A claim that has one of the two locks and asks for the other may wait for another that does the same."""
    alone, running, single = (team()(1)[0] for _ in range(3))
    with engine().begin() as connection:
        connection.execute(update(Job).where(Job.id == alone).values(outages=ALONE_FROM))
        lease = {"state": State.running, "lease_until": text("clock_timestamp() + interval '1 h'")}
        connection.execute(update(Job).where(Job.id == running).values(lease))
    passed_over = select(Job.id).where(Job.id == alone).with_for_update(nowait=True)
    with engine().connect() as connection, engine().connect() as other:
        taken = jobs.claim_next(connection, QUEUE)
        assert taken is not None
        assert taken.job_id == single
        assert other.scalar(passed_over) == alone
        modes = connection.scalars(
            text("SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND objid = :key"),
            {"key": jobs._CLAIMS_LOCK},
        ).all()
        assert modes == ["ShareLock"]
        connection.commit()


@pytest.mark.parametrize("not_before", [None, "clock_timestamp() - interval '1 s'"])
def test_what_gives_way_pauses_one_by_one(team: Callable[[], Enqueue], not_before: str | None) -> None:
    """A wake-up that claims nothing is used up by one job, which is woken again after its pause."""
    (alone,) = team()(1)
    with engine().begin() as connection:
        connection.execute(update(Job).where(Job.state == State.running).values(state=State.done, lease_until=None))
        connection.execute(update(Job).where(Job.id == alone).values(outages=ALONE_FROM))
    assert take().job_id == alone
    others = team()(3)
    with engine().begin() as connection:
        pause = update(Job).where(Job.id.in_(others))
        connection.execute(pause.values(not_before=text(not_before) if not_before else None))
        assert jobs.claim_next(connection, QUEUE) is None
        pauses = select(Job.id).where(Job.id.in_(others), Job.not_before > text("clock_timestamp()"))
        assert len(connection.scalars(pauses).all()) == 1


def test_a_wake_up_serves_any_job(team: Callable[[], Enqueue]) -> None:
    """Its object is missing: the job is taken, and pauses."""
    (job,) = team()(1)
    run_next(QUEUE)
    with engine().connect() as connection:
        assert connection.scalar(select(Job.fence).where(Job.id == job)) == 1
    run_next(QUEUE)  # nothing is left: it does nothing
