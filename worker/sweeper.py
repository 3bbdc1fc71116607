"""The sweeper: `python -m worker.sweeper`. Wakes jobs whose message was lost or whose worker died."""

from __future__ import annotations

import signal
import threading

import structlog
from sqlalchemy.exc import OperationalError

from store import jobs
from store.database import engine
from store.settings import settings
from worker import logs

log = structlog.get_logger()


def sweep_once() -> int:
    """Returns how many jobs were woken."""
    app = jobs.celery_app()
    with engine().begin() as connection:
        wake = jobs.sweep(connection)
    for job_id in wake:
        jobs.send(app, job_id)
        log.info("job.sent_again", job=str(job_id))
    return len(wake)


def main() -> None:
    logs.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        try:
            sweep_once()
        except (OperationalError, OSError) as e:
            log.warning("sweep.failed", reason=str(e))
        stop.wait(settings().sweep_interval_s)


if __name__ == "__main__":
    main()
