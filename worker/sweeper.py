"""The sweeper, `python -m worker.sweeper`: wakes workers for jobs whose message was lost, whose worker died or whose
pause is over."""

from __future__ import annotations

import signal
import threading
import time

import structlog
from kombu.exceptions import OperationalError as BrokerError
from obstore.exceptions import BaseError
from sqlalchemy.exc import SQLAlchemyError

from store import jobs, logs
from store.database import engine
from store.heartbeat import beat
from store.settings import settings
from worker.collector import collect_once

log = structlog.get_logger()


def sweep_once() -> int:
    """Sends the wake-ups that are due. Returns how many jobs they are for."""
    app = jobs.celery_app()
    with engine().begin() as connection:
        wake = jobs.sweep(connection)
    for job_id, kind in wake.items():
        try:
            jobs.send(app, job_id, kind)
            log.info("job.sent_again", job=str(job_id))
        except (BrokerError, OSError) as e:
            log.warning("job.not_sent", job=str(job_id), reason=str(e))  # a later sweep sends it
    beat()
    return len(wake)


def main() -> None:
    logs.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    collected = float("-inf")
    while not stop.is_set():
        try:
            sweep_once()
            if time.monotonic() - collected >= settings().collect_interval_s:
                collected = time.monotonic()
                log.info("strays.collected", objects=collect_once())
        except (SQLAlchemyError, BaseError, OSError) as e:
            log.warning("sweep.failed", reason=str(e))
        stop.wait(settings().sweep_interval_s)


if __name__ == "__main__":
    main()
