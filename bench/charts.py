"""The chart of a connection with ten million ACKs: `make bench-charts`.

Starts services of its own and uploads the sample. Then rows of a long connection, which the worker's own code writes,
replace the sample's series, with their overview. Times are those of the API process (its log), and of frames in
Chromium while the chart is panned by the mouse. Prints Markdown; `--write` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.documents import put
from bench.services import own_services, use_database
from bench.speed import Others, machine, table
from deploy.run import Services, token_for, upload_sample

FIRST_MS, ZOOM_MS, FRAME_MS, TASK_MS = 500, 200, 33, 50
"""Goals."""
ALGORITHMS = ("newreno", "cubic", "uncoupled", "css", "tccc")
CONNECTION = 1
"""Of the sample, the one with two subflows."""
PERIOD_NS = 50_000
FIRST_NS = 1_795_225_368_000_000_000
SEGMENT = 1448
BATCH = 1 << 16

PAN = """
async ({x, y, width, seconds}) => {
  const frames = [], tasks = [];
  const watch = new PerformanceObserver(list => tasks.push(...list.getEntries().map(e => e.duration)));
  watch.observe({entryTypes: ['longtask']});
  const pad = document.querySelector('[data-testid=chart] [role=application]');
  const send = (type, at) => pad.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 1, pointerType: 'mouse', button: 0, shiftKey: true, clientX: at, clientY: y}));
  pad.setPointerCapture = () => {};
  send('pointerdown', x);
  const began = performance.now();
  let before = began;
  while (before - began < seconds * 1000) {
    send('pointermove', x + width * Math.sin((before - began) / 700));
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  send('pointerup', x);
  await new Promise(resolve => setTimeout(resolve, 300));
  watch.disconnect();
  return {frames: frames.slice(1), tasks};
}
"""


def rows(count: int) -> Iterator[pa.Table]:
    """Rows as a replay makes them, of two subflows by turns, 20,000 each second."""
    chance = np.random.default_rng(1)
    for begin in range(0, count, BATCH):
        place = np.arange(begin, min(begin + BATCH, count), dtype=np.int64)
        saw = 200 + 100 * ((place / 40_000) % 1) + chance.integers(0, 4, len(place))
        columns: dict[str, npt.NDArray[Any]] = {
            "time_ns": FIRST_NS + place * PERIOD_NS + chance.integers(0, PERIOD_NS, len(place)),
            "connection": np.full(len(place), CONNECTION, np.uint32),
            "subflow": (place % 2).astype(np.uint32),
            "in_flight_bytes": (saw * SEGMENT).astype(np.uint32),
            "window_bytes": (3_000_000 + place % 100_000).astype(np.uint32),
            "segment_bytes": np.full(len(place), SEGMENT, np.uint32),
            **positions_of(place),
            "rtt_us": (20_000 + saw * 50 + chance.integers(0, 500, len(place))).astype(np.uint32),
        }
        for k, label in enumerate(ALGORITHMS):
            columns[f"{label}.cwnd"] = saw * (1 - k / 10)
            columns[f"{label}.ssthresh"] = np.full(len(place), 100.0 + k)
        yield pa.table(columns)


def positions_of(place: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """Each ACK acknowledges a segment of its subflow."""
    position = (place // 2 + 1) * SEGMENT
    ack = position.astype(np.uint32)
    return {"position": position, "ack": ack, "una": ack - np.uint32(SEGMENT), "next": ack + np.uint32(200 * SEGMENT)}


def segments(count: int) -> Iterator[pa.RecordBatch]:
    """As a replay reports them: a segment before each ACK, one in a hundred for the second time, and a SACK block in
    each tenth ACK of every other second."""
    from rewindow.replays.columns import SEGMENTS_SCHEMA

    for begin in range(0, count, BATCH):
        place = np.arange(begin, min(begin + BATCH, count), dtype=np.int64)
        sacks = (place % 10 == 9) & (place * PERIOD_NS // 10**9 % 2 == 0)
        kind = np.where(sacks, "sack", np.where(place % 100 == 50, "retransmission", "data"))
        table = pa.table(
            {
                "time_ns": FIRST_NS + place * PERIOD_NS,
                "subflow": (place % 2).astype(np.uint32),
                "kind": pa.array(kind),
                "position": (place // 2 + np.where(kind == "data", 200, 20)) * SEGMENT,
                "bytes": np.full(len(place), SEGMENT, np.uint32),
            }
        )
        yield from table.cast(SEGMENTS_SCHEMA).to_batches()


def store_segments(key: str, found: Any, count: int) -> None:
    """As if somebody had asked for them."""
    from sqlalchemy import insert

    from store import objects
    from store.database import engine
    from store.models import SegmentSeries, State
    from worker.segments import write as write_segments

    own = key.replace("acks", "segments")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as beside:
        write_segments(segments(count), CONNECTION, out, beside)
        objects.put_file(own, out)
        objects.put_file(objects.overview_key(own), beside)
    values = {
        "id": uuid.uuid4(), "capture_id": found.capture_id, "connection_id": found.id,
        "connection_number": CONNECTION, "state": State.done, "object_key": own,
    }  # fmt: skip
    with engine().begin() as database:
        database.execute(insert(SegmentSeries).values(values))


def replace_series(key: str, count: int) -> tuple[int, int]:
    """Returns the bytes of the series and of its overview."""
    from rewindow.reports.exports import parquet_writer
    from store import objects
    from worker.overview import Overview

    numbers = np.zeros(CONNECTION + 1, np.int64)
    numbers[CONNECTION] = count
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as beside:
        overview = Overview(beside, ALGORITHMS, numbers)
        with parquet_writer(out, next(rows(1)).schema) as writer:
            for part in rows(count):
                writer.write_table(part)
                overview.add(part)
        overview.close()
        sizes = out.tell(), beside.tell()
        objects.put_file(key, out)
        objects.put_file(objects.overview_key(key), beside)
    return sizes


LINES = "series?algorithms=uncoupled;tccc&recorded=flight&recorded=rtt"
SEQUENCE = "sequence?algorithms=uncoupled;tccc&subflow=1"


def measured(
    services: Services, token: str, connection: str, asked: str, seconds: float, runs: int
) -> Iterator[tuple[str, ...]]:
    """Requests as the page sends them, of periods that get shorter. asked: LINES or SEQUENCE."""
    parts = {"whole": 1.0, "half": 0.5, "a tenth": 0.1, "a hundredth": 0.01, "a second": 1 / seconds}
    for name, part in parts.items():
        times, size = [], 0
        for run in range(runs + 1):
            begin = FIRST_NS + int((seconds * (1 - part) * (run + 1) / (runs + 2)) * 1e9)
            period = "" if part == 1 else f"&from={begin}&to={begin + int(seconds * part * 1e9)}"
            path = f"/v1/connections/{connection}/{asked}&width={1100 if part == 1 else 2200}"
            began = time.perf_counter()
            request = urllib.request.Request(
                services.address + path + period, headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                size = len(answer.read())
            times.append(1000 * (time.perf_counter() - began))
        goal = FIRST_MS if part == 1 else ZOOM_MS
        middle, most = statistics.median(times[1:]), max(times[1:])
        graph = asked.partition("?")[0]
        yield (
            f"{graph}, {name}",
            f"{times[0]:.0f} ms",
            f"{middle:.0f} ms",
            f"{most:.0f} ms",
            f"{goal} ms",
            f"{size / 1e3:.0f} kB",
        )


def panned(services: Services, token: str, connection: str, part: str) -> tuple[str, ...]:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        page.goto(f"{services.address}/connections/{connection}{part}")
        page.get_by_test_id("token").fill(token)
        page.get_by_test_id("sign-in").click()
        chart = page.get_by_test_id("chart")
        expect(chart).to_be_visible()
        box = chart.bounding_box()
        assert box is not None
        where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 150, "width": 250, "seconds": 6}
        found = page.evaluate(PAN, where)
        browser.close()
    frames, tasks = sorted(found["frames"]), found["tasks"]
    p95 = frames[int(0.95 * (len(frames) - 1))]
    return (
        part or "whole",
        f"{len(frames)}",
        f"{statistics.median(frames):.0f} ms",
        f"{p95:.0f} ms",
        f"{FRAME_MS} ms",
        f"{max(tasks, default=0):.0f} ms" if tasks else "none",
        f"{TASK_MS} ms",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="measures the chart of a long connection")
    parser.add_argument("--acks", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    arguments = parser.parse_args()
    dashboard = Path(__file__).parent.parent / "dashboard" / "dist"
    with own_services(REWINDOW_DASHBOARD_FOLDER=str(dashboard)) as services:
        use_database(services)
        services.start_worker(concurrency=1)
        services.start_sweeper()
        services.start_api()
        token = token_for(services, "bench")
        upload_sample(services, token)
        from sqlalchemy import select

        from store.database import engine
        from store.models import Capture, Connection

        with engine().begin() as database:
            key = database.execute(select(Capture.acks_key)).scalar_one()
            found = database.execute(
                select(Connection.id, Capture.id.label("capture_id"))
                .join(Capture, Capture.attempt_id == Connection.attempt_id)
                .where(Connection.number == CONNECTION)
            ).one()
        sizes = replace_series(str(key), arguments.acks)
        store_segments(str(key), found, arguments.acks)
        seconds = arguments.acks * PERIOD_NS / 1e9
        others = Others()
        requests = [
            row
            for asked in (LINES, SEQUENCE)
            for row in measured(services, token, str(found.id), asked, seconds, arguments.runs)
        ]
        middle = seconds / 2
        parts = ["", f"?from={middle * 0.8:.0f}&to={middle:.0f}", f"?from={middle:.0f}&to={middle + 1:.0f}"]
        parts += ["?graph=sequence", *(f"{part}&graph=sequence" for part in parts[1:])]
        frames = [panned(services, token, str(found.id), part) for part in parts]
        text = "\n".join(
            [
                f"On {machine()}, of which other processes, the API and Chromium among them, took {others.cores():.2f};"
                f" {arguments.acks} ACKs of two subflows, {arguments.runs} requests each after one. The series has"
                f" {sizes[0] / 1e6:.0f} MB, its overview {sizes[1] / 1e6:.1f} MB.\n",
                *table(("period", "first request", "median", "longest", "goal", "answer"), requests, 1),
                *table(("panned", "frames", "median", "p95", "goal", "longest task over 50 ms", "goal"), frames, 1),
            ]
        )
        print(text)
        if arguments.write:
            put("performance.md", "charts", text)


if __name__ == "__main__":
    main()
