"""The base of every oracle: paths, sums over them, and the events of a connection.

Exact rationals; logarithms, powers and roots in 50 digits. Windows in segments, times in seconds.

An algorithm's oracle is a subclass of `Oracle`. The events (`ack`, `loss`, `timeout`, ...) are the caller's, as in
core-c/include/rw_control.h. An algorithm overrides the methods under "The algorithm's part", which are the callbacks of
that contract. `Oracle.words` lists the words that the algorithm keeps of each path, by their names in the C file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction
from typing import Any, ClassVar

getcontext().prec = 50

FLOOR = Fraction(2)
LARGEST = Fraction(1 << 20)
SEGMENT_BYTES = 1460
STATIC = Fraction(65535 * 65536 // SEGMENT_BYTES, 65536)
"""65535 bytes, in segments of which the controllers keep 16 fractional bits."""
NS = 10**9


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    return Fraction(decimal(base) ** decimal(exponent))


def square_root(x: Fraction) -> Fraction:
    return Fraction(decimal(x).sqrt())


def total(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def smoothed(srtt: Fraction | None, sample: Fraction) -> Fraction:
    """RFC 6298's, in whole nanoseconds."""
    if srtt is None:
        return sample
    was, now = int(srtt * NS), int(sample * NS)
    step = abs(now - was) // 8
    return Fraction(was + step if now > was else was - step, NS)


@dataclass(frozen=True)
class Word:
    """A word of the algorithm, by its name in the C file, and the oracle's attribute for it."""

    attribute: str
    least: int = 0
    most: int = 0
    """Bounds of the values that a path may be given; both 0: it is not given and follows from events."""
    tolerance: Fraction = Fraction(0)
    """The allowed difference of the controller after one event."""

    @property
    def is_given(self) -> bool:
        return self.most > self.least


@dataclass(frozen=True)
class Setting:
    """An option of the oracle: the attribute that it sets, and the attribute's value for some of the option's
    values."""

    attribute: str
    values: Mapping[str, Any]


@dataclass
class Path:
    cwnd: Fraction
    rtt: Fraction | None
    """Smoothed; None: there was no sample."""
    ssthresh: Fraction | None = None
    """None: not set, the path is in its initial slow start."""
    peak: Fraction = Fraction(0)
    """The largest flight between the last two reductions; 0: there were none."""
    group: int = 0
    """The set of subflows behind one bottleneck; 0: none."""
    group_state: str = ""
    """monitor, judgement or final; "": final in a set, monitor outside of one."""
    recovering: bool = False
    """Its window counts as ssthresh, and does not grow."""
    live: bool = True
    flight: Fraction = Fraction(0)
    """The largest since the last reduction; 0: no ACK came."""
    una: int = 0
    """Segments acknowledged: a sequence number. A whole window is in flight."""

    @property
    def in_slow_start(self) -> bool:
        return self.ssthresh is None or self.cwnd < self.ssthresh

    @property
    def window(self) -> Fraction:
        """That counts in sums."""
        return self.ssthresh if self.recovering and self.ssthresh is not None else self.cwnd

    @property
    def counts(self) -> bool:
        """Whether it takes part in sums over rates."""
        return self.live and self.rtt is not None

    @property
    def is_final(self) -> bool:
        return self.group_state == "final" if self.group_state else self.group > 0

    @property
    def final_group(self) -> int:
        """The set that it is coupled with: only a final one couples."""
        return self.group if self.is_final else 0


def slow_start(p: Path, acked: Fraction) -> Fraction:
    """Grows up to ssthresh; returns what is left of acked."""
    if p.ssthresh is not None and p.cwnd >= p.ssthresh:
        return acked
    step = acked if p.ssthresh is None else min(acked, p.ssthresh - p.cwnd)
    p.cwnd = min(p.cwnd + step, LARGEST)
    return acked - step


FIRST_THRESHOLD = {"ssthresh": Setting("static", {"none": False, "static": True})}
"""The option of the papers' baselines."""


