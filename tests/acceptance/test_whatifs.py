"""What-ifs for real: a worker that is killed in the middle of one, and the page that asks for one and sees it come."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import urllib.request
from typing import Any

from playwright.sync_api import Page, Route, expect
from sqlalchemy import create_engine, text

import rewindow
from deploy.run import Services, stop_process, wait_for
from rewindow.core import Choice
from rewindow.reports import whatifs
from rewindow.whatif import WhatIf, observe
from tests.acceptance.test_stack import answered, get
from tests.conftest import CAPTURES

SAMPLE = CAPTURES / "mptcp-ecn.pcap"
FEW_RUNS = 6
SIMULATED_MS = 240_000
"""A fit takes seconds of two cores, which others may use, too."""


def post(stack: Services, token: str, path: str, body: bytes, kind: str = "application/json") -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    request = urllib.request.Request(stack.address + path, data=body, headers=headers)
    with answered(request) as response:
        assert response.status in (201, 202)
        return json.load(response)


def last_event(stack: Services, token: str, path: str) -> Any:
    """Of the stream, which ends with the what-if."""
    request = urllib.request.Request(f"{stack.address}{path}/events", headers={"Authorization": f"Bearer {token}"})
    end, told = time.monotonic() + SIMULATED_MS / 1000, b""
    with answered(request) as stream:
        for line in stream:
            assert time.monotonic() < end, told
            told = line if line.startswith(b"data: ") else told
    return json.loads(told.removeprefix(b"data: "))


def analysed(stack: Services, token: str) -> str:
    """The id of the sample's connection of MPTCP."""
    capture = post(stack, token, "/v1/captures", SAMPLE.read_bytes(), "application/vnd.tcpdump.pcap")["id"]
    wait_for("the analysis", lambda: get(stack, token, f"/v1/captures/{capture}")["state"] == "done")
    items = get(stack, token, f"/v1/captures/{capture}/connections")["items"]
    return str(next(c["id"] for c in items if c["kind"] == "mptcp"))


