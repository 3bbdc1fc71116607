"""The Celery application: `celery -A worker.app worker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog
from celery import signals
from sqlalchemy import Connection, delete
from sqlalchemy.dialects.postgresql import insert

import rewindow
from rewindow import specs
from rewindow.conformance import step_logs
from store import jobs, logs
from store.database import engine
from store.models import AlgorithmRecord, SpecRecord
from store.settings import settings
from worker.tasks import run_next

app = jobs.celery_app()
log = structlog.get_logger()


@app.task(name=jobs.RUN_NEXT)  # type: ignore[untyped-decorator]
def run(queue: str) -> None:
    run_next(queue)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _set_up_logging(**_: Any) -> None:
    logs.configure()


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _fresh_connections(**_: Any) -> None:
    engine().dispose(close=False)  # the child must not use the sockets of its parent


@signals.worker_init.connect  # type: ignore[untyped-decorator]
def _publish(**_: Any) -> None:
    with engine().begin() as connection:
        publish_algorithms(connection)
        publish_specs(connection)
    engine().dispose()


def publish_algorithms(connection: Connection) -> None:
    """Stores the algorithms that this worker can run, for the API, which never loads the core."""
    found = rewindow.algorithms()
    for position, algorithm in enumerate(found):
        values = {"position": position, "description": algorithm.as_json()}
        connection.execute(
            insert(AlgorithmRecord)
            .values(name=algorithm.name, **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
        )
    connection.execute(delete(AlgorithmRecord).where(AlgorithmRecord.name.not_in([a.name for a in found])))


def _described(manifest: specs.Manifest) -> dict[str, Any]:
    """A specification as JSON: its configurations, the constants that may be chosen, and the pinned results."""
    return {
        "title": manifest.title,
        "windows": manifest.windows,
        "constants": {
            c.name: {"min": c.minimum, "max": c.maximum, "meaning": c.meaning} for c in manifest.constants.values()
        },
        "configurations": [
            {
                "name": c.name,
                "shows": c.shows,
                "suite": c.suite,
                "flags": c.flags,
                "constants": manifest.chosen(c),
                "properties": [*manifest.config(c).invariants, *manifest.config(c).properties],
                "pinned": {"violates": c.violates, "distinct": c.distinct, "depth": c.depth, "states": c.states},
            }
            for c in manifest.configurations
        ],
        # Algorithms whose steps TLC can follow in this specification.
        "controllers": [a for a, spec in step_logs.SPECIFIED.items() if spec == manifest.spec],
    }


def publish_specs(connection: Connection) -> None:
    """Stores the specifications that this worker can check, for the API."""
    try:
        found = specs.manifests(Path(settings().specs_folder))
        rows = [
            {"name": m.spec, "position": i, "digest": m.digest(), "description": _described(m)}
            for i, m in enumerate(found)
        ]
    except (specs.SpecUnreadable, OSError) as e:
        log.warning("specs.not_published", reason=str(e))
        return
    for values in rows:
        connection.execute(
            insert(SpecRecord).values(values).on_conflict_do_update(index_elements=["name"], set_=values)
        )
    connection.execute(delete(SpecRecord).where(SpecRecord.name.not_in([m.spec for m in found])))
