"""Bearer tokens. Only their SHA-256 is stored; they are random, so a slow hash is not needed."""

import hashlib
import secrets
from collections.abc import Iterable

from store.models import Role

PREFIX = "rw_"
SCOPES = ("read", "write", "admin")
SCOPES_OF: dict[Role, tuple[str, ...]] = {"viewer": ("read",), "analyst": ("read", "write"), "owner": SCOPES}
"""What a role may do: the most that a token of a member can have."""


def role_for(scopes: Iterable[str]) -> Role:
    """The role with the fewest rights that has all of these scopes."""
    return next(role for role, has in SCOPES_OF.items() if set(scopes) <= set(has))


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
