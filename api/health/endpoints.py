"""`/healthz` tells that the process runs, `/readyz` that its dependencies answer; `/metrics` is for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import obstore
import redis.asyncio
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.concurrency import run_in_threadpool

from api.errors import Unavailable, problem
from store import jobs, objects
from store.database import async_engine
from store.models import Job, State
from store.settings import settings

router = APIRouter(tags=["health"])

_jobs = Gauge("rewindow_jobs", "Jobs by state", ["state"])
_queue = Gauge("rewindow_queue_length", "Wake-ups that no worker has taken", ["queue"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process runs."""
    return {"status": "ok"}


async def _database() -> None:
    async with async_engine().connect() as connection:
        await connection.execute(text("SELECT version_num FROM alembic_version"))


async def _redis() -> None:
    async with redis.asyncio.from_url(str(settings().redis_url), socket_timeout=2) as client:
        await client.ping()


async def _objects() -> None:
    def probe() -> None:
        next(iter(obstore.list(objects.object_store(), prefix="captures", chunk_size=1)), None)

    await run_in_threadpool(probe)


_DEPENDENCIES: dict[str, Callable[[], Awaitable[None]]] = {
    "database": _database,
    "redis": _redis,
    "object_store": _objects,
}


@router.get("/readyz", responses={503: problem("A dependency does not answer.")})
async def readyz() -> dict[str, str]:
    """Each dependency answers, and the object store takes what is written."""
    states = {}
    for name, probe in _DEPENDENCIES.items():
        try:
            await probe()
            states[name] = "ok"
        except Exception as e:
            states[name] = type(e).__name__
    if any(v != "ok" for v in states.values()):
        raise Unavailable("a dependency does not answer", dependencies=states)
    return states


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics() -> Response:
    """For Prometheus."""
    async with AsyncSession(async_engine()) as session:
        rows = await session.execute(select(Job.state, func.count()).group_by(Job.state))
        counts = {state: n for state, n in rows}
    for state in State:
        _jobs.labels(state.value).set(counts.get(state, 0))
    async with redis.asyncio.from_url(str(settings().redis_url), socket_timeout=2) as client:
        # Redis has no key for an empty queue, so the names of the queues come from `jobs`.
        for name in jobs.QUEUES:
            _queue.labels(name).set(await client.llen(name))
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
