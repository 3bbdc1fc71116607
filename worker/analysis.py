"""Analyses a capture and stores everything that the dashboard shows of it.

The rows are written under an attempt in many transactions; one more transaction publishes them (store/attempts.py).
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import insert, select
from sqlalchemy.dialects.postgresql import insert as insert_new

import rewindow
from rewindow.core import Choice
from rewindow.findings.tables import Column, ConnectionTable
from rewindow.replays.capture import candidates_beside
from rewindow.replays.replay import Summary
from store import attempts, models, objects
from store.database import engine
from store.jobs import Claim
from store.settings import settings
from worker import results
from worker.copying import AttemptWriter
from worker.series import spool

Report = Callable[[str, float], None]

NAMESPACE = uuid.UUID("6f7a3b52-3d0c-4f43-9d46-6ad4d1f3c1a5")
"""Ids are derived from capture and number, so that a second run makes the same rows."""


class Membership(NamedTuple):
    """Of a connection in a fairness group."""

    group_id: int
    fair_share_ratio: float
    """NaN: not known."""


def _columns(table: type[models.Base], without: set[str]) -> tuple[str, ...]:
    return tuple(c.name for c in table.__table__.columns if c.name not in without)


# The other columns have the names of fields of the library's Connection and Subflow.
_CONNECTION_OWN = {
    "attempt_id", "id", "number", "rows", "subflow_count", "quality_id", "steps", "violations", "first_violation",
}  # fmt: skip
_CONNECTION_COLUMNS = _columns(models.Connection, _CONNECTION_OWN)
_SUBFLOW_OWN = {
    "attempt_id", "connection_number", "number", "quality_id", "windows", "sender_algorithm", "sender_match",
    "sender_candidates",
}  # fmt: skip
_SUBFLOW_COLUMNS = _columns(models.Subflow, _SUBFLOW_OWN)

_SHARED_WITH_FACTS = (
    "attempt_id", "number", "first_ns", "bytes", "goodput_bps", "completion_s", "subflow_count", "quality_id", "kind",
)  # fmt: skip


def connection_ids(capture_id: uuid.UUID, first: int, count: int) -> npt.NDArray[np.uint8]:
    """uuid5(NAMESPACE, capture_id/number) of connections that follow one another: 16 bytes each."""
    start = hashlib.sha1(NAMESPACE.bytes + f"{capture_id}/".encode(), usedforsecurity=False)
    digests = bytearray()
    for number in range(first, first + count):
        digest = start.copy()
        digest.update(b"%d" % number)
        digests += digest.digest()[:16]
    ids = np.frombuffer(digests, np.uint8).reshape(count, 16)
    ids[:, 6] = ids[:, 6] & 0x0F | 0x50  # version 5 (RFC 9562)
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    return ids


def run(taken: Claim, file: IO[bytes], name: str, report: Report) -> None:
    labels = settings().algorithm_names()
    with rewindow.open(file) as capture:
        capture.names[:] = [name]
        beside = candidates_beside(Choice.several(labels))
        with (
            capture.stream(labels, bottlenecks=True, monitor=True, candidates=beside) as replay,
            spool(replay.schema) as spooled,
        ):
            for batch in replay:
                spooled.add(batch)
                report("replaying", replay.progress() * 0.9)
            summary = replay.summary()
            acks_key = objects.series_key(taken.subject_id, "acks", taken.fence)
            marks_key = objects.series_key(taken.subject_id, "marks", taken.fence)
            report("storing", 0.9)
            with spooled.clustered(replay.connection_count(), labels) as (acks, overview), spooled.marks() as marks:
                try:
                    size = objects.put_file(acks_key, acks) + objects.put_file(marks_key, marks)
                    if overview:
                        size += objects.put_file(objects.overview_key(acks_key), overview)
                    rows = spooled.rows_of_connections(replay.connection_count())
                    store_and_publish(taken, summary, replay, rows, labels, report, size)
                except BaseException:
                    results.discard(taken, acks_key, marks_key, objects.overview_key(acks_key))
                    raise
    objects.delete_older_series(taken.subject_id, taken.fence)


def store_and_publish(
    taken: Claim,
    summary: Summary,
    replay: rewindow.Replay,
    rows: npt.NDArray[np.int64],
    labels: Sequence[str],
    report: Report,
    series_bytes: int,
) -> None:
    """rows: of each connection, how many rows its series has. Raises JobLost."""
    with engine().begin() as database:
        attempt_id = attempts.start(database, taken, labels)
        team_id = database.execute(
            select(models.Capture.team_id).where(models.Capture.id == taken.subject_id)
        ).scalar_one()
    tally = rewindow.FairnessTally()
    for table in replay.tables():
        tally.add_table(table)
    groups_of = _store_fairness(attempt_id, tally.groups())
    count = replay.connection_count()
    qualities = _Qualities()
    with AttemptWriter(attempt_id) as writer:
        for table in replay.tables():
            first = table.first_connection
            own = rows[first : first + len(table)]
            store_table(writer, attempt_id, taken.subject_id, team_id, replay, table, own, labels, qualities, groups_of)
            report("storing", 0.9 + 0.1 * (first + len(table)) / count)
    with engine().begin() as database:
        attempts.publish(
            database,
            taken,
            attempt_id,
            connection_count=count,
            summary={**asdict(summary), "bottlenecks": tally.bottlenecks()},
            acks_key=objects.series_key(taken.subject_id, "acks", taken.fence),
            marks_key=objects.series_key(taken.subject_id, "marks", taken.fence),
            series_bytes=series_bytes,
            series_deleted_at=None,
        )


def store_table(
    writer: AttemptWriter,
    attempt_id: int,
    capture_id: uuid.UUID,
    team_id: uuid.UUID,
    replay: rewindow.Replay,
    table: ConnectionTable,
    rows: npt.NDArray[np.int64],
    labels: Sequence[str],
    qualities: _Qualities,
    groups_of: Mapping[int, list[Membership]],
) -> None:
    """Has some connections with their subflows written. groups_of: of the members of fairness groups, by number.
    Raises JobLost."""
    numbers = table.first_connection + np.arange(len(table))
    found = table.connections()
    violations = replay.violation_counts(table)
    connections = {
        "attempt_id": Column(np.full(len(table), attempt_id)),
        "id": Column(connection_ids(capture_id, table.first_connection, len(table))),
        "number": Column(numbers),
        "rows": Column(rows),
        "subflow_count": Column(table.counts),
        "quality_id": qualities.of(found),
        "steps": Column(replay.monitored_steps(table)),
        "violations": Column(violations),
        "first_violation": _first_violations(replay, numbers, violations),
        **{name: found[name] for name in _CONNECTION_COLUMNS},
    }
    found = table.subflows()
    senders = found["sender_algorithm"]
    matches = [s.match for s in senders.texts or ()]
    subflows = {
        "attempt_id": Column(np.full(table.subflow_count, attempt_id)),
        "connection_number": Column(np.repeat(numbers, table.counts)),
        "number": found["id"],
        "quality_id": qualities.of(found),
        "sender_algorithm": Column(senders.values, texts=[s.name for s in senders.texts or ()]),
        "sender_match": Column(
            np.array([m or 0.0 for m in matches])[senders.values],
            np.array([m is None for m in matches])[senders.values],
        ),
        "sender_candidates": Column(senders.values, texts=[s.candidates for s in senders.texts or ()]),
        **{name: found[name] for name in _SUBFLOW_COLUMNS},
    }
    if labels:
        subflows["windows"] = table.window_values(replay.window_rows(table, labels))
    facts = _facts(table, connections, subflows, team_id)
    facts |= _memberships(numbers, groups_of)
    writer.copy(models.Connection, connections)
    writer.copy(models.ConnectionFact, facts)
    writer.copy(models.Subflow, subflows)


def _facts(
    table: ConnectionTable, connections: dict[str, Column], subflows: dict[str, Column], team_id: uuid.UUID
) -> dict[str, Column]:
    """The columns of `models.ConnectionFact`, from those of connections and subflows."""
    main = table.main_subflows
    of_main = {name: subflows[name].take(main) for name in ("src", "dst", "sport", "dport", "sender_algorithm")}
    of_all = {
        "addresses": _of_both_ends(table, subflows["src"], subflows["dst"], _as_inet),
        "ports": _of_both_ends(table, subflows["sport"], subflows["dport"], int),
    }
    packets = table.sums(subflows["packets"].values)
    lasted_ns = connections["last_ns"].values - connections["first_ns"].values
    facts = {
        **{name: connections[name] for name in _SHARED_WITH_FACTS},
        **of_main,
        **of_all,
        "team_id": Column(np.broadcast_to(np.frombuffer(team_id.bytes, np.uint8), (len(table), 16))),
        "duration_s": Column(lasted_ns / 1e9),
        "retransmission_rate": Column(
            connections["retransmitted_packets"].values / np.maximum(packets, 1), packets == 0
        ),
        "rtt_us": subflows["rtt_median_us"].take(main),
        "rtt_min_us": subflows["rtt_min_us"].take(main),
    }
    windows = subflows.get("windows")
    if windows is not None:
        means = windows.values[:, ::3]
        unknown = table.sums((~np.isnan(means)).astype(np.int64)) == 0
        total = np.where(unknown, np.nan, table.sums(np.nan_to_num(means)))
        facts["mean_windows"] = Column(total, np.asarray(unknown.all(axis=1)))
    return facts


def _memberships(numbers: npt.NDArray[np.int64], groups_of: Mapping[int, list[Membership]]) -> dict[str, Column]:
    """The columns of facts that tell of which fairness groups these connections are members."""
    codes = np.zeros(len(numbers), np.uint32)
    ids: list[list[int] | None] = [None]
    ratios: list[list[float] | None] = [None]
    for row, number in enumerate(numbers.tolist()):
        if groups := groups_of.get(number):
            codes[row] = len(ids)
            ids.append([g.group_id for g in groups])
            ratios.append([g.fair_share_ratio for g in groups])
    return {"group_ids": Column(codes, texts=ids), "fair_share_ratios": Column(codes, texts=ratios)}


def _of_both_ends(table: ConnectionTable, src: Column, dst: Column, order: Callable[[Any], Any]) -> Column:
    """For each connection of several subflows the values of both columns, each once, in this order; else None."""
    codes = np.zeros(len(table), np.uint32)
    texts: list[Any] = [None]
    ends = np.cumsum(table.counts, dtype=np.int64)
    for place in np.flatnonzero(table.counts > 1).tolist():
        its = np.arange(ends[place] - table.counts[place], ends[place])
        codes[place] = len(texts)
        texts.append(sorted({*src.take(its).tolist(), *dst.take(its).tolist()}, key=order))
    return Column(codes, texts=texts)


def _as_inet(address: str) -> tuple[int, bytes]:
    """What PostgreSQL sorts addresses by."""
    found = ipaddress.ip_address(address)
    return found.version, found.packed


def _first_violations(
    replay: rewindow.Replay, numbers: npt.NDArray[np.int64], counts: npt.NDArray[np.uint64]
) -> Column:
    codes, texts = np.zeros(len(numbers), np.uint32), [None]
    for place in np.flatnonzero(counts).tolist():
        codes[place] = len(texts)
        texts.append(replay.conformance(int(numbers[place]))["first"])
    return Column(codes, texts=texts)


class _Qualities:
    """Ids of the rows of `qualities`; those that are missing are inserted, in transactions of their own."""

    def __init__(self) -> None:
        self._ids: dict[tuple[Any, ...], int] = {}

    def of(self, columns: dict[str, Column]) -> Column:
        """The id for each row, from its quality, verdict and unreliable."""
        quality, verdict, unreliable = parts = [columns[name] for name in ("quality", "verdict", "unreliable")]
        shape = tuple(len(p.texts or ()) for p in parts)
        joint = np.ravel_multi_index([p.values.astype(np.int64) for p in parts], shape)
        found, places = np.unique(joint, return_inverse=True)
        keys = [
            (tuple((quality.texts or ())[q]), (verdict.texts or ())[v], tuple((unreliable.texts or ())[u]))
            for q, v, u in np.array(np.unravel_index(found, shape)).T.tolist()
        ]
        self._know([k for k in keys if k not in self._ids])
        return Column(np.array([self._ids[k] for k in keys], np.int64)[places])

    def _know(self, keys: list[tuple[Any, ...]]) -> None:
        record = models.QualityRecord
        for quality, verdict, unreliable in keys:
            values = {"quality": list(quality), "verdict": verdict, "unreliable": list(unreliable)}
            with engine().begin() as database:
                database.execute(insert_new(record).values(values).on_conflict_do_nothing())
                same = [getattr(record, name) == value for name, value in values.items()]
                self._ids[quality, verdict, unreliable] = database.execute(select(record.id).where(*same)).scalar_one()


def _store_fairness(attempt_id: int, groups: Sequence[rewindow.FairnessGroup]) -> dict[int, list[Membership]]:
    """Returns the groups of each member, by its number and in the order of their ids, which is that of `groups`. Raises
    JobLost."""
    rows = [
        {
            "attempt_id": attempt_id,
            "bottleneck": g.bottleneck,
            "method": g.method,
            "members": {
                "connections": g.members,
                "goodput_bps": g.goodput_bps,
                "kinds": g.kinds,
                "capacity_bps": g.capacity_bps,
                "shares": [None if s is None else asdict(s) for s in g.shares],
            },
            "jain": g.jain,
            "mptcp_to_tcp_ratio": g.mptcp_to_tcp_ratio,
            "declared": g.declared,
            "verdict": g.verdict,
        }
        for g in groups
    ]
    if not rows:
        return {}
    group = models.FairnessGroup
    insertion = insert(group).returning(group.id, group.bottleneck, sort_by_parameter_order=True)
    with attempts.writing(attempt_id) as database:
        ids = {bottleneck: group_id for group_id, bottleneck in database.execute(insertion, rows)}
    found: dict[int, list[Membership]] = defaultdict(list)
    for g in groups:
        for number, share in zip(g.members, g.shares, strict=True):
            found[number].append(Membership(ids[g.bottleneck], math.nan if share is None else share.ratio))
    return found
