"""The dashboard in Chromium: upload through the page, wait, open the connection, look at the windows."""

from __future__ import annotations

import csv
import itertools
import math
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, Route, expect

import rewindow
from deploy.run import CHECKOUT, Services, stop_process, wait_for
from rewindow.conformance import step_logs
from tests.conftest import CAPTURES, steps_taken
from tests.unit.test_segments import reinjecting

TLC_MS = 120_000
"""Java alone takes seconds to start, and there may be others that use the machine."""
DIGIT_PX = 7.7
"""Of a chart's labels, in the widest of their fonts."""
SCREENSHOTS = Path(os.environ.get("REWINDOW_SCREENSHOTS", CHECKOUT / "build" / "screenshots"))


def lines(page: Page) -> int:
    return int(page.get_by_test_id("chart").get_attribute("data-lines") or 0)


def drawn_colours(page: Page) -> set[tuple[int, int, int]]:
    return colours_of(page, "chart")


def colours_of(page: Page, test_id: str) -> set[tuple[int, int, int]]:
    """The colours on the canvas, coarse: what is drawn, not what was meant to be."""
    found = page.evaluate(
        """(id) => {
            const c = document.querySelector(`[data-testid=${id}] canvas`);
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = {};
            for (let i = 0; i < d.length; i += 4)
                if (d[i + 3] > 250) { const k = [d[i], d[i+1], d[i+2]].join(','); seen[k] = (seen[k] ?? 0) + 1; }
            return Object.entries(seen).filter(([, n]) => n > 30).map(([k]) => k.split(',').map(Number));
        }""",
        test_id,
    )
    return {tuple(c) for c in found}


def test_from_upload_to_windows(stack: Services, token: str, page: Page) -> None:
    page.goto(stack.address)
    page.get_by_test_id("token").fill("rw_wrong")
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_text("nothing uploaded yet")).to_be_visible()

    page.get_by_test_id("file").set_input_files(CAPTURES / "mptcp-two-subflows.pcap")
    row = page.get_by_test_id("capture")
    expect(row).to_have_attribute("data-state", "done")
    expect(row.get_by_test_id("capture-verdict")).to_have_text("good")
    expect(row.get_by_test_id("shares")).to_have_text("2 good (100.0 %)")
    page.get_by_test_id("file").set_input_files(Path(__file__))
    failed = page.locator("[data-testid=capture][data-state=failed]")
    expect(failed).to_contain_text("neither pcap nor pcapng")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "captures.png")
    of_state = page.get_by_test_id("state-filter")
    of_state.get_by_text("failed", exact=True).click()
    expect(page.get_by_test_id("total")).to_have_text("1")
    expect(row).to_have_count(1)
    expect(failed).to_be_visible()
    assert parse_qs(urlsplit(page.url).query)["state"] == ["failed"]
    of_state.get_by_text("running", exact=True).click()
    expect(page.get_by_text("No capture has all of this")).to_be_visible()
    of_state.get_by_text("all states", exact=True).click()
    expect(row).to_have_count(2)
    page.get_by_role("columnheader", name="bytes").get_by_role("button").click()
    expect(row.first).to_be_visible()
    page.get_by_role("link", name="team", exact=True).click()
    expect(page.get_by_role("heading", name="Team", exact=True)).to_be_visible()
    page.get_by_role("link", name="captures", exact=True).click()

    page.get_by_test_id("capture").get_by_role("link", name="mptcp-two-subflows.pcap").click()
    expect(page.get_by_test_id("state")).to_have_text("done")
    expect(page.locator(".crumbs")).to_have_text("captures / mptcp-two-subflows.pcap")
    expect(page.get_by_test_id("capture-verdict")).to_have_text("good")
    expect(page.get_by_test_id("shares")).to_have_text("2 good (100.0 % of bytes)")
    expect(page.get_by_test_id("connection")).to_have_count(2)
    page.screenshot(path=SCREENSHOTS / "capture.png")
    page.locator("[data-testid=connection][data-kind=mptcp] a").first.click()
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
    expect(page.locator(".crumbs")).to_have_text("captures / mptcp-two-subflows.pcap / connection 1")
    assert lines(page) == 4, "one line for each algorithm and subflow"
    assert {(127, 6, 249), (31, 140, 249)} <= drawn_colours(page), "uncoupled and tccc are drawn"
    for mark in ("fast retransmit", "joins"):
        expect(page.get_by_text(mark, exact=False).first).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "connection.png")

    page.get_by_test_id("algorithm").and_(page.locator("[data-label=css]")).click()
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", "6")
    page.get_by_test_id("subflow").last.click()
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", "3")
    query = parse_qs(urlsplit(page.url).query)
    assert set(query["algorithms"][0].split(";")) == {"uncoupled", "css", "tccc"}
    assert query["hide"] == ["1"]
    assert token not in page.url


