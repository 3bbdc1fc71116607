"""The page of a capture: its connections are sorted and paged by the server, and so are its bottlenecks, and who
uploaded it is said."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import text

from deploy.run import Services
from tests.acceptance.test_filters_page import begun, upload
from tests.acceptance.test_stack import get
from tests.acceptance.test_team_pages import engine_of, query
from tests.conftest import make_token

MANY = 130
"""Connections: more than the page shows at first."""
AT_FIRST = 100


@pytest.fixture(scope="module")
def team(stack: Services) -> str:
    """The token of a team with a capture of many connections."""
    token = make_token(["read", "write"])
    upload(stack, token, {"site=kyoto": begun(MANY, datetime(2026, 11, 21, 12, tzinfo=UTC))})
    return token


def test_connections_of_a_capture_are_sorted_and_paged(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    (capture,) = get(stack, team, "/v1/captures")["items"]
    page.goto(f"{stack.address}/captures/{capture['id']}")
    expect(page.get_by_text(f"by {capture['uploader']['name']}", exact=False).first).to_be_visible()
    expect(page.get_by_test_id("total")).to_have_text(str(MANY))
    links = page.get_by_test_id("connection").locator("a[href^='/connections/']")

    def in_order(sort: str) -> list[str]:
        found = get(stack, team, f"/v1/connections?capture_id={capture['id']}&sort={sort}&limit={MANY}")["items"]
        return [f"/connections/{c['id']}" for c in found]

    def shown() -> list[str | None]:
        return [link.get_attribute("href") for link in links.all()]

    expect(links).to_have_count(AT_FIRST)
    assert shown() == in_order("first_ns")[:AT_FIRST]
    page.get_by_test_id("more").click()
    expect(links).to_have_count(MANY)
    assert shown() == in_order("first_ns")
    expect(page.get_by_test_id("more")).to_have_count(0)
    page.get_by_role("columnheader", name="from").get_by_role("button").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("from")
    expect(links.first).to_have_attribute("href", in_order("src")[0])
    expect(links).to_have_count(AT_FIRST)
    assert shown() == in_order("src")[:AT_FIRST] != in_order("first_ns")[:AT_FIRST]
    assert query(page)["sort"] == ["src"]
    page.get_by_role("columnheader", name="from").get_by_role("button").click()
    last = in_order("-src")
    expect(links.first).to_have_attribute("href", last[0])
    page.get_by_test_id("more").click()
    expect(links).to_have_count(MANY)
    assert shown() == last
    page.reload()
    expect(links.first).to_have_attribute("href", last[0])
    assert page.troubles == []  # type: ignore[attr-defined]


def test_who_uploaded_is_in_the_list_of_captures(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.get_by_role("link", name="captures", exact=True).click()
    (capture,) = get(stack, team, "/v1/captures")["items"]
    expect(page.get_by_test_id("capture")).to_contain_text(capture["uploader"]["name"])


def test_bottlenecks_of_a_capture_are_paged(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    (capture,) = get(stack, team, "/v1/captures")["items"]
    rows = """INSERT INTO fairness_groups (attempt_id, bottleneck, method, members, jain, declared)
        SELECT attempt_id, 'detected: sbd #' || lpad(n::text, 3, '0'), 'sbd', :members, 0.9, false
        FROM captures, generate_series(1, :groups) n WHERE id = :id"""
    members = json.dumps({"connections": [0, 1], "kinds": ["tcp", "tcp"], "goodput_bps": [1000, 2000]})
    with engine_of(stack).begin() as database:
        database.execute(text(rows), {"id": capture["id"], "members": members, "groups": MANY})
    page.goto(f"{stack.address}/captures/{capture['id']}")
    groups, more = page.get_by_test_id("group"), page.get_by_test_id("more-groups")
    for shown in (*range(20, MANY, 20), MANY):
        expect(groups).to_have_count(shown)
        expect(groups.last.get_by_test_id("member")).to_have_count(2)
        if shown < MANY:
            expect(page.get_by_text(f"{shown} of {MANY} bottlenecks are shown")).to_be_visible()
            more.click()
    expect(more).to_have_count(0)
    assert groups.locator("h3").all_inner_texts()[-1].startswith(f"detected: sbd #{MANY}")
    assert page.troubles == []  # type: ignore[attr-defined]
