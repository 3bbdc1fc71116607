from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import select

from api.security import Reader, Session
from store.models import AlgorithmRecord

router = APIRouter(prefix="/v1/algorithms", tags=["algorithms"])


class Algorithms(BaseModel):
    algorithms: list[dict[str, Any]]


@router.get("")
async def get(session: Session, _: Reader) -> Algorithms:
    """What the workers can run, with options, defaults and reasons."""
    rows = await session.scalars(select(AlgorithmRecord.description).order_by(AlgorithmRecord.position))
    return Algorithms(algorithms=list(rows))
