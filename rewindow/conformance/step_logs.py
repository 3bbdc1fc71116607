"""Connections' steps as logs, cut into pieces that TLC follows, and the verdict on each log.

docs/decisions/conformance.md explains why following the pieces is as strict as following the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rewindow.conformance.tolerances import ONE, Rules, con_ssthresh_q16
from rewindow.controllers.steps import UNSET, Step

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
_UNCOUPLED, _LEFT_SINCE = 1, 2


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
        return found

    def cut(self) -> Iterator[Piece]:
        """All steps so far, as pieces."""
        at = 0
        while at < len(self.steps):
            live = [i for i, p in enumerate(self.before.paths) if p] if self.before else []
            number = {place: n + 1 for n, place in enumerate(live)}
            start = Start(self.before, dict(self.memory), dict(number))
            used, numbers, begins = len(live), [], at
            while at < len(self.steps) and at - begins < PIECE_STEPS:
                step = self.steps[at]
                if step.kind == "join":
                    if used >= PLACES and at > begins:
                        break
                    used += 1
                    number[step.path] = used
                numbers.append(number.get(step.path, 1))
                if any(p and i not in number for i, p in enumerate(step.paths)):
                    used = max(used, PLACES)  # a subflow that appears without a join needs a number, to be refused
                self._remember(step)
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

    def _remember(self, step: Step) -> None:
        """Remembers the values that an undo would restore, which the log does not have (rw_window_kept_ssthresh,
        css_left_by_loss, css_exit)."""
        before = self.before.paths[step.path] if self.before else None
        if step.kind in ("loss", "ece", "timeout") and before:
            threshold = max(before.ssthresh_q16, _three_quarters(before.cwnd_q16))
            coupled = self.before is not None and self.before.initial_ss and before.initial
            self.memory[step.path] = before.cwnd_q16, threshold, _UNCOUPLED if coupled else 0
            return
        if step.kind == "verdict" and step.path in self.memory:
            cwnd, threshold, left = self.memory[step.path]
            self.memory[step.path] = cwnd, threshold, 0 if left == _UNCOUPLED else left
        if step.kind in ("undo", "leave", "join"):
            self.memory.pop(step.path, None)
        if step.kind in ("ack", "join") and self.before and _leaves(self.before, step):
            self.memory = {
                path: (cwnd, threshold, _LEFT_SINCE if left else 0)
                for path, (cwnd, threshold, left) in self.memory.items()
            }


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
