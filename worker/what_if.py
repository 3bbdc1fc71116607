"""Answers what would have come of a connection under the algorithm, options and settings of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from sqlalchemy import func, select, update

import rewindow
from rewindow import Choice
from rewindow.reports import whatifs
from rewindow.whatif import Prediction, WhatIf, observe
from store import jobs, models
from store.database import engine
from store.jobs import Claim, JobLost

_OBSERVED = 0.1
"""The part of the progress that the capture's replay is counted as."""


def run(taken: Claim, file: IO[bytes], name: str, report: Callable[[str, float], None]) -> None:
    """The same question has the same answer, whichever worker begins it anew: the seeds are fixed."""
    with engine().connect() as connection:
        asked = connection.execute(
            select(*models.WhatIf.__table__.c).where(models.WhatIf.id == taken.subject_id)
        ).one_or_none()
    if asked is None:
        raise JobLost
    report("observing", 0.0)
    with rewindow.open(file) as capture:
        capture.names[:] = [name]
        observation = observe(capture)
    whatif = WhatIf(observation)
    choice = Choice(asked.algorithm, asked.options, label=asked.label)
    whatif.check(asked.connection_number, [choice], asked.settings)
    found = whatif.ask(
        asked.connection_number,
        choice,
        everyone=asked.everyone,
        runs=asked.repeat,
        settings=asked.settings,
        report=lambda done: report("simulating", _OBSERVED + (1 - _OBSERVED) * done),
    )
    _finish(taken, found)


def _finish(taken: Claim, found: Prediction) -> None:
    with engine().begin() as connection:
        jobs.hold(connection, taken)
        connection.execute(
            update(models.WhatIf)
            .where(models.WhatIf.id == taken.subject_id)
            .values(
                state=models.State.done,
                error=None,
                result=whatifs.prediction(found),
                finished_at=func.clock_timestamp(),
            )
        )
        jobs.finish(connection, taken)
