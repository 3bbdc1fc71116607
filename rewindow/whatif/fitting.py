"""Fits a network to a capture: its connections are simulated on many networks, and those stay that explain them.

Each round draws networks, runs the recorded algorithms on each, and regresses what came of it on the parameters. With
that regression the recorded outcome gives a Gaussian posterior of the parameters, from which the next round draws
(iterated approximate Bayesian computation with a regression, e.g. Beaumont, Zhang, Balding 2002). What one run differs
from the next one, and what the simulator differs from a kernel, is a part of the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice
from rewindow.simulator import Simulation, simulate
from rewindow.whatif.batches import Batch, Report, Work, completed
from rewindow.whatif.estimates import Estimate, estimate
from rewindow.whatif.groups import Grouping, components, groupings
from rewindow.whatif.network import MTU_MIN_BYTES, Network, mtu_bytes, scenario
from rewindow.whatif.observation import Observation, ObservedConnection
from rewindow.whatif.outcomes import Outcome, of_transfer
from rewindow.whatif.round_trips import base_rtts_s
from rewindow.whatif.sources import sources, stopped_in_time

Array = npt.NDArray[Any]

ROUNDS = 3
RUNS = 240
"""Simulated for one hypothesis about who shares a bottleneck, in all rounds together."""
_WIDENED = 1.5
"""How much wider than its posterior the next round draws: a regression should not leave its range."""
_FAR = 3.0
"""How many standard deviations of its range a round may move the parameters."""
_OUTLIER = 6.0
_COVARIANCE_KEPT = 0.7
"""Of the covariances of statistics in one run: their estimate from few runs is noisy."""

# Standard deviations of the simulator's own error, for each statistic: what no network explains. About as far as
# simulations with the true parameters of the networks that are tuned on are from the kernel.
_MODEL_ERROR = {"goodput": 0.05, "lost": 0.3, "episodes": 0.3, "queue50": 0.15, "queue90": 0.15, "marked": 0.2,
                "timeouts": 0.5}  # fmt: skip
_QUEUE_SD, _UNSETTLED_SD, _ECN_SD = 0.04, 0.25, 0.05
"""Of the estimates' errors in a logarithm, as bench/predictions.py printed them for networks whose truth is known."""
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
    misfit: float
    log_evidence: float
    runs: int
    first_ns: int
    duration_s: float


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


def run(
    connections: tuple[ObservedConnection, ...],
    network: Network,
    choices: dict[str, Choice],
    seed: int,
    first_ns: int,
    duration_s: float,
) -> list[Outcome]:
    """The outcome of each connection, in their order."""
    return outcomes(simulate(scenario(connections, network, first_ns, duration_s), seed, choices, rows=True))


def outcomes(made: Simulation) -> list[Outcome]:
    """Of each transfer of a run that kept its rows."""
    assert made.rows is not None
    found, first = [], 0
    for transfer in made.transfers:
        found.append(of_transfer(transfer, made.rows, first))
        first += len(transfer.subflows)
    return found


def _statistics(outcomes: Sequence[Outcome], seen: Sequence[Sequence[bool]]) -> Array:
    """A row of numbers that depend smoothly on the network. seen: of each subflow, whether its queueing delays are."""
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
    return np.array(found)


def _model_errors(seen: Sequence[Sequence[bool]]) -> Array:
    """Of the numbers that _statistics returns."""
    found: list[float] = []
    for own_seen in seen:
        found.append(_MODEL_ERROR["goodput"])
        for sees in own_seen:
            if len(own_seen) > 1:
                found.append(2 * _MODEL_ERROR["goodput"])
            found += [_MODEL_ERROR[name] for name in ("lost", "episodes", "timeouts", "marked")]
            if sees:
                found += [_MODEL_ERROR["queue50"], _MODEL_ERROR["queue90"]]
    return np.array(found)


