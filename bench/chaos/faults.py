"""Faults, one function each: it breaks something, waits, and mends it where nobody else does."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.chaos.audit import Database, children
from bench.chaos.bucket import Held
from bench.chaos.load import BROKEN, PACKETS, Uploads, capture
from bench.chaos.questions import Questions
from deploy.run import Services
from store import jobs
from store.models import JobKind

LEASE_S = 6.0
STOPPED_S = 9.0
REDIS_STOPPED_S = 45.0
"""Longer than the time after which Celery takes Redis for lost, with tasks under way: it then held fewer at once."""
STORE_BROKEN_S = 6.0
CONCURRENCY = 2
CAPTURE_BYTES_MIN = 4096


class Unmet(Exception):
    """The service did not do what it promises."""


@dataclass
class World:
    """Everything that runs. down: when the fault began to be mended, on the monotonic clock."""

    services: Services
    held: Held
    uploads: Uploads
    questions: Questions
    database: Database
    notes: list[str] = field(default_factory=list)

    def pid(self, name: str) -> int:
        return self.services.processes[name].pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid(name), number)

    def kill_all(self, name: str) -> None:
        """A process and its children."""
        for pid in [self.pid(name), *children(self.pid(name))]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def busy_child(self, size: int | None = None) -> int | None:
        """A child of the worker that has fetched a capture; size: one of so many bytes."""
        for pid in children(self.pid("worker")):
            with suppress(OSError):  # it has ended
                for handle in Path(f"/proc/{pid}/fd").iterdir():
                    if _fetched(handle, size):
                        return pid
        return None


def _fetched(handle: Path, size: int | None) -> bool:
    """Is it a file without a name that is as large as a capture?"""
    with suppress(OSError):
        found = handle.stat()
        unnamed = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
        return unnamed and (found.st_size > CAPTURE_BYTES_MIN if size is None else found.st_size == size)
    return False


def until(probe: Callable[[], object], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if probe():
                return
        except (psycopg.OperationalError, *BROKEN):
            pass  # what is looked at is still away
        time.sleep(0.02)
    raise Unmet(f"not within {seconds:.0f} s: {what}")


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        with suppress(ProcessLookupError):  # one of PostgreSQL's sessions has ended
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def kill_worker(world: World) -> None:
    until(world.busy_child, 30, "a job runs")
    world.kill_all("worker")


def kill_main_process(world: World) -> None:
    """The worker's children live on for a moment, without their parent."""
    until(world.busy_child, 30, "a job runs")
    world.kill("worker")


def kill_child(world: World) -> None:
    until(world.busy_child, 30, "a job runs")
    if pid := world.busy_child():
        os.kill(pid, signal.SIGKILL)


def kill_main_process_of_api(world: World) -> None:
    """Its other processes are left without a parent, and hold the port."""
    world.kill("api")


def kill_sweeper(world: World) -> None:
    world.kill("sweeper")


def kill_api(world: World) -> None:
    """All its processes, in the middle of an upload of which the store has a part already."""
    head, total = capture(world.uploads.next_number(), packets=10**9), 64 << 20
    connection = world.uploads.client.begin("/v1/captures", total, head + bytes((17 << 20) - len(head)))
    try:
        until(lambda: any(u.parts for u in world.held.unfinished.values()), 20, "a part in the store")
        world.kill_all("api")
    finally:
        connection.close()


def kill_redis(world: World) -> None:
    world.kill("redis")


def wipe_redis(world: World) -> None:
    world.kill("redis")
    world.services.processes["redis"].wait()
    for entry in (world.services.local / "redis").iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def stop_postgresql(world: World) -> None:
    """pg_ctl stop -m immediate."""
    until(world.busy_child, 30, "a job runs")
    world.kill("postgresql", signal.SIGQUIT)


def _hang(name: str, seconds: float) -> Callable[[World], None]:
    def hang(world: World) -> None:
        if name == "worker":
            until(world.busy_child, 30, "a job runs")
        with stopped([world.pid(name), *children(world.pid(name))]):
            time.sleep(seconds)

    return hang


def hang_child(world: World) -> None:
    until(world.busy_child, 30, "a job runs")
    if pid := world.busy_child():
        with stopped([pid]):
            time.sleep(STOPPED_S)


