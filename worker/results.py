"""Removes the objects of results that were not committed."""

from __future__ import annotations

from store import jobs, objects
from store.database import engine
from store.jobs import Claim


def discard(taken: Claim, *keys: str) -> None:
    """Deletes objects after an error, unless the results were committed: the answer to a commit may be lost."""
    with engine().begin() as database:
        if jobs.is_done(database, taken):
            return
    objects.delete_keys(*keys)
