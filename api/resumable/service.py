"""Uploads that go on after an interruption, and end in the same capture as one that comes at once.

What has arrived lies in a folder of the API's (store/uploads_folder.py), encrypted (pieces.py), because what a team
does not keep must not reach the store. The row says how much of it is safe. The last byte counts as received only when
the capture is stored, in one transaction with it: until then a client that asks is told to send the end again.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from fastapi import Request
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from api import limits
from api.captures import service as captures
from api.captures.schemas import CaptureReceived
from api.errors import Conflict, Gone, Locked, NotFound, Problem, TooLarge, TooMany, Unavailable, Unprocessable
from api.redaction import Redactor
from api.resumable.pieces import Damaged, Held, Pieces
from api.resumable.protocol import Checksum, Metadata, date
from api.resumable.schemas import UploadOut
from api.security import Caller, transaction
from api.uploads import EMPTY, Received, body_of, too_large
from store import uploads_folder
from store.models import Incoming, ResumableUpload
from store.settings import settings

log = structlog.get_logger()

UNFINISHED_MAX = 1000
"""Of a team: each may have a file."""
IDLE_S = 15.0
"""A request that brings nothing for so long ends, and its client may go on with another."""
STEP_BYTES, STEP_S = 16 << 20, 5.0
"""After so much, or so long, what has arrived is made safe."""
_DISK_RETRY_S = 30
_KEPT = "what has arrived is kept"


@dataclass(frozen=True)
class Begun:
    secret: str
    expires_at: datetime


@dataclass(frozen=True)
class Progress:
    received: int
    expires_at: datetime
    job_id: uuid.UUID | None = None
    """The job to wake."""


def _lasts() -> timedelta:
    return timedelta(seconds=settings().upload_lasts_s)


def _unavailable(reason: str, wait_s: int = _DISK_RETRY_S) -> Unavailable:
    return Unavailable(reason, headers={"Retry-After": str(wait_s)})


@asynccontextmanager
async def _disk() -> AsyncIterator[None]:
    """Raises Unavailable."""
    try:
        yield
    except OSError as e:
        log.error("upload.disk", reason=str(e))
        raise _unavailable("the disk for uploads takes nothing at the moment") from e


async def begin(session: AsyncSession, caller: Caller, length: int, about: Metadata) -> Begun:
    """Raises TooLarge, Unprocessable, TooMany, Unavailable."""
    if length > settings().upload_bytes_max:
        raise too_large(settings().upload_bytes_max)
    if length == 0:
        raise Unprocessable(EMPTY)
    async with _disk():
        folder = await asyncio.to_thread(uploads_folder.folder_id)
        free = shutil.disk_usage(uploads_folder.folder()).free
    if free < length:
        raise _unavailable(f"the disk for uploads has no room for {length} bytes at the moment")
    await limits.hold_team(session, caller.team_id)
    now = func.clock_timestamp()
    unfinished = select(ResumableUpload.id).where(
        ResumableUpload.team_id == caller.team_id,
        ResumableUpload.capture_id.is_(None),
        ResumableUpload.expires_at > now,
    )
    count = await session.scalar(select(func.count()).select_from(unfinished.limit(UNFINISHED_MAX).subquery()))
    if (count or 0) >= UNFINISHED_MAX:
        raise TooMany(
            f"a team may have {UNFINISHED_MAX} uploads that are not complete: continue or delete some",
            headers={"Retry-After": "60"},
        )
    room = await limits.take_room(session, caller.team_id, length, _lasts())
    secret = secrets.token_urlsafe(32)
    expires_at = await session.scalar(
        insert(ResumableUpload)
        .values(
            id=room,
            team_id=caller.team_id,
            secret_hash=_hash(secret),
            folder=folder,
            length=length,
            filename=captures.clean_name(about.filename),
            tags=about.tags,
            told=about.told,
            expires_at=now + _lasts(),
        )
        .returning(ResumableUpload.expires_at)
    )
    assert expires_at is not None
    return Begun(secret, expires_at)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


async def find(session: AsyncSession, caller: Caller, secret: str) -> ResumableUpload:
    """Raises NotFound, Gone."""
    row = (
        await session.execute(
            select(ResumableUpload, ResumableUpload.expires_at <= func.clock_timestamp()).where(
                ResumableUpload.secret_hash == _hash(secret), ResumableUpload.team_id == caller.team_id
            )
        )
    ).one_or_none()
    if row is None:
        raise NotFound("no such upload")
    upload, is_over = row
    if is_over:
        given_up = "nothing was added to the upload for too long, and it was given up: begin anew"
        raise _gone(upload, given_up if upload.capture_id is None else "the upload has ended, some time ago")
    return upload


def _gone(upload: ResumableUpload, detail: str) -> Gone:
    return Gone(detail, headers={"Upload-Expires": date(upload.expires_at)})


async def told(session: AsyncSession, caller: Caller, secret: str) -> UploadOut:
    """Raises NotFound, Gone."""
    upload = await find(session, caller, secret)
    capture = None
    if upload.capture_id is not None:
        try:
            found = await captures.get(session, caller, upload.capture_id)
        except NotFound:  # deleted since
            pass
        else:
            capture = CaptureReceived(
                **found.model_dump(), already_here=bool(upload.was_here), restored=bool(upload.is_restored)
            )
    return UploadOut(length=upload.length, received=upload.received, expires_at=upload.expires_at, capture=capture)


async def append(
    caller: Caller, secret: str, request: Request, offset: int, checksum: Checksum | None, redactor: Redactor
) -> Progress:
    """Adds the request's body at `offset`, and stores the capture when it is complete.

    What a body that stops has brought is kept, unless it has a checksum. Raises NotFound, Gone, Locked, Conflict,
    TooLarge, TimedOut, Unprocessable, ChecksumMismatch, Unavailable, and what storing a capture raises.
    """
    async with transaction() as session:
        upload = await find(session, caller, secret)
    if upload.capture_id is not None:
        return _finished(upload, offset)
    async with _held(upload, secret) as pieces:
        async with transaction() as session:  # it may have changed before it was held
            try:
                upload = await find(session, caller, secret)
            except (NotFound, Gone):
                await asyncio.to_thread(pieces.remove)
                raise
        if upload.capture_id is not None:
            await asyncio.to_thread(pieces.remove)
            return _finished(upload, offset)
        _refuse_other_offset(upload, offset)
        left = upload.length - upload.received
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > left:
            raise _too_much(left)
        try:
            async with _disk():
                await asyncio.to_thread(pieces.begin, upload.received, upload.kept_bytes)
            adding = _Adding(upload, pieces, checksum)
            await adding.take(request)
            if pieces.end < upload.length:
                return await adding.keep()
            return await _finish(caller, adding, redactor)
        except Damaged as e:
            log.error("upload.damaged", upload=str(upload.id))
            await _forget(upload, pieces)
            raise _gone(upload, "the upload was damaged on the server's disk: begin anew") from e


def _refuse_other_offset(upload: ResumableUpload, offset: int) -> None:
    """Raises Conflict."""
    if offset != upload.received:
        raise Conflict(
            f"the upload goes on at byte {upload.received}, not at {offset}",
            headers={"Upload-Offset": str(upload.received)},
        )


def _finished(upload: ResumableUpload, offset: int) -> Progress:
    """Raises Conflict."""
    _refuse_other_offset(upload, offset)
    return Progress(upload.received, upload.expires_at)


def _too_much(left: int) -> TooLarge:
    return TooLarge(f"{left} bytes of the upload are missing, and more were sent")


@asynccontextmanager
async def _held(upload: ResumableUpload, secret: str) -> AsyncIterator[Pieces]:
    """Raises Locked, Unavailable."""
    async with _disk():
        if await asyncio.to_thread(uploads_folder.folder_id) != upload.folder:
            raise _unavailable(
                "the upload began at another machine of the service, whose disk this one does not see", wait_s=1
            )
        try:
            pieces = Pieces(uploads_folder.path_of(upload.id), secret, upload.id)
        except Held as e:
            raise Locked("another request is adding to this upload", headers={"Retry-After": "1"}) from e
    try:
        yield pieces
    finally:
        pieces.close()


class _Adding:
    """What one request adds to an upload."""

    def __init__(self, upload: ResumableUpload, pieces: Pieces, checksum: Checksum | None) -> None:
        self.upload, self.pieces = upload, pieces
        self._checksum = checksum
        self._safe, self._safe_at = upload.received, time.monotonic()

    async def take(self, request: Request) -> None:
        """Raises TooLarge, TimedOut, Unprocessable, ChecksumMismatch, Conflict, Unavailable."""
        consequence = _KEPT if self._checksum is None else "what has arrived was discarded"
        try:
            async for chunk in body_of(request, IDLE_S, consequence):
                await self._add(chunk)
        except Problem:
            if self._checksum is None:
                await self.keep()
            raise
        if self._checksum is not None:
            self._checksum.check()

    async def _add(self, chunk: bytes) -> None:
        left = self.upload.length - self.pieces.end
        if len(chunk) > left:
            raise _too_much(left)
        async with _disk():
            await self.pieces.add(chunk)
        if self._checksum is not None:
            self._checksum.add(chunk)  # nothing is safe before it was compared
        elif self.pieces.received - self._safe >= STEP_BYTES or time.monotonic() - self._safe_at >= STEP_S:
            await self.keep()

    async def keep(self) -> Progress:
        """Makes what has arrived safe; not the end of an upload, which is not stored yet.

        Raises Conflict, Unavailable.
        """
        async with _disk():
            if self.pieces.end < self.upload.length:
                await self.pieces.write_rest()
            await self.pieces.make_safe()
        async with transaction() as session:
            values = {"received": self.pieces.received, "kept_bytes": self.pieces.kept_bytes}
            expires_at = await _change(session, self.upload, self._safe, values)
            still = update(Incoming).where(Incoming.id == self.upload.id).values(alive_until=expires_at)
            await session.execute(still)
        self._safe, self._safe_at = self.pieces.received, time.monotonic()
        return Progress(self._safe, expires_at)


async def _change(session: AsyncSession, upload: ResumableUpload, before: int, values: Mapping[str, Any]) -> datetime:
    """Changes the row, if it is as this request knows it. Returns when the upload is given up now. Raises Conflict."""
    now = func.clock_timestamp()
    expires_at: datetime | None = await session.scalar(
        update(ResumableUpload)
        .where(
            ResumableUpload.id == upload.id,
            ResumableUpload.received == before,
            ResumableUpload.capture_id.is_(None),
            ResumableUpload.expires_at > now,
        )
        .values(expires_at=now + _lasts(), **values)
        .returning(ResumableUpload.expires_at)
    )
    if expires_at is None:
        raise Conflict("the upload has ended, or another request has added to it")
    return expires_at


class _Complete(Received):
    """The bytes of a resumable upload, all of them."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__(settings().upload_bytes_max, pieces.received)
        self._pieces = pieces

    def source(self) -> AsyncIterator[bytes]:
        return self._pieces.read()


