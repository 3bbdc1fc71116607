"""Pages show what others do, without a reload, by one stream of events for all tabs of a browser."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import APIResponse, BrowserContext, Page, Route, expect

from deploy.run import Services, stop_process, wait_for
from tests.acceptance.conftest import troubles_of
from tests.acceptance.test_page import asked
from tests.acceptance.test_stack import get
from tests.acceptance.test_whatifs import analysed, post
from tests.conftest import CAPTURES, make_token

WAITING = 7
"""What-ifs: a browser opens six connections to a server."""


@pytest.fixture(scope="module")
def team(stack: Services) -> tuple[str, str]:
    """An owner's token, and a connection."""
    token = make_token(["read", "write", "admin"])
    return token, analysed(stack, token)


@pytest.fixture
def tabs(stack: Services, team: tuple[str, str], page: Page) -> Iterator[BrowserContext]:
    """Of a browser that has signed in, with one tab."""
    assert page.context.browser is not None
    context = page.context.browser.new_context(viewport=page.viewport_size)
    context.set_default_timeout(30_000)
    sign_in(context.new_page(), stack, "/captures", team[0])
    yield context
    context.close()


def sign_in(page: Page, stack: Services, address: str, token: str) -> None:
    page.goto(stack.address + address)
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_role("button", name="sign out")).to_be_visible()


def streams(page: Page) -> list[str]:
    """Requests for events, as they come."""
    found: list[str] = []
    page.on("request", lambda r: found.append(r.url) if "/events" in r.url else None)
    return found


