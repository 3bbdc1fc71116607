"""What came of connections, in a capture or in a simulated run, by the same definitions.

goodput_bps: bytes over the time from the first data to its last acknowledgement. Queueing delay: a round trip less the
shortest one of its subflow, its handshake and its FIN included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.simulator import SimulatedTransfer

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SubflowOutcome:
    """queued_s: of each sample of the round trip, in order of time; empty where a capture shows none."""

    bytes: int
    retransmitted: int
    episodes: int
    """Recoveries that began with a fast retransmission."""
    timeouts: int
    marked: int
    """ACKs that said that the network had marked data (ECN)."""
    queued_s: Array


@dataclass(frozen=True)
class Outcome:
    """Of a connection. None: it sent no data, or did not complete."""

    bytes: int
    goodput_bps: float | None
    completion_s: float | None
    subflows: tuple[SubflowOutcome, ...]

    @property
    def retransmitted(self) -> int:
        return sum(s.retransmitted for s in self.subflows)

    def queueing_ms(self, percent: float) -> float | None:
        """A percentile of the queueing delay over all samples of the connection, ms; None where there is no sample."""
        samples = np.concatenate([s.queued_s for s in self.subflows])
        return float(np.percentile(samples, percent)) * 1e3 if len(samples) else None

    def metrics(self) -> dict[str, float | None]:
        """By the names that reports use."""
        return {
            "goodput_bps": self.goodput_bps,
            "completion_s": self.completion_s,
            "retransmitted_packets": float(self.retransmitted),
            "queueing_delay_ms": self.queueing_ms(50),
            "queueing_delay_p95_ms": self.queueing_ms(95),
        }


def above_least(round_trips_s: Array, others_s: Iterable[float | None] = ()) -> Array:
    """others_s: further round trips of the subflow, as far as they are known."""
    if not len(round_trips_s):
        return round_trips_s
    return round_trips_s - min([float(round_trips_s.min()), *(s for s in others_s if s is not None)])


def of_transfer(transfer: SimulatedTransfer, rows: Array, first_subflow: int) -> Outcome:
    """rows: of the whole run (rewindow.simulator.ROW); first_subflow: the number of the transfer's first one there."""
    subflows = []
    for number, subflow in enumerate(transfer.subflows, first_subflow):
        own = rows[rows["subflow"] == number]
        samples = own["rtt_ns"][own["rtt_ns"] > 0] / 1e9
        # Subflows of MPTCP close when all is acknowledged; the FIN of TCP mostly leaves with the last data.
        others = (subflow.handshake_s, subflow.closing_s if transfer.scheduler else None)
        subflows.append(
            SubflowOutcome(
                bytes=subflow.bytes, retransmitted=subflow.retransmitted, episodes=subflow.fast_retransmits,
                timeouts=subflow.timeouts, marked=int(np.count_nonzero(own["flags"])),
                queued_s=above_least(samples, others),
            )
        )  # fmt: skip
    return Outcome(transfer.bytes, transfer.goodput_bps, transfer.completion_s, tuple(subflows))
