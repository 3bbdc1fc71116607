"""BBR beside its draft: histories of delivery-rate samples from a path with a bottleneck, and any samples at all."""

from __future__ import annotations

from collections import Counter, deque
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rewindow import Controller
from tests.oracles.bbr import Bbr, KernelBbr, Sample

MS = Fraction(1, 1000)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class Link:
    """A path that delivers at a rate, one segment after the other, and drops what its queue cannot hold."""

    def __init__(self, rate: int, rtt: Fraction, queue: int) -> None:
        self.rate, self.rtt, self.queue = rate, rtt, queue
        self.now, self.free = Fraction(1), Fraction(1)
        self.sent: deque[tuple[Fraction, Fraction, int, Fraction, Fraction, bool]] = deque()
        self.delivered, self.delivered_at, self.first_sent = 1, Fraction(1), Fraction(1)
        self.lost = 0
        self.limited = False

    def send(self, segments: int) -> None:
        if not self.sent:
            self.first_sent = self.delivered_at = self.now
        for _ in range(segments):
            waiting = max(self.free - self.now, Fraction(0)) * self.rate
            if waiting >= self.queue:
                self.lost += 1
                continue
            self.free = max(self.free, self.now) + Fraction(1, self.rate)
            state = (self.now, self.delivered_at, self.delivered, self.first_sent, self.free + self.rtt, self.limited)
            self.sent.append(state)

    def ack(self, count: int, repair: str) -> Sample:
        """Of the next so many segments, when the last of them has arrived."""
        before = len(self.sent)
        count = min(count, before)
        for _ in range(count):
            sent, delivered_at, prior, first_sent, arrives, limited = self.sent.popleft()
        self.now = max(self.now, arrives)
        self.delivered += count
        self.first_sent, self.delivered_at = sent, self.now
        interval = max(sent - first_sent, self.now - delivered_at)
        lost, self.lost = self.lost, 0
        return Sample(self.now, count, lost, before, len(self.sent), repair, limited, self.now - sent, self.delivered,
                      prior, interval)  # fmt: skip


def tell(c: Controller, s: Sample) -> None:
    c.sample(
        delivered=s.delivered, prior_delivered=s.prior_delivered, interval=float(s.interval), time=float(s.time),
        acked=s.acked, lost=s.lost, in_flight_before=s.in_flight_before, in_flight=s.in_flight, repair=s.repair,
        app_limited=s.app_limited, rtt=None if s.rtt is None else float(s.rtt),
    )  # fmt: skip


def rounded(s: Sample) -> Sample:
    """At whole microseconds, as both sides can hold them."""

    def us(t: Fraction) -> Fraction:
        return Fraction(round(t * 10**6), 10**6)

    rtt = None if s.rtt is None else us(s.rtt)
    return Sample(us(s.time), s.acked, s.lost, s.in_flight_before, s.in_flight, s.repair, s.app_limited, rtt,
                  s.delivered, s.prior_delivered, us(s.interval))  # fmt: skip


def same(c: Controller, oracle: Bbr, seen: Counter[str]) -> None:
    p, words = c.paths[0], c.state
    seen[oracle.state] += 1
    assert p.phase == oracle.state
    assert p.cwnd == oracle.cwnd
    assert words["prior_cwnd"] == [oracle.prior_cwnd]
    assert words["bandwidth_per_us"][0] * 1e6 == pytest.approx(float(oracle.bw.best), rel=1e-4, abs=0.13)
    assert words["pacing_per_us"][0] * 1e6 == pytest.approx(float(oracle.pacing_rate), rel=1e-3, abs=0.4)
    assert words["full_bandwidth_per_us"][0] * 1e6 == pytest.approx(float(oracle.full_bw), rel=1e-4, abs=0.13)
    assert words["min_rtt_us"] == [0 if oracle.rtprop is None else int(oracle.rtprop * 10**6)]
    assert p.ssthresh == float("inf")


