"""Database engines. Only a request or a task commits; functions that they call do not."""

from functools import lru_cache

from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from store.settings import settings


@lru_cache
def engine() -> Engine:
    return create_engine(settings().sqlalchemy_url, pool_pre_ping=True)


@lru_cache
def async_engine() -> AsyncEngine:
    return create_async_engine(settings().sqlalchemy_url, pool_pre_ping=True)
