"""TLC decides whether a controller's steps on a capture conform to its specification.

The steps of each connection are logs (step_logs), which are cut into pieces. Pieces are written as TLA+: those of a
controller with coupled slow start by coupled_slow_start, those of SB-CC's detector by shared_bottleneck. This module
runs TLC on them.
"""

from __future__ import annotations

import concurrent.futures
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewindow import confined, specs
from rewindow.conformance import coupled_slow_start, shared_bottleneck
from rewindow.conformance.step_logs import SPECIFIED, Log, Piece, Refusal, Verdict
from rewindow.conformance.tolerances import Arithmetic, Rules, con_ssthresh_q16, own_ssthresh_q16, rules_of
from rewindow.controllers.registry import algorithms
from rewindow.controllers.steps import Step
from rewindow.core import Choice
from rewindow.errors import BadOption, RewindowError

BATCH_STEPS = 40000
"""Steps for one run of TLC. Memory holds the steps of two runs."""
PROCESSES = 2
SECONDS_MAX = 600
MEMORY_MB = 1024
_FIXED = {
    "mode": "paper",
    "L_scale": "off",
    "join_weighted": "off",
    "ssthresh": "static",
    "aca_period": "ack",
    "p_est": "flight",
    "detector": None,
}


class CheckFailed(RewindowError):
    """TLC gave no verdict. outcome: that of its run; None when its answer was inconsistent."""

    def __init__(self, reason: str, outcome: specs.Outcome | None = None) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(frozen=True)
class Runs:
    """How TLC runs: the folder of the specifications, how many processes at once, the limits of each
    (specs.run_tlc)."""

    folder: Path = specs.SPECS
    processes: int = PROCESSES
    memory_mb: int = MEMORY_MB
    seconds_max: float = SECONDS_MAX
    disk_bytes_max: int | None = None
    confinement: Sequence[str] = ()


@dataclass(frozen=True)
class Progress:
    """events: steps that were added; followed: those that TLC has finished. Likewise for the pieces of the logs."""

    events: int = 0
    followed: int = 0
    pieces: int = 0
    pieces_followed: int = 0


def _said(outcome: specs.Outcome) -> Iterator[tuple[str, int, list[Any]]]:
    """The tuples that the specification printed: kind, name of the piece, further values."""
    for text in outcome.printed:
        what, piece, *more = specs.parse_value(text)
        yield what, piece, more


class _Tlc:
    """Runs TLC on pieces. on_states is called now and then with the number of states that a run has found."""

    def __init__(self, jar: Path, runs: Runs, watched: bool = False, in_kernel: bool = False) -> None:
        self.jar, self.runs, self.watched, self.in_kernel = jar, runs, watched, in_kernel
        self.stop = threading.Event()

    def run(
        self,
        rules: Rules,
        shift: int,
        pieces: Sequence[Piece],
        *,
        explaining: bool = False,
        on_states: Callable[[int], None] = lambda distinct: None,
    ) -> specs.Outcome:
        subflows = max(p.used for p in pieces) or 1
        writer = coupled_slow_start.Writer(Arithmetic(rules), shift, subflows, self.in_kernel)
        return self.run_module(
            "CoupledSlowStartLog",
            lambda folder: coupled_slow_start.write(folder, self.runs.folder, writer, pieces, explaining),
            on_states,
        )

    def run_module(
        self, module: str, write: Callable[[Path], None], on_states: Callable[[int], None] = lambda distinct: None
    ) -> specs.Outcome:
        """Runs TLC on the files that `write` writes into a folder."""

        def still(outcome: specs.Outcome) -> bool:
            on_states(outcome.distinct)
            return True

        runs = self.runs
        with tempfile.TemporaryDirectory(prefix="rewindow-trace-") as temporary:
            folder = Path(temporary)
            write(folder)
            outcome = specs.run_tlc(
                folder,
                f"{module}.tla",
                f"{module}.cfg",
                tlc=self.jar,
                memory_mb=runs.memory_mb,
                seconds_max=runs.seconds_max,
                disk_bytes_max=runs.disk_bytes_max,
                confinement=runs.confinement,
                is_trace=True,
                stop=self.stop,
                on_progress=still if self.watched else None,
            )
        outcome.errors = [e for e in outcome.errors if not e.startswith(confined.NOT_ISOLATED)]
        if outcome.exit != 0 or outcome.stopped or outcome.errors:
            reason = outcome.stopped or "; ".join(outcome.errors) or f"exit status {outcome.exit}"
            raise CheckFailed(f"TLC gives no answer: {reason[:2000]}", outcome)
        return outcome


def _follow(
    tlc: _Tlc,
    rules: Rules,
    shift: int,
    pieces: Sequence[Piece],
    on_states: Callable[[int], None] = lambda distinct: None,
) -> list[tuple[Piece, int, str]]:
    """The refused pieces, and the index of the refused step of each."""
    outcome = tlc.run(rules, shift, pieces, on_states=on_states)
    refused: dict[int, tuple[str, int]] = {}
    for what, n, (at,) in _said(outcome):
        refused[n] = what, at
    # TraceMatched: every step of every piece that was not refused has been taken.
    expected = sum(len(p.steps) + 1 for p in pieces)
    for n, (why, at) in refused.items():
        expected -= len(pieces[n - 1].steps) - at + (why == "start")
    if outcome.distinct != expected:
        raise CheckFailed(f"TLC found {outcome.distinct} states of a log with {expected}")
    return [(pieces[n - 1], at, why) for n, (why, at) in sorted(refused.items())]