def history(data: st.DataObject, mode: str, seen: Counter[str]) -> None:
    """A transfer over a link, with ACKs of several segments, losses, timeouts, pauses."""
    rate, rtt = data.draw(st.integers(40, 1500)), data.draw(st.integers(20, 200)) * MS
    phase = data.draw(st.sampled_from([0, 2, 7]))
    link = Link(rate, rtt, 4 + int(rate * rtt * data.draw(st.sampled_from([0, 1, 3, 3]))))
    given_rtt = data.draw(st.sampled_from([None, rtt]))
    oracle = (KernelBbr if mode == "kernel" else Bbr)(10, given_rtt, first_phase=phase)
    path: dict[str, Any] = {"cwnd": 10.0} | ({} if given_rtt is None else {"rtt": float(given_rtt)})
    c = Controller("bbr", paths=[path], mode=mode, first_phase=phase)
    same(c, oracle, seen)
    repair, until = "none", 0
    for _ in range(data.draw(st.integers(40, 160))):
        room = oracle.cwnd - len(link.sent)
        link.limited = data.draw(st.sampled_from([False] * 9 + [True]))
        link.send(min(room, data.draw(st.sampled_from([2, 64, 64, 64]))) if room > 0 else 0)
        event = data.draw(st.sampled_from(["ack"] * 100 + ["late", "timeout", "idle"]))
        if not link.sent or event == "idle":
            link.now += data.draw(st.sampled_from([0, 5, 700, 10_500])) * MS
            c.idle(seconds=0.5, time=float(Fraction(int(link.now * 10**6), 10**6)))
            oracle.idle(Fraction(int(link.now * 10**6), 10**6))
            link.send(1)
        if event == "late":  # no shorter round trip for so long
            link.now += 10_500 * MS
        if event == "timeout":
            seen["timeout"] += 1
            repair, until = "timeout", link.delivered + len(link.sent)
            c.timeout()
            oracle.timeout()
        if link.lost and repair == "none":
            repair, until = "recovery", link.delivered + len(link.sent)
            c.loss()
            oracle.loss()
        if not link.sent:
            link.free, link.lost = link.now, 0
            link.send(1)
        if link.delivered >= until:
            repair = "none"
        sample = rounded(link.ack(data.draw(st.integers(1, 8)), repair))
        tell(c, sample)
        oracle.ack(sample)
        if oracle.undecided:
            return
        same(c, oracle, seen)


def test_is_its_draft() -> None:
    """Step by step, in both modes: window, state, filters and pace. Each state is reached."""
    seen: Counter[str] = Counter()

    @settings(max_examples=70, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW,
              phases=[Phase.generate])  # fmt: skip
    @given(data=st.data(), mode=st.sampled_from(["paper", "kernel"]))
    def histories(data: st.DataObject, mode: str) -> None:
        history(data, mode, seen)

    histories()
    assert {"startup", "drain", "probe_bw", "probe_rtt", "timeout"} <= set(seen), seen


RTT, RATE = 0.05, 1000.0


class Steady:
    """BBR whose samples are one round trip each, from a path with a rate (segments a second)."""

    def __init__(self, mode: str = "kernel") -> None:
        self.bbr = Controller("bbr", paths=[{"cwnd": 10.0, "rtt": RTT}], mode=mode, first_phase=2)
        self.now, self.delivered = 1.0, 1

    def sample(self, rate: float = RATE, after: float = RTT, **more: Any) -> None:
        self.now += after
        acked = max(round(rate * RTT), 1)
        told = {"acked": acked, "in_flight_before": acked, "in_flight": 0, "rtt": RTT, "repair": "none"} | more
        self.delivered += acked
        self.bbr.sample(delivered=self.delivered, prior_delivered=self.delivered - acked, interval=acked / rate,
                        time=self.now, **told)  # fmt: skip

    def probing(self) -> Steady:
        """Its path is known, and the third phase of a cycle has just begun."""
        for _ in range(30):
            if self.bbr.paths[0].phase == "probe_bw":
                break
            self.sample()
        assert self.bbr.paths[0].phase == "probe_bw"
        return self

    @property
    def gain(self) -> float:
        """Of the pace, which Linux sets a hundredth below the bandwidth."""
        return round(self.bbr.state["pacing_per_us"][0] * 1e6 / RATE / 0.99, 2)


