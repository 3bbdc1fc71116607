"""Names the algorithm that a sender most likely ran: the one whose window equalled the flight most often.

A sender that paces seldom fills its window. It is named by its pace: between two bursts passes the time that its rate
takes for the first, and that rate follows the bandwidth which the algorithm finds in the same ACKs. Versions 1 and 3 of
BBR let go at the bandwidth most of the time. They are told apart where their gains differ: in Startup (2.89 and 2.77),
and after a probe for bandwidth (0.75 and 0.9).

Coupled algorithms are compared where the capture has MPTCP. Linux gives all subflows of a connection one congestion
control, so that an algorithm which one of them excludes is excluded for the others too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SINGLE_PATH_CANDIDATES = ("newreno", "cubic", "bbr")
COUPLED_CANDIDATES = ("css", "tccc", "tccc+", "lia", "olia", "balia", "enmcc", "sbcc")
"""Those that were compared with a kernel that ran them (docs/validation.md)."""
CANDIDATE_OPTIONS: Mapping[str, Mapping[str, str]] = {
    **{name: {} for name in SINGLE_PATH_CANDIDATES},
    **{name: {"mode": "kernel"} for name in COUPLED_CANDIDATES},
}
"""Of each candidate: the options with which it is replayed. Coupled ones are the last."""
RARE_CANDIDATES = ("dctcp", "westwood", "htcp", "illinois", "scalable", "vegas")
"""Candidates only where their replay is asked for, with their defaults: each takes time, and few senders run them. Our
simulator and our implementations in a kernel are what they were compared with, not Linux's."""
NEWRENO_AT_REST = ("dctcp", "sbcc")
"""Candidates that are NewReno, and have its name, before there is something to answer: a mark, or SB-CC's first loss,
at which its window is halved with its fraction. While no subflows share a bottleneck, SB-CC is within one segment."""
FULL_ROWS_MIN = 30
"""ACKs before which the window was full. With fewer of them, no sender is named."""
_MATCH_MIN = 0.5
_NEAR_MIN = 0.9
_MATCH_MARGIN = 0.2
"""Lead over another candidate. It must be large, because many candidates have the same window in slow start."""
_CLEAR_MIN, _CLEAR_ROWS, _CLEAR_SHARE = 0.75, 10, 0.5
"""A smaller lead suffices where the two candidates mostly had the same window. It is clear if the window equalled the
flight at this share of all ACKs, at this many more ACKs than the other candidate's window, and at this share of the
ACKs at which the other candidate's window did not."""

_EXCEEDED_MOST = 0.05
"""Share of the full windows. Some are exceeded because the flight after a recovery is not known exactly."""
_MATCH_LEAST = 0.55
PACED_SENDERS = ("bbr", "bbr3")
"""Versions 1 and 3. The replay of version 1 finds version 3; its own replay, where asked for, does so better."""
PACED_ROWS_MIN = 50
"""ACKs before which data left on a timer: with fewer of them no paced sender is named."""
_PACED_SHARE, _PACE_MIN = 0.1, 0.6
"""Of all ACKs, and of those how many at the algorithm's pace."""
_PACED_SHARE_LEAST = 0.02
"""Where most have version 1's own pace: a fast sender lets many segments go at once, and a timer before few ACKs."""
_VERSION_ROWS, _VERSION_SHARE, _VERSION_LEAD = 10, 0.025, 3
"""ACKs after a pace that only one version has: at least so many, such a share of those before which data left on a
timer, and so many times those of the other version. A busy host, which answers ACKs late, seems to pace: at the
bandwidth."""
_PACE_LEAST, _CLEAR_VERSION_LEAD = 0.45, 5
"""Version 3 lets go more slowly after losses than version 1's replay knows: with such a lead, so many suffice."""
_ON_ONE_PATH = frozenset(SINGLE_PATH_CANDIDATES + RARE_CANDIDATES)
_WHOLE_WINDOWS = ("newreno",)
"""Senders whose windows are known exactly; CUBIC's are within a segment."""


def is_candidate(name: str, options: Mapping[str, str]) -> bool:
    """Whether a replay with these options helps to name the senders."""
    return (not options) if name in (*RARE_CANDIDATES, "bbr3") else CANDIDATE_OPTIONS.get(name) == options


@dataclass(frozen=True)
class SenderAlgorithm:
    """match: the share of ACKs at which the window equalled the flight, of those before which the window was full; None
    when the capture has too few of them. For a sender that paces: the share of ACKs at which its data left at this
    algorithm's pace, of those after data that a timer released.

    candidates: the algorithms that the flights do not exclude, the best one first; the named one alone. Empty where the
    capture has too few of these ACKs, or no candidate had these windows.

    exceeded: how many of these flights were larger than the window by more than a segment, which a sender of this
    algorithm does not allow. first_exceeded_ns, first_exceeded_packet: time of the first of them, and its record in the
    capture, from 1 on; the record is None where packets are not replayed in the order of one file.
    """

    name: str
    match: float | None
    exceeded: float | None = None
    first_exceeded_ns: int | None = None
    first_exceeded_packet: int | None = None
    candidates: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """For people: the name, or unknown with the candidates."""
        return f"unknown ({', '.join(self.candidates)})" if len(self.candidates) > 1 else self.name

    @property
    def is_exceeded(self) -> bool:
        """Whether its sender must have another window than this algorithm's."""
        return self.name != "unknown" and bool(self.exceeded) and (self.exceeded or 0) > _EXCEEDED_MOST

    @property
    def is_unmatched(self) -> bool:
        """Whether the flight was mostly another than this algorithm's window, which is known exactly."""
        return self.name in _WHOLE_WINDOWS and self.match is not None and self.match < _MATCH_LEAST


