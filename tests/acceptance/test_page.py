"""The page in Chromium: signing in and out, mistakes in options, and errors, none of which is silent."""

from __future__ import annotations

import json
import random
import re
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from sqlalchemy import update

from deploy.run import Services, wait_for
from tests.acceptance.test_stack import answered, get
from tests.conftest import CAPTURES

DRAWN_MS = 120_000
"""Swagger UI draws hundreds of operations, in one task."""


@pytest.fixture
def signed_in(stack: Services, token: str, page: Page) -> Iterator[Page]:
    """A browser that has signed in, for a team that has nothing yet."""
    page.context.clear_cookies()
    page.goto(f"{stack.address}/captures")
    page.get_by_test_id("token").fill(f" {token} ")
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_text("nothing uploaded yet")).to_be_visible()
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401 of before
    yield page
    page.unroute_all()


def asked(stack: Services, token: str, path: str, body: bytes | None, method: str = "POST") -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(stack.address + path, data=body, headers=headers, method=method)
    with answered(request) as response:
        return json.loads(response.read() or b"null")


def test_the_token_stays_nowhere_in_the_browser(stack: Services, token: str, signed_in: Page) -> None:
    def held() -> str:
        return str(signed_in.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"))

    assert json.loads(held()) == [{}, {}, ""]
    (cookie,) = signed_in.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (f"rewindow_session_{stack.port}", True, "Lax")
    assert token not in cookie["value"]
    signed_in.reload()
    expect(signed_in.get_by_text("nothing uploaded yet")).to_be_visible()
    signed_in.get_by_role("button", name="sign out").click()
    expect(signed_in.get_by_test_id("token")).to_be_visible()
    assert signed_in.context.cookies() == []
    signed_in.context.add_cookies([cookie])  # type: ignore[list-item]
    signed_in.reload()
    expect(signed_in.get_by_test_id("token")).to_be_visible()
    assert signed_in.get_by_test_id("capture").count() == 0, "the session has ended at the server"


def test_a_token_of_an_earlier_version_is_removed(stack: Services, signed_in: Page) -> None:
    signed_in.evaluate("localStorage.setItem('rewindow.token', 'rw_old')")
    signed_in.reload()
    expect(signed_in.get_by_text("nothing uploaded yet")).to_be_visible()
    assert signed_in.evaluate("localStorage.length") == 0


def connection(stack: Services, token: str, page: Page) -> str:
    """Uploads the sample; the address of its connection of MPTCP, which is then shown."""
    page.get_by_test_id("file").set_input_files(CAPTURES / "mptcp-two-subflows.pcap")
    expect(page.get_by_test_id("capture")).to_have_attribute("data-state", "done")
    page.get_by_test_id("capture").get_by_role("link", name="mptcp-two-subflows.pcap").click()
    page.locator("[data-testid=connection][data-kind=mptcp] a").first.click()
    expect(page.get_by_test_id("chart").locator("canvas").first).to_be_visible()
    return "/v1" + page.evaluate("location.pathname")


def test_options_of_a_replay(stack: Services, token: str, signed_in: Page) -> None:
    url = connection(stack, token, signed_in)
    before = len(get(stack, token, url)["replays"])
    alert = signed_in.get_by_role("alert")
    replay = signed_in.get_by_role("button", name="replay", exact=True)

    def option(name: str) -> Locator:
        return signed_in.get_by_test_id("replay-form").locator(f"[data-name='{name}']")

    option("L").fill("0")
    replay.click()
    assert option("L").evaluate("e => e.validity.rangeUnderflow"), "the page asks for the range itself"
    option("L").fill("1e2")
    replay.click()
    expect(alert).to_contain_text("tccc: option L takes 0.125 to 1024 segments, not '1e2'")  # the API's own answer
    assert len(get(stack, token, url)["replays"]) == before
    option("L").fill("2")
    option("aca_md").select_option("half")
    option("mode").select_option("kernel")
    option("mode").select_option("paper")  # its default, which is not sent
    replay.click()
    expect(signed_in.locator("[data-label='tccc(L=2, aca_md=half)']")).to_be_enabled()
    expect(alert).to_have_count(0)


def test_a_failed_replay_says_why_and_can_be_deleted(stack: Services, token: str, signed_in: Page) -> None:
    from store.database import engine
    from store.models import Job, Replay

    url = connection(stack, token, signed_in)
    signed_in.get_by_test_id("replay-form").locator("[data-name=L]").fill("3")
    signed_in.get_by_role("button", name="replay", exact=True).click()
    chip = signed_in.locator("[data-label='tccc(L=3)']")
    expect(chip).to_be_enabled()
    made = next(r["id"] for r in get(stack, token, url)["replays"] if r["label"] == "tccc(L=3)")
    with engine().begin() as database:
        database.execute(update(Replay).where(Replay.id == uuid.UUID(made)).values(state="failed", error="of no luck"))
        database.execute(update(Job).where(Job.replay_id == uuid.UUID(made)).values(state="failed"))
    signed_in.reload()
    failed = signed_in.get_by_test_id("failed-replay")
    expect(failed).to_contain_text("tccc(L=3) failed: of no luck")
    failed.get_by_role("button", name="delete").click()
    expect(failed).to_have_count(0)
    expect(chip).to_have_count(0)
    assert "tccc(L=3)" not in [r["label"] for r in get(stack, token, url)["replays"]]


def test_errors_are_shown(stack: Services, token: str, signed_in: Page) -> None:
    page = signed_in
    page.get_by_test_id("file").set_input_files(CAPTURES / "mptcp-ecn.pcap")
    expect(page.get_by_test_id("capture")).to_have_attribute("data-state", "done")
    alert = page.get_by_role("alert")

    page.route(
        "**/v1/captures/*", lambda route: route.abort() if route.request.method == "DELETE" else route.continue_()
    )
    delete = page.get_by_role("button", name="delete mptcp-ecn.pcap")
    delete.click()
    expect(page.get_by_role("alertdialog")).to_have_accessible_description(
        "Delete mptcp-ecn.pcap and everything derived from it?"
    )
    expect(page.get_by_test_id("confirmation-no")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    expect(delete).to_be_focused()
    expect(alert).to_have_count(0)
    page.get_by_role("link", name="connections", exact=True).click()
    page.get_by_role("link", name="captures", exact=True).first.click()
    delete.press("Enter")
    expect(page.get_by_role("alertdialog")).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("heading", name="Connections")).to_be_visible()
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    page.go_forward()
    page.locator("th").get_by_role("button", name="size").click()
    expect(page).to_have_url(re.compile("sort="))
    delete.press("Enter")
    expect(page.get_by_role("alertdialog")).to_have_count(1)
    page.go_back()
    expect(page).not_to_have_url(re.compile("sort="))
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    delete.click()
    page.get_by_test_id("confirmation-yes").click()
    expect(alert).to_contain_text("mptcp-ecn.pcap: the server does not answer")
    page.unroute_all()

    page.route("**/v1/captures?filename=*", lambda route: route.fulfill(status=502, body="<html>of a proxy</html>"))
    page.get_by_test_id("file").set_input_files([CAPTURES / "mptcp-two-subflows.pcap", CAPTURES / "mptcp-ecn.pcap"])
    for name in ("mptcp-two-subflows.pcap", "mptcp-ecn.pcap"):
        expect(page.get_by_test_id("upload").filter(has_text=f"{name}: the server answers 502")).to_have_count(1)
    page.unroute_all()

    page.evaluate("() => { Promise.reject(new Error('nobody waited for this')); }")
    expect(page.get_by_test_id("trouble")).to_contain_text("nobody waited for this")
    page.get_by_test_id("trouble").get_by_role("button").click()
    expect(page.get_by_test_id("trouble")).to_have_count(0)

    page.route("**/v1/teams/me", lambda route: route.abort())
    page.reload()
    expect(page.get_by_test_id("trouble")).to_contain_text("the server does not answer")
    page.unroute_all()
    page.get_by_role("button", name="again").click()
    expect(page.get_by_test_id("capture")).to_have_count(1)

    page.route(re.compile(r"/v1/captures(\?limit=50)?$"), lambda route: route.abort())
    page.reload()
    expect(page.get_by_test_id("lost")).to_contain_text("the server does not answer")
    page.unroute_all()
    expect(page.get_by_test_id("capture")).to_have_count(1)
    expect(page.get_by_test_id("lost")).to_have_count(0)


def test_a_page_whose_script_cannot_be_read_says_so(stack: Services, signed_in: Page) -> None:
    """As after an update of the service, which has other files."""
    page = signed_in
    page.route("**/assets/Alerts-*.js", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="alerts", exact=True).click()
    expect(page.get_by_test_id("not-loaded")).to_contain_text("could not be read")
    page.get_by_role("link", name="captures", exact=True).click()
    expect(page.get_by_test_id("not-loaded")).to_have_count(0)
    page.get_by_role("link", name="alerts", exact=True).click()
    page.unroute_all()
    page.get_by_test_id("not-loaded").get_by_role("button", name="load the page again").click()
    expect(page.get_by_role("heading", name="Alerts")).to_be_visible()


def test_the_page_waits_for_a_server_that_is_busy(stack: Services, token: str, signed_in: Page) -> None:
    answers = {"POST": [429, 503], "GET": [503]}

    def busy(route: Route) -> None:
        left = answers.get(route.request.method, [])
        if not left:
            route.continue_()
        else:
            route.fulfill(status=left.pop(0), headers={"Retry-After": "1"}, body="{}")

    signed_in.route("**/v1/captures?filename=*", busy)
    signed_in.route(re.compile(r"/v1/captures(\?limit=50)?$"), busy)
    signed_in.get_by_test_id("file").set_input_files(CAPTURES / "mptcp-ecn.pcap")
    expect(signed_in.get_by_test_id("capture")).to_have_attribute("data-state", "done")
    assert not answers["POST"]
    assert not answers["GET"]
    expect(signed_in.get_by_role("alert")).to_have_count(0)


def test_a_session_that_has_ended_leads_back(stack: Services, token: str, signed_in: Page) -> None:
    """A revoked token: the page says so, and after signing in the reader is where the work was."""
    mine = get(stack, token, "/v1/teams/me")["id"]
    (held,) = get(stack, token, f"/v1/teams/{mine}/tokens")
    made = asked(stack, token, f"/v1/teams/{mine}/tokens", json.dumps({"name": "other"}).encode())["token"]
    signed_in.goto(f"{stack.address}/specifications")
    expect(signed_in.get_by_role("heading", name="Specifications")).to_be_visible()
    asked(stack, token, f"/v1/teams/{mine}/tokens/{held['id']}", None, "DELETE")
    expect(signed_in.get_by_test_id("has-ended")).to_contain_text("revoked or has expired")
    signed_in.get_by_test_id("token").fill(made)
    signed_in.get_by_test_id("sign-in").click()
    expect(signed_in.get_by_role("heading", name="Specifications")).to_be_visible()


def test_folders_and_duplicates(stack: Services, token: str, signed_in: Page, tmp_path: Path) -> None:
    inner = tmp_path / "monday" / "site-a"
    inner.mkdir(parents=True)
    sample = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    (tmp_path / "monday" / "one.pcap").write_bytes(sample)
    (inner / "two.pcap").write_bytes(sample)
    (inner / "notes.txt").write_text("no capture")
    signed_in.get_by_test_id("folder").set_input_files(tmp_path / "monday")
    sent = signed_in.get_by_test_id("upload")
    expect(sent).to_have_count(3)
    expect(sent.filter(has_text="already here")).to_have_count(1)
    expect(sent.filter(has_text="arrived")).to_have_count(2)
    expect(signed_in.get_by_test_id("capture")).to_have_count(2)
    same = sent.filter(has_text="already here").get_by_role("link")
    first = sent.filter(has_text=re.compile("one.pcap|two.pcap")).filter(has_text="arrived").get_by_role("link")
    assert same.get_attribute("href") == first.get_attribute("href"), "the link leads to the earlier capture"
    failed = signed_in.locator("[data-testid=capture][data-state=failed]")
    expect(failed).to_contain_text("neither pcap nor pcapng")
    signed_in.get_by_role("button", name="clear").click()
    expect(sent).to_have_count(0)


def drop(page: Page, *files: Path) -> None:
    """As from a file manager, on the place for uploads."""
    box = page.get_by_role("group", name="upload").bounding_box()
    assert box is not None
    browser = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(f) for f in files], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 20, "y": box["y"] + 10}
        browser.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})


