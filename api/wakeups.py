"""Wakes a worker. When Redis is away the sweeper does so later, because the job's row is committed."""

from __future__ import annotations

import uuid
from functools import lru_cache

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from starlette.concurrency import run_in_threadpool

from store import jobs
from store.models import JobKind

log = structlog.get_logger()


@lru_cache
def _app() -> Celery:
    return jobs.celery_app()


async def wake(job_id: uuid.UUID, kind: JobKind) -> None:
    try:
        await run_in_threadpool(jobs.send, _app(), kind)
    except (OperationalError, OSError) as e:
        log.warning("job.not_sent", job=str(job_id), reason=str(e))


async def wake_all(count: int, kind: JobKind) -> None:
    """Wakes as many workers, one for each job."""

    def send() -> None:
        for _ in range(count):
            jobs.send(_app(), kind)

    try:
        await run_in_threadpool(send)
    except (OperationalError, OSError) as e:
        log.warning("jobs.not_sent", jobs=count, reason=str(e))
