"""The sweeper, `python -m worker.sweeper`: wakes workers for jobs whose message was lost, whose worker died or whose
pause is over. A second thread removes what nobody can see any more and counts histograms, which may take long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from kombu.exceptions import OperationalError as BrokerError
from obstore.exceptions import BaseError
from sqlalchemy.exc import SQLAlchemyError

from store import attempts, jobs, logs, objects
from store.database import engine
from store.heartbeat import beat
from store.histograms import Refresher
from store.outages import Dependency
from store.settings import settings
from worker.collector import (
    collect_once,
    forget_audit_events,
    forget_changes,
    forget_dead_uploads,
    forget_resumable_uploads,
    remove_deleted,
)
from worker.retention import retain_once

log = structlog.get_logger()

_REMOVE_S = 5.0
"""Rows are removed for so long before the next objects are looked for."""
_REFRESH_S = 5.0
"""Histograms are counted for so long before something else has its turn."""


class Sweeps:
    """Sweeps one after the other, and knows for how long the database has answered them.

    After an outage of the database every lease may have run out, though the workers live: leases are judged again when
    the workers had the time to renew them.
    """

    def __init__(self) -> None:
        self._answers_since = self._last = time.monotonic()

    def __call__(self) -> int:
        """Sends the wake-ups that are due. Returns how many jobs they are for."""
        began = time.monotonic()
        if began - self._last > settings().sweep_interval_s + _silence_s():
            self._answers_since = began
        count = sweep_once(judge_leases=began - self._answers_since > settings().lease_s / 2)
        self._last = time.monotonic()
        if self._last - began > _silence_s():
            self._answers_since = self._last
        return count


def _silence_s() -> float:
    """A database that said nothing for longer may have kept workers from renewing their leases."""
    return settings().lease_s / 3


def sweep_once(*, judge_leases: bool = True) -> int:
    """Sends the wake-ups that are due. Returns how many jobs they are for."""
    app = jobs.celery_app()
    began = time.monotonic()
    with engine().connect() as connection:
        wake = jobs.sweep(connection, judge_leases=judge_leases)
        if judge_leases and time.monotonic() - began > _silence_s():
            # The database hung meanwhile, and the leases that had run out when it went on tell nothing.
            connection.rollback()
            wake = jobs.sweep(connection, judge_leases=False)
        connection.commit()
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
    forget_dead_uploads()
    forget_changes()
    if events := forget_audit_events():
        log.info("audit.forgotten", events=events)
    if captures := remove_deleted():
        log.info("objects.removed", captures=captures)


def forget_uploads() -> None:
    """Removes what is left of resumable uploads that were given up."""
    if uploads := forget_resumable_uploads():
        log.info("uploads.removed", uploads=uploads)


class StoreWatch:
    """Where jobs wait for the object store: does not let them wait longer when it is back."""

    def __init__(self) -> None:
        self._away = False

    def __call__(self) -> None:
        with engine().connect() as connection:
            awaited = jobs.deferred_for(connection, Dependency.store)
        if not awaited:
            self._away = False
            return
        try:
            objects.probe("sweeper")
        except (BaseError, OSError) as e:
            self._away = True
            log.warning("store.away", reason=str(e))
            return
        # Where the store never refused the sweeper, it may refuse a job's objects for their size: their pauses stay.
        if self._away:
            with engine().begin() as connection:
                jobs.end_outage(connection, Dependency.store)
            self._away = False
            log.info("store.back")


class _Collector:
    """Searches for objects that no row names, now and then."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self) -> None:
        if time.monotonic() - self._last >= settings().collect_interval_s:
            self._last = time.monotonic()
            log.info("strays.collected", objects=collect_once())


class _Retention:
    """Deletes what teams do not want to keep any longer, now and then; without a pause as long as something is due."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self) -> None:
        if time.monotonic() - self._last < settings().retention_interval_s:
            return
        deleted = retain_once(_REMOVE_S)
        if deleted.total():
            log.info("retention.deleted", captures=dict(deleted))
        else:
            self._last = time.monotonic()


class _Refreshes:
    """Counts the histograms of stale days again."""

    def __init__(self) -> None:
        self._refresher = Refresher()

    def __call__(self) -> None:
        counted = self._refresher(_REFRESH_S)
        if counted:
            log.info("histograms.counted", days=counted)


def _repeat(stop: threading.Event, *steps: Callable[[], object]) -> None:
    """Takes the steps in turn, until it is stopped. One that fails is taken again with the next round."""
    while not stop.is_set():
        for step in steps:
            try:
                step()
            except (SQLAlchemyError, BaseError, BotoCoreError, ClientError, OSError) as e:
                log.warning("sweep.failed", reason=str(e))
        stop.wait(settings().sweep_interval_s)


def main() -> None:
    logs.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    remover = threading.Thread(
        target=_repeat,
        args=(
            stop,
            StoreWatch(),
            _Refreshes(),
            _Retention(),
            lambda: remove_once(_REMOVE_S),
            forget_uploads,
            _Collector(),
        ),
        name="remover",
    )
    remover.start()
    _repeat(stop, Sweeps())
    remover.join()


if __name__ == "__main__":
    main()
