"""Histograms that PostgreSQL keeps, compared with a recount of the facts after whatever changes these."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_new
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from api.aggregates import changes, maintained, service
from api.aggregates.schemas import AggregatesOut
from api.filters import Filters
from api.security import Caller
from deploy.run import Services
from store import attempts, facts, histograms, jobs, spreads
from store.database import engine
from store.facts import DAY_NS
from store.models import (
    Attempt,
    Capture,
    ConnectionFact,
    DayCount,
    DayHistogram,
    DaySpread,
    FairnessGroup,
    Job,
    JobKind,
    QualityRecord,
    StaleDay,
    State,
)
from store.settings import settings
from tests.service.test_jobs import alembic, new_database
from worker import retention

FIRST_DAY = 18_000
DAYS = 3
FIELDS = (
    "kind", "sender_algorithm", "subflow_count", "verdict", "mark", "prefix", "peer_prefix", "sport", "dport", "site",
    "tag:run", "uploader",
)  # fmt: skip
GROUPS: tuple[list[str], ...] = ([], ["day"], ["sender_algorithm", "site"], ["site", "day"], ["kind"])
EVERYTHING = {"bytes_min": 0}
"""A filter that selects all, and that no histogram knows."""


@pytest.fixture(autouse=True)
def _few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histograms, "DAYS_MAX", DAYS)


class World:
    """A team whose captures are analysed without a file: their facts are drawn."""

    def __init__(self, client: TestClient, seed: int) -> None:
        self.client = client
        self.random = random.Random(seed)
        self.captures: list[uuid.UUID] = []
        self.drawn: dict[uuid.UUID, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        with engine().begin() as database:
            self.team_id = uuid.UUID(client.get("/v1/teams/me").json()["id"])
            self.qualities = []
            for verdict, unreliable in (("good", []), ("limited", ["rtt", "goodput"]), ("poor", ["retransmissions"])):
                values = {"quality": ["drawn"], "verdict": verdict, "unreliable": unreliable}
                database.execute(insert_new(QualityRecord).values(values).on_conflict_do_nothing())
                same = [getattr(QualityRecord, name) == value for name, value in values.items()]
                self.qualities.append(database.execute(select(QualityRecord.id).where(*same)).scalar_one())

    def analyse(self, capture_id: uuid.UUID | None = None, *, days: Sequence[int] | None = None) -> uuid.UUID:
        """Stores and publishes drawn results, of a new capture or of one that there is."""
        draw = self.random
        days = days or [FIRST_DAY + draw.randrange(DAYS)] * draw.choice((1, 1, 2))
        with engine().begin() as database:
            if capture_id is None:
                capture_id = uuid.uuid4()
                self.captures.append(capture_id)
                database.execute(
                    insert(Capture).values(
                        id=capture_id, team_id=self.team_id, sha256=draw.randbytes(32), bytes=1, filename="drawn",
                        object_key=str(capture_id), tags={"site": draw.choice("abc")} if draw.random() < 0.8 else {},
                    )
                )  # fmt: skip
                values = {"id": capture_id, "kind": JobKind.analyze, "capture_id": capture_id, "team_id": self.team_id}
                database.execute(insert(Job).values(values))
            # The second time, too: as when a failed analysis is begun anew.
            database.execute(update(Job).where(Job.id == capture_id).values(state=State.queued, attempts=0))
        with engine().begin() as database:
            taken = jobs.claim(database, capture_id)
            assert taken is not None
            attempt_id = attempts.start(database, taken, [])
        rows = [self._fact(attempt_id, number, days) for number in range(draw.randint(1, 9))]
        groups = [self._group(attempt_id, place, len(rows)) for place in range(draw.choice((0, 1, 2)))]
        with attempts.writing(attempt_id) as database:
            ids = [database.scalar(insert(FairnessGroup).values(g).returning(FairnessGroup.id)) for g in groups]
            for row in rows:
                own = [(i, ratio) for i, g in zip(ids, groups, strict=True) for ratio in ratios_of(g, row["number"])]
                row["group_ids"] = [i for i, _ in own] or None
                row["fair_share_ratios"] = [math.nan if ratio is None else ratio for _, ratio in own] or None
            database.execute(insert(ConnectionFact), rows)
        self.drawn[capture_id] = (rows, groups)
        with engine().begin() as database:
            attempts.publish(database, taken, attempt_id, connection_count=len(rows))
        return capture_id

    def _fact(self, attempt_id: int, number: int, days: Sequence[int]) -> dict[str, Any]:
        draw = self.random
        day = draw.choice(days)
        # Often at an end of the day, so that captures are cut by it.
        into = draw.choice((0, 1, DAY_NS - 1, draw.randrange(DAY_NS)))
        size = draw.choice((0, 1, 10**5, facts.SHORT_BYTES - 1, facts.SHORT_BYTES, 10**8))
        rtt_min = draw.choice((None, 0, draw.randint(1, 10**5)))
        return {
            "attempt_id": attempt_id, "number": number, "team_id": self.team_id, "first_ns": day * DAY_NS + into,
            "bytes": size, "duration_s": draw.random(),
            "goodput_bps": draw.choice((None, 0.0, draw.lognormvariate(15, 3))),
            "completion_s": draw.choice((None, draw.lognormvariate(0, 3))),
            "retransmission_rate": draw.choice((None, 0.0, draw.random())), "rtt_min_us": rtt_min,
            "rtt_us": None if rtt_min is None else rtt_min + draw.randint(0, 10**5),
            "subflow_count": draw.randint(1, 2), "quality_id": draw.choice(self.qualities),
            "sport": draw.choice((1, 2, 10)), "dport": 2, "kind": draw.choice(("tcp", "mptcp")),
            "sender_algorithm": draw.choice(("cubic", "bbr", "unknown")),
            "src": draw.choice(("10.0.0.1", "10.0.1.1", "2001:db8::1")), "dst": "10.0.0.2",
        }  # fmt: skip

    def _group(self, attempt_id: int, place: int, connections: int) -> dict[str, Any]:
        draw = self.random
        members = sorted(draw.sample(range(connections), draw.randint(1, connections)))
        of_each = {"connections": members, "kinds": ["tcp"] * len(members), "goodput_bps": [1.0] * len(members)}
        common = {"limited_by": "network", "shared_s": 1.0, "goodput_bps": 1.0, "fair_bps": 1.0}
        of_each["shares"] = [draw.choice((None, {**common, "ratio": 2 * draw.random()})) for _ in members]
        return {
            "attempt_id": attempt_id, "bottleneck": f"sbd-{place}", "method": "sbd", "members": of_each,
            "jain": draw.random(), "mptcp_to_tcp_ratio": draw.choice((None, draw.random())), "declared": False,
            "verdict": draw.choice(("good", "poor")),
        }  # fmt: skip

    def ratios(self, kind: str, begin: int, end: int) -> list[tuple[float | None, bool]]:
        """Of the members of this kind that began in the period: what each got of its fair share in each group, and
        whether that is unreliable."""
        return [
            (ratio, group["verdict"] == "poor")
            for rows, groups in (self.drawn[c] for c in self.captures)
            for group in groups
            for row in rows
            if row["kind"] == kind and begin <= row["first_ns"] < end
            for ratio in ratios_of(group, row["number"])
        ]

    def indices(self, kind: str, begin: int, end: int) -> list[tuple[float | None, bool]]:
        """Jain's index of each group whose first member of this kind began in the period, and whether it is
        unreliable."""
        found = []
        for rows, groups in (self.drawn[c] for c in self.captures):
            for group in groups:
                members = group["members"]["connections"]
                began = [row["first_ns"] for row in rows if row["kind"] == kind and row["number"] in members]
                if began and begin <= min(began) < end:
                    found.append((group["jain"], group["verdict"] == "poor"))
        return found

    def tag(self, capture_id: uuid.UUID) -> None:
        tags = self.random.choice(({}, {"site": "a"}, {"site": "b", "run": "1"}, {"run": "2"}))
        assert self.client.patch(f"/v1/captures/{capture_id}", json={"tags": tags}).status_code == 200

    def delete(self, capture_id: uuid.UUID) -> None:
        self.captures.remove(capture_id)
        assert self.client.delete(f"/v1/captures/{capture_id}").status_code == 204

    def expire(self, capture_id: uuid.UUID) -> None:
        """Retention deletes it."""
        self.captures.remove(capture_id)
        url = f"/v1/teams/{self.team_id}/retention"
        for_ever = {"raw_days": None, "series_days": None, "metrics_days": None}
        assert self.client.put(url, json={**for_ever, "metrics_days": 30}).status_code == 200
        old = func.clock_timestamp() - timedelta(days=40)
        with engine().begin() as database:
            database.execute(update(Capture).where(Capture.id == capture_id).values(uploaded_at=old))
        while any(retention.retain_once(60).values()):
            pass
        assert self.client.put(url, json=for_ever).status_code == 200
        assert self.client.get(f"/v1/captures/{capture_id}").status_code == 404

    def stale(self) -> list[int]:
        with engine().connect() as database:
            days = select(StaleDay.day).where(StaleDay.team_id == self.team_id).distinct().order_by(StaleDay.day)
            return list(database.scalars(days))

    def refresh(self) -> None:
        for day in self.stale():
            histograms.refresh(self.team_id, day)

    def ask(self, **params: Any) -> dict[str, Any]:
        return self.json("/v1/aggregates", {"histogram": True, **params})

    def check(self, **params: Any) -> None:
        """What histograms answer is what a recount does."""
        same(self.ask(**params), self.ask(**params, **EVERYTHING))

    def check_some(self, count: int) -> None:
        for _ in range(count):
            name = self.random.choice(list(facts.MEASURES))
            by = [d for d in self.random.choice(GROUPS) if d in ("site", "day") or name not in OF_GROUPS]
            self.check(measure=name, group_by=by, include_unreliable=self.random.random() < 0.5, **self._period())
            self.check_counts()

    def check_counts(self) -> None:
        """So it is of how many connections have each value, in one selection and in two."""
        self.check_values(**self._period())
        both = {name: self._period() for name in ("selection", "baseline")}
        compared, recounted = (
            self.json(
                "/v1/aggregates/comparison",
                {"measure": "rtt_us", "limit": 50, **{n: urlencode({**of, **more}) for n, of in both.items()}},
            )["dimensions"]
            for more in ({}, EVERYTHING)
        )
        for d in recounted:  # values are added in another order
            d |= {name: pytest.approx(d[name], abs=1e-12) for name in ("distance", "chance")}
        assert recounted == compared

    def check_values(self, **period: str) -> None:
        fields = self.random.sample(FIELDS, 3)
        asked = {"field": fields, "limit": self.random.choice((2, 50)), **period}
        found, expected = (self.json("/v1/connections/values", {**asked, **more}) for more in ({}, EVERYTHING))
        assert found == expected

    def json(self, path: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def check_changes(self) -> None:
        """All groups of both periods, whose sums the facts give, too."""

        async def both() -> None:
            own = create_async_engine(settings().sqlalchemy_url, poolclass=NullPool)
            begin, split, end = (FIRST_DAY - 1 + n for n in (0, self.random.randint(1, DAYS), DAYS + 2))
            times = {"from": moment(begin), "to": moment(end)}
            until = datetime.fromisoformat(moment(split))
            async with AsyncSession(own) as session:
                kept = await changes._of_days(session, self.reader, Filters.model_validate(times), until, False)
                assert kept is not None
                pairs = [(n, by) for n in facts.MEASURES for by in spreads.DIMENSIONS if spreads.has(n, by)]
                assert {n for n, by in pairs if by == "site"} == facts.MEASURES.keys()
                for name, by in pairs:
                    wanted = Filters.model_validate({**times, **EVERYTHING})
                    found = await changes._of_facts(session, self.reader, wanted, name, by, until, False)
                    expected = {k: pytest.approx(v, rel=1e-9, abs=1e-9) for k, v in sums_of(found).items()}
                    assert sums_of(kept[name, by]) == expected, (name, by)
            await own.dispose()

        asyncio.run(both())

    @property
    def reader(self) -> Caller:
        nobody = uuid.UUID(int=0)
        return Caller(self.team_id, nobody, nobody, "reader", "viewer", frozenset({"read"}))

    def _period(self) -> dict[str, str]:
        day = self.random.randrange(-1, DAYS + 1)
        hours = [
            day * 24 + self.random.choice((0, 0, 5)),
            (day + self.random.randint(1, 3)) * 24 + self.random.choice((0, 0, 7)),
        ]
        begin, end = (moment(FIRST_DAY + h / 24) for h in hours)
        return self.random.choice(({}, {"from": begin}, {"to": end}, {"from": begin, "to": end}))


def sums_of(groups: changes._Groups) -> dict[Any, Any]:
    """Without samples of nothing."""
    samples = {(value, late): one for value, both in groups.items() for late, one in enumerate(both)}
    return {key: astuple(one) for key, one in samples.items() if one.connections}


def ratios_of(group: dict[str, Any], number: int) -> list[float | None]:
    """Of a member one, None where it is not known; of another connection none."""
    members = zip(group["members"]["connections"], group["members"]["shares"], strict=True)
    return [share and share["ratio"] for member, share in members if member == number]


OF_GROUPS = [name for name, measure in facts.MEASURES.items() if measure.of_captures]


def moment(days: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)).isoformat()


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Sums may have been added in another order."""
    groups = zip([found["total"], *found["groups"]], [expected["total"], *expected["groups"]], strict=True)
    assert found["groups_total"] == expected["groups_total"]
    for one, other in groups:
        mean = None if other["mean"] is None else pytest.approx(other["mean"], rel=1e-12)
        assert one == {**other, "mean": mean}


