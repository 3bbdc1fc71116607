"""BBRv3 beside its draft: histories from a path with a bottleneck, and each rule of the draft by itself.

There is no kernel that runs it to compare with: the oracle is written from draft-ietf-ccwg-bbr-06, not from the C.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rewindow import Controller
from tests.oracles.bbr3 import PROBE_BW, Bbr3, Packet, Sample

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
MS = Fraction(1, 1000)
NO_RATE_BOUND, NO_BOUND = 2**32 - 1, 2**21 - 1


def draws(seed: int) -> Callable[[int], tuple[int, Fraction]]:
    """The controller's draws, as its option describes them: 0 or 1 round, and up to a second."""

    def draw(pick: int) -> tuple[int, Fraction]:
        if not seed:
            return 0, Fraction(1)
        x = (seed * 0x9E3779B1 + pick % 256 * 0x85EBCA77) % 2**32
        x = (x ^ x >> 15) * 0x2C1B3C6D % 2**32
        x = (x ^ x >> 12) * 0x297A2D39 % 2**32
        x ^= x >> 15
        return x >> 31, ((x & 0xFFFF) * 1001 >> 16) * MS

    return draw


@dataclass
class Sent:
    number: int
    at: Fraction
    delivered_at: Fraction
    delivered: int
    first_sent: Fraction
    arrives: Fraction | None  # None: dropped
    in_flight: int
    lost: int
    app_limited: bool


class Link:
    """A path that delivers at a rate, one segment after the other, and drops what its queue cannot hold."""

    def __init__(self, rate: int, rtt: Fraction, queue: int, drops: int = 0) -> None:
        self.rate, self.rtt, self.queue, self.drops = rate, rtt, queue, drops
        self.now = self.free = self.delivered_at = self.first_sent = Fraction(1)
        self.sent: deque[Sent] = deque()
        self.numbers = 0
        self.delivered, self.lost = 1, 0
        self.last_lost = -2
        self.limited = self.selective = False

    @property
    def in_flight(self) -> int:
        return len(self.sent)

    def send(self, segments: int) -> None:
        if not self.sent:
            self.first_sent = self.delivered_at = self.now
        for _ in range(segments):
            self.numbers += 1
            arrives = None
            full = max(self.free - self.now, Fraction(0)) * self.rate >= self.queue
            if not full and not (self.drops and self.numbers % self.drops == 0):
                self.free = max(self.free, self.now) + Fraction(1, self.rate)
                arrives = self.free + self.rtt
            packet = Sent(self.numbers, self.now, self.delivered_at, self.delivered, self.first_sent, arrives,
                          len(self.sent) + 1, self.lost, self.limited)  # fmt: skip
            self.sent.append(packet)

    def ack(self, count: int, repair: str, limited: bool) -> tuple[list[Packet], Sample]:
        """Of the next so many segments, when the last of them arrives; what was dropped before it is found lost."""
        taken, dropped = [], []
        while self.sent and len(taken) < count:
            packet = self.sent.popleft()
            (dropped if packet.arrives is None else taken).append(packet)
        if taken:
            newest = taken[-1]
            self.now = max(self.now, newest.arrives or self.now)
            self.delivered += len(taken)
        lost = []
        for packet in dropped:
            self.lost += 1
            continues = packet.number == self.last_lost + 1
            self.last_lost = packet.number
            lost.append(Packet(packet.in_flight, self.lost - packet.lost, self.delivered, us(self.now),
                               packet.app_limited, continues, self.selective))  # fmt: skip
        if not taken:
            return lost, Sample(us(self.now), 0, len(self.sent), repair, False, None, self.delivered, 0, Fraction(0),
                                0, 0, self.selective, limited)  # fmt: skip
        self.first_sent, self.delivered_at = newest.at, self.now
        interval = max(newest.at - newest.first_sent, self.now - newest.delivered_at)
        sample = Sample(us(self.now), len(taken), len(self.sent), repair, newest.app_limited, us(self.now - newest.at),
                        self.delivered, newest.delivered, us(interval), newest.in_flight, self.lost - newest.lost,
                        self.selective, limited)  # fmt: skip
        return lost, sample


