"""Simulated runs of a scenario as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from rewindow.reports.tables import si, table
from rewindow.simulator import LinkCounts, SimulatedSubflow, SimulatedTransfer, Simulation


def _spread(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The median, and the least and the most where there are several runs; `-` where a run has no value."""
    known = [v for v in values if v is not None]
    if not known or len(known) < len(values):
        return "-"
    middle = shown(median(known))
    return middle if len(known) == 1 else f"{middle} [{shown(min(known))} {shown(max(known))}]"


def text(runs: Sequence[Simulation]) -> str:
    """A row for each transfer and one for each direction of a link that dropped or marked packets."""
    rows = [["transfer", "algorithm", "bytes", "goodput", "completion s", "retrans", "timeouts"]]
    for i, first in enumerate(runs[0].transfers):
        same = [run.transfers[i] for run in runs]
        rows.append([
            first.name,
            first.algorithm,
            _spread([t.bytes for t in same], lambda v: f"{v:.0f}"),
            _spread([t.goodput_bps for t in same], lambda v: si(v, "bit/s")),
            _spread([t.completion_s for t in same], lambda v: f"{v:.2f}"),
            _spread([t.retransmitted for t in same], lambda v: f"{v:.0f}"),
            _spread([sum(s.timeouts for s in t.subflows) for t in same], lambda v: f"{v:.0f}"),
        ])  # fmt: skip
    links = [["link", "packets", "queue full", "discipline", "lost", "marked", "longest queue"]]
    for i, link in enumerate(runs[0].links):
        each = [run.links[i] for run in runs]
        values = [
            [link.forwarded for link in each],
            [link.dropped_full for link in each],
            [link.dropped_early for link in each],
            [link.dropped_loss + link.dropped_down for link in each],
            [link.marked for link in each],
            [link.queue_packets_max for link in each],
        ]
        if any(sum(column) for column in values[1:5]):
            links.append([link.name, *(_spread(column, lambda v: f"{v:.0f}") for column in values)])
    told = f"{runs[0].scenario}: {len(runs)} run{'s' * (len(runs) > 1)}, seed {runs[0].seed}"
    if len(runs) > 1:
        told += f" to {runs[-1].seed}; median [least most]"
    parts = [told, table(rows)]
    if len(links) > 1:
        parts.append(table(links))
    return "\n\n".join(parts)


def _subflow(s: SimulatedSubflow) -> dict[str, Any]:
    return {
        "path": s.path, "bytes": s.bytes, "packets": s.segments, "retransmitted_packets": s.retransmitted,
        "fast_retransmits": s.fast_retransmits, "timeouts": s.timeouts, "cwnd": s.cwnd, "ssthresh": s.ssthresh,
        "srtt_s": s.srtt_s, "established_s": s.established_s,
    }  # fmt: skip


def _transfer(t: SimulatedTransfer) -> dict[str, Any]:
    return {
        "name": t.name, "algorithm": t.algorithm, "scheduler": t.scheduler, "bytes": t.bytes, "complete": t.complete,
        "goodput_bps": t.goodput_bps, "completion_s": t.completion_s, "retransmitted_packets": t.retransmitted,
        "subflows": [_subflow(s) for s in t.subflows],
    }  # fmt: skip


def _link(link: LinkCounts) -> dict[str, Any]:
    return dict(vars(link))


def document(runs: Sequence[Simulation]) -> dict[str, Any]:
    """The JSON document of `rewindow simulate --json`."""
    return {
        "format": 1,
        "scenario": runs[0].scenario,
        "runs": [
            {
                "seed": run.seed,
                "seconds": run.seconds,
                "transfers": [_transfer(t) for t in run.transfers],
                "links": [_link(link) for link in run.links],
            }
            for run in runs
        ],
    }
