"""What-ifs and fits as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rewindow.reports.tables import si, table
from rewindow.whatif import Fit, Neighbour, Prediction, Spread
from rewindow.whatif.fitting import weights
from rewindow.whatif.flights import Flights
from rewindow.whatif.network import Unseen, receive_buffers
from rewindow.whatif.sources import WORDS

_SHOWN: dict[str, Callable[[float], str]] = {
    "goodput_bps": lambda v: si(v, "bit/s"),
    "completion_s": lambda v: f"{v:.2f} s",
    "retransmitted_packets": lambda v: f"{v:.0f}",
    "queueing_delay_ms": lambda v: f"{v:.1f} ms",
    "queueing_delay_p95_ms": lambda v: f"{v:.1f} ms",
}
_WORDS = {
    "goodput_bps": "goodput", "completion_s": "completion", "retransmitted_packets": "retransmitted",
    "queueing_delay_ms": "queueing, median", "queueing_delay_p95_ms": "queueing, p95",
}  # fmt: skip


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _spread(s: Spread) -> dict[str, float | None]:
    return {name: _number(value) for name, value in asdict(s).items()}


def _spreads(spreads: dict[str, Spread]) -> dict[str, Any]:
    return {name: _spread(s) for name, s in spreads.items()}


def _numbers(values: dict[str, float | None]) -> dict[str, float | None]:
    return {name: _number(value) for name, value in values.items()}


def _calibration(found: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            told[name] = {"recorded": _number(value["recorded"]), "simulated": _spread(value["simulated"])}
        else:
            told[name] = _number(value)
    return told


def _flights(f: Flights) -> dict[str, list[float]]:
    """A fraction of a byte tells nothing."""
    rounded = {name: [float(round(v)) for v in values] for name, values in asdict(f).items() if name != "times_s"}
    return {"times_s": [float(f"{t:.6g}") for t in f.times_s], **rounded}


def _neighbour(n: Neighbour) -> dict[str, Any]:
    return {
        "id": n.id, "kind": n.kind, "algorithm": n.algorithm, "recorded": _numbers(n.recorded),
        "predicted": _spreads(n.predicted), "change": _spreads(n.change),
        "harm": None if n.harm is None else _spreads(vars(n.harm)),
    }  # fmt: skip


def prediction(p: Prediction) -> dict[str, Any]:
    """One element of `connections` in the JSON document of `rewindow whatif`."""
    return {
        "id": p.connection, "kind": p.kind, "recorded_algorithm": p.recorded_algorithm, "algorithm": p.algorithm,
        "verdict": p.verdict, "reason": p.reason, "calibration": _calibration(p.calibration),
        "recorded": _numbers(p.recorded), "predicted": _spreads(p.predicted), "change": _spreads(p.change),
        "better": _number(p.better), "subflow_shares": [_spread(s) for s in p.subflows],
        "jain": None if p.jain is None else _spread(p.jain), "neighbours": [_neighbour(n) for n in p.neighbours],
        "runs": p.runs, "source": list(p.source), "unseen": _number(p.unseen),
        "flights": None if p.flights is None else _flights(p.flights),
    }  # fmt: skip


def document(predictions: Sequence[Prediction]) -> dict[str, Any]:
    return {"format": 1, "connections": [prediction(p) for p in predictions]}


def text(predictions: Sequence[Prediction]) -> str:
    """A table for each connection, with a column for each algorithm."""
    parts = []
    for number in dict.fromkeys(p.connection for p in predictions):
        own = [p for p in predictions if p.connection == number]
        first, able = own[0], [p for p in own if p.verdict == "ok"]
        ran = first.recorded_algorithm or "an algorithm that is not known"
        lines = [f"connection {number} ({first.kind}), which ran {ran}"]
        if able:
            rows = [["", "recorded", *(p.algorithm for p in able)]]
            for name, word in _WORDS.items():
                cells = [_SHOWN[name](s) if (s := first.recorded[name]) is not None else "-"]
                cells += [_interval(p.predicted.get(name), name) for p in able]
                rows.append([word, *cells])
            rows.append(["more goodput with probability", "", *(f"{p.better:.0%}" for p in able)])
            rows.append(["calibration: goodput", "", *(_off(p) for p in able)])
            lines.append(table(rows))
            lines.append(f"application: {', or '.join(WORDS[kind] for kind in able[0].source)}")
            if able[0].unseen is not None:
                lines.append(
                    "traffic that is not in the capture shares its bottleneck; in "
                    f"{able[0].unseen:.0%} of the runs it yields as TCP does"
                )
            lines += [line for p in able for n in p.neighbours for line in _beside(p, n)]
        lines += [f"{p.algorithm}: cannot say: {p.reason}" for p in own if p.verdict != "ok"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _interval(s: Spread | None, name: str) -> str:
    if s is None:
        return "-"
    return _three(s, _SHOWN[name])


def _three(s: Spread, shown: Callable[[float], str]) -> str:
    return f"{shown(s.median)} [{shown(s.low)}, {shown(s.high)}]"


def _off(p: Prediction) -> str:
    """By how much the recorded algorithm differs in simulations from what was recorded."""
    found = p.calibration["goodput_bps"]
    return f"{found['simulated'].median / found['recorded'] - 1:+.0%}"


def _beside(p: Prediction, n: Neighbour) -> list[str]:
    """What comes of a neighbour."""
    told = []
    goodput = n.change.get("goodput_bps")
    if goodput is not None:
        told.append(f"connection {n.id} ({n.kind}) changes its goodput by {_three(goodput, _signed_share)}")
    if n.harm is not None:
        told.append(
            f"harm to connection {n.id}: {_three(n.harm.predicted, _share)} of its goodput without connection"
            f" {p.connection}, {_three(n.harm.recorded, _share)} with the recorded algorithm;"
            f" difference in points {_three(n.harm.change, lambda v: f'{100 * v:+.0f}')}"
        )
    return [f"{p.algorithm}: {line}" for line in told]


def _share(value: float) -> str:
    return f"{value:.0%}"


def _signed_share(value: float) -> str:
    return f"{value:+.0%}"


def fit_document(fits: Sequence[Sequence[Fit] | str], connections: Sequence[int]) -> dict[str, Any]:
    """Of each connection: the hypotheses about its bottlenecks, the best one first, or why there is none."""
    return {
        "format": 1,
        "connections": [
            {"id": number, "verdict": "cannot_say", "reason": found, "hypotheses": []}
            if isinstance(found, str)
            else {"id": number, "verdict": "ok", "reason": None, "hypotheses": _hypotheses(found)}
            for number, found in zip(connections, fits, strict=True)
        ],
    }


def _hypotheses(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """weight: the part of an answer's runs that are on its networks."""
    return [_fit(f) | {"weight": _number(weight)} for f, weight in zip(fits, weights(fits), strict=True)]


