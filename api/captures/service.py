from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import Any
from urllib.parse import quote

import obstore
import structlog
from sqlalchemy import ColumnElement, Row, Select, Text, and_, cast, exists, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from api import audit, filters, limits, privacy, retention, selections, totals
from api.captures.schemas import (
    TAGS_MAX,
    CaptureChange,
    CaptureDetail,
    CaptureOut,
    CaptureReceived,
    CapturesChange,
    CapturesDeletion,
    CapturesFound,
    FairnessOut,
    GroupMemberOut,
    SharingRow,
    SummaryOut,
)
from api.connections.search import uploader
from api.errors import Conflict, Forbidden, Gone, NotFound, TooLarge, Unprocessable
from api.events import Progress, of_job
from api.filters import Filters
from api.jobs import lock_jobs
from api.pages import Keyset, More, Page
from api.privacy import Privacy
from api.redaction import NothingKept, Redactor
from api.security import Caller
from api.selections import CaptureSelection, PartOut
from api.uploads import Received
from store import jobs, objects
from store.deletions import delete_capture
from store.models import (
    Capture,
    Connection,
    ConnectionFact,
    FairnessGroup,
    Job,
    JobKind,
    QualityRecord,
    State,
    Team,
    Token,
)
from store.retention import copy_deleted

log = structlog.get_logger()

_DOWNLOAD_BYTES = 1 << 20
_MORE_ROOM_BYTES = 64 << 20
"""An upload that needs more room takes so much more than it needs now."""
_PATIENTLY = text("SET LOCAL lock_timeout = '10s'")
"""An upload may have taken hours: it is not given up because another one of the team is being stored."""
_ONLY_FROM = (
    "payload is cut from this team's captures, and nothing is stored of what cannot be read: convert it"
    " (editcap -F pcapng), or have an owner of the team turn the cut off"
)
_OF_COPY = ("object_key", "sha256", "bytes", "payload", "addresses")
MEMBERS_OF_GROUP_MAX, GROUPS_OF_DETAIL = 40, 20
MEMBERS_MAX = MEMBERS_OF_GROUP_MAX * GROUPS_OF_DETAIL
_IN_ORDER = Keyset((FairnessGroup.id,))
NEWEST_FIRST = "-created_at"
_COLUMNS = {
    "created_at": Capture.created_at,
    "filename": Capture.filename,
    "bytes": Capture.bytes,
    "first_ns": Capture.first_ns,
    "state": Capture.state,
    "packets": Capture.packets,
    "verdict": Capture.verdict_rank,
    "connections": Capture.connection_count,
}
_MAY_BE_NULL = frozenset({"first_ns", "packets", "verdict", "connections"})
_ORDERS = {
    sign + name: Keyset(
        (column, Capture.id),
        descending=sign == "-",
        first_may_be_null=name in _MAY_BE_NULL,
        name="" if sign + name == NEWEST_FIRST else sign + name,
    )
    for name, column in _COLUMNS.items()
    for sign in ("", "-")
}
SORTS = tuple(_ORDERS)


@dataclass(frozen=True)
class Stored:
    capture_id: uuid.UUID
    """Of an earlier upload, where the capture was here."""
    job_id: uuid.UUID | None
    """The job to wake."""
    was_here: bool
    is_restored: bool = False
    """The upload is the stored copy of a capture that was here without one."""


async def receive(
    session: AsyncSession,
    caller: Caller,
    upload: Received,
    redactor: Redactor,
    filename: str | None,
    tags: dict[str, str],
) -> Stored:
    """Stores an upload while it arrives (`store`). Raises TooMany, and what `Received.chunks` raises."""
    async with limits.room(caller.team_id, upload.size_max) as room:
        return await store(session, caller, upload, redactor, filename, tags, room)


