"""What has changed for a team since somebody looked: rows of `changes`, which triggers add in the transaction that
changes something.

Transactions do not end in the order in which they begin, so no growing number tells what somebody has seen. A snapshot
of PostgreSQL does: it names the transactions that had ended, and what others have changed is new to who looks with the
next snapshot. Nothing is left out, and nothing told twice, however long a transaction takes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, delete, func, text

from store.models import Change

KEPT = timedelta(minutes=10)
"""Who has not looked for so long reads everything anew."""
MOST = 200
"""Changes of a team that are told one by one; who has missed more reads everything anew."""

_CURSOR = re.compile(r"(\d{1,15})~(\d{1,18}):(\d{1,18}):((?:\d{1,18}(?:,\d{1,18})*)?)", re.ASCII)


@dataclass(frozen=True)
class Cursor:
    """What somebody has seen: all that had ended in this snapshot. at_ms: when it was taken, by PostgreSQL's clock."""

    at_ms: int
    snapshot: str

    def __str__(self) -> str:
        return f"{self.at_ms}~{self.snapshot}"


def parsed(given: str) -> Cursor | None:
    """A cursor as a client has given it back. None: PostgreSQL would not take it for a snapshot."""
    found = _CURSOR.fullmatch(given)
    if found is None:
        return None
    at_ms, least, most = (int(number) for number in found.groups()[:3])
    running = [int(number) for number in found[4].split(",") if number]
    in_order = all(a < b for a, b in pairwise(running))
    if not (0 < least <= most and in_order and all(least <= number < most for number in running)):
        return None
    return Cursor(at_ms, f"{least}:{most}:{found[4]}")


NOW = text(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at_ms, pg_current_snapshot()::text AS snapshot"
)
"""The fields of a cursor that stands at the snapshot of this statement, or of its transaction (REPEATABLE READ)."""

SINCE = text(
    """
    SELECT t.id AS team_id, c.kind, c.object_id, c.connection_id
    FROM unnest(CAST(:teams AS uuid[])) AS t (id) CROSS JOIN LATERAL (
        SELECT kind, object_id, max(connection_id::text)::uuid AS connection_id FROM changes
        WHERE team_id = t.id AND xact >= pg_snapshot_xmin(CAST(:snapshot AS pg_snapshot))::text::bigint
            AND NOT pg_visible_in_snapshot(xact::text::xid8, CAST(:snapshot AS pg_snapshot))
        GROUP BY kind, object_id LIMIT :most
    ) AS c
    """
)
"""What has changed for these teams since a snapshot, each object once."""


def since(cursor: Cursor, teams: Collection[uuid.UUID]) -> tuple[Any, dict[str, Any]]:
    """The statement and its parameters. It finds one more than `MOST` of a team where there are more."""
    return SINCE, {"teams": list(teams), "snapshot": cursor.snapshot, "most": MOST + 1}


def forget(connection: Connection) -> int:
    """Deletes what nobody is told any more. Returns how many rows."""
    old = delete(Change).where(Change.at < func.clock_timestamp() - KEPT)
    return connection.execute(old).rowcount
