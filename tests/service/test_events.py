"""Event streams: one poller for all of a process."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Collection
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession
from structlog.testing import capture_logs

from api.app import _lifespan
from api.captures import service
from api.events import Poller, Progress
from store.database import async_engine, engine
from store.models import Job
from tests.service.test_api import Run, upload

WAITS = Progress({"state": "queued"}, has_ended=False)


def report(capture: str, progress: float) -> None:
    with engine().begin() as connection:
        connection.execute(update(Job).where(Job.capture_id == uuid.UUID(capture)).values(progress=progress))


async def told(stream: Any) -> dict[str, Any]:
    event = await asyncio.wait_for(anext(stream), 30)
    return dict(json.loads(event.split("data: ")[1]))


def run(application: TestClient, what: Any) -> None:
    """In the loop of the application, whose pool of connections belongs to it."""
    assert application.portal is not None
    application.portal.call(what)


def test_all_streams_share_one_look(application: TestClient, client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)["id"]
    looks: list[int] = []

    async def counted(session: AsyncSession, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
        looks.append(len(ids))
        return await service.progress(session, ids)

    async def watch() -> None:
        poller = Poller()
        other = [poller.changes(counted, uuid.uuid4(), WAITS) for _ in range(99)]
        streams = [poller.changes(counted, uuid.UUID(capture), WAITS), *other]
        assert [await told(s) for s in streams] == [WAITS.shown] * 100
        polls = asyncio.create_task(poller.run())
        first = await told(streams[0])
        assert (first["state"], first["progress"]) == ("queued", 0)
        assert set(looks) == {100}
        report(capture, 0.25)
        assert (await told(streams[0]))["progress"] == 0.25
        for stream in other:  # of objects that do not exist
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(stream), 30)
        await asyncio.to_thread(run_jobs)
        while (last := await told(streams[0]))["state"] != "done":
            pass
        assert last["progress"] == 1
        with pytest.raises(StopAsyncIteration):
            await anext(streams[0])
        seen = len(looks)
        await asyncio.sleep(1)
        assert len(looks) <= seen + 1, "without streams nobody looks"
        polls.cancel()

    run(application, watch)


def test_streams_outlive_an_outage(application: TestClient, client: TestClient) -> None:
    capture = upload(client)["id"]
    is_away = True

    async def failing(session: AsyncSession, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
        nonlocal is_away
        if is_away:
            is_away = False
            raise OperationalError("", None, Exception("the server is restarting"))
        return await service.progress(session, ids)

    async def watch() -> None:
        poller = Poller()
        polls = asyncio.create_task(poller.run())
        stream = poller.changes(failing, uuid.UUID(capture), WAITS)
        assert await told(stream) == WAITS.shown
        assert (await told(stream))["stage"] == "queued"
        assert not is_away
        polls.cancel()

    run(application, watch)


def test_an_error_of_one_look_ends_no_other_stream(application: TestClient, client: TestClient) -> None:
    capture = upload(client)["id"]

    async def broken(session: AsyncSession, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
        raise KeyError("a column that is not there")

    async def watch() -> None:
        poller = Poller()
        polls = asyncio.create_task(poller.run())
        streams = [poller.changes(look, uuid.UUID(capture), WAITS) for look in (broken, service.progress)]
        for stream in streams:
            assert await told(stream) == WAITS.shown
        assert (await told(streams[1]))["stage"] == "queued"
        assert not polls.done()
        polls.cancel()

    with capture_logs() as logged:
        run(application, watch)
    assert any(entry["event"] == "events.error" for entry in logged)


def test_the_connections_are_closed_however_the_poller_ends(
    application: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Poller) -> None:
        raise ValueError("the poller")

    async def live() -> None:
        before = async_engine().pool
        with pytest.raises(ValueError, match="the poller"):
            async with _lifespan(FastAPI()):
                await asyncio.sleep(0)
        assert async_engine().pool is not before  # SQLAlchemy puts a new one in the place of the one that it closed

    monkeypatch.setattr(Poller, "run", broken)
    run(application, live)


def test_an_event_shows_what_the_capture_shows(client: TestClient, run_jobs: Run) -> None:
    capture = upload(client)["id"]
    run_jobs()
    seen = client.get(f"/v1/captures/{capture}").json()
    (event,) = client.get(f"/v1/captures/{capture}/events").text.split("\n\n")[:-1]
    assert json.loads(event.split("data: ")[1]) == {n: seen[n] for n in ("state", "stage", "progress", "error")}
