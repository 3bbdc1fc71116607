"""What the pages of connections filter by, and that each figure has behind it just what it counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlencode, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from deploy.run import Services, wait_for
from tests.acceptance.test_stack import get
from tests.acceptance.test_team_pages import query, team  # noqa: F401  # fixtures
from tests.acceptance.test_whatifs import post
from tests.conftest import make_token
from tests.packets import SYN, Trace

PCAP = "application/vnd.tcpdump.pcap"
GROUPS = ("jain", "mptcp_to_tcp_ratio", "fair_share_ratio")
"""Measures whose values are not one of each connection."""


def begun(connections: int, at: datetime) -> bytes:
    """A capture of so many connections that only begin, those of the greatest addresses first."""
    trace = Trace()
    for place in range(connections):
        number = connections - 1 - place
        client = f"10.9.{number // 250}.{number % 250 + 1}"
        trace.packet(at.timestamp() + place * 1e-3, True, place, 0, SYN, client=client)
    return trace.bytes()


def upload(stack: Services, token: str, captures: dict[str, bytes]) -> None:
    """By their tags."""
    for tag, body in captures.items():
        post(stack, token, f"/v1/captures?{urlencode({'filename': 'a.pcap', 'tag': tag})}", body, PCAP)
    wait_for("the analyses", lambda: all(c["state"] == "done" for c in get(stack, token, "/v1/captures")["items"]))


@pytest.fixture(scope="module", autouse=True)
def findings(stack: Services, team: str) -> None:  # noqa: F811
    """The team has also a connection with findings."""
    upload(stack, team, {"site=kyoto": begun(1, datetime(2026, 11, 21, 12, tzinfo=UTC))})


def asked(link: Locator) -> dict[str, list[str]]:
    address = link.get_attribute("href")
    assert address is not None
    return parse_qs(urlsplit(address).query)


def total(stack: Services, token: str, link: Locator) -> int:
    """Of the list that the link leads to."""
    address = link.get_attribute("href")
    assert address is not None
    assert address.startswith("/connections")
    found: int = get(stack, token, f"/v1{address}")["total"]
    return found


def number(text: str) -> int:
    return int(text.replace(",", "").split()[-1])


def chip(page: Page, field: str, value: str) -> Locator:
    return page.locator(f"[data-testid=values][data-field='{field}']").get_by_role("button", name=value)


def test_filters_narrow(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    """Each that is added leaves a part of what there was, and just what it says."""
    page = signed_in
    everything = get(stack, team, "/v1/connections?limit=500")["items"]
    prefixes = {end: sorted({re.sub(r"\.\d+$", ".0/24", c[end]) for c in everything}) for end in ("src", "dst")}
    assert min(map(len, prefixes.values())) > 1
    page.goto(f"{stack.address}/connections?address=10.0.0.0%2F8&values=open")
    expect(page.get_by_test_id("total")).to_have_text(str(len(everything)))
    expect(page.get_by_test_id("address")).to_have_value("10.0.0.0/8")
    chosen = prefixes["src"][0]
    chip(page, "prefix", chosen).click()
    mine = [c for c in everything if c["src"].startswith(chosen.removesuffix("0/24"))]
    assert 0 < len(mine) < len(everything)
    expect(page.get_by_test_id("total")).to_have_text(str(len(mine)))
    assert (query(page)["address"], query(page)["src"]) == (["10.0.0.0/8"], [chosen])
    port = str(mine[0]["dport"])
    chip(page, "dport", port).click()
    expect(chip(page, "dport", port)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_test_id("total")).to_have_text(str(sum(str(c["dport"]) == port for c in mine)))
    assert query(page)["dport"] == [port]

    page.goto(f"{stack.address}/?measure=rtt_us&rows=prefix&columns=peer_prefix&unreliable=counted&src=10.0.0.0%2F8")
    expect(page.get_by_test_id("cell").first).to_be_visible()
    for cell in page.get_by_test_id("cell").all():
        wanted = asked(cell)
        assert wanted["src"][0] in prefixes["src"], "the smaller one of two prefixes"
        assert wanted["dst"][0] in prefixes["dst"]
        assert total(stack, team, cell) == number(cell.locator("span").inner_text())
    senders = sorted({c["sender_algorithm"] for c in everything})
    assert len(senders) > 1
    both = urlencode({"sender_algorithm": senders[:2]}, doseq=True)
    page.goto(f"{stack.address}/?{both}&measure=goodput_bps&rows=sender_algorithm&columns=kind&unreliable=counted")
    expect(page.get_by_test_id("cell").first).to_be_visible()
    for cell in page.get_by_test_id("cell").all():
        assert len(asked(cell)["sender_algorithm"]) == 1
        assert total(stack, team, cell) == number(cell.locator("span").inner_text())
    assert page.troubles == []  # type: ignore[attr-defined]


def test_what_a_figure_counts_is_behind_it(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    """Of cells and of points of time, for each measure; the first and the last day are as long as they are drawn."""
    page = signed_in
    began = sorted(c["first_ns"] for c in get(stack, team, "/v1/connections?limit=500")["items"])
    cut = datetime.fromtimestamp(began[1] / 1e9, UTC) - timedelta(seconds=1)
    end = datetime.fromtimestamp(began[-1] / 1e9, UTC) + timedelta(days=3)
    period = urlencode({"from": cut.isoformat(), "to": end.isoformat()})
    for unreliable in ("", "&unreliable=counted"):
        page.goto(f"{stack.address}/?measure=rtt_us&rows=mark&columns=site&{period}{unreliable}")
        options = page.get_by_test_id("grid-measure").locator("option")
        expect(options).to_have_count(12)
        measures = [o.get_attribute("value") for o in options.all()]
        for measure in measures:
            page.get_by_test_id("grid-measure").select_option(measure)
            trend = page.locator(f"[data-testid=trend][data-measure^='{measure}']")
            expect(trend).to_have_attribute("data-count", re.compile(r"^\d+$"))
            points = trend.locator("li")
            name = trend.get_attribute("data-measure") or ""
            shown = get(
                stack, team, f"/v1/aggregates?measure={name}&group_by=day&{period}"
                f"&include_unreliable={'true' if unreliable else 'false'}",
            )  # fmt: skip
            expect(points).to_have_count(len(shown["groups"]))
            for point in points.all():
                link = point.locator("a")  # of a closed list
                assert asked(link)["from"] == [cut.isoformat(timespec="milliseconds").replace("+00:00", "Z")]
                counted = int(point.locator(".soft").text_content() or "")
                behind = total(stack, team, link)
                assert behind == counted or (measure in GROUPS and counted and behind), (measure, behind, counted)
            # The grid follows, with the same figures.
            expect(page.get_by_test_id("grid")).to_have_attribute("data-measure", name)
            for cell in page.get_by_test_id("cell").all() if measure in ("rtt_us", "completion_long_s") else []:
                assert (measure in asked(cell).get("measured" if unreliable else "reliable", [])) is True
                assert total(stack, team, cell) == number(cell.locator("span").inner_text())
    assert page.troubles == []  # type: ignore[attr-defined]


@pytest.fixture
def in_new_york(page: Page, signed_in: Page) -> Iterator[Page]:
    assert page.context.browser is not None
    context = page.context.browser.new_context(
        timezone_id="America/New_York", locale="en-US", storage_state=page.context.storage_state()
    )
    yield context.new_page()
    context.close()


def test_days_and_hours_are_those_of_utc(stack: Services, team: str, in_new_york: Page) -> None:  # noqa: F811
    """A label says the period that its link selects, wherever the reader is."""
    page = in_new_york
    page.goto(f"{stack.address}/?measure=rtt_us&rows=day&columns=kind&unreliable=counted")
    row = page.get_by_test_id("grid").locator("tbody tr")
    expect(row).to_have_count(1)
    begin = datetime.fromisoformat(asked(row.get_by_test_id("cell").first)["from"][0])
    day = f"{begin:%F}"
    expect(row.locator("th")).to_have_text(day)
    trend = page.locator("[data-testid=trend][data-measure=rtt_us]")
    trend.locator("summary").click()
    expect(trend.get_by_role("listitem").get_by_role("link")).to_have_text(day)
    expect(page.get_by_test_id("period")).to_contain_text(f"to {day}, days of UTC")
    axis = trend.locator(".bands .u-over")
    axis.hover(position={"x": axis.bounding_box()["width"] - 30, "y": 40})  # type: ignore[index]
    expect(trend.locator(".read")).to_contain_text(f"{day}: median")
    hours = urlencode({"from": begin.isoformat(), "to": (begin + timedelta(days=1)).isoformat()})
    page.goto(f"{stack.address}/?measure=rtt_us&unreliable=counted&{hours}")
    trend.locator("summary").click()
    link = trend.get_by_role("listitem").get_by_role("link").first
    at = datetime.fromisoformat(asked(link)["from"][0])
    expect(link).to_have_text(f"{at:%F %R} UTC")
    page.goto(f"{stack.address}/?measure=rtt_us&rows=hour&columns=sport&unreliable=counted")
    expect(row.first.locator("th")).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:00 UTC$"))
    for cell in page.get_by_test_id("cell").all():
        ends = [datetime.fromisoformat(asked(cell)[end][0]) for end in ("from", "to")]
        assert ends[1] - ends[0] == timedelta(hours=1)
        assert asked(cell)["sport"]
    hour = datetime.fromisoformat(asked(page.get_by_test_id("cell").first)["from"][0])
    expect(row.first.locator("th")).to_have_text(f"{hour:%F %R} UTC")


def test_times_are_those_of_utc(stack: Services, team: str, in_new_york: Page) -> None:  # noqa: F811
    """A link shows each reader the same times; the reader's own are in their titles."""
    page = in_new_york
    first = min(get(stack, team, "/v1/connections?limit=500")["items"], key=lambda c: c["first_ns"])
    began = datetime.fromtimestamp(first["first_ns"] / 1e9, UTC)
    own = f"your time: {began.astimezone(ZoneInfo('America/New_York')):%b %-d, %Y}"

    def told(text: str, zone: str = "") -> None:
        time = page.locator("main time").filter(has_text=re.compile(rf"^\s*{text}{zone}\s*$")).first
        expect(time).to_have_attribute("title", re.compile(rf"^{own}, .* E[DS]T$"))

    for path, shown in (("/connections?sort=first_ns", "%F %T"), (f"/captures/{first['capture_id']}", "%T")):
        page.goto(stack.address + path)
        expect(page.get_by_role("columnheader", name="captured (UTC)")).to_be_visible()
        told(f"{began:{shown}}")
    page.goto(f"{stack.address}/connections/{first['id']}")
    told(f"{began:%F %T}", " UTC")
    page.goto(f"{stack.address}/captures?sort=first_ns")
    expect(page.get_by_role("columnheader", name="uploaded (UTC)")).to_be_visible()
    told(f"{began:%F %T}")
    # What is typed into a filter is UTC, too, and the filter is exact to the millisecond.
    field = page.get_by_label("captured from (UTC)")
    field.fill(f"{began:%FT%R}")
    field.press("Enter")
    expect(page.get_by_test_id("filters")).to_contain_text(f"captured from: {began:%FT%R}:00.000Z")
    page.goto(f"{stack.address}/connections?from=2026-01-02T03:04:05.678Z")
    page.get_by_test_id("add-filter").click()
    page.get_by_test_id("filter-field").select_option("captured")
    expect(page.get_by_test_id("filter-from")).to_have_value("2026-01-02T03:04:05.678")
    page.get_by_test_id("filter-apply").click()
    expect(page.get_by_test_id("filters")).to_contain_text("captured from: 2026-01-02T03:04:05.678Z")


