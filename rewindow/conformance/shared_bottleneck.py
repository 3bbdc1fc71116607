"""TLC decides whether the steps of SB-CC's detector conform to specs/SharedBottleneck.

A connection's log has the detector's own steps, and every change of the controller's sets. They become the entries of a
generated module, TraceSharedBottleneck, which specs/SharedBottleneck/SharedBottleneckLog.tla compares with the
specification's own actions. TLC computes the hidden variables (which halves of windows are open, when a decision is
due) and prints them at the end of a piece; the next piece starts with them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewindow.conformance.step_logs import Verdict
from rewindow.controllers.steps import Step

PLACES = 8
SETS = 4
CHUNK = 250
WEIGHT = 4
"""TLC's time for an entry, in steps of a controller."""
STATES = ("monitor", "judgement", "final")

GAP_MAX_NS = 1 << 41
"""A detector compares times with at most 2^40 ns (RW_DETECTION_DELAY_MAX), so a longer pause is cut to this one."""
_LONG_AGO_NS = -(1 << 43)
_LOW_BITS = 30
_LOW = (1 << _LOW_BITS) - 1
_ZERO = (0, 0)

_NO_SETS = ((0, 0),) * PLACES
_OF_DETECTOR = ("detector_join", "detector_leave", "detector_ece", "detector_loss", "judge_subflow", "judge_set")

_CONFIG = """SPECIFICATION LogSpec
CONSTANTS
    Subflows = {%s}
    Sets = {1, 2, 3, 4}
    Bottleneck <- LogBottleneck
    Spent <- LogSpent
    First = {}
    JoinMax = 0
    CloseMax = 0
    NoiseMax = 0
    Apart = FALSE
    Missing = FALSE
    Outsiders = "any"
    Printed = {}
CHECK_DEADLOCK FALSE
"""


@dataclass(slots=True)
class _Entry:
    """event: its index in the log. at_ns: time on the log's own clock, on which no pause is longer than GAP_MAX_NS."""

    event: int
    before: Step | None
    step: Step
    at_ns: int


@dataclass
class Piece:
    """start: the state in which it starts, as TLC printed it, and how much earlier the state's times are now; None: the
    initial state. base_ns: the origin of its times. is_last: it is the last piece so far, and more may follow.
    """

    log: DetectionLog
    start: tuple[Sequence[Any], int] | None
    base_ns: int
    steps: list[_Entry]
    is_last: bool


@dataclass
class Refused:
    """An entry that the specification does not allow.

    why: refused (there is no such step), differs (it leads to another state: expected), untimely (a decision was due
    before it, or it is a decision that is not due), start (the state before is none).
    """

    log: DetectionLog
    event: int
    before: Step | None
    step: Step
    why: str
    expected: list[dict[str, Any]]