def us(t: Fraction) -> Fraction:
    """Whole microseconds, as both sides can hold them."""
    return Fraction(round(t * 10**6), 10**6)


def tell(c: Controller, lost: list[Packet], s: Sample) -> None:
    for p in lost:
        c.lost(in_flight=p.tx_in_flight, lost_since=p.lost, delivered=p.delivered, time=float(p.now),
               app_limited=p.is_app_limited, continues=p.continues, selective=p.has_selective_acks)  # fmt: skip
    c.sample(
        delivered=s.delivered, prior_delivered=s.prior_delivered, interval=float(s.interval), time=float(s.now),
        acked=s.newly_acked, lost=len(lost), in_flight=s.inflight, repair=s.repair, app_limited=s.is_app_limited,
        rtt=None if s.rtt is None else float(s.rtt), sent_in_flight=s.tx_in_flight, lost_since=s.lost,
        selective=s.has_selective_acks, window_limited=s.is_cwnd_limited,
    )  # fmt: skip


def same(c: Controller, o: Bbr3, seen: Counter[str]) -> None:
    p, words = c.paths[0], c.state
    seen[o.state] += 1
    assert p.phase == o.state
    assert p.cwnd == o.cwnd
    assert words["prior_cwnd"] == [o.prior_cwnd]
    for name, value in (("inflight_shortterm", o.inflight_shortterm), ("inflight_longterm", o.inflight_longterm)):
        assert words[name] == [NO_BOUND if value == inf else value], name
        seen[name] += value != inf
    assert words["inflight_latest"] == [o.inflight_latest]
    for name, rate in (
        ("bandwidth_per_us", o.bw),
        ("bandwidth_latest_per_us", o.bw_latest),
        ("full_bandwidth_per_us", o.full_bw),
        ("pacing_per_us", o.pacing_rate),
        ("bandwidth_shortterm_per_us", o.bw_shortterm),
    ):
        told = words[name][0]
        if rate == inf:
            assert told == pytest.approx(NO_RATE_BOUND / 2**24)
        else:
            assert told * 1e6 == pytest.approx(float(rate), rel=1e-4, abs=0.4), name
    assert words["min_rtt_us"] == [0 if o.min_rtt is None else int(o.min_rtt * 10**6)]
    assert p.ssthresh == inf


