"""Reports of `rewindow specs trace`: tables, and cases of JUnit's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewindow.conformance.step_logs import Verdict
from rewindow.reports.tables import table
from rewindow.specs import Case


def conformance_text(verdicts: Sequence[Verdict]) -> str:
    """The output of `rewindow specs trace`."""
    rows = [["connection", "algorithm", "specification", "events", "verdict"]]
    for v in verdicts:
        shown = v.as_json()
        verdict = "conforms" if v.conforms else "does not conform"
        rows.append([str(v.connection), v.algorithm, shown["specification"], str(v.events), verdict])
    parts = [table(rows, right=(0, 3)) if verdicts else "no steps: nothing was acknowledged"]
    parts += [_violation_text(v) for v in verdicts if not v.conforms]
    return "\n\n".join(parts)


def conformance_cases(captures: Sequence[str], verdicts: Sequence[Verdict]) -> list[Case]:
    """Verdicts as test cases: one for each connection and algorithm, in a suite named after the captures."""
    suite = ", ".join(captures)
    cases = []
    for v in verdicts:
        case = Case(suite, f"connection {v.connection}, {v.algorithm}")
        if not v.conforms:
            case.trouble, case.text = "failure", _violation_text(v)
            case.message = case.text.splitlines()[0]
        cases.append(case)
    return cases or [Case(suite, "connections", trouble="skipped", message="no steps: nothing was acknowledged")]


def _violation_text(verdict: Verdict) -> str:
    f = verdict.as_json()["first_violation"]
    of = f" of {f['acked_segments']} segments" if f["step"] == "ack" else ""
    on = f"set {f['path'] + 1}" if f["step"] == "judge_set" else f"subflow {f['path']}"
    lines = [
        f"connection {verdict.connection}, {verdict.algorithm}: event {f['event']} is no step of the specification:"
        f" {f['step']}{of} on {on}, at {f['time_ns']} ns (row {f['row']})"
    ]
    lines += _state_lines("before", f["before"]) if f["before"] else ["  before    nothing: it is the first"]
    for allowed in f["expected"]:
        lines += _state_lines("expected", allowed)
    if f["why"] == "untimely":
        lines.append("  expected  another time: a decision that waits is due before it, or this one is not due")
    elif not f["expected"]:
        lines.append("  expected  no such step here")
    return "\n".join([*lines, *_state_lines("found", f["found"])])


def _state_lines(name: str, state: dict[str, Any]) -> list[str]:
    def shown(value: Any) -> str:
        if isinstance(value, list):
            low, high = value
            return f"{low:.6g}" if low == high else f"{low:.9g} to {high:.9g}"
        return "-" if value is None else f"{value:.9g}"

    if "initial_slow_start" not in state:
        return _sets_lines(name, state)
    phase = "initial slow start" if state["initial_slow_start"] else "beyond initial slow start"
    lines = [f"  {name:<8}  {phase}, alpha {shown(state['alpha'])}"]
    for s in state["subflows"]:
        coupled = ", coupled" if s["coupled"] else ""
        lines.append(
            f"            subflow {s['path']}: cwnd {shown(s['cwnd'])}, ssthresh {shown(s['ssthresh'])}{coupled}"
        )
    return lines


def _sets_lines(name: str, state: dict[str, Any]) -> list[str]:
    """A state of a detector: the members of each set, and the subflows that waiting decisions have seen."""

    def waiting(decision: dict[str, Any]) -> str:
        if decision["asked_by"] is None:
            return ""
        seen = ", ".join(map(str, decision["seen"])) or "nobody"
        return f"; a decision waits, asked for by {decision['asked_by']}, has seen {seen}"

    lines = [
        f"subflow {s['path']}: {s['state']}" + (f", set {s['set']}" if s["set"] else "") + waiting(s)
        for s in state["subflows"]
    ]
    lines += [f"set {s['set']}{waiting(s)}" for s in state["sets"]]
    return [f"  {name if n == 0 else '':<8}  {line}" for n, line in enumerate(lines or ["no subflow"])]
