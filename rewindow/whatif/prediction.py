"""What would have come of a connection under another algorithm, on the networks that a fit left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice
from rewindow.errors import BadOption
from rewindow.whatif import errors, flights
from rewindow.whatif.batches import Report, Work, completed
from rewindow.whatif.errors import HIGH, LOW, METRICS
from rewindow.whatif.fitting import Fit, may_be_any, runs_of, weights
from rewindow.whatif.flights import Flights
from rewindow.whatif.network import MTU_MIN_BYTES, Network, mtu_bytes
from rewindow.whatif.observation import ObservedConnection, ObservedSubflow
from rewindow.whatif.send_buffers import held_back_at
from rewindow.whatif.sources import KINDS, taken_as, written
from rewindow.whatif.worlds import Absence, Kept, Ran, Worlds, simulated_absence, simulated_worlds

Array = npt.NDArray[Any]

_OFF_SD, _OFF_LEAST = 4.0, 0.35
"""Calibration is off where the recorded goodput lies so many standard deviations, and so much in its logarithm, from
what the recorded algorithm has in the fitted network."""
_WIDE = 3.0
"""The width of an interval of log goodput that says nothing: its ends are 20 times apart."""
_MISFIT_MOST = 20.0
"""Beyond it nothing is said."""
_ABSENCE_SHARE = 1 / 3
"""Of an answer, for progress, where the world without the connection is simulated, too: one of three."""
_PACKETS_MIN = 30
_LIMITED_MOST = 0.7
"""Of a connection's ACKs: beyond it a send buffer decided, of a size that is not known. Linux's default, which the
simulated senders have, makes up for less: they write in the same portions."""


@dataclass(frozen=True)
class Spread:
    """Median and 90 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Spread:
        low, median, high = np.percentile(values, (LOW, 50, HIGH))
        return cls(float(median), float(low), float(high))


@dataclass(frozen=True)
class Simulated:
    """Logarithms of a metric in each run on the fitted network: with the recorded algorithm, and with the other one."""

    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True)
class Harm:
    """What a connection does to one beside it, of which x is the goodput without it, and y the goodput beside it:
    (x - y) / x (Ware et al., HotNets 2019). Below 0: the other one gains by it.

    predicted: where it runs the algorithm that is asked about; recorded: where it runs its recorded algorithm, in
    simulations, too. change: of each run, predicted less recorded.
    """

    goodput_without_bps: Spread
    """x, on the network of the changed world."""
    recorded: Spread
    predicted: Spread
    change: Spread


@dataclass(frozen=True)
class Neighbour:
    """A connection beside the one that changes. harm None: it cannot be said."""

    id: int
    kind: str
    algorithm: str | None
    recorded: dict[str, float | None]
    predicted: dict[str, Spread]
    change: dict[str, Spread]
    harm: Harm | None


@dataclass(frozen=True)
class Prediction:
    """verdict: ok or cannot_say, with the reason. predicted: of single runs in the world where this connection runs
    `algorithm`. change: the same less what the recorded algorithm has on the same networks with the same seeds; for
    goodput, completion and delays as a ratio less 1. better: the probability of a higher goodput.

    calibration: for each metric what was recorded, and its spread in simulations of the recorded algorithm. simulated:
    what `predicted` is made of, by metric.
    """

    connection: int
    kind: str
    recorded_algorithm: str | None
    algorithm: str
    verdict: str
    reason: str | None
    recorded: dict[str, float | None]
    calibration: dict[str, Any] = field(default_factory=dict)
    predicted: dict[str, Spread] = field(default_factory=dict)
    change: dict[str, Spread] = field(default_factory=dict)
    simulated: dict[str, Simulated] = field(default_factory=dict)
    better: float | None = None
    subflows: tuple[Spread, ...] = ()
    """Bytes of each subflow over the connection's."""
    jain: Spread | None = None
    neighbours: tuple[Neighbour, ...] = ()
    runs: int = 0
    source: tuple[str, ...] = ()
    """What its application was taken to write: one of rewindow.whatif.sources.KINDS, or two where both may be."""
    unseen: float | None = None
    """Of the runs, in how many traffic that is not in the capture yields as TCP does; None: none was seen."""
    flights: Flights | None = None


def refused(connection: ObservedConnection, algorithm: Choice, reason: str, recorded: str | None) -> Prediction:
    return Prediction(
        connection.id, connection.facts.kind, recorded, algorithm.label, "cannot_say", reason,
        connection.outcome().metrics(),
    )  # fmt: skip


def _limited(subflow: ObservedSubflow) -> Array:
    """At which ACKs something else than the path held the sender back, without the last ones: all data was sent."""
    limited = subflow.series.limited
    free = np.flatnonzero(~limited)
    return limited[: free[-1] + 1] if len(free) else limited


