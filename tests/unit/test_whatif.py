"""Fits and what-ifs, on captures of simulated networks that the test knows. Real pairs of runs: `make validate`."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rewindow
from rewindow.core import Choice
from rewindow.errors import BadOption, UnknownAlgorithm
from rewindow.reports.whatifs import fit_document, fit_text, text
from rewindow.scenarios import Write, parse
from rewindow.simulator import SEND_BUFFER_BYTES, simulate
from rewindow.simulator.simulation import registry_name
from rewindow.whatif import Observation, Prediction, WhatIf, answers, fit, observe, worlds
from rewindow.whatif.batches import Work
from rewindow.whatif.errors import level
from rewindow.whatif.estimates import estimate
from rewindow.whatif.fitting import Fit, Parameter, regressed, runs_of, weights
from rewindow.whatif.flights import sampled
from rewindow.whatif.groups import Grouping, components, groupings, likeness
from rewindow.whatif.network import Bottleneck, Network
from rewindow.whatif.network import scenario as scenario_of
from rewindow.whatif.prediction import Spread, cannot_be_fitted, changed, harm_of, predict, predicting, read_settings
from rewindow.whatif.round_trips import base_rtt_errors_s, base_rtts_s
from rewindow.whatif.send_buffers import corrected, first_guess, held_back_at
from rewindow.whatif.sharing import shares
from rewindow.whatif.sources import by_bytes, sources, written
from rewindow.whatif.worlds import Ran

NETWORK = """
name = "network"
seconds = 9
[hosts.client]
ecn = {ecn}
interfaces.a = {{ address = "10.0.1.1", mtu = 1500 }}
[hosts.server]
ecn = {ecn}
interfaces.a = {{ address = "10.0.1.2", mtu = 1500 }}
[hosts.rival]
ecn = {ecn}
interfaces.a = {{ address = "10.0.2.1", mtu = 1500 }}
[hosts.peer]
ecn = {ecn}
interfaces.a = {{ address = "10.0.2.2", mtu = 1500 }}
[links.shared]
{shared}
[links.far]
delay = "{far}"
[[paths]]
name = "one"
from = "client.a"
to = "server.a"
links = ["shared", "far"]
[[paths]]
name = "two"
from = "rival.a"
to = "peer.a"
links = ["{rivals_link}"]
{links}
[[transfers]]
name = "client"
protocol = "tcp"
from = "client"
to = "server"
congestion_control = "{algorithm}"
{client}
{traffic}
[[transfers]]
name = "rival"
protocol = "tcp"
from = "rival"
to = "peer"
congestion_control = "reno"
start = "{rival_starts}"
{rival}
"""
SHARED = 'rate = "4M"\ndelay = "15ms"\nlimit = 30'
"""4 Mbit/s, 30 packets of queue."""


def scenario(
    shared: str = SHARED,
    client: str = "",
    rival: str = "",
    algorithm: str = "reno",
    ecn: str = "false",
    far: str = "20ms",
    apart: str = "",
    traffic: str = "",
    rival_starts: str = "300ms",
) -> Any:
    """apart: the rival's own bottleneck; empty: it shares the client's. traffic: cross traffic on the shared link."""
    own = {"rivals_link": "own", "links": f"[links.own]\n{apart}"} if apart else {"rivals_link": "shared", "links": ""}
    own |= {"traffic": f'[[traffic]]\nlink = "shared"\n{traffic}' if traffic else "", "rival_starts": rival_starts}
    text = NETWORK.format(shared=shared, client=client, rival=rival, algorithm=algorithm, ecn=ecn, far=far, **own)
    return parse(text, "network.toml")


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Observation]:
    """Simulates the network with these values, and observes its capture; each capture is made once."""
    folder = tmp_path_factory.mktemp("captures")
    made: dict[str, Observation] = {}

    def make(seed: int = 5, beside_receivers: bool = False, **values: str) -> Observation:
        key = json.dumps([seed, beside_receivers, values])
        if key not in made:
            path = folder / f"{len(made)}.pcapng"
            with path.open("wb", 0) as file:
                simulate(scenario(**values), seed, capture=file.fileno(), beside_receivers=beside_receivers)
            with rewindow.open(path) as capture:
                made[key] = observe(capture)
        return made[key]

    return make


def the_estimate(observation: Observation) -> Any:
    return estimate([(s, c.facts.kind) for c in observation.connections for s in c.subflows])


def test_a_bottleneck_is_estimated_from_a_capture(observed: Callable[..., Observation]) -> None:
    found = the_estimate(observed())
    assert found.busy
    assert found.full
    assert found.bottleneck.rate_bps == pytest.approx(4e6, rel=0.01)
    assert found.bottleneck.queue_packets == pytest.approx(30, abs=2)
    assert found.bottleneck.loss == 0
    assert found.bottleneck.ecn_packets is None
    assert found.bottleneck.factors == ()


STEPS = 'rate = "4M"\ndelay = "15ms"\nlimit = 30\nrate_trace = [[3, "2M"], [6, "5M"]]'


def test_steps_of_the_rate_are_found(observed: Callable[..., Observation]) -> None:
    found = the_estimate(observed(shared=STEPS))
    assert found.busy
    steps = found.bottleneck.rates_bps()
    assert [bps for _, bps in steps] == pytest.approx([4e6, 2e6, 5e6], rel=0.04)
    assert [at_s for at_s, _ in steps[1:]] == pytest.approx([3.0, 6.0], abs=0.5)
    assert found.bottleneck.queue_packets == pytest.approx(30, abs=6)


def test_a_connection_is_predicted_on_a_rate_that_changes(observed: Callable[..., Observation]) -> None:
    whatif = WhatIf(observed(shared=STEPS))
    asked = whatif.ask(0, Choice("newreno"), runs=12)
    assert asked.verdict == "ok"
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    assert fits[0].misfit < 4
    network = fits[0].networks[0]
    assert len(network.bottlenecks[0].factors) == 3
    assert changed(network, 0, read_settings({"path1.rate": "3M"}, 1)).bottlenecks[0].rates_bps() == [(0.0, 3e6)]
    both = sum((c.outcome().goodput_bps or 0) for c in fits[0].connections)
    predicted = asked.predicted["goodput_bps"].median + asked.neighbours[0].predicted["goodput_bps"].median
    assert predicted == pytest.approx(both, rel=0.08)


def test_a_capture_at_the_receiver_shows_the_path_by_timestamps(observed: Callable[..., Observation]) -> None:
    observation = observed(seed=8, beside_receivers=True)
    assert {s.facts.vantage for c in observation.connections for s in c.subflows} == {"receiver"}
    assert all(s.sees_queues for c in observation.connections for s in c.subflows)
    both = [(c.subflows[0], "tcp") for c in observation.connections]
    link = estimate(both).bottleneck
    assert base_rtts_s(both, link) == pytest.approx([0.073, 0.033], abs=0.0015)
    found = the_estimate(observation)
    assert found.busy
    assert found.bottleneck.rate_bps == pytest.approx(4e6, rel=0.01)
    assert found.bottleneck.queue_packets == pytest.approx(30, abs=4)
    fitted = fit(observation, 0, runs=90, draws=50)[0]
    assert fitted.misfit < 3
    assert [s.kind for s in fitted.networks[0].sources] == ["time", "time"]


JITTERY = 'rate = "10M"\ndelay = "15ms"\nlimit = 40\njitter = "{jitter}"'


@pytest.mark.parametrize("jitter_ms", [1.0, 3.0])
def test_jitter_is_fitted(observed: Callable[..., Observation], jitter_ms: float) -> None:
    observation = observed(shared=JITTERY.format(jitter=f"{jitter_ms:g}ms"))
    found = the_estimate(observation).bottleneck
    assert found.rate_bps == pytest.approx(10e6, rel=0.02)
    assert found.jitter_s * 1e3 == pytest.approx(jitter_ms, rel=0.5)
    made = fit(observation, 0, runs=120, draws=100, assumed={0: Choice("newreno"), 1: Choice("newreno")})[0]
    draws = {p.name: np.exp(made.posterior_log[:, i]) for i, p in enumerate(made.parameters)}
    assert np.median(draws["jitter_s"]) * 1e3 == pytest.approx(jitter_ms, rel=0.2)
    # The longest delay has some jitter in it; the limit of the queue has none.
    assert np.median(draws["queue_packets"]) == pytest.approx(40, rel=0.12)
    [told] = fit_document([[made]], [0])["connections"][0]["hypotheses"]
    assert told["bottlenecks"][0]["jitter_s"]["median"] * 1e3 == pytest.approx(jitter_ms, rel=0.2)


def test_without_jitter_none_is_fitted(observed: Callable[..., Observation]) -> None:
    for values in ({}, {"shared": JITTERY.format(jitter="0ms")}, {"algorithm": "bbr"}):
        assert the_estimate(observed(**values)).bottleneck.jitter_s == 0


def test_random_losses_are_told_from_a_full_queue(observed: Callable[..., Observation]) -> None:
    found = the_estimate(observed(shared='rate = "40M"\ndelay = "15ms"\nlimit = 400\nloss = "1%"'))
    assert not found.busy
    assert found.bottleneck.queue_packets is None
    assert found.bottleneck.loss == pytest.approx(0.01, rel=0.4)


def test_a_queue_that_was_full_for_a_moment_is_told_from_random_losses(observed: Callable[..., Observation]) -> None:
    shared = 'rate = "20M"\ndelay = "30ms"\nlimit = 15'
    observation = observed(shared=shared, rival='bytes = "20kB"')
    series = observation.connections[0].subflows[0].series
    assert series.lost.max() > 5
    found = estimate([(observation.connections[0].subflows[0], "tcp")])
    assert not found.busy
    assert found.rate_sd < 0.01
    assert found.full
    assert found.bottleneck.rate_bps == pytest.approx(20e6, rel=0.03)
    assert found.bottleneck.queue_packets == pytest.approx(15, abs=2)
    assert found.bottleneck.loss < 1e-3


@pytest.mark.parametrize("seed", [1, 3, 4, 5])
def test_chance_that_stops_a_queue_is_no_full_queue(observed: Callable[..., Observation], seed: int) -> None:
    """What is lost comes beside the longest queue, which it stops from growing, but each time that is another one."""
    shared = 'rate = "6.7M"\ndelay = "40ms"\nlimit = 119\nloss = 0.0008'
    found = the_estimate(observed(seed, shared=shared, algorithm="cubic", rival="bytes = 1000"))
    assert not found.settled
    really_full = shared.replace("119", "70").replace("loss = 0.0008", "")
    found = the_estimate(observed(seed, shared=really_full, rival="bytes = 1000"))
    assert found.settled
    assert found.bottleneck.queue_packets == pytest.approx(70, abs=1)
    assert found.bottleneck.loss < 1e-4


def test_a_short_connection_beside_a_queue_has_the_round_trip_without_it(observed: Callable[..., Observation]) -> None:
    observation = observed(
        6, shared='rate = "8M"\ndelay = "30ms"\nlimit = 120', client='bytes = "400kB"\nstart = "4s"', rival=""
    )
    by_bytes = sorted(observation.connections, key=lambda c: c.facts.bytes)
    short, long = ((c.subflows[0], "tcp") for c in by_bytes)
    link = estimate([short, long]).bottleneck
    # 0.1 s and a transmission without queue: it waits beside the other one from its handshake on.
    (alone,), (beside, _) = base_rtts_s([short], link), base_rtts_s([short, long], link)
    assert alone is not None
    assert alone > 0.11
    assert beside == pytest.approx(0.101, abs=0.003)
    count = len(long[0].series.rtt_s)
    series = replace(long[0].series, rtt_s=np.full(count, 0.0615901), acked_bytes=np.full(count, 1448))
    often = (replace(long[0], series=series), "tcp")
    assert base_rtt_errors_s([short, often], link) == pytest.approx([0.25 * 1500 * 8 / 8e6, 0.0], abs=1e-6)


def test_round_trips_that_were_seldom_seen_are_drawn(observed: Callable[..., Observation]) -> None:
    """Tenths of a millisecond decide who loses at a full queue. Of a simulated capture the handshake's is exact."""
    observation = observed(
        6, shared='rate = "8M"\ndelay = "30ms"\nlimit = 120', client='bytes = "400kB"\nstart = "4s"', rival=""
    )
    wanted = min(observation.connections, key=lambda c: c.facts.bytes).id

    def round_trips(is_simulated: bool) -> set[float]:
        [found, *_] = fit(observation, wanted, runs=240, draws=100, is_simulated=is_simulated)
        return {rtt_s for n in found.networks for _, rtt_s in n.members[found.place(wanted)]}

    drawn, [exact] = round_trips(False), round_trips(True)
    assert 10 < len(drawn) <= 20, "those of the nearest quarter of the last round's runs"
    assert max(drawn) <= exact
    assert exact - 3e-3 / 8 < np.median(list(drawn)) < exact - 1e-5
    assert exact - 4 * 3e-3 / 8 < min(drawn)


