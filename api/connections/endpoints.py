from __future__ import annotations

import re
import uuid
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.concurrency import run_in_threadpool

from api import audit, exports, wakeups
from api.bodies import Route
from api.connections import acks, notes, replays, search, sequence, series, service
from api.connections.schemas import (
    AcksOut,
    ConnectionDetail,
    ConnectionFound,
    ConnectionsFound,
    NoteChange,
    NoteIn,
    NoteOut,
    ReplayIn,
    ReplayOut,
    ReplaysIn,
    SegmentsOut,
    SequenceOut,
    SeriesOut,
    SubflowRow,
)
from api.errors import NotFound, problem
from api.filters import Filters, from_query
from api.pages import Limit, Page
from api.security import Reader, Session, Writer, transaction
from api.selections import ReplaysOut
from store.models import JobKind

router = APIRouter(prefix="/v1/connections", tags=["connections"], route_class=Route)
several = APIRouter(prefix="/v1/replays", tags=["connections"], route_class=Route)
subflows = APIRouter(prefix="/v1/subflows", tags=["connections"], route_class=Route)

ARROW = "application/vnd.apache.arrow.stream"
BINARY = {"type": "string", "format": "binary"}
_DELETED = problem("Retention has deleted the series; a replay of the connection makes its own anew.")
_REFUSED = problem("Retention has deleted the stored copy of the capture, which this would be read from.")
_GONE = "the series of this connection are missing in the object store"


def _check_sort(given: str) -> str:
    """Says what there is, in one sentence; two alternatives that refuse would say it in two."""
    if given not in search.SORTS and not re.search(search.TAG_PATTERN, given):
        known = ", ".join(name for name in search.SORTS if not name.startswith("-"))
        told = "connections are sorted by {known} or tag:KEY; by the largest first with - before it"
        raise PydanticCustomError("sort", told, {"known": known})
    return given


Sort: TypeAlias = Annotated[  # type: ignore[valid-type]
    Literal[tuple(search.SORTS)] | Annotated[str, Field(pattern=search.TAG_PATTERN)],
    BeforeValidator(_check_sort),
    Query(
        description="The column to sort by; - before it: descending. `marks` is the number of findings, `tag:KEY` the"
        " value of a tag. Missing values are last."
    ),
]
_COLUMNS = exports.columns_of(ConnectionFound)
_SUBFLOW_COLUMNS = exports.columns_of(SubflowRow)


@router.get("")
async def find(
    session: Session,
    caller: Reader,
    wanted: Annotated[Filters, Depends(from_query)],
    sort: Sort = "-first_ns",
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
    limit: Limit = 50,
) -> ConnectionsFound:
    """All connections of the team that the filters select."""
    return await search.find(session, caller, wanted, search.Order.parse(sort), cursor, limit)


@router.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    wanted: Annotated[Filters, Depends(from_query)],
    sort: Sort = "-first_ns",
    limit: exports.Most = None,
) -> StreamingResponse:
    """All connections of the team that the filters select, as a file."""
    order = search.Order.parse(sort)
    return await exports.export(
        session,
        caller,
        suffix,
        exports.Table("connections", _COLUMNS, request.url.query),
        wanted,
        lambda s, cursor, size: search.find_page(s, caller, wanted, order, cursor, size),
        limit,
    )


@subflows.get(".{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_subflows(
    request: Request,
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    wanted: Annotated[Filters, Depends(from_query)],
    sort: Sort = "-first_ns",
    limit: exports.Most = None,
) -> StreamingResponse:
    """The subflows of all connections that the filters select, as a file; `sort` orders the connections."""
    order = search.Order.parse(sort)

    async def more(session: AsyncSession, cursor: str | None, size: int) -> Page[SubflowRow]:
        page = await search.find_page(session, caller, wanted, order, cursor, size)
        items = await service.subflows(session, caller, [c.id for c in page.items])
        return Page(items=items, next_cursor=page.next_cursor)

    table = exports.Table("subflows", _SUBFLOW_COLUMNS, request.url.query)
    return await exports.export(session, caller, suffix, table, wanted, more, limit)


