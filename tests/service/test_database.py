from __future__ import annotations

from fastapi.testclient import TestClient
from sqlalchemy import text

from store.database import async_engine, engine


def test_what_is_asked_often_is_planned_for_its_values(application: TestClient) -> None:
    """psycopg prepares a statement after five times; after five more PostgreSQL could take a plan for any values."""
    with engine().connect() as database:
        for number in range(12):
            database.execute(text("SELECT count(*) FROM captures WHERE connection_count > :least"), {"least": number})
        prepared = text("SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE :its")
        ((custom, generic),) = database.execute(prepared, {"its": "SELECT count(*) FROM captures%"}).all()
    assert custom > 5
    assert generic == 0


async def plan_cache_mode() -> str:
    async with async_engine().connect() as database:
        return str((await database.execute(text("SHOW plan_cache_mode"))).scalar_one())


def test_requests_have_the_same_plans(application: TestClient) -> None:
    assert application.portal is not None
    assert application.portal.call(plan_cache_mode) == "force_custom_plan"
