"""Deletes the objects of deleted captures, and objects that no row names. A process that dies between the object store
and the database leaves the latter behind."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select

from store import changes, objects, uploads_folder
from store.database import engine
from store.models import Capture, Deletion, Incoming, Job, Replay, ResumableUpload, SegmentSeries, State
from store.settings import settings
from store.unfinished import remove_unfinished

_EVENTS_AT_ONCE = 1000
"""In one transaction."""


def collect_once() -> int:
    """Deletes the objects that no row names, and what unfinished uploads left. Returns how many there were.

    A row is committed within seconds after its object is stored: an old object without a row will not get one.
    """
    until = datetime.now(UTC) - timedelta(seconds=settings().stray_after_s)
    count = 0
    for entries in objects.pages("captures/"):
        paths = [entry["path"] for entry in entries if entry["last_modified"] < until]
        strays = _without_a_row(paths)
        objects.delete_keys(*strays)
        count += len(strays)
    return count + remove_unfinished(until)


def remove_deleted() -> int:
    """Deletes the objects of deleted captures. Returns how many captures these were."""
    with engine().connect() as connection:
        captures = connection.scalars(select(Deletion.capture_id)).all()
    for capture_id in captures:
        objects.delete_prefix(f"captures/{capture_id}")
        with engine().begin() as connection:
            connection.execute(delete(Deletion).where(Deletion.capture_id == capture_id))
    return len(captures)


def forget_dead_uploads() -> None:
    """Deletes the room that uploads took whose processes died; it has not counted since long."""
    with engine().begin() as connection:
        long_ago = func.clock_timestamp() - timedelta(seconds=settings().stray_after_s)
        connection.execute(delete(Incoming).where(Incoming.alive_until < long_ago))


def forget_resumable_uploads() -> int:
    """Deletes resumable uploads that were given up or are complete, with what is left of their bytes. Returns how many
    had some.

    A row stays for a while, so that who asks learns that it was too late. Raises OSError.
    """
    now = func.clock_timestamp()
    with engine().begin() as connection:
        long_ago = now - timedelta(seconds=settings().stray_after_s)
        connection.execute(delete(ResumableUpload).where(ResumableUpload.expires_at < long_ago))
    present = uploads_folder.present()  # before the rows: a file is made after its row
    goes_on = (ResumableUpload.capture_id.is_(None), ResumableUpload.expires_at > now)
    with engine().connect() as connection:
        living = set(connection.scalars(select(ResumableUpload.id).where(ResumableUpload.id.in_(present), *goes_on)))
    for upload in (dead := set(present) - living):
        uploads_folder.remove(upload)
    return len(dead)


def forget_audit_events() -> int:
    """Deletes what logs of teams have kept for long enough. Returns how many events."""
    with engine().begin() as connection:
        return int(connection.execute(select(func.forget_audit_events(_EVENTS_AT_ONCE))).scalar_one())


def forget_changes() -> int:
    """Deletes what event streams have told. Returns how many rows."""
    with engine().begin() as connection:
        return changes.forget(connection)


def _without_a_row(paths: list[str]) -> list[str]:
    by_capture: dict[uuid.UUID, list[str]] = {}
    for path in paths:
        try:
            by_capture.setdefault(uuid.UUID(path.split("/")[1]), []).append(path)
        except (IndexError, ValueError):
            continue  # rewindow stores no objects with such a path
    ids = list(by_capture)
    with engine().connect() as connection:
        captures = connection.execute(select(Capture.acks_key, Capture.marks_key).where(Capture.id.in_(ids))).all()
        # A copy lies in the folder of its upload, which need not be that of the capture.
        copies = connection.scalars(
            select(Capture.object_key).where(
                Capture.object_key.in_([path for path in paths if path.endswith("/capture")]),
                Capture.raw_deleted_at.is_(None),
                Capture.not_kept.is_(None),
            )
        ).all()
        replays = connection.scalars(
            select(Replay.acks_key).where(Replay.capture_id.in_(ids), Replay.acks_key.is_not(None))
        ).all()
        segments = connection.scalars(
            select(SegmentSeries.object_key).where(
                SegmentSeries.capture_id.in_(ids), SegmentSeries.object_key.is_not(None)
            )
        ).all()
        # A worker may have stored an object and not yet committed the row that names it.
        at_work = set(
            connection.scalars(
                select(Job.capture_id).where(Job.capture_id.in_(ids), Job.state.in_([State.queued, State.running]))
            )
        )
    of_replays_and_segments = {key for key in (*replays, *segments) if key}
    series = {row.acks_key for row in captures if row.acks_key} | of_replays_and_segments
    named = {*copies, *(row.marks_key for row in captures)} | series | {objects.overview_key(key) for key in series}
    return [p for capture, of_one in by_capture.items() if capture not in at_work for p in of_one if p not in named]
