"""The sweeper, `python -m worker.sweeper`: wakes workers for jobs whose message was lost, whose worker died or whose
pause is over. A second thread removes what nobody can see any more, which may take long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import structlog
from kombu.exceptions import OperationalError as BrokerError
from obstore.exceptions import BaseError
from sqlalchemy.exc import SQLAlchemyError

from store import attempts, jobs, logs
from store.database import engine
from store.heartbeat import beat
from store.settings import settings
from worker.collector import collect_once, remove_deleted

log = structlog.get_logger()

_REMOVE_S = 5.0
"""Rows are removed for so long before the next objects are looked for."""


def sweep_once() -> int:
    """Sends the wake-ups that are due. Returns how many jobs they are for."""
    app = jobs.celery_app()
    with engine().begin() as connection:
        wake = jobs.sweep(connection)
    for job_id, kind in wake.items():
        try:
            jobs.send(app, kind)
            log.info("job.sent_again", job=str(job_id))
        except (BrokerError, OSError) as e:
            log.warning("job.not_sent", job=str(job_id), reason=str(e))  # a later sweep sends it
    beat()
    return len(wake)


def remove_once(seconds: float) -> None:
    """Removes the rows of attempts that will not be published, for about so many seconds, and deleted captures'
    objects."""
    with engine().begin() as connection:
        attempts.close_abandoned(connection)
    if rows := attempts.remove_closed(seconds):
        log.info("rows.removed", rows=rows)
    if captures := remove_deleted():
        log.info("objects.removed", captures=captures)


class _Collector:
    """Searches for objects that no row names, now and then."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self) -> None:
        if time.monotonic() - self._last >= settings().collect_interval_s:
            self._last = time.monotonic()
            log.info("strays.collected", objects=collect_once())


def _repeat(stop: threading.Event, *steps: Callable[[], object]) -> None:
    """Takes the steps in turn, until it is stopped. One that fails is taken again with the next round."""
    while not stop.is_set():
        for step in steps:
            try:
                step()
            except (SQLAlchemyError, BaseError, OSError) as e:
                log.warning("sweep.failed", reason=str(e))
        stop.wait(settings().sweep_interval_s)


def main() -> None:
    logs.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    remover = threading.Thread(
        target=_repeat, args=(stop, lambda: remove_once(_REMOVE_S), _Collector()), name="remover"
    )
    remover.start()
    _repeat(stop, sweep_once)
    remover.join()


if __name__ == "__main__":
    main()
