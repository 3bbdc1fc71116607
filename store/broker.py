"""Redis as Celery's broker, of which a worker keeps its whole share also after Redis hung.

A worker holds as many messages as it has children. kombu counts a message as held until Redis has confirmed that the
message is acknowledged. Where Redis does not answer in time, Celery logs that and goes on with the same connection, and
kombu counts the message for ever: the worker then runs one job less at once, until it is started again.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


class _QoS(redis.QoS):
    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except Exception:
            self._let_go(delivery_tag)
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue=requeue)  # type: ignore[no-untyped-call]
        except Exception:
            self._let_go(delivery_tag)
            raise

    def _let_go(self, delivery_tag: str) -> None:
        """Counts the message as held no longer. Redis may deliver it again one day: a wake-up too many does no harm."""
        virtual.QoS.ack(self, delivery_tag)


class _Channel(redis.Channel):
    QoS: Any = _QoS


class Transport(redis.Transport):
    Channel: Any = _Channel
