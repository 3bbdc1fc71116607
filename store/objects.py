"""The object store for captures and series: a folder or a bucket."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import GenericError
from obstore.store import from_url

from store.settings import settings

CHUNK_BYTES = 8 << 20
CHUNKS_AT_ONCE = 3
"""On their way to the store: so many are in memory, for each object that is written."""
PROBE_BYTES = 64 << 10
"""A disk that is full but for a few blocks is full."""


@lru_cache
def object_store() -> Any:
    url = settings().store_url
    return from_url(url, mkdir=True, automatic_cleanup=True) if url.startswith("file:") else from_url(url)


def capture_key(capture_id: object) -> str:
    return f"captures/{capture_id}/capture"


def series_key(capture_id: object, name: str, fence: int) -> str:
    """The fencing number keeps a worker that lost its job from overwriting an object of its successor."""
    return f"captures/{capture_id}/{name}-{fence}.parquet"


def overview_key(series: str) -> str:
    """Of the object beside a series of ACKs that has its overview, where one of its connections is long."""
    return f"{series.removesuffix('.parquet')}.overview"


def upload_of(key: str) -> uuid.UUID | None:
    """The upload that stored a capture's copy: the capture's own id, unless its bytes were uploaded again after
    retention had deleted them. None: rewindow makes no such keys."""
    try:
        return uuid.UUID(key.split("/")[1])
    except (IndexError, ValueError):
        return None


def put_file(key: str, file: IO[bytes]) -> int:
    """Stores a seekable file from its beginning. Returns its size in bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    obstore.put(object_store(), key, file, chunk_size=CHUNK_BYTES, max_concurrency=CHUNKS_AT_ONCE)
    return size


def probe(who: str) -> None:
    """Writes an object, for each `who` always the same one: a store that is full or may only be read refuses it."""
    obstore.put(object_store(), f"probes/{who}", bytes(PROBE_BYTES))


def local_file(key: str, size: int, told: Callable[[], None] = lambda: None) -> IO[bytes]:
    """An object of `size` bytes as a file to read, which the caller closes. Raises FileNotFoundError,
    GenericError.

    That of a folder is such a file. That of a bucket is copied to one without a name, which disappears with the
    process; its room is reserved first. Calls `told` for each part that is copied; an exception from it ends the copy.
    """
    url = settings().store_url
    if url.startswith("file:"):
        try:
            return (Path(unquote(urlsplit(url).path)) / key).open("rb")
        except FileNotFoundError:
            raise
        except OSError as e:  # of the store's disk, not of the worker's
            raise GenericError(f"{key}: {e.strerror}") from e
    file = tempfile.TemporaryFile(prefix="rewindow-object-")  # noqa: SIM115  # the caller closes it
    try:
        if size:
            os.posix_fallocate(file.fileno(), 0, size)
        for chunk in obstore.get(object_store(), key).stream(min_chunk_size=CHUNK_BYTES):
            file.write(chunk)
            told()
        file.flush()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def delete_prefix(prefix: str) -> None:
    _delete(prefix, lambda path: True)


def delete_keys(*keys: str) -> None:
    """Deletes objects. An object that does not exist is no error."""
    for key in keys:
        with contextlib.suppress(FileNotFoundError):
            obstore.delete(object_store(), key)


def delete_older_series(capture_id: object, fence: int) -> None:
    """Deletes the capture's series of earlier attempts, which no row names any more."""

    def older(path: str) -> bool:
        found = re.fullmatch(r".*/(?:acks|marks)-(\d+)\.(?:parquet|overview)", path)
        return found is not None and int(found[1]) < fence

    _delete(f"captures/{capture_id}", older)


def pages(prefix: str) -> Iterator[Any]:
    """The objects below a prefix in batches: mappings with path, last_modified and size (bytes)."""
    yield from obstore.list(object_store(), prefix=prefix)


def _delete(prefix: str, chosen: Callable[[str], bool]) -> None:
    for page in pages(prefix):
        delete_keys(*(entry["path"] for entry in page if chosen(entry["path"])))
