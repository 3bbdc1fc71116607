"""Bearer tokens. Only their SHA-256 is stored; they are random, so a slow hash is not needed."""

import hashlib
import secrets

PREFIX = "rw_"
SCOPES = ("read", "write", "admin")


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
