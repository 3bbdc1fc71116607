"""Steps of a controller as its specification has them: joins, ACKs, losses, and the whole state after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewindow.core import Choice, check, choices_for, ffi, lib, name_of

UNSET = 0xFFFFFFFFFFFFFFFF
"""ssthresh_q16 of a path that has none yet."""

CHECKS = [c for i in range(lib.RW_CHECK_COUNT) if (c := name_of(lib.rw_check_name, i))]
"""Properties of specs/ that the monitor checks."""

KINDS = [k for i in range(lib.RW_TRANSITION_COUNT) if (k := name_of(lib.rw_transition_name, i))]


@dataclass(frozen=True, slots=True)
class PathState:
    """Windows in segments, Q16; times in nanoseconds, 0: none yet."""

    cwnd_q16: int
    ssthresh_q16: int
    flight_peak_q16: int
    srtt_ns: int
    coupled_rtt_ns: int
    estimate_q16: int
    beta_q32: int
    initial: bool
    recovering: bool
    set: int
    set_state: int
    asked: int = 0
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """row: rows of the whole replay before it. path: the path that takes the step. paths: by index; None: not live.

    In a step of a detector (its kind begins with `detector_` or `judge_`) a path has only srtt_ns, set, set_state,
    asked and seen, and `path` of a judge_set is the set, from 0 on. asked: 1 + the path whose ECE began the waiting
    decision, 0 without one; seen: the paths that this decision has seen, a bit each. set_asked, set_seen: the same for
    sets.

    rtt_ns (0: no sample), acked_segments, marked_segments, una and next come from the ACK that caused the step; they
    are 0 in other steps.

    violated: the properties that the step violates, where the monitor looked.
    con_ssthresh_q16: 0 where it is estimated.
    """

    time_ns: int
    row: int
    connection: int
    choice: int
    kind: str
    path: int
    acked_segments: int
    violated: tuple[str, ...]
    initial_ss: bool
    alpha_q32: int
    con_ssthresh_q16: int
    mss_bytes: int
    paths: tuple[PathState | None, ...]
    set_asked: tuple[int, ...] = (0, 0, 0, 0)
    set_seen: tuple[int, ...] = (0, 0, 0, 0)
    rtt_ns: int = 0
    marked_segments: int = 0
    una: int = 0
    next: int = 0


def _path(p: Any) -> PathState | None:
    if not p.live:
        return None
    return PathState(
        p.cwnd_q16, p.ssthresh_q16, p.flight_peak_q16, p.srtt_ns, p.coupled_rtt_ns, p.estimate_q16, p.beta_q32,
        bool(p.initial), bool(p.recovering), p.group, p.group_state, p.asked, p.seen,
    )  # fmt: skip


def step_of(row: Any) -> Step:
    """From the core's rw_transition_row."""
    return Step(
        time_ns=row.time_ns,
        row=row.row,
        connection=row.connection,
        choice=row.choice,
        kind=name_of(lib.rw_transition_name, row.kind) or "unknown",
        path=row.path,
        acked_segments=row.acked_segments,
        violated=tuple(name for i, name in enumerate(CHECKS) if row.violated >> i & 1),
        initial_ss=bool(row.initial_ss),
        alpha_q32=row.alpha_q32,
        con_ssthresh_q16=row.con_ssthresh_q16,
        mss_bytes=row.mss_bytes,
        paths=tuple(_path(row.paths[i]) for i in range(8)),
        set_asked=tuple(row.set_asked),
        set_seen=tuple(row.set_seen),
        rtt_ns=row.rtt_ns,
        marked_segments=row.marked_segments,
        una=row.una,
        next=row.next,
    )


def _row(step: Step) -> dict[str, Any]:
    row: dict[str, Any] = {
        "time_ns": step.time_ns, "row": step.row, "connection": step.connection, "choice": step.choice,
        "kind": KINDS.index(step.kind), "path": step.path, "acked_segments": step.acked_segments,
        "initial_ss": step.initial_ss, "alpha_q32": step.alpha_q32, "con_ssthresh_q16": step.con_ssthresh_q16,
        "mss_bytes": step.mss_bytes, "set_asked": step.set_asked, "set_seen": step.set_seen,
        "rtt_ns": step.rtt_ns, "marked_segments": step.marked_segments, "una": step.una, "next": step.next,
    }  # fmt: skip
    row["paths"] = [
        {
            "cwnd_q16": p.cwnd_q16, "ssthresh_q16": p.ssthresh_q16, "flight_peak_q16": p.flight_peak_q16,
            "srtt_ns": p.srtt_ns, "coupled_rtt_ns": p.coupled_rtt_ns, "estimate_q16": p.estimate_q16,
            "beta_q32": p.beta_q32, "live": 1, "initial": p.initial, "recovering": p.recovering, "group": p.set,
            "group_state": p.set_state, "asked": p.asked, "seen": p.seen,
        } if p else {}
        for p in step.paths
    ]  # fmt: skip
    return row


def monitored(choice: Choice, steps: Sequence[Step]) -> list[Step]:
    """The same steps with the properties that each violates; all are steps of one connection under `choice`.

    Raises BadOption for an algorithm without a specification.
    """
    rows, error = ffi.new("rw_transition_row[]", [_row(s) for s in steps]), ffi.new("rw_error *")
    array, keep = choices_for([choice])
    status = lib.rw_monitor_rows(array, rows, len(steps), error)
    del keep
    check(status, error)
    return [replace(s, violated=step_of(row).violated) for s, row in zip(steps, rows, strict=True)]
