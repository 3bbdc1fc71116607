"""A service's results for a capture, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewindow.reports.tables import endpoint, ms, table
from rewindow.reports.verdicts import quality_text


def server_text(capture: dict[str, Any], connections: Sequence[dict[str, Any]]) -> str:
    """The server's results: verdicts, each subflow, each algorithm's mean window, and violated specifications."""
    labels = list(dict.fromkeys(r["label"] for c in connections for r in c["replays"]))
    rows = [["connection", "kind", "subflow", "from", "to", "bytes", "retrans", "rtt ms", "quality", *labels]]
    for c in connections:
        kind = f"mptcp v{c['version']}" if c["kind"] == "mptcp" and c["version"] is not None else c["kind"]
        for s in c["subflows"]:
            means = {
                r["label"]: w["mean"] for r in c["replays"] for w in r["windows"] or [] if w["subflow"] == s["number"]
            }
            rows.append(
                [
                    str(c["number"]), kind, str(s["number"]), endpoint(s["src"], s["sport"]),
                    endpoint(s["dst"], s["dport"]), str(s["bytes"]), str(s["retransmitted_packets"]),
                    ms(s["rtt_median_us"]), s["verdict"], *(f"{means[x]:.1f}" if x in means else "-" for x in labels),
                ]
            )  # fmt: skip
    summary = capture["summary"]
    head = (
        f"{capture['filename']}: {summary['packets']} packets, {summary['duration_s']:.2f} s, seen from "
        f"{summary['vantage']}; mean cwnd in segments for each algorithm"
    )
    quality = quality_text(summary["quality"], summary.get("connection_quality"))
    shown = table(rows, right=(0, 2, 5, 6, 7, *range(9, 9 + len(labels))))
    parts = [head, quality, shown, _server_conformance(connections)]
    return "\n\n".join(p for p in parts if p)


def _server_conformance(connections: Sequence[dict[str, Any]]) -> str:
    """The violations that the server's monitor found in the controllers' steps. Empty where it checked no step."""
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