@pytest.fixture
def world(client: TestClient) -> World:
    return World(client, 1)


@pytest.mark.parametrize("seed", range(2))
def test_histograms_are_those_of_a_recount(client: TestClient, seed: int) -> None:
    """Whatever was done, in whatever order, and however many days are stale."""
    world = World(client, seed)
    for _ in range(6):
        world.analyse()
    done: Counter[str] = Counter()
    for _ in range(30):
        one = world.random.choice(world.captures)
        what = world.random.choice(
            ("analyse", "analyse", "again", "tag", "tag", "delete", "expire", "refresh", "refresh")
        )
        done[what] += 1
        if what == "analyse":
            world.analyse()
        elif what == "again":
            world.analyse(one)
        elif what == "refresh":
            world.refresh()
        elif len(world.captures) > 3:
            {"tag": world.tag, "delete": world.delete, "expire": world.expire}[what](one)
        world.check_some(2)
        if what in ("refresh", "again"):
            world.check_changes()
    assert len(done) == 6, "not everything was drawn"
    world.refresh()
    assert world.stale() == []
    world.check_some(20)
    world.check_changes()
    for capture_id in list(world.captures):
        world.delete(capture_id)
    world.refresh()
    with engine().connect() as database:
        for table in (DayCount, DayHistogram, DaySpread):
            assert database.scalar(select(func.count()).where(table.team_id == world.team_id)) == 0


