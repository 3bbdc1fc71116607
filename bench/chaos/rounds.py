"""Rounds of faults: start everything, break one thing after the other, look at what was promised."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.audit import Database, children, memory_bytes
from bench.chaos.bucket import Held, serve
from bench.chaos.faults import CONCURRENCY, FAULTS, LEASE_S, Unmet, World, until
from bench.chaos.load import Client, Uploads
from bench.chaos.questions import Questions
from deploy.run import Services, token_for

RECOVERED_S = 120.0
"""A service that is not well again after this time has not recovered."""
MEMORY_SLACK_BYTES = 192 << 20
"""Each process of Python that ran a job, or many requests, keeps some of what it allocated."""
STRAY_AFTER_S = 60.0
"""Longer than any fault: no upload that is under way is taken for a stray."""
OF_OURS = ("api", "alerter", "sweeper", "checker", "worker")


@dataclass
class Seen:
    """What was seen of one fault, all times that it was injected."""

    times: int = 0
    recovered_s: list[float] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    """Promises that were broken."""


@dataclass
class Report:
    seen: dict[str, Seen] = field(default_factory=dict)
    totals: list[tuple[str, str, bool]] = field(default_factory=list)
    """What was counted at the end, how many, and was it as promised?"""

    def kept(self) -> bool:
        return all(ok for _, _, ok in self.totals) and not any(s.broken for s in self.seen.values())

    def broken(self) -> list[str]:
        return [f"{name}: {what}" for name, s in self.seen.items() for what in s.broken] + [
            f"{what}: {found}" for what, found, ok in self.totals if not ok
        ]

    def markdown(self) -> str:
        rows = ["| fault | times | uploads accepted | refused | well again after, s | longest, s | broken promises |"]
        rows.append("|---|--:|--:|--:|--:|--:|---|")
        for name, s in self.seen.items():
            if not s.times:  # the time was over before its turn
                continue
            times = s.recovered_s or [float("nan")]
            rows.append(
                f"| {name} | {s.times} | {s.accepted} | {s.refused} |"
                f" {statistics.median(times):.1f} | {max(times):.1f} | {'; '.join(s.broken) or 'none'} |"
            )
        rows += ["", "| at the end | found | as promised |", "|---|--:|---|"]
        rows += [f"| {what} | {found} | {'yes' if ok else 'NO'} |" for what, found, ok in self.totals]
        return "\n".join(rows)


def run(
    names: Sequence[str], *, rounds: int = 1, minutes: float | None = None, tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Injects these faults in turn. minutes: for so long instead of so many rounds."""
    report = Report({name: Seen() for name in names})
    with _world() as world:
        world.uploads.start()
        world.questions.start()
        until(lambda: "done" in world.uploads.accepted.values(), 300, "the first capture is analysed")
        until(lambda: world.questions.count("done") > 0, 300, "the first what-if is answered")
        before = _memory(world)
        began = time.monotonic()
        turns = 0
        while turns < rounds if minutes is None else time.monotonic() - began < 60 * minutes:
            turns += 1
            for name in names:
                if minutes is not None and time.monotonic() - began > 60 * minutes:
                    break
                _inject(world, name, report.seen[name])
                s = report.seen[name]
                tell(f"{name}: {s.broken[-1] if s.broken else f'well again after {s.recovered_s[-1]:.1f} s'}")
        world.uploads.stop_uploading()
        report.totals = _settled(world, before, time.monotonic() - began)
    return report


def _inject(world: World, name: str, seen: Seen) -> None:
    seen.times += 1
    uploads = world.uploads
    accepted, refused = len(uploads.accepted), uploads.refused
    try:
        FAULTS[name](world)
        mended = time.monotonic()
        _be_well(world)
        seen.recovered_s.append(time.monotonic() - mended)
        _look(world)
    except Unmet as e:
        seen.broken.append(str(e))
    seen.accepted += len(uploads.accepted) - accepted
    seen.refused += uploads.refused - refused


def _be_well(world: World) -> None:
    """A capture that is uploaded now is analysed, and so are those that waited or ran meanwhile."""
    end = time.monotonic() + RECOVERED_S
    waiting = world.uploads.open()
    sent = None
    while sent is None:
        if time.monotonic() > end:
            raise Unmet(f"no upload was accepted within {RECOVERED_S:.0f} s")
        sent = world.uploads.send()
    waiting.append(sent)
    until(lambda: not {*waiting} & {*world.uploads.open()}, end - time.monotonic(), "all captures have ended")
    if world.uploads.accepted[sent] != "done":
        raise Unmet(f"an upload after the fault failed: {world.uploads.errors.get(sent)}")


def _look(world: World) -> None:
    most = 0

    def all_at_work() -> bool:
        nonlocal most
        most = max(most, world.database.count("running"))
        return most >= CONCURRENCY

    for _ in range(6):  # results may be held up only for less than a wait for a lock may take
        if world.database.holding_results(5, all_at_work):
            break
    else:
        raise Unmet(f"{most} jobs run at once instead of {CONCURRENCY}")
    until(lambda: world.database.count("overdue", grace_s=LEASE_S) == 0, 30, "no job runs beyond its lease")