def _fit(f: Fit) -> dict[str, Any]:
    bottlenecks: list[dict[str, Any]] = [
        {
            "subflows": [
                {"connection": _id(f, c), "subflow": s} for c, s in group
            ],
            "saturated": e.busy, "queue_seen_full": e.full,
            "rate_bps": None, "queue_packets": None, "ecn_packets": None, "loss": None, "jitter_s": None,
        }
        for group, e in zip(f.grouping, f.estimates, strict=True)
    ]  # fmt: skip
    for place, parameter in enumerate(f.parameters):
        if parameter.bottleneck is not None:
            bottlenecks[parameter.bottleneck][parameter.name] = _spread(Spread.of(np.exp(f.posterior_log[:, place])))
    for bottleneck, fitted in zip(bottlenecks, f.networks[0].bottlenecks, strict=True):
        middle = (bottleneck["rate_bps"] or {"median": fitted.rate_bps})["median"]
        bottleneck["rate_over_time"] = [
            {"from_s": _number(at_s), "rate_bps": _number(middle * factor)} for at_s, factor in fitted.factors
        ]
        bottleneck["unseen"] = None if fitted.unseen is None else _unseen(fitted.unseen, bottleneck)
    return {
        "connections": [c.id for c in f.connections],
        "algorithms": [a.label if a else None for a in f.algorithms],
        "bottlenecks": bottlenecks,
        "sources": [_source(f, i) for i in range(len(f.connections))],
        "send_buffers_bytes": [
            round(size) if seen else None
            for size, seen in zip(f.networks[0].send_buffers_bytes, f.seen_full, strict=True)
        ],
        "receive_buffers_bytes": [receive_buffers(c)[1] for c in f.connections],
        "misfit": _number(f.misfit), "log_evidence": _number(f.log_evidence), "runs": f.runs,
    }  # fmt: skip


