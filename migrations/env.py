"""Alembic's environment: migrates the database of the settings."""

from alembic import context
from sqlalchemy import create_engine

from store.models import Base
from store.settings import settings

engine = create_engine(settings().owners_sqlalchemy_url)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True)
    with context.begin_transaction():
        # Serialise migrations: two at the same time would both see an empty database.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(727069)")
        context.run_migrations()
engine.dispose()
