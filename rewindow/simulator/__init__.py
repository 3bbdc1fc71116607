"""A scenario in virtual time: Linux's TCP and MPTCP senders, driven by the controllers (core-c/src/simulator/)."""

from rewindow.simulator.simulation import (
    SEND_BUFFER_BYTES,
    LinkCounts,
    SimulatedSubflow,
    SimulatedTransfer,
    Simulation,
    check_choice,
    simulate,
)

__all__ = [
    "SEND_BUFFER_BYTES",
    "LinkCounts",
    "SimulatedSubflow",
    "SimulatedTransfer",
    "Simulation",
    "check_choice",
    "simulate",
]