UNKNOWN = SenderAlgorithm("unknown", None)


Windows = Mapping[str, Mapping[str, int]]
"""Of one subflow: replayed candidate -> the core's rw_window_row."""


def judged(subflows: Sequence[Windows], is_mptcp: bool) -> list[SenderAlgorithm]:
    """The senders of all subflows of a connection, in their order."""
    found = [_fitting(windows, is_mptcp) for windows in subflows]
    common = set.intersection(*(set(names) for names in found if names)) if any(found) else set()
    if common:
        found = [[name for name in names if name in common] for names in found]
    return [_told(windows, names) for windows, names in zip(subflows, found, strict=True)]


def _told(windows: Windows, names: list[str]) -> SenderAlgorithm:
    if len(names) != 1:
        full = [row for row in windows.values() if row["full_rows"] >= FULL_ROWS_MIN]
        match = max((row["matched"] / row["full_rows"] for row in full), default=None)
        return SenderAlgorithm("unknown", match, candidates=names)
    name, row = names[0], windows.get(names[0])
    if row is None:  # version 3, found by the replay of version 1: its windows are not known
        return SenderAlgorithm(name, windows["bbr"]["paced_either"] / windows["bbr"]["paced_rows"], candidates=names)
    equal, rows = ("paced_matched", "paced_rows") if name in PACED_SENDERS else ("matched", "full_rows")
    return SenderAlgorithm(
        name,
        row[equal] / row[rows],
        row["exceeded"] / row["full_rows"] if row["full_rows"] else None,
        row["first_exceeded_ns"] or None,
        row["first_exceeded_record"] or None,
        names,
    )


def _fitting(windows: Windows, is_mptcp: bool) -> list[str]:
    """The candidates that this subflow alone does not exclude, the best one first."""
    names = _by_window({name: row for name, row in windows.items() if name not in PACED_SENDERS})
    for name in NEWRENO_AT_REST:
        if name in names and "newreno" in names and windows[name] == windows["newreno"]:
            names.remove(name)
    single_path = [name for name in names if name in _ON_ONE_PATH]
    if not is_mptcp and single_path:
        names = single_path  # a TCP connection has nothing to couple: most coupled algorithms are NewReno there
    paced = _by_pace(windows)
    if not paced or (len(names) == 1 and _is_within(windows[names[0]])):
        return names
    # In Startup BBR's window grows as others do in slow start.
    return names + paced if len(names) == 1 and len(paced) > 1 else paced


def _by_pace(windows: Windows) -> list[str]:
    """The versions of BBR that the pace does not exclude."""
    one, three = windows.get("bbr"), windows.get("bbr3")
    if one is None or one["paced_rows"] < PACED_ROWS_MIN:
        return []
    own, other = one["paced_own"], one["paced_other"]
    is_certain = own >= max(PACED_ROWS_MIN, _CLEAR_VERSION_LEAD * other)
    if one["paced_rows"] < (_PACED_SHARE_LEAST if is_certain else _PACED_SHARE) * one["rows"]:
        return []
    least = max(_VERSION_ROWS, _VERSION_SHARE * one["paced_rows"])
    is_one = own >= least and own >= _VERSION_LEAD * other
    is_three = other >= least and other >= _VERSION_LEAD * own
    is_clear = is_three and other >= _CLEAR_VERSION_LEAD * own
    like_one = one["paced_matched"] >= _PACE_MIN * one["paced_rows"]
    like_three = (
        one["paced_either"] >= (_PACE_LEAST if is_clear else _PACE_MIN) * one["paced_rows"]
        or (three is not None and three["paced_matched"] >= _PACE_MIN * three["paced_rows"])
    )  # fmt: skip
    if is_three and like_three:
        return ["bbr3"]
    if is_one and like_one:
        return ["bbr"]
    return list(PACED_SENDERS) if like_one else []


def _by_window(windows: Windows) -> list[str]:
    likely = {name: row for name, row in windows.items() if row["full_rows"] >= FULL_ROWS_MIN and _is_likely(name, row)}
    left = [name for name, row in likely.items() if not any(_excludes(other, row) for other in likely.values())]
    return sorted(left, key=lambda name: -likely[name]["matched"])


def _is_likely(name: str, row: Mapping[str, int]) -> bool:
    """Whether the window was within a segment of nearly all flights; or equalled most, for single-path algorithms."""
    return _is_within(row) or (name in _ON_ONE_PATH and row["matched"] >= _MATCH_MIN * row["full_rows"])


def _is_within(row: Mapping[str, int]) -> bool:
    return row["near"] >= _NEAR_MIN * row["full_rows"] and row["exceeded"] <= _EXCEEDED_MOST * row["full_rows"]


def _excludes(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether the window of one explains the flights of a subflow so much better that the other cannot be the sender's.

    `near` decides for CUBIC, whose window may be one segment off for a long time, because its cube root is not Linux's.
    """
    full = one["full_rows"]
    for equal, least in (("matched", _MATCH_MIN), ("near", _NEAR_MIN)):
        lead = one[equal] - other[equal]
        clear = one[equal] >= _CLEAR_MIN * full and lead >= _CLEAR_ROWS and lead >= _CLEAR_SHARE * (full - other[equal])
        if one[equal] >= least * full and (lead >= _MATCH_MARGIN * full or clear):
            return True
    return False