def _prior(estimates: Sequence[Estimate]) -> list[Parameter]:
    found = []
    for i, e in enumerate(estimates):
        b = e.bottleneck
        if e.rate_sd is not None:
            found.append(Parameter("rate_bps", i, np.log(b.rate_bps), e.rate_sd))
        else:
            found.append(Parameter("rate_bps", i, np.log(b.rate_bps * 1.2), 0.35))
        if b.queue_packets is not None:
            sd = _QUEUE_SD if e.settled else _UNSETTLED_SD
            found.append(Parameter("queue_packets", i, np.log(b.queue_packets), sd + 1 / b.queue_packets))
        if b.ecn_packets is not None:
            found.append(Parameter("ecn_packets", i, np.log(b.ecn_packets), _ECN_SD + 1 / b.ecn_packets))
        if b.loss > 0:
            found.append(Parameter("loss", i, np.log(b.loss), 0.2 + 1 / np.sqrt(max(e.random_losses, 1))))
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


@dataclass(frozen=True)
class _Posterior:
    mean: Array
    covariance: Array
    misfit: float
    log_evidence: float


def _regressed(x: Array, y: Array, observed: Array, errors: Array, prior: Sequence[Parameter]) -> _Posterior:
    """x: logarithms of parameters, a row for each run; y: statistics; errors: of the model."""
    center = np.median(y, axis=0)
    spread = 1.4826 * np.median(np.abs(y - center), axis=0) + 1e-3
    y = np.clip(y, center - _OUTLIER * spread, center + _OUTLIER * spread)
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
    off = observed - slopes[0] + a @ middle
    mean = covariance @ (prior_precision @ prior_mean + a.T @ weight @ off)
    explained = off - a @ mean
    misfit = float(explained @ weight @ explained) / len(observed)
    total = likelihood + a @ np.linalg.inv(prior_precision) @ a.T
    surprise = off - a @ prior_mean
    log_evidence = -0.5 * float(surprise @ np.linalg.solve(total, surprise) + np.linalg.slogdet(total)[1])
    return _Posterior(mean, covariance, misfit, log_evidence)


