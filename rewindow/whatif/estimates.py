"""First estimates of a bottleneck from the round trips and deliveries of the subflows that share it.

They are where the fit by simulation begins, not what it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewindow.whatif.jitter import jitter_s
from rewindow.whatif.network import Bottleneck, mtu_bytes
from rewindow.whatif.round_trips import LATE_S, Member, base_rtts_s, may_be_late, packet_bytes
from rewindow.whatif.unseen import unseen

Array = npt.NDArray[Any]

_WINDOWS_S, _STEP_SHARE = (3.0, 2.0, 1.0, 0.5, 0.25), 0.1
"""The longest with which the link was seen busy counts: rates of short windows err by the jumps of ACKs."""
_BUSY_WINDOWS = 3
_STEADY_SPREAD = 0.15
"""Of the rates of busy windows, their quartiles: where they differ more, others that are not seen take a part."""
_BACKLOG_PACKETS = 2.0
"""A queue that is never shorter than this within a window kept the link busy."""
_FULL_SHARE = 0.8
"""A loss beside a queue of this share of the longest one is taken for the queue's."""
_LOSSES_TELL, _LOSSES_TIMES = 3, 2
"""So many losses beside a long queue, and so many times the other ones, tell that it was full, where the link was not
busy."""
_SAME_LENGTH_PACKETS, _SAME_LENGTH, _MOST_ALIKE, _HALF_ALIKE = 1.5, 0.03, 0.75, 0.5
"""By how many packets, or by which share, queues may differ that had one length; which share of the losses must come at
such queues so that the length is known; and which one so that there was a full queue at all."""
_BURST_PACKETS, _BURST_TIMES = 5.0, 3.0
"""Lost packets, and times what chance loses of a window, beyond which a queue was full, whatever its delay was."""
_GLIMPSED_PACKETS = 20
_REGULAR, _REGULAR_SHARE = 0.1, 0.5
"""The logarithms of rates from ACK to ACK that lie so close together, and of how many of the bytes they do, where they
are the link's."""
_BACKLOG_TIMES = 1.5
"""A gap between ACKs, so many times, is less than the packets before it queued."""
_DENSE = 0.01
"""The width, in the logarithm of a rate, in which most of the bytes are looked for."""
_OFTEN, _EXPLAINED, _OF_FRACTION = 0.08, 0.5, 0.015
_FRACTIONS = np.log([1, 1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4, 1 / 5, 2 / 5, 3 / 5, 4 / 5])
"""Where others' packets lie between: how many bytes come at the link's rate, how many at all these fractions of it, and
how far from them."""
_EXACT, _EXACT_SHARE = 0.03, 0.6
"""The same, where nothing else was on the link."""
_OF_MEDIAN = float(np.sqrt(np.pi / 2))
"""The standard error of a median over that of a mean, of normal errors."""
_BESIDE_SD, _REGULAR_SD, _BUSY_SD, _SHORTLY_BUSY_SD, _GLIMPSED_SD = 0.001, 0.005, 0.015, 0.04, 0.1
"""Of the estimate's error in the logarithm of a rate: of ACKs with others' between, of regular ones, of long busy
windows, of shorter ones, of other ACKs beside a queue; as bench/predictions.py printed them for networks whose truth
is known."""
_LONG_WINDOW_S = 2.0
LONGEST = 99.5
"""The percentile that is taken for the longest queueing delay: single samples may be of a host that stalled."""

_UNMARKED_TIMES, _MARKS_TELL = 3.0, 3
"""Round trips without a mark, and marks after such."""
_FIRST_MARKED = 25.0
"""A percentile of the waits of marked packets."""
_IN_TRANSMISSION = 0.5
"""Of a packet: what is left of the one in transmission, on the mean, when another one comes. It is not in the queue."""

