"""What other teams notice while a team deletes its largest capture: `make bench-neighbours`.

Starts all services. One team uploads a capture of many short connections. While its results are being stored, many
clients send DELETE for it at once. All the time another team's clients list captures, read a connection and upload.
Prints Markdown: the longest time that one of their requests took, before the DELETEs and from then on.
"""

from __future__ import annotations

import argparse
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import Client
from bench.services import own_services
from bench.speed import build, machine, table
from bench.storing import generate
from deploy.run import CHECKOUT, SAMPLE, Services, token_for, wait_for

DELETES = 16
STORING_S, AFTER_S = 2.0, 20.0


@dataclass
class Times:
    """Of requests: when each began, and the seconds that it took."""

    began: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def longest(self, since: float, until: float) -> float:
        return max((t for b, t in zip(self.began, self.took, strict=True) if since <= b < until), default=0.0)


def another_token(services: Services, team: str) -> str:
    command = [sys.executable, "-m", "store.admin", "token", team, "--name", "bench"]
    done = subprocess.run(command, cwd=CHECKOUT, env=services.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def upload_file(services: Services, token: str, path: Path) -> str:
    """Sends a capture as its body comes from the file; returns its id."""
    connection = http.client.HTTPConnection(services.host, services.port, timeout=600)
    with path.open("rb") as file:
        headers = {"Authorization": f"Bearer {token}", "Content-Length": str(path.stat().st_size)}
        connection.request("POST", f"/v1/captures?filename={path.name}", body=file, headers=headers)
        response = connection.getresponse()
        answer = response.read().decode()
    if response.status != 202:
        raise SystemExit(f"upload: {response.status} {answer}")
    return response.headers["Location"].rsplit("/", 1)[1]


def delete(services: Services, token: str, capture: str) -> tuple[int, float]:
    began = time.perf_counter()
    connection = http.client.HTTPConnection(services.host, services.port, timeout=60)
    connection.request("DELETE", f"/v1/captures/{capture}", headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    return status, time.perf_counter() - began


def measured(services: Services, path: Path, connections: int) -> Iterator[str]:
    large, other = token_for(services, "large"), another_token(services, "other")
    worker = services.processes["worker"]
    sample = Client(services, other).upload(SAMPLE.read_bytes())["id"]
    wait_for(
        "the sample", lambda: Client(services, other).ask("GET", f"/v1/captures/{sample}")["state"] == "done", [worker]
    )
    first = Client(services, other).ask("GET", f"/v1/captures/{sample}/connections")["items"][0]["id"]
    requests: dict[str, Callable[[Client], object]] = {
        "list": lambda c: c.ask("GET", "/v1/captures?limit=50"),
        "connection": lambda c: c.ask("GET", f"/v1/connections/{first}"),
        "upload": lambda c: c.upload_another(),
    }
    capture = upload_file(services, large, path)

    def wait_until_storing() -> None:
        client = Client(services, large)
        while (stage := client.ask("GET", f"/v1/captures/{capture}")["stage"]) != "storing":
            if stage in ("done", "failed"):
                raise SystemExit(f"the capture is {stage} before it was seen storing")
            time.sleep(0.05)

    times = {name: Times() for name in requests}
    ended = threading.Event()

    def work(name: str) -> None:
        client = Client(services, other)
        while not ended.is_set():
            times[name].began.append(time.perf_counter())
            requests[name](client)
            times[name].took.append(time.perf_counter() - times[name].began[-1])
            time.sleep(0.02)

    with ThreadPoolExecutor(len(requests) + DELETES) as threads:
        try:
            working = [threads.submit(work, name) for name in requests]
            wait_until_storing()
            start = time.perf_counter()
            time.sleep(STORING_S)
            deleted_at = time.perf_counter()
            deletes = list(threads.map(lambda _: delete(services, large, capture), range(DELETES)))
            time.sleep(AFTER_S)
        finally:
            ended.set()
        for future in working:
            future.result()
    end = time.perf_counter()
    answers = ", ".join(str(status) for status in sorted({status for status, _ in deletes}))
    slowest = max(seconds for _, seconds in deletes)
    yield (
        f"On {machine()}. {connections} connections; {DELETES} DELETEs at once while they were being stored: the "
        f"slowest took {slowest:.2f} s, answers {answers}.\n"
    )
    rows = [
        (
            name,
            f"{t.longest(0, start):.2f} s",
            f"{t.longest(start, deleted_at):.2f} s",
            f"{t.longest(deleted_at, end):.2f} s",
        )
        for name, t in times.items()
    ]
    heading = ("another team's request", "longest before storing", "while storing", "from the DELETEs on")
    yield from table(heading, rows, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="measures what other teams notice of a large capture's deletion")
    parser.add_argument("--connections", type=int, default=1_000_000)
    options = parser.parse_args()
    build()
    path = generate(options.connections)
    # the limits are not what is measured
    with own_services(CHECKOUT / "build", REWINDOW_TEAM_REQUESTS_PER_S="1000000") as services:
        services.start_worker()
        services.start_api()
        print("\n".join(measured(services, path, options.connections)))


if __name__ == "__main__":
    main()
