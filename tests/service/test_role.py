"""The role that API, workers and sweeper have in PostgreSQL: it reads and writes rows, and can do nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from deploy.run import CHECKOUT, Services
from store.models import Base
from store.role import RoleTooMighty, grant

FORBIDDEN = {
    "run a program": "COPY (SELECT 1) TO PROGRAM 'true'",
    "write a file": "COPY (SELECT 1) TO '/tmp/rewindow-role'",
    "read a file": "SELECT pg_read_file('PG_VERSION')",
    "read the passwords of roles": "SELECT rolpassword FROM pg_authid",
    "make a role": "CREATE ROLE another",
    "become a superuser": "ALTER ROLE rewindow_app SUPERUSER",
    "become the owner": "SET ROLE app",
    "make a database": "CREATE DATABASE another",
    "make a schema": "CREATE SCHEMA another",
    "make a table": "CREATE TABLE another (x int)",
    "make a temporary table": "CREATE TEMPORARY TABLE another (x int)",
    "make a function": "CREATE FUNCTION another() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "change the server": "ALTER SYSTEM SET log_statement = 'all'",
    "change a table": "ALTER TABLE captures ADD x int",
    "drop a table": "DROP TABLE captures",
    "empty a table": "TRUNCATE tokens CASCADE",
    "change the log": "UPDATE audit_events SET member = 'another'",
    "delete from the log": "DELETE FROM audit_events",
    "lock the log": "SELECT FROM audit_events FOR UPDATE",
    "change the version": "UPDATE alembic_version SET version_num = 'x'",
}


@pytest.fixture
def session(services: Services) -> Iterator[psycopg.Connection]:
    with psycopg.connect(services.environment["REWINDOW_DATABASE_URL"], autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("what", FORBIDDEN)
def test_it_cannot(session: psycopg.Connection, what: str) -> None:
    with pytest.raises(InsufficientPrivilege):
        session.execute(FORBIDDEN[what])


def test_it_has_no_attribute_and_no_other_role(session: psycopg.Connection) -> None:
    found = session.execute(
        "SELECT rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls,"
        " EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid) FROM pg_roles r WHERE rolname = current_user"
    ).fetchone()
    assert found == ("rewindow_app", False, False)


def test_it_cannot_end_the_owners_sessions(services: Services, session: psycopg.Connection) -> None:
    assert services.owner_address
    with psycopg.connect(services.owner_address) as owner, pytest.raises(InsufficientPrivilege):
        session.execute("SELECT pg_terminate_backend(%s)", [owner.info.backend_pid])


def test_it_frees_the_space_of_results(session: psycopg.Connection) -> None:
    """PostgreSQL only warns where a role may not."""
    said: list[str | None] = []
    session.add_notice_handler(lambda notice: said.append(notice.message_primary))
    session.execute("VACUUM connections, subflows")
    assert said == []
    session.execute("VACUUM pg_authid")
    assert len(said) == 1


def run(owner: str, services: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REWINDOW_OWNER_DATABASE_URL": owner, "REWINDOW_DATABASE_URL": services}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )


def test_a_migration_gives_it_its_rights(services: Services) -> None:
    """In a database whose only role was the owner, and each further time: with a new password, too."""
    assert services.owner_address
    name = f"upgraded_{uuid.uuid4().hex}"
    with psycopg.connect(services.owner_address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    owner = services.owner_address.rpartition("/")[0] + f"/{name}"
    first = f"postgresql://{name}:a%40b@{owner.rpartition('@')[2]}"
    earlier = run(owner, first, "alembic", "-c", "migrations/alembic.ini", "upgrade", "0012")
    assert earlier.returncode == 0, earlier.stderr
    with psycopg.connect(owner) as session:
        session.execute("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'kept')")
    for address in (first, first.replace("a%40b", "another")):
        migrated = run(owner, address, "migrations")
        assert migrated.returncode == 0, migrated.stderr
        with psycopg.connect(address) as session:
            assert session.execute("SELECT name FROM teams").fetchall() == [("kept",)]
            for table in Base.metadata.tables.keys() - {"audit_events"}:
                session.execute(f"SELECT FROM {table} FOR UPDATE")
            with pytest.raises(InsufficientPrivilege):
                session.execute("DROP TABLE teams")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(first)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(services.environment["REWINDOW_DATABASE_URL"].rpartition("/")[0] + f"/{name}")


@pytest.mark.parametrize(
    "attribute", ["SUPERUSER", "CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS", "IN ROLE pg_monitor"]
)
def test_a_role_that_may_do_more_is_refused(services: Services, attribute: str) -> None:
    assert services.owner_address
    name = f"mighty_{uuid.uuid4().hex}"
    with psycopg.connect(services.owner_address) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN {attribute}")
        with pytest.raises(RoleTooMighty, match=f"the role {name} of REWINDOW_DATABASE_URL is a superuser, may"):
            grant(owner, make_conninfo(services.environment["REWINDOW_DATABASE_URL"], user=name))
        owner.rollback()


def test_a_migration_that_is_given_the_owner_for_the_services_says_so(services: Services) -> None:
    assert services.owner_address
    refused = run(services.owner_address, services.owner_address, "migrations")
    assert refused.returncode == 1
    assert refused.stderr.startswith("rewindow: the role app of REWINDOW_DATABASE_URL is a superuser")
