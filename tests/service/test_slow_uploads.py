"""Uploads that bring too little hold no connection for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from starlette.types import Message

from api import uploads
from api.errors import TimedOut
from api.uploads import SLOWEST_BYTES, STALL_S, Upload
from tests.service.test_api import PCAP, SAMPLE, assert_problem, objects


def receive(pieces: list[tuple[float, int]], monkeypatch: pytest.MonkeyPatch) -> int:
    """Receives an upload whose pieces, of so many bytes each, come so many seconds after one another. Returns its size.

    Raises TimedOut.
    """
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    coming = iter(pieces)

    async def message() -> Message:
        nonlocal now
        pause, size = next(coming, (0.0, 0))
        now += pause
        return {"type": "http.request", "body": bytes(size), "more_body": size > 0}

    async def take() -> int:
        upload = Upload(Request({"type": "http", "headers": []}, message), 1 << 30)
        async for _ in upload.chunks():
            pass
        return upload.size

    # The loop has its own idea of time.
    with asyncio.Runner() as runner:
        monkeypatch.setattr(runner.get_loop(), "time", time.perf_counter)
        return runner.run(take())


@pytest.mark.parametrize("parts", [1, 60, 1000])
def test_the_slowest_that_is_taken(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For hours, in pieces of any size."""
    pieces = [(STALL_S / parts, -(-SLOWEST_BYTES // parts))] * (3 * parts)
    assert receive(pieces, monkeypatch) >= 3 * SLOWEST_BYTES


@pytest.mark.parametrize("parts", [1, 60, 1000])
@pytest.mark.parametrize("before", [0, 10 * SLOWEST_BYTES])
def test_one_that_is_slower_is_refused(parts: int, before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it was quick."""
    pieces = [(STALL_S, before)] * (before > 0) + [(STALL_S / parts, SLOWEST_BYTES // parts - 1)] * (2 * parts)
    with pytest.raises(TimedOut, match=r"\d+ bytes arrived in 60 s; the upload was discarded"):
        receive(pieces, monkeypatch)


def test_it_is_answered_and_leaves_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STALL_S", 0.2)

    def slowly() -> Iterator[bytes]:
        for byte in SAMPLE.read_bytes()[:5]:
            time.sleep(0.3)
            yield bytes([byte])

    before = objects()
    assert_problem(client.post("/v1/captures", content=slowly(), headers=PCAP), 408, "bytes arrived in 0 s")
    assert objects() == before
    assert client.get("/v1/captures").json()["items"] == []