def test_zoom_asks_again_and_the_address_keeps_the_view(page: Page) -> None:
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
    box = page.get_by_test_id("chart").bounding_box()
    assert box is not None
    with page.expect_response(lambda r: "/series?" in r.url and "from=" in r.url) as asked:
        page.mouse.move(box["x"] + 300, box["y"] + 150)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, box["y"] + 150, steps=5)
        page.mouse.up()
    assert asked.value.ok
    query = parse_qs(urlsplit(page.url).query)
    assert 0 < float(query["from"][0]) < float(query["to"][0]) < 13
    address, before = page.url, page.get_by_test_id("chart").get_attribute("data-lines")
    page.reload()
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
    assert page.url == address
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", before or "")
    page.get_by_test_id("whole").click()
    assert "from" not in parse_qs(urlsplit(page.url).query)
    page.go_back()
    assert page.url == address
    assert page.troubles == []  # type: ignore[attr-defined]


def test_times_are_whole_at_the_strongest_zoom(page: Page) -> None:
    """The labels below the axis, one of which is at its end, have seven digits and more after the point."""
    address = page.url
    page.goto(f"{address.partition('?')[0]}?from=11.0000001&to=11.0000011")
    chart = page.get_by_test_id("chart")
    expect(chart).to_have_attribute("data-from", "11.0000001")
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    drawn = ElementTree.fromstring(saved.value.path().read_bytes())
    times = [t for t in drawn.findall(".//{*}text") if (t.text or "").startswith("11.0000")]
    assert len(times) > 2
    width = float(drawn.attrib["width"])
    ends = [
        float(t.attrib["x"]) + {"middle": 0.5, "end": 0}[t.attrib["text-anchor"]] * len(t.text or "") * DIGIT_PX
        for t in times
    ]
    assert width - 2 * DIGIT_PX < max(ends) <= width, "one is at the end, and none reaches beyond it"
    page.goto(address)
    expect(chart.locator("canvas").first).to_be_visible()


def test_a_drag_survives_lines_that_arrive_meanwhile(page: Page) -> None:
    held: list[Route] = []
    page.route("**/series?**", lambda route: held.append(route))
    # The view of before may still be asked for.
    with page.expect_request(lambda r: "/series?" in r.url and "css" not in r.url):
        page.get_by_test_id("algorithm").and_(page.locator("[data-label=css]")).click()
    expect(page.get_by_test_id("algorithm").and_(page.locator("[data-label=css]"))).to_have_class(re.compile("off"))
    box = page.get_by_test_id("chart").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    page.mouse.down()
    for asked in held:
        asked.continue_()
    page.unroute("**/series?**")
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", "2")
    page.mouse.move(box["x"] + 600, box["y"] + 150, steps=5)
    page.mouse.up()
    query = parse_qs(urlsplit(page.url).query)
    assert 0 < float(query["from"][0]) < float(query["to"][0]) < 13
    page.get_by_test_id("whole").click()
    page.get_by_test_id("algorithm").and_(page.locator("[data-label=css]")).click()
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", "3")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_the_chart_by_keys_and_as_a_file(page: Page) -> None:
    chart, told = page.get_by_test_id("chart"), page.get_by_test_id("told")
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    expect(chart).to_have_attribute("data-from", "0")
    whole = float(chart.get_attribute("data-to") or 0)
    page.keyboard.press("w")
    expect(chart).not_to_have_attribute("data-from", "0")
    shown = [float(chart.get_attribute(f"data-{end}") or 0) for end in ("from", "to")]
    assert shown == pytest.approx([0.15 * whole, 0.85 * whole], abs=1e-5)
    page.keyboard.press("ArrowRight")
    expect(told).to_contain_text("tccc, subflow 0")
    reading = {n: float(v) for n, v in re.findall(r"(in flight|tccc), subflow 0 ([0-9.]+) segments", told.inner_text())}
    assert 0 < reading["tccc"] < 40
    assert 0 < reading["in flight"] < 80
    page.keyboard.press("l")
    expect(page.get_by_test_id("log")).to_have_attribute("aria-pressed", "true")
    assert parse_qs(urlsplit(page.url).query)["scale"] == ["log"]
    with page.expect_download() as saved:
        page.get_by_test_id("save-csv").click()
    rows = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    assert {r["line"] for r in rows} >= {"in flight, subflow 0", "tccc, subflow 0", "RTT, subflow 0"}
    assert all(shown[0] - 1e-5 <= float(r["time_s"]) <= shown[1] + 1e-5 for r in rows)
    page.keyboard.press("Tab")
    page.get_by_test_id("log").click()
    page.get_by_test_id("whole").click()
    assert page.troubles == []  # type: ignore[attr-defined]


