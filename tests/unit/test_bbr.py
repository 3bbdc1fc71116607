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
