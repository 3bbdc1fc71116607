from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from api import limits, retention
from api.errors import NotFound, TooMany, Unavailable, Unprocessable
from api.events import Progress
from api.model_checks.schemas import ModelCheckDetail, ModelCheckIn, ModelCheckOut
from api.pages import Keyset, Page
from api.security import Caller
from store.models import Capture, CheckState, Connection, Job, JobKind, ModelCheck, SpecRecord, State
from store.settings import settings

SECONDS = 300.0
WAITING_MAX = 20
"""Checks that one team may have waiting or running, so that the other teams are served too."""
WAITING = (CheckState.queued, CheckState.running)
_NEWEST_FIRST = Keyset((ModelCheck.created_at, ModelCheck.id), descending=True)
_SHOWN = {
    "state", "verdict", "error", "generated", "distinct", "queued", "depth", "seconds",
    "events", "followed", "pieces", "pieces_followed",
}  # fmt: skip
"""What an event of a check tells."""
_LONG = {"coverage", "counterexample", "counterexample_states", "first_violation"}


def _scoped(caller: Caller) -> Select[Any]:
    return select(ModelCheck).where(ModelCheck.team_id == caller.team_id)


def _out(check: ModelCheck) -> ModelCheckOut:
    names = ModelCheckOut.model_fields.keys() - {"verdict", "connection"}
    return ModelCheckOut(
        **{n: getattr(check, n) for n in names},
        verdict=_verdict(check),
        connection=check.connection_id if check.capture_id else None,
    )


def _verdict(check: ModelCheck) -> Any:
    return check.state.value if check.state in (CheckState.failed, CheckState.cancelled) else check.verdict


def _without_long(query: Select[Any]) -> Select[Any]:
    return query.options(*(defer(getattr(ModelCheck, n)) for n in _LONG))


async def outline(session: AsyncSession, caller: Caller, check_id: uuid.UUID) -> ModelCheckOut:
    """A check without its coverage, counterexample and violation. Raises NotFound."""
    found = (await session.scalars(_without_long(_scoped(caller)).where(ModelCheck.id == check_id))).one_or_none()
    if found is None:
        raise NotFound("no such model check")
    return _out(found)


def _told(check: ModelCheckOut) -> Progress:
    return Progress(check.model_dump(mode="json", include=_SHOWN), check.state not in WAITING)


