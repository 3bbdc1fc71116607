"""Statistics of windows, gathered while batches go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass
class WindowStatistics:
    """cwnd of each (connection, subflow, algorithm) while batches go by: count, sum, maximum, last."""

    labels: Sequence[str]
    seen: dict[tuple[int, int, str], list[float]] = field(default_factory=dict)

    def add(self, acks: pa.RecordBatch) -> None:
        if acks.num_rows == 0:
            return
        key = acks["connection"].to_numpy().astype(np.uint64) << np.uint64(32) | acks["subflow"].to_numpy()
        order = np.argsort(key, kind="stable")
        flows, starts = np.unique(key[order], return_index=True)
        for label in self.labels:
            cwnd = acks[f"{label}.cwnd"].to_numpy()[order]
            sums, maxima = np.add.reduceat(cwnd, starts), np.maximum.reduceat(cwnd, starts)
            ends = np.append(starts[1:], len(cwnd))
            for flow, total, most, start, end in zip(flows, sums, maxima, starts, ends, strict=True):
                place = self.seen.setdefault((int(flow) >> 32, int(flow) & 0xFFFFFFFF, label), [0.0, 0.0, 0.0, 0.0])
                place[0] += end - start
                place[1] += float(total)
                place[2] = max(place[2], float(most))
                place[3] = float(cwnd[end - 1])

    def of_connection(self) -> dict[int, dict[str, list[dict[str, float]]]]:
        """connection -> label -> for each subflow that has rows: subflow, mean, max, last."""
        found: dict[int, dict[str, list[dict[str, float]]]] = {}
        for (connection, subflow, label), (count, total, most, last) in sorted(self.seen.items()):
            entry = {"subflow": subflow, "mean": total / count, "max": most, "last": last}
            found.setdefault(connection, {}).setdefault(label, []).append(entry)
        return found

    def rows(self) -> list[tuple[int, int, str, float, float, float]]:
        """connection, subflow, label, mean, maximum, last."""
        return [(c, s, a, t / n, m, e) for (c, s, a), (n, t, m, e) in sorted(self.seen.items())]