def history(data: st.DataObject, seen: Counter[str]) -> None:
    """A transfer with ACKs of several segments, losses, marks, timeouts, pauses and recoveries that prove spurious."""
    rate, rtt = data.draw(st.integers(40, 1500)), data.draw(st.integers(20, 200)) * MS
    seed = data.draw(st.sampled_from([0, 1, 77]))
    queue = 4 + int(rate * rtt * data.draw(st.sampled_from([Fraction(1, 2), 1, 3, 3])))
    link = Link(rate, rtt, queue, data.draw(st.sampled_from([0, 0, 20, 70])))
    link.selective = data.draw(st.sampled_from([True, True, True, False]))
    given_rtt = data.draw(st.sampled_from([None, rtt]))
    o = Bbr3(10, given_rtt, draws=draws(seed))
    path: dict[str, Any] = {"cwnd": 10.0} | ({} if given_rtt is None else {"rtt": float(given_rtt)})
    c = Controller("bbr3", paths=[path], seed=seed)
    same(c, o, seen)
    repair, until, undoable = "none", 0, False
    for _ in range(data.draw(st.integers(60, 300))):
        room = o.cwnd - link.in_flight
        link.limited = data.draw(st.sampled_from([False] * 9 + [True])) or link.delivered <= o.app_limited_until
        link.send(min(room, data.draw(st.sampled_from([2, 64, 64, 64]))) if room > 0 else 0)
        event = data.draw(st.sampled_from(["ack"] * 120 + ["late", "timeout", "idle", "mark", "undo"]))
        if not link.sent or event == "idle":
            link.now += data.draw(st.sampled_from([0, 5, 700, 5500])) * MS
            c.idle(seconds=0.5, time=float(us(link.now)))
            o.idle(us(link.now))
            link.send(1)
        if event == "late":  # no shorter round trip for so long
            link.now += 5500 * MS
        if event == "timeout":
            seen["timeout"] += 1
            repair, until = "timeout", link.delivered + link.in_flight
            undoable = True
            c.timeout()
            o.timeout()
        if event == "mark":
            undoable = True
            c.ece()
            o.marked = True
        if link.delivered >= until:
            repair = "none"
        limited = link.in_flight >= o.cwnd
        lost, sample = link.ack(data.draw(st.integers(1, 8)), repair, limited)
        if event == "undo" and undoable:
            undoable = False
            c.undo()
            o.undo()
        elif lost and repair == "none":
            repair, until = "recovery", link.delivered + link.in_flight
            sample = Sample(**(vars(sample) | {"repair": repair}))
            undoable = True
            c.loss()
            o.loss()
        for packet in lost:
            o.handle_lost_packet(packet)
        tell(c, lost, sample)
        o.ack(sample)
        if o.undecided:
            return
        same(c, o, seen)


def test_is_its_draft() -> None:
    """Step by step: window, bounds, state, filters and pace. Each state is reached, and each bound."""
    seen: Counter[str] = Counter()

    @settings(max_examples=24, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW,
              phases=[Phase.generate])  # fmt: skip
    @given(data=st.data())
    def histories(data: st.DataObject) -> None:
        history(data, seen)

    histories()
    states = {"startup", "drain", "probe_rtt", *PROBE_BW}
    assert states | {"timeout", "inflight_shortterm", "inflight_longterm"} <= set(seen), seen


RTT, RATE = 0.05, 1000.0
BDP = 50
"""Segments: the path's, and what is delivered in each of its round trips."""


class Steady:
    """BBRv3 whose samples are one round trip each, from a path with a rate (segments a second)."""

    def __init__(self, **options: Any) -> None:
        self.bbr = Controller("bbr3", paths=[{"cwnd": 10.0, "rtt": RTT}], **options)
        self.now, self.delivered = 1.0, 1

    def sample(self, rate: float = RATE, after: float = RTT, ends_round: bool = True, **more: Any) -> Steady:
        self.now += after
        flight = max(round(rate * RTT), 1)
        told = {"acked": flight if ends_round else 1, "in_flight": BDP, "rtt": RTT, "sent_in_flight": flight} | more
        self.delivered += told["acked"]
        span = told["acked"] if ends_round else max(told["acked"], flight)
        self.bbr.sample(delivered=self.delivered, prior_delivered=self.delivered - span, interval=span / rate,
                        time=self.now, **told)  # fmt: skip
        return self

    def lose(self, segments: int, in_flight: int = 100, apart: bool = True, **more: Any) -> Steady:
        for n in range(1, segments + 1):
            self.bbr.lost(in_flight=in_flight, lost_since=n, delivered=self.delivered, time=self.now,
                          continues=not apart and n > 1, **more)  # fmt: skip
        return self

    @property
    def phase(self) -> str:
        return self.bbr.paths[0].phase

    @property
    def cwnd(self) -> float:
        return self.bbr.paths[0].cwnd

    @property
    def gain(self) -> float:
        """Of the pace, which is a hundredth below the bandwidth."""
        return round(self.bbr.state["pacing_per_us"][0] / self.bbr.state["bandwidth_per_us"][0] / 0.99, 2)

    def until(self, phase: str, most: int = 120, **more: Any) -> Steady:
        """The path's round trips, without a shorter one every five seconds, until it is in this phase."""
        for n in range(most):
            if self.phase == phase:
                return self
            self.sample(**({"rtt": RTT - 1e-5 * n} | more))
        raise AssertionError(f"{phase} was not reached from {self.phase}")


