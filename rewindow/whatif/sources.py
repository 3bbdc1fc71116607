"""What the application of a connection writes, as far as a capture shows it.

A sender whose window is full sends when an ACK comes. Data that leaves long after the last ACK was not there before: it
is the first of another write, and all that had been sent till then was all that had been written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.scenarios import Write
from rewindow.whatif.observation import Observation, ObservedConnection, Series

Array = npt.NDArray[Any]

KINDS = ("bytes", "time", "clock", "requests")
"""bytes: so much data, all at once. time: as much as it can, for so long. clock: writes at the times of the capture.
requests: each write so long after the data before it was acknowledged."""
WORDS = {
    "bytes": "a transfer of the recorded bytes", "time": "always data to send, for the recorded time",
    "clock": "writes at the recorded times",
    "requests": "requests, each at the recorded time after the data before it was acknowledged",
}  # fmt: skip

_WAKES_S, _WAKES_SHARE = 0.001, 0.02
"""A sender that may send does so within this time of an ACK: a millisecond and a share of the round trip."""
_COARSE_S = 0.003
"""More, where the times of sending are TCP's timestamps."""
_HELD_LEAST = 0.1
"""Of a connection's time: less than that its application does not decide what comes of it."""
_ALONE_LEAST = 0.3
"""Of its writes: where fewer come by themselves, its send buffer held the sender back."""
_QUIET_ACKS = 4
"""So many in turn at which nothing is sent: there was nothing to send."""
_HELD_ALONE = 0.9
"""Of the time without data: as much before data that came by itself leaves nothing for other pauses to explain."""
_OVERLAPPING = 0.2
"""Of its writes: where more came beside data that was not acknowledged yet, a clock made them."""
_MORE_REGULAR = 0.5
"""One of two spreads tells what made the writes, where it is this share of the other one or less."""
_WRITES_MIN = 4
"""That tell a clock from requests."""
_OF_ONE_SIZE, _IN_STEP, _DIVIDED_LEAST = 0.05, 0.25, 0.8
"""Where data came in multiples of one size, each followed by the next one after as many periods, a clock wrote that
size: how far multiples and periods may be off, and of how much of the data that must be so."""
_COMMON_END, _LONG_S = 0.15, 4.0
"""Connections of some length that end together, as a share of their length, were stopped and not done."""
_BLOCK_BYTES, _BLOCKS_LEAST, _ROUND_BLOCKS = 1 << 16, 2, 16
"""What is sent until it is stopped, as by iperf3, is whole blocks of a power of two. So are one of 65,536 sizes of an
object, and round sizes: whole mebibytes."""
_CUT_S = 0.5
"""A connection that nothing closes was under way at the end of the capture, if its last packet came so late."""


@dataclass(frozen=True)
class Source:
    """What the application of a connection writes: bytes, all at once or in these writes; or as much as it can until
    stop_s after its start.
    """

    bytes: int | None
    stop_s: float | None
    writes: tuple[Write, ...] = ()

    @property
    def kind(self) -> str:
        if self.writes:
            return "requests" if self.writes[-1].after_acknowledged else "clock"
        return "time" if self.bytes is None else "bytes"


@dataclass(frozen=True)
class Written:
    """at_s: after the connection's first packet. bytes: of each write. acknowledged_s: when all before it was; NaN for
    the first. held_share: of the connection's time, in which it had nothing to send and its window had room.
    """

    at_s: Array
    bytes: Array
    acknowledged_s: Array
    held_share: float
    alone_share: float
    """Of data after pauses: what did not come with an ACK, as data does that waits for room in the send buffer."""

    @property
    def decides(self) -> bool:
        return self.held_share > _HELD_LEAST and self.alone_share > _ALONE_LEAST

    @property
    def kinds(self) -> tuple[str, ...]:
        """What may have made the writes: clock, requests, or both where the capture does not tell."""
        if len(self.at_s) < 2:
            return ("clock",)
        thought_s = self.at_s[1:] - self.acknowledged_s[1:]
        if np.mean(thought_s < 0) > _OVERLAPPING:
            return ("clock",)
        if len(self.at_s) <= _WRITES_MIN:
            return ("clock", "requests")
        between, thought = _spread(np.diff(self.at_s)), _spread(thought_s)
        if between <= _MORE_REGULAR * thought:
            return ("clock",)
        return ("requests",) if thought <= _MORE_REGULAR * between else ("clock", "requests")

    def source(self, kind: str) -> Source:
        """kind: clock or requests."""
        after_s = self.at_s
        if kind == "requests":
            after_s = np.r_[0.0, np.maximum(self.at_s[1:] - self.acknowledged_s[1:], 0)]
        writes = tuple(
            Write(int(size), round(float(after) * 1e9), kind == "requests")
            for size, after in zip(self.bytes, after_s, strict=True)
        )
        return Source(int(self.bytes.sum()), None, writes)


