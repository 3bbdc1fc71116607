"""Uploads that go on while things break, and what becomes of each."""

from __future__ import annotations

import http.client
import json
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from deploy.run import CHECKOUT

SAMPLE = CHECKOUT / "tests" / "captures" / "mptcp-two-subflows.pcap"
PACKETS = 1500
"""Of the sample in each capture: its analysis takes some tenths of a second."""
AT_ONCE = 5
"""Captures that wait or run, so that all workers have work."""
_ENDED = ("done", "failed")


def capture(number: int, packets: int = PACKETS) -> bytes:
    """The sample's first packets, as bytes that no other number has: the field of pcap's header that nobody reads."""
    data = SAMPLE.read_bytes()
    end = 24
    for _ in range(packets):
        if end >= len(data):
            break
        end += 16 + struct.unpack_from("<I", data, end + 8)[0]
    return data[:12] + struct.pack("<I", number) + data[16:end]


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]
    retry_after_s: float


class Client:
    """One team's script. Raises OSError or HTTPException where the API does not answer."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._headers = port, {"Authorization": f"Bearer {token}"}

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        timeout_s: float = 30.0,
        content_type: str | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_s)
        headers = self._headers if content_type is None else {**self._headers, "Content-Type": content_type}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            return Answer(response.status, json.loads(text or b"{}"), float(response.headers["Retry-After"] or 1))
        finally:
            connection.close()

    def begin(self, path: str, announced: int, body: bytes) -> http.client.HTTPConnection:
        """Sends the first bytes of a request that announces more of them."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.putrequest("POST", path)
        for name, value in {**self._headers, "Content-Length": str(announced)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body)
        return connection


BROKEN = (OSError, http.client.HTTPException, ValueError)
"""What a client meets while the API is killed or stopped."""


@dataclass
class Uploads:
    """Uploads captures, one after the other, as long as less than AT_ONCE of them wait or run."""

    client: Client
    accepted: dict[str, str] = field(default_factory=dict)
    """Ids of captures that were answered with 202, and the latest state that the API told."""
    errors: dict[str, str] = field(default_factory=dict)
    """Of those that failed."""
    refused: int = 0
    """Uploads that were answered with another status, or not at all: the client knows that it has to repeat them."""
    deleted: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    """Accepted, not deleted, and answered with 404."""
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._upload, self._look)]
        for thread in self._threads:
            thread.start()

    def stop_uploading(self) -> None:
        self._stop.set()
        self._threads[0].join()

    def open(self) -> list[str]:
        """Those that wait or run."""
        with self._lock:
            return [i for i, state in self.accepted.items() if state not in _ENDED and i not in self.deleted]

    def next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def send(self, packets: int = PACKETS) -> str | None:
        """Uploads a capture that nobody has uploaded. Its id; None: it was refused."""
        try:
            answer = self.client.ask("POST", "/v1/captures", capture(self.next_number(), packets))
        except BROKEN:
            answer = Answer(0, {}, 0.5)
        if answer.status == 202:
            with self._lock:
                self.accepted[answer.body["id"]] = answer.body["state"]
            return str(answer.body["id"])
        self.refused += 1
        self._stop.wait(min(answer.retry_after_s, 2.0))
        return None

    def look(self, capture_id: str) -> str | None:
        """The capture's state; None: the API does not answer."""
        try:
            answer = self.client.ask("GET", f"/v1/captures/{capture_id}")
        except BROKEN:
            return None
        with self._lock:
            if answer.status == 404 and capture_id not in self.deleted:
                self.gone.add(capture_id)
                self.accepted[capture_id] = "failed"
            if answer.status != 200:
                return None
            self.accepted[capture_id] = answer.body["state"]
            if answer.body["state"] == "failed":
                self.errors[capture_id] = answer.body["error"]
        return str(answer.body["state"])

    def delete(self, capture_id: str) -> bool:
        """False: the API does not answer, or not with what it promises."""
        with self._lock:
            self.deleted.add(capture_id)
        try:
            first = self.client.ask("DELETE", f"/v1/captures/{capture_id}").status
            return first == 204 and self.client.ask("GET", f"/v1/captures/{capture_id}").status == 404
        except BROKEN:
            return False

    def _upload(self) -> None:
        while not self._stop.wait(0.1):
            if len(self.open()) < AT_ONCE:
                self.send()

    def _look(self) -> None:
        while True:
            for capture_id in self.open():
                self.look(capture_id)
            time.sleep(0.3)
