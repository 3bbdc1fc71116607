"""A folder that capture programs write into: complete files are sent, each once, whatever happens meanwhile."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from deploy.run import wait_for
from rewindow.client import watching
from rewindow.client.service import Refused, Service, Stopped
from rewindow.client.watching import Seen, Sent, State, Watch, WatchFailed
from tests.unit.test_cli import ECN, REWINDOW

HEADER = ECN.read_bytes()[:24]


class Server(ThreadingHTTPServer):
    """Takes captures; `answers` are statuses with their Retry-After that come first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.answers: list[tuple[int, str]] = []
        self.taken: list[tuple[str, bytes]] = []
        self.meanwhile: Callable[[], object] = lambda: None


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.meanwhile()
        (name,) = parse_qs(urlsplit(self.path).query)["filename"]
        status, after = self.server.answers.pop(0) if self.server.answers else (202, "")
        was_here = body in [b for _, b in self.server.taken]
        if status == 202:
            self.server.taken.append((name, body))
        answer = {"id": f"id-{name}", "already_here": was_here} if status == 202 else {"detail": "not now"}
        self.send_response(status)
        if after:
            self.send_header("Retry-After", after)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Watched:
    """A folder with a watch, and what the watch has reported."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.told: list[str] = []
        self.begin()

    def begin(self, unchanged_s: float | None = None, settle_s: float = 0) -> None:
        """As after a restart of the program."""
        self.state = State(self.path, self.server.address)
        service = Service(self.server.address, "rw_x", patience_s=0)
        self.watch = Watch(
            self.folder,
            service,
            self.state,
            tags={},
            report=self.told.append,
            settle_s=settle_s,
            unchanged_s=unchanged_s,
        )

    def look_twice(self) -> list[str]:
        """Names of the captures that the service got now."""
        before = len(self.server.taken)
        self.watch.step()
        self.watch.step()
        return [name for name, _ in self.server.taken[before:]]

    @property
    def path(self) -> Path:
        return self.folder / ".rewindow-watch"

    def after_restart(self) -> dict[str, Sent]:
        """What the state file says, to a program that reads it now."""
        self.state.close()
        self.begin()
        return self.state.files

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.fixture
def watched(server: Server, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(server, tmp_path)
    yield watched
    watched.state.close()


def test_a_file_is_sent_when_it_is_closed(watched: Watched) -> None:
    with (watched.folder / "a.pcap").open("wb") as writing:
        writing.write(HEADER)
        writing.flush()
        assert watched.look_twice() == []
        assert watched.watch.waiting == ["a.pcap"]
        writing.write(b"more")
    assert watched.look_twice() == ["a.pcap"]
    assert watched.server.taken == [("a.pcap", HEADER + b"more")]
    assert watched.look_twice() == []
    assert (watched.watch.counts.sent, watched.watch.counts.size, watched.watch.waiting) == (1, 28, [])


def test_any_name_of_a_capture_will_do(watched: Watched) -> None:
    (watched.folder / "two\nlines.pcap").write_bytes(HEADER)
    assert watched.look_twice() == ["two\nlines.pcap"]


@pytest.mark.parametrize("program", ["tcpdump", "dumpcap"])
def test_rotated_files_of_the_capture_programs(watched: Watched, program: str) -> None:
    """The program reads packets from a pipe, and has begun several files. The last one is open."""
    content = ECN.read_bytes()
    user = ["-Z", "root"] if os.geteuid() == 0 else []
    words = {
        "tcpdump": ["tcpdump", "-r", "-", "-C", "1", "-w", str(watched.folder / "t.pcap"), *user],
        "dumpcap": ["dumpcap", "-i", "-", "-b", "filesize:1000", "-w", str(watched.folder / "t.pcapng")],
    }[program]
    files = 0
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        assert writer.stdin is not None
        writer.stdin.write(content[:24])
        while files < 3:
            writer.stdin.write(content[24:])
            writer.stdin.flush()
            files = len(list(watched.folder.glob("t*")))
        sent = watched.look_twice()
        assert len(sent) >= files - 1
        (last,) = watched.watch.waiting
        assert last not in sent
        writer.stdin.close()
        writer.wait()
    assert watched.look_twice()[-1:] != []
    assert watched.watch.waiting == []
    on_disk = {p.name: p.read_bytes() for p in watched.folder.glob("t*")}
    assert dict(watched.server.taken) == on_disk
    assert len(watched.server.taken) == len(on_disk), "each once"


def test_a_ring_overwrites_what_was_sent(watched: Watched) -> None:
    for turn in range(3):
        for number in range(2):
            watched.write(f"r.pcap{number}", HEADER + bytes([turn, number]))
            assert watched.look_twice() == [f"r.pcap{number}"]
    assert [body[24:] for _, body in watched.server.taken] == [bytes([t, n]) for t in range(3) for n in range(2)]
    assert watched.watch.counts.lost == 0


def test_what_a_ring_takes_before_it_was_sent_is_counted(watched: Watched) -> None:
    watched.server.answers = [(503, "600")]
    paths = [watched.write(f"{n}.pcap", HEADER + n.encode()) for n in "abc"]
    assert watched.look_twice() == []
    assert watched.watch.wait_s > 500
    paths[0].unlink()
    paths[1].write_bytes(HEADER + b"another")
    watched.watch.step()
    assert watched.watch.counts.lost == 2
    assert [t for t in watched.told if t.startswith("lost")] == [
        f"lost     {n}.pcap: overwritten or deleted before it was sent" for n in "ab"
    ]
    with paths[2].open("wb"):
        watched.watch.step()
    assert watched.watch.counts.lost == 3


def test_a_file_that_is_deleted_while_it_is_sent_is_not_lost(watched: Watched) -> None:
    path = watched.write("a.pcap", HEADER)
    watched.server.meanwhile = path.unlink
    assert watched.look_twice() == ["a.pcap"]
    assert (watched.watch.counts.sent, watched.watch.counts.lost) == (1, 0)


def test_a_file_that_is_overwritten_while_it_is_sent_is_sent_as_it_was(watched: Watched) -> None:
    path = watched.write("a.pcap", bytes(5_000_000))
    contents = iter([b"other"])
    watched.server.meanwhile = lambda: [path.write_bytes(c) for c in contents]
    assert watched.look_twice() == ["a.pcap"]
    assert watched.look_twice() == ["a.pcap"]
    assert [b for _, b in watched.server.taken] == [bytes(5_000_000), b"other"]


def test_a_file_that_changes_while_it_is_copied_is_not_sent(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as it was, which is not there any more, nor as a mixture."""
    path = watched.write("a.pcap", b"first")
    is_closed = watching.is_closed
    looks: list[bool | None] = []

    def overwritten(file: object) -> bool | None:
        looks.append(is_closed(file))  # type: ignore[arg-type]
        if len(looks) == 1:
            path.write_bytes(b"second")
        return looks[-1]

    monkeypatch.setattr(watching, "is_closed", overwritten)
    watched.look_twice()
    watched.look_twice()
    assert watched.server.taken == [("a.pcap", b"second")]