def paced(gain: float) -> tuple[int, float]:
    """What a sender let go on a timer at this gain."""
    return 4, 4 / (0.99 * gain * RATE)


@pytest.mark.parametrize("mode", ["kernel", "paper"])
def test_probe_rtt_keeps_the_window_that_a_recovery_saved(mode: str) -> None:
    """BBREnterProbeRTT comes before BBRSaveCwnd (4.3.5): the larger of the two windows is restored."""
    steady = Steady(mode).probing()
    large = steady.bbr.paths[0].cwnd
    steady.bbr.loss()
    steady.sample(repair="recovery", in_flight=80, lost=1)
    for _ in range(15):
        steady.sample(rate=RATE / 5)
    assert steady.bbr.paths[0].cwnd < large / 2
    assert steady.bbr.state["prior_cwnd"] == [large]
    steady.sample(rate=RATE / 5, after=11, rtt=2 * RTT, in_flight=20)
    assert steady.bbr.paths[0].phase == "probe_rtt"
    assert steady.bbr.state["prior_cwnd"] == [large]


@pytest.mark.parametrize(
    ("seen", "gain"),
    [
        ([1.25], 1.25),  # no sender is faster than its pace
        ([0.75], 1.0),  # one without data is slower
        ([0.75, 0.75], 0.75),
        ([0.75, 1.0, 0.75], 1.0),
        ([1.12], 1.0),  # of no gain
        ([0.85, 0.85], 1.0),
        ([1.25, 0.75, 0.75], 0.75),
        ([1.25, 1.0], 1.0),
    ],
)
def test_the_recorded_pace_shows_the_phase(seen: list[float], gain: float) -> None:
    steady = Steady().probing()
    for pace in seen:
        steady.sample(after=paced(pace)[1] + 0.001, paced=paced(pace), in_flight_before=70)
    assert steady.gain == gain


def test_a_pace_from_before_the_phase_says_nothing() -> None:
    """Both samples of the slower pace end after the faster phase began, and began before it."""
    steady = Steady().probing()
    steady.sample(after=0.03, paced=paced(1.25))
    for _ in range(2):
        steady.sample(after=0.001, paced=(12, 12 / (0.99 * 0.75 * RATE)), in_flight_before=70)
    assert steady.gain == 1.25


def left_startup() -> tuple[Steady, float]:
    """It probes, a moment after Startup. With the window that it had in Startup, which is larger."""
    steady, window = Steady(), 10.0
    for _ in range(30):
        if steady.bbr.paths[0].phase == "drain":
            break
        window = steady.bbr.paths[0].cwnd
        steady.sample(in_flight_before=250, in_flight=200)
    for _ in range(20):  # ACKs in bulk are forgotten
        steady.sample(rate=RATE / 5, after=RTT / 5)
    assert steady.bbr.paths[0].phase == "probe_bw"
    assert steady.bbr.paths[0].cwnd < window
    return steady, window


def see(steady: Steady, *gains: float) -> str:
    """The state after a round trip with each of these paces; 0: with none."""
    for gain in gains:
        steady.sample(in_flight_before=250, in_flight=200, **({"paced": paced(gain)} if gain else {}))
    return str(steady.bbr.paths[0].phase)


