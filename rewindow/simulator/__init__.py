"""A scenario in virtual time: Linux's TCP and MPTCP senders, driven by the controllers (core-c/src/simulator/).

`lockstep.py` runs such a sender beside a captured one.
"""

from rewindow.simulator.lockstep import FreeRun, Lockstep, Segment, lockstep
from rewindow.simulator.simulation import (
    CLOCKS_HZ,
    KERNEL,
    SEND_BUFFER_BYTES,
    Kernel,
    LinkCounts,
    SimulatedSubflow,
    SimulatedTransfer,
    Simulation,
    check_choice,
    simulate,
)

__all__ = [
    "CLOCKS_HZ",
    "KERNEL",
    "SEND_BUFFER_BYTES",
    "FreeRun",
    "Kernel",
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
