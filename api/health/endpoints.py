"""`/healthz` tells that the process runs, `/readyz` that its dependencies answer; `/metrics` is for Prometheus."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, get_args

import obstore
import redis.asyncio
import redis.exceptions
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from obstore.exceptions import BaseError as StoreError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, Float, Select, cast, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from api import http_metrics
from api.errors import Unavailable, problem
from store import jobs, objects, uploads_folder
from store.database import async_engine
from store.models import Alert, Delivery, DeliveryState, Job, ResumableUpload, RetentionCount, State
from store.retention import KINDS
from store.settings import settings

router = APIRouter(tags=["health"])

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


def _uploads() -> Select[int, int, int]:
    """How many resumable uploads are not complete, what is kept of them on the disk, and what is missing; bytes."""
    kept, missing = func.sum(ResumableUpload.kept_bytes), func.sum(ResumableUpload.length - ResumableUpload.received)
    is_open = ResumableUpload.capture_id.is_(None), ResumableUpload.expires_at > func.clock_timestamp()
    return select(func.count(), func.coalesce(kept, 0), func.coalesce(missing, 0)).where(*is_open)


async def _is_writable() -> bool:
    try:
        await _objects()
    except (StoreError, OSError):  # a time-out is one
        return False
    return True


def _free_bytes() -> int:
    """On the disk for resumable uploads; 0 where nothing can be written to it."""
    try:
        return shutil.disk_usage(uploads_folder.folder()).free
    except OSError:
        return 0


class _Told(Collector):
    """What was found for one scrape. It is of the service as a whole: whichever of the API's processes answers, tells
    the same."""

    def __init__(self) -> None:
        self._families: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self._families

    def gauge(self, name: str, meaning: str, value: float) -> None:
        self._families.append(GaugeMetricFamily(name, meaning, value))

    def gauges(self, name: str, meaning: str, label: str, by_label: Mapping[str, float]) -> None:
        self._add(GaugeMetricFamily(name, meaning, labels=[label]), by_label)

    def counts(self, name: str, meaning: str, label: str, by_label: Mapping[str, float]) -> None:
        self._add(CounterMetricFamily(name, meaning, labels=[label]), by_label)

    def _add(self, family: GaugeMetricFamily | CounterMetricFamily, by_label: Mapping[str, float]) -> None:
        for label, value in by_label.items():
            family.add_metric([label], value)
        self._families.append(family)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics() -> Response:
    """For Prometheus."""
    async with AsyncSession(async_engine()) as session:
        rows = await session.execute(select(Job.state, func.count()).group_by(Job.state))
        counts = {state: n for state, n in rows}
        deleted = await session.execute(select(RetentionCount.kind, RetentionCount.captures, RetentionCount.bytes))
        retained = {row.kind: (row.captures, row.bytes) for row in deleted}
        waits = {is_check: seconds for is_check, seconds in await session.execute(_waits())}
        overdue = await session.scalar(select(_age(func.min(Alert.due_at))).where(Alert.enabled))
        posted = await session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
        messages = {state: n for state, n in posted}
        uploads, kept_bytes, missing_bytes = (await session.execute(_uploads())).one()
    is_writable = await _is_writable()
    async with _redis_client() as client:
        # Redis has no key for an empty queue, so the names of the queues come from `jobs`.
        queues = {name: await client.llen(name) for name in jobs.QUEUES}
    free_bytes = await asyncio.to_thread(_free_bytes)

    told = _Told()
    told.gauges("rewindow_jobs", "Jobs by state", "state", {s.value: counts.get(s, 0) for s in State})
    told.gauges("rewindow_queue_length", "Wake-ups that no worker has taken", "queue", queues)
    waited = {name: waits.get(bool(place), 0.0) for place, name in enumerate(jobs.QUEUES)}
    told.gauges("rewindow_oldest_wait_seconds", "How long the oldest job that may run has waited", "queue", waited)
    told.gauge(
        "rewindow_alert_overdue_seconds", "How late the latest evaluation of an alert is", max(0.0, overdue or 0.0)
    )
    told.gauges(
        "rewindow_webhook_messages", "Messages of the last 30 days by state", "state",
        {state: messages.get(state, 0) for state in get_args(DeliveryState)},
    )  # fmt: skip
    told.gauges(
        "rewindow_dependency_up", "Does it do its part? 1 or 0", "dependency", {"object_store": float(is_writable)}
    )
    told.gauge("rewindow_unfinished_uploads", "Resumable uploads that are not complete", uploads)
    told.gauge("rewindow_unfinished_upload_bytes", "What their files on the API's disk have", kept_bytes)
    told.gauge("rewindow_unfinished_upload_missing_bytes", "What they are still to get", missing_bytes)
    told.gauge("rewindow_uploads_free_bytes", "Room on the API's disk for resumable uploads", free_bytes)
    told.counts(
        "rewindow_retention_captures", "Captures of which retention has deleted something", "kind",
        {kind: retained.get(kind, (0, 0))[0] for kind in KINDS},
    )  # fmt: skip
    told.counts(
        "rewindow_retention_bytes", "Bytes that retention has deleted", "kind",
        {kind: retained.get(kind, (0, 0))[1] for kind in KINDS},
    )  # fmt: skip
    registry = CollectorRegistry()
    registry.register(told)
    http_metrics.register(registry)
    return Response(await asyncio.to_thread(generate_latest, registry), media_type=CONTENT_TYPE_LATEST)
