"""A browser that is about to sign in.

All that its way to the provider and back needs follows from a secret in a cookie: the service keeps nothing of who does
not come back, and no other browser can take the second half of the way.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from dataclasses import dataclass

_OWN = re.compile(r"/(?![/\\])[!-\"$-\[\]-~]{0,1000}")
"""A path with its query, as an address has it: no character that a browser drops or reads as a slash, no second slash,
which would begin a host."""
LASTS_S = 600


def is_own(address: str) -> bool:
    """Does this lead to a page of the dashboard, whatever the browser makes of it?"""
    return _OWN.fullmatch(address) is not None


@dataclass(frozen=True)
class Attempt:
    secret: str
    return_to: str

    @classmethod
    def begin(cls, return_to: str) -> Attempt:
        return cls(secrets.token_urlsafe(32), return_to)

    @classmethod
    def of_cookie(cls, value: str, state: str) -> Attempt | None:
        """None: this browser did not begin what ends with this state."""
        secret, _, place = value.partition(".")
        try:
            attempt = cls(secret, base64.urlsafe_b64decode(place).decode("ascii"))
        except (binascii.Error, ValueError):
            return None
        fits = hmac.compare_digest(attempt.state.encode(), state.encode()) and is_own(attempt.return_to)
        return attempt if fits else None

    @property
    def cookie(self) -> str:
        return f"{self.secret}.{base64.urlsafe_b64encode(self.return_to.encode()).decode()}"

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    def _derived(self, purpose: str) -> str:
        found = hmac.digest(self.secret.encode(), purpose.encode(), "sha256")
        return base64.urlsafe_b64encode(found).rstrip(b"=").decode()
