"""The API as several processes, and clients that are slow or say nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tusclient.client import TusClient
from uvicorn import Config

from api.resumable.service import STEP_BYTES
from api.supervisor import RESTART_S, STARTS_MAX, Processes
from deploy.run import CHECKOUT, Services, stop_process, wait_for
from rewindow.cli import DONE, FAILED, main
from rewindow.client import resuming, uploads
from rewindow.client.service import Service
from tests.conftest import CAPTURES, make_token
from tests.packets import Trace

REQUEST_S = 2.0


@pytest.fixture(scope="module")
def api(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """An API of two processes that waits for requests for two seconds only."""
    started = Services(tmp_path_factory.mktemp("api"))
    started.environment = {
        **services.environment, "REWINDOW_API_PROCESSES": "2", "REWINDOW_REQUEST_S": str(REQUEST_S),
        "REWINDOW_TEAM_REQUESTS_PER_S": "100",
    }  # fmt: skip
    process = started.start_api()
    yield started
    stop_process(process)


def serving(api: Services) -> list[int]:
    """The processes that serve: they have the listening socket, and so has the first one, which does not serve."""
    first = api.processes["api"].pid
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == first and b"spawn_main" in command:
                found.append(int(folder.name))
    return sorted(found)


@contextmanager
def only(api: Services, process: int) -> Iterator[None]:
    """All processes but this one are stopped: it serves each request.

    The first process, too: it would take a long stop for a process that hangs. It stops first and goes on last, so
    that it has the answer to each question that it asked.
    """
    stopped = [api.processes["api"].pid, *(p for p in serving(api) if p != process)]
    for other in stopped:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in reversed(stopped):
            os.kill(other, signal.SIGCONT)


def ask(api: Services, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any], Any]:
    """Status, answer, headers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(api.address + path, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.loads(response.read() or b"{}"), response.headers
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.loads(e.read()), e.headers


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_sessions_and_metrics_are_those_of_all(api: Services, token: str) -> None:
    first, second = serving(api)
    with only(api, first):
        status, _, headers = ask(api, "/v1/session", {"token": token}, Origin=api.address)
        assert status == 201
        cookie = headers["Set-Cookie"].partition(";")[0]
    told = []
    for process in (first, second):
        with only(api, process):
            assert ask(api, "/v1/teams/me", Cookie=cookie)[0] == 200
            told.append(scrape(api))
    jobs, ok = 'rewindow_jobs{state="queued"}', answers("/v1/teams/me", 200)
    assert told[0][jobs] == told[1][jobs]
    assert told[1][ok] == told[0].get(ok, 0) + 1, "what the other one has answered counts, too"
    with only(api, second):
        assert ask(api, "/v1/teams/me")[0] == 401


def scrape(api: Services) -> dict[str, float]:
    """The lines of /metrics that have a number."""
    with urllib.request.urlopen(f"{api.address}/metrics", timeout=20) as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def answers(route: str, status: int) -> str:
    """The name of their number in /metrics."""
    return f'rewindow_http_requests_total{{method="GET",route="{route}",status="{status}"}}'


def counting_folder(process: int) -> Path:
    """Where this process of the API counts."""
    variables = dict(v.split(b"=", 1) for v in Path(f"/proc/{process}/environ").read_bytes().split(b"\0") if v)
    return Path(os.fsdecode(variables[b"PROMETHEUS_MULTIPROC_DIR"]))


def test_events_reach_the_streams_of_each(api: Services, token: str) -> None:
    """A capture is uploaded to one process, and deleted by the other: the stream of the first ends."""
    first, second = serving(api)
    with only(api, first):
        request = urllib.request.Request(
            f"{api.address}/v1/captures", (CAPTURES / "mptcp-ecn.pcap").read_bytes()[:30_000], bearer(token)
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            capture = json.load(response)["id"]
        url = urllib.request.Request(f"{api.address}/v1/captures/{capture}/events", headers=bearer(token))
        stream = urllib.request.urlopen(url, timeout=20)
        assert stream.readline() == b"event: progress\n"
    with (
        only(api, second),
        urllib.request.urlopen(
            urllib.request.Request(f"{api.address}/v1/captures/{capture}", headers=bearer(token), method="DELETE"),
            timeout=20,
        ) as response,
    ):
        assert response.status == 204
    with stream:
        assert stream.read().startswith(b"data: ")


def test_a_process_that_dies_is_succeeded(api: Services, token: str) -> None:
    before = serving(api)
    ok = answers("/v1/specs", 200)
    with only(api, before[0]):
        assert ask(api, "/v1/specs", **bearer(token))[0] == 200
        counted = scrape(api)[ok]
    folder = counting_folder(before[0])
    files = {p.name for p in folder.iterdir()}
    os.kill(before[0], signal.SIGKILL)
    wait_for("another process", lambda: len(serving(api)) == 2 and before[0] not in serving(api))
    (other,) = set(serving(api)) - set(before)

    def serves() -> bool:
        try:
            with only(api, other):
                return ask(api, "/v1/captures", **bearer(token))[0] == 200
        except OSError:
            return False

    wait_for("it to serve", serves)
    with only(api, other):
        assert scrape(api)[ok] == counted, "what the dead one has answered counts"
        assert ask(api, "/v1/specs", **bearer(token))[0] == 200
        assert scrape(api)[ok] == counted + 1
    assert {p.name for p in folder.iterdir()} == files, "it counts on in the same files"


def test_processes_end_with_the_first_one(services: Services, tmp_path: Path) -> None:
    """Else they would keep the address from the one that is started next."""
    own = Services(tmp_path)
    own.environment = {**services.environment, "REWINDOW_API_PROCESSES": "2"}
    process = own.start_api()
    children = serving(own)
    assert len(children) == 2
    left = counting_folder(children[0])
    process.kill()
    process.wait()
    wait_for("their end", lambda: not any(Path(f"/proc/{p}").exists() for p in children))
    with socket.create_server((own.host, own.port)):
        pass
    assert left.exists()
    own.environment["REWINDOW_API_PROCESSES"] = "1"
    alone = own.start_api()
    assert not left.exists(), "the next start removes it"
    assert ask(own, "/v1/captures")[0] == 401
    assert scrape(own)[answers("/v1/captures", 401)] == 1, "one process counts as well, and from 0"
    stop_process(alone)


def test_processes_that_cannot_start_are_given_up(services: Services, tmp_path: Path) -> None:
    """After pauses that grow, with the reason in the log, and an exit status for whoever has started them."""
    own = Services(tmp_path)
    own.environment = {
        **services.environment, "REWINDOW_API_PROCESSES": "2", "REWINDOW_LOG_JSON": "true",
        "REWINDOW_DASHBOARD_FOLDER": str(tmp_path / "missing"),
    }  # fmt: skip
    process = own.launch("api", "api", "--host", own.host, "--port", str(own.port))
    assert process.wait(600) == 1
    said = (own.logs / "api.log").read_text()
    assert f"Directory '{tmp_path}/missing/assets' does not exist" in said
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    pauses = [e["again_in_s"] for e in events if e["event"] == "api.process_ended"]
    assert sorted(pauses)[:4] == [RESTART_S, RESTART_S, 2 * RESTART_S, 2 * RESTART_S]
    assert len(pauses) >= 2 * STARTS_MAX, "none is given up before the others"
    assert events[-1]["event"] == "api.cannot_start"


def test_a_process_has_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer yet is left alone, but not for ever."""
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.SIGNALS", {})  # they stay those of the tests
    processes = Processes(Config("nothing:app", workers=1, timeout_worker_healthcheck=0), [])
    processes.init_processes()
    (process,) = processes.processes
    os.kill(process.process.pid or 0, signal.SIGSTOP)
    try:
        processes.keep_subprocess_alive()
        assert process.process.is_alive()
        monkeypatch.setattr("api.supervisor._START_S", 0.0)
        processes.keep_subprocess_alive()
        assert process.exitcode == -signal.SIGKILL
    finally:
        process.process.kill()


HEAD = b"POST /v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


def connect(api: Services, sent: bytes) -> socket.socket:
    s = socket.create_connection((api.host, api.port), 30)
    s.sendall(sent)
    return s


def rest(s: socket.socket) -> bytes:
    """What the server still says, until it closes the connection."""
    found = b""
    try:
        while data := s.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def test_half_open_connections_keep_out_nobody(api: Services, token: str) -> None:
    with ExitStack() as stack:
        began = time.monotonic()
        opened = [stack.enter_context(connect(api, HEAD[: i % len(HEAD)])) for i in range(900)]
        assert ask(api, "/v1/captures", **bearer(token))[0] == 200
        assert {rest(s) for s in opened} == {b""}
        assert time.monotonic() - began >= REQUEST_S


def test_a_further_request_that_does_not_come(api: Services) -> None:
    with connect(api, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as s:
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += s.recv(65536)
        began = time.monotonic()
        s.sendall(b"GET /healthz")
        assert rest(s) == b""
        assert time.monotonic() - began >= REQUEST_S


def test_a_body_that_does_not_come(api: Services) -> None:
    with connect(api, HEAD + b"Origin: http://x\r\n\r\n{") as s:
        answer = rest(s)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 2 s" in answer


@pytest.mark.parametrize("told", [True, False])
def test_a_body_that_is_too_large(api: Services, told: bool) -> None:
    """It is refused before anything parses it, and before all of it is there."""
    length = b"Content-Length: 1000000000\r\n" if told else b"Transfer-Encoding: chunked\r\n"
    head = HEAD.replace(b"Content-Length: 100\r\n", length) + b"\r\n"
    piece = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    with connect(api, head + (b"" if told else piece * 2)) as s:
        answer = s.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")


def tus(api: Services, token: str) -> TusClient:
    """A client that knows nothing of rewindow."""
    return TusClient(f"{api.address}/v1/uploads", headers=bearer(token))


def test_a_resumable_upload_by_a_kept_client(api: Services, token: str) -> None:
    """In parts with checksums, and on from where another run has stopped."""
    content = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    told = {"filename": "capture.pcap", "tags": json.dumps(["site=a"])}
    first = tus(api, token).uploader(
        file_stream=io.BytesIO(content), chunk_size=20_000, metadata=told, upload_checksum=True
    )
    first.upload(stop_at=60_000)
    on = tus(api, token).uploader(file_stream=io.BytesIO(content), chunk_size=30_000, url=first.url)
    assert on.offset == 60_000
    on.upload()
    _, told_now, _ = ask(api, urllib.parse.urlsplit(first.url).path, **bearer(token))
    capture = told_now["capture"]
    found = (capture["sha256"], capture["filename"], capture["tags"], capture["already_here"])
    assert found == (hashlib.sha256(content).hexdigest(), "capture.pcap", {"site": "a"}, False)


def test_the_commands_of_the_guide(api: Services, token: str) -> None:
    section = (CHECKOUT / "docs" / "guide.md").read_text().split("### Large captures")[1]
    script = section.split("```sh\n")[1].split("```")[0].replace("http://127.0.0.1:8000", api.address)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=CHECKOUT, env={**os.environ, "TOKEN": token}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    capture = json.loads(done.stdout)["capture"]
    content = (CAPTURES / "mptcp-three-subflows.pcap").read_bytes()
    found = (capture["sha256"], capture["filename"], capture["tags"])
    assert found == (hashlib.sha256(content).hexdigest(), "mptcp-three-subflows.pcap", {"site": "lab"})


def holder(api: Services, path: Path) -> int:
    """The process that has this file open."""
    for process in serving(api):
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                if file.readlink() == path:
                    return process
    raise AssertionError("no process has it")


def test_a_resumable_upload_whose_process_is_killed(api: Services, token: str) -> None:
    """In the middle of a part: the upload goes on where HEAD says, by another process."""
    content = random.Random(7).randbytes(STEP_BYTES * 3 // 2)
    folder = Path(api.environment["REWINDOW_UPLOADS_FOLDER"])
    begun = tus(api, token).uploader(file_stream=io.BytesIO(content))
    begun.set_url(begun.create_url())
    known = set(folder.iterdir())
    head = (
        f"PATCH {urllib.parse.urlsplit(begun.url).path} HTTP/1.1\r\nHost: {api.host}\r\nTus-Resumable: 1.0.0\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/offset+octet-stream\r\nUpload-Offset: 0\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((api.host, api.port)) as connection:
        connection.sendall(head.encode() + content[: STEP_BYTES * 5 // 4])
        wait_for("the first step", lambda: begun.get_offset() > 0)
        (file,) = set(folder.iterdir()) - known
        os.kill(holder(api, file), signal.SIGKILL)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    on = tus(api, token).uploader(file_stream=io.BytesIO(content), url=begun.url, chunk_size=4 << 20)
    assert 0 < on.offset <= STEP_BYTES * 5 // 4
    on.upload()
    capture = ask(api, urllib.parse.urlsplit(begun.url).path, **bearer(token))[1]["capture"]
    assert capture["sha256"] == hashlib.sha256(content).hexdigest()
    wait_for("both processes", lambda: len(serving(api)) == 2)


class Cutting:
    """A way to the API on which connections break: the next ones after so many bytes to the API each."""

    def __init__(self, api: Services, *after: int) -> None:
        self.after, self.offsets = list(after), list[int]()
        """offsets: Upload-Offset of each request that has one."""
        self._api, self._listening = api, socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                self._forward(self._listening.accept()[0])

    def _forward(self, client: socket.socket) -> None:
        """One connection at a time, as the command has them."""
        left = self.after.pop(0) if self.after else None
        with client, socket.create_connection((self._api.host, self._api.port)) as server, suppress(OSError):
            while True:
                for source in select.select([client, server], [], [])[0]:
                    some = source.recv(1 << 16 if left is None else min(1 << 16, max(left, 1)))
                    if not some or left == 0:
                        return
                    if source is client:
                        self.offsets += [int(n) for n in re.findall(rb"Upload-Offset: (\d+)", some)]
                        left = None if left is None else left - len(some)
                    (server if source is client else client).sendall(some)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def test_the_command_goes_on_with_a_large_capture(
    api: Services, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same run as long as there is progress; and when it is run again."""
    monkeypatch.setattr(uploads, "LARGE_BYTES", 1)
    monkeypatch.setattr(resuming, "_PAUSE_S", 0.1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    content = random.Random(8).randbytes(4_000_000)
    path = tmp_path / "large.pcap"
    path.write_bytes(content)
    request, part = 10_000, 1_500_000
    asked = ["upload", str(path), "--token", token, "--tag", "site=a", "--server"]
    way = Cutting(api, request, request, part, request, request, part)
    try:
        with monkeypatch.context() as patches:
            patches.setattr("rewindow.cli._service", lambda args: Service(args.server, args.token, patience_s=0.0))
            assert main([*asked, way.address]) == FAILED
        assert "127.0.0.1" in capsys.readouterr().err
        (note,) = resuming.folder().iterdir()
        assert note.stat().st_mode & 0o777 == 0o600
        place = note.read_text()
        wait_for("the first part", lambda: ask(api, place, **bearer(token))[1]["received"] > 1_000_000)
        assert main([*asked, way.address]) == DONE
        assert not list(resuming.folder().iterdir())
        first, again, *_, last = way.offsets
        assert (first, way.offsets) == (0, sorted(way.offsets))
        assert 1_000_000 < again < last, "each goes on where the one before it stopped"
        assert main([*asked, way.address]) == DONE
    finally:
        way.close()
    told, told_again = (line.split()[0] for line in capsys.readouterr().out.splitlines())
    assert told == told_again, "the same capture, whatever state its job has reached"
    capture = ask(api, f"/v1/captures/{told}", **bearer(token))[1]
    found = (capture["sha256"], capture["filename"], capture["tags"])
    assert found == (hashlib.sha256(content).hexdigest(), "large.pcap", {"site": "a"})


LARGE_BYTES = 256 << 20
LARGE_NEEDS_BYTES = 100 << 20
"""Of memory, beside what the process has without an upload: parts of the copy that are on their way to the store."""


def large(seed: int) -> bytes:
    """A capture whose packet, which comes again and again, is as large as it can be."""
    trace = Trace()
    trace.packet(0.0, True, 1, 1, payload=60_000)
    time_ns, header, length = trace.records[0]
    trace.records[0] = (time_ns, header + random.Random(seed).randbytes(60_000), length)
    once = trace.bytes()
    head, record = once[:24], once[24:]
    return head + record * (LARGE_BYTES // len(record))


def memory_bytes(process: int, name: str) -> int:
    """VmRSS: memory that it has; VmHWM: the most that it had since `forget_peak`."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found
    return int(found[1]) << 10


def forget_peak(process: int) -> None:
    Path(f"/proc/{process}/clear_refs").write_text("5")


@pytest.mark.parametrize("payload", ["kept", "cut"])
def test_memory_does_not_grow_with_an_upload(api: Services, payload: str) -> None:
    """Of one request, and of a resumable one."""
    owner = make_token(["read", "write"], payload=payload)
    for process in serving(api):
        with only(api, process):  # refused, but what an upload needs is loaded, also by one that has only just started
            ask(api, "/v1/captures", {}, **bearer(owner))
    before = {process: memory_bytes(process, "VmRSS") for process in serving(api)}
    for process in before:
        forget_peak(process)
    plain = urllib.request.Request(f"{api.address}/v1/captures", large(1), bearer(owner), method="POST")
    with urllib.request.urlopen(plain) as answer:
        assert answer.status == 202
    resumable = tus(api, owner).uploader(file_stream=io.BytesIO(large(2)), chunk_size=LARGE_BYTES * 2 // 3)
    resumable.upload()
    capture = ask(api, urllib.parse.urlsplit(resumable.url).path, **bearer(owner))[1]["capture"]
    assert (capture["bytes"] > LARGE_BYTES * 0.99) == (payload == "kept")
    needed = {process: memory_bytes(process, "VmHWM") - rss for process, rss in before.items()}
    assert max(needed.values()) < LARGE_NEEDS_BYTES, needed
