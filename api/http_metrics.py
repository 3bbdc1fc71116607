"""What the API answers, and how long that takes, for operators: by method, route and status.

Labels are of a bounded number, whatever is asked: a method or an address that the API does not know is `other`. With
several processes each counts in files (api/metrics_folder.py), and a scrape adds those of all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import metrics_folder

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
OTHER = "other"
_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

if metrics_folder.VARIABLE in os.environ:
    # By number instead of process id, which the library has by default: a file for each process that ever ran would
    # make each scrape slower.
    values.ValueClass = values.MultiProcessValue(metrics_folder.place)  # type: ignore[no-untyped-call]

_of_this_process = CollectorRegistry()
_answers = Counter(
    "rewindow_http_requests",
    "Requests by method, route and status of the answer; an answer that broke off by an error of the service counts"
    " as 500",
    ["method", "route", "status"],
    registry=_of_this_process,
)
_seconds = Histogram(
    "rewindow_http_request_seconds",
    "Time from a request's header to the end of the answer, without waiting for the client; event streams are left out",
    ["method", "route"],
    buckets=_BOUNDS_S,
    registry=_of_this_process,
)


def register(registry: CollectorRegistry) -> None:
    """Adds the numbers of all processes of the API. Raises ValueError: the folder is gone."""
    if metrics_folder.VARIABLE in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(_of_this_process)


class _Exchange:
    """One request and its answer, on their way through. Times are of the clock, seconds."""

    def __init__(self, receive: Receive, send: Send, clock: Callable[[], float]) -> None:
        self._receive, self._send, self._clock = receive, send, clock
        self._begun = clock()
        self._waited = 0.0
        """For the client: until it sent its body, or took the answer."""
        self._has_body = False
        self.status: int | None = None
        self._is_stream = False
        self._ended: float | None = None

    async def receive(self) -> Message:
        if self._has_body:  # what is awaited now is the connection's end, beside the answer
            return await self._receive()
        began = self._clock()
        message = await self._receive()
        self._waited += self._clock() - began
        self._has_body = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._is_stream = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in message["headers"]
            )
        began = self._clock()
        await self._send(message)
        now = self._clock()
        self._waited += now - began
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._ended = now

    def note(self, method: str, route: str) -> None:
        if self.status is None:  # the service ends, and has given the request up
            return
        _answers.labels(method, route, str(self.status)).inc()
        if not self._is_stream:
            ended = self._clock() if self._ended is None else self._ended
            _seconds.labels(method, route).observe(max(0.0, ended - self._begun - self._waited))


class Counted:
    """Counts each request. What stands around it must give it the scope in which the route is then found."""

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._clock)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            raise
        except Exception:
            exchange.status = 500
            raise
        finally:
            method = scope["method"] if scope["method"] in _METHODS else OTHER
            exchange.note(method, _template(scope))


def _template(scope: Scope) -> str:
    """The address of the route that was found, with the names of its parameters."""
    found = scope.get("route")
    if found is None and "endpoint" in scope:  # FastAPI names the routes of its own kind only
        endpoint = scope["endpoint"]
        of_others = (
            r for r in scope["app"].routes if endpoint in (getattr(r, "endpoint", None), getattr(r, "app", None))
        )
        found = next(of_others, None)
    return getattr(found, "path", OTHER)
