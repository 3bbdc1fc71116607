from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from deploy.run import Services
from tests.conftest import make_token


@pytest.fixture(scope="session")
def application(services: Services) -> Iterator[TestClient]:
    from api.app import create
    from store.database import engine
    from worker.app import publish_algorithms, publish_specs

    with engine().begin() as connection:  # as a worker does when it starts
        publish_algorithms(connection)
        publish_specs(connection)
    with TestClient(create(), raise_server_exceptions=False) as client:
        yield client


Client = Callable[..., TestClient]


@pytest.fixture
def client_for(application: TestClient) -> Client:
    """A client that carries a token; one transport for all, so that the pool of connections keeps its loop."""

    class Authorized:
        def __init__(self, token: str) -> None:
            self._headers = {"Authorization": f"Bearer {token}"}

        def __getattr__(self, name: str) -> Callable[..., object]:
            method = getattr(application, name)

            def call(url: str, **kw: object) -> object:
                headers = {**self._headers, **(kw.pop("headers", None) or {})}  # type: ignore[dict-item]
                return method(url, headers=headers, **kw)

            return call

    return Authorized  # type: ignore[return-value]


@pytest.fixture
def client(client_for: Client, token: str) -> TestClient:
    return client_for(token)


@pytest.fixture
def other(client_for: Client) -> TestClient:
    """Of another team."""
    return client_for(make_token(["read", "write", "admin"]))


@pytest.fixture(scope="session")
def run_jobs(services: Services) -> Callable[[], None]:
    """Runs what waits, in this process: the task's own body."""
    from sqlalchemy import select

    from store.database import engine
    from store.models import Job, State
    from worker.tasks import run_job

    def run() -> None:
        """Jobs that follow others are run, too; each once."""
        ran: set[uuid.UUID] = set()
        while True:
            with engine().connect() as connection:
                queued = select(Job.id).where(Job.state == State.queued).order_by(Job.created_at)
                waiting = [job for job in connection.scalars(queued) if job not in ran]
            if not waiting:
                return
            for job in waiting:
                run_job(job)
            ran.update(waiting)

    return run
