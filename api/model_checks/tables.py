"""What a check has found, as rows of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pydantic_core

from api import exports
from api.errors import NotFound
from api.model_checks.schemas import (
    Allowed,
    ControllerState,
    Covered,
    DetectorAllowed,
    DetectorState,
    ModelCheckDetail,
    Step,
    StepRefused,
    ViolationRow,
)

_When = Literal["before", "expected", "found"]
_State = ControllerState | DetectorState | Allowed | DetectorAllowed
_ACTIONS = exports.columns_of(Covered)
_VIOLATION = exports.columns_of(ViolationRow)
_STEPS = exports.columns_of(Step, besides=["state", "back_to"])
_BACK_TO = exports.columns_of(Step, besides=["number", "action", "state"])


def actions(check: ModelCheckDetail) -> tuple[Sequence[exports.Column], Sequence[Covered]]:
    """Raises NotFound."""
    if not check.coverage:
        raise NotFound("this check has no actions: TLC counts them when it checks a specification, until it ends")
    return _ACTIONS, check.coverage


def counterexample(check: ModelCheckDetail) -> tuple[Sequence[exports.Column], Sequence[Step]]:
    """A row for each state, with a column for each variable, which has text of JSON. Raises NotFound."""
    steps = check.counterexample
    if not steps:
        raise NotFound("this check has no counterexample: only one of a specification that is violated has one")
    variables = [exports.Column(name, pa.string(), ("state", name), is_json=True) for name in steps[0].state]
    return [*_STEPS, *variables, *_BACK_TO], steps


def violation(check: ModelCheckDetail) -> tuple[Sequence[exports.Column], Sequence[ViolationRow]]:
    """Raises NotFound."""
    if check.first_violation is None:
        raise NotFound("this check has no violation: only one of a connection's steps that does not conform has one")
    return _VIOLATION, list(_violation_rows(check.first_violation))


def _violation_rows(refused: StepRefused) -> Iterator[ViolationRow]:
    if refused.before is not None:
        yield from _rows(refused.before, "before", None)
    for alternative, state in enumerate(refused.expected):
        yield from _rows(state, "expected", alternative)
    yield from _rows(refused.found, "found", None)


def _rows(state: _State, name: _When, alternative: int | None) -> Iterator[ViolationRow]:
    for variable, value in state:
        if variable in ("subflows", "sets"):
            for part in value:
                key = "path" if variable == "subflows" else "set"
                of = f"{variable.removesuffix('s')} {getattr(part, key)}"
                yield from (_row(name, alternative, of, v, x) for v, x in part if v != key)
        else:
            yield _row(name, alternative, None, variable, value)


def _row(state: _When, alternative: int | None, of: str | None, variable: str, value: object) -> ViolationRow:
    least = most = None
    if isinstance(value, tuple):
        least, most = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        least = most = value
    is_number = least is not None or value is None
    text = None if is_number else value if isinstance(value, str) else pydantic_core.to_json(value).decode()
    return ViolationRow(
        state=state, alternative=alternative, of=of, variable=variable, least=least, most=most, text=text
    )
