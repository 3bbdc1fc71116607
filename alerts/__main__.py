"""The alerter, `python -m alerts`. Several of them may run: they share the work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from alerts.delivery import deliver_next, forget
from alerts.evaluation import evaluate_next
from alerts.network import Guarded
from store import logs
from store.database import async_engine
from store.destinations import policy
from store.heartbeat import beat
from store.settings import settings

log = structlog.get_logger()

_EVALUATORS = 2
_POSTS = 8
"""At the same time."""
_FORGET_S = 60.0


async def _repeat(stop: asyncio.Event, step: Callable[[], Awaitable[object]], every_s: float) -> None:
    """Takes the step until there is nothing left to do, then pauses; until it is stopped."""
    while not stop.is_set():
        try:
            while await step() and not stop.is_set():
                pass
        except (SQLAlchemyError, OSError) as e:
            log.warning("alerts.failed", reason=str(e))
        try:
            async with asyncio.timeout(every_s):
                await stop.wait()
        except TimeoutError:
            continue


async def run(stop: asyncio.Event) -> None:
    backend = Guarded(policy())
    every_s = settings().sweep_interval_s

    async def evaluate() -> bool:
        found = await evaluate_next()
        beat()
        return found

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_EVALUATORS):
            tasks.create_task(_repeat(stop, evaluate, every_s))
        for _ in range(_POSTS):
            tasks.create_task(_repeat(stop, lambda: deliver_next(backend), every_s))
        tasks.create_task(_repeat(stop, forget, _FORGET_S))
    await async_engine().dispose()


async def _main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run(stop)


if __name__ == "__main__":
    logs.configure()
    asyncio.run(_main())
