"""Sending a capture to a server, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import IO, Any

from rewindow.errors import CaptureUnreadable, RewindowError

_POLL_S = 0.5


class ServerFailed(RewindowError):
    """The server cannot be reached, or refuses."""


class CaptureRefused(ServerFailed):
    """The server does not take this capture; it may take others."""


_REFUSES_THIS = (400, 408, 413, 415, 422)
"""Statuses that are about one upload, not about the caller or the server."""


_AGAIN = (429, 503)
"""Statuses of a server that has done nothing, and will take the same request later."""
PATIENCE_S = 120.0
"""A server that is busy for longer has refused the request."""
_RETRY_S = 1.0
"""The pause where the server does not say when to try again."""


def _request(server: str, token: str, method: str, path: str, **kwargs: Any) -> tuple[int, dict[str, Any]]:
    """Sends the request again while the server is busy, after the pauses that it names. Raises ServerFailed."""
    end = time.monotonic() + PATIENCE_S
    while True:
        status, answer, wait_s = _request_once(server, token, method, path, **kwargs)
        if status not in _AGAIN or time.monotonic() + wait_s > end:
            return status, answer
        time.sleep(wait_s)


def _request_once(
    server: str,
    token: str,
    method: str,
    path: str,
    *,
    body: IO[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, Any], float]:
    """Status, answer, and the seconds after which to try again."""
    url = urllib.parse.urlsplit(server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ServerFailed(f"{server}: not an http address")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=60)
    fields = {"Authorization": f"Bearer {token}", "Accept": "application/json", **(headers or {})}
    if body is not None:
        body.seek(0)
    try:
        # A server may refuse and close before it has read the whole body; its answer can still be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, url.path.rstrip("/") + path, body=body, headers=fields)
        response = connection.getresponse()
        answer = response.read()
        after = response.getheader("Retry-After", "")
        wait_s = float(after) if after.isascii() and after.isdigit() else _RETRY_S
        return response.status, _decoded(response.status, answer), wait_s
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise ServerFailed(f"{server}: {e}") from e
    finally:
        connection.close()


def _decoded(status: int, answer: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        return dict(json.loads(answer or b"{}"))
    except ValueError:
        if status in _AGAIN:  # this may be the text of a proxy in front of the server
            return {}
        raise


def connections(server: str, token: str, capture_id: str) -> list[dict[str, Any]]:
    """The first connections of an analysed capture, each with subflows and replays. Raises ServerFailed."""
    status, page = _request(server, token, "GET", f"/v1/captures/{capture_id}/connections?limit=20")
    found = [_request(server, token, "GET", f"/v1/connections/{c['id']}") for c in page.get("items", [])]
    if status != 200 or any(s != 200 for s, _ in found):
        raise ServerFailed(f"{server}: the connections of {capture_id} cannot be read")
    return [detail for _, detail in found]


def upload(server: str, token: str, path: str, tags: dict[str, str]) -> dict[str, Any]:
    """Uploads one capture and returns the server's record of it. `-` is standard input.

    Raises CaptureUnreadable, CaptureRefused, ServerFailed.
    """
    name = "standard-input" if path == "-" else Path(path).name
    query = urllib.parse.urlencode([("filename", name), *(("tag", f"{k}={v}") for k, v in tags.items())])
    try:
        with tempfile.TemporaryFile() if path == "-" else Path(path).open("rb") as body:
            if path == "-":  # its length is not known before its end
                shutil.copyfileobj(sys.stdin.buffer, body)
                body.seek(0)
            size = os.fstat(body.fileno()).st_size
            headers = {"Content-Type": "application/vnd.tcpdump.pcap", "Content-Length": str(size)}
            status, capture = _request(server, token, "POST", f"/v1/captures?{query}", body=body, headers=headers)
    except OSError as e:
        raise CaptureUnreadable(path, e.strerror or str(e)) from e
    if status in _REFUSES_THIS:
        raise CaptureRefused(f"{path}: {server}: {status} {capture.get('detail', '')}")
    if status != 202:
        raise ServerFailed(f"{server}: {status} {capture.get('detail', '')}")
    return capture


def analysed(server: str, token: str, capture: dict[str, Any]) -> dict[str, Any]:
    """The server's record of a capture when its analysis has ended. Raises ServerFailed."""
    while capture["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        status, capture = _request(server, token, "GET", f"/v1/captures/{capture['id']}")
        if status != 200:
            raise ServerFailed(f"{server}: {status} {capture.get('detail', '')}")
    return capture