def test_the_window_grows_by_what_arrives_until_an_initial_window_has() -> None:
    """5.6.4.6; of so slow a path the bandwidth-delay product is 2."""
    steady = Steady()
    windows = [steady.sample(rate=40, app_limited=True).cwnd for _ in range(6)]
    assert windows == [12, 14, 16, 18, 18, 18]


def test_startup_ends_when_the_rate_has_not_grown_by_a_quarter_in_three_rounds() -> None:
    steady = Steady()
    for rate in (400, 500, 620, 620):  # a quarter more, nearly a quarter more
        steady.sample(rate=rate)
        assert (steady.phase, steady.gain) == ("startup", 2.77)
    steady.sample(rate=620, in_flight=200)
    assert (steady.phase, steady.gain) == ("drain", 0.5)
    limited = Steady()
    for _ in range(12):
        limited.sample(rate=300, app_limited=True)
    assert limited.phase == "startup"


@pytest.mark.parametrize(
    ("segments", "apart", "selective", "repair", "ends"),
    [
        (6, True, True, "recovery", True),
        (5, True, True, "recovery", False),  # BBRStartupFullLossCnt
        (9, False, True, "recovery", False),  # one range
        (6, True, True, "none", False),
        (1, True, False, "recovery", True),  # C.has_selective_acks
    ],
)
def test_startup_ends_by_losses(segments: int, apart: bool, selective: bool, repair: str, ends: bool) -> None:
    steady = Steady().sample(rate=400).sample(rate=800)
    if repair == "recovery":
        steady.bbr.loss()
    steady.lose(segments, apart=apart, selective=selective)
    steady.sample(rate=1200, repair=repair, lost_since=segments, selective=selective, sent_in_flight=80, in_flight=90)
    steady.sample(rate=1600, repair=repair, lost_since=segments, selective=selective, sent_in_flight=80, in_flight=90)
    assert steady.phase == ("drain" if ends else "startup")
    assert (steady.bbr.state["inflight_longterm"][0] != NO_BOUND) == ends


def test_few_losses_do_not_end_startup() -> None:
    """Six ranges, and no more than 2 % of what was in flight."""
    steady = Steady().sample(rate=400).sample(rate=800)
    steady.bbr.loss()
    steady.lose(6, in_flight=400)
    steady.sample(rate=1200, repair="recovery", lost_since=6, sent_in_flight=300, in_flight=200)
    assert steady.phase == "startup"
    steady.lose(6, in_flight=400)
    steady.sample(rate=1600, repair="recovery", lost_since=6, sent_in_flight=299, in_flight=200)
    assert steady.phase == "drain"


def test_drain_ends_at_the_bandwidth_delay_product_or_after_three_rounds() -> None:
    steady = Steady().until("drain", in_flight=2 * BDP)
    steady.sample(in_flight=BDP)
    assert steady.phase == "probe_bw_cruise"  # DOWN has nothing to drain either
    steady = Steady().until("drain", in_flight=2 * BDP)
    for _ in range(3):
        steady.sample(in_flight=2 * BDP)
        assert steady.phase == "drain"
    steady.sample(in_flight=2 * BDP)
    assert (steady.phase, steady.gain) == ("probe_bw_down", 0.9)


