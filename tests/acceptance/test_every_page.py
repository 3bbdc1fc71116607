"""What holds for every page of the dashboard: WCAG 2.2 AA as far as axe-core sees it.

Light and dark, wide and narrow."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import struct
import urllib.request
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from deploy.run import CHECKOUT, Services, wait_for
from tests.acceptance.test_dashboard import SCREENSHOTS
from tests.acceptance.test_page import asked
from tests.acceptance.test_stack import answered, get
from tests.acceptance.test_whatifs import SIMULATED_MS, analysed, post
from tests.conftest import CAPTURES, make_token

AXE = CHECKOUT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
RULES = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast"]},
}
"""Of axe-core. In the dark only colours differ."""
FILES = {
    "connection-page": {"subflows", "what-ifs"},
    "sequence-page": {"ACKs of this period"},
    "model-check-page": {"counterexample", "actions"},
    "capture-page": {"connections", "subflows of the connections", "who shared with whom"},
    "team-page": {"questions"},
    "connections-page": {"connections", "subflows of the connections"},
    "comparison-page": {"goodput of these", "goodput of those", "what differs"},
    "captures-page": {"captures"},
    "settings-page": {"members", "tokens", "log"},
    "alerts-page": {"alerts", "messages"},
    "specifications-page": {"checks", "configurations of Windows"},
    "retention-page": {"what is deleted now"},
}
"""What each page offers as files. Tests of other modules hold the pages of settings and alerts."""
LISTS_BEYOND = """[...document.querySelectorAll(".scroll:has(.index)")].map((e) => e.scrollWidth - e.clientWidth)"""
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""By how many pixels the page is wider than the window."""
SLOWED = """
window.shifts = [];
window.waiting = 0;
let asked = 0;
new PerformanceObserver((list) => {
  for (const e of list.getEntries()) {
    const what = e.sources.map((s) => `${s.node?.outerHTML?.slice(0, 80)} ${s.previousRect.y} to ${s.currentRect.y}`);
    window.shifts.push([e.value, what]);
  }
}).observe({type: 'layout-shift', buffered: true});
const fetched = window.fetch;
window.fetch = async (...request) => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  window.waiting++;
  try {
    const answer = await fetched(...request);
    await wait(60 + 90 * (asked++ % 4));
    return answer;
  } finally {
    wait(300).then(() => window.waiting--);
  }
};
"""
"""Answers come one after the other. `waiting`: requests without an answer, or whose answer may not be drawn yet."""
SHIFT_MAX = 0.005
"""Of a page that arrives, as browsers sum it up (Cumulative Layout Shift, where up to 0.1 is called good)."""
COMPRESSED_BYTES_MAX = 170_000
"""Of script and style of a page, with all that a reader has opened on it."""


@pytest.fixture(scope="module")
def connection(stack: Services) -> tuple[str, str]:
    """A team's token, and its connection of MPTCP. The capture has some tags, and a long note without a break."""
    token = make_token(["read", "write", "admin"])
    number = analysed(stack, token)
    (capture,) = get(stack, token, "/v1/captures")["items"]
    described = {"add_tags": {"link": "lte", "release": "2026.11", "site": "osaka"}, "notes": "long" * 400}
    asked(stack, token, f"/v1/captures/{capture['id']}", json.dumps(described).encode(), "PATCH")
    wanted = {"selection": {"connection_ids": [number]}, "algorithms": ["cubic"], "repeat": 2}
    post(stack, token, "/v1/whatifs", json.dumps(wanted).encode())
    return token, number


