"""Captures of a service as files: what the service stores of each."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from rewindow.client.service import Answer, ServerFailed, Service

_PAGE = 500
_ID = re.compile(r"[0-9a-fA-F-]{32,36}")


def capture(service: Service, capture_id: str) -> dict[str, Any]:
    """The server's record of a capture. Raises ServerFailed, Refused."""
    if not _ID.fullmatch(capture_id):
        raise ServerFailed(f"{capture_id[:60]!r} is no id of a capture")
    return service.ask("GET", f"/v1/captures/{capture_id}")


def captures(service: Service, filters: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """The records of the captures that the filters select, the oldest first. Raises ServerFailed, Refused."""
    for page in service.items("/v1/captures", [*filters, ("sort", "created_at")], _PAGE):
        yield from page["items"]


@contextlib.contextmanager
def stored(service: Service, record: dict[str, Any]) -> Iterator[Answer]:
    """What the service stores of a capture. Raises ServerFailed."""
    with service.answer("GET", f"/v1/captures/{record['id']}/file") as answer:
        if answer.status != 200:
            raise answer.failure()
        yield answer


def name_of(answer: Answer, record: dict[str, Any]) -> str:
    """The last part of a path, whatever the server calls the file."""
    told = (answer.headers.get_filename() or str(record["id"])).replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(c for c in told if c.isprintable()).lstrip(".")
    while len(name.encode()) > 200:  # file systems have names of at most 255 bytes, and one is put together with an id
        name = name[1:]
    return name or str(record["id"])


def place_for(folder: Path, name: str, record: dict[str, Any]) -> Path:
    """Where the capture belongs in the folder: under its name, or beside another file of that name."""
    place = folder / name
    if not place.exists() or is_there(place, record):
        return place
    stem, dot, suffix = name.partition(".")
    return folder / f"{stem}-{str(record['id'])[:8]}{dot}{suffix}"


def is_there(place: Path, record: dict[str, Any]) -> bool:
    """Has the file the bytes that the server stores?"""
    if not place.is_file() or place.stat().st_size != record["bytes"]:
        return False
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == str(record["sha256"])


def copy(answer: Answer, record: dict[str, Any], out: IO[bytes]) -> None:
    """Writes the file. Raises ServerFailed where it is not what the server's record says."""
    found = hashlib.sha256()
    for chunk in answer.chunks():
        found.update(chunk)
        out.write(chunk)
    if found.hexdigest() != record["sha256"]:
        raise ServerFailed(f"the bytes of capture {record['id']} are not those that were stored: SHA-256 differs")
