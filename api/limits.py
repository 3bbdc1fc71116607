"""What one team may ask of the service, so that the others are served too (docs/decisions/limits.md).

PostgreSQL counts, for all API processes together; a request that cannot reach PostgreSQL is not served at all. What is
refused is answered 429 with Retry-After.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from api.errors import TooMany
from store.database import async_engine
from store.models import Capture, Incoming, Job, RequestRate, State, Team
from store.settings import settings

log = structlog.get_logger()

BURST_S = 2.0
"""A team that was silent for so long may send the requests of this time at once."""
_SHARE_S = 0.1
"""A process takes the requests of so long from the team's allowance at a time ..."""
_SHARE_KEPT_S = 1.0
"""... and gives up after this time what is left of them."""
_JOBS_RETRY_S = 10
_BYTES_RETRY_S = 60
_ALIVE = timedelta(minutes=2)
"""An upload whose process says nothing for so long does not count any more."""
_RENEW_S = 30.0


class Requests:
    """Counts requests by team: GCRA, with one time in PostgreSQL for each team (ITU-T I.371, Annex A).

    A process takes some requests at a time, so that most of them write nothing.
    """

    def __init__(self) -> None:
        self._shares: dict[uuid.UUID, tuple[int, float]] = {}
        """By team, the requests that this process may still let pass, and until when (monotonic clock)."""
        self._refused: dict[uuid.UUID, float] = {}
        """By team, until when none passes: a team that does not wait costs no writes."""
        self._taking: WeakValueDictionary[uuid.UUID, asyncio.Lock] = WeakValueDictionary()
        """By team: requests that come at the same time share what the first of them takes."""

    async def count(self, session: AsyncSession, team_id: uuid.UUID) -> None:
        """Raises TooMany."""
        if self._spend(team_id):
            return
        taking = self._taking.setdefault(team_id, asyncio.Lock())
        async with taking:
            if not self._spend(team_id):
                until = time.monotonic() + _SHARE_KEPT_S
                taken = await self._take(session, team_id)
                self._shares[team_id] = (taken - 1, until)

    def _spend(self, team_id: uuid.UUID) -> bool:
        """Takes one request off this process's share of the team's. False: nothing is left of it. Raises TooMany."""
        now = time.monotonic()
        if self._refused.get(team_id, 0.0) > now:
            raise _too_many_requests(self._refused[team_id] - now)
        left, until = self._shares.get(team_id, (0, 0.0))
        if left == 0 or until < now:
            self._shares = {team: share for team, share in self._shares.items() if share[1] >= now}
            self._refused = {team: until for team, until in self._refused.items() if until > now}
            return False
        self._shares[team_id] = (left - 1, until)
        return True

    async def _take(self, session: AsyncSession, team_id: uuid.UUID) -> int:
        """Raises TooMany."""
        rate = settings().team_requests_per_s
        taken = max(1, int(rate * _SHARE_S))
        burst = timedelta(seconds=max(BURST_S, 1 / rate))
        now, lasts = func.clock_timestamp(), timedelta(seconds=taken / rate)
        begun = func.greatest(RequestRate.due_at, now)
        statement = (
            insert(RequestRate)
            .values(team_id=team_id, due_at=now + lasts)
            .on_conflict_do_update(
                index_elements=[RequestRate.team_id],
                set_={"due_at": begun + lasts},
                where=begun + lasts <= now + burst,
            )
            .returning(RequestRate.team_id)
        )
        if (await session.execute(statement)).one_or_none() is None:
            ahead = select(func.extract("epoch", RequestRate.due_at - now)).where(RequestRate.team_id == team_id)
            seconds = float((await session.execute(ahead)).scalar_one()) + (lasts - burst).total_seconds()
            self._refused[team_id] = time.monotonic() + seconds
            raise _too_many_requests(seconds)
        return taken


def _too_many_requests(wait_s: float) -> TooMany:
    return TooMany(
        f"a team may send {settings().team_requests_per_s:g} requests a second",
        headers={"Retry-After": str(max(1, math.ceil(wait_s)))},
    )


async def hold_team(session: AsyncSession, team_id: uuid.UUID) -> None:
    """Locks the team's row until the end of the transaction: what adds jobs or captures of a team does so in turn.

    A transaction that locks jobs and captures, too, locks the team first.
    """
    await session.execute(select(Team.id).where(Team.id == team_id).with_for_update(key_share=True))


async def admit_job(session: AsyncSession, team_id: uuid.UUID) -> None:
    """May the team have one more job? The caller holds the team, and then inserts the job. Raises TooMany."""
    await admit_jobs(session, team_id, 1)


