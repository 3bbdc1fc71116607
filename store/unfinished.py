"""Uploads that a process began and did not finish: their parts lie in the object store, which does not list them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import botocore.session
from botocore.config import Config

from store.settings import settings

PREFIXES = ("captures/", "probes/")
_STEP_S = 20


def remove_unfinished(until: datetime) -> int:
    """Deletes the parts of uploads to which nothing was added since `until`. Returns how many uploads these were.

    Raises OSError, BotoCoreError, ClientError.
    """
    url = urlsplit(settings().store_url)
    if url.scheme == "file":
        return sum(_remove_files(Path(unquote(url.path)) / prefix, until) for prefix in PREFIXES)
    if url.scheme in ("s3", "s3a"):
        root = url.path.strip("/")
        return sum(_abort(url.netloc, f"{root}/{prefix}" if root else prefix, until) for prefix in PREFIXES)
    return 0


def _remove_files(folder: Path, until: datetime) -> int:
    """The parts of an upload to a folder are one file, KEY#NUMBER."""
    removed = 0
    for path in folder.rglob("*#*"):
        with contextlib.suppress(FileNotFoundError):  # the upload has just ended
            is_part = re.fullmatch(r".+#\d+", path.name) is not None and path.is_file()
            if is_part and path.stat().st_mtime < until.timestamp():
                path.unlink()
                removed += 1
    return removed


def _client() -> Any:
    """With the variables that obstore reads; credentials come from wherever AWS's tools find them."""
    given = {name: os.environ.get(name) or None for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION")}
    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=given["AWS_ENDPOINT"] or given["AWS_ENDPOINT_URL"],
        region_name=given["AWS_REGION"] or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        config=Config(
            s3={"addressing_style": "path"}, connect_timeout=_STEP_S, read_timeout=_STEP_S, retries={"max_attempts": 2}
        ),
    )


def _abort(bucket: str, prefix: str, until: datetime) -> int:
    client = _client()
    removed = 0
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    for upload in [u for page in pages for u in page.get("Uploads", ())]:
        named = {"Bucket": bucket, "Key": upload["Key"], "UploadId": upload["UploadId"]}
        # A large upload may have begun long ago and be well: its latest part tells.
        if upload["Initiated"] < until and all(t < until for t in _parts(client, named)):
            with contextlib.suppress(client.exceptions.NoSuchUpload):  # the upload has just ended
                client.abort_multipart_upload(**named)
                removed += 1
    return removed


def _parts(client: Any, named: dict[str, str]) -> Iterator[datetime]:
    """When each part was stored."""
    try:
        for page in client.get_paginator("list_parts").paginate(**named):
            yield from (part["LastModified"] for part in page.get("Parts", ()))
    except client.exceptions.NoSuchUpload:
        return