@pytest.mark.parametrize("days", [0, 1, 3])
def test_values_of_groups_by_a_filter(client: TestClient, days: int) -> None:
    """Those of the members that the filter selects; a period of so many days, or all of the time."""
    world = World(client, 7)
    for _ in range(40):
        world.analyse()
    begin, end = (FIRST_DAY + 1) * DAY_NS, (FIRST_DAY + 1 + days) * DAY_NS
    period = {"from": moment(FIRST_DAY + 1), "to": moment(FIRST_DAY + 1 + days)} if days else {}
    counted = 0
    for kind in ("tcp", "mptcp"):
        own = (kind, begin, end) if days else (kind, 0, 2**63)
        for measure, expected in (("fair_share_ratio", world.ratios(*own)), ("jain", world.indices(*own))):
            valid = [value for value, is_unreliable in expected if value is not None and not is_unreliable]
            total = world.ask(measure=measure, kind=kind, **period)["total"]
            assert total["count"] == len(valid)
            assert total["unreliable"] == sum(value is not None and poor for value, poor in expected)
            assert total["missing"] == sum(value is None for value, _ in expected)
            assert (total["min"], total["max"]) == ((min(valid), max(valid)) if valid else (None, None))
            counted += len(valid)
    assert counted > 5


@pytest.mark.parametrize("name", ["measured", "reliable"])
def test_connections_with_a_share_are_found(client: TestClient, name: str) -> None:
    world = World(client, 8)
    for _ in range(8):
        world.analyse()
    expected = {
        (str(capture_id), row["number"])
        for capture_id in world.captures
        for rows, groups in [world.drawn[capture_id]]
        for row in rows
        for group in groups
        if (name == "measured" or group["verdict"] != "poor")
        and any(ratio is not None for ratio in ratios_of(group, row["number"]))
    }
    total = world.ask(**{"measure": "rtt_us", name: "fair_share_ratio"})["total"]
    assert total["count"] + total["unreliable"] + total["missing"] == len(expected) > 2