def test_several_files_that_are_dropped(stack: Services, token: str, signed_in: Page, tmp_path: Path) -> None:
    """Each has its progress and its end: it arrives, is already here, or is refused with the reason."""
    sample = (CAPTURES / "mptcp-ecn.pcap").read_bytes()
    files = [tmp_path / name for name in ("one.pcap", "again.pcap", "empty.pcap", "other.pcap")]
    for path, body in zip(files, (sample, sample, b"", sample[:100_000]), strict=True):
        path.write_bytes(body)
    held: list[Route] = []
    signed_in.route("**/v1/captures?filename=one.pcap", lambda route: held.append(route))
    drop(signed_in, *files)
    sent = signed_in.get_by_test_id("upload")
    expect(sent).to_have_count(len(files))
    of_each = {path.name: sent.filter(has_text=path.name) for path in files}
    expect(of_each["one.pcap"].get_by_role("progressbar")).to_be_visible()
    expect(of_each["again.pcap"]).to_contain_text("arrived")
    expect(of_each["empty.pcap"].get_by_role("alert")).to_contain_text("the upload is empty")
    expect(of_each["other.pcap"]).to_contain_text("arrived")
    expect(signed_in.get_by_text("3 of 4 uploads ended")).to_be_visible()
    wait_for("the first upload", lambda: held)
    held.pop().continue_()
    expect(of_each["one.pcap"]).to_contain_text("already here")
    links = [of_each[name].get_by_role("link").get_attribute("href") for name in ("one.pcap", "again.pcap")]
    assert links[0] == links[1]
    expect(signed_in.get_by_test_id("capture")).to_have_count(2)
    assert get(stack, token, "/v1/captures")["total"] == 2
    signed_in.get_by_role("button", name="clear").click()
    expect(sent).to_have_count(0)