_STEP_WINDOW_S, _STEP_PACKETS = 0.25, 30
"""Steps of the rate are looked for in windows of this length, or longer where they had fewer packets."""
_STEP_LEAST, _STEP_LASTS_S = 0.15, 0.75
"""Steps are at least so large, and rates last at least so long."""
_STEP_NOISE = 0.02
"""The least standard deviation of the logarithm of a window's rate."""
_STEP_PENALTY = 6.0
"""For each step, times the logarithm of the number of windows."""
_STEPS_EXPLAIN, _STEPS_BUSY = 0.15, 0.5
"""Between steps a window's rate differs by at most so much (standard deviation of its logarithm), and in at least this
share of the windows the queue was never empty."""


@dataclass(frozen=True)
class Estimate:
    """busy: whether the link was seen at its rate for some time. rate_sd: how far off the logarithm of its rate may be;
    None: the rate was not seen, not even from ACK to ACK beside a queue. full: whether its queue was seen full;
    settled: again and again, so that its length is known. random_losses: how many losses look random. queued_packets:
    in the longest queue that was seen. packet_bytes: of a whole packet, on the mean of the subflows.
    """

    bottleneck: Bottleneck
    busy: bool
    rate_sd: float | None
    full: bool
    settled: bool
    random_losses: int
    queued_packets: float
    packet_bytes: float

    def with_unseen(self, algorithm: str | None) -> Estimate:
        """The same with unseen traffic of this kind, where there is some."""
        b = self.bottleneck
        if b.unseen is None:
            return self
        return replace(self, bottleneck=replace(b, unseen=replace(b.unseen, algorithm=algorithm)))


@dataclass(frozen=True)
class _Shared:
    """All subflows of a bottleneck on one axis of time."""

    time_s: Array
    bytes: Array
    """On the wire, delivered."""
    queue_time_s: Array
    queued_s: Array


def _merged(subflows: Sequence[Member], bases_s: Sequence[float | None]) -> _Shared:
    """bases_s: for each subflow the round trip without queue."""
    times, sizes, sampled, queued = [], [], [], []
    for (s, kind), base_s in zip(subflows, bases_s, strict=True):
        times.append(s.series.time_s)
        sizes.append(s.series.delivered * mtu_bytes(s, kind))
        known = ~np.isnan(s.series.rtt_s) & ~may_be_late(s)
        if s.sees_queues and base_s is not None:
            sampled.append(s.series.time_s[known])
            queued.append(np.maximum(s.series.rtt_s[known] - base_s, 0))
    none: list[Array] = [np.empty(0)]
    time, size = np.concatenate(times or none), np.concatenate(sizes or none)
    at, wait = np.concatenate(sampled or none), np.concatenate(queued or none)
    order, order_waits = np.argsort(time, kind="stable"), np.argsort(at, kind="stable")
    return _Shared(time[order], size[order], at[order_waits], wait[order_waits])


def _rates(shared: _Shared, window_s: float) -> tuple[Array, Array]:
    """Starts of windows, and the bytes per second that were delivered in each."""
    if len(shared.time_s) < 2:
        return np.empty(0), np.empty(0)
    begin, end = shared.time_s[0], shared.time_s[-1]
    starts = np.arange(begin, max(end - window_s, begin) + 1e-9, window_s * _STEP_SHARE)
    total = np.r_[0.0, np.cumsum(shared.bytes)]
    first = np.searchsorted(shared.time_s, starts, "right")
    last = np.searchsorted(shared.time_s, starts + window_s, "right")
    # From ACK to ACK: what the first one delivered was sent before.
    spans = shared.time_s[np.maximum(last - 1, 0)] - shared.time_s[np.minimum(first, len(shared.time_s) - 1)]
    delivered = total[last] - total[np.minimum(first + 1, len(total) - 1)]
    some = (last - first > 4) & (spans > window_s / 2)
    return starts[some], delivered[some] / spans[some]


