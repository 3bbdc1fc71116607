"""BBR, version 3, from draft-ietf-ccwg-bbr-06: its pseudo-code over exact rationals, function by function.

Windows and volumes in segments, times in seconds, rates in segments a second. Names are the draft's. Where the draft
leaves a choice or contradicts itself, the comment names the entry of docs/paper-notes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf

from tests.oracles.bbr import EARLY, LATE, ROUNDING, in_units

INITIAL_CWND = 10
MIN_PIPE = 4
LOSS_THRESH, BETA, HEADROOM, PACING_MARGIN = Fraction(2, 100), Fraction(7, 10), Fraction(15, 100), Fraction(1, 100)
PROBE_BW = ("probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up")
PACING_GAIN = {
    "startup": Fraction(277, 100),
    "drain": Fraction(1, 2),
    "probe_bw_down": Fraction(9, 10),
    "probe_bw_cruise": Fraction(1),
    "probe_bw_refill": Fraction(1),
    "probe_bw_up": Fraction(5, 4),
    "probe_rtt": Fraction(1),
}
CWND_GAIN = dict.fromkeys(PACING_GAIN, Fraction(2)) | {"probe_bw_up": Fraction(9, 4), "probe_rtt": Fraction(1, 2)}
"""Table of 5.6.1 (B-1)."""
Volume = int | float
"""Segments, or Infinity."""


@dataclass(frozen=True)
class Sample:
    """C and RS at an ACK: struct rw_rate."""

    now: Fraction
    newly_acked: int
    inflight: int
    repair: str
    is_app_limited: bool
    rtt: Fraction | None
    delivered: int  # C.delivered
    prior_delivered: int
    interval: Fraction
    tx_in_flight: int
    lost: int  # RS.lost
    has_selective_acks: bool = True
    is_cwnd_limited: bool = False

    @property
    def has_data(self) -> bool:
        return self.newly_acked > 0 and self.delivered > self.prior_delivered

    @property
    def rs_delivered(self) -> int:
        return self.delivered - self.prior_delivered if self.has_data else 0

    @property
    def delivery_rate(self) -> Fraction:
        return in_units(self.rs_delivered / self.interval) if self.has_data and self.interval else Fraction(0)


@dataclass(frozen=True)
class Packet:
    """A packet P that is found lost, of one segment: struct rw_lost."""

    tx_in_flight: int
    lost: int  # C.lost - P.lost
    delivered: int  # C.delivered
    now: Fraction
    is_app_limited: bool = False
    continues: bool = False
    has_selective_acks: bool = True


def longest(_: int) -> tuple[int, Fraction]:
    """PickProbeWait's draws with seed 0: rounds_since_probe_up, and what is added to two seconds."""
    return 0, Fraction(1)


