"""The pages of a team: what they show leads to what is behind it, and Back to where the reader was."""

from __future__ import annotations

import csv
import json
import re
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from sqlalchemy import Engine, NullPool, create_engine, text

from deploy.run import Services, wait_for
from tests.acceptance.test_page import asked
from tests.acceptance.test_stack import get
from tests.acceptance.test_whatifs import SIMULATED_MS, post
from tests.conftest import CAPTURES, make_token

ARRIVING = """
    INSERT INTO captures (id, team_id, sha256, received, bytes, filename, object_key, state, created_at)
    SELECT gen_random_uuid(), CAST(:team AS uuid), sha256(n::text::bytea), sha256(random()::text::bytea), 1,
        n || '.pcap', gen_random_uuid()::text, 'failed', clock_timestamp() FROM generate_series(1, :count) n
"""
"""Captures that nobody analyses."""
SITES = {"berlin": "mptcp-two-subflows.pcap", "lisbon": "mptcp-ecn.pcap", "osaka": "mptcp-three-subflows.pcap"}


@pytest.fixture(scope="module")
def team(stack: Services) -> str:
    """The token of a team with a capture of each site."""
    token = make_token(["read", "write"])
    for site, name in SITES.items():
        body = (CAPTURES / name).read_bytes()
        post(stack, token, f"/v1/captures?filename={name}&tag=site%3D{site}", body, "application/vnd.tcpdump.pcap")
    wait_for("the analyses", lambda: all(c["state"] == "done" for c in get(stack, token, "/v1/captures")["items"]))
    return token