async def _finish(caller: Caller, adding: _Adding, redactor: Redactor) -> Progress:
    """Stores the capture. Raises Damaged, and what storing one raises: then the upload is as it was before the end."""
    upload, pieces = adding.upload, adding.pieces
    safe = await adding.keep()
    async with _disk():
        await pieces.write_rest()
    received = _Complete(pieces)
    try:
        async with transaction() as session:
            stored = await captures.store(session, caller, received, redactor, upload.filename, upload.tags, upload.id)
            ended = {
                "received": pieces.received,
                "kept_bytes": pieces.kept_bytes,
                "capture_id": stored.capture_id,
                "was_here": stored.was_here,
                "is_restored": stored.is_restored,
            }
            expires_at = await _change(session, upload, safe.received, ended)
            await captures.told(session, caller, stored, received.size)
    except TooLarge:  # it will never be stored
        await _forget(upload, pieces)
        raise
    await _remove(pieces)
    return Progress(pieces.received, expires_at, stored.job_id)


async def _remove(pieces: Pieces) -> None:
    """The sweeper removes what stays."""
    try:
        await asyncio.to_thread(pieces.remove)
    except OSError as e:
        log.warning("upload.not_removed", reason=str(e))


async def _forget(upload: ResumableUpload, pieces: Pieces) -> None:
    async with transaction() as session:
        await session.execute(delete(ResumableUpload).where(ResumableUpload.id == upload.id))
        await limits.arrived(session, upload.id)
    await _remove(pieces)


async def end(caller: Caller, secret: str) -> None:
    """Gives an upload up; its capture, if it has become one, stays. Raises NotFound, Gone, Locked, Unavailable."""
    async with transaction() as session:
        upload = await find(session, caller, secret)
    async with _held(upload, secret) as pieces:
        await _forget(upload, pieces)
