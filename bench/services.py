"""Services that a measurement starts for itself: PostgreSQL, Redis and a store in a temporary folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from deploy.run import Services


@contextmanager
def own_services(parent: Path | None = None, kept: Path | None = None, **environment: str) -> Iterator[Services]:
    """PostgreSQL and Redis run, the tables are made; at the end everything stops, and the folder is removed.

    parent: where the folder is made, if not where temporary folders are. kept: a folder that stays, with what an
    earlier call left there. environment: settings of the services.
    """
    with _temporary(parent) if kept is None else nullcontext(kept) as folder:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)  # another user runs PostgreSQL when this is root
        services = Services(folder)
        services.environment.update(environment)
        try:
            services.start_dependencies()
            services.migrate()
            yield services
        finally:
            services.stop()


@contextmanager
def _temporary(parent: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rewindow-bench-", dir=parent) as name:
        yield Path(name)


def use_database(services: Services) -> str:
    """This process, too, uses the services from now on. Returns the database's address as its owner."""
    if services.owner_address is None:
        raise SystemExit("REWINDOW_DATABASE_URL is set: this needs a PostgreSQL of its own")
    os.environ.update({k: v for k, v in services.environment.items() if k.startswith("REWINDOW_")})
    return services.owner_address