def _rate(shared: _Shared, packet_bytes: float) -> tuple[float, float | None]:
    """Bytes per second, 0 where too little was delivered; and how long the windows are that saw the link busy."""
    fastest = 0.0
    for window_s in _WINDOWS_S:
        starts, rates = _rates(shared, window_s)
        if not len(rates):
            continue
        fastest = max(fastest, float(rates.max()))
        backlogged = _least_waits(shared, starts, window_s) > _BACKLOG_PACKETS * packet_bytes / fastest
        if np.count_nonzero(backlogged) >= _BUSY_WINDOWS:
            low, middle, high = np.percentile(rates[backlogged], (25, 50, 75))
            if high - low <= _STEADY_SPREAD * middle and middle >= (1 - _STEADY_SPREAD) * fastest:
                return float(middle), window_s
    return fastest, None


def _factors(shared: _Shared, packet_bytes: float) -> tuple[float, tuple[tuple[float, float], ...]]:
    """The rate that lasts longest, bytes per second, and where it changes, as in Bottleneck; empty: no steps are seen.

    Rates of windows in which the queue was never empty, in pieces that are constant: the least sum of squares and of
    the steps' penalties (optimal partitioning, Jackson et al. 2005).
    """
    fastest = max((float(rates.max()) for _, rates in [_rates(shared, 1.0)] if len(rates)), default=0.0)
    if not fastest:
        return 0.0, ()
    window_s = max(_STEP_WINDOW_S, _STEP_PACKETS * packet_bytes / fastest)
    edges = np.arange(shared.time_s[0], shared.time_s[-1], window_s)
    place = np.searchsorted(shared.time_s, edges, "right")
    spans = np.diff(shared.time_s[np.maximum(place - 1, 0)])
    rates = np.diff(np.r_[0.0, np.cumsum(shared.bytes)][place]) / np.maximum(spans, 1e-9)
    busy = (spans > window_s / 2) & (
        _least_waits(shared, edges[:-1], window_s) * rates > _BACKLOG_PACKETS * packet_bytes
    )
    least = max(int(np.ceil(_STEP_LASTS_S / window_s)), 2)
    if np.count_nonzero(busy) < max(_STEPS_BUSY * len(busy), 2 * least):
        return 0.0, ()
    starts, log = edges[:-1][busy], np.log(rates[busy])
    noise = max(1.4826 * float(np.median(np.abs(np.diff(log)))) / np.sqrt(2), _STEP_NOISE)
    pieces = _joined(log, _pieces(log / noise, least))
    # The middle one: windows in which the rate changes lie between two rates.
    middles = [float(np.median(log[a:b])) for a, b in pieces]
    left = np.concatenate([log[a:b] - middle for (a, b), middle in zip(pieces, middles, strict=True)])
    if len(pieces) < 2 or left.std() > _STEPS_EXPLAIN:
        return 0.0, ()
    longest = middles[int(np.argmax([b - a for a, b in pieces]))]
    factors = tuple(
        (float(starts[a]), float(np.exp(middle - longest))) for (a, _), middle in zip(pieces, middles, strict=True)
    )
    return float(np.exp(longest)), factors


def _pieces(values: Array, least: int) -> list[tuple[int, int]]:
    """Of numbers whose standard deviation within a piece is 1; each piece has `least` or more of them."""
    count = len(values)
    sums, squares = np.r_[0.0, np.cumsum(values)], np.r_[0.0, np.cumsum(values**2)]
    penalty = _STEP_PENALTY * np.log(count)
    cost, before = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    cost[0] = 0.0
    for end in range(least, count + 1):
        begin = np.arange(end - least + 1)
        within = squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / (end - begin)
        candidates = cost[begin] + within + penalty
        before[end] = int(np.argmin(candidates))
        cost[end] = candidates[before[end]]
    found, end = [], count
    while end:
        found.append((int(before[end]), end))
        end = int(before[end])
    return found[::-1]


