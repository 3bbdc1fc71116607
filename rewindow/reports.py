"""Reports: the JSON of `analyze` and its tables."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rewindow.algorithms import Algorithm, Option
from rewindow.connections import Connection
from rewindow.fairness import FairnessGroup, FairnessTally
from rewindow.quality import Quality
from rewindow.replays import Summary, Violation
from rewindow.schedulers import SchedulerInfo
from rewindow.windows import Window


def _connection(connection: Connection) -> dict[str, Any]:
    """As dataclasses.asdict, which copies every value deeply: too slow for a million connections."""
    subflows = [{**vars(s), "sender_algorithm": vars(s.sender_algorithm)} for s in connection.subflows]
    return {**vars(connection), "subflows": subflows}


def write_analysis(
    out: TextIO,
    summary: Summary,
    connections: Iterable[Connection],
    tally: FairnessTally,
    windows: Iterable[Window],
    violations: Iterable[Violation],
) -> None:
    """What `rewindow analyze --json` prints, one connection after the other: a capture may have a million."""
    out.write(f'{{"capture": {json.dumps(asdict(summary))}, "connections": [')
    for number, connection in enumerate(connections):
        tally.add(connection)
        out.write((", " if number else "") + json.dumps(_connection(connection)))
    out.write(f'], "fairness": {json.dumps([asdict(g) for g in tally.groups()])}')
    out.write(f', "bottlenecks": {json.dumps(tally.bottlenecks())}, "windows": [')
    for number, window in enumerate(windows):
        out.write((", " if number else "") + json.dumps(vars(window)))
    out.write('], "violations": [')
    for number, violation in enumerate(violations):
        out.write((", " if number else "") + json.dumps(violation.as_json()))
    out.write("]}\n")


def _si(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.2f} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def _ms(us: int | None) -> str:
    return "-" if us is None else f"{us / 1000:.1f}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Aligned columns; the first row is the heading."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines)


def quality_text(quality: Quality) -> str:
    """The verdict, and a line for each finding."""
    lines = [f"quality: {quality.verdict}"]
    for f in quality.findings:
        since = "" if f.since_s is None else f", from {f.since_s:.3f} s"
        place = "" if f.packet is None else f" (packet {f.packet})"
        wrong = f"; unreliable: {', '.join(f.unreliable)}" if f.unreliable else ""
        lines.append(f"  {f.what} x {f.count}{since}{place}: {f.meaning}{wrong}")
    return "\n".join(lines)


def analysis_text(summary: Summary, connections: Iterable[Connection], tally: FairnessTally) -> str:
    """Of the first connections, as many as a reader can look at."""
    seen_from = "vantage point unknown" if summary.vantage == "unknown" else f"seen from the {summary.vantage}"
    parts = [
        f"{summary.packets} packets, {_si(summary.bytes, 'B')}, {summary.duration_s:.2f} s, "
        f"{', '.join(summary.link_types)}; {seen_from}"
    ]
    if summary.decoded_by:
        parts.append("\n".join(f"{link_type} decoded by {tool}" for link_type, tool in summary.decoded_by.items()))
    parts.append(quality_text(summary.quality))
    rows, left_out = [list(_HEADING)], 0
    for c in connections:
        tally.add(c)
        if len(rows) < TEXT_ROWS_MAX:
            rows += _connection_rows(c)
        else:
            left_out += 1
    parts.append(table(rows, right=(0, 2, 5, 6, 7, 8, 9)) if len(rows) > 1 else "no TCP in it")
    if left_out:
        parts.append(f"and {left_out} connections more: --json has all of them")
    if fairness := tally.groups():
        parts.append(_fairness_text(fairness))
    if unknown := _unknown_bottlenecks(tally):
        parts.append(unknown)
    return "\n\n".join(parts)


_HEADING = (
    "connection", "kind", "subflow", "from", "to", "bytes", "retrans", "rtt ms", "p95", "goodput", "sender", "quality",
)  # fmt: skip
TEXT_ROWS_MAX = 500
_MEMBERS_MAX = 12


def _connection_rows(c: Connection) -> list[list[str]]:
    kind = f"mptcp v{c.version}" if c.kind == "mptcp" and c.version is not None else c.kind
    rows = [
        [
            str(c.id),
            kind,
            str(s.id),
            _endpoint(s.src, s.sport),
            _endpoint(s.dst, s.dport),
            str(s.bytes),
            str(s.retransmitted_packets),
            _ms(s.rtt_median_us),
            _ms(s.rtt_p95_us),
            _si(s.goodput_bps, "bit/s"),
            s.sender_algorithm.name,
            " ".join([s.verdict, *s.quality]),
        ]
        for s in c.subflows
    ]
    if c.kind == "mptcp":
        goodput = _si(c.goodput_bps, "bit/s")
        rows.append(
            [str(c.id), kind, "all", "", "", str(c.bytes), str(c.retransmitted_packets), "", "", goodput, "", ""]
        )
    return rows


def _fairness_text(fairness: Sequence[FairnessGroup]) -> str:
    rows = [["bottleneck", "connections", "Jain", "MPTCP/TCP", "quality"]]
    for g in fairness:
        ratio = "-" if g.mptcp_to_tcp_ratio is None else f"{g.mptcp_to_tcp_ratio:.3f}"
        members = " ".join(map(str, g.members[:_MEMBERS_MAX]))
        if len(g.members) > _MEMBERS_MAX:
            members += f" and {len(g.members) - _MEMBERS_MAX} more"
        rows.append([g.bottleneck, members, f"{g.jain:.4f}", ratio, g.verdict])
    return table(rows, right=(2, 3))


def _unknown_bottlenecks(tally: FairnessTally) -> str:
    found = tally.bottlenecks()
    lines = []
    if found["undecided"]:
        lines.append(f"bottleneck undecided: {found['undecided']} flows with too short a time in common with others")
    if found["not_judged"]:
        lines.append(f"bottleneck not judged: {found['not_judged']} flows, as others send more")
    return "\n".join(lines)


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def windows_text(windows: Iterable[Window]) -> str:
    """A line for each subflow and algorithm, in segments."""
    rows = [["connection", "subflow", "algorithm", "mean cwnd", "max", "last"]]
    rows += [
        [str(w.connection), str(w.subflow), w.algorithm, f"{w.mean:.1f}", f"{w.max:.1f}", f"{w.last:.1f}"]
        for w in itertools.islice(windows, TEXT_ROWS_MAX)
    ]
    return table(rows, right=(0, 1, 3, 4, 5))


def server_text(capture: dict[str, Any], connections: Sequence[dict[str, Any]]) -> str:
    """What a server found in a capture: each subflow, the mean window of each replayed algorithm, and what is not as
    specified."""
    labels = list(dict.fromkeys(r["label"] for c in connections for r in c["replays"]))
    rows = [["connection", "kind", "subflow", "from", "to", "bytes", "retrans", "rtt ms", *labels]]
    for c in connections:
        kind = f"mptcp v{c['version']}" if c["kind"] == "mptcp" and c["version"] is not None else c["kind"]
        for s in c["subflows"]:
            means = {
                r["label"]: w["mean"] for r in c["replays"] for w in r["windows"] or [] if w["subflow"] == s["number"]
            }
            rows.append(
                [
                    str(c["number"]), kind, str(s["number"]), _endpoint(s["src"], s["sport"]),
                    _endpoint(s["dst"], s["dport"]), str(s["bytes"]), str(s["retransmitted_packets"]),
                    _ms(s["rtt_median_us"]), *(f"{means[x]:.1f}" if x in means else "-" for x in labels),
                ]
            )  # fmt: skip
    summary = capture["summary"]
    head = (
        f"{capture['filename']}: {summary['packets']} packets, {summary['duration_s']:.2f} s, seen from "
        f"{summary['vantage']}; mean cwnd in segments for each algorithm"
    )
    parts = [head, table(rows, right=(0, 2, *range(5, 8 + len(labels)))), _server_conformance(connections)]
    return "\n\n".join(p for p in parts if p)


def _server_conformance(connections: Sequence[dict[str, Any]]) -> str:
    """What the server's monitor found of the controllers' steps. Empty where it looked at none."""
    looked = [(c["number"], f) for c in connections if (f := c.get("conformance") or {}).get("steps")]
    lines = [
        f"connection {number}: {found['violations']} of {found['steps']} steps are none of the specifications', the"
        f" first {first['algorithm']}'s against {first['property']}: {first['step']} at row {first['row']}"
        for number, found in looked
        if (first := found["first"])
    ]
    if looked and not lines:
        lines = [f"conformance: all {sum(f['steps'] for _, f in looked)} steps of the controllers are as specified"]
    return "\n".join(lines)


def algorithms_markdown(
    algorithms: Sequence[Algorithm], detectors: Sequence[Algorithm], schedulers: Sequence[SchedulerInfo]
) -> str:
    """The page docs/algorithms.md: what is the same in all of them stands once, at its beginning."""
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


def violations_text(violations: Iterable[Violation]) -> str:
    """Empty when every step was as specified; of a capture with many connections, the first twenty."""
    lines = [
        f"connection {v.connection}, {v.algorithm}: {v.count} steps are none of its specification's, the first against"
        f" {v.property_}: {v.step} at row {v.row}"
        for v in itertools.islice(violations, 21)
    ]
    return "\n".join(lines[:20] + ["and more"] * (len(lines) > 20))
