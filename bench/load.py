"""How fast the API answers, with and without many event streams open: `make bench-load`.

Starts a PostgreSQL, a Redis and an API of its own. No worker runs while it measures: the captures of the streams
stay queued, and so do uploads. Some clients send the same request, each over one connection. For each kind of request,
rounds without and with the streams take turns, and the median of the rounds counts. Prints Markdown.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from bench.services import own_services
from bench.speed import machine, table
from deploy.run import SAMPLE, Services, stop_process, token_for, wait_for

LISTED = 50
"""Captures on the page that `list` requests."""

_number = itertools.count()


class Client:
    """A client that keeps its connection open."""

    def __init__(self, services: Services, token: str) -> None:
        self._connection = http.client.HTTPConnection(services.host, services.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        self._connection.request(method, path, body=body, headers=self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status not in (200, 202):
            raise SystemExit(f"{method} {path}: {response.status} {answer.decode()}")
        return json.loads(answer)

    def upload(self, content: bytes) -> Any:
        return self.ask("POST", "/v1/captures?filename=load.pcap", content)

    def upload_another(self) -> None:
        """Uploads other bytes each time: a capture that is cut after some of its packets."""
        self.upload(SAMPLE.read_bytes()[: 20_000 + next(_number)])


@contextmanager
def streams(services: Services, token: str, captures: list[str], count: int) -> Iterator[None]:
    """Event streams that stay open, and are read."""
    ended = threading.Event()
    with selectors.DefaultSelector() as selector:
        opened = []
        for capture in itertools.islice(itertools.cycle(captures), count):
            s = socket.create_connection((services.host, services.port), 60)
            s.sendall(
                f"GET /v1/captures/{capture}/events HTTP/1.1\r\nHost: {services.host}:{services.port}\r\n"
                f"Authorization: Bearer {token}\r\n\r\n".encode()
            )
            if not s.recv(4096).startswith(b"HTTP/1.1 200"):
                raise SystemExit("a stream was refused")
            opened.append(s)
            selector.register(s, selectors.EVENT_READ)

        def read() -> None:
            while not ended.is_set():
                for key, _ in selector.select(0.1):
                    if not key.fileobj.recv(65536):  # type: ignore[union-attr]
                        raise SystemExit("a stream ended")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            ended.set()
            reader.join()
            for s in opened:
                s.close()


def rate(clients: Sequence[Client], request: Callable[[Client], object], seconds: float) -> float:
    """Answers in a second, of all clients together. The clients must be new: the server closes idle connections."""
    end = time.perf_counter() + seconds

    def work(client: Client) -> int:
        count = 0
        while time.perf_counter() < end:
            request(client)
            count += 1
        return count

    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as threads:
        count = sum(threads.map(work, clients))
    return count / (time.perf_counter() - began)


def prepare(services: Services, token: str) -> tuple[str, list[str]]:
    """Makes an analysed connection, and captures that wait."""
    client = Client(services, token)
    worker = services.start_worker(concurrency=1)
    analysed = client.upload(SAMPLE.read_bytes())["id"]
    wait_for("the analysis", lambda: client.ask("GET", f"/v1/captures/{analysed}")["state"] == "done", [worker])
    connection = client.ask("GET", f"/v1/captures/{analysed}/connections")["items"][0]["id"]
    stop_process(services.processes.pop("worker"))
    for _ in range(LISTED):
        client.upload_another()
    waiting = client.ask("GET", f"/v1/captures?state=queued&limit={LISTED}")["items"]
    return connection, [c["id"] for c in waiting]


def measured(services: Services, options: argparse.Namespace) -> Iterator[str]:
    token = token_for(services, "bench")
    connection, waiting = prepare(services, token)
    requests: dict[str, Callable[[Client], object]] = {
        "list": lambda c: c.ask("GET", f"/v1/captures?limit={LISTED}"),
        "connection": lambda c: c.ask("GET", f"/v1/connections/{connection}"),
        "series": lambda c: c.ask("GET", f"/v1/connections/{connection}/series"),
        "upload": lambda c: c.upload_another(),
    }

    def clients() -> list[Client]:
        return [Client(services, token) for _ in range(options.clients)]

    rows = []
    for name, request in requests.items():
        without, within = [], []
        for _ in range(options.rounds):
            without.append(rate(clients(), request, options.seconds))
            with streams(services, token, waiting, options.streams):
                within.append(rate(clients(), request, options.seconds))
        alone, beside = statistics.median(without), statistics.median(within)
        rows.append((name, f"{alone:.0f}", f"{beside:.0f}", f"{beside / alone:.2f}"))
    yield (
        f"On {machine()}, which also runs the clients. "
        f"{options.clients} clients, {options.streams} event streams, median of {options.rounds} rounds of "
        f"{options.seconds:g} s each.\n"
    )
    heading = ("request", "answers/s without streams", f"with {options.streams}", "ratio")
    yield from table(heading, rows, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="measures how fast the API answers beside event streams")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    # the limits are not what is measured
    with own_services(REWINDOW_TEAM_REQUESTS_PER_S="1000000") as services:
        services.start_api()
        print("\n".join(measured(services, options)))


if __name__ == "__main__":
    main()
