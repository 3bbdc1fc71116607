"""Aggregates of a team's connections, compared with what Python makes of the same connections."""

from __future__ import annotations

import ipaddress
import json
import math
import random
import statistics
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Float, cast, literal, select, text, update

from deploy.run import Services
from tests.service.test_api import assert_problem
from tests.service.test_connections import All, Row, client, rows, team  # noqa: F401  # fixtures
from tests.service.test_exports import assert_alike, csv_of


@pytest.fixture(autouse=True)
def without_limit(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast machine asks for more than what one team may ask for in a second."""
    from store.settings import settings

    monkeypatch.setattr(settings(), "team_requests_per_s", 1e6)


Value = Callable[[Row], float | None]


def when(row: Row, condition: bool, name: str) -> float | None:
    return row[name] if condition else None


MEASURES: dict[str, tuple[Value, str, Callable[[Row], bool]]] = {
    "goodput_bps": (lambda r: r["goodput_bps"], "goodput", lambda r: True),
    "completion_short_s": (lambda r: r["completion_s"], "completion", lambda r: 0 < r["bytes"] < 1e6),
    "completion_long_s": (lambda r: r["completion_s"], "completion", lambda r: r["bytes"] >= 1e6),
    "retransmission_rate": (lambda r: r["retransmission_rate"], "retransmissions", lambda r: True),
    "rtt_us": (lambda r: r["rtt_us"], "rtt", lambda r: True),
    "rtt_inflation": (lambda r: r["rtt_inflation"], "rtt", lambda r: True),
}
GROUPS: dict[str, Callable[[Row], str | None]] = {
    "sender_algorithm": lambda r: r["sender_algorithm"],
    "kind": lambda r: r["kind"],
    "verdict": lambda r: r["verdict"],
    "subflow_count": lambda r: str(r["subflow_count"]),
    "site": lambda r: r["tags"].get("site"),
    "tag:run": lambda r: r["tags"].get("run"),
    "prefix": lambda r: str(ipaddress.ip_network(f"{r['src']}/24", strict=False)),
    "uploader": lambda r: r["uploader"]["id"],
    "day": lambda r: r["started_at"][:10] + "T00:00:00+00:00",
    "hour": lambda r: r["started_at"][:13] + ":00:00+00:00",
}


def same(found: dict[str, Any], rows: All, value: Value, result: str) -> None:  # noqa: F811
    """The aggregate is that of these rows."""
    known = [r for r in rows if value(r) is not None]
    valid = sorted(v for r in known if result not in r["unreliable"] and (v := value(r)) is not None)
    counts = {n: found[n] for n in ("count", "unreliable", "missing")}
    assert counts == {
        "count": len(valid), "unreliable": len(known) - len(valid), "missing": len(rows) - len(known)
    }  # fmt: skip
    if not valid:
        assert (found["mean"], found["percentiles"]) == (None, None)
        return
    assert (found["min"], found["max"]) == (valid[0], valid[-1])
    assert found["mean"] == pytest.approx(sum(valid) / len(valid))
    for name, shown in found["percentiles"].items():
        exact = valid[max(1, math.ceil(len(valid) * int(name[1:]) / 100)) - 1]
        assert shown == pytest.approx(exact, rel=0.01)
    assert sum(b["count"] for b in found["histogram"]) == len(valid)
    for b in found["histogram"]:
        inside = [v for v in valid if b["low"] * (1 - 1e-12) <= v < b["high"] * (1 + 1e-12)]
        assert len(inside) == b["count"] > 0


def ask(client: TestClient, **params: Any) -> Any:  # noqa: F811
    answer = client.get("/v1/aggregates", params={"histogram": True, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("measure", MEASURES)
def test_aggregates_are_those_of_the_connections(measure: str, rows: All, client: TestClient) -> None:  # noqa: F811
    value, result, has = MEASURES[measure]
    counted = [r for r in rows if has(r)]
    for by in ([], ["sender_algorithm"], ["site", "kind"], ["verdict", "day"], ["tag:run"], ["prefix", "hour"],
               ["subflow_count", "uploader"]):  # fmt: skip
        found = ask(client, measure=measure, group_by=by)
        same(found["total"], counted, value, result)
        expected = defaultdict(list)
        for r in counted:
            expected[tuple(GROUPS[n](r) for n in by)].append(r)
        if by:
            assert found["groups_total"] == len(expected)
            assert {tuple(g["key"]) for g in found["groups"]} == set(expected)
        for group in found["groups"]:
            same(group, expected[tuple(group["key"])], value, result)
    filtered = ask(client, measure=measure, kind="tcp", tag="site=lab")
    same(
        filtered["total"], [r for r in counted if r["kind"] == "tcp" and r["tags"].get("site") == "lab"], value, result
    )


BEHIND: dict[str, Callable[[str | None], dict[str, Any]]] = {
    "sender_algorithm": lambda v: {"sender_algorithm": v},
    "kind": lambda v: {"kind": v},
    "verdict": lambda v: {"verdict": v},
    "mark": lambda v: {"all_marks": v or "none"},
    "subflow_count": lambda v: {"subflow_count_min": v, "subflow_count_max": v},
    "prefix": lambda v: {"src": v},
    "peer_prefix": lambda v: {"dst": v},
    "src": lambda v: {"src": v},
    "dst": lambda v: {"dst": v},
    "sport": lambda v: {"sport": v},
    "dport": lambda v: {"dport": v},
    "site": lambda v: {"without_tag": "site"} if v is None else {"tag": f"site={v}"},
    "tag:run": lambda v: {"without_tag": "run"} if v is None else {"tag": f"run={v}"},
    "uploader": lambda v: {"uploader": v or "none"},
}
"""The filters of the connections that have a value of a dimension."""


@pytest.mark.parametrize("by", BEHIND)
def test_a_group_counts_what_the_list_behind_it_has(by: str, rows: All, client: TestClient) -> None:  # noqa: F811
    """Of every measure that each connection has one value of."""
    for measure in (*MEASURES, "window:cubic"):
        answer = ask(client, measure=measure, group_by=by)
        assert sum(g["count"] + g["unreliable"] for g in answer["groups"]) > 0
        for group in answer["groups"]:
            behind = BEHIND[by](group["key"][0])
            listed = [
                client.get("/v1/connections", params={**behind, kind: measure}).json()["total"]
                for kind in ("reliable", "measured")
            ]
            assert listed == [group["count"], group["count"] + group["unreliable"]], (measure, group["key"])


def test_a_connection_is_in_the_group_of_each_of_its_findings(rows: All, client: TestClient) -> None:  # noqa: F811
    expected = Counter(mark for r in rows for mark in r["quality"] or [None])
    assert len(expected) > 2
    assert sum(expected.values()) > len(rows)
    answer = ask(client, measure="rtt_us", group_by="mark")
    assert {g["key"][0]: g["count"] + g["unreliable"] + g["missing"] for g in answer["groups"]} == expected
    assert sum(answer["total"][n] for n in ("count", "unreliable", "missing")) == len(rows), "each counts once"
    fields = {"field": ["mark", "kind"], "limit": 50}
    marks, kinds = client.get("/v1/connections/values", params=fields).json()["fields"]
    assert {v["value"]: v["connections"] for v in marks["values"]} == expected
    assert marks["distinct"] == len(expected)
    assert sum(v["connections"] for v in kinds["values"]) == len(rows)


def test_what_filters_can_name(rows: All, client: TestClient, other: TestClient) -> None:  # noqa: F811
    found = client.get("/v1/connections/names").json()
    assert found == {"tag_keys": ["site", "run"], "uploaders": [rows[0]["uploader"]]}
    assert other.get("/v1/connections/names").json() == {"tag_keys": [], "uploaders": []}


def test_unreliable_values_are_left_out_unless_asked_for(rows: All, client: TestClient) -> None:  # noqa: F811
    from store.database import engine
    from store.models import Capture, ConnectionFact

    known = [r for r in rows if r["rtt_us"] is not None]
    one = next(r for r in known if "rtt" not in r["unreliable"])
    already = sum("rtt" in r["unreliable"] for r in known)
    attempt = select(Capture.attempt_id).where(Capture.id == one["capture_id"]).scalar_subquery()
    of_one = (ConnectionFact.attempt_id == attempt, ConnectionFact.number == one["number"])
    with engine().begin() as database:  # as of a capture whose vantage is unknown
        made = database.execute(
            text(
                "INSERT INTO qualities (quality, verdict, unreliable)"
                " VALUES ('{vantage_unknown}', 'limited', '{rtt}')"
                " ON CONFLICT (quality, verdict, unreliable) DO UPDATE SET verdict = 'limited' RETURNING id"
            )
        ).scalar_one()
        before = database.execute(select(ConnectionFact.quality_id).where(*of_one)).scalar_one()
        database.execute(update(ConnectionFact).where(*of_one).values(quality_id=made))
    try:
        facts = {"measure": "rtt_us", "bytes_min": 0}  # of which no histogram knows
        without = ask(client, **facts)["total"]
        with_all = ask(client, **facts, include_unreliable=True)["total"]
    finally:
        with engine().begin() as database:
            database.execute(update(ConnectionFact).where(*of_one).values(quality_id=before))
    assert (without["count"], without["unreliable"]) == (len(known) - already - 1, already + 1)
    assert (with_all["count"], with_all["unreliable"]) == (len(known), 0)


def test_the_windows_of_an_algorithm(rows: All, client: TestClient) -> None:  # noqa: F811
    means = {}
    for r in rows:
        replays = client.get(f"/v1/connections/{r['id']}").json()["replays"]
        found = [sum(w["mean"] for w in p["windows"]) for p in replays if p["label"] == "cubic"]
        means[r["id"]] = found[0] if found else None
    total = ask(client, measure="window:cubic", include_unreliable=True)["total"]
    known = sorted(m for m in means.values() if m is not None)
    assert (total["count"], total["missing"]) == (len(known), len(rows) - len(known))
    assert (total["min"], total["max"]) == pytest.approx((known[0], known[-1]), rel=1e-6)
    assert ask(client, measure="window:nobody")["total"]["count"] == 0


def test_windows_of_replays_that_were_asked_for(
    rows: All,  # noqa: F811
    client: TestClient,  # noqa: F811
    run_jobs: Callable[[], None],
) -> None:
    asked = [r["id"] for r in rows][:2]
    for connection in asked:
        assert client.post(f"/v1/connections/{connection}/replays", json={"algorithm": "olia"}).status_code == 202
    assert ask(client, measure="window:olia")["total"]["count"] == 0
    run_jobs()
    means = []
    for connection in asked:
        replays = client.get(f"/v1/connections/{connection}").json()["replays"]
        means += [sum(w["mean"] for w in r["windows"]) for r in replays if r["label"] == "olia"]
    total = ask(client, measure="window:olia", include_unreliable=True)["total"]
    assert (total["count"], total["missing"]) == (2, len(rows) - 2)
    assert (total["min"], total["max"]) == pytest.approx((min(means), max(means)), rel=1e-6)
    listed = client.get("/v1/connections", params={"measured": "window:olia"}).json()["items"]
    assert {c["id"] for c in listed} == set(asked)


def test_groups_of_fairness(rows: All, client: TestClient) -> None:  # noqa: F811
    captures = {r["capture_id"]: client.get(f"/v1/captures/{r['capture_id']}").json() for r in rows}
    groups = [(c, g) for c in captures.values() for g in c["fairness"]]
    assert groups
    for measure, name in (("jain", "jain"), ("mptcp_to_tcp_ratio", "mptcp_to_tcp_ratio")):
        found = ask(client, measure=measure, group_by="site", include_unreliable=True)
        values = [g[name] for _, g in groups if g[name] is not None]
        assert found["total"]["count"] == len(values)
        assert found["total"]["mean"] == pytest.approx(sum(values) / len(values))
        sites = Counter(c["tags"].get("site") for c, _ in groups)
        assert {g["key"][0]: g["count"] + g["missing"] for g in found["groups"]} == sites
    shares = [(g, n, s) for _, g in groups for n, s in zip(g["connections"], g["shares"], strict=True)]
    ratios = [s["ratio"] for _, _, s in shares if s is not None]
    assert ratios, "no share is known: the samples have losses and marks"
    for g, _, s in shares:
        assert (s is None) or g["capacity_bps"] >= s["fair_bps"] > 0
    found = ask(client, measure="fair_share_ratio", group_by="kind", include_unreliable=True)
    assert (found["total"]["count"], found["total"]["missing"]) == (len(ratios), len(shares) - len(ratios))
    assert found["total"]["mean"] == pytest.approx(sum(ratios) / len(ratios))
    members = {(c["id"], n) for c, g in groups for n in g["connections"]}
    certain = {(c["id"], n) for c, g in groups if g["verdict"] != "poor" for n in g["connections"]}
    with_share = {
        (c["id"], n) for c, g in groups for n, s in zip(g["connections"], g["shares"], strict=True) if s is not None
    }
    for measure, kind, behind in (
        ("jain", "measured", members), ("jain", "reliable", certain),
        ("fair_share_ratio", "measured", with_share), ("fair_share_ratio", "reliable", with_share & certain),
    ):  # fmt: skip
        listed = client.get("/v1/connections", params={kind: measure, "limit": 500}).json()["items"]
        assert {(r["capture_id"], r["number"]) for r in listed} == behind, (measure, kind)
    assert 0 < len(certain) < len(rows)
    kinds = Counter(k for _, g in groups for k in g["kinds"])
    assert {g["key"][0]: g["count"] + g["missing"] for g in found["groups"]} == kinds
    assert_problem(client.get("/v1/aggregates?measure=jain&group_by=kind"), 422, "whose members differ in kind")


def first(counts: Counter[str | None], limit: int) -> list[tuple[str | None, int]]:
    """The most frequent ones; of the same number by their text, those without a value last."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, item[0] or ""))[:limit]


def test_values_of_fields(rows: All, client: TestClient) -> None:  # noqa: F811
    fields = [n for n in GROUPS if n not in ("day", "hour")]
    found = client.get("/v1/connections/values", params={"field": fields, "limit": 2}).json()["fields"]
    assert [f["field"] for f in found] == fields
    for shown in found:
        counts = Counter(GROUPS[shown["field"]](r) for r in rows)
        assert shown["distinct"] == len(counts)
        assert [(v["value"], v["connections"]) for v in shown["values"]] == first(counts, 2)
    marks = client.get("/v1/connections/values", params={"field": ["mark", "verdict", "kind"], "limit": 50}).json()
    counts = Counter(mark for r in rows for mark in r["quality"] or [None])
    assert counts[None]
    assert len(counts) > 2
    assert [(v["value"], v["connections"]) for v in marks["fields"][0]["values"]] == first(counts, 50)
    first_marks = {**marks["fields"][0], "values": marks["fields"][0]["values"][:2]}
    for alone in (*fields, "mark"):  # the tables that are read differ
        (only_one,) = client.get("/v1/connections/values", params={"field": alone, "limit": 2}).json()["fields"]
        assert only_one == next(f for f in (*found, first_marks) if f["field"] == alone)
    parts = {"field": ["kind", "sender_algorithm"], "containing": "PT"}
    with_text, without = client.get("/v1/connections/values", params=parts).json()["fields"]
    assert (with_text["distinct"], [v["value"] for v in with_text["values"]]) == (1, ["mptcp"])
    assert (without["distinct"], without["values"]) == (0, [])
    for pattern in ("%", "_", "\\"):
        literally = client.get("/v1/connections/values", params={"field": "kind", "containing": pattern})
        assert literally.json()["fields"][0]["values"] == [], pattern
    only = client.get("/v1/connections/values", params={"field": "kind", "kind": "mptcp"}).json()["fields"][0]["values"]
    assert only == [{"value": "mptcp", "connections": sum(r["kind"] == "mptcp" for r in rows)}]


def test_two_selections_compared(rows: All, client: TestClient) -> None:  # noqa: F811
    compared(client, rows, {"kind": "tcp"}, lambda r: r["kind"] == "tcp")
    compared(client, rows, {"bytes_min": 1_000_000}, lambda r: r["bytes"] >= 1_000_000)  # which no histogram can tell


@pytest.mark.parametrize("swapped", [False, True])
def test_a_selection_compared_with_all(rows: All, client: TestClient, swapped: bool) -> None:  # noqa: F811
    """Which has it in it, so that they differ by less at random."""
    tcp, both = urlencode({"kind": "tcp", "tag": "site=lab"}), ["selection", "baseline"]
    whole = urlencode({"tag": "site=lab"})
    wanted = dict(zip(reversed(both) if swapped else both, (tcp, whole), strict=True))
    found = client.get("/v1/aggregates/comparison", params={"measure": "goodput_bps", **wanted}).json()
    its = [r for r in rows if r["tags"].get("site") == "lab"]
    size = sum(r["kind"] == "tcp" for r in its)
    assert 0 < size < len(its)
    for d in found["dimensions"]:
        if d["dimension"] in GROUPS:
            values = [GROUPS[d["dimension"]](r) for r in its]
            assert d["chance"] == pytest.approx(at_random(values, size, values), rel=0.05, abs=0.01)


def compared(client: TestClient, rows: All, baseline: dict[str, Any], is_in: Callable[[Row], bool]) -> None:  # noqa: F811
    wanted = {"selection": urlencode({"tag": "site=lab"}), "baseline": urlencode(baseline)}
    found = client.get("/v1/aggregates/comparison", params={"measure": "goodput_bps", **wanted, "limit": 50}).json()
    chosen = {
        "selection": [r for r in rows if r["tags"].get("site") == "lab"],
        "baseline": [r for r in rows if is_in(r)],
    }
    assert all(chosen.values())
    for name, its in chosen.items():
        expected = [r for r in its if r["goodput_bps"] is not None and "goodput" not in r["unreliable"]]
        assert found[name]["count"] == len(expected)
    by_name = {d["dimension"]: d for d in found["dimensions"]}
    assert {"kind", "sender_algorithm", "prefix", "tag:site", "tag:run", "uploader"} <= by_name.keys()
    for name in by_name.keys() & GROUPS.keys():
        counts = {n: Counter(GROUPS[name](r) for r in its) for n, its in chosen.items()}
        shares = {n: {v: k / len(chosen[n]) for v, k in c.items()} for n, c in counts.items()}
        each = set(counts["selection"]) | set(counts["baseline"])
        distance = sum(abs(shares["selection"].get(v, 0) - shares["baseline"].get(v, 0)) for v in each) / 2
        assert by_name[name]["distance"] == pytest.approx(distance)
        assert {v["value"]: (v["selection"], v["baseline"]) for v in by_name[name]["values"]} == {
            v: (counts["selection"][v], counts["baseline"][v]) for v in each
        }
        both = [GROUPS[name](r) for its in chosen.values() for r in its]
        assert by_name[name]["chance"] == pytest.approx(at_random(both, len(chosen["selection"])), rel=0.05, abs=0.01)
    beyond = [d["distance"] - d["chance"] for d in found["dimensions"]]
    assert beyond == sorted(beyond, reverse=True)
    assert beyond[0] > beyond[-1]


def at_random(values: list[Any], size: int, whole: list[Any] | None = None) -> float:
    """The mean distance between so many of them and the whole, or else the others."""
    draw, drawn, distances = random.Random(1), list(values), []
    for _ in range(4000):
        draw.shuffle(drawn)
        one, others = Counter(drawn[:size]), drawn[size:] if whole is None else whole
        other = Counter(others)
        distances.append(sum(abs(one[v] / size - other[v] / len(others)) for v in one | other) / 2)
    return statistics.fmean(distances)


PERIODS = urlencode({"from": "2026-11-01T00:00:00Z", "split": "2026-11-15T00:00:00Z", "to": "2026-11-30T00:00:00Z"})


def test_what_changed_of_groups_and_connections_together(rows: All, client: TestClient) -> None:  # noqa: F811
    """What a measure cannot be grouped by is left out, as long as something else is left."""
    asked = "measure=jain&measure=rtt_us&group_by=site&group_by=kind"
    both = client.get(f"/v1/aggregates/changes?{asked}&{PERIODS}").json()
    alone = client.get(f"/v1/aggregates/changes?measure=jain&group_by=site&{PERIODS}").json()
    rtt = client.get(f"/v1/aggregates/changes?measure=rtt_us&group_by=site&group_by=kind&{PERIODS}").json()
    assert both["too_few"] == alone["too_few"] + rtt["too_few"]
    assert min(alone["too_few"], rtt["too_few"]) > 0
    by_verdict = client.get(f"/v1/aggregates/changes?measure=rtt_us&group_by=verdict&{PERIODS}").json()
    verdicts = {r["verdict"] for r in rows if r["rtt_us"] and r["started_at"] > "2026" and "rtt" not in r["unreliable"]}
    assert by_verdict["too_few"] == len(verdicts) > 0


def test_what_is_wrong_is_refused(rows: All, client: TestClient) -> None:  # noqa: F811
    base = "/v1/aggregates"
    for url, said in (
        (base, "measure"),
        (f"{base}?measure=speed", "measure"),
        (f"{base}?measure=rtt_us&group_by=colour", "group_by"),
        (f"{base}?measure=rtt_us&group_by=kind&group_by=kind", "twice"),
        (f"{base}?measure=rtt_us&group_by=kind&group_by=day&group_by=hour", "at most 2"),
        (f"{base}?measure=rtt_us&groupby=kind", "unknown query parameter 'groupby'"),
        (f"{base}/comparison?measure=rtt_us&selection=kind%3Dudp", "selection: kind"),
        (f"{base}/comparison?measure=rtt_us&selection=kinds%3Dtcp", "selection: there is no filter 'kinds'"),
        (f"{base}/comparison?measure=rtt_us&selection=kind%3Dtcp%26kind%3Dmptcp", "more than once"),
        (f"{base}/changes?measure=jain&group_by=kind&{PERIODS}", "whose members differ in kind"),
        ("/v1/connections?reliable=speed", "reliable"),
        ("/v1/connections/values?field=colour", "field"),
        ("/v1/connections/values?" + "&".join(["field=kind"] * 9), "at most 8"),
    ):
        assert_problem(client.get(url), 422, said)


def test_another_teams_connections_do_not_count(rows: All, other: TestClient) -> None:  # noqa: F811
    for measure in (*MEASURES, "jain", "window:cubic", "whatif:cubic", "harm"):
        total = other.get(f"/v1/aggregates?measure={measure}").json()["total"]
        assert (total["count"], total["unreliable"], total["missing"]) == (0, 0, 0)
    selection = urlencode({"capture_id": rows[0]["capture_id"]})
    found = other.get(f"/v1/aggregates/comparison?measure=rtt_us&{urlencode({'selection': selection})}").json()
    assert found["selection"]["count"] == found["baseline"]["count"] == 0
    assert found["dimensions"] == []
    assert other.get("/v1/connections/values?field=kind").json()["fields"][0] == {
        "field": "kind", "values": [], "distinct": 0,
    }  # fmt: skip


def test_buckets_are_off_by_at_most_one_percent(services: object) -> None:
    from api.aggregates.histograms import borders, middle
    from store.database import engine
    from store.histograms import bucket

    values = [s * 10.0**e * m for e in range(-8, 13) for m in (1, 1.0099, 2.5, 9.99) for s in (1, -1)] + [0.0, 1e-12]
    with engine().connect() as database:
        numbers = [database.scalar(select(bucket(cast(literal(v), Float(53))))) for v in values]
    for value, number in zip(values, numbers, strict=True):
        assert number is not None
        assert abs(middle(number) - value) <= max(0.01 * abs(value), 1e-9)
        low, high = borders(number)
        assert (
            low * (1 - 1e-12 * math.copysign(1, low)) <= value <= high * (1 + 1e-12 * math.copysign(1, high))
            or not number
        )
    assert [n for _, n in sorted(zip(values, numbers, strict=True))] == sorted(n for n in numbers if n is not None)


def test_whatifs_and_harm(rows: All, client: TestClient) -> None:  # noqa: F811
    """Of stored what-ifs only; here one that was answered, and one that could not be. Harm is known of one neighbour,
    and not of another; nor in a prediction of when the word stood for something else."""
    from store.database import engine

    one, two = [r for r in rows if r["goodput_bps"]][:2]
    harmed, unknown = [r for r in rows if r["capture_id"] == one["capture_id"]][:2]
    share = {"median": -0.25, "low": -0.5, "high": 0}
    harm = {"goodput_without_bps": {"median": 8e6, "low": 7e6, "high": 9e6}, "recorded": share, "change": share}
    said = {
        "verdict": "ok",
        "recorded": {"goodput_bps": 4e6},
        "predicted": {"goodput_bps": {"median": 6e6, "low": 5e6, "high": 7e6}},
        "neighbours": [
            {"id": harmed["number"], "harm": harm | {"predicted": {"median": 0.375, "low": 0.25, "high": 0.5}}},
            {"id": unknown["number"], "harm": None},
        ],
    }
    other = {"median": 0.75, "low": 0.5, "high": 0.9}
    of_all = said | {"neighbours": [{"id": harmed["number"], "harm": harm | {"predicted": other}}]}
    of_before = said | {"neighbours": [{"id": harmed["number"], "harm": other}]}
    refused = {"verdict": "cannot_say", "recorded": {"goodput_bps": 1e6}, "predicted": {}, "neighbours": []}
    with engine().begin() as database:
        for row, label, result, everyone, network in (
            (one, "lia", said, False, "{}"), (two, "lia", refused, False, "{}"),
            (one, "lia", of_all, True, "{}"), (one, "lia", of_all, False, '{"path1.rate": 1}'),
            (two, "balia", of_before, False, "{}"),
        ):  # fmt: skip
            database.execute(
                text(
                    "INSERT INTO whatifs (id, capture_id, connection_id, connection_number, label, algorithm, everyone,"
                    " settings, repeat, state, result) VALUES (:id, :capture, :connection, :number, :label, :label,"
                    " :everyone, cast(:network AS jsonb), 48, 'done', cast(:result AS jsonb))"
                ),
                {
                    "id": uuid.uuid4(), "capture": row["capture_id"], "connection": row["id"], "number": row["number"],
                    "label": label, "result": json.dumps(result), "everyone": everyone, "network": network,
                },
            )  # fmt: skip
    total = ask(client, measure="whatif:lia")["total"]
    assert (total["count"], total["missing"], total["min"], total["max"]) == (1, 1, 1.5, 1.5)
    assert ask(client, measure="whatif:olia")["total"]["count"] == 0

    def behind(measure: str) -> list[str]:
        return [r["id"] for r in client.get("/v1/connections", params={"reliable": measure}).json()["items"]]

    assert (behind("whatif:lia"), behind("whatif:olia")) == ([one["id"]], [])
    assert behind("harm") == behind("harm:lia") == [harmed["id"]]
    assert behind("harm:olia") == behind("harm:balia") == []
    for name, missing in (("harm", 2), ("harm:lia", 1)):
        total = ask(client, measure=name, group_by="site")["total"]
        assert (total["count"], total["mean"], total["missing"]) == (1, 0.375, missing)
        assert total["percentiles"]["p50"] == pytest.approx(0.375, rel=0.01)
    for name in ("harm:olia", "harm:balia"):
        assert ask(client, measure=name)["total"]["count"] == 0


def of_periods(change: dict[str, Any]) -> dict[str, int]:
    """The columns of a file that take the place of the pairs."""
    both = [
        (name, place, when) for name in ("connections", "captures") for place, when in enumerate(("before", "after"))
    ]
    return {f"{name}_{when}": change[name][place] for name, place, when in both}


def test_noise_is_no_news(client: TestClient, rows: All, other: TestClient) -> None:  # noqa: F811
    """Of few captures nothing can be said; of many, only what differs."""

    def moment(time_ns: int) -> str:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)).isoformat()

    from store.database import engine
    from store.models import Attempt, Capture, ConnectionFact, QualityRecord

    first = min(r["first_ns"] for r in rows)
    asked = {"measure": ["rtt_us", "retransmission_rate"], "group_by": ["site", "kind"]}
    times = {"from": moment(first), "split": moment(first + 10**15), "to": moment(first + 2 * 10**15)}
    found = client.get("/v1/aggregates/changes", params={**asked, **times}).json()
    assert (found["changes"], found["compared"]) == ([], 0)
    assert found["too_few"] > 0
    wrong = client.get("/v1/aggregates/changes", params={**asked, **times, "split": times["to"]})
    assert_problem(wrong, 422, "in this order of time")

    first += 10**17  # away from the connections that there are
    times = {"from": moment(first), "split": moment(first + 10**15), "to": moment(first + 2 * 10**15)}
    made: list[int] = []
    with engine().begin() as database:
        one = database.execute(select(Capture.team_id).where(Capture.id == uuid.UUID(rows[0]["capture_id"]))).one()
        quality = database.scalar(select(QualityRecord.id).where(text("unreliable = '{}'")).limit(1))
        fact = database.execute(select(ConnectionFact.__table__).limit(1)).one()._mapping
        attempt = database.execute(select(Attempt.__table__).limit(1)).one()._mapping
        for number in range(24):
            late = number >= 12
            own = {**{k: v for k, v in attempt.items() if k != "id"}, "job_id": uuid.uuid4(), "days": None}
            capture = uuid.uuid4()
            values = {"id": capture, "team_id": one.team_id, "sha256": number.to_bytes(32, "big"), "bytes": 1}
            site = "moved" if number % 2 else "same"
            database.execute(
                Capture.__table__.insert().values(
                    **values, filename="made", object_key="none", tags={"site": site}, state="done"
                )
            )
            attempt_id = database.scalar(
                Attempt.__table__.insert().values({**own, "capture_id": capture}).returning(Attempt.id)
            )
            made.append(attempt_id)
            database.execute(update(Capture).where(Capture.id == capture).values(attempt_id=attempt_id))
            rtt = (40_000 if late and site == "moved" else 20_000) + 500 * (number // 2 % 6)
            for place in range(5):
                kept = {k: v for k, v in fact.items() if k not in ("attempt_id", "number")}
                kept |= {"team_id": one.team_id, "quality_id": quality, "rtt_us": rtt + 10 * place, "kind": "tcp"}
                kept["first_ns"] = first + (10**15 if late else 0) + number * 10**9
                database.execute(ConnectionFact.__table__.insert().values(attempt_id=attempt_id, number=place, **kept))
    try:
        found = client.get("/v1/aggregates/changes", params={**asked, **times}).json()
        query = urlencode({**asked, **times}, doseq=True)
        in_file = [{**c, **of_periods(c)} for c in found["changes"]]
        assert_alike(client, "/v1/aggregates/changes", f"?{query}", in_file)
        assert csv_of(other, f"/v1/aggregates/changes.csv?{query}") == []
    finally:
        with engine().begin() as database:
            database.execute(ConnectionFact.__table__.delete().where(ConnectionFact.attempt_id.in_(made)))
            database.execute(Capture.__table__.delete().where(Capture.attempt_id.in_(made)))
            database.execute(Attempt.__table__.delete().where(Attempt.id.in_(made)))
    (change,) = [c for c in found["changes"] if c["dimension"] == "site"]
    assert (change["measure"], change["value"], change["captures"], change["is_ratio"]) == (
        "rtt_us",
        "moved",
        [6, 6],
        True,
    )
    assert change["after"] / change["before"] == pytest.approx(2, rel=0.1)
    assert change["low"] < change["after"] / change["before"] < change["high"]
    assert change["chance"] < 0.001
    assert {c["value"] for c in found["changes"]} <= {"moved", "tcp"}, "what is the same is no news"


def test_times_that_no_capture_can_have(rows: All, client: TestClient) -> None:  # noqa: F811
    """A column of nanoseconds ends in 2262. A day of it has no end there."""
    for late in ("2262-04-11T23:00:00Z", "2262-04-12T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert client.get(f"/v1/aggregates?measure=rtt_us&from={late}").json()["total"]["count"] == 0
        assert client.get(f"/v1/connections/values?field=kind&from={late}").status_code == 200
        assert client.get(f"/v1/aggregates.csv?measure=rtt_us&group_by=day&from={late}").status_code == 200
        selection = urlencode({"selection": f"from={late}", "baseline": "kind=tcp"})
        assert client.get(f"/v1/aggregates/comparison?measure=rtt_us&{selection}").status_code == 200
    every = client.get("/v1/aggregates?measure=rtt_us").json()["total"]
    assert client.get("/v1/aggregates?measure=rtt_us&to=9999-12-31T23:59:59Z").json()["total"] == every
