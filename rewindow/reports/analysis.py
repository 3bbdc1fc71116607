"""The output of `rewindow analyze`: JSON, and tables."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO

from rewindow.controllers.registry import algorithms
from rewindow.findings.connections import Connection
from rewindow.findings.fairness import FairnessGroup, FairnessTally
from rewindow.findings.windows import Window
from rewindow.replays.replay import Summary, Violation
from rewindow.reports.tables import endpoint, ms, si, table
from rewindow.reports.verdicts import byte_shares, quality_text

if TYPE_CHECKING:
    from rewindow.findings.tables import ConnectionTable


def write_analysis(
    out: BinaryIO,
    summary: Summary,
    tables: Iterable[ConnectionTable],
    tally: FairnessTally,
    windows: Iterable[Window],
    violations: Iterable[Violation],
) -> None:
    """Writes the JSON document in parts, some connections at a time, because a capture may have a million."""
    from rewindow.reports import json_rows

    def write(text: str) -> None:
        out.write(text.encode())

    shares = {"connection_quality": byte_shares(summary.connection_quality)}
    write(f'{{"capture": {json.dumps(asdict(summary) | shares)}, "connections": [')
    for number, some in enumerate(tables):
        tally.add_table(some)
        out.write(b", " if number else b"")
        for piece in json_rows.objects(some.connections(), len(some), ("subflows", some.subflows(), some.counts)):
            out.write(piece)
    write(f'], "fairness": {json.dumps([asdict(g) for g in tally.groups()])}')
    write(f', "bottlenecks": {json.dumps(tally.bottlenecks())}, "windows": [')
    for number, window in enumerate(windows):
        write((", " if number else "") + json.dumps(vars(window)))
    write('], "violations": [')
    for number, violation in enumerate(violations):
        write((", " if number else "") + json.dumps(violation.as_json()))
    write("]}\n")
    out.flush()


def analysis_text(
    summary: Summary, tables: Iterable[ConnectionTable], tally: FairnessTally, captures: Sequence[str]
) -> str:
    """The tables of the first connections, as many as a reader can look at. captures: the names of the files."""
    seen_from = "vantage point unknown" if summary.vantage == "unknown" else f"seen from the {summary.vantage}"
    parts = [
        f"{summary.packets} packets, {si(summary.bytes, 'B')}, {summary.duration_s:.2f} s, "
        f"{', '.join(summary.link_types)}; {seen_from}"
    ]
    if summary.decoded_by:
        parts.append("\n".join(f"{link_type} decoded by {tool}" for link_type, tool in summary.decoded_by.items()))
    parts.append(quality_text(asdict(summary.quality), summary.connection_quality))
    files = _short_names(captures) if len(captures) > 1 else []
    rows, left_out = [[*_HEADING, *(["file"] if files else [])]], 0
    senders: set[str] = set()
    for some in tables:
        tally.add_table(some)
        left_out += len(some)
        for c in some.objects(range(min(len(some), max(TEXT_ROWS_MAX - len(rows), 0)))):
            if len(rows) < TEXT_ROWS_MAX:
                rows += _connection_rows(c, files)
                senders |= {n for f in c.subflows for n in (f.sender_algorithm.name, *f.sender_algorithm.candidates)}
                left_out -= 1
    parts.append(table(rows, right=(0, 2, 5, 6, 7, 8, 9)) if len(rows) > 1 else "no TCP in it")
    if left_out:
        parts.append(f"and {left_out} connections more: --json has all of them")
    if unproved := _unvalidated(senders):
        parts.append(unproved)
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


def _short_names(captures: Sequence[str]) -> list[str]:
    """The last parts of the paths if they are distinct, else the paths."""
    short = [PurePath(name).name for name in captures]
    return short if len(set(short)) == len(short) else list(captures)


def _connection_rows(c: Connection, files: Sequence[str]) -> list[list[str]]:
    """files: the captures' names, for a last column; empty: no such column."""
    kind = f"mptcp v{c.version}" if c.kind == "mptcp" and c.version is not None else c.kind
    rows = [
        [
            str(c.id),
            kind,
            str(s.id),
            endpoint(s.src, s.sport),
            endpoint(s.dst, s.dport),
            str(s.bytes),
            str(s.retransmitted_packets),
            ms(s.rtt_median_us),
            ms(s.rtt_p95_us),
            si(s.goodput_bps, "bit/s"),
            s.sender_algorithm.text,
            " ".join([s.verdict, *s.quality]),
            *([files[s.file]] if files else []),
        ]
        for s in c.subflows
    ]
    if c.kind == "mptcp":
        goodput = si(c.goodput_bps, "bit/s")
        rows.append(
            [
                str(c.id), kind, "all", "", "", str(c.bytes), str(c.retransmitted_packets), "", "", goodput, "", "",
                *([""] if files else []),
            ]
        )  # fmt: skip
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


def _unvalidated(names: Iterable[str]) -> str:
    """A line for each of these algorithms that nothing has confirmed. names: also labels with options."""
    named = {name.partition("(")[0] for name in names}
    return "\n".join(f"{a.name}: {a.source}" for a in algorithms() if a.name in named and not a.is_validated)


def windows_text(windows: Iterable[Window]) -> str:
    """A line for each subflow and algorithm, in segments."""
    rows = [["connection", "subflow", "algorithm", "mean cwnd", "max", "last"]]
    shown = list(itertools.islice(windows, TEXT_ROWS_MAX))
    rows += [
        [str(w.connection), str(w.subflow), w.algorithm, f"{w.mean:.1f}", f"{w.max:.1f}", f"{w.last:.1f}"]
        for w in shown
    ]
    return "\n\n".join(filter(None, (table(rows, right=(0, 1, 3, 4, 5)), _unvalidated(w.algorithm for w in shown))))


def violations_text(violations: Iterable[Violation]) -> str:
    """Empty when every step was as specified; of a capture with many connections, the first twenty."""
    lines = [
        f"connection {v.connection}, {v.algorithm}: {v.count} steps are none of its specification's, the first against"
        f" {v.property_}: {v.step} at row {v.row}"
        for v in itertools.islice(violations, 21)
    ]
    return "\n".join(lines[:20] + ["and more"] * (len(lines) > 20))
