"""Which connections have a value of a measure: a list of them has just those that an aggregate counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    Integer,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from store import facts
from store.models import Attempt, Capture, ConnectionFact, FairnessGroup, Replay, State, WhatIf

FAIR_SHARE, HARM = "fair_share_ratio", "harm"
LABELLED = ("window", "whatif", "harm")
"""Measures of an algorithm: its label follows, after a colon."""
FIXED = (*facts.MEASURES, FAIR_SHARE, HARM)
NAMES = (*FIXED, *(f"{prefix}:ALGORITHM" for prefix in LABELLED))

PATTERN = r"^(" + "|".join(FIXED) + r"|(" + "|".join(LABELLED) + r"):.{1,200})$"
Name = Annotated[
    str,
    Field(
        pattern=PATTERN,
        description=f"One of {', '.join(NAMES)}; ALGORITHM is the label of a replay or of a what-if.",
    ),
]


def _window_at_analysis(place: ColumnElement[Any]) -> ColumnElement[Any]:
    """place: of the algorithm among the attempt's; null: it has none."""
    return func.nullif(ConnectionFact.mean_windows[place], cast("NaN", Float))


def asked_for(label: str) -> ColumnElement[bool]:
    """The finished replay of the connection that somebody asked for; at most one."""
    about = (Replay.capture_id == Capture.id, Replay.connection_number == ConnectionFact.number)
    return and_(*about, Replay.label == label, Replay.state == State.done)


def window(place: ColumnElement[Any]) -> ColumnElement[Any]:
    """The mean window of a connection under an algorithm: at the analysis, else of the replay that somebody asked for.

    place: of the algorithm among those of the connection's attempt. `replays` must be there, by an outer join on
    `asked_for`.
    """
    return func.coalesce(_window_at_analysis(place), Replay.mean_window)


_PREDICTED = WhatIf.result["predicted"]["goodput_bps"]["median"].astext.cast(Float)
_RECORDED = func.nullif(WhatIf.result["recorded"]["goodput_bps"].astext.cast(Float), 0)
_IS_OK = WhatIf.result["verdict"].astext == "ok"
GAINED = case((_IS_OK, _PREDICTED / _RECORDED))
"""Predicted goodput over the recorded one, of a what-if."""


_NOTHING_ELSE = (WhatIf.everyone.is_(False), WhatIf.settings == cast({}, JSONB))
"""No other connection changes, and no setting of the network."""


def alone(label: str) -> ColumnElement[bool]:
    """Finished what-ifs that change the connection alone, without settings of the network."""
    about = (WhatIf.capture_id == Capture.id, WhatIf.connection_number == ConnectionFact.number)
    return and_(*about, WhatIf.state == State.done, WhatIf.label == label, *_NOTHING_ELSE)


def harmed(label: str | None) -> tuple[Any, ColumnElement[Any], ColumnElement[bool]]:
    """The neighbours of the one connection that a what-if changes, as rows; the harm to each, by the algorithm that is
    predicted; which rows are about the connection that is asked for."""
    beside = func.jsonb_array_elements(WhatIf.result["neighbours"]).table_valued(column("value", JSONB)).alias("n")
    harm = beside.c.value["harm"]["predicted"]["median"].astext.cast(Float)
    about = [WhatIf.capture_id == Capture.id, WhatIf.state == State.done, _IS_OK, *_NOTHING_ELSE]
    about.append(ConnectionFact.number == beside.c.value["id"].astext.cast(Integer))
    return beside, harm, and_(*about, *([] if label is None else [WhatIf.label == label]))


def _of_windows(label: str, reliable: bool) -> ColumnElement[bool]:
    place = func.array_position(Attempt.labels, label, type_=Integer)
    analysed = exists().where(Attempt.id == ConnectionFact.attempt_id, _window_at_analysis(place).is_not(None))
    replayed = exists().where(asked_for(label), Replay.mean_window.is_not(None))
    has_value = or_(analysed.correlate(ConnectionFact), replayed.correlate(ConnectionFact, Capture))
    return and_(has_value, ~facts.made_unreliable("windows")) if reliable else has_value


def _of_fair_share(reliable: bool) -> ColumnElement[bool]:
    columns = (column("group_id", BigInteger), column("ratio", Float(53)))
    shares = func.unnest(ConnectionFact.group_ids, ConnectionFact.fair_share_ratios).table_valued(*columns)
    share = shares.render_derived(name="share")
    found = select(1).select_from(share).where(share.c.ratio != cast("NaN", Float(53)))
    if reliable:
        found = found.join(FairnessGroup, FairnessGroup.id == share.c.group_id).where(FairnessGroup.verdict != "poor")
    return found.correlate(ConnectionFact).exists()


def _of_whatif(label: str, reliable: bool) -> ColumnElement[bool]:
    return exists().where(alone(label), GAINED.is_not(None)).correlate(ConnectionFact, Capture)


def _of_harm(label: str | None) -> ColumnElement[bool]:
    beside, harm, about = harmed(label)
    found = select(1).select_from(WhatIf).join(beside, true()).where(about, harm.is_not(None))
    return found.correlate(ConnectionFact, Capture).exists()


_BY_LABEL: dict[str, Callable[[str, bool], ColumnElement[bool]]] = {
    "window": _of_windows,
    "whatif": _of_whatif,
    "harm": lambda label, reliable: _of_harm(label),
}


def has_value(name: str, *, reliable: bool) -> ColumnElement[bool]:
    """A condition on `connection_facts` beside `captures`. name: as `Name` allows. reliable: nothing wrong with the
    connection or its group makes the value unreliable. Of groups: the connection is a member of one that
    has a value."""
    prefix, colon, label = name.partition(":")
    if colon:
        return _BY_LABEL[prefix](label, reliable)
    if name == FAIR_SHARE:
        return _of_fair_share(reliable)
    return _of_harm(None) if name == HARM else facts.MEASURES[name].has_value(reliable=reliable)