def _fit_component(
    observation: Observation,
    grouping: Grouping,
    members: tuple[int, ...],
    assumed: dict[int, Choice],
    runs: int,
    draws: int,
    seed: int,
    begins: float,
    ends: float,
) -> Work[Fit]:
    """begins, ends: its part of the whole work."""
    if len(members) > CONNECTIONS_MOST:
        raise TooManyConnections(f"{len(members)} connections share bottlenecks: a fit runs {CONNECTIONS_MOST} at most")
    connections = tuple(observation.connections[c] for c in members)
    groups = [g for g in grouping if g[0][0] in members]
    of_group = [
        [(observation.connections[c].subflows[s], observation.connections[c].facts.kind) for c, s in g] for g in groups
    ]
    estimates = tuple(estimate(own) for own in of_group)
    number = {place: i for i, g in enumerate(groups) for place in g}
    bases = [base_rtts_s(own, e.bottleneck) for own, e in zip(of_group, estimates, strict=True)]
    without_queue_s = {
        place: base for g, own in zip(groups, bases, strict=True) for place, base in zip(g, own, strict=True)
    }

    def path(c: int, s: int) -> tuple[int, float]:
        """The number of its bottleneck, and the round trip without queue."""
        return number[c, s], without_queue_s[c, s] or 0.05

    layout = tuple(tuple(path(c, s) for s in range(len(observation.connections[c].subflows))) for c in members)
    applications = sources(observation, members)
    start = Network(tuple(e.bottleneck for e in estimates), layout, applications[0])
    seen = [[s.sees_queues for s in c.subflows] for c in connections]
    observed = _statistics([c.outcome() for c in connections], seen)
    errors = _model_errors(seen)
    prior = _prior(estimates)
    algorithms = tuple(
        assumed.get(c.id) or (Choice(name) if (name := recorded_algorithm(c)) else None) for c in connections
    )
    choices = {str(c.id): a or UNKNOWN_SENDER for c, a in zip(connections, algorithms, strict=True)}
    first_ns, duration_s = observation.first_ns, observation.duration_s
    random = np.random.default_rng(seed)
    mean, covariance = np.array([p.log for p in prior]), np.diag([p.sd**2 for p in prior])
    posterior = _Posterior(mean, covariance, np.inf, -np.inf)
    packets = max(sum(s.facts.packets for c in connections for s in c.subflows), 1)
    each = max(min(runs, WORK_PACKETS // packets) // ROUNDS, 4 * len(prior) + 8)
    for turn in range(ROUNDS):
        x = random.multivariate_normal(mean, covariance, each, method="cholesky")

        starts = [replace(start, sources=own) for own in applications]

        def simulated(i: int, x: Array = x, turn: int = turn, starts: list[Network] = starts) -> Array:
            """Statistics, then how long each connection took."""
            network = _network(starts[i % len(starts)], prior, x[i])
            made = run(connections, network, choices, seed + turn * each + i, first_ns, duration_s)
            lasted = [np.nan if o.completion_s is None else o.completion_s for o in made]
            return np.concatenate([_statistics(made, seen), lasted])

        done = [begins + (ends - begins) * part / ROUNDS for part in (turn, turn + 1)]
        rows = yield Batch(each, simulated, *done)
        y, lasted = rows[:, : len(observed)], rows[:, len(observed) :]
        applications = [stopped_in_time(connections, own, lasted) for own in applications]
        posterior = _regressed(x, y, observed, errors, prior)
        reach = _FAR * np.sqrt(np.diag(covariance))
        mean = np.clip(posterior.mean, mean - reach, mean + reach)
        covariance = posterior.covariance * _WIDENED**2
    drawn = random.multivariate_normal(posterior.mean, posterior.covariance, draws, method="cholesky")
    networks = tuple(
        _with_queues(
            _network(replace(start, sources=applications[i % len(applications)]), prior, row), estimates, random
        )
        for i, row in enumerate(drawn)
    )
    return Fit(
        connections=connections, ids={c: observation.connections[c].id for c in members}, algorithms=algorithms,
        grouping=tuple(groups), estimates=estimates,
        parameters=tuple(prior), networks=networks, posterior_log=drawn,
        misfit=posterior.misfit, log_evidence=posterior.log_evidence, runs=ROUNDS * each, first_ns=first_ns,
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
    report: Report = lambda done: None,
) -> list[Fit]:
    """Fits the paths of a connection and of all that share a bottleneck with it, under each hypothesis about sharing.

    connection: its id. assumed: the algorithm of connections, by id, where the capture does not name it. Returns the
    fits, the best one first.
    """
    return completed(fitting(observation, connection, assumed=assumed, runs=runs, draws=draws, seed=seed), report)


def fitting(
    observation: Observation,
    connection: int,
    *,
    assumed: dict[int, Choice] | None = None,
    runs: int = RUNS,
    draws: int = 48,
    seed: int = 1,
) -> Work[list[Fit]]:
    """As fit does, in batches."""
    place = next(i for i, c in enumerate(observation.connections) if c.id == connection)
    hypotheses = [components(grouping) for grouping in groupings(observation)]
    # Hypotheses are compared by what they say of the same connections.
    concerned = {c for parts in hypotheses for m in parts if place in m for c in m}
    parts_of = {
        grouping: [m for m in parts if concerned & set(m)]
        for grouping, parts in zip(groupings(observation), hypotheses, strict=True)
    }
    total = sum(len(parts) for parts in parts_of.values())
    made: dict[Any, Fit] = {}
    found: dict[Any, Fit] = {}
    for grouping, parts in parts_of.items():
        evidence, own = 0.0, None
        for members in parts:
            key = tuple(g for g in grouping if g[0][0] in members)
            if key not in made:
                part = [(len(made) + k) / total for k in (0, 1)]
                made[key] = yield from _fit_component(
                    observation, grouping, members, assumed or {}, runs, draws, seed, *part
                )
            evidence += made[key].log_evidence
            if place in members:
                own = key
        if own is not None:
            known = found.get(own)
            if known is None or known.log_evidence < evidence:
                found[own] = replace(made[own], log_evidence=evidence)
    return sorted(found.values(), key=lambda f: -f.log_evidence)