def _joined(log: Array, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring pieces whose rates differ by less than a step become one."""
    found = [pieces[0]]
    for begin, end in pieces[1:]:
        first, last = found[-1]
        if abs(np.median(log[begin:end]) - np.median(log[first:last])) < _STEP_LEAST:
            found[-1] = (first, end)
        else:
            found.append((begin, end))
    return found


def _factor_at(factors: tuple[tuple[float, float], ...], time_s: Array) -> Array:
    starts, values = np.array(factors).T
    found: Array = values[np.maximum(np.searchsorted(starts, time_s, "right") - 1, 0)]
    return found


def _least_waits(shared: _Shared, starts: Array, window_s: float) -> Array:
    """For each window a low percentile of the queueing delay; 0 where there is no sample."""
    found = np.zeros(len(starts))
    first = np.searchsorted(shared.queue_time_s, starts)
    last = np.searchsorted(shared.queue_time_s, starts + window_s)
    for i, (a, b) in enumerate(zip(first, last, strict=True)):
        if b > a:
            found[i] = np.percentile(shared.queued_s[a:b], 5)
    return found


def _at_one_rate(shared: _Shared, factors: tuple[tuple[float, float], ...]) -> _Shared:
    """Waits as long as the same packets take at the rate that the factors are of.

    When a step came is known roughly.
    """
    if not factors:
        return shared
    entered = _factor_at(factors, shared.queue_time_s - shared.queued_s - _STEP_LASTS_S)
    scale = np.minimum(_factor_at(factors, shared.queue_time_s), entered)
    return replace(shared, queued_s=shared.queued_s * scale)


def estimate(subflows: Sequence[Member]) -> Estimate:
    """Of the bottleneck that these subflows share."""
    shared = _merged(subflows, [s.shortest_rtt_s for s, _ in subflows])
    packet = packet_bytes(subflows)
    rate, window_s = _rate(shared, packet)
    busy, factors = window_s is not None, tuple[tuple[float, float], ...]()
    rate_sd = None if window_s is None else _BUSY_SD if window_s >= _LONG_WINDOW_S else _SHORTLY_BUSY_SD
    if rate and not busy:
        steady, factors = _factors(shared, packet)
        if factors:
            rate, busy, rate_sd = steady, True, _BUSY_SD
    if not rate:
        return Estimate(Bottleneck(1e6, None, None, 0.0), False, None, False, False, 0, 0.0, packet)
    exact = _rate_between_acks(shared, packet, _EXACT)
    is_exact = exact is not None and exact.agreeing >= _EXACT_SHARE
    beside = exact.bytes_per_s if exact is not None and is_exact else _told_by_one(subflows, shared, packet)
    if factors and beside is not None and _is_constant(shared, packet, beside, factors):
        rate, factors = beside, ()
    glimpsed = _rate_between_acks(_at_one_rate(shared, factors), packet, _REGULAR)
    if glimpsed and not factors:
        regular = glimpsed.agreeing >= _REGULAR_SHARE
        is_near = regular and abs(np.log(glimpsed.bytes_per_s / rate)) < _STEADY_SPREAD
        if exact is not None and is_exact and (not busy or is_near or exact.bytes_per_s > rate):
            rate, rate_sd = glimpsed.bytes_per_s, _exact_sd(exact)
        elif beside is not None and beside > rate * (1 - _STEADY_SPREAD):
            rate, rate_sd = beside, _BESIDE_SD
        elif not busy or is_near:
            rate = glimpsed.bytes_per_s if regular else max(rate, glimpsed.bytes_per_s)
            rate_sd = _REGULAR_SD if regular else _GLIMPSED_SD
    link = Bottleneck(rate * 8, None, None, 0.0, factors)
    bases = base_rtts_s(subflows, link)
    shared = _at_one_rate(_merged(subflows, bases), factors)
    longest = float(np.percentile(shared.queued_s, LONGEST)) if len(shared.queued_s) else 0.0
    losses = _causes_of_losses(subflows, bases, shared, longest, packet / rate)
    beside_full, elsewhere = len(losses.full_waits_s), len(losses.random)
    settled = beside_full > elsewhere / 4 if busy else beside_full >= max(_LOSSES_TELL, _LOSSES_TIMES * elsewhere)
    # A full queue has one length. What chance loses comes beside long queues, too, since it stops their growth.
    alike = _agreeing(losses.full_waits_s, packet / rate) / max(beside_full, 1)
    full = (settled and (alike >= _HALF_ALIKE or beside_full < _LOSSES_TELL)) or losses.bursts
    settled = settled and (losses.bursts or (beside_full > 1 and alike >= _MOST_ALIKE))
    if not settled and losses.bursts:
        longest = max(losses.full_waits_s)
    queue = max(longest * rate / packet, 2.0)
    marking = _marking(subflows, bases)
    sent = sum(s.facts.packets for s, _ in subflows)
    random = losses.random if full else [*losses.random, *losses.full_lost]
    return Estimate(
        replace(
            link,
            queue_packets=queue if full else None,
            ecn_packets=None if marking is None else max(marking * rate / packet - _IN_TRANSMISSION, 1.0),
            loss=float(sum(random)) / sent if sent else 0.0,
            jitter_s=(jitter_s(subflows, rate) if rate_sd == _BUSY_SD else None) or 0.0,
            unseen=unseen(subflows, bases, link) if rate_sd is not None and rate_sd <= _REGULAR_SD else None,
        ),
        busy, rate_sd, full, settled, len(random), longest * rate / packet, packet,
    )  # fmt: skip


def _exact_sd(rate: RateBetweenAcks) -> float:
    """Of the error in the logarithm of a rate, where nothing else was on the link: of simulated captures, as
    bench/calibration.py draws them. A packet that is late makes the gap before it longer, and the one after it shorter,
    so that the median is better known than that of independent gaps.
    """
    return float(np.hypot(2e-5, rate.error * (0.22 + 3.5 * (1 - rate.agreeing))))


@dataclass(frozen=True)
class RateBetweenAcks:
    """agreeing: the share of the bytes that came at this rate, as far as the tolerance goes. error: the standard error
    of the rate's logarithm, if gaps were independent of one another.
    """

    bytes_per_s: float
    agreeing: float
    error: float


def rate_between_acks(subflows: Sequence[Member], tolerance: float) -> RateBetweenAcks | None:
    """Of the link that these subflows share. tolerance: in the logarithm of a rate. None: few ACKs tell."""
    packet = packet_bytes(subflows)
    return _rate_between_acks(_merged(subflows, [s.shortest_rtt_s for s, _ in subflows]), packet, tolerance)


class _Gaps(NamedTuple):
    """Between ACKs while packets queued, in order of their rates: logarithms of bytes per second, and the bytes up to
    each of them.
    """

    log: Array
    sums: Array

    def middle(self, first: int, end: int) -> float:
        """The median over bytes of a part."""
        return float(self.log[np.searchsorted(self.sums[1:], (self.sums[first] + self.sums[end]) / 2)])

    def within(self, low: float, high: float) -> tuple[int, int]:
        """The part whose logarithms are between these two."""
        first, end = np.searchsorted(self.log, (low, high))
        return int(first), int(end)

    def share(self, low: float, high: float) -> float:
        """Of the bytes."""
        first, end = self.within(low, high)
        return float((self.sums[end] - self.sums[first]) / self.sums[-1])

    def masses(self) -> tuple[Array, Array]:
        """For each gap the end of the _DENSE part that begins with it, and the part's share of the bytes."""
        ends = np.searchsorted(self.log, self.log + _DENSE, "right")
        return ends, (self.sums[ends] - self.sums[:-1]) / self.sums[-1]


def _gaps(shared: _Shared, packet_bytes: float) -> _Gaps | None:
    """While packets queue, the link sends one after the other, so ACKs come as its packets do (packet pairs: Keshav
    1991). A gap counts that is shorter than the packets before it queued: a paced sender's packets come at its own rate
    where they do not queue. None: few gaps tell.
    """
    if len(shared.time_s) < 2 or not len(shared.queue_time_s):
        return None
    gaps, delivered = np.diff(shared.time_s), shared.bytes[1:]
    waits = shared.queued_s[np.maximum(np.searchsorted(shared.queue_time_s, shared.time_s[1:], "right") - 1, 0)]
    backlogged = (_BACKLOG_TIMES * gaps < waits) & (gaps < LATE_S) & (gaps > 0) & (delivered > 0)
    gaps, delivered = gaps[backlogged], delivered[backlogged]
    if float(delivered.sum()) <= _GLIMPSED_PACKETS * packet_bytes:
        return None
    log = np.log(delivered / gaps)
    order = np.argsort(log)
    return _Gaps(log[order], np.r_[0.0, np.cumsum(delivered[order])])


def _rate_between_acks(shared: _Shared, packet_bytes: float, tolerance: float) -> RateBetweenAcks | None:
    """The median over bytes: a gap in which the link was idle is too long, and ACKs that waited for each other come too
    fast. Near it, where most of the bytes come.
    """
    gaps = _gaps(shared, packet_bytes)
    if gaps is None:
        return None
    found = gaps.middle(0, len(gaps.log))
    agreeing = gaps.share(found - tolerance, found + tolerance)
    ends, masses = gaps.masses()
    first = int(np.argmax(masses))
    dense = gaps.middle(first, int(ends[first]))
    if abs(dense - found) < tolerance:
        found = gaps.middle(*gaps.within(dense - tolerance, dense + tolerance))
    some = gaps.log[slice(*gaps.within(found - tolerance, found + tolerance))]
    error = _OF_MEDIAN * float(some.std()) / np.sqrt(len(some)) if len(some) else tolerance
    return RateBetweenAcks(float(np.exp(found)), agreeing, error)


def _is_constant(shared: _Shared, packet_bytes: float, rate: float, factors: tuple[tuple[float, float], ...]) -> bool:
    """Whether some ACKs come at this rate where less of it seems to be left: where a link's rate changes, none do."""
    starts = [at_s for at_s, _ in factors]
    for begin, end in zip([-np.inf, *starts[1:]], [*starts[1:], np.inf], strict=True):
        acks = (shared.time_s >= begin) & (shared.time_s < end)
        part = replace(shared, time_s=shared.time_s[acks], bytes=shared.bytes[acks])
        gaps = _gaps(part, packet_bytes)
        if gaps is not None and gaps.share(np.log(rate) - _EXACT, np.log(rate) + _EXACT) < _OFTEN:
            return False
    return True


def _told_by_one(subflows: Sequence[Member], shared: _Shared, packet_bytes: float) -> float | None:
    """As _rate_beside_others has it, of all subflows or of the largest one that tells: where the ways after the link
    differ in length, ACKs of two do not come as the link's packets do.
    """
    largest_first = sorted(subflows, key=lambda m: -m[0].facts.bytes)
    alone = (_merged([m], [m[0].shortest_rtt_s]) for m in largest_first)
    found = (_rate_beside_others(one, packet_bytes) for one in (shared, *alone))
    return next((rate for rate in found if rate is not None), None)


def _rate_beside_others(shared: _Shared, packet_bytes: float) -> float | None:
    """Bytes per second of a link that packets of others share, one or several between two of the subflows'.

    Then ACKs come at the link's rate and at simple fractions of it: it is the highest rate at which many come, if these
    fractions explain the other ones. None: they do not.
    """
    gaps = _gaps(shared, packet_bytes)
    if gaps is None:
        return None
    _, masses = gaps.masses()
    many = np.flatnonzero(masses >= _OFTEN)
    if not len(many):
        return None
    first, _ = gaps.within(gaps.log[many[-1]] - 2 * _DENSE, np.inf)
    first += int(np.argmax(masses[first:]))
    low = gaps.log[first]
    found = gaps.middle(*gaps.within(low - _DENSE / 2, low + 1.5 * _DENSE))
    explained = sum(gaps.share(found + f - _OF_FRACTION, found + f + _OF_FRACTION) for f in _FRACTIONS)
    return float(np.exp(found)) if explained >= _EXPLAINED else None


def _wait_before(shared: _Shared, at_s: float, span_s: float) -> float:
    """The longest queueing delay in the round trip before a time; 0 where there is no sample."""
    first, last = np.searchsorted(shared.queue_time_s, (at_s - span_s, at_s))
    return float(shared.queued_s[first:last].max()) if last > first else 0.0


@dataclass(frozen=True)
class _Losses:
    """random: for each loss beside a queue with room how many packets. full_lost, full_waits_s: of each other one, with
    the queueing delay before it. bursts: whether so many packets were lost at once that a queue must have been full.
    """

    random: list[float]
    full_lost: list[float]
    full_waits_s: list[float]
    bursts: bool


def _causes_of_losses(
    subflows: Sequence[Member], bases_s: Sequence[float | None], shared: _Shared, longest_s: float, packet_s: float
) -> _Losses:
    """packet_s: how long the link takes for a packet."""
    found = _Losses([], [], [], False)
    bursts = False
    chance = sum(len(s.series.losses_s) for s, _ in subflows) / max(sum(s.facts.packets for s, _ in subflows), 1)
    for (s, _), base_s in zip(subflows, bases_s, strict=True):
        for at_s, lost in zip(s.series.losses_s, s.series.lost, strict=True):
            wait = _wait_before(shared, at_s, 2 * (base_s or 0.0) + longest_s)
            by_chance = chance * ((base_s or 0.0) + wait) / packet_s
            burst = s.sees_queues and lost > _BURST_PACKETS + _BURST_TIMES * by_chance and wait > packet_s
            bursts |= bool(burst)
            if burst or not s.sees_queues or wait >= _FULL_SHARE * longest_s:
                found.full_lost.append(float(lost))
                found.full_waits_s.append(wait)
            else:
                found.random.append(float(lost))
    return replace(found, bursts=bursts)


def _agreeing(waits_s: Sequence[float], packet_s: float) -> int:
    """How many of them are alike, at most."""
    ordered = np.sort(waits_s)
    lowest = ordered - np.maximum(_SAME_LENGTH_PACKETS * packet_s, _SAME_LENGTH * ordered)
    return int((np.arange(len(ordered)) + 1 - np.searchsorted(ordered, lowest)).max(initial=0))


def _marking(subflows: Sequence[Member], bases_s: Sequence[float | None]) -> float | None:
    """The queueing delay of the packets that were marked first, seconds; None: nothing was marked.

    The ACK at which a sender reacts answers the packet that was marked. The queue may have been longer than the
    threshold when it came: the first packet beyond the threshold may be another subflow's, and a queue that marks do
    not shorten (BBR) stays beyond it. So the first marks count, and those after some round trips without one; of few,
    the shortest delay. An ACK that ends a recovery answers a packet that was sent again: it counts only if no other
    one tells.
    """
    first: list[float] = []
    of_repairs: list[float] = []
    for (s, _), base_s in zip(subflows, bases_s, strict=True):
        known = np.flatnonzero(~np.isnan(s.series.rtt_s))
        if not len(known) or base_s is None or not s.sees_queues:
            continue
        marks = s.series.marks_s[s.series.marks_s >= s.series.time_s[known[0]]]
        last = np.searchsorted(s.series.time_s[known], marks, "right") - 1
        waits = s.series.rtt_s[known][last] - base_s
        rare, in_order = np.diff(marks, prepend=-np.inf) > _UNMARKED_TIMES * base_s, s.series.in_order[known][last]
        first += waits[rare & in_order].tolist()
        of_repairs += waits[rare & ~in_order].tolist()
    first = first or of_repairs
    if not first:
        return None
    return max(float(np.percentile(first, _FIRST_MARKED)) if len(first) >= _MARKS_TELL else min(first), 0.0)
