"""The page of a team's settings: an owner decides there, and others are not offered what they cannot do."""

from __future__ import annotations

import json
import urllib.error
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect
from sqlalchemy import text, update

from deploy.run import Services, wait_for
from store.database import engine
from store.models import Capture, Token
from tests.acceptance.test_every_page import hold
from tests.acceptance.test_page import asked
from tests.acceptance.test_stack import get
from tests.acceptance.test_whatifs import analysed, post
from tests.conftest import CAPTURES, make_token


@pytest.fixture(scope="module")
def owner(stack: Services) -> str:
    """The token of a new team's owner. There is a capture."""
    token = make_token(["read", "write", "admin"], payload="cut")
    body = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    post(stack, token, "/v1/captures?filename=a.pcap", body, "application/vnd.tcpdump.pcap")
    return token


def sign_in(stack: Services, page: Page, token: str, address: str = "/settings") -> None:
    page.context.clear_cookies()
    page.goto(stack.address + address)
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("token")).to_have_count(0)


def test_an_owner_decides(stack: Services, owner: str, page: Page) -> None:
    sign_in(stack, page, owner)
    expect(page.get_by_test_id("usage")).to_contain_text("1 capture, ")
    page.get_by_test_id("addresses").select_option("replaced")
    expect(page.locator("[data-testid=event][data-action=change_settings]")).to_contain_text(
        "after: addresses: replaced"
    )
    page.get_by_test_id("payload").select_option("kept")
    expect(page.get_by_test_id("error")).to_contain_text("only where payload is cut")
    expect(page.get_by_test_id("payload")).to_have_value("cut")
    page.get_by_test_id("member-name").fill("eve")
    page.get_by_test_id("member-role").select_option("viewer")
    page.get_by_test_id("add-member").click()
    expect(page.get_by_test_id("member")).to_have_count(2)
    page.get_by_test_id("token-member").select_option(label="eve")
    expect(page.get_by_test_id("token-scope").locator("option")).to_have_count(1)
    page.get_by_test_id("token-name").fill("laptop")
    page.get_by_test_id("make-token").click()
    made = page.get_by_test_id("made").inner_text()
    assert get(stack, made, "/v1/teams/me")["role"] == "viewer"
    # A token may have nowhere to break a line, and letters as wide as these.
    page.get_by_test_id("made").evaluate("shown => { shown.textContent = 'M'.repeat(shown.textContent.length) }")
    hold(page, "settings-page", "Settings")

    sign_in(stack, page, made)
    expect(page.get_by_test_id("privacy")).to_contain_text("Payload is cut; addresses are replaced")
    expect(page.get_by_test_id("member")).to_have_count(2)
    for hidden in ("add-member", "make-token", "token-row", "event", "payload"):
        expect(page.get_by_test_id(hidden)).to_have_count(0)
    page.goto(stack.address + "/captures")
    expect(page.get_by_test_id("capture")).to_have_count(1)
    for hidden in ("file", "bulk-delete"):
        expect(page.get_by_test_id(hidden)).to_have_count(0)
    expect(page.get_by_role("button", name="delete a.pcap")).to_have_count(0)

    sign_in(stack, page, owner)
    page.get_by_role("button", name="remove eve").click()
    page.get_by_test_id("confirmation-yes").click()
    expect(page.get_by_test_id("member")).to_have_count(1)
    expect(page.get_by_test_id("token-row")).to_have_count(1)
    page.goto(stack.address + "/captures")
    expect(page.get_by_test_id("file")).to_have_count(1)


def test_a_member_has_another_role(stack: Services, page: Page) -> None:
    """From then on the member's tokens may do what the new role may, and the page offers no more."""
    owner = make_token(["read", "write", "admin"])
    sign_in(stack, page, owner)
    page.get_by_test_id("member-name").fill("eve")
    page.get_by_test_id("member-role").select_option("analyst")
    page.get_by_test_id("add-member").click()
    page.get_by_test_id("token-member").select_option(label="eve")
    page.get_by_test_id("token-scope").select_option("write")
    page.get_by_test_id("token-name").fill("laptop")
    page.get_by_test_id("make-token").click()
    of_eve = page.get_by_test_id("made").inner_text()
    view = json.dumps({"page": "captures", "name": "mine", "query": ""}).encode()
    asked(stack, of_eve, "/v1/views", view)
    page.get_by_label("role of eve").select_option("viewer")
    event = page.locator("[data-testid=event][data-action=change_member]")
    expect(event).to_contain_text("analyst")
    expect(event).to_contain_text("viewer")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        asked(stack, of_eve, "/v1/views", view)
    sign_in(stack, page, of_eve, "/captures")
    expect(page.get_by_text("nothing uploaded yet")).to_be_visible()
    expect(page.get_by_test_id("file")).to_have_count(0)
    page.goto(f"{stack.address}/settings")
    expect(page.get_by_test_id("member")).to_have_count(2)
    expect(page.get_by_label("role of eve")).to_have_count(0)