def _tells_limit(connection: ObservedConnection, first_ns: int) -> bool:
    """Whether the capture shows what else held the sender back: pauses of its application, or its send buffer."""
    application = written(connection, first_ns)
    return bool(application and application.decides) or held_back_at(connection, first_ns) is not None


def cannot_be_fitted(connection: ObservedConnection, first_ns: int) -> str | None:
    """Why nothing can be said of this connection, whatever the network; None: a fit may tell."""
    facts = connection.facts
    if facts.verdict == "poor":
        return f"the capture of this connection is poor: {', '.join(facts.quality)}"
    if any("one_direction" in s.facts.quality for s in connection.subflows):
        return "only one direction was captured"
    if sum(s.facts.packets for s in connection.subflows) < _PACKETS_MIN or facts.goodput_bps is None:
        return f"fewer than {_PACKETS_MIN} packets of data: nothing to fit a path to"
    largest = max(mtu_bytes(s, connection.facts.kind) for s in connection.subflows)
    if largest < MTU_MIN_BYTES:
        return f"its packets have {largest} bytes at most: only paths for {MTU_MIN_BYTES} bytes and more are simulated"
    limited = np.concatenate([_limited(s) for s in connection.subflows])
    if len(limited) and limited.mean() > _LIMITED_MOST and not _tells_limit(connection, first_ns):
        return (
            f"the sender was held back at {limited.mean():.0%} of the ACKs, and not by its application's pauses: "
            "its send buffer is not known"
        )
    if all(s.shortest_rtt_s is None for s in connection.subflows):
        return "no round trip is known"
    return None


@dataclass(frozen=True)
class _Metrics:
    """Of a connection, by metric."""

    calibration: dict[str, Any]
    simulated: dict[str, Simulated]
    predicted: dict[str, Spread]
    change: dict[str, Spread]


def _metrics(recorded: Mapping[str, float | None], base: Ran, other: Ran) -> _Metrics:
    """Metrics that half of the simulated runs have."""
    simulated: dict[str, Simulated] = {}
    calibration: dict[str, Any] = {}
    change: dict[str, Spread] = {}
    for name in METRICS:
        before, after = base.logs(name), other.logs(name)
        known = ~np.isnan(before) & ~np.isnan(after)
        if np.count_nonzero(known) < len(known) / 2:
            continue
        before, after = before[known], after[known]
        simulated[name] = Simulated(tuple(before.tolist()), tuple(after.tolist()))
        value = recorded[name]
        if value is not None:
            calibration[name] = {
                "recorded": value,
                "simulated": Spread.of(errors.level(name, before)),
                "off": errors.log(name, value) - float(np.median(before)),
                "sd": float(np.std(before)),
            }
        if name == "retransmitted_packets":
            change[name] = Spread.of(errors.level(name, after) - errors.level(name, before))
        else:
            change[name] = Spread.of(np.expm1(after - before))
    said = errors.predicted(recorded, {name: (s.before, s.after) for name, s in simulated.items()})
    return _Metrics(calibration, simulated, {name: Spread(*spread) for name, spread in said.items()}, change)


def _jain(world: Sequence[Ran]) -> Spread | None:
    """Of all connections' goodput, in each run."""
    goodput = np.stack([ran.goodput_bps for ran in world], axis=1)
    if goodput.shape[1] < 2:
        return None
    squares = (goodput**2).sum(axis=1) * goodput.shape[1]
    return Spread.of(goodput.sum(axis=1) ** 2 / np.maximum(squares, 1e-9))


def _is_off(goodput: Mapping[str, Any]) -> bool:
    """goodput: its calibration."""
    sd = float(np.hypot(goodput["sd"], errors.stored()["goodput_bps"].fixed))
    return bool(abs(goodput["off"]) > max(_OFF_SD * sd, _OFF_LEAST))


def _unclear(fit: Fit, calibration: Mapping[str, Any], predicted: Mapping[str, Spread]) -> str | None:
    """Why the prediction is not to be believed; None: it may be."""
    goodput = calibration.get("goodput_bps")
    if goodput is None or "goodput_bps" not in predicted:
        return "the connection did not end in simulations of it"
    if _is_off(goodput):
        simulated = goodput["simulated"].median
        return (
            f"calibration is off: the recorded algorithm has {simulated / 1e6:.2f} Mbit/s in the fitted network, "
            f"and {goodput['recorded'] / 1e6:.2f} Mbit/s were recorded"
        )
    if fit.misfit > _MISFIT_MOST:
        return f"calibration is off: no network explains the capture (misfit {fit.misfit:.0f}, where 1 is expected)"
    spread = predicted["goodput_bps"]
    if spread.low <= 0 or np.log(spread.high / spread.low) > _WIDE:
        if any(e.rate_sd is None for e in fit.estimates):
            return "the path was never saturated: its rate is not in the capture, and the answer depends on it"
        return "the capture does not tell enough about the path: the interval would be too wide"
    return None


