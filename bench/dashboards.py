"""Times of the team dashboards over a million connections, their queries and their pages: `make bench-dashboards`.

Starts a PostgreSQL of its own and has it generate captures with connections of two teams. Then it

- sends requests to the API in this process: the least, the median and the longest of several answers count, after as
  many as it takes until statements are prepared; it explains the statements of each request, as PostgreSQL ran them;
- loads each page in Chromium from an API process, from navigation until all that the page shows at first is there.

What the machine's other programs do makes times longer, never shorter: beside each least time stand the others. Each
table begins with a floor: a page that shows nothing, a request for the team's name, a count of all facts in PostgreSQL.
Times of other machines compare by it. Prints Markdown; `--write` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg

from bench.documents import put
from bench.services import own_services, use_database
from bench.speed import Others, machine, table
from deploy.run import Services, stop_process, token_for, upload_sample

PAGES_MS, AD_HOC_MS, PAGE_MS = 200, 1000, 1000
"""Goals: of a page's query, of another one, of a page."""
ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MANY = 20_000
"""Connections of the largest capture."""
UNCOUNTED = 11
"""Requests before those that count: psycopg prepares a statement after five, and after five more PostgreSQL may take a
plan for any values."""

GENERATE = """
INSERT INTO qualities (quality, verdict, unreliable) VALUES
    ('{}', 'good', '{}'), ('{vantage_unknown}', 'limited', '{in_flight,rtt,sender_algorithm,windows}'),
    ('{one_direction}', 'poor', '{in_flight,retransmissions,rtt,windows}');
WITH made AS (
    INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, state, tags, created_at, connection_count)
    SELECT gen_random_uuid(), (SELECT id FROM teams WHERE name = CASE n % 10 WHEN 0 THEN 'other' ELSE 'bench' END),
        sha256(n::text::bytea), 1000000, 'capture-' || n || '.pcap', n::text, 'queued',
        jsonb_build_object('site', 'site-' || n % 12, 'run', n::text),
        now() - (CAPTURES - n) * interval '56 days' / CAPTURES, CASE n WHEN LARGEST THEN MANY ELSE EACH END
    FROM generate_series(1, CAPTURES) n
    RETURNING id
)
INSERT INTO attempts (capture_id, job_id, fence, labels) SELECT id, id, 1, '{newreno,cubic}' FROM made;
UPDATE captures SET attempt_id = attempts.id, state = 'done', acks_key = object_key || '/acks', series_bytes = 500000,
    marks_key = object_key || '/marks', uploaded_at = captures.created_at
FROM attempts WHERE capture_id = captures.id;
CREATE TEMP TABLE drawn AS
    SELECT c.attempt_id, c.team_id, n - 1 AS number,
        extract(epoch FROM c.created_at)::bigint * 1000000000 + n AS first_ns,
        (extract(epoch FROM c.created_at)::bigint + n) AS seed, exp(random() * 12 + 6)::bigint AS bytes,
        exp(random() * 6 + 12) AS goodput_bps, (random() * 60000 + 5000)::bigint AS rtt_min_us, random() AS chance
    FROM captures c CROSS JOIN generate_series(1, c.connection_count) n;
INSERT INTO connections (attempt_id, id, bytes, goodput_bps, completion_s, retransmitted_packets, first_ns, last_ns,
    rows, number, subflow_count, quality_id, fallback, checksum, fast_closed, kind)
SELECT attempt_id, gen_random_uuid(), bytes, goodput_bps, bytes * 8 / goodput_bps, 3, first_ns, first_ns + 1000000000,
    100, number, 1 + (chance > 0.8)::int, 1 + (chance * 3.3)::int % 3, false, false, false,
    CASE WHEN chance > 0.8 THEN 'mptcp' ELSE 'tcp' END FROM drawn;
INSERT INTO subflows (attempt_id, connection_number, number, bytes, packets, retransmitted_packets, retransmitted_bytes,
    spurious_retransmissions, duration_s, ece_acks, ce_packets, fast_retransmits, timeouts, sport, dport, quality_id,
    paced, src, dst, vantage, interface, send_times, ecn, sender_algorithm, sender_candidates, rtt_min_us,
    rtt_median_us, rtt_p95_us,
     goodput_bps, windows)
SELECT attempt_id, drawn.number, s, bytes, bytes / 1000 + 1, (bytes / 1000 * chance * chance * 0.1)::int, 0, 0, 1, 0, 0,
    0, 0, (30000 + seed % 30000)::int, 443, 1 + (chance * 3.3)::int % 3, false, '10.0.0.0'::inet + (seed % 60000 + s),
    '192.168.0.0'::inet + seed * 7 % 6000, 'sender', '0.0', 'captured', 'none',
    (ARRAY['cubic', 'newreno', 'bbr', 'unknown'])[1 + (seed % 4)], '{}', rtt_min_us,
    (rtt_min_us * (1 + chance))::bigint,
    rtt_min_us * 2, goodput_bps, ARRAY[10, 20, 15, 12 * chance, 30, 20]
FROM drawn CROSS JOIN generate_series(0, (chance > 0.8)::int) s;
UPDATE attempts SET days = of_each.days
FROM (SELECT attempt_id, array_agg(DISTINCT (first_ns / 86400000000000)::int) AS days FROM drawn GROUP BY 1) of_each
WHERE id = of_each.attempt_id;
INSERT INTO stale_days (team_id, day) SELECT DISTINCT team_id, (first_ns / 86400000000000)::int FROM drawn;
INSERT INTO fairness_groups (attempt_id, bottleneck, method, members, jain, mptcp_to_tcp_ratio, declared, verdict)
SELECT attempt_id, 'sbd-' || number / 5, 'sbd',
    jsonb_build_object('connections', jsonb_agg(number ORDER BY number), 'goodput_bps',
        jsonb_agg(goodput_bps ORDER BY number), 'kinds', jsonb_agg('tcp'::text),
        'shares', jsonb_agg(jsonb_build_object('limited_by', 'network', 'shared_s', 1, 'goodput_bps', goodput_bps,
            'fair_bps', goodput_bps / (0.5 + chance), 'ratio', 0.5 + chance) ORDER BY number)),
    avg(1 - chance * chance * 0.3), 0.5 + avg(chance), false, CASE WHEN min(chance) < 0.05 THEN 'poor' ELSE 'good' END
FROM drawn GROUP BY attempt_id, number / 5;
INSERT INTO replays (id, capture_id, connection_id, connection_number, label, algorithm, state, created_at, acks_key,
    series_bytes, mean_window)
SELECT gen_random_uuid(), c.id, gen_random_uuid(), 1, label, label, 'done', c.created_at, c.object_key || label,
    200000, 10 + random()
FROM captures c CROSS JOIN unnest(ARRAY['lia', 'bbr']) label;
INSERT INTO segment_series (id, capture_id, connection_id, connection_number, state, created_at, object_key,
    series_bytes)
SELECT gen_random_uuid(), id, gen_random_uuid(), 1, 'done', created_at, object_key || 'segments', 300000
FROM captures WHERE object_key::int % 5 = 0;
INSERT INTO audit_events (team_id, at, member, action, object_id, object_name)
SELECT team_id, created_at, 'bench', action, id, filename
FROM captures CROSS JOIN unnest(ARRAY['upload', 'see']) action;
INSERT INTO model_checks (id, team_id, spec, configuration, constants, digest, seconds_max, state, finished_at,
    verdict)
SELECT gen_random_uuid(), teams.id, 'CoupledSlowStart', 'MCCoupledSlowStart', '{}', n::text, 60, 'done', now(), 'holds'
FROM teams CROSS JOIN generate_series(1, 500) n;
"""

