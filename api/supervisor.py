"""What keeps the API's processes running. It loads nothing of what they serve."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from socket import socket

import structlog
from uvicorn import Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

log = structlog.get_logger()

RESTART_S, RESTART_MOST_S = 0.5, 30.0
"""Pause before a process that ended is started again; each further one is twice as long, up to the second number."""
_STEADY_S = 10.0
"""A process that served for so long is taken to be well: the next pause is a short one."""
_START_S = 120.0
"""A process that does not answer is taken to load still, until it is so old: on a machine that others use Python alone
may take longer to start than a process that serves may take to answer."""
STARTS_MAX = 3
"""When all processes have ended so often before they served, none can start."""


@dataclass
class _Place:
    """One of the processes, and those that succeed it. Times are of the monotonic clock, seconds."""

    begun: float = field(default_factory=time.monotonic)
    """When the one that runs was started."""
    pauses: int = 0
    """Since one last served for a while."""
    failed_starts: int = 0
    """How many have ended one after the other before they served."""
    serves_since: float | None = None
    due: float | None = None
    """When the next one is started. None: one runs."""


class Processes(Multiprocess):
    """Starts the processes and starts again, after a pause, those that end or hang.

    Where none can start it ends, too, so that whoever has started it learns of it.
    """

    def __init__(self, config: Config, sockets: list[socket]) -> None:
        super().__init__(config, sockets)
        self._places = [_Place() for _ in range(self.processes_num)]
        self.can_start = True

    def keep_subprocess_alive(self) -> None:
        """Is called every half second."""
        for number, place in enumerate(self._places):
            if place.due is None:
                self._look_at(self.processes[number], place)
            elif time.monotonic() >= place.due:
                place.due, place.begun = None, time.monotonic()
                self.processes[number] = Process(self.config, self.sockets)
                self.processes[number].start()
        if all(place.failed_starts >= STARTS_MAX for place in self._places):
            log.error("api.cannot_start", starts=STARTS_MAX)
            self.can_start = False
            self.should_exit.set()

    def _look_at(self, process: Process, place: _Place) -> None:
        now = time.monotonic()
        if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
            if place.serves_since is None and process.is_ready():
                place.serves_since, place.failed_starts = now, 0
            return
        if place.serves_since is None and process.process.is_alive() and now - place.begun < _START_S:
            return
        process.kill()
        process.join()
        if place.serves_since is None:
            place.failed_starts += 1
        elif now - place.serves_since > _STEADY_S:
            place.pauses = 0
        pause = min(RESTART_S * 2**place.pauses, RESTART_MOST_S)
        place.pauses, place.serves_since, place.due = place.pauses + 1, None, now + pause
        log.warning("api.process_ended", status=process.exitcode, failed_starts=place.failed_starts, again_in_s=pause)