def _harmed(without: Ran, beside: Ran) -> Array:
    """Harm in each run; NaN where it has no goodput without the other one. Without goodput beside it, all is lost."""
    alone = without.metrics["goodput_bps"]
    return 1 - beside.goodput_bps / np.where(alone > 0, alone, np.nan)


def harm_of(recorded: tuple[Ran, Ran], changed: tuple[Ran, Ran]) -> Harm | None:
    """Of one neighbour, where half of the runs have it. recorded, changed: runs without and beside the other one."""
    before, after = _harmed(*recorded), _harmed(*changed)
    known = ~np.isnan(before) & ~np.isnan(after)
    if np.count_nonzero(known) < len(known) / 2:
        return None
    return Harm(
        Spread.of(changed[0].goodput_bps[known]), Spread.of(before[known]), Spread.of(after[known]),
        Spread.of((after - before)[known]),
    )  # fmt: skip


def _neighbours(best: Fit, place: int, worlds: Worlds, absence: Absence | None) -> list[Neighbour]:
    """absence None: harm is not asked for."""
    found: list[Neighbour] = []
    for i, c in enumerate(best.connections):
        if i == place:
            continue
        recorded, known = c.outcome().metrics(), best.algorithms[i]
        own = _metrics(recorded, worlds.recorded[i], worlds.changed[i])
        goodput = own.calibration.get("goodput_bps")
        is_known = known is not None or may_be_any(c)
        harm = None
        if absence is not None and is_known and goodput is not None and not _is_off(goodput):
            without = absence.recorded[len(found)], absence.changed[len(found)]
            harm = harm_of((without[0], worlds.recorded[i]), (without[1], worlds.changed[i]))
        found.append(
            Neighbour(c.id, c.facts.kind, known.label if known else None, recorded, own.predicted, own.change, harm)
        )
    return found


def _yielding(fits: Sequence[Fit]) -> float | None:
    """Of the answer's runs, in how many unseen traffic yields."""
    kinds = [[e.bottleneck.unseen for e in f.estimates if e.bottleneck.unseen is not None] for f in fits]
    if not any(kinds):
        return None
    shares = zip(kinds, weights(fits), strict=True)
    return sum(weight for own, weight in shares if any(u.algorithm is not None for u in own))


def predict(
    fits: Sequence[Fit],
    connection: int,
    algorithm: Choice,
    *,
    everyone: bool = False,
    runs: int = 48,
    settings: Mapping[str, str] | None = None,
    seed: int = 1,
    report: Report = lambda done: None,
) -> Prediction:
    """The world in which this connection, by its id, runs `algorithm`; everyone: all connections of the fit do.

    settings: changes of the network, see SETTINGS. Raises BadOption for a setting that there is not.
    """
    work = predicting(fits, connection, algorithm, everyone=everyone, runs=runs, settings=settings, seed=seed)
    return completed(work, report)


def predicting(
    fits: Sequence[Fit],
    connection: int,
    algorithm: Choice,
    *,
    everyone: bool = False,
    runs: int = 48,
    settings: Mapping[str, str] | None = None,
    seed: int = 1,
    kept: Kept | None = None,
) -> Work[Prediction]:
    """As predict does, in batches. kept: rows that other questions about these fits have left, to which it adds.

    Each fit has its part of the runs of this connection. What comes of others is told by the best fit alone: they may
    not be in the other ones.
    """
    kept = {} if kept is None else kept
    best = fits[0]
    place = best.place(connection)
    observed = best.connections[place]
    known = best.algorithms[place]
    name = known.label if known else None
    reason = cannot_be_fitted(observed, best.first_ns)
    if reason:
        return refused(observed, algorithm, reason, name)
    if known is None and not may_be_any(observed):
        return refused(observed, algorithm, "the algorithm that it ran is not known", None)
    wanted = read_settings(settings or {}, len(observed.subflows))
    source = (settings or {}).get("source")
    if source is not None:
        named = taken_as(source, observed, best.first_ns)
        if named is None:
            return refused(observed, algorithm, f"source={source}: no pauses of its application were seen", name)
        fits = [f.with_source(connection, named) for f in fits]
        best = fits[0]
    tells_harm = len(best.connections) > 1 and not everyone
    share = 1 - _ABSENCE_SHARE if tells_harm else 1.0

    parts: list[tuple[int, Worlds]] = []
    done = 0.0
    for f, own_runs in zip(fits, runs_of(fits, runs), strict=True):
        if not own_runs:
            continue
        at = f.place(connection)
        changes = {c.id: algorithm for c in f.connections if everyone or c.id == connection}
        change = partial(changed, connection=at, settings=wanted)
        ends = done + share * (own_runs / runs)
        parts.append((at, (yield from simulated_worlds(f, at, changes, own_runs, change, seed, kept, done, ends))))
        done = ends
    worlds = parts[0][1]
    recorded = observed.outcome().metrics()
    base = Ran.of_all([w.recorded[at] for at, w in parts])
    other = Ran.of_all([w.changed[at] for at, w in parts])
    own = _metrics(recorded, base, other)
    calibration = own.calibration | {"misfit": best.misfit}
    reason = _unclear(best, calibration, own.predicted)
    if reason:
        return replace(refused(observed, algorithm, reason, name), calibration=calibration)
    absence = None
    if tells_harm:
        change = partial(changed, connection=place, settings=wanted)
        absence = yield from simulated_absence(best, place, len(worlds.flights), change, seed, kept, share)
    shares = other.bytes / np.maximum(other.bytes.sum(axis=1, keepdims=True), 1)
    better = other.goodput_bps > base.goodput_bps
    return Prediction(
        connection=connection, kind=observed.facts.kind, recorded_algorithm=name, algorithm=algorithm.label,
        verdict="ok", reason=None, recorded=recorded, calibration=calibration, predicted=own.predicted,
        change=own.change, simulated=own.simulated, better=float(better.mean()),
        subflows=tuple(Spread.of(column) for column in shares.T), jain=_jain(worlds.changed),
        neighbours=tuple(_neighbours(best, place, worlds, absence)), runs=runs,
        unseen=_yielding(fits),
        source=tuple(dict.fromkeys(n.sources[f.place(connection)].kind for f in fits for n in f.networks)),
        flights=flights.over_time(observed, best.first_ns, np.concatenate([w.flights for _, w in parts])),
    )  # fmt: skip


