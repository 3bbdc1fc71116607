"""What every oracle is made of: paths, sums over them, and the events that a connection has.

Exact rationals; logarithms, powers and roots in 50 digits. Windows in segments, times in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 50

FLOOR = Fraction(2)
LARGEST = Fraction(1 << 20)
SEGMENT_BYTES = 1460


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    return Fraction(decimal(base) ** decimal(exponent))


def square_root(x: Fraction) -> Fraction:
    return Fraction(decimal(x).sqrt())


def total(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


@dataclass
class Path:
    cwnd: Fraction
    rtt: Fraction | None
    ssthresh: Fraction | None = None
    """None: not set, the path is in its initial slow start."""
    peak: Fraction = Fraction(0)
    """The largest flight between the last two reductions; 0: there were none."""
    interval_bytes: int = 0
    """OLIA: acknowledged between the last two losses."""
    since_bytes: int = 0
    """OLIA: acknowledged since the last loss."""
    beta: Fraction = Fraction(1)
    group: int = 0
    """The set of subflows behind one bottleneck; 0: none."""
    live: bool = True
    flight: Fraction = Fraction(0)
    """The largest since the last reduction; 0: no ACK came."""
    ignore: int = 0
    """LISA: ACKed segments that still do not count."""
    una: int = 0
    round_end: int | None = None
    """SB-CC: the window of data under way, in segments; a whole window is in flight."""
    delivered: int = 0
    marked: int = 0

    @property
    def initial(self) -> bool:
        return self.ssthresh is None

    @property
    def in_slow_start(self) -> bool:
        return self.ssthresh is None or self.cwnd < self.ssthresh

    @property
    def counts(self) -> bool:
        """Whether it takes part in sums over rates."""
        return self.live and self.rtt is not None

    @property
    def ell(self) -> int:
        return max(self.interval_bytes, self.since_bytes)


def slow_start(p: Path, acked: Fraction) -> Fraction:
    """Grows up to ssthresh; returns what is left of acked."""
    if p.ssthresh is not None and p.cwnd >= p.ssthresh:
        return acked
    step = acked if p.ssthresh is None else min(acked, p.ssthresh - p.cwnd)
    p.cwnd = min(p.cwnd + step, LARGEST)
    return acked - step


@dataclass
class Oracle:
    """One connection. An algorithm says `increase`, for each acked segment of congestion avoidance, and `decrease`."""

    paths: list[Path] = field(default_factory=list)
    floor: Fraction = FLOOR

    def members(self, r: int) -> list[Path]:
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

    def ack(self, r: int, acked: int, marked: int = 0) -> None:
        p = self.paths[r]
        self.delivered(r, acked, marked)
        p.flight = max(p.flight, p.cwnd)
        self.grow(r, acked)
        p.cwnd = min(max(p.cwnd, Fraction(1)), LARGEST)

    def delivered(self, r: int, acked: int, marked: int) -> None:
        """Before the window grows."""

    def grow(self, r: int, acked: int) -> None:
        rest = slow_start(self.paths[r], Fraction(acked))
        if rest:
            self.paths[r].cwnd += rest * self.increase(r)

    def reduced(self, r: int) -> None:
        """After the decrease was computed: any loss, mark or timeout on r."""

    def end_interval(self, p: Path) -> None:
        if p.flight:
            p.peak = max(p.flight, p.cwnd)
        p.flight = Fraction(0)

    def reduce(self, r: int, decrease: Fraction) -> None:
        p = self.paths[r]
        p.ssthresh = max(p.cwnd - decrease, self.floor)
        p.cwnd = p.ssthresh

    def loss(self, r: int) -> None:
        self.end_interval(self.paths[r])
        for k in list(self.reacting(r)):
            self.reduce(k, self.decrease(k))
        self.reduced(r)

    def ece(self, r: int) -> None:
        self.end_interval(self.paths[r])
        self.reduce(r, self.marked_decrease(r))
        self.reduced(r)

    def timeout(self, r: int) -> None:
        self.end_interval(self.paths[r])
        self.reduce(r, self.timeout_decrease(r))
        self.paths[r].cwnd = Fraction(1)
        self.reduced(r)

    def join(self, p: Path) -> None:
        self.paths.append(p)

    def leave(self, r: int) -> None:
        self.paths[r].live = False

    def least_rtt(self, members: list[Path]) -> Fraction:
        return min(_rtt(p) for p in members)


def _rtt(p: Path) -> Fraction:
    assert p.rtt is not None
    return p.rtt


def rate(p: Path) -> Fraction:
    """x = w/R."""
    return p.cwnd / _rtt(p)


def quadratic(p: Path) -> Fraction:
    """w/R^2."""
    return p.cwnd / _rtt(p) ** 2
