"""`make up` on a host that others use, with processes that are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from deploy.run import CHECKOUT, RESTART_MOST_S, RESTART_S, Services, alive, wait_for
from tests.acceptance.test_stack import below

RUN = CHECKOUT / "deploy" / "run.py"


def environment(local: Path) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("REWINDOW_")} | {"REWINDOW_LOCAL": str(local)}


def run(local: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *arguments], env=environment(local), capture_output=True, text=True, timeout=600
    )


def shown(text: str) -> dict[str, str]:
    """What `make up` prints at its end, by its first word."""
    return {word: rest for line in text.splitlines() if line for word, _, rest in [line.partition(" ")]}


@pytest.fixture(scope="module")
def local() -> Iterator[Path]:
    """The folder of a `make up` that runs. PostgreSQL's user has to get there, too."""
    folder = Path(tempfile.mkdtemp(prefix="rewindow-up-"))
    folder.chmod(0o755)
    started = run(folder, "up", "--detach")
    assert started.returncode == 0, started.stderr
    assert shown(started.stdout)["token"].strip() == (folder / "token").read_text().strip()
    yield folder
    run(folder, "down")
    shutil.rmtree(folder)


PARTS = ("alerts", "api")
"""Ordinary parts of paths, too: the whole word tells."""


def processes(local: Path) -> dict[str, tuple[int, dict[str, str]]]:
    """The process groups' leaders that `make up` has started: what they are, their number and their environment."""
    found = {}
    supervisor = json.loads((local / "run.json").read_text())["supervisor"][0]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                variables = (folder / "environ").read_bytes().decode().split("\0")
            except OSError:
                continue
            if parent == supervisor:
                names = ("postgres", "redis", "valkey", "worker.sweeper", "alerts", "rewindow-checks", "celery", "api")
                name = next((n for n in names if any(n == w if n in PARTS else n in w for w in command)), None)
                if name is None:  # it has just ended, or is not yet what it will be
                    continue
                found[name.replace("valkey", "redis")] = (
                    int(folder.name),
                    dict(v.partition("=")[::2] for v in variables),
                )
    return found


def is_another(local: Path, name: str, before: int) -> bool:
    """The process has ended, and its successor runs: nobody may have seen the time between."""
    return processes(local).get(name, (before,))[0] != before


def addresses(local: Path) -> tuple[str, str]:
    """Of PostgreSQL and Redis, with their passwords."""
    its = processes(local)["api"][1]
    return its["REWINDOW_DATABASE_URL"], its["REWINDOW_REDIS_URL"]


def without_password(address: str) -> str:
    kind, _, rest = address.partition("://")
    return f"{kind}://{'rewindow_app@' if kind == 'postgresql' else ''}{rest.partition('@')[2]}"


def test_nobody_else_on_the_host_comes_in(local: Path) -> None:
    database, broker = addresses(local)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(without_password(database))
    assert redis.Redis.from_url(broker).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(without_password(broker)).ping()
    modes = {p: found.st_mode for p, found in below(local)}
    readable = {
        str(p.relative_to(local))
        for p, mode in modes.items()
        if mode & 0o044 and all(modes[d] & 0o011 for d in p.parents if d in modes)
    }
    assert readable == set()
    secrets = [(local / "token").read_text().strip(), *(p.read_text() for p in (local / "passwords").iterdir())]
    assert len(secrets) == 4
    commands = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    logs = "".join(p.read_text(errors="replace") for p in (local / "log").iterdir())
    for secret in secrets:
        assert secret not in commands
        assert secret not in logs