PERIOD = {"from": "begin", "to": "end"}
"""Four weeks, as the team's page begins with; `measured` puts in their times."""
TRENDS = ("jain", "retransmission_rate", "rtt_inflation", "completion_short_s", "completion_long_s", "goodput_bps")
CHANGES = {
    "measure": ["retransmission_rate", "rtt_inflation", "rtt_us", "goodput_bps", "completion_short_s",
                "completion_long_s", "jain", "mptcp_to_tcp_ratio"],
    "group_by": ["site", "sender_algorithm", "kind", "peer_prefix"],
}  # fmt: skip
FACTS_FLOOR = "SELECT count(*), sum(goodput_bps) FROM connection_facts WHERE kind = 'tcp'"
"""What no request that reads all facts is quicker than."""
REQUEST_FLOOR, PAGE_FLOOR = "the team's name (floor)", "no page (floor)"
PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    REQUEST_FLOOR: ("/v1/teams/me", {}),
    "index, newest first": ("/v1/connections", {}),
    "captures, newest first": ("/v1/captures", {}),
    **{
        f"{name} by day, 4 weeks": ("/v1/aggregates", {"measure": name, "group_by": "day", **PERIOD}) for name in TRENDS
    },
    "retransmission_rate, algorithm x site, 4 weeks": (
        "/v1/aggregates", {"measure": "retransmission_rate", "group_by": ["sender_algorithm", "site"], **PERIOD}
    ),
    "jain by day and site, 4 weeks": ("/v1/aggregates", {"measure": "jain", "group_by": ["day", "site"], **PERIOD}),
    "what changed, 4 weeks and those before": (
        "/v1/aggregates/changes", {**CHANGES, "from": "before", "split": "begin", "to": "end"}
    ),
}  # fmt: skip
AD_HOC: dict[str, tuple[str, dict[str, Any]]] = {
    "index by goodput": ("/v1/connections", {"sort": "-goodput_bps"}),
    "index of a prefix": ("/v1/connections", {"address": "10.0.20.0/24"}),
    "index of a rare port": ("/v1/connections", {"port": 31234}),
    "index of retransmissions > 9 %": ("/v1/connections", {"retransmission_rate_min": 0.09}),
    "index of nothing": ("/v1/connections", {"address": "198.51.100.1"}),
    "goodput by day, all": ("/v1/aggregates", {"measure": "goodput_bps", "group_by": "day"}),
    "goodput, algorithm x site, all": (
        "/v1/aggregates", {"measure": "goodput_bps", "group_by": ["sender_algorithm", "site"]}
    ),
    "goodput by day, all of one port": ("/v1/aggregates", {"measure": "goodput_bps", "group_by": "day", "port": 443}),
    "goodput, algorithm x site, all with an RTT of at least 1 ms": (
        "/v1/aggregates",
        {"measure": "goodput_bps", "group_by": ["sender_algorithm", "site"], "rtt_us_min": 1000},
    ),
    "jain by day, all of TCP": ("/v1/aggregates", {"measure": "jain", "group_by": "day", "kind": "tcp"}),
    "jain by day, 4 weeks of TCP": ("/v1/aggregates", {"measure": "jain", "group_by": "day", "kind": "tcp", **PERIOD}),
    "window:cubic by day, all": ("/v1/aggregates", {"measure": "window:cubic", "group_by": "day"}),
    "window:lia by day, all": ("/v1/aggregates", {"measure": "window:lia", "group_by": "day"}),
    "fair_share_ratio by day, all": ("/v1/aggregates", {"measure": "fair_share_ratio", "group_by": "day"}),
    "values of four fields": (
        "/v1/connections/values", {"field": ["kind", "sender_algorithm", "verdict", "site"]}
    ),
    "last week compared with the one before": (
        "/v1/aggregates/comparison", {"measure": "rtt_us", "selection": "week", "baseline": "before that"}
    ),
    "what retention would delete": ("/v1/teams/TEAM/retention/due", {"raw_days": 7, "series_days": 7}),
}  # fmt: skip