def test_a_round_trip_is_that_of_a_whole_segment(observed: Callable[..., Observation]) -> None:
    """Of a handshake, of short segments and of timestamps a shorter one is seen."""
    observation = observed(
        shared='rate = "4M"\ndelay = "15ms"\nlimit = 30', client='bytes = "900kB"', rival="bytes = 5000"
    )
    both = sorted(((c.subflows[0], "tcp") for c in observation.connections), key=lambda m: m[0].facts.bytes)
    much = both[1][0]
    link = estimate([(much, "tcp")]).bottleneck
    assert link.rate_bps == pytest.approx(4e6, rel=0.01)
    whole_s = 1500 * 8 / 4e6
    assert base_rtts_s([(much, "tcp")], link) == pytest.approx([0.070 + whole_s], abs=0.0003)
    assert much.shortest_rtt_s < 0.070 + whole_s / 2  # the handshake's
    short = replace(much.series, rtt_s=np.array([0.0711, 0.0737]), acked_bytes=np.array([300, 1448]),
                    time_s=np.array([1.0, 2.0]), in_order=np.array([True, True]))  # fmt: skip
    facts = replace(much.facts, handshake_rtt_us=None)
    assert base_rtts_s([(replace(much, series=short, facts=facts), "tcp")], link) == pytest.approx(
        [0.0711 + 1148 * 8 / 4e6], abs=1e-5
    )
    stamped = replace(short, rtt_s=np.array([0.070, 0.0737]), acked_bytes=np.array([1448, 1448]))
    assert base_rtts_s([(replace(much, series=stamped, facts=facts), "tcp")], link) == pytest.approx([0.0737], abs=1e-5)


