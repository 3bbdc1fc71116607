from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.ext.asyncio import AsyncSession

from api import wakeups
from api.events import changes
from api.model_checks import service
from api.model_checks.schemas import ModelCheckDetail, ModelCheckIn, ModelCheckOut
from api.pages import Cursor, Limit, Page
from api.security import Reader, Session, Writer
from store.models import CheckState, JobKind

router = APIRouter(prefix="/v1/model-checks", tags=["model checks"])

_SHOWN = {"state", "verdict", "error", "generated", "distinct", "queued", "depth", "seconds"}


@router.post("", status_code=202)
async def post(
    session: Session, caller: Writer, background: BackgroundTasks, response: Response, wanted: ModelCheckIn
) -> ModelCheckOut:
    """Has TLC check a specification with these constants; the same request twice is one check."""
    check, job_id = await service.request(session, caller, wanted)
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
    spec: Annotated[str | None, Query(max_length=80, pattern=r"^\w+$")] = None,
    state: CheckState | None = None,
) -> Page[ModelCheckOut]:
    """The team's model checks, newest first."""
    return await service.find(session, caller, cursor=cursor, limit=limit, spec=spec, state=state)


@router.get("/{check_id}")
async def get(session: Session, caller: Reader, check_id: uuid.UUID) -> ModelCheckDetail:
    """Verdict, counts, coverage of each action, and the counterexample as states."""
    return await service.get(session, caller, check_id)


@router.post("/{check_id}/cancel")
async def cancel(session: Session, caller: Writer, check_id: uuid.UUID) -> ModelCheckDetail:
    """Ends a check that waits or runs: TLC is killed. One that has ended stays as it is."""
    return await service.cancel(session, caller, check_id)


@router.delete("/{check_id}", status_code=204)
async def delete(session: Session, caller: Writer, check_id: uuid.UUID) -> None:
    """Deletes a check and its result; one that runs is ended."""
    await service.remove(session, caller, check_id)


@router.get("/{check_id}/events", response_class=StreamingResponse)
async def events(session: Session, caller: Reader, check_id: uuid.UUID) -> StreamingResponse:
    """Server-sent progress: states found, explored, and the depth, until the check ends."""
    await service.outline(session, caller, check_id)

    async def current(session: AsyncSession) -> tuple[dict[str, object], bool]:
        check = await service.outline(session, caller, check_id)
        return check.model_dump(mode="json", include=_SHOWN), check.state not in service.WAITING

    return StreamingResponse(changes(current), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
