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


def troubles_of(page: Page) -> list[str]:
    """What goes wrong on the page from now on: its errors, and the browser's log of refused requests.

    A page may ask for what somebody deleted a moment ago, before the deletion's event reaches it. So a 404 of what was
    there before is no trouble. Nor is an answer of a server that is busy: the page asks again by itself."""
    troubles: list[str] = []
    there: set[str] = set()

    def address(url: str) -> str:
        return url.partition("?")[0]

    def note(message: ConsoleMessage) -> None:
        url = message.location["url"]
        deleted = "status of 404" in message.text and address(url) in there
        busy = "status of 429" in message.text or "status of 503" in message.text
        if message.type == "error" and not deleted and not busy:
            troubles.append(f"{message.text} {url}")

    page.on("response", lambda r: there.add(address(r.url)) if r.ok else None)
    page.on("pageerror", lambda e: troubles.append(str(e)))
    page.on("console", note)
    return troubles


@pytest.fixture(scope="module")
def page(stack: Services) -> Iterator[Page]:
    with sync_playwright() as playwright:
        # Debian's browser; where there is none, set-up has installed Playwright's own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1300, "height": 980})
        page.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)  # it has a limit of its own
        page.troubles = troubles_of(page)  # type: ignore[attr-defined]
        yield page
        browser.close()


@pytest.fixture
def signed_in(stack: Services, team: str, page: Page) -> Page:
    """The page *Team*, of the team whose token the module's fixture `team` gives."""
    page.context.clear_cookies()
    page.goto(stack.address)
    page.get_by_test_id("token").fill(team)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_role("heading", name="Team")).to_be_visible()
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401 of before
    return page
