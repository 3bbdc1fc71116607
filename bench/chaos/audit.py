"""What is counted after a fault: rows, leases, concurrency, disk and memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg

_COUNTS = {
    # Every connection that the capture's analysis found is there once, and nothing else of a published attempt.
    "wrong": """
        SELECT count(*) FROM captures c WHERE state = 'done' AND NOT (
            connection_count = (SELECT count(*) FROM connections WHERE attempt_id = c.attempt_id)
            AND connection_count = (SELECT count(DISTINCT number) FROM connections WHERE attempt_id = c.attempt_id)
            AND (SELECT sum(subflow_count) FROM connections WHERE attempt_id = c.attempt_id)
                = (SELECT count(*) FROM subflows WHERE attempt_id = c.attempt_id)
            AND EXISTS (SELECT FROM attempts a JOIN jobs j ON j.id = a.job_id
                WHERE a.id = c.attempt_id AND a.fence = j.fence AND j.state = 'done'))""",
    "unpublished": """
        SELECT count(*) FROM attempts a JOIN jobs j ON j.id = a.job_id
        WHERE NOT EXISTS (SELECT FROM captures WHERE attempt_id = a.id)
            AND NOT (j.state = 'running' AND j.fence = a.fence)""",
    "orphans": "SELECT count(*) FROM attempts a WHERE NOT EXISTS (SELECT FROM jobs WHERE id = a.job_id)",
    "overdue": """
        SELECT count(*) FROM jobs
        WHERE state = 'running' AND lease_until < clock_timestamp() - %(grace)s::interval""",
    "running": "SELECT count(*) FROM jobs WHERE state = 'running'",
    "disagree": """
        SELECT count(*) FROM jobs j JOIN captures c ON c.id = j.capture_id
        WHERE j.kind = 'analyze' AND j.state IN ('done', 'failed') AND c.state <> j.state""",
    # The parts of each batch of a fit or what-if that has ended are its runs, each once and none missing.
    "parts": """
        SELECT count(*) FROM (
            SELECT sum(runs) AS stored, min(first_run) AS first, max(first_run + runs) AS beyond
            FROM parts LEFT JOIN fits f ON f.id = fit_id LEFT JOIN whatifs w ON w.id = whatif_id
            WHERE 'done' IN (f.state, w.state) GROUP BY fit_id, whatif_id, batch) AS batches
        WHERE first <> 0 OR stored <> beyond""",
    "simulations": "SELECT count(*) FROM jobs WHERE kind IN ('fit', 'whatif') AND state IN ('queued', 'running')",
    "deferrals": "SELECT coalesce(sum(deferrals), 0) FROM jobs",
    "attempts": "SELECT coalesce(sum(attempts), 0) FROM jobs",
}


class Database:
    def __init__(self, address: str) -> None:
        self._address = address

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._address, connect_timeout=3, autocommit=True)

    def count(self, what: str, grace_s: float = 0.0) -> int:
        with self._connect() as connection:
            row = connection.execute(_COUNTS[what], {"grace": f"{grace_s} seconds"}).fetchone()
            assert row is not None
            return int(row[0])

    def stages(self) -> dict[str, str]:
        """Of captures that wait or run."""
        with self._connect() as connection:
            rows = connection.execute("SELECT capture_id, stage FROM jobs WHERE state IN ('queued', 'running')")
            return {str(capture): stage for capture, stage in rows}

    def holding_results(self, seconds: float, until: Any) -> bool:
        """Lets no job store its results, until `until()` or so many seconds are over. Was it so?"""
        end = time.monotonic() + seconds
        with psycopg.connect(self._address, connect_timeout=3) as connection:
            connection.execute("LOCK TABLE connections IN SHARE MODE")
            while time.monotonic() < end:
                if until():
                    return True
                time.sleep(0.05)
        return False


def children(pid: int) -> list[int]:
    """Processes that descend from this one."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # it has ended
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def memory_bytes(pids: list[int]) -> int:
    """The proportional set size of processes: what they share counts once."""
    total = 0
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            continue  # it has ended
    return total
