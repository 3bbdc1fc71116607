"""Does what a controller did on a capture conform to its specification? TLC decides.

The steps of each connection (rewindow.steps) become pieces of a generated module, TraceCoupledSlowStart, which
specs/CoupledSlowStart/CoupledSlowStartLog.tla holds against the specification's own actions.
docs/decisions/conformance.md says why pieces are as good as the whole.
"""

from __future__ import annotations

import concurrent.futures
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewindow import specs
from rewindow.algorithms import algorithms
from rewindow.core import Choice
from rewindow.errors import BadOption, RewindowError
from rewindow.intervals import INITIAL_WINDOW, ONE, Arithmetic, Interval, Rules, con_ssthresh_q16, counted, rules_of
from rewindow.steps import UNSET, Step

SPECIFIED = {"css": "CoupledSlowStart", "tccc": "CoupledSlowStart", "tccc+": "CoupledSlowStart"}
"""The specification that an algorithm's steps are held against."""

PIECE_STEPS = 5000
BATCH_STEPS = 40000
"""Steps that one run of TLC is given, and that are kept in memory for each of two."""
PROCESSES = 2
PLACES = 8
SECONDS_MAX = 600
MEMORY_MB = 1024
CHUNK = 250
_LARGEST = (1 << 31) - 1
_SUM_MAX = 1 << 30
_FIXED = {
    "mode": "paper",
    "L_scale": "off",
    "join_weighted": "off",
    "ssthresh": "static",
    "aca_period": "ack",
    "p_est": "flight",
    "detector": None,
}

Followed = tuple[int, int, int]
"""What an undo gives back (`before` of the specification): window and threshold in Q16, and one of these."""
_UNCOUPLED, _LEFT_SINCE = 1, 2


class CheckFailed(RewindowError):
    """TLC did not come to an answer."""


@dataclass
class Refusal:
    """A step that the specification does not allow. before: the step before it; None when it is the first."""

    event: int
    before: Step | None
    step: Step
    memory: dict[int, Followed]
    expected: list[dict[str, Any]] = field(default_factory=list)
    why: str = "refused"

    def as_json(self) -> dict[str, Any]:
        s = self.step
        return {
            "event": self.event,
            "time_ns": s.time_ns,
            "row": s.row,
            "step": s.kind,
            "path": s.path,
            "acked_segments": s.acked_segments,
            "before": None if self.before is None else _shown(self.before),
            "expected": self.expected,
            "found": _shown(s),
        }


@dataclass
class Verdict:
    """Of one connection under one algorithm. events: steps in its log."""

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
    """A state as people read it: windows in segments, RTTs in seconds."""
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
class _Start:
    """A state with the subflows' numbers in a piece: path -> number."""

    step: Step | None
    memory: dict[int, Followed]
    number: dict[int, int]


@dataclass
class _Piece:
    log: _Log
    first: bool
    begins: int
    start: _Start
    steps: list[Step]
    numbers: list[int]
    """Of the subflow of each step."""
    end: dict[int, int]
    """path -> number, when the piece ends."""
    memory: dict[int, Followed]
    used: int


