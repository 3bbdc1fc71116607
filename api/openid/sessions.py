"""Sessions that a provider's claims began: they end with the ID token, unless the provider confirms them again.

Its tokens are stored sealed: the key follows from the browser's secret, so that who reads the database cannot use them.
"""

from __future__ import annotations

import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from api import audit
from api.errors import Forbidden, Unauthenticated, Unavailable
from api.openid import members
from api.openid.attempts import Attempt
from api.openid.configuration import Configuration
from api.openid.provider import Away, Identity, Provider, Refused
from api.security import ENDED, SESSION_LASTS, transaction
from store.models import BrowserSession, Member, Token
from store.settings import settings
from store.tokens import new_token, token_hash

log = structlog.get_logger()

ANSWERS_AT = "/v1/session/openid"
_RENEWING = timedelta(seconds=30)
"""Longer than the provider may take: then another request may ask it."""
_LAST_PART = 0.2
"""Of a session's time: it is confirmed again while there is so much left of it."""


class NoTeam(Forbidden):
    """The claims of a person give no team."""


class OpenId:
    """Sign-in with one provider."""

    def __init__(self, configuration: Configuration) -> None:
        self.provider = Provider(configuration)

    @property
    def name(self) -> str:
        return self.provider.configuration.name

    @property
    def issuer(self) -> str:
        return self.provider.configuration.issuer

    @property
    def redirect_uri(self) -> str:
        return f"{settings().public_origin}{ANSWERS_AT}"

    async def address(self, attempt: Attempt) -> str:
        """Where the browser goes to sign in. Raises Away."""
        return await self.provider.authorization_address(
            self.redirect_uri, state=attempt.state, nonce=attempt.nonce, verifier=attempt.verifier
        )

    async def begin(self, attempt: Attempt, code: str, issuer: str | None, replaced: str | None) -> str:
        """The secret of a new session of who has signed in. replaced: that of the browser's session before.

        Raises Away, Refused, NoTeam.
        """
        person = await self.provider.confirm(
            code, verifier=attempt.verifier, nonce=attempt.nonce, redirect_uri=self.redirect_uri, issuer=issuer
        )
        secret = new_token()
        async with transaction() as session:
            admitted = await members.admit(session, self.issuer, person)
            if admitted:
                # In the order in which the configuration names them.
                named = [
                    one.rpartition(":")[0] for given in self.provider.configuration.teams.values() for one in given
                ]
                caller = admitted[min(admitted, key=named.index)]
                ended = (BrowserSession.expires_at <= func.clock_timestamp()) | (
                    BrowserSession.hash == token_hash(replaced or "")
                )
                await session.execute(delete(BrowserSession).where(ended))
                values = {"hash": token_hash(secret), "token_id": caller.token_id, **_lasting(secret, person)}
                await session.execute(insert(BrowserSession).values(values))
                await audit.note(session, caller, "sign_in", by=self.name)
        if not admitted:  # it is committed that they have lost the teams that they had
            raise NoTeam("no team belongs to the groups of this person")
        return secret

    async def renew(self, secret: str) -> None:
        """Has the provider confirm a session, if it is time and no other request does so.

        Raises Unauthenticated, Unavailable.
        """
        its_own = BrowserSession.hash == token_hash(secret)
        now = func.clock_timestamp()
        async with transaction() as session:
            taken = await session.execute(
                update(BrowserSession)
                .where(
                    its_own,
                    BrowserSession.renew_at <= now,
                    func.coalesce(BrowserSession.renewing_until, now) <= now,
                )
                .values(renewing_until=now + _RENEWING)
                .returning(BrowserSession.sealed)
            )
            sealed = taken.scalar_one_or_none()
            holds = await session.scalar(select(BrowserSession.claims_until > now).where(its_own))
            was = await session.execute(
                select(Member.issuer, Member.subject)
                .join(Token, Token.member_id == Member.id)
                .join(BrowserSession, BrowserSession.token_id == Token.id)
                .where(its_own)
            )
            issuer, subject = was.one_or_none() or (None, None)
        if sealed is None:
            if not holds:
                raise Unavailable("the session is being confirmed", {"Retry-After": "1"})
            return
        kept = _unsealed(secret, sealed)
        try:
            if issuer != self.issuer or subject is None or kept.get("refresh_token") is None:
                raise Refused("there is no refresh token of this issuer")
            person = await self.provider.confirm_again(kept["refresh_token"], subject=subject)
        except Away:
            if holds:
                return
            raise
        except Refused as e:
            log.info("openid.session_ended", reason=str(e))
            await self._end(secret)
            raise Unauthenticated(ENDED) from e
        async with transaction() as session:
            # Of a team that the claims do not give any more the token is revoked, and with it the session.
            await members.admit(session, self.issuer, person)
            lasts = _lasting(secret, person) | {"renewing_until": None}
            del lasts["expires_at"]  # not later than a week after signing in
            await session.execute(update(BrowserSession).where(its_own).values(lasts))

    async def _end(self, secret: str) -> None:
        async with transaction() as session:
            await session.execute(delete(BrowserSession).where(BrowserSession.hash == token_hash(secret)))

    async def leaving_address(self, secret: str, sealed: str) -> str | None:
        """Where the browser goes to sign out of the provider, too; None: nowhere, or the provider does not answer."""
        try:
            id_token = _unsealed(secret, sealed).get("id_token", "")
            return await self.provider.leaving_address(id_token, f"{settings().public_origin}/")
        except Away:
            return None


def _lasting(secret: str, person: Identity) -> dict[str, Any]:
    """Of a session that the provider has just confirmed."""
    now = datetime.now(UTC)
    until = min(person.until, now + SESSION_LASTS)
    kept = {"id_token": person.id_token, "refresh_token": person.refresh_token}
    return {
        "claims_until": until,
        "renew_at": until - (until - now) * _LAST_PART if person.refresh_token else until,
        "expires_at": now + SESSION_LASTS if person.refresh_token else until,
        "sealed": jwe.encrypt_compact({"alg": "dir", "enc": "A256GCM"}, json.dumps(kept), _key(secret)),
    }


def _key(secret: str) -> OctKey:
    return OctKey.import_key(hmac.digest(secret.encode(), b"the provider's tokens", "sha256"))


def _unsealed(secret: str, sealed: str) -> dict[str, str]:
    """Empty where it was not sealed with this secret."""
    try:
        plaintext = jwe.decrypt_compact(sealed, _key(secret)).plaintext
    except (JoseError, ValueError):
        return {}
    return dict(json.loads(plaintext or b"{}"))
