"""rewindow: what would each Multipath TCP congestion controller have done to this traffic?"""

from importlib.metadata import version as _version

from rewindow.controllers.controller import Controller
from rewindow.controllers.detector import BottleneckSet, Detector, FlowVerdict, group_flows
from rewindow.controllers.registry import Algorithm, Option, algorithms, detectors
from rewindow.controllers.scheduler import (
    Decision,
    Forecast,
    Scheduler,
    SchedulerInfo,
    SendingSubflow,
    SendQueue,
    schedulers,
)
from rewindow.core import Choice
from rewindow.errors import (
    BadOption,
    CaptureMissing,
    CaptureNotOpened,
    CaptureUnreadable,
    DependencyFailed,
    DissectorAway,
    DissectorFailed,
    DissectorMissing,
    DissectorNotConfined,
    NetworkUnreadable,
    RewindowError,
    UnknownAlgorithm,
    UnknownScheduler,
)
from rewindow.findings.connections import Connection, Subflow
from rewindow.findings.fairness import FairnessGroup, FairnessTally, fairness_groups, jain_index
from rewindow.replays.capture import Capture, open
from rewindow.replays.replay import Batch, Replay, Result, Summary

__all__ = [
    "Algorithm",
    "BadOption",
    "Batch",
    "BottleneckSet",
    "Capture",
    "CaptureMissing",
    "CaptureNotOpened",
    "CaptureUnreadable",
    "Choice",
    "Connection",
    "Controller",
    "Decision",
    "DependencyFailed",
    "Detector",
    "DissectorAway",
    "DissectorFailed",
    "DissectorMissing",
    "DissectorNotConfined",
    "FairnessGroup",
    "FairnessTally",
    "FlowVerdict",
    "Forecast",
    "NetworkUnreadable",
    "Option",
    "Replay",
    "Result",
    "RewindowError",
    "Scheduler",
    "SchedulerInfo",
    "SendQueue",
    "SendingSubflow",
    "Subflow",
    "Summary",
    "UnknownAlgorithm",
    "UnknownScheduler",
    "__version__",
    "algorithms",
    "detectors",
    "fairness_groups",
    "group_flows",
    "jain_index",
    "open",
    "schedulers",
]

__version__ = _version("rewindow")