LEFT_PX = 70
"""Left of the picture of a chart are the labels of its axis."""


def labels_of_axis(page: Page) -> list[tuple[float, float]]:
    """The numbers with their places, pixels from the top, ascending."""
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    drawn = ElementTree.fromstring(saved.value.path().read_bytes())
    found = []
    for text in drawn.findall(".//{*}text"):
        is_left = float(text.attrib["x"]) < LEFT_PX and text.attrib["text-anchor"] == "end"
        if is_left and re.fullmatch(r"[0-9.,]+", text.text or ""):
            found.append((float((text.text or "").replace(",", "")), float(text.attrib["y"])))
    return sorted(found)


def places_per(labels: list[tuple[float, float]], of: Callable[[float], float]) -> list[float]:
    return [(b - a) / (of(high) - of(low)) for (low, a), (high, b) in itertools.pairwise(labels)]


def test_receive_windows_and_thresholds_are_on_the_axis_of_windows(page: Page) -> None:
    """What was recorded and what was replayed, read by one cross-hair; the axis may be logarithmic."""
    chart, told, pad = page.get_by_test_id("chart"), page.get_by_test_id("told"), page.get_by_role("application")
    expect(chart.locator("canvas").first).to_be_visible()
    kinds = {"window": "receiver's window", "ssthresh": "ssthresh of tccc"}
    for what in kinds:
        page.locator(f"[data-testid=line][data-what={what}]").click()
    expect(page).to_have_url(re.compile("lines=flight%2Crtt%2Cwindow%2Cssthresh"))
    expect(page.get_by_test_id("values-at")).to_contain_text("receiver's window, subflow 0")
    assert (102, 119, 140) in drawn_colours(page) or (132, 146, 162) in drawn_colours(page), "the receiver's window"
    pad.focus()
    page.keyboard.press("0")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(told).to_contain_text("ssthresh of tccc, subflow 0")
    with page.expect_download() as saved:
        page.get_by_test_id("save-csv").click()
    rows = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    at = float(told.inner_text().partition(" s:")[0])
    for words in (*kinds.values(), "in flight", "tccc"):
        line = f"{words}, subflow 0"
        last = [float(r["value"]) for r in rows if r["line"] == line and float(r["time_s"]) <= at][-1]
        read = re.search(rf"(?:^|[:,] ){line} ([0-9.]+) segments", told.inner_text())
        assert read is not None, line
        assert float(read[1]) == pytest.approx(last, abs=0.51)

    page.locator("[data-testid=line][data-what=rtt]").click()  # it has an axis of its own
    expect(page.get_by_test_id("values-at")).not_to_contain_text("RTT")
    linear = labels_of_axis(page)
    assert len(linear) > 2
    assert places_per(linear, float) == pytest.approx([places_per(linear, float)[0]] * (len(linear) - 1), rel=0.02)
    page.get_by_test_id("log").click()
    logarithmic = labels_of_axis(page)
    assert len(logarithmic) > 2
    steps = places_per(logarithmic, math.log)
    assert steps == pytest.approx([steps[0]] * len(steps), rel=0.02)
    page.get_by_test_id("log").click()
    page.locator("[data-testid=line][data-what=rtt]").click()
    for what in kinds:
        page.locator(f"[data-testid=line][data-what={what}]").click()
    pad.focus()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("values-at")).not_to_have_class(re.compile("held"))
    assert page.troubles == []  # type: ignore[attr-defined]


