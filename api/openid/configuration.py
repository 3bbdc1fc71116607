"""The provider that people sign in with, and which teams its claims give them (`REWINDOW_OIDC_...`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from store.models import Role
from store.settings import settings
from store.tokens import SCOPES_OF

_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


def is_confidential(address: str, *, beside: str | None = None) -> bool:
    """https, or http on the loopback interface, as in tests. beside: http only where this address has it, too."""
    parts = urlsplit(address)
    if parts.username is not None or not parts.hostname:
        return False
    on_loopback = parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname) is not None
    return parts.scheme == "https" or (on_loopback and (beside is None or urlsplit(beside).scheme == "http"))


class Configuration(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="REWINDOW_OIDC_", extra="ignore", env_ignore_empty=True)

    issuer: str
    """As the provider's own description has it, to the character."""
    client_id: str
    client_secret_file: Path | None = None
    """None, or an empty file: a public client, which PKCE alone protects."""
    name: str = Field(default="single sign-on", max_length=60)
    """Of the provider, as the sign-in page shows it."""
    scopes: str = "openid profile email"
    """Separated by spaces. Some providers give what renews a session only with offline_access."""
    claim: str = "groups"
    """The claim that has the groups of a person; dots lead into objects (realm_access.roles)."""
    teams: dict[str, list[str]]
    """By value of the claim: TEAM:ROLE, one or several."""

    @field_validator("issuer")
    @classmethod
    def _is_confidential(cls, issuer: str) -> str:
        if not is_confidential(issuer) or urlsplit(issuer).query or urlsplit(issuer).fragment:
            raise ValueError("must be an https address without query (http only on the loopback interface)")
        return issuer

    @field_validator("teams", mode="before")
    @classmethod
    def _one_or_several(cls, teams: Any) -> Any:
        if not isinstance(teams, Mapping):
            return teams
        return {value: [given] if isinstance(given, str) else given for value, given in teams.items()}

    @field_validator("teams")
    @classmethod
    def _have_roles(cls, teams: dict[str, list[str]]) -> dict[str, list[str]]:
        for one in (one for given in teams.values() for one in given):
            team, _, role = one.rpartition(":")
            if not team or role not in get_args(Role):
                raise ValueError(f"'{one}' is not TEAM:ROLE with a role of {', '.join(get_args(Role))}")
        return teams

    @model_validator(mode="after")
    def _has_an_address(self) -> Configuration:
        if "openid" not in self.scopes.split():
            raise ValueError("REWINDOW_OIDC_SCOPES must have openid")
        if settings().public_url is None:
            raise ValueError("REWINDOW_PUBLIC_URL must be set: providers send people back to a known address only")
        return self

    def secret(self) -> str:
        return self.client_secret_file.read_text().strip() if self.client_secret_file else ""

    def teams_of(self, values: Any) -> dict[str, Role]:
        """The role in each team that these values of the claim give; of several roles, the one that may most."""
        found: dict[str, Role] = {}
        for value in [values] if isinstance(values, str) else values if isinstance(values, list) else []:
            for one in self.teams.get(value, []) if isinstance(value, str) else []:
                team, _, given = one.rpartition(":")
                role: Role = next(r for r in SCOPES_OF if r == given)
                if team not in found or len(SCOPES_OF[role]) > len(SCOPES_OF[found[team]]):
                    found[team] = role
        return found


@lru_cache
def configuration() -> Configuration | None:
    """None: nobody signs in by OpenID Connect. Raises ValidationError where the settings do not fit together."""
    return Configuration() if os.environ.get("REWINDOW_OIDC_ISSUER") else None  # type: ignore[call-arg]
