from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from deploy.run import Services, stop_process

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


@pytest.fixture(scope="package")
def stack(services: Services) -> Iterator[Services]:
    """API, worker and sweeper as processes, beside the session's PostgreSQL and Redis."""
    try:
        services.start_worker(concurrency=1)
        services.start_checker()
        services.start_sweeper()
        services.start_api()
        yield services
    finally:  # other tests run jobs themselves: also where the start failed, nothing may go on that would take them
        for name in ("api", "sweeper", "checker", "worker"):
            if process := services.processes.pop(name, None):
                stop_process(process)


def _note(page: Page, message: ConsoleMessage) -> None:
    if message.type == "error":
        page.troubles.append(f"{message.text} {message.location['url']}")  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def page(stack: Services) -> Iterator[Page]:
    with sync_playwright() as playwright:
        # Debian's browser; where there is none, set-up has installed Playwright's own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1300, "height": 980})
        page.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)  # it has a limit of its own
        page.troubles = []  # type: ignore[attr-defined]
        page.on("pageerror", lambda e: page.troubles.append(str(e)))  # type: ignore[attr-defined]
        page.on("console", lambda m: _note(page, m))
        yield page
        browser.close()