def test_the_chart_by_every_key_and_by_hand(page: Page) -> None:
    """Each of those that the line below the chart names."""
    chart, pad = page.get_by_test_id("chart"), page.get_by_role("application")
    page.mouse.move(5, 5)
    pad.focus()
    page.keyboard.press("0")
    expect(chart).to_have_attribute("data-from", "0")

    def view() -> list[float]:
        return [float(chart.get_attribute(f"data-{end}") or 0) for end in ("from", "to")]

    def expect_view(*parts: float) -> None:
        """As parts of the whole; the browser draws a moment later."""
        expected = pytest.approx([part * whole for part in parts], abs=0.005 * whole)
        wait_for(f"{parts} of the whole", lambda: view() == expected)

    def top() -> float | None:
        found = parse_qs(page.evaluate("location.search.slice(1)")).get("top")
        return float(found[0]) if found else None

    _, whole = view()
    for key, parts in {"w": (0.15, 0.85), "a": (0.08, 0.78), "d": (0.15, 0.85), "s": (0, 1)}.items():
        page.keyboard.press(key)
        expect_view(*parts)
    page.keyboard.press("ArrowUp")
    wait_for("the values", lambda: top() is not None)
    nearer = top()
    assert nearer is not None
    page.keyboard.press("ArrowDown")
    wait_for("the values", lambda: top() == pytest.approx(1.25 * nearer, rel=0.01))
    page.keyboard.press("w")
    expect_view(0.15, 0.85)
    page.keyboard.press("0")
    expect_view(0, 1)
    assert top() is None

    page.get_by_test_id("detail").scroll_into_view_if_needed()  # a mouse reaches what is in the window
    box = pad.bounding_box()
    assert box is not None
    left, right = 62, 10
    wide = box["width"] - left - right

    def at(part: float, y: float = 150) -> tuple[float, float]:
        assert box is not None
        return box["x"] + left + part * wide, box["y"] + y

    def drag(begin: tuple[float, float], end: tuple[float, float]) -> None:
        page.mouse.move(*begin)
        page.mouse.down()
        page.mouse.move(*end, steps=5)
        page.mouse.up()

    page.mouse.move(*at(0.25))
    page.mouse.wheel(0, -462)  # 1.0015 ** -462 is a half
    expect_view(0.125, 0.625)
    page.mouse.wheel(0.2 * wide, 0)
    expect_view(0.225, 0.725)
    page.keyboard.down("Shift")
    drag(at(0.3), at(0.5))
    page.keyboard.up("Shift")
    expect_view(0.125, 0.625)
    page.mouse.dblclick(*at(0.5))
    expect_view(0, 1)
    strip = box["height"] - 20
    drag(at(0.2, strip), at(0.6, strip))
    expect_view(0.2, 0.6)
    page.mouse.click(*at(0.7, strip))
    expect_view(0.5, 0.9)
    page.mouse.dblclick(*at(0.5))
    drag((box["x"] + 20, box["y"] + 200), (box["x"] + 20, box["y"] + 100))
    wait_for("the values", lambda: top() is not None)
    page.mouse.dblclick(*at(0.5))
    expect_view(0, 1)
    assert top() is None

    page.get_by_test_id("log").focus()
    page.mouse.move(*at(0.5))
    page.mouse.wheel(0, 10)
    page.mouse.wheel(0, -10)
    expect_view(0, 1)  # the page scrolls as long as nobody works with the chart
    assert page.troubles == []  # type: ignore[attr-defined]


