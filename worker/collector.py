"""Objects that no row names. They stay where a process dies between the object store and the database.

Above all they are the bytes of captures that were deleted.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from store import objects
from store.database import engine
from store.models import Capture, Connection, Job, Replay, State

STRAY_AFTER = timedelta(hours=1)
"""A row is committed within seconds after its object: what is so old and has no row will get none."""


def collect_once() -> int:
    """Deletes strays. Returns how many there were."""
    until = datetime.now(UTC) - STRAY_AFTER
    count = 0
    for entries in objects.pages("captures/"):
        paths = [entry["path"] for entry in entries if entry["last_modified"] < until]
        strays = _without_a_row(paths)
        objects.delete_keys(*strays)
        count += len(strays)
    return count


def _without_a_row(paths: list[str]) -> list[str]:
    by_capture: dict[uuid.UUID, list[str]] = {}
    for path in paths:
        try:
            by_capture.setdefault(uuid.UUID(path.split("/")[1]), []).append(path)
        except (IndexError, ValueError):
            continue  # not ours
    ids = list(by_capture)
    with engine().connect() as connection:
        captures = connection.execute(
            select(Capture.id, Capture.object_key, Capture.acks_key, Capture.marks_key).where(Capture.id.in_(ids))
        ).all()
        replays = connection.scalars(
            select(Replay.acks_key).join(Connection).where(Connection.capture_id.in_(ids), Replay.acks_key.is_not(None))
        ).all()
        # A worker may be about to name what it has put.
        at_work = set(
            connection.scalars(
                select(Job.capture_id).where(Job.capture_id.in_(ids), Job.state.in_([State.queued, State.running]))
            )
        )
    named = {key for row in captures for key in row[1:]} | set(replays)
    return [p for capture, of_one in by_capture.items() if capture not in at_work for p in of_one if p not in named]
