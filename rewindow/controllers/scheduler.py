"""Packet schedulers, driven by hand: the C code that a simulated or a real MPTCP sender can run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rewindow.controllers.registry import Option, options_of, text_of
from rewindow.core import Choice, check, choices_for, ffi, folded, lib
from rewindow.errors import BadOption

_ALL_ONES = 0xFFFFFFFFFFFFFFFF
_NONE = 0xFFFFFFFF
_ENDLESS = 1 << 40
_SEQUENCE_MAX = 1 << 60
_SPANS_MAX = 16
_ACTIONS = ("wait", "send", "reinject")


@dataclass(frozen=True)
class SchedulerInfo:
    name: str
    source: str
    rule: str
    deviations: str
    options: tuple[Option, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def schedulers() -> list[SchedulerInfo]:
    """Every scheduler, in the registry's order."""
    found = []
    info = ffi.new("rw_scheduler_info *")
    for index in range(lib.rw_scheduler_count()):
        lib.rw_scheduler_describe(index, info)
        options = options_of(lib.rw_scheduler_option, index, info.options)
        name, source, rule = text_of(info.name), text_of(info.source), text_of(info.rule)
        found.append(SchedulerInfo(name, source, rule, text_of(info.deviations), options))
    return found


@dataclass(frozen=True)
class SendingSubflow:
    """One subflow as a scheduler sees it: segments and seconds.

    ssthresh: None in congestion avoidance, infinity while slow start has no threshold. srtt: None before the first
    sample. queued: segments that it was given and has not sent yet. loss_state: after a timeout, until the loss is
    repaired. recovering: in fast recovery or CWR. set: the number of its final set of subflows behind one bottleneck;
    beta: its congestion degree there (SB-CC paper eq. 1), default 1; with `beta` but no `set` it is in set 1.
    since_penalty: time since its window was halved for delaying the other subflows; infinity: never.
    """

    cwnd: float = 10.0
    srtt: float | None = None
    ssthresh: float | None = None
    in_flight: int = 0
    queued: int = 0
    established: bool = True
    loss_state: bool = False
    backup: bool = False
    recovering: bool = False
    set: int | None = None
    beta: float | None = None
    since_penalty: float = math.inf


@dataclass(frozen=True)
class SendQueue:
    """The data of a connection, in segments.

    next: the first segment that no subflow was given (SEQ1). queued: the number of segments from `next` on; None:
    unlimited. taken: ranges beyond `next` that slower subflows were given already, in order; the scheduler considers
    the first 16 gaps between them. sent_on: the subflows that carried segment `next` before, if it must be sent again;
    not those whose TCP gave it up, which may carry it again. window_left: segments from `next` on that the receive
    window allows; None: all. buffer: size of the send buffer. oldest, oldest_sent_on: the oldest unacknowledged
    segment, and the subflows that carried it.
    """

    next: int = 0
    queued: int | None = None
    taken: Sequence[tuple[int, int]] = ()
    sent_on: Sequence[int] = ()
    window_left: int | None = None
    buffer: int | None = None
    oldest: int = 0
    oldest_sent_on: Sequence[int] = ()

    def spans(self) -> list[tuple[int, int]]:
        """(first, segments) of the ranges that no subflow was given."""
        left = _ENDLESS if self.queued is None else _whole("queued", self.queued)
        at, found = _whole("next", self.next), []
        for first, end in self.taken:
            if not at <= first < end:
                raise BadOption(f"taken: {first} to {end} is not in order")
            piece = min(left, first - at)
            if piece:
                found.append((at, piece))
            left -= piece
            at = end
        if left:
            found.append((at, left))
        return found


@dataclass(frozen=True)
class Decision:
    """action: wait, send, or reinject (the oldest unacknowledged segment once more, to open the receive window).

    subflow: its index in the list; None: wait. first, segments: the data. skipped: segments of the queue before the
    data, which are left to faster subflows. penalized: each subflow whose window must be halved -> its new cwnd and
    ssthresh.
    """

    action: str
    subflow: int | None
    first: int
    segments: int
    skipped: int
    penalized: dict[int, tuple[float, float]]


@dataclass(frozen=True)
class Prediction:
    """The segments that one faster subflow sends in `rounds` of its round trips; m: round trips for w + 1."""

    rounds: float
    m: float
    segments: float


@dataclass(frozen=True)
class Forecast:
    """parts: for each subflow of the list; None for one that is not faster or cannot send. segments: their sum, M.

    skipped: floor(M), at most the send buffer. first: the data sequence after these (SEQ2); None: the queue is shorter.
    """

    parts: list[Prediction | None]
    segments: float
    skipped: int
    first: int | None