def test_the_time_sequence_graph(page: Page) -> None:
    """Its segments are read when the graph is opened; its period and keys are those of the windows."""
    page.get_by_test_id("graph-sequence").click()
    expect(page.get_by_role("heading", name="Time-sequence graph of subflow 0")).to_be_visible()
    expect(page.get_by_test_id("segments-state")).to_contain_text("R: retransmission")
    chart, values, told = (page.get_by_test_id(i) for i in ("chart", "values-at", "told"))
    # 1780 segments, 44 retransmissions, 168 SACK blocks (tests/unit/test_segments.py compares them with tshark's).
    expect(chart).to_have_attribute("data-bars", "1992")
    for kind, count in {"data": "1,780", "R retransmissions": "44", "SACK blocks": "168"}.items():
        expect(values.locator("div").filter(has_text=re.compile(rf"{kind}\s*[0-9,]+$"))).to_contain_text(count)
    assert {(127, 6, 249), (31, 140, 249)} <= drawn_colours(page), "una + cwnd of uncoupled and tccc"
    address = page.url
    page.goto(f"{address}&from=0.3&to=0.75")
    expect(chart).to_have_attribute("data-from", "0.3")
    expect(page.get_by_test_id("detail")).to_have_text("every ACK and segment is drawn")
    page.screenshot(path=SCREENSHOTS / "sequence.png")
    page.goto(address)

    part = page.get_by_test_id("part")
    part.and_(page.locator("[data-part=again]")).click()
    expect(chart).to_have_attribute("data-bars", "1948")
    part.and_(page.locator("[data-part=again]")).click()
    page.get_by_role("application").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(told).to_contain_text(re.compile(r"acknowledged [\d,]+, .*una \+ cwnd of tccc [\d,]+, data [\d,]+ to"))
    places = {
        n: int(v.replace(",", ""))
        for n, v in re.findall(r"(acknowledged|receiver's window) ([\d,]+)", told.inner_text())
    }
    assert places["receiver's window"] > places["acknowledged"]
    edge = page.locator("[data-testid=part][data-part=edge]")
    edge.click()
    expect(values).not_to_contain_text("receiver's window")
    edge.click()
    expect(values).to_contain_text("receiver's window")
    page.get_by_role("application").focus()
    page.keyboard.press("w")
    expect(page).to_have_url(re.compile(r"graph=sequence.*from="))
    with page.expect_download() as saved:
        page.get_by_test_id("save-csv").click()
    rows = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    sent = [r for r in rows if r["line"] == "data"]
    assert 0 < len(sent) < 1780
    assert {int(r["to"]) - int(r["value"]) for r in sent} <= set(range(1, 1325))
    page.get_by_test_id("acks-open").focus()
    page.keyboard.press("Enter")
    table = page.get_by_test_id("acks")
    expect(table.locator("tbody tr")).to_have_count(50)
    expect(table.locator("th").first).to_have_text("time, s")
    before = float(table.locator("td").first.inner_text())
    page.get_by_test_id("acks-next").focus()
    page.keyboard.press("Enter")
    expect(table.locator("td").first).not_to_have_text(f"{before:.9f}")
    assert float(table.locator("td").first.inner_text()) > before
    with page.expect_download() as rows_saved:
        page.get_by_role("group", name="ACKs of this period as a file").get_by_test_id("file-csv").click()
    shown = list(csv.DictReader(rows_saved.value.path().read_text().splitlines()))
    assert len(shown) > 100
    assert {r["subflow"] for r in shown} == {"0"}
    page.get_by_test_id("acks-open").click()
    page.get_by_test_id("sequence-subflow").last.click()
    expect(page.get_by_role("heading", name="Time-sequence graph of subflow 1")).to_be_visible()
    page.get_by_test_id("whole").click()
    expect(chart).to_have_attribute("data-bars", "1537")
    page.get_by_test_id("graph-windows").click()
    expect(chart).to_have_attribute("data-bars", "0")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_note_is_pinned_and_shared_by_its_link(page: Page) -> None:
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("n")
    form = page.get_by_test_id("note-form")
    half = float(page.get_by_test_id("chart").get_attribute("data-to") or 0) / 2
    assert float(form.get_by_label("at, seconds").input_value()) == pytest.approx(half, abs=1e-5)
    form.get_by_label("note").fill("the queue overflows")
    page.keyboard.press("Enter")
    notes = page.get_by_test_id("notes")
    expect(notes.locator("li")).to_have_count(1)
    expect(notes).to_contain_text("the queue overflows")
    notes.get_by_role("button", name="edit note 1").click()
    notes.get_by_label("text").fill("the queue is full")
    page.keyboard.press("Enter")
    expect(notes).to_contain_text("the queue is full")
    expect(notes).to_contain_text("changed by")
    # Another tab has changed the text meanwhile: its text is shown, and the next save takes its place.
    notes.get_by_role("button", name="edit note 1").click()
    saved = page.evaluate(
        """async () => {
            const path = location.pathname.replace("/connections/", "/v1/connections/") + "/notes";
            const [note] = await (await fetch(path)).json();
            const headers = { "Content-Type": "application/json" };
            return (await fetch(`${path}/${note.id}`, { method: "PATCH", headers, body: '{"text": "theirs"}' })).status;
        }"""
    )
    assert saved == 200
    notes.get_by_label("text").fill("mine")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("somebody has changed this note meanwhile")
    expect(page.get_by_test_id("saved-text")).to_have_text("theirs")
    expect(notes.get_by_label("text")).to_have_value("mine")
    page.keyboard.press("Enter")
    expect(notes).to_contain_text("mine")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.troubles[:] = [t for t in page.troubles if "409" not in t]  # type: ignore[attr-defined]
    link = page.get_by_test_id("note-link").get_attribute("href")
    page.goto(f"{urlsplit(page.url)._replace(path='', query='').geturl()}{link}")
    expect(notes.locator("li")).to_have_attribute("aria-current", "true")
    shown = [float(page.get_by_test_id("chart").get_attribute(f"data-{end}") or 0) for end in ("from", "to")]
    assert sum(shown) / 2 == pytest.approx(half, abs=1e-5)
    assert shown[1] - shown[0] < half
    page.screenshot(path=SCREENSHOTS / "note.png")
    page.get_by_role("button", name="delete note 1").click()
    expect(notes).to_have_count(0)
    page.get_by_test_id("whole").click()
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_replay_with_other_options(page: Page) -> None:
    form = page.get_by_test_id("replay-form")
    page.get_by_test_id("replay-algorithm").select_option("bbr3")
    expect(form.get_by_test_id("algorithm-source")).to_contain_text("not validated against a kernel")
    page.get_by_test_id("replay-algorithm").select_option("tccc")
    form.locator("[data-name=aca_md]").select_option("half")
    page.get_by_role("button", name="replay", exact=True).click()
    chip = page.locator("[data-label='tccc(aca_md=half)']")
    expect(chip).to_be_enabled()
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", "4")
    asked = page.get_by_test_id("deletable").get_by_role("button")
    expect(asked).to_have_text("tccc(aca_md=half) ×")
    asked.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    expect(chip).to_be_enabled()
    asked.click()
    page.get_by_test_id("confirmation-yes").click()
    expect(chip).to_have_count(0)
    expect(asked).to_have_count(0)
    expect(page.get_by_test_id("chart")).to_have_attribute("data-lines", re.compile("^[1-3]$"))
    assert page.troubles == []  # type: ignore[attr-defined]


