"""Replays one connection with the algorithm and options of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from sqlalchemy import select, update

import rewindow
from rewindow import Choice
from rewindow.findings.windows import of_connections
from store import jobs, models, objects
from store.database import engine
from store.jobs import Claim, JobLost
from worker import results
from worker.series import spool


def run(taken: Claim, file: IO[bytes], name: str, report: Callable[[str, float], None]) -> None:
    with engine().connect() as connection:
        asked = connection.execute(
            select(
                models.Replay.algorithm, models.Replay.options, models.Replay.label, models.Replay.connection_number
            ).where(models.Replay.id == taken.subject_id)
        ).one_or_none()
    if asked is None:
        raise JobLost
    choice = Choice(asked.algorithm, asked.options, label=asked.label)
    with rewindow.open(file) as capture:
        capture.names[:] = [name]
        with capture.stream([choice]) as replay, spool(replay.schema) as spooled:
            for batch in replay:
                spooled.add(batch)
                report("replaying", replay.progress() * 0.9)
            windows = of_connections(replay.windows([asked.label]))
            key = objects.series_key(taken.capture_id, f"replay-{taken.subject_id}", taken.fence)
            report("storing", 0.9)
            connections = replay.connection_count()
            with spooled.clustered(connections, [asked.label], asked.connection_number) as (acks, overview):
                try:
                    size = objects.put_file(key, acks)
                    if overview:
                        size += objects.put_file(objects.overview_key(key), overview)
                    _finish(taken, key, size, windows.get(asked.connection_number, {}).get(asked.label, []))
                except BaseException:
                    results.discard(taken, key, objects.overview_key(key))
                    raise


def _finish(taken: Claim, key: str, size: int, windows: list[dict[str, float]]) -> None:
    with engine().begin() as connection:
        jobs.hold(connection, taken)
        connection.execute(
            update(models.Replay)
            .where(models.Replay.id == taken.subject_id)
            .values(
                state=models.State.done,
                error=None,
                acks_key=key,
                series_bytes=size,
                windows=windows,
                mean_window=sum(w["mean"] for w in windows) if windows else None,
            )
        )
        jobs.finish(connection, taken)
