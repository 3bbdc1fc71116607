"""The role of PostgreSQL that API, workers and sweeper connect as: it reads and writes rows, and nothing else.

Another role owns the tables and migrates them. Each migration ends with `grant` (migrations/env.py).
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection as Session
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from store.models import AuditEvent, Base, Connection, ConnectionFact, Subflow

_MIGRATIONS = "alembic_version"
"""Alembic's own table; `/readyz` reads it."""
_VACUUMED = (Connection.__tablename__, ConnectionFact.__tablename__, Subflow.__tablename__)
"""What the sweeper frees the space of."""
_MAINTAIN_SINCE = 170000
"""Before version 17 PostgreSQL has no right to VACUUM that could be granted: only a table's owner may."""


class RoleTooMighty(Exception):
    """The role of the services has rights that they must not have."""


def grant(session: Session[Any], services_address: str) -> None:
    """Creates the role that the services' address names, and gives it exactly the rights that it needs.

    A role that exists gets the address's password. The session is of the tables' owner, who may create roles; the
    caller commits. Raises RoleTooMighty.
    """
    address = conninfo_to_dict(services_address)
    name, password = str(address.get("user", "")), str(address.get("password", ""))
    if not name:
        raise RoleTooMighty("REWINDOW_DATABASE_URL names no role: PostgreSQL would take that of the operating system")
    role = sql.Identifier(name)
    if not _exists(session, name):
        session.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(role))
    if password:
        # As it is stored: what is sent may be logged.
        stored = session.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        session.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(stored)))
    database = sql.Identifier(session.info.dbname)
    for statement in (
        "REVOKE ALL ON DATABASE {database} FROM PUBLIC",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "GRANT CONNECT ON DATABASE {database} TO {role}",
        "GRANT USAGE ON SCHEMA public TO {role}",
        "GRANT SELECT ON {migrations} TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role}",
        "REVOKE UPDATE, DELETE ON {log} FROM {role}",
        "GRANT EXECUTE ON FUNCTION forget_audit_events(INTEGER) TO {role}",
    ):
        session.execute(
            sql.SQL(statement).format(
                database=database,
                role=role,
                migrations=sql.Identifier(_MIGRATIONS),
                log=sql.Identifier(AuditEvent.__tablename__),
                tables=sql.SQL(", ").join(map(sql.Identifier, Base.metadata.tables)),
            )
        )
    _let_vacuum(session, role)


def _exists(session: Session[Any], name: str) -> bool:
    """Raises RoleTooMighty."""
    found = session.execute(
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls"
        " OR EXISTS (SELECT FROM pg_auth_members WHERE member = pg_roles.oid) FROM pg_roles WHERE rolname = %s",
        [name],
    ).fetchone()
    if found is not None and found[0]:
        raise RoleTooMighty(
            f"the role {name} of REWINDOW_DATABASE_URL is a superuser, may create roles or databases, or belongs to"
            " another role: name a role of the services' own, which is created if it does not exist"
        )
    return found is not None


def _let_vacuum(session: Session[Any], role: sql.Identifier) -> None:
    may_be_granted = session.info.server_version >= _MAINTAIN_SINCE
    owner = sql.SQL("CURRENT_USER") if may_be_granted else role
    for table in map(sql.Identifier, _VACUUMED):
        session.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(table, owner))
        if may_be_granted:
            session.execute(sql.SQL("GRANT MAINTAIN ON {} TO {}").format(table, role))