def test_a_restart_sends_nothing_twice(watched: Watched) -> None:
    watched.write("a.pcap", HEADER)
    watched.server.answers = [(202, ""), (413, "")]
    watched.write("b.pcap", HEADER + b"large")
    os.utime(watched.folder / "a.pcap", ns=(1, 1))
    assert watched.look_twice() == ["a.pcap"]
    assert watched.watch.counts.refused == 1
    watched.state.close()
    watched.begin()
    watched.write("c.pcap", HEADER + b"c")
    assert watched.look_twice() == ["c.pcap"]
    kept = watched.after_restart()
    assert set(kept) == {"a.pcap", "b.pcap", "c.pcap"}
    assert "413 not now" in str(kept["b.pcap"].error)
    (watched.folder / "a.pcap").unlink()
    watched.watch.step()
    assert set(watched.after_restart()) == {"b.pcap", "c.pcap"}


def test_a_killed_watch_has_lost_nothing(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has the file, and the state file does not say so: it is sent again, and the service has it."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    watched.write("a.pcap", HEADER)
    watched.watch.step()
    monkeypatch.setattr(watching.os, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        watched.watch.step()
    monkeypatch.undo()
    watched.state.close()
    watched.begin()
    assert watched.look_twice() == ["a.pcap"]
    assert watched.watch.counts.were_here == 1
    assert watched.told[-1] == "was here a.pcap: id-a.pcap"


def sent(number: int) -> Sent:
    return Sent(Seen(number, 24, 10**18 + number), capture=f"id-{number}")


def test_each_change_adds_what_it_is_about(watched: Watched) -> None:
    """What is written for a file does not grow with the number of files before it."""
    before, written = watched.path.stat(), []
    for number in range(300):
        size = watched.path.stat().st_size
        watched.state.put(f"{number:04}.pcap", sent(number))
        written.append(watched.path.stat().st_size - size)
    size = watched.path.stat().st_size
    watched.state.keep({f"{number:04}.pcap" for number in range(1, 300)})
    assert watched.path.stat().st_size - size < 100
    assert watched.path.stat().st_ino == before.st_ino, "it was not written anew"
    assert max(written) - min(written) <= 4
    watched.state.put("0007.pcap", sent(1007))
    expected = {f"{n:04}.pcap": sent(1007 if n == 7 else n) for n in range(1, 300)}
    assert (watched.state.files, watched.after_restart()) == (expected, expected)
    assert len(watched.path.read_text().splitlines()) == 300, "the start leaves no line that is over"


def test_a_state_file_does_not_grow_for_ever(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of few files runs for years."""
    monkeypatch.setattr(watching, "_OVER_MIN", 10)
    lengths, files = [], set()
    for number in range(100):
        watched.state.put(f"{number % 5}.pcap", sent(number))
        lengths.append(len(watched.path.read_text().splitlines()))
        files.add(watched.path.stat().st_ino)
    assert max(lengths) <= 1 + 5 + 16
    assert lengths[-1] > 6, "it is not written anew each time"
    assert len(files) > 1
    expected = {f"{n % 5}.pcap": sent(n) for n in range(95, 100)}
    assert (watched.state.files, watched.after_restart()) == (expected, expected)


def test_a_last_line_that_is_cut_was_never_written(watched: Watched) -> None:
    """A kill, or a machine that fails, in the middle of a write: at each byte of it."""
    watched.state.put("a.pcap", sent(1))
    safe = watched.path.read_bytes()
    watched.state.put("b.pcap", sent(2))
    whole = watched.path.read_bytes()
    for length in range(len(safe), len(whole)):
        watched.path.write_bytes(whole[:length])
        assert watched.after_restart() == {"a.pcap": sent(1)}
        watched.state.put("c.pcap", sent(3))
        assert watched.after_restart() == {"a.pcap": sent(1), "c.pcap": sent(3)}
    watched.path.write_bytes(safe + bytes(len(whole) - len(safe) - 1) + b"\n")
    assert watched.after_restart() == {"a.pcap": sent(1)}, "blocks that were not written are zeros"
    watched.path.write_bytes(whole)
    assert watched.after_restart() == {"a.pcap": sent(1), "b.pcap": sent(2)}


def test_a_start_that_is_killed_leaves_the_state_as_it_was(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for number in range(2):
        watched.state.put("a.pcap", sent(number))
    watched.state.close()
    before = watched.path.read_bytes()
    with monkeypatch.context() as patches:
        patches.setattr(watching.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            watched.begin()
    assert watched.path.read_bytes() == before
    assert {p.name for p in watched.folder.iterdir()} == {".rewindow-watch", ".rewindow-watch.lock"}
    watched.begin()
    assert watched.state.files == {"a.pcap": sent(1)}


def test_the_state_of_an_earlier_version(watched: Watched) -> None:
    """It was one document of JSON."""
    seen = {"inode": 5, "size": 24, "mtime_ns": 7}
    files = {
        "a.pcap": {**seen, "capture": "id-a", "error": None}, "\udcff.pcap": {**seen, "capture": None, "error": "no"},
    }  # fmt: skip
    old = {"version": 1, "server": watched.server.address, "files": files}
    watched.path.write_text(json.dumps(old, indent=1) + "\n")
    expected = {
        "a.pcap": Sent(Seen(5, 24, 7), capture="id-a"), "\udcff.pcap": Sent(Seen(5, 24, 7), error="no"),
    }  # fmt: skip
    assert watched.after_restart() == expected
    watched.state.put("b.pcap", sent(1))
    assert watched.after_restart() == {**expected, "b.pcap": sent(1)}
    watched.path.write_text(json.dumps({**old, "server": "http://other"}, indent=1))
    with pytest.raises(WatchFailed, match="is about http://other"):
        watched.after_restart()
    watched.path.unlink()
    watched.begin()


def test_a_state_file_that_another_one_replaced(watched: Watched) -> None:
    """Somebody deleted the lock, and began a second watch: what the first one adds would be lost."""
    (watched.folder / ".rewindow-watch.lock").unlink()
    watched.state.put("a.pcap", sent(1))
    watched.state.put("a.pcap", sent(2))
    second = State(watched.path, watched.server.address)
    with pytest.raises(WatchFailed, match="does another process watch with it"):
        watched.state.put("b.pcap", sent(3))
    second.put("c.pcap", sent(4))
    second.close()
    assert watched.after_restart() == {"a.pcap": sent(2), "c.pcap": sent(4)}


def test_a_disk_that_is_full(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a line is written; the file stays one that can be read."""
    watched.state.put("a.pcap", sent(1))
    real, room = os.write, [20]

    def short(handle: int, data: memoryview) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return real(handle, data[: room.pop()])

    with monkeypatch.context() as patches:
        patches.setattr(watching.os, "write", short)
        with pytest.raises(WatchFailed, match="cannot be written: No space left on device"):
            watched.state.put("b.pcap", sent(2))
    assert watched.after_restart() == {"a.pcap": sent(1)}


def test_a_folder_of_many_files_is_not_looked_at_after_each(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [1000.0], []
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    watched.state.close()
    watched.begin(settle_s=1)
    real = watched.watch.look
    monkeypatch.setattr(watched.watch, "look", lambda: looks.append(now[0]) or real())
    for number in range(6):
        os.utime(watched.write(f"{number}.pcap", HEADER + bytes([number])), ns=(0, number))
    watched.watch.step()
    now[0] += 1
    took = iter((0.5, 0.25, 0.5, 0.125, 0.125, 0.125))

    def takes() -> None:
        now[0] += next(took)

    watched.server.meanwhile = takes
    looks.clear()
    watched.watch.step()
    assert [name for name, _ in watched.server.taken] == [f"{n}.pcap" for n in range(6)]
    assert looks == [1001.0, 1002.25, 1002.625], (
        "one when it has become a second since the last one, and one at the end"
    )


def test_a_service_that_is_away(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    watched.write("a.pcap", HEADER)
    watched.server.answers = [(500, ""), (502, ""), (503, "7"), (429, "90"), (408, "")]
    pauses = []
    watched.watch.step()
    for _ in range(5):
        watched.watch.step()
        pauses.append(watched.watch.wait_s)
        now[0] += watched.watch.wait_s - 0.5
        left = len(watched.server.answers)
        watched.watch.step()
        assert len(watched.server.answers) == left, "it asks before it may"
        now[0] += 0.5
    assert pauses == [1, 2, 7, 90, 16]
    watched.watch.step()
    assert [name for name, _ in watched.server.taken] == ["a.pcap"]
    assert watched.watch.wait_s == 0
    watched.server.shutdown()
    watched.server.server_close()
    watched.write("b.pcap", HEADER)
    watched.watch.step()
    watched.watch.step()
    assert "Connection refused" in watched.told[-1]
    assert watched.watch.waiting == ["b.pcap"]


@pytest.mark.parametrize(("status", "error"), [(401, Stopped), (403, Stopped), (404, Refused)])
def test_what_no_attempt_mends_ends_the_watch(watched: Watched, status: int, error: type[Exception]) -> None:
    watched.write("a.pcap", HEADER)
    watched.server.answers = [(status, "")]
    watched.watch.step()
    with pytest.raises(error, match=f"{status} not now"):
        watched.watch.step()
    assert watched.state.files == {}


def test_the_oldest_is_sent_first(watched: Watched) -> None:
    for name, age in (("c.pcap", 3), ("a.pcap", 1), ("b.pcap", 2)):
        os.utime(watched.write(name, name.encode()), ns=(0, -age * 10**9))
    assert watched.look_twice() == ["c.pcap", "b.pcap", "a.pcap"]


def test_what_is_compressed_later_is_the_same_file(watched: Watched) -> None:
    """tcpdump -z gzip: gzip keeps the time of the file that it takes away."""
    path = watched.write("a.pcap", HEADER)
    assert watched.look_twice() == ["a.pcap"]
    subprocess.run(["gzip", str(path)], check=True)
    assert watched.look_twice() == []
    path = watched.write("b.pcap", HEADER + b"b")
    watched.watch.step()
    subprocess.run(["gzip", str(path)], check=True)
    assert watched.look_twice() == ["b.pcap.gz"]
    assert gzip.decompress(watched.server.taken[-1][1]) == HEADER + b"b"
    assert watched.watch.counts.lost == 0
    watched.write("a.pcap.gz", b"another capture")
    assert watched.look_twice() == ["a.pcap.gz"]


def test_what_is_no_capture_of_the_folder_is_left_alone(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "deep.pcap").mkdir()
    (tmp_path / "link.pcap").symlink_to(ECN)
    os.mkfifo(tmp_path / "fifo.pcap")
    for name in ("x.txt", ".hidden.pcap", "pcap", "x.pcap.part", "x.pcapx"):
        watched.write(name, HEADER)
    watched.write("empty.pcap", b"")
    taken = [f"x.{e}" for e in ("pcap", "pcap12", "PCAPNG", "cap", "pcap.gz", "pcapng3.zst")]
    for name in taken:
        watched.write(name, name.encode())
    odd = os.fsdecode(b"\xff\x1b[2J.pcap")
    watched.write(odd, b"odd")
    assert set(watched.look_twice()) == {*taken, "?\x1b[2J.pcap"}
    assert odd in watched.state.files
    assert watched.watch.waiting == []
    watched.state.close()
    watched.begin()
    assert watched.look_twice() == []


def test_where_the_kernel_does_not_say_what_is_closed(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS, or for files of other users."""
    now = [1000.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(watching.fcntl, "fcntl", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    watched.write("a.pcap", HEADER)
    assert watched.look_twice() == []
    watched.look_twice()
    assert len(watched.told) == 1
    assert "a.pcap: the system does not say whether a program writes it: watch as its owner" in watched.told[0]
    watched.state.close()
    watched.begin(unchanged_s=30)
    for sent in ([], []):
        assert watched.look_twice() == sent
        now[0] += 14
    watched.write("a.pcap", HEADER + b"it was not complete")
    assert watched.look_twice() == []
    now[0] += 30
    assert watched.look_twice() == ["a.pcap"]


def test_a_file_has_to_settle(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may close a file and open it again for more."""
    now = [1000.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    watched.state.close()
    watched.begin(settle_s=10)
    watched.write("a.pcap", HEADER)
    for elapsed in (0, 9, 0.5):
        now[0] += elapsed
        assert watched.look_twice() == []
    watched.write("a.pcap", HEADER + b"more")
    assert watched.look_twice() == []
    now[0] += 9.5
    assert watched.look_twice() == []
    now[0] += 0.5
    assert watched.look_twice() == ["a.pcap"]
    assert watched.server.taken == [("a.pcap", HEADER + b"more")]


def test_a_ring_that_begins_an_unsent_file_anew(watched: Watched) -> None:
    with watched.write("a.pcap", HEADER * 2).open("r+b") as writing:
        watched.look_twice()
        writing.seek(0, os.SEEK_END)
        writing.write(b"more")
        writing.flush()
        watched.look_twice()
        assert watched.watch.counts.lost == 0
        writing.truncate(24)
        watched.look_twice()
        assert watched.watch.counts.lost == 1
    assert watched.look_twice() == ["a.pcap"]


def test_a_link_in_the_place_of_a_file_is_not_followed(watched: Watched) -> None:
    (watched.folder / "a.pcap").symlink_to(ECN)
    os.mkfifo(watched.folder / "b.pcap")
    with watched.watch._opened("a.pcap") as file:
        assert file is None
    with watched.watch._opened("b.pcap") as file:
        assert file is not None, "nobody writes into it, and the watch does not wait for one"


def test_a_writer_does_not_wait_for_the_watch(tmp_path: Path) -> None:
    """The lease that proves that a file is closed is given back at once."""
    path = tmp_path / "a.pcap"
    path.write_bytes(HEADER)
    with path.open("rb") as file:
        assert watching.is_closed(file) is True
        assert fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_UNLCK
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        with path.open("ab"):
            assert watching.is_closed(file) is False


def test_a_state_file_is_of_one_watch_and_one_server(watched: Watched) -> None:
    path = watched.folder / ".rewindow-watch"
    with pytest.raises(WatchFailed, match="another process watches with it"):
        State(path, watched.server.address)
    watched.write("a.pcap", HEADER)
    watched.look_twice()
    watched.state.close()
    with pytest.raises(WatchFailed, match="is about http://127"):
        State(path, "http://other")
    good = path.read_text()
    head, line = good.splitlines(keepends=True)
    for broken in (
        "",
        "[]",
        "{}",
        head[:-10],
        good.replace('"version": 2', '"version": 3'),
        line,
        head + line.replace('"size"', '"x"') + line,
        head + line[:-10] + "\n" + line,
        head + '{"name": "b.pcap", "gone": true}\n' + line,
    ):
        path.write_text(broken)
        with pytest.raises(WatchFailed, match="is not what `rewindow watch` wrote"):
            State(path, watched.server.address)
    path.write_text(good)
    watched.begin()
    shutil.rmtree(watched.folder / "gone", ignore_errors=True)
    with pytest.raises(WatchFailed, match="--state names another place"):
        State(watched.folder / "gone" / "state", watched.server.address)


def test_the_command(server: Server, tmp_path: Path) -> None:
    """From its start to SIGTERM, with a restart that finds everything sent."""
    words = [str(REWINDOW), "watch", str(tmp_path), "--server", server.address, "--token", "rw_x", "--every", "0.01"]
    shutil.copyfile(ECN, tmp_path / "a.pcap")
    once = subprocess.run([*words, "--once"], capture_output=True, text=True)
    size = f"{ECN.stat().st_size / 1000:.2f} kB" if ECN.stat().st_size < 1e6 else f"{ECN.stat().st_size / 1e6:.2f} MB"
    assert (once.returncode, once.stderr) == (0, "")
    assert once.stdout == f"sent     a.pcap: id-a.pcap\n1 sent ({size})\n"
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        (tmp_path / "b.pcap").write_bytes(HEADER)
        wait_for("the capture", lambda: len(server.taken) == 2)
        wait_for("the state", lambda: "b.pcap" in (tmp_path / ".rewindow-watch").read_text())
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=30)
    assert running.returncode == 0
    assert out == "sent     b.pcap: id-b.pcap\n1 sent (24 B)\n"
    (tmp_path / "c.pcap").write_bytes(b"c")
    server.answers = [(413, "")]
    refused = subprocess.run([*words, "--once"], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout.splitlines()[-1]) == (4, "0 sent (0 B); 1 refused")
    gone = subprocess.run([*words[:2], str(tmp_path / "no"), *words[3:]], capture_output=True, text=True)
    assert gone.returncode == 4
    assert "No such file or directory" in gone.stderr