def test_a_folder_that_is_dropped(signed_in: Page, tmp_path: Path) -> None:
    """More entries than a browser tells at once; one that cannot be read keeps back nothing else."""
    folder = tmp_path / "tuesday"
    folder.mkdir()
    for name in ("one.pcap", "broken.pcap"):
        (folder / name).write_bytes((CAPTURES / "mptcp-ecn.pcap").read_bytes())
    many = 120
    for number in range(many):
        (folder / f"many-{number}.pcap").write_text(str(number))
    signed_in.route("**/v1/captures?filename=many-*", lambda route: route.fulfill(status=502, body="of a proxy"))
    signed_in.evaluate(
        """() => addEventListener("drop", (event) => {
            const reader = event.dataTransfer.items[0].webkitGetAsEntry().createReader();
            const kind = Object.getPrototypeOf(reader);
            const read = kind.readEntries;
            kind.readEntries = function (done, failed) {
                const broken = (entries) => {
                    for (const e of entries)
                        if (e.name === "broken.pcap") e.file = (_, no) => no(new DOMException("Permission denied"));
                    done(entries);
                };
                read.call(this, broken, failed);
            };
        }, {capture: true, once: true})"""
    )
    drop(signed_in, folder)
    sent = signed_in.get_by_test_id("upload")
    expect(sent).to_have_count(many + 2)
    broken = sent.filter(has_text="tuesday/broken.pcap")
    expect(broken).to_contain_text("it cannot be read: Permission denied")
    expect(sent.filter(has_text="tuesday/one.pcap")).to_contain_text("arrived")
    expect(sent.and_(signed_in.locator("[data-state=failed]"))).to_have_count(many + 1)
    expect(signed_in.get_by_test_id("capture")).to_have_count(1)


