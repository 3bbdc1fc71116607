"""Results as HTML for notebooks. Every text that comes from a capture is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from rewindow.findings.connections import Connection

ROWS_MAX = 50

_HEADING = (
    "connection",
    "kind",
    "subflow",
    "from",
    "to",
    "bytes",
    "retransmitted",
    "median RTT, ms",
    "sender",
    "quality",
)


def table_html(caption: str, rows: Iterable[Sequence[object]]) -> str:
    """A table, whose first row is the heading."""
    heading, *body = [[html.escape(str(cell)) for cell in row] for row in rows]
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
    head = "".join(f"<th>{cell}</th>" for cell in heading)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    )


def connections_html(caption: str, connections: Sequence[Connection]) -> str:
    """A row for each subflow, up to ROWS_MAX; the caption says how many connections there are."""
    rows: list[Sequence[object]] = [_HEADING]
    for c in connections:
        for s in c.subflows:
            rtt = "" if s.rtt_median_us is None else f"{s.rtt_median_us / 1000:.1f}"
            rows.append(
                [
                    c.id, c.kind, s.id, f"{s.src} {s.sport}", f"{s.dst} {s.dport}", s.bytes, s.retransmitted_packets,
                    rtt, s.sender_algorithm.text, " ".join([s.verdict, *s.quality]),
                ]
            )  # fmt: skip
        if len(rows) > ROWS_MAX:
            break
    return table_html(f"{caption}; {len(connections)} connections", rows[: ROWS_MAX + 1])