def with_findings() -> bytes:
    """A capture at the receiver with IPv6's longest addresses. Some packets are missing, and it ends with zeros."""
    whole = (CAPTURES / "mptcp-receiver-side.pcap").read_bytes()
    header, at, records = whole[:24], 24, []
    while at < len(whole):
        seconds, fraction, kept, wire = struct.unpack_from("<IIII", whole, at)
        packet = whole[at + 16 : at + 16 + kept]
        ends = [b"\x20\x01\x0d\xb8" + bytes([0x11] * 8) + packet[12 + i : 16 + i] for i in (0, 4)]
        packet = struct.pack("!IHBB", 6 << 28, wire - 20, 6, 64) + b"".join(ends) + packet[20:]
        records.append(struct.pack("<IIII", seconds, fraction, len(packet), wire + 20) + packet)
        at += 16 + kept
    return header + b"".join(r for n, r in enumerate(records[: len(records) // 2]) if n % 40) + bytes(64)


@pytest.fixture(scope="module")
def doubtful(stack: Services) -> tuple[str, str, str]:
    """A team's token, its capture, and the connection of this capture that has most findings."""
    token = make_token(["read", "write"])
    post(
        stack,
        token,
        "/v1/captures?filename=doubtful.pcap&tag=site%3Dosaka",
        with_findings(),
        "application/vnd.tcpdump.pcap",
    )
    wait_for("the analysis", lambda: all(c["state"] == "done" for c in get(stack, token, "/v1/captures")["items"]))
    found = get(stack, token, "/v1/connections")["items"]
    most = max(found, key=lambda c: len(c["quality"]))
    assert len(most["quality"]) >= 4
    assert len(most["src"]) > 30
    (capture,) = get(stack, token, "/v1/captures")["items"]
    assert capture["summary"]["quality"]["findings"]
    return token, most["capture_id"], most["id"]


def test_lists_with_findings_are_not_cut_off(stack: Services, doubtful: tuple[str, str, str], page: Page) -> None:
    token, capture, connection = doubtful
    page.context.clear_cookies()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(stack.address)
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("team-settings")).to_be_visible()
    for address in ("/captures", "/connections", f"/captures/{capture}", f"/connections/{connection}"):
        page.goto(stack.address + address)
        expect(page.get_by_test_id("verdict").or_(page.get_by_test_id("capture")).first).to_be_visible()
        lists = page.evaluate("[...document.querySelectorAll('.scroll')].map((e) => e.scrollWidth - e.clientWidth)")
        if "REWINDOW_SCREENSHOTS" in os.environ:
            page.screenshot(path=SCREENSHOTS / f"doubtful{address[:12].replace('/', '-')}.png", full_page=True)
        assert all(more <= 0 for more in lists), f"lists of {address} are {lists} pixels wider than their room"
        assert page.evaluate(BEYOND) <= 0
    page.context.clear_cookies()  # the next test signs in as another team


def shown(page: Page, stack: Services, address: str, test_id: str) -> None:
    page.goto(stack.address + address)
    expect(page.get_by_test_id(test_id).first).to_be_visible()


def violations(page: Page, rules: dict[str, Any]) -> list[dict[str, Any]]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", rules)
    return [
        {"rule": v["id"], "help": v["help"], "nodes": [n["html"][:200] for n in v["nodes"][:3]]}
        for v in found["violations"]
    ]


def loaded_bytes(page: Page) -> int:
    """Script and style, compressed, that the page has read since its address was opened."""
    paths = page.evaluate("performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname)")
    files = {CHECKOUT / "dashboard" / "dist" / p[1:] for p in paths if p.startswith("/assets/")}
    assert {f.suffix for f in files} == {".js", ".css"}
    return sum(len(gzip.compress(f.read_bytes(), 9)) for f in files)


def hold(page: Page, name: str, title: str) -> None:
    """The page has its title, and little script and style; in both colours at both widths nothing is cut off, and
    axe finds nothing."""
    assert title in page.title()
    # The description of the API is Swagger UI, and no page of the dashboard.
    assert name == "docs-page" or loaded_bytes(page) <= COMPRESSED_BYTES_MAX, name
    for colours in ("light", "dark"):
        page.emulate_media(color_scheme=colours)
        expect(page.locator("html")).to_have_attribute("data-colours", colours)
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 900})
            with suppress(TimeoutError):  # charts follow the window a frame later
                page.wait_for_function(f"() => {BEYOND} <= 0", timeout=10_000)
            beyond = page.evaluate(BEYOND)
            if "REWINDOW_SCREENSHOTS" in os.environ:
                page.screenshot(path=SCREENSHOTS / f"{name}-{colours}-{width}.png", full_page=True)
            assert beyond <= 0, f"{name} is {beyond} pixels wider than {width}"
            if width == 1280:
                lists = page.evaluate(LISTS_BEYOND)
                assert all(more <= 0 for more in lists), f"lists of {name} are {lists} pixels wider than their room"
            assert violations(page, RULES[colours]) == [], f"{name}, {colours}, {width}"
    page.emulate_media(color_scheme="light")
    expected = {f"{label} as a file" for label in FILES.get(name, ())}
    groups = page.locator(".files[role=group]")
    assert expected <= set(groups.evaluate_all("all => all.map((g) => g.ariaLabel)")), name
    for address in page.get_by_test_id("file-csv").evaluate_all("all => all.map((a) => a.href)"):
        answer = page.request.get(address)
        assert answer.ok, f"{name}: {address}: {answer.text()}"
        assert answer.headers["content-type"].startswith("text/csv")