@router.get("/{connection_id}/subflows.{suffix}", responses=exports.RESPONSES, response_class=StreamingResponse)
async def export_own_subflows(
    session: Session, caller: Reader, connection_id: uuid.UUID, suffix: exports.Suffix
) -> StreamingResponse:
    """The connection's subflows as a file."""
    found = await service.load(session, caller, connection_id)
    rows = await service.subflows(session, caller, [connection_id])
    table = exports.Table("subflows", _SUBFLOW_COLUMNS, f"connection_id={connection_id}")
    of_capture = Filters(capture_id=found.capture.id)
    return await exports.export(session, caller, suffix, table, of_capture, exports.given(rows))


@router.get("/{connection_id}")
async def get(session: Session, caller: Reader, connection_id: uuid.UUID) -> ConnectionDetail:
    """Subflows, metrics and replays."""
    connection = await service.get(session, caller, connection_id)
    await audit.note_seen(session, caller, connection_id, f"connection {connection.number}")
    return connection


@router.get(
    "/{connection_id}/series",
    responses={200: {"model": SeriesOut, "content": {ARROW: {"schema": BINARY}}}, 410: _DELETED},
    response_class=JSONResponse,
)
async def get_series(
    request: Request,
    caller: Reader,
    connection_id: uuid.UUID,
    algorithms: Annotated[str | None, Query(max_length=2000, description="labels of replays, split by ;")] = None,
    from_: Annotated[int | None, Query(alias="from", ge=-(2**62), le=2**62, description="ns since 1970")] = None,
    to: Annotated[int | None, Query(ge=-(2**62), le=2**62, description="ns since 1970")] = None,
    width: Annotated[int, Query(ge=16, le=10000, description="pixels")] = 1000,
    recorded: Annotated[
        list[Literal[series.RECORDED]],  # type: ignore[valid-type]
        Query(description="What the sender had: data in flight, the receiver's window, RTT samples. Only in JSON."),
    ] = [],  # noqa: B006
) -> Response:
    """Windows over time, reduced to what `width` pixels can show; beside them marks: losses, timeouts, ECN echoes."""
    labels = None if algorithms is None else _labels(algorithms)
    async with transaction() as session:  # it ends before Parquet is read, which may take long
        sources = await service.series_sources(session, caller, connection_id, labels)
    if sources.acks_key is None:
        found = series.Series(sources.connection.first_ns, sources.connection.last_ns, [], [], [], False)
    else:
        try:
            found = await run_in_threadpool(
                series.read,
                sources.acks_key,
                sources.capture.marks_key,
                sources.connection.number,
                sources.replays,
                from_ns=from_,
                to_ns=to,
                width=width,
                recorded=list(dict.fromkeys(recorded)),
            )
        except FileNotFoundError as e:
            raise NotFound(_GONE) from e
    if ARROW in request.headers.get("accept", ""):
        return Response(await run_in_threadpool(series.as_arrow, found), media_type=ARROW)
    return Response(await run_in_threadpool(series.as_json, found), media_type="application/json")


@router.get(
    "/{connection_id}/sequence",
    responses={200: {"model": SequenceOut}, 410: _DELETED},
    response_class=JSONResponse,
)
async def get_sequence(
    caller: Reader,
    connection_id: uuid.UUID,
    subflow: Annotated[int, Query(ge=0, le=2**31 - 1, description="Its number within the connection.")] = 0,
    algorithms: Annotated[str | None, Query(max_length=2000, description="labels of replays, split by ;")] = None,
    from_: Annotated[int | None, Query(alias="from", ge=-(2**62), le=2**62, description="ns since 1970")] = None,
    to: Annotated[int | None, Query(ge=-(2**62), le=2**62, description="ns since 1970")] = None,
    width: Annotated[int, Query(ge=16, le=10000, description="pixels")] = 1000,
) -> Response:
    """The time-sequence graph of a subflow: what was acknowledged and allowed over time, as far as it was sent, and,
    where they were asked for, segments and SACK blocks. Reduced to what `width` pixels can show."""
    labels = None if algorithms is None else _labels(algorithms)
    async with transaction() as session:  # it ends before Parquet is read, which may take long
        sources = await service.series_sources(session, caller, connection_id, labels)
        if subflow >= sources.connection.subflow_count:
            raise NotFound(f"the connection has no subflow {subflow}")
        asked = await sequence.asked_for(session, connection_id)
        state = None if asked is None else SegmentsOut.model_validate(asked)
        key = None if asked is None else asked.object_key
    if sources.acks_key is None:
        found = sequence.Sequence(sources.connection.first_ns, sources.connection.last_ns, [], False, [])
    else:
        try:
            found = await run_in_threadpool(
                sequence.read,
                sources.acks_key,
                key,
                sources.connection.number,
                subflow,
                sources.replays,
                from_ns=from_,
                to_ns=to,
                width=width,
            )
        except FileNotFoundError as e:
            raise NotFound(_GONE) from e
    body = await run_in_threadpool(sequence.as_json, subflow, state, found)
    return Response(body, media_type="application/json")