def test_a_marking_threshold_is_estimated(observed: Callable[..., Observation]) -> None:
    shared = 'rate = "4M"\ndelay = "15ms"\nlimit = 100\ndiscipline = { kind = "ecn_threshold", threshold = 20 }'
    found = the_estimate(observed(shared=shared, ecn="true"))
    assert found.bottleneck.queue_packets is None  # it never filled
    assert found.bottleneck.ecn_packets == pytest.approx(20, abs=1)


def test_an_ack_that_ends_a_recovery_tells_no_threshold(observed: Callable[..., Observation]) -> None:
    shared = 'rate = "12M"\ndelay = "28ms"\nlimit = 123\ndiscipline = { kind = "ecn_threshold", threshold = 50 }'
    observation = observed(208, shared=shared, ecn="true", rival="bytes = 1000")
    series = max(observation.connections, key=lambda c: c.facts.bytes).subflows[0].series
    marked = np.searchsorted(series.time_s, series.marks_s)
    assert not series.in_order[marked].all()
    assert the_estimate(observation).bottleneck.ecn_packets == pytest.approx(50, abs=1)


def test_a_statistic_that_no_run_comes_near_moves_a_fit_within_its_range() -> None:
    """Of fifty runs one had a timeout, where the capture had one. Alone it once moved the posterior by dozens of its
    standard deviations, since its spread was taken for none.
    """
    random = np.random.default_rng(1)
    prior = [Parameter("queue_packets", 0, np.log(9.0), 0.1)]
    x = np.log(9.0) + 0.1 * random.standard_normal((50, 1))
    timeouts = np.zeros(50)
    timeouts[int(np.argmax(x[:, 0]))] = np.log(2.0)
    longest = x[:, 0] + 0.02 * random.standard_normal(50)
    errors = np.array([1e-3, 1e-3])
    found = regressed(x, np.c_[timeouts, longest], np.array([np.log(2.0), np.log(9.0)]), errors, prior)
    assert found.mean[0] == pytest.approx(np.log(9.0), abs=0.06)
    assert found.misfit > 10, "which still says that no run explains it"


def test_connections_of_one_queue_have_queueing_delays_that_are_alike(observed: Callable[..., Observation]) -> None:
    observation = observed()
    one, two = (c.subflows[0] for c in observation.connections)
    assert (likeness(one, two) or 0) > 0.5
    together = groupings(observation)[-1]
    assert together == (((0, 0), (1, 0)),)
    assert components(together) == [(0, 1)]
    assert components((((0, 0),), ((1, 0),))) == [(0,), (1,)]


@pytest.mark.parametrize("far", ["20ms", "0ms"])
@pytest.mark.parametrize("algorithm", ["reno", "cubic", "bbr"])
def test_acks_tell_who_shares_a_link(observed: Callable[..., Observation], far: str, algorithm: str) -> None:
    """Wherever the ways differ in length, and where a link has the same rate."""
    values = {"far": far, "algorithm": algorithm}

    def told(**apart: str) -> list[Grouping]:
        return groupings(observed(**values, **apart))

    assert told() == [(((0, 0), (1, 0)),)]
    assert told(apart=SHARED) == told(apart=SHARED.replace("4M", "5M")) == [(((0, 0),), ((1, 0),))]


def test_acks_of_short_transfers_do_not_tell_who_shares_a_link(observed: Callable[..., Observation]) -> None:
    short = observed(client="bytes = 9000", rival="bytes = 9000")
    assert shares(*((c.subflows[0], c.facts.kind) for c in short.connections)) is None


def alone(observation: Observation) -> Observation:
    """As if the capture lacked the rival."""
    return replace(observation, connections=observation.connections[:1])


@pytest.mark.parametrize("starts", ["0s", "4s"])
@pytest.mark.parametrize("algorithm", ["reno", "cubic"])
def test_a_rival_that_is_not_in_the_capture_is_seen_in_the_queue(
    observed: Callable[..., Observation], algorithm: str, starts: str
) -> None:
    whole = observed(algorithm=algorithm, rival_starts=starts)
    assert the_estimate(whole).bottleneck.unseen is None
    found = the_estimate(alone(whole)).bottleneck
    assert found.rate_bps == pytest.approx(4e6, rel=0.005)
    assert found.unseen is not None
    [(begins_s, ends_s)] = found.unseen.periods_s
    assert begins_s == pytest.approx(float(starts[:-1]), abs=1.0)
    assert ends_s > 8.5
    assert found.unseen.rate_bps == pytest.approx(whole.connections[1].facts.goodput_bps, rel=0.4)


def test_a_fit_and_an_answer_tell_of_unseen_traffic(observed: Callable[..., Observation]) -> None:
    whatif = WhatIf(alone(observed(rival_starts="0s", far="0ms")), assumed={0: Choice("newreno")})
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    [found] = fit_document([fits], [0])["connections"]
    told = {h["bottlenecks"][0]["unseen"]["algorithm"]: h for h in found["hypotheses"]}
    assert sum(h["weight"] for h in found["hypotheses"]) == pytest.approx(1)
    assert 0.4 < told[None]["bottlenecks"][0]["unseen"]["rate_bps"]["median"] / 1.9e6 < 2
    assert told["cubic"]["bottlenecks"][0]["unseen"]["rtt_s"]["low"] < 0.033
    assert "beside 0.0, not in the capture: traffic that does not yield" in fit_text([fits], [0])
    asked = whatif.ask(0, Choice("cubic"), runs=6)
    assert asked.unseen == pytest.approx(told["cubic"]["weight"] + told["reno"]["weight"], abs=1e-6)
    assert f"in {asked.unseen:.0%} of the runs it yields" in text([asked])
    assert WhatIf(observed()).ask(0, Choice("cubic"), runs=6).unseen is None


