"""A server that breaks off, lies, or sends what a terminal or a file system would obey."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rewindow.cli import main
from rewindow.client import service

ID = "00000000-0000-4000-8000-000000000001"
BODY = b"capture" * 1000
RECORD = {"id": ID, "bytes": len(BODY), "sha256": hashlib.sha256(BODY).hexdigest()}


class Server(ThreadingHTTPServer):
    """Answers each path with its status, headers and body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, headers, body = self.server.answers[self.path.split("?")[0]]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(server: Server, *arguments: object) -> int:
    return main([*map(str, arguments), "--server", server.address, "--token", "rw_x"])


BROKEN = {
    "its length says more": ({"Content-Length": str(len(BODY) + 1)}, BODY),
    "no last chunk": (
        {"Content-Length": "", "Transfer-Encoding": "chunked"},
        f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_answer_that_breaks_off_is_no_file(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    headers, body = BROKEN[how]
    server.answers = {
        "/v1/connections.csv": (200, headers, body),
        f"/v1/captures/{ID}": (200, {}, json.dumps(RECORD).encode()),
        f"/v1/captures/{ID}/file": (200, headers, body),
    }
    assert run(server, "connections", "--output", tmp_path / "x.csv") == 4
    assert run(server, "download", ID, "--folder", tmp_path) == 4
    assert capsys.readouterr().err.count("the answer ends ") == 2
    assert list(tmp_path.iterdir()) == []


def test_other_bytes_than_the_records_are_no_file(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = {
        f"/v1/captures/{ID}": (200, {}, json.dumps(RECORD).encode()),
        f"/v1/captures/{ID}/file": (200, {}, BODY[:-1] + b"X"),
    }
    assert run(server, "download", ID, "--folder", tmp_path) == 4
    assert "SHA-256 differs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("../../etc/x.pcap", "x.pcap"),
        ("..\\..\\x.pcap", "x.pcap"),
        ("%2e%2e%2fx.pcap", "x.pcap"),
        ("..", ID),
        (".bashrc", "bashrc"),
        ("a%0a%1b[31mb.pcap", "a[31mb.pcap"),
        ("x" * 300 + ".pcap", "x" * 195 + ".pcap"),
        ("%C3%A9.pcap", "é.pcap"),
    ],
)
def test_a_file_stays_in_its_folder(server: Server, tmp_path: Path, told: str, name: str) -> None:
    folder = tmp_path / "a" / "b"
    server.answers = {
        f"/v1/captures/{ID}": (200, {}, json.dumps(RECORD).encode()),
        f"/v1/captures/{ID}/file": (200, {"Content-Disposition": f"attachment; filename*=UTF-8''{told}"}, BODY),
    }
    assert run(server, "download", ID, "--folder", folder) == 0
    assert [p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()] == [Path("a/b") / name]


def test_a_terminal_obeys_no_name(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {
        "started_at": None, "src": "::1", "sport": 1, "dst": "::2", "dport": 2, "kind": "tcp", "subflow_count": 1,
        "bytes": 0, "retransmitted_packets": 0, "rtt_us": None, "goodput_bps": None, "sender_algorithm": "x",
        "verdict": "good", "filename": "a\x1b[2Jb\u202e.pcap",
    }  # fmt: skip
    page = {"items": [found], "next_cursor": None, "total": 1, "total_is_exact": True}
    server.answers = {"/v1/connections": (200, {}, json.dumps(page).encode())}
    assert run(server, "connections") == 0
    row = capsys.readouterr().out.splitlines()[2]
    assert row.endswith("a\ufffd[2Jb\ufffd.pcap")
    assert "  [::1]:1  " in row


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"7", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_an_error(
    server: Server, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    server.answers = {"/v1/connections": (200, {}, body)}
    assert run(server, "connections") == 4
    assert "the answer is no JSON" in capsys.readouterr().err


def test_an_endless_answer_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service, "_JSON_BYTES_MAX", 10)
    server.answers = {"/v1/connections": (200, {}, json.dumps({"items": []}).encode())}
    assert run(server, "connections") == 4
    assert "has more than 10 bytes" in capsys.readouterr().err
