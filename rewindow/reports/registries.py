"""The registries of controllers, detectors and schedulers: as text, and as the page docs/algorithms.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rewindow.controllers.registry import Algorithm, Option
from rewindow.controllers.scheduler import SchedulerInfo


def algorithms_markdown(
    algorithms: Sequence[Algorithm], detectors: Sequence[Algorithm], schedulers: Sequence[SchedulerInfo]
) -> str:
    """The page docs/algorithms.md. Options that all algorithms have are described once, at its beginning."""
    shared = [o for o in algorithms[0].options if all(o in a.options for a in algorithms)]
    parts = [
        "# Algorithms",
        "Written by `make docs` from the code (`rewindow algorithms --markdown`). I: what a window grows by for "
        "each segment acknowledged, in congestion avoidance. D: what a loss or the first ECN echo of a window "
        "takes from it. w: window in segments, R: round-trip time, x = w/R, of the subflow itself or, with an "
        "index, of subflow k. Every algorithm that names nothing else has NewReno's slow start (w += acked up to "
        "ssthresh), and halves at a timeout.",
        "Options of every algorithm:",
        _options_table(shared),
    ]
    for a in algorithms:
        kind = "single path" if a.kind == "single" else "multipath"
        parts += [f"## {a.name}", f"{kind[0].upper()}{kind[1:]}. Source: {a.source}.", f"    {a.formula}"]
        parts.append(f"Deviations from the print: {a.deviations}")
        own = [o for o in a.options if o not in shared]
        parts.append(_options_table(own))
    parts += [
        "# Detectors of shared bottlenecks",
        "What places the subflows of a connection in sets (`rewindow detectors`, `rewindow sets`); the option "
        "`detector` of an algorithm that couples sets chooses one.",
    ]
    for d in detectors:
        parts += [f"## detector {d.name}", f"Source: {d.source}.", f"    {d.formula}"]
        parts += [f"Deviations from the print: {d.deviations}", _options_table(d.options)]
    parts += [
        "# Schedulers",
        "Which subflow sends next, and which data. j: the subflow that is to send; r: one with a shorter round trip. A "
        "subflow can send when it is established and not in loss state; backups are used when no other can.",
    ]
    for s in schedulers:
        parts += [f"## {s.name}", f"Source: {s.source}.", f"    {s.rule}", f"Deviations from the print: {s.deviations}"]
        parts.append(_options_table(s.options))
    return "\n\n".join(parts)


def _options_table(options: Sequence[Option]) -> str:
    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    lines = ["| option | default | values | reason |", "| --- | --- | --- | --- |"]
    lines += [f"| `{o.name}` | {o.default} | {cell(o.values)} | {cell(o.reason)} |" for o in options]
    return "\n".join(lines)


def algorithms_text(algorithms: Sequence[Algorithm]) -> str:
    kinds = {"single": "single path"}
    return _entries(
        (f"{a.name} ({kinds.get(a.kind, a.kind)})", a.formula, a.source, a.deviations, a.options) for a in algorithms
    )


def schedulers_text(schedulers: Sequence[SchedulerInfo]) -> str:
    return _entries((s.name, s.rule, s.source, s.deviations, s.options) for s in schedulers)


def _entries(entries: Iterable[tuple[str, str, str, str, Sequence[Option]]]) -> str:
    parts = []
    for title, rule, source, deviations, options in entries:
        lines = [title, f"  {rule}", f"  source: {source}", f"  deviations: {deviations}"]
        lines += [f"  {o.name}={o.default}  [{o.values}]  {o.reason}" for o in options]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