def test_bandwidth_is_probed_after_as_many_rounds_as_the_window_of_a_reno_flow() -> None:
    steady = Steady().until("probe_bw_cruise")
    rounds = 0
    while steady.phase == "probe_bw_cruise":
        steady.sample()
        rounds += 1
    assert (steady.phase, steady.gain) == ("probe_bw_refill", 1.0)
    assert rounds == BDP
    window = steady.cwnd
    steady.sample()
    assert (steady.phase, steady.gain) == ("probe_bw_up", 1.25)
    assert steady.cwnd - window == 15  # a quarter of BDP more, rounded up, and 2
    for _ in range(3):
        assert steady.phase == "probe_bw_up"
        steady.sample(in_flight=2 * BDP)
    assert steady.phase == "probe_bw_down"  # the rate did not grow
    steady.sample(in_flight=2 * BDP)
    assert steady.phase == "probe_bw_down"
    steady.sample(in_flight=BDP)
    assert (steady.phase, steady.gain) == ("probe_bw_cruise", 1.0)


def test_bandwidth_is_probed_after_63_rounds_at_the_latest() -> None:
    """5.3.3.8; of a path of twice the rate, in less than two seconds."""
    steady = Steady().until("probe_bw_cruise", rate=2 * RATE)
    rounds = 0
    while steady.phase == "probe_bw_cruise":
        steady.sample(rate=2 * RATE, after=0.02)
        rounds += 1
    assert (steady.phase, rounds) == ("probe_bw_refill", 63)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_bandwidth_is_probed_after_two_to_three_seconds(seed: int) -> None:
    steady = Steady(seed=seed).until("probe_bw_cruise")
    began = steady.now
    steady.sample(after=1.99)
    assert steady.phase == "probe_bw_cruise"
    while steady.phase == "probe_bw_cruise":
        steady.sample(after=0.01, ends_round=False)
    _, more = draws(seed)(1)
    assert steady.now - began == pytest.approx(2.01 + float(more), abs=0.011)


def test_the_draws_of_seeds_differ() -> None:
    assert len({draws(seed)(pick) for seed in range(1, 9) for pick in range(1, 9)}) > 50
    assert {draws(seed)(1)[0] for seed in range(1, 20)} == {0, 1}


def test_a_round_with_losses_lowers_the_short_term_bounds() -> None:
    """5.5.10.3: to what was delivered in it, but not below 0.7 of before; REFILL forgets them."""
    steady = Steady().until("probe_bw_cruise")
    cwnd = steady.cwnd
    steady.sample(rate=900)
    steady.lose(1).sample(rate=900, ends_round=False)
    assert steady.bbr.state["inflight_shortterm"] == [NO_BOUND]
    steady.sample(rate=900)
    assert steady.bbr.state["bandwidth_shortterm_per_us"][0] * 1e6 == pytest.approx(900, rel=0.01)
    assert steady.bbr.state["inflight_shortterm"] == [int(0.7 * cwnd)]
    assert steady.cwnd == int(0.7 * cwnd)
    steady.sample(rate=200).lose(1).sample(rate=200)
    assert steady.bbr.state["bandwidth_shortterm_per_us"][0] * 1e6 == pytest.approx(630, rel=0.01)
    steady.until("probe_bw_refill", rate=200)
    assert steady.bbr.state["inflight_shortterm"] == [NO_BOUND]
    assert steady.bbr.state["bandwidth_per_us"][0] * 1e6 == pytest.approx(RATE, rel=0.01)


def probing() -> Steady:
    steady = Steady().until("probe_bw_cruise").until("probe_bw_up")
    return steady.sample(rate=1100, in_flight=60)


def test_too_many_losses_while_probing_bound_the_flight_and_end_the_probe() -> None:
    steady = probing()
    steady.lose(2, in_flight=100)  # 2 %
    assert steady.phase == "probe_bw_up"
    steady.bbr.lost(in_flight=101, lost_since=3, delivered=steady.delivered, time=steady.now)
    assert steady.phase == "probe_bw_down"
    assert steady.bbr.state["inflight_longterm"] == [100]  # before the third of them
    steady.lose(30, in_flight=60)
    assert steady.bbr.state["inflight_longterm"] == [100]  # once for each probe


def test_without_selective_acknowledgments_any_loss_is_too_much() -> None:
    """Of a packet of one segment no more than itself is in flight before the bound (InflightAtLoss)."""
    steady = probing().lose(1, in_flight=100, selective=False)
    assert steady.phase == "probe_bw_down"
    assert steady.bbr.state["inflight_longterm"] == [100]


