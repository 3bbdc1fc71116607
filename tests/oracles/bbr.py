"""BBR, version 1, from draft-cardwell-iccrg-bbr-congestion-control-00: its pseudo-code over exact rationals.

Windows in segments, times in seconds, rates in segments a second. `KernelBbr` adds what mode=kernel adds to the draft.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

HIGH_GAIN = Fraction(739, 256)
"""2/ln 2, in the parts of 256 that the controller states."""
DRAIN_GAIN = Fraction(88, 256)
CYCLE = (Fraction(5, 4), Fraction(3, 4), *[Fraction(1)] * 6)
INITIAL_WINDOW = 10
MIN_PIPE = 4
FILTER_ROUNDS = 10
EARLY, LATE = Fraction(1, 500), Fraction(1, 500)
"""Seconds by which a comparison of times is too close to be decided: the controller counts milliseconds."""
UNIT = Fraction(10**6, 1 << 24)
"""A controller's rates are whole multiples of this, in segments a second; what is rounded is rounded down."""
ROUNDING = Fraction(1, 1 << 16)
"""Segments by which the controller's product of rate and time may be less."""


def in_units(rate: Fraction) -> Fraction:
    return rate // UNIT * UNIT


@dataclass(frozen=True)
class Sample:
    """struct rw_rate."""

    time: Fraction
    acked: int
    lost: int
    in_flight_before: int
    in_flight: int
    repair: str
    app_limited: bool
    rtt: Fraction | None
    delivered: int
    prior_delivered: int
    interval: Fraction

    @property
    def has_rate(self) -> bool:
        return self.interval > 0 and self.delivered > self.prior_delivered


class MaxFilter:
    """The best sample of so many rounds, the best since that, and the best since the second (K. Nichols)."""

    def __init__(self) -> None:
        self.kept = [(Fraction(0), 0)] * 3

    @property
    def best(self) -> Fraction:
        return self.kept[0][0]

    def update(self, value: Fraction, now: int) -> None:
        new = (value, now)
        ages = [now - taken for _, taken in self.kept]
        if value >= self.best or ages[2] > FILTER_ROUNDS:
            self.kept = [new] * 3
            return
        first, second, third = self.kept
        if value >= second[0]:
            second = third = new
        elif value >= third[0]:
            third = new
        if ages[0] > FILTER_ROUNDS:
            first, second, third = second, third, new
            if now - first[1] > FILTER_ROUNDS:
                first, second, third = second, third, new
        elif second[1] == first[1] and ages[0] > FILTER_ROUNDS // 4:
            second = third = new
        elif third[1] == second[1] and ages[0] > FILTER_ROUNDS // 2:
            third = new
        self.kept = [first, second, third]


