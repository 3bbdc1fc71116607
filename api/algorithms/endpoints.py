from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from sqlalchemy import select

from api.schemas import Schema
from api.security import Reader, Session
from store.models import AlgorithmRecord

router = APIRouter(prefix="/v1/algorithms", tags=["algorithms"])


class OptionOut(Schema):
    name: str
    default: str
    values: str
    """What it takes, for people to read."""
    reason: str
    """Why there is a choice, and where the default comes from."""
    choices: list[str] | None = None
    """What it takes; null for a number."""
    least: float | None = None
    """Smallest value of a number; null for a choice."""
    most: float | None = None
    """Largest value of a number; null for a choice."""


class AlgorithmOut(Schema):
    name: str
    kind: Literal["single", "multipath"]
    source: str
    """The paper or RFC that defines it."""
    formula: str
    deviations: str
    """Where this implementation differs from the source, and why; empty where it does not."""
    detector: str | None
    """The detector that places its subflows in sets unless another is chosen; None: it does not use sets."""
    options: list[OptionOut]


class Algorithms(Schema):
    algorithms: list[AlgorithmOut]


@router.get("")
async def get(session: Session, _: Reader) -> Algorithms:
    """What the workers can run, with options, defaults and reasons."""
    rows = await session.scalars(select(AlgorithmRecord.description).order_by(AlgorithmRecord.position))
    return Algorithms(algorithms=[AlgorithmOut(**description) for description in rows])
