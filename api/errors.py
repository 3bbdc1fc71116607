"""Errors carry their HTTP status; one handler renders them as RFC 9457 problem details."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from obstore.exceptions import BaseError as StoreError
from pydantic import Field
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api import answers, glossary
from api.schemas import Schema

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
UPLOADS = "/v1/uploads"
"""Where resumable uploads are."""


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


class Conflict(Problem):
    """The object is in a state in which this is not possible."""

    status = 409


class Gone(Problem):
    """It was there, and was deleted; what it was of is still there."""

    status = 410


class PreconditionFailed(Problem):
    status = 412


class TooLarge(Problem):
    status = 413


class UnsupportedMediaType(Problem):
    status = 415


class Unprocessable(Problem):
    status = 422


class Locked(Problem):
    """Another request is at work on it."""

    status = 423


class TooMany(Problem):
    status = 429


class ChecksumMismatch(Problem):
    """A status that only tus has (its extension Checksum)."""

    status = 460


class Unavailable(Problem):
    status = 503


_STATUSES = frozenset(HTTPStatus)


def _render(status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> JSONResponse:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase if status in _STATUSES else "Checksum Mismatch",
        "status": status,
        "detail": detail,
        **members,
    }
    return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)


def _told_path(request: Request) -> str:
    """For the log. The address of a resumable upload is a secret, from which the key of its bytes follows."""
    path = request.url.path
    return f"{UPLOADS}/..." if path.startswith(f"{UPLOADS}/") else path


_UNREAD_MAX, _UNREAD_S = 8 << 20, 5.0


async def _let_finish(request: Request) -> None:
    """Reads the rest of a short body: a client that still sends when it is closed may not see the answer."""
    if getattr(request.state, "body_was_read", False):
        return
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_UNREAD_S):
            while size < _UNREAD_MAX:
                message = await request.receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                size += len(message.get("body", b""))


class WrongField(Schema):
    """A part of the request that is not as the API takes it."""

    where: list[str | int]
    """path, query, body or header, then the way to the field."""
    what: str
    """What is wrong with it."""


class ProblemOut(Schema):
    """Problem details (RFC 9457). Some problems have further members."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[WrongField] = Field(default_factory=list)
    """With 422: each field that is wrong."""
    dependencies: dict[str, str] = Field(default_factory=dict)
    """With 503 of /readyz: what each dependency answers."""


def problem(description: str) -> dict[str, Any]:
    """An answer of the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    return {"description": description, "content": content}


RESPONSES: dict[int | str, dict[str, Any]] = {"default": problem("Any other problem (RFC 9457)")}
"""What every endpoint may answer instead."""

_OF_TOKENS = {
    "401": problem("No token, or one that is unknown, expired or revoked."),
    "403": problem("The token lacks the scope that this needs."),
    "429": problem("The team sends too many requests; Retry-After says when to ask again."),
}


def _add_problems(operation: dict[str, Any], path: str) -> None:
    """The problems that follow from what an endpoint takes, unless it describes them itself."""
    problems: dict[str, dict[str, Any]] = {}
    if operation.get("security"):
        problems |= _OF_TOKENS
    if "{" in path:
        problems["404"] = problem("The team has none of this id.")
    if path != "/healthz":
        problems["503"] = problem(
            "Something that the API depends on does not answer; Retry-After says when to ask again."
        )
    if path.startswith("/v1/"):
        problems["422"] = problem("A parameter, or the body, is unknown or not as described; nothing was done.")
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        problems["400"] = problem("The body is no JSON, or stops halfway.")
        problems["408"] = problem("The body did not arrive in time.")
        problems["413"] = problem("The body is larger than any that is meant.")
    names = {p["name"] for p in operation.get("parameters", [])}
    broken = {"cursor": "The cursor was not made by this list.", "tag": "A tag is not of the form key=value."}
    if told := [text for name, text in broken.items() if name in names]:
        problems["400"] = problem(" ".join(told))
    given = operation["responses"]
    operation["responses"] = dict(sorted({**problems, **given}.items()))


def _complete_document(app: FastAPI) -> None:
    """FastAPI puts only schemas of JSON answers among the components, and knows nothing of our problems."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        schemas = document["components"]["schemas"]
        if "ProblemOut" not in schemas:  # it is made anew when routes are added
            its = ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}", mode="validation")
            schemas |= its.pop("$defs")
            schemas["ProblemOut"] = its
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    _add_problems(operation, path)
                if "get" in operations:
                    answers.describe_validator(operations["get"])
            glossary.describe(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def install(app: FastAPI) -> None:
    _complete_document(app)

    @app.exception_handler(Problem)
    async def refused(request: Request, e: Problem) -> JSONResponse:
        if e.status in (TooMany.status, Locked.status):
            await _let_finish(request)
        return _render(e.status, e.detail, e.headers, **e.members)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, e: RequestValidationError) -> JSONResponse:
        errors = [{"where": list(x["loc"]), "what": x["msg"].removeprefix("Value error, ")} for x in e.errors()]
        first = errors[0] if errors else {"where": [], "what": "invalid"}
        return _render(422, f"{'.'.join(map(str, first['where']))}: {first['what']}", errors=errors)

    @app.exception_handler(HTTPException)
    async def http(_: Request, e: HTTPException) -> JSONResponse:
        return _render(e.status_code, str(e.detail), dict(e.headers or {}))

    async def busy(request: Request, e: Exception) -> JSONResponse:
        """The database is away, has no connection left, or a row stays locked."""
        log.warning("request.unavailable", path=_told_path(request), reason=str(e))
        return _render(503, "the database does not answer at the moment", {"Retry-After": "1"})

    for kind in (OperationalError, PoolTimeout):
        app.add_exception_handler(kind, busy)

    @app.exception_handler(StoreError)
    async def store_away(request: Request, e: Exception) -> JSONResponse:
        log.warning("request.unavailable", path=_told_path(request), reason=str(e).partition("\n")[0])
        return _render(503, "the object store does not answer, or takes nothing at the moment", {"Retry-After": "5"})

    @app.exception_handler(DataError)
    async def unstorable(request: Request, e: DataError) -> JSONResponse:
        """PostgreSQL's texts hold any character but this one."""
        if "NUL (0x00)" in str(e.orig):
            return _render(422, "a text holds the character NUL (U+0000), which cannot be stored")
        return await unexpected(request, e)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, e: Exception) -> JSONResponse:
        log.error("request.error", path=_told_path(request), exc_info=e)
        return _render(500, "an internal error, which is in the server's log")
