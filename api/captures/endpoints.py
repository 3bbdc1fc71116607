from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from api import audit, connections, exports, wakeups
from api.bodies import Route
from api.captures import service
from api.captures.schemas import (
    CaptureChange,
    CaptureDetail,
    CaptureOut,
    CaptureReceived,
    CapturesChange,
    CapturesDeletion,
    CapturesFound,
    FairnessOut,
    FindingOut,
    SharingRow,
)
from api.connections.schemas import ConnectionOut
from api.errors import problem
from api.events import STREAM, Events, streamed
from api.filters import Filters, from_query, tags_of
from api.pages import Cursor, Limit, Page
from api.security import Reader, Session, Writer
from api.selections import PartOut
from api.uploads import Upload
from store.models import JobKind, State
from store.settings import settings

router = APIRouter(prefix="/v1/captures", tags=["captures"])
changing = APIRouter(prefix="/v1/captures", tags=["captures"], route_class=Route)
"""What takes JSON: an upload's body must not be read as a whole."""

Tags = Annotated[list[str], Query(description="key=value; may be given several times")]
Sort: TypeAlias = Annotated[
    Literal[service.SORTS],  # type: ignore[valid-type]
    Query(
        description="The column to sort by; - before it: descending. `first_ns` is the time of the first packet;"
        " `state` is in the order queued, running, done, failed, `verdict` (of the capture) good, limited, poor."
        " Captures without a value are last."
    ),
]
_COLUMNS = exports.columns_of(CaptureOut)
_FINDING_COLUMNS = exports.columns_of(FindingOut)
_SHARING_COLUMNS = exports.columns_of(SharingRow)
_CONNECTION_COLUMNS = exports.columns_of(ConnectionOut)


@router.post(
    "",
    status_code=202,
    response_model=CaptureReceived,
    responses={
        400: problem("A tag is not of the form key=value, or the multipart body is broken."),
        408: problem("No data arrived for a minute; the upload was discarded."),
        413: problem("The capture is larger than the server takes."),
        429: problem(
            "The team has too many jobs that wait or run, or stores too many bytes, or sends too many requests;"
            " Retry-After says when to try again."
        ),
        422: problem("The upload is empty, has no file or stopped halfway; a parameter is unknown."),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/vnd.tcpdump.pcap": {"schema": {"type": "string", "format": "binary"}},
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {"file": {"type": "string", "format": "binary"}},
                    }
                },
            },
        }
    },
)
async def upload(
    request: Request,
    response: Response,
    background: BackgroundTasks,
    session: Session,
    caller: Writer,
    filename: Annotated[str | None, Query(max_length=500, description="default: that of the multipart body")] = None,
    tag: Tags = [],  # noqa: B006  # FastAPI copies defaults
) -> CaptureReceived:
    """Uploads a capture, raw or as multipart. The same bytes twice are one capture."""
    received = Upload(request, settings().upload_bytes_max)
    stored = await service.receive(session, caller, received, request.app.state.redactor, filename, tags_of(tag))
    if stored.job_id:
        background.add_task(wakeups.wake, stored.job_id, JobKind.analyze)  # runs after the commit
    response.headers["Location"] = f"/v1/captures/{stored.capture_id}"
    response.headers["Retry-After"] = "1"
    return await service.told(session, caller, stored, received.size)


@router.get("")
async def find(
    session: Session,
    caller: Reader,
    wanted: Annotated[Filters, Depends(from_query)],
    cursor: Cursor = None,
    limit: Limit = 50,
    state: State | None = None,
    sort: Sort = service.NEWEST_FIRST,
) -> CapturesFound:
    """The team's captures. Filters of connections select those that have such a connection."""
    return await service.find(session, caller, wanted, state=state, sort=sort, cursor=cursor, limit=limit)


@router.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    wanted: Annotated[Filters, Depends(from_query)],
    state: State | None = None,
    sort: Sort = service.NEWEST_FIRST,
    limit: exports.Most = None,
) -> StreamingResponse:
    """The team's captures that the filters select, as a file."""
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("captures", _COLUMNS, request.url.query),
        wanted,
        lambda s, cursor, size: service.find_page(s, caller, wanted, state=state, sort=sort, cursor=cursor, limit=size),
        limit,
    )


@router.get("/{capture_id}")
async def get(session: Session, caller: Reader, capture_id: uuid.UUID) -> CaptureDetail:
    """State and progress; when it is done, what was found in the whole capture."""
    capture = await service.get(session, caller, capture_id)
    await audit.note_seen(session, caller, capture_id, capture.filename)
    return capture


@changing.patch("/{capture_id}", responses={409: problem("The notes are others than `notes_before`.")})
async def change(session: Session, caller: Writer, capture_id: uuid.UUID, wanted: CaptureChange) -> CaptureDetail:
    """Changes tags and notes."""
    await service.change(session, caller, capture_id, wanted)
    capture = await service.get(session, caller, capture_id)
    of_tags = wanted.model_dump(exclude_none=True, include={"add_tags", "remove_tags"})
    fields = sorted(wanted.model_fields_set - {"notes_before"})
    await audit.note(session, caller, "change", capture_id, capture.filename, fields=fields, **of_tags)
    return capture


_SELECTED: dict[int | str, dict[str, Any]] = {422: problem("Nothing is selected, or a filter or tag is wrong.")}


