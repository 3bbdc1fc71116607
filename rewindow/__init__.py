"""rewindow: what would each Multipath TCP congestion controller have done to this traffic?"""

from rewindow.algorithms import Algorithm, Option, algorithms, detectors
from rewindow.bottlenecks import BottleneckSet, Detector, FlowVerdict, group_flows
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
    UnknownScheduler,
)
from rewindow.fairness import FairnessGroup, FairnessTally, fairness_groups, jain_index
from rewindow.replays import Batch, Replay, Result, Summary
from rewindow.schedulers import Decision, Forecast, Scheduler, SchedulerInfo, SendingSubflow, SendQueue, schedulers

__all__ = [
    "Algorithm",
    "BadOption",
    "Batch",
    "BottleneckSet",
    "Capture",
    "CaptureUnreadable",
    "Choice",
    "Connection",
    "Controller",
    "Decision",
    "DependencyFailed",
    "Detector",
    "DissectorFailed",
    "DissectorMissing",
    "FairnessGroup",
    "FairnessTally",
    "FlowVerdict",
    "Forecast",
    "LimitReached",
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
    "algorithms",
    "detectors",
    "fairness_groups",
    "group_flows",
    "jain_index",
    "open",
    "schedulers",
]
