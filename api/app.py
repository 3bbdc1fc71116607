"""The application; `python -m api` serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors
from api.aggregates import endpoints as aggregates
from api.aggregates import values
from api.alerts import endpoints as alerts
from api.algorithms import endpoints as algorithms
from api.answers import Compressed, Validated
from api.captures import endpoints as captures
from api.changes import endpoints as changes
from api.connections import endpoints as connections
from api.events import Poller
from api.health import endpoints as health
from api.http_metrics import Counted
from api.limits import Requests
from api.model_checks import endpoints as model_checks
from api.openid.configuration import configuration
from api.openid.sessions import OpenId
from api.parameters import refuse_unknown
from api.redaction import Redactor
from api.resumable import endpoints as resumable
from api.resumable.protocol import Tus
from api.sessions import endpoints as sessions
from api.specs import endpoints as specs
from api.sweeps import endpoints as sweeps
from api.teams import endpoints as teams
from api.views import endpoints as views
from api.webhooks import endpoints as webhooks
from api.whatifs import endpoints as whatifs
from store import logs
from store.database import async_engine
from store.settings import settings

_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


_PAGES = ("", "captures", "connections", "comparison", "alerts", "specifications", "model-checks", "settings")
"""First parts of the addresses that the dashboard knows (App.svelte)."""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.poller, app.state.requests, app.state.redactor = Poller(), Requests(), Redactor()
    app.state.redactor.start()
    configured = configuration()
    app.state.openid = OpenId(configured) if configured else None
    polls = asyncio.create_task(app.state.poller.run())
    yield
    polls.cancel()
    try:
        with suppress(asyncio.CancelledError):
            await polls
    finally:
        app.state.redactor.stop()
        await async_engine().dispose()


def routes() -> FastAPI:
    """The API without settings, logs and dashboard."""
    app = FastAPI(
        title="rewindow",
        version="1",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        responses=errors.RESPONSES,
    )
    errors.install(app)
    for module in (
        captures,
        resumable,
        values,
        connections,
        aggregates,
        whatifs,
        sweeps,
        alerts,
        webhooks,
        algorithms,
        specs,
        model_checks,
        changes,
        views,
        teams,
        sessions,
    ):
        app.include_router(module.router, dependencies=[Depends(refuse_unknown)])
    for further in (captures.changing, connections.several, connections.subflows):
        app.include_router(further, dependencies=[Depends(refuse_unknown)])
    app.include_router(sessions.arriving)
    app.include_router(health.router)
    return app


def create() -> FastAPI:
    logs.configure()
    app = routes()
    folder = settings().dashboard_folder
    if folder:
        _serve_dashboard(app, Path(folder))
    app.add_middleware(Validated)
    app.add_middleware(Compressed)  # around Validated, whose tags are of what is not compressed
    app.add_middleware(_Headers)
    app.add_middleware(Counted)
    app.add_middleware(Tus)  # around Counted, which is to see the method that is meant
    return app


def _serve_dashboard(app: FastAPI, folder: Path) -> None:
    app.mount("/assets", StaticFiles(directory=folder / "assets"), name="assets")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        """The API's description, to read and to try out."""
        return FileResponse(folder / "docs.html", headers={"Cache-Control": "no-cache"})

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> FileResponse:
        """The dashboard is one page, which reads the address itself, and tells a reader of one that there is not."""
        first = path.split("/")[0]
        is_known = first in _PAGES
        is_read = first != "v1" and "text/html" in request.headers.get("Accept", "")
        if not is_known and not is_read:
            raise errors.NotFound("there is no such address; /docs describes those of the API")
        status = 200 if is_known else errors.NotFound.status
        return FileResponse(folder / "index.html", status, headers={"Cache-Control": "no-cache"})