def _follow_detections(
    tlc: _Tlc, pieces: Sequence[shared_bottleneck.Piece], on_states: Callable[[int], None]
) -> list[tuple[Verdict, Refusal]]:
    outcome = tlc.run_module(
        "SharedBottleneckLog", lambda folder: shared_bottleneck.write(folder, tlc.runs.folder, pieces), on_states
    )
    refused, expected = shared_bottleneck.read(pieces, _said(outcome))
    if outcome.distinct != expected:
        raise CheckFailed(f"TLC found {outcome.distinct} states of a log with {expected}")
    return [
        (r.log.verdict, Refusal(r.event, r.before, r.step, {}, r.expected, r.why, shared_bottleneck.shown))
        for r in refused
    ]


def _explain(tlc: _Tlc, rules: Rules, refusals: Sequence[Refusal]) -> None:
    """Writes into each refusal the states that the specification allows after the state before."""
    pieces = []
    for r in refusals:
        log = Log(Verdict(0, rules.name))
        log.before, log.memory, log.steps = r.before, dict(r.memory), [r.step]
        pieces += list(log.cut())
    # One unit for all: the largest.
    shift = max(coupled_slow_start.shift_of(p) for p in pieces)
    outcome = tlc.run(rules, shift, pieces, explaining=True)
    allowed: dict[int, list[Any]] = {}
    for what, n, more in _said(outcome):
        if what == "allowed" and more not in allowed.setdefault(n, []):
            allowed[n].append(more)
    for n, (piece, refusal) in enumerate(zip(pieces, refusals, strict=True), 1):
        refusal.expected = coupled_slow_start.merged(allowed.get(n, []), piece, shift)


# Whole logs


def rules(choice: Choice) -> Rules | None:
    """The rules of an algorithm with a specification; None where the specification has no windows.

    Raises BadOption for options that the specification does not have.
    """
    if choice.name not in SPECIFIED:
        raise BadOption(f"{choice.name}: no specification; there is one of {', '.join(SPECIFIED)}")
    described = next(a for a in algorithms() if a.name == choice.name)
    options = {o.name: o.default for o in described.options} | choice.options
    if SPECIFIED[choice.name] == "SharedBottleneck":
        if options.get("detector", described.detector) != described.detector:
            raise BadOption(f"{choice.name}: the specification speaks of detector={described.detector} only")
        return None
    for name, value in _FIXED.items():
        if value is not None and options.get(name, value) != value:
            raise BadOption(f"{choice.name}: the specification speaks of {name}={value} only")
    found = rules_of(choice.name, options)
    if found.alpha0_q32 > 5 << 31:
        raise BadOption(f"{choice.name}: a trace has an alpha0 of 2.5 at most")
    return found


def _constants(rules: Rules | None) -> tuple[int, ...]:
    return (rules.floor_q16, rules.cap_q16, rules.alpha0_q32) if rules else ()


_Answer = concurrent.futures.Future[list[tuple[Verdict, Refusal]]]


