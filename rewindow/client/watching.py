"""A folder into which capture programs write, and what of it was sent to a service.

tcpdump (`-C`, `-G`, `-W`) and dumpcap (`-b`) close a file before they begin the next one, and may overwrite or delete
it later. A file is sent when no process has it open for writing, which the kernel says, and when it has not changed for
a while. It is copied before, and sent only if it is still what it was: a ring may overwrite it meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rewindow.client import uploads
from rewindow.client.service import Refused, ServerBusy, ServerFailed, Service, Stopped
from rewindow.errors import RewindowError

CAPTURES = re.compile(r".+\.(pcap|pcapng|cap)\d*(\.(gz|zst|xz|bz2|lz4))?", re.IGNORECASE | re.DOTALL)
"""Names of captures; tcpdump's -C writes its number behind the suffix."""
_COMPRESSED = re.compile(r"\.(gz|zst|xz|bz2|lz4)$", re.IGNORECASE)
_VERSION = 2
"""Of the state file."""
_OVER_MIN = 1000
"""So many lines that are over are left in it while a watch runs."""
_PAUSE_S, _PAUSE_MAX_S = 1.0, 60.0
"""After the first failure, and the longest; it doubles with each."""
_COPY_BYTES = 1 << 20


class WatchFailed(RewindowError):
    """The folder or the state file cannot be used."""


