"""Redis hangs while a worker acknowledges a message: the worker may take another one all the same."""

from __future__ import annotations

import os
import signal
import uuid
from typing import Any

import pytest

from deploy.run import READY_S, Services


def patience(pool: Any, timeout_s: float) -> None:
    """How long a channel waits for Redis from now on."""
    pool.connection_kwargs["socket_timeout"] = timeout_s
    pool.disconnect()
    pool.reset()  # the connections of before have their own


@pytest.mark.parametrize("how", ["ack", "reject", "requeue"])
def test_a_message_that_redis_does_not_confirm_is_held_no_longer(services: Services, how: str) -> None:
    from kombu.entity import Queue

    from store import jobs

    app = jobs.celery_app()
    name = f"test-{uuid.uuid4()}"
    held: list[Any] = []
    with app.connection_for_read() as connection, connection.channel() as channel:
        channel.basic_qos(0, 1, False)
        with connection.Consumer([Queue(name)], channel=channel, on_message=held.append, no_ack=False):
            for _ in range(2):
                app.send_task("nothing", queue=name, retry=False)
            connection.drain_events(timeout=READY_S)
            (message,) = held
            assert not channel.qos.can_consume(), "one at a time"
            redis = services.processes["redis"].pid
            os.kill(redis, signal.SIGSTOP)
            try:
                patience(channel.pool, 0.3)  # only while Redis answers nobody
                with pytest.raises(channel.connection_errors):
                    message.ack() if how == "ack" else message.reject(requeue=how == "requeue")
            finally:
                os.kill(redis, signal.SIGCONT)
                patience(channel.pool, READY_S)
            assert channel.qos.can_consume()
            while len(held) < 2:
                connection.drain_events(timeout=READY_S)
            held[-1].ack()
