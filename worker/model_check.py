"""Running TLC on a specification with the constants that somebody chose (docs/decisions/model-checks.md)."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.exc import SQLAlchemyError

from rewindow import confined, specs
from store import jobs
from store.database import engine
from store.jobs import Claim, JobLost
from store.models import ModelCheck, State
from store.settings import settings

log = structlog.get_logger()

COUNTEREXAMPLE_STATES_MAX = 1000
COUNTEREXAMPLE_BYTES_MAX = 2 << 20
"""Of its JSON."""
_DISK_SLACK_BYTES = 256 << 20
"""What may be written between two looks."""
_REASON_CHARACTERS_MAX = 2000
_JAVA_BYTES = 4 << 30
"""Address space beside the heap: Java reserves much more than it uses."""


class CannotCheck(Exception):
    """The check cannot be run, now or later: its specification or TLC is missing, or is another one by now."""


def run(taken: Claim) -> None:
    """Raises CannotCheck, JobLost."""
    with engine().connect() as connection:
        asked = connection.execute(
            select(
                ModelCheck.spec,
                ModelCheck.configuration,
                ModelCheck.constants,
                ModelCheck.digest,
                ModelCheck.seconds_max,
            ).where(ModelCheck.id == taken.subject_id)
        ).one_or_none()
    if asked is None:
        raise JobLost
    try:
        (manifest,) = specs.manifests(Path(settings().specs_folder), [asked.spec])
        if manifest.digest() != asked.digest:
            raise CannotCheck("the specification has changed since this check was asked for; ask again")
        pinned = manifest.configuration(asked.configuration)
        outcome = specs.run_configuration(
            manifest,
            replace(pinned, workers=1, memory_mb=settings().check_memory_mb, seconds_max=asked.seconds_max),
            specs.jar(),
            constants=asked.constants,
            disk_bytes_max=settings().check_disk_bytes_max,
            confinement=_confinement(asked.seconds_max),
            on_progress=lambda found: _report(taken, found),
        )
    except (specs.SpecUnreadable, specs.UnknownSpec, specs.BadConstant, specs.CheckerMissing) as e:
        raise CannotCheck(str(e)) from e
    own = asked.constants == manifest.chosen(pinned)
    _finish(taken, outcome, not specs.differences_of(pinned, outcome) if own else None)


def _confinement(seconds_max: float) -> list[str]:
    """No network, and limits below which the runner's own on heap, time and disk strike first."""
    cpu_s = 60 + int(2 * seconds_max)  # Java compiles and collects beside the one thread that checks
    memory_bytes = _JAVA_BYTES + (2 * settings().check_memory_mb << 20)
    limits = (cpu_s, memory_bytes, settings().check_disk_bytes_max + _DISK_SLACK_BYTES)
    return [sys.executable, "-I", "-S", str(Path(confined.__file__)), *map(str, limits)]


def _report(taken: Claim, found: specs.Outcome) -> bool:
    """Stores how far TLC is. Raises JobLost when the check was cancelled, deleted or taken over: TLC is killed then."""
    try:
        with engine().begin() as connection:
            jobs.report(connection, taken, "checking", 0.0)
            connection.execute(update(ModelCheck).where(ModelCheck.id == taken.subject_id).values(_reached(found)))
    except SQLAlchemyError as e:
        log.warning("progress.not_stored", reason=str(e))  # the lease decides
    return True


def _reached(found: specs.Outcome) -> dict[str, Any]:
    return {
        "generated": max(found.generated, found.distinct),  # TLC tells this one once a minute, the other each second
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
    reason = failure(found)
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
    """A counterexample as JSON; of one that is too long, its first state and the last ones."""
    found: list[dict[str, Any]] = []
    size = 0
    for state in reversed(states):
        entry = state.as_json()
        size += len(json.dumps(entry))
        if found and (len(found) >= COUNTEREXAMPLE_STATES_MAX or size > COUNTEREXAMPLE_BYTES_MAX):
            return [states[0].as_json(), *reversed(found)]
        found.append(entry)
    return found[::-1]


def failure(found: specs.Outcome) -> str | None:
    """Why a run gave no verdict; None when it gave one."""
    reached = (
        f"reached {found.distinct} distinct states, {found.queued} of them not yet explored, depth {found.depth or 0}"
    )
    if found.stopped:
        return f"limit: {found.stopped}; {reached}"
    if found.exit == 0 and found.distinct > 0:
        return None
    if found.exit in (11, 12, 13) and found.violated is not None:
        return None
    if found.exit == 0:
        return "no state was reached: with these constants there is no initial state"
    errors = [e for e in found.errors if not e.startswith(confined.NOT_ISOLATED)]
    said = "\n".join(errors)
    if "OutOfMemory" in said:
        return f"limit: a heap of {settings().check_memory_mb} MB is too small; {reached}"
    if found.exit == -signal.SIGXCPU:
        return f"limit: too much CPU time; {reached}"
    if found.exit == 10:
        said = f"these constants are against an assumption of the specification\n{said}"
    return (said or f"TLC ended with status {found.exit}")[:_REASON_CHARACTERS_MAX]