STALE = {
    name: (path, params)
    for name, (path, params) in PAGES.items()
    if name in ("jain by day, 4 weeks", "goodput_bps by day, 4 weeks", "what changed, 4 weeks and those before")
}
"""Of those of a page some, asked for when the last day is stale, as after an upload."""


def generate(owner_address: str, captures: int, each: int) -> None:
    from migrations.versions import __path__ as versions

    backfills = [
        next(Path(versions[0]).glob(f"{number}_*.py")).read_text().split('BACKFILL = """')[1].split('"""')[0]
        for number in ("0017", "0034", "0037", "0040")
    ]
    with psycopg.connect(owner_address, autocommit=True) as database:
        numbers = {"CAPTURES": captures, "EACH": each, "LARGEST": captures - 1, "MANY": MANY}
        script = GENERATE
        for name, number in numbers.items():
            script = script.replace(name, str(number))
        for statement in ";".join((script, *backfills)).split(";"):
            if statement.strip():
                database.execute(statement)  # type: ignore[arg-type]
        database.execute("DROP TABLE drawn")
        # VACUUM keeps replaced rows that the snapshot of another session sees, such as one of autovacuum.
        others = "SELECT FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
        while database.execute(others).rowcount:
            time.sleep(0.1)
        database.execute("VACUUM (FULL) connection_facts")  # which the worker writes once
        database.execute("VACUUM (ANALYZE)")


