"""The numbers of the API's answers: what is counted, under which labels, and what their times are."""

from __future__ import annotations

import asyncio
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from api import http_metrics, metrics_folder
from tests.service.test_resumable_uploads import begin, patch

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def told(application: TestClient) -> Samples:
    """Each sample of a scrape, by its name and labels."""
    families = text_string_to_metric_families(application.get("/metrics").text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def sample(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def counted(before: Samples, after: Samples) -> dict[tuple[str, str, str], float]:
    """How many more answers, by method, route and status; those of scrapes left out."""
    found = {}
    for (name, labels), value in after.items():
        more = value - before.get((name, labels), 0.0)
        its = dict(labels)
        if name == "rewindow_http_requests_total" and more and its["route"] != "/metrics":
            found[its["method"], its["route"], its["status"]] = more
    return found


def test_answers_are_counted_by_route(application: TestClient, client: TestClient) -> None:
    before = told(application)
    for _ in range(2):
        assert client.get(f"/v1/captures/{uuid.uuid4()}").status_code == 404
    assert application.get("/v1/captures").status_code == 401
    assert client.get("/v1/captures").status_code == 200
    assert client.delete("/v1/aggregates").status_code == 405
    assert client.get("/v1/openapi.json").status_code == 200
    override = {"X-HTTP-Method-Override": "HEAD", "Tus-Resumable": "1.0.0"}
    assert client.post(f"/v1/uploads/{uuid.uuid4()}", headers=override).status_code == 404
    after = told(application)
    assert counted(before, after) == {
        ("GET", "/v1/captures/{capture_id}", "404"): 2, ("GET", "/v1/captures", "401"): 1,
        ("GET", "/v1/captures", "200"): 1, ("DELETE", "/v1/aggregates", "405"): 1,
        ("GET", "/v1/openapi.json", "200"): 1, ("HEAD", "/v1/uploads/{upload_id}", "404"): 1,
    }  # fmt: skip
    of = {"method": "GET", "route": "/v1/captures/{capture_id}"}
    times = "rewindow_http_request_seconds_count"
    assert sample(after, times, **of) - sample(before, times, **of) == 2


def test_hostile_requests_make_few_labels(application: TestClient) -> None:
    before = told(application)
    for n in range(30):
        application.request(f"M{n}", f"/v1/nothing/{n}")
        application.request("TRACE", f"/{uuid.uuid4()}")
        application.get(f"/{n}/{uuid.uuid4()}")
        application.get(f"/v1/connections/{n}x")
        application.get(f"/assets/{n}.js")
    assert set(counted(before, told(application))) == {
        ("other", "/{path:path}", "405"), ("GET", "/{path:path}", "404"), ("GET", "/assets", "404"),
        ("GET", "/v1/connections/{connection_id}", "401"),
    }  # fmt: skip


Handler = Callable[[Request], Any]


class Clock:
    """Stands still unless something takes time."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(handler: Handler, clock: Clock, *, client_s: float = 0.0, parts: int = 1) -> Samples:
    """The samples that one POST to a handler adds. client_s: how long the client takes for each part of its body, and
    to take each part of the answer."""

    async def endpoint(request: Request) -> Response:
        answer: Response = await handler(request)
        return answer

    async def receive() -> dict[str, Any]:
        nonlocal parts
        clock.now += client_s
        parts -= 1
        return {"type": "http.request", "body": b"x", "more_body": parts > 0}

    async def send(_: Any) -> None:
        clock.now += client_s

    def now() -> Samples:
        return {(s.name, frozenset(s.labels.items())): s.value for f in families() for s in f.samples}

    def families() -> Any:
        return http_metrics._of_this_process.collect()

    counted = http_metrics.Counted(Starlette(routes=[Route("/asked", endpoint, methods=["POST"])]), clock)
    scope = {
        "type": "http", "method": "POST", "path": "/asked", "headers": [], "query_string": b"", "root_path": "",
        "http_version": "1.1", "scheme": "http", "server": ("x", 80), "asgi": {"spec_version": "2.4"},
    }  # fmt: skip
    before = now()
    with suppress(ZeroDivisionError):
        asyncio.run(counted(scope, receive, send))
    return {
        key: value - before.get(key, 0.0)
        for key, value in now().items()
        if ("route", "/asked") in key[1] and not key[0].endswith("_created")
    }


def seconds(found: Samples) -> tuple[float, float]:
    """How many times there are, and their sum."""
    of = {"method": "POST", "route": "/asked"}
    times = "rewindow_http_request_seconds"
    return sample(found, f"{times}_count", **of), sample(found, f"{times}_sum", **of)


def answers(found: Samples, status: str) -> float:
    return sample(found, "rewindow_http_requests_total", method="POST", route="/asked", status=status)


def test_times_are_the_services_not_the_clients() -> None:
    clock = Clock()

    async def handler(request: Request) -> Response:
        await request.body()
        clock.now += 0.25
        return Response("done")

    assert seconds(ask(handler, clock, client_s=100.0, parts=3)) == (1, 0.25)


def test_streams_of_events_have_no_time() -> None:
    clock = Clock()

    async def events() -> AsyncIterator[str]:
        for _ in range(3):
            clock.now += 600.0
            yield "data: x\n\n"

    async def handler(_: Request) -> Response:
        return StreamingResponse(events(), media_type="text/event-stream")

    found = ask(handler, clock)
    assert (seconds(found), answers(found, "200")) == ((0, 0), 1)


def test_what_follows_an_answer_takes_no_time_of_it() -> None:
    from starlette.background import BackgroundTask

    clock = Clock()

    def later() -> None:
        clock.now += 50.0

    async def handler(_: Request) -> Response:
        clock.now += 0.5
        return Response("done", background=BackgroundTask(later))

    assert seconds(ask(handler, clock)) == (1, 0.5)


@pytest.mark.parametrize("begun", [False, True])
def test_an_error_of_the_service_is_one_of_its_answers(begun: bool) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    async def handler(_: Request) -> Response:
        if begun:
            return StreamingResponse(broken())
        raise ZeroDivisionError

    found = ask(handler, Clock())
    assert (answers(found, "500"), answers(found, "200"), seconds(found)[0]) == (1, 0, 1)


def test_unfinished_uploads_are_told(application: TestClient, client: TestClient) -> None:
    def now() -> tuple[float, ...]:
        samples = told(application)
        names = ("uploads", "upload_bytes", "upload_missing_bytes")
        return tuple(sample(samples, f"rewindow_unfinished_{name}") for name in names)

    before = now()
    address = begin(client, 1000)
    patch(client, address, 0, b"x" * 400)
    uploads, size, missing = (a - b for a, b in zip(now(), before, strict=True))
    assert (uploads, missing) == (1, 600)
    assert 400 < size < 500, "with what encryption adds"
    assert client.delete(address, headers={"Tus-Resumable": "1.0.0"}).status_code == 204
    assert now() == before
    assert sample(told(application), "rewindow_uploads_free_bytes") > 0


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(metrics_folder, "_base", lambda: tmp_path)
    return tmp_path


def test_a_folder_is_new_at_each_start(base: Path) -> None:
    """That of a first process that was killed is removed; that of one that runs, and what is no such folder, stays."""
    (left := base / "rewindow-metrics-left").mkdir()
    (left / "counter_0.db").write_bytes(b"x")
    (base / "rewindow-metrics-file").write_bytes(b"x")
    (base / "else").mkdir()
    (base / "rewindow-metrics-link").symlink_to(base / "else")
    with metrics_folder.of_this_start() as first:
        assert not left.exists()
        with metrics_folder.of_this_start() as second:
            assert first.is_dir()
            assert list(second.iterdir()) == []
            assert second.stat().st_mode & 0o077 == 0
            assert os.environ[metrics_folder.VARIABLE] == str(second)
        assert not second.exists()
    assert not first.exists()
    assert {p.name for p in base.iterdir()} == {"rewindow-metrics-file", "rewindow-metrics-link", "else"}
    assert metrics_folder.VARIABLE not in os.environ


def test_a_process_goes_on_where_another_has_ended(base: Path) -> None:
    take = metrics_folder.place.__wrapped__
    with metrics_folder.of_this_start() as folder:
        assert (take(), take()) == (0, 1), "one that runs has its number for itself"
        (folder / "counter_1.db").write_bytes(b"counted")
        for file in Path("/proc/self/fd").iterdir():
            if file.is_symlink() and file.readlink() == folder / "1.lock":
                os.close(int(file.name))
        assert take() == 1
        assert (folder / "counter_1.db").read_bytes() == b"counted"
        room = (folder / "histogram_0.db").stat()
        assert room.st_blocks * 512 >= room.st_size > 0, "no disk can be too full for it later"


def test_a_folder_that_is_being_removed_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another first process has taken it for one that is left."""
    (folder := tmp_path / "new").mkdir()
    real = fcntl.flock

    def late(opened: int, operation: int) -> None:
        folder.rmdir()
        real(opened, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert metrics_folder._locked(folder, fcntl.LOCK_EX) is None