@dataclass
class Oracle:
    """One connection. An algorithm defines `increase`, for each acked segment of congestion avoidance, and
    `decrease`."""

    path_class: ClassVar[type[Path]] = Path
    words: ClassVar[Mapping[str, Word]] = {}
    """The algorithm's words of a path, which tests give to paths and compare after each event."""
    connection_words: ClassVar[Mapping[str, Word]] = {}
    """The algorithm's words of the connection, which tests only compare."""
    results: ClassVar[frozenset[str]] = frozenset()
    """Words of a path that only describe the last step; later steps do not depend on them."""
    settings: ClassVar[Mapping[str, Setting]] = {
        "min_ssthresh": Setting("floor", {"1": Fraction(1), "2": Fraction(2), "7.5": Fraction(15, 2)})
    }
    """Options that the oracle has; the first value of the registry is the attribute's default."""

    decided_elsewhere: ClassVar[Mapping[str, str]] = {}
    """Decisions, by their text or by their function -> the test that compares them instead."""

    paths: list[Any] = field(default_factory=list)
    floor: Fraction = FLOOR
    static: bool = False
    """ssthresh=static: a subflow begins with 65535 bytes."""
    undecided: bool = field(default=False, init=False)
    """A decision was so close that rounding could change it."""
    now: Fraction = field(default=Fraction(0), init=False)
    """When the last ACK came, seconds."""
    prior: dict[int, tuple[Fraction, Fraction | None]] = field(default_factory=dict, init=False)
    """Window and ssthresh before the last reduction of a path, which may be undone."""

    def __post_init__(self) -> None:
        self.untold = any(p.is_final for p in self.paths)
        for r in range(len(self.paths)):
            self.begin_path(r)

    # The algorithm's part: the contract's callbacks, with their defaults.

    def members(self, r: int) -> list[Any]:
        """The paths that couple with r."""
        return [p for p in self.paths if p.counts]

    def increase(self, r: int) -> Fraction:
        return 1 / self.paths[r].cwnd

    def decrease(self, r: int) -> Fraction:
        return self.paths[r].cwnd / 2

    def marked_decrease(self, r: int) -> Fraction:
        """On an ECN echo."""
        return self.decrease(r)

    def timeout_decrease(self, r: int) -> Fraction:
        """A timeout is not the partial event that coupled decreases model."""
        return self.paths[r].cwnd / 2

    def reacting(self, r: int) -> Iterator[int]:
        """The paths that a loss on r reduces."""
        yield r

    def grow(self, r: int, acked: int) -> None:
        """`ack` of the contract."""
        rest = slow_start(self.paths[r], Fraction(acked))
        if rest:
            self.paths[r].cwnd += rest * self.increase(r)

    def reduced(self, r: int) -> None:
        """After the decrease was computed: any loss, mark or timeout on r."""

    def undone(self, r: int) -> None:
        """Its window and ssthresh are back."""

    def begin(self, r: int) -> None:
        """It has taken its place."""
        if self.static and self.paths[r].ssthresh is None:
            self.paths[r].ssthresh = STATIC

    def joined(self, r: int) -> None: ...

    def leaving(self, r: int) -> None:
        """It still is live."""

    def delivered(self, r: int, acked: int, marked: int) -> None: ...

    def sampled(self, r: int, rtt: Fraction | None, newest: Fraction | None) -> None:
        """An RTT, of the oldest and of the newest segment that the ACK covers; the smoothed one has it already."""

    def withheld(self, r: int, acked: int) -> None: ...

    def idled(self, r: int, seconds: Fraction, now: Fraction) -> None: ...

    def grouped(self, r: int) -> None:
        """Its set, or how final that is, has changed."""

    def regrouped(self) -> None:
        """All paths of one decision have been told of."""

    def resumes(self, r: int) -> bool:
        """The sender is seen to go on doubling: back to slow start?"""
        return False

    def above(self, a: Fraction, b: Fraction, within: Fraction) -> bool:
        """a > b, for values that the controller rounds: undecided where they are closer than `within`."""
        self.undecided = self.undecided or abs(a - b) <= within
        return a > b

    # Events of a connection.

    def begin_path(self, r: int) -> None:
        self.begin(r)
        if self.paths[r].rtt is not None:
            self.sampled(r, self.paths[r].rtt, None)

    def tell_given_sets(self) -> None:
        """The sets that paths were given are complete with the first event."""
        if self.untold:
            self.untold = False
            self.regrouped()

    def ack(
        self, r: int, acked: int, marked: int = 0, rtt: Fraction | None = None, newest: Fraction | None = None,
        now: Fraction = Fraction(0), growth: str = "allowed",
    ) -> None:  # fmt: skip
        self.tell_given_sets()
        p = self.paths[r]
        p.una += acked
        self.now = now
        if acked:
            self.delivered(r, acked, marked)
        if rtt is not None:
            p.rtt = smoothed(p.rtt, rtt)
        if rtt is not None or newest is not None:
            self.sampled(r, rtt, newest)
        if growth == "withheld":
            self.withheld(r, acked)
        if growth != "allowed":
            return
        p.flight = max(p.flight, p.cwnd)
        self.grow(r, acked)
        p.cwnd = min(max(p.cwnd, Fraction(1)), LARGEST)

    def end_interval(self, p: Path) -> None:
        if p.flight:
            p.peak = max(p.flight, p.cwnd)
        p.flight = Fraction(0)

    def reduce(self, r: int, decrease: Fraction) -> None:
        p = self.paths[r]
        p.ssthresh = max(p.cwnd - decrease, self.floor)
        p.cwnd = p.ssthresh

    def begin_reduction(self, r: int) -> None:
        self.tell_given_sets()
        p = self.paths[r]
        quarters = Fraction(int(p.cwnd) // 2 + int(p.cwnd) // 4)
        self.prior[r] = p.cwnd, None if p.ssthresh is None else max(p.ssthresh, quarters)
        self.end_interval(p)

    def loss(self, r: int) -> None:
        self.begin_reduction(r)
        for k, decrease in [(k, self.decrease(k)) for k in self.reacting(r)]:
            self.reduce(k, decrease)
        self.reduced(r)
        self.paths[r].recovering = False

    def ece(self, r: int) -> None:
        self.begin_reduction(r)
        self.reduce(r, self.marked_decrease(r))
        self.reduced(r)
        self.paths[r].recovering = False

    def timeout(self, r: int) -> None:
        self.begin_reduction(r)
        self.reduce(r, self.timeout_decrease(r))
        self.paths[r].cwnd = Fraction(1)
        self.reduced(r)
        self.paths[r].recovering = False

    def undo(self, r: int) -> None:
        self.tell_given_sets()
        p = self.paths[r]
        cwnd, ssthresh = self.prior.pop(r)
        p.cwnd = max(p.cwnd, cwnd)
        assert p.ssthresh is not None
        p.ssthresh = None if ssthresh is None else max(p.ssthresh, ssthresh)
        self.undone(r)
        p.recovering = False

    def idle(self, r: int, seconds: Fraction, now: Fraction) -> None:
        self.tell_given_sets()
        self.idled(r, seconds, now)

    def resume(self, r: int) -> bool:
        self.tell_given_sets()
        return self.resumes(r)

    def place(self, r: int, group: int, state: str) -> None:
        p = self.paths[r]
        now = "final" if p.is_final else p.group_state or "monitor"
        if (p.group, now) != (group, state):
            p.group, p.group_state = group, state
            self.grouped(r)

    def verdict(self, sets: Mapping[int, int], state: str) -> None:
        """A detector's decision on these paths; 0: no set."""
        self.tell_given_sets()
        for r, group in sets.items():
            self.place(r, group, state)
        self.regrouped()

    def join(self, p: Path) -> None:
        self.paths.append(p)
        self.begin_path(len(self.paths) - 1)
        self.joined(len(self.paths) - 1)

    def leave(self, r: int) -> None:
        """A set of which fewer than two are left dissolves."""
        self.tell_given_sets()
        group = self.paths[r].group
        others = [k for k, q in enumerate(self.paths) if k != r and q.live and q.group == group]
        if group and len(others) == 1:
            for k in (r, others[0]):
                self.place(k, 0, "monitor")
            self.regrouped()
        self.leaving(r)
        self.paths[r].live = False

    def least_rtt(self, members: list[Any]) -> Fraction:
        return min(_rtt(p) for p in members)


def _rtt(p: Path) -> Fraction:
    assert p.rtt is not None
    return p.rtt


def rate(p: Path) -> Fraction:
    """x = w/R."""
    return p.window / _rtt(p)


def quadratic(p: Path) -> Fraction:
    """w/R^2."""
    return p.window / _rtt(p) ** 2