def test_a_killed_worker_loses_no_what_if(stack: Services, token: str) -> None:
    """kill -9 when one part is stored and others are not: new workers go on from there, to the same answer."""
    connection = analysed(stack, token)
    stop_process(stack.processes.pop("worker"))
    wanted = json.dumps({"algorithm": "cubic", "repeat": FEW_RUNS}).encode()
    asked = post(stack, token, f"/v1/connections/{connection}/whatifs", wanted)
    url = f"/v1/whatifs/{asked['id']}"
    of_it = text(
        "SELECT fit_id, batch, first_run, runs FROM parts WHERE whatif_id = CAST(:id AS uuid)"
        " OR fit_id IN (SELECT id FROM fits WHERE connection_id = CAST(:connection AS uuid)) ORDER BY 1, 2, 3"
    ).bindparams(id=asked["id"], connection=connection)
    database = create_engine(
        stack.environment["REWINDOW_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    )

    def waits(mode: str) -> bool:
        """Somebody waits for the table: RowExclusiveLock to store a part, ShareLock to keep parts out."""
        one = text(
            "SELECT count(*) FROM pg_locks WHERE relation = 'parts'::regclass AND NOT granted AND mode = :mode"
        ).bindparams(mode=mode)
        with database.connect() as own:
            return bool(own.scalar(one))

    with database.connect() as start, database.connect() as end:
        # One part may be stored, no second one: the table's lock is granted in between.
        start.execute(text("LOCK TABLE parts IN SHARE MODE"))
        stack.start_worker(concurrency=2)
        wait_for("the first part", lambda: waits("RowExclusiveLock"))
        locking = threading.Thread(target=end.execute, args=(text("LOCK TABLE parts IN SHARE MODE"),))
        locking.start()
        wait_for("the lock to be next", lambda: waits("ShareLock"))
        start.rollback()
        locking.join()
        wait_for("the second part", lambda: waits("RowExclusiveLock"))
        worker = stack.processes.pop("worker")
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        killed = get(stack, token, url)
        assert (killed["state"], killed["stage"], killed["result"]) == ("running", "fitting", None)
        assert 0 < killed["progress"] < 1
        assert len(end.execute(of_it).all()) == 1
        end.rollback()
    stack.start_worker(concurrency=2)
    assert last_event(stack, token, url)["state"] == "done"
    found = get(stack, token, url)["result"]
    assert (found["verdict"], found["algorithm"], found["runs"]) == ("ok", "cubic", FEW_RUNS)
    with rewindow.open(SAMPLE) as capture:
        truth = WhatIf(observe(capture)).ask(found["id"], Choice("cubic"), runs=FEW_RUNS)
    assert found == json.loads(json.dumps(whatifs.prediction(truth))), "as if nobody had been killed"
    with database.connect() as own:
        left = text("SELECT count(*) FROM jobs WHERE whatif_id = CAST(:id AS uuid)").bindparams(id=asked["id"])
        assert own.scalar(left) == 0
        parts = own.execute(of_it).all()
    ends: dict[tuple[Any, int], int] = {}
    for of, batch, first, runs in parts:
        assert first == ends.get((of, batch), 0), "each run once"
        ends[of, batch] = first + runs
    database.dispose()
    assert len(get(stack, token, f"/v1/connections/{connection}/whatifs")["items"]) == 1


def test_the_page_asks_and_sees_the_prediction_come(stack: Services, token: str, page: Page) -> None:
    connection = analysed(stack, token)
    page.goto(f"{stack.address}/captures")
    page.get_by_test_id("token").fill(token)
    page.get_by_test_id("sign-in").click()
    expect(page.get_by_test_id("capture")).to_be_visible()
    page.goto(f"{stack.address}/connections/{connection}")
    page.troubles.clear()  # type: ignore[attr-defined]  # the browser logs the 401 of before
    page.evaluate("window.asked = true")

    def with_few_runs(route: Route) -> None:
        if route.request.method == "POST":
            route.continue_(post_data=json.dumps({**route.request.post_data_json, "repeat": FEW_RUNS}))
        else:
            route.continue_()

    page.route("**/whatifs", with_few_runs)
    page.get_by_test_id("whatif-algorithm").select_option("cubic")
    page.get_by_test_id("whatif-everyone").check()
    changes = page.get_by_test_id("whatif-changes")
    changes.get_by_text("options and network").click()
    changes.locator("[data-testid=setting][data-key='path2.rate']").fill("20M")
    changes.locator("[data-testid=setting][data-key=source]").select_option("bytes")
    expect(changes.locator("[data-testid=option][data-name=mode]")).to_have_count(0)
    page.get_by_test_id("ask-whatif").click()
    asked = page.locator("[data-testid=whatif][data-label=cubic]")
    expect(asked).to_contain_text("everyone")
    expect(asked.get_by_role("button", name=re.compile("cancel|delete"))).to_be_visible()
    expect(asked).to_have_attribute("data-state", "done", timeout=SIMULATED_MS)
    goodput = asked.locator("[data-metric=goodput_bps]")
    (found,) = get(stack, token, f"/v1/connections/{connection}/whatifs")["items"]
    assert (found["everyone"], found["repeat"]) == (True, FEW_RUNS)
    assert found["settings"] == {"path2.rate": "20M", "source": "bytes"}
    points = len(found["result"]["flights"]["times_s"])
    expect(asked.get_by_test_id("fan")).to_have_attribute("data-points", str(points))
    expect(asked.get_by_test_id("fan").locator("canvas")).to_be_visible()
    cursor = asked.get_by_test_id("fan").get_by_role("slider")
    times = found["result"]["flights"]["times_s"]
    pressed = (("ArrowRight", 0), ("ArrowRight", 1), ("End", points - 1), ("ArrowLeft", points - 2), ("Home", 0))
    for key, place in pressed:
        cursor.press(key)
        expect(cursor).to_have_attribute("aria-valuenow", str(place))
        expect(asked.get_by_test_id("fan").locator("figcaption")).to_contain_text(f"{times[place]:.2f} s: ")
    median = found["result"]["predicted"]["goodput_bps"]["median"] / 1e6
    expect(goodput.get_by_test_id("predicted")).to_contain_text(f"{median:.2f} Mbit/s [")
    simulated = found["result"]["calibration"]["goodput_bps"]["simulated"]["median"] / 1e6
    expect(goodput.get_by_test_id("calibration")).to_contain_text(f"{simulated:.2f} Mbit/s [")
    expect(goodput.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(f"^predicted {median:.2f} Mbit/s, 90 %")
    )

    asked.get_by_role("button", name="delete").click()
    expect(asked).to_have_count(0)
    assert page.evaluate("window.asked"), "without a reload"
    assert page.troubles == []  # type: ignore[attr-defined]
    page.unroute_all()
