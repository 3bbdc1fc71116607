"""Sending captures to a server that is busy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rewindow.client import service, uploads
from rewindow.client.service import Service


class Busy(HTTPServer):
    """Answers with the statuses of `answers` in turn, each with this Retry-After, and then takes what it gets."""

    def __init__(self, *answers: tuple[int, str], reads: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.reads, self.bodies = list(answers), reads, list[bytes]()
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Busy

    def do_POST(self) -> None:
        status, after = self.server.answers.pop(0) if self.server.answers else (202, "")
        if status == 202 or self.server.reads:
            self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"id": "1", "state": "queued"} if status == 202 else {"detail": "busy"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        if after:
            self.send_header("Retry-After", after)
        self.end_headers()
        self.wfile.write(answer if status != 503 else b"x" * len(answer))  # as a proxy may

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a client waited."""
    waited: list[float] = []
    monkeypatch.setattr(service.time, "sleep", waited.append)
    return waited


def serve(server: Busy) -> Iterator[Busy]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def busy(request: pytest.FixtureRequest) -> Iterator[Busy]:
    answers, reads = request.param
    yield from serve(Busy(*answers, reads=reads))


@pytest.mark.parametrize(
    "busy", [([(429, "7"), (503, "2"), (503, ""), (429, "soon")], True)], indirect=True, ids=["busy"]
)
def test_it_waits_as_long_as_it_is_told(busy: Busy, waits: list[float], tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    capture.write_bytes(b"capture" * 100)
    assert uploads.upload(Service(busy.address, "rw_x"), str(capture), {})["id"] == "1"
    assert waits == [7, 2, 1, 1]
    assert busy.bodies == [b"capture" * 100] * 5, "each time from the beginning"


@pytest.mark.parametrize("busy", [([(429, "100000"), (429, "1")], True)], indirect=True, ids=["long"])
def test_its_patience_ends(busy: Busy, waits: list[float], tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    capture.write_bytes(b"capture")
    with pytest.raises(service.ServerFailed, match="429 busy"):
        uploads.upload(Service(busy.address, "rw_x"), str(capture), {})
    assert waits == []


@pytest.mark.parametrize("busy", [([(429, "1")], False)], indirect=True, ids=["unread"])
def test_a_refusal_before_the_whole_body_is_read(busy: Busy, waits: list[float], tmp_path: Path) -> None:
    """The server closes the connection, while the client still sends."""
    capture = tmp_path / "x.pcap"
    capture.write_bytes(bytes(30_000_000))
    assert uploads.upload(Service(busy.address, "rw_x"), str(capture), {})["id"] == "1"
    assert waits == [1]
    assert [len(b) for b in busy.bodies] == [30_000_000]
