"""Fits a network to a capture: its connections are simulated on many networks, and those stay that explain them.

Each round draws networks, runs the recorded algorithms on each, and regresses what came of it on the parameters. With
that regression the recorded outcome gives a Gaussian posterior of the parameters, from which the next round draws
(iterated approximate Bayesian computation with a regression, e.g. Beaumont, Zhang, Balding 2002). What one run differs
from the next one, and what the simulator differs from a kernel, is a part of the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice
from rewindow.simulator import Simulation, simulate
from rewindow.whatif.batches import Batch, Report, Work, completed
from rewindow.whatif.estimates import LONGEST, Estimate, estimate
from rewindow.whatif.groups import Grouping, Place, components, groupings
from rewindow.whatif.jitter import unevenness_s
from rewindow.whatif.network import MTU_MIN_BYTES, Network, mtu_bytes, scenario
from rewindow.whatif.observation import Observation, ObservedConnection
from rewindow.whatif.outcomes import Outcome, of_transfer
from rewindow.whatif.round_trips import Member, base_rtt_errors_s, base_rtts_s
from rewindow.whatif.send_buffers import corrected, first_guess, held_back_at, simulated_most
from rewindow.whatif.sources import Source, sources, stopped_in_time

Array = npt.NDArray[Any]
T = TypeVar("T")

ROUNDS = 3
RUNS = 240
"""Simulated for one hypothesis about who shares a bottleneck, in all rounds together."""
_WIDENED = 1.5
"""How much wider than its posterior the next round draws: a regression should not leave its range."""
_FREEDOM = 6.0
"""Degrees of freedom of the posterior."""
_KEPT = 4
"""Of so many runs of the last round one, the nearest, lends its round trips to draws of the posterior: what they do to
who loses at a full queue is no line, which a regression would follow.
"""
_FAR = 3.0
"""How many standard deviations of its range a round may move the parameters."""
_OUTLIER = 6.0
_COVARIANCE_KEPT = 0.7
"""Of the covariances of statistics in one run: their estimate from few runs is noisy."""

# Standard deviations of the simulator's own error, for each statistic: what no network explains. About as far as
# simulations with the true parameters of the networks that are tuned on are from the kernel.
_MODEL_ERROR = {"goodput": 0.05, "lost": 0.3, "episodes": 0.3, "queue50": 0.15, "queue90": 0.15, "marked": 0.2,
                "timeouts": 0.5}  # fmt: skip
_FULL_PACKETS, _FULL_SD = 0.3, 0.003
"""Of the longest queueing delay beside a queue that filled, packets, and a share of it."""
_QUEUE_SD, _KERNELS_QUEUE_SD, _UNSETTLED_SD, _ECN_SD, _LOSS_SD = 0.003, 0.007, 0.25, 0.01, 0.1
"""Of the estimates' errors in a logarithm, for networks whose truth is known: what they add to a packet's part or one
loss more. The kernel's is added to a simulated queue's: bench/predictions.py and bench/calibration.py print both."""
_OF_A_PACKET, _KERNELS_PACKETS = 0.2, 0.9
"""The error of a queue's limit and of a threshold, packets: of a simulated capture, and what a kernel's adds to it."""
_UNEVEN_ERROR, _UNEVEN_FLOOR_MS = 0.1, 0.1
"""Of how uneven round trips are, where there is jitter."""
_JITTER_SD = 0.7
"""Of its logarithm, in the prior."""
_UNSEEN_RATE_SD, _UNSEEN_RTT_SD = 0.15, 0.5
"""In logarithms: of how much of the queue unseen packets are, and of how a round trip of unseen connections, of which
nothing is known, differs from those of the capture."""
UNSEEN = ("cubic", "reno", None)
"""What unseen traffic may be: a connection of the default algorithm or of the standard one, or nothing that reacts."""
_RATE_ERROR = 4e-4
"""In the logarithm of a rate, of a kernel's link."""
_NO_ERROR = 1e-3
"""Where no run differs from the next one, the likelihood still has a width."""
_DELAY_FLOOR_MS = 0.5
_QUEUE_UNSEEN_SD = 0.7
"""Of a logarithm: of a queue that never filled, around the packets that fill the path for a round trip, which is the
rule for the queue of a router (Villamizar, Song 1994)."""