async def store(
    session: AsyncSession,
    caller: Caller,
    upload: Received,
    redactor: Redactor,
    filename: str | None,
    tags: dict[str, str],
    room: uuid.UUID,
) -> Stored:
    """Streams an upload into the object store. room: what `limits.take_room` took for it; it is given back.

    What the team does not keep (api/privacy.py) is cut before. The same bytes twice are one capture, as they were
    received: the second upload adds its tags, begins a failed analysis anew, and takes the place of a stored copy that
    retention has deleted.
    Raises TooMany, and what `Received.chunks` raises.
    """
    capture_id = uuid.uuid4()
    key = objects.capture_key(capture_id)
    kept = False
    try:
        keeps = await privacy.of_team(caller.team_id)
        stream = _Counted(_kept(upload, redactor, keeps, filename), upload, caller.team_id, room)
        not_kept = None
        try:
            await obstore.put_async(
                objects.object_store(),
                key,
                stream.chunks(),
                chunk_size=objects.CHUNK_BYTES,
                max_concurrency=objects.CHUNKS_AT_ONCE,
            )
        except NothingKept as e:
            not_kept = f"{e}; {_ONLY_FROM}"
        values = {
            "id": capture_id,
            "team_id": caller.team_id,
            "received": keeps.recognition_of(upload.sha256),
            "sha256": stream.sha256,
            "bytes": stream.size,
            "payload": keeps.payload,
            "addresses": keeps.addresses,
            "not_kept": not_kept,
            "filename": clean_name(filename or upload.filename),
            "tags": tags,
            "object_key": key,
            "uploader_id": caller.token_id,
        }
        stored = await _store(session, caller, values)
        await limits.arrived(session, room)
        kept = stored.is_restored or not stored.was_here
        return stored
    finally:
        if not kept:
            await _forget(key)


async def told(session: AsyncSession, caller: Caller, stored: Stored, received_bytes: int) -> CaptureReceived:
    """What is answered to an upload that was stored, and notes it."""
    capture = await get(session, caller, stored.capture_id)
    how = {"again": stored.was_here, **({"restored": True} if stored.is_restored else {})}
    await audit.note(session, caller, "upload", capture.id, capture.filename, bytes=received_bytes, **how)
    return CaptureReceived(**capture.model_dump(), already_here=stored.was_here, restored=stored.is_restored)