def _spread(values: Array) -> float:
    low, high = np.percentile(values, (25, 75))
    return float(high - low)


def written(connection: ObservedConnection, first_ns: int) -> Written | None:
    """first_ns: of the capture, from which its series count. None: no times of sending are known."""
    sent = _sent(connection)
    if not len(sent.at_s):
        return None
    wakes_s = _wakes_s(connection)
    starts = _starts(connection, sent, wakes_s)
    # Where those that come by themselves explain the pauses, quiet ACKs are the send buffer's or a recovery's.
    if starts.held_s[starts.alone].sum() >= _HELD_ALONE * starts.held_s.sum():
        starts = starts.only(starts.alone)
    before = np.zeros(len(starts.at_s), np.int64)
    acknowledged_s = np.full(len(starts.at_s), -np.inf)
    for place, s in enumerate(connection.subflows):
        own = sent.subflow == place
        total = s.series.acked_bytes.sum()
        offsets = np.r_[sent.offset[own], total][np.searchsorted(sent.at_s[own], starts.at_s - wakes_s / 10)]
        before += offsets
        acknowledged_s = np.maximum(acknowledged_s, np.where(offsets, _acknowledged_s(s.series, offsets), -np.inf))
    total = sum(int(s.series.acked_bytes.sum()) for s in connection.subflows)
    kept = np.diff(np.r_[before, total]) > 0
    # Data that went on two subflows was written once.
    ends = np.round(np.r_[before[kept][1:], total] * (connection.facts.bytes / max(total, 1))).astype(np.int64)
    began_s = (connection.facts.first_ns - first_ns) / 1e9
    acknowledged_s = acknowledged_s[kept] - began_s
    acknowledged_s[:1] = np.nan
    lasted_s = max(float(sent.heard_s[-1] - sent.at_s[0]), 1e-9)
    at_s, sizes, acknowledged_s = _divided(
        np.maximum(starts.at_s[kept] - began_s, 0), np.maximum(np.diff(np.r_[0, ends]), 1), acknowledged_s
    )
    return Written(
        at_s=at_s, bytes=sizes, acknowledged_s=acknowledged_s, held_share=float(starts.held_s[kept].sum()) / lasted_s,
        alone_share=starts.alone_share,
    )  # fmt: skip


