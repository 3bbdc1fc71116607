"""Runs TLC on a specification with the constants of a request (docs/decisions/model-checks.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import func, update
from sqlalchemy.exc import SQLAlchemyError

from rewindow import specs
from store import jobs
from store.database import engine
from store.jobs import Claim
from store.models import ModelCheck, State
from store.settings import settings
from worker import tlc
from worker.tlc import CannotCheck

log = structlog.get_logger()

COUNTEREXAMPLE_STATES_MAX = 1000
COUNTEREXAMPLE_BYTES_MAX = 2 << 20
"""Of its JSON."""


def run(taken: Claim, asked: Any) -> None:
    """asked: the row of the check. Raises CannotCheck, JobLost."""
    try:
        manifest = tlc.manifest_of(asked.spec, asked.digest)
        pinned = manifest.configuration(asked.configuration)
        outcome = specs.run_configuration(
            manifest,
            replace(pinned, workers=1, memory_mb=settings().check_memory_mb, seconds_max=asked.seconds_max),
            specs.jar(),
            constants=asked.constants,
            disk_bytes_max=settings().check_disk_bytes_max,
            confinement=tlc.confinement(asked.seconds_max),
            on_progress=lambda found: _report(taken, found),
        )
    except (specs.SpecUnreadable, specs.UnknownSpec, specs.BadConstant, specs.CheckerMissing) as e:
        raise CannotCheck(str(e)) from e
    own = asked.constants == manifest.chosen(pinned)
    _finish(taken, outcome, not specs.differences_of(pinned, outcome) if own else None)


def _report(taken: Claim, found: specs.Outcome) -> bool:
    """Stores the progress of TLC. Raises JobLost when the check was cancelled, deleted or taken over; this ends TLC."""
    try:
        with engine().begin() as connection:
            jobs.report(connection, taken, "checking", 0.0)
            connection.execute(update(ModelCheck).where(ModelCheck.id == taken.subject_id).values(_reached(found)))
    except SQLAlchemyError as e:
        log.warning("progress.not_stored", reason=str(e))  # the check goes on while its lease lasts
    return True


def _reached(found: specs.Outcome) -> dict[str, Any]:
    return {
        "generated": max(found.generated, found.distinct),  # reported once a minute, `distinct` each second
        "distinct": found.distinct,
        "queued": found.queued,
        "depth": found.depth,
        "seconds": round(found.seconds, 3),
    }


def _finish(taken: Claim, found: specs.Outcome, as_pinned: bool | None) -> None:
    kept = kept_states(found.counterexample)
    result: dict[str, Any] = {
        **_reached(found),
        "coverage": [
            {"action": name, "place": place.strip("()"), "taken": times}
            for key, times in found.actions.items()
            for name, _, place in [key.partition(" ")]
        ],
        "counterexample": kept or None,
        "counterexample_states": len(found.counterexample) or None,
    }
    reason = _failure(found)
    if reason is None:
        result |= {
            "state": State.done.value,
            "verdict": "holds" if found.violated is None else "violated",
            "violated": found.violated,
            "as_pinned": as_pinned,
            "error": None,
            "finished_at": func.clock_timestamp(),
        }
    with engine().begin() as connection:
        jobs.hold(connection, taken)
        connection.execute(update(ModelCheck).where(ModelCheck.id == taken.subject_id).values(result))
        if reason is None:
            jobs.finish(connection, taken)
        else:
            jobs.fail(connection, taken, reason)
            log.info("job.failed", reason=reason)


def kept_states(states: list[specs.State]) -> list[dict[str, Any]]:
    """The states of a counterexample as JSON. Of one that is too long, the first state and the last states are kept."""
    found: list[dict[str, Any]] = []
    size = 0
    for state in reversed(states):
        entry = state.as_json()
        size += len(json.dumps(entry))
        if found and (len(found) >= COUNTEREXAMPLE_STATES_MAX or size > COUNTEREXAMPLE_BYTES_MAX):
            return [states[0].as_json(), *reversed(found)]
        found.append(entry)
    return found[::-1]


def _failure(found: specs.Outcome) -> str | None:
    """The reason why a run gave no verdict; None when it gave one."""
    if not found.stopped:
        if found.exit == 0 and found.distinct > 0:
            return None
        if found.exit in (11, 12, 13) and found.violated is not None:
            return None
    return tlc.failure(
        found,
        f"reached {found.distinct} distinct states, {found.queued} of them not yet explored, depth {found.depth or 0}",
    )
