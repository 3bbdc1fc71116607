from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Body, Response
from fastapi.openapi.models import Example
from fastapi.responses import StreamingResponse
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, exports, wakeups
from api.bodies import Route
from api.connections import service as connections
from api.errors import problem
from api.events import STREAM, Events, streamed
from api.filters import Filters
from api.pages import Cursor, Limit, Page
from api.security import Reader, Session, Writer
from api.whatifs import service
from api.whatifs.schemas import PredictedRow, WhatIfIn, WhatIfOut, predicted_rows
from store.models import JobKind

router = APIRouter(prefix="/v1", tags=["what-ifs"], route_class=Route)

_REFUSALS: dict[int | str, dict[str, Any]] = {
    409: problem("Retention has deleted the stored copy of the capture, to which the path would be fitted."),
    422: problem("An unknown algorithm, option or setting, or a value out of its range."),
    429: problem("The team sends too many requests, or has too many jobs that wait or run."),
}
_EXAMPLES: dict[str, Example] = {
    "algorithm": {
        "summary": "another algorithm",
        "value": {"algorithm": "tccc", "options": {"aca_md": "half"}},
    },
    "network": {
        "summary": "another algorithm for everyone, on a faster second path",
        "value": {"algorithm": "olia", "everyone": True, "settings": {"path2.rate": "20M", "path2.rtt": "20ms"}},
    },
}


@router.post("/connections/{connection_id}/whatifs", status_code=202, responses=_REFUSALS)
async def post(
    session: Session,
    caller: Writer,
    background: BackgroundTasks,
    response: Response,
    connection_id: uuid.UUID,
    wanted: Annotated[WhatIfIn, Body(openapi_examples=_EXAMPLES)],
) -> WhatIfOut:
    """Predicts what would have come of the connection under an algorithm: its path is fitted to the capture, and it is
    simulated there again.

    The same request twice is one what-if; one that failed begins anew. `result` is what `rewindow whatif --json` prints
    of the connection; the verdict `cannot_say` is a result, too.
    """
    whatif, job_id = await service.request(session, caller, connection_id, wanted)
    await audit.note(session, caller, "predict", connection_id, whatif.label)
    if job_id:
        background.add_task(wakeups.wake, job_id, JobKind.whatif)
    response.headers["Location"] = f"/v1/whatifs/{whatif.id}"
    response.headers["Retry-After"] = "1"
    return whatif


@router.get("/connections/{connection_id}/whatifs")
async def find(
    session: Session, caller: Reader, connection_id: uuid.UUID, cursor: Cursor = None, limit: Limit = 50
) -> Page[WhatIfOut]:
    """The connection's what-ifs, newest first."""
    return await service.find(session, caller, connection_id, cursor, limit)


_COLUMNS = exports.columns_of(PredictedRow)
_AT_ONCE = 50
"""What-ifs, of which each has some rows."""


@router.get(
    "/connections/{connection_id}/whatifs.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse
)
async def export(
    session: Session, caller: Reader, connection_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """The connection's what-ifs as a file, newest first: a row for each metric of each simulated connection."""
    found = await connections.load(session, caller, connection_id)

    async def more(session: AsyncSession, cursor: str | None, size: int) -> Page[PredictedRow]:
        page = await service.find(session, caller, connection_id, cursor, min(size, _AT_ONCE))
        rows = [row for whatif in page.items for row in predicted_rows(whatif)]
        return Page(items=rows, next_cursor=page.next_cursor)

    table = exports.Table("whatifs", _COLUMNS, f"connection_id={connection_id}")
    return await exports.export(session, caller, suffix, table, Filters(capture_id=found.capture.id), more)


@router.get("/whatifs/{whatif_id}")
async def get(session: Session, caller: Reader, whatif_id: uuid.UUID) -> WhatIfOut:
    """State and progress; when it is done, the prediction or why there is none."""
    return await service.get(session, caller, whatif_id)


@router.delete("/whatifs/{whatif_id}", status_code=204)
async def delete(session: Session, caller: Writer, whatif_id: uuid.UUID) -> None:
    """Deletes a what-if and its result. One that waits or runs is cancelled by that."""
    label = await service.remove(session, caller, whatif_id)
    await audit.note(session, caller, "delete", whatif_id, label)


@router.get("/whatifs/{whatif_id}/events", response_class=StreamingResponse, responses=STREAM)
async def events(session: Session, caller: Reader, poller: Events, whatif_id: uuid.UUID) -> StreamingResponse:
    """Server-sent events: one for each change of the progress, until the what-if is done or failed."""
    first = await service.progress_of_own(session, caller, whatif_id)
    return streamed(poller, service.progress, whatif_id, first, caller)