def test_a_capture_that_is_gone(stack: Services, token: str, signed_in: Page) -> None:
    """Its address says so, once, and leads on; also when it is deleted while somebody looks at it."""
    requests: list[str] = []
    signed_in.on("request", lambda r: requests.append(r.url) if "/v1/captures/" in r.url else None)
    signed_in.goto(f"{stack.address}/captures/{uuid.uuid4()}")
    gone = signed_in.get_by_test_id("gone")
    expect(gone).to_contain_text("There is no such capture")
    gone.get_by_role("link").click()
    expect(signed_in.get_by_text("nothing uploaded yet")).to_be_visible()
    signed_in.get_by_test_id("file").set_input_files(CAPTURES / "mptcp-ecn.pcap")
    signed_in.get_by_test_id("capture").get_by_role("link", name="mptcp-ecn.pcap").click()
    expect(signed_in.get_by_test_id("state")).to_have_text("done")
    assert len([r for r in requests if r == requests[0]]) == 1
    (mine,) = get(stack, token, "/v1/captures")["items"]
    asked(stack, token, f"/v1/captures/{mine['id']}", None, "DELETE")
    expect(gone).to_be_visible()


def test_a_connection_whose_server_is_away(stack: Services, token: str, signed_in: Page) -> None:
    """The page says what to do, and goes on by itself; an address that is nobody's leads on."""
    own = connection(stack, token, signed_in)
    place = f"**{own}"
    signed_in.route(place, lambda route: route.fulfill(status=502, body="of a proxy"))
    signed_in.goto(stack.address + own.removeprefix("/v1"))
    alert = signed_in.get_by_role("alert")
    expect(alert).to_contain_text("the server answers 502")
    expect(alert).to_contain_text("try again in a minute")
    with signed_in.expect_request(lambda r: r.url.endswith(own)):
        signed_in.get_by_role("button", name="again").click()
    signed_in.unroute(place)
    expect(signed_in.get_by_test_id("chart")).to_be_visible()
    expect(alert).to_have_count(0)
    signed_in.goto(f"{stack.address}/connections/{uuid.uuid4()}")
    expect(signed_in.get_by_test_id("gone")).to_contain_text("There is no such connection")