def test_what_is_wrong_with_a_capture_is_shown(page: Page, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((CAPTURES / "mptcp-two-subflows.pcap").read_bytes()[:24])
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((CAPTURES / "mptcp-two-subflows.pcap").read_bytes()[:500_001])
    page.get_by_role("link", name="captures").first.click()
    page.get_by_test_id("file").set_input_files(empty)
    nothing = page.locator("[data-testid=capture]").filter(has_text="empty.pcap")
    expect(nothing.get_by_test_id("capture-verdict")).to_have_text("poor")
    expect(nothing.get_by_test_id("shares")).to_have_count(0)
    page.get_by_test_id("file").set_input_files(cut)
    row = page.locator("[data-testid=capture]").filter(has_text="cut.pcap")
    expect(row).to_have_attribute("data-state", "done")
    page.screenshot(path=SCREENSHOTS / "captures-quality.png")
    page.get_by_test_id("capture").get_by_role("link", name="cut.pcap").click()
    expect(page.get_by_test_id("capture-verdict")).to_have_text("limited")
    expect(page.get_by_test_id("findings")).to_contain_text("cut capture")
    expect(page.get_by_test_id("findings")).to_contain_text("completion")
    with page.expect_download() as saved:
        page.get_by_role("group", name="save findings over time").get_by_test_id("figure-csv").click()
    head, *timed = csv.reader(saved.value.path().read_text().splitlines())
    assert head == ["finding", "since_s", "until_s", "count"]
    [cut_off] = [row for row in timed if row[0] == "cut_capture"]
    cell = page.get_by_test_id("finding-time").first
    room, life = cell.bounding_box(), cell.locator(".life").bounding_box()
    assert room is not None
    assert life is not None
    begins = float(cut_off[1]) / float(cut_off[2])
    assert (life["x"] - room["x"]) / room["width"] == pytest.approx(begins, abs=0.02)
    expect(page.get_by_test_id("verdict").first).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "quality.png")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_what_is_unreliable_is_hatched_while_its_subflow_lasts(page: Page, tmp_path: Path) -> None:
    """The capture lacks data of the second subflow, which ends before the first one does."""
    whole = (CAPTURES / "mptcp-two-subflows.pcap").read_bytes()
    left, at, second = bytearray(whole[:24]), 24, 47667
    for place in itertools.count():
        if at >= len(whole):
            break
        end = at + 16 + struct.unpack_from("<I", whole, at + 8)[0]
        is_second = second in struct.unpack_from("!HH", whole, at + 16 + 20)  # raw IPv4 without options
        if not is_second or not (4000 < place < 4300 or place > 7000):
            left += whole[at:end]
        at = end
    path = tmp_path / "lacking.pcap"
    path.write_bytes(left)
    with rewindow.open(path) as capture:
        found = capture.replay(["newreno"])
    (connection,) = (c for c in found.connections if c.kind == "mptcp")
    (lacking,) = (s for s in connection.subflows if "unseen_data" in s.quality)
    acks = [
        a
        for a in found.acks.select(["connection", "subflow", "time_ns"]).to_pylist()
        if a["connection"] == connection.id
    ]
    first_ns, end_ns = acks[0]["time_ns"], acks[-1]["time_ns"]
    last_ns = max(a["time_ns"] for a in acks if a["subflow"] == lacking.id)
    assert first_ns < lacking.first_unseen_ns < last_ns < end_ns - 1e9
    since, until = ((t - first_ns) / 1e9 for t in (lacking.first_unseen_ns, last_ns))

    page.get_by_role("link", name="captures").first.click()
    page.get_by_test_id("file").set_input_files(path)
    page.get_by_test_id("capture").get_by_role("link", name="lacking.pcap").click()
    page.locator("[data-testid=connection][data-kind=mptcp] a").first.click()
    chart = page.get_by_test_id("chart")
    span = re.compile(rf"^window {since:.3f} {until:.3f}(;|$)")
    expect(chart).to_have_attribute("data-doubts", span)
    expect(page.get_by_test_id("doubts")).to_contain_text(f"unreliable: from {since:.2f} to {until:.2f} s, data was")
    page.get_by_test_id("subflow").nth(lacking.id).click()
    expect(chart).to_have_attribute("data-doubts", "")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_reinjections_are_marked(page: Page, tmp_path: Path) -> None:
    """Data that another subflow had sent: the graph of the one that sends it again has it, with its letter."""
    path = tmp_path / "reinjected.pcap"
    reinjecting().write(path)
    page.get_by_role("link", name="captures").first.click()
    page.get_by_test_id("file").set_input_files(path)
    row = page.get_by_test_id("capture").filter(has_text=path.name)
    expect(row).to_have_attribute("data-state", "done")
    row.get_by_role("link", name=path.name).click()
    page.get_by_test_id("connection").locator("a[href^='/connections/']").first.click()
    page.get_by_test_id("graph-sequence").click()
    expect(page.get_by_test_id("segments-state")).to_contain_text("J: reinjection")
    values = page.get_by_test_id("values-at")
    for subflow, there, missing in ((0, "retransmissions", "reinjections"), (1, "reinjections", "retransmissions")):
        page.get_by_test_id("sequence-subflow").nth(subflow).click()
        expect(page.get_by_role("heading", name=f"Time-sequence graph of subflow {subflow}")).to_be_visible()
        expect(values.locator("div").filter(has_text=re.compile(rf"{there}\s*1$"))).to_be_visible()
        expect(values).not_to_contain_text(missing)
        with page.expect_download() as saved:
            page.get_by_role("button", name="SVG").click()
        letters = {t.text for t in ElementTree.fromstring(saved.value.path().read_bytes()).findall(".//{*}text")}
        assert ("J" in letters, "R" in letters) == (there == "reinjections", there == "retransmissions")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_specification_is_checked(page: Page) -> None:
    page.get_by_role("link", name="specifications").click()
    page.get_by_test_id("spec").select_option("Windows")
    page.get_by_test_id("configuration").select_option("asprinted")
    limit = page.locator("[data-testid=constant][data-name=Limit]")
    expect(limit).to_have_value("4")
    limit.fill("61")
    page.get_by_test_id("check").click()
    assert limit.evaluate("e => e.validity.rangeOverflow"), "the page asks for the range itself"
    limit.fill("6")
    page.locator("[data-testid=constant][data-name=Subflows]").fill("3")
    page.get_by_test_id("check").click()
    expect(page.get_by_test_id("check-state")).to_have_text("violated Bounded", timeout=TLC_MS)
    expect(page.get_by_test_id("step")).to_have_count(4)
    last = page.get_by_test_id("step").last
    expect(last).to_contain_text("Ack")
    expect(last.locator(".changed")).to_have_count(1)
    expect(page.get_by_test_id("step").first.locator(".changed")).to_have_count(0)
    expect(page.get_by_test_id("windows")).to_have_attribute("data-lines", "3")
    assert {(11, 95, 174), (201, 115, 29), (127, 6, 249)} <= colours_of(page, "windows"), "a line for each subflow"
    expect(page.get_by_test_id("coverage")).to_contain_text("Loss")
    page.screenshot(path=SCREENSHOTS / "counterexample.png", full_page=True)
    page.get_by_role("link", name="specifications").first.click()
    headings = [
        page.get_by_role("heading", name=name).bounding_box() for name in ("Your team's checks", "What can be checked")
    ]
    own, all_of_them = (box["y"] for box in headings if box is not None)
    assert own < all_of_them, "the team's own checks are on top"
    expect(page.get_by_test_id("specification").and_(page.locator("[open]"))).to_have_count(0)
    section = page.locator("[data-testid=specification][data-name=Windows]")
    expect(section.locator("summary")).to_contain_text("asprinted: violated Bounded")
    section.locator("summary").click()
    row = page.locator("[data-testid=configuration-row][data-name=asprinted]")
    expect(row).to_contain_text("violated Bounded")
    expect(row).to_contain_text("violates Bounded")
    expect(page.locator("[data-testid=configuration-row][data-name=holds]")).to_contain_text("not yet checked")
    page.screenshot(path=SCREENSHOTS / "specifications.png", full_page=True)
    assert page.troubles == []  # type: ignore[attr-defined]