@dataclass
class Statements:
    """What a request asks PostgreSQL."""

    found: list[tuple[str, Any]] = field(default_factory=list)

    def note(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith(("SELECT", "WITH")):
            self.found.append((statement, parameters))


def explained(database: psycopg.Connection[Any], statements: Sequence[tuple[str, Any]], runs: int) -> tuple[str, ...]:
    """How many statements they are, the least time that PostgreSQL needs for all, the 8 kB pages that it looks at, and
    from where it takes the most rows."""
    least, pages = 0.0, 0
    rows: Counter[str] = Counter()
    for statement, parameters in statements:
        took, plan = [], {}
        for _ in range(runs):
            asked = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + statement
            ((answer,),) = database.execute(asked, parameters).fetchall()  # type: ignore[arg-type]
            plan = answer[0]["Plan"]
            took.append(answer[0]["Planning Time"] + answer[0]["Execution Time"])
        least += min(took)
        pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        rows.update(dict(scans(plan)))
    most = ", ".join(f"{name} {n}" for name, n in rows.most_common(3) if n >= 0.05 * rows.total())
    return str(len(statements)), f"{least:.0f} ms", str(pages), most


def scans(node: dict[str, Any], index: str | None = None) -> Iterator[tuple[str, int]]:
    """Each table of a plan that is scanned, with the way, and the rows that were looked at."""
    rows = sum(node.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"))
    inner = [n.get("Index Name") for n in node.get("Plans", []) if n["Node Type"] == "Bitmap Index Scan"]
    if table_name := node.get("Relation Name"):
        way = node.get("Index Name") or (inner[0] if inner else None)
        yield f"{table_name} {f'by {way}' if way else 'whole'}", round(rows * node["Actual Loops"])
    for child in node.get("Plans", []):
        yield from scans(child)


def measured(services: Services, runs: int) -> Iterator[str]:
    from fastapi.testclient import TestClient
    from sqlalchemy import event

    from api.app import create
    from store.database import async_engine, engine
    from store.settings import settings
    from store.teams import create_token, ensure_team

    settings().team_requests_per_s = 1e6
    with engine().begin() as connection:
        team_id = ensure_team(connection, "bench")
        token = create_token(connection, team_id, "bench", ["read"])
    day = 24 * 3600
    tomorrow = (int(time.time()) // day + 1) * day

    def stamp(days: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tomorrow - days * day))

    times = {
        **{"before": stamp(56), "begin": stamp(28), "end": stamp(0)},
        "week": urlencode({"from": stamp(7)}),
        "before that": urlencode({"from": stamp(14), "to": stamp(7)}),
    }
    rows: list[tuple[str, ...]] = []
    plans: list[tuple[str, ...]] = []
    request_floor_ms = 0.0
    address = services.environment["REWINDOW_DATABASE_URL"]
    with (
        TestClient(create(), headers={"Authorization": f"Bearer {token}"}) as client,
        psycopg.connect(address, autocommit=True, options="-c jit=off") as database,
    ):
        for goal, asked in ((PAGES_MS, PAGES), (AD_HOC_MS, AD_HOC), (PAGES_MS, STALE)):
            floor_ms = request_floor_ms
            if asked is STALE:
                _make_stale(tomorrow // day - 1)
            elif asked is AD_HOC:
                counted = []
                for _ in range(1 + runs):
                    began = time.perf_counter()
                    database.execute(FACTS_FLOOR).fetchall()
                    counted.append(_ms_since(began))
                floor_ms = min(counted[1:])
                rows.append(("all facts counted in PostgreSQL (floor)", *spread(counted[1:]), "", "1.0"))
            for name, (path, given) in asked.items():
                params = {k: times.get(v, v) if isinstance(v, str) else v for k, v in given.items()}
                took, refused = [], 0
                for _ in range(UNCOUNTED + runs):
                    began = time.perf_counter()
                    answer = client.get(path.replace("TEAM", str(team_id)), params=params)
                    took.append(_ms_since(began))
                    if answer.status_code == 503:  # PostgreSQL's limit of time
                        refused += 1
                    elif answer.status_code != 200:
                        raise SystemExit(f"{name}: {answer.text}")
                if asked is STALE:
                    name += ", the last day stale"
                least_ms = min(took[UNCOUNTED:])
                if name == REQUEST_FLOOR:
                    floor_ms = request_floor_ms = least_ms
                rows.append((name, *spread(took[UNCOUNTED:]), f"{goal} ms", f"{least_ms / floor_ms:.1f}"))
                if refused:
                    plans.append((name, f"{refused} answers were 503", "", "", ""))
                    continue
                statements = Statements()
                event.listen(async_engine().sync_engine, "before_cursor_execute", statements.note)
                client.get(path.replace("TEAM", str(team_id)), params=params)
                event.remove(async_engine().sync_engine, "before_cursor_execute", statements.note)
                plans.append((name, *explained(database, statements.found, runs)))
    yield from table(("request", "least", "median", "longest", "goal", "least / floor"), rows, 1)
    yield from table(("request", "statements", "in PostgreSQL", "pages of 8 kB", "most rows looked at"), plans, 1)


def spread(took_ms: Sequence[float]) -> tuple[str, str, str]:
    return f"{min(took_ms):.0f} ms", f"{statistics.median(took_ms):.0f} ms", f"{max(took_ms):.0f} ms"


def _ms_since(began: float) -> float:
    return 1000 * (time.perf_counter() - began)


def _make_stale(day: int) -> None:
    from sqlalchemy import insert, select

    from store.database import engine
    from store.models import StaleDay, Team

    with engine().begin() as database:
        team_id = database.scalar(select(Team.id).where(Team.name == "bench"))
        database.execute(insert(StaleDay).values(team_id=team_id, day=day))


def _ask(services: Services, token: str, path: str, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(services.address + path, body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


CHART = "[data-testid=chart] canvas"
TREND = "[data-testid=trend][data-measure={}]:not([data-count=''])"


def pages(services: Services, token: str) -> dict[str, tuple[str, list[str]]]:
    """The address of each page, and what is there when it shows all that it shows at first."""
    from sqlalchemy import text

    from store.database import engine

    of_sample = _ask(services, token, "/v1/connections?tag=origin%3Dsample&limit=1")["items"][0]
    with engine().begin() as database:
        found = text(
            "SELECT c.id FROM captures c JOIN teams t ON t.id = team_id AND t.name = 'bench'"
            " WHERE connection_count = :many"
        )
        largest = database.scalar(found, {"many": MANY})
    day = 24 * 3600
    end = (int(time.time()) // day + 1) * day

    def week(ago: int) -> str:
        stamps = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end - d * day)) for d in (7 * ago + 7, 7 * ago)]
        return urlencode(dict(zip(("from", "to"), stamps, strict=True)))

    check = _ask(services, token, "/v1/model-checks?limit=1")["items"][0]
    team = [*(TREND.format(m) for m in TRENDS), "[data-testid=changed]:not([data-compared=''])", "[data-testid=cell]"]
    return {
        PAGE_FLOOR: ("/nothing", ["#main h1"]),
        "team": ("/", team),
        "team, beside the period before": ("/?compare=before", [*team, "[data-testid=trend] h3"]),
        "captures": ("/captures", ["[data-testid=capture]", "[data-testid=total]:not(:empty)"]),
        "connections": ("/connections", ["[data-testid=connection]", "[data-testid=total]:not(:empty)"]),
        "connections, most frequent values": (
            "/connections?values=", ["[data-testid=connection]", "[data-testid=values]"]),
        "comparison of two weeks": (
            "/comparison?" + urlencode({"selection": week(0), "baseline": week(1)}), ["[data-testid=bar]"]),
        "alerts": ("/alerts", ["[data-testid=alert]"]),
        "specifications": ("/specifications", ["[data-testid=specification]", "[data-testid=model-check]"]),
        "a model check": (f"/model-checks/{check['id']}", ["[data-testid=check-state]"]),
        "documentation of the API": ("/docs", ["#operations-teams-mine_v1_teams_me_get"]),
        "settings": ("/settings", [f"[data-testid={i}]" for i in ("usage", "member", "token-row", "event", "due")]),
        f"a capture with {MANY} connections": (
            f"/captures/{largest}", ["[data-testid=connection]", "[data-testid=total]:not(:empty)",
            "[data-testid=group]"]),
        "a capture": (f"/captures/{of_sample['capture_id']}", ["[data-testid=connection]", "[data-testid=group]"]),
        "a connection": (f"/connections/{of_sample['id']}", [CHART]),
    }  # fmt: skip


SETTLED = """
selectors => {
  const missing = selectors.filter(s => !document.querySelector(s));
  const loads = [...document.querySelectorAll('.soft')].some(
    e => ['loading', 'comparing'].includes(e.textContent) && e.checkVisibility());
  const error = document.querySelector('[role=alert]')?.textContent;
  if (error) return error;
  if (performance.now() > 30000) return `not there after 30 s: ${missing}`;
  return !missing.length && !loads && performance.now();
}
"""
"""Milliseconds from the begin of the navigation, or what is wrong."""


def loaded(services: Services, token: str, runs: int) -> Iterator[str]:
    """Of each page, its times, how many answers of the API it waited for, and the one that took longest in the last
    run."""
    from playwright.sync_api import Request, sync_playwright

    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        page.goto(services.address)
        page.get_by_test_id("token").fill(token)
        page.get_by_test_id("sign-in").click()
        page.get_by_test_id("cell").first.wait_for()
        answers: list[Request] = []
        page.on("requestfinished", lambda request: answers.append(request))
        for name, (address, selectors) in pages(services, token).items():
            took = []
            for _ in range(runs + 1):
                answers.clear()
                page.goto(services.address + address, wait_until="commit")
                found = page.wait_for_function(SETTLED, arg=selectors, polling="raf").json_value()
                if isinstance(found, str):
                    raise SystemExit(f"{address}: {found}")
                took.append(found)
            asked = [a for a in answers if "/v1/" in a.url]
            slowest = max(asked, key=lambda a: a.timing["responseEnd"])
            route = ID.sub("ID", urlsplit(slowest.url).path.rpartition("/v1")[2])
            told = f"{route} {slowest.timing['responseEnd']:.0f} ms"
            rows.append((name, *spread(took[1:]), f"{PAGE_MS} ms", str(len(asked)), told))
        browser.close()
    columns = ("page", "least", "median", "longest", "goal", "answers", "slowest of the last run")
    yield from table(columns, rows, 1)


def fill(services: Services, token: str) -> None:
    """What a generated team does not have: a capture that the worker analysed, and alerts."""
    from sqlalchemy import text

    from store.database import engine

    worker = services.start_worker(concurrency=1)
    upload_sample(services, token)
    stop_process(worker)
    del services.processes["worker"]
    for number in range(20):
        wanted = {"name": f"alert {number}", "measure": "rtt_us", "threshold": 1000 * number}
        _ask(services, token, "/v1/alerts", json.dumps(wanted).encode())
    with engine().begin() as database:
        summary = "(SELECT summary FROM captures WHERE tags->>'origin' = 'sample' LIMIT 1)"
        database.execute(text(f"UPDATE captures SET summary = {summary} WHERE connection_count = {MANY}"))


def main() -> None:
    parser = argparse.ArgumentParser(description="measures the queries and the pages of the team dashboards")
    parser.add_argument("--captures", type=int, default=50_000)
    parser.add_argument("--each", type=int, default=20, help="connections of a capture")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder for the database, which the next run takes as it is")
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    arguments = parser.parse_args()
    with own_services(kept=arguments.keep, REWINDOW_TEAM_REQUESTS_PER_S="1000000") as services:
        owner_address = use_database(services)
        from sqlalchemy import func, select

        from store.database import engine
        from store.histograms import Refresher
        from store.models import Capture, ConnectionFact
        from store.teams import ensure_team

        with engine().begin() as database:
            ensure_team(database, "bench"), ensure_team(database, "other")
            is_new = database.scalar(select(func.count()).select_from(Capture)) == 0
        services.start_api()
        token = token_for(services, "bench")
        if is_new:
            generate(owner_address, arguments.captures, arguments.each)
            fill(services, token)
        began = time.monotonic()
        days = Refresher()(float("inf"))
        counting_s = time.monotonic() - began
        with engine().begin() as database:
            captures = database.scalar(select(func.count()).select_from(Capture))
            connections = database.scalar(select(func.count()).select_from(ConnectionFact))
        others, runs = Others(), arguments.runs
        lines = list(loaded(services, token, runs))
        lines += list(measured(services, runs))
        head = [
            f"On {machine()}, of which other processes, PostgreSQL, the API and Chromium among them, took"
            f" {others.cores():.2f} (load {os.getloadavg()[1]:.1f}); {connections} connections in {captures} captures"
            f" of two teams, {runs} times each, pages after one, requests after {UNCOUNTED}."
            + (f" What is kept of {days} days was counted in {counting_s:.0f} s.\n" if is_new else "\n")
        ]
        text = "\n".join(head + lines)
        print(text)
        if arguments.write:
            put("performance.md", "dashboards", text)


if __name__ == "__main__":
    main()