_TELLS_PACKETS = 200
UNKNOWN_SENDER = Choice("cubic")
"""Linux's default."""
CONNECTIONS_MOST = 40
"""That may influence each other, in one fit."""
WORK_PACKETS = 60_000_000
"""Captured packets times runs, at most, for one hypothesis: long captures are run less often."""


_NATS = 10.0
"""How far the evidence of a hypothesis about who shares a bottleneck may be off: it comes from a regression. Where the
truth is known, the worse hypothesis was now and then the better one by as much and more."""
_EDGE_NATS = 3.0
"""Taken from the evidence for each begin and end of unseen traffic within the capture: they were chosen among some
twenty places so that they fit, and the evidence does not know it.
"""
_LIKELY = 0.1
"""The least weight of a hypothesis that stays in."""
_ROUNDED = 1e-9
"""A sum of weights may be off by less."""


class TooManyConnections(Exception):
    """More share a bottleneck than a fit can run."""


@dataclass(frozen=True)
class Parameter:
    """A number of the network, by its logarithm. sd: of its prior."""

    name: str
    bottleneck: int
    log: float
    sd: float


@dataclass(frozen=True)
class Fit:
    """connections: those that influence each other. networks: draws of the posterior. log_evidence: how well the
    hypothesis explains the capture. misfit: the mean square of statistics' errors in standard deviations, 1 expected.
    """

    connections: tuple[ObservedConnection, ...]
    ids: dict[int, int]
    """By a connection's place in the observation, as in `grouping`."""
    algorithms: tuple[Choice | None, ...]
    grouping: Grouping
    estimates: tuple[Estimate, ...]
    parameters: tuple[Parameter, ...]
    networks: tuple[Network, ...]
    posterior_log: Array
    """For each draw the logarithms of the parameters."""
    seen_full: tuple[bool, ...]
    """Of each connection, whether the capture shows its send buffer full, so that it is fitted."""
    misfit: float
    log_evidence: float
    runs: int
    first_ns: int
    duration_s: float

    def place(self, connection: int) -> int:
        """Of the connection with this id."""
        return next(i for i, c in enumerate(self.connections) if c.id == connection)

    def with_source(self, connection: int, source: Source) -> Fit:
        """Another fit, in whose networks this connection, by its id, has this source."""
        place = self.place(connection)
        return replace(self, networks=tuple(n.with_source(place, source) for n in self.networks))


def recorded_algorithm(connection: ObservedConnection) -> str | None:
    """What most of the connection's data was sent by; None where senders are not known.

    Where no sender is named, the first candidate that fits: each of them had the recorded windows.
    """
    sent: dict[str, int] = {}
    for s in connection.subflows:
        sender = s.facts.sender_algorithm
        if sender.name != "unknown":
            sent[sender.name] = sent.get(sender.name, 0) + s.facts.bytes
    if sent:
        return max(sent, key=lambda name: sent[name])
    return next((c for s in connection.subflows for c in s.facts.sender_algorithm.candidates), None)


def may_be_any(connection: ObservedConnection) -> bool:
    """Whether so little was sent, in whole segments, that what came of it depends little on the algorithm, and does not
    tell it.
    """
    smallest = min(mtu_bytes(s, connection.facts.kind) for s in connection.subflows)
    return sum(s.facts.packets for s in connection.subflows) <= _TELLS_PACKETS and smallest >= MTU_MIN_BYTES


def outcomes(made: Simulation, connections: int) -> list[Outcome]:
    """Of the first transfers of a run that kept its rows: those behind them are unseen."""
    assert made.rows is not None
    found, first = [], 0
    for transfer in made.transfers[:connections]:
        found.append(of_transfer(transfer, made.rows, first))
        first += len(transfer.subflows)
    return found