async def admit_jobs(session: AsyncSession, team_id: uuid.UUID, more: int) -> None:
    """As admit_job, for several of them: all or none."""
    most = settings().team_jobs_max
    waiting = select(Job.id).where(Job.team_id == team_id, Job.state.in_((State.queued, State.running))).limit(most)
    count = (await session.execute(select(func.count()).select_from(waiting.subquery()))).scalar_one()
    if more and count + more > most:
        asked = "this one has as many" if count >= most else f"this one has {count} and asks for {more} more"
        raise TooMany(
            f"a team may have {most} jobs that wait or run, and {asked}",
            headers={"Retry-After": str(_JOBS_RETRY_S)},
        )


async def take_room(session: AsyncSession, team_id: uuid.UUID, size: int, lasts: timedelta) -> uuid.UUID:
    """Takes room for an upload of at most so many bytes, for so long. Returns its id, which `arrived` wants.

    The caller holds the team. Raises TooMany.
    """
    upload_id = uuid.uuid4()
    await admit_job(session, team_id)  # what could not be analysed would be received for nothing
    await _refuse_too_many_bytes(session, team_id, size)
    await session.execute(
        insert(Incoming).values(id=upload_id, team_id=team_id, bytes=size, alive_until=func.clock_timestamp() + lasts)
    )
    return upload_id


@asynccontextmanager
async def room(team_id: uuid.UUID, size: int) -> AsyncIterator[uuid.UUID]:
    """Keeps room for an upload of at most so many bytes. Yields its id, which `arrived` wants. Raises TooMany."""
    async with AsyncSession(async_engine()) as session, session.begin():
        await hold_team(session, team_id)
        upload_id = await take_room(session, team_id, size, _ALIVE)
    renewal = asyncio.create_task(_renew(upload_id))
    try:
        yield upload_id
    except BaseException:
        with suppress(SQLAlchemyError, OSError):  # it is not renewed any more
            async with AsyncSession(async_engine()) as session, session.begin():
                await arrived(session, upload_id)
        raise
    finally:
        renewal.cancel()


async def enlarge(team_id: uuid.UUID, upload_id: uuid.UUID, needed: int, wanted: int) -> int:
    """Gives an upload more room than it has: a copy may be larger than what arrived.

    needed, wanted: bytes in all. Returns how many it has now, between the two. Raises TooMany.
    """
    async with AsyncSession(async_engine()) as session, session.begin():
        await hold_team(session, team_id)
        had = await session.scalar(select(Incoming.bytes).where(Incoming.id == upload_id)) or 0
        left = settings().team_bytes_max - await _used(session, team_id)
        granted = max(needed, min(wanted, had + left))
        await _refuse_too_many_bytes(session, team_id, granted - had)
        await session.execute(update(Incoming).where(Incoming.id == upload_id).values(bytes=granted))
        return granted


async def arrived(session: AsyncSession, upload_id: uuid.UUID) -> None:
    """Gives the room of an upload back, in the transaction that stores its capture."""
    await session.execute(delete(Incoming).where(Incoming.id == upload_id))


async def _used(session: AsyncSession, team_id: uuid.UUID) -> int:
    own = (Capture.team_id == team_id, Capture.raw_deleted_at.is_(None))
    stored = select(func.coalesce(func.sum(Capture.bytes), 0)).where(*own)
    under_way = select(func.coalesce(func.sum(Incoming.bytes), 0)).where(
        Incoming.team_id == team_id, Incoming.alive_until > func.clock_timestamp()
    )
    return int(await session.scalar(select(stored.scalar_subquery() + under_way.scalar_subquery())) or 0)


async def _refuse_too_many_bytes(session: AsyncSession, team_id: uuid.UUID, size: int) -> None:
    most, used = settings().team_bytes_max, await _used(session, team_id)
    if used + size > most:
        raise TooMany(
            f"a team may store {most} bytes of captures, uploads under way included; {used} are taken, and this needs"
            f" {size}: delete captures, or wait for uploads to end",
            headers={"Retry-After": str(_BYTES_RETRY_S)},
        )


async def _renew(upload_id: uuid.UUID) -> None:
    while True:
        await asyncio.sleep(_RENEW_S)
        try:
            async with AsyncSession(async_engine()) as session, session.begin():
                await session.execute(
                    update(Incoming).where(Incoming.id == upload_id).values(alive_until=func.clock_timestamp() + _ALIVE)
                )
        except (SQLAlchemyError, OSError) as e:
            log.warning("upload.not_renewed", reason=str(e))
