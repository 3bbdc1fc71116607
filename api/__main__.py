"""The API's processes: `python -m api --port 8000`. They share one socket, and the first one starts again what ends."""

from __future__ import annotations

import argparse
import resource

import uvicorn

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
    uvicorn.run(
        "api.app:create" if processes == 1 else "api.processes:application",
        factory=True,
        host=arguments.host,
        port=arguments.port,
        workers=processes,
        http="api.processes:TimedProtocol",
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
        timeout_graceful_shutdown=_END_S,
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