@changing.post("/changes", responses=_SELECTED)
async def change_selected(session: Session, caller: Writer, wanted: CapturesChange) -> PartOut:
    """Adds tags to all captures that are selected, and removes some: at most 500 captures in one request, which says
    where the next one goes on. What was uploaded after the first one is not changed."""
    return await service.change_tags(session, caller, wanted)


@changing.post("/deletions", responses=_SELECTED)
async def delete_selected(session: Session, caller: Writer, wanted: CapturesDeletion) -> PartOut:
    """Deletes all captures that are selected, with everything that was derived from them: at most 100 in one request,
    which says where the next one goes on. What was uploaded after the first one is not deleted."""
    return await service.remove_selected(session, caller, wanted)


@router.delete("/{capture_id}", status_code=204)
async def delete(session: Session, caller: Writer, capture_id: uuid.UUID) -> None:
    """Deletes a capture and everything that was derived from it. A job that runs for it ends without a result."""
    await service.remove(session, caller, capture_id)


@router.post(
    "/{capture_id}/retry",
    status_code=202,
    responses={
        409: problem("The capture is analysed: there is nothing to retry; or retention has deleted its stored copy."),
        429: problem("The team sends too many requests, or has too many jobs that wait or run."),
    },
)
async def retry(
    session: Session, caller: Writer, capture_id: uuid.UUID, response: Response, background: BackgroundTasks
) -> CaptureDetail:
    """Begins the analysis of a capture that failed anew, with all its attempts. One that waits or runs goes on."""
    job_id = await service.retry(session, caller, capture_id)
    if job_id:
        background.add_task(wakeups.wake, job_id, JobKind.analyze)  # runs after the commit
    response.headers["Retry-After"] = "1"
    capture = await service.get(session, caller, capture_id)
    await audit.note(session, caller, "retry", capture_id, capture.filename)
    return capture


@router.get(
    "/{capture_id}/file",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"application/vnd.tcpdump.pcap": {"schema": {"type": "string", "format": "binary"}}},
            "description": "The capture as it is stored; its name says what it contains.",
            "headers": {
                "Rewindow-Payload": {"description": "kept or cut", "schema": {"type": "string"}},
                "Rewindow-Addresses": {"description": "kept or replaced", "schema": {"type": "string"}},
            },
        },
        403: problem("The token lacks the scope that this needs, or the team forbids downloads."),
        410: problem("Retention has deleted the stored copy; the capture's metrics stay."),
    },
)
async def download(session: Session, caller: Reader, capture_id: uuid.UUID) -> StreamingResponse:
    """The capture as it is stored: the file that was uploaded, or what the team keeps of it."""
    stored = await service.file_of(session, caller, capture_id)
    await audit.note(session, caller, "export", capture_id, stored.capture, what="file")
    return StreamingResponse(stored.chunks, media_type="application/vnd.tcpdump.pcap", headers=stored.headers)


@router.get("/{capture_id}/connections")
async def capture_connections(
    session: Session, caller: Reader, capture_id: uuid.UUID, cursor: Cursor = None, limit: Limit = 50
) -> Page[ConnectionOut]:
    """In the order of their first packet."""
    await service.own(session, caller, capture_id)
    return await connections.service.find(session, caller, capture_id, cursor, limit)


@router.get("/{capture_id}/connections.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_connections(
    session: Session, caller: Reader, capture_id: uuid.UUID, suffix: exports.Suffix, limit: exports.Most = None
) -> StreamingResponse:
    """The capture's connections, in the order of their first packet, as a file."""
    await service.own(session, caller, capture_id)
    of_capture = Filters(capture_id=capture_id)
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("capture-connections", _CONNECTION_COLUMNS, f"capture_id={capture_id}"),
        of_capture,
        lambda s, cursor, size: connections.service.find(s, caller, capture_id, cursor, size),
        limit,
    )


@router.get("/{capture_id}/findings.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_findings(
    session: Session, caller: Reader, capture_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """What is wrong with the capture as a file, as its `summary.quality.findings` has it."""
    capture = await service.own(session, caller, capture_id)
    quality = capture.summary.quality if capture.summary else None
    rows = quality.findings if quality else []
    table = exports.Table("findings", _FINDING_COLUMNS, f"capture_id={capture_id}")
    return await exports.export(session, caller, suffix, table, Filters(capture_id=capture_id), exports.given(rows))


@router.get("/{capture_id}/fairness")
async def fairness(
    session: Session, caller: Reader, capture_id: uuid.UUID, cursor: Cursor = None, limit: Limit = 50
) -> Page[FairnessOut]:
    """Groups of connections that share a bottleneck, as declared or ordered by its name, #2 before #10."""
    return await service.groups(session, caller, capture_id, cursor, limit)


@router.get("/{capture_id}/fairness.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_fairness(
    session: Session, caller: Reader, capture_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """Who shared a bottleneck with whom, as a file: a row for each member of each group, and all of them."""
    more = await service.sharing(session, caller, capture_id)
    table = exports.Table("fairness", _SHARING_COLUMNS, f"capture_id={capture_id}")
    return await exports.export(session, caller, suffix, table, Filters(capture_id=capture_id), more)


@router.get("/{capture_id}/events", response_class=StreamingResponse, responses=STREAM)
async def events(session: Session, caller: Reader, poller: Events, capture_id: uuid.UUID) -> StreamingResponse:
    """Server-sent events: one for each change of the progress, until the capture is done or failed."""
    first = await service.progress_of_own(session, caller, capture_id)
    return streamed(poller, service.progress, capture_id, first, caller)
