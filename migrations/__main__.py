"""Migrates the database to the newest version, and gives the services' role its rights: `python -m migrations`."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config

from store import role
from store.settings import settings


def main() -> int:
    command.upgrade(Config(Path(__file__).with_name("alembic.ini")), "head")
    owner = settings().owner_database_url
    if owner is not None:
        try:
            with psycopg.connect(str(owner)) as session:
                role.grant(session, str(settings().database_url))
        except role.RoleTooMighty as e:
            print(f"rewindow: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
