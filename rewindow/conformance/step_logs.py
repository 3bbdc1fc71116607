"""Connections' steps as logs, cut into pieces that TLC follows, and the verdict on each log.

docs/decisions/conformance.md explains why following the pieces is as strict as following the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rewindow.conformance.tolerances import ONE, Arithmetic, Rules, con_ssthresh_q16, counted
from rewindow.controllers.steps import UNSET, PathState, Step

SPECIFIED = {
    "css": "CoupledSlowStart",
    "tccc": "CoupledSlowStart",
    "tccc+": "CoupledSlowStart",
    "sbcc": "SharedBottleneck",
}
"""Algorithm -> the specification of its steps."""

PIECE_STEPS = 5000
PLACES = 8

FINAL = 2
"""set_state of a path whose detector has decided."""

Followed = tuple[int, int, int]
"""The values that an undo restores (`before` of the specification): window and threshold in Q16, and one of these."""
_UNCOUPLED, _LEFT_SINCE, _APART = 1, 2, 3
_NOTHING: Followed = (0, 0, 0)
_UNTOLD = 0
"""No controller's alpha."""


@dataclass
class Refusal:
    """A step that the specification does not allow.

    before: the step before it; None when it is the first. show: makes a state readable.
    """

    event: int
    before: Step | None
    step: Step
    memory: dict[int, Followed]
    expected: list[dict[str, Any]] = field(default_factory=list)
    why: str = "refused"
    show: Callable[[Step], dict[str, Any]] | None = None

    def as_json(self) -> dict[str, Any]:
        s, show = self.step, self.show or _shown
        return {
            "event": self.event,
            "time_ns": s.time_ns,
            "row": s.row,
            "step": s.kind,
            "path": s.path,
            "acked_segments": s.acked_segments,
            "before": None if self.before is None else show(self.before),
            "expected": self.expected,
            "found": show(s),
            "why": self.why,
        }


@dataclass
class Verdict:
    """The verdict on one connection under one algorithm. events: steps in its log."""

    connection: int
    algorithm: str
    events: int = 0
    first_violation: Refusal | None = None

    @property
    def conforms(self) -> bool:
        return self.first_violation is None

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.connection,
            "algorithm": self.algorithm,
            "specification": SPECIFIED[self.algorithm],
            "conforms": self.conforms,
            "events": self.events,
            "first_violation": self.first_violation.as_json() if self.first_violation else None,
        }


def _segments(q16: int) -> float | None:
    return None if q16 == UNSET else q16 / ONE


def _shown(step: Step) -> dict[str, Any]:
    """A state in readable form: windows in segments, RTTs in seconds."""
    return {
        "initial_slow_start": step.initial_ss,
        "alpha": step.alpha_q32 / (1 << 32),
        "con_ssthresh": con_ssthresh_q16(step) / ONE,
        "subflows": [
            {
                "path": i,
                "cwnd": p.cwnd_q16 / ONE,
                "ssthresh": _segments(p.ssthresh_q16),
                "coupled": p.initial,
                "rtt_s": p.coupled_rtt_ns / 1e9 or None,
            }
            for i, p in enumerate(step.paths)
            if p
        ],
    }


# Pieces of a log


@dataclass
class Start:
    """A state with the subflows' numbers in a piece: path -> number."""

    step: Step | None
    memory: dict[int, Followed]
    number: dict[int, int]


@dataclass
class Piece:
    log: Log
    first: bool
    begins: int
    start: Start
    steps: list[Step]
    numbers: list[int]
    """Of the subflow of each step."""
    end: dict[int, int]
    """path -> number, when the piece ends."""
    memory: dict[int, Followed]
    used: int

    def refusal(self, at: int, why: str) -> Refusal:
        """The refusal of its step at this index."""
        at = min(at, len(self.steps) - 1)
        replayed = Log(Verdict(0, ""))
        replayed.before, replayed.memory, replayed.steps = self.start.step, dict(self.start.memory), self.steps[:at]
        for _ in replayed.cut():
            pass
        return Refusal(self.begins + at, replayed.before, self.steps[at], replayed.memory, why=why)


