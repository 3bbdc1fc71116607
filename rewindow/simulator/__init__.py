"""A scenario in virtual time: Linux's TCP and MPTCP senders, driven by the controllers (core-c/src/simulator/).

`lockstep.py` runs such a sender beside a captured one.
"""

from rewindow.simulator.lockstep import FreeRun, Lockstep, Segment, lockstep
from rewindow.simulator.simulation import LinkCounts, SimulatedSubflow, SimulatedTransfer, Simulation, simulate

__all__ = [
    "FreeRun",
    "LinkCounts",
    "Lockstep",
    "Segment",
    "SimulatedSubflow",
    "SimulatedTransfer",
    "Simulation",
    "lockstep",
    "simulate",
]
