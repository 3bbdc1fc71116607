from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from sqlalchemy import select

from api import exports
from api.errors import NotFound
from api.model_checks.schemas import ModelCheckOut, Verdict
from api.model_checks.service import latest
from api.schemas import Schema
from api.security import Reader, Session
from store.models import SpecRecord

router = APIRouter(prefix="/v1/specs", tags=["specs"])


class ConstantOut(Schema):
    """The range of a constant: an integer, or the number of members of a set."""

    min: int
    max: int
    meaning: str


class PinnedOut(Schema):
    """The pinned result of TLC with the configuration's own constants."""

    violates: str | None
    distinct: int
    depth: int | None
    states: int | None
    """How many states the counterexample has."""


class LastOut(Schema):
    """The team's last check of the configuration that has ended."""

    id: uuid.UUID
    verdict: Verdict
    violated: str | None
    constants: dict[str, int]
    as_pinned: bool | None
    finished_at: datetime


class ConfigurationOut(Schema):
    name: str
    shows: str | None
    suite: str
    flags: list[str]
    """Options of the run that weaken its properties."""
    properties: list[str]
    constants: dict[str, int]
    """The constants that may be chosen, with their values in the configuration."""
    pinned: PinnedOut
    last: LastOut | None


class SpecOut(Schema):
    name: str
    title: str
    windows: str | None
    """The variable that holds a window for each subflow."""
    constants: dict[str, ConstantOut]
    configurations: list[ConfigurationOut]
    controllers: list[str]
    """Algorithms whose steps on a connection it describes: POST /v1/model-checks with `connection` checks them."""


class ConfigurationRow(ConfigurationOut):
    """Of a file."""

    spec: str


class Specs(Schema):
    specs: list[SpecOut]


def _last(check: ModelCheckOut | None) -> LastOut | None:
    return None if check is None else LastOut(**check.model_dump(include=set(LastOut.model_fields)))


@router.get("")
async def get(session: Session, caller: Reader) -> Specs:
    """The specifications that the workers can check, with configurations, pinned results, ranges and last verdicts."""
    rows = (await session.scalars(select(SpecRecord).order_by(SpecRecord.position))).all()
    last = {(c.spec, c.configuration): c for c in await latest(session, caller)}
    return Specs(
        specs=[
            SpecOut(
                name=r.name,
                title=r.description["title"],
                windows=r.description["windows"],
                constants=r.description["constants"],
                controllers=r.description.get("controllers", []),
                configurations=[
                    ConfigurationOut(**c, last=_last(last.get((r.name, c["name"]))))
                    for c in r.description["configurations"]
                ],
            )
            for r in rows
        ]
    )


_COLUMNS = exports.columns_of(ConfigurationRow)


@router.get("/configurations.{suffix}", responses={200: exports.FILE}, response_class=StreamingResponse)
async def export_configurations(
    session: Session,
    caller: Reader,
    suffix: exports.Suffix,
    spec: Annotated[str | None, Query(max_length=80, description="Only those of this one; without it, all.")] = None,
) -> StreamingResponse:
    """The configurations of specifications as a file, with pinned results and last verdicts."""
    rows = [
        ConfigurationRow(spec=found.name, **configuration.model_dump())
        for found in (await get(session, caller)).specs
        if spec in (None, found.name)
        for configuration in found.configurations
    ]
    if spec is not None and not rows:
        raise NotFound(f"there is no specification {spec!r}; GET /v1/specs lists them")
    table = exports.Table("configurations", _COLUMNS, "" if spec is None else f"spec={spec}")
    return await exports.export(session, caller, suffix, table, None, exports.given(rows))
