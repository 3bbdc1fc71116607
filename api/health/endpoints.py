"""`/healthz` tells that the process runs, `/readyz` that its dependencies answer; `/metrics` is for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import obstore
import redis.asyncio
import redis.exceptions
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from obstore.exceptions import BaseError as StoreError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, Float, Select, cast, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from api.errors import Unavailable, problem
from store import jobs, objects
from store.database import async_engine
from store.models import Alert, Delivery, DeliveryState, Job, RetentionCount, State
from store.retention import KINDS
from store.settings import settings

router = APIRouter(tags=["health"])

# Of the service as a whole: whichever of the API's processes answers tells the same. prometheus_client's own registry
# has numbers of one process beside.
_registry = CollectorRegistry()
_jobs = Gauge("rewindow_jobs", "Jobs by state", ["state"], registry=_registry)
_queue = Gauge("rewindow_queue_length", "Wake-ups that no worker has taken", ["queue"], registry=_registry)
_wait = Gauge(
    "rewindow_oldest_wait_seconds", "How long the oldest job that may run has waited", ["queue"], registry=_registry
)
_overdue = Gauge("rewindow_alert_overdue_seconds", "How late the latest evaluation of an alert is", registry=_registry)
_messages = Gauge("rewindow_webhook_messages", "Messages of the last 30 days by state", ["state"], registry=_registry)
_up = Gauge("rewindow_dependency_up", "Does it do its part? 1 or 0", ["dependency"], registry=_registry)


class _RetentionCounts(Collector):
    """What retention has deleted since the service began: PostgreSQL counts it, with each deletion."""

    def __init__(self) -> None:
        self.counted: dict[str, tuple[int, int]] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        captures = CounterMetricFamily(
            "rewindow_retention_captures", "Captures of which retention has deleted something", labels=["kind"]
        )
        size = CounterMetricFamily("rewindow_retention_bytes", "Bytes that retention has deleted", labels=["kind"])
        for kind in KINDS:
            count = self.counted.get(kind, (0, 0))
            captures.add_metric([kind], count[0])
            size.add_metric([kind], count[1])
        yield from (captures, size)


_retention = _RetentionCounts()
_registry.register(_retention)

_PROBE_S = 2.0
"""A dependency that does not answer within this time is away."""


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process runs."""
    return {"status": "ok"}


async def _database() -> None:
    async with async_engine().connect() as connection:
        await connection.execute(text("SELECT version_num FROM alembic_version"))


@asynccontextmanager
async def _redis_client() -> AsyncIterator[redis.asyncio.Redis]:
    """Raises Unavailable."""
    url = str(settings().redis_url)
    try:
        async with redis.asyncio.from_url(url, socket_timeout=_PROBE_S, socket_connect_timeout=_PROBE_S) as client:
            yield client
    except redis.exceptions.RedisError as e:
        raise Unavailable("Redis does not answer at the moment", headers={"Retry-After": "1"}) from e


async def _redis() -> None:
    async with _redis_client() as client:
        await client.ping()


async def _objects() -> None:
    """Writes an object, always the same one: a store that is full or may only be read would take no upload."""
    async with asyncio.timeout(_PROBE_S):
        await obstore.put_async(objects.object_store(), "probes/readyz", b"written by /readyz")


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
            states[name] = type(e.__cause__ or e).__name__
    if any(v != "ok" for v in states.values()):
        raise Unavailable("a dependency does not answer", headers={"Retry-After": "5"}, dependencies=states)
    return states


def _age(since: ColumnElement[Any]) -> ColumnElement[float]:
    """Seconds from then to now."""
    return cast(func.extract("epoch", func.clock_timestamp() - since), Float)


def _waits() -> Select[bool, float]:
    """Of the queue of captures (False) and that of checks (True), where jobs wait."""
    begun = func.greatest(Job.queued_at, Job.not_before)  # a missing one is passed over
    is_check = Job.check_id.is_not(None)
    may_run = or_(Job.not_before.is_(None), Job.not_before <= func.clock_timestamp())
    return select(is_check, _age(func.min(begun))).where(Job.state == State.queued, may_run).group_by(is_check)


async def _is_writable() -> bool:
    try:
        await _objects()
    except (StoreError, OSError):  # a time-out is one
        return False
    return True


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics() -> Response:
    """For Prometheus."""
    async with AsyncSession(async_engine()) as session:
        rows = await session.execute(select(Job.state, func.count()).group_by(Job.state))
        counts = {state: n for state, n in rows}
        deleted = await session.execute(select(RetentionCount.kind, RetentionCount.captures, RetentionCount.bytes))
        _retention.counted = {row.kind: (row.captures, row.bytes) for row in deleted}
        waits = {is_check: seconds for is_check, seconds in await session.execute(_waits())}
        overdue = await session.scalar(select(_age(func.min(Alert.due_at))).where(Alert.enabled))
        posted = await session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
        messages = {state: n for state, n in posted}
    for state in State:
        _jobs.labels(state.value).set(counts.get(state, 0))
    for place, name in enumerate(jobs.QUEUES):
        _wait.labels(name).set(waits.get(bool(place), 0))
    _overdue.set(max(0.0, overdue or 0.0))
    for known in get_args(DeliveryState):
        _messages.labels(known).set(messages.get(known, 0))
    _up.labels("object_store").set(await _is_writable())
    async with _redis_client() as client:
        # Redis has no key for an empty queue, so the names of the queues come from `jobs`.
        for name in jobs.QUEUES:
            _queue.labels(name).set(await client.llen(name))
    return Response(generate_latest(_registry), media_type=CONTENT_TYPE_LATEST)
