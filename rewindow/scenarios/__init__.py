"""Scenarios: networks with their traffic, read from TOML (docs/scenarios.md).

Real hosts (`lab/`) and simulators run the same model; this package knows neither.
"""

from rewindow.errors import ScenarioUnreadable
from rewindow.scenarios.model import (
    Bernoulli,
    CapturePoint,
    Change,
    CoDel,
    Direction,
    Discipline,
    DropTail,
    EcnThreshold,
    GilbertElliott,
    Host,
    Interface,
    Path,
    Red,
    Reordering,
    Scenario,
    Traffic,
    Transfer,
    Write,
)
from rewindow.scenarios.quantities import q32
from rewindow.scenarios.reading import load, parse

__all__ = [
    "Bernoulli", "CapturePoint", "Change", "CoDel", "Direction", "Discipline", "DropTail", "EcnThreshold",
    "GilbertElliott", "Host", "Interface", "Path", "Red", "Reordering", "Scenario", "ScenarioUnreadable", "Traffic",
    "Transfer", "Write", "load", "parse", "q32",
]  # fmt: skip
