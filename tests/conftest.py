"""Services for the tests: a private PostgreSQL and Redis for the session, migrated, and an application to ask."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import rewindow
from deploy.run import Services
from rewindow.core import Choice

CAPTURES = Path(__file__).parent / "captures"
SPECS = Path(__file__).parent / "specs"
FOLLOWED = Path(__file__).parent.parent / "specs" / "CoupledSlowStart"
"""The specification with which steps of connections are compared."""


def steps_taken(capture: str, connection: int, algorithm: str) -> int:
    """The number of a controller's steps on one connection, which TLC has to follow."""
    with rewindow.open(CAPTURES / capture) as opened, opened.stream([Choice(algorithm)], transitions=True) as replay:
        return sum(1 for _ in replay.steps(connection))


def specs_folder(folder: Path) -> Path:
    """A folder with a small specification that is quickly checked, and the real ones for connections."""
    shutil.copytree(SPECS, folder)
    for name in (FOLLOWED.name, "SharedBottleneck"):
        shutil.copytree(FOLLOWED.parent / name, folder / name)
    return folder


@pytest.fixture
def everybodys_folder() -> Iterator[Path]:
    """A folder for programs in tshark's place. Root's tshark runs as another user, who cannot enter pytest's
    folders."""
    with tempfile.TemporaryDirectory(prefix="rewindow-test-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Iterator[Services]:
    """PostgreSQL and Redis of the session, on free ports; nothing else runs."""
    # When the tests run as root, another user runs PostgreSQL, who cannot enter pytest's folders; and another session
    # of pytest closes folders that it finds open.
    folder = Path(tempfile.mkdtemp(prefix="rewindow-services-"))
    folder.chmod(0o755)
    for name in ("DATABASE_URL", "REDIS_URL", "STORE_URL", "UPLOADS_FOLDER", "DASHBOARD_FOLDER"):
        os.environ.pop(f"REWINDOW_{name}", None)
    started = Services(folder, durable=False)
    started.environment |= {"REWINDOW_LEASE_S": "3", "REWINDOW_SWEEP_INTERVAL_S": "0.5"}
    started.environment["REWINDOW_RETENTION_INTERVAL_S"] = "0.5"
    started.environment["REWINDOW_SPECS_FOLDER"] = str(specs_folder(folder / "specs"))
    try:
        started.start_dependencies()
        started.migrate()
        os.environ.update({k: v for k, v in started.environment.items() if k.startswith("REWINDOW_")})
        yield started
        from store.database import engine

        engine().dispose()
    finally:
        started.stop()
        if not request.session.testsfailed:
            # A process of a PostgreSQL that was killed may still write.
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def token(services: Services) -> str:
    """A token, with every scope, of a team that has nothing yet."""
    return make_token(["read", "write", "admin"])


def make_token(scopes: list[str], *, payload: str = "kept") -> str:
    """Of a new team. It keeps what it uploads as it is, because most tests compare with the file that they sent."""
    from sqlalchemy import update

    from store.database import engine
    from store.models import Team
    from store.teams import create_token, ensure_team

    with engine().begin() as connection:
        team = ensure_team(connection, f"team-{uuid.uuid4()}")
        connection.execute(update(Team).where(Team.id == team).values(payload=payload))
        return create_token(connection, team, "test", scopes)