def test_answers_come_from_histograms_unless_a_day_is_stale(world: World) -> None:
    """Seen by histograms that are wrong: each of them counts a thousand connections too many."""
    first = world.analyse(days=[FIRST_DAY])
    world.analyse(days=[FIRST_DAY + 1])
    world.refresh()
    with engine().begin() as database:
        wrong = update(DayHistogram).where(DayHistogram.team_id == world.team_id)
        database.execute(wrong.values(missing=DayHistogram.missing + 1000))

    def wrong_days(**params: Any) -> list[bool]:
        found = world.ask(**{"measure": "goodput_bps", "group_by": "day", **params})
        return [g["missing"] >= 1000 for g in found["groups"]]

    assert wrong_days() == [True, True]
    assert wrong_days(measure="rtt_us", **{"from": moment(FIRST_DAY), "to": moment(FIRST_DAY + 1)}) == [True]
    assert wrong_days(**{"from": moment(FIRST_DAY - 0.5), "to": moment(FIRST_DAY + 1.999999)}) == [True, False]
    assert wrong_days(q="drawn") == wrong_days(**EVERYTHING) == [False, False], "of these no histogram knows"
    assert not any(wrong_days(group_by=["day", "verdict"]) + wrong_days(group_by="hour"))

    world.client.patch(f"/v1/captures/{first}", json={"tags": {"site": "elsewhere"}})
    assert world.stale() == [FIRST_DAY]
    assert wrong_days() == [False, True]
    assert [g["key"] for g in world.ask(measure="jain", group_by="site", tag="site=elsewhere")["groups"]] in (
        [], [["elsewhere"]],
    )  # fmt: skip
    world.refresh()
    for changed in ({"notes": "read"}, {"tags": {"site": "elsewhere", "run": "3"}}):
        assert world.client.patch(f"/v1/captures/{first}", json=changed).status_code == 200
    assert world.stale() == [], "no histogram is divided by this"


