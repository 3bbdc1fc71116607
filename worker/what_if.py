"""Fits and what-ifs in parts of about a second (store/parts.py): what would have come of a connection under the
algorithm, options and settings of a request.

The rows of a part follow from the numbers of its runs, so the answer does not depend on which worker ran which part,
or how often one was killed. What a process has made of a capture it keeps for the next part of the same connection.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import structlog
from celery import Celery
from kombu.exceptions import OperationalError as BrokerError
from sqlalchemy import Connection, select

import rewindow
from rewindow import Choice
from rewindow.reports import whatifs
from rewindow.whatif import Observation, Prediction, WhatIf, observe
from rewindow.whatif.batches import Batch, Work
from store import jobs, models, parts
from store.database import engine
from store.jobs import Claim, JobLost, Runs
from store.models import JobKind
from store.parts import Simulated, Span

log = structlog.get_logger()

PART_S = 1.0
"""About so long a job simulates; a run that takes longer is a part of its own."""
OpenCapture = Callable[[], AbstractContextManager[tuple[IO[bytes], str]]]
Report = Callable[[str, float], None]


class _Stepped:
    """A fit or prediction that is brought forward by stored rows. made: the batches that it was sent."""

    def __init__(self, work: Work[Any]) -> None:
        self._work = work
        self.made = 0
        self.batch: Batch | None = None
        self.result: Any = None
        self._step(lambda: next(work))

    def _step(self, step: Callable[[], Batch]) -> None:
        try:
            self.batch = step()
        except StopIteration as e:
            self.batch, self.result = None, e.value

    def send(self, rows: np.ndarray[Any, Any]) -> None:
        self._step(lambda: self._work.send(rows))
        self.made += 1

    def advance(self, stored: dict[int, list[Simulated]]) -> None:
        """Through the batches whose rows are all there."""
        while self.batch is not None and _missing(self.batch.runs, own := stored.get(self.made, [])) == []:
            self.send(np.concatenate([_rows(part) for part in own]))


def _rows(part: Simulated) -> np.ndarray[Any, Any]:
    return np.frombuffer(part.rows, "<f8").reshape(part.runs.runs, -1)


def _missing(runs: int, stored: Sequence[Simulated]) -> list[tuple[int, int]]:
    """The runs of a batch that no part has, as (first, beyond the last)."""
    gaps, at = [], 0
    for part in stored:
        if part.runs.first_run > at:
            gaps.append((at, part.runs.first_run))
        at = part.runs.first_run + part.runs.runs
    return [*gaps, (at, runs)] if at < runs else gaps


def runs_of_a_part(seconds_per_run: float) -> int:
    """As many as take about PART_S, at least one."""
    return max(1, int(PART_S / max(seconds_per_run, 1e-9)))


def cut(batch: int, gaps: Sequence[tuple[int, int]], each: int) -> list[Runs]:
    """Parts of at most `each` runs."""
    return [Runs(batch, first, min(each, end - first)) for begin, end in gaps for first in range(begin, end, each)]


@dataclass
class _Kept:
    """What this process has made of the connection that it worked on last."""

    capture_id: uuid.UUID
    observation: Observation
    number: int
    whatif: WhatIf
    fit: tuple[uuid.UUID, _Stepped] | None = None
    """With the id of its row: a fit that was cancelled and asked for again has no parts yet."""
    prediction: tuple[uuid.UUID, _Stepped] | None = None


_kept: _Kept | None = None


def forget() -> None:
    """Gives the memory back that the last connection took, before other work begins."""
    global _kept
    _kept = None


def _whatif(taken: Claim, number: int, open_capture: OpenCapture, report: Report) -> _Kept:
    """A fit is found from the capture and the connection alone: never from what was asked before."""
    global _kept
    assert taken.capture_id is not None
    if _kept is None or _kept.capture_id != taken.capture_id:
        _kept = None
        with open_capture() as (file, name):
            report("observing", 0.0)
            with rewindow.open(file) as capture:
                capture.names[:] = [name]
                observation = observe(capture)
        _kept = _Kept(taken.capture_id, observation, number, WhatIf(observation))
    if _kept.number != number:
        _kept = _Kept(taken.capture_id, _kept.observation, number, WhatIf(_kept.observation))
    return _kept


def run(taken: Claim, open_capture: OpenCapture, report: Report) -> None:
    """Raises JobLost, BadOption, UnknownAlgorithm."""
    try:
        _run(taken, open_capture, report)
    except JobLost:
        raise
    except BaseException:
        forget()  # what broke off in the middle cannot go on
        raise


def _run(taken: Claim, open_capture: OpenCapture, report: Report) -> None:
    ends = time.monotonic() + PART_S
    stepped = (_fit if taken.kind is JobKind.fit else _prediction)(taken, open_capture, report)
    if stepped is None:
        return
    with engine().connect() as connection:
        stored = parts.stored(connection, taken.kind, taken.subject_id)
    stepped.advance(stored)
    if taken.part is not None:
        _run_part(taken, stepped, taken.part, report)
        return
    speeds = [part for of_batch in stored.values() for part in of_batch]
    while stepped.batch is not None:
        batch, own = stepped.batch, stored.get(stepped.made, [])
        gaps = _missing(batch.runs, own)
        left = sum(end - begin for begin, end in gaps)
        runs = sum(part.runs.runs for part in speeds)
        each = sum(part.seconds for part in speeds) / runs if runs else 0.0
        now = time.monotonic()
        if now >= ends or (runs and left * each > ends - now):
            _hand_out(taken, cut(stepped.made, gaps, runs_of_a_part(each)))
            return
        begin, end = gaps[0]
        part = _simulated(batch, stepped.made, begin, end, ends, report)
        span = Span(batch.runs, batch.begins, batch.ends)
        _commit(taken, lambda connection, part=part, span=span: parts.publish(connection, taken, part, span))  # type: ignore[misc]
        stored.setdefault(stepped.made, []).append(part)
        stored[stepped.made].sort(key=lambda p: p.runs.first_run)
        speeds.append(part)
        stepped.advance(stored)
    if taken.kind is JobKind.fit:
        _commit(taken, lambda connection: parts.end_fit(connection, taken))
    else:
        found: Prediction = stepped.result
        _commit(taken, lambda connection: parts.end_whatif(connection, taken, whatifs.prediction(found)))


def _fit(taken: Claim, open_capture: OpenCapture, report: Report) -> _Stepped | None:
    with engine().connect() as connection:
        number = connection.scalar(select(models.Fit.connection_number).where(models.Fit.id == taken.subject_id))
    if number is None:
        raise JobLost
    kept = _whatif(taken, number, open_capture, report)
    if kept.fit is None or kept.fit[0] != taken.subject_id:
        kept.fit = (taken.subject_id, _Stepped(kept.whatif.fitting(number)))
    return kept.fit[1]


def _prediction(taken: Claim, open_capture: OpenCapture, report: Report) -> _Stepped | None:
    """None: the fit is not done yet, and its end adds another job."""
    with engine().connect() as connection:
        asked = connection.execute(
            select(*models.WhatIf.__table__.c).where(models.WhatIf.id == taken.subject_id)
        ).one_or_none()
    if asked is None:
        raise JobLost
    kept = _whatif(taken, asked.connection_number, open_capture, report)
    choice = Choice(asked.algorithm, asked.options, label=asked.label)
    kept.whatif.check(asked.connection_number, [choice], asked.settings)
    if kept.prediction is not None and kept.prediction[0] == asked.id:
        return kept.prediction[1]
    fit = kept.fit[1] if kept.fit is not None else _Stepped(kept.whatif.fitting(asked.connection_number))
    if fit.batch is not None and not _with_fit(taken, fit):
        return None
    stepped = _Stepped(
        kept.whatif.asking(
            fit.result, asked.connection_number, choice, everyone=asked.everyone, runs=asked.repeat,
            settings=asked.settings,
        )
    )  # fmt: skip
    kept.prediction = (asked.id, stepped)
    return stepped


def _with_fit(taken: Claim, fit: _Stepped) -> bool:
    """Brings the fit to its end. False: it is not done."""
    with engine().begin() as connection:
        if parts.hold(connection, taken):
            fit_id, done, wake = parts.fit_for(connection, taken)
        else:
            done, wake = False, parts.leave_failed(connection, taken)
    _wake(JobKind.fit, wake)
    if done:
        with engine().connect() as connection:
            fit.advance(parts.stored(connection, JobKind.fit, fit_id))
        assert fit.batch is None
    return done


def _simulated(batch: Batch, number: int, first: int, beyond: int, ends: float | None, report: Report) -> Simulated:
    """Runs from `first` on: up to `beyond`, or as many as begin before `ends`, at least one."""
    began = time.monotonic()
    rows: list[np.ndarray[Any, Any]] = []
    for i in range(first, beyond):
        if rows and ends is not None and time.monotonic() >= ends:
            break
        rows.append(batch.row(i))
        report("simulating", (i + 1) / batch.runs)
    found = np.array(rows, "<f8").tobytes()
    return Simulated(Runs(number, first, len(rows)), found, time.monotonic() - began)


def _run_part(taken: Claim, stepped: _Stepped, wanted: Runs, report: Report) -> None:
    assert stepped.batch is not None
    assert stepped.made == wanted.batch
    batch = stepped.batch
    part = _simulated(batch, wanted.batch, wanted.first_run, wanted.first_run + wanted.runs, None, report)
    span = Span(batch.runs, batch.begins, batch.ends)

    def end(connection: Connection) -> int:
        parts.publish(connection, taken, part, span)
        return parts.end_part(connection, taken)

    _commit(taken, end)


def _hand_out(taken: Claim, wanted: Sequence[Runs]) -> None:
    _commit(taken, lambda connection: parts.hand_out(connection, taken, wanted))


def _commit(taken: Claim, change: Callable[[Connection], int | None]) -> None:
    """Makes a change under the job's fence, then wakes as many workers as it returns. Raises JobLost."""
    with engine().begin() as connection:
        held = parts.hold(connection, taken)
        wake = change(connection) if held else parts.leave_failed(connection, taken)
    _wake(taken.kind, wake or 0)
    if not held:
        raise JobLost


@functools.cache
def _celery() -> Celery:
    return jobs.celery_app()


def _wake(kind: JobKind, count: int) -> None:
    """The jobs are committed: where Redis is away, the sweeper sends their wake-ups."""
    try:
        for _ in range(count):
            jobs.send(_celery(), kind)
    except (BrokerError, OSError) as e:
        log.warning("job.not_sent", reason=str(e))
