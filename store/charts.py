"""What charts show of the rows of a series: the worker keeps it in overviews, the API computes it from rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

RECORDED = ("flight", "window", "rtt")
"""What the sender had: data in flight and the receiver's window in segments, RTT in ms."""
POSITIONS = ("acked", "edge", "sent")
"""After each ACK, in bytes from the subflow's first: what is acknowledged, the edge of the receiver's window, and how
far the sender had sent before."""
SEGMENT = "segment"
"""Bytes of a full segment."""
ALLOWED = ".allowed"
"""Ends the name of what a replayed algorithm allows to be sent, in bytes from the subflow's first: una + cwnd."""

_ACKED = ("position", "una", "ack")
_SOURCES: dict[str, tuple[str, ...]] = {
    "flight": ("in_flight_bytes", "segment_bytes"),
    "window": ("window_bytes", "segment_bytes"),
    "rtt": ("rtt_us",),
    "acked": _ACKED,
    "edge": (*_ACKED, "window_bytes"),
    "sent": ("position", "ack", "next"),
    SEGMENT: ("segment_bytes",),
}

Floats = npt.NDArray[np.float64]


def sources(name: str) -> Sequence[str]:
    """The columns of rows that it is computed from."""
    if name.endswith(ALLOWED):
        return (*_ACKED, "segment_bytes", f"{name.removesuffix(ALLOWED)}.cwnd")
    return _SOURCES.get(name, (name,))


def values(table: Any, name: str) -> Floats:
    """One value for each row of an Arrow table that has the `sources`; NaN where there is none."""

    def column(of: str) -> Any:
        return table[of].to_numpy(zero_copy_only=False)

    found: Any
    match name:
        case "flight" | "window":
            found = column(_SOURCES[name][0]) / np.maximum(column("segment_bytes"), 1)
        case "rtt":
            found = column("rtt_us") / 1000.0
        case "acked":
            found = _acked(column)
        case "edge":
            found = _acked(column) + column("window_bytes")
        case "sent":
            found = column("position") + _after(column("next"), column("ack"))
        case "segment":
            found = column("segment_bytes")
        case _ if name.endswith(ALLOWED):
            cwnd = column(f"{name.removesuffix(ALLOWED)}.cwnd")
            found = _acked(column) + cwnd * column("segment_bytes")
        case _:
            found = column(name)
    return np.asarray(found, np.float64)


def _after(a: Any, b: Any) -> npt.NDArray[np.int32]:
    """How far sequence numbers lie after others, modulo 2^32."""
    return np.asarray((a - b).astype(np.uint32)).view(np.int32)


def _acked(column: Any) -> Any:
    """`position` is that of the ACK's number, and an old ACK acknowledges less than una."""
    return column("position") + np.maximum(_after(column("una"), column("ack")), 0)