def test_counts_of_values_are_kept_unless_a_day_is_stale(world: World) -> None:
    """Seen by counts that are wrong: each value of a day has a thousand connections too many."""
    first = world.analyse(days=[FIRST_DAY])
    world.analyse(days=[FIRST_DAY + 1])
    world.analyse(days=range(FIRST_DAY, FIRST_DAY + DAYS + 1))
    world.refresh()
    with engine().begin() as database:
        wrong = text("UPDATE day_counts SET counts = ARRAY(SELECT unnest(counts) + 1000) WHERE team_id = :team_id")
        database.execute(wrong, {"team_id": world.team_id})

    def wrong_days(field: str, **wanted: Any) -> int:
        values = world.json("/v1/connections/values", {"field": field, "limit": 50, **wanted})["fields"][0]["values"]
        return max(v["connections"] // 1000 for v in values)

    whole = {"from": moment(FIRST_DAY), "to": moment(FIRST_DAY + 2)}
    for field in ("kind", "verdict", "dport", "peer_prefix"):
        assert wrong_days(field) >= 2
        assert wrong_days(field, **whole) == 2
        assert wrong_days(field, **{"from": moment(FIRST_DAY + 0.25)}) >= 1
        for of_facts in (EVERYTHING, {"q": "drawn"}, {"from": moment(FIRST_DAY), "to": moment(FIRST_DAY + 0.999)}):
            assert wrong_days(field, **of_facts) == 0, (field, of_facts)
    assert wrong_days("hour", **whole) == 0, "of these no counts are kept"
    world.client.delete(f"/v1/captures/{first}")
    assert wrong_days("dport", **whole) == 1


def test_percentiles_are_off_by_at_most_one_percent(world: World) -> None:
    for _ in range(8):
        world.analyse()
    world.refresh()
    with engine().connect() as database:
        for name, measure in facts.MEASURES.items():
            rows = measure.rows(world.team_id, [], periods=facts.ALWAYS)
            values = sorted(r.value for r in database.execute(rows) if r.value is not None)
            for percentile, shown in world.ask(measure=name, include_unreliable=True)["total"]["percentiles"].items():
                exact = values[max(1, math.ceil(len(values) * int(percentile[1:]) / 100)) - 1]
                assert shown == pytest.approx(exact, rel=0.01, abs=histograms.LEAST)


def test_times_before_1970_and_captures_of_many_days(world: World) -> None:
    """Bounds cut days before 1970; connections of too many days have no part in histograms."""
    many = [*range(-3, 4), *range(FIRST_DAY + 3, FIRST_DAY + 9)]
    scattered = world.analyse(days=many)
    for days in ([-2], [-1], [0], [0, 1], [FIRST_DAY]):
        world.analyse(days=days)
    while days_of(scattered) is not None:
        world.analyse(scattered, days=many)
    for refreshed in (False, True):
        if refreshed:
            world.refresh()
        for begin in (None, -1.5, -1, 0, 0.5, 1, FIRST_DAY):
            for end in (None, -0.5, 0, 1, FIRST_DAY + 2.5):
                bounds = {n: moment(d) for n, d in (("from", begin), ("to", end)) if d is not None}
                name, by = ("rtt_us", "day") if world.random.random() < 0.7 else ("jain", "site")
                world.check(measure=name, group_by=by, **bounds)
                world.check_values(**bounds)


def days_of(capture_id: uuid.UUID) -> list[int] | None:
    with engine().connect() as database:
        query = select(Attempt.days).join(Capture, Capture.attempt_id == Attempt.id).where(Capture.id == capture_id)
        return database.execute(query).scalar_one()


def test_a_change_between_two_statements_of_a_request_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The days that are stale are asked for first: one that becomes so meanwhile is read anew, too."""
    capture_id = world.analyse(days=[FIRST_DAY])
    world.client.patch(f"/v1/captures/{capture_id}", json={"tags": {"site": "a"}})
    world.refresh()
    real, calls = maintained.Split.of, []

    def of(whole: facts.Period, stale: Sequence[int]) -> maintained.Split:
        calls.append(list(stale))
        if len(calls) == 1:
            with engine().begin() as database:
                database.execute(update(Capture).where(Capture.id == capture_id).values(tags={"site": "b"}))
        return real(whole, stale)

    monkeypatch.setattr(maintained.Split, "of", of)
    found = world.ask(measure="rtt_us", group_by="site")
    assert [g["key"] for g in found["groups"]] == [["b"]]
    assert calls == [[], [FIRST_DAY]]


def test_a_change_while_a_day_is_counted_leaves_it_stale(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    capture_id = world.analyse(days=[FIRST_DAY])
    real, calls = histograms._count, []

    def count(*of: Any) -> None:
        calls.append(of)
        if len(calls) == 2:
            with engine().begin() as database:
                database.execute(update(Capture).where(Capture.id == capture_id).values(tags={"site": "other"}))
        real(*of)

    monkeypatch.setattr(histograms, "_count", count)
    world.refresh()
    assert world.stale() == [FIRST_DAY]
    world.check(measure="rtt_us", group_by=["sender_algorithm", "site"])
    world.refresh()
    assert world.stale() == []
    world.check(measure="rtt_us", group_by=["sender_algorithm", "site"])


def test_at_every_moment_of_concurrent_changes_the_answer_is_that_of_a_recount(client: TestClient) -> None:
    """Two write, one counts days again, and a reader asks histograms and facts of one snapshot."""
    worlds = [World(client, seed) for seed in (10, 11)]
    for world in worlds:
        for day in range(FIRST_DAY - 4, FIRST_DAY + 4):
            world.analyse(days=[day])
    worlds[0].refresh()
    ended = threading.Event()

    def write(world: World) -> None:
        for _ in range(25):
            one = world.random.choice(world.captures)
            world.random.choice((world.analyse, world.tag, world.analyse, lambda _: world.analyse()))(one)

    def count() -> None:
        while not ended.is_set():
            worlds[0].refresh()

    async def read() -> int:
        reader = worlds[0].reader
        own = create_async_engine(settings().sqlalchemy_url, poolclass=NullPool, isolation_level="REPEATABLE READ")
        draw, mixed = random.Random(0), 0
        while not ended.is_set():
            name, by = draw.choice(
                (("rtt_us", ["sender_algorithm", "site"]), ("jain", ["site"]), ("goodput_bps", ["day"]))
            )

            async def ask(
                session: AsyncSession, wanted: Filters, name: str = name, by: list[str] = by
            ) -> AggregatesOut:
                return await service.find(
                    session, reader, wanted, name, by, include_unreliable=True, histogram=True, limit=100
                )

            async with AsyncSession(own) as session, session.begin():
                found, expected = await ask(session, Filters()), await ask(session, Filters.model_validate(EVERYTHING))
                kept = await session.scalar(
                    select(func.count()).where(
                        DayHistogram.team_id == reader.team_id,
                        DayHistogram.day.not_in(select(StaleDay.day).where(StaleDay.team_id == reader.team_id)),
                    )
                )
            mixed += bool(kept)
            same(found.model_dump(), expected.model_dump())
        await own.dispose()
        return mixed

    with ThreadPoolExecutor(4) as pool:
        counter, reader = pool.submit(count), pool.submit(lambda: asyncio.run(read()))
        writers = [pool.submit(write, world) for world in worlds]
        try:
            for writer in writers:
                writer.result()
        finally:
            ended.set()
        assert reader.result() > 0, "no answer came from histograms"
        counter.result()
    worlds[0].refresh()
    worlds[0].check_some(10)


def test_a_refresher_counts_what_is_longest_stale_and_then_rests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine().begin() as database:
        database.execute(delete(StaleDay))  # of the tests before
    for day in (FIRST_DAY + 1, FIRST_DAY):
        world.analyse(days=[day])
    counted: list[int] = []
    real = histograms.refresh

    def refresh(team_id: uuid.UUID, day: int) -> None:
        counted.append(day)
        real(team_id, day)

    monkeypatch.setattr(histograms, "refresh", refresh)
    monkeypatch.setattr(histograms.Refresher, "REST", 1e9)
    refresher = histograms.Refresher()
    assert refresher(0.0) == 0
    assert refresher(60.0) == 2
    assert counted == [FIRST_DAY + 1, FIRST_DAY]
    world.analyse(days=[FIRST_DAY])
    assert refresher(60.0) == 0, "it rests"
    assert world.stale() == [FIRST_DAY]
    assert histograms.Refresher()(60.0) == 1


def test_captures_from_before_are_counted_after_the_migration(services: Services) -> None:
    """Upgraded, their days are stale; a downgrade leaves the facts."""
    url = new_database(services)
    alembic(services, url, "upgrade 0027")
    database = create_engine(url)
    with database.begin() as connection:
        connection.execute(text("INSERT INTO teams (id, name) VALUES (gen_random_uuid(), 'a')"))
        for name, days in (("one", "1"), ("two", "2, 1, 2"), ("none", ""), ("many", ", ".join(map(str, range(1, 70))))):
            connection.execute(
                text(
                    "WITH a AS (INSERT INTO attempts (capture_id, job_id, fence, labels)"
                    " VALUES (gen_random_uuid(), gen_random_uuid(), 1, '{}') RETURNING id, capture_id),"
                    " c AS (INSERT INTO captures (id, team_id, sha256, bytes, filename, object_key, state, attempt_id)"
                    f" SELECT capture_id, teams.id, sha256('{name}'), 1, '{name}', '', 'done', a.id FROM a, teams)"
                    " INSERT INTO connection_facts (attempt_id, first_ns, bytes, duration_s, number, subflow_count,"
                    " quality_id, sport, dport, team_id, kind, sender_algorithm, src, dst)"
                    " SELECT a.id, day * 86400000000000 + 5, 1, 1, place, 1, 1, 1, 2, teams.id, 'tcp', 'cubic',"
                    f" '10.0.0.1', '10.0.0.2' FROM a, teams, unnest(ARRAY[{days}]::bigint[])"
                    " WITH ORDINALITY d (day, place)"
                )
            )
        connection.execute(
            text(
                "INSERT INTO fairness_groups (attempt_id, bottleneck, method, members, jain, declared)"
                " SELECT attempt_id, bottleneck, 'sbd', members::jsonb, 1, false FROM captures, (VALUES"
                " ('sbd-0', '{\"connections\": [1, 3]}'),"
                ' (\'sbd-1\', \'{"connections": [2, 3], "shares": [null, {"ratio": 0.5}]}\')) v (bottleneck, members)'
                " WHERE filename = 'two'"
            )
        )
        connection.execute(
            text(
                "INSERT INTO replays (id, capture_id, connection_id, connection_number, label, algorithm, state,"
                " windows)"
                " SELECT gen_random_uuid(), captures.id, gen_random_uuid(), n, 'lia', 'lia', 'done', windows"
                " FROM captures,"
                " (VALUES (1, '[{\"mean\": 2.5}, {\"mean\": 4}]'::jsonb), (2, '[]')) AS v (n, windows)"
                " WHERE filename = 'two'"
            )
        )
    alembic(services, url, "upgrade head")
    with database.begin() as connection:
        means = text("SELECT mean_window FROM replays ORDER BY connection_number")
        assert list(connection.scalars(means)) == [6.5, None]
        began = dict(connection.execute(text("SELECT bottleneck, first_ns FROM fairness_groups")).all())
        assert began == {"sbd-0": 2 * DAY_NS + 5, "sbd-1": DAY_NS + 5}
        ids = dict(connection.execute(text("SELECT bottleneck, id FROM fairness_groups")).all())
        of_members = text(
            "SELECT number, group_ids, array_replace(fair_share_ratios, 'NaN', -1) AS ratios FROM connection_facts"
            " WHERE group_ids IS NOT NULL"
        )
        found = {r.number: dict(zip(r.group_ids, r.ratios, strict=True)) for r in connection.execute(of_members)}
        assert found == {1: {ids["sbd-0"]: -1}, 2: {ids["sbd-1"]: -1}, 3: {ids["sbd-0"]: -1, ids["sbd-1"]: 0.5}}
        rows = connection.execute(text("SELECT filename, days FROM captures JOIN attempts ON attempts.id = attempt_id"))
        assert {r.filename: r.days for r in rows} == {"one": [1], "two": [1, 2], "none": [], "many": None}
        stale = select(StaleDay.day).order_by(StaleDay.day)
        assert list(connection.scalars(stale)) == [1, 2]
        connection.execute(delete(StaleDay))
        connection.execute(text("DELETE FROM captures WHERE filename = 'two'"))
        assert list(connection.scalars(stale)) == [1, 2]
    alembic(services, url, "downgrade 0027")
    with database.begin() as connection:
        connection.execute(text("DELETE FROM captures WHERE filename = 'one'"))
        assert connection.scalar(text("SELECT count(*) FROM connection_facts")) == 73
    database.dispose()
