"""Names the algorithm that a sender most likely ran: the one whose window equalled the flight most often.

A sender that paces seldom fills its window. It is named by its pace: between two bursts passes the time that its rate
takes for the first, and that rate follows the bandwidth which the algorithm finds in the same ACKs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SENDER_CANDIDATES = ("newreno", "cubic", "bbr")
FULL_ROWS_MIN = 30
"""ACKs before which the window was full. With fewer of them, no sender is named."""
_MATCH_MIN = 0.5
_NEAR_MIN = 0.9
_MATCH_MARGIN = 0.2
"""Lead over the next candidate. It must be large, because all candidates have the same window in slow start."""
_CLEAR_MIN, _CLEAR_ROWS, _CLEAR_SHARE = 0.75, 10, 0.5
"""A smaller lead suffices where the two candidates mostly had the same window. It is clear if the window equalled the
flight at this share of all ACKs, at this many more ACKs than the next candidate's window, and at this share of the ACKs
at which the next candidate's window did not."""

_EXCEEDED_MOST = 0.05
"""Share of the full windows. Some are exceeded because the flight after a recovery is not known exactly."""
_MATCH_LEAST = 0.55
PACED_SENDERS = frozenset({"bbr"})
PACED_ROWS_MIN = 50
"""ACKs before which data left on a timer: with fewer of them no paced sender is named."""
_PACED_SHARE, _PACE_MIN = 0.1, 0.6
"""Of all ACKs, and of those how many at the algorithm's pace."""
_WHOLE_WINDOWS = ("newreno",)
"""Senders whose windows are known exactly; CUBIC's are within a segment."""


@dataclass(frozen=True)
class SenderAlgorithm:
    """match: the share of ACKs at which the window equalled the flight, of those before which the window was full; None
    when the capture has too few of them. For a sender that paces: the share of ACKs at which its data left at this
    algorithm's pace, of those after data that a timer released.

    exceeded: how many of these flights were larger than the window by more than a segment, which a sender of this
    algorithm does not allow. first_exceeded_ns, first_exceeded_packet: time of the first of them, and its record in the
    capture, from 1 on; the record is None where packets are not replayed in the order of one file.
    """

    name: str
    match: float | None
    exceeded: float | None = None
    first_exceeded_ns: int | None = None
    first_exceeded_packet: int | None = None

    @property
    def is_exceeded(self) -> bool:
        """Whether its sender must have another window than this algorithm's."""
        return self.name != "unknown" and bool(self.exceeded) and (self.exceeded or 0) > _EXCEEDED_MOST

    @property
    def is_unmatched(self) -> bool:
        """Whether the flight was mostly another than this algorithm's window, which is known exactly."""
        return self.name in _WHOLE_WINDOWS and self.match is not None and self.match < _MATCH_LEAST


UNKNOWN = SenderAlgorithm("unknown", None)


def judged(windows: Mapping[str, Any]) -> SenderAlgorithm:
    """windows: replayed candidate -> the core's rw_window_row of the subflow."""
    by_window = _by_window({name: row for name, row in windows.items() if name not in PACED_SENDERS})
    if by_window.name == "unknown":
        for name in PACED_SENDERS & windows.keys():
            row = windows[name]
            if _is_at_pace(row):
                return SenderAlgorithm(
                    name,
                    row["paced_matched"] / row["paced_rows"],
                    row["exceeded"] / row["full_rows"] if row["full_rows"] else None,
                    row["first_exceeded_ns"] or None,
                    row["first_exceeded_record"] or None,
                )
    return by_window


def _is_at_pace(row: Mapping[str, int]) -> bool:
    paced = row["paced_rows"]
    return paced >= PACED_ROWS_MIN and paced >= _PACED_SHARE * row["rows"] and row["paced_matched"] >= _PACE_MIN * paced


def _by_window(windows: Mapping[str, Any]) -> SenderAlgorithm:
    found = {name: row for name, row in windows.items() if row["full_rows"] >= FULL_ROWS_MIN}
    if not found:
        return UNKNOWN
    matches = {name: row["matched"] / row["full_rows"] for name, row in found.items()}
    near = {name: row["near"] / row["full_rows"] for name, row in found.items()}
    # CUBIC's window may be one segment off for a long time, because its cube root is not Linux's.
    for shares, least in ((matches, _MATCH_MIN), (near, _NEAR_MIN)):
        best = max(shares, key=lambda name: shares[name])
        others = max((share for name, share in shares.items() if name != best), default=0.0)
        row, margin = found[best], shares[best] - others
        clear = (
            len(shares) > 1
            and shares[best] >= _CLEAR_MIN
            and margin * row["full_rows"] >= _CLEAR_ROWS
            and margin >= _CLEAR_SHARE * (1 - others)
        )
        if shares[best] >= least and (margin >= _MATCH_MARGIN or clear):
            return SenderAlgorithm(
                best,
                matches[best],
                row["exceeded"] / row["full_rows"],
                row["first_exceeded_ns"] or None,
                row["first_exceeded_record"] or None,
            )
    return SenderAlgorithm("unknown", max(matches.values()))