@dataclass(frozen=True)
class Seen:
    """What tells one content of a file from another one."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Seen:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Sent:
    """capture: its id in the service; error: why the service does not take it. One of them is there."""

    seen: Seen
    capture: str | None = None
    error: str | None = None

    @classmethod
    def told(cls, told: Mapping[str, Any]) -> Sent:
        """Raises KeyError, TypeError, ValueError."""
        return cls(Seen(*(int(told[n]) for n in ("inode", "size", "mtime_ns"))), told["capture"], told["error"])

    def tell(self) -> dict[str, Any]:
        return {**asdict(self.seen), "capture": self.capture, "error": self.error}


class State:
    """What was sent, by file name, in a file to which each change adds a line of JSON.

    The first line has the version and the server; then comes for each change either what was sent of a file, or that
    the file is `gone`. A line is on the disk before its change counts. A program that is killed in the middle of one
    leaves a last line that is cut: it counts as never written. The file is written anew, and replaced as a whole,
    where it has lines that are over: at the start, and when they are more than the others.
    """

    def __init__(self, path: Path, server: str) -> None:
        """Raises WatchFailed: another process uses the file, it is of another server, or it cannot be read."""
        self._path, self._server = path, server
        self.files: dict[str, Sent] = {}
        self._over = 0
        """Lines that a later one has made void."""
        self._journal = -1
        try:
            self._lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise self._unwritable(e, "; --state names another place") from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._read():
                self._open()
            else:
                self._compact()
        except BlockingIOError as e:
            self.close()
            raise WatchFailed(f"{path}: another process watches with it") from e
        except BaseException:
            self.close()
            raise

    def _unwritable(self, e: OSError, advice: str = "") -> WatchFailed:
        return WatchFailed(f"{self._path}: cannot be written: {e.strerror}{advice}")

    def _read(self) -> bool:
        """Can lines be added to the file as it is? Raises WatchFailed."""
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as e:
            raise WatchFailed(f"{self._path}: {e}") from e
        try:
            server, is_clean = self._understand(text)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise WatchFailed(
                f"{self._path}: is not what `rewindow watch` wrote ({e}). Without it all files are sent again; the"
                " service recognises those that it has"
            ) from e
        if server != self._server:
            raise WatchFailed(f"{self._path}: is about {server}; --state names a file for another server")
        return is_clean

    def _understand(self, text: str) -> tuple[str, bool]:
        """The server that it is about, and whether all of it holds. Raises what wrong JSON raises."""
        head, *lines = text.splitlines(keepends=True) or [""]
        if head == "{\n":  # the whole file is one document: so an earlier version wrote it
            kept = json.loads(text)
            _check_version(kept["version"], 1)
            self.files = {name: Sent.told(told) for name, told in kept["files"].items()}
            return str(kept["server"]), False
        begun = json.loads(head)
        _check_version(begun["version"], _VERSION)
        for number, line in enumerate(lines, 1):
            try:
                if not line.endswith("\n"):
                    raise ValueError("the last line is cut")
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                if number < len(lines):
                    raise
                return str(begun["server"]), False
        return str(begun["server"]), not self._over

    def _apply(self, change: dict[str, Any]) -> None:
        name = str(change["name"])
        if "gone" in change:
            del self.files[name]
            self._over += 2
        else:
            sent = Sent.told(change)
            self._over += name in self.files
            self.files[name] = sent

    def put(self, name: str, sent: Sent) -> None:
        """Raises WatchFailed."""
        self._add([{"name": name, **sent.tell()}])

    def keep(self, names: set[str]) -> None:
        """Forgets all other files. Raises WatchFailed."""
        gone = [n for n in self.files if n not in names]
        if gone:
            self._add([{"name": n, "gone": True} for n in gone])

    def _add(self, changes: list[dict[str, Any]]) -> None:
        """Raises WatchFailed."""
        rest = memoryview("".join(json.dumps(c) + "\n" for c in changes).encode())
        try:
            if os.fstat(self._journal).st_nlink == 0:
                raise WatchFailed(
                    f"{self._path}: was deleted or replaced meanwhile; does another process watch with it?"
                )
            while rest:
                rest = rest[os.write(self._journal, rest) :]
            os.fsync(self._journal)
        except OSError as e:
            raise self._unwritable(e) from e
        for change in changes:
            self._apply(change)
        if self._over > len(self.files) + _OVER_MIN:
            self._compact()

    def _compact(self) -> None:
        """Raises WatchFailed."""
        try:
            handle, name = tempfile.mkstemp(prefix=self._path.name + ".", dir=self._path.parent)
            try:
                with os.fdopen(handle, "w") as out:
                    out.write(json.dumps({"version": _VERSION, "server": self._server}) + "\n")
                    out.writelines(json.dumps({"name": n, **s.tell()}) + "\n" for n, s in self.files.items())
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(name, self._path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
                raise
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as e:
            raise self._unwritable(e) from e
        self._over = 0
        self._open()

    def _open(self) -> None:
        """Raises WatchFailed."""
        self._close_journal()
        try:
            self._journal = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as e:
            raise self._unwritable(e) from e

    def _close_journal(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1

    def close(self) -> None:
        self._close_journal()
        os.close(self._lock)


def _check_version(found: Any, known: int) -> None:
    """Raises ValueError."""
    if found != known:
        raise ValueError(f"version {found} is not known")


@dataclass
class Counts:
    """Files since the watch began."""

    sent: int = 0
    were_here: int = 0
    """That the service had before."""
    refused: int = 0
    lost: int = 0
    """That were overwritten or deleted before they could be sent."""
    size: int = 0
    """Bytes of those that were sent."""


def is_closed(file: IO[bytes]) -> bool | None:
    """Does no process of this machine have the file open for writing? None: the kernel does not say.

    A read lease is only given on such a file (fcntl(2), F_SETLEASE); only the file's owner and root may ask.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Who opens the file in this moment waits until the lease is given back. The kernel tells it by a signal, which
        # would end the process; SIGURG is ignored.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return False
    except OSError:
        return None
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that end the program wait: what was done is noted, counted and told, or nothing of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Watch:
    """settle_s: for how long a file must not have changed before it is sent. unchanged_s: the same where the kernel
    does not say whether it is closed; None: such a file is not sent. report: told of each file, in a line."""

    def __init__(
        self,
        folder: Path,
        service: Service,
        state: State,
        *,
        tags: Mapping[str, str],
        report: Callable[[str], None],
        settle_s: float,
        unchanged_s: float | None = None,
        matches: Callable[[str], bool] = lambda name: CAPTURES.fullmatch(name) is not None,
    ) -> None:
        self._folder, self._service, self._state, self._tags = folder, service, state, tags
        self._report, self._matches = report, matches
        self._settle_s, self._unchanged_s = settle_s, unchanged_s
        self._unsent: dict[str, tuple[Seen, float]] = {}
        """What the look before has found and what was not sent, and since when it is so (monotonic clock)."""
        self._ready: dict[str, Seen] = {}
        """What of it can be sent."""
        self._told: set[tuple[str, str]] = set()
        self._pause_s, self._not_before = 0.0, 0.0
        self.counts = Counts()

    def step(self) -> None:
        """Looks, and sends what can be sent. Raises WatchFailed, and Refused or Stopped where no attempt would
        succeed."""
        self.look()
        while self._ready and not self.wait_s:
            looked = time.monotonic()
            for name in sorted(
                self._ready, key=lambda n: (self._ready[n].mtime_ns, n)
            ):  # a ring takes the oldest first
                self._send(name)
                if self.wait_s or time.monotonic() - looked >= self._settle_s:
                    break  # a look costs as much as the folder has files: it is not for each of them
            self.look()

    @property
    def wait_s(self) -> float:
        """Until something can be sent again; 0: at once."""
        return max(0.0, self._not_before - time.monotonic())

    @property
    def waiting(self) -> list[str]:
        """Files that were not sent: a program still writes them, or may do so, or the service is away."""
        return sorted(self._unsent)

    def look(self) -> None:
        """Finds what there is, and what of it can be sent. Raises WatchFailed."""
        found = dict(self._found())
        plain = {_COMPRESSED.sub("", name) for name in found if _COMPRESSED.search(name)}
        for name, (seen, _) in self._unsent.items():
            if self._is_lost(seen, found.get(name), name in self._ready) and name not in plain:
                self.counts.lost += 1
                self._report(f"lost     {name}: overwritten or deleted before it was sent")
        now = time.monotonic()
        unsent, self._ready = {}, {}
        for name, seen in found.items():
            if seen.size == 0 or self._is_known(name, seen):
                continue
            before, since = self._unsent.get(name, (None, now))
            unsent[name] = (seen, since if before == seen else now)
            if before == seen and self._is_complete(name, seen, now - since):
                self._ready[name] = seen
        self._unsent = unsent
        self._told = {(name, what) for name, what in self._told if name in unsent}
        # What was sent may now be there compressed.
        self._state.keep(found.keys() | plain)

    @staticmethod
    def _is_lost(before: Seen, now: Seen | None, was_ready: bool) -> bool:
        """A file that is written grows; one that was ready does not change."""
        if now is None or was_ready:
            return now != before
        return now.inode != before.inode or now.size < before.size

    def _found(self) -> Iterator[tuple[str, Seen]]:
        """Raises WatchFailed."""
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not self._matches(entry.name):
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        about = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(about.st_mode):
                            yield entry.name, Seen.of(about)
        except OSError as e:
            raise WatchFailed(f"{self._folder}: {e.strerror}") from e

    def _is_known(self, name: str, seen: Seen) -> bool:
        """Was it sent or refused, as it is or before it was compressed? Compressors keep a file's time."""
        sent = self._state.files.get(name)
        if sent is not None and sent.seen == seen:
            return True
        plain = self._state.files.get(_COMPRESSED.sub("", name))
        return plain is not None and plain is not sent and plain.seen.mtime_ns == seen.mtime_ns

    def _is_complete(self, name: str, seen: Seen, unchanged_s: float) -> bool:
        if unchanged_s < self._settle_s:
            return False
        with self._opened(name) as file:
            if file is None or Seen.of(os.fstat(file.fileno())) != seen:
                return False
            closed = is_closed(file)
        if closed is not None:
            return closed
        if self._unchanged_s is None:
            self._tell_once(
                name,
                "the system does not say whether a program writes it: watch as its owner or as root, or say with"
                " --unchanged-for how long a complete file has not changed",
            )
            return False
        return unchanged_s >= self._unchanged_s

    def _tell_once(self, name: str, what: str) -> None:
        if (name, what) not in self._told:
            self._told.add((name, what))
            self._report(f"waiting  {name}: {what}")

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes] | None]:
        """None: it is not there any more, or cannot be read."""
        try:
            # Nothing in the folder may make the watch wait (a FIFO), or lead it elsewhere (a link).
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        except OSError as e:
            self._tell_once(name, e.strerror or str(e))
            yield None
            return
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def _send(self, name: str) -> None:
        """Raises WatchFailed, Stopped, Refused."""
        seen = self._ready[name]
        try:
            with tempfile.TemporaryFile() as copy:
                if not self._copied(name, seen, copy):
                    return  # the next look finds what has become of it
                capture = uploads.send(self._service, copy, name, self._tags, name)
        except (Stopped, Refused):
            raise
        except (ServerFailed, OSError) as e:
            if isinstance(e, uploads.CaptureRefused) and not e.may_succeed_later:
                with _undisturbed():
                    self._done(name, Sent(seen, error=str(e)))
                    self.counts.refused += 1
                    self._report(f"refused  {e}")
            else:
                self._wait(e)
        else:
            self._pause_s = 0.0
            was_here = bool(capture.get("already_here"))
            with _undisturbed():
                self._done(name, Sent(seen, capture=str(capture["id"])))
                self.counts.sent += not was_here
                self.counts.were_here += was_here
                self.counts.size += 0 if was_here else seen.size
                self._report(f"{'was here' if was_here else 'sent    '} {name}: {capture['id']}")

    def _done(self, name: str, sent: Sent) -> None:
        """Raises WatchFailed."""
        del self._unsent[name], self._ready[name]  # it may be gone meanwhile, and is not lost
        self._state.put(name, sent)

    def _wait(self, failure: ServerFailed | OSError) -> None:
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s or _PAUSE_S)
        pause_s = max(self._pause_s, failure.wait_s if isinstance(failure, ServerBusy) else 0.0)
        self._not_before = time.monotonic() + pause_s
        self._report(f"waiting  {pause_s:g} s, {len(self._ready)} to send: {failure}")

    def _copied(self, name: str, seen: Seen, copy: IO[bytes]) -> bool:
        """Copies the file, which a ring may overwrite while it is sent. False: it changes, or is not there any more."""
        with self._opened(name) as file:
            if file is not None:
                while chunk := file.read(_COPY_BYTES):
                    copy.write(chunk)
                copy.flush()
                if is_closed(file) is not False and Seen.of(os.fstat(file.fileno())) == seen:
                    return True
        self._unsent[name] = (seen, time.monotonic())  # it has to stay unchanged once more
        return False
