"""The Celery application: `celery -A worker.app worker`."""

from __future__ import annotations

import uuid
from typing import Any

import structlog
from celery import signals
from sqlalchemy import Connection, delete
from sqlalchemy.dialects.postgresql import insert

import rewindow
from store import jobs, logs
from store.database import engine
from store.models import AlgorithmRecord
from worker.tasks import run_job

app = jobs.celery_app()
log = structlog.get_logger()


@app.task(name=jobs.RUN_JOB)  # type: ignore[untyped-decorator]
def run(job_id: str) -> None:
    run_job(uuid.UUID(job_id))


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _set_up_logging(**_: Any) -> None:
    logs.configure()


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _fresh_connections(**_: Any) -> None:
    engine().dispose(close=False)  # sockets of the parent are not the child's


@signals.worker_init.connect  # type: ignore[untyped-decorator]
def _publish_algorithms(**_: Any) -> None:
    with engine().begin() as connection:
        publish_algorithms(connection)
    engine().dispose()


def publish_algorithms(connection: Connection) -> None:
    """Tells the API, which never loads the core, what the workers can run."""
    found = rewindow.algorithms()
    for position, algorithm in enumerate(found):
        values = {"position": position, "description": algorithm.as_json()}
        connection.execute(
            insert(AlgorithmRecord)
            .values(name=algorithm.name, **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
        )
    connection.execute(delete(AlgorithmRecord).where(AlgorithmRecord.name.not_in([a.name for a in found])))