class Log:
    """One connection under one controller: steps not yet checked, and where they begin."""

    def __init__(self, verdict: Verdict, rules: Rules | None = None) -> None:
        self.verdict = verdict
        self.rules = rules
        """The rules of its controller; one run of TLC may follow logs of several controllers."""
        self.before: Step | None = None
        self.memory: dict[int, Followed] = {}
        self.steps: list[Step] = []

    def add(self, step: Step) -> bool:
        self.steps += self._verdicts(step) or [step]
        return True

    def _verdicts(self, step: Step) -> list[Step]:
        """A step of tccc+ for each subflow that shares its bottleneck with no other, by the detector (TCCC IV.D)."""
        if step.kind != "sets" or self.verdict.algorithm != "tccc+":
            return []
        last = self.steps[-1] if self.steps else self.before
        paths, found = list(last.paths if last else step.paths), []
        for i, p in enumerate(step.paths):
            if (
                p
                and p.set_state == FINAL
                and not any(q and p.set and q.set == p.set for k, q in enumerate(step.paths) if k != i)
            ):
                paths[i] = p
                initial = step.initial_ss or any(q and q.initial for q in paths)
                found.append(replace(step, kind="verdict", path=i, paths=tuple(paths), initial_ss=initial))
        return [replace(one, alpha_q32=_UNTOLD) for one in found[:-1]] + found[-1:]

    def _told(self, step: Step) -> Step:
        """The step with alpha, which the log has only after the last of several verdicts."""
        if step.alpha_q32 != _UNTOLD or self.before is None or self.rules is None:
            return step
        alpha, alpha0 = self.before.alpha_q32, self.rules.alpha0_q32
        total, after = totals(self.before, self.memory, step.path)
        if not self.before.initial_ss or total == after:
            return replace(step, alpha_q32=alpha)
        if after == 0:
            return replace(step, alpha_q32=alpha0)
        low, high = Arithmetic(self.rules).rescaled(alpha, con_ssthresh_q16(step), total, after)
        return replace(step, alpha_q32=min((low + high) // 2, alpha0))

    def cut(self) -> Iterator[Piece]:
        """All steps so far, as pieces."""
        at = 0
        while at < len(self.steps):
            live = [i for i, p in enumerate(self.before.paths) if p] if self.before else []
            number = {place: n + 1 for n, place in enumerate(live)}
            start = Start(self.before, dict(self.memory), dict(number))
            used, numbers, begins = len(live), [], at
            while at < len(self.steps) and at - begins < PIECE_STEPS:
                step = self.steps[at] = self._told(self.steps[at])
                if step.kind == "join":
                    if used >= PLACES and at > begins:
                        break
                    used += 1
                    number[step.path] = used
                numbers.append(number.get(step.path, 1))
                if any(p and i not in number for i, p in enumerate(step.paths)):
                    used = max(used, PLACES)  # a subflow that appears without a join needs a number, to be refused
                remember(self.memory, self.before, step)
                self.before = step
                at += 1
                if step.kind == "leave":
                    number.pop(step.path, None)
            yield Piece(
                self,
                start.step is None,
                self.verdict.events + begins,
                start,
                self.steps[begins:at],
                numbers,
                number,
                dict(self.memory),
                used,
            )
        self.verdict.events += len(self.steps)
        self.steps = []


def remember(memory: dict[int, Followed], before: Step | None, step: Step) -> None:
    """Adds a step to the values that the log does not have: what an undo would restore, and who shares with no other
    (rw_window_kept_ssthresh, css_left_by_loss, css_exit, plus_regrouped)."""
    own = before.paths[step.path] if before else None
    if step.kind in ("loss", "ece", "timeout") and before and own:
        threshold = max(own.ssthresh_q16, _three_quarters(own.cwnd_q16))
        left = _APART if is_apart(memory, step.path) else _UNCOUPLED if before.initial_ss and own.initial else 0
        memory[step.path] = own.cwnd_q16, threshold, left
        return
    if step.kind == "verdict":
        cwnd, threshold, _ = memory.get(step.path, _NOTHING)
        memory[step.path] = cwnd, threshold, _APART
    if step.kind == "undo" and is_apart(memory, step.path):
        memory[step.path] = 0, 0, _APART
    elif step.kind in ("undo", "leave", "join"):
        memory.pop(step.path, None)
    if step.kind in ("ack", "join") and before and _leaves(before, step):
        for path, (cwnd, threshold, left) in memory.items():
            memory[path] = cwnd, threshold, _LEFT_SINCE if left == _UNCOUPLED else left


def sharing(paths: Sequence[PathState | None], memory: Mapping[int, Followed]) -> list[PathState | None]:
    """The paths, without those that share their bottleneck with no other."""
    return [None if is_apart(memory, i) else p for i, p in enumerate(paths)]


def totals(before: Step, memory: Mapping[int, Followed], path: int) -> tuple[int, int]:
    """The windows that count for alpha, Q16, before and after the path is taken out of them."""
    windows = {i: counted(p) for i, p in enumerate(sharing(before.paths, memory)) if p}
    total = sum(windows.values())
    return total, total - windows.get(path, 0)


def is_apart(memory: Mapping[int, Followed], path: int) -> bool:
    """Whether the path has been found to share its bottleneck with no other (css_takes_part)."""
    return memory.get(path, _NOTHING)[2] == _APART


def _leaves(before: Step, step: Step) -> bool:
    """Whether the connection leaves coupled slow start as a whole."""
    coupled = any(p and p.initial for p in before.paths)
    own, then = before.paths[step.path], step.paths[step.path]
    # A subflow that passes its own threshold keeps it; one that leaves with the connection gets its window as
    # threshold.
    alone = step.kind == "ack" and own and then and own.initial and then.ssthresh_q16 != own.cwnd_q16
    return before.initial_ss and not step.initial_ss and coupled and not alone


def _three_quarters(w_q16: int) -> int:
    """Three quarters of a window, in whole segments as in Linux."""
    return (w_q16 >> 17 << 16) + (w_q16 >> 18 << 16)
