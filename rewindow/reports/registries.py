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
        "`make docs` writes this page from the code (`rewindow algorithms --markdown`). Notation: I is the increase of "
        "a window for each acknowledged segment in congestion avoidance. D is its decrease at a loss or at the first "
        "ECN echo of a window. w is the window in segments, R the round-trip time, x = w/R; without an index they are "
        "the subflow's own, with an index those of subflow k. Unless an algorithm says otherwise it has NewReno's slow "
        "start (w += acked up to ssthresh), and halves its window at a timeout.",
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
        "A detector finds which subflows of a connection share a bottleneck, and puts these in one set (`rewindow "
        "detectors`, `rewindow sets`). An algorithm that couples sets has the option `detector`, which chooses one.",
    ]
    for d in detectors:
        parts += [f"## detector {d.name}", f"Source: {d.source}.", f"    {d.formula}"]
        parts += [f"Deviations from the print: {d.deviations}", _options_table(d.options)]
    parts += [
        "# Schedulers",
        "A scheduler decides which subflow sends next, and which data. j is the subflow that would send, r one with a "
        "shorter round trip. A subflow can send when it is established and not in loss state; backup subflows are used "
        "when no other subflow can send.",
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
