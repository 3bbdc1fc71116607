"""Database engines. Only a request or a task commits; functions that they call do not.

Each session has limits, so that one which waits or hangs cannot hold up the others: on the wait for a lock, on a
statement, and on a transaction in which the client says nothing.
"""

from functools import lru_cache
from typing import Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from store.settings import settings

CONNECT_S = 5
"""A server that does not answer a new connection within this time is away."""
POOL_S = 5
"""A request that finds no free connection within this time is refused; it may try again."""
HASH_MEM_MULTIPLIER = 16
"""64 MB with PostgreSQL's own work_mem. An aggregate has fewer groups than PostgreSQL expects, whose tables it takes to
be too large for less: then it sorts a million values, by one process."""


def _limits(*, lock_ms: int, statement_ms: int, idle_ms: int) -> dict[str, Any]:
    options = {
        "lock_timeout": lock_ms,
        "statement_timeout": statement_ms,
        "idle_in_transaction_session_timeout": idle_ms,
        "jit": "off",  # to compile a statement takes longer than most of them run
        # psycopg prepares what it sends often. A plan for any values can take several times as long as one for the
        # given values, because teams, periods and filters select few rows or nearly all.
        "plan_cache_mode": "force_custom_plan",
        "hash_mem_multiplier": str(HASH_MEM_MULTIPLIER),
    }
    return {"options": " ".join(f"-c {k}={v}" for k, v in options.items()), "connect_timeout": CONNECT_S}


@lru_cache
def engine() -> Engine:
    """Of workers, sweeper and commands. No transaction of theirs holds a row that requests wait for, except for the
    moment of a change."""
    limits = _limits(lock_ms=10_000, statement_ms=120_000, idle_ms=30_000)
    return create_engine(settings().sqlalchemy_url, pool_pre_ping=True, connect_args=limits)


@lru_cache
def async_engine() -> AsyncEngine:
    """Of requests."""
    limits = _limits(lock_ms=800, statement_ms=15_000, idle_ms=30_000)
    return create_async_engine(settings().sqlalchemy_url, pool_pre_ping=True, pool_timeout=POOL_S, connect_args=limits)
