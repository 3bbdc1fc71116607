"""Secrets and signatures of webhooks, as Standard Webhooks 1.0 has them (standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Iterable

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def shown(secret: bytes) -> str:
    """As a receiver's library takes it."""
    return PREFIX + base64.b64encode(secret).decode()


def message_id(delivery: uuid.UUID) -> str:
    """The same with each attempt: a receiver knows by it what it has got already."""
    return f"msg_{delivery.hex}"


def signature(secrets_in_use: Iterable[bytes], message: str, timestamp: int, body: bytes) -> str:
    """The header's value: a signature by each secret, so that a receiver may have the new one or the old one.

    timestamp: of this attempt, seconds since 1970.
    """
    signed = f"{message}.{timestamp}.".encode() + body
    macs = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets_in_use)
    return " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in macs)