Members = tuple[tuple[int, int], ...]
"""Of a bottleneck: connections, by their place in a fit, and subflows of them."""


def _statistics(
    outcomes: Sequence[Outcome], seen: Sequence[Sequence[bool]], full: Sequence[Members], jittery: Sequence[Members]
) -> Array:
    """A row of numbers that depend smoothly on the network. seen: of each subflow, whether its queueing delays are.
    full: of each queue that filled. jittery: of each bottleneck with jitter.
    """
    found: list[float] = []
    for outcome, own_seen in zip(outcomes, seen, strict=True):
        found.append(np.log(max(outcome.goodput_bps or 0.0, 1e3)))
        for s, sees in zip(outcome.subflows, own_seen, strict=True):
            if len(own_seen) > 1:
                found.append(np.log(s.bytes + 1e4))
            found += [np.log1p(s.retransmitted), np.log1p(s.episodes), np.log1p(s.timeouts), np.log1p(s.marked)]
            if sees:
                waits = np.percentile(s.queued_s, (50, 90)) * 1e3 if len(s.queued_s) else np.zeros(2)
                found += list(np.log(waits + _DELAY_FLOOR_MS))
    for members in full:
        waits = np.concatenate([outcomes[c].subflows[s].queued_s for c, s in members])
        found.append(np.log((np.percentile(waits, LONGEST) if len(waits) else 0.0) * 1e3 + _DELAY_FLOOR_MS))
    for members in jittery:
        uneven_s = np.mean([unevenness_s(outcomes[c].subflows[s].queued_s) for c, s in members])
        found.append(np.log(uneven_s * 1e3 + _UNEVEN_FLOOR_MS))
    return np.array(found)


def _model_errors(seen: Sequence[Sequence[bool]], full_packets: Sequence[float], jittery: int) -> Array:
    """Of the numbers that _statistics returns. full_packets: of each queue that filled, its length."""
    found: list[float] = []
    for own_seen in seen:
        found.append(_MODEL_ERROR["goodput"])
        for sees in own_seen:
            if len(own_seen) > 1:
                found.append(2 * _MODEL_ERROR["goodput"])
            found += [_MODEL_ERROR[name] for name in ("lost", "episodes", "timeouts", "marked")]
            if sees:
                found += [_MODEL_ERROR["queue50"], _MODEL_ERROR["queue90"]]
    found += [_FULL_SD + _FULL_PACKETS / packets for packets in full_packets]
    found += [_UNEVEN_ERROR] * jittery
    return np.array(found)


def _prior(estimates: Sequence[Estimate], is_simulated: bool) -> list[Parameter]:
    found = []
    rate_error = 0.0 if is_simulated else _RATE_ERROR
    packets = _OF_A_PACKET if is_simulated else float(np.hypot(_OF_A_PACKET, _KERNELS_PACKETS))
    for i, e in enumerate(estimates):
        b = e.bottleneck
        if e.rate_sd is not None:
            found.append(Parameter("rate_bps", i, np.log(b.rate_bps), float(np.hypot(e.rate_sd, rate_error))))
        else:
            found.append(Parameter("rate_bps", i, np.log(b.rate_bps * 1.2), 0.35))
        if b.queue_packets is not None:
            settled_sd = _QUEUE_SD + (0.0 if is_simulated else _KERNELS_QUEUE_SD)
            sd = settled_sd if e.settled and not b.jitter_s else _UNSETTLED_SD
            found.append(Parameter("queue_packets", i, np.log(b.queue_packets), sd + packets / b.queue_packets))
        if b.ecn_packets is not None:
            found.append(Parameter("ecn_packets", i, np.log(b.ecn_packets), _ECN_SD + packets / b.ecn_packets))
        if b.jitter_s:
            found.append(Parameter("jitter_s", i, np.log(b.jitter_s), _JITTER_SD))
        if b.unseen is not None and b.unseen.algorithm is None:
            found.append(Parameter("unseen_rate_bps", i, np.log(b.unseen.rate_bps), _UNSEEN_RATE_SD))
        elif b.unseen is not None:
            found.append(Parameter("unseen_rtt_s", i, np.log(b.unseen.rtt_s), _UNSEEN_RTT_SD))
        if b.loss > 0:
            found.append(Parameter("loss", i, np.log(b.loss), _LOSS_SD + 2 / np.sqrt(max(e.random_losses, 1))))
    return found