@dataclass
class Bbr:
    cwnd: int
    srtt: Fraction | None
    mss: int = 1460
    first_phase: int = 2

    undecided: bool = False
    """A decision was so close that rounding makes it: nothing is compared from here on."""

    def __post_init__(self) -> None:
        self.bw = MaxFilter()
        self.rtprop = self.srtt
        self.rtprop_stamp: Fraction | None = None
        self.probe_rtt_done: Fraction | None = None
        self.probe_rtt_round_done = self.packet_conservation = self.idle_restart = self.round_start = False
        self.prior_cwnd = 0
        self.repair = "none"
        self.next_round_delivered = self.round_count = 0
        self.filled_pipe, self.full_bw, self.full_bw_count = False, Fraction(0), 0
        self.state = "startup"
        self.pacing_rate = self.pace(Fraction(self.cwnd) / (self.srtt or Fraction(1, 1000)), HIGH_GAIN)
        self.cycle_index, self.cycle_stamp = 0, Fraction(0)
        self.limited = (1, 0)

    # Decisions

    def less(self, a: Fraction | int, b: Fraction | int, within: Fraction | int) -> bool:
        """a < b; where they are as close as rounding, nobody knows."""
        self.undecided = self.undecided or abs(Fraction(a) - Fraction(b)) <= within
        return a < b

    def whole(self, segments: Fraction) -> int:
        self.undecided = self.undecided or ceil(segments - ROUNDING) != ceil(segments)
        return ceil(segments)

    # 4.2

    @property
    def gains(self) -> tuple[Fraction, Fraction]:
        """pacing_gain, cwnd_gain."""
        return {
            "startup": (HIGH_GAIN, HIGH_GAIN),
            "drain": (DRAIN_GAIN, HIGH_GAIN),
            "probe_bw": (CYCLE[self.cycle_index], Fraction(2)),
            "probe_rtt": (Fraction(1), Fraction(1)),
        }[self.state]

    def send_quantum(self) -> int:
        bits = self.pacing_rate * self.mss * 8
        if self.less(bits, 1_200_000, 1000):
            return 1
        if self.less(bits, 24_000_000, 1000):
            return 2
        segments = min(bits / 8000, Fraction(65536)) / self.mss
        self.undecided = self.undecided or int(segments) != int(segments - segments / 1000 - Fraction(1, 100))
        return max(int(segments), 2)

    def with_quanta(self, segments: int) -> int:
        return segments + 3 * self.send_quantum()

    def bdp(self, gain: Fraction) -> int:
        assert self.rtprop is not None
        return self.whole(gain * self.bandwidth * self.rtprop)

    def inflight(self, gain: Fraction) -> int:
        if self.rtprop is None:
            return INITIAL_WINDOW
        return self.with_quanta(self.bdp(gain))

    def target_cwnd(self) -> int:
        return self.inflight(self.gains[1])

    def pace(self, bandwidth: Fraction, gain: Fraction) -> Fraction:
        return gain * bandwidth

    def set_pacing_rate(self, gain: Fraction) -> None:
        rate = in_units(self.pace(self.bandwidth, gain))
        if self.filled_pipe or rate > self.pacing_rate:
            self.pacing_rate = rate

    def save_cwnd(self) -> None:
        in_recovery = self.repair != "none" or self.state == "probe_rtt"
        self.prior_cwnd = max(self.prior_cwnd, self.cwnd) if in_recovery else self.cwnd

    def restore_cwnd(self) -> None:
        self.cwnd = max(self.cwnd, self.prior_cwnd)

    def modulate_for_recovery(self, s: Sample) -> None:
        before, self.repair = self.repair, s.repair
        if s.lost > 0:
            self.cwnd = max(self.cwnd - s.lost, 1)
        if s.repair == "recovery" and before != "recovery":
            self.cwnd = s.in_flight + max(s.acked, 1)
            self.packet_conservation = True
            self.next_round_delivered = s.delivered
        elif s.repair == "none" and before != "none":
            self.packet_conservation = False
            self.restore_cwnd()
        if self.packet_conservation:
            self.cwnd = max(self.cwnd, s.in_flight + s.acked)

    def set_cwnd(self, s: Sample) -> None:
        if s.acked:
            self.modulate_for_recovery(s)
            if not self.packet_conservation:
                target = self.target_cwnd()
                if self.filled_pipe:
                    self.cwnd = min(self.cwnd + s.acked, target)
                elif self.cwnd < target or s.delivered < INITIAL_WINDOW:
                    self.cwnd += s.acked
                self.cwnd = min(max(self.cwnd, MIN_PIPE), 1 << 20)
        if self.state == "probe_rtt":
            self.cwnd = min(self.cwnd, MIN_PIPE)

    # 4.1

    def is_app_limited(self, s: Sample) -> bool:
        return s.app_limited or self.limited[0] <= s.prior_delivered <= self.limited[1]

    def update_btlbw(self, s: Sample) -> None:
        self.round_start = False
        if not s.has_rate:
            return
        if s.prior_delivered >= self.next_round_delivered:
            self.next_round_delivered = s.delivered
            self.round_count += 1
            self.round_start = True
            self.packet_conservation = False
        self.look_for_policer(s)
        rate = in_units((s.delivered - s.prior_delivered) / s.interval)
        if rate >= self.bw.best or not self.is_app_limited(s):
            self.bw.update(rate, self.round_count)

    def update_rtprop(self, s: Sample) -> None:
        assert self.rtprop_stamp is not None
        expired = self.less(self.rtprop_stamp + 10, s.time, EARLY)
        if s.rtt is not None and self.takes(s.rtt, expired):
            self.rtprop, self.rtprop_stamp = s.rtt, s.time
        if expired and not self.idle_restart and self.state != "probe_rtt":
            self.state = "probe_rtt"
            self.save_cwnd()
            self.probe_rtt_done = None
            self.limited = (s.delivered, s.delivered)
        if self.state == "probe_rtt":
            self.handle_probe_rtt(s)
        if s.delivered > s.prior_delivered:
            self.idle_restart = False

    def takes(self, rtt: Fraction, expired: bool) -> bool:
        return self.rtprop is None or rtt <= self.rtprop or expired

    # 4.3

    def enter_probe_bw(self, now: Fraction) -> None:
        self.state = "probe_bw"
        self.cycle_index, self.cycle_stamp = self.first_phase, now

    def check_cycle_phase(self, s: Sample) -> None:
        if self.state != "probe_bw":
            return
        assert self.rtprop is not None
        gain = self.gains[0]
        over = self.less(self.rtprop, s.time - self.cycle_stamp, Fraction(2, 10**6))
        if gain > 1:
            over = over and (s.lost > 0 or s.in_flight_before >= self.inflight(gain))
        elif gain < 1:
            over = over or s.in_flight_before <= self.inflight(Fraction(1))
        if over:
            self.cycle_index, self.cycle_stamp = (self.cycle_index + 1) % 8, s.time

    def check_full_pipe(self, s: Sample) -> None:
        if self.filled_pipe or not self.round_start or self.is_app_limited(s):
            return
        if not self.less(self.bw.best, self.full_bw * Fraction(5, 4), UNIT if self.full_bw else -1):
            self.full_bw, self.full_bw_count = self.bw.best, 0
            return
        self.full_bw_count += 1
        self.filled_pipe = self.full_bw_count >= 3

    def check_drain(self, s: Sample) -> None:
        if self.state == "startup" and self.filled_pipe:
            self.state = "drain"
        if self.state == "drain" and s.in_flight <= self.inflight(Fraction(1)):
            self.enter_probe_bw(s.time)

    def handle_probe_rtt(self, s: Sample) -> None:
        self.limited = (self.limited[0], s.delivered + s.in_flight)
        if self.probe_rtt_done is None:
            if s.in_flight <= MIN_PIPE:
                self.probe_rtt_done = s.time + Fraction(200, 1000)
                self.probe_rtt_round_done = False
                self.next_round_delivered = s.delivered
            return
        self.probe_rtt_round_done = self.probe_rtt_round_done or self.round_start
        if self.probe_rtt_round_done:
            self.end_probe_rtt(s.time)

    def end_probe_rtt(self, now: Fraction) -> None:
        if self.probe_rtt_done is not None and self.less(self.probe_rtt_done, now, LATE):
            self.rtprop_stamp = now
            self.restore_cwnd()
            if self.filled_pipe:
                self.enter_probe_bw(now)
            else:
                self.state = "startup"

    # What happens

    def ack(self, s: Sample) -> None:
        """BBRUpdateOnACK."""
        if self.rtprop_stamp is None:
            self.rtprop_stamp = s.time
        self.update_btlbw(s)
        self.seen(s)
        self.check_cycle_phase(s)
        self.check_full_pipe(s)
        self.check_drain(s)
        self.update_rtprop(s)
        self.set_pacing_rate(self.gains[0])
        self.set_cwnd(s)

    def look_for_policer(self, s: Sample) -> None:
        """A sample of the rate has come, in its round trip."""

    def seen(self, s: Sample) -> None:
        """After the bandwidth."""

    @property
    def bandwidth(self) -> Fraction:
        return self.bw.best

    def loss(self) -> None:
        self.save_cwnd()

    def timeout(self) -> None:
        self.save_cwnd()
        self.cwnd = 1
        self.repair = "timeout"
        self.full_bw = Fraction(0)
        self.round_start = True

    def idle(self, now: Fraction) -> None:
        """BBRHandleRestartFromIdle, of an application that had nothing to send."""
        if self.rtprop_stamp is None:
            return
        self.idle_restart = True
        if self.state == "probe_bw":
            self.set_pacing_rate(Fraction(1))