def test_no_command_line_has_the_token(local: Path) -> None:
    """Also not for a moment, while `make up` asks whether the token is still good."""
    token = (local / "token").read_text().strip()
    database, broker = addresses(local)
    listed = subprocess.run(
        [sys.executable, "-m", "store.admin", "token", "local", "--keep", str(local / "token")], cwd=CHECKOUT,
        env=environment(local) | {"REWINDOW_DATABASE_URL": database, "REWINDOW_REDIS_URL": broker,
                                  "REWINDOW_STORE_URL": (local / "objects").as_uri()},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.strip() == token
    refused = subprocess.run(
        [sys.executable, "-m", "store.admin", "token", "local", f"--keep={token}"], cwd=CHECKOUT,
        env=environment(local) | {"REWINDOW_DATABASE_URL": database, "REWINDOW_REDIS_URL": broker,
                                  "REWINDOW_STORE_URL": (local / "objects").as_uri()},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert refused.stdout.strip() != token, "a token is no file: a new one was made"


def get(local: Path, address: str, path: str) -> int:
    request = urllib.request.Request(
        address + path, headers={"Authorization": f"Bearer {(local / 'token').read_text().strip()}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as e:
        e.close()
        return e.code
    except OSError:
        return 0


def test_what_is_killed_starts_again(local: Path) -> None:
    address = f"http://127.0.0.1:{json.loads((local / 'run.json').read_text())['port']}"
    before = processes(local)
    assert before.keys() == {"postgres", "redis", "api", "worker.sweeper", "alerts", "rewindow-checks", "celery"}
    for name in ("postgres", "celery"):
        os.kill(before[name][0], signal.SIGKILL)
    wait_for(
        "PostgreSQL to be away",
        lambda: get(local, address, "/readyz") == 503 or is_another(local, "postgres", before["postgres"][0]),
    )
    wait_for(
        "all of it", lambda: get(local, address, "/v1/captures") == 200 and processes(local).keys() == before.keys()
    )
    after = processes(local)
    assert {n for n in before if before[n][0] != after[n][0]} >= {"postgres", "celery"}
    assert "postgresql ended with status -9: it starts again" in (local / "log" / "up.log").read_text()
    os.kill(after["redis"][0], signal.SIGKILL)
    again = run(local, "up", "--detach")
    assert again.returncode == 0, again.stderr
    assert "mptcp-two-subflows.pcap: 10337 packets" in again.stdout
    assert processes(local).keys() == before.keys()


def problem(local: Path, path: str, body: bytes | None = None) -> tuple[int, str | None, str]:
    """Status, Retry-After and body of an answer."""
    address = f"http://127.0.0.1:{json.loads((local / 'run.json').read_text())['port']}"
    token = (local / "token").read_text().strip()
    request = urllib.request.Request(address + path, body, {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.headers["Retry-After"], response.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.headers["Retry-After"], e.read().decode()


def test_dependencies_that_are_away_are_no_errors_of_ours(local: Path) -> None:
    """503 says that the same request may succeed later; nothing of the inside is told."""
    its = processes(local)
    os.kill(its["postgres"][0], signal.SIGKILL)
    wait_for(
        "PostgreSQL to be away",
        lambda: problem(local, "/readyz")[0] == 503 or is_another(local, "postgres", its["postgres"][0]),
    )
    for path in ("/v1/captures", "/metrics", "/readyz"):
        status, retry, text = problem(local, path)
        if status != 200:  # it may be back by now
            assert (status, retry is not None) == (503, True), (path, text)
            assert "127.0.0.1" not in text
    wait_for("PostgreSQL", lambda: problem(local, "/readyz")[0] == 200)

    os.kill(its["redis"][0], signal.SIGSTOP)
    try:
        for path in ("/metrics", "/readyz"):
            status, retry, text = problem(local, path)
            assert (status, retry is not None) == (503, True), (path, text)
    finally:
        os.kill(its["redis"][0], signal.SIGCONT)
    wait_for("Redis", lambda: problem(local, "/readyz")[0] == 200)

    (local / "objects").rename(local / "objects-away")
    (local / "objects").touch()
    try:
        status, retry, text = problem(local, "/readyz")
        assert (status, retry is not None) == (503, True), text
        assert json.loads(text)["dependencies"] | {"object_store": ""} == {
            "database": "ok", "redis": "ok", "object_store": "",
        }  # fmt: skip
        status, retry, text = problem(local, "/v1/captures", b"a capture")
        assert (status, retry is not None) == (503, True), text
        assert str(local) not in text
    finally:
        (local / "objects").unlink()
        (local / "objects-away").rename(local / "objects")
    wait_for("the object store", lambda: problem(local, "/readyz")[0] == 200)


def test_a_copy_leaves_the_original_alone(local: Path) -> None:
    """Its state and its PostgreSQL's lock came with it, and name the original's processes."""
    copy = Path(tempfile.mkdtemp(prefix="rewindow-copy-"))
    try:
        copy.chmod(0o755)
        shutil.copy(local / "run.json", copy)
        data = copy / "postgresql" / "data"
        data.mkdir(parents=True)
        shutil.copy(local / "postgresql" / "data" / "PG_VERSION", data)
        shutil.copy(local / "postgresql" / "data" / "postmaster.pid", data)
        before = processes(local)
        assert run(copy, "down").stdout == "nothing is running\n"
        from deploy.run import Postgres

        Postgres(copy / "postgresql").stop_leftover()
        assert not (data / "postmaster.pid").exists()
        time.sleep(RESTART_S)
        assert {n: p for n, (p, _) in processes(local).items()} == {n: p for n, (p, _) in before.items()}
        assert all(alive(p) for p, _ in before.values())
    finally:
        shutil.rmtree(copy)


def test_pauses_grow(tmp_path: Path) -> None:
    services = Services(tmp_path)
    services._keep("false", lambda: subprocess.Popen(["false"]))
    now, pauses = 0.0, []
    for _ in range(9):
        services.processes["false"].wait()
        services.supervise(now)
        due = services._watched["false"].due
        assert due is not None
        pauses.append(due - now)
        services.supervise(due - 0.01)
        assert services._watched["false"].due == due, "not before it is due"
        now = due
        services.supervise(now)
    assert pauses == [min(RESTART_S * 2**n, RESTART_MOST_S) for n in range(9)]
    services.processes["false"].wait()
    services.supervise(now)
    services.hurry()
    services.supervise(now)
    assert services._watched["false"].due is None, "started at once"
    services.processes["false"].wait()


def test_data_of_a_version_that_trusted_everybody() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rewindow-trust-"))
    folder.chmod(0o755)
    services = Services(folder, durable=False)
    try:
        services._start_postgresql()
        with psycopg.connect(str(services.owner_address)) as connection:
            connection.execute("CREATE TABLE kept (x int); ALTER USER app PASSWORD NULL")
        services.stop()
        access = folder / "postgresql" / "data" / "pg_hba.conf"
        access.write_text(access.read_text().replace("scram-sha-256\n", "trust\n"))
        services._start_postgresql()
        address = str(services.owner_address)
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(address.partition("app:")[0] + "app@" + address.partition("@")[2])
    finally:
        services.stop()
        shutil.rmtree(folder)
