"""What somebody sees of `make demo`: the team's page tells what there is to be found in it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from deploy import demo
from deploy.run import Services
from tests.conftest import make_token

DAYS = 14
"""Of seven weeks: the last one, and the one that it is compared with."""


def test_the_demo_fills_the_page_of_the_team(stack: Services, page: Page) -> None:
    token = make_token(["read", "write"])
    assert demo.load(stack.address, token, demo.DAYS - DAYS) == DAYS * len(demo.SITES)
    assert demo.predict(stack.address, token) > 0
    page.context.clear_cookies()
    page.goto(stack.address)
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("token")).to_have_count(0)  # to leave the page at once would take back the request
    page.goto(f"{stack.address}/?span=week&measure=rtt_inflation&rows=kind")

    # Osaka's queue became longer in the last week. That is news, and the worse of it leads to its connections.
    news = page.get_by_test_id("change").filter(has_text=re.compile(r"^worse RTT site osaka:"))
    expect(news).to_have_count(1)
    assert page.get_by_test_id("change").count() < 10, "what is chance is no news"

    # In the grid a cell is poor or limited, and says so without colours.
    poor, limited = (page.locator(f"[data-testid=cell].{verdict}") for verdict in ("poor", "limited"))
    expect(poor.first).to_contain_text("▲")
    expect(limited.first).to_contain_text("△")
    colours = {
        str(cell.first.evaluate("e => getComputedStyle(e).backgroundColor"))
        for cell in (poor, limited, page.locator("[data-testid=cell].good"))
    }
    assert len(colours) == 3

    # The period before stands beside this one, on the same scale.
    page.get_by_test_id("compare").check()
    for measure in ("jain", "retransmission_rate", "rtt_inflation", "goodput_bps"):
        trend = page.locator(f"[data-testid=trend][data-measure={measure}]")
        expect(trend.get_by_text(re.compile(r"^before [\d.]+"))).to_be_visible()
        expect(trend.get_by_role("heading", name="the period before")).to_be_visible()
        expect(trend.locator("canvas")).to_have_count(2)

    news.get_by_role("link").nth(1).click()
    expect(page.get_by_role("heading", name=re.compile(r"^Connections \d+"))).to_be_visible()
    expect(page.get_by_test_id("connection").first).to_contain_text("site=osaka")
    page.context.clear_cookies()  # the next test signs in as another team