def _divided(at_s: Array, sizes: Array, acknowledged_s: Array) -> tuple[Array, Array, Array]:
    """What a clock wrote while data before it was not sent yet looks like one write with that data.

    What comes so beside data that is not acknowledged has an infinite time of acknowledgement.
    """
    if len(at_s) <= _WRITES_MIN:
        return at_s, sizes, acknowledged_s
    unit = float(np.median(np.sort(sizes)[: (len(sizes) + 2) // 3]))
    count = np.maximum(np.rint(sizes / unit), 1)
    each_s = np.diff(at_s) / count[:-1]
    period_s = float(np.median(each_s))
    in_step = np.abs(sizes / unit / count - 1) <= _OF_ONE_SIZE
    in_step[:-1] &= np.abs(each_s / period_s - 1) <= _IN_STEP
    if sizes[in_step].sum() < _DIVIDED_LEAST * sizes.sum():
        return at_s, sizes, acknowledged_s
    parts = np.where(in_step, count, 1).astype(int)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    ends = np.rint(np.repeat(sizes / parts, parts) * (number + 1)).astype(np.int64)
    begins = np.where(number, np.r_[0, ends[:-1]], 0)
    all_before_s = np.where(number, np.inf, np.repeat(acknowledged_s, parts))
    return np.repeat(at_s, parts) + number * period_s, ends - begins, all_before_s


def _wakes_s(connection: ObservedConnection) -> float:
    round_trips = [s.shortest_rtt_s for s in connection.subflows if s.shortest_rtt_s]
    captured = all(s.facts.send_times == "captured" for s in connection.subflows)
    return _WAKES_S + _WAKES_SHARE * min(round_trips, default=0.0) + (0 if captured else _COARSE_S)


@dataclass(frozen=True)
class _Sent:
    """Data whose time of sending a round trip tells, in order of time, of all subflows of a connection: which one's,
    how many bytes that one had sent before, when the ACK came, and when all before it was acknowledged.
    heard_s: when ACKs came; holes_s: those while the sender knew of a hole.
    """

    at_s: Array
    subflow: Array
    offset: Array
    answered_s: Array
    all_before_s: Array
    heard_s: Array
    holes_s: Array


def _sent(connection: ObservedConnection) -> _Sent:
    found: list[list[Array]] = [[] for _ in range(5)]
    for place, s in enumerate(connection.subflows):
        series = s.series
        # A hole's first SACK tells of data that left with what was lost, or soon after.
        first_sack = (series.acked_bytes == 0) & np.r_[True, series.in_order[:-1]] & ~series.in_order
        known = ~np.isnan(series.rtt_s) & (((series.acked_bytes > 0) & series.in_order) | first_sack)
        if not known.any():
            continue
        offsets = (np.cumsum(series.acked_bytes) - series.acked_bytes)[known]
        at_s = np.maximum.accumulate(series.time_s[known] - series.rtt_s[known])
        values = (at_s, np.full(len(at_s), place), offsets, series.time_s[known], _acknowledged_s(series, offsets))
        for parts, own in zip(found, values, strict=True):
            parts.append(own)
    heard_s = np.sort(np.concatenate([s.series.time_s for s in connection.subflows]))
    holes_s = np.sort(np.concatenate([s.series.time_s[~s.series.in_order] for s in connection.subflows]))
    joined = [np.concatenate(parts) if parts else np.empty(0) for parts in found]
    order = np.argsort(joined[0], kind="stable")
    at_s, subflow, offset, answered_s, all_before_s = (column[order] for column in joined)
    return _Sent(at_s, subflow, offset, answered_s, all_before_s, heard_s, holes_s)


def _acknowledged_s(series: Series, offsets: Array) -> Array:
    """When so many bytes were acknowledged."""
    place = np.searchsorted(np.cumsum(series.acked_bytes), offsets)
    found: Array = np.r_[series.time_s, np.inf][np.minimum(place, len(series.time_s))]
    return found


@dataclass(frozen=True)
class _Starts:
    """Where writes begin. held_s: how long there was room before, without data. alone: no ACK came just before.
    alone_share: of all data that came after ACKs that nothing was sent at.
    """

    at_s: Array
    held_s: Array
    alone: Array
    alone_share: float

    def only(self, which: Array) -> _Starts:
        return _Starts(self.at_s[which], self.held_s[which], self.alone[which], self.alone_share)


def _starts(connection: ObservedConnection, sent: _Sent, wakes_s: float) -> _Starts:
    at_s, heard_s = sent.at_s, sent.heard_s
    after_last_sent = np.searchsorted(heard_s, at_s[:-1] + wakes_s, "right")
    heard = np.searchsorted(heard_s, at_s + wakes_s / 10, "right")
    last_heard_s = heard_s[np.maximum(heard - 1, 0)]
    alone = (at_s - last_heard_s > wakes_s) & (at_s > at_s[0] + wakes_s)
    # Of data in a recovery no time of sending is known: it only looks as if none had been sent.
    whole = np.searchsorted(sent.holes_s, sent.answered_s, "right") == np.searchsorted(
        sent.holes_s, np.r_[-np.inf, at_s[:-1]]
    )
    quiet = (heard - np.r_[heard[0], after_last_sent] >= _QUIET_ACKS) & whole
    if any(s.facts.paced for s in connection.subflows):
        alone &= sent.all_before_s < at_s - wakes_s
        quiet &= alone
    first_room_s = heard_s[np.minimum(np.r_[0, after_last_sent], len(heard_s) - 1)]
    held_s = np.maximum(at_s - np.minimum(first_room_s, last_heard_s), 0)
    alone[0], held_s[0] = True, 0.0
    fresh = np.flatnonzero(alone | quiet)
    # What leaves together was written together, on whichever subflow.
    fresh = fresh[np.r_[True, np.diff(at_s[fresh]) > wakes_s]]
    alone_share = float(alone[fresh[1:]].mean()) if len(fresh) > 1 else 0.0
    # Nagle's algorithm (RFC 1122 4.2.3.4) keeps a write's end until all before it is acknowledged.
    fresh = fresh[alone[fresh] | (sent.all_before_s < at_s - wakes_s)[fresh]]
    return _Starts(at_s[fresh], held_s[fresh], alone[fresh], alone_share)


def sources(observation: Observation, members: Sequence[int]) -> list[tuple[Source, ...]]:
    """Of these connections: each hypothesis about what their applications write, the likelier one first."""
    found = [_alternatives(observation, i) for i in members]
    return [tuple(own[k % len(own)] for own in found) for k in range(max(len(own) for own in found))]


def _alternatives(observation: Observation, place: int) -> tuple[Source, ...]:
    """Connections of different sizes that end together were stopped, and so was one that the end of the capture cut
    off, or one that sent whole blocks; each other one had so much to send.
    """
    connection = observation.connections[place]
    held = written(connection, observation.first_ns)
    if held is not None and held.decides:
        return tuple(held.source(kind) for kind in held.kinds)
    spans = [
        ((c.facts.last_ns - c.facts.first_ns) / 1e9, c.facts.last_ns / 1e9, c.facts.bytes)
        for c in observation.connections
    ]
    lasted, end, sent = spans[place]
    stopped = any(
        abs(end - other_end) <= _COMMON_END * min(lasted, other_lasted)
        and min(lasted, other_lasted) >= _LONG_S
        and sent != other_sent
        for j, (other_lasted, other_end, other_sent) in enumerate(spans)
        if j != place
    )
    stopped = stopped or _sent_blocks(observation, connection) or _cut_off(observation, connection)
    return (by_time(connection),) if stopped else (by_bytes(connection),)


def taken_as(kind: str, connection: ObservedConnection, first_ns: int) -> Source | None:
    """The source that a caller names, one of KINDS; None: the capture shows no pauses of the application."""
    if kind in ("bytes", "time"):
        return by_bytes(connection) if kind == "bytes" else by_time(connection)
    held = written(connection, first_ns)
    return held.source(kind) if held is not None and held.decides else None


def _sent_blocks(observation: Observation, connection: ObservedConnection) -> bool:
    """Whether it sent whole blocks until it was stopped. A round size is not one where others' sizes are not."""

    def blocks(c: ObservedConnection) -> int:
        count, rest = divmod(c.facts.bytes, _BLOCK_BYTES)
        return 0 if rest or count < _BLOCKS_LEAST else count

    return bool(blocks(connection)) and any(blocks(c) % _ROUND_BLOCKS for c in observation.connections)


def _cut_off(observation: Observation, connection: ObservedConnection) -> bool:
    """Whether it still had data to send when the capture ended."""
    left_s = observation.duration_s - (connection.facts.last_ns - observation.first_ns) / 1e9
    longest = max((s.facts.rtt_p95_us or 0 for s in connection.subflows), default=0) / 1e6
    return not connection.closed and left_s <= _CUT_S + 2 * longest


def by_bytes(connection: ObservedConnection) -> Source:
    return Source(max(connection.facts.bytes, 1), None)


def by_time(connection: ObservedConnection) -> Source:
    lasted = (connection.facts.last_ns - connection.facts.first_ns) / 1e9
    return Source(None, max(lasted - _drain_s(connection), lasted / 2))


def _drain_s(connection: ObservedConnection) -> float:
    """How long the send buffer takes to empty: about two windows, which is two round trips."""
    round_trips = [s.facts.rtt_median_us / 1e6 for s in connection.subflows if s.facts.rtt_median_us]
    return 2 * max(round_trips, default=0.0)


def stopped_in_time(
    connections: Sequence[ObservedConnection], applications: Sequence[Source], lasted: Array
) -> tuple[Source, ...]:
    """Applications that stop do so earlier or later, by how much simulated connections ended too late or too early.

    lasted: seconds; a row for each run, a column for each connection; NaN: it did not end.
    """
    found = []
    for i, (connection, source) in enumerate(zip(connections, applications, strict=True)):
        known = lasted[:, i][~np.isnan(lasted[:, i])]
        recorded = connection.facts.completion_s
        if source.stop_s is None or recorded is None or not len(known):
            found.append(source)
            continue
        moved = source.stop_s + recorded - float(np.median(known))
        found.append(replace(source, stop_s=min(max(moved, source.stop_s / 2), recorded)))
    return tuple(found)