class _Log:
    """One connection under one controller: steps not yet checked, and where they begin."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.before: Step | None = None
        self.memory: dict[int, Followed] = {}
        self.steps: list[Step] = []

    def cut(self) -> Iterator[_Piece]:
        """All that is there, as pieces."""
        at = 0
        while at < len(self.steps):
            live = [i for i, p in enumerate(self.before.paths) if p] if self.before else []
            number = {place: n + 1 for n, place in enumerate(live)}
            start = _Start(self.before, dict(self.memory), dict(number))
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
                    used = max(used, PLACES)  # whoever appears without a join needs a number to be seen by
                self._remember(step)
                self.before = step
                at += 1
                if step.kind == "leave":
                    number.pop(step.path, None)
            yield _Piece(
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
        """What an undo would give back: the log does not tell it (current_ssthresh, css_left_by_loss, css_exit)."""
        before = self.before.paths[step.path] if self.before else None
        if step.kind in ("loss", "ece", "timeout") and before:
            threshold = 0
            if before.ssthresh_q16 != UNSET:
                threshold = max(before.ssthresh_q16, three_quarters(before.cwnd_q16))
            coupled = self.before is not None and self.before.initial_ss and before.initial
            self.memory[step.path] = before.cwnd_q16, threshold, _UNCOUPLED if coupled else 0
            return
        if step.kind in ("undo", "leave", "join"):
            self.memory.pop(step.path, None)
        if step.kind in ("ack", "join") and self.before and _leaves(self.before, step):
            self.memory = {
                path: (cwnd, threshold, _LEFT_SINCE if left else 0)
                for path, (cwnd, threshold, left) in self.memory.items()
            }


def _leaves(before: Step, step: Step) -> bool:
    """The connection leaves coupled slow start as a whole."""
    coupled = any(p and p.initial for p in before.paths)
    return before.initial_ss and not step.initial_ss and coupled


def three_quarters(w_q16: int) -> int:
    """Of a window, in whole segments as Linux counts."""
    return (w_q16 >> 17 << 16) + (w_q16 >> 18 << 16)


# As TLA+


def _bool(value: bool) -> str:
    return "TRUE" if value else "FALSE"


def _fit(value: int) -> int:
    """What no specification allows stays what it does not allow."""
    return max(min(value, _LARGEST), -_LARGEST)


def _alpha(alpha_q32: int) -> int:
    return _fit((alpha_q32 - (1 << 32)) >> 2)


class _Writer:
    """Writes pieces with windows in Q16, or in units of 2^shift of that where they do not fit in 32 bits."""

    def __init__(self, arithmetic: Arithmetic, shift: int, subflows: int) -> None:
        self.arithmetic, self.shift, self.subflows = arithmetic, shift, subflows

    def window(self, q16: int) -> int:
        return 0 if q16 == UNSET else _fit(q16 >> self.shift)

    def rtt(self, ns: int) -> int:
        return _fit(ns >> 8)

    def arrays(self, step: Step | None, number: dict[int, int], gone: Iterable[int] = ()) -> list[str]:
        """life, cwnd, ssthresh, initial, rtt: of the subflows by their numbers."""
        of = {n: step.paths[place] for place, n in number.items()} if step else {}
        paths = [of.get(n) for n in range(1, self.subflows + 1)]
        left = set(gone)
        life = ["live" if p else "gone" if n + 1 in left else "new" for n, p in enumerate(paths)]
        return [
            "<<" + ",".join(f'"{v}"' for v in life) + ">>",
            "<<" + ",".join(str(self.window(p.cwnd_q16) if p else 0) for p in paths) + ">>",
            "<<" + ",".join(str(self.window(p.ssthresh_q16) if p else 0) for p in paths) + ">>",
            "<<" + ",".join(_bool(bool(p and p.initial)) for p in paths) + ">>",
            "<<" + ",".join(str(self.rtt(p.coupled_rtt_ns) if p else 0) for p in paths) + ">>",
        ]

    def state(self, step: Step | None, memory: dict[int, Followed], number: dict[int, int]) -> str:
        life, cwnd, ssthresh, initial, rtt = self.arrays(step, number)
        nothing = (0, 0, 0)
        of = {n: memory.get(place, nothing) for place, n in number.items()}
        before = [of.get(n, nothing) for n in range(1, self.subflows + 1)]
        told = ",".join(f"<<{self.window(w)},{self.window(t)},{left}>>" for w, t, left in before)
        alpha = step.alpha_q32 if step else self.arithmetic.rules.alpha0_q32
        return (
            f"[life|->{life},cwnd|->{cwnd},ssthresh|->{ssthresh},initial|->{initial},rtt|->{rtt},"
            f"before|-><<{told}>>,conInitial|->{_bool(step.initial_ss if step else True)},alpha|->{_alpha(alpha)}]"
        )

    def interval(self, found: Interval) -> Interval:
        low, high = found
        return (
            (_fit(low), _fit(high))
            if self.shift == 0
            else (_fit((low >> self.shift) - 2), _fit((high >> self.shift) + 2))
        )

    def needed(self, before: Step | None, step: Step) -> tuple[Interval, Interval]:
        """The interval of the operator that this step needs, and that of the rate."""
        exact, nothing = self.arithmetic, (0, 0)
        own = before.paths[step.path] if before else None
        if step.kind == "ack" and before and own:
            if before.initial_ss and own.initial:
                grown = exact.growth(before.paths, own, before.alpha_q32, step.acked_segments)
                return self.interval((max(grown[0], 0), grown[1])), self.interval(exact.rate(before.paths))
            room = step.acked_segments * ONE
            if own.ssthresh_q16 != UNSET:
                room = max(own.ssthresh_q16 - own.cwnd_q16, 0)
            fast = min(step.acked_segments * ONE, room)
            left = step.acked_segments * ONE - fast
            if left == 0 and self.shift == 0:
                return nothing, nothing
            slow = exact.avoidance(before.paths, step.path, own.cwnd_q16 + fast, left)
            return self.interval((max(slow[0], 0), slow[1])), nothing
        if step.kind in ("loss", "ece", "timeout") and before and own:
            left_with = exact.reduced(before, step)
            if left_with is None and self.shift:
                left_with = own.cwnd_q16 - (own.cwnd_q16 >> 1), own.cwnd_q16 - (own.cwnd_q16 >> 1)
            return (-1, -1) if left_with is None else self.interval(left_with), nothing
        if step.kind in ("join", "leave") and before:
            others = sum(counted(p) for i, p in enumerate(before.paths) if p and i != step.path)
            if step.kind == "join":
                total, after = others, others + INITIAL_WINDOW * ONE
            else:
                total, after = others + (counted(own) if own else 0), others
            low, high = exact.rescaled(before.alpha_q32, con_ssthresh_q16(step), total, after)
            return (_alpha(low), _alpha(high)), nothing
        return nothing, nothing

    def piece(self, name: str, piece: _Piece) -> str:
        """Its definitions: TLC works each out once, so that long literals are of their own."""
        number = dict(piece.start.number)
        before, entries, wide = piece.start.step, [], []
        gone: list[int] = []
        for step, n in zip(piece.steps, piece.numbers, strict=True):
            twice = step.kind == "join" and step.path in number
            if twice:
                gone.append(number[step.path])
            if step.kind == "join":
                number[step.path] = n
            changed = _others_changed(before, step)
            own = step.paths[step.path]
            if step.kind == "leave":
                gone.append(number.pop(step.path, n))
            # Who is there when he should not be, or the other way round, is for the specification to see.
            stray = twice or any(bool(p) != (i in number) for i, p in enumerate(step.paths))
            if stray:
                extra = {
                    i: k
                    for i, k in zip(
                        (i for i, p in enumerate(step.paths) if p and i not in number),
                        (k for k in range(1, self.subflows + 1) if k not in number.values()),
                        strict=False,
                    )
                }
                shown = {i: k for i, k in number.items() if step.paths[i]} | extra
            else:
                shown = number
            at = 0
            if changed or stray:
                life, cwnd, ssthresh, initial, rtt = self.arrays(
                    step, shown, set(gone) | (set(number.values()) - set(shown.values()))
                )
                wide.append(f"[life|->{life},cwnd|->{cwnd},ssthresh|->{ssthresh},initial|->{initial},rtt|->{rtt}]")
                at = len(wide)
            (low, high), (slow, shigh) = self.needed(before, step)
            entries.append(
                f'<<"{step.kind}",{n},{step.acked_segments},{self.window(own.cwnd_q16) if own else 0},'
                f"{self.window(own.ssthresh_q16) if own else 0},{_bool(bool(own and own.initial))},"
                f"{self.rtt(own.coupled_rtt_ns) if own else 0},{_bool(step.initial_ss)},{_alpha(step.alpha_q32)},"
                f"{low},{high},{slow},{shigh},{at}>>"
            )
            before = step
        chunks = [",\n".join(entries[i : i + CHUNK]) for i in range(0, len(entries), CHUNK)]
        live = [i for i, p in enumerate(before.paths) if p] if before else []
        then = {place: k + 1 for k, place in enumerate(live)}
        of = [0] * self.subflows
        for place, k in then.items():
            if place in piece.end:
                of[piece.end[place] - 1] = k
        return (
            "".join(f"{name}C{k} == <<{text}>>\n" for k, text in enumerate(chunks))
            + f"{name}W == <<{','.join(wide)}>>\n"
            + f"{name} == [first|->{_bool(piece.first)},\n"
            f"start|->{self.state(piece.start.step, piece.start.memory, piece.start.number)},\n"
            f"steps|-><<{','.join(f'{name}C{k}' for k in range(len(chunks)))}>>,wide|->{name}W,\n"
            f"next|->[number|-><<{','.join(map(str, of))}>>,start|->{self.state(before, piece.memory, then)}]]\n"
        )


def _others_changed(before: Step | None, step: Step) -> bool:
    for i, p in enumerate(step.paths):
        if i == step.path:
            continue
        q = before.paths[i] if before else None
        if p is q:
            continue
        if p is None or q is None:
            return True
        if (p.cwnd_q16, p.ssthresh_q16, p.initial, p.coupled_rtt_ns) != (
            q.cwnd_q16,
            q.ssthresh_q16,
            q.initial,
            q.coupled_rtt_ns,
        ):
            return True
    return False


def _shift(piece: _Piece) -> int:
    """The finest units in which nothing of the piece overflows."""
    largest = con_ssthresh_q16(piece.steps[0])
    for step in ([piece.start.step] if piece.start.step else []) + piece.steps:
        windows = sum(p.cwnd_q16 + (0 if p.ssthresh_q16 == UNSET else p.ssthresh_q16) for p in step.paths if p)
        largest = max(largest, windows, step.acked_segments * ONE)
    return max(largest.bit_length() - _SUM_MAX.bit_length() + 1, 0)


_CONFIG = """SPECIFICATION LogSpec
CONSTANTS
    Subflows = {{{subflows}}}
    Segment = {segment}
    IW = {iw}
    ConSsthresh = {con}
    MinSsthresh = {floor}
    Cap = {cap}
    WindowMax = {most}
    AlphaStart = {alpha}
    AlphaOne = 0
    Rtts = {{}}
    FirstRtts = {{}}
    Acked = {{}}
    JoinWeighted = FALSE
    Events = {{"loss", "timeout", "leave", "rtt", "idle", "undo"}}
    RateUnit = 1
    RateSlack = 0
    Rate <- LogRate
    Growth <- LogGrowth
    Rescale <- LogRescale
    Avoidance <- LogAvoidance
    RateExceeds <- LogRateExceeds
    RateNotExceeds <- LogRateNotExceeds
    Halved <- LogHalved
    Remember <- LogRemember
    Idle <- LogIdle
