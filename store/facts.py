"""What is measured of connections and of groups of them, from one narrow row for each connection.

A measure's value has one time: adjacent periods have all values of both, and none twice.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Float,
    Select,
    String,
    and_,
    any_,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.sql import visitors

from store.models import Attempt, Capture, ConnectionFact, FairnessGroup, QualityRecord

SHORT_BYTES = 1_000_000
"""Flows that send less are short ones."""

DAY_NS = 24 * 3600 * 10**9

Period = tuple[int | None, int | None]
"""From the first on, and before the second: nanoseconds since 1970; None: without a bound."""
ALWAYS: Sequence[Period] = ((None, None),)

RTT_INFLATION: ColumnElement[Any] = cast(ConnectionFact.rtt_us, Float(53)) / func.nullif(ConnectionFact.rtt_min_us, 0)


def network(address: Any) -> ColumnElement[Any]:
    """The /24 or /48 of an address."""
    return func.network(func.set_masklen(address, case((func.family(address) == 4, 24), else_=48)))


def prefix(address: Any) -> ColumnElement[Any]:
    """The /24 or /48 of an address, as text."""
    return cast(network(address), String)


def facts(team_id: uuid.UUID, *columns: Any) -> Select[Any]:
    """Facts of the connections that the team sees: those of the attempts that its captures name."""
    return (
        select(*columns)
        .select_from(ConnectionFact)
        .join(Capture, Capture.attempt_id == ConnectionFact.attempt_id)
        .where(Capture.team_id == team_id, ConnectionFact.team_id == team_id)
    )


def during(time: Any, periods: Sequence[Period]) -> ColumnElement[bool]:
    """Is the time in one of them?"""
    return or_(false(), *(_within(time, period) for period in periods))


def _within(time: Any, period: Period) -> ColumnElement[bool]:
    begin, end = period
    return and_(true(), *([time >= begin] if begin is not None else []), *([time < end] if end is not None else []))


def made_unreliable(result: str) -> ColumnElement[bool]:
    """Few rows of `qualities` are asked once: a join would look at an array for each connection."""
    of_result = select(QualityRecord.id).where(literal(result) == any_(QualityRecord.unreliable))
    return ConnectionFact.quality_id.in_(of_result)


@dataclass(frozen=True)
class OfConnections:
    """A value for each connection. result: what a finding must make unreliable, for the value to be so. conditions:
    which connections have it at all."""

    unit: str
    value: ColumnElement[Any]
    result: str
    conditions: tuple[ColumnElement[bool], ...] = ()
    of_captures = False

    def rows(
        self, team_id: uuid.UUID, columns: Sequence[Any], *where: ColumnElement[bool], periods: Sequence[Period]
    ) -> Select[Any]:
        """The columns `value` and `unreliable`, and further ones of facts and captures, for each connection that the
        conditions select."""
        unreliable = made_unreliable(self.result).label("unreliable")
        query = facts(team_id, self.value.label("value"), unreliable, *columns).where(*self.conditions, *where)
        return query if periods is ALWAYS else query.where(during(ConnectionFact.first_ns, periods))

    def has_value(self, *, reliable: bool) -> ColumnElement[bool]:
        """Has a connection a value, a reliable one if that is asked for?"""
        is_valid = [~made_unreliable(self.result)] if reliable else []
        return and_(self.value.is_not(None), *self.conditions, *is_valid)


@dataclass(frozen=True)
class OfGroups:
    """A value for each fairness group of which the conditions select a member. Its time is that of the first of
    these members."""

    unit: str
    value: ColumnElement[Any]
    of_captures = True

    def rows(
        self, team_id: uuid.UUID, columns: Sequence[Any], *where: ColumnElement[bool], periods: Sequence[Period]
    ) -> Select[Any]:
        """As of connections. columns: of captures, and of facts `first_ns` and `attempt_id` only."""
        if not any(_columns_of(ConnectionFact, condition) - {"attempt_id"} for condition in where):
            return self._of_captures(team_id, columns, *where, periods=periods)
        fact = ConnectionFact
        are_of_captures = any(_columns_of(Capture, condition) for condition in where)

        def selected(*columns: Any) -> Select[Any]:
            # Captures that no condition is on are joined to the groups, which are fewer.
            query = facts(team_id, *columns) if are_of_captures else select(*columns).where(fact.team_id == team_id)
            if periods is not ALWAYS:
                # Of their captures all facts, because a group's first member may have begun before the period.
                query = query.where(fact.attempt_id.in_(select(Attempt.id).where(_may_be_during(periods))))
            return query.where(*where)

        members = memberships(selected, {"group_id": fact.group_ids}, fact.attempt_id, fact.first_ns)
        # PostgreSQL knows how many attempts there are, and not how many groups: of both together it expects enough.
        by = (members.c.attempt_id, members.c.group_id)
        of_each = select(*by, func.min(members.c.first_ns).label("first_ns")).group_by(*by).subquery("of_each")
        query = select(
            self.value.label("value"),
            (FairnessGroup.verdict == "poor").label("unreliable"),
            *(_of_group(c, of_each.c) for c in columns),
        )
        query = query.join_from(of_each, FairnessGroup, FairnessGroup.id == of_each.c.group_id)
        query = query.join(Capture, Capture.attempt_id == of_each.c.attempt_id).where(Capture.team_id == team_id)
        if periods is ALWAYS:
            return query
        # Of bounds on a least value PostgreSQL expects few rows, and looks up each group; of a case it expects half.
        return query.where(case((during(of_each.c.first_ns, periods), true()), else_=false()))

    def _of_captures(
        self, team_id: uuid.UUID, columns: Sequence[Any], *where: ColumnElement[bool], periods: Sequence[Period]
    ) -> Select[Any]:
        """All members of a group are selected, or none."""
        its = FairnessGroup.__table__.c
        query = select(
            self.value.label("value"),
            (FairnessGroup.verdict == "poor").label("unreliable"),
            *(_of_group(c, its) for c in columns),
        ).join(Capture, Capture.attempt_id == FairnessGroup.attempt_id)
        query = query.where(Capture.team_id == team_id, FairnessGroup.first_ns.is_not(None))
        return query.where(*(_of_group(c, its) for c in where), during(FairnessGroup.first_ns, periods))

    def has_value(self, *, reliable: bool) -> ColumnElement[bool]:
        """Is a connection a member of a group that has a value, a reliable one if that is asked for?"""
        is_member = FairnessGroup.id == any_(ConnectionFact.group_ids)
        is_valid = [FairnessGroup.verdict != "poor"] if reliable else []
        return exists().where(is_member, self.value.is_not(None), *is_valid).correlate(ConnectionFact)


def memberships(selected: Callable[..., Select[Any]], arrays: Mapping[str, Any], *columns: Any) -> Any:
    """A row for each membership of a connection in a group, with the columns, and with its elements of the arrays.

    selected: makes a query of columns of facts. arrays: `group_ids` and those beside it, by their elements' names.
    """
    ids = ConnectionFact.group_ids
    # Most are members of one group. PostgreSQL unnests an array slowly; an index has those that are members of several.
    last = func.cardinality(ids)
    first = selected(*columns, *(a[1].label(name) for name, a in arrays.items())).where(ids[1].is_not(None))
    others = selected(*columns, *(func.unnest(a[2:last]).label(name) for name, a in arrays.items())).where(last > 1)
    return first.union_all(others).subquery("members")


def _may_be_during(periods: Sequence[Period]) -> ColumnElement[bool]:
    """May a connection of the attempt have begun in one of them?"""
    days, of_days = Attempt.days, [tuple(None if ns is None else _day(ns) for ns in period) for period in periods]
    is_in = [
        and_(
            true(),
            *([days[func.cardinality(days)] >= begin] if begin is not None else []),
            *([days[1] <= end] if end is not None else []),
        )
        for begin, end in of_days
    ]
    return or_(days.is_(None), *is_in)


def _day(ns: int) -> int:
    """As PostgreSQL divides: what is left is dropped, also before 1970."""
    return int(math.copysign(abs(ns) // DAY_NS, ns))


def _is_of(table: Any, element: Any) -> bool:
    return isinstance(element, ColumnClause) and getattr(element.table, "name", None) == table.__tablename__


def _columns_of(table: Any, expression: ColumnElement[Any]) -> set[str]:
    elements: Iterable[Any] = visitors.iterate(expression)
    return {element.name for element in elements if _is_of(table, element)}


def _of_group(expression: Any, columns: Any) -> Any:
    """With the columns of groups in the place of those of facts."""

    def of_group(element: Any, **_: Any) -> Any:
        return columns[element.name] if _is_of(ConnectionFact, element) else None

    return visitors.replacement_traverse(expression, {}, of_group)


Measured = OfConnections | OfGroups

_FACT = ConnectionFact
MEASURES: dict[str, Measured] = {
    "goodput_bps": OfConnections("bit/s", _FACT.goodput_bps.expression, "goodput"),
    "completion_short_s": OfConnections(
        "s", _FACT.completion_s.expression, "completion", (_FACT.bytes > 0, _FACT.bytes < SHORT_BYTES)
    ),
    "completion_long_s": OfConnections("s", _FACT.completion_s.expression, "completion", (_FACT.bytes >= SHORT_BYTES,)),
    "retransmission_rate": OfConnections("1", _FACT.retransmission_rate.expression, "retransmissions"),
    "rtt_us": OfConnections("us", cast(_FACT.rtt_us, Float(53)), "rtt"),
    "rtt_inflation": OfConnections("1", RTT_INFLATION, "rtt"),
    "jain": OfGroups("1", FairnessGroup.jain.expression),
    "mptcp_to_tcp_ratio": OfGroups("1", FairnessGroup.mptcp_to_tcp_ratio.expression),
}
"""What the team's page shows."""
