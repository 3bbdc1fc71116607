"""What a capture tells about its connections and the paths that they took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.findings.connections import Connection, Subflow
from rewindow.replays.capture import Capture, candidates_beside
from rewindow.whatif.outcomes import Outcome, SubflowOutcome, above_least

Array = npt.NDArray[Any]

LOSS_MARKS = ("fast_retransmit", "timeout", "tail_loss")


@dataclass(frozen=True)
class Series:
    """Of a subflow, by ACK: seconds since the capture's first packet, segments that it delivered, the sample of the
    round trip in seconds (NaN: none). losses_s, marks_s: when the sender found losses, and when it reacted to ECN.
    lost: for each of losses_s, about how many packets were retransmitted until the next one.
    """

    time_s: Array
    delivered: Array
    acked_bytes: Array
    """Newly, by the cumulative acknowledgment."""
    in_order: Array
    """Whether the sender knew of nothing beyond a hole, before the ACK and after it."""
    rtt_s: Array
    limited: Array
    """Whether the application or the send buffer held the sender back: it sent nothing at several ACKs in turn, or all
    of its data was acknowledged."""
    losses_s: Array
    lost: Array
    marks_s: Array
    flight_bytes: Array
    """Sent and not acknowledged, before each ACK."""


@dataclass(frozen=True)
class ObservedSubflow:
    """window_first_bytes, window_most_bytes: that the receiver offered, in its first ACK and at most."""

    facts: Subflow
    series: Series
    sees_queues: bool
    """Whether its round trips show how long packets queued."""
    window_first_bytes: int
    window_most_bytes: int
    sack: bool
    timestamps: bool

    @property
    def shortest_rtt_s(self) -> float | None:
        """Of data or of the handshake, whatever the size of its packet."""
        known = [us for us in (self.facts.rtt_min_us, self.facts.handshake_rtt_us) if us]
        return min(known) / 1e6 if known else None


@dataclass(frozen=True)
class ObservedConnection:
    """closed: FIN or RST was seen on one of its subflows."""

    facts: Connection
    subflows: tuple[ObservedSubflow, ...]
    closed: bool

    @property
    def id(self) -> int:
        return self.facts.id

    def outcome(self) -> Outcome:
        return Outcome(
            bytes=self.facts.bytes,
            goodput_bps=self.facts.goodput_bps,
            completion_s=self.facts.completion_s,
            subflows=tuple(_outcome(s) for s in self.subflows),
        )


def _outcome(s: ObservedSubflow) -> SubflowOutcome:
    samples = s.series.rtt_s[~np.isnan(s.series.rtt_s)] if s.sees_queues else np.empty(0)
    return SubflowOutcome(
        bytes=s.facts.bytes, retransmitted=s.facts.retransmitted_packets, episodes=s.facts.fast_retransmits,
        timeouts=s.facts.timeouts, marked=s.facts.ece_acks, queued_s=above_least(samples, (s.shortest_rtt_s,)),
    )  # fmt: skip


@dataclass(frozen=True)
class Observation:
    """Of one capture. duration_s: from its first packet to its last one."""

    connections: tuple[ObservedConnection, ...]
    first_ns: int
    duration_s: float

    def groups(self) -> list[list[tuple[int, int]]]:
        """Subflows, as (connection, place in it), that share a bottleneck as far as the detector knows."""
        found: dict[object, list[tuple[int, int]]] = {}
        for c, connection in enumerate(self.connections):
            for s, subflow in enumerate(connection.subflows):
                number = subflow.facts.bottleneck
                found.setdefault(number if number else (c, s), []).append((c, s))
        return list(found.values())


class _Columns:
    """Collects what Series needs, batch by batch."""

    def __init__(self) -> None:
        self._acks: dict[str, list[Array]] = {}
        self._marks: dict[str, list[Array]] = {}

    @staticmethod
    def _add(to: dict[str, list[Array]], name: str, values: Array) -> None:
        to.setdefault(name, []).append(values)

    def add(self, batch: Any) -> None:
        import pyarrow.compute as pc

        for name in ("time_ns", "connection", "subflow", "acked_segments", "acked_bytes"):
            self._add(self._acks, name, batch.acks.column(name).to_numpy())
        flight, acked = (batch.acks.column(name).to_numpy() for name in ("in_flight_bytes", "acked_bytes"))
        self._add(self._acks, "flight_bytes", flight)
        self._add(self._acks, "left_bytes", np.where(acked > 0, np.maximum(flight, acked) - acked, 1))
        self._add(self._acks, "rtt_us", pc.fill_null(batch.acks.column("rtt_us"), 0).to_numpy())
        flags = batch.acks.column("flags")
        texts, places = [set(text.split("|")) for text in flags.dictionary.to_pylist()], flags.indices.to_numpy()
        told = {"limited": {"app_limited"}, "beyond_hole": {"dup", "sack", "retransmit"}, "repairs": {"retransmit"}}
        for name, words in told.items():
            self._add(self._acks, name, np.array([bool(text & words) for text in texts])[places])
        for name in ("time_ns", "connection", "subflow"):
            self._add(self._marks, name, batch.marks.column(name).to_numpy())
        self._add(self._marks, "kind", np.array(batch.marks.column("kind").to_pylist(), object))

    def series(self, first_ns: int, retransmitted: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], Series]:
        acks = {name: np.concatenate(parts) for name, parts in self._acks.items()}
        marks = {name: np.concatenate(parts) for name, parts in self._marks.items()}
        if not acks or not len(acks["time_ns"]):
            return {}
        keys = acks["connection"].astype(np.uint64) << np.uint64(32) | acks["subflow"]
        order = np.argsort(keys, kind="stable")
        found = {}
        starts = np.flatnonzero(np.r_[True, np.diff(keys[order]) != 0])
        for begin, end in zip(starts, np.r_[starts[1:], len(order)], strict=True):
            rows = order[begin:end]
            connection, subflow = int(acks["connection"][rows[0]]), int(acks["subflow"][rows[0]])
            own = (marks["connection"] == connection) & (marks["subflow"] == subflow)
            at_s = (marks["time_ns"] - first_ns) / 1e9
            rtt_us = acks["rtt_us"][rows].astype(float)
            time_s = (acks["time_ns"][rows] - first_ns) / 1e9
            losses_s = at_s[own & np.isin(marks["kind"], LOSS_MARKS)]
            repairs_s = time_s[acks["repairs"][rows]]
            beyond_hole = acks["beyond_hole"][rows]
            found[connection, subflow] = Series(
                time_s=time_s,
                delivered=acks["acked_segments"][rows].astype(float),
                acked_bytes=acks["acked_bytes"][rows].astype(np.int64),
                in_order=~(beyond_hole | np.r_[False, beyond_hole[:-1]]),
                rtt_s=np.where(rtt_us > 0, rtt_us, np.nan) / 1e6,
                limited=acks["limited"][rows] | (acks["left_bytes"][rows] == 0),
                losses_s=losses_s,
                lost=_lost(losses_s, repairs_s, retransmitted.get((connection, subflow), 0)),
                marks_s=at_s[own & (marks["kind"] == "ece")],
                flight_bytes=acks["flight_bytes"][rows].astype(float),
            )
        return found


def _lost(losses_s: Array, repairs_s: Array, retransmitted: int) -> Array:
    """The retransmitted packets, shared out by the ACKs at which the sender repaired; at least one for each loss.

    repairs_s: in order. Such an ACK stands for one packet or for several.
    """
    ends = np.r_[losses_s[1:], np.inf][: len(losses_s)]
    repairs = np.maximum(np.searchsorted(repairs_s, ends) - np.searchsorted(repairs_s, losses_s), 1)
    found: Array = np.maximum(repairs * (retransmitted / max(repairs.sum(), 1)), 1.0)
    return found


_EMPTY = np.empty(0)
_NEVER = np.empty(0, bool)
_NOTHING = Series(_EMPTY, _EMPTY, np.empty(0, np.int64), _NEVER, _EMPTY, _NEVER, _EMPTY, _EMPTY, _EMPTY, _EMPTY)


def _sees_queues(s: Subflow) -> bool:
    return s.send_times != "round_trip" and s.rtt_min_us is not None


def _observed(facts: Subflow, series: Series, row: Any) -> ObservedSubflow:
    """row: the core's. Without a handshake the options of current stacks are assumed."""
    unseen = not row["handshake"]
    return ObservedSubflow(
        facts, series, _sees_queues(facts), int(row["window_first_bytes"]), int(row["window_most_bytes"]),
        bool(unseen or row["sack"]), bool(unseen or row["timestamps"]),
    )  # fmt: skip


