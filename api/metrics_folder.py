"""The folder in which the API's processes count together what each of them answers (api/http_metrics.py).

The first process makes a new one at each start, and holds it locked as long as it runs. What a first process that was
killed has left behind is removed by the next one that starts.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder to prometheus_client, and to the processes that the first one starts."""
_PREFIX = "rewindow-metrics-"
_KINDS = ("counter", "histogram")
_FILE_BYTES = 1 << 20
"""More than all series of a kind need."""


def _base() -> Path:
    """Memory where there is some: what lies here is worth nothing after the next start."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.R_OK | os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _locked(folder: Path, operation: int) -> int | None:
    """An open folder that nobody else has locked. None: it is not there, not this user's, or somebody has."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        about = os.fstat(opened)
        if about.st_uid == os.geteuid():
            fcntl.flock(opened, operation)
            if os.fstat(opened).st_nlink:  # it was not removed meanwhile
                return opened
    except BlockingIOError:
        pass
    os.close(opened)
    return None


def _remove_left(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        lock = _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


@contextmanager
def of_this_start() -> Iterator[Path]:
    """For the first process: the folder, which the processes that it starts know, too. Raises OSError."""
    base = _base()
    _remove_left(base)
    lock = None
    while lock is None:  # another first process that starts now may take it for one that is left
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        lock = _locked(folder, fcntl.LOCK_EX)
    os.environ[VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@cache
def place() -> int:
    """The number of this process among those that run, from 0. It keeps the number as long as it runs, and goes on
    with the files of an earlier process of that number: counts do not fall, and files do not become more.

    Raises OSError.
    """
    folder = Path(os.environ[VARIABLE])
    for number in itertools.count():
        lock = os.open(folder / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        for kind in _KINDS:
            _make(folder / f"{kind}_{number}.db")
        return number
    raise AssertionError("there is always another number")


def _make(path: Path) -> None:
    """With all its blocks: a process that writes to a mapped file for which a disk has no room is killed."""
    if path.exists():
        return
    made = path.with_suffix(".new")
    with open(made, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
    with suppress(FileNotFoundError):
        made.rename(path)