_BOTTLENECK = {"rate": "rate_bps", "queue": "queue_packets", "ecn": "ecn_packets", "loss": "loss", "jitter": "jitter_s"}
_MAY_BE_0 = ("loss", "jitter")
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "%": 1e-2, "ms": 1e-3}
SETTINGS = (*(f"pathN.{what}" for what in (*_BOTTLENECK, "rtt")), "send_buffer", "source")
"""rate in bit/s (k, M, G), queue and ecn in packets, loss as a share (or %), rtt and jitter in seconds (or ms),
send_buffer in bytes. pathN: of the connection's N-th subflow, from 1 on. All but rtt belong to the bottleneck, and hold
for those beside it, too. source: one of rewindow.whatif.sources.KINDS, in both worlds, in place of what the capture
suggests."""


def _number(key: str, text: str) -> float:
    suffix = next((s for s in _SCALES if text.endswith(s)), "")
    try:
        value = float(text.removesuffix(suffix)) * _SCALES.get(suffix, 1.0)
    except ValueError:
        raise BadOption(f"{key}={text}: not a number") from None
    what = key.rpartition(".")[2]
    most = {"loss": 0.9, "jitter": 1.0}.get(what, 1e12)
    if not 0 <= value <= most or (value == 0 and what not in _MAY_BE_0):
        raise BadOption(f"{key}={text}: out of range")
    return value


def read_settings(settings: Mapping[str, str], subflows: int) -> list[tuple[int | None, str, float]]:
    """Settings of the network such as `path2.rate=20M`, as (place of the subflow, what, value). Raises BadOption.

    subflows: how many the connection has.
    """
    found: list[tuple[int | None, str, float]] = []
    for key, text in settings.items():
        path, _, what = key.partition(".")
        if key == "source":
            if text not in KINDS:
                raise BadOption(f"source={text}: it is one of {', '.join(KINDS)}")
            continue
        if key == "send_buffer":
            found.append((None, key, _number(key, text)))
            continue
        number = int(path[4:]) if path.startswith("path") and path[4:].isdecimal() and len(path) < 10 else 0
        if not 1 <= number <= subflows or what not in (*_BOTTLENECK, "rtt"):
            raise BadOption(f"{key}: no such setting; known are {', '.join(SETTINGS)}, with N from 1 to {subflows}")
        found.append((number - 1, what, _number(key, text)))
    return found


def changed(network: Network, connection: int, settings: Sequence[tuple[int | None, str, float]]) -> Network:
    """The network with what read_settings returned. connection: its place in the fit."""
    for subflow, what, value in settings:
        if subflow is None:
            network = network.with_send_buffer(connection, value)
        elif what == "rtt":
            members = [list(own) for own in network.members]
            members[connection][subflow] = (members[connection][subflow][0], value)
            network = replace(network, members=tuple(tuple(own) for own in members))
        else:
            place = network.members[connection][subflow][0]
            network = network.with_values(place, {_BOTTLENECK[what]: value})
            if what == "rate":
                network = network.with_constant_rate(place)
    return network