def test_a_token_ends(stack: Services, page: Page) -> None:
    """After as many days as its maker chose. What uses it then is refused, and the list of tokens says why."""
    owner = make_token(["read", "write", "admin"])
    sign_in(stack, page, owner)
    page.get_by_test_id("token-name").fill("for a month")
    page.get_by_test_id("token-lasts").select_option(label="30 days")
    page.get_by_test_id("make-token").click()
    made = page.get_by_test_id("made").inner_text()
    mine = get(stack, made, "/v1/teams/me")["id"]
    (kept,) = [t for t in get(stack, owner, f"/v1/teams/{mine}/tokens") if t["name"] == "for a month"]
    lasts = datetime.fromisoformat(kept["expires_at"]) - datetime.fromisoformat(kept["created_at"])
    assert abs(timedelta(days=30) - lasts) < timedelta(minutes=10)
    row = page.get_by_test_id("token-row").filter(has_text="for a month")
    expect(row).to_contain_text(kept["expires_at"][:10])
    sign_in(stack, page, made)
    with engine().begin() as database:
        database.execute(update(Token).where(Token.id == kept["id"]).values(expires_at=datetime.now(UTC)))
    expect(page.get_by_test_id("has-ended")).to_contain_text("revoked or has expired")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(stack, made, "/v1/captures")
    sign_in(stack, page, owner)
    expect(row).to_contain_text("has expired")


def test_an_owner_forbids_downloads(stack: Services, page: Page) -> None:
    token = make_token(["read", "write", "admin"])
    capture = f"/captures/{get(stack, token, f'/v1/connections/{analysed(stack, token)}')['capture_id']}"
    sign_in(stack, page, token)
    page.get_by_test_id("downloads").select_option("forbidden")
    expect(page.locator("[data-testid=event][data-action=change_settings]")).to_contain_text("downloads: forbidden")
    page.goto(stack.address + capture)
    expect(page.get_by_test_id("stored-file")).to_have_text("The team forbids downloads of the stored file")
    assert get(stack, token, f"/v1{capture}")["state"] == "done"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(stack, token, f"/v1{capture}/file")


def test_days_of_the_log_are_checked_before_they_are_saved(stack: Services, owner: str, page: Page) -> None:
    sign_in(stack, page, owner)
    days = page.get_by_test_id("audit-days")
    for wrong in ("29", "3651", "40.5", ""):
        days.fill(wrong)
        days.blur()
        expect(page.get_by_test_id("error")).to_have_text("The log is kept for 30 to 3,650 whole days.")
        expect(days).to_have_value("365")
    days.fill("400")
    days.blur()
    expect(page.get_by_test_id("error")).to_have_count(0)
    expect(page.locator("[data-testid=event][data-action=change_settings]").first).to_contain_text("audit days: 400")


def test_the_log_has_what_was_chosen_last(stack: Services, owner: str, page: Page) -> None:
    """Whichever answer comes first."""
    sign_in(stack, page, owner)
    events = page.get_by_test_id("event")
    uploads = page.locator("[data-testid=event][data-action=upload]")
    expect(events.first).to_be_visible()
    held: list[Route] = []
    page.route("**/audit?action=upload*", lambda route: held.append(route))
    page.get_by_test_id("log-action").select_option("upload")
    wait_for("the first question", lambda: bool(page.evaluate("true") and held))
    page.get_by_test_id("log-action").select_option("sign_in")
    expect(page.locator("[data-testid=event]:not([data-action=sign_in])")).to_have_count(0)
    with page.expect_event("requestfinished", lambda r: "action=upload" in r.url):
        held[0].continue_()
    page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))")
    assert (events.count() > 0, uploads.count()) == (True, 0)
    page.unroute_all()
    page.get_by_test_id("log-action").select_option("upload")
    expect(uploads).to_have_count(1)


