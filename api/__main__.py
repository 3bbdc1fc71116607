"""The API's processes: `python -m api --port 8000`. They share one socket, and the first one starts again what ends.

It ends with status 1 when none of them can start, or settings do not fit together.
"""

from __future__ import annotations

import argparse
import resource
import sys
from typing import Any

import uvicorn

from api import metrics_folder
from api.openid.configuration import configuration
from api.supervisor import Processes
from store import logs
from store.settings import settings

_HEADER_BYTES_MAX = 32 << 10
_END_S = 10
"""Requests under way have so long when a process is told to end; event streams may last much longer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a file; common is a thousand
    processes = settings().api_processes
    try:
        configured = configuration()
        if configured is not None:
            configured.secret()
    except (ValueError, OSError) as e:  # the processes would end one after the other
        sys.exit(f"rewindow: sign-in by OpenID Connect (docs/teams.md): {e}")
    options: dict[str, Any] = {
        "factory": True,
        "host": arguments.host,
        "port": arguments.port,
        "http": "api.processes:TimedProtocol",
        "ws": "none",
        "h11_max_incomplete_event_size": _HEADER_BYTES_MAX,
        "timeout_graceful_shutdown": _END_S,
        "log_level": "warning",
        "access_log": False,
    }
    with metrics_folder.of_this_start():
        if processes == 1:
            uvicorn.run("api.processes:application", **options)
            return
        logs.configure()
        config = uvicorn.Config("api.processes:one_of_several", workers=processes, **options)
        started = Processes(config, [config.bind_socket()])
        started.run()
        if not started.can_start:
            sys.exit(1)


if __name__ == "__main__":
    main()