def _settled(world: World, memory_before: int, seconds: float) -> list[tuple[str, str, bool]]:
    """What is counted when everything has ended. seconds: how long faults were injected; strays are removed when they
    are old, so that a short time tells nothing of them."""
    uploads, questions, database = world.uploads, world.questions, world.database
    ended = True
    answered = questions.finish(180)
    try:
        until(lambda: not uploads.open(), 180, "all captures have ended")
        until(lambda: database.count("unpublished") + database.count("orphans") == 0, 60, "rows are removed")
    except Unmet:
        ended = False
    done = [i for i, state in uploads.accepted.items() if state == "done" and i not in uploads.deleted]
    failed = [i for i in uploads.errors if i not in uploads.deleted]
    unexplained = [uploads.errors[i] for i in failed if not uploads.errors[i].startswith("given up")]
    accepted = len(uploads.accepted)
    lost = accepted - len(done) - len(failed) - len(uploads.deleted)
    grown = _memory(world) - memory_before
    twice = database.count("wrong")
    stale = database.count("unpublished") + database.count("orphans")
    disagree = database.count("disagree")
    torn, left = database.count("parts"), database.count("simulations")
    counted = [
        ("uploads accepted", str(accepted), True),
        ("analysed", str(len(done)), True),
        ("deleted on request", str(len(uploads.deleted)), True),
        ("failed with a reason that a team can act on", str(len(failed) - len(unexplained)), True),
        ("failed with another reason", "; ".join(unexplained) or "0", not unexplained),
        ("accepted and lost, or not ended", str(lost), lost == 0 and not uploads.gone and ended),
        ("captures with a row too many, too few or twice, or of a stale attempt", str(twice), twice == 0),
        ("attempts that nobody sees and that were not removed", str(stale), stale == 0),
        ("captures whose state is not their job's", str(disagree), disagree == 0),
        *questions.totals(answered),
        ("batches of simulated runs with a run too many, too few or twice", str(torn), torn == 0),
        ("jobs of what-ifs and fits that are left", str(left), left == 0),
        ("deferrals, which are no attempts", str(database.count("deferrals")), True),
        ("memory of our processes, beside that before the faults", f"{grown >> 20:+d} MB", grown < MEMORY_SLACK_BYTES),
    ]
    if seconds > STRAY_AFTER_S:
        stored = _stored(world, done, failed)
        counted.append(("objects, and unfinished uploads, in the store that no row names", str(stored), stored == 0))
    return counted


def _stored(world: World, done: Sequence[str], failed: Sequence[str]) -> int:
    """Objects, and parts of uploads, that belong to no capture that is there."""
    asked = world.questions.captures
    of = {"capture": {*done, *failed, *asked}, "acks": {*done, *asked}, "marks": {*done, *asked}}

    def strays() -> list[str]:
        found = [u.key for u in world.held.unfinished.values()]
        for key in list(world.held.objects):
            place, _, rest = key.partition("/")
            capture_id, _, name = rest.partition("/")
            if place == "captures" and capture_id not in of[name.partition("-")[0]]:
                found.append(key)
        return found

    try:
        until(lambda: not strays(), STRAY_AFTER_S + 30, "the store holds nothing else")
    except Unmet:
        return len(strays())
    return 0


def _memory(world: World) -> int:
    return memory_bytes([p for name in OF_OURS for p in (world.pid(name), *children(world.pid(name)))])


@contextmanager
def _world() -> Iterator[World]:
    """PostgreSQL, Redis and a bucket of their own; API, worker, checker and sweeper under a supervisor."""
    folder = Path(tempfile.mkdtemp(prefix="rewindow-chaos-"))
    folder.chmod(0o755)  # another user runs PostgreSQL where this one is root
    held = Held()
    bucket = serve(held)
    threading.Thread(target=bucket.serve_forever, daemon=True).start()
    services = Services(folder)
    for name in ("REWINDOW_DATABASE_URL", "REWINDOW_REDIS_URL"):
        services.environment.pop(name, None)
    services.environment |= {
        "REWINDOW_STORE_URL": "s3://captures",
        "AWS_ENDPOINT": f"http://127.0.0.1:{bucket.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "chaos",
        "AWS_SECRET_ACCESS_KEY": "chaos",
        "REWINDOW_LEASE_S": str(LEASE_S),
        "REWINDOW_RETRY_S": "1",
        "REWINDOW_SWEEP_INTERVAL_S": "0.5",
        "REWINDOW_COLLECT_INTERVAL_S": "5",
        "REWINDOW_STRAY_AFTER_S": str(STRAY_AFTER_S),
    }
    ended = threading.Event()

    def supervise() -> None:
        while not ended.wait(0.1):
            services.supervise(time.monotonic())

    supervisor = threading.Thread(target=supervise, daemon=True)
    try:
        services.start()
        # The wake-ups that are sent twice come from here.
        os.environ.update({k: v for k, v in services.environment.items() if k.startswith("REWINDOW_")})
        uploads = Uploads(Client(services.port, token_for(services, "chaos")))
        questions = Questions(Client(services.port, token_for(services, "chaos-what-ifs")))
        supervisor.start()
        yield World(services, held, uploads, questions, Database(services.environment["REWINDOW_DATABASE_URL"]))
    finally:
        ended.set()
        if supervisor.is_alive():
            supervisor.join()
        services.stop()
        bucket.shutdown()
    shutil.rmtree(folder)  # after an error it stays, with the logs