def test_the_log_is_that_of_a_member_and_a_time(stack: Services, owner: str, page: Page) -> None:
    me = get(stack, owner, "/v1/teams/me")
    post(stack, owner, f"/v1/teams/{me['id']}/members", json.dumps({"name": "idle"}).encode())
    sign_in(stack, page, owner)
    uploads = page.locator("[data-testid=event][data-action=upload]")
    expect(uploads).to_have_count(1)
    page.get_by_test_id("log-member").select_option("idle")
    expect(page.get_by_test_id("event")).to_have_count(0)
    page.get_by_test_id("log-member").select_option(me["member"])
    expect(uploads).to_have_count(1)
    page.get_by_test_id("log-until").fill("2026-01-01T00:00")
    expect(page.get_by_test_id("event")).to_have_count(0)
    page.get_by_test_id("log-until").fill("")
    page.get_by_test_id("log-since").fill("2026-01-01T00:00")
    expect(uploads).to_have_count(1)
    exported = str(page.get_by_role("group", name="log as a file").get_by_test_id("file-csv").get_attribute("href"))
    assert ["member=" in exported, "since=" in exported, "until=" in exported] == [True, True, False]


def test_retention_shows_what_would_go_before_it_does(stack: Services, page: Page) -> None:
    token = make_token(["read", "write", "admin"])
    connection = analysed(stack, token)
    capture_id = get(stack, token, f"/v1/connections/{connection}")["capture_id"]
    with engine().begin() as database:
        long_ago = Capture.uploaded_at - text("interval '40 days'")
        database.execute(update(Capture).where(Capture.id == uuid.UUID(capture_id)).values(uploaded_at=long_ago))
    sign_in(stack, page, token)
    expect(page.get_by_test_id("due")).to_have_text("Nothing is deleted now.")
    for days in ("0", "2.5", "36501"):
        page.get_by_test_id("raw-days").fill(days)
        expect(page.get_by_test_id("retention-refused")).to_contain_text("Days are whole numbers from 1 to 36,500.")
        expect(page.get_by_test_id("save-retention")).to_be_disabled()
    page.get_by_test_id("raw-days").fill("30")
    expect(page.get_by_test_id("due-raw")).to_contain_text("stored copies1767.94 kB")
    page.get_by_test_id("metrics-days").fill("20")
    expect(page.get_by_test_id("retention-refused")).to_contain_text("Whole captures would go after 20 days")
    expect(page.get_by_test_id("save-retention")).to_be_disabled()
    page.get_by_test_id("metrics-days").fill("")
    page.get_by_test_id("series-days").fill("30")
    expect(page.get_by_test_id("due-series")).to_contain_text("series1")
    hold(page, "retention-page", "Settings")
    page.get_by_test_id("save-retention").click()
    expect(page.get_by_role("alertdialog")).to_have_accessible_description(
        "Delete now, and from now on: stored copies of 1 capture, series of 1 capture? This cannot be undone."
    )
    page.get_by_test_id("confirmation-yes").click()
    expect(page.locator("[data-testid=event][data-action=change_settings]")).to_contain_text("raw days: 30")
    wait_for("the sweeper", lambda: get(stack, token, f"/v1/captures/{capture_id}")["series_deleted_at"] is not None)

    page.goto(f"{stack.address}/captures/{capture_id}")
    expect(page.get_by_test_id("copy-deleted")).to_contain_text("What was found in it stays")
    expect(page.get_by_test_id("stored-file")).to_have_count(0)
    page.goto(f"{stack.address}/connections/{connection}")
    expect(page.get_by_test_id("series-deleted")).to_contain_text("its metrics stay")
    for hidden in ("replay-again", "chart"):
        expect(page.get_by_test_id(hidden)).to_have_count(0)
    expect(page.get_by_test_id("replay-form")).to_be_hidden()
    hold(page, "deleted-page", "Connection 0 of capture")
    assert analysed(stack, token) == connection
    page.reload()
    page.get_by_test_id("replay-again").get_by_text("tccc", exact=True).click()
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
