from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from store.models import State


class CaptureOut(BaseModel):
    id: uuid.UUID
    filename: str
    bytes: int
    sha256: str
    tags: dict[str, Any]
    state: State
    stage: str
    progress: float
    """0 to 1."""
    error: str | None
    created_at: datetime
    analysed_at: datetime | None
    summary: dict[str, Any] | None
    connections: int | None
    """How many; None before it is done."""


class FairnessOut(BaseModel):
    bottleneck: str
    method: str
    """What decided that its members share it: sbd, declared or interface."""
    connections: list[int]
    kinds: list[str]
    goodput_bps: list[float]
    jain: float
    mptcp_to_tcp_ratio: float | None
    declared: bool
    verdict: str


class CaptureDetail(CaptureOut):
    fairness: list[FairnessOut]
