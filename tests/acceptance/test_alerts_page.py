"""The page of alerts: an owner makes a webhook, an alert is made from a measure of the team's page, and it fires."""

from __future__ import annotations

import asyncio
import json
import re
import threading

from playwright.sync_api import Locator, Page, expect

from deploy.run import Services
from tests.acceptance.test_every_page import hold
from tests.acceptance.test_settings import sign_in
from tests.acceptance.test_stack import get, until
from tests.acceptance.test_whatifs import post
from tests.conftest import CAPTURES, make_token


async def _evaluated() -> None:
    from alerts.evaluation import evaluate_next
    from store.database import async_engine

    while await evaluate_next():
        pass
    await async_engine().dispose()


def evaluated() -> None:
    """What the alerter does with every alert that is due, once. The browser's loop runs in this thread."""
    thread = threading.Thread(target=lambda: asyncio.run(_evaluated()))
    thread.start()
    thread.join()


def test_an_alert_is_made_and_fires(stack: Services, page: Page) -> None:
    token = make_token(["read", "write", "admin"])
    body = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    capture = post(stack, token, "/v1/captures?filename=a.pcap&tag=site=lab", body, "application/vnd.tcpdump.pcap")
    until(lambda: get(stack, token, f"/v1/captures/{capture['id']}")["state"] == "done", "the analysis")
    sign_in(stack, page, token, "/alerts")
    expect(page.get_by_test_id("none")).to_contain_text("No alerts yet")
    page.get_by_test_id("webhook-name").fill("pager")
    page.get_by_test_id("webhook-url").fill("https://10.0.0.1/x")
    page.get_by_test_id("make-webhook").click()
    expect(page.get_by_test_id("error")).to_contain_text("not a public address")
    page.get_by_test_id("webhook-url").fill("https://hooks.example/x?key=s3cret")
    page.get_by_test_id("make-webhook").click()
    expect(page.get_by_test_id("secret")).to_have_text(re.compile(r"^whsec_\S{44}$"))
    hold(page, "alerts-secret", "Alerts")
    page.get_by_role("button", name="done").click()

    page.goto(f"{stack.address}/?tag=site%3Dlab&from=2020-01-01T00:00:00Z")
    page.get_by_role("link", name="alert me on goodput").click()
    expect(page.get_by_test_id("alert-filters")).to_contain_text("tag: site=lab")
    expect(page.get_by_test_id("measure")).to_have_value("goodput_bps")
    page.get_by_test_id("alert-name").fill("the lab is there")
    page.get_by_test_id("statistic").select_option("count")
    page.get_by_label("by the time of").select_option("uploaded")
    page.get_by_test_id("threshold").fill("0")
    page.get_by_test_id("alert-webhook").select_option(label="pager")
    page.get_by_test_id("save-alert").click()
    row = page.get_by_test_id("alert")
    expect(row).to_contain_text("number of values of goodput in the last day is above 0")
    expect(row).to_have_attribute("data-state", "new")
    evaluated()
    expect(row).to_have_attribute("data-state", "firing")
    expect(row).to_contain_text("waiting")
    page.get_by_test_id("webhook").locator("summary").click()
    expect(page.get_by_test_id("delivery")).to_contain_text("alert.firing")
    page.get_by_test_id("test").click()
    expect(page.get_by_test_id("delivery")).to_have_count(2)
    hold(page, "alerts-page", "Alerts")
    row.get_by_role("link").click()
    expect(page.get_by_test_id("connection").first).to_be_visible()
    page.go_back()

    edited_by_keys(page, row)
    page.get_by_role("button", name="switch the lab was there off").click()
    expect(row).to_have_attribute("data-state", "off")
    edit = page.get_by_role("button", name="edit the lab was there")
    edit.click()
    address = page.url.removeprefix(stack.address)
    team = get(stack, token, "/v1/teams/me")["id"]
    wanted = json.dumps({"name": "reads", "scopes": ["read"]}).encode()
    viewer = post(stack, token, f"/v1/teams/{team}/tokens", wanted)["token"]
    page.context.clear_cookies()
    sign_in(stack, page, viewer, address)
    expect(row).to_contain_text("the lab was there")
    for offered in (edit, page.get_by_test_id("alert-form"), page.get_by_role("heading", name="New alert")):
        expect(offered).to_have_count(0)


def edited_by_keys(page: Page, row: Locator) -> None:
    """The alert fires; its form is opened, left, and opened again without the mouse."""
    edit = page.get_by_role("button", name="edit the lab is there")
    name, threshold = page.get_by_test_id("alert-name"), page.get_by_test_id("threshold")
    edit.focus()
    page.keyboard.press("Enter")
    expect(name).to_be_focused()
    expect(threshold).to_have_value("0")
    expect(page.get_by_test_id("statistic")).to_have_value("count")
    expect(page.get_by_test_id("alert-filters")).to_contain_text("tag: site=lab")
    expect(page.get_by_test_id("save-alert")).to_be_disabled()
    name.fill("thrown away")
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    page.keyboard.press("Enter")
    expect(name).to_have_value("the lab is there")
    name.fill("the lab was there")
    expect(page.get_by_test_id("ends")).not_to_be_attached()
    threshold.fill("1e9")
    expect(page.get_by_test_id("ends")).to_contain_text("It fires now")
    page.get_by_test_id("filter-field").select_option("port")
    page.get_by_test_id("filter-value").fill("65536")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("alert-filters")).to_contain_text("port: 65536")
    hold(page, "alerts-edit", "Alerts")
    page.get_by_test_id("save-alert").press("Enter")
    expect(page.get_by_test_id("form-error")).to_contain_text("port")
    page.get_by_role("button", name="remove the filter port: 65536").press("Enter")
    page.get_by_test_id("save-alert").press("Enter")
    expect(row).to_contain_text("the lab was there")
    expect(row).to_contain_text("is above 1,000,000,000")
    expect(row).to_have_attribute("data-state", "new")
    page.get_by_test_id("webhook").locator("summary").press("Enter")
    expect(page.get_by_test_id("delivery").first).to_contain_text("alert.resolved")
    expect(page.get_by_test_id("save-alert")).to_have_text("make")
