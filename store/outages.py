"""Outages of what the service depends on: which errors are one, and what a team is told of it.

An outage is no attempt of the job that meets it (`jobs.defer`).
"""

from __future__ import annotations

import contextlib
import enum
import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from obstore.exceptions import BaseError as StoreError
from sqlalchemy.exc import DBAPIError


class Dependency(enum.StrEnum):
    """The value is the name that teams see."""

    database = "database"
    store = "object store"
    scratch = "workers' disk"
    dissector = "dissector"


@dataclass(frozen=True)
class Outage:
    of: Dependency
    at_work: bool
    """Did it begin while the job was at work? Then the job may be its cause. Otherwise the job met it at its start."""


class MetAtStart(Exception):
    """A dependency does not do its part before the job has begun with its own work; __cause__ says why."""

    def __init__(self, dependency: Dependency) -> None:
        super().__init__(f"the {dependency} does not do its part")
        self.dependency = dependency


_OUTAGE_STATES = ("08", "53", "57P", "58")
"""SQLSTATEs of PostgreSQL (its manual, appendix A): connection, resources, shutdown, its system. Not among them are the
limits of our own sessions, which a job of ours reaches by its own doing."""
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def outage_of(error: BaseException) -> Outage | None:
    """None: the error is no outage."""
    if isinstance(error, MetAtStart):
        return Outage(error.dependency, at_work=False)
    if isinstance(error, StoreError):
        return Outage(Dependency.store, at_work=True)
    raised = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(raised, psycopg.OperationalError):
        # Without a state the server was not reached, or the connection broke.
        is_outage = raised.sqlstate is None or raised.sqlstate.startswith(_OUTAGE_STATES)
        return Outage(Dependency.database, at_work=True) if is_outage else None
    if isinstance(raised, OSError) and raised.errno in _DISK_ERRORS:
        return Outage(Dependency.scratch, at_work=True)
    return None


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Around what a job asks of the object store and of its own disk before it begins to work. Raises MetAtStart.

    An object that a row names is there: where it is missing, the store's disk is not mounted, or another one is.
    """
    try:
        yield
    except (StoreError, FileNotFoundError) as e:
        raise MetAtStart(Dependency.store) from e
    except OSError as e:
        if e.errno not in _DISK_ERRORS:
            raise
        raise MetAtStart(Dependency.scratch) from e


_PATH = re.compile(r"(?<![\w.:/])(?:file://)?/(?:[\w.#@+-]+/)+([\w.#@+-]*)")
_REASON_CHARACTERS_MAX = 2000


def for_teams(reason: str) -> str:
    """A reason without the folders of this machine: of a path only its last part is left."""
    return _PATH.sub(r"\1", reason)[:_REASON_CHARACTERS_MAX]