CHECK_DEADLOCK FALSE
"""


def _said(outcome: specs.Outcome) -> Iterator[tuple[str, int, list[Any]]]:
    """What the specification printed: what of it, of which piece, and more."""
    for text in outcome.printed:
        what, piece, *more = specs.parse_value(text)
        yield what, piece, more


def _write(folder: Path, writer: _Writer, pieces: Sequence[_Piece], explaining: bool) -> None:
    rules, shift = writer.arithmetic.rules, writer.shift
    for name in ("CoupledSlowStart.tla", "CoupledSlowStartLog.tla"):
        shutil.copy(specs.SPECS / "CoupledSlowStart" / name, folder)
    with (folder / "TraceCoupledSlowStart.tla").open("w", encoding="ascii") as out:
        out.write("---- MODULE TraceCoupledSlowStart ----\nEXTENDS Integers\n")
        for n, piece in enumerate(pieces, 1):
            out.write(writer.piece(f"P{n}", piece))
        out.write(f"Pieces == <<{','.join(f'P{n}' for n in range(1, len(pieces) + 1))}>>\n")
        out.write(f"Explaining == {_bool(explaining)}\n====\n")
    (folder / "CoupledSlowStartLog.cfg").write_text(
        _CONFIG.format(
            segment=ONE >> shift,
            iw=INITIAL_WINDOW * ONE >> shift,
            con=writer.window(con_ssthresh_q16(pieces[0].steps[0])),
            floor=rules.floor_q16 >> shift,
            cap=rules.cap_q16 >> shift,
            most=min((1 << 36) >> shift, _LARGEST),
            alpha=_alpha(rules.alpha0_q32),
            subflows=", ".join(map(str, range(1, writer.subflows + 1))),
        ),
        encoding="ascii",
    )


def _run(tlc: Path, rules: Rules, shift: int, pieces: Sequence[_Piece], explaining: bool = False) -> specs.Outcome:
    writer = _Writer(Arithmetic(rules), shift, max(p.used for p in pieces) or 1)
    with tempfile.TemporaryDirectory(prefix="rewindow-trace-") as temporary:
        folder = Path(temporary)
        _write(folder, writer, pieces, explaining)
        outcome = specs.run_tlc(
            folder,
            "CoupledSlowStartLog.tla",
            "CoupledSlowStartLog.cfg",
            tlc=tlc,
            memory_mb=MEMORY_MB,
            seconds_max=SECONDS_MAX,
            is_trace=True,
        )
    if outcome.exit != 0 or outcome.stopped or outcome.errors:
        reason = outcome.stopped or "; ".join(outcome.errors) or f"exit status {outcome.exit}"
        raise CheckFailed(f"TLC gives no answer: {reason[:2000]}")
    return outcome


def _follow(tlc: Path, rules: Rules, shift: int, pieces: Sequence[_Piece]) -> list[tuple[_Piece, int, str]]:
    """Which pieces are refused, and at which of their steps."""
    outcome = _run(tlc, rules, shift, pieces)
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


def _explain(tlc: Path, rules: Rules, refusals: Sequence[Refusal]) -> None:
    """Asks the specification what it allows in the state before, and writes it into each refusal."""
    pieces = []
    for r in refusals:
        log = _Log(Verdict(0, rules.name))
        log.before, log.memory, log.steps = r.before, dict(r.memory), [r.step]
        pieces += list(log.cut())
    # One unit for all: the largest.
    shift = max(_shift(p) for p in pieces)
    outcome = _run(tlc, rules, shift, pieces, explaining=True)
    allowed: dict[int, list[Any]] = {}
    for what, n, more in _said(outcome):
        if what == "allowed" and more not in allowed.setdefault(n, []):
            allowed[n].append(more)
    for n, (piece, refusal) in enumerate(zip(pieces, refusals, strict=True), 1):
        refusal.expected = _merged(allowed.get(n, []), piece, shift)


def _merged(outcomes: Sequence[Any], piece: _Piece, shift: int) -> list[dict[str, Any]]:
    """Outcomes that differ in windows and alpha only are one, with intervals."""
    number = dict(piece.start.number)
    if piece.steps[0].kind == "join":
        number[piece.steps[0].path] = piece.numbers[0]
    found: dict[str, dict[str, Any]] = {}
    for cwnd, ssthresh, initial, con_initial, alpha in outcomes:
        key = json.dumps([initial, con_initial, [bool(t) for t in ssthresh]])
        one = found.setdefault(key, {"initial_slow_start": con_initial, "alpha": [], "subflows": {}})
        one["alpha"].append(alpha / (1 << 30) + 1)
        for place, k in number.items():
            path = one["subflows"].setdefault(
                place, {"path": place, "cwnd": [], "ssthresh": [], "coupled": initial[k - 1]}
            )
            path["cwnd"].append((cwnd[k - 1] << shift) / ONE)
            path["ssthresh"].append((ssthresh[k - 1] << shift) / ONE)
    for one in found.values():
        one["alpha"] = [min(one["alpha"]), max(one["alpha"])]
        one["subflows"] = [
            p
            | {
                "cwnd": [min(p["cwnd"]), max(p["cwnd"])],
                "ssthresh": [min(p["ssthresh"]), max(p["ssthresh"])] if all(p["ssthresh"]) else None,
            }
            for _, p in sorted(one["subflows"].items())
        ]
    return list(found.values())


# The whole


def rules(choice: Choice) -> Rules:
    """The rules of an algorithm with a specification. Raises BadOption for options that it does not speak of."""
    if choice.name not in SPECIFIED:
        raise BadOption(f"{choice.name}: no specification; there is one of {', '.join(SPECIFIED)}")
    described = next(a for a in algorithms() if a.name == choice.name)
    options = {o.name: o.default for o in described.options} | choice.options
    for name, value in _FIXED.items():
        if value is not None and options.get(name, value) != value:
            raise BadOption(f"{choice.name}: the specification speaks of {name}={value} only")
    found = rules_of(choice.name, options)
    if found.alpha0_q32 > 5 << 31:
        raise BadOption(f"{choice.name}: a trace has an alpha0 of 2.5 at most")
    return found


class Checker:
    """Takes steps of any connections under these controllers, in the order in which they happened; then says.

    Memory is that of BATCH_STEPS steps and of what two runs of TLC are given, however long the logs are.
    Raises CheckFailed, specs.CheckerMissing.
    """

    def __init__(self, choices: Sequence[Choice], tlc: Path) -> None:
        self._rules = [rules(c) for c in choices]
        self._tlc = tlc
        self._logs: dict[tuple[int, int], _Log] = {}
        self._held = 0
        self._pool = concurrent.futures.ThreadPoolExecutor(PROCESSES)
        self._running: set[concurrent.futures.Future[list[tuple[_Piece, int, str]]]] = set()

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, step: Step) -> None:
        key = step.connection, step.choice
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = _Log(Verdict(step.connection, self._rules[step.choice].name))
        log.steps.append(step)
        self._held += 1
        if self._held >= BATCH_STEPS:
            self._submit()

    def _submit(self) -> None:
        """Gives TLC all that is held."""
        batches: dict[tuple[int, int, int], list[_Piece]] = {}
        for (_, choice), log in self._logs.items():
            for piece in log.cut():
                key = choice, _shift(piece), con_ssthresh_q16(piece.steps[0])
                batches.setdefault(key, []).append(piece)
        self._held = 0
        for (choice, shift, _), pieces in batches.items():
            while len(self._running) >= 2 * PROCESSES:
                self._take(concurrent.futures.FIRST_COMPLETED)
            self._running.add(self._pool.submit(_follow, self._tlc, self._rules[choice], shift, pieces))

    def _take(self, when: str) -> None:
        done, self._running = concurrent.futures.wait(self._running, return_when=when)
        for future in done:
            for piece, at, why in future.result():
                verdict, event = piece.log.verdict, piece.begins + at
                if verdict.first_violation is None or event < verdict.first_violation.event:
                    verdict.first_violation = _refusal(piece, at, why)

    def verdicts(self, explain: bool = True) -> list[Verdict]:
        """Of every connection with a step, by connection and algorithm. No step can be added after it.

        explain: ask the specification, too, what it allows in place of what it does not.
        """
        self._submit()
        while self._running:
            self._take(concurrent.futures.FIRST_COMPLETED)
        for choice, rules_ in enumerate(self._rules if explain else ()):
            refused = [
                log.verdict.first_violation
                for (_, k), log in self._logs.items()
                if k == choice and log.verdict.first_violation
            ]
            # con_ssth is a constant of a run.
            by_con: dict[int, list[Refusal]] = {}
            for r in refused:
                by_con.setdefault(con_ssthresh_q16(r.step), []).append(r)
            for alike in by_con.values():
                for i in range(0, len(alike), 100):
                    _explain(self._tlc, rules_, alike[i : i + 100])
        return [log.verdict for _, log in sorted(self._logs.items(), key=lambda item: item[0])]


def _refusal(piece: _Piece, at: int, why: str) -> Refusal:
    at = min(at, len(piece.steps) - 1)
    replayed = _Log(Verdict(0, ""))
    replayed.before, replayed.memory, replayed.steps = piece.start.step, dict(piece.start.memory), piece.steps[:at]
    for _ in replayed.cut():
        pass
    return Refusal(piece.begins + at, replayed.before, piece.steps[at], replayed.memory, why=why)


def conformance(choices: Sequence[Choice], steps: Iterable[Step], tlc: Path, explain: bool = True) -> list[Verdict]:
    """Verdicts on steps that are at hand. Raises BadOption, CheckFailed, specs.CheckerMissing."""
    with Checker(choices, tlc) as checker:
        for step in steps:
            checker.add(step)
        return checker.verdicts(explain)
