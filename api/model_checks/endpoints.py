from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, BackgroundTasks, Body, Path, Query, Request, Response
from fastapi.openapi.models import Example
from fastapi.responses import StreamingResponse

from api import audit, exports, wakeups
from api.bodies import Route
from api.errors import problem
from api.events import STREAM, Events, streamed
from api.model_checks import service, tables
from api.model_checks.schemas import ModelCheckDetail, ModelCheckIn, ModelCheckOut
from api.pages import Cursor, Limit, Page
from api.schemas import Schema
from api.security import Reader, Session, Writer
from store.models import CheckState, JobKind

router = APIRouter(prefix="/v1/model-checks", tags=["model checks"], route_class=Route)

_REFUSALS: dict[int | str, dict[str, Any]] = {
    404: problem("The team has no such connection."),
    422: problem("Not exactly one of spec and connection; an unknown one; a constant outside its range."),
    409: problem("Retention has deleted the stored copy of the connection's capture, whose steps would be followed."),
    429: problem("The team has too many checks or jobs that wait or run, or sends too many requests; see Retry-After."),
}
OfSpec = Annotated[str | None, Query(max_length=80, pattern=r"^\w+$")]
OfConnection = Annotated[uuid.UUID | None, Query(description="only those of this connection's steps")]
_EXAMPLES: dict[str, Example] = {
    "specification": {
        "summary": "a specification with constants",
        "value": {"spec": "CoupledSlowStart", "constants": {"ConSsthresh": 16}},
    },
    "connection": {
        "summary": "do the steps of TCCC on a connection conform to its specification?",
        "value": {"connection": "6b1f1f0e-0c5e-5f6e-9a51-0d4c5d1f7c11", "algorithm": "tccc"},
    },
}


@router.post("", status_code=202, summary="Check a specification, or a connection's steps", responses=_REFUSALS)
async def post(
    session: Session,
    caller: Writer,
    background: BackgroundTasks,
    response: Response,
    wanted: Annotated[ModelCheckIn, Body(openapi_examples=_EXAMPLES)],
) -> ModelCheckOut:
    """Lets TLC check a specification with these constants, or follow a controller's steps on a connection.

    With `spec`, TLC decides whether each property of a configuration holds with these constants. With `connection`, TLC
    decides whether the specification allows every step that the controller took on the recorded ACKs, losses and marks;
    the verdict is then `conforms` or `does_not_conform`, with `first_violation`.

    The same request twice is one check, and its result is kept. The key of a connection's check is the capture's bytes,
    the connection's number, the algorithm and the specification's text. A check that failed or was cancelled begins
    anew.
    """
    check, job_id = await service.request(session, caller, wanted)
    await audit.note(session, caller, "check", check.id, check.spec)
    if job_id:
        background.add_task(wakeups.wake, job_id, JobKind.check)
    response.headers["Location"] = f"/v1/model-checks/{check.id}"
    response.headers["Retry-After"] = "1"
    return check


@router.get("")
async def find(
    session: Session,
    caller: Reader,
    cursor: Cursor = None,
    limit: Limit = 50,
    spec: OfSpec = None,
    state: CheckState | None = None,
    connection: OfConnection = None,
) -> Page[ModelCheckOut]:
    """The team's model checks, newest first."""
    return await service.find(
        session, caller, cursor=cursor, limit=limit, spec=spec, state=state, connection=connection
    )


_COLUMNS = exports.columns_of(ModelCheckOut)


@router.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    spec: OfSpec = None,
    state: CheckState | None = None,
    connection: OfConnection = None,
    limit: exports.Most = None,
) -> StreamingResponse:
    """The team's model checks as a file, newest first."""
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("model-checks", _COLUMNS, request.url.query),
        None,
        lambda s, cursor, size: service.find(
            s, caller, cursor=cursor, limit=size, spec=spec, state=state, connection=connection
        ),
        limit,
    )


@router.get("/{check_id}")
async def get(session: Session, caller: Reader, check_id: uuid.UUID) -> ModelCheckDetail:
    """Verdict and counts; coverage and the counterexample as states, or a connection's first violation."""
    return await service.get(session, caller, check_id)


_TABLES: dict[str, Callable[[ModelCheckDetail], tuple[Sequence[exports.Column], Sequence[Schema]]]] = {
    "actions": tables.actions,
    "counterexample": tables.counterexample,
    "violation": tables.violation,
}
OfCheck = Annotated[
    Literal["actions", "counterexample", "violation"],
    Path(
        description="actions: how often TLC took each; counterexample: its states, with a column for each variable;"
        " violation: the variables before the first step that does not conform, allowed after it and found after it"
    ),
]


@router.get("/{check_id}/{table}.{suffix}", responses={200: exports.FILE}, response_class=StreamingResponse)
async def export_table(
    session: Session, caller: Reader, check_id: uuid.UUID, table: OfCheck, suffix: exports.Suffix
) -> StreamingResponse:
    """What a check has found as a file. One that has no such table is answered with 404."""
    columns, rows = _TABLES[table](await service.get(session, caller, check_id))
    wanted = exports.Table(table, columns, f"check_id={check_id}")
    return await exports.export(session, caller, suffix, wanted, None, exports.given(rows))


@router.post("/{check_id}/cancel")
async def cancel(session: Session, caller: Writer, check_id: uuid.UUID) -> ModelCheckDetail:
    """Cancels a check that waits or runs, and kills its TLC. A check that has ended stays as it is."""
    return await service.cancel(session, caller, check_id)


@router.delete("/{check_id}", status_code=204)
async def delete(session: Session, caller: Writer, check_id: uuid.UUID) -> None:
    """Deletes a check and its result; a check that runs is ended first."""
    spec = await service.remove(session, caller, check_id)
    await audit.note(session, caller, "delete", check_id, spec)


@router.get("/{check_id}/events", response_class=StreamingResponse, responses=STREAM)
async def events(session: Session, caller: Reader, poller: Events, check_id: uuid.UUID) -> StreamingResponse:
    """Server-sent events, until the check ends: states found and explored, and depth; or events and pieces followed."""
    first = await service.progress_of_own(session, caller, check_id)
    return streamed(poller, service.progress, check_id, first, caller)