def saved_chart(page: Page, label: str) -> list[list[str]]:
    """The rows of the chart's CSV. Its pictures have something on them, and the text of the first row's name."""
    group = page.get_by_role("group", name=f"save {label}").first
    files = {}
    for kind in ("png", "svg", "csv"):
        with page.expect_download() as saved:
            group.get_by_test_id(f"figure-{kind}").click()
        files[kind] = saved.value.path().read_bytes()
        assert saved.value.suggested_filename.endswith(f".{kind}")
    assert files["png"].startswith(b"\x89PNG")
    assert len(files["png"]) > 5000
    drawn = ElementTree.fromstring(files["svg"])
    assert len(drawn.findall(".//{*}path")) > 1
    assert len(drawn.findall(".//{*}text")) > 2
    return list(csv.reader(files["csv"].decode().splitlines()))


def drawn_ends(page: Page, *, of_nodes: bool = False) -> list[list[int]]:
    """Of each line of the graph who shared with whom: how far its two ends are from the top of the page, in pixels; or
    where the middles of its nodes are. There is one bottleneck."""
    lines = """all => all.map((p) => {
        const [box, d] = [p.ownerSVGElement.getBoundingClientRect(), p.getAttribute('d').match(/[\\d.]+/g).map(Number)];
        return [Math.round(box.top + d[1]), Math.round(box.top + d.at(-1))];
    })"""
    nodes = """all => all.map((e) => e.getBoundingClientRect()).map((b) => Math.round(b.top + b.height / 2))"""
    graph = page.get_by_test_id("sharing-graph")
    if not of_nodes:
        return list(graph.locator("svg path").evaluate_all(lines))
    (bottleneck,) = graph.get_by_role("list", name="bottlenecks").get_by_role("listitem").evaluate_all(nodes)
    connections = graph.get_by_role("list", name="connections").get_by_role("listitem").evaluate_all(nodes)
    return [[y, bottleneck] for y in connections]


def test_script_and_style_are_sent_compressed(stack: Services) -> None:
    """Also to a browser that has signed in and does not say who asks: they contain nothing of a team."""
    for path in (CHECKOUT / "dashboard" / "dist" / "assets").glob("index-*"):
        headers = {"Accept-Encoding": "gzip", "Cookie": "rewindow_session=x"}
        request = urllib.request.Request(f"{stack.address}/assets/{path.name}", headers=headers)
        with answered(request) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(response.read()) == path.read_bytes()


