"""Retransmissions and round trips of a flow's data sender: a second implementation of the core's rules.

A packet's verdict says how it counts. Sequence numbers are integers that do not wrap. Times are nanoseconds.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.corpus.flows import Flow
from bench.corpus.sequence import JUMP_MAX, MODULUS, Options, Spans, difference, near
from bench.corpus.tshark import ACK, FIN, RST, SYN, Endpoint, Packet

REORDER_NS = 3_000_000
NUMBERS_MISSING_MAX = 256
SET_BACK_NS = 1_000_000_000
SET_BACK_MOST_NS = 86_400 * SET_BACK_NS
MSS_MIN, MSS_ETHERNET, HEADER_BYTES = 64, 1460, 20


@dataclass(slots=True)
class Segment:
    start: int
    end: int
    sent_ns: int
    seen: bool
    again: bool = False
    sacked: bool = False


@dataclass
class Sample:
    number: int
    us: float
    kind: str


@dataclass
class Handshake:
    """Times of the flow's SYN and of the answer; None where the capture lacks the packet."""

    initiator: int = 0
    complete: bool = False
    answered_ns: int | None = None
    established_ns: int | None = None

    @classmethod
    def of(cls, flow: Flow) -> Handshake:
        found, syn = cls(), [False, False]
        for packet in flow.packets:
            side = flow.side(packet)
            if packet.flags & SYN:
                syn[side] = True
                if not packet.flags & ACK:
                    found.initiator = side
                elif found.answered_ns is None:
                    found.initiator, found.answered_ns = 1 - side, packet.time_ns
                    found.complete = syn[1 - side]
            elif (
                found.answered_ns is not None and found.established_ns is None
                and side == found.initiator and packet.flags & ACK
            ):  # fmt: skip
                found.established_ns = packet.time_ns
        return found


