"""Sending captures to a service."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rewindow.client import resuming
from rewindow.client.service import Answer, Refused, ServerBusy, ServerFailed, Service, Stopped
from rewindow.client.tables import aligned, printable
from rewindow.errors import CaptureUnreadable, RewindowError

_POLL_S = 0.5
LARGE_BYTES = 64 << 20
"""A capture of so many bytes is sent so that it goes on after an interruption."""
_REFUSES_THIS = (400, 408, 413, 415, 422)
"""Statuses that are about one upload, not about the caller or the server."""


class CaptureRefused(ServerFailed):
    """The server does not take this capture; it may take others. may_succeed_later: it was sent too slowly."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.may_succeed_later = status == 408


_OUTCOMES = {CaptureUnreadable: "unreadable", CaptureRefused: "refused"}
"""Errors that are about one capture."""


@dataclass
class Sent:
    """What became of one capture of several. `outcome` is a word or two; `trouble` is why it was not accepted.

    One whose analysis failed has the outcome `failed`, and the server's reason in `capture`.
    """

    path: str
    outcome: str = "not tried"
    capture: dict[str, Any] | None = None
    trouble: RewindowError | None = None


def connections(service: Service, capture_id: str) -> list[dict[str, Any]]:
    """The first connections of an analysed capture, each with subflows and replays. Raises ServerFailed."""
    page = service.ask("GET", f"/v1/captures/{capture_id}/connections?limit=20")
    return [service.ask("GET", f"/v1/connections/{c['id']}") for c in page["items"]]


def upload(service: Service, path: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Uploads one capture and returns the server's record of it. `-` is standard input.

    Raises CaptureUnreadable, CaptureRefused, ServerFailed.
    """
    try:
        with tempfile.TemporaryFile() if path == "-" else Path(path).open("rb") as body:
            if path == "-":  # its length is not known before its end
                shutil.copyfileobj(sys.stdin.buffer, body)
            return send(service, body, "standard-input" if path == "-" else Path(path).name, tags, path)
    except OSError as e:
        raise CaptureUnreadable(path, e.strerror or str(e)) from e


def upload_each(
    service: Service, captures: Sequence[Sent], tags: Mapping[str, str], report: Callable[[RewindowError], None]
) -> None:
    """Uploads captures in their order, and fills in what became of each.

    One that fails does not stop the others. What stops them: a server that refuses the caller, stays busy, or fails two
    captures one after the other.
    """
    failed_before = False
    for sent in captures:
        try:
            sent.capture = upload(service, sent.path, tags)
        except (CaptureUnreadable, ServerFailed) as e:
            sent.trouble = e
            report(e)
            sent.outcome = _OUTCOMES.get(type(e), "not sent")
            is_of_this = type(e) in _OUTCOMES
            if isinstance(e, Stopped | Refused | ServerBusy) or (failed_before and not is_of_this):
                return
            failed_before = not is_of_this
        else:
            failed_before = False
            restored, known = sent.capture.get("restored"), sent.capture.get("already_here")
            sent.outcome = "stored again" if restored else "already here" if known else "sent"


def table(captures: Sequence[Sent]) -> Iterator[str]:
    """Lines: what became of each capture."""
    heading = ("outcome", "id", "capture", "reason")
    rows = []
    for sent in captures:
        accepted = str(sent.capture["id"]) if sent.capture else "-"
        failure = sent.capture["error"] if sent.outcome == "failed" and sent.capture else sent.trouble
        reason = " ".join(str(failure or "").removeprefix(f"{sent.path}: ").split())
        rows.append((sent.outcome, accepted, printable(sent.path), printable(reason)))
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    yield from (aligned(row, widths) for row in (heading, ["-" * w for w in widths], *rows))


def send(service: Service, body: IO[bytes], name: str, tags: Mapping[str, str], told: str) -> dict[str, Any]:
    """Uploads an open file under a name. told: what errors call it. Raises CaptureRefused, ServerFailed, OSError.

    A large one goes on after an interruption, also when it is sent again by another run.
    """
    name = name.encode(errors="replace").decode()  # a name on disk may be no text
    if os.fstat(body.fileno()).st_size >= LARGE_BYTES:
        with contextlib.suppress(resuming.NotOffered):
            return resuming.send(service, body, name, tags, lambda answer: _refused(answer, told))
    query = urllib.parse.urlencode([("filename", name), *(("tag", f"{k}={v}") for k, v in tags.items())])
    size = os.fstat(body.fileno()).st_size
    headers = {"Content-Type": "application/vnd.tcpdump.pcap", "Content-Length": str(size)}
    with service.answer("POST", f"/v1/captures?{query}", body=body, headers=headers) as answer:
        if answer.status != 202:
            raise _refused(answer, told)
        return answer.document()


def _refused(answer: Answer, told: str) -> ServerFailed:
    if answer.status in _REFUSES_THIS:
        return CaptureRefused(f"{told}: {answer.failure()}", answer.status)
    return answer.failure()


def analysed(service: Service, capture: dict[str, Any]) -> dict[str, Any]:
    """The server's record of a capture when its analysis has ended. Raises ServerFailed."""
    while capture["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        capture = service.ask("GET", f"/v1/captures/{capture['id']}")
    return capture
