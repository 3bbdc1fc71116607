"""Sending a capture to a server, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.parse
from pathlib import Path
from typing import Any

from rewindow.errors import CaptureUnreadable, RewindowError

_POLL_S = 0.5


class ServerFailed(RewindowError):
    """The server cannot be reached, or refuses."""


def _request(server: str, token: str, method: str, path: str, **kwargs: Any) -> tuple[int, dict[str, Any]]:
    url = urllib.parse.urlsplit(server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ServerFailed(f"{server}: not an http address")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", **kwargs.pop("headers", {})}
    try:
        connection.request(method, url.path.rstrip("/") + path, headers=headers, **kwargs)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise ServerFailed(f"{server}: {e}") from e
    finally:
        connection.close()


def upload(server: str, token: str, path: str, tags: dict[str, str], *, wait: bool) -> dict[str, Any]:
    """Uploads one capture and returns the server's record of it, analysed when `wait` is set.

    Raises CaptureUnreadable, ServerFailed.
    """
    query = urllib.parse.urlencode([("filename", Path(path).name), *(("tag", f"{k}={v}") for k, v in tags.items())])
    try:
        with Path(path).open("rb") as body:
            size = os.fstat(body.fileno()).st_size
            headers = {"Content-Type": "application/vnd.tcpdump.pcap", "Content-Length": str(size)}
            status, capture = _request(server, token, "POST", f"/v1/captures?{query}", body=body, headers=headers)
    except OSError as e:
        raise CaptureUnreadable(path, e.strerror or str(e)) from e
    if status != 202:
        raise ServerFailed(f"{server}: {status} {capture.get('detail', '')}")
    while wait and capture["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        status, capture = _request(server, token, "GET", f"/v1/captures/{capture['id']}")
        if status != 200:
            raise ServerFailed(f"{server}: {status} {capture.get('detail', '')}")
    return capture