class _Counted:
    """What is stored of an upload, its size and SHA-256; at most as much as an upload may have.

    The copy of a compressed upload may be larger than the room that was kept for it: it takes more as it grows.
    """

    def __init__(
        self, source: AsyncIterator[bytes], upload: Received, team_id: uuid.UUID, upload_id: uuid.UUID
    ) -> None:
        self._source, self._most = source, upload.bytes_max
        self._team_id, self._upload_id, self._room = team_id, upload_id, upload.size_max
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises TooLarge, TooMany, and what the source raises."""
        async for chunk in self._source:
            self.size += len(chunk)
            if self.size > self._most:
                raise TooLarge(f"a capture may have at most {self._most} bytes, also when it is no longer compressed")
            if self.size > self._room:
                wanted = min(self.size + _MORE_ROOM_BYTES, self._most)
                self._room = await limits.enlarge(self._team_id, self._upload_id, self.size, wanted)
            self._hash.update(chunk)
            yield chunk


def _kept(upload: Received, redactor: Redactor, keeps: Privacy, filename: str | None) -> AsyncIterator[bytes]:
    if keeps.payload == "kept":
        return upload.chunks()
    return redactor.copy(upload.chunks(), clean_name(filename), keeps.addresses_key)


async def _store(session: AsyncSession, caller: Caller, values: dict[str, Any]) -> Stored:
    """The capture with these bytes, which may be an earlier one. Raises TooMany."""
    await session.execute(_PATIENTLY)
    await limits.hold_team(session, caller.team_id)
    while True:
        inserted = await session.execute(
            insert(Capture)
            .values(values)
            .on_conflict_do_nothing(index_elements=["team_id", "received"])
            .returning(Capture.id)
        )
        if inserted.one_or_none() is not None:
            return Stored(values["id"], await _insert_job(session, caller, values["id"]), was_here=False)
        found = await _lock_and_tag(session, caller, values["received"], values["tags"])
        if found is not None and found.not_kept is not None and values["not_kept"] is None:
            await remove(session, caller, found.id)  # nothing was kept of it, and now it may be
        elif found is not None:
            restores = found.raw_deleted_at is not None and values["not_kept"] is None
            if restores:
                of_copy = {name: values[name] for name in _OF_COPY}
                await session.execute(
                    update(Capture).where(Capture.id == found.id).values(**of_copy, raw_deleted_at=None)
                )
            has_failed = found.state is State.failed
            job_id = await _begin_anew(session, caller, found.id) if has_failed else None
            return Stored(found.id, job_id, was_here=True, is_restored=restores)
        # The capture was deleted since the INSERT, or just now: try again to insert this one.


async def _insert_job(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> uuid.UUID:
    """Raises TooMany."""
    await limits.admit_job(session, caller.team_id)
    job_id = uuid.uuid4()
    values = {"id": job_id, "kind": JobKind.analyze, "team_id": caller.team_id, "capture_id": capture_id}
    await session.execute(insert(Job).values(**values, sent_at=func.clock_timestamp()))
    return job_id


async def _lock_and_tag(session: AsyncSession, caller: Caller, received: bytes, tags: dict[str, str]) -> Any:
    """The capture that these bytes were; None when it was deleted. Its job is locked first, as in `remove`."""
    same = (Capture.team_id == caller.team_id, Capture.received == received)
    await session.execute(
        select(Job.id).join(Capture).where(*same, Job.kind == JobKind.analyze).with_for_update(of=Job)
    )
    return (
        await session.execute(
            update(Capture)
            .where(*same)
            .values(tags=Capture.tags.op("||")(tags), uploaded_at=func.clock_timestamp())
            .returning(Capture.id, Capture.state, Capture.not_kept, Capture.raw_deleted_at)
        )
    ).one_or_none()


async def _begin_anew(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> uuid.UUID | None:
    """Raises TooMany."""
    await limits.admit_job(session, caller.team_id)
    job_id = (await session.execute(jobs.restart(capture_id))).scalar_one_or_none()
    if job_id is not None:
        await session.execute(update(Capture).where(Capture.id == capture_id).values(state=State.queued, error=None))
    return job_id


async def retry(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> uuid.UUID | None:
    """Queues a failed analysis again. Returns the job to wake; None: it waits or runs.

    Raises NotFound, Conflict, TooMany.
    """
    await limits.hold_team(session, caller.team_id)
    owned = (Capture.id == capture_id, Capture.team_id == caller.team_id)
    wanted = select(Capture.state, Capture.raw_deleted_at, Capture.not_kept).where(*owned)
    found = (await session.execute(wanted)).one_or_none()
    if found is None:
        raise NotFound("no such capture")
    if found.state is State.done:
        raise Conflict("this capture is analysed: there is nothing to retry")
    if found.not_kept is not None:
        raise Conflict(f"nothing of this capture is stored: {found.not_kept}")
    retention.refuse_deleted(found.raw_deleted_at)
    return await _begin_anew(session, caller, capture_id) if found.state is State.failed else None


async def _forget(key: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # the upload failed before anything was written
        await obstore.delete_async(objects.object_store(), key)


def clean_name(name: str | None) -> str:
    """The last part of the path that the client sent, without control characters."""
    last = (name or "capture").replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[:255] or "capture"


_JOB = select(Job.capture_id, Job.stage, Job.progress).where(Job.kind == JobKind.analyze).subquery()


def _query(caller: Caller) -> Select[Any]:
    return (
        select(Capture, _JOB.c.stage, _JOB.c.progress, Token.name)
        .outerjoin(_JOB, _JOB.c.capture_id == Capture.id)
        .outerjoin(Token, Token.id == Capture.uploader_id)
        .where(Capture.team_id == caller.team_id)
    )


def _summary(stored: dict[str, Any]) -> SummaryOut:
    counts = stored.get("connection_quality")
    if counts is None:
        return SummaryOut(**stored)
    total = sum(c["bytes"] for c in counts.values())
    shares = {v: {**c, "byte_share": c["bytes"] / total if total else None} for v, c in counts.items()}
    return SummaryOut(**{**stored, "connection_quality": shares})


def _out(row: Any) -> CaptureOut:
    c: Capture = row.Capture
    return CaptureOut(
        id=c.id,
        filename=c.filename,
        bytes=c.bytes,
        sha256=c.sha256.hex(),
        payload=c.payload,
        addresses=c.addresses,
        tags=c.tags,
        notes=c.notes,
        uploader=uploader(c.uploader_id, row.name),
        state=c.state,
        stage=row.stage or c.state,
        progress=row.progress or 0.0,
        error=c.error,
        created_at=c.created_at,
        uploaded_at=c.uploaded_at,
        raw_deleted_at=c.raw_deleted_at,
        series_deleted_at=c.series_deleted_at,
        not_kept=c.not_kept,
        analysed_at=c.analysed_at,
        summary=None if c.summary is None else _summary(c.summary),
        connections=c.connection_count if c.state is State.done else None,
    )


async def own(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> CaptureOut:
    """Raises NotFound."""
    return _out(await _own(session, caller, capture_id))


async def get(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> CaptureDetail:
    """Raises NotFound."""
    row = await _own(session, caller, capture_id)
    of_capture = select(func.count()).where(FairnessGroup.attempt_id == row.Capture.attempt_id)
    total = (await session.execute(of_capture)).scalar_one()
    first = await _groups_page(session, row.Capture, None, GROUPS_OF_DETAIL)
    return CaptureDetail(
        **_out(row).model_dump(), fairness=first.items, fairness_total=total, fairness_cursor=first.next_cursor
    )


async def groups(
    session: AsyncSession, caller: Caller, capture_id: uuid.UUID, cursor: str | None, limit: int
) -> Page[FairnessOut]:
    """Raises BadRequest, NotFound."""
    row = await _own(session, caller, capture_id)
    return await _groups_page(session, row.Capture, cursor, limit)


async def _own(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> Row[Any]:
    """As of `_query`. Raises NotFound."""
    row: Row[Any] | None = (await session.execute(_query(caller).where(Capture.id == capture_id))).one_or_none()
    if row is None:
        raise NotFound("no such capture")
    return row


async def _groups_page(session: AsyncSession, capture: Capture, cursor: str | None, limit: int) -> Page[FairnessOut]:
    found: Page[Any] = await _IN_ORDER.page(session, _groups(capture), cursor, limit, lambda row: row)
    first = _first_numbers(found.items)
    known = await _members(session, capture, list(chain(*first.values())))
    # Rows are missing where another analysis has taken the place of this one meanwhile.
    members = {name: [known[n] for n in takewhile(known.__contains__, group)] for name, group in first.items()}
    items = [
        FairnessOut(
            bottleneck=g.bottleneck,
            method=g.method,
            connections=g.members["connections"],
            kinds=g.members["kinds"],
            goodput_bps=g.members["goodput_bps"],
            jain=g.jain,
            mptcp_to_tcp_ratio=g.mptcp_to_tcp_ratio,
            declared=g.declared,
            verdict=g.verdict,
            capacity_bps=g.members.get("capacity_bps"),
            shares=g.members.get("shares", []),
            members=members[g.bottleneck],
        )
        for g in found.items
    ]
    return Page(items=items, next_cursor=found.next_cursor)


async def sharing(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> More:
    """All members of all groups; what it returns reads them page by page, once. Raises NotFound."""
    capture: Capture = (await _own(session, caller, capture_id)).Capture
    found = await session.execute(_groups(capture).order_by(FairnessGroup.id))
    left = ((group, place) for group in found.all() for place in range(len(group.members["connections"])))

    async def more(session: AsyncSession, cursor: str | None, size: int) -> Page[SharingRow]:
        part = list(islice(left, size))
        found = await _members(session, capture, [g.members["connections"][place] for g, place in part])
        items = [
            _sharing_row(g, place, found[g.members["connections"][place]])
            for g, place in part
            if g.members["connections"][place] in found
        ]
        return Page(items=items, next_cursor="more" if len(part) == size else None)

    return more


def _sharing_row(group: Row[Any], place: int, member: GroupMemberOut) -> SharingRow:
    found = group.members
    shares = found.get("shares", [])
    return SharingRow(
        bottleneck=group.bottleneck,
        method=group.method,
        declared=group.declared,
        group_verdict=group.verdict,
        jain=group.jain,
        mptcp_to_tcp_ratio=group.mptcp_to_tcp_ratio,
        capacity_bps=found.get("capacity_bps"),
        connection=found["connections"][place],
        kind=found["kinds"][place],
        goodput_bps=found["goodput_bps"][place],
        member=member,
        share=shares[place] if shares else None,
    )


def _groups(capture: Capture) -> Select[Any]:
    """Rows with the columns of FairnessGroup: thousands of mapped objects take three times as long."""
    return select(*FairnessGroup.__table__.c).where(FairnessGroup.attempt_id == capture.attempt_id)


def _first_numbers(groups: Sequence[Row[Any]]) -> dict[str, list[int]]:
    """By bottleneck: an answer does not grow with the number of connections that share one."""
    numbers: dict[str, list[int]] = {}
    left = MEMBERS_MAX
    for group in groups:
        numbers[group.bottleneck] = group.members["connections"][: min(MEMBERS_OF_GROUP_MAX, left)]
        left -= len(numbers[group.bottleneck])
    return numbers


async def _members(session: AsyncSession, capture: Capture, numbers: Sequence[int]) -> dict[int, GroupMemberOut]:
    """The connections with these numbers, by number."""
    fact = ConnectionFact
    columns: tuple[Any, ...] = (
        Connection.number, Connection.id, Connection.first_ns, Connection.last_ns, fact.src, fact.sport, fact.dst,
        fact.dport, QualityRecord.verdict,
    )  # fmt: skip
    rows = await session.execute(
        select(*columns)
        .join(fact, and_(fact.attempt_id == Connection.attempt_id, fact.number == Connection.number))
        .join(QualityRecord, QualityRecord.id == Connection.quality_id)
        .where(Connection.attempt_id == capture.attempt_id, Connection.number.in_(numbers))
    )
    begin_ns = (capture.summary or {}).get("first_ns", 0)
    return {
        row.number: GroupMemberOut(
            connection_id=row.id,
            src=row.src,
            sport=row.sport,
            dst=row.dst,
            dport=row.dport,
            verdict=row.verdict,
            begin_s=(row.first_ns - begin_ns) / 1e9,
            duration_s=(row.last_ns - row.first_ns) / 1e9,
        )
        for row in rows
    }


def _progress(query: Select[Any]) -> Select[Any]:
    return query.with_only_columns(Capture.id, Capture.state, Capture.error, *_JOB.c["stage", "progress"])


async def progress(session: AsyncSession, captures: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of captures of any team: the caller has checked whose they are."""
    query = _progress(select(Capture).outerjoin(_JOB, _JOB.c.capture_id == Capture.id))
    rows = await session.execute(query.where(Capture.id.in_(captures)))
    return {row.id: of_job(row) for row in rows}


