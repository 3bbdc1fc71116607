"""Sweeps: what-ifs of algorithms x settings x connections, asked for at once, with one progress and one answer."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    and_,
    case,
    cast,
    column,
    delete,
    func,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from api import limits, selections
from api.aggregates.changes import quantile
from api.connections import replays
from api.connections.schemas import ReplayIn
from api.connections.service import Chosen
from api.errors import Conflict, NotFound, Unprocessable
from api.events import Progress
from api.pages import Keyset, Page
from api.security import Caller
from api.selections import RefusedOut
from api.sweeps.schemas import (
    AnswerOut,
    ChangeOfMeanOut,
    MeasureOut,
    SweepDetail,
    SweepIn,
    SweepOut,
    SweptOut,
    TotalOut,
)
from api.whatifs import service as whatifs
from api.whatifs import settings
from store.models import (
    Capture,
    Connection,
    ConnectionFact,
    Fit,
    Job,
    JobKind,
    QualityRecord,
    State,
    Sweep,
    SweepWhatIf,
    WhatIf,
)

WHATIFS_MAX = 2000
"""Of one request."""
_ROWS = 1000
"""Inserted by one statement: PostgreSQL takes 65535 parameters."""
_NEWEST_FIRST = Keyset((Sweep.created_at, Sweep.id), descending=True)
_BY_ID = Keyset((SweepWhatIf.whatif_id,))
_SURE = 0.9
_DIFFERENCES = "retransmitted_packets"
"""The measure whose change is a difference; others have ratios."""


@dataclass(frozen=True)
class _Selected:
    id: uuid.UUID
    capture_id: uuid.UUID
    number: int
    subflow_count: int
    has_copy: bool
    """Is the capture still stored?"""


@dataclass(frozen=True)
class _Question:
    """What is asked of one connection; equal ones are one what-if."""

    connection: _Selected
    chosen: Chosen
    settings: tuple[tuple[str, str], ...]

    @property
    def key(self) -> tuple[uuid.UUID, str, str]:
        return self.connection.id, self.chosen.label, json.dumps(dict(self.settings), sort_keys=True)


async def request(session: AsyncSession, caller: Caller, wanted: SweepIn) -> tuple[SweepOut, int]:
    """The sweep, and how many workers to wake. Raises BadRequest, NotFound, Unprocessable, TooMany."""
    await limits.hold_team(session, caller.team_id)
    algorithms = await _algorithms(session, wanted)
    networks = _networks(wanted)
    found, selected = await _select(session, caller, wanted, len(algorithms) * len(networks))
    refused: Counter[str] = Counter()
    missing = len(set(wanted.selection.connection_ids)) - selected if wanted.selection.connection_ids else 0
    if missing:
        refused["there is no such connection, or the filters leave it out"] = missing
    questions = await _questions(session, found, algorithms, networks, wanted, refused)
    asked, jobs = await _ask(session, caller, questions, wanted)
    given = {
        "algorithms": [{"algorithm": a.algorithm, "options": a.options, "label": a.label} for a in algorithms],
        "settings": networks,
        "everyone": wanted.everyone,
        "repeat": wanted.repeat,
        "selection": wanted.selection.model_dump(mode="json", by_alias=True, exclude_unset=True),
        **({} if wanted.sample is None else {"sample": wanted.sample}),
    }
    counts = {
        "refused": [{"reason": reason, "connections": n} for reason, n in refused.most_common()],
        "connections": selected + missing,
        "captures": len({c.capture_id for c in found}),
    }
    sweep_id = await _store(session, caller, given, counts, asked)
    return await get(session, caller, sweep_id), jobs


async def _algorithms(session: AsyncSession, wanted: SweepIn) -> list[Chosen]:
    """Each once. Raises Unprocessable."""
    found: dict[str, Chosen] = {}
    for one in wanted.algorithms:
        given = ReplayIn(algorithm=one, options=wanted.options) if isinstance(one, str) else one
        chosen = await replays.chosen(session, given)
        whatifs.refuse_other_modes(chosen)
        found[chosen.label] = chosen
    return list(found.values())


def _networks(wanted: SweepIn) -> list[dict[str, str]]:
    """Each once. Raises Unprocessable for what no connection could have."""
    found = [settings.checked(one, settings.SUBFLOWS_MAX) for one in wanted.settings]
    return list({json.dumps(one, sort_keys=True): one for one in found}.values())


async def _select(session: AsyncSession, caller: Caller, wanted: SweepIn, each: int) -> tuple[list[_Selected], int]:
    """The connections to ask about, and how many are selected. each: what-ifs of one connection. Raises BadRequest,
    Unprocessable."""
    selection, most = wanted.selection, WHATIFS_MAX // each
    selection.refuse_empty("connection_ids")
    if wanted.sample is not None and wanted.sample > most:
        raise Unprocessable(
            f"a sweep has at most {WHATIFS_MAX} what-ifs: with {each} for each connection, sample at most {most}"
        )
    query = selections.own_connections(
        caller,
        Connection.id,
        Capture.id.label("capture_id"),
        ConnectionFact.number,
        ConnectionFact.subflow_count,
        Capture.raw_deleted_at.is_(None).label("has_copy"),
    ).where(*selections.of_connections(selection))
    # Ids are hashes of the connections' places, so that those with the least ids are a random sample: the same one
    # whenever it is asked for.
    rows = (await session.execute(query.order_by(Connection.id).limit((wanted.sample or most) + 1))).all()
    if wanted.sample is None and len(rows) > most:
        raise Unprocessable(
            f"a sweep has at most {WHATIFS_MAX} what-ifs, and this selects more than {most} connections"
            f" with {each} each: ask about a random sample of them (sample={most}), or select fewer"
        )
    if not rows and not selection.connection_ids:
        raise Unprocessable("no connection has all of these filters, so there is nothing to ask")
    selected = len(rows)
    if wanted.sample is not None and selected > wanted.sample:
        counted = query.with_only_columns(func.count(), maintain_column_froms=True)
        selected = (await session.execute(counted)).scalar_one()
    return [_Selected(*row) for row in rows[: wanted.sample]], selected


async def _questions(
    session: AsyncSession,
    found: Sequence[_Selected],
    algorithms: Sequence[Chosen],
    networks: Sequence[dict[str, str]],
    wanted: SweepIn,
    refused: Counter[str],
) -> list[_Question]:
    """What can be asked; `refused` counts the connections of which it cannot."""
    ids = [c.id for c in found]
    counted = select(WhatIf.connection_id, func.count()).where(WhatIf.connection_id.in_(ids))
    stored = {row[0]: row[1] for row in await session.execute(counted.group_by(WhatIf.connection_id))}
    same = await _existing(session, ids, wanted)
    questions = []
    for c in found:
        try:
            own = [
                _Question(c, chosen, tuple(settings.checked(network, c.subflow_count).items()))
                for network in networks
                for chosen in algorithms
            ]
        except Unprocessable:
            refused["the settings name a subflow that it does not have"] += 1
            continue
        if not c.has_copy and any(q.key not in same or same[q.key].state is State.failed for q in own):
            refused["retention has deleted the stored copies of their captures"] += 1
            continue
        new = sum(q.key not in same for q in own)
        if new and stored.get(c.id, 0) + new > whatifs.WHATIFS_MAX:
            refused[f"a connection has at most {whatifs.WHATIFS_MAX} what-ifs: delete some"] += 1
            continue
        questions += own
    return questions


async def _existing(
    session: AsyncSession, connections: Sequence[uuid.UUID], wanted: SweepIn
) -> dict[tuple[uuid.UUID, str, str], Any]:
    """What-ifs with the same runs and neighbours, by what they ask."""
    rows = await session.execute(
        select(WhatIf.id, WhatIf.connection_id, WhatIf.label, WhatIf.settings, WhatIf.state, WhatIf.capture_id).where(
            WhatIf.connection_id.in_(connections),
            WhatIf.everyone == wanted.everyone,
            WhatIf.repeat == wanted.repeat,
        )
    )
    return {(r.connection_id, r.label, json.dumps(r.settings, sort_keys=True)): r for r in rows}


async def _ask(
    session: AsyncSession, caller: Caller, questions: Sequence[_Question], wanted: SweepIn
) -> tuple[list[uuid.UUID], int]:
    """Ids of the what-ifs, and how many jobs they got: new ones, and those that failed. Raises NotFound, TooMany."""
    same = await _existing(session, [q.connection.id for q in questions], wanted)
    asked: list[uuid.UUID] = []
    new: list[dict[str, Any]] = []
    begun: list[tuple[uuid.UUID, uuid.UUID]] = []
    again: list[uuid.UUID] = []
    for q in questions:
        there = same.get(q.key)
        whatif_id = there.id if there else uuid.uuid4()
        asked.append(whatif_id)
        if there is None:
            new.append(
                {
                    "id": whatif_id, "capture_id": q.connection.capture_id, "connection_id": q.connection.id,
                    "connection_number": q.connection.number, "label": q.chosen.label,
                    "algorithm": q.chosen.algorithm, "options": q.chosen.options, "everyone": wanted.everyone,
                    "repeat": wanted.repeat, "settings": dict(q.settings),
                }
            )  # fmt: skip
        elif there.state is State.failed:
            again.append(whatif_id)
        if there is None or there.state is State.failed:
            begun.append((whatif_id, q.connection.capture_id))
    await limits.admit_jobs(session, caller.team_id, len(begun))
    await session.execute(delete(Job).where(Job.whatif_id.in_(again)))
    values = {"state": State.queued, "error": None, "finished_at": None}
    await session.execute(update(WhatIf).where(WhatIf.id.in_(again)).values(values))
    try:
        for rows in _portions(new):
            await session.execute(insert(WhatIf).values(rows))
        for rows in _portions(
            [
                {
                    "id": uuid.uuid4(), "kind": JobKind.whatif, "team_id": caller.team_id, "capture_id": capture_id,
                    "whatif_id": whatif_id, "sent_at": func.clock_timestamp(),
                }
                for whatif_id, capture_id in begun
            ]
        ):  # fmt: skip
            await session.execute(insert(Job).values(rows))
    except IntegrityError as e:  # a capture has been deleted since it was read
        raise Conflict("a capture of the selection is being deleted: ask again") from e
    return asked, len(begun)


def _portions(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [rows[i : i + _ROWS] for i in range(0, len(rows), _ROWS)]


async def _store(
    session: AsyncSession, caller: Caller, given: dict[str, Any], counts: dict[str, Any], asked: Sequence[uuid.UUID]
) -> uuid.UUID:
    digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
    stored = (
        insert(Sweep)
        .values(id=uuid.uuid4(), team_id=caller.team_id, digest=digest, request=given, **counts)
        .on_conflict_do_update(index_elements=[Sweep.team_id, Sweep.digest], set_=counts)
        .returning(Sweep.id)
    )
    sweep_id: uuid.UUID = (await session.execute(stored)).scalar_one()
    if "sample" in given:  # what new connections have displaced is in the sample no more
        displaced = and_(SweepWhatIf.sweep_id == sweep_id, SweepWhatIf.whatif_id.not_in(asked))
        await session.execute(delete(SweepWhatIf).where(displaced))
    for rows in _portions([{"sweep_id": sweep_id, "whatif_id": w} for w in asked]):
        await session.execute(insert(SweepWhatIf).values(rows).on_conflict_do_nothing())
    return sweep_id


def _counted() -> Select[Any]:
    """Sweeps with the counts of their what-ifs by state."""
    own = (
        select(
            func.count().label("whatifs"),
            *(func.count().filter(WhatIf.state == state).label(f"{state}_count") for state in State),
            func.avg(case((WhatIf.state == State.failed, 1.0), else_=whatifs.PROGRESS)).label("progress"),
        )
        .select_from(SweepWhatIf)
        .join(WhatIf, WhatIf.id == SweepWhatIf.whatif_id)
        .outerjoin(Fit, Fit.connection_id == WhatIf.connection_id)
        .where(SweepWhatIf.sweep_id == Sweep.id)
        .lateral("own")
    )
    entities: tuple[Any, ...] = (Sweep, *own.c)
    return select(*entities).join(own, true())


def _out(row: Any) -> SweepOut:
    sweep: Sweep = row.Sweep
    given = sweep.request
    return SweepOut(
        id=sweep.id,
        created_at=sweep.created_at,
        algorithms=[a["label"] for a in given["algorithms"]],
        settings=given["settings"],
        everyone=given["everyone"],
        repeat=given["repeat"],
        selection=given["selection"],
        sample=given.get("sample"),
        connections=sweep.connections,
        captures=sweep.captures,
        refused=[RefusedOut(**r) for r in sweep.refused],
        whatifs=row.whatifs,
        waiting=row.queued_count,
        running=row.running_count,
        done=row.done_count,
        failed=row.failed_count,
        state="running" if row.queued_count + row.running_count else "done",
        progress=1.0 if row.progress is None else min(float(row.progress), 1.0),
    )


async def get(session: AsyncSession, caller: Caller, sweep_id: uuid.UUID) -> SweepOut:
    """Raises NotFound."""
    query = _counted().where(Sweep.id == sweep_id, Sweep.team_id == caller.team_id)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("no such sweep")
    return _out(row)


async def find(session: AsyncSession, caller: Caller, cursor: str | None, limit: int) -> Page[SweepOut]:
    """Newest first. Raises BadRequest."""
    return await _NEWEST_FIRST.page(session, _counted().where(Sweep.team_id == caller.team_id), cursor, limit, _out)


def _told(sweep: SweepOut) -> Progress:
    shown = {"state", "progress", "whatifs", "waiting", "running", "done", "failed"}
    return Progress(sweep.model_dump(mode="json", include=shown), sweep.state == "done")


async def progress(session: AsyncSession, sweeps: Collection[uuid.UUID]) -> dict[uuid.UUID, Progress]:
    """Of sweeps of any team: the caller has checked whose they are."""
    rows = await session.execute(_counted().where(Sweep.id.in_(sweeps)))
    return {row.Sweep.id: _told(_out(row)) for row in rows}


async def progress_of_own(session: AsyncSession, caller: Caller, sweep_id: uuid.UUID) -> Progress:
    """Raises NotFound."""
    return _told(await get(session, caller, sweep_id))


async def remove(session: AsyncSession, caller: Caller, sweep_id: uuid.UUID) -> None:
    """Deletes a sweep, and those of its what-ifs that are not done and that no other sweep has. Raises NotFound."""
    await limits.hold_team(session, caller.team_id)
    await get(session, caller, sweep_id)
    of_others = select(SweepWhatIf.whatif_id).where(SweepWhatIf.sweep_id != sweep_id)
    own = (
        select(WhatIf.id)
        .join(SweepWhatIf, SweepWhatIf.whatif_id == WhatIf.id)
        .where(SweepWhatIf.sweep_id == sweep_id, WhatIf.state != State.done, WhatIf.id.not_in(of_others))
    )
    await whatifs.remove_all(session, (await session.scalars(own)).all())
    await session.execute(delete(Sweep).where(Sweep.id == sweep_id))


async def members(
    session: AsyncSession, caller: Caller, sweep_id: uuid.UUID, label: str | None, cursor: str | None, limit: int
) -> Page[SweptOut]:
    """Raises NotFound, BadRequest."""
    await get(session, caller, sweep_id)
    result = WhatIf.result
    columns: tuple[Any, ...] = (
        WhatIf.id, WhatIf.connection_id, WhatIf.connection_number, WhatIf.capture_id, Capture.filename, WhatIf.label,
        ConnectionFact.src, ConnectionFact.sport, ConnectionFact.dst, ConnectionFact.dport,
        QualityRecord.verdict.label("connection_verdict"),
        WhatIf.settings, WhatIf.state, WhatIf.error, result["verdict"].astext.label("verdict"),
        result["reason"].astext.label("reason"),
        result["recorded"]["goodput_bps"].astext.cast(Float).label("recorded_bps"),
        result["predicted"]["goodput_bps"].label("predicted_bps"), result["better"].astext.cast(Float).label("better"),
    )  # fmt: skip
    query = (
        select(*columns)
        .join(SweepWhatIf, SweepWhatIf.whatif_id == WhatIf.id)
        .join(Capture, Capture.id == WhatIf.capture_id)
        .join(
            ConnectionFact,
            and_(ConnectionFact.attempt_id == Capture.attempt_id, ConnectionFact.number == WhatIf.connection_number),
        )
        .join(QualityRecord, QualityRecord.id == ConnectionFact.quality_id)
        .where(SweepWhatIf.sweep_id == sweep_id)
    )
    if label is not None:
        query = query.where(WhatIf.label == label)

    def out(row: Any) -> SweptOut:
        names = SweptOut.model_fields.keys() - {"whatif_id"}
        return SweptOut(whatif_id=row.id, **{name: getattr(row, name) for name in names})

    return await _BY_ID.page(session, query, cursor, limit, out)


def has_capture(sweep_id: uuid.UUID) -> ColumnElement[bool]:
    """Of a capture: has it a what-if of the sweep?"""
    own = select(WhatIf.capture_id).join(SweepWhatIf, SweepWhatIf.whatif_id == WhatIf.id)
    return Capture.id.in_(own.where(SweepWhatIf.sweep_id == sweep_id))


async def detail(session: AsyncSession, caller: Caller, sweep_id: uuid.UUID) -> SweepDetail:
    """Raises NotFound. The session has asked nothing yet."""
    # One snapshot: what-ifs that finish meanwhile are in all counts and sums, or in none.
    await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    sweep = await get(session, caller, sweep_id)
    return SweepDetail(**sweep.model_dump(), answers=await _answers(session, sweep_id))


def _of(sweep_id: uuid.UUID, *columns: Any) -> Select[Any]:
    own: tuple[Any, ...] = (WhatIf.label, WhatIf.settings, *columns)
    return select(*own).join(SweepWhatIf, SweepWhatIf.whatif_id == WhatIf.id).where(SweepWhatIf.sweep_id == sweep_id)


_BETTER = WhatIf.result["better"].astext.cast(Float)
_VERDICT = WhatIf.result["verdict"].astext
_IS_SAID = and_(WhatIf.state == State.done, _VERDICT == "ok")


async def _answers(session: AsyncSession, sweep_id: uuid.UUID) -> list[AnswerOut]:
    counts = _of(
        sweep_id,
        func.count().label("asked"),
        func.count().filter(_IS_SAID).label("predicted"),
        func.count().filter(WhatIf.state == State.failed).label("failed"),
        func.count().filter(_IS_SAID, _BETTER >= _SURE).label("more"),
        func.count().filter(_IS_SAID, _BETTER <= 1 - _SURE).label("less"),
    ).group_by(WhatIf.label, WhatIf.settings)
    measures = await _measures(session, sweep_id)
    reasons = await _reasons(session, sweep_id)
    return [
        AnswerOut(
            label=row.label, settings=row.settings, asked=row.asked, predicted=row.predicted, failed=row.failed,
            more=row.more, less=row.less, cannot_say=reasons.get(_key(row), []), measures=measures.get(_key(row), {}),
        )
        for row in await session.execute(counts.order_by(WhatIf.label, WhatIf.settings))
    ]  # fmt: skip


def _key(row: Any) -> tuple[str, str]:
    return row.label, json.dumps(row.settings, sort_keys=True)


async def _reasons(session: AsyncSession, sweep_id: uuid.UUID) -> dict[tuple[str, str], list[RefusedOut]]:
    """Reasons that differ in their numbers only are one."""
    reason = WhatIf.result["reason"].astext
    alike = func.regexp_replace(reason, r"\d+(\.\d+)?", "0", "g")
    query = _of(sweep_id, func.min(reason).label("reason"), func.count().label("connections"))
    query = query.where(WhatIf.state == State.done, _VERDICT == "cannot_say")
    found = defaultdict(list)
    for row in await session.execute(
        query.group_by(WhatIf.label, WhatIf.settings, alike).order_by(func.count().desc(), func.min(reason))
    ):
        found[_key(row)].append(RefusedOut(reason=row.reason, connections=row.connections))
    return found


async def _measures(session: AsyncSession, sweep_id: uuid.UUID) -> dict[tuple[str, str], dict[str, MeasureOut]]:
    """Sums, medians and the mean of the paired differences, with the captures as clusters: the variance of a ratio
    estimator (Cochran, Sampling Techniques, 3rd ed., section 6.4), from sums over the captures.
    """
    each = func.jsonb_each(WhatIf.result["predicted"]).table_valued(column("key"), column("value", JSONB))
    each = each.render_derived("metric")
    name = each.c.key
    changed = WhatIf.result["change"][name]["median"].astext.cast(Float)
    rows = (
        _of(
            sweep_id,
            WhatIf.capture_id,
            name.label("name"),
            WhatIf.result["recorded"][name].astext.cast(Float).label("recorded"),
            WhatIf.result["calibration"][name]["simulated"]["median"].astext.cast(Float).label("simulated"),
            each.c.value["median"].astext.cast(Float).label("predicted"),
            case((name == _DIFFERENCES, changed), else_=func.ln(func.greatest(1 + changed, 1e-9))).label("change"),
        )
        .join(each, true())
        .where(_IS_SAID, WhatIf.result["recorded"][name].astext.is_not(None))
        .subquery("rows")
    )
    c = rows.c
    groups: tuple[ColumnElement[Any], ...] = (c.label, c.settings, c.name)
    totals = (
        select(
            *groups,
            func.sum(c.recorded).label("recorded"),
            func.sum(c.simulated).label("simulated"),
            func.sum(c.predicted).label("predicted"),
            func.percentile_cont(0.5).within_group(c.recorded).label("recorded_median"),
            func.percentile_cont(0.5).within_group(c.simulated).label("simulated_median"),
            func.percentile_cont(0.5).within_group(c.predicted).label("predicted_median"),
            func.bool_and(c.simulated.is_not(None)).label("is_simulated"),
        )
        .group_by(*groups)
        .subquery("totals")
    )
    clusters = (
        select(*groups, cast(func.count(), Float).label("n"), func.sum(c.change).label("total"))
        .group_by(*groups, c.capture_id)
        .subquery("clusters")
    )
    k = clusters.c
    per_measure = select(
        k.label, k.settings, k.name,
        func.count().label("captures"), func.sum(k.n).label("n"), func.sum(k.total).label("total"),
        func.sum(k.total * k.total).label("squares"), func.sum(k.total * k.n).label("products"),
        func.sum(k.n * k.n).label("sizes"),
    ).group_by(k.label, k.settings, k.name)  # fmt: skip
    sums = per_measure.subquery("sums")
    s, of_all = sums.c, totals.c
    is_same = and_(s.label == of_all.label, s.settings == of_all.settings, s.name == of_all.name)
    query = select(totals, s.captures, s.n, s.total, s.squares, s.products, s.sizes).join(sums, is_same)
    found: dict[tuple[str, str], dict[str, MeasureOut]] = defaultdict(dict)
    for row in await session.execute(query.order_by(of_all.label, of_all.settings, of_all.name)):
        found[_key(row)][row.name] = MeasureOut(
            connections=int(row.n),
            captures=row.captures,
            recorded=TotalOut(sum=row.recorded, median=row.recorded_median),
            simulated=TotalOut(sum=row.simulated, median=row.simulated_median) if row.is_simulated else None,
            predicted=TotalOut(sum=row.predicted, median=row.predicted_median),
            change=_change(row, is_ratio=row.name != _DIFFERENCES),
        )
    return found


def _change(of: Any, *, is_ratio: bool) -> ChangeOfMeanOut:
    def shown(value: float) -> float:
        return math.expm1(value) if is_ratio else value

    mean = of.total / of.n
    if of.captures < 2:
        return ChangeOfMeanOut(mean=shown(mean), low=None, high=None)
    squares = max(of.squares - 2 * mean * of.products + mean**2 * of.sizes, 0.0)
    reach = quantile(of.captures - 1) * math.sqrt(squares * of.captures / (of.captures - 1)) / of.n
    return ChangeOfMeanOut(mean=shown(mean), low=shown(mean - reach), high=shown(mean + reach))
