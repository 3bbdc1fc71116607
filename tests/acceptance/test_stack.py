"""API, broker, worker and sweeper for real: what a team's script does, and a worker that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, text

from deploy.run import Services, wait_for
from tests.conftest import CAPTURES, make_token

REWINDOW = Path(sys.executable).parent / "rewindow"


def answered(request: urllib.request.Request, patience_s: float = 60) -> HTTPResponse:
    """The answer. A server that is busy (429) or lacks something for now (503) is asked again when it says, as clients
    are meant to do."""
    end = time.monotonic() + patience_s
    while True:
        try:
            response: HTTPResponse = urllib.request.urlopen(request, timeout=60)
            return response
        except urllib.error.HTTPError as e:
            wait_s = float(e.headers.get("Retry-After", "1"))
            if e.code not in (429, 503) or time.monotonic() + wait_s > end:
                raise
            e.close()
            time.sleep(wait_s)


def get(stack: Services, token: str, path: str) -> Any:
    request = urllib.request.Request(stack.address + path, headers={"Authorization": f"Bearer {token}"})
    with answered(request) as response:
        return json.load(response)


def below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Folders and files, those of folders first, but for what vanishes meanwhile."""
    for within, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                yield (path := Path(within, name)), path.stat()


def until(probe: Callable[[], bool], what: str) -> None:
    wait_for(what, probe)


def test_upload_by_command_line_and_curl(stack: Services, token: str) -> None:
    done = subprocess.run(
        [str(REWINDOW), "upload", str(CAPTURES / "mptcp-ecn.pcap"), "--server", stack.address, "--token", token,
         "--tag", "site=lab", "--wait"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert " done " in done.stdout
    assert "quality: good\nconnections: 2 good (100.0% of bytes)\n" in done.stdout
    assert "conformance: all 10752 steps of the controllers are as specified" in done.stdout
    curl = subprocess.run(
        ["curl", "-sS", "-H", f"Authorization: Bearer {token}", "-F", f"file=@{CAPTURES / 'mptcp-ecn.pcap'}",
         f"{stack.address}/v1/captures"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    capture = json.loads(curl.stdout)
    assert capture["state"] == "done", "the same bytes: the same capture"
    assert capture["tags"] == {"site": "lab"}
    failed = subprocess.run(
        [str(REWINDOW), "upload", __file__, "--server", stack.address, "--token", token, "--wait"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert failed.returncode == 1
    assert "neither pcap nor pcapng" in failed.stderr
    wrong = subprocess.run(
        [str(REWINDOW), "upload", __file__, "--server", stack.address, "--token", "rw_wrong"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert wrong.returncode == 4
    assert "401" in wrong.stderr


def test_no_process_connects_as_the_owner_of_the_tables(stack: Services, token: str) -> None:
    assert stack.owner_address
    until(lambda: get(stack, token, "/v1/captures")["items"] == [], "the API's session")
    with psycopg.connect(stack.owner_address) as connection:
        roles = connection.execute(
            "SELECT DISTINCT usename FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    assert roles == [("rewindow_app",)]


def test_upload_that_stops_halfway(stack: Services, token: str) -> None:
    head = f"POST /v1/captures HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stack.port)) as s:
        s.sendall(head.encode() + (CAPTURES / "mptcp-ecn.pcap").read_bytes()[:50_000])
    objects = Path(stack.environment["REWINDOW_STORE_URL"].removeprefix("file://"))
    assert get(stack, token, "/v1/captures")["items"] == []
    until(lambda: all(found.st_size != 50_000 for _, found in below(objects)), "a clean store")


def test_a_killed_worker_loses_nothing(stack: Services, token: str) -> None:
    """kill -9 in the middle of a job: a new worker ends it, and each row is there once."""
    url = stack.environment["REWINDOW_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    database = create_engine(url)
    with database.connect() as blocker:
        blocker.execute(text("LOCK TABLE connections IN SHARE MODE"))  # its results cannot be written
        request = urllib.request.Request(
            f"{stack.address}/v1/captures?filename=killed.pcap",
            data=(CAPTURES / "mptcp-two-subflows.pcap").read_bytes(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/vnd.tcpdump.pcap"},
        )
        with answered(request) as response:
            capture = json.load(response)["id"]
        until(lambda: get(stack, token, f"/v1/captures/{capture}")["stage"] == "storing", "the job")
        worker = stack.processes.pop("worker")
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        stack.start_worker(concurrency=1)
        assert get(stack, token, f"/v1/captures/{capture}")["state"] == "running"
        blocker.rollback()
    until(lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "done", "the job, again")
    items = get(stack, token, f"/v1/captures/{capture}/connections")["items"]
    assert [c["number"] for c in items] == [0, 1]
    detail = get(stack, token, f"/v1/connections/{items[1]['id']}")
    assert [s["number"] for s in detail["subflows"]] == [0, 1]
    assert [r["label"] for r in detail["replays"]] == ["newreno", "cubic", "uncoupled", "css", "tccc"]
    series = get(stack, token, f"/v1/connections/{items[1]['id']}/series?algorithms=tccc&width=10000")
    assert sum(len(line["cwnd"]) for line in series["lines"]) == detail["rows"]
    with database.connect() as connection:
        attempts, state = connection.execute(
            text("SELECT attempts, state FROM jobs WHERE capture_id = :c"), {"c": capture}
        ).one()
    database.dispose()
    assert (attempts, state) == (2, "done")


def test_a_worker_that_stops_hands_its_job_on(stack: Services, token: str) -> None:
    """SIGTERM, as a deployment does it: what waits is run by the next worker."""
    worker = stack.processes.pop("worker")
    worker.terminate()
    worker.wait(120)
    request = urllib.request.Request(
        f"{stack.address}/v1/captures", data=(CAPTURES / "mptcp-receiver-side.pcap").read_bytes(),
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip
    with answered(request) as response:
        capture = json.load(response)["id"]
    assert get(stack, token, f"/v1/captures/{capture}")["state"] == "queued"
    stack.start_worker(concurrency=1)
    until(lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "done", "the job")


def test_a_team_with_many_jobs_keeps_back_nobody(stack: Services, token: str) -> None:
    """While the worker is away one team sends many captures, then another sends one."""
    worker = stack.processes.pop("worker")
    worker.terminate()
    worker.wait(120)
    content = (CAPTURES / "mptcp-receiver-side.pcap").read_bytes()

    def send(token: str, length: int) -> str:
        request = urllib.request.Request(
            f"{stack.address}/v1/captures", data=content[:length], headers={"Authorization": f"Bearer {token}"}
        )
        with answered(request) as response:
            return str(json.load(response)["id"])

    many = [send(token, 20_000 + i) for i in range(8)]
    other = make_token(["read", "write"])
    single = send(other, 20_000)
    stack.start_worker(concurrency=1)

    def analysed(token: str, capture: str) -> str | None:
        at = get(stack, token, f"/v1/captures/{capture}")["analysed_at"]
        return None if at is None else str(at)

    until(lambda: all(analysed(token, c) for c in many), "the many jobs")
    at = analysed(other, single)
    assert at is not None
    assert sum(str(analysed(token, c)) < at for c in many) <= 1