def test_the_bound_is_not_below_seven_tenths_of_the_target() -> None:
    steady = probing()
    target = min(steady.cwnd, 55)  # 1100 segments a second
    steady.lose(2, in_flight=20)
    assert steady.bbr.state["inflight_longterm"] == [int(0.7 * target)]


def test_an_application_limited_loss_ends_the_probe_and_bounds_nothing() -> None:
    steady = probing().lose(5, app_limited=True)
    assert steady.phase == "probe_bw_down"
    assert steady.bbr.state["inflight_longterm"] == [NO_BOUND]


def bounded() -> Steady:
    """The flight has a bound of 60, and DOWN leaves headroom below it."""
    steady = probing()
    for n in (1, 2):
        steady.bbr.lost(in_flight=60, lost_since=n, delivered=steady.delivered, time=steady.now)
    assert steady.bbr.state["inflight_longterm"] == [59]
    return steady


def test_cruise_leaves_headroom_below_the_bound() -> None:
    steady = bounded().sample(in_flight=52)
    assert steady.phase == "probe_bw_down"
    steady.sample(in_flight=50)  # 59 - 0.15 * 59, rounded down
    assert steady.phase == "probe_bw_cruise"
    assert steady.cwnd == 50


def precaution() -> Steady:
    """The probe after the one that set the bound ends at it."""
    steady = bounded().until("probe_bw_cruise", in_flight=40).until("probe_bw_up", in_flight=40)
    steady.sample(in_flight=59)
    assert steady.phase == "probe_bw_down"  # at once
    return steady


def test_a_precaution_that_lost_too_much_is_not_followed_by_a_probe() -> None:
    steady = precaution().lose(2, in_flight=60)
    steady.sample(in_flight=59)
    assert steady.phase == "probe_bw_down"


def test_while_the_window_is_at_its_bound_the_rate_need_not_grow() -> None:
    steady = precaution().sample(in_flight=59).sample(in_flight=58)
    for _ in range(3):
        steady.sample(acked=1, in_flight=58, window_limited=True, sent_in_flight=50)
    for _ in range(3):
        assert steady.phase == "probe_bw_up"
        steady.sample(in_flight=58)
    assert steady.phase == "probe_bw_down"


def test_the_probe_after_a_loss_is_a_precaution_and_the_next_one_raises_the_bound() -> None:
    """5.3.3.6; 1, 2, 4 segments in the rounds of UP (5.3.3.5)."""
    steady = precaution().sample(in_flight=59)
    assert steady.phase == "probe_bw_refill"  # it lost nothing
    steady.sample(in_flight=58)
    assert steady.phase == "probe_bw_up"
    bounds = []
    for n in range(1, 5):  # the rate grows, so that no plateau ends UP
        steady.sample(rate=1100 * 1.3**n, acked=59, in_flight=59, window_limited=True, sent_in_flight=50)
        bounds.append(steady.bbr.state["inflight_longterm"][0])
        assert steady.phase == "probe_bw_up"
    assert bounds == [60, 62, 66, 74]
    steady.until("probe_bw_down", in_flight=100)  # the rate grows no more
    for _ in range(3):
        steady.sample(in_flight=100)
        assert steady.phase == "probe_bw_down"  # this probe was no precaution


def test_probe_rtt_halves_the_flight_for_200_ms_and_a_round() -> None:
    steady = Steady().until("probe_bw_cruise")
    window = steady.cwnd
    steady.sample(after=4.9, rtt=2 * RTT, ends_round=False)
    assert steady.phase == "probe_bw_refill"  # three seconds have passed as well
    steady.sample(after=0.2, rtt=2 * RTT, ends_round=False)
    assert (steady.phase, steady.gain, steady.cwnd) == ("probe_rtt", 1.0, 25)
    steady.sample(after=1.0, in_flight=26)  # not yet half
    steady.sample(after=0.01, in_flight=25)
    steady.sample(after=0.19, in_flight=25)
    assert steady.phase == "probe_rtt"
    steady.sample(after=0.02, in_flight=25, ends_round=False)
    assert steady.phase == "probe_bw_cruise"
    assert steady.cwnd >= window