def _unseen(unseen: Unseen, bottleneck: dict[str, Any]) -> dict[str, Any]:
    """Traffic that is not in the capture: of a connection (elastic) the round trip, of others the rate.

    bottleneck: what was fitted, of which its own parameters are taken away. until_s None: it stays.
    """
    return {
        "elastic": unseen.algorithm is not None, "algorithm": unseen.algorithm,
        "rtt_s": bottleneck.pop("unseen_rtt_s", None), "rate_bps": bottleneck.pop("unseen_rate_bps", None),
        "periods": [
            {"from_s": _number(max(begin_s, 0.0)), "until_s": None if np.isinf(end_s) else _number(end_s)}
            for begin_s, end_s in unseen.periods_s
        ],
    }  # fmt: skip


def _source(f: Fit, place: int) -> dict[str, Any]:
    found = [n.sources[place] for n in f.networks]
    kinds = list(dict.fromkeys(s.kind for s in found))
    return {
        "kinds": kinds, "bytes": found[0].bytes, "stop_s": _number(found[0].stop_s), "writes": len(found[0].writes)
    }  # fmt: skip


def _id(f: Fit, place: int) -> int:
    return f.ids[place]


def fit_text(fits: Sequence[Sequence[Fit] | str], connections: Sequence[int]) -> str:
    parts, told = [], set()
    for number, found in zip(connections, fits, strict=True):
        if isinstance(found, str):
            parts.append(f"connection {number}: cannot say: {found}")
            continue
        if id(found) in told:
            continue
        told.add(id(found))
        for place, (f, weight) in enumerate(zip(found, weights(found), strict=True)):
            rows = [["bottleneck of", "rate", "queue", "marks from", "random loss", "jitter"]]
            fitted = _fit(f)
            bottlenecks = fitted["bottlenecks"]
            for b in bottlenecks:
                rows.append([
                    _members(b),
                    _of(b["rate_bps"], lambda v: si(v, "bit/s")) + ("" if b["saturated"] else " (never saturated)"),
                    _of(b["queue_packets"], lambda v: f"{v:.0f} packets") if b["queue_seen_full"] else "never filled",
                    _of(b["ecn_packets"], lambda v: f"{v:.0f} packets"),
                    _of(b["loss"], lambda v: f"{v:.2%}"),
                    _of(b["jitter_s"], lambda v: f"{v * 1e3:.2g} ms"),
                ])  # fmt: skip
            about = "" if place == 0 else "another hypothesis, "
            head = f"{about}misfit {f.misfit:.2f} (1 is expected), {f.runs} runs"
            head += "" if weight == 1 else f", {weight:.0%} of an answer"
            parts.append(
                "\n".join([head, table(rows), *_changes(bottlenecks), *_unseen_lines(bottlenecks), *_buffers(fitted)])
            )
    return "\n\n".join(parts)


def _changes(bottlenecks: list[dict[str, Any]]) -> list[str]:
    """A line for each whose rate is not constant."""
    return [
        f"rate of {_members(b)}: "
        + ", ".join(f"{si(r['rate_bps'], 'bit/s')} from {r['from_s']:.1f} s" for r in b["rate_over_time"])
        for b in bottlenecks
        if b["rate_over_time"]
    ]


def _buffers(fitted: dict[str, Any]) -> list[str]:
    """A line for each connection whose send buffer was seen full."""
    sizes = zip(fitted["connections"], fitted["send_buffers_bytes"], strict=True)
    return [f"send buffer of {number}: {si(size, 'B')}" for number, size in sizes if size is not None]


def _unseen_lines(bottlenecks: list[dict[str, Any]]) -> list[str]:
    """A line for each with traffic that is not in the capture."""
    found = []
    for b in bottlenecks:
        if b["unseen"]:
            kind = f"a connection ({b['unseen']['algorithm']}) with a round trip of " + _of(
                b["unseen"]["rtt_s"], lambda v: f"{v * 1e3:.0f} ms"
            )
            if not b["unseen"]["elastic"]:
                kind = "traffic that does not yield, of " + _of(b["unseen"]["rate_bps"], lambda v: si(v, "bit/s"))
            times = ", ".join(
                f"from {p['from_s']:.1f} s" + ("" if p["until_s"] is None else f" to {p['until_s']:.1f} s")
                for p in b["unseen"]["periods"]
            )
            found.append(f"beside {_members(b)}, not in the capture: {kind}, {times}")
    return found


def _members(bottleneck: dict[str, Any]) -> str:
    return ", ".join(f"{m['connection']}.{m['subflow']}" for m in bottleneck["subflows"])


def _of(spread: dict[str, float] | None, shown: Any) -> str:
    if spread is None:
        return "-"
    return f"{shown(spread['median'])} [{shown(spread['low'])}, {shown(spread['high'])}]"
