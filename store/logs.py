"""Structured logs on standard error: JSON for machines, plain for people."""

import logging
import sys

import structlog

from store.settings import settings


def configure() -> None:
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings().log_json
        else structlog.dev.ConsoleRenderer(
            # Tracebacks never print local variables, because these hold tokens and packets.
            colors=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
