"""What a team keeps of the captures that it uploads (docs/privacy.md)."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from dataclasses import dataclass, field

from sqlalchemy import select

from api.security import transaction
from store.models import Addresses, Payload, Team

_KEY_BYTES = 16


@dataclass(frozen=True)
class Privacy:
    payload: Payload
    addresses: Addresses
    secret: bytes = field(repr=False)
    """Of the team, which nothing tells."""

    def recognition_of(self, sha256: bytes) -> bytes:
        """By what the same bytes are recognised. It does not tell others whether a file that they have was uploaded."""
        return hmac.digest(self.secret, b"received" + sha256, hashlib.sha256)

    @property
    def addresses_key(self) -> bytes | None:
        """From which the addresses follow that replace others; None: they stay."""
        if self.addresses == "kept":
            return None
        return hmac.digest(self.secret, b"addresses", hashlib.sha256)[:_KEY_BYTES]


async def of_team(team_id: uuid.UUID) -> Privacy:
    """In a transaction of its own: an upload that follows may take hours."""
    async with transaction() as session:
        row = (await session.execute(select(Team.payload, Team.addresses, Team.secret).where(Team.id == team_id))).one()
    return Privacy(row.payload, row.addresses, row.secret)