def _with_queues(network: Network, estimates: Sequence[Estimate], random: np.random.Generator) -> Network:
    """Queues that never filled have a limit, too: one that is not below the longest queue that was seen."""
    for i, e in enumerate(estimates):
        round_trips = [rtt_s for own in network.members for number, rtt_s in own if number == i]
        packets = network.bottlenecks[i].rate_bps / 8 * max(round_trips, default=0.0) / e.packet_bytes
        drawn = packets * float(np.exp(_QUEUE_UNSEEN_SD * random.standard_normal()))
        if network.bottlenecks[i].queue_packets is None:
            network = network.with_values(i, {"queue_packets": max(drawn, e.queued_packets + 1)})
    return network


def _network(start: Network, parameters: Sequence[Parameter], log: Array) -> Network:
    values: dict[int, dict[str, float]] = {}
    for p, x in zip(parameters, log, strict=True):
        values.setdefault(p.bottleneck, {})[p.name] = float(np.exp(x))
    network = start
    for number, changed in values.items():
        network = network.with_values(number, changed)
    return network


def _edges(estimates: Sequence[Estimate], duration_s: float) -> int:
    """Begins and ends of unseen traffic within the capture."""
    periods = [period for e in estimates if e.bottleneck.unseen for period in e.bottleneck.unseen.periods_s]
    return sum(0 < at_s < duration_s for period in periods for at_s in period)


@dataclass(frozen=True)
class Posterior:
    """Gaussian, of logarithms. misfit, log_evidence: as in Fit. nearest: the runs, by number, in the order of how near
    they come to the capture once the regression has moved them to the mean.
    """

    mean: Array
    covariance: Array
    misfit: float
    log_evidence: float
    nearest: Array


def regressed(x: Array, y: Array, observed: Array, errors: Array, prior: Sequence[Parameter]) -> Posterior:
    """The posterior that a regression on simulated runs gives.

    x: logarithms of parameters, a row for each run; y: its statistics; observed: those of the capture; errors: standard
    deviations of the model's own error.
    """
    center = np.median(y, axis=0)
    # Of rare events the median deviation is 0, and the mean one is not.
    off_center = np.abs(y - center)
    spread = np.maximum(1.4826 * np.median(off_center, axis=0), off_center.mean(axis=0)) + errors
    # What no run comes near tells in which direction to go, but not how far: slopes hold in the range of the runs.
    y, near = (np.clip(v, center - _OUTLIER * spread, center + _OUTLIER * spread) for v in (y, observed))
    middle = x.mean(axis=0)
    design = np.c_[np.ones(len(x)), x - middle]
    # A little ridge: a parameter that no run depends on gets no slope.
    penalty = np.diag(np.r_[0.0, np.full(x.shape[1], 1e-3)])
    slopes = np.linalg.solve(design.T @ design + penalty, design.T @ y)
    residuals = y - design @ slopes
    noise = residuals.T @ residuals / max(len(x) - design.shape[1], 1)
    noise = _COVARIANCE_KEPT * noise + (1 - _COVARIANCE_KEPT) * np.diag(np.diag(noise))
    likelihood = noise + np.diag(errors**2)
    prior_mean = np.array([p.log for p in prior])
    prior_precision = np.diag([1 / p.sd**2 for p in prior])
    weight = np.linalg.inv(likelihood)
    a = slopes[1:].T
    precision = prior_precision + a.T @ weight @ a
    covariance = np.linalg.inv(precision)
    mean = covariance @ (prior_precision @ prior_mean + a.T @ weight @ (near - slopes[0] + a @ middle))
    off = observed - slopes[0] + a @ middle
    explained = off - a @ mean
    misfit = float(explained @ weight @ explained) / len(observed)
    total = likelihood + a @ np.linalg.inv(prior_precision) @ a.T
    surprise = off - a @ prior_mean
    log_evidence = -0.5 * float(surprise @ np.linalg.solve(total, surprise) + np.linalg.slogdet(total)[1])
    away = near - (y - (x - mean) @ slopes[1:])
    nearest = np.argsort(np.einsum("ij,jk,ik->i", away, weight, away), kind="stable")
    return Posterior(mean, covariance, misfit, log_evidence, nearest)