@dataclass
class KernelBbr(Bbr):
    """With room for ACKs in bulk (draft 02, 4.5.5), even windows, two segments more in the first phase, and a pace that
    is a hundredth slower (draft 02, BBRPacingMarginPercent)."""

    extra: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interval: tuple[Fraction, int] | None = None
        self.candidate: Fraction | None = None
        self.policed_lost = 0
        self.extra_rounds = self.half = self.epoch_acked = 0
        self.epoch: Fraction | None = None
        self.policed: Fraction | None = None
        self.forget_policer()

    @property
    def bandwidth(self) -> Fraction:
        return self.bw.best if self.policed is None else self.policed

    @property
    def gains(self) -> tuple[Fraction, Fraction]:
        pacing, cwnd = super().gains
        return (Fraction(1) if self.state == "probe_bw" and self.policed is not None else pacing), cwnd

    def pace(self, bandwidth: Fraction, gain: Fraction) -> Fraction:
        return Fraction(99, 100) * super().pace(bandwidth, gain)

    def forget_policer(self) -> None:
        self.policed = self.interval = self.candidate = None
        self.policed_rounds = 0

    def look_for_policer(self, s: Sample) -> None:
        """Two intervals of 4 to 16 round trips, each from a loss to a loss, in which a fifth (50/256) of what was
        delivered was lost, at rates within an eighth or 4 kbit/s: their mean is the bandwidth for 48 round trips."""
        if self.policed is not None:
            self.policed_rounds += self.state == "probe_bw" and self.round_start
            if self.policed_rounds >= 48:
                self.forget_policer()
                self.enter_probe_bw(s.time)
            return
        if self.interval is None:
            if not s.lost:
                return
            self.interval = (s.time, s.delivered)
            self.policed_lost = 0
        else:
            self.policed_lost += s.lost
        self.policed_rounds += self.round_start
        if self.is_app_limited(s) or self.policed_rounds > 16:
            self.forget_policer()
            return
        began, delivered = self.interval[0], s.delivered - self.interval[1]
        ms = int(s.time * 1000) - int(began * 1000)
        if self.policed_rounds < 4 or not s.lost or not delivered or not ms or 256 * self.policed_lost < 50 * delivered:
            return
        rate = in_units(Fraction(delivered * 1000, ms))
        before, self.candidate = self.candidate, rate
        self.interval, self.policed_lost, self.policed_rounds = (s.time, s.delivered), 0, 0
        if before is None:
            return
        apart = abs(rate - before)
        alike = not self.less(before / 8, apart, UNIT / 4)
        if alike or not self.less(4000, apart * self.mss * 8, 12_000):
            self.policed = self.candidate = in_units((rate + before) / 2)

    def with_quanta(self, segments: int) -> int:
        even = (super().with_quanta(segments) + 1) // 2 * 2
        return even + 2 if self.state == "probe_bw" and self.cycle_index == 0 else even

    def target_cwnd(self) -> int:
        if self.rtprop is None or not self.filled_pipe:
            return super().target_cwnd()
        most = self.bandwidth / 10
        self.less(max(self.extra), most, ROUNDING)
        return self.with_quanta(self.bdp(self.gains[1]) + min(max(self.extra), int(most)))

    def takes(self, rtt: Fraction, expired: bool) -> bool:
        return self.rtprop is None or rtt < self.rtprop or expired

    def seen(self, s: Sample) -> None:
        """BBRUpdateACKAggregation, over two halves of five round trips."""
        if self.epoch is None:
            self.epoch = s.time
        if not s.acked or not s.has_rate:
            return
        if self.round_start:
            self.extra_rounds += 1
            if self.extra_rounds >= 5:
                self.extra_rounds, self.half = 0, 1 - self.half
                self.extra[self.half] = 0
        expected = self.bandwidth * (s.time - self.epoch)
        self.undecided = self.undecided or (expected > 0 and int(expected) != int(expected - ROUNDING))
        if self.epoch_acked <= int(expected):
            self.epoch, self.epoch_acked, expected = s.time, 0, Fraction(0)
        self.epoch_acked += s.acked
        extra = min(self.epoch_acked - int(expected), self.cwnd)
        self.extra[self.half] = max(self.extra[self.half], extra)

    def idle(self, now: Fraction) -> None:
        super().idle(now)
        if self.rtprop_stamp is not None:
            self.epoch, self.epoch_acked = now, 0
            if self.state == "probe_rtt":
                self.end_probe_rtt(now)