def test_what_waits_does_not_block_the_page(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    """Nor two tabs: all of them have one stream together."""
    token, connection = team
    stop_process(stack.processes.pop("worker"))
    try:
        for repeat in range(2, 2 + WAITING):
            wanted = json.dumps({"algorithm": "cubic", "repeat": repeat}).encode()
            post(stack, token, f"/v1/connections/{connection}/whatifs", wanted)
        second = tabs.pages[0]
        second.goto("about:blank")
        first = tabs.new_page()
        asked_for = streams(first), streams(second)
        for tab in (first, second):
            tab.goto(f"{stack.address}/connections/{connection}")
            expect(tab.get_by_test_id("whatif")).to_have_count(WAITING)
            expect(tab.locator("[data-testid=whatif][data-state=queued]")).to_have_count(WAITING)
        for tab in (first, second):
            tab.get_by_role("link", name="captures", exact=True).first.click()
            expect(tab.get_by_test_id("capture")).to_have_count(1)
        assert [len(a) for a in asked_for] == [1, 0]
        post(stack, token, "/v1/captures?filename=new.pcap", b"new", "application/vnd.tcpdump.pcap")
        for tab in (first, second):
            expect(tab.get_by_test_id("capture")).to_have_count(2)
        first.close()  # the tab that read the stream for the other one, too
        post(stack, token, "/v1/captures?filename=newer.pcap", b"newer", "application/vnd.tcpdump.pcap")
        expect(second.get_by_test_id("capture")).to_have_count(3)
        assert len(asked_for[1]) == 1
    finally:
        for whatif in get(stack, token, f"/v1/connections/{connection}/whatifs")["items"]:
            asked(stack, token, f"/v1/whatifs/{whatif['id']}", None, "DELETE")
        stack.start_worker(concurrency=1)


def test_the_teams_page_has_what_others_upload(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    token, _ = team
    page = tabs.pages[0]
    page.get_by_role("link", name="team", exact=True).click()
    trend = page.locator("[data-testid=trend][data-measure=retransmission_rate]")
    expect(trend).to_have_attribute("data-count", re.compile(r"^\d+$"))
    before = int(trend.get_attribute("data-count") or "")
    body = (CAPTURES / "mptcp-three-subflows.pcap").read_bytes()
    capture = post(stack, token, "/v1/captures?filename=more.pcap", body, "application/vnd.tcpdump.pcap")["id"]
    wait_for("the analysis", lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "done")
    expect(trend).not_to_have_attribute("data-count", str(before))
    counted = get(stack, token, f"/v1/captures/{capture}")["connections"]
    expect(page.get_by_test_id("cell").first).to_be_visible()
    assert before < int(trend.get_attribute("data-count") or "") <= before + counted
    asked(stack, token, f"/v1/captures/{capture}", None, "DELETE")


def test_what_others_do_is_shown(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    token, connection = team
    page = tabs.pages[0]
    troubles = troubles_of(page)
    expect(page.get_by_test_id("capture").first).to_be_visible()
    there = page.get_by_test_id("capture").count()
    body = (CAPTURES / "mptcp-two-subflows.pcap").read_bytes()
    capture = post(stack, token, "/v1/captures?filename=theirs.pcap", body, "application/vnd.tcpdump.pcap")["id"]
    row = page.get_by_test_id("capture").filter(has_text="theirs.pcap")
    wait_for("the analysis", lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "done")
    expect(row).to_have_attribute("data-state", "done")
    expect(page.get_by_test_id("total")).to_have_text(str(there + 1))
    asked(stack, token, f"/v1/captures/{capture}", json.dumps({"add_tags": {"site": "oslo"}}).encode(), "PATCH")
    expect(row).to_contain_text("site=oslo")
    asked(stack, token, f"/v1/captures/{capture}", None, "DELETE")
    expect(row).to_have_count(0)
    expect(page.get_by_test_id("total")).to_have_text(str(there))

    page.goto(f"{stack.address}/connections/{connection}")
    expect(page.get_by_test_id("chart")).to_be_visible()
    post(stack, token, f"/v1/connections/{connection}/replays", json.dumps({"algorithm": "lia"}).encode())
    expect(page.locator("[data-testid=algorithm][data-label=lia]")).to_be_visible()
    check = json.dumps({"connection": connection, "algorithm": "tccc"}).encode()
    post(stack, token, "/v1/model-checks", check)
    expect(page.get_by_test_id("connection-check")).to_have_count(1)
    wanted = {"selection": {"connection_ids": [connection]}, "algorithms": ["olia"], "repeat": 2}
    post(stack, token, "/v1/whatifs", json.dumps(wanted).encode())
    expect(page.locator("[data-testid=whatif][data-label=olia]")).to_have_count(1)
    page.goto(stack.address)
    sweep = page.get_by_test_id("sweep")
    expect(sweep).to_have_count(1)
    (mine,) = get(stack, token, "/v1/sweeps")["items"]
    asked(stack, token, f"/v1/sweeps/{mine['id']}", None, "DELETE")
    expect(sweep).to_have_count(0)
    assert troubles == []


def test_a_page_that_was_left_reads_nothing_more(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    """Though it was to read once more what it was reading when the reader left."""
    token, connection = team
    page = tabs.pages[0]
    page.clock.install()
    page.goto(f"{stack.address}/connections/{connection}")
    expect(page.get_by_test_id("chart")).to_be_visible()
    page.evaluate("new BroadcastChannel('rewindow.events').onmessage = () => (window.heard = (window.heard ?? 0) + 1)")
    held: list[Route] = []
    page.route(f"**/v1/connections/{connection}", lambda route: held.append(route))
    address = f"/v1/connections/{connection}/replays"
    post(stack, token, address, json.dumps({"algorithm": "balia"}).encode())
    wait_for("the page to read it again", lambda: bool(page.evaluate("true") and held))
    heard = page.evaluate("window.heard")
    post(stack, token, address, json.dumps({"algorithm": "ewtcp"}).encode())
    page.wait_for_function("before => window.heard > before", arg=heard)
    assert len(held) == 1
    page.get_by_role("link", name="captures", exact=True).first.click()
    expect(page.get_by_test_id("capture").first).to_be_visible()
    asked_for: list[str] = []
    page.on("request", lambda r: asked_for.append(r.url) if "/v1/connections/" in r.url else None)
    with page.expect_event("requestfinished", lambda r: r.url.endswith(connection)):
        held[0].continue_()
    page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))")
    page.clock.run_for(5000)
    page.reload()
    expect(page.get_by_test_id("capture").first).to_be_visible()
    assert asked_for == []


def test_an_older_answer_replaces_no_newer_one(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    token, _ = team
    page = tabs.pages[0]
    body = b"answered late"
    capture = post(stack, token, "/v1/captures?filename=late.pcap", body, "application/vnd.tcpdump.pcap")["id"]
    wait_for("the analysis", lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "failed")
    held: list[tuple[Route, APIResponse]] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(f"**/v1/captures/{capture}", hold_first)
    page.goto(f"{stack.address}/captures/{capture}")
    wait_for("the first answer", lambda: bool(page.evaluate("true") and held))
    asked(stack, token, f"/v1/captures/{capture}", json.dumps({"add_tags": {"site": "bergen"}}).encode(), "PATCH")
    tag = page.get_by_text("site=bergen")
    expect(tag).to_be_visible()
    ((route, answer),) = held
    with page.expect_event("requestfinished", lambda r: r.url.endswith(capture)):
        route.fulfill(response=answer)
    page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))")
    assert tag.is_visible()
    asked(stack, token, f"/v1/captures/{capture}", None, "DELETE")


def test_a_member_who_was_removed_sees_nothing_more(
    stack: Services, team: tuple[str, str], tabs: BrowserContext
) -> None:
    """Without doing anything: the stream ends, and the page asks why."""
    token, _ = team
    mine = get(stack, token, "/v1/teams/me")["id"]
    member = asked(
        stack, token, f"/v1/teams/{mine}/members", json.dumps({"name": str(uuid.uuid4()), "role": "viewer"}).encode()
    )["id"]
    made = {"name": "laptop", "member_id": member, "scopes": ["read"]}
    theirs = asked(stack, token, f"/v1/teams/{mine}/tokens", json.dumps(made).encode())["token"]
    page = tabs.pages[0]
    page.get_by_role("button", name="sign out").click()
    expect(page.get_by_test_id("token")).to_be_visible()
    sign_in(page, stack, "/captures", theirs)
    expect(page.get_by_test_id("capture").first).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)  # a viewer can do nothing with what is chosen
    asked(stack, token, f"/v1/teams/{mine}/members/{member}", None, "DELETE")
    expect(page.get_by_test_id("has-ended")).to_contain_text("revoked or has expired")


def test_a_tab_that_nobody_looks_at_takes_no_part(stack: Services, team: tuple[str, str], tabs: BrowserContext) -> None:
    """It ends its stream after a while, and reads everything again when somebody comes back."""
    token, _ = team
    page = tabs.new_page()
    tabs.pages[0].goto("about:blank")
    page.clock.install()
    asked_for = streams(page)
    page.goto(f"{stack.address}/captures")
    expect(page.get_by_test_id("capture").first).to_be_visible()
    there = page.get_by_test_id("capture").count()
    wait_for("the stream", lambda: bool(page.evaluate("true")) and len(asked_for) == 1)

    def become(state: str) -> None:
        page.evaluate(
            "state => { Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            state,
        )

    become("hidden")
    with page.expect_event("requestfailed", lambda r: "/v1/events" in r.url):
        page.clock.fast_forward(61_000)
    post(stack, token, "/v1/captures?filename=meanwhile.pcap", b"meanwhile", "application/vnd.tcpdump.pcap")
    become("visible")
    expect(page.get_by_test_id("capture")).to_have_count(there + 1)
    wait_for("a stream again", lambda: bool(page.evaluate("true")) and len(asked_for) == 2)