def test_a_check_is_watched_and_cancelled(page: Page) -> None:
    page.get_by_test_id("spec").select_option("Windows")
    page.get_by_test_id("configuration").select_option("holds")
    page.locator("[data-testid=constant][data-name=Subflows]").fill("6")
    page.locator("[data-testid=constant][data-name=Limit]").fill("60")
    page.get_by_test_id("check").click()
    expect(page.get_by_test_id("check-state")).to_have_text("running", timeout=TLC_MS)
    expect(page.get_by_test_id("distinct")).to_contain_text(",000", timeout=TLC_MS)
    page.screenshot(path=SCREENSHOTS / "check-running.png")
    page.get_by_test_id("cancel").click()
    expect(page.get_by_test_id("check-state")).to_have_text("cancelled")
    expect(page.get_by_test_id("cancel")).to_have_count(0)
    assert page.troubles == []  # type: ignore[attr-defined]


@pytest.fixture
def another_text(stack: Services) -> Iterator[Callable[[], None]]:
    """Makes the checker's specification say that a loss leaves a segment more than half of the window."""
    path = Path(stack.environment["REWINDOW_SPECS_FOLDER"]) / "CoupledSlowStart" / "CoupledSlowStart.tla"
    text = path.read_text()
    halves = "cwnd' = [cwnd EXCEPT ![s] = Halved(s)]"
    assert text.count(halves) == 1

    def restart(with_text: str) -> None:
        path.write_text(with_text)
        stop_process(stack.processes.pop("checker"))
        stack.start_checker()

    yield lambda: restart(text.replace(halves, "cwnd' = [cwnd EXCEPT ![s] = Halved(s) + Segment]"))
    restart(text)


