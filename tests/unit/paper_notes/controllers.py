"""Controllers in the states that the notes speak of. Windows in segments, round-trip times in seconds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from rewindow import Controller

F = Fraction
CON = 65535 / 1400  # segments: the ssthresh of both slow-start papers


def driven(name: str, w: list[float], rtt: list[float], **named: object) -> Controller:
    """All paths in the initial slow start."""
    return Controller(name, paths=[{"cwnd": a, "rtt": b} for a, b in zip(w, rtt, strict=True)], mss=1400, **named)


def avoiding(name: str, w: list[float], rtt: list[float], **named: object) -> Controller:
    """All paths in congestion avoidance."""
    paths = [{"cwnd": a, "rtt": b, "ssthresh": 1.0, "max_packets_out": a} for a, b in zip(w, rtt, strict=True)]
    return Controller(name, paths=paths, mss=1400, **named)


def windows(c: Controller) -> list[float]:
    return [p.cwnd for p in c.paths]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-3)


def joined(alpha: float, con: float, before: float, window: float) -> float:
    """alpha after a join, as CSS Algorithm 2 and TCCC Algorithm 1 print it."""
    round_trips = math.log(con / before) / math.log(alpha)
    return float((con / (before + window)) ** (1 / round_trips))