def test_a_large_capture_goes_on(stack: Services, signed_in: Page, tmp_path: Path) -> None:
    """After a request that was lost, and after the page was left in the middle."""
    page, path = signed_in, tmp_path / "large.pcap"
    path.write_bytes(random.Random(9).randbytes(20 << 20))
    places: list[int] = []
    page.on("request", lambda r: places.append(int(r.headers["upload-offset"])) if r.method == "PATCH" else None)

    page.route("**/v1/uploads/*", lambda route: route.abort(), times=1)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 4 << 20}
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_test_id("file").set_input_files(path)
    sent = page.get_by_test_id("upload")
    wait_for("a third", lambda: page.evaluate("document.querySelector('progress')?.value ?? 0") > 0.3)
    assert places == [0, 0]
    page.reload()
    expect(page.get_by_test_id("file")).to_be_attached()
    network.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    page.get_by_test_id("file").set_input_files(path)
    expect(sent).to_have_attribute("data-state", "arrived")
    assert places[-1] > 0
    before = len(places)
    page.get_by_test_id("file").set_input_files(path)
    expect(sent.filter(has_text="already here")).to_have_count(1)
    assert places[before] == 0, "an upload that is complete is forgotten"
    expect(page.get_by_test_id("capture")).to_have_count(1)
    links = {link.get_attribute("href") for link in sent.get_by_role("link").all()}
    assert len(links) == 1


def test_the_api_is_documented_and_can_be_tried_out(stack: Services, signed_in: Page) -> None:
    signed_in.goto(f"{stack.address}/docs")
    teams = signed_in.locator("#operations-teams-mine_v1_teams_me_get")
    teams.click(timeout=DRAWN_MS)
    teams.get_by_role("button", name="Try it out").click(timeout=DRAWN_MS)
    teams.get_by_role("button", name="Execute").click(timeout=DRAWN_MS)
    expect(teams.locator(".live-responses-table")).to_contain_text("team-", timeout=DRAWN_MS)
    assert signed_in.troubles == []  # type: ignore[attr-defined]


def test_a_failed_capture_can_be_retried(stack: Services, token: str, signed_in: Page) -> None:
    from store.database import engine
    from store.models import Capture, Job

    connection(stack, token, signed_in)
    capture = get(stack, token, "/v1/captures")["items"][0]["id"]
    with engine().begin() as database:
        failed = {"state": "failed", "error": "given up: the disk", "summary": None, "attempt_id": None}
        database.execute(update(Capture).where(Capture.id == uuid.UUID(capture)).values(failed))
        database.execute(update(Job).where(Job.capture_id == uuid.UUID(capture)).values(state="failed"))
    signed_in.goto(f"{stack.address}/captures/{capture}")
    expect(signed_in.get_by_text("given up: the disk")).to_be_visible()
    with signed_in.expect_download() as begun:
        signed_in.get_by_test_id("stored-file").click()
    assert begun.value.path().stat().st_size == get(stack, token, f"/v1/captures/{capture}")["bytes"]
    signed_in.get_by_test_id("retry").click()
    expect(signed_in.get_by_test_id("state")).to_have_text("done")
    expect(signed_in.get_by_test_id("retry")).to_have_count(0)
    expect(signed_in.get_by_text("given up: the disk")).to_have_count(0)
