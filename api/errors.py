"""Errors carry their HTTP status; one handler renders them as RFC 9457 problem details."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api.schemas import Schema

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An error that is answered with its status and problem details."""

    status = 500

    def __init__(self, detail: str, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.detail, self.headers, self.members = detail, headers, members


class BadRequest(Problem):
    status = 400


class Unauthenticated(Problem):
    status = 401

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(Problem):
    status = 403


class NotFound(Problem):
    """Also the answer for an object of another team: the caller must not learn whether it exists."""

    status = 404


class TimedOut(Problem):
    status = 408


class TooLarge(Problem):
    status = 413


class Unprocessable(Problem):
    status = 422


class TooMany(Problem):
    status = 429


class Unavailable(Problem):
    status = 503


def _render(status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> JSONResponse:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **members,
    }
    return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)


class ProblemOut(Schema):
    """Problem details (RFC 9457). Some problems have further members."""

    type: str
    title: str
    status: int
    detail: str


RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
    }
}
"""What every endpoint may answer instead."""


def _add_problem_schema(app: FastAPI) -> None:
    """FastAPI puts only schemas of JSON answers among the components."""
    document = app.openapi

    def openapi() -> dict[str, Any]:
        found = document()
        found["components"]["schemas"]["ProblemOut"] = ProblemOut.model_json_schema()
        return found

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def install(app: FastAPI) -> None:
    _add_problem_schema(app)

    @app.exception_handler(Problem)
    async def problem(_: Request, e: Problem) -> JSONResponse:
        return _render(e.status, e.detail, e.headers, **e.members)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, e: RequestValidationError) -> JSONResponse:
        errors = [{"where": list(x["loc"]), "what": x["msg"]} for x in e.errors()]
        first = errors[0] if errors else {"where": [], "what": "invalid"}
        return _render(422, f"{'.'.join(map(str, first['where']))}: {first['what']}", errors=errors)

    @app.exception_handler(HTTPException)
    async def http(_: Request, e: HTTPException) -> JSONResponse:
        return _render(e.status_code, str(e.detail), dict(e.headers or {}))

    async def busy(request: Request, e: Exception) -> JSONResponse:
        """The database is away, has no connection left, or a row stays locked."""
        log.warning("request.unavailable", path=request.url.path, reason=str(e))
        return _render(503, "the database does not answer at the moment", {"Retry-After": "1"})

    for kind in (OperationalError, PoolTimeout):
        app.add_exception_handler(kind, busy)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, e: Exception) -> JSONResponse:
        log.error("request.error", path=request.url.path, exc_info=e)
        return _render(500, "an internal error, which is in the server's log")
