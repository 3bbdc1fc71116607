"""Time and memory that the service needs to store a capture, compared with the command line: `make bench-storing`.

Starts a PostgreSQL of its own, generates captures of many short connections under build/bench, and for each capture
runs `rewindow analyze --json`, the same with `--series`, and a job of the service, which does both and stores the
results. The best of several runs counts. Bytes are those of the tables and indexes of results. Then the capture is
deleted, and the sweeper removes what it left. Prints Markdown; `--write` puts it into docs/performance.md, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from bench.documents import put
from bench.services import own_services, use_database
from bench.speed import FOLDER, PROGRAMS, REWINDOW, Others, Process, Run, build, machine, table

ALGORITHMS = ("newreno", "cubic")
"""The candidates that the command line replays, too, to name the senders' algorithms."""


def generate(connections: int) -> Path:
    path = FOLDER / f"many-{connections}.pcap"
    Process([PROGRAMS / "generate", "many", str(connections), path]).finish()
    return path


def add_capture(path: Path) -> tuple[uuid.UUID, uuid.UUID]:
    """Adds a capture as an upload does; returns the ids of capture and job."""
    from sqlalchemy import insert

    from store import objects
    from store.database import engine
    from store.models import Capture, Job, JobKind
    from store.teams import ensure_team

    capture, job = uuid.uuid4(), uuid.uuid4()
    key = objects.capture_key(capture)
    with path.open("rb") as file:
        objects.put_file(key, file)
    values = {"sha256": capture.bytes * 2, "bytes": path.stat().st_size, "filename": path.name, "object_key": key}
    with engine().begin() as connection:
        team = ensure_team(connection, "bench")
        connection.execute(insert(Capture).values(id=capture, team_id=team, **values))
        connection.execute(insert(Job).values(id=job, kind=JobKind.analyze, team_id=team, capture_id=capture))
    return capture, job


def run_job(job: uuid.UUID) -> Run:
    """Its seconds are from the claim to the end: a worker has loaded its programs before."""
    code = (
        "import sys, time, uuid; from worker.tasks import run_job; began = time.perf_counter();"
        f" run_job(uuid.UUID('{job}')); print(time.perf_counter() - began, file=sys.stderr)"
    )
    run = Process([sys.executable, "-c", code]).finish()
    return dataclasses.replace(run, began_s=run.ended_s - float(run.complaints.splitlines()[-1]))


def stored_connections(capture: uuid.UUID) -> int:
    from sqlalchemy import select

    from store.database import engine
    from store.models import Capture

    with engine().connect() as connection:
        query = select(Capture.state, Capture.error, Capture.connection_count).where(Capture.id == capture)
        row = connection.execute(query).one()
    if row.connection_count is None:
        raise SystemExit(f"the job has not stored the capture: {row.state}, {row.error}")
    return int(row.connection_count)


def bytes_of_results() -> tuple[int, int]:
    """Bytes of the tables, and of their indexes."""
    from sqlalchemy import text

    from store.database import engine

    names = ("attempts", "connections", "connection_facts", "subflows", "replays", "qualities", "fairness_groups")
    sizes = ", ".join(f"pg_table_size('{n}'), pg_indexes_size('{n}')" for n in names)
    with engine().connect() as connection:
        found = connection.execute(text(f"SELECT {sizes}")).one()
    return sum(found[0::2]), sum(found[1::2])


def delete(capture: uuid.UUID) -> tuple[float, float]:
    """Seconds of the request's transaction, and until the sweeper has removed everything."""
    from sqlalchemy import delete as deleting
    from sqlalchemy import insert, select

    from store.database import engine
    from store.models import Attempt, Capture, Deletion
    from worker.sweeper import remove_once

    began = time.perf_counter()
    with engine().begin() as connection:
        connection.execute(deleting(Capture).where(Capture.id == capture))
        connection.execute(insert(Deletion).values(capture_id=capture))
    asked = time.perf_counter() - began
    while True:
        remove_once(5.0)
        with engine().connect() as connection:
            is_removed = connection.execute(select(Attempt.id)).first() is None
        if is_removed:
            return asked, time.perf_counter() - began


def empty_tables(owner_address: str) -> None:
    """Empties the tables, so that the next capture finds no free pages in their indexes."""
    with psycopg.connect(owner_address) as connection:
        connection.execute("TRUNCATE connections, connection_facts, subflows")


def measured(connections: Sequence[int], runs: int, owner_address: str) -> Iterator[str]:
    build()
    others = Others()
    rows = []
    for wanted in connections:
        path = generate(wanted)
        commands = (
            [REWINDOW, "analyze", "--json", path],
            [REWINDOW, "analyze", "--json", "--series", FOLDER / "series.parquet", path],
        )
        alone, with_series, jobs = [], [], []
        for _ in range(runs):
            alone.append(Process(commands[0]).finish())
            with_series.append(Process(commands[1]).finish())
            before = bytes_of_results()
            capture, job = add_capture(path)
            jobs.append(run_job(job))
            count = stored_connections(capture)
            tables, indexes = (now - then for now, then in zip(bytes_of_results(), before, strict=True))
            asked, removed = delete(capture)
            empty_tables(owner_address)
        best, both, of_job = (min(r.seconds for r in found) for found in (alone, with_series, jobs))
        rows.append(
            (
                str(count), f"{best:.1f} s", f"{both:.1f} s", f"{of_job:.1f} s", f"{of_job / best:.2f}",
                f"{(tables + indexes) / count:.0f}", f"{tables / count:.0f}", f"{indexes / count:.0f}",
                f"{max(r.peak_rss_bytes for r in jobs) / 1e6:.0f} MB", f"{asked * 1000:.0f} ms", f"{removed:.1f} s",
            )
        )  # fmt: skip
    yield f"On {machine()}, of which other processes took {others.cores():.2f}; best of {runs} runs."
    yield f"Replayed were {', '.join(ALGORITHMS)}.\n"
    heading = (
        "connections", "`analyze --json`", "with `--series`", "job", "job / `analyze --json`", "bytes a connection",
        "in tables", "in indexes", "peak memory of the job", "DELETE", "space free after",
    )  # fmt: skip
    yield from table(heading, rows, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="measures what storing a capture needs")
    parser.add_argument("--connections", type=int, nargs="+", default=[61_000, 300_000], metavar="N")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    arguments = parser.parse_args()
    with own_services(REWINDOW_INGEST_ALGORITHMS=",".join(ALGORITHMS)) as services:
        owner_address = use_database(services)
        text = "\n".join(measured(arguments.connections, arguments.runs, owner_address))
        print(text)
        if arguments.write:
            put("performance.md", "storing", text)


if __name__ == "__main__":
    main()
