"""Writes tests/captures/mptcp-recurrences.pcap, in which every recurrence that the monitor follows takes part.

    python -m tests.recurrences FILE

Four subflows of an MPTCP connection, each a NewReno sender with SACK, timestamps and ECN (RFC 5681, 6675, 7323, 3168),
cross paths of 20 to 100 ms. The network delays, drops and marks the segments that SCRIPT names. So the capture has
losses, marks, timeouts, reductions that are undone (before the exit from coupled slow start, across it, after a
timeout), subflows that close before and after the exit while others go on, a place that is taken again, and an idle
time. A second connection closes before its exit. Nothing is random: the bytes are the same every time.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.packets import ACK, CWR, ECE, FIN, SYN, Trace, sack

MSS = 536  # without the options
MS = 1_000_000
TIMEOUT_NS = 300 * MS
STACK_NS = 10_000  # from an ACK to what it sets free
INITIAL_WINDOW = 10
CLIENT_KEY = 0x0102030405060708
DELAYED_ACK_NS = 40 * MS
ECT, CE = 2, 3


def _token(key: int) -> int:
    return int.from_bytes(hashlib.sha256(struct.pack("!Q", key)).digest()[:4], "big")


def _capable(*keys: int) -> bytes:
    return bytes([30, 4 + 8 * len(keys), 1, 1]) + b"".join(struct.pack("!Q", key) for key in keys)


@dataclass(frozen=True)
class Fate:
    """What happens to segments that a subflow sends from `begins` to before `ends` (ms).

    what: drop, mark, or a delay in ms. only: at most so many segments.
    """

    subflow: int
    begins: float
    ends: float
    what: str | float
    only: int = 1 << 30


@dataclass
class Network:
    """Events in time's order, and the capture beside the sender."""

    trace: Trace = field(default_factory=Trace)
    now: int = 0
    fates: list[list[object]] = field(default_factory=list)
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)

    def at(self, time: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), what))

    def run(self) -> None:
        while self._events:
            self.now, _, what = heapq.heappop(self._events)
            what()

    def fate(self, subflow: int) -> str | float:
        for fate in self.fates:
            f, left = fate
            assert isinstance(f, Fate)
            assert isinstance(left, int)
            if f.subflow == subflow and f.begins * MS <= self.now < f.ends * MS and left:
                fate[1] = left - 1
                return f.what
        return "pass"