def test_columns_and_rows_are_chosen(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    """Columns are in the address. A click with Shift chooses all rows from the one that was clicked last."""
    page = signed_in
    found = get(stack, team, "/v1/connections?sort=bytes")["items"]
    page.goto(f"{stack.address}/connections?sort=bytes")
    heads = page.get_by_role("columnheader")
    expect(heads.get_by_role("button", name="goodput")).to_be_visible()
    usual = heads.count()
    page.get_by_test_id("columns").click()
    chooser = page.get_by_role("group", name="columns")
    expect(chooser.get_by_label("captured")).to_have_count(0)  # leads to the connection, and stays
    chooser.get_by_label("goodput").uncheck()
    expect(heads).to_have_count(usual - 1)
    chooser.get_by_label("duration").check()
    expect(heads).to_have_count(usual)
    chosen = query(page)["columns"][0].split(",")
    assert ("duration_s" in chosen, "goodput_bps" in chosen, len(chosen)) == (True, False, usual - 2)
    rows = page.get_by_test_id("connection")
    place = heads.all_inner_texts().index("duration")
    assert rows.first.locator("td").nth(place).inner_text() == f"{found[0]['duration_s']:.2f} s"
    page.reload()
    expect(heads.get_by_role("button", name="duration")).to_be_visible()
    expect(heads.get_by_role("button", name="goodput")).to_have_count(0)
    page.get_by_test_id("columns").click()
    chooser.get_by_role("button", name="as usual").click()
    assert "columns" not in query(page)
    expect(heads.get_by_role("button", name="goodput")).to_be_visible()

    boxes = rows.get_by_role("checkbox")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(page.get_by_text("4 chosen")).to_be_visible()
    assert [b.is_checked() for b in boxes.all()[:6]] == [False, True, True, True, True, False]
    boxes.nth(2).click()
    expect(page.get_by_text("3 chosen")).to_be_visible()
    all_of_them = page.get_by_role("checkbox", name="choose all that are shown")
    assert all_of_them.evaluate("e => e.indeterminate")
    all_of_them.click()
    expect(page.get_by_text(f"{rows.count()} chosen")).to_be_visible()
    all_of_them.click()
    expect(page.get_by_text("0 chosen")).to_be_visible()
    page.goto(f"{stack.address}/connections?columns=weather")
    expect(page.locator("main")).to_contain_text("columns")
    expect(heads).to_have_count(usual)
    assert page.troubles == []  # type: ignore[attr-defined]


def test_periods_are_chosen_in_a_calendar(stack: Services, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{stack.address}/connections?from=2026-02-27T12:00:00.000Z&to=2026-03-02T00:00:00.000Z")
    days = page.get_by_role("button", name="days of capture", exact=True)
    days.click()
    calendar = page.get_by_role("group", name="choose days of capture")
    chosen = calendar.locator("td[aria-selected=true]")
    expect(calendar.get_by_role("application")).to_have_accessible_name("days of UTC, February - March 2026")
    # The period ends with the first day of March, which is not among those of February's grid.
    assert {c.get_attribute("data-value") for c in chosen.all()} == {
        "2026-02-27", "2026-02-28", "2026-03-01"
    }  # fmt: skip
    page.keyboard.press("Escape")
    expect(calendar).to_have_count(0)
    expect(days).to_be_focused()
    page.keyboard.press("Enter")
    calendar.get_by_role("button", name="Next").click()
    first = calendar.locator("[data-bits-day][data-value='2026-04-30']").first
    first.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(calendar).to_have_count(0)
    expect(days).to_be_focused()
    assert (query(page)["from"], query(page)["to"]) == (["2026-04-30T00:00:00.000Z"], ["2026-05-03T00:00:00.000Z"])
    expect(page.get_by_label("captured from (UTC)")).to_have_value("2026-04-30T00:00")
    days.click()
    before = datetime.now(UTC)
    calendar.get_by_role("button", name="last 24 hours").click()
    expect(page).not_to_have_url(re.compile("to="))
    began = datetime.fromisoformat(query(page)["from"][0])
    assert before - timedelta(days=1, seconds=1) <= began <= datetime.now(UTC) - timedelta(days=1)
    days.click()
    calendar.get_by_role("button", name="any time").click()
    expect(page).not_to_have_url(re.compile("from="))
    assert page.troubles == []  # type: ignore[attr-defined]


def test_the_grid_says_what_it_leaves_out(stack: Services, signed_in: Page) -> None:
    page = signed_in

    def with_few_groups(route: Route) -> None:
        route.continue_(url=route.request.url.replace("limit=500", "limit=1"))

    page.route(re.compile(r"/v1/aggregates\?"), with_few_groups)
    page.goto(f"{stack.address}/?measure=rtt_us&rows=src&columns=dst&unreliable=counted")
    expect(page.get_by_test_id("cut")).to_contain_text(re.compile(r"These are the largest 1 of [2-9] pairs"))
    expect(page.get_by_test_id("cell")).to_have_count(1)
    page.unroute_all()


def test_a_wrong_clock_and_a_rare_tag(stack: Services, page: Page) -> None:
    """A capture of the year 2036 does not move the page's period, and no number of connections hides a key of a tag."""
    token = make_token(["read", "write"])
    now = datetime.now(UTC)

    upload(
        stack,
        token,
        {
            "rare=yes": begun(1, now - timedelta(days=2)),
            "common=yes": begun(101, now - timedelta(days=1)),
            "clock=wrong": begun(1, datetime(2036, 1, 1, tzinfo=UTC)),
        },
    )
    page.context.clear_cookies()
    page.goto(stack.address)
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("period")).to_contain_text(str((now - timedelta(days=1)).year))
    expect(page.get_by_test_id("period")).not_to_contain_text("2036")
    expect(page.get_by_test_id("future")).to_contain_text("1 connection begins later than now")
    assert total(stack, token, page.get_by_test_id("future").get_by_role("link")) == 1
    of_period = asked(page.get_by_test_id("compare-with"))["selection"][0]
    assert get(stack, token, f"/v1/connections?{of_period}")["total"] == 102
    expect(page.get_by_test_id("grid-rows").locator("option[value='tag:rare']")).to_have_count(1)


def choose_value(page: Page, value: str) -> None:
    page.get_by_test_id("filter-search").click()
    page.get_by_role("listbox").get_by_role("option", name=value).click()


def test_any_filter_is_added_by_keyboard(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    page = signed_in
    everything = get(stack, team, "/v1/connections?limit=500")["items"]
    page.goto(f"{stack.address}/connections")
    shown = page.get_by_test_id("total")
    expect(shown).to_have_text(str(len(everything)))
    # It is shown when saved views and values have come, which may be after the total.
    expect(page.get_by_test_id("add-filter")).to_be_visible()
    page.get_by_test_id("add-filter").focus()
    page.keyboard.press("Enter")
    field = page.get_by_test_id("filter-field")
    expect(page.get_by_test_id("add-filter")).to_have_attribute("aria-expanded", "true")
    expect(field).to_be_visible()
    rtt = sorted(c["rtt_us"] for c in everything if c["rtt_us"])[1]
    page.keyboard.press("Tab")
    expect(field).to_be_focused()
    page.keyboard.type("median")
    expect(field).to_have_value("rtt_us")
    page.keyboard.press("Tab")
    page.keyboard.type(str(rtt / 1000))
    page.keyboard.press("Enter")
    expect(shown).to_have_text(str(sum((c["rtt_us"] or 0) >= rtt for c in everything)))
    assert query(page)["rtt_us_min"] == [str(rtt)]
    expect(page.get_by_test_id("filters")).to_contain_text(f"median RTT ≥ {rtt / 1000:g} ms")
    page.get_by_test_id("filter-to").fill(str(rtt / 2000))
    page.get_by_test_id("filter-apply").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing is at least")
    page.get_by_test_id("filter-from").fill("")
    page.get_by_test_id("filter-to").fill("")
    page.get_by_test_id("filter-apply").click()
    expect(shown).to_have_text(str(len(everything)))

    field.select_option("mark")
    counts = {m: sum(m in c["quality"] for c in everything) for c in everything for m in c["quality"]}
    rarest = min(counts, key=counts.__getitem__)
    assert counts[rarest] < len(everything)
    choose_value(page, rarest)
    page.get_by_test_id("filter-apply").click()
    expect(shown).to_have_text(str(counts[rarest]))
    assert query(page)["mark"] == [rarest]
    page.get_by_test_id("filter-values").get_by_role("button", name=f"remove {rarest}").click()
    page.get_by_test_id("filter-apply").click()
    expect(shown).to_have_text(str(len(everything)))

    field.select_option("tag")
    expect(page.get_by_test_id("filter-key")).to_have_value("site")
    choose_value(page, "osaka")
    page.get_by_test_id("filter-apply").click()
    osaka = [c for c in everything if c["tags"]["site"] == "osaka"]
    expect(shown).to_have_text(str(len(osaka)))
    field.select_option("uploader")
    uploader = everything[0]["uploader"]
    choose_value(page, uploader["name"])
    page.get_by_test_id("filter-apply").click()
    expect(page.get_by_test_id("filters")).to_contain_text(f"uploader: {uploader['name']}")
    assert query(page)["uploader"] == [uploader["id"]]
    field.select_option("dport")
    page.get_by_test_id("filter-text").fill(str(osaka[0]["dport"]))
    page.get_by_test_id("filter-apply").click()
    expect(shown).to_have_text(str(sum(c["dport"] == osaka[0]["dport"] for c in osaka)))
    page.get_by_test_id("top-values").click()
    expect(chip(page, "tag:site", "osaka")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{stack.address}/?measure=goodput_bps&rows=uploader&columns=mark&unreliable=counted")
    expect(page.get_by_test_id("grid").locator("tbody th")).to_have_text(uploader["name"])
    expect(page.get_by_test_id("grid").locator("thead")).to_contain_text("none")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_rare_values_are_found_by_a_part_of_them(stack: Services, page: Page) -> None:
    """And what is chosen stays, whatever is looked for. All of it by keyboard."""
    token = make_token(["read", "write"])
    captures = 9
    upload(stack, token, {f"run=Night-{n}": begun(1, datetime(2026, 11, 21, n, tzinfo=UTC)) for n in range(captures)})
    page.context.clear_cookies()
    page.goto(f"{stack.address}/connections?tag=run%3DNight-0")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    page.get_by_test_id("add-filter").click()
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401 of before
    page.get_by_test_id("filter-field").select_option("tag")
    page.get_by_test_id("filter-key").select_option("run")
    values, options = page.get_by_test_id("filter-values"), page.get_by_role("listbox").get_by_role("option")
    sought = page.get_by_role("combobox", name="which")
    chosen = values.get_by_role("button")
    expect(chosen).to_have_text("Night-0 ×")
    sought.click()
    expect(options).to_have_count(captures)
    sought.press_sequentially("night-3")
    expect(options).to_have_count(1)
    sought.press("Enter")
    expect(options).to_have_count(0)
    expect(chosen).to_have_text("Night-3 ×")
    expect(sought).to_have_value("")
    sought.press("Enter")
    expect(page.get_by_test_id("filters")).to_contain_text("tag: run=Night-3")
    assert query(page)["tag"] == ["run=Night-3"]
    sought.press_sequentially("%")
    expect(values).to_contain_text("no value has “%” in it")
    expect(options).to_have_count(0)
    expect(chosen).to_have_text("Night-3 ×")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_two_selections_are_compared(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    page = signed_in
    page.goto(f"{stack.address}/connections?tag=site%3Dberlin")
    page.get_by_test_id("compare-with").click()
    found = get(
        stack,
        team,
        "/v1/aggregates/comparison?" + urlencode({"measure": "goodput_bps", "selection": "tag=site%3Dberlin"}),
    )
    page.get_by_test_id("comparison-measure").select_option("goodput_bps")
    differing = [d["dimension"] for d in found["dimensions"] if d["distance"] - d["chance"] > 1e-9]
    sections = page.get_by_test_id("dimension")
    expect(sections).to_have_count(len(differing))
    assert [s.get_attribute("data-dimension") for s in sections.all()] == differing
    alike = [d for d in found["dimensions"] if d["dimension"] not in differing]
    assert alike, "all differ by more than chance"
    hidden = page.get_by_test_id("alike-dimension")
    assert [s.get_attribute("data-dimension") for s in hidden.all()] == [d["dimension"] for d in alike]
    expect(hidden.first).to_be_hidden()
    page.get_by_test_id("alike").locator("summary").click()
    expect(hidden.first).to_be_visible()
    expect(page.get_by_test_id("measured").first).to_contain_text(
        f"{found['selection']['percentiles']['p50'] / 1e6:.2f}"
    )
    expect(page.get_by_role("img", name=re.compile("goodput: median of these"))).to_be_visible()
    bars = page.get_by_test_id("bar")
    assert bars.count() > len(differing)
    for bar in bars.all():
        label = bar.get_attribute("aria-label") or ""
        assert total(stack, team, bar) == int(re.findall(r"(\d+) connections$", label)[0]), label
    page.get_by_test_id("swap").click()
    assert parse_qs(query(page)["baseline"][0]) == {"tag": ["site=berlin"]}
    assert "selection" not in query(page)
    those = page.locator("[data-testid=side][data-side=baseline]")
    those.get_by_role("button", name="remove the filter").click()
    expect(page.get_by_test_id("explained")).to_contain_text("Both are the same connections")
    expect(sections).to_have_count(0)
    those.get_by_test_id("add-filter").click()
    those.get_by_test_id("filter-from").fill("1e15")
    those.get_by_test_id("filter-apply").click()
    expect(page.get_by_test_id("explained")).to_contain_text("“Those” has no connections")
    page.goto(f"{stack.address}/?measure=rtt_us")
    page.get_by_test_id("compare-with").click()
    period, before = (parse_qs(query(page)[name][0]) for name in ("selection", "baseline"))
    assert before["to"] == period["from"] > before["from"]
    expect(page.get_by_test_id("comparison-measure")).to_have_value("rtt_us")
    assert page.troubles == []  # type: ignore[attr-defined]


def test_measures_of_an_algorithm(stack: Services, team: str, signed_in: Page) -> None:  # noqa: F811
    """Replayed windows, in the grid and over time; a trend leads to an alert on the same measure."""
    page = signed_in
    page.goto(f"{stack.address}/?rows=kind&columns=site&unreliable=counted")
    page.get_by_test_id("grid-measure").select_option("window")
    page.get_by_test_id("grid-measure-algorithm").select_option("cubic")
    expect(page.locator("#grid")).to_contain_text("replayed window of cubic by kind and site")
    found = get(stack, team, "/v1/aggregates?measure=window:cubic&group_by=kind&group_by=site&include_unreliable=true")
    counts = sorted(g["count"] for g in found["groups"] if g["count"])
    expect(page.get_by_test_id("grid")).to_have_attribute("data-measure", "window:cubic")
    cells = page.get_by_test_id("cell")
    expect(cells).to_have_count(len(counts))
    expect(cells.first).to_contain_text(re.compile(r"^\d+\.\d "))
    assert sorted(number(c.locator("span").inner_text()) for c in cells.all()) == counts
    trend = page.locator("[data-testid=trend][data-measure='window:cubic']")
    expect(trend).to_have_attribute("data-count", str(found["total"]["count"]))
    trend.get_by_role("link", name="alert me").click()
    expect(page.get_by_test_id("measure")).to_have_value("window")
    expect(page.get_by_test_id("measure-algorithm")).to_have_value("cubic")
    page.get_by_test_id("measure").select_option("fair_share_ratio")
    assert query(page)["measure"] == ["fair_share_ratio"]
    page.get_by_test_id("measure").select_option("harm")
    expect(page.get_by_test_id("measure-algorithm").locator("option").first).to_have_text("any")
    assert page.troubles == []  # type: ignore[attr-defined]