def test_the_shortest_round_trip_counts_for_ten_seconds() -> None:
    """5.3.4.3; ProbeRTT's own one is shorter after five."""
    steady = Steady().until("probe_bw_cruise")
    shortest = steady.bbr.state["min_rtt_us"]
    for after in (5.1, 4.8):
        steady.sample(after=after, rtt=2 * RTT, ends_round=False)
        assert steady.bbr.state["min_rtt_us"] == shortest
    steady.sample(after=0.2, rtt=2 * RTT, ends_round=False)
    assert steady.bbr.state["min_rtt_us"] == [2 * RTT * 1e6]


def test_the_round_trip_is_sought_again_five_seconds_after_probe_rtt() -> None:
    steady = Steady().until("probe_bw_cruise").sample(after=5.1, rtt=2 * RTT)
    assert steady.phase == "probe_rtt"
    for after in (1.0, 0.25):
        steady.sample(after=after, in_flight=10, rtt=3 * RTT)
    assert steady.phase == "probe_bw_cruise"
    steady.sample(after=4.9, rtt=3 * RTT, ends_round=False)
    assert steady.phase != "probe_rtt"
    steady.sample(after=0.2, rtt=3 * RTT, ends_round=False)
    assert steady.phase == "probe_rtt"


def test_losses_after_a_probe_that_probe_rtt_ended_bound_nothing() -> None:
    steady = probing().sample(after=5.2, rtt=2 * RTT, in_flight=60)
    assert steady.phase == "probe_rtt"
    steady.sample(in_flight=60).lose(5, in_flight=60)
    assert steady.bbr.state["inflight_longterm"] == [NO_BOUND]


def test_samples_of_probe_rtt_do_not_count_as_the_bandwidth() -> None:
    steady = Steady().sample(rate=400).sample(rate=800)  # Startup
    steady.sample(rate=800, after=5.2, rtt=2 * RTT)
    assert steady.phase == "probe_rtt"
    for _ in range(4):
        steady.sample(rate=100, in_flight=30)
    assert steady.phase == "probe_rtt"
    assert steady.bbr.state["full_bandwidth_per_us"][0] * 1e6 == pytest.approx(800, rel=0.01)
    steady.sample(rate=100, in_flight=10).sample(after=0.25, in_flight=10)
    assert steady.phase == "startup"  # it has not filled the pipe


def test_a_restart_from_idle_paces_at_the_bandwidth_and_needs_no_probe_of_the_round_trip() -> None:
    steady = Steady().until("probe_bw_cruise").until("probe_bw_up")
    assert steady.gain == 1.25
    steady.now += 6
    steady.bbr.idle(seconds=6, time=steady.now)
    assert steady.gain == 1.0
    steady.sample(rtt=2 * RTT)
    assert steady.phase != "probe_rtt"


def test_a_spurious_recovery_returns_to_startup() -> None:
    steady = Steady().sample(rate=400).sample(rate=800)
    steady.bbr.loss()
    steady.lose(8).sample(rate=1200, repair="recovery", lost_since=8, sent_in_flight=80, in_flight=90)
    assert steady.phase == "drain"
    steady.bbr.undo()
    assert steady.phase == "startup"
    assert steady.bbr.state["inflight_longterm"] == [NO_BOUND]
    steady.sample(rate=1600)
    assert (steady.phase, steady.gain) == ("startup", 2.77)


