"""Histograms of each day of a team, kept in PostgreSQL (docs/decisions/aggregates.md).

Buckets are fixed; their borders grow by 2 %, so that a bucket's middle is off by at most 1 % of any value in it. Bucket
0 has what is smaller than `LEAST`, without its sign; bucket n > 0 begins at LEAST * GROWTH^(n-1), and -n has the same
values below zero. The numbers of buckets grow with the values.

A row of `day_histograms` follows from the facts of its day. Whatever changes which facts a team sees, or a dimension of
them, adds a row to `stale_days` in its own transaction: triggers of `captures` do. A reader takes the facts themselves
for the days that are stale, so that its answer is that of a recount at any time; `refresh` counts such a day again.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    LargeBinary,
    Select,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from store import counts, facts, spreads
from store.database import engine
from store.facts import Period
from store.models import BIGINT_MAX, Attempt, Capture, ConnectionFact, DayCount, DayHistogram, DaySpread, StaleDay

GROWTH = 1.02
LEAST = 1e-9
DAYS_MAX = 62
"""A capture whose connections began on more days has no part in histograms: its facts are always read."""

CUBE: dict[str, ColumnElement[Any]] = {
    "kind": ConnectionFact.kind.expression,
    "sender_algorithm": ConnectionFact.sender_algorithm.expression,
    "site": Capture.site.expression,
}
"""Dimensions by which a day is divided."""
OF_CAPTURES = ("site",)
"""Those that are of the whole capture, so that groups of its connections have them, too."""


def bucket(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Of a value of PostgreSQL, float8."""
    size = func.abs(value)
    place = cast(func.floor(func.ln(size / literal(LEAST, Float(53))) / literal(math.log(GROWTH), Float(53))), Integer)
    return case((size < LEAST, 0), (value < 0, -1 - place), else_=1 + place)


def day(time: Any) -> ColumnElement[int]:
    """Of nanoseconds since 1970: PostgreSQL's division truncates, so that day 0 has the last one before 1970, too."""
    return cast(time.op("/")(facts.DAY_NS), Integer)


def period(day: int) -> Period:
    """What the day has."""
    if day > 0:
        return day * facts.DAY_NS, min((day + 1) * facts.DAY_NS, BIGINT_MAX)
    return (day - 1) * facts.DAY_NS + 1, facts.DAY_NS if day == 0 else day * facts.DAY_NS + 1


def packed(rows: Select[Any], keys: Sequence[str]) -> Select[Any]:
    """A histogram for each group of values, in the columns of `DayHistogram`.

    rows: `value`, `unreliable` and a column for each key.
    """
    scanned = rows.subquery("scanned")
    by = [scanned.c[key] for key in keys]
    number = bucket(scanned.c.value).label("bucket")
    value = scanned.c.value
    cells = (
        select(
            *by,
            scanned.c.unreliable,
            number,
            func.count().label("n"),
            func.sum(value).label("total"),
            func.min(value).label("least"),
            func.max(value).label("most"),
        )
        .group_by(*by, scanned.c.unreliable, number)
        .subquery("cells")
    )
    has_value = cells.c.bucket.is_not(None)

    def counted(which: ColumnElement[bool]) -> ColumnElement[Any]:
        return cast(func.coalesce(func.sum(cells.c.n).filter(which), 0), Integer)

    pair = func.int4send(cells.c.bucket).op("||")(func.int4send(cast(cells.c.n, Integer)))
    ordered = aggregate_order_by(cast(literal(b""), LargeBinary), cells.c.bucket)
    by = [cells.c[key] for key in keys]
    return select(
        *by,
        cells.c.unreliable,
        counted(has_value).label("count"),
        counted(~has_value).label("missing"),
        func.sum(cells.c.total).label("total"),
        func.min(cells.c.least).label("least"),
        func.max(cells.c.most).label("most"),
        func.coalesce(func.string_agg(pair, ordered).filter(has_value), cast(literal(b""), LargeBinary)).label(
            "buckets"
        ),
    ).group_by(*by, cells.c.unreliable)


def kept_days(attempt_id: int) -> Select[Any]:
    """The days on which connections of an attempt began, as its row keeps them: null where they are too many."""
    began = select(day(ConnectionFact.first_ns).label("day")).where(ConnectionFact.attempt_id == attempt_id)
    days = began.distinct().limit(DAYS_MAX + 1).subquery("days")
    found = func.coalesce(func.array_agg(aggregate_order_by(days.c.day, days.c.day)), literal([], Attempt.days.type))
    return select(case((func.count() <= DAYS_MAX, found)))


def refresh(team_id: uuid.UUID, of_day: int) -> None:
    """Counts a day of a team again. Raises OperationalError where another process does at the same time."""
    with engine().connect().execution_options(isolation_level="REPEATABLE READ") as database, database.begin():
        # One snapshot: what it counts is what was there when the last of the marks was made that it deletes.
        database.execute(delete(StaleDay).where(StaleDay.team_id == team_id, StaleDay.day == of_day))
        database.execute(delete(DayHistogram).where(DayHistogram.team_id == team_id, DayHistogram.day == of_day))
        for name, measure in facts.MEASURES.items():
            for divided in (False, True):
                _count(database, team_id, of_day, name, measure, divided)
        database.execute(delete(DaySpread).where(DaySpread.team_id == team_id, DaySpread.day == of_day))
        spreads.count(database, team_id, of_day, period(of_day))
        database.execute(delete(DayCount).where(DayCount.team_id == team_id, DayCount.day == of_day))
        counts.count(database, team_id, of_day, period(of_day))


def _count(database: Any, team_id: uuid.UUID, of_day: int, name: str, measure: facts.Measured, divided: bool) -> None:
    keys = [k for k in CUBE if divided and (k in OF_CAPTURES or not measure.of_captures)]
    in_histograms = ConnectionFact.attempt_id.in_(select(Attempt.id).where(Attempt.days.is_not(None)))
    rows = measure.rows(team_id, [CUBE[k].label(k) for k in keys], in_histograms, periods=[period(of_day)])
    found = packed(rows, keys).subquery("found")
    values: dict[str, Any] = {c.name: found.c.get(c.name, null()) for c in DayHistogram.__table__.c}
    values |= {
        "team_id": literal(team_id),
        "measure": literal(name),
        "divided": literal(divided),
        "day": literal(of_day),
        "place": func.row_number().over(),
    }
    database.execute(insert(DayHistogram).from_select(list(values), select(*(v.label(n) for n, v in values.items()))))


class Refresher:
    """Counts stale days again, the longest stale first. A day that keeps changing rests between two counts for ten
    times what the last one took: its facts are read meanwhile."""

    REST = 10

    def __init__(self) -> None:
        self._rests: dict[tuple[uuid.UUID, int], float] = {}

    def __call__(self, seconds: float) -> int:
        """For about so many seconds. Returns how many days it counted."""
        now = time.monotonic()
        until = now + seconds
        self._rests = {k: end for k, end in self._rests.items() if end > now}
        stale = select(StaleDay.team_id, StaleDay.day).group_by(StaleDay.team_id, StaleDay.day)
        with engine().connect() as database:
            waiting = [(r.team_id, r.day) for r in database.execute(stale.order_by(func.min(StaleDay.id)))]
        counted = 0
        for key in waiting:
            began = time.monotonic()
            if began > until:
                break
            if key not in self._rests:
                refresh(*key)
                counted += 1
                ended = time.monotonic()
                self._rests[key] = ended + self.REST * (ended - began)
        return counted
