"""The object store: captures and series, in a folder or a bucket alike."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import IO, Any

import obstore
from obstore.store import from_url

from store.settings import settings

CHUNK_BYTES = 8 << 20


@lru_cache
def object_store() -> Any:
    url = settings().store_url
    return from_url(url, mkdir=True, automatic_cleanup=True) if url.startswith("file:") else from_url(url)


def capture_key(capture_id: object) -> str:
    return f"captures/{capture_id}/capture"


def series_key(capture_id: object, name: str, fence: int) -> str:
    """The fence keeps a worker that lost its job from overwriting what its successor wrote."""
    return f"captures/{capture_id}/{name}-{fence}.parquet"


def put_file(key: str, file: IO[bytes]) -> None:
    """The whole of a seekable file."""
    file.seek(0)
    obstore.put(object_store(), key, file, chunk_size=CHUNK_BYTES)


def fetch_to(key: str, file: IO[bytes], told: Callable[[], None] = lambda: None) -> None:
    """Streams an object into a file. told: called for each part; what it raises ends it. Raises FileNotFoundError."""
    for chunk in obstore.get(object_store(), key).stream(min_chunk_size=CHUNK_BYTES):
        file.write(chunk)
        told()
    file.flush()
    file.seek(0)


def delete_prefix(prefix: str) -> None:
    _delete(prefix, lambda path: True)


def delete_keys(*keys: str) -> None:
    """Objects that are not there are no error."""
    for key in keys:
        with contextlib.suppress(FileNotFoundError):
            obstore.delete(object_store(), key)


def delete_older_series(capture_id: object, fence: int) -> None:
    """The capture's series of earlier attempts: nothing in the database names them any more."""

    def older(path: str) -> bool:
        found = re.fullmatch(r".*/(?:acks|marks)-(\d+)\.parquet", path)
        return found is not None and int(found[1]) < fence

    _delete(f"captures/{capture_id}", older)


def pages(prefix: str) -> Iterator[Any]:
    """What is below a prefix, some at a time: mappings with path, last_modified, size."""
    yield from obstore.list(object_store(), prefix=prefix)


def _delete(prefix: str, chosen: Callable[[str], bool]) -> None:
    for page in pages(prefix):
        delete_keys(*(entry["path"] for entry in page if chosen(entry["path"])))
