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
"""What steps of connections are held against."""


def steps_taken(capture: str, connection: int, algorithm: str) -> int:
    """Of a controller on one connection of a capture here: what TLC has to follow."""
    with rewindow.open(CAPTURES / capture) as opened, opened.stream([Choice(algorithm)], transitions=True) as replay:
        return sum(1 for _ in replay.steps(connection))


def specs_folder(folder: Path) -> Path:
    """A small specification that is quickly checked, and the true ones for connections."""
    shutil.copytree(SPECS, folder)
    for name in (FOLLOWED.name, "SharedBottleneck"):
        shutil.copytree(FOLLOWED.parent / name, folder / name)
    return folder


@pytest.fixture
def everybodys_folder() -> Iterator[Path]:
    """For programs in tshark's place. Root's tshark runs as another user, whom pytest's own folders keep out."""
    with tempfile.TemporaryDirectory(prefix="rewindow-test-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Iterator[Services]:
    """PostgreSQL and Redis of the session, on free ports; nothing else runs."""
    # Another user runs PostgreSQL when the tests run as root: he may not enter pytest's own folders, and what another
    # session of pytest finds open it closes.
    folder = Path(tempfile.mkdtemp(prefix="rewindow-services-"))
    folder.chmod(0o755)
    for name in ("REWINDOW_DATABASE_URL", "REWINDOW_REDIS_URL", "REWINDOW_STORE_URL", "REWINDOW_DASHBOARD_FOLDER"):
        os.environ.pop(name, None)
    started = Services(folder, durable=False)
    started.environment |= {"REWINDOW_LEASE_S": "3", "REWINDOW_SWEEP_INTERVAL_S": "0.5"}
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
            shutil.rmtree(folder)


@pytest.fixture
def token(services: Services) -> str:
    """A token, with every scope, of a team that has nothing yet."""
    return make_token(["read", "write", "admin"])


def make_token(scopes: list[str]) -> str:
    from store.database import engine
    from store.teams import create_token, ensure_team

    with engine().begin() as connection:
        team = ensure_team(connection, f"team-{uuid.uuid4()}")
        return create_token(connection, team, "test", scopes)