def _members(observation: Observation, group: Sequence[Place]) -> list[Member]:
    connections = observation.connections
    return [(connections[c].subflows[s], connections[c].facts.kind) for c, s in group]


def _hypotheses(observation: Observation, grouping: Grouping, members: tuple[int, ...]) -> list[tuple[Estimate, ...]]:
    """Estimates of the bottlenecks, with each kind of unseen traffic where there is some."""
    if len(members) > CONNECTIONS_MOST:
        raise TooManyConnections(f"{len(members)} connections share bottlenecks: a fit runs {CONNECTIONS_MOST} at most")
    found = tuple(estimate(_members(observation, g)) for g in grouping if g[0][0] in members)
    if all(e.bottleneck.unseen is None for e in found):
        return [found]
    return [tuple(e.with_unseen(algorithm) for e in found) for algorithm in UNSEEN]


def _by_place(groups: Sequence[Sequence[Place]], values: Sequence[Sequence[T]]) -> dict[Place, T]:
    """values: of the members of each group."""
    return {place: v for g, own in zip(groups, values, strict=True) for place, v in zip(g, own, strict=True)}


def _fit_component(
    observation: Observation,
    grouping: Grouping,
    members: tuple[int, ...],
    estimates: tuple[Estimate, ...],
    assumed: dict[int, Choice],
    runs: int,
    draws: int,
    seed: int,
    is_simulated: bool,
    begins: float,
    ends: float,
) -> Work[Fit]:
    """estimates: of the bottlenecks, in the order of their groups. begins, ends: its part of the whole work."""
    connections = tuple(observation.connections[c] for c in members)
    groups = [g for g in grouping if g[0][0] in members]
    of_group = [_members(observation, g) for g in groups]
    number = {place: i for i, g in enumerate(groups) for place in g}
    bases = [base_rtts_s(own, e.bottleneck) for own, e in zip(of_group, estimates, strict=True)]
    without_queue_s = _by_place(groups, bases)

    def path(c: int, s: int) -> tuple[int, float]:
        """The number of its bottleneck, and the round trip without queue."""
        return number[c, s], without_queue_s[c, s] or 0.05

    errors_s = [base_rtt_errors_s(own, e.bottleneck) for own, e in zip(of_group, estimates, strict=True)]
    too_long_s = dict.fromkeys(number, 0.0) if is_simulated else _by_place(groups, errors_s)

    def drawn_errors_s() -> list[list[float]]:
        """By how much round trips without queue are shorter, in one run."""
        return [
            [too_long_s[c, s] * abs(random.standard_normal()) for s in range(len(observation.connections[c].subflows))]
            for c in members
        ]

    layout = tuple(tuple(path(c, s) for s in range(len(observation.connections[c].subflows))) for c in members)
    applications = sources(observation, members)
    held_at = [held_back_at(c, observation.first_ns) for c in connections]
    buffers = tuple(first_guess(c, most) for c, most in zip(connections, held_at, strict=True))
    start = Network(tuple(e.bottleneck for e in estimates), layout, applications[0], buffers)
    seen = [[s.sees_queues for s in c.subflows] for c in connections]
    place = {c: i for i, c in enumerate(members)}
    told = [
        (tuple((place[c], s) for c, s in g if observation.connections[c].subflows[s].sees_queues), e.bottleneck)
        for g, e in zip(groups, estimates, strict=True)
    ]
    full = {own: b.queue_packets for own, b in told if own and b.queue_packets is not None}
    jittery = tuple(own for own, b in told if b.jitter_s)
    observed = _statistics([c.outcome() for c in connections], seen, tuple(full), jittery)
    errors = _model_errors(seen, tuple(full.values()), len(jittery))
    if is_simulated:
        errors = np.full(len(errors), _NO_ERROR)
    prior = _prior(estimates, is_simulated)
    algorithms = tuple(
        assumed.get(c.id) or (Choice(name) if (name := recorded_algorithm(c)) else None) for c in connections
    )
    choices = {str(c.id): a or UNKNOWN_SENDER for c, a in zip(connections, algorithms, strict=True)}
    first_ns, duration_s = observation.first_ns, observation.duration_s
    random = np.random.default_rng(seed)
    mean, covariance = np.array([p.log for p in prior]), np.diag([p.sd**2 for p in prior])
    posterior = Posterior(mean, covariance, np.inf, -np.inf, np.empty(0, int))
    shorter: list[list[list[float]]] = []
    packets = max(sum(s.facts.packets for c in connections for s in c.subflows), 1)
    each = max(min(runs, WORK_PACKETS // packets) // ROUNDS, 4 * len(prior) + 8)
    for turn in range(ROUNDS):
        x = random.multivariate_normal(mean, covariance, each, method="cholesky")

        starts = [replace(start, sources=own, send_buffers_bytes=buffers) for own in applications]
        shorter = [drawn_errors_s() for _ in range(each)]
        tried = [
            _network(starts[i % len(starts)], prior, x[i]).with_shorter_rtts(less_s) for i, less_s in enumerate(shorter)
        ]

        def simulated(i: int, turn: int = turn, tried: list[Network] = tried) -> Array:
            """Statistics, then how long each connection took, and its largest flight where that tells its buffer."""
            there = scenario(connections, tried[i], first_ns, duration_s)
            ran = simulate(there, seed + turn * each + i, choices, rows=True)
            made = outcomes(ran, len(connections))
            lasted = [np.nan if o.completion_s is None else o.completion_s for o in made]
            return np.concatenate(
                [_statistics(made, seen, tuple(full), jittery), lasted, simulated_most(ran, connections, held_at)]
            )

        done = [begins + (ends - begins) * part / ROUNDS for part in (turn, turn + 1)]
        rows = yield Batch(each, simulated, *done)
        y, lasted, most = np.split(rows, (len(observed), len(observed) + len(connections)), axis=1)
        applications = [stopped_in_time(connections, own, lasted) for own in applications]
        buffers = corrected(buffers, held_at, most)
        posterior = regressed(x, y, observed, errors, prior)
        reach = _FAR * np.sqrt(np.diag(covariance))
        mean = np.clip(posterior.mean, mean - reach, mean + reach)
        covariance = posterior.covariance * _WIDENED**2
    drawn = random.multivariate_normal(posterior.mean, posterior.covariance, draws, method="cholesky")
    # Estimates are now and then far off: Student's t distribution has such tails.
    wide = np.sqrt(_FREEDOM / random.chisquare(_FREEDOM, (draws, 1)))
    drawn = posterior.mean + (drawn - posterior.mean) * wide
    starts = [replace(start, sources=own, send_buffers_bytes=buffers) for own in applications]
    kept = posterior.nearest[: max(each // _KEPT, 1)]
    networks = tuple(
        _with_queues(_network(starts[i % len(starts)], prior, row), estimates, random).with_shorter_rtts(
            shorter[random.choice(kept)]
        )
        for i, row in enumerate(drawn)
    )
    return Fit(
        connections=connections, ids={c: observation.connections[c].id for c in members}, algorithms=algorithms,
        grouping=tuple(groups), estimates=estimates,
        parameters=tuple(prior), networks=networks, posterior_log=drawn,
        seen_full=tuple(most is not None for most in held_at),
        misfit=posterior.misfit, log_evidence=posterior.log_evidence - _EDGE_NATS * _edges(estimates, duration_s),
        runs=ROUNDS * each, first_ns=first_ns,
        duration_s=duration_s,
    )  # fmt: skip


def fit(
    observation: Observation,
    connection: int,
    *,
    assumed: dict[int, Choice] | None = None,
    runs: int = RUNS,
    draws: int = 48,
    seed: int = 1,
    is_simulated: bool = False,
    report: Report = lambda done: None,
) -> list[Fit]:
    """Fits the paths of a connection and of all that share a bottleneck with it, under each hypothesis about sharing.

    connection: its id. assumed: the algorithm of connections, by id, where the capture does not name it. is_simulated:
    the capture is of this simulator, which then has no error of its own. Returns the fits, the best one first.
    """
    work = fitting(
        observation, connection, assumed=assumed, runs=runs, draws=draws, seed=seed, is_simulated=is_simulated
    )
    return completed(work, report)


def fitting(
    observation: Observation,
    connection: int,
    *,
    assumed: dict[int, Choice] | None = None,
    runs: int = RUNS,
    draws: int = 48,
    seed: int = 1,
    is_simulated: bool = False,
) -> Work[list[Fit]]:
    """As fit does, in batches."""
    place = next(i for i, c in enumerate(observation.connections) if c.id == connection)
    parts_of = [(grouping, components(grouping)) for grouping in groupings(observation)]
    # Hypotheses are compared by what they say of the same connections.
    concerned = {c for _, parts in parts_of for members in parts if place in members for c in members}
    wanted = {
        tuple(g for g in grouping if g[0][0] in members): (grouping, members)
        for grouping, parts in parts_of for members in parts if concerned & set(members)
    }  # fmt: skip
    hypotheses = {key: _hypotheses(observation, *own) for key, own in wanted.items()}
    total, done = sum(len(own) for own in hypotheses.values()), 0
    made: dict[Grouping, list[Fit]] = {}
    for key, own in hypotheses.items():
        made[key] = []
        for estimates in own:
            part = (done / total, (done + 1) / total)
            made[key].append(
                (yield from _fit_component(
                    observation, *wanted[key], estimates, assumed or {}, runs, draws, seed, is_simulated, *part
                ))
            )  # fmt: skip
            done += 1
    found: dict[tuple[Grouping, int], Fit] = {}
    for grouping, parts in parts_of:
        keys = {m: tuple(g for g in grouping if g[0][0] in m) for m in parts if concerned & set(m)}
        mine = next(key for members, key in keys.items() if place in members)
        beside = sum(max(f.log_evidence for f in made[key]) for key in keys.values() if key != mine)
        for i, f in enumerate(made[mine]):
            known = found.get((mine, i))
            if known is None or known.log_evidence < f.log_evidence + beside:
                found[mine, i] = replace(f, log_evidence=f.log_evidence + beside)
    return sorted(found.values(), key=lambda f: -f.log_evidence)


def weights(fits: Sequence[Fit]) -> list[float]:
    """Of each hypothesis, 0 for an unlikely one; their sum is 1. fits: the best one first."""
    odds = np.exp([(f.log_evidence - fits[0].log_evidence) / _NATS for f in fits])
    odds[odds < _LIKELY * odds.sum()] = 0.0
    return [float(w) for w in odds / odds.sum()]


def runs_of(fits: Sequence[Fit], runs: int) -> list[int]:
    """How many of the runs each hypothesis has; the best one has some. fits: the best one first."""
    ends = [ceil(end - _ROUNDED) for end in np.cumsum(weights(fits)) * runs]
    return [end - begin for begin, end in pairwise([0, *ends])]