async def progress_of_own(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> Progress:
    """Raises NotFound."""
    row = (await session.execute(_progress(_query(caller)).where(Capture.id == capture_id))).one_or_none()
    if row is None:
        raise NotFound("no such capture")
    return of_job(row)


def _selected(caller: Caller, wanted: Filters, state: State | None) -> Select[Any]:
    """Raises BadRequest."""
    query = _query(caller).where(*filters.of_captures(wanted))
    if state:
        query = query.where(Capture.state == state)
    if wanted.concern_connections:
        query = query.where(_has_connection(caller, wanted))
    return query


def _has_connection(caller: Caller, wanted: Filters) -> ColumnElement[bool]:
    """Has the capture a connection that the filters select?"""
    of_capture = (ConnectionFact.attempt_id == Capture.attempt_id, ConnectionFact.team_id == caller.team_id)
    return exists().where(*of_capture, *filters.of_connections(wanted)).correlate(Capture)


async def find(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    *,
    state: State | None,
    sort: str,
    cursor: str | None,
    limit: int,
) -> CapturesFound:
    """A page of them, and how many there are. sort: one of SORTS. Raises BadRequest."""
    total, is_exact = await totals.total(session, _selected(caller, wanted, state))
    page = await find_page(session, caller, wanted, state=state, sort=sort, cursor=cursor, limit=limit)
    return CapturesFound(items=page.items, next_cursor=page.next_cursor, total=total, total_is_exact=is_exact)


async def find_page(
    session: AsyncSession,
    caller: Caller,
    wanted: Filters,
    *,
    state: State | None,
    sort: str,
    cursor: str | None,
    limit: int,
) -> Page[CaptureOut]:
    """A page of them. sort: one of SORTS. Raises BadRequest."""
    return await _ORDERS[sort].page(session, _selected(caller, wanted, state), cursor, limit, _out)


async def change(session: AsyncSession, caller: Caller, capture_id: uuid.UUID, wanted: CaptureChange) -> None:
    """Raises NotFound, Conflict, Unprocessable."""
    values: dict[str, Any] = wanted.model_dump(exclude_none=True, include={"tags", "notes"})
    if wanted.add_tags or wanted.remove_tags:
        values["tags"] = changed_tags(wanted.add_tags or {}, wanted.remove_tags or [])
    owned = (Capture.id == capture_id, Capture.team_id == caller.team_id)
    notes = await session.scalar(select(Capture.notes).where(*owned).with_for_update())
    if notes is None:
        raise NotFound("no such capture")
    if wanted.notes_before is not None and notes != wanted.notes_before:
        raise Conflict("somebody has changed the notes meanwhile: read them before you change them")
    if not values:
        return
    change = update(Capture).where(*owned).values(values).returning(Capture.tags)
    tags = (await session.scalars(change)).one()
    if wanted.add_tags and len(tags) > TAGS_MAX:
        raise Unprocessable(f"a capture has at most {TAGS_MAX} tags, and this would make {len(tags)}: remove some")


def changed_tags(added: dict[str, str], removed: Sequence[str]) -> ColumnElement[Any]:
    """The tags of a capture as they are then, whoever has changed them meanwhile."""
    left = Capture.tags.op("-")(cast(list(removed), ARRAY(Text)))
    return left.op("||")(cast(added, JSONB))


CHANGED_AT_ONCE = 500
DELETED_AT_ONCE = 100
"""Captures of one request."""


async def _chosen(
    session: AsyncSession, caller: Caller, wanted: CaptureSelection, cursor: str | None, most: int
) -> tuple[list[uuid.UUID], str | None]:
    """Some captures of a selection, and the cursor of the next ones. Raises BadRequest, Unprocessable."""
    wanted.refuse_empty("capture_ids")
    query = select(Capture.id).where(Capture.team_id == caller.team_id, *selections.of_captures(wanted))
    if wanted.state:
        query = query.where(Capture.state == wanted.state)
    if wanted.concern_connections:
        query = query.where(_has_connection(caller, wanted))
    rows, following = await selections.part(session, query, Capture.id.expression, cursor, most)
    return [row.id for row in rows], following


async def change_tags(session: AsyncSession, caller: Caller, wanted: CapturesChange) -> PartOut:
    """Changes the tags of a part of the selection. Raises BadRequest, Unprocessable."""
    ids, following = await _chosen(session, caller, wanted.selection, wanted.cursor, CHANGED_AT_ONCE)
    # In one order, so that two such requests do not wait for one another.
    await session.execute(select(Capture.id).where(Capture.id.in_(ids)).order_by(Capture.id).with_for_update())
    tags = changed_tags(wanted.add_tags, wanted.remove_tags)
    count = select(func.count()).select_from(func.jsonb_object_keys(tags)).scalar_subquery()
    change = update(Capture).where(Capture.id.in_(ids), count <= TAGS_MAX).values(tags=tags)
    changed = (await session.execute(change.returning(Capture.id, Capture.filename))).all()
    of_tags = {"add_tags": wanted.add_tags, "remove_tags": wanted.remove_tags}
    detail = {name: value for name, value in of_tags.items() if value}
    await audit.note_all(session, caller, "change", changed, fields=sorted(detail), **detail)
    left = await session.scalar(select(func.count()).where(Capture.id.in_(ids)))
    refused = Counter({f"a capture has at most {TAGS_MAX} tags": (left or 0) - len(changed)})
    return PartOut(done=len(changed), refused=selections.refused_captures(+refused), next_cursor=following)


async def remove_selected(session: AsyncSession, caller: Caller, wanted: CapturesDeletion) -> PartOut:
    """Deletes a part of the selection. Raises BadRequest, Unprocessable."""
    ids, following = await _chosen(session, caller, wanted.selection, wanted.cursor, DELETED_AT_ONCE)
    await lock_jobs(session, Job.capture_id.in_(ids))
    database = await session.connection()
    names = [(i, await database.run_sync(delete_capture, caller.team_id, i)) for i in ids]
    gone = [(i, name) for i, name in names if name is not None]
    await audit.note_all(session, caller, "delete", gone)
    return PartOut(done=len(gone), refused=[], next_cursor=following)


@dataclass(frozen=True)
class StoredFile:
    capture: str
    """The capture's name."""
    chunks: AsyncIterator[bytes]
    headers: dict[str, str]


async def file_of(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> StoredFile:
    """Raises NotFound, Forbidden, Gone."""
    owned = select(Capture).where(Capture.id == capture_id, Capture.team_id == caller.team_id)
    capture = (await session.execute(owned)).scalar_one_or_none()
    if capture is None:
        raise NotFound("no such capture")
    if await session.scalar(select(Team.downloads).where(Team.id == caller.team_id)) == "forbidden":
        raise Forbidden("the team forbids downloads of stored captures; an owner can allow them on the page 'settings'")
    if capture.not_kept is not None:
        raise NotFound(f"nothing of this capture is stored: {capture.not_kept}")
    if capture.raw_deleted_at is not None:
        raise Gone(copy_deleted(capture.raw_deleted_at))
    found = await obstore.get_async(objects.object_store(), capture.object_key)
    head = await obstore.get_range_async(objects.object_store(), capture.object_key, start=0, length=4)
    headers = {
        "Content-Length": str(capture.bytes),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(_told_name(capture, bytes(head)), safe='')}",
        "Rewindow-Payload": capture.payload,
        "Rewindow-Addresses": capture.addresses,
    }
    return StoredFile(capture.filename, aiter(found.stream(min_chunk_size=_DOWNLOAD_BYTES)), headers)


_SUFFIXES = {b"\x0a\x0d\x0d\x0a": ".pcapng", b"snoo": ".snoop"}
"""By the first bytes of what is stored; others: .pcap."""


def _told_name(capture: Capture, head: bytes) -> str:
    """What is not the file that was uploaded does not have its name. A copy is not compressed."""
    if capture.payload == "kept":
        return capture.filename
    word = "headers" if capture.addresses == "kept" else "headers.other-addresses"
    name = capture.filename
    for compression in (".gz", ".zst", ".xz", ".bz2", ".lz4"):
        name = name.removesuffix(compression)
    stem, _, suffix = name.rpartition(".")
    is_format = suffix in ("pcap", "pcapng", "cap", "snoop", "trace")
    return f"{stem if is_format and stem else name}.{word}{_SUFFIXES.get(head, '.pcap')}"


async def remove(session: AsyncSession, caller: Caller, capture_id: uuid.UUID) -> None:
    """Deletes a capture: from the commit on, all that was derived from it is gone for readers. Raises NotFound."""
    owned = select(Capture.id).where(Capture.id == capture_id, Capture.team_id == caller.team_id)
    if (await session.execute(owned)).one_or_none() is None:
        raise NotFound("no such capture")
    # Lock the jobs first, as a worker does.
    await lock_jobs(session, Job.capture_id == capture_id)
    database = await session.connection()
    name = await database.run_sync(delete_capture, caller.team_id, capture_id)
    if name is None:
        raise NotFound("no such capture")
    await audit.note(session, caller, "delete", capture_id, name)
