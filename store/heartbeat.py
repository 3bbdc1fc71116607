"""A process without a port says that it works by touching a file; a health check looks how old the file is."""

from __future__ import annotations

from pathlib import Path

from store.settings import settings


def beat() -> None:
    """Called after each round of work. Without the setting `heartbeat_file` nobody looks."""
    if settings().heartbeat_file:
        Path(str(settings().heartbeat_file)).touch()
