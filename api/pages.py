"""Keyset pagination: a cursor names the last row of a page, so that pages neither skip nor repeat."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from api.errors import BadRequest

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=200)]


class Page(BaseModel, Generic[T]):
    items: list[T]
    next_cursor: str | None = None


def encode(*key: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps([str(k) for k in key]).encode()).decode().rstrip("=")


def decode(cursor: str, length: int) -> list[str]:
    """Raises BadRequest."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, UnicodeDecodeError) as e:
        raise BadRequest("the cursor is not one of ours") from e
    if not isinstance(key, list) or len(key) != length or not all(isinstance(k, str) for k in key):
        raise BadRequest("the cursor is not one of ours")
    return key