class Checker:
    """Takes the steps of any connections under these controllers, in the order in which they happened, then judges
    them.

    Memory is bounded by BATCH_STEPS steps and the input of two runs of TLC, however long the logs are.
    on_progress is called about once a second while TLC runs; an exception that it raises ends all runs.
    in_kernel: a real kernel took the steps, which sets windows of its own after timeouts.
    Raises CheckFailed, specs.CheckerMissing.
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        tlc: Path,
        *,
        runs: Runs | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        in_kernel: bool = False,
    ) -> None:
        self._names = [c.name for c in choices]
        self._rules = [rules(c) for c in choices]
        self._runs = runs or Runs()
        self._tlc = _Tlc(tlc, self._runs, watched=on_progress is not None, in_kernel=in_kernel)
        self._on_progress = on_progress
        self._logs: dict[tuple[int, int], Log | shared_bottleneck.DetectionLog] = {}
        self._held = 0
        self._pool = concurrent.futures.ThreadPoolExecutor(self._runs.processes)
        self._running: dict[_Answer, Sequence[Piece | shared_bottleneck.Piece]] = {}
        self._detecting: _Answer | None = None
        """A piece of a detector's log starts in the state in which TLC left the piece before, so only one run at a
        time."""
        self._states: dict[int, int] = {}
        """Number of each current run -> the states that it has found."""
        self._events = self._followed = self._pieces = self._pieces_followed = 0

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind:
            self._tlc.stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def progress(self) -> Progress:
        under_way = sum(list(self._states.values()))
        return Progress(self._events, self._followed + under_way, self._pieces, self._pieces_followed)

    def add(self, step: Step) -> None:
        key = step.connection, step.choice
        log = self._logs.get(key)
        if log is None:
            verdict = Verdict(step.connection, self._names[step.choice])
            known = self._rules[step.choice]
            log = self._logs[key] = Log(verdict, known) if known else shared_bottleneck.DetectionLog(verdict)
        held = log.add(step)
        self._held += held * (1 if isinstance(log, Log) else shared_bottleneck.WEIGHT)
        self._followed += not held
        self._events += 1
        if self._held >= BATCH_STEPS:
            self._submit()

    def _submit(self) -> None:
        """Gives all collected steps to TLC."""
        batches: dict[tuple[int, ...], tuple[int, list[Piece]]] = {}
        while self._detecting in self._running:
            self._take()
        detected: list[shared_bottleneck.Piece] = []
        for (_, choice), log in self._logs.items():
            if isinstance(log, shared_bottleneck.DetectionLog):
                detected += log.cut()
                continue
            for piece in log.cut():
                # The constants of a run; controllers with equal constants share the run.
                key = (
                    coupled_slow_start.shift_of(piece),
                    con_ssthresh_q16(piece.steps[0]),
                    own_ssthresh_q16(piece.steps[0]),
                    *_constants(self._rules[choice]),
                )
                batches.setdefault(key, (choice, []))[1].append(piece)
        self._held = 0
        self._pieces += sum(len(pieces) for _, pieces in batches.values()) + len(detected)
        if detected:
            self._detecting = self._pool.submit(self._judge_detections, detected)
            self._running[self._detecting] = detected
        for (shift, *_), (choice, pieces) in batches.items():
            while len(self._running) >= 2 * self._runs.processes:
                self._take()
            self._running[self._pool.submit(self._judge, choice, shift, pieces)] = pieces

    def _judge(self, choice: int, shift: int, pieces: list[Piece]) -> list[tuple[Verdict, Refusal]]:
        """In a thread of the pool: one run of TLC."""
        known = self._rules[choice]
        assert known
        refused = _follow(self._tlc, known, shift, pieces, self._counter(pieces))
        return [(piece.log.verdict, piece.refusal(at, why)) for piece, at, why in refused]

    def _judge_detections(self, pieces: list[shared_bottleneck.Piece]) -> list[tuple[Verdict, Refusal]]:
        """The same for detectors."""
        return _follow_detections(self._tlc, pieces, self._counter(pieces))

    def _counter(self, pieces: Sequence[Piece | shared_bottleneck.Piece]) -> Callable[[int], None]:
        steps = sum(len(p.steps) for p in pieces)

        def count(distinct: int) -> None:
            self._states[id(pieces)] = min(max(distinct - len(pieces), 0), steps)

        return count

    def _wait(self, futures: Iterable[concurrent.futures.Future[Any]]) -> set[concurrent.futures.Future[Any]]:
        """Waits until at least one is done; returns those that are."""
        while True:
            done, _ = concurrent.futures.wait(
                futures,
                timeout=None if self._on_progress is None else 1.0,
                return_when=concurrent.futures.FIRST_COMPLETED,
            )
            if self._on_progress:
                self._on_progress(self.progress())
            if done:
                return done

    def _take(self) -> None:
        for future in self._wait(self._running):
            pieces = self._running.pop(future)
            refused = future.result()
            self._states.pop(id(pieces), None)
            self._followed += sum(len(p.steps) for p in pieces)
            self._pieces_followed += len(pieces)
            for verdict, refusal in refused:
                if verdict.first_violation is None or refusal.event < verdict.first_violation.event:
                    verdict.first_violation = refusal

    def verdicts(self, explain: bool = True) -> list[Verdict]:
        """The verdicts on every connection with a step, by connection and algorithm. No step can be added afterwards.

        explain: also ask the specification for the states that it allows instead of a refused one.
        """
        self._submit()
        while self._running:
            self._take()
        for choice, rules_ in enumerate(self._rules if explain else ()):
            if rules_ is None:
                continue
            refused = [
                log.verdict.first_violation
                for (_, k), log in self._logs.items()
                if k == choice and log.verdict.first_violation
            ]
            # con_ssth and the initial threshold of subflows are constants of a run.
            by_con: dict[tuple[int, int], list[Refusal]] = {}
            for r in refused:
                by_con.setdefault((con_ssthresh_q16(r.step), own_ssthresh_q16(r.step)), []).append(r)
            for alike in by_con.values():
                for i in range(0, len(alike), 100):
                    explained = self._pool.submit(_explain, self._tlc, rules_, alike[i : i + 100])
                    self._wait([explained])
                    explained.result()
        return [log.verdict for _, log in sorted(self._logs.items(), key=lambda item: item[0])]


def conformance(choices: Sequence[Choice], steps: Iterable[Step], tlc: Path, explain: bool = True) -> list[Verdict]:
    """Verdicts on the given steps. Raises BadOption, CheckFailed, specs.CheckerMissing."""
    with Checker(choices, tlc) as checker:
        for step in steps:
            checker.add(step)
        return checker.verdicts(explain)
