"""Times of the team dashboards' queries over a million connections: `make bench-dashboards`.

Starts a PostgreSQL of its own, has it generate captures with connections of two teams, and sends requests to the API in
this process. Of each the median and the longest of several answers count, after one that is not counted. Prints
Markdown; `--write` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg

from bench.services import own_services, use_database
from bench.speed import Others, machine, table, write

MARKER = "<!-- dashboards -->"
PAGES_MS, AD_HOC_MS = 200, 1000
"""Goals."""

GENERATE = """
INSERT INTO qualities (quality, verdict, unreliable) VALUES
    ('{}', 'good', '{}'), ('{vantage_unknown}', 'limited', '{in_flight,rtt,sender_algorithm,windows}'),
    ('{one_direction}', 'poor', '{in_flight,retransmissions,rtt,windows}');
WITH made AS (
    INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, state, tags, created_at, connection_count)
    SELECT gen_random_uuid(), (SELECT id FROM teams WHERE name = CASE n % 10 WHEN 0 THEN 'other' ELSE 'bench' END),
        sha256(n::text::bytea), 1000000, 'capture-' || n || '.pcap', n::text, 'queued',
        jsonb_build_object('site', 'site-' || n % 12, 'run', n::text),
        now() - (CAPTURES - n) * interval '56 days' / CAPTURES, EACH
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
    FROM captures c CROSS JOIN generate_series(1, EACH) n;
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
        jsonb_agg(goodput_bps ORDER BY number), 'kinds', jsonb_agg('tcp'::text)),
    avg(1 - chance * chance * 0.3), 0.5 + avg(chance), false, CASE WHEN min(chance) < 0.05 THEN 'poor' ELSE 'good' END
FROM drawn GROUP BY attempt_id, number / 5;
INSERT INTO replays (id, capture_id, connection_id, connection_number, label, algorithm, state, created_at, acks_key,
    series_bytes)
SELECT gen_random_uuid(), c.id, gen_random_uuid(), 1, label, label, 'done', c.created_at, c.object_key || label, 200000
FROM captures c CROSS JOIN unnest(ARRAY['lia', 'bbr']) label;
INSERT INTO segment_series (id, capture_id, connection_id, connection_number, state, created_at, object_key,
    series_bytes)
SELECT gen_random_uuid(), id, gen_random_uuid(), 1, 'done', created_at, object_key || 'segments', 300000
FROM captures WHERE object_key::int % 5 = 0;
"""

PERIOD = {"from": "begin", "to": "end"}
"""Four weeks, as the team's page begins with; `measured` puts in their times."""
TRENDS = ("jain", "retransmission_rate", "rtt_inflation", "completion_short_s", "completion_long_s", "goodput_bps")
CHANGES = {
    "measure": ["retransmission_rate", "rtt_inflation", "rtt_us", "goodput_bps", "completion_short_s",
                "completion_long_s"],
    "group_by": ["site", "sender_algorithm", "kind", "peer_prefix"],
}  # fmt: skip
PAGES: dict[str, tuple[str, dict[str, Any]]] = {
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
    "index by number of findings": ("/v1/connections", {"sort": "-marks"}),
    "index by a tag": ("/v1/connections", {"sort": "tag:site"}),
    "index by uploader": ("/v1/connections", {"sort": "uploader"}),
    "captures by capture time": ("/v1/captures", {"sort": "-first_ns"}),
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

    backfill = next(Path(versions[0]).glob("0017_*.py")).read_text().split('BACKFILL = """')[1].split('"""')[0]
    with psycopg.connect(owner_address, autocommit=True) as database:
        script = GENERATE.replace("CAPTURES", str(captures)).replace("EACH", str(each))
        for statement in f"{script};{backfill}".split(";"):
            if statement.strip():
                database.execute(statement)  # type: ignore[arg-type]
        database.execute("DROP TABLE drawn")
        database.execute("VACUUM (ANALYZE)")


def measured(runs: int) -> Iterator[str]:
    from fastapi.testclient import TestClient

    from api.app import create
    from store.database import engine
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
    rows = []
    with TestClient(create(), headers={"Authorization": f"Bearer {token}"}) as client:
        for goal, asked in ((PAGES_MS, PAGES), (AD_HOC_MS, AD_HOC), (PAGES_MS, STALE)):
            if asked is STALE:
                _make_stale(tomorrow // day - 1)
            for name, (path, given) in asked.items():
                params = {k: times.get(v, v) if isinstance(v, str) else v for k, v in given.items()}
                took = []
                for _ in range(runs + 1):
                    began = time.perf_counter()
                    answer = client.get(path.replace("TEAM", str(team_id)), params=params)
                    took.append(1000 * (time.perf_counter() - began))
                    if answer.status_code != 200:
                        raise SystemExit(f"{name}: {answer.text}")
                if asked is STALE:
                    name += ", the last day stale"
                rows.append((name, f"{statistics.median(took[1:]):.0f} ms", f"{max(took[1:]):.0f} ms", f"{goal} ms"))
    yield from table(("request", "median", "longest", "goal"), rows, 0)


def _make_stale(day: int) -> None:
    from sqlalchemy import insert, select

    from store.database import engine
    from store.models import StaleDay, Team

    with engine().begin() as database:
        team_id = database.scalar(select(Team.id).where(Team.name == "bench"))
        database.execute(insert(StaleDay).values(team_id=team_id, day=day))


def main() -> None:
    parser = argparse.ArgumentParser(description="measures the queries of the team dashboards")
    parser.add_argument("--captures", type=int, default=50_000)
    parser.add_argument("--each", type=int, default=20, help="connections of a capture")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="also put the result into docs/performance.md")
    arguments = parser.parse_args()
    with own_services() as services:
        owner_address = use_database(services)
        from store.database import engine
        from store.teams import ensure_team

        with engine().begin() as database:
            ensure_team(database, "bench"), ensure_team(database, "other")
        others = Others()
        generate(owner_address, arguments.captures, arguments.each)
        from store.histograms import Refresher

        began = time.monotonic()
        days = Refresher()(float("inf"))
        counting_s = time.monotonic() - began
        lines = list(measured(arguments.runs))
        count = arguments.captures * arguments.each
        head = [
            f"On {machine()}, of which other processes, PostgreSQL among them, took"
            f" {others.cores():.2f}; {count} connections in"
            f" {arguments.captures} captures of two teams, {arguments.runs} requests each after one. Histograms of"
            f" {days} days were counted in {counting_s:.0f} s.\n"
        ]
        text = "\n".join(head + lines)
        print(text)
        if arguments.write:
            write(text, MARKER)


if __name__ == "__main__":
    main()
