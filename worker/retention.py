"""Deletes what teams do not want to keep any longer, some captures at a time.

Each capture has a transaction of its own, which takes locks as a request does: the team, the capture's jobs, the
capture. While one of its jobs waits or runs, nothing of the capture is deleted; a later round finds it again.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection, delete, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_or
from sqlalchemy.exc import OperationalError

from store import objects
from store.database import engine
from store.deletions import delete_capture
from store.models import AuditEvent, Capture, Job, ModelCheck, Replay, RetentionCount, SegmentSeries, Team
from store.retention import KINDS, WHO, Due, Kind, Policy, at_work

log = structlog.get_logger()

AT_ONCE = 100
"""Captures of one team and kind in a round, so that no team waits for another one's many."""
_PATIENCE = text("SET LOCAL lock_timeout = '2s'")
"""Others go first: what is locked for longer is left for a later round."""
_POLICY = (Team.raw_days, Team.series_days, Team.metrics_days)


def retain_once(seconds: float) -> Counter[Kind]:
    """Deletes what is due, for about so many seconds. Returns of how many captures."""
    until = time.monotonic() + seconds
    deleted: Counter[Kind] = Counter()
    with engine().connect() as database:
        wanted = select(Team.id, *_POLICY).where(or_(*(days.is_not(None) for days in _POLICY)))
        teams = database.execute(wanted.order_by(func.random())).all()
    for team_id, *days in teams:
        for kind in KINDS:
            for capture_id in _due(team_id, Due(kind, Policy(*days))):
                if time.monotonic() > until:
                    return deleted
                deleted[kind] += _delete(team_id, capture_id, kind)
    return deleted


def _due(team_id: uuid.UUID, due: Due) -> list[uuid.UUID]:
    if due.policy.days(due.kind) is None:
        return []
    query = select(Capture.id).where(Capture.team_id == team_id, due.captures(), ~at_work())
    with engine().connect() as database:
        return list(database.scalars(query.order_by(Capture.uploaded_at).limit(AT_ONCE)))


def _delete(team_id: uuid.UUID, capture_id: uuid.UUID, kind: Kind) -> bool:
    """False: it is not due any more, or others work with it."""
    try:
        with engine().begin() as database:
            keys = _delete_rows(database, team_id, capture_id, kind)
    except OperationalError as e:
        log.info("retention.left", capture=str(capture_id), reason=str(e).partition("\n")[0])
        return False
    # A process that dies here leaves the objects to the collector: no row names them any more.
    objects.delete_keys(*(keys or ()))
    return keys is not None


def _delete_rows(database: Connection, team_id: uuid.UUID, capture_id: uuid.UUID, kind: Kind) -> list[str] | None:
    """Returns the objects that no row names from the commit on; None: nothing was to be deleted."""
    database.execute(_PATIENCE)
    # Requests that add a job, store an upload or change the policy hold the team, too: the rest sees all of them.
    days = database.execute(select(*_POLICY).where(Team.id == team_id).with_for_update(key_share=True)).one_or_none()
    if days is None:
        return None
    due = Due(kind, Policy(*days))
    of_checks = select(ModelCheck.id).where(ModelCheck.capture_id == capture_id)
    its_jobs = or_(Job.capture_id == capture_id, Job.check_id.in_(of_checks))
    database.execute(select(Job.id).where(its_jobs).order_by(Job.id).with_for_update())
    found = database.execute(
        select(*Capture.__table__.c, due.bytes().label("freed"))
        .where(Capture.id == capture_id, due.captures(), ~at_work())
        .with_for_update(of=Capture)
    ).one_or_none()
    if found is None:
        return None
    keys = _ACTIONS[kind](database, due, found)
    _note(database, team_id, kind, found, due.policy)
    return keys


def _delete_copy(database: Connection, due: Due, capture: Any) -> list[str]:
    database.execute(update(Capture).where(Capture.id == capture.id).values(raw_deleted_at=func.clock_timestamp()))
    return [capture.object_key]


def _delete_series(database: Connection, due: Due, capture: Any) -> list[str]:
    replays = database.execute(
        select(Replay.id, Replay.acks_key).join(Capture, Capture.id == Replay.capture_id)
        .where(Capture.id == capture.id, due.replays())
    ).all()  # fmt: skip
    segments = database.execute(
        select(SegmentSeries.id, SegmentSeries.object_key).join(Capture, Capture.id == SegmentSeries.capture_id)
        .where(Capture.id == capture.id, due.segments())
    ).all()  # fmt: skip
    none = {"acks_key": None, "series_bytes": None}
    database.execute(update(Replay).where(Replay.id.in_([r.id for r in replays])).values(none))
    database.execute(delete(SegmentSeries).where(SegmentSeries.id.in_([s.id for s in segments])))
    database.execute(
        update(Capture)
        .where(Capture.id == capture.id)
        .values(**none, marks_key=None, series_deleted_at=func.clock_timestamp())
    )
    series = [capture.acks_key, *(r.acks_key for r in replays), *(s.object_key for s in segments)]
    keys = [key for known in series if known for key in (known, objects.overview_key(known))]
    return [*keys, *([capture.marks_key] if capture.marks_key else [])]


def _delete_all(database: Connection, due: Due, capture: Any) -> list[str]:
    delete_capture(database, capture.team_id, capture.id)
    return []


_ACTIONS: dict[Kind, Callable[[Connection, Due, Any], list[str]]] = {
    "raw": _delete_copy,
    "series": _delete_series,
    "metrics": _delete_all,
}


def _note(database: Connection, team_id: uuid.UUID, kind: Kind, capture: Any, policy: Policy) -> None:
    """In the team's log, and in the service's counts."""
    detail = {"what": kind, "bytes": capture.freed, "days": policy.days(kind)}
    database.execute(
        insert(AuditEvent).values(
            team_id=team_id, member=WHO, action="delete", object_id=capture.id, object_name=capture.filename,
            detail=detail,
        )
    )  # fmt: skip
    counted = insert_or(RetentionCount).values(kind=kind, captures=1, bytes=capture.freed)
    database.execute(
        counted.on_conflict_do_update(
            index_elements=[RetentionCount.kind],
            set_={
                "captures": RetentionCount.captures + counted.excluded.captures,
                "bytes": RetentionCount.bytes + counted.excluded.bytes,
            },
        )
    )