class Scheduler:
    """One packet scheduler; keywords are its options. `rewindow schedulers` lists both.

    Raises UnknownScheduler, BadOption.
    """

    def __init__(self, name: str, **options: object) -> None:
        self.name = folded(name)
        handle, error = ffi.new("rw_scheduling **"), ffi.new("rw_error *")
        array, keep = choices_for([Choice(name, options)])
        status = lib.rw_scheduling_open(handle, array, error)
        del keep
        check(status, error)
        self._handle = ffi.gc(handle[0], lib.rw_scheduling_close)

    def pick(
        self,
        subflows: Sequence[SendingSubflow | Mapping[str, Any]],
        queue: SendQueue | None = None,
        previous: int | None = None,
    ) -> Decision:
        """Which subflow sends next, and which data. previous: the subflow of the decision before.

        Raises BadOption for numbers out of their range.
        """
        view = _view(subflows, queue or SendQueue(), previous)
        row, error = ffi.new("rw_decision_row *"), ffi.new("rw_error *")
        check(lib.rw_scheduling_pick(self._handle, view, row, error), error)
        penalized = {
            i: (row.cwnd_q16[i] / 65536, math.inf if row.ssthresh_q16[i] == _ALL_ONES else row.ssthresh_q16[i] / 65536)
            for i in range(len(subflows))
            if row.penalized >> i & 1
        }
        subflow = None if row.subflow == _NONE else int(row.subflow)
        return Decision(_ACTIONS[row.kind], subflow, row.first, row.segments, row.skipped, penalized)

    def forward(
        self, subflows: Sequence[SendingSubflow | Mapping[str, Any]], subflow: int, queue: SendQueue | None = None
    ) -> Forecast:
        """How much of the queue `subflow` leaves to the faster ones (fps, sbfps). Raises BadOption as `pick`."""
        data = queue or SendQueue()
        view = _view(subflows, data, None)
        each, skipped, error = ffi.new("rw_forward_row[8]"), ffi.new("uint64_t *"), ffi.new("rw_error *")
        place = _whole("subflow", subflow, _NONE)
        check(lib.rw_scheduling_forward(self._handle, view, place, each, skipped, error), error)
        parts = [
            Prediction(r.rounds_q24 / 2**24, r.m_q24 / 2**24, r.segments_q24 / 2**24) if r.m_q24 else None
            for r in each[0 : len(subflows)]
        ]
        total = sum(r.segments_q24 for r in each) / 2**24
        return Forecast(parts, total, int(skipped[0]), _after(data.spans(), int(skipped[0])))


def _after(spans: Sequence[tuple[int, int]], skipped: int) -> int | None:
    for first, segments in spans:
        if skipped < segments:
            return first + skipped
        skipped -= segments
    return None


def _whole(name: str, value: int, most: int = _SEQUENCE_MAX) -> int:
    if value != value or not 0 <= value <= most or value != int(value):
        raise BadOption(f"{name} must be a whole number from 0 to {most}, not {value}")
    return int(value)


def _scaled(name: str, value: float, scale: int, most: float) -> int:
    number = float(value)
    if not 0 <= number <= most:
        raise BadOption(f"{name} must be 0 to {most:g}, not {value}")
    return round(number * scale)


def _bits(name: str, places: Sequence[int], subflows: int) -> int:
    if any(not 0 <= i < subflows for i in places):
        raise BadOption(f"{name}: no such subflow")
    return sum(1 << i for i in set(places))


def _subflow(given: SendingSubflow | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, SendingSubflow):
        unknown = set(given) - {f.name for f in fields(SendingSubflow)}
        if unknown:
            raise BadOption(f"a subflow has no {', '.join(sorted(unknown))}")
        given = SendingSubflow(**given)
    cwnd = _scaled("cwnd", given.cwnd, 65536, 1 << 20)
    if given.ssthresh is None:
        ssthresh = cwnd
    elif given.ssthresh == math.inf:
        ssthresh = _ALL_ONES
    else:
        ssthresh = _scaled("ssthresh", given.ssthresh, 65536, 1 << 40)
    never = given.since_penalty == math.inf
    group = (given.beta is not None) if given.set is None else given.set
    return {
        "cwnd_q16": cwnd,
        "ssthresh_q16": ssthresh,
        "srtt_ns": 0 if given.srtt is None else max(_scaled("srtt", given.srtt, 10**9, 1000), 1),
        "since_penalty_ns": _ALL_ONES if never else _scaled("since_penalty", given.since_penalty, 10**9, 1e9),
        "beta_q32": _scaled("beta", 1.0 if given.beta is None else given.beta, 1 << 32, 1),
        "in_flight": _whole("in_flight", given.in_flight, _NONE),
        "queued": _whole("queued", given.queued, _NONE),
        "established": given.established,
        "lost": given.loss_state,
        "backup": given.backup,
        "recovering": given.recovering,
        "group": _whole("set", group, 255),
    }


def _view(subflows: Sequence[SendingSubflow | Mapping[str, Any]], queue: SendQueue, previous: int | None) -> Any:
    if not 1 <= len(subflows) <= 8:
        raise BadOption("a scheduler chooses among 1 to 8 subflows")
    spans = queue.spans()
    if queue.sent_on and spans:
        (first, segments), *rest = spans
        spans = [(first, 1), *([(first + 1, segments - 1)] if segments > 1 else []), *rest]
    carried = _bits("sent_on", queue.sent_on, len(subflows))
    window_end = _SEQUENCE_MAX if queue.window_left is None else queue.next + _whole("window_left", queue.window_left)
    return ffi.new(
        "rw_sending_view *",
        {
            "subflows": len(subflows),
            "previous": _NONE if previous is None else _whole("previous", previous, _NONE),
            "subflow": [_subflow(s) for s in subflows],
            "span": [
                {"first": first, "segments": segments, "sent_on": carried if number == 0 else 0}
                for number, (first, segments) in enumerate(spans[:_SPANS_MAX])
            ],
            "spans": min(len(spans), _SPANS_MAX),
            "oldest": _whole("oldest", queue.oldest),
            "oldest_sent_on": _bits("oldest_sent_on", queue.oldest_sent_on, len(subflows)),
            "window_end": min(window_end, _SEQUENCE_MAX),
            "buffer_segments": _SEQUENCE_MAX if queue.buffer is None else _whole("buffer", queue.buffer),
        },
    )