def engine_of(stack: Services) -> Engine:
    address = stack.environment["REWINDOW_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    return create_engine(address, poolclass=NullPool)


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_cell_of_the_teams_page_leads_to_its_connections(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.get_by_test_id("grid-measure").select_option("goodput_bps")
    page.get_by_test_id("grid-rows").select_option("kind")
    found = get(stack, team, "/v1/aggregates?measure=goodput_bps&group_by=kind&group_by=site")
    cells = page.get_by_test_id("cell")
    expect(cells).to_have_count(len(found["groups"]))
    (group,) = [g for g in found["groups"] if g["key"] == ["mptcp", "berlin"]]
    cell = page.locator("[data-testid=cell][href*=berlin][href*='kind=mptcp']")
    expect(cell).to_contain_text(f"{group['percentiles']['p50'] / 1e6:.2f} Mbit/s")
    address = page.url
    page.reload()
    expect(cells).to_have_count(len(found["groups"]))
    cell.click()
    expect(page.get_by_test_id("total")).to_have_text(str(group["count"]))
    row = page.get_by_test_id("connection")
    expect(row).to_have_count(group["count"])
    expect(row.first).to_contain_text("mptcp-two-subflows.pcap")
    assert (query(page)["tag"], query(page)["kind"]) == (["site=berlin"], ["mptcp"])
    page.go_back()
    expect(cell).to_be_visible()
    assert page.url == address
    trend = page.locator("[data-testid=trend][data-measure=goodput_bps]")
    expect(trend).to_have_attribute("data-count", str(found["total"]["count"]))
    files = {}
    for suffix in ("png", "svg", "csv"):
        with page.expect_download() as begun:
            trend.get_by_test_id(f"figure-{suffix}").click()
        assert begun.value.suggested_filename == f"goodput.{suffix}"
        files[suffix] = begun.value.path().read_bytes()
    assert files["png"].startswith(b"\x89PNG")
    days = get(stack, team, "/v1/aggregates?measure=goodput_bps&group_by=day")["groups"]
    rows = list(csv.DictReader(files["csv"].decode().splitlines()))
    assert [float(row["median"]) for row in rows] == [g["percentiles"]["p50"] for g in days]
    assert [float(row["90 %, to"]) for row in rows] == [g["percentiles"]["p95"] for g in days]
    drawn = ElementTree.fromstring(files["svg"])
    assert "median" in "".join(drawn.itertext())
    trend.locator("summary").click()
    trend.get_by_role("listitem").get_by_role("link").first.click()
    expect(page.get_by_test_id("connection").first).to_be_visible()
    assert {"from", "to"} <= query(page).keys()
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_point_of_a_trend_leads_to_its_connections(stack: Services, team: str, signed_in: Page) -> None:
    """By a click on the chart, for the day that the line below it names."""
    page = signed_in
    trend = page.locator("[data-testid=trend][data-measure=goodput_bps]")
    plot = trend.locator(".u-over")
    plot.hover()
    day = re.search(r"\d{4}-\d\d-\d\d", trend.locator(".read").inner_text())
    assert day is not None
    days = get(stack, team, "/v1/aggregates?measure=goodput_bps&group_by=day")["groups"]
    (group,) = [g for g in days if g["key"][0].startswith(day[0])]
    plot.click()
    expect(page.get_by_test_id("total")).to_have_text(str(group["count"]))
    assert query(page)["from"][0].startswith(day[0])
    page.go_back()
    expect(plot).to_be_visible()
    assert page.troubles == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(("path", "name"), [("/", "team"), ("/captures", "captures")])
def test_a_view_is_saved_for_the_team(stack: Services, team: str, signed_in: Page, path: str, name: str) -> None:
    page = signed_in
    page.goto(f"{stack.address}{path}?tag=site%3Dberlin")
    page.get_by_test_id("view-save").click()
    page.get_by_label("name of the view").fill("Berlin")
    page.get_by_role("button", name="save", exact=True).click()
    view = page.get_by_test_id("view")
    expect(view).to_have_attribute("aria-current", "true")
    (kept,) = get(stack, team, f"/v1/views?page={name}")
    assert (kept["name"], parse_qs(kept["query"])) == ("Berlin", {"tag": ["site=berlin"]})
    page.get_by_test_id("filters").get_by_role("button", name="remove all").click()
    expect(page).not_to_have_url(re.compile("berlin"))
    expect(view).not_to_have_attribute("aria-current", "true")
    view.click()
    expect(page).to_have_url(re.compile("tag=site%3Dberlin"))
    expect(view).to_have_attribute("aria-current", "true")
    page.get_by_test_id("view-delete").click()
    expect(view).to_have_count(0)
    assert get(stack, team, f"/v1/views?page={name}") == []
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_comparison_is_saved_as_a_view(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{stack.address}/comparison?selection=tag%3Dsite%253Dberlin&baseline=kind%3Dtcp&measure=rtt_us")
    page.get_by_test_id("view-save").click()
    page.get_by_label("name of the view").fill("Berlin and TCP")
    page.get_by_role("button", name="save", exact=True).click()
    view = page.get_by_test_id("view")
    expect(view).to_have_attribute("aria-current", "true")
    (kept,) = get(stack, team, "/v1/views?page=comparison")
    assert parse_qs(kept["query"]) == {
        "selection": ["tag=site%3Dberlin"], "baseline": ["kind=tcp"], "measure": ["rtt_us"],
    }  # fmt: skip
    page.goto(f"{stack.address}/comparison")
    view.click()
    expect(page.locator("[data-testid=side][data-side=selection]")).to_contain_text("tag: site=berlin")
    expect(page.locator("[data-testid=side][data-side=baseline]")).to_contain_text("kind: tcp")
    expect(page.get_by_test_id("comparison-measure")).to_have_value("rtt_us")
    page.get_by_test_id("view-delete").click()
    expect(view).to_have_count(0)
    assert page.troubles == []  # type: ignore[attr-defined]


def test_tables_are_saved_as_files(stack: Services, team: str, signed_in: Page) -> None:
    """What a page shows, with its filters and its order, in all its pages."""
    page = signed_in
    capture = get(stack, team, "/v1/captures?tag=site%3Dberlin")["items"][0]
    mptcp = get(stack, team, "/v1/connections?kind=mptcp&sort=bytes")["items"]
    own = get(stack, team, f"/v1/connections?capture_id={capture['id']}&sort=first_ns")["items"]
    groups = get(stack, team, "/v1/aggregates?measure=rtt_us&group_by=kind&group_by=site")["groups"]
    expected = {
        "/connections?kind=mptcp&sort=bytes": ("connections.csv", "id", [c["id"] for c in mptcp]),
        "/captures?tag=site%3Dberlin": ("captures.csv", "id", [capture["id"]]),
        f"/captures/{capture['id']}": ("connections.csv", "id", [c["id"] for c in own]),
        "/?measure=rtt_us&rows=kind&columns=site": ("aggregates.csv", "kind", [g["key"][0] for g in groups]),
    }
    for address, (name, column, values) in expected.items():
        page.goto(stack.address + address)
        with page.expect_download() as begun:
            page.locator(f"[data-testid=file-csv][href^='/v1/{name}']").click()
        assert begun.value.suggested_filename == name
        with begun.value.path().open(newline="") as file:
            assert [row[column] for row in csv.DictReader(file)] == values
    page.goto(f"{stack.address}/captures/{capture['id']}")
    with page.expect_download() as begun:
        page.get_by_test_id("stored-file").click()
    assert begun.value.path().read_bytes() == (CAPTURES / SITES["berlin"]).read_bytes()
    (group,) = get(stack, team, f"/v1/captures/{capture['id']}")["fairness"]
    members = page.get_by_test_id("member")
    expect(members).to_have_count(len(group["members"]))
    for member, of_it, share in zip(members.all(), group["members"], group["shares"], strict=True):
        expect(member).to_contain_text(f"{share['ratio']:.2f}")
        expect(member).to_contain_text(f"{of_it['src']}:{of_it['sport']}")
        expect(member).to_contain_text(of_it["verdict"])
    members.last.get_by_role("link").click()
    expect(page).to_have_url(f"{stack.address}/connections/{group['members'][-1]['connection_id']}")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_charts_file_says_that_its_addresses_are_others(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    name = SITES["berlin"]
    (capture,) = get(stack, team, f"/v1/captures?q={name}")["items"]
    stored = text("UPDATE captures SET addresses = :addresses WHERE id = :id")
    for addresses, part in (("kept", ""), ("replaced", ".other-addresses"), ("kept", "")):
        with engine_of(stack).begin() as database:
            database.execute(stored, {"addresses": addresses, "id": capture["id"]})
        for path, chart in (
            ("/captures/" + capture["id"], "who-shared"),
            ("/comparison?selection=kind%3Dtcp", "differs"),
        ):
            page.goto(stack.address + path)
            label = "who shared with whom" if chart == "who-shared" else "kind of both"
            with page.expect_download() as saved:
                page.get_by_role("group", name=f"save {label}").get_by_test_id("figure-csv").click()
            assert saved.value.suggested_filename == f"{chart}{part}.csv"
    assert page.troubles == []  # type: ignore[attr-defined]


def test_connections_are_sorted_filtered_and_asked_for_at_once(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.get_by_role("link", name="connections", exact=True).click()
    everything = get(stack, team, "/v1/connections?sort=-bytes")
    expect(page.get_by_test_id("total")).to_have_text(str(everything["total"]))
    page.get_by_role("columnheader", name="bytes").get_by_role("button").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("bytes")
    links = page.get_by_test_id("connection").locator("a[href^='/connections/']")
    expect(links.first).to_have_attribute("href", f"/connections/{everything['items'][0]['id']}")
    page.get_by_role("columnheader", name="bytes").get_by_role("button").click()
    expect(links.first).to_have_attribute("href", f"/connections/{everything['items'][-1]['id']}")

    page.get_by_test_id("top-values").click()
    tcp = page.locator("[data-testid=values][data-field=kind]").get_by_role("button", name="tcp", exact=False).last
    tcp.click()
    mine = get(stack, team, "/v1/connections?kind=tcp")
    expect(page.get_by_test_id("total")).to_have_text(str(mine["total"]))
    assert 0 < mine["total"] < everything["total"]
    assert (query(page)["kind"], query(page)["sort"]) == (["tcp"], ["bytes"])
    page.get_by_test_id("view-save").click()
    page.get_by_label("name of the view").fill("small TCP first")
    page.get_by_role("button", name="save", exact=True).click()
    view = page.get_by_test_id("view")
    expect(view).to_have_attribute("aria-current", "true")
    page.get_by_test_id("filters").get_by_role("button", name="remove all").click()
    expect(page.get_by_test_id("total")).to_have_text(str(everything["total"]))
    page.get_by_test_id("view-save").click()
    page.get_by_label("name of the view").fill("small TCP first")
    expect(page.get_by_test_id("view-form").get_by_role("button").first).to_have_text("replace")
    page.get_by_role("button", name="cancel").click()
    expect(page.get_by_test_id("view-save")).to_be_focused()
    view.click()
    expect(page.get_by_test_id("total")).to_have_text(str(mine["total"]))
    assert (query(page)["kind"], query(page)["sort"]) == (["tcp"], ["bytes"])
    page.get_by_test_id("view-delete").click()
    expect(view).to_have_count(0)
    page.get_by_test_id("filters").get_by_role("button", name="remove all").click()

    page.get_by_test_id("search").fill("ecn")
    page.get_by_role("button", name="search").click()
    expect(page.get_by_test_id("connection").filter(has_not_text="mptcp-ecn.pcap")).to_have_count(0)
    page.get_by_label("choose all that are shown").check()
    count = page.get_by_test_id("connection").count()
    assert count > 0
    page.get_by_test_id("bulk-algorithm").select_option("olia")
    page.get_by_test_id("bulk-replay").click()
    expect(page.get_by_test_id("bulk-done")).to_have_text(
        f"a replay of olia requested for {count} of {count} connections"
    )
    shown = get(stack, team, "/v1/connections?q=ecn")["items"][0]["id"]
    assert "olia" in [r["label"] for r in get(stack, team, f"/v1/connections/{shown}")["replays"]]
    assert page.troubles == []  # type: ignore[attr-defined]


def test_captures_are_replayed_at_once(stack: Services, team: str, signed_in: Page) -> None:
    """A replay of each connection of the chosen captures."""
    page = signed_in
    page.goto(f"{stack.address}/captures?tag=site%3Dosaka")
    page.get_by_label("choose all that are shown").check()
    page.get_by_test_id("bulk-algorithm").select_option("balia")
    page.get_by_test_id("bulk-replay").click()
    mine = get(stack, team, "/v1/connections?tag=site%3Dosaka")["items"]
    expect(page.get_by_test_id("bulk-done")).to_have_text(
        f"a replay of balia requested for {len(mine)} of {len(mine)} connections"
    )
    for connection in mine:
        found = get(stack, team, f"/v1/connections/{connection['id']}")["replays"]
        assert "balia" in [r["label"] for r in found]
    assert page.troubles == []  # type: ignore[attr-defined]


def test_captures_of_chosen_connections_are_tagged_and_deleted(stack: Services, page: Page) -> None:
    token = make_token(["read", "write"])
    for name in SITES.values():
        post(
            stack,
            token,
            f"/v1/captures?filename={name}",
            (CAPTURES / name).read_bytes(),
            "application/vnd.tcpdump.pcap",
        )
    wait_for("the analyses", lambda: all(c["state"] == "done" for c in get(stack, token, "/v1/captures")["items"]))
    mine = get(stack, token, "/v1/connections?q=ecn")["total"]
    page.context.clear_cookies()
    page.goto(f"{stack.address}/connections?q=ecn")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    rows = page.get_by_test_id("connection")
    expect(rows).to_have_count(mine)
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401 of before
    rows.first.get_by_role("checkbox").check()
    page.get_by_test_id("bulk-tag").fill("release=7")
    page.get_by_role("button", name="tag", exact=True).click()
    expect(page.get_by_test_id("bulk-done")).to_have_text("release=7 added to 1 of 1 captures")
    tagged = {c["filename"]: c["tags"] for c in get(stack, token, "/v1/captures")["items"]}
    assert tagged == {name: {"release": "7"} if "ecn" in name else {} for name in SITES.values()}
    page.get_by_test_id("bulk-untag").click()
    expect(page.get_by_role("alert")).to_contain_text("removed by its key, whatever its value, such as release")
    page.get_by_test_id("bulk-tag").fill("release")
    page.get_by_test_id("bulk-untag").click()
    expect(page.get_by_test_id("bulk-done")).to_have_text("tag release removed from 1 of 1 captures")
    assert [c["tags"] for c in get(stack, token, "/v1/captures")["items"]] == [{}] * len(SITES)
    page.get_by_test_id("bulk-delete").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Delete the captures of 1 connection")
    page.get_by_role("alertdialog").get_by_role("button", name="delete").click()
    expect(rows).to_have_count(0)
    assert {c["filename"] for c in get(stack, token, "/v1/captures")["items"]} == set(SITES.values()) - {
        SITES["lisbon"]
    }
    assert page.troubles == []  # type: ignore[attr-defined]


def test_back_leads_to_the_place(signed_in: Page) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1280, "height": 260})
    # Where a page is left: what is still loaded above a link may move it until it is clicked.
    page.evaluate("addEventListener('click', () => (window.leftAt = scrollY), true)")

    def left(link: Locator) -> int:
        link.scroll_into_view_if_needed()
        link.click()
        place: int = page.evaluate("leftAt")
        assert place > 0
        return place

    def is_at(place: int) -> None:
        page.wait_for_function("place => scrollY === place", arg=place)

    page.get_by_role("link", name="connections", exact=True).click()
    last = page.get_by_test_id("connection").last
    place = left(last.locator("a[href^='/connections/']"))
    expect(page.locator(".crumbs")).to_be_visible()
    is_at(0)
    page.go_back()
    is_at(place)
    expect(last).to_be_in_viewport()

    # Also in a capture's page, and after a reload, although the page has to load what was there.
    page.get_by_role("link", name="mptcp-three-subflows.pcap").first.click()
    place = left(page.get_by_test_id("connection").last.locator("a[href^='/connections/']"))
    expect(page.get_by_role("heading", name="Subflows")).to_be_visible()
    page.go_back()
    expect(page.get_by_test_id("connection").last).to_be_in_viewport()
    is_at(place)
    page.reload()
    expect(page.get_by_test_id("connection").last).to_be_in_viewport()
    is_at(place)
    page.set_viewport_size({"width": 1300, "height": 980})


def test_tags_and_notes_are_edited(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.get_by_role("link", name="captures", exact=True).click()
    page.get_by_label("choose mptcp-ecn.pcap").check()
    page.get_by_test_id("bulk-tag").fill("release")
    page.get_by_role("button", name="tag", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text('"release" is not of the form key=value')
    page.get_by_test_id("bulk-tag").fill("release=7")
    page.get_by_role("button", name="tag", exact=True).click()
    row = page.get_by_test_id("capture").filter(has_text="mptcp-ecn.pcap")
    expect(row).to_contain_text("release=7")
    row.get_by_role("link", name="mptcp-ecn.pcap").click()
    page.get_by_test_id("annotate").click()
    expect(page.get_by_test_id("tags")).to_have_value("site=lisbon\nrelease=7")
    page.get_by_test_id("tags").fill("site=lisbon")
    page.get_by_test_id("notes").fill("after the new router")
    page.get_by_role("button", name="save").click()
    expect(page.get_by_text("after the new router")).to_be_visible()
    (kept,) = get(stack, team, "/v1/captures?q=new%20router")["items"]
    assert (kept["filename"], kept["tags"]) == ("mptcp-ecn.pcap", {"site": "lisbon"})
    assert page.troubles == []  # type: ignore[attr-defined]


def test_two_who_tag_at_the_same_time(stack: Services, team: str, signed_in: Page) -> None:
    """The page has read the capture before the other one changed it, and is told nothing of that."""
    page = signed_in
    (mine,) = get(stack, team, "/v1/captures?tag=site%3Dosaka")["items"]
    url = f"/v1/captures/{mine['id']}"
    page.route("**/v1/events*", lambda route: route.abort())
    page.goto(f"{stack.address}/captures")
    row = page.get_by_test_id("capture").filter(has_text=mine["filename"])
    row.get_by_role("checkbox").check()
    asked(stack, team, url, json.dumps({"add_tags": {"x": "1"}}).encode(), "PATCH")
    page.get_by_test_id("bulk-tag").fill("y=2")
    page.get_by_role("button", name="tag", exact=True).click()
    expect(row).to_contain_text("y=2")
    assert get(stack, team, url)["tags"] == {"site": "osaka", "x": "1", "y": "2"}
    row.get_by_role("link", name=mine["filename"]).click()
    page.get_by_test_id("annotate").click()
    asked(stack, team, url, json.dumps({"add_tags": {"z": "3"}, "notes": "theirs"}).encode(), "PATCH")
    page.get_by_test_id("tags").fill("site=osaka\nx=1")
    page.get_by_role("button", name="save").click()
    expect(page.get_by_test_id("annotations")).to_contain_text("z=3")
    kept = get(stack, team, url)
    assert (kept["tags"], kept["notes"]) == ({"site": "osaka", "x": "1", "z": "3"}, "theirs")
    # Notes are whole texts: who saves last is told of the other's, and decides.
    page.get_by_test_id("annotate").click()
    asked(stack, team, url, json.dumps({"notes": "theirs, again"}).encode(), "PATCH")
    page.get_by_test_id("notes").fill("mine")
    page.get_by_role("button", name="save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody has changed the notes meanwhile.")
    expect(page.get_by_test_id("theirs")).to_have_text("theirs, again")
    expect(page.get_by_test_id("notes")).to_have_value("mine")
    assert get(stack, team, url)["notes"] == "theirs, again"
    page.get_by_role("button", name="save").click()
    expect(page.get_by_test_id("annotations")).to_be_visible()
    assert get(stack, team, url)["notes"] == "mine"
    page.troubles[:] = [t for t in page.troubles if "409" not in t]  # type: ignore[attr-defined]
    asked(stack, team, url, json.dumps({"tags": mine["tags"], "notes": ""}).encode(), "PATCH")
    page.unroute_all()


def test_many_that_arrive_at_once_leave_no_gap(stack: Services, page: Page) -> None:
    """More than a page of them; what others deleted goes."""
    token = make_token(["read", "write"])

    def arrive(count: int) -> None:
        with engine_of(stack).begin() as database:
            database.execute(text(ARRIVING), {"team": get(stack, token, "/v1/teams/me")["id"], "count": count})

    arrive(60)
    page.context.clear_cookies()
    page.goto(f"{stack.address}/captures")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    rows = page.get_by_test_id("capture")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="more").click()
    expect(rows).to_have_count(60)
    arrive(70)
    expect(page.get_by_test_id("total")).to_have_text("130")
    held: list[Route] = []
    page.route("**/v1/captures?limit=60", lambda route: held.append(route))
    arrive(1)
    wait_for("the list to be read again", lambda: bool(page.evaluate("true") and held))
    page.get_by_role("button", name="more").click()
    expect(rows).to_have_count(110)
    for route in held:
        route.continue_()
    expect(page.get_by_test_id("total")).to_have_text("131")
    page.unroute_all()
    expect(rows).to_have_count(110)
    shown = [rows.nth(n).get_by_role("link").first.get_attribute("href") for n in range(110)]
    listed = get(stack, token, "/v1/captures?limit=110")["items"]
    assert shown == [f"/captures/{c['id']}" for c in listed]
    asked(stack, token, f"/v1/captures/{listed[3]['id']}", None, "DELETE")
    expect(page.get_by_test_id("total")).to_have_text("130")
    expect(page.locator(f"a[href='{shown[3]}']")).to_have_count(0)

    # All that the filters select, also those that are not shown.
    page.get_by_label("choose all that are shown").check()
    expect(page.get_by_test_id("bulk-chosen")).to_have_text("110 chosen")
    page.get_by_test_id("choose-all").get_by_role("button", name="all 130").click()
    page.get_by_test_id("bulk-tag").fill("site=kiel")
    page.get_by_role("button", name="tag", exact=True).click()
    expect(page.get_by_test_id("bulk-done")).to_have_text("site=kiel added to 130 of 130 captures")
    assert get(stack, token, "/v1/captures?tag=site%3Dkiel")["total"] == 130
    expect(page.get_by_test_id("bulk-chosen")).to_have_text("130 chosen")
    page.get_by_test_id("bulk-delete").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Delete the 130 captures that are chosen")
    page.get_by_test_id("confirmation-yes").click()
    expect(page.get_by_test_id("bulk-done")).to_have_text("deleted 130 of 130 captures")
    assert get(stack, token, "/v1/captures")["total"] == 0


def test_had_everyone_used_another_algorithm(stack: Services, team: str, signed_in: Page) -> None:
    """Of what the filters select; it comes without a reload, and leads to each connection."""
    page = signed_in

    def with_few_runs(route: Route) -> None:
        route.continue_(post_data=json.dumps({**route.request.post_data_json, "repeat": 2}))

    page.route("**/v1/whatifs", with_few_runs)
    page.goto(f"{stack.address}/?tag=site%3Dlisbon&kind=mptcp&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z")
    page.get_by_test_id("sweep-algorithm").select_option("cubic")
    page.get_by_test_id("sweep-sample").fill("1")
    page.get_by_test_id("ask-sweep").click()
    sweep = page.get_by_test_id("sweep")
    expect(sweep).to_contain_text("had everyone used cubic")
    expect(sweep).to_contain_text("tag: site=lisbon")
    expect(sweep).to_have_attribute("data-state", "done", timeout=SIMULATED_MS)
    (found,) = get(stack, team, "/v1/sweeps")["items"]
    (answer,) = get(stack, team, f"/v1/sweeps/{found['id']}")["answers"]
    assert (found["everyone"], answer["asked"]) == (True, 1)
    goodput = answer["measures"]["goodput_bps"]
    shown = sweep.locator("[data-metric=goodput_bps]")
    values = [f"{goodput[of]['sum'] / 1e6:.2f} Mbit/s" for of in ("recorded", "simulated", "predicted")]
    expect(shown.locator("td").nth(0)).to_have_text(values[0])
    expect(shown.locator("td").nth(1)).to_have_text(values[1])
    expect(shown.get_by_test_id("swept")).to_have_text(values[2])
    sweep.get_by_text("each connection").click()
    (own,) = get(stack, team, f"/v1/sweeps/{found['id']}/whatifs")["items"]
    own_row = sweep.get_by_role("row").filter(has=page.get_by_role("link", name="mptcp-ecn.pcap"))
    expect(own_row).to_contain_text(f"{own['src']}:{own['sport']}")
    expect(own_row).to_contain_text(own["connection_verdict"])
    sweep.get_by_role("link", name="mptcp-ecn.pcap").click()
    expect(page).to_have_url(f"{stack.address}/connections/{own['connection_id']}")
    expect(page.locator("[data-testid=whatif][data-label=cubic]")).to_have_attribute("data-state", "done")
    page.go_back()
    sweep.get_by_role("button", name="delete").click()
    expect(sweep).to_have_count(0)
    assert get(stack, team, "/v1/sweeps")["items"] == []
    assert page.troubles == []  # type: ignore[attr-defined]
    page.unroute_all()


def test_a_random_sample_is_asked_about_and_older_questions_are_read_on_demand(
    stack: Services, team: str, signed_in: Page
) -> None:
    page = signed_in
    period = "from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"
    total = get(stack, team, f"/v1/connections?kind=tcp&{period}")["total"]
    assert total > 1
    page.goto(f"{stack.address}/?kind=tcp&{period}")
    page.get_by_test_id("sweep-sample").fill("1")
    sweeps = page.get_by_test_id("sweep")
    names = ["cubic", "newreno", "bbr", "olia", "balia", "lia"]
    for place, name in enumerate(names, 1):
        page.get_by_test_id("sweep-algorithm").select_option(name)
        page.get_by_test_id("ask-sweep").click()
        expect(sweeps).to_have_count(place)
        expect(sweeps.first).to_contain_text(f"1 of {total} connections, chosen at random, of 1 capture")
        expect(sweeps.first).to_contain_text(f"had everyone used {name}")
    assert {s["sample"] for s in get(stack, team, "/v1/sweeps")["items"]} == {1}
    page.reload()
    expect(sweeps).to_have_count(5)
    page.get_by_test_id("older-sweeps").click()
    expect(sweeps).to_have_count(6)
    expect(sweeps.last).to_contain_text("had everyone used cubic")
    expect(page.get_by_test_id("older-sweeps")).to_have_count(0)
    for place in reversed(range(len(names))):
        sweeps.first.get_by_role("button", name=re.compile("cancel|delete")).click()
        expect(sweeps).to_have_count(place)
    assert page.troubles == []  # type: ignore[attr-defined]


def test_chosen_connections_are_predicted_together(stack: Services, team: str, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{stack.address}/connections?kind=tcp")
    for place in range(2):
        page.get_by_test_id("connection").nth(place).get_by_role("checkbox").check()
    page.get_by_test_id("bulk-options").locator("summary").click()
    page.get_by_test_id("bulk-options").locator("[data-name=aca_md]").select_option("half")
    expect(page.get_by_test_id("bulk-options")).to_contain_text("options of tccc: 1 changed")
    page.get_by_test_id("bulk-whatif").click()
    sweep = page.get_by_test_id("sweep")
    expect(sweep).to_contain_text("2 connections of 2 captures")
    (found,) = get(stack, team, "/v1/sweeps")["items"]
    assert found["algorithms"] == ["tccc(aca_md=half)"]
    assert (len(found["selection"]["connection_ids"]), found["everyone"]) == (2, False)
    sweep.get_by_role("button", name=re.compile("cancel|delete")).click()
    expect(sweep).to_have_count(0)
    assert get(stack, team, "/v1/sweeps")["items"] == []

    # And those of a chosen capture.
    page.goto(f"{stack.address}/captures")
    page.get_by_label("choose mptcp-ecn.pcap").check()
    page.get_by_test_id("bulk-whatif").click()
    expect(sweep).to_contain_text("connections of 1 capture")
    (found,) = get(stack, team, "/v1/sweeps")["items"]
    (capture,) = get(stack, team, "/v1/captures?q=ecn")["items"]
    assert found["selection"] == {"capture_ids": [capture["id"]]}
    sweep.get_by_role("button", name=re.compile("cancel|delete")).click()
    expect(sweep).to_have_count(0)
    assert page.troubles == []  # type: ignore[attr-defined]
