"""Signing in by OpenID Connect as a person does: in a browser, with a real provider."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete

from deploy.run import CHECKOUT, Services, free_port, stop_process, wait_for
from tests.acceptance.test_every_page import hold
from tests.openid import SECRET, provider

TEAM = f"team-{uuid.uuid4()}"
OTHER = f"{TEAM}-{'M' * 50}"
"""Wider than a telephone."""


@pytest.fixture
def address(stack: Services, tmp_path: Path) -> Iterator[str]:
    """Of an API like the stack's, with a provider that knows Ann."""
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    with provider(f"{here}/v1/session/openid") as real:
        real.control(people={"ann": {"name": "Ann", "groups": ["engineers"]}})
        secret = tmp_path / "secret"
        secret.write_text(SECRET)
        configured = {
            "REWINDOW_PUBLIC_URL": here, "REWINDOW_OIDC_ISSUER": real.issuer, "REWINDOW_OIDC_CLIENT_ID": "rewindow",
            "REWINDOW_OIDC_CLIENT_SECRET_FILE": str(secret), "REWINDOW_OIDC_NAME": "Company",
            "REWINDOW_OIDC_TEAMS": json.dumps({"engineers": [f"{TEAM}:analyst", f"{OTHER}:viewer"]}),
            "REWINDOW_API_PROCESSES": "1",
        }  # fmt: skip
        api = subprocess.Popen(
            [sys.executable, "-m", "api", "--port", str(port)], cwd=CHECKOUT, env=stack.environment | configured
        )
        try:
            wait_for("the API", Services(stack.local, port=port).ready, [api])
            yield here
        finally:
            stop_process(api)


def test_a_person_signs_in_where_everybody_does(address: str, page: Page) -> None:
    from store.database import engine
    from store.models import BrowserSession

    place = f"{address}/connections?sort=-goodput_bps&kind=mptcp"
    page.goto(place)
    expect(page.get_by_test_id("sign-in-elsewhere")).to_have_text("sign in with Company")
    hold(page, "sign-in-elsewhere", "Sign in")
    page.get_by_test_id("sign-in-elsewhere").click()
    page.locator("input[name=login]").fill("ann")
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    expect(page.get_by_test_id("team-settings")).to_contain_text(TEAM)
    assert page.url == place
    (cookie,) = (c for c in page.context.cookies(address) if c["name"].startswith("rewindow_session"))
    assert cookie["httpOnly"]
    page.wait_for_load_state("networkidle")  # else a request of this page is refused, before the click
    with engine().begin() as connection:
        connection.execute(delete(BrowserSession))
    page.get_by_role("link", name="captures").click()
    expect(page.get_by_test_id("has-ended")).to_be_visible()
    page.get_by_test_id("sign-in-elsewhere").click()  # the provider knows the browser still
    expect(page.get_by_test_id("team-settings")).to_contain_text(TEAM)
    assert page.url == f"{address}/captures"
    page.get_by_test_id("team").select_option(label=OTHER)
    expect(page.get_by_test_id("team-settings")).to_contain_text(OTHER)
    page.goto(f"{address}/settings")
    expect(page.get_by_test_id("member")).to_contain_text("viewer, by sign-in: confirmed")
    hold(page, "settings-by-sign-in", "Settings")
    page.get_by_role("button", name="sign out").click()
    page.locator("button[name=logout]").click()
    expect(page.get_by_test_id("sign-in-elsewhere")).to_be_visible()
    assert page.url == f"{address}/"
    page.get_by_test_id("sign-in-elsewhere").click()
    expect(page.locator("input[name=login]")).to_be_visible()
    page.goto(f"{address}/v1/session/openid?state=another&code=x")
    expect(page.get_by_role("alert")).to_contain_text("begun in another browser")
    assert page.url == f"{address}/"