def _store(mode: str) -> Callable[[World], None]:
    def breaks(world: World) -> None:
        world.held.mode = mode
        try:
            time.sleep(STORE_BROKEN_S)
        finally:
            world.held.mode = "well"

    return breaks


def kill_whoever_takes_it(world: World) -> None:
    """A capture of a size of its own; each process that has fetched it is killed. It fails, and others do not."""
    poison = None
    while poison is None:
        poison = world.uploads.send(4 * PACKETS)
    size = world.uploads.client.ask("GET", f"/v1/captures/{poison}").body["bytes"]  # as it is stored, without payload
    end = time.monotonic() + 120
    killed = 0
    state = "queued"

    def kill() -> bool:
        """Once, whoever has it now; true as well when the job has ended."""
        nonlocal killed, state
        if pid := world.busy_child(size):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
            return True
        state = world.uploads.look(poison) or state
        return state in ("done", "failed")

    # While the store is slow, each attempt is seen before it has fetched the capture. After that it cannot end
    # before its kill.
    world.held.mode = "slow"
    try:
        while state not in ("done", "failed") and time.monotonic() < end:
            if world.database.stages().get(poison, "queued") != "queued":
                world.database.holding_results(10, kill)
            state = world.uploads.look(poison) or state
            time.sleep(0.01)
    finally:
        world.held.mode = "well"
    if state != "failed":
        raise Unmet(f"a job that kills who takes it is {state} after {killed} kills")


def deliver_twice(world: World) -> None:
    """For each job that waits or runs there are three more wake-ups."""
    app = jobs.celery_app()
    for _ in world.uploads.open():
        for _ in range(3):
            jobs.send(app, JobKind.analyze)


def delete_in_each_stage(world: World) -> None:
    """Also while the store is slow, so that fetching takes a while, and while no results can be stored."""

    def delete_at(stage: str) -> bool:
        for capture_id, found in world.database.stages().items():
            if found == stage and capture_id in world.uploads.accepted:
                if not world.uploads.delete(capture_id):
                    raise Unmet(f"DELETE of a capture whose job is {stage}")
                return True
        return False

    world.held.mode = "slow"
    try:
        for stage in ("queued", "fetching"):
            until(lambda stage=stage: delete_at(stage), 30, f"a job is {stage}")  # type: ignore[misc]
    finally:
        world.held.mode = "well"
    sent = None
    while sent is None:
        sent = world.uploads.send(10**9)  # it is replayed for longer than the others
    until(lambda: delete_at("replaying"), 30, "a job is replaying")
    if not world.database.holding_results(7, lambda: delete_at("storing")):
        raise Unmet("no job was storing")
    done = next(i for i, state in reversed(world.uploads.accepted.items()) if state == "done")
    if not world.uploads.delete(done):
        raise Unmet("DELETE of a capture that is done")


FAULTS: dict[str, Callable[[World], None]] = {
    "kill -9: a worker's child": kill_child,
    "kill -9: a worker with its children": kill_worker,
    "kill -9: a worker's main process": kill_main_process,
    "kill -9: the API in the middle of an upload": kill_api,
    "kill -9: the API's main process": kill_main_process_of_api,
    "kill -9: the sweeper": kill_sweeper,
    "kill -9: Redis, its data kept": kill_redis,
    "kill -9: Redis, its data lost": wipe_redis,
    "PostgreSQL stops immediately": stop_postgresql,
    "SIGSTOP: a worker's child": hang_child,
    "SIGSTOP: a worker with its children": _hang("worker", STOPPED_S),
    "SIGSTOP: the API": _hang("api", STOPPED_S),
    "SIGSTOP: the sweeper": _hang("sweeper", STOPPED_S),
    "SIGSTOP: Redis": _hang("redis", REDIS_STOPPED_S),
    "SIGSTOP: PostgreSQL": _hang("postgresql", STOPPED_S),
    "the store is full": _store("full"),
    "the store may only be read": _store("readonly"),
    "the store answers slowly": _store("slow"),
    "the store is away": _store("away"),
    "a job that kills each process that takes it": kill_whoever_takes_it,
    "each wake-up is delivered four times": deliver_twice,
    "DELETE in each stage of a job": delete_in_each_stage,
}