Label = Annotated[str | None, Query(alias="algorithms", max_length=2000, description="labels of replays, split by ;")]
OfSubflow = Annotated[
    int | None, Query(alias="subflow", ge=0, le=2**31 - 1, description="Only its rows; without it, all.")
]
FromNs = Annotated[int | None, Query(alias="from", ge=-(2**62), le=2**62, description="ns since 1970")]
ToNs = Annotated[int | None, Query(alias="to", ge=-(2**62), le=2**62, description="ns since 1970")]


@router.get("/{connection_id}/acks", responses={200: {"model": AcksOut}, 410: _DELETED}, response_class=JSONResponse)
async def get_ack_rows(
    caller: Reader,
    connection_id: uuid.UUID,
    algorithms: Label = None,
    subflow: OfSubflow = None,
    from_ns: FromNs = None,
    to_ns: ToNs = None,
    cursor: Annotated[int | None, Query(ge=0, le=2**62, description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="The most rows.")] = 50,
) -> Response:
    """The ACKs of a period as they are, with all columns of the event and of the replays that are named."""
    async with transaction() as session:
        labels = None if algorithms is None else _labels(algorithms)
        sources = await service.series_sources(session, caller, connection_id, labels)
    wanted = acks.Wanted(from_ns, to_ns, subflow)

    def read(key: str) -> bytes:
        table = acks.Table(key, sources.connection.number, sources.replays)
        return acks.as_json(table.columns, *table.page(wanted, cursor or 0, limit))

    if sources.acks_key is None:
        return JSONResponse({"columns": [], "rows": [], "next_cursor": None})
    try:
        return Response(await run_in_threadpool(read, sources.acks_key), media_type="application/json")
    except FileNotFoundError as e:
        raise NotFound(_GONE) from e


@router.get(
    "/{connection_id}/acks.{suffix}",
    responses={200: exports.FILE, 410: _DELETED},
    response_class=StreamingResponse,
)
async def get_acks_file(
    request: Request,
    caller: Reader,
    connection_id: uuid.UUID,
    suffix: exports.Suffix,
    algorithms: Label = None,
    subflow: OfSubflow = None,
    from_ns: FromNs = None,
    to_ns: ToNs = None,
) -> StreamingResponse:
    """The same rows as a file, all of them; without parameters, every ACK with the windows of each finished replay. An
    infinite threshold is one that is not set; JSON has null for it."""
    async with transaction() as session:
        labels = None if algorithms is None else _labels(algorithms)
        sources = await service.series_sources(session, caller, connection_id, labels)
    if sources.acks_key is None:
        raise NotFound("this connection has no series")
    async with transaction() as session:
        name = f"connection {sources.connection.number} of {sources.capture.filename}"
        await audit.note(session, caller, "export", connection_id, name, what=f"acks.{suffix}")
    try:
        table = await run_in_threadpool(acks.Table, sources.acks_key, sources.connection.number, sources.replays)
    except FileNotFoundError as e:
        raise NotFound(_GONE) from e
    about = exports.about("acks", request.url.query, None) | {"connection_id": str(connection_id)}
    file = f"connection-{sources.connection.number}-acks.{suffix}"
    return StreamingResponse(
        table.file(suffix, acks.Wanted(from_ns, to_ns, subflow), about),
        media_type=exports.MEDIA_TYPES[suffix],
        headers={"Content-Disposition": f'attachment; filename="{file}"'},
    )


@router.get("/{connection_id}/notes")
async def get_notes(session: Session, caller: Reader, connection_id: uuid.UUID) -> list[NoteOut]:
    """Notes that members have pinned to a time of the connection, in the order of these times."""
    return [NoteOut.model_validate(n) for n in await notes.of_connection(session, caller, connection_id)]


@router.post("/{connection_id}/notes", status_code=201)
async def post_note(session: Session, caller: Writer, connection_id: uuid.UUID, wanted: NoteIn) -> NoteOut:
    """Pins a note to a time of the connection. All members of the team see it."""
    note = NoteOut.model_validate(await notes.add(session, caller, connection_id, wanted))
    await audit.note(session, caller, "change", connection_id, note.text[:80], what="note added")
    return note


