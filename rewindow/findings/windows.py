"""Summaries of a controller's windows over a whole subflow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Window:
    """Mean, largest and last cwnd after the ACKs of a subflow, in segments, under one algorithm (its label)."""

    connection: int
    subflow: int
    algorithm: str
    mean: float
    max: float
    last: float


def of_connections(windows: Iterable[Window]) -> dict[int, dict[str, list[dict[str, float]]]]:
    """connection -> algorithm -> for each subflow that has rows: subflow, mean, max, last."""
    found: dict[int, dict[str, list[dict[str, float]]]] = {}
    for w in windows:
        entry = {"subflow": w.subflow, "mean": w.mean, "max": w.max, "last": w.last}
        found.setdefault(w.connection, {}).setdefault(w.algorithm, []).append(entry)
    return found
