"""Addresses and inputs that are wrong: each page says what is wrong and what to do, and goes on."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
import uuid

import pytest
from playwright.sync_api import Page, expect

from deploy.run import Services, wait_for
from tests.acceptance.test_stack import get
from tests.acceptance.test_whatifs import post
from tests.conftest import CAPTURES, make_token


@pytest.fixture(scope="module")
def team(stack: Services) -> str:
    """The token of a team with one capture."""
    token = make_token(["read", "write"])
    body = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    post(stack, token, "/v1/captures?filename=mptcp-ecn.pcap", body, "application/vnd.tcpdump.pcap")
    wait_for("the analysis", lambda: all(c["state"] == "done" for c in get(stack, token, "/v1/captures")["items"]))
    return token


def forget_refusals(page: Page) -> None:
    """The browser logs each answer of 422, which is what is tested here."""
    page.troubles[:] = [t for t in page.troubles if "422" not in t]  # type: ignore[attr-defined]


def test_an_address_that_there_is_not(stack: Services, signed_in: Page) -> None:
    page = signed_in
    answer = page.goto(f"{stack.address}/nothing/here")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    expect(page).to_have_title("No such page – rewindow")
    page.get_by_role("link", name="Begin at the start").click()
    expect(page.get_by_role("heading", name="Team")).to_be_visible()
    page.troubles[:] = [t for t in page.troubles if "404" not in t]  # type: ignore[attr-defined]
    for path in ("captures/x/y", "connections/x/y", "specifications/x", "model-checks/x/y"):
        page.goto(f"{stack.address}/{path}")
        expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    for path, accept in (("/nothing", "application/json"), ("/v1/nothing", "text/html")):
        request = urllib.request.Request(stack.address + path, headers={"Accept": accept})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as answered:
            assert (answered.code, answered.headers["Content-Type"]) == (404, "application/problem+json")


def test_a_check_that_there_is_not(stack: Services, signed_in: Page) -> None:
    page = signed_in
    for name in ("xyz", str(uuid.uuid4())):
        page.goto(f"{stack.address}/model-checks/{name}")
        expect(page.get_by_test_id("gone")).to_contain_text("There is no such check")
        expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("link", name="All checks of the team").click()
    expect(page.get_by_role("heading", name="Specifications")).to_be_visible()
    page.troubles[:] = [t for t in page.troubles if "404" not in t and "422" not in t]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("/?measure=nope&rows=zzz&columns=site&span=week", "“measure=nope”, “rows=zzz”"),
        ("/?unreliable=yes", "“unreliable=yes”"),
        ("/?span=century&compare=no", "“span=century”, “compare=no”"),
        ("/comparison?measure=window", "“measure=window”"),
    ],
)
def test_a_value_that_a_page_does_not_know(stack: Services, signed_in: Page, address: str, known: str) -> None:
    page = signed_in
    page.goto(stack.address + address)
    told = page.get_by_test_id("unknown")
    expect(told).to_have_text(
        f"This page knows no {known}, and shows what it shows without it. remove from the address"
    )
    told.get_by_role("button").click()
    expect(told).to_have_count(0)
    expect(page).not_to_have_url(re.compile("nope|zzz|yes|century|compare=|window"))


def test_a_bound_and_an_order_that_are_none(stack: Services, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{stack.address}/connections?bytes_min=abc")
    expect(page.get_by_test_id("filters")).to_contain_text("bytes ≥ abc")
    expect(page.get_by_role("alert").first).to_contain_text("bytes_min")
    for rows, said in (("connection", "connections are sorted by first_ns, "), ("capture", "Input should be ")):
        page.goto(f"{stack.address}/{rows}s?sort=nope")
        expect(page.get_by_role("alert")).to_contain_text(f"sort: {said}")
        expect(page.get_by_role("alert")).not_to_contain_text("requested again")
        page.get_by_role("button", name="the newest first").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_test_id(rows).first).to_be_visible()
    forget_refusals(page)


def test_a_comparison_of_nothing(stack: Services, signed_in: Page) -> None:
    """With the same filters on both sides, and no connection that has them."""
    signed_in.goto(f"{stack.address}/comparison?selection=port%3D1&baseline=port%3D1")
    explained = signed_in.get_by_test_id("explained")
    expect(explained).to_contain_text("There are no connections to compare.")
    expect(explained.get_by_role("link", name="Upload captures")).to_have_attribute("href", "/captures")


def test_a_period_that_is_none(stack: Services, signed_in: Page) -> None:
    page = signed_in
    wrong = page.get_by_role("alert")
    page.goto(f"{stack.address}/?from=garbage")
    expect(wrong).to_have_text('"garbage" is no time, such as 2026-11-27T12:00:00Z')
    expect(page.get_by_test_id("trend").first).to_contain_text("no values")
    expect(page.get_by_test_id("trend").get_by_text("loading")).to_have_count(0)
    page.goto(f"{stack.address}/?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z")
    expect(wrong).to_have_text("The period ends before it begins: choose a later end, or an earlier begin.")
    page.get_by_role("button", name="12 weeks").click()
    expect(wrong).to_have_count(0)
    expect(page.get_by_test_id("period")).to_be_visible()


def test_an_error_of_a_filter_goes_with_it(stack: Services, signed_in: Page) -> None:
    page = signed_in
    for path in ("/", "/connections"):
        page.goto(f"{stack.address}{path}?address=foo")
        expect(page.get_by_role("alert").first).to_have_text(
            "address.0: 'foo' is no address and no prefix; 10.0.0.1, 10.0.0.0/8 and fd00::/8 are"
        )
        page.get_by_test_id("address").fill("10.0.0.0/8")
        page.get_by_test_id("address").press("Enter")
        expect(page.get_by_role("alert")).to_have_count(0)
        forget_refusals(page)


def test_a_refusal_of_what_is_done_with_many_stays_to_be_read(stack: Services, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{stack.address}/connections")
    page.get_by_role("checkbox", name="choose all that are shown").check()
    page.get_by_test_id("bulk-tag").fill("a" * 300 + "=b")
    with page.expect_response(lambda r: r.url.split("?")[0].endswith("/v1/connections") and r.request.method == "GET"):
        page.get_by_role("button", name="tag", exact=True).click()  # the list is read again, too
    expect(page.get_by_test_id("bulk-chosen")).to_have_text("2 chosen")
    expect(page.get_by_role("button", name="tag", exact=True)).to_be_enabled()
    expect(page.get_by_role("alert")).to_contain_text("tag")
    forget_refusals(page)


def test_a_period_beyond_a_connection_shows_the_whole(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    (first, *_) = get(stack, team, "/v1/connections")["items"]
    for period in ("from=9999&to=10000", "from=2&to=1e12", "from=9999&to=10000&graph=sequence&subflow=-3"):
        with page.expect_response(
            lambda r: "/sequence" in r.url or ("/series" in r.url and "algorithms=&" not in r.url)
        ):
            page.goto(f"{stack.address}/connections/{first['id']}?{period}")
        expect(page.get_by_text("captured").first).to_be_visible()
        expect(page.get_by_test_id("chart")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


LONG = "nobreak" * 200


@pytest.mark.parametrize("width", [1280, 400])
def test_texts_without_a_place_to_break_are_not_cut_off(
    width: int, stack: Services, team: str, signed_in: Page
) -> None:
    page = signed_in
    page.set_viewport_size({"width": width, "height": 900})
    (capture,) = get(stack, team, "/v1/captures")["items"]
    changed = json.dumps({"notes": LONG, "tags": {"site": LONG[:150]}}).encode()
    request = urllib.request.Request(
        f"{stack.address}/v1/captures/{capture['id']}", changed, method="PATCH",
        headers={"Authorization": f"Bearer {team}", "Content-Type": "application/json"},
    )  # fmt: skip
    urllib.request.urlopen(request).close()
    (first, *_) = get(stack, team, "/v1/connections")["items"]
    note = json.dumps({"at_ns": str(first["first_ns"]), "text": LONG}).encode()
    post(stack, team, f"/v1/connections/{first['id']}/notes", note, "application/json")
    for path, shown in (
        (f"/captures/{capture['id']}", LONG),
        (f"/connections/{first['id']}", LONG),
        (f"/connections?q={LONG[:180]}", LONG[:180]),
        ("/connections?values=open", LONG[:150]),
    ):
        page.goto(stack.address + path)
        expect(page.get_by_text(shown).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/?protcol=mptcp&kind=tcp&span=week&rows=day", "kind=tcp&rows=day&span=week"),
        ("/captures?protcol=mptcp&sort=filename&values=open", "sort=filename&values=open"),
        ("/connections?protcol=mptcp&kind=tcp&sort=bytes", "kind=tcp&sort=bytes"),
        ("/comparison?selection=kind%3Dtcp%26protcol%3Dmptcp&measure=rtt_us", "measure=rtt_us&selection=kind%3Dtcp"),
    ],
)
def test_a_misspelt_filter_is_told(stack: Services, signed_in: Page, path: str, left: str) -> None:
    page = signed_in
    page.goto(stack.address + path)
    expect(page.get_by_test_id("unknown")).to_contain_text("There is no filter “protcol”: what is shown is not limited")
    if page.get_by_role("group", name="saved views").count():
        expect(page.get_by_test_id("view-save")).to_have_count(0)
    page.get_by_role("button", name="remove from the address").click()
    expect(page.get_by_test_id("unknown")).to_have_count(0)
    assert sorted(page.url.partition("?")[2].split("&")) == left.split("&")
