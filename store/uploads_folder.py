"""The folder where resumable uploads lie, encrypted, until they are complete (api/resumable).

A file is named after the id of its row, and is made after the row is committed. The folder has an id of its own, by
which a process notices that it sees another folder than the one where an upload began.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import uuid
from pathlib import Path

from store.settings import settings

_ID = "id"


def folder() -> Path:
    """It is made when it is first needed. Raises OSError: also where others can enter it."""
    path = Path(settings().uploads_folder or _default())
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = path.stat(follow_symlinks=False)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise PermissionError(f"{path} must be a folder that only the user of the service can enter")
    return path


def _default() -> Path:
    """Another one for each database: the sweeper deletes what no row names."""
    database = settings().database_url
    about = f"{database.hosts()}{database.path}"
    return Path(tempfile.gettempdir()) / f"rewindow-uploads-{hashlib.sha256(about.encode()).hexdigest()[:16]}"


def folder_id() -> uuid.UUID:
    """Raises OSError."""
    path = folder() / _ID
    try:
        return _read(path)
    except FileNotFoundError:
        made = path.with_name(f".{uuid.uuid4()}")
        made.write_text(str(uuid.uuid4()))
        try:
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(made, path)
        finally:
            made.unlink()
        return _read(path)


def _read(path: Path) -> uuid.UUID:
    try:
        return uuid.UUID(path.read_text())
    except ValueError as e:
        raise OSError(f"{path} is no id of a folder of uploads") from e


def path_of(upload_id: uuid.UUID) -> Path:
    """Raises OSError."""
    return folder() / upload_id.hex


def present() -> list[uuid.UUID]:
    """Uploads that have a file. Raises OSError."""
    found = []
    for path in folder().iterdir():
        with contextlib.suppress(ValueError):  # the folder's own id
            found.append(uuid.UUID(hex=path.name))
    return found


def remove(upload_id: uuid.UUID) -> None:
    """Raises OSError."""
    path_of(upload_id).unlink(missing_ok=True)