async def progress(session: AsyncSession, checks: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of checks of any team: the caller has checked whose they are."""
    rows = await session.scalars(_without_long(select(ModelCheck)).where(ModelCheck.id.in_(checks)))
    return {check.id: _told(_out(check)) for check in rows}


async def progress_of_own(session: AsyncSession, caller: Caller, check_id: uuid.UUID) -> Progress:
    """Raises NotFound."""
    return _told(await outline(session, caller, check_id))


async def get(session: AsyncSession, caller: Caller, check_id: uuid.UUID) -> ModelCheckDetail:
    """Raises NotFound."""
    check: ModelCheck | None = (await session.scalars(_scoped(caller).where(ModelCheck.id == check_id))).one_or_none()
    if check is None:
        raise NotFound("no such model check")
    spec = await session.get(SpecRecord, check.spec)
    return ModelCheckDetail(
        **_out(check).model_dump(),
        **{n: getattr(check, n) for n in _LONG},
        windows=spec.description["windows"] if spec else None,
    )


async def find(
    session: AsyncSession,
    caller: Caller,
    *,
    cursor: str | None,
    limit: int,
    spec: str | None,
    state: CheckState | None,
    connection: uuid.UUID | None,
) -> Page[ModelCheckOut]:
    """Newest first."""
    query = _scoped(caller)
    if spec is not None:
        query = query.where(ModelCheck.spec == spec)
    if state is not None:
        query = query.where(ModelCheck.state == state)
    if connection is not None:
        query = query.where(ModelCheck.connection_id == connection, ModelCheck.capture_id.is_not(None))
    return await _NEWEST_FIRST.page(session, _without_long(query), cursor, limit, lambda row: _out(row.ModelCheck))


async def latest(session: AsyncSession, caller: Caller) -> list[ModelCheckOut]:
    """The last ended check of each configuration."""
    rows = await session.scalars(
        _without_long(_scoped(caller))
        .where(ModelCheck.state.not_in(WAITING), ModelCheck.algorithm.is_(None))
        .ext(distinct_on(ModelCheck.spec, ModelCheck.configuration))
        .order_by(ModelCheck.spec, ModelCheck.configuration, ModelCheck.finished_at.desc())
    )
    return [_out(c) for c in rows]


async def _chosen(session: AsyncSession, wanted: ModelCheckIn, spec: str) -> dict[str, Any]:
    """The columns of a check of a specification: configuration and all constants. Raises Unprocessable."""
    record = await session.get(SpecRecord, spec) if spec.isprintable() else None
    if record is None:
        raise Unprocessable("no such specification; GET /v1/specs lists them")
    by_name = {c["name"]: c for c in record.description["configurations"]}
    name = wanted.configuration or next(iter(by_name))
    if name not in by_name:
        raise Unprocessable(f"{spec} has no such configuration; it has: {', '.join(by_name)}")
    own: dict[str, int] = by_name[name]["constants"]
    ranges = record.description["constants"]
    for constant, value in wanted.constants.items():
        if constant not in own:
            which = ", ".join(sorted(own)) or "none"
            raise Unprocessable(f"'{constant[:40]}' cannot be chosen for {spec} {name}; these can: {which}")
        least, most = ranges[constant]["min"], ranges[constant]["max"]
        if not least <= value <= most:
            raise Unprocessable(
                f"constants.{constant}: {value} is not in the range from {least} to {most}",
                constant=constant, min=least, max=most,
            )  # fmt: skip
    return {
        "spec": record.name,
        "configuration": name,
        "constants": {**own, **wanted.constants},
        "digest": record.digest,
    }


async def _followed(session: AsyncSession, wanted: ModelCheckIn) -> tuple[str, SpecRecord]:
    """A controller and the specification of its steps. Raises Unprocessable."""
    records = await session.scalars(select(SpecRecord).order_by(SpecRecord.position))
    known = {a: r for r in records for a in r.description.get("controllers", [])}
    name = next(iter(known), "") if wanted.algorithm is None else wanted.algorithm
    if name not in known:
        there = f"specified are: {', '.join(known)}" if known else "no worker has published one"
        raise Unprocessable(f"algorithm: there is no specification of this controller; {there}")
    return name, known[name]


async def _of_connection(
    session: AsyncSession, caller: Caller, wanted: ModelCheckIn, connection_id: uuid.UUID
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The key of a check of a connection's steps, and where its capture is now. Raises NotFound, Unprocessable."""
    query = (
        select(Connection.number, Capture.id, Capture.sha256, Capture.filename)
        .join(Capture, Capture.attempt_id == Connection.attempt_id)
        .where(Connection.id == connection_id, Capture.team_id == caller.team_id)
    )
    found = (await session.execute(query)).one_or_none()
    if found is None:
        raise NotFound("no such connection")
    algorithm, record = await _followed(session, wanted)
    asked = {
        "spec": record.name,
        "constants": {},
        "digest": record.digest,
        "algorithm": algorithm,
        "capture_sha256": found.sha256,
        "connection_number": found.number,
    }
    return asked, {"capture_id": found.id, "capture_filename": found.filename, "connection_id": connection_id}


def _refuse_mixtures(wanted: ModelCheckIn) -> None:
    given = wanted.model_fields_set
    if (wanted.spec is None) == (wanted.connection is None):
        raise Unprocessable("give exactly one of spec (a specification) and connection (whose steps are checked)")
    if wanted.spec is None and (wrong := sorted(given & {"configuration", "constants"})):
        raise Unprocessable(f"{wrong[0]} can be given with spec only")
    if wanted.connection is None and wanted.algorithm is not None:
        raise Unprocessable("algorithm can be given with connection only")


def _deleted() -> Unavailable:
    return Unavailable("this check has just been deleted: send the request again", headers={"Retry-After": "1"})


async def request(
    session: AsyncSession, caller: Caller, wanted: ModelCheckIn
) -> tuple[ModelCheckOut, uuid.UUID | None]:
    """The check, and the job to wake if there is one. Raises NotFound, Conflict, Unprocessable, TooMany, Unavailable.

    The same request twice is one check; one that failed or was cancelled begins anew.
    """
    most = settings().check_seconds_max
    seconds_max = min(SECONDS, most) if wanted.seconds_max is None else wanted.seconds_max
    if seconds_max > most:
        raise Unprocessable(f"seconds_max: a check may take at most {most:g} s")
    _refuse_mixtures(wanted)
    where: dict[str, Any] = {}
    if wanted.connection is None:
        asked = await _chosen(session, wanted, wanted.spec or "")
    else:
        asked, where = await _of_connection(session, caller, wanted, wanted.connection)
    asked["team_id"] = caller.team_id
    await limits.hold_team(session, caller.team_id)
    try:
        inserted = await session.scalars(
            insert(ModelCheck)
            .values(id=uuid.uuid4(), seconds_max=seconds_max, **asked, **where)
            .on_conflict_do_nothing()
            .returning(ModelCheck)
        )
    except IntegrityError as e:  # its capture has been deleted since it was read
        raise NotFound("no such connection") from e
    check: ModelCheck | None = inserted.one_or_none()
    if check is None:
        check = (await session.scalars(_scoped(caller).filter_by(**asked))).one_or_none()
        if check is None:
            raise _deleted()
        if not await _begin_anew(session, check, {"seconds_max": seconds_max, **where}):
            return _out(check), None
    if "capture_id" in where:
        await retention.refuse_checks_without_copy(session, where["capture_id"])
    await _refuse_too_many(session, caller)
    await limits.admit_job(session, caller.team_id)
    job_id = uuid.uuid4()
    values = {"id": job_id, "kind": JobKind.check, "team_id": caller.team_id, "check_id": check.id}
    await session.execute(insert(Job).values(**values, sent_at=func.clock_timestamp()))
    return _out(check), job_id


async def _begin_anew(session: AsyncSession, check: ModelCheck, values: dict[str, Any]) -> bool:
    """Queues a check again that failed or was cancelled. False: it waits, runs or has a verdict. Raises Unavailable."""
    again = (CheckState.failed, CheckState.cancelled)
    if check.state not in again:
        return False
    empty = (
        "error", "finished_at", "generated", "distinct", "queued", "depth", "seconds",
        "events", "followed", "pieces", "pieces_followed", *_LONG,
    )  # fmt: skip
    await session.execute(delete(Job).where(Job.check_id == check.id, Job.state == State.failed))
    begun = await session.execute(
        update(ModelCheck)
        .where(ModelCheck.id == check.id, ModelCheck.state.in_(again))
        .values(state=CheckState.queued, **values, **dict.fromkeys(empty))
        .returning(ModelCheck.id)
    )
    found = begun.one_or_none() is not None
    try:
        await session.refresh(check)
    except InvalidRequestError as e:
        raise _deleted() from e
    return found


async def _refuse_too_many(session: AsyncSession, caller: Caller) -> None:
    query = _scoped(caller).where(ModelCheck.state.in_(WAITING)).with_only_columns(func.count())
    if (await session.execute(query)).scalar_one() > WAITING_MAX:
        raise TooMany(f"a team has at most {WAITING_MAX} checks that wait or run", headers={"Retry-After": "60"})


async def cancel(session: AsyncSession, caller: Caller, check_id: uuid.UUID) -> ModelCheckDetail:
    """Cancels a check that waits or runs; a check that has ended stays as it is. Raises NotFound.

    The check's job is deleted. A worker that runs it notices at its next report, and kills TLC.
    """
    await outline(session, caller, check_id)
    # Lock the job first, as a worker does.
    await session.execute(delete(Job).where(Job.check_id == check_id, Job.state.in_((State.queued, State.running))))
    await session.execute(
        update(ModelCheck)
        .where(ModelCheck.id == check_id, ModelCheck.team_id == caller.team_id, ModelCheck.state.in_(WAITING))
        .values(state=CheckState.cancelled, finished_at=func.clock_timestamp())
    )
    session.expire_all()
    return await get(session, caller, check_id)


async def remove(session: AsyncSession, caller: Caller, check_id: uuid.UUID) -> str:
    """Deletes a check; its worker, if it runs, notices that the job is lost. Returns its specification's name. Raises
    NotFound."""
    spec = (await outline(session, caller, check_id)).spec
    await session.execute(delete(Job).where(Job.check_id == check_id))
    await session.execute(delete(ModelCheck).where(ModelCheck.id == check_id, ModelCheck.team_id == caller.team_id))
    return spec
