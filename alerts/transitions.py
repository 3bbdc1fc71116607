"""When an alert fires and when that is over: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from api.alerts.messages import change_percent
from store.models import AlertState, Condition


@dataclass(frozen=True)
class Standing:
    """is_firing: it told so, and not yet that this is over. streak: evaluations in a row that spoke against that."""

    state: AlertState
    is_firing: bool
    streak: int


def holds(condition: Condition, threshold: float, value: float | None, before: float | None) -> bool | None:
    """None: a value is missing."""
    if value is None:
        return None
    if condition in ("above", "below"):
        return value > threshold if condition == "above" else value < threshold
    if before is None:
        return None
    percent = change_percent(value, before)
    if percent is None:  # from 0: more than any percent, unless it stayed
        percent = float("inf") * value if value else 0.0
    up, down = percent > threshold, percent < -threshold
    return {"rises": up, "falls": down, "changes": up or down}[condition]


def follow(was: Standing, held: bool | None, in_a_row: int) -> tuple[Standing, Literal["firing", "resolved"] | None]:
    """The standing after an evaluation, and the message that is due. held: None: there were too few values."""
    if held is None:
        return Standing("too_few", was.is_firing, 0), None
    shown: AlertState = "firing" if was.is_firing else "ok"
    if held is was.is_firing:
        return Standing(shown, was.is_firing, 0), None
    streak = was.streak + 1
    if streak >= in_a_row:
        return Standing("firing" if held else "ok", held, 0), "firing" if held else "resolved"
    return Standing("firing" if was.is_firing else "pending", was.is_firing, streak), None