def test_a_connection_is_held_against_its_specification(
    stack: Services, page: Page, another_text: Callable[[], None]
) -> None:
    page.goto(f"{stack.address}/captures")
    page.get_by_test_id("capture").get_by_role("link", name="mptcp-two-subflows.pcap").click()
    page.locator("[data-testid=connection][data-kind=mptcp] a").first.click()
    expect(page.get_by_test_id("conformance")).to_contain_text("steps are as specified")
    expect(page.get_by_test_id("controller").locator("option")).to_have_text(list(step_logs.SPECIFIED))
    page.get_by_test_id("controller").select_option("tccc")
    page.get_by_test_id("ask-tlc").click()
    tccc = page.locator("[data-testid=connection-check][data-algorithm=tccc]")
    expect(tccc).to_have_attribute("data-state", "done", timeout=2 * TLC_MS)
    expect(tccc).to_contain_text("conforms")
    steps = f"{steps_taken('mptcp-two-subflows.pcap', 1, 'tccc'):,}"
    expect(tccc).to_contain_text(f"{steps} of {steps}")
    expect(page.get_by_test_id("violation")).to_have_count(0)

    another_text()
    css = page.locator("[data-testid=connection-check][data-algorithm=css]")

    def asked() -> bool:
        """The API knows the other text once the checker has started."""
        page.get_by_test_id("controller").select_option("css")
        page.get_by_test_id("ask-tlc").click()
        expect(css.first).to_have_attribute("data-state", re.compile("done|failed"), timeout=2 * TLC_MS)
        return css.filter(has_text="does not conform").count() == 1

    wait_for("the other text", asked)
    table = page.get_by_test_id("violation")
    expect(table).to_have_count(1)
    expect(page.get_by_text("CoupledSlowStart does not allow event")).to_contain_text("loss")
    differing = table.locator("[data-testid=violation-row]").filter(has=page.locator(".differs"))
    expect(differing).to_have_count(1)
    expect(differing).to_contain_text("cwnd")
    before, expected, found = (float(c) for c in differing.locator("td").all_inner_texts()[1:])
    assert expected == found + 1
    assert found == pytest.approx(before / 2, abs=0.01)
    page.screenshot(path=SCREENSHOTS / "conformance.png", full_page=True)

    css.filter(has_text="does not conform").get_by_role("link").click()
    expect(page.get_by_test_id("check-state")).to_have_text("does not conform")
    steps = f"{steps_taken('mptcp-two-subflows.pcap', 1, 'css'):,}"
    expect(page.get_by_test_id("followed")).to_have_text(steps)
    expect(page.get_by_test_id("violation").locator(".differs")).to_have_count(2)
    page.screenshot(path=SCREENSHOTS / "conformance-check.png", full_page=True)
    page.get_by_role("link", name="specifications").first.click()
    row = page.get_by_test_id("model-check").filter(has_text="css on connection 1 of mptcp-two-subflows.pcap").first
    expect(row).to_contain_text("does not conform")
    expect(row).to_contain_text(f"{steps} events")
    page.screenshot(path=SCREENSHOTS / "checks.png", full_page=True)
    assert page.troubles == []  # type: ignore[attr-defined]
