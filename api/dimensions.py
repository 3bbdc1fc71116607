"""What connections are grouped by: expressions over their facts and their capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from sqlalchemy import BigInteger, ColumnElement, Select, String, case, cast, func, literal, select, true

from api.errors import Unprocessable
from store import facts
from store.models import VERDICTS, Capture, ConnectionFact, QualityRecord

TAG = "tag:"
_HOUR_NS = 3600 * 10**9


def _text(column: Any) -> ColumnElement[Any]:
    return cast(column, String)


def _begin(unit_ns: int) -> ColumnElement[Any]:
    """In RFC 3339's form. Division truncates; times before 1970 have no begin of their own."""
    begin = ConnectionFact.first_ns - func.mod(ConnectionFact.first_ns, literal(unit_ns, BigInteger))
    return begin


@dataclass(frozen=True)
class Dimension:
    """is_time: a value is the begin of a period, nanoseconds since 1970. of_capture: all connections of a capture have
    the same value. by_quality: the table `qualities` has the value. each: a connection may have several values, which
    are the rows of this; it is then in several groups. counted_by: what has the same groups and is quicker to count;
    its text is the value."""

    name: str
    value: ColumnElement[Any]
    is_time: bool = False
    of_capture: bool = False
    by_quality: bool = False
    each: Any = None
    counted_by: ColumnElement[Any] | None = None


_FACT = ConnectionFact
_MARKS = select(func.unnest(QualityRecord.quality).label("mark")).correlate(QualityRecord).lateral("marks")
_RANKS = [(Capture.verdict_rank == rank, verdict) for rank, verdict in enumerate(VERDICTS, 1)]
_FIXED = {
    d.name: d
    for d in (
        Dimension("kind", _FACT.kind.expression),
        Dimension("sender_algorithm", _FACT.sender_algorithm.expression),
        Dimension("subflow_count", _text(_FACT.subflow_count), counted_by=_FACT.subflow_count.expression),
        Dimension("verdict", QualityRecord.verdict.expression, by_quality=True),
        Dimension("mark", _MARKS.c.mark, by_quality=True, each=_MARKS),
        Dimension("prefix", facts.prefix(_FACT.src), counted_by=facts.network(_FACT.src)),
        Dimension("peer_prefix", facts.prefix(_FACT.dst), counted_by=facts.network(_FACT.dst)),
        Dimension("src", func.host(_FACT.src)),
        Dimension("dst", func.host(_FACT.dst)),
        Dimension("sport", _text(_FACT.sport), counted_by=_FACT.sport.expression),
        Dimension("dport", _text(_FACT.dport), counted_by=_FACT.dport.expression),
        Dimension("site", Capture.site.expression, of_capture=True),
        Dimension("uploader", _text(Capture.uploader_id), of_capture=True),
        Dimension("capture_verdict", case(*_RANKS, else_=None), of_capture=True),
        Dimension("hour", _begin(_HOUR_NS), is_time=True),
        Dimension("day", _begin(facts.DAY_NS), is_time=True),
    )
}
NAMES = (*_FIXED, f"{TAG}KEY")

Name = Annotated[
    str, Field(pattern=r"^(" + "|".join(_FIXED) + r"|tag:[^=]{1,100})$", description=f"One of {', '.join(NAMES)}")
]
Names = Annotated[list[Name], Query(max_length=2, description=f"At most two of {', '.join(NAMES)}")]


def joined(rows: Select[Any], by: Sequence[Dimension]) -> Select[Any]:
    """rows: of facts and captures; what else the dimensions are of is joined to them."""
    if any(d.by_quality for d in by):
        rows = rows.join(QualityRecord, QualityRecord.id == ConnectionFact.quality_id)
    for dimension in by:
        if dimension.each is not None:
            rows = rows.outerjoin(dimension.each, true())
    return rows


def of(name: str) -> Dimension:
    """Raises Unprocessable."""
    if name.startswith(TAG) and len(name) > len(TAG):
        return Dimension(name, Capture.tags[name.removeprefix(TAG)].astext, of_capture=True)
    if name not in _FIXED:
        raise Unprocessable(f"unknown dimension '{name[:60]}'; there are: {', '.join(NAMES)}")
    return _FIXED[name]
