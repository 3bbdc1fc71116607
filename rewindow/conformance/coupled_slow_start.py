"""Writes pieces of logs as TLA+, the module TraceCoupledSlowStart, and reads TLC's output.

specs/CoupledSlowStart/CoupledSlowStartLog.tla compares the module's steps with the specification's own actions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewindow.conformance.step_logs import Followed, Piece, remember, sharing, totals
from rewindow.conformance.tolerances import (
    INITIAL_WINDOW,
    ONE,
    Arithmetic,
    Interval,
    con_ssthresh_q16,
    own_ssthresh_q16,
)
from rewindow.controllers.steps import UNSET, Step

CHUNK = 250
_LARGEST = (1 << 31) - 1
_SUM_MAX = 1 << 30


def _bool(value: bool) -> str:
    return "TRUE" if value else "FALSE"


def _fit(value: int) -> int:
    """Limits a value to TLC's range. A value out of range stays one that no specification allows."""
    return max(min(value, _LARGEST), -_LARGEST)


def _alpha(alpha_q32: int) -> int:
    return _fit((alpha_q32 - (1 << 32)) >> 2)


class Writer:
    """Writes pieces with windows in Q16, or in units of 2^shift of that where they do not fit in 32 bits."""

    def __init__(self, arithmetic: Arithmetic, shift: int, subflows: int, in_kernel: bool = False) -> None:
        self.arithmetic, self.shift, self.subflows, self.in_kernel = arithmetic, shift, subflows, in_kernel

    def window(self, q16: int) -> int:
        return 0 if q16 == UNSET else _fit(q16 >> self.shift)

    def rtt(self, ns: int) -> int:
        return _fit(ns >> 8)

    def arrays(self, step: Step | None, number: dict[int, int], gone: Iterable[int] = ()) -> list[str]:
        """life, cwnd, ssthresh, initial and rtt of the subflows, by their numbers."""
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

    def needed(
        self, exact: Arithmetic, before: Step | None, memory: Mapping[int, Followed], step: Step
    ) -> tuple[Interval, Interval]:
        """The interval of the step's operator, and that of the rate."""
        nothing = (0, 0)
        own = before.paths[step.path] if before else None
        if step.kind == "ack" and before and own:
            shared = sharing(before.paths, memory)
            rate = self.interval(exact.rate(shared)) if before.initial_ss else nothing
            if before.initial_ss and own.initial and own.cwnd_q16 <= own.ssthresh_q16:
                grown = exact.growth(shared, own, before.alpha_q32, step.acked_segments)
                return self.interval((max(grown[0], 0), grown[1])), rate
            room = step.acked_segments * ONE
            if own.ssthresh_q16 != UNSET:
                room = max(own.ssthresh_q16 - own.cwnd_q16, 0)
            fast = min(step.acked_segments * ONE, room)
            left = step.acked_segments * ONE - fast
            if left == 0 and self.shift == 0:
                return nothing, rate
            slow = exact.avoidance(before.paths, step.path, own.cwnd_q16 + fast, left)
            return self.interval((max(slow[0], 0), slow[1])), rate
        if step.kind in ("loss", "ece", "timeout") and before and own:
            left_with = exact.reduced(before, step)
            if left_with is None and self.shift:
                left_with = own.cwnd_q16 - (own.cwnd_q16 >> 1), own.cwnd_q16 - (own.cwnd_q16 >> 1)
            return (-1, -1) if left_with is None else self.interval(left_with), nothing
        if step.kind in ("join", "leave", "verdict") and before:
            total, after = totals(before, memory, step.path)
            if step.kind == "join":
                total, after = after, after + INITIAL_WINDOW * ONE
            low, high = exact.rescaled(before.alpha_q32, con_ssthresh_q16(step), total, after)
            return (_alpha(low), _alpha(high)), nothing
        return nothing, nothing

    def piece(self, name: str, piece: Piece) -> str:
        """The definitions of a piece. TLC evaluates each once, so long literals have definitions of their own."""
        number = dict(piece.start.number)
        exact = Arithmetic(piece.log.rules) if piece.log.rules else self.arithmetic
        before, entries, wide = piece.start.step, [], []
        gone: list[int] = []
        memory = dict(piece.start.memory)
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
            # A subflow that should not be live, or should be, is left for the specification to refuse.
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
            (low, high), (slow, shigh) = self.needed(exact, before, memory, step)
            remember(memory, before, step)
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


def shift_of(piece: Piece) -> int:
    """The finest units in which nothing of the piece overflows."""
    largest = own_ssthresh_q16(piece.steps[0])
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
    OwnSsthresh = {own}
    MinSsthresh = {floor}
    Cap = {cap}
    WindowMax = {most}
    AlphaStart = {alpha}
    AlphaOne = 0
    Rtts = {{}}
    FirstRtts = {{}}
    Acked = {{}}
    JoinWeighted = FALSE
    Events = {{"loss", "timeout", "leave", "rtt", "idle", "undo", "verdict"}}
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


def write(folder: Path, source: Path, writer: Writer, pieces: Sequence[Piece], explaining: bool) -> None:
    """Writes into `folder` all files that TLC needs for the pieces. source: the folder of the specifications."""
    rules, shift = writer.arithmetic.rules, writer.shift
    for name in ("CoupledSlowStart.tla", "CoupledSlowStartLog.tla"):
        shutil.copy(source / "CoupledSlowStart" / name, folder)
    with (folder / "TraceCoupledSlowStart.tla").open("w", encoding="ascii") as out:
        out.write("---- MODULE TraceCoupledSlowStart ----\nEXTENDS Integers\n")
        for n, piece in enumerate(pieces, 1):
            out.write(writer.piece(f"P{n}", piece))
        out.write(f"Pieces == <<{','.join(f'P{n}' for n in range(1, len(pieces) + 1))}>>\n")
        out.write(f"Explaining == {_bool(explaining)}\nInKernel == {_bool(writer.in_kernel)}\n====\n")
    (folder / "CoupledSlowStartLog.cfg").write_text(
        _CONFIG.format(
            segment=ONE >> shift,
            iw=INITIAL_WINDOW * ONE >> shift,
            con=writer.window(con_ssthresh_q16(pieces[0].steps[0])),
            own=writer.window(own_ssthresh_q16(pieces[0].steps[0])),
            floor=rules.floor_q16 >> shift,
            cap=rules.cap_q16 >> shift,
            most=min((1 << 36) >> shift, _LARGEST),
            alpha=_alpha(rules.alpha0_q32),
            subflows=", ".join(map(str, range(1, writer.subflows + 1))),
        ),
        encoding="ascii",
    )


def merged(outcomes: Sequence[Any], piece: Piece, shift: int) -> list[dict[str, Any]]:
    """Merges outcomes that differ only in windows and alpha into one, with intervals."""
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