def test_a_spurious_recovery_does_not_end_probe_rtt() -> None:
    steady = Steady().sample(rate=400).sample(rate=800)
    steady.bbr.loss()
    steady.lose(8).sample(rate=1200, repair="recovery", lost_since=8, sent_in_flight=80, in_flight=90)
    steady.sample(after=5.2, rtt=2 * RTT, in_flight=90)
    steady.bbr.undo()
    assert steady.phase == "probe_rtt"
    for after in (1.0, 0.25):
        steady.sample(after=after, in_flight=10)
    assert steady.phase == "startup"  # where it was before the losses
    steady = probing()
    steady.bbr.loss()
    steady.lose(9).sample(after=5.2, rtt=2 * RTT, in_flight=90)
    steady.bbr.undo()
    steady.sample(in_flight=90)
    assert steady.phase == "probe_rtt"


def test_a_spurious_recovery_gives_bounds_back_and_probes_again() -> None:
    steady = probing()
    steady.bbr.loss()
    steady.lose(9)  # more segments of one recovery do not replace what is saved
    for _ in range(2):
        steady.sample(rate=900, repair="recovery", in_flight=90)
    assert steady.phase == "probe_bw_down"
    assert steady.bbr.state["inflight_shortterm"][0] < NO_BOUND
    steady.bbr.undo()
    assert [steady.bbr.state[n][0] for n in ("inflight_longterm", "inflight_shortterm")] == [NO_BOUND, NO_BOUND]
    steady.sample()
    assert steady.phase == "probe_bw_refill"


def test_the_window_before_a_recovery_is_restored_after_it() -> None:
    steady = Steady().until("probe_bw_cruise")
    window = steady.cwnd
    steady.bbr.timeout()
    assert steady.cwnd == 1
    steady.sample(rate=100, repair="timeout")
    assert steady.cwnd < window / 2
    steady.sample(rate=100)
    assert steady.cwnd >= window


def test_a_mark_is_congestion() -> None:
    steady = Steady().until("probe_bw_cruise")
    steady.bbr.ece()
    steady.sample(rate=800).sample(rate=800)
    assert steady.bbr.state["inflight_shortterm"][0] < NO_BOUND
    steady = probing()
    steady.bbr.ece()
    steady.sample(sent_in_flight=70, in_flight=90)
    assert steady.phase == "probe_bw_down"
    assert steady.bbr.state["inflight_longterm"] == [70]


def test_the_largest_of_bulk_acknowledgments_enlarges_the_window() -> None:
    """5.5.9: 120 segments in three milliseconds."""
    steady = Steady().until("probe_bw_cruise").sample().sample()
    window = steady.cwnd
    for _ in range(3):
        steady.sample(after=0.001, ends_round=False, acked=40)
    assert steady.cwnd == window + 117  # the bandwidth explains 3 of 120


def test_bulk_acknowledgments_count_for_five_to_ten_rounds() -> None:
    """By where in a half of the filter they come."""
    kept = set()
    for before in range(5):
        steady = Steady().until("probe_bw_cruise")
        for _ in range(2 + before):
            steady.sample()
        window, rounds = steady.cwnd, 0
        for _ in range(3):
            steady.sample(after=0.001, ends_round=False, acked=40)
        while steady.cwnd > window:
            steady.sample(after=0.2)  # in which the bandwidth delivers more than the burst
            rounds += 1
        kept.add(rounds)
    assert kept == {6, 7, 8, 9, 10}


def test_it_has_no_place_in_what_asks_for_no_losses() -> None:
    with pytest.raises(ValueError, match="lost"):
        Controller("bbr", paths=[{"cwnd": 10.0}]).lost(in_flight=1, lost_since=1, delivered=1, time=1.0)
    bbr = Controller("bbr3", paths=[{"cwnd": 10.0}])
    for wrong in ({"in_flight": 2**21}, {"lost_since": 2**21}):
        with pytest.raises(ValueError, match="1048576"):
            bbr.lost(**({"in_flight": 1, "lost_since": 1, "delivered": 1, "time": 1.0} | wrong))
