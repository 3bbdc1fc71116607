"""What each process of the API runs (api/__main__.py starts them)."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import multiprocessing
import os
import signal

import h11
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.app import create
from store.settings import settings

_PR_SET_PDEATHSIG = 1
"""prctl(2)."""


class TimedProtocol(H11Protocol):
    """Closes a connection whose request does not arrive: half-open connections cost nothing for long.

    From a connection's begin, or the first byte of a further request, to the end of the header.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the header is there
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(settings().request_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def application() -> FastAPI:
    """Of the only process."""
    app = create()
    # What is loaded stays. A collection that looked at all of it would stop every request meanwhile.
    gc.collect()
    gc.freeze()
    return app


def one_of_several() -> FastAPI:
    """Of one of several processes: it ends with the first one, so that a new one finds the address free."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    first = multiprocessing.parent_process()
    if first is None or os.getppid() != first.pid:  # it ended just before
        raise SystemExit(1)
    return application()