def test_every_page_can_be_read_by_everybody(stack: Services, page: Page, connection: tuple[str, str]) -> None:
    token, number = connection
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.goto(f"{stack.address}/connections/{number}")
    expect(page.get_by_test_id("token")).to_be_visible()
    hold(page, "sign-in", "Sign in")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
    expect(page.get_by_test_id("fan").locator("canvas")).to_be_visible(timeout=SIMULATED_MS)
    page.get_by_test_id("whatif-changes").locator("summary").click()
    hold(page, "connection-page", "Connection 0 of capture")
    head, *intervals = saved_chart(page, "prediction of")
    assert head == ["metric", "recorded", "predicted_median", "predicted_low", "predicted_high"]
    assert len(intervals) == page.get_by_test_id("interval").count() > 2
    assert all(float(low) <= float(median) <= float(high) for _, _, median, low, high in intervals)
    page.get_by_test_id("graph-sequence").click()
    expect(page.get_by_test_id("segments-state")).to_contain_text("R: retransmission")
    page.get_by_test_id("acks-open").click()
    expect(page.get_by_test_id("acks").locator("tbody tr").first).to_be_visible()
    page.get_by_test_id("note-add").click()
    page.get_by_test_id("note-form").get_by_label("note").fill("the first losses")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("notes")).to_contain_text("the first losses")
    page.get_by_test_id("note-add").click()
    hold(page, "sequence-page", "Connection 0 of capture")
    page.locator(".crumbs a").last.click()
    expect(page.get_by_test_id("connection").first).to_be_visible()
    hold(page, "capture-page", "capture")
    graph = page.get_by_test_id("sharing-graph")
    members = [link.inner_text().split(",")[0] for link in page.get_by_test_id("member").get_by_role("link").all()]
    nodes = graph.get_by_role("list", name="connections").get_by_role("link")
    assert [link.inner_text().split(",")[0] for link in nodes.all()] == members, "each of them, in their order"
    expect(graph).to_have_attribute("data-edges", str(len(members)))
    for drawn, nodes_of in zip(drawn_ends(page), drawn_ends(page, of_nodes=True), strict=True):
        assert drawn == pytest.approx(nodes_of, abs=2), "a line ends where its nodes are"
    expect(nodes.first).to_have_accessible_name(re.compile(rf"^connection {members[0]}, .*shared with {members[1]}$"))
    nodes.first.focus()
    expect(graph.locator("path.faded")).to_have_count(len(members) - 1)
    page.keyboard.press("Tab")
    expect(nodes.nth(1)).to_be_focused()
    assert len(saved_chart(page, "who shared with whom")) == 1 + len(members)
    head, *lives = saved_chart(page, "lives and shares of")
    rows = page.locator("[data-testid=group]").first.get_by_test_id("member")
    assert [[r[0], r[2], r[3]] for r in lives] == [
        [row.locator("td").nth(0).inner_text().split(",")[0], *(row.locator("td").nth(n).inner_text() for n in (1, 2))]
        for row in rows.all()
    ]
    assert (head[4], head[5]) == ("begin_s", "end_s")
    assert all(float(r[4]) < float(r[5]) for r in lives)
    shown(page, stack, "/?unreliable=counted&compare=before&measure=rtt_inflation", "cell")
    for measure in ("jain", "retransmission_rate", "rtt_inflation", "completion_short_s"):
        expect(page.locator(f"[data-testid=trend][data-measure={measure}]")).to_have_attribute(
            "data-count", re.compile(r"^\d+$")
        )
    expect(page.get_by_test_id("changed")).to_have_attribute("data-compared", "0")
    expect(page.locator("[data-testid=sweep] [data-metric=goodput_bps]")).to_be_visible()
    page.locator("[data-testid=sweep] summary").click()
    hold(page, "team-page", "Team")
    head, *cells = saved_chart(page, "the grid")
    assert head == ["sender_algorithm", "site", "median", "count"]
    told = page.get_by_test_id("cell").all_inner_texts()
    assert [f"{float(c[2]):.2f}" for c in cells] == [re.match(r"[\d.]+", t)[0] for t in told]  # type: ignore[index]
    shown(page, stack, "/connections?values=open", "connection")
    expect(page.locator("[data-testid=values][data-field=kind]")).to_contain_text("mptcp 1")
    page.get_by_test_id("add-filter").click()
    page.get_by_test_id("filter-field").select_option("mark")
    page.get_by_test_id("filter-search").click()
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    hold(page, "choosing-page", "Connections")
    page.get_by_role("button", name="days of capture", exact=True).click()
    of_months = page.get_by_role("group", name="choose days of capture").locator(
        "[data-bits-day]:not([data-outside-month])"
    )
    expect(of_months.first).to_be_visible()
    page.get_by_test_id("columns").click()
    hold(page, "connections-page", "Connections")
    shown(page, stack, "/comparison?selection=kind%3Dmptcp&baseline=kind%3Dtcp&measure=goodput_bps", "bar")
    hold(page, "comparison-page", "Comparison")
    head, *parts = saved_chart(page, "kind of both")
    assert head == ["kind", "connections of these", "share of these", "connections of those", "share of those"]
    assert sorted(parts) == [["mptcp", "1", "1", "0", "0"], ["tcp", "0", "0", "1", "1"]]
    head, *bins = saved_chart(page, "goodput of both")
    assert head == ["from", "to", "these", "those"]
    for column in (2, 3):
        assert sum(float(b[column]) for b in bins) == pytest.approx(1)
    shown(page, stack, "/captures?values=open", "capture")
    expect(page.locator("[data-testid=values][data-field=kind]")).to_contain_text("mptcp 1")
    hold(page, "captures-page", "Captures")
    page.get_by_role("button", name=re.compile("^delete ")).first.click()
    hold(page, "confirmation", "Captures")
    page.get_by_test_id("confirmation-no").click()
    asked = post(stack, token, "/v1/model-checks", b'{"spec": "Windows", "configuration": "asprinted"}')
    shown(page, stack, f"/model-checks/{asked['id']}", "counterexample")
    expect(page.get_by_test_id("check-state")).to_contain_text("violated Bounded")
    expect(page.get_by_test_id("coverage")).to_be_visible()
    assert saved_chart(page, "windows of the counterexample")[1:]
    hold(page, "model-check-page", "Windows")
    shown(page, stack, "/specifications", "specification")
    page.get_by_test_id("specification").first.locator("summary").click()
    hold(page, "specifications-page", "Specifications")
    page.goto(f"{stack.address}/model-checks")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    hold(page, "no-page", "No such page")
    page.goto(f"{stack.address}/docs")
    page.locator("#operations-captures-upload_v1_captures_post").click()
    expect(page.get_by_role("button", name="Try it out")).to_be_visible()
    hold(page, "docs-page", "The API")


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_moves_while_a_page_arrives(
    stack: Services, page: Page, connection: tuple[str, str], width: int
) -> None:
    token, number = connection
    assert page.context.browser
    page = page.context.browser.new_page(viewport={"width": width, "height": 900})  # nobody is signed in
    page.goto(f"{stack.address}/connections/{number}")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    address = page.locator(".crumbs a").last.get_attribute("href")
    check = post(stack, token, "/v1/model-checks", b'{"spec": "Windows", "configuration": "asprinted"}')["id"]
    page.goto(f"{stack.address}/model-checks/{check}")
    expect(page.get_by_test_id("check-state")).to_contain_text("violated Bounded")
    page.add_init_script(SLOWED)
    moved = {}
    for path, test_id in {
        "/": "trend",
        f"{address}": "connection",
        f"/connections/{number}": "chart",
        "/captures?values=open": "capture",
        "/connections?values=open": "connection",
        "/comparison?selection=kind%3Dmptcp&baseline=kind%3Dtcp&measure=goodput_bps": "bar",
        f"/model-checks/{check}": "counterexample",
        "/specifications": "specification",
        "/alerts": "make-webhook",
        "/settings": "event",
    }.items():
        shown(page, stack, path, test_id)
        page.wait_for_function("() => window.waiting === 0")
        shifts = page.evaluate("window.shifts")
        if sum(value for value, _ in shifts) > SHIFT_MAX:
            moved[path] = shifts
    page.close()
    assert moved == {}
