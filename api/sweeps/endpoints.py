from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Body, Query, Request, Response
from fastapi.openapi.models import Example
from fastapi.responses import StreamingResponse

from api import audit, exports, wakeups
from api.bodies import Route
from api.errors import problem
from api.events import STREAM, Events, streamed
from api.pages import Cursor, Limit, Page
from api.security import Reader, Session, Writer
from api.sweeps import service
from api.sweeps.schemas import AnswerRow, SweepDetail, SweepIn, SweepOut, SweptOut
from store.models import JobKind

router = APIRouter(prefix="/v1", tags=["what-ifs"], route_class=Route)

Label = Annotated[str | None, Query(max_length=1000, description="Only what-ifs of the algorithm with this label.")]

_REFUSALS: dict[int | str, dict[str, Any]] = {
    422: problem("An unknown algorithm, option, filter or setting, nothing selected, or too many what-ifs."),
    429: problem("The team sends too many requests, or has too many jobs that wait or run."),
}
_EXAMPLES: dict[str, Example] = {
    "tag": {
        "summary": "had everyone used tccc at one site",
        "value": {"selection": {"tag": ["site=berlin"]}, "algorithms": ["tccc"], "everyone": True},
    },
    "several": {
        "summary": "two algorithms, each on the network as it was and with a faster first path",
        "value": {
            "selection": {"kind": "mptcp", "sender_algorithm": ["cubic"]},
            "algorithms": ["olia", {"algorithm": "tccc", "options": {"aca_md": "half"}}],
            "settings": [{}, {"path1.rate": "50M"}],
        },
    },
}


@router.post("/whatifs", status_code=202, responses=_REFUSALS)
async def post(
    session: Session,
    caller: Writer,
    background: BackgroundTasks,
    response: Response,
    wanted: Annotated[SweepIn, Body(openapi_examples=_EXAMPLES)],
) -> SweepOut:
    """A sweep: asks for a what-if of each algorithm and settings, of each connection that is selected.

    The same request twice is one sweep: the second one adds connections that are new in the selection, and begins anew
    what has failed. What-ifs that are there already are not made again. All of it is asked for, or nothing.
    """
    sweep, jobs = await service.request(session, caller, wanted)
    await audit.note(session, caller, "predict", sweep.id, "a sweep")
    if jobs:
        background.add_task(wakeups.wake_all, jobs, JobKind.whatif)
    response.headers["Location"] = f"/v1/sweeps/{sweep.id}"
    response.headers["Retry-After"] = "1"
    return sweep


@router.get("/sweeps")
async def find(session: Session, caller: Reader, cursor: Cursor = None, limit: Limit = 50) -> Page[SweepOut]:
    """The team's sweeps, newest first."""
    return await service.find(session, caller, cursor, limit)


@router.get("/sweeps/{sweep_id}")
async def get(session: Session, caller: Reader, sweep_id: uuid.UUID) -> SweepDetail:
    """Progress, and what would have been over all connections whose what-ifs are done."""
    return await service.detail(session, caller, sweep_id)


@router.get("/sweeps/{sweep_id}/whatifs")
async def members(
    session: Session,
    caller: Reader,
    sweep_id: uuid.UUID,
    label: Label = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[SweptOut]:
    """The sweep's what-ifs, one for each connection, algorithm and settings."""
    return await service.members(session, caller, sweep_id, label, cursor, limit)


_COLUMNS = exports.columns_of(SweepOut)
_ANSWER_COLUMNS = [replace(c, name=c.name.removeprefix("of_")) for c in exports.columns_of(AnswerRow)]
_MEMBER_COLUMNS = exports.columns_of(SweptOut)


@router.get("/sweeps.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request, session: Session, caller: Reader, suffix: exports.Suffix, limit: exports.Most = None
) -> StreamingResponse:
    """The team's sweeps as a file, newest first."""
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("sweeps", _COLUMNS, request.url.query),
        None,
        lambda s, cursor, size: service.find(s, caller, cursor, size),
        limit,
    )


@router.get("/sweeps/{sweep_id}/answers.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_answers(
    session: Session, caller: Reader, sweep_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """What would have been over all connections of the sweep, as a file: a row for each measure of an algorithm with
    settings."""
    sweep = await service.detail(session, caller, sweep_id)
    rows = [
        AnswerRow(**answer.model_dump(exclude={"measures"}), measure=name, of=measure)
        for answer in sweep.answers
        for name, measure in (answer.measures.items() or [(None, None)])
    ]
    table = exports.Table("answers", _ANSWER_COLUMNS, f"sweep_id={sweep_id}")
    captures = service.has_capture(sweep_id)
    return await exports.export(session, caller, suffix, table, captures, exports.given(rows))


@router.get("/sweeps/{sweep_id}/whatifs.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_members(
    request: Request,
    session: Session,
    caller: Reader,
    sweep_id: uuid.UUID,
    suffix: exports.Suffix,
    label: Label = None,
    limit: exports.Most = None,
) -> StreamingResponse:
    """The sweep's what-ifs as a file, one for each connection, algorithm and settings."""
    of_sweep = "&".join(filter(None, (f"sweep_id={sweep_id}", request.url.query)))
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("whatifs", _MEMBER_COLUMNS, of_sweep),
        service.has_capture(sweep_id),
        lambda s, cursor, size: service.members(s, caller, sweep_id, label, cursor, size),
        limit,
    )


@router.delete("/sweeps/{sweep_id}", status_code=204)
async def delete(session: Session, caller: Writer, sweep_id: uuid.UUID) -> None:
    """Cancels what waits or runs, unless another sweep asked for it, too, and deletes the sweep.

    What-ifs that are done stay with their connections.
    """
    await service.remove(session, caller, sweep_id)
    await audit.note(session, caller, "delete", sweep_id, "a sweep")


@router.get("/sweeps/{sweep_id}/events", response_class=StreamingResponse, responses=STREAM)
async def events(session: Session, caller: Reader, poller: Events, sweep_id: uuid.UUID) -> StreamingResponse:
    """Server-sent events: one for each change of the progress, until no what-if of the sweep waits or runs."""
    first = await service.progress_of_own(session, caller, sweep_id)
    return streamed(poller, service.progress, sweep_id, first, caller)