class Subflow:
    """One subflow's sender, path and receiver. Data is counted in segments.

    server_key: of its connection; a subflow joins unless it is the first. The receiver answers `every` segments that
    arrive in order with one ACK.
    """

    def __init__(
        self,
        network: Network,
        number: int,
        rtt_ms: int,
        service_us: int,
        server_key: int,
        *,
        first: bool = False,
        every: int = 1,
    ) -> None:
        self.network, self.number = network, number
        self.server_key, self.first, self.every = server_key, first, every
        self.one_way, self.service = rtt_ms * MS // 2, service_us * 1000
        self.free = 0  # when the bottleneck has sent what it has
        self.cwnd, self.ssthresh, self.growth = INITIAL_WINDOW, 20, 0
        self.una = self.next = self.granted = self.recover = 0
        self.sacked: set[int] = set()
        self.lost: set[int] = set()
        self.again: set[int] = set()
        self.state = "open"
        self.prior: tuple[int, int] | None = None
        self.retransmitted_ms = 0
        self.reduced_until, self.answer_echo = 0, False
        self.timer, self.backoff = 0, 1
        self.closing = False
        self.peer_ms = 0
        # The receiver's.
        self.expected, self.out_of_order, self.echo_ms, self.echo = 0, set[int](), 0, False
        self.unanswered = 0

    def _packet(
        self, from_client: bool, seq: int, ack: int, flags: int, options: bytes, payload: int = 0, ecn: int = 0
    ) -> None:
        self.network.trace.packet(
            self.network.now / 1e9, from_client, seq, ack, flags, payload, options,
            client=f"10.0.{self.number}.1", server=f"10.0.{self.number}.2", ports=(40000 + self.number, 443), ecn=ecn,
        )  # fmt: skip

    def _stamps(self, echo_ms: int, sent_ns: int | None = None) -> bytes:
        value = (self.network.now if sent_ns is None else sent_ns) // MS + 1
        return bytes([1, 1, 8, 10]) + struct.pack("!II", value, echo_ms)

    # Opening and closing

    def open(self, segments: int) -> None:
        """The handshake, then so many segments to send."""
        options = b"\x02\x04" + struct.pack("!H", MSS + 12) + b"\x04\x02"
        join = bytes([30, 12, 0x10, self.number]) + struct.pack("!II", _token(self.server_key), self.number)
        ours = _capable() if self.first else join
        theirs = _capable(self.server_key) if self.first else bytes([30, 16, 0x10, self.number]) + bytes(12)
        self._packet(True, 0, 0, SYN | ECE | CWR, options + self._stamps(0) + ours)
        began = self.network.now

        def answered() -> None:
            self.peer_ms = (began + self.one_way) // MS + 1
            self._packet(
                False, 1000, 1, SYN | ACK | ECE, options + self._stamps(began // MS + 1, began + self.one_way) + theirs
            )
            last = _capable(CLIENT_KEY, self.server_key) if self.first else bytes([30, 24, 0x10, 0]) + bytes(20)
            self._packet(True, 1, 1001, ACK, self._stamps(self.peer_ms) + last)
            self.network.at(self.network.now + STACK_NS, lambda: self.grant(segments))

        self.network.at(began + 2 * self.one_way, answered)

    def grant(self, segments: int) -> None:
        self.granted += segments
        self.send()

    def close(self) -> None:
        """Once all that it may send is acknowledged."""
        self.closing = True
        self._finish()

    def _finish(self) -> None:
        if not self.closing or self.una < self.granted:
            return
        self.closing, self.state = False, "closed"
        end = 1 + self.granted * MSS
        self._packet(True, end, 1001, ACK | FIN, self._stamps(self.peer_ms))
        sent_ms = self.network.now // MS + 1

        def answered() -> None:
            self._packet(False, 1001, end + 1, ACK | FIN, self._stamps(sent_ms, self.network.now - self.one_way))
            self._packet(True, end + 1, 1002, ACK, self._stamps(self.peer_ms))

        self.network.at(self.network.now + 2 * self.one_way, answered)

    # The sender

    def _flight(self) -> int:
        return self.next - self.una - len(self.sacked) - len(self.lost)

    def send(self) -> None:
        while self._flight() < self.cwnd and self.state != "closed":
            if self.lost:
                segment = min(self.lost)
                self.lost.remove(segment)
                self._transmit(segment)
            elif self.next < self.granted:
                self.next += 1
                self._transmit(self.next - 1)
            else:
                return

    def _transmit(self, segment: int) -> None:
        again = segment in self.again
        self.again.add(segment)
        flags = ACK
        if not again and self.answer_echo:
            flags |= CWR
            self.answer_echo = False
        self._packet(True, 1 + segment * MSS, 1001, flags, self._stamps(self.peer_ms), MSS, 0 if again else ECT)
        now, stamp = self.network.now, self.network.now // MS + 1
        if again and not self.retransmitted_ms:
            self.retransmitted_ms = stamp
        fate = self.network.fate(self.number)
        self._arm()
        if fate == "drop":
            return
        self.free = max(self.free, now) + self.service
        late = round(fate * MS) if isinstance(fate, (int, float)) else 0
        marked, answers = fate == "mark", bool(flags & CWR)
        self.network.at(self.free + self.one_way + late, lambda: self._receive(segment, stamp, marked, answers))

    def _arm(self) -> None:
        self.timer += 1
        armed = self.timer
        self.network.at(
            self.network.now + TIMEOUT_NS * self.backoff, lambda: self._timeout() if self.timer == armed else None
        )

    def _timeout(self) -> None:
        if self.una == self.next or self.state == "closed":
            return
        if self.state != "loss":
            self.prior = self.cwnd, self.ssthresh
            self.ssthresh = max(self.cwnd // 2, 2)
            self.retransmitted_ms = 0
        self.state, self.recover, self.cwnd, self.growth = "loss", self.next, 1, 0
        self.lost = {n for n in range(self.una, self.next) if n not in self.sacked}
        self.backoff = min(self.backoff * 2, 4)
        self.send()

    def acknowledged(self, ack: int, blocks: list[int], echo_ms: int, echo: bool, sent_ns: int) -> None:
        """blocks: segments that the ACK reports, the first of them first."""
        options = self._stamps(echo_ms, sent_ns)
        if blocks:
            options = bytes([1, 1]) + sack(*((1 + n * MSS, 1 + (n + 1) * MSS) for n in blocks)) + options
        self._packet(False, 1001, 1 + ack * MSS, ACK | (ECE if echo else 0), options)
        self.peer_ms = sent_ns // MS + 1
        full = self._flight() + 1 >= self.cwnd
        newly = ack - self.una
        self.una = max(self.una, ack)
        self.sacked = {n for n in self.sacked | set(blocks) if n >= self.una}
        self.lost = {n for n in self.lost if n >= self.una and n not in self.sacked}
        if newly:
            self.backoff = 1
            self._arm()
        if newly and self.prior and self.retransmitted_ms and echo_ms < self.retransmitted_ms:
            self.cwnd, self.ssthresh = max(self.cwnd, self.prior[0]), max(self.ssthresh, self.prior[1])
            self.state, self.prior, self.lost = "open", None, set()
        if self.state != "open" and self.una >= self.recover:
            if self.state == "recovery":
                self.cwnd = self.ssthresh
            self.state, self.prior = "open", None
        if self.state == "open" and len(self.sacked) >= 3:
            self._reduce("recovery")
        elif self.state == "open" and echo and newly and self.una > self.reduced_until:
            self._reduce("open")
            self.answer_echo, self.reduced_until = True, self.next
        if self.state == "recovery":
            highest = max(self.sacked, default=-1)
            self.lost |= {n for n in range(self.una, highest) if n not in self.sacked and n not in self.repaired}
            self.repaired |= self.lost
        elif newly and full:
            self._grow(newly)
        self.network.at(self.network.now + STACK_NS, self.send)
        self.network.at(self.network.now + STACK_NS, self._finish)

    def _reduce(self, state: str) -> None:
        self.prior = (self.cwnd, self.ssthresh) if state == "recovery" else None
        self.ssthresh = max(self.cwnd // 2, 2)
        self.cwnd, self.growth, self.state = self.ssthresh, 0, state
        self.recover, self.retransmitted_ms = self.next, 0
        self.repaired: set[int] = set()

    def _grow(self, newly: int) -> None:
        if self.cwnd < self.ssthresh:
            self.cwnd += newly
            return
        self.growth += newly
        if self.growth >= self.cwnd:
            self.growth -= self.cwnd
            self.cwnd += 1

    # The receiver

    def _receive(self, segment: int, stamp_ms: int, marked: bool, answers: bool) -> None:
        self.echo = (self.echo and not answers) or marked
        duplicate = segment < self.expected or segment in self.out_of_order
        if segment <= self.expected:
            self.echo_ms = max(self.echo_ms, stamp_ms)
        if not duplicate:
            self.out_of_order.add(segment)
        while self.expected in self.out_of_order:
            self.out_of_order.remove(self.expected)
            self.expected += 1
        self.unanswered += 1
        if not (duplicate or self.out_of_order or marked) and self.unanswered < self.every:
            arrived = self.expected
            self.network.at(
                self.network.now + DELAYED_ACK_NS, lambda: self._answer([]) if self._waits(arrived) else None
            )
            return
        blocks = [segment] if duplicate or segment in self.out_of_order else []
        blocks += [n for n in sorted(self.out_of_order, reverse=True) if n not in blocks][: 2 - len(blocks) + 1]
        self._answer(blocks)

    def _waits(self, arrived: int) -> bool:
        """Has nothing been answered since so many segments had arrived?"""
        return self.unanswered > 0 and self.expected == arrived

    def _answer(self, blocks: list[int]) -> None:
        self.unanswered = 0
        told = self.expected, blocks, self.echo_ms, self.echo, self.network.now
        self.network.at(self.network.now + self.one_way, lambda: self.acknowledged(*told))


def script() -> Trace:
    network = Network()
    a = Subflow(network, 0, 40, 300, 0x1112131415161718, first=True, every=2)
    b = Subflow(network, 1, 100, 500, 0x1112131415161718)
    c = Subflow(network, 2, 20, 200, 0x1112131415161718)
    d = Subflow(network, 3, 60, 400, 0x1112131415161718)
    e = Subflow(network, 4, 30, 300, 0x2122232425262728, first=True, every=2)
    f = Subflow(network, 5, 90, 300, 0x2122232425262728)

    def then(ms: float, what: Callable[[], None]) -> None:
        network.at(round(ms * MS), what)

    network.fates = [[f, f.only] for f in SCRIPT]
    then(1000, lambda: a.open(30))  # it waits for the others
    then(1100, lambda: b.open(16))
    then(1200, lambda: c.open(14))
    then(1400, lambda: b.grant(12))  # its second segment comes late: a reduction that is undone, still coupled
    then(1600, c.close)  # the shortest round trip goes, coupled slow start goes on
    then(1700, lambda: a.grant(90))
    then(1720, lambda: b.grant(120))
    then(1900, lambda: a.grant(760))
    then(
        1970, lambda: d.open(560)
    )  # fills the threshold: the connection leaves while A's reduction may still be undone
    then(2100, lambda: b.grant(260))
    then(3450, b.close)  # while the others, of one set, go on
    then(4500, d.close)  # its set goes
    then(6000, lambda: a.grant(40))  # after an idle time
    then(6100, a.close)
    then(1300, lambda: e.open(20))
    then(1450, lambda: f.open(1))
    then(1600, lambda: e.grant(110))
    then(2300, f.close)
    then(2400, e.close)  # the last of its connection, which has not left coupled slow start
    network.run()
    return network.trace


SCRIPT = (
    Fate(1, 1400, 1450, 40, only=1),
    Fate(0, 1940, 1960, 130, only=1),
    *(Fate(n, t, t + 60, "mark", only=2) for t in (2450, 2650, 2850, 3000) for n in (0, 1, 3)),
    Fate(3, 2750, 2760, "drop", only=1),
    Fate(3, 3080, 3140, "mark", only=1),
    Fate(0, 3150, 3210, "mark", only=1),
    Fate(3, 3330, 3390, "drop", only=1),
    Fate(0, 3390, 4000, "drop"),
    Fate(3, 3670, 3760, 280),
)


if __name__ == "__main__":
    script().write(Path(sys.argv[1]))