def test_the_recorded_pace_shows_that_startup_goes_on() -> None:
    """The application limited the recorded sender, which its capture does not show: it counted other samples."""
    steady, window = left_startup()
    assert see(steady, 2.89, 1.0, 2.89) == "probe_bw", "one burst may have left late"
    assert see(steady, 2.89) == "startup"
    assert steady.bbr.paths[0].cwnd >= window
    assert see(steady, *[2.89] * 8) == "startup", "however often the bandwidth does not grow"
    assert see(steady, 0) == "startup"
    assert see(steady, 0) == "drain", "three round trips from the last such pace on"


def test_the_recorded_pace_shows_that_startup_is_over() -> None:
    steady, _ = left_startup()
    assert see(steady, 2.89, 2.89, 2.89, 0.34) == "startup", "a sender without data is slower, too"
    assert see(steady, 2.89, 0.34, 0.34) == "drain"


def test_the_recorded_pace_shows_a_bandwidth_that_was_kept() -> None:
    """A sender whose application limits it forgets none. No sender is faster than its pace."""

    steady = Steady().probing()
    for _ in range(14):
        steady.sample(rate=0.6 * RATE)
    assert steady.gain in (0.45, 0.6, 0.75)
    steady.sample(rate=0.6 * RATE, paced=paced(0.6 * 1.25))
    assert steady.gain in (0.45, 0.6, 0.75), "the pace of the bandwidth that it has"
    steady.sample(rate=0.6 * RATE, paced=paced(1.25))
    assert steady.gain in (0.75, 1.0, 1.25), "the pace of the one that was forgotten"
    steady.sample(rate=0.6 * RATE, paced=paced(0.6 * 1.25))
    assert steady.gain in (0.75, 1.0, 1.25), "a sender without data is slower"
    steady.sample(rate=0.6 * RATE, paced=paced(0.6 * 1.25))
    assert steady.gain in (0.45, 0.6, 0.75)


def full(steady: Steady, window: tuple[int, int], times: int) -> None:
    """ACKs after flights that show the recorded sender's window, ten in a round trip."""
    for _ in range(times):
        flight = round(steady.bbr.paths[0].cwnd)
        steady.sample(after=RTT / 10, acked=5, in_flight_before=flight, in_flight=flight - 5, window=window)


def settled() -> tuple[Steady, int]:
    """Its window follows the bandwidth alone, in none of the first two phases. With the window, in segments."""
    steady = Steady().probing()
    full(steady, (0, 0), 20)
    assert steady.gain == 1.0
    return steady, round(steady.bbr.paths[0].cwnd)


def test_the_recorded_window_shows_the_first_phase() -> None:
    """It has room for two segments more. Where it is full without them, twice in a row, the phase is another one."""
    steady, plain = settled()
    full(steady, (plain + 1, plain + 3), 3)
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.25, plain + 2)
    full(steady, (plain, plain + 1), 1)
    full(steady, (plain + 2, plain + 3), 1)  # only the one flight was late
    full(steady, (plain, plain + 1), 1)
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.25, plain + 2)
    full(steady, (plain, plain + 1), 1)
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (0.75, plain), "what follows the phase that was seen"


def test_a_first_phase_that_the_window_does_not_show_comes_later() -> None:
    steady, plain = settled()
    for _ in range(80):
        full(steady, (0, 0), 1)
        if steady.gain != 1.0:
            break
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.25, plain + 2)
    full(steady, (plain, plain + 1), 2)
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.0, plain)
    for _ in range(30):  # however long it takes
        full(steady, (plain, plain + 1), 1)
        assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.0, plain)
    full(steady, (plain + 2, plain + 3), 1)
    assert steady.gain == 1.25


@pytest.mark.parametrize("window", [(0, 60), (140, 140)])
def test_a_flight_that_is_far_from_the_window_says_nothing_of_the_phase(window: tuple[int, int]) -> None:
    """The application ended it, or the window is another one for other reasons."""
    steady, plain = settled()
    full(steady, window, 3)
    assert (steady.gain, steady.bbr.paths[0].cwnd) == (1.0, plain)