def observe(capture: Capture, only: Iterable[int] | None = None) -> Observation:
    """Replays a capture for what the fit needs. only: ids of the connections to keep; None: all."""
    hidden = candidates_beside([])
    columns = _Columns()
    with capture.stream(hidden, bottlenecks=True, hidden=[c.label for c in hidden]) as replay:
        for batch in replay:
            columns.add(batch)
        summary = replay.summary()
        connections: list[Connection] = []
        rows: dict[tuple[int, int], Any] = {}
        for table in replay.tables():
            connections += table.objects()
            rows |= {(int(row["connection"]), int(row["id"])): row for row in table.subflow_rows}
    retransmitted = {(c.id, s.id): s.retransmitted_packets for c in connections for s in c.subflows}
    series = columns.series(summary.first_ns, retransmitted)
    wanted: Sequence[Connection] = connections
    if only is not None:
        ids = set(only)
        wanted = [c for c in connections if c.id in ids]
    return Observation(
        connections=tuple(
            ObservedConnection(
                c,
                tuple(_observed(s, series.get((c.id, s.id), _NOTHING), rows[c.id, s.id]) for s in c.subflows),
                any(rows[c.id, s.id]["closed"] for s in c.subflows),
            )
            for c in wanted
        ),
        first_ns=summary.first_ns,
        duration_s=summary.duration_s,
    )