def test_unseen_traffic_that_was_there_before_is_simulated_from_before(observed: Callable[..., Observation]) -> None:
    whole = observed(client='start = "3s"', rival_starts="0s")
    late = next(c for c in whole.connections if c.facts.first_ns > whole.first_ns)
    observation = replace(whole, connections=(late,), first_ns=late.facts.first_ns)
    shifted = replace(
        late.subflows[0].series,
        **{
            name: getattr(late.subflows[0].series, name) - (late.facts.first_ns - whole.first_ns) / 1e9
            for name in ("time_s", "losses_s", "marks_s")
        },
    )
    own = replace(late, subflows=(replace(late.subflows[0], series=shifted),))
    made = fit(
        replace(observation, connections=(own,)), late.id, runs=60, draws=8, assumed={late.id: Choice("newreno")}
    )
    network = made[0].networks[0]
    assert network.before_s >= 1
    run = scenario_of((own,), network, observation.first_ns, 9.0)
    assert run.transfers[0].start_ns == pytest.approx(network.before_s * 1e9)
    others = [t.start_ns for t in run.transfers[1:]] + [t.start_ns for t in run.traffic]
    assert others == [0]


def test_whether_unseen_traffic_yields_stays_open(observed: Callable[..., Observation]) -> None:
    """A rival takes what Vegas leaves, and a constant rate does not. A capture of one run does not tell which it is."""

    def asked(**values: str) -> tuple[Spread, float]:
        whatif = WhatIf(alone(observed(rival_starts="0s", far="0ms", **values)), assumed={0: Choice("newreno")})
        fits = whatif.fits(0)
        assert not isinstance(fits, str)
        kinds = {f.estimates[0].bottleneck.unseen.algorithm for f in fits if f.estimates[0].bottleneck.unseen}
        assert kinds == {"cubic", "reno", None}
        assert min(weights(fits)) > 0.1
        made = simulate(scenario(rival_starts="0s", far="0ms", **values), 5, {"client": Choice("vegas")})
        return whatif.ask(0, Choice("vegas"), runs=24).predicted["goodput_bps"], made.transfers[0].goodput_bps or 0.0

    said, really = asked()
    assert said.median == pytest.approx(really, rel=0.35)
    said, really_beside = asked(rival="bytes = 1000", traffic='rate = "2M"\npacket = 1500')
    assert said.low < really_beside < said.high
    assert really_beside > 2 * really


def test_the_fit_holds_the_truth(observed: Callable[..., Observation]) -> None:
    found = fit(observed(), 0, runs=90, draws=200)[0]
    draws = {p.name: np.exp(found.posterior_log[:, i]) for i, p in enumerate(found.parameters)}
    for name, truth in (("rate_bps", 4e6), ("queue_packets", 30.0)):
        low, high = np.percentile(draws[name], (1, 99))
        assert low <= truth <= high
        assert high / low < 1.4
    assert found.misfit < 3
    assert [a.name for a in found.algorithms if a] == ["newreno", "newreno"]


@pytest.fixture(scope="module")
def whatif(observed: Callable[..., Observation]) -> WhatIf:
    """Its fits are made once for all tests."""
    return WhatIf(observed())


def test_a_prediction_holds_what_really_comes_of_it(observed: Callable[..., Observation]) -> None:
    """The same network with the algorithm asked for, in twelve runs that the prediction has not seen. Both connections
    saw the queue empty, so their round trips are known."""
    asked = WhatIf(observed(rival_starts="0s")).ask(0, Choice("cubic"), runs=24)
    assert asked.verdict == "ok"
    made = scenario(algorithm="cubic", rival_starts="0s")
    truth = [simulate(made, seed).transfers[0] for seed in range(20, 32)]
    for name, values in (
        ("goodput_bps", [t.goodput_bps or 0 for t in truth]),
        ("retransmitted_packets", [t.retransmitted for t in truth]),
    ):
        spread = asked.predicted[name]
        assert spread.low < spread.median < spread.high
        assert sum(spread.low <= v <= spread.high for v in values) >= 9
    assert [n.id for n in asked.neighbours] == [1]
    assert asked.better is not None
    assert 0 <= asked.better <= 1
    assert asked.jain is not None


def test_the_same_seed_gives_the_same_answer(whatif: WhatIf, observed: Callable[..., Observation]) -> None:
    first, second = (w.ask(0, Choice("newreno"), runs=6) for w in (whatif, WhatIf(observed())))
    assert first == second


def in_pieces(work: Work[Prediction]) -> tuple[Prediction, list[tuple[float, float]]]:
    """The answer of runs in another order, each stored as doubles; and what part of the work each batch is."""
    spans = []
    batch = next(work)
    while True:
        spans.append((batch.begins, batch.ends))
        stored = {i: batch.row(i).tobytes() for i in (5, 0, 3, 4, 2, 1)}
        try:
            batch = work.send(np.array([np.frombuffer(stored[i]) for i in range(batch.runs)]))
        except StopIteration as ended:
            return ended.value, spans


def test_an_answer_does_not_depend_on_how_its_runs_were_cut_and_ordered(whatif: WhatIf) -> None:
    """As the service runs them: some rows now, others later."""
    whole = whatif.ask(0, Choice("cubic"), runs=6)
    fits = whatif.fits(0)
    cut, spans = in_pieces(WhatIf(whatif.observation).asking(fits, 0, Choice("cubic"), runs=6))
    assert cut == whole
    [(begins, middle), (rest, ends)] = spans
    assert (begins, ends) == (0, 1)
    assert 0 < middle == rest < 1
    flights = whole.flights
    assert flights is not None
    assert 0 < len(flights.times_s) == len(flights.recorded_bytes) <= 200
    most = max(flights.recorded_bytes)
    assert 0.5 * most < max(flights.median_bytes) < 2 * most
    assert all(a <= b <= c for a, b, c in zip(flights.low_bytes, flights.median_bytes, flights.high_bytes, strict=True))