class DetectionLog:
    """The log of one connection's detector. Steps that show no change of the sets are counted but not kept."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self._held: list[list[_Entry]] = [[]]
        """The entries of one detector after another; a detector ends when all subflows close."""
        self._carried: tuple[Sequence[Any], int, int] | None = None
        """The state in which the next piece starts, how much earlier its times are then, and its base."""
        self._before: Step | None = None
        self._now_ns: int | None = None
        self._elapsed_ns = 0
        self._sets: tuple[tuple[int, int], ...] = _NO_SETS

    def add(self, step: Step) -> bool:
        """Adds a step; returns whether it is kept."""
        before, self._before = self._before, step
        event = self.verdict.events
        self.verdict.events += 1
        if self.verdict.first_violation:
            return False
        if step.kind == "detector_end":
            self._held.append([])
            self._sets = _NO_SETS
            return False
        sets = tuple((p.set, p.set_state) if p else (0, 0) for p in step.paths)
        if step.kind in _OF_DETECTOR:
            if self._now_ns is not None:
                self._elapsed_ns += max(min(step.time_ns - self._now_ns, GAP_MAX_NS), -GAP_MAX_NS)
            self._now_ns, self._sets = step.time_ns, sets
        elif step.kind != "sets" and all(
            p is None or mine == known for p, mine, known in zip(step.paths, sets, self._sets, strict=True)
        ):
            return False
        self._held[-1].append(_Entry(event, before, step, self._elapsed_ns))
        return True

    def cut(self) -> list[Piece]:
        """All kept entries, as pieces."""
        pieces: list[Piece] = []
        for n, steps in enumerate(self._held):
            if n:
                self._carried = None
            if steps:
                start = self._carried[:2] if self._carried else None
                base = self._carried[2] if self._carried else steps[0].at_ns
                pieces.append(Piece(self, start, base, steps, n == len(self._held) - 1))
        self._held = [[]]
        return pieces

    def carry(self, piece: Piece, whole: Sequence[Any]) -> None:
        """whole: the state in which TLC left the piece."""
        if piece.is_last:
            base = piece.steps[-1].at_ns
            self._carried = whole, base - piece.base_ns, base


# As TLA+


def _pair(ns: int) -> str:
    ns = max(min(ns, 1 << 60), -(1 << 60))
    return f"<<{ns >> _LOW_BITS},{ns & _LOW}>>"


def _members(bits: int) -> list[int]:
    return [i + 1 for i in range(PLACES) if bits >> i & 1]


def _set(members: Sequence[int]) -> str:
    return "{" + ",".join(map(str, members)) + "}"


def _sequence(values: Iterable[Any], write: Callable[[Any], str] = str) -> str:
    return "<<" + ",".join(map(write, values)) + ">>"


def _shown(step: Step, subflows: int) -> str:
    of_subflows = _sequence(
        f"<<TRUE,{p.set},{p.set_state},{p.asked},{_set(_members(p.seen))}>>" if p else "<<FALSE,0,0,0,{}>>"
        for p in step.paths[:subflows]
    )
    of_sets = _sequence(
        f"<<{asked},{_set(_members(seen))}>>" for asked, seen in zip(step.set_asked, step.set_seen, strict=True)
    )
    return f"<<{of_subflows},{of_sets}>>"


_NOTHING = (False, 0, (), ())


def _first(now_ns: int) -> Sequence[Any]:
    """The initial state without subflows, in the form of _carried."""
    low = now_ns & _LOW
    return (
        (),
        (),
        ((),) * SETS,
        (),
        (),
        (_NOTHING,) * SETS,
        (),
        (),
        (now_ns >> _LOW_BITS, low),
        (),
        (),
        *((_ZERO,) * SETS,) * 2,
    )


def _carried(whole: Sequence[Any], earlier_ns: int, subflows: int) -> str:
    """A state that TLC printed (Whole), with times earlier by earlier_ns, for `subflows` subflows."""
    live, state, members, recent, alone, ofset, passed, used, now, ece, event, since, due = whole

    def judgement(j: Sequence[Any]) -> str:
        waits, trigger, seen, open_ = j
        return f"<<{'TRUE' if waits else 'FALSE'},{trigger},{_set(seen)},{_set(open_)}>>"

    def time(t: Sequence[int]) -> str:
        return _pair(max((t[0] << _LOW_BITS) + t[1] - earlier_ns, _LONG_AGO_NS)) if t else "<<>>"

    def each(values: Sequence[Any], none: Any, count: int = subflows) -> Sequence[Any]:
        return [*values, *[none] * (count - len(values))]

    parts = (
        _set(live), _sequence(each(state, 0)), _sequence(members, _set), _set(recent),
        _sequence(each(alone, _NOTHING), judgement), _sequence(ofset, judgement), _set(passed), _set(used), time(now),
        _sequence(each(ece, ()), time), _sequence(each(event, _ZERO), time),
        *(_sequence(each(t, _ZERO, SETS + subflows), time) for t in (since, due)),
    )  # fmt: skip
    return f"<<{','.join(parts)}>>"


def _entry(entry: _Entry, base_ns: int, shown: dict[str, int], subflows: int) -> str:
    step = entry.step
    place = shown.setdefault(_shown(step, subflows), len(shown) + 1)
    if step.kind not in _OF_DETECTOR:
        return f'<<"sets",1,<<0,0>>,<<>>,{place}>>'
    is_known = step.path < (SETS if step.kind == "judge_set" else subflows)
    srtts = ""
    if step.kind in ("detector_ece", "detector_loss"):
        srtts = ",".join(_pair(p.srtt_ns) if p else "<<0,0>>" for p in step.paths[:subflows])
    time = _pair(entry.at_ns - base_ns)
    return f'<<"{step.kind if is_known else "none"}",{step.path + 1},{time},<<{srtts}>>,{place}>>'


def _places(piece: Piece) -> int:
    """The number of subflows that the specification must have for this piece."""
    then = len(piece.start[0][1]) if piece.start else 0
    return max(then, *(max((i + 1 for i, p in enumerate(e.step.paths) if p), default=1) for e in piece.steps))


def write(folder: Path, source: Path, pieces: Sequence[Piece]) -> None:
    """Writes into `folder` all that TLC needs for them; source: of the specifications."""
    subflows = max(map(_places, pieces))
    for name in ("SharedBottleneck.tla", "SharedBottleneckLog.tla"):
        shutil.copy(source / "SharedBottleneck" / name, folder)
    with (folder / "TraceSharedBottleneck.tla").open("w", encoding="ascii") as out:
        out.write("---- MODULE TraceSharedBottleneck ----\nEXTENDS Integers\n")
        for n, piece in enumerate(pieces, 1):
            # TLC evaluates each definition once, so long literals have definitions of their own.
            shown: dict[str, int] = {}
            entries = [_entry(e, piece.base_ns, shown, subflows) for e in piece.steps]
            chunks = [",\n".join(entries[i : i + CHUNK]) for i in range(0, len(entries), CHUNK)]
            out.writelines(f"P{n}C{k} == <<{text}>>\n" for k, text in enumerate(chunks))
            out.write(f"P{n}S == {_sequence(shown)}\n")
            start, earlier_ns = piece.start or (_first(piece.steps[0].at_ns - piece.base_ns), 0)
            out.write(
                f"P{n} == [first|->{'FALSE' if piece.start else 'TRUE'},\n"
                f"start|->{_carried(start, earlier_ns, subflows)},\n"
                f"entries|->{_sequence(f'P{n}C{k}' for k in range(len(chunks)))},shown|->P{n}S]\n"
            )
        out.write(f"Pieces == {_sequence(f'P{n}' for n in range(1, len(pieces) + 1))}\n====\n")
    (folder / "SharedBottleneckLog.cfg").write_text(
        _CONFIG % ", ".join(map(str, range(1, subflows + 1))), encoding="ascii"
    )


# TLC's output


def read(pieces: Sequence[Piece], said: Iterable[tuple[str, int, list[Any]]]) -> tuple[list[Refused], int | None]:
    """The refused entries, and how many distinct states TLC must have found; None when it did not finish a piece.

    Stores the last state of each piece in its log.
    """
    refused, states, through = [], 0, set()
    for why, n, (at, ticks, found) in said:
        piece = pieces[n - 1]
        through.add(n)
        if why == "followed":
            piece.log.carry(piece, found)
        else:
            e = piece.steps[min(at, len(piece.steps) - 1)]
            expected = [_specified(found)] if why == "differs" else []
            refused.append(Refused(piece.log, e.event, e.before, e.step, why, expected))
        # TraceMatched: one state for each entry, one for each half of a window that ended, and the first one.
        states += (at + ticks + 1) if why != "start" else 0
    return refused, states if len(through) == len(pieces) else None


def _judgement(asked: int, seen: Sequence[int]) -> dict[str, Any]:
    return {"asked_by": asked - 1 if asked else None, "seen": [s - 1 for s in seen]}


def _specified(found: Sequence[Any]) -> dict[str, Any]:
    subflows, sets = found
    return {
        "subflows": [
            {"path": i, "set": number, "state": STATES[state]} | _judgement(asked, seen)
            for i, (live, number, state, asked, seen) in enumerate(subflows)
            if live
        ],
        "sets": [{"set": i} | _judgement(asked, seen) for i, (asked, seen) in enumerate(sets, 1) if asked],
    }


def shown(step: Step) -> dict[str, Any]:
    """A state in readable form: the set of each subflow, and the subflows that waiting decisions have seen."""
    found = _specified(
        (
            [
                (True, p.set, min(p.set_state, 2), p.asked, _members(p.seen)) if p else (False, 0, 0, 0, [])
                for p in step.paths
            ],
            [(asked, _members(seen)) for asked, seen in zip(step.set_asked, step.set_seen, strict=True)],
        )
    )
    for subflow in found["subflows"]:
        p = step.paths[subflow["path"]]
        subflow["srtt_s"] = p.srtt_ns / 1e9 if p else None
    return found
