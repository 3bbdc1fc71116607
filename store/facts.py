"""What is measured of connections and of groups of them, from one narrow row for each connection.

A measure's value has one time: adjacent periods have all values of both, and none twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
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
from sqlalchemy.dialects.postgresql import distinct_on

from store.models import Capture, ConnectionFact, FairnessGroup, QualityRecord

SHORT_BYTES = 1_000_000
"""Flows that send less are short ones."""

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


SITE: ColumnElement[Any] = Capture.tags["site"].astext


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
    """A value for each fairness group of which the conditions select a member. Its time, and what else is asked of a
    connection, is that of the first of these members."""

    unit: str
    value: ColumnElement[Any]
    of_captures = True

    def rows(
        self, team_id: uuid.UUID, columns: Sequence[Any], *where: ColumnElement[bool], periods: Sequence[Period]
    ) -> Select[Any]:
        """As of connections."""
        first_ns = ConnectionFact.first_ns.label("first_member_ns")
        of_facts = facts(team_id, *columns, first_ns).where(*where)
        attempts = facts(team_id, ConnectionFact.attempt_id).where(*where, during(ConnectionFact.first_ns, periods))
        number = func.jsonb_array_elements_text(FairnessGroup.members["connections"])
        # OFFSET: PostgreSQL would take each group apart anew for each connection of its capture.
        its = (
            select(
                FairnessGroup.attempt_id,
                FairnessGroup.bottleneck,
                self.value.label("value"),
                (FairnessGroup.verdict == "poor").label("unreliable"),
                cast(number, Integer).label("number"),
            )
            .where(FairnessGroup.attempt_id.in_(attempts))
            .offset(0)
            .subquery("its")
        )
        is_member = and_(ConnectionFact.attempt_id == its.c.attempt_id, ConnectionFact.number == its.c.number)
        if all(begin is not None and end is not None for begin, end in periods):
            # Few groups, which the planner takes for many: LIMIT makes it look up their members.
            member = of_facts.where(is_member).limit(1).lateral("member")
            members = select(its.c.value, its.c.unreliable, *member.c).join_from(its, member, true())
            began: ColumnElement[Any] = member.c.first_member_ns
        else:
            members = of_facts.add_columns(its.c.value, its.c.unreliable).join(its, is_member)
            began = ConnectionFact.first_ns.expression
        key = its.c.attempt_id, its.c.bottleneck
        of_each = members.ext(distinct_on(*key)).order_by(*key, began).subquery("of_each")
        return select(*of_each.c).where(during(of_each.c.first_member_ns, periods))

    def has_value(self, *, reliable: bool) -> ColumnElement[bool]:
        """Is a connection a member of a group that has a value, a reliable one if that is asked for?"""
        is_member = FairnessGroup.members["connections"].contains(func.to_jsonb(ConnectionFact.number))
        is_valid = [FairnessGroup.verdict != "poor"] if reliable else []
        of_capture = FairnessGroup.attempt_id == ConnectionFact.attempt_id
        return exists().where(of_capture, is_member, self.value.is_not(None), *is_valid).correlate(ConnectionFact)


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
