"""rewindow: what would each Multipath TCP congestion controller have done to this traffic?"""

from rewindow.algorithms import Algorithm, Option, algorithms
from rewindow.captures import Capture, open
from rewindow.connections import Connection, Subflow
from rewindow.controllers import Controller
from rewindow.core import Choice
from rewindow.errors import (
    BadOption,
    CaptureUnreadable,
    DependencyFailed,
    DissectorFailed,
    DissectorMissing,
    LimitReached,
    NetworkUnreadable,
    RewindowError,
    UnknownAlgorithm,
)
from rewindow.fairness import FairnessGroup, FairnessTally, fairness_groups, jain_index
from rewindow.replays import Batch, Replay, Result, Summary

__all__ = [
    "Algorithm",
    "BadOption",
    "Batch",
    "Capture",
    "CaptureUnreadable",
    "Choice",
    "Connection",
    "Controller",
    "DependencyFailed",
    "DissectorFailed",
    "DissectorMissing",
    "FairnessGroup",
    "FairnessTally",
    "LimitReached",
    "NetworkUnreadable",
    "Option",
    "Replay",
    "Result",
    "RewindowError",
    "Subflow",
    "Summary",
    "UnknownAlgorithm",
    "algorithms",
    "fairness_groups",
    "jain_index",
    "open",
]
