"""docker-compose.yml: what its health checks say of real processes, and what it passes on."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.run import CHECKOUT, Services, free_port, redis_program, stop_process, wait_for
from store.database import HASH_MEM_MULTIPLIER

BIN = Path(sys.executable).parent
OWN = ("migrate", "api", "worker", "checker", "sweeper", "alerter")


def composed(**environment: str) -> dict[str, Any]:
    """The services as docker-compose reads them, with this environment."""
    done = subprocess.run(
        [BIN / "docker-compose", "-f", "docker-compose.yml", "config", "--format", "json"], cwd=CHECKOUT, check=True,
        env={"PATH": os.environ["PATH"], "POSTGRES_PASSWORD": "x", "REDIS_PASSWORD": "y",
             "REWINDOW_DATABASE_PASSWORD": "z", **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout)["services"])


def healthy(name: str, environment: dict[str, str], there: str, here: str) -> bool:
    """What the service's check says here. there: something of the container, in whose place is `here`."""
    kind, command = composed()[name]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    command = command.replace("$$", "$")
    assert there in command
    command = command.replace(there, here)
    done = subprocess.run(
        ["sh", "-c", command], cwd=CHECKOUT, env={**environment, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True, timeout=180,
    )  # fmt: skip
    return done.returncode == 0


def test_everything_that_runs_has_a_health_check() -> None:
    services = composed()
    assert {name for name, its in services.items() if "healthcheck" not in its} == {"migrate"}, "it ends"


def test_images_of_others_are_pinned_by_digest() -> None:
    """Compose passes the same ones that the Dockerfile has for who builds without compose."""
    pinned = re.compile(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}")
    services = composed()
    dockerfile = (CHECKOUT / "deploy" / "Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", dockerfile, re.MULTILINE))
    assert services["api"]["build"]["args"] == arguments
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {f"${{{name}}}" for name in arguments}
    others = [its["image"] for its in services.values() if "build" not in its]
    assert len(others) == 2
    for image in (*arguments.values(), *others):
        assert pinned.fullmatch(image), image


def test_a_store_without_tls_can_be_allowed() -> None:
    for name in OWN:
        assert composed()[name]["environment"]["AWS_ALLOW_HTTP"] == "false"
        assert composed(AWS_ALLOW_HTTP="true")[name]["environment"]["AWS_ALLOW_HTTP"] == "true"


def test_only_the_api_knows_how_people_sign_in() -> None:
    """The secret is a file. Without one the client is public."""
    given = {"REWINDOW_OIDC_ISSUER": "https://accounts.example", "REWINDOW_OIDC_CLIENT_SECRET_FILE": "/etc/hostname"}
    services = composed(**given)
    assert {name for name, its in services.items() if "accounts.example" in json.dumps(its)} == {"api"}
    (secret,) = services["api"]["secrets"]
    assert {name for name, its in services.items() if its.get("secrets")} == {"api"}
    path = services["api"]["environment"]["REWINDOW_OIDC_CLIENT_SECRET_FILE"]
    assert path == f"/run/secrets/{secret['source'] if isinstance(secret, dict) else secret}"


def test_only_the_migration_connects_as_the_owner_of_the_tables() -> None:
    services = composed(POSTGRES_PASSWORD="owners", REWINDOW_DATABASE_PASSWORD="services")
    assert {name for name, its in services.items() if "owners" in json.dumps(its)} == {"migrate", "postgres"}
    for name in OWN:
        address = services[name]["environment"]["REWINDOW_DATABASE_URL"]
        assert address == "postgresql://rewindow_app:services@postgres:5432/rewindow"
    its = services["migrate"]
    assert its["command"] == ["python", "-m", "migrations"], "tests/service/test_role.py runs it"
    assert its["environment"]["REWINDOW_OWNER_DATABASE_URL"] == "postgresql://rewindow:owners@postgres:5432/rewindow"


def test_postgresql_has_shared_memory_for_processes_that_hash_together() -> None:
    """For four queries of three processes at once; a container that asks for nothing has 64 MB."""
    work_mem = 4 << 20
    given = int(composed()["postgres"]["shm_size"])
    assert given >= 4 * 3 * work_mem * HASH_MEM_MULTIPLIER


