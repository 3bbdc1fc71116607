"""The simulator's sender beside a captured one: it gets the recorded ACKs, and must send what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt

from rewindow.core import Choice, check, choices_for, ffi, lib

WINDOW = np.dtype([("time_ns", "i8"), ("sender", "u4"), ("una", "u4"), ("cwnd", "u4"), ("unused", "u4")])
"""A row for each ACK that reached a sender, before its effect. cwnd: segments; 0: out of step."""

PARTINGS = ("none", "other", "ahead", "behind")


@dataclass(frozen=True)
class Segment:
    """Sequence numbers [start, end). again: a retransmission."""

    start: int
    end: int
    again: bool


@dataclass(frozen=True)
class FreeRun:
    """From a beginning or from where it was put right, until the two senders parted or the capture ended.

    segments: that agreed. parting: `none` (the capture ended), `other` (they sent different segments), `ahead` (the
    simulated sender sent what the captured one had not), `behind`. captured, simulated: the segments where they parted.
    """

    from_ns: int
    to_ns: int
    segments: int
    parting: str
    captured: Segment | None
    simulated: Segment | None


@dataclass(frozen=True)
class Lockstep:
    """One captured sender beside the simulated one. windows: the fields of WINDOW.

    segments: data segments that the captured sender sent, retransmissions included; agreed: of these, those that the
    simulated sender sent as well, in the same order, while it was in step.
    """

    connection: int
    subflow: int
    src: str
    sport: int
    dst: str
    dport: int
    algorithm: str
    segments: int
    agreed: int
    runs: tuple[FreeRun, ...]
    windows: npt.NDArray[Any]


def _segment(row: Any) -> Segment | None:
    return None if row.start == row.end else Segment(row.start, row.end, bool(row.again))


def _run(row: Any) -> FreeRun:
    return FreeRun(
        row.from_ns, row.to_ns, row.segments, PARTINGS[row.parting], _segment(row.captured), _segment(row.simulated)
    )


def _address(family: int, octets: Any) -> str:
    return str(ip_address(bytes(octets)[: 4 if family == 4 else 16]))


def lockstep(descriptors: Sequence[int], algorithms: Sequence[Choice], names: Sequence[str] = ()) -> list[Lockstep]:
    """Each captured sender under each algorithm, in step with the capture as long as it sends the same.

    descriptors: of the capture's files, as `Capture.descriptors`. Raises NotACapture, CaptureUnreadable,
    UnknownAlgorithm, and BadOption for a controller that is rate-based or needs a detector.
    """
    error, handle, count = ffi.new("rw_error *"), ffi.new("rw_lockstep **"), ffi.new("uint64_t *")
    # The replay that puts a sender right runs Linux's machinery around the window, as the simulated sender does.
    choices = [Choice(c.name, {**c.options, "mode": "kernel"}) for c in algorithms]
    array, keep = choices_for(choices)
    status = lib.rw_lockstep_open(handle, list(descriptors), len(descriptors), array, len(choices), error)
    check(status, error, names)
    del keep
    try:
        senders = ffi.unpack(lib.rw_lockstep_senders(handle[0], count), count[0]) if _count(handle, count) else []
        found = lib.rw_lockstep_runs(handle[0], count)
        runs: list[list[FreeRun]] = [[] for _ in senders]
        for i in range(count[0]):
            runs[found[i].sender].append(_run(found[i]))
        at = lib.rw_lockstep_windows(handle[0], count)
        windows = np.frombuffer(ffi.buffer(at, count[0] * WINDOW.itemsize), WINDOW) if count[0] else np.empty(0, WINDOW)
        return [
            Lockstep(
                connection=row.connection,
                subflow=row.subflow,
                src=_address(row.family, row.src),
                sport=row.sport,
                dst=_address(row.family, row.dst),
                dport=row.dport,
                algorithm=choices[row.choice].name,
                segments=row.segments,
                agreed=row.agreed,
                runs=tuple(runs[number]),
                windows=windows[windows["sender"] == number].copy(),
            )
            for number, row in enumerate(senders)
        ]
    finally:
        lib.rw_lockstep_close(handle[0])


def _count(handle: Any, count: Any) -> int:
    lib.rw_lockstep_senders(handle[0], count)
    return int(count[0])
