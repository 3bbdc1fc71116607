"""The object store: captures and series, in a folder or a bucket alike."""

from __future__ import annotations

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
    obstore.put(object_store(), key, file, chunk_size=CHUNK_BYTES)


def fetch_to(key: str, file: IO[bytes]) -> None:
    """Streams an object into a file. Raises FileNotFoundError."""
    for chunk in obstore.get(object_store(), key).stream(min_chunk_size=CHUNK_BYTES):
        file.write(chunk)
    file.flush()
    file.seek(0)


def delete_prefix(prefix: str, *, keep: frozenset[str] = frozenset()) -> None:
    store = object_store()
    for page in obstore.list(store, prefix=prefix):
        paths = [entry["path"] for entry in page if entry["path"] not in keep]
        if paths:
            obstore.delete(store, paths)
