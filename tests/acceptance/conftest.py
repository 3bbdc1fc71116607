from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.run import Services, stop_process


@pytest.fixture(scope="package")
def stack(services: Services) -> Iterator[Services]:
    """API, worker and sweeper as processes, beside the session's PostgreSQL and Redis."""
    services.start_worker(concurrency=1)
    services.start_checker()
    services.start_sweeper()
    services.start_api()
    yield services
    for name in ("api", "sweeper", "checker", "worker"):
        stop_process(services.processes.pop(name))  # other tests run jobs themselves