@dataclass
class Bbr3:
    """OnInit."""

    cwnd: int
    srtt: Fraction | None
    mss: int = 1460
    draws: Callable[[int], tuple[int, Fraction]] = longest
    undecided: bool = False
    """A decision was so close that rounding makes it: nothing is compared from here on."""

    def __post_init__(self) -> None:
        self.max_bw_filter: dict[int, Fraction] = {}
        self.cycle_count = 0
        self.bw = Fraction(0)
        self.min_rtt, self.min_rtt_stamp = self.srtt, Fraction(0)
        self.probe_rtt_min_delay, self.probe_rtt_min_stamp = self.srtt, Fraction(0)  # B-2
        self.probe_rtt_done_stamp: Fraction | None = None
        self.probe_rtt_round_done = self.probe_rtt_expired = self.idle_restart = False
        self.prior_cwnd = 0
        self.undo_state: str | None = None
        self.undo_bw_shortterm: Fraction | float = 0
        self.undo_inflight_shortterm: Volume = 0
        self.undo_inflight_longterm: Volume = 0
        self.extra: list[tuple[int, int]] = []
        self.block = self.block_rounds = 0
        self.extra_acked_interval_start, self.extra_acked_delivered = Fraction(0), 0
        self.full_bw_reached = False
        self.inflight_longterm: Volume = inf
        self.probe_up_acked_per_inc: Volume = inf
        self.bw_probe_up_acked = self.bw_probe_up_rounds = self.rounds_since_probe_up = 0
        self.is_bw_probe_sample = self.prev_probe_too_high = self.prev_probe_precautionary = False
        self.ack_phase = "init"
        self.cycle_stamp, self.bw_probe_wait, self.picks = Fraction(0), Fraction(0), 0
        self.loss_round_delivered, self.loss_round_start, self.lost_ranges = 0, False, 0
        self.drain_start_round = 0
        self.repair = "none"
        self.started = self.refills = self.marked = False
        self.app_limited_until = 0
        """C.app_limited, as far as ProbeRTT marks it: packets leave app-limited until more than this is delivered."""
        self.reset_congestion_signals()
        self.reset_short_term_model()
        self.next_round_delivered, self.round_start, self.round_count = 0, False, 0
        self.reset_full_bw()
        nominal = Fraction(self.cwnd) / (self.srtt or Fraction(1, 1000))
        self.pacing_rate = PACING_GAIN["startup"] * in_units(nominal)
        self.state = "startup"

    # Decisions

    def less(self, a: Fraction | float, b: Fraction | float, within: Fraction | int) -> bool:
        """a < b; where they are as close as rounding, nobody knows."""
        if inf not in (a, b):
            self.undecided = self.undecided or abs(Fraction(a) - Fraction(b)) <= within
        return a < b

    def whole(self, segments: Fraction) -> int:
        """Rounded up (B-3)."""
        self.undecided = self.undecided or ceil(segments - ROUNDING) != ceil(segments)
        return ceil(segments)

    # 5.6: control parameters

    @property
    def max_bw(self) -> Fraction:
        kept = (self.max_bw_filter.get(cycle, Fraction(0)) for cycle in (self.cycle_count, self.cycle_count - 1))
        return max(kept)

    def set_pacing_rate_with_gain(self, gain: Fraction) -> None:
        rate = gain * self.bw * (1 - PACING_MARGIN)
        if self.full_bw_reached or rate > self.pacing_rate:
            self.pacing_rate = in_units(rate)

    @property
    def send_quantum(self) -> int:
        segments = min(self.pacing_rate / 1000, Fraction(65536 // self.mss))
        self.undecided = self.undecided or (
            segments > 2 and int(segments) != int(segments - segments / 10_000 - ROUNDING)
        )
        return max(int(segments), 2)

    def bdp_multiple(self, bw: Fraction, gain: Fraction) -> int:
        return INITIAL_CWND if self.min_rtt is None else self.whole(gain * bw * self.min_rtt)

    @property
    def bdp(self) -> int:
        return self.bdp_multiple(self.bw, Fraction(1))

    def quantization_budget(self, inflight_cap: int) -> int:
        capped = max(inflight_cap, 3 * self.send_quantum, MIN_PIPE)
        return capped + 2 if self.state == "probe_bw_up" else capped

    def inflight(self, bw: Fraction) -> int:
        return self.quantization_budget(self.bdp_multiple(bw, Fraction(1)))

    def probe_rtt_cwnd(self) -> int:
        return max(self.bdp_multiple(self.bw, CWND_GAIN["probe_rtt"]), MIN_PIPE)

    def set_cwnd(self, rs: Sample) -> None:
        max_inflight = self.quantization_budget(self.bdp_multiple(self.bw, CWND_GAIN[self.state]) + self.extra_acked)
        if self.full_bw_reached:
            self.cwnd = min(self.cwnd + rs.newly_acked, max_inflight)
        elif self.cwnd < max_inflight or rs.delivered < INITIAL_CWND:
            self.cwnd += rs.newly_acked
        self.cwnd = max(self.cwnd, MIN_PIPE)
        if self.state == "probe_rtt":
            self.cwnd = min(self.cwnd, self.probe_rtt_cwnd())
        cap: Volume = inf
        if self.state in PROBE_BW and self.state != "probe_bw_cruise":
            cap = self.inflight_longterm
        elif self.state in ("probe_rtt", "probe_bw_cruise"):
            cap = self.inflight_with_headroom()
        cap = max(min(cap, self.inflight_shortterm), MIN_PIPE)
        self.cwnd = int(min(self.cwnd, cap))

    def save_cwnd(self) -> None:
        in_recovery = self.repair != "none" or self.state == "probe_rtt"
        self.prior_cwnd = max(self.prior_cwnd, self.cwnd) if in_recovery else self.cwnd

    def restore_cwnd(self) -> None:
        self.cwnd = max(self.cwnd, self.prior_cwnd)

    # 5.5: the model

    def update_max_bw(self, rs: Sample) -> None:
        self.round_start = rs.has_data and rs.prior_delivered >= self.next_round_delivered
        if self.round_start:
            self.next_round_delivered = rs.delivered
            self.round_count += 1
            self.rounds_since_probe_up += 1
        rate = rs.delivery_rate
        if rate > 0 and (rate >= self.max_bw or not rs.is_app_limited):
            now = self.cycle_count
            self.max_bw_filter[now] = max(self.max_bw_filter.get(now, Fraction(0)), rate)

    def advance_max_bw_filter(self) -> None:
        if self.cycle_count in self.max_bw_filter:  # B-4
            self.cycle_count += 1

    @property
    def extra_acked(self) -> int:
        return max((extra for block, extra in self.extra if block >= self.block - 1), default=0)

    def update_ack_aggregation(self, rs: Sample) -> None:
        if self.round_start:  # B-5: blocks of five rounds, of one in Startup
            self.block_rounds += 1
            if self.block_rounds >= (5 if self.full_bw_reached else 1):
                self.block, self.block_rounds = self.block + 1, 0
                if not self.full_bw_reached:
                    self.extra = []
        if not rs.newly_acked:
            return
        expected = self.bw * (rs.now - self.extra_acked_interval_start)
        self.undecided = self.undecided or (expected > 0 and int(expected) != int(expected - ROUNDING))
        if self.extra_acked_delivered <= int(expected):
            self.extra_acked_delivered, self.extra_acked_interval_start, expected = 0, rs.now, Fraction(0)
        self.extra_acked_delivered += rs.newly_acked
        self.extra.append((self.block, min(self.extra_acked_delivered - int(expected), self.cwnd)))

    def reset_congestion_signals(self) -> None:
        self.is_loss_in_round, self.bw_latest, self.inflight_latest = False, Fraction(0), 0

    def reset_short_term_model(self) -> None:
        self.bw_shortterm: Fraction | float = inf
        self.inflight_shortterm: Volume = inf

    def update_latest_delivery_signals(self, rs: Sample) -> None:
        self.loss_round_start = False
        if not rs.has_data:
            return
        self.bw_latest = max(self.bw_latest, rs.delivery_rate)
        self.inflight_latest = max(self.inflight_latest, rs.rs_delivered)
        if rs.prior_delivered >= self.loss_round_delivered:
            self.loss_round_delivered = rs.delivered
            self.loss_round_start = True

    def adapt_lower_bounds_from_congestion(self) -> None:
        if self.state in ("startup", "probe_bw_refill", "probe_bw_up") or not self.is_loss_in_round:
            return
        if self.bw_shortterm == inf:
            self.bw_shortterm = self.max_bw
        if self.inflight_shortterm == inf:
            self.inflight_shortterm = self.cwnd
        self.bw_shortterm = in_units(max(self.bw_latest, BETA * Fraction(self.bw_shortterm)))
        self.inflight_shortterm = int(max(self.inflight_latest, BETA * Fraction(self.inflight_shortterm)))

    def note_loss(self, delivered: int) -> None:
        if not self.is_loss_in_round:
            self.loss_round_delivered = delivered
            if self.repair == "none":  # B-6
                self.save_state_upon_loss()
        self.is_loss_in_round = True

    @staticmethod
    def is_inflight_too_high(lost: int, tx_in_flight: int, has_selective_acks: bool) -> bool:
        return lost > tx_in_flight * LOSS_THRESH or (lost > 0 and not has_selective_acks)

    def handle_inflight_too_high(self, p: Packet, inflight_at_loss: int) -> None:
        self.prev_probe_too_high = True
        self.is_bw_probe_sample = False
        if not p.is_app_limited:
            self.inflight_longterm = max(inflight_at_loss, int(self.target_inflight() * BETA))
        if self.state == "probe_bw_up":
            self.undo_state = "probe_bw_up"
            self.start_probe_bw_down(p.delivered, p.now)

    def handle_lost_packet(self, p: Packet) -> None:
        self.note_loss(p.delivered)
        if not p.continues or not self.lost_ranges:
            self.lost_ranges += 1
        if not self.is_bw_probe_sample:
            return
        if self.is_inflight_too_high(p.lost, p.tx_in_flight, p.has_selective_acks):
            inflight_prev, lost_prev = p.tx_in_flight - 1, p.lost - 1
            lost_prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1 - LOSS_THRESH)
            lost_prefix = min(max(lost_prefix, Fraction(0)), Fraction(1))  # B-7
            self.handle_inflight_too_high(p, int(inflight_prev + lost_prefix))

    def save_state_upon_loss(self) -> None:
        self.save_cwnd()
        self.undo_state = None
        self.undo_bw_shortterm = self.bw_shortterm
        self.undo_inflight_shortterm = self.inflight_shortterm
        self.undo_inflight_longterm = self.inflight_longterm

    # 5.3: states

    def reset_full_bw(self) -> None:
        self.full_bw, self.full_bw_count, self.full_bw_now = Fraction(0), 0, False

    def check_full_bw_reached(self, rs: Sample) -> None:
        if self.full_bw_now or not self.round_start or rs.is_app_limited or not rs.delivery_rate:
            return
        if rs.delivery_rate >= self.full_bw * Fraction(5, 4):
            self.reset_full_bw()
            self.full_bw = rs.delivery_rate
            return
        self.full_bw_count += 1
        self.full_bw_now = self.full_bw_count >= 3
        self.full_bw_reached = self.full_bw_reached or self.full_bw_now

    def check_startup_done(self, rs: Sample, loss_in_round: bool) -> None:
        """CheckStartupHighLoss is in words only (5.3.1.3; B-8)."""
        if self.state == "startup" and rs.repair == "recovery":
            if rs.has_selective_acks:
                high = (
                    self.loss_round_start
                    and self.lost_ranges >= 6
                    and self.is_inflight_too_high(rs.lost, rs.tx_in_flight, True)
                )
            else:
                high = loss_in_round
            if high:
                self.undo_state = "startup"
                self.full_bw_reached = self.full_bw_now = True
                self.inflight_longterm = max(self.bdp, self.inflight_latest)
        if self.loss_round_start:
            self.lost_ranges = 0
        if self.state == "startup" and self.full_bw_reached:
            self.state = "drain"
            self.drain_start_round = self.round_count

    def check_drain_done(self, rs: Sample) -> None:
        if self.state == "drain" and (
            rs.inflight <= self.inflight(self.bw) or self.round_count > self.drain_start_round + 3
        ):
            self.start_probe_bw_down(rs.delivered, rs.now)

    def target_inflight(self) -> int:
        return min(self.bdp, self.cwnd)

    def inflight_with_headroom(self) -> Volume:
        if self.inflight_longterm == inf:
            return inf
        headroom = max(1, HEADROOM * int(self.inflight_longterm))
        return max(int(self.inflight_longterm - headroom), MIN_PIPE)

    def start_probe_bw_down(self, delivered: int, now: Fraction) -> None:
        self.reset_congestion_signals()
        self.probe_up_acked_per_inc = inf
        self.picks += 1
        self.rounds_since_probe_up, more = self.draws(self.picks)
        self.bw_probe_wait = 2 + more
        self.cycle_stamp = now
        self.ack_phase = "probe_stopping"
        self.next_round_delivered = delivered
        self.state = "probe_bw_down"

    def start_probe_bw_refill(self, delivered: int) -> None:
        self.reset_short_term_model()
        self.bw_probe_up_rounds = self.bw_probe_up_acked = 0
        self.prev_probe_precautionary = False
        self.ack_phase = "refilling"
        self.next_round_delivered = delivered
        self.state = "probe_bw_refill"

    def start_probe_bw_up(self, rs: Sample) -> None:
        self.ack_phase = "probe_starting"
        self.next_round_delivered = rs.delivered
        self.reset_full_bw()
        self.full_bw = rs.delivery_rate
        self.state = "probe_bw_up"
        self.raise_inflight_longterm_slope()

    def raise_inflight_longterm_slope(self) -> None:
        growth_this_round = 1 << self.bw_probe_up_rounds
        self.bw_probe_up_rounds = min(self.bw_probe_up_rounds + 1, 30)
        self.probe_up_acked_per_inc = max(self.cwnd // growth_this_round, 1)

    def probe_inflight_longterm_upward(self, rs: Sample) -> None:
        if not rs.is_cwnd_limited or self.cwnd < self.inflight_longterm:
            return
        self.bw_probe_up_acked += rs.newly_acked
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc:
            delta = int(self.bw_probe_up_acked // self.probe_up_acked_per_inc)
            self.bw_probe_up_acked -= int(delta * self.probe_up_acked_per_inc)
            self.inflight_longterm += delta
        if self.round_start:
            self.raise_inflight_longterm_slope()

    def adapt_long_term_model(self, rs: Sample) -> bool:
        if self.ack_phase == "probe_starting" and self.round_start:
            self.ack_phase = "probe_feedback"
        if self.ack_phase == "probe_stopping" and self.round_start:
            self.is_bw_probe_sample = False
            self.ack_phase = "init"
            if self.state in PROBE_BW and not rs.is_app_limited:
                self.advance_max_bw_filter()
            if self.state in PROBE_BW and self.prev_probe_precautionary and not self.prev_probe_too_high:
                self.start_probe_bw_refill(rs.delivered)
                return True
        if not self.is_inflight_too_high(rs.lost, rs.tx_in_flight, rs.has_selective_acks):
            if self.inflight_longterm == inf:
                return False
            self.inflight_longterm = max(self.inflight_longterm, rs.tx_in_flight)
            if self.state == "probe_bw_up":
                self.probe_inflight_longterm_upward(rs)
        return False

    def is_time_to_probe_bw(self, now: Fraction) -> bool:
        return (
            self.less(self.cycle_stamp + self.bw_probe_wait, now, LATE)
            or self.rounds_since_probe_up >= min(self.target_inflight(), 63)
        )  # fmt: skip

    def is_time_to_go_down(self, rs: Sample) -> bool:
        if self.prev_probe_too_high and rs.inflight >= self.inflight_longterm:
            self.prev_probe_precautionary = True
            return True
        if rs.is_cwnd_limited and self.cwnd >= self.inflight_longterm:
            self.reset_full_bw()
            self.full_bw = rs.delivery_rate
            return False
        return self.full_bw_now

    def update_probe_bw_cycle_phase(self, rs: Sample) -> None:
        if not self.full_bw_reached or not rs.newly_acked or self.adapt_long_term_model(rs):
            return
        if self.state in ("probe_bw_down", "probe_bw_cruise") and self.is_time_to_probe_bw(rs.now):
            self.start_probe_bw_refill(rs.delivered)
        elif self.state == "probe_bw_down":
            if rs.inflight <= self.inflight_with_headroom() and rs.inflight <= self.inflight(self.max_bw):
                self.state = "probe_bw_cruise"
        elif self.state == "probe_bw_refill" and self.round_start:
            self.is_bw_probe_sample = True
            self.start_probe_bw_up(rs)
        elif self.state == "probe_bw_up" and self.is_time_to_go_down(rs):
            self.prev_probe_too_high = False
            self.start_probe_bw_down(rs.delivered, rs.now)

    def update_min_rtt(self, rs: Sample) -> None:
        self.probe_rtt_expired = self.less(self.probe_rtt_min_stamp + 5, rs.now, EARLY)
        if rs.rtt is not None and (
            self.probe_rtt_min_delay is None or rs.rtt < self.probe_rtt_min_delay or self.probe_rtt_expired
        ):
            self.probe_rtt_min_delay, self.probe_rtt_min_stamp = rs.rtt, rs.now
        expired = self.less(self.min_rtt_stamp + 10, rs.now, EARLY)
        if self.probe_rtt_min_delay is not None and (
            self.min_rtt is None or self.probe_rtt_min_delay < self.min_rtt or expired
        ):
            self.min_rtt, self.min_rtt_stamp = self.probe_rtt_min_delay, self.probe_rtt_min_stamp

    def check_probe_rtt(self, rs: Sample) -> None:
        if self.state != "probe_rtt" and self.probe_rtt_expired and not self.idle_restart:
            self.state = "probe_rtt"
            self.save_cwnd()
            self.probe_rtt_done_stamp = None
            self.ack_phase = "probe_stopping"
            self.next_round_delivered = rs.delivered
        if self.state == "probe_rtt":
            self.handle_probe_rtt(rs)
        if rs.rs_delivered > 0:
            self.idle_restart = False

    def handle_probe_rtt(self, rs: Sample) -> None:
        self.app_limited_until = rs.delivered + rs.inflight  # MarkConnectionAppLimited
        if self.probe_rtt_done_stamp is None and rs.inflight <= self.probe_rtt_cwnd():
            self.probe_rtt_done_stamp = rs.now + Fraction(1, 5)
            self.probe_rtt_round_done = False
            self.next_round_delivered = rs.delivered
        elif self.probe_rtt_done_stamp is not None:
            self.probe_rtt_round_done = self.probe_rtt_round_done or self.round_start
            if self.probe_rtt_round_done:
                self.check_probe_rtt_done(rs.delivered, rs.now)

    def check_probe_rtt_done(self, delivered: int, now: Fraction) -> None:
        if self.probe_rtt_done_stamp is not None and self.less(self.probe_rtt_done_stamp, now, LATE):
            self.probe_rtt_min_stamp = now
            self.restore_cwnd()
            self.reset_short_term_model()
            if self.full_bw_reached:
                self.start_probe_bw_down(delivered, now)
                self.state = "probe_bw_cruise"
            else:
                self.state = "startup"

    # What happens

    def ack(self, rs: Sample) -> None:
        """UpdateOnACK."""
        if not self.started:
            self.started = True
            self.min_rtt_stamp = self.probe_rtt_min_stamp = self.extra_acked_interval_start = rs.now
            self.probe_rtt_min_delay = self.min_rtt
        if self.refills:
            self.start_probe_bw_refill(rs.delivered)
        self.refills = False
        if self.repair != "none" and rs.repair == "none":
            self.restore_cwnd()
        self.repair = rs.repair
        if self.marked:  # B-9
            self.marked = False
            self.note_loss(rs.delivered)
            if self.is_bw_probe_sample:
                at = Packet(rs.tx_in_flight, 0, rs.delivered, rs.now, rs.is_app_limited)
                self.handle_inflight_too_high(at, rs.tx_in_flight)
        loss_in_round = self.is_loss_in_round
        self.update_latest_delivery_signals(rs)
        self.update_max_bw(rs)
        if self.loss_round_start:
            self.adapt_lower_bounds_from_congestion()
            self.is_loss_in_round = False
        self.update_ack_aggregation(rs)
        self.check_full_bw_reached(rs)
        self.check_startup_done(rs, loss_in_round)
        self.check_drain_done(rs)
        self.update_probe_bw_cycle_phase(rs)
        self.update_min_rtt(rs)
        self.check_probe_rtt(rs)
        if self.loss_round_start:  # AdvanceLatestDeliverySignals
            self.bw_latest, self.inflight_latest = rs.delivery_rate, rs.rs_delivered
        self.bw = self.max_bw if self.bw_shortterm == inf else min(self.max_bw, Fraction(self.bw_shortterm))
        self.set_pacing_rate_with_gain(PACING_GAIN[self.state])
        self.set_cwnd(rs)

    def loss(self) -> None:
        """OnEnterFastRecovery."""
        self.save_state_upon_loss()
        self.repair = "recovery"

    def timeout(self) -> None:
        """OnEnterRTO, with nothing left in flight."""
        self.save_state_upon_loss()
        self.repair = "timeout"
        self.cwnd = 1

    def undo(self) -> None:
        """HandleSpuriousLossDetection."""
        self.restore_cwnd()
        self.is_loss_in_round = False
        self.reset_full_bw()
        self.bw_shortterm = max(self.bw_shortterm, self.undo_bw_shortterm)
        self.inflight_shortterm = max(self.inflight_shortterm, self.undo_inflight_shortterm)
        self.inflight_longterm = max(self.inflight_longterm, self.undo_inflight_longterm)
        if self.undo_state == "startup" and self.state != "startup":
            self.full_bw_reached = False
            if self.state != "probe_rtt":
                self.state = "startup"
        elif self.undo_state == "probe_bw_up" and self.state not in ("probe_bw_up", "probe_rtt"):
            self.refills = True  # StartRound needs what the ACK delivers
        self.undo_state = None

    def idle(self, now: Fraction) -> None:
        """HandleRestartFromIdle, of an application that had nothing to send."""
        if not self.started:
            return
        self.idle_restart = True
        self.extra_acked_interval_start = now
        if self.state in PROBE_BW:
            self.set_pacing_rate_with_gain(Fraction(1))
        elif self.state == "probe_rtt":
            self.check_probe_rtt_done(self.next_round_delivered, now)
