"""The file of a resumable upload: what has arrived, as encrypted pieces.

A piece is the length of what it holds (4 bytes, big-endian), a nonce (12 bytes), and AES-256-GCM of at most
PIECE_BYTES, for which the upload's id and the piece's place in it are authenticated, too. The key follows from the
secret in the upload's address, of which the service keeps only a hash: whoever has the disk and the database reads
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import hmac
import os
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PIECE_BYTES = 1 << 20
_NONCE_BYTES, _TAG_BYTES = 12, 16
_HEAD_BYTES = 4 + _NONCE_BYTES


class Held(Exception):
    """Another request has the file."""


class Damaged(Exception):
    """The file is not as it was written, or is not there any more."""


class Pieces:
    """The file of one upload, which nobody else has meanwhile: the kernel gives it free when the process dies.

    received: bytes of the upload in it; kept_bytes: the file's length with these.
    """

    def __init__(self, path: Path, secret: str, upload_id: uuid.UUID) -> None:
        """Raises Held, OSError."""
        self._path, self._id = path, upload_id
        self._cipher = AESGCM(hmac.digest(secret.encode(), b"rewindow resumable upload", hashlib.sha256))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            os.close(self._file)
            raise Held from e
        self._at_work = threading.Lock()
        """A thread outlives a request that is cancelled; the file is not closed under its hands."""
        self.received = self.kept_bytes = 0
        self._waiting = bytearray()

    def close(self) -> None:
        with self._at_work:
            file, self._file = self._file, -1
        os.close(file)

    def begin(self, received: int, kept_bytes: int) -> None:
        """Goes on after what is known to be safe; what follows it was written by a process that died.

        Raises Damaged, OSError.
        """
        if os.fstat(self._file).st_size < kept_bytes:
            raise Damaged
        os.ftruncate(self._file, kept_bytes)
        if kept_bytes == 0:  # that there is such a file is to be safe, too
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self.received, self.kept_bytes = received, kept_bytes

    @property
    def end(self) -> int:
        """Bytes of the upload that have arrived, those included that are not yet written."""
        return self.received + len(self._waiting)

    async def add(self, chunk: bytes) -> None:
        """At least one byte stays unwritten until `write_rest`. Raises OSError."""
        self._waiting += chunk
        while len(self._waiting) > PIECE_BYTES:
            await self._write(bytes(self._waiting[:PIECE_BYTES]))
            del self._waiting[:PIECE_BYTES]

    async def write_rest(self) -> None:
        """Raises OSError."""
        if self._waiting:
            await self._write(bytes(self._waiting))
            self._waiting.clear()

    async def make_safe(self) -> None:
        """What is written is on the disk. Raises OSError."""
        await asyncio.to_thread(self._sync)

    def _sync(self) -> None:
        with self._at_work:
            os.fsync(self._file)

    def _about(self, place: int) -> bytes:
        return self._id.bytes + place.to_bytes(8, "big")

    async def _write(self, plain: bytes) -> None:
        await asyncio.to_thread(self._write_piece, plain)
        self.received += len(plain)
        self.kept_bytes += _HEAD_BYTES + len(plain) + _TAG_BYTES

    def _write_piece(self, plain: bytes) -> None:
        nonce = os.urandom(_NONCE_BYTES)
        piece = len(plain).to_bytes(4, "big") + nonce + self._cipher.encrypt(nonce, plain, self._about(self.received))
        rest, place = memoryview(piece), self.kept_bytes
        while rest:
            with self._at_work:
                written = os.pwrite(self._file, rest, place)
            rest, place = rest[written:], place + written

    async def read(self) -> AsyncIterator[bytes]:
        """All that is written. Raises Damaged, OSError."""
        done = place = 0
        while place < self.kept_bytes:
            plain = await asyncio.to_thread(self._read_piece, place, done)
            done += len(plain)
            place += _HEAD_BYTES + len(plain) + _TAG_BYTES
            yield plain
        if done != self.received or place != self.kept_bytes:
            raise Damaged

    def _read_piece(self, place: int, done: int) -> bytes:
        with self._at_work:
            piece = os.pread(self._file, _HEAD_BYTES + PIECE_BYTES + _TAG_BYTES, place)
        size = int.from_bytes(piece[:4], "big")
        if len(piece) < _HEAD_BYTES or not 0 < size <= PIECE_BYTES:
            raise Damaged
        sealed = piece[_HEAD_BYTES : _HEAD_BYTES + size + _TAG_BYTES]
        try:
            return self._cipher.decrypt(piece[4:_HEAD_BYTES], sealed, self._about(done))
        except InvalidTag as e:
            raise Damaged from e

    def remove(self) -> None:
        """Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
