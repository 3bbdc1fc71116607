"""How many rows a query selects: counted up to a bound, and beyond it as PostgreSQL's planner estimates."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ClauseElement, Executable

COUNTED_MAX = 10_000
"""As many are counted; of more rows PostgreSQL's planner estimates how many there are."""


class _Explained(Executable, ClauseElement):
    """The planner's plan of a query, as JSON."""

    inherit_cache = False

    def __init__(self, query: Select[Any]) -> None:
        self.query = query


@compiles(_Explained)
def _explained(element: _Explained, compiler: Any, **kw: Any) -> str:
    return f"EXPLAIN (FORMAT JSON) {compiler.process(element.query, **kw)}"


async def total(session: AsyncSession, query: Select[Any]) -> tuple[int, bool]:
    """How many rows the query selects, and whether that is exact."""
    counted_query = query.with_only_columns(literal(1), maintain_column_froms=True)
    some = counted_query.limit(COUNTED_MAX + 1).subquery()
    counted = int((await session.execute(select(func.count()).select_from(some))).scalar_one())
    if counted <= COUNTED_MAX:
        return counted, True
    explained: Executable = _Explained(counted_query)
    plan = (await session.execute(explained)).scalar_one()
    return max(int(plan[0]["Plan"]["Plan Rows"]), counted), False
