from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from store.models import State


class ConnectionOut(BaseModel):
    id: uuid.UUID
    capture_id: uuid.UUID
    number: int
    """Its place in the capture, as the command line counts."""
    kind: str
    version: int | None
    token: str | None
    bytes: int
    goodput_bps: float | None
    completion_s: float | None
    retransmitted_packets: int
    first_ns: int
    last_ns: int
    rows: int
    subflow_count: int
    quality: list[str]
    verdict: str
    unreliable: list[str]
    """Results that rest on what is wrong with it."""


class SubflowOut(BaseModel):
    number: int
    src: str
    sport: int
    dst: str
    dport: int
    bytes: int
    packets: int
    retransmitted_packets: int
    retransmitted_bytes: int
    spurious_retransmissions: int
    rtt_min_us: int | None
    rtt_median_us: int | None
    rtt_p95_us: int | None
    goodput_bps: float | None
    duration_s: float
    ece_acks: int
    ce_packets: int
    fast_retransmits: int
    timeouts: int
    vantage: str
    interface: str
    send_times: str
    ecn: str
    paced: bool
    first_unseen_ns: int | None
    sender_algorithm: str
    sender_match: float | None
    quality: list[str]
    verdict: str
    unreliable: list[str]


class ReplayOut(BaseModel):
    id: uuid.UUID
    label: str
    algorithm: str
    options: dict[str, Any]
    state: State
    error: str | None
    created_at: datetime
    windows: list[dict[str, Any]] | None


class FirstViolation(BaseModel):
    algorithm: str
    property: str
    """As the specification calls it."""
    step: str
    path: int
    row: int
    """Rows of the capture before it."""
    time_ns: int


class ConformanceOut(BaseModel):
    """What the monitor found of the controllers' steps, when the capture was analysed."""

    steps: int
    violations: int
    first: FirstViolation | None


class ConnectionDetail(ConnectionOut):
    details: dict[str, Any]
    conformance: ConformanceOut | None
    """None: analysed before steps were checked."""
    capture_filename: str
    subflows: list[SubflowOut]
    replays: list[ReplayOut]


class ReplayIn(BaseModel):
    algorithm: Annotated[str, Field(max_length=40)]
    options: Annotated[dict[str, str | int | float | bool], Field(max_length=32)] = {}
