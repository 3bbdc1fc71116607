"""A scenario in virtual time: Linux's TCP and MPTCP senders, driven by the controllers (core-c/src/simulator/).

`lockstep.py` runs such a sender beside a captured one.
"""

from rewindow.simulator.lockstep import FreeRun, Lockstep, Segment, lockstep
from rewindow.simulator.simulation import (
    RECEIVE_BUFFER_BYTES,
    SEND_BUFFER_BYTES,
    LinkCounts,
    SimulatedSubflow,
    SimulatedTransfer,
    Simulation,
    check_choice,
    simulate,
)

__all__ = [
    "RECEIVE_BUFFER_BYTES",
    "SEND_BUFFER_BYTES",
    "FreeRun",
    "LinkCounts",
    "Lockstep",
    "Segment",
    "SimulatedSubflow",
    "SimulatedTransfer",
    "Simulation",
    "check_choice",
    "lockstep",
    "simulate",
]