@dataclass
class Sender:
    """Reads one flow, in the order captured. vantage, send_times: the core's findings about its capture point.

    verdicts: packet number -> how it counts. units: segments sent again with a packet. fates: how the other side's ACKs
    count. captured_before: packets whose bytes were all captured before. late: data that was captured after the end,
    but sent before it. stray: sequence numbers of another attempt, before the connection was answered.
    """

    flow: Flow
    source: Endpoint
    vantage: str
    send_times: str = "captured"
    verdicts: dict[int, str] = field(default_factory=dict)
    units: Counter[int] = field(default_factory=Counter)
    captured_before: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    fates: dict[int, str] = field(default_factory=dict)
    bytes: int = 0
    late_bytes: int = 0
    unseen_acks: int = 0
    numbers_missing: int = 0
    stray: list[int] = field(default_factory=list)
    backward: set[int] = field(default_factory=set)
    """Packets with a time before another's that the capture has before them."""
    _later: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        flow = self.flow
        self._handshake = Handshake.of(flow)
        self._side = int(self.source != flow.ends[0])
        mine = [i for i, p in enumerate(flow.packets) if p.source == self.source]
        theirs = [i for i, p in enumerate(flow.packets) if p.source != self.source]
        syns = [[flow.options[i] for i in side if flow.packets[i].flags & SYN] for side in (mine, theirs)]
        both = bool(syns[0] and syns[1])
        announced = [o.mss for o in syns[1] if o.mss is not None]
        self._peer_mss = announced[-1] if announced else 0
        self._payload_max = max((flow.packets[i].payload_bytes for i in mine), default=0)
        self._sack = not both or all(s[-1].sack_permitted for s in syns)
        scales = [s[-1].window_scale for s in syns] if both else [None]
        self._scale = 0 if None in scales else scales[-1] or 0
        self._mss = self._peer_mss if self._peer_mss > MSS_MIN else MSS_ETHERNET
        self._segments: list[Segment] = []
        self._captured = Spans()
        self._next: int | None = None
        self._syn_kinds: set[int] = set()
        self._una = self._first = 0
        self._window: int | None = None
        self._probe = self._established = self._left = self._fin = False
        self._syns = self._answers = self._syn_ns = self._answer_ns = 0
        self._rtt_min_ns = 0
        self._number_next: int | None = None
        self._overtaken = False
        self._echo: tuple[int, int] | None = None
        self._read()

    @property
    def as_captured(self) -> bool:
        return self.send_times == "captured"

    @property
    def retransmitted(self) -> int:
        return sum(self.units.values())

    @property
    def doubtful(self) -> tuple[int, int]:
        """How many fewer and more segments may have been sent again where packets count as they were sent.

        The age of a hole, the flow's end and the data acknowledged in between differ then.
        """
        if self.as_captured:
            return 0, 0
        filled = {n for n, verdict in self.verdicts.items() if verdict == "filled"}
        passed_over = sum(verdict in ("reordered", "keep_alive", "probe") for verdict in self.verdicts.values())
        return sum(self.units[n] for n in filled | self.late), passed_over

    def is_later(self, packet: Packet) -> bool:
        """Whether it filled a hole a round trip or more after the data beyond, or with a newer IPv4 number."""
        return packet.number in self._later

    def _read(self) -> None:
        latest = set_back = 0
        for packet, options in zip(self.flow.packets, self.flow.options, strict=True):
            back = latest - (packet.time_ns + set_back)
            if back > 0:
                self.backward.add(packet.number)
            if SET_BACK_NS < back <= SET_BACK_MOST_NS - set_back:
                set_back += back
            now = latest = max(latest, packet.time_ns + set_back)  # a subflow's clock does not go back
            mine = packet.source == self.source
            if self._left and (self.as_captured or not mine or packet.flags & RST):
                self.verdicts[packet.number] = self.fates[packet.number] = "after_end"
                continue
            ready = self._ready(packet, mine, now)
            if mine:
                self._established |= ready
                self._follow_numbers(packet)
                before = self.bytes
                self.verdicts[packet.number] = self._sent(packet, options, now)
                if self._left:
                    self.late.add(packet.number)
                    self.late_bytes += self.bytes - before
                self._fin |= bool(packet.flags & FIN)
                if now < (self._handshake.answered_ns or 0) and not packet.flags & SYN:
                    self.stray.append(packet.sequence)
            else:
                first, self._established = ready, self._established or ready
                completes = first and self._handshake.complete and not packet.payload_bytes and not self._segments
                if self._established and packet.flags & (ACK | SYN | RST) == ACK and not completes:
                    self.fates[packet.number] = self._acked(packet, options, now)
            if packet.flags & RST or (self._fin and not self._segments):
                self._left |= self._established

    def _ready(self, packet: Packet, mine: bool, now: int) -> bool:
        """Whether the flow is established at this packet. Takes the handshake's round trip."""
        known, opens = self._handshake, self._side == self._handshake.initiator
        if not (packet.flags & SYN or not self._established or now == known.established_ns):
            return False
        beside = self.vantage in ("sender", "unknown")
        once = self._syns == 1 and self._answers == 1
        if not beside and known.complete and not self._rtt_min_ns and now == known.established_ns and once:
            self._sample(packet, now - self._syn_ns, "handshake")
        if packet.flags & SYN:
            if not packet.flags & ACK:
                self._syns, self._syn_ns = self._syns + 1, now
                return False
            self._answers, self._answer_ns = self._answers + 1, now
            if not opens or mine or self._established:
                return False
            if self._syns == 1 and beside:
                self._sample(packet, now - self._syn_ns, "handshake")
            return True
        if self._established or (known.complete and now < (known.answered_ns or 0)):
            return False
        if beside and known.complete and not opens and not mine and self._answers == 1:
            self._sample(packet, now - self._answer_ns, "handshake")
        return True

    def _follow_numbers(self, packet: Packet) -> None:
        """IPv4 identification: how many numbers are missing, and whether this packet is older than one before it."""
        self._overtaken = False
        if packet.identification is None or self.vantage in ("sender", "unknown"):
            return
        if self._number_next is not None:
            ahead = (packet.identification - self._number_next + 0x8000) % 0x10000 - 0x8000
            self._overtaken = ahead < 0
            if ahead < 0:
                return
            self.numbers_missing += ahead if ahead <= NUMBERS_MISSING_MAX else 0
        segments = max(1, -(-packet.payload_bytes // self._segment_bytes(packet)))
        self._number_next = (packet.identification + segments) % 0x10000

    def _segment_bytes(self, packet: Packet) -> int:
        if self._peer_mss > MSS_MIN:
            options = packet.header_bytes - HEADER_BYTES
            return self._peer_mss - options if self._peer_mss > options + MSS_MIN else self._peer_mss
        return self._payload_max if 0 < self._payload_max <= MSS_ETHERNET else MSS_ETHERNET

    def _sent(self, packet: Packet, options: Options, now: int) -> str:
        verdict, start = "no_data", packet.sequence
        size = packet.payload_bytes + bool(packet.flags & FIN)
        if packet.flags & SYN:
            verdict, kind = "new", packet.flags & ACK
            if kind in self._syn_kinds:
                self.units[packet.number] += 1
                verdict = "syn_again"
            elif self._syn_kinds:
                verdict = "opened"
            self._syn_kinds.add(kind)
            if self._next is None:
                self._begin((packet.sequence + 1) % MODULUS)
            start = (start + 1) % MODULUS
            if not packet.payload_bytes:
                return verdict
        if not size:
            self._told(packet, now)
            return verdict
        if self._next is None:
            self._begin(start)
        assert self._next is not None
        first = near(start, self._next)
        end = first + size
        if self._captured.add(first, end) == 0:
            self.captured_before.add(packet.number)
        if packet.payload_bytes == 1 and not self._segments and first == self._una and self._window == 0:
            self._probe = True
            return "probe"
        if first - self._next < -JUMP_MAX:
            return "before_start"
        if packet.payload_bytes:
            self._mss = self._segment_bytes(packet)
        self._take_echo(packet, options, now)
        if first < self._next:
            verdict = self._old(packet, first, min(end, self._next), end, now)
            if verdict == "keep_alive":
                return verdict
            first = min(end, self._next)
        elif verdict == "no_data":
            verdict = "new"
        if end > first:
            self.bytes += end - first - bool(packet.flags & FIN)
            self._append(first, end, now)
        return verdict

    def _told(self, packet: Packet, now: int) -> None:
        """A packet without data shows the sender's next sequence number."""
        if self._next is None or packet.flags & (SYN | RST):
            return
        here = near(packet.sequence, self._next)
        inside = self._window is None or here - self._una <= self._window
        if 0 < here - self._next <= JUMP_MAX and here >= self._una and inside:
            self._append(here, here, now)

    def _append(self, first: int, end: int, now: int) -> None:
        assert self._next is not None
        for start, stop, seen in ((self._next, first, False), (first, end, True)):
            for at in range(start, stop, self._mss):
                self._segments.append(Segment(at, min(at + self._mss, stop), now, seen))
        self._next = end

    def _overlapping(self, start: int, end: int) -> Iterator[int]:
        """Indices of the segments that overlap [start, end); the caller may cut them."""
        at = bisect.bisect_right(self._segments, start, key=lambda g: g.end)
        while at < len(self._segments) and self._segments[at].start < end:
            yield at
            at += 1

    def _fill(self, start: int, end: int, now: int) -> tuple[int, int, int]:
        """Fills holes: how many bytes, up to which number, and the age of the oldest hole."""
        filled, last, age = 0, 0, 0
        for at in self._overlapping(start, end):
            segment = self._segments[at]
            if segment.seen:
                continue
            if segment.start < start:
                self._cut(at, start)
                continue
            if end < segment.end:
                self._cut(at, end)
            segment.seen = True
            filled, last, age = filled + segment.end - segment.start, segment.end, max(age, now - segment.sent_ns)
        return filled, last, age

    def _cut(self, at: int, where: int) -> None:
        g = self._segments[at]
        self._segments.insert(at + 1, Segment(where, g.end, g.sent_ns, g.seen, g.again, g.sacked))
        g.end = where

    def _old(self, packet: Packet, start: int, end: int, whole_end: int, now: int) -> str:
        """A packet with sequence numbers below the highest that was sent."""
        if packet.payload_bytes <= 1 and end <= self._una and not packet.flags & FIN:
            return "keep_alive"
        filled, last, age = self._fill(start, end, now)
        self.bytes += filled - bool(filled and packet.flags & FIN and last == whole_end)
        limit = max(REORDER_NS, self._rtt_min_ns) if self._overtaken else REORDER_NS
        if filled and age < limit:
            return "reordered"
        self.units[packet.number] += max(1, -(-(end - start) // self._mss))
        if filled and (age >= self._rtt_min_ns or (packet.identification is not None and not self._overtaken)):
            self._later.add(packet.number)
        if self._segments and end > self._una:
            for at in self._overlapping(start, end):
                self._segments[at].again, self._segments[at].sent_ns = True, now
        if start < self._first:
            return "before_start"
        return "filled" if filled else "again"

    def _begin(self, number: int) -> None:
        """The first number of the capture."""
        self._next = self._una = self._first = number

    def _acked(self, packet: Packet, options: Options, now: int) -> str:
        if self._next is None:
            self._begin(packet.ack)
        assert self._next is not None
        if self.vantage == "receiver" and self.as_captured and options.timestamps and self._echo is None:
            self._echo = (options.timestamps[0], now)
        self._window = packet.window << self._scale
        ack = near(packet.ack, self._una)
        if ack < self._una or ack - self._una > JUMP_MAX:
            return "old"
        sacked_ns = self._take_sacks(options, ack) if self._sack else None
        first_ns, repeated = self._clean(min(ack, self._next))
        if ack > self._next:
            self._beyond(ack)
        self._probe &= ack == self._una
        news, self._una = ack > self._una, ack
        from_ns = first_ns if first_ns is not None and not repeated else sacked_ns
        if from_ns is not None and not (self.vantage == "receiver" and self.as_captured):
            kind = "oldest" if from_ns == first_ns else "sack"
            self._sample(packet, max(now - from_ns, 1), kind)
        return "repeated" if repeated else "unseen" if news else "old"

    def _beyond(self, ack: int) -> None:
        assert self._next is not None
        if ack - self._next == 1 and self._probe:
            self.bytes += 1
        else:
            self.unseen_acks += 1
        self._next = ack

    def _take_sacks(self, options: Options, ack: int) -> int | None:
        """Marks delivered segments; returns when the first of them was sent, if it was sent once."""
        assert self._next is not None
        found: int | None = None
        blocks = [(near(a, self._una), near(b, self._una)) for a, b in options.sacks]
        for place, (start, end) in enumerate(blocks):
            if end <= start or end > self._next:
                continue
            inside = len(blocks) > 1 and end <= blocks[1][1] and start >= blocks[1][0]
            if (place == 0 and (start < ack or inside)) or start < self._una:
                continue
            for at in self._overlapping(start, end):
                segment = self._segments[at]
                if segment.sacked or segment.start < start or segment.end > end:
                    continue
                segment.sacked = True
                if not segment.again and found is None:
                    found = segment.sent_ns
        return found

    def _clean(self, ack: int) -> tuple[int | None, bool]:
        """Takes acknowledged segments away: when the first was sent, of those sent once and not delivered before."""
        first, repeated, gone = None, False, 0
        for segment in self._segments:
            if segment.end > ack:
                segment.start = max(segment.start, ack)
                break
            gone += 1
            repeated |= segment.again
            if first is None and not segment.again and not segment.sacked:
                first = segment.sent_ns
        del self._segments[:gone]
        return first, repeated

    def _take_echo(self, packet: Packet, options: Options, now: int) -> None:
        """Beside the receiver: from a timestamp's leaving to its echo."""
        if self.vantage != "receiver" or options.timestamps is None or self._echo is None:
            return
        later = difference(options.timestamps[1], self._echo[0])
        if later == 0:
            self._sample(packet, now - self._echo[1], "echo")
        if later >= 0:
            self._echo = None

    def _sample(self, packet: Packet, ns: int, kind: str) -> None:
        ns = ns or 1000
        self._rtt_min_ns = min(self._rtt_min_ns or ns, ns)
        self.samples.append(Sample(packet.number, ns // 1000, kind))