def test_redis_asks_for_its_password(tmp_path: Path) -> None:
    """The command and the health check of compose, here; and the address that the services get."""
    port = free_port()
    its = composed(REDIS_PASSWORD="secret")
    assert its["worker"]["environment"]["REWINDOW_REDIS_URL"] == "redis://:secret@redis:6379/0"
    shell, option, command = (word.replace("$$", "$") for word in its["redis"]["command"])
    assert "secret" not in command
    command = command.replace("redis-server -", f"{redis_program()} - --port {port} --bind 127.0.0.1 --dir {tmp_path}")
    environment = {"PATH": os.environ["PATH"], **its["redis"]["environment"]}
    with subprocess.Popen([shell, option, command], env=environment, start_new_session=True) as server:
        try:
            client = redis.Redis(port=port, password="secret")
            wait_for("Redis", lambda: answers(client))
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(port=port).ping()
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_tshark_has_neither_network_nor_secrets_nor_store(tmp_path: Path) -> None:
    services = composed(AWS_SECRET_ACCESS_KEY="x")
    its = services["tshark"]
    assert its["network_mode"] == "none"
    assert set(its["environment"]) == {"REWINDOW_ALLOW_UNCONFINED"}
    assert [volume["source"] for volume in its["volumes"]] == ["tshark"]
    sharing = {name for name, s in services.items() if any(v["source"] == "tshark" for v in s.get("volumes", []))}
    assert sharing == {"tshark", "api", "worker", "checker"}
    there, here = its["command"][-1], str(tmp_path / "socket")
    assert all(
        services[name]["environment"]["REWINDOW_TSHARK_SOCKET"] == there for name in ("api", "worker", "checker")
    )
    kind, _, *check = its["healthcheck"]["test"]
    assert kind == "CMD"

    def answers() -> bool:
        command = [sys.executable, *(word.replace(there, here) for word in check)]
        return subprocess.run(command, capture_output=True).returncode == 0

    assert not answers()
    service = subprocess.Popen([sys.executable, *its["command"][1:-1], here])
    wait_for("tshark's service", answers, [service])
    stop_process(service)


def test_images_of_others_can_be_pinned_by_digest() -> None:
    names = {"POSTGRES_IMAGE", "REDIS_IMAGE", "NODE_IMAGE", "PYTHON_IMAGE", "MAVEN_IMAGE"}
    pinned = {name: f"{name.lower()}@sha256:{'0' * 64}" for name in names}
    services = composed(**pinned)
    used = {services["postgres"]["image"], services["redis"]["image"], *services["api"]["build"]["args"].values()}
    assert used == set(pinned.values())
    stages = [
        line.split()[1] for line in (CHECKOUT / "deploy/Dockerfile").read_text().splitlines() if line[:5] == "FROM "
    ]
    assert all(s.startswith("${") and s[2:-1] in names for s in stages), stages
    example = (CHECKOUT / "deploy/env.example").read_text()
    assert all(f"#{name}=" in example for name in names)


def test_a_worker_that_hangs_is_unhealthy(stack: Services) -> None:
    name = f"worker-{os.getpid()}@{socket.gethostname()}"
    names = ("celery@$(hostname)", name)
    wait_for("the worker", lambda: healthy("worker", stack.environment, *names))
    worker = stack.processes["worker"]
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        assert not healthy("worker", stack.environment, *names)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    wait_for("the worker", lambda: healthy("worker", stack.environment, *names))


def test_a_sweeper_that_hangs_is_unhealthy(services: Services, tmp_path: Path) -> None:
    file = tmp_path / "sweeper"
    names = ("/run/sweeper", str(file))
    assert composed()["sweeper"]["environment"]["REWINDOW_HEARTBEAT_FILE"] == "/run/sweeper"
    assert not healthy("sweeper", services.environment, *names), "there is no file before the first sweep"
    other = Services(tmp_path)
    other.environment = {**services.environment, "REWINDOW_HEARTBEAT_FILE": str(file)}
    sweeper = other.start_sweeper()
    try:
        wait_for("a sweep", file.exists, [sweeper])
        assert healthy("sweeper", services.environment, *names)
        os.kill(sweeper.pid, signal.SIGSTOP)
        os.utime(file, (time.time() - 61,) * 2)
        assert not healthy("sweeper", services.environment, *names)
        os.kill(sweeper.pid, signal.SIGCONT)
        wait_for("the next sweep", lambda: healthy("sweeper", services.environment, *names), [sweeper])
    finally:
        stop_process(sweeper)


@pytest.fixture
def bucket() -> Iterator[tuple[str, list[str]]]:
    """An S3 endpoint without TLS that takes whatever is put; the paths that were put."""
    put: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            put.append(self.path)
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", put
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("allowed", [True, False])
def test_the_store_without_tls_is_used_when_it_is_allowed(bucket: tuple[str, list[str]], allowed: bool) -> None:
    endpoint, put = bucket
    given = composed(
        REWINDOW_STORE_URL="s3://captures", AWS_ENDPOINT=endpoint, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b",
        AWS_ALLOW_HTTP=str(allowed).lower(),
    )["worker"]["environment"]  # fmt: skip
    code = "import io; from store import objects; objects.put_file('captures/1/capture', io.BytesIO(b'x'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) is allowed, done.stderr
    assert put == (["/captures/captures/1/capture"] if allowed else [])
