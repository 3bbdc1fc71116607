"""Deletes captures: a request does, and the team's retention does."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from store import jobs, objects
from store.models import Capture, CheckState, Deletion, Job, ModelCheck


def delete_capture(database: Connection, team_id: uuid.UUID, capture_id: uuid.UUID) -> str | None:
    """Deletes a capture of the team: from the commit on, all that was derived from it is gone for readers. Returns its
    name; None: there is none.

    The caller holds the capture's jobs, as a worker locks these first. The sweeper removes the rows of its attempts
    and its objects, of which there may be many.
    """
    _end_checks(database, capture_id)
    gone = database.execute(
        delete(Capture)
        .where(Capture.id == capture_id, Capture.team_id == team_id)
        .returning(Capture.filename, Capture.object_key)
    ).one_or_none()
    if gone is None:
        return None
    folders = {capture_id, objects.upload_of(gone.object_key)} - {None}
    database.execute(insert(Deletion).on_conflict_do_nothing(), [{"capture_id": folder} for folder in folders])
    return str(gone.filename)


def _end_checks(database: Connection, capture_id: uuid.UUID) -> None:
    """Deletes the results of the capture's checks, and fails those that wait or run."""
    of_it = select(ModelCheck.id).where(ModelCheck.capture_id == capture_id)
    # Lock the jobs first, as a worker does.
    database.execute(delete(Job).where(Job.check_id.in_(of_it)))
    database.execute(
        update(ModelCheck)
        .where(ModelCheck.capture_id == capture_id, ModelCheck.state.in_((CheckState.queued, CheckState.running)))
        .values(
            state=CheckState.failed, error=jobs.CAPTURE_DELETED, capture_id=None, finished_at=func.clock_timestamp()
        )
    )
    database.execute(delete(ModelCheck).where(ModelCheck.capture_id == capture_id))