def test_a_flight_over_time_is_that_of_its_acks() -> None:
    """Two ACKs in the first interval, none in the second, one in the last; then nothing is left."""
    at, before, after = np.array([0.2, 0.6, 2.5]), np.array([10.0, 20.0, 7.0]), np.array([9.0, 4.0, 0.0])
    assert sampled(at, before, after, np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [15.0, 4.0, 7.0, 0.0]
    assert sampled(at[:0], before[:0], after[:0], np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


def test_a_setting_changes_the_network(whatif: WhatIf) -> None:
    as_it_was = whatif.ask(0, Choice("newreno"), runs=8)
    faster = whatif.ask(0, Choice("newreno"), runs=8, settings={"path1.rate": "12M"})
    assert faster.predicted["goodput_bps"].median > 1.8 * as_it_was.predicted["goodput_bps"].median
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    network = fits[0].networks[0]

    def after(settings: dict[str, str]) -> Network:
        return changed(network, 0, read_settings(settings, 1))

    assert after({"path1.rtt": "80ms"}).members[0][0][1] == pytest.approx(0.08)
    assert after({"path1.loss": "2%"}).bottlenecks[0].loss == pytest.approx(0.02)
    assert after({"send_buffer": "64k"}).send_buffers_bytes == (64e3, *network.send_buffers_bytes[1:])


@pytest.mark.parametrize(
    "settings",
    [{"path2.rate": "1M"}, {"path1.colour": "1"}, {"path1.rate": "fast"}, {"path1.rate": "-1"}, {"path1.rate": "nan"},
     {"source": "much"}, {"path1.loss": "95%"}, {"path0.rate": "1M"}, {"path99999999999.rate": "1M"}],
)  # fmt: skip
def test_settings_that_there_are_not(settings: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        read_settings(settings, 1)


def test_everyone_changes(whatif: WhatIf) -> None:
    alone = whatif.ask(0, Choice("cubic"), runs=6)
    everyone = whatif.ask(0, Choice("cubic"), runs=6, everyone=True)
    assert alone.calibration["goodput_bps"] == everyone.calibration["goodput_bps"]
    assert alone.neighbours[0].predicted != everyone.neighbours[0].predicted


def test_harm_of_two_equal_connections_is_half(observed: Callable[..., Observation]) -> None:
    """Alone each has the link, together each has half of it."""
    whatif = WhatIf(observed(far="0ms", client='start = "300ms"'))
    for number in (0, 1):
        [neighbour] = whatif.ask(number, Choice("newreno"), runs=24).neighbours
        harm = neighbour.harm
        assert harm is not None
        assert harm.predicted.median == pytest.approx(0.5, abs=0.08)
        assert harm.predicted.low < 0.5 < harm.predicted.high
        assert harm.recorded == harm.predicted, "it ran newreno"
        assert (harm.change.low, harm.change.median, harm.change.high) == (0, 0, 0)
        assert harm.goodput_without_bps.median == pytest.approx(4e6 * 1448 / 1500, rel=0.03)
        assert neighbour.change["goodput_bps"].median == 0, "what is lost beside the recorded world is something else"


def test_what_an_application_limits_is_not_harmed(observed: Callable[..., Observation]) -> None:
    """12 kB every 500 ms are a twentieth of the link."""
    whatif = WhatIf(observed(rival='write = "12kB"\npause = "500ms"\n'))
    for name in ("newreno", "cubic"):
        [neighbour] = whatif.ask(0, Choice(name), runs=24).neighbours
        assert neighbour.harm is not None
        assert neighbour.harm.predicted.median == pytest.approx(0, abs=0.03)
        assert abs(neighbour.harm.predicted.high) < 0.1


def test_harm_is_compared_with_that_of_the_recorded_algorithm(whatif: WhatIf) -> None:
    """Run by run: the difference is narrower than both are wide together."""
    same, other = (whatif.ask(0, Choice(name), runs=24).neighbours[0].harm for name in ("newreno", "cubic"))
    assert same is not None
    assert other is not None
    assert (other.recorded, other.goodput_without_bps) == (same.recorded, same.goodput_without_bps)
    assert other.predicted.median > other.recorded.median
    assert other.change.median > 0
    wide = sum(s.high - s.low for s in (other.predicted, other.recorded))
    assert 0 < other.change.high - other.change.low < wide


def test_harm_on_another_network_is_compared_with_that_network_alone(whatif: WhatIf) -> None:
    """A link of 12 Mbit/s: more without the connection, and as much as before on the recorded network."""
    before = whatif.ask(0, Choice("cubic"), runs=8).neighbours[0].harm
    faster = whatif.ask(0, Choice("cubic"), runs=8, settings={"path1.rate": "12M"}).neighbours[0].harm
    assert before is not None
    assert faster is not None
    assert faster.recorded == before.recorded
    assert faster.goodput_without_bps.median > 2 * before.goodput_without_bps.median
    assert 0 < faster.predicted.median < 1


def test_harm_is_null_where_it_cannot_be_said(whatif: WhatIf) -> None:
    [neighbour] = whatif.ask(0, Choice("cubic"), runs=4, everyone=True).neighbours
    assert neighbour.harm is None
    assert neighbour.predicted, "of a world in which all change"
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    fit, (own, beside), (ran, _) = fits[0], fits[0].connections, fits[0].algorithms

    def told(**changes: Any) -> bool:
        [neighbour] = predict([replace(fit, **changes)], 0, Choice("cubic"), runs=4).neighbours
        return neighbour.harm is not None

    assert told()
    assert not told(algorithms=(ran, None)), "nobody knows what it ran"
    times_ten = replace(beside.facts, goodput_bps=10 * (beside.facts.goodput_bps or 0))
    assert not told(connections=(own, replace(beside, facts=times_ten))), "it is not explained"
    nothing = replace(beside.facts, goodput_bps=None)
    assert not told(connections=(own, replace(beside, facts=nothing))), "it carried nothing"


def test_harm_of_runs() -> None:
    """A gain is harm below zero; all is lost without goodput; a run without the other one needs goodput."""

    def ran(*goodput: float) -> Ran:
        return Ran({"goodput_bps": np.array(goodput)}, np.zeros((len(goodput), 1)))

    none = float("nan")
    found = harm_of((ran(4, 4, 4), ran(2, 2, 2)), (ran(4, 4, none), ran(5, none, 3)))
    assert found is not None
    assert (found.recorded.low, found.recorded.high) == (0.5, 0.5)
    assert found.predicted.low == pytest.approx(-0.25 + 0.05 * 1.25)  # of two values the 5th percentile
    assert found.predicted.high == pytest.approx(1 - 0.05 * 1.25)
    assert found.change.median == pytest.approx(-0.125)
    assert harm_of((ran(4, 4, 4), ran(2, 2, 2)), (ran(4, none, none), ran(2, 2, 2))) is None


def test_the_world_without_a_connection_is_simulated_once_for_all_algorithms(
    observed: Callable[..., Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each draw: as recorded, without, and once for each algorithm. Alone a connection harms nobody."""
    made: list[int] = []

    def counted(run: Any, *given: Any, **named: Any) -> Any:
        made.append(len(run.transfers))
        return simulate(run, *given, **named)

    monkeypatch.setattr(worlds, "simulate", counted)
    whatif = WhatIf(observed())
    told = [whatif.ask(0, Choice(name), runs=6) for name in ("newreno", "cubic")]
    assert sorted(made) == 6 * [1] + 18 * [2]
    assert told[1] == WhatIf(observed()).ask(0, Choice("cubic"), runs=6), "whoever asks first"
    made.clear()
    whatif.ask(0, Choice("cubic"), runs=6, everyone=True)
    assert made == 6 * [2]
    made.clear()
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    predict([replace(fits[0], networks=fits[0].networks[:1])], 0, Choice("cubic"), runs=3)
    assert sorted(made) == 3 * [1] + 6 * [2], "each run has random numbers of its own"
    made.clear()
    whole = observed()
    alone = WhatIf(replace(whole, connections=whole.connections[:1])).ask(0, Choice("cubic"), runs=6)
    assert alone.neighbours == ()
    assert len(made) == 12


@pytest.mark.parametrize("runs", [1, 2, 10, 48])
@pytest.mark.parametrize("worse_by", [[], [0.0], [5.0, 6.0], [10.0, 40.0], [0.0, 0.0, 0.0, 0.0]])
def test_hypotheses_share_all_runs_and_the_best_one_has_some(whatif: WhatIf, worse_by: list[float], runs: int) -> None:
    found = whatif.fits(0)
    assert not isinstance(found, str)
    fits = [found[0], *(replace(found[0], log_evidence=found[0].log_evidence - nats) for nats in worse_by)]
    shared = runs_of(fits, runs)
    assert sum(shared) == runs
    assert shared[0] >= 1
    assert shared == pytest.approx([w * runs for w in weights(fits)], abs=1)
    assert predict(fits, 0, Choice("newreno"), runs=runs).runs == runs


def test_hypotheses_that_the_capture_does_not_tell_apart_stay_in(whatif: WhatIf) -> None:
    """Each with as many runs as its evidence is worth."""
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    narrow = replace(fits[0], networks=tuple(n.with_values(0, {"rate_bps": 1e6}) for n in fits[0].networks))
    worse = [replace(narrow, log_evidence=fits[0].log_evidence - nats) for nats in (0.0, 10.0, 40.0)]
    assert [weights([fits[0], other])[1] for other in worse] == pytest.approx([0.5, 1 / (1 + np.e), 0.0])

    def after(*others: Fit) -> list[float]:
        asked = predict([fits[0], *others], 0, Choice("newreno"), runs=8)
        return [level("goodput_bps", value) for value in asked.simulated["goodput_bps"].after]

    both = after(worse[0])
    assert both[:4] == after()[:4]
    assert max(both[4:]) < 1.2e6 < min(both[:4])
    assert after(worse[2]) == after()


def test_a_refused_prediction_asks_for_no_harm(whatif: WhatIf) -> None:
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    work = predicting([replace(fits[0], misfit=40.0)], 0, Choice("newreno"), runs=4)
    batch = next(work)
    with pytest.raises(StopIteration):
        work.send(np.array([batch.row(i) for i in range(4)]))


def test_refusals_say_why(observed: Callable[..., Observation]) -> None:
    short = observed(client="bytes = 20_000\n")
    asked = WhatIf(short).ask(0, Choice("cubic"))
    assert asked.verdict == "cannot_say"
    assert "fewer than" in (asked.reason or "")
    assert asked.recorded["goodput_bps"]
    assert not asked.predicted
    with pytest.raises(UnknownAlgorithm):
        WhatIf(short).ask(1, Choice("nothing"))
    with pytest.raises(BadOption, match="connection 7"):
        list(answers(WhatIf(short), [Choice("cubic")], [7]))
    with pytest.raises(BadOption, match="beta"):
        list(answers(WhatIf(short), [Choice("cubic", {"beta": "much"})], [0]))


def test_writes_of_an_application_are_seen(observed: Callable[..., Observation]) -> None:
    """12 kB every 500 ms, beside a connection that always has data."""
    observation = observed(client='write = "12kB"\npause = "500ms"\n')
    paused, full = (written(c, observation.first_ns) for c in observation.connections)
    assert full is not None
    assert not full.decides
    assert paused is not None
    assert paused.decides
    assert paused.kinds[0] == "clock"
    assert paused.bytes.sum() == 18 * 12_000
    turns = (paused.at_s - paused.at_s[0]) / 0.5
    exact = np.abs(turns - np.round(turns)) < 0.02
    assert np.count_nonzero(exact) >= 11  # of writes whose first packet was lost the time is known less well
    assert np.count_nonzero(paused.bytes[exact] == 12_000) >= 8  # the first ones were repaired together
    [(client, rival), *_] = sources(observation, (0, 1))
    assert (client.kind, rival.kind) == ("clock", "time")
    assert sum(w.bytes for w in client.writes) == 18 * 12_000
    assert rival.bytes is None  # both were stopped after nine seconds


def test_requests_are_told_from_a_clock(tmp_path: Path) -> None:
    """Each write 200 ms after the one before was acknowledged, which takes longer or shorter."""
    made = scenario()
    writes = tuple(Write(20_000 + 10_000 * (i % 4), 200_000_000, True) for i in range(12))
    client, rival = made.transfers
    made = replace(made, transfers=(replace(client, writes=writes), rival))
    with (tmp_path / "requests.pcapng").open("wb", 0) as file:
        simulate(made, 5, capture=file.fileno())
    with rewindow.open(tmp_path / "requests.pcapng") as capture:
        observation = observe(capture)
    found = written(observation.connections[0], observation.first_ns)
    assert found is not None
    assert found.kinds == ("requests",)
    source = found.source("requests")
    assert [w.bytes for w in source.writes[:4]] == [w.bytes for w in writes[:4]]
    assert all(w.after_acknowledged for w in source.writes)
    assert [w.after_ns / 1e9 for w in source.writes[1:4]] == pytest.approx(3 * [0.2], abs=0.01)


def test_writes_of_a_clock_are_told_apart_where_data_queued(observed: Callable[..., Observation]) -> None:
    """Beside a rival the link carries what is written, but not always at once: there, no pause is seen."""
    observation = observed(client='write = "30kB"\npause = "150ms"\n', shared=SHARED.replace("30", "60"))
    found = written(observation.connections[0], observation.first_ns)
    assert found is not None
    assert found.kinds == ("clock",)
    assert np.percentile(found.bytes, (10, 90)) == pytest.approx([30_000, 30_000], rel=0.08)
    assert np.percentile(np.diff(found.at_s), (10, 90)) == pytest.approx([0.15, 0.15], abs=0.02)
    assert len(found.at_s) == pytest.approx(9 / 0.15, abs=3)


def test_where_the_source_decides_nothing_changes(observed: Callable[..., Observation]) -> None:
    whatif = WhatIf(observed(client='write = "12kB"\npause = "500ms"\n'), assumed={0: Choice("newreno")})
    asked = whatif.ask(0, Choice("cubic"), runs=8)
    assert asked.verdict == "ok"
    goodput = asked.recorded["goodput_bps"] or 0
    assert asked.predicted["goodput_bps"].median == pytest.approx(goodput, rel=0.1)
    assert abs(asked.change["goodput_bps"].median) < 0.02
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    assert fits[0].networks[0].sources[0].kind == "clock"


@pytest.mark.parametrize("algorithm", ["reno", "bbr"])
def test_a_send_buffer_that_was_seen_full_is_fitted(observed: Callable[..., Observation], algorithm: str) -> None:
    """It holds a fifth of what the path would take. A larger one lets more out."""
    narrow = observed(
        shared='rate = "40M"\ndelay = "50ms"', client='send_buffer = "200kB"\n', rival="bytes = 50_000\n",
        algorithm=algorithm,
    )  # fmt: skip
    whatif = WhatIf(narrow, assumed={0: Choice(registry_name(algorithm))})
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    assert fits[0].seen_full == (True,)
    sizes = [network.send_buffers_bytes[0] for network in fits[0].networks]
    assert sizes == pytest.approx([200e3] * len(sizes), rel=0.05)
    told = fit_document([fits], [0])["connections"][0]["hypotheses"][0]
    assert told["send_buffers_bytes"] == [round(sizes[0])]
    assert told["receive_buffers_bytes"][0] > 200e3
    assert f"send buffer of 0: {sizes[0] / 1e3:.2f} kB" in fit_text([fits], [0])
    asked = whatif.ask(0, Choice("cubic"), runs=8)
    assert asked.verdict == "ok"
    recorded = asked.recorded["goodput_bps"] or 0
    assert asked.predicted["goodput_bps"].median == pytest.approx(recorded, rel=0.1)
    larger = whatif.ask(0, Choice("cubic"), runs=8, settings={"send_buffer": "300k"})
    assert larger.simulated["goodput_bps"].after > asked.simulated["goodput_bps"].after


@pytest.mark.parametrize(
    "values", [{}, {"algorithm": "cubic"}, {"algorithm": "bbr"}, {"client": 'write = "12kB"\npause = "500ms"\n'}]
)
def test_a_send_buffer_that_was_never_full_is_linuxs(
    observed: Callable[..., Observation], values: dict[str, str]
) -> None:
    """Neither a window, nor BBR's pace, nor a pause of the application looks like a full buffer."""
    observation = observed(**values)
    connection = observation.connections[0]
    assert held_back_at(connection, observation.first_ns) is None
    assert first_guess(connection, None) == SEND_BUFFER_BYTES


def test_subflows_and_captures_at_the_receiver_do_not_show_a_send_buffer(
    observed: Callable[..., Observation],
) -> None:
    narrow = observed(shared='rate = "40M"\ndelay = "50ms"', client='send_buffer = "200kB"\n', rival="bytes = 50_000\n")
    connection = narrow.connections[0]
    [subflow] = connection.subflows
    assert held_back_at(connection, narrow.first_ns) is not None
    as_subflow = replace(connection, facts=replace(connection.facts, kind="mptcp"))
    assert held_back_at(as_subflow, narrow.first_ns) is None
    far = replace(subflow, facts=replace(subflow.facts, send_times="round_trip"))
    assert held_back_at(replace(connection, subflows=(far,)), narrow.first_ns) is None
    assert "its send buffer is not known" in (cannot_be_fitted(as_subflow, narrow.first_ns) or "")


def test_a_flight_beyond_linuxs_largest_send_buffer_had_a_larger_one(observed: Callable[..., Observation]) -> None:
    connection = observed().connections[0]
    [subflow] = connection.subflows
    flights = subflow.series.flight_bytes * (4 * SEND_BUFFER_BYTES / subflow.series.flight_bytes.max())
    wide = replace(subflow, series=replace(subflow.series, flight_bytes=flights))
    assert first_guess(replace(connection, subflows=(wide,)), None) == pytest.approx(8 * SEND_BUFFER_BYTES)


def test_simulated_flights_correct_a_send_buffer() -> None:
    """By the median of the runs, not by more than a half in one round, and only where it was seen full."""
    simulated = np.array([[100e3, 50e3, 10e3], [120e3, 60e3, 10e3], [140e3, 70e3, 10e3]])
    found = corrected((180e3, 4e6, 50e3), (90e3, None, 90e3), simulated)
    assert found == pytest.approx((135e3, 4e6, 75e3))


def test_the_portions_in_which_a_default_buffer_empties_are_no_refusal(observed: Callable[..., Observation]) -> None:
    """At several ACKs in turn nothing is sent, until a third of the buffer is free: four of ten, as on fast paths."""
    observation = observed()
    connection = observation.connections[0]
    [subflow] = connection.subflows

    def reason(share: float) -> str | None:
        limited = np.arange(len(subflow.series.time_s)) % 10 < 10 * share
        held = replace(subflow, series=replace(subflow.series, limited=limited))
        return cannot_be_fitted(replace(connection, subflows=(held,)), observation.first_ns)

    assert reason(0.4) is None
    assert "80% of the ACKs" in (reason(0.8) or "")


def test_a_caller_may_say_what_is_sent(whatif: WhatIf) -> None:
    """On three times the rate the same bytes are sent in less time, and in the same time more bytes."""
    faster = {"path1.rate": "12M"}
    by_bytes, by_time = (
        whatif.ask(0, Choice("newreno"), runs=6, settings={"source": kind, **faster}) for kind in ("bytes", "time")
    )
    assert (by_bytes.source, by_time.source) == (("bytes",), ("time",))
    recorded = by_bytes.recorded["completion_s"] or 0
    assert by_bytes.predicted["completion_s"].median < 0.7 * recorded
    assert by_time.predicted["completion_s"].median == pytest.approx(recorded, rel=0.1)
    refused = whatif.ask(0, Choice("newreno"), runs=6, settings={"source": "requests"})
    assert refused.verdict == "cannot_say"
    assert "no pauses" in (refused.reason or "")


def test_a_connection_that_the_end_of_the_capture_cut_off_has_more_data(observed: Callable[..., Observation]) -> None:
    both = observed(client="bytes = 1_000_000")
    alone = replace(both, connections=(replace(both.connections[0], closed=False),))
    ended = replace(alone, duration_s=(alone.connections[0].facts.last_ns - alone.first_ns) / 1e9)
    assert sources(ended, (0,))[0][0].kind == "time"
    closed = replace(ended, connections=(replace(alone.connections[0], closed=True),))
    assert sources(closed, (0,))[0][0].kind == "bytes"
    quiet_then = replace(ended, duration_s=ended.duration_s + 5)
    assert sources(quiet_then, (0,))[0][0].kind == "bytes"


def test_whole_blocks_were_sent_until_they_were_stopped(observed: Callable[..., Observation]) -> None:
    """But not a round number of bytes, unless another one sent blocks, too."""
    observation = observed()

    def kinds(*sizes: int) -> list[str]:
        connections = tuple(
            replace(c, facts=replace(c.facts, bytes=size, last_ns=c.facts.last_ns + 3 * 10**9 * i))
            for i, (c, size) in enumerate(zip(observation.connections, sizes, strict=False))
        )
        cut = replace(observation, connections=connections, duration_s=60.0)
        return [sources(cut, (i,))[0][0].kind for i in range(len(sizes))]

    block = 1 << 16
    assert kinds(35 * block) == ["time"]
    assert kinds(35 * block + 1) == kinds(32 * block) == kinds(block) == ["bytes"]
    assert kinds(35 * block, 32 * block) == ["time", "time"]
    assert kinds(35 * block, 2_000_000) == ["time", "bytes"]


def test_a_fit_that_explains_nothing_is_refused(whatif: WhatIf) -> None:
    fits = whatif.fits(0)
    assert not isinstance(fits, str)
    asked = predict([replace(fits[0], misfit=40.0)], 0, Choice("newreno"), runs=4)
    assert asked.verdict == "cannot_say"
    assert "misfit 40" in (asked.reason or "")
    assert asked.calibration["goodput_bps"]


def test_a_sender_that_is_not_known_can_be_assumed(observed: Callable[..., Observation]) -> None:
    """Too few losses to name the sender: the caller may say what it ran. Of a short connection it matters little."""
    observation = observed(client="bytes = 60_000\n", rival="bytes = 60_000\n")
    asked = WhatIf(observation).ask(0, Choice("cubic"), runs=4)
    assert asked.recorded_algorithm is None
    assert asked.verdict == "ok"
    first, *others = observation.connections
    subflow = first.subflows[0]
    many = replace(first, subflows=(replace(subflow, facts=replace(subflow.facts, packets=201)),))
    asked = WhatIf(replace(observation, connections=(many, *others))).ask(0, Choice("cubic"), runs=4)
    assert asked.reason == "the algorithm that it ran is not known"
    assumed = {0: Choice("newreno"), 1: Choice("newreno")}
    assert WhatIf(observation, assumed=assumed).ask(0, Choice("cubic"), runs=4).recorded_algorithm == "newreno"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "rewindow.cli", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def capture_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("capture") / "shared.pcapng"
    with path.open("wb", 0) as file:
        simulate(scenario(), 5, capture=file.fileno())
    return str(path)


def test_the_command_answers_for_each_connection_and_algorithm(capture_file: str) -> None:
    told = command(
        "whatif",
        capture_file,
        "--algorithm",
        "cubic",
        "--algorithm",
        "bbr",
        "--repeat",
        "4",
        "--connection",
        "0",
        "--json",
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)["connections"]
    assert [(c["id"], c["algorithm"]) for c in found] == [(0, "cubic"), (0, "bbr")]
    cubic = found[0]
    assert cubic["verdict"] == "ok"
    for name in ("goodput_bps", "completion_s", "retransmitted_packets", "queueing_delay_ms"):
        assert set(cubic["predicted"][name]) == {"median", "low", "high"}
        assert cubic["recorded"][name] is not None
        assert set(cubic["calibration"][name]["simulated"]) == {"median", "low", "high"}
    [beside] = cubic["neighbours"]
    assert beside["id"] == 1
    assert list(beside["harm"]) == ["goodput_without_bps", "recorded", "predicted", "change"]
    assert {tuple(spread) for spread in beside["harm"].values()} == {("median", "low", "high")}


def test_the_command_prints_a_table(capture_file: str) -> None:
    told = command("whatif", capture_file, "--algorithm", "cubic", "--repeat", "4", "--connection", "0")
    assert told.returncode == 0, told.stderr
    assert "connection 0 (tcp), which ran newreno" in told.stdout
    assert "calibration: goodput" in told.stdout
    harm = r"cubic: harm to connection 1: \d+% \[.*\] of its goodput without connection 0, \d+% \["
    assert re.search(harm, told.stdout)
    fitted = command("fit", capture_file)
    assert fitted.returncode == 0, fitted.stderr
    assert "0.0, 1.0" in fitted.stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--algorithm", "cubic", "--connection", "9"], 2, "connection 9"),
        (["--algorithm", "nothing"], 2, "unknown algorithm"),
        (["--algorithm", "cubic", "--set", "path1"], 2, "not of the form"),
        (["--algorithm", "cubic", "--set", "path1.colour=1"], 2, "no such setting"),
        (["--algorithm", "cubic", "--option", "nothing=1"], 2, "nothing"),
        (["--algorithm", "cubic", "--option", "mode=paper"], 2, "mode=paper"),
        ([], 2, "--algorithm"),
    ],
)
def test_usage_errors(capture_file: str, words: list[str], status: int, said: str) -> None:
    told = command("whatif", capture_file, *words)
    assert told.returncode == status, told.stderr
    assert said in told.stderr


def test_nothing_that_could_be_said_is_a_negative_answer(tmp_path: Path) -> None:
    path = tmp_path / "short.pcapng"
    with path.open("wb", 0) as file:
        simulate(scenario(client="bytes = 9000\n", rival="bytes = 9000\n"), 5, capture=file.fileno())
    told = command("whatif", str(path), "--algorithm", "cubic", "--json")
    assert told.returncode == 1, told.stderr
    assert {c["verdict"] for c in json.loads(told.stdout)["connections"]} == {"cannot_say"}


def test_the_rate_is_known_where_the_link_was_never_busy_for_long(observed: Callable[..., Observation]) -> None:
    """ACKs beside a short queue tell it, although random losses keep the window small."""
    found = the_estimate(observed(shared='rate = "40M"\ndelay = "15ms"\nlimit = 400\nloss = "1%"', rival=""))
    assert not found.busy
    assert found.bottleneck.rate_bps == pytest.approx(40e6, rel=0.05)
    assert found.rate_sd is not None


def test_a_queue_that_never_filled_has_a_limit(observed: Callable[..., Observation]) -> None:
    """Around a round trip's packets, and not below what was seen."""
    observation = observed(shared='rate = "40M"\ndelay = "15ms"\nlimit = 400\nloss = "1%"')
    made = fit(observation, 0, runs=60, draws=60)[0]
    seen = made.estimates[0].queued_packets
    drawn = np.array([n.bottlenecks[0].queue_packets for n in made.networks])
    assert made.estimates[0].bottleneck.queue_packets is None
    assert drawn.min() >= seen
    assert len(set(drawn)) > 10
    assert np.median(drawn) == pytest.approx(40e6 / 8 * 0.07 / 1500, rel=0.5)


def test_subflows_that_the_detector_joined_are_fitted_apart_too(observed: Callable[..., Observation]) -> None:
    observation = observed()
    joined = tuple(
        replace(c, subflows=tuple(replace(s, facts=replace(s.facts, bottleneck=1)) for s in c.subflows))
        for c in observed(shared='rate = "40M"\ndelay = "15ms"\nlimit = 400\nloss = "1%"').connections
    )
    both = ((0, 0), (1, 0))
    apart = tuple((place,) for place in both)
    assert groupings(observation)[-1] == (both,)
    assert set(groupings(replace(observation, connections=joined))) == {(both,), apart}


def test_a_connection_of_small_packets_is_refused_and_one_beside_it_runs(observed: Callable[..., Observation]) -> None:
    """A subflow that carried little has not shown a whole segment, and no path of the simulator is for such packets."""
    observation = observed()
    first, second = observation.connections
    small = tuple(replace(s, facts=replace(s.facts, mss_bytes=100)) for s in first.subflows)
    whatif = WhatIf(replace(observation, connections=(replace(first, subflows=small), second)))
    asked = whatif.ask(first.id, Choice("newreno"), runs=4)
    assert "only paths for 576 bytes" in (asked.reason or "")
    made = Network((Bottleneck(4e6, 30.0, None, 0.0),), (((0, 0.07),),), (by_bytes(first),), (4e6,))
    run = scenario_of((replace(first, subflows=small),), made, observation.first_ns, observation.duration_s)
    assert simulate(run, 1).transfers[0].complete