@router.patch("/{connection_id}/notes/{note_id}", responses={409: problem("The text is another than `text_before`.")})
async def patch_note(
    session: Session, caller: Writer, connection_id: uuid.UUID, note_id: uuid.UUID, wanted: NoteChange
) -> NoteOut:
    """Changes the text or the time of a note."""
    note = NoteOut.model_validate(await notes.change(session, caller, connection_id, note_id, wanted))
    await audit.note(session, caller, "change", connection_id, note.text[:80], what="note changed")
    return note


@router.delete("/{connection_id}/notes/{note_id}", status_code=204)
async def delete_note(session: Session, caller: Writer, connection_id: uuid.UUID, note_id: uuid.UUID) -> None:
    """Deletes a note."""
    text = await notes.remove(session, caller, connection_id, note_id)
    await audit.note(session, caller, "delete", connection_id, text[:80], what="note")


@router.post(
    "/{connection_id}/segments",
    status_code=202,
    responses={
        409: _REFUSED,
        429: problem("The team sends too many requests, or has too many jobs that wait or run."),
    },
)
async def post_segments(
    session: Session, caller: Writer, background: BackgroundTasks, response: Response, connection_id: uuid.UUID
) -> SegmentsOut:
    """Has the connection's segments read from the capture, for its time-sequence graph. They are kept with the capture;
    those that could not be read are read again."""
    found, job_id = await sequence.request_segments(session, caller, connection_id)
    if job_id:
        background.add_task(wakeups.wake, job_id, JobKind.segments)
    response.headers["Location"] = f"/v1/connections/{connection_id}/sequence"
    response.headers["Retry-After"] = "1"
    return found


def _labels(text: str) -> list[str]:
    """Splits at commas and semicolons outside of parentheses: a label with options has commas within them."""
    labels, depth, current = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c in ";," and depth <= 0:
            labels.append(current.strip())
            current = ""
        else:
            current += c
    return [label for label in [*labels, current.strip()] if label]


@router.post(
    "/{connection_id}/replays",
    status_code=202,
    responses={
        409: _REFUSED,
        429: problem("The team sends too many requests, or has too many jobs that wait or run."),
    },
)
async def post_replay(
    session: Session,
    caller: Writer,
    background: BackgroundTasks,
    response: Response,
    connection_id: uuid.UUID,
    wanted: ReplayIn,
) -> ReplayOut:
    """Replays the connection with an algorithm and options; the same request twice is one replay."""
    await service.load(session, caller, connection_id)
    chosen = await replays.chosen(session, wanted)
    replay, job_id = await service.request_replay(session, caller, connection_id, chosen)
    await audit.note(session, caller, "replay", connection_id, replay.label)
    if job_id:
        background.add_task(wakeups.wake, job_id, JobKind.replay)
    response.headers["Location"] = f"/v1/connections/{connection_id}"
    response.headers["Retry-After"] = "1"
    return replay


@several.post(
    "",
    status_code=202,
    responses={
        422: problem("An unknown algorithm, option or filter, or nothing is selected."),
        429: problem("The team sends too many requests, or has too many jobs that wait or run; nothing was requested."),
    },
)
async def post_replays(
    session: Session, caller: Writer, background: BackgroundTasks, response: Response, wanted: ReplaysIn
) -> ReplaysOut:
    """Replays all connections that are selected with an algorithm and options: at most 50 in one request, which says
    where the next one goes on."""
    requested, job_ids = await replays.request_selected(session, caller, wanted)
    await audit.note(session, caller, "replay", None, f"{wanted.algorithm}, {requested.begun} connections")
    if job_ids:
        background.add_task(wakeups.wake_all, len(job_ids), JobKind.replay)
    response.headers["Retry-After"] = "1"
    return requested


@router.delete(
    "/{connection_id}/replays/{replay_id}",
    status_code=204,
    responses={409: problem("The replay has not ended, or is part of the capture's analysis.")},
)
async def delete_replay(session: Session, caller: Writer, connection_id: uuid.UUID, replay_id: uuid.UUID) -> None:
    """Deletes a replay that was asked for, and has ended."""
    label = await replays.remove(session, caller, connection_id, replay_id)
    await audit.note(session, caller, "delete", replay_id, label)
