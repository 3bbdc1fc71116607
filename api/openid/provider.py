"""The OpenID Connect provider, asked over HTTP (OpenID Connect Core 1.0, Discovery 1.0; RFC 6749, 7636, 9207).

The requests of codes and tokens, PKCE and the rules for ID tokens are Authlib's, signatures joserfc's. Of joserfc's
algorithms only those with public keys are taken, whatever a token's header says. What the provider answers is bounded
in size and time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import httpx2
import structlog
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.auth import ClientAuth, encode_client_secret_basic
from authlib.oidc.core import CodeIDToken
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from api.errors import Unavailable
from api.openid.configuration import Configuration, is_confidential
from store.models import Role

log = structlog.get_logger()

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
ALGORITHMS = (
    *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "Ed25519",
)  # fmt: skip
"""Of ID tokens. Not `none`, and none with a shared secret."""
_REGISTRY = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
SKEW_S = 60
"""How far the provider's clock may be ahead."""

_ANSWER_S = 5.0
_ANSWER_BYTES_MAX = 512 << 10
_AT_ONCE = 8
_DESCRIPTION_KEPT_S = _KEYS_KEPT_S = 3600.0
ROTATION_S = 30.0
"""An unknown key is looked for at most so often: anybody can name one."""
_AGAIN_S = 5.0
"""A provider that did not answer is left alone for so long."""
_RETRY_S = 60
"""Longer than the dashboard's own patience: who wants to sign in is told at once."""


class Away(Unavailable):
    """The provider does not answer, or not as the standard says."""

    def __init__(self, reason: str) -> None:
        log.warning("openid.away", reason=reason)
        super().__init__("the sign-in provider does not answer at the moment", {"Retry-After": str(_RETRY_S)})


class Refused(Exception):
    """The provider confirms nobody by this, or what it says does not hold. The reason is for the log."""


@dataclass(frozen=True)
class Description:
    """Of the provider, by itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    takes_basic: bool
    """A client's secret may be sent as HTTP basic authentication."""
    names_itself: bool
    """Each authorization response has `iss`."""


@dataclass(frozen=True)
class Identity:
    """A person whom the provider has just confirmed."""

    subject: str
    names: tuple[str, ...]
    """The preferred one first."""
    teams: dict[str, Role]
    until: datetime
    id_token: str
    refresh_token: str | None


class Provider:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._secret = configuration.secret()
        self._tls = httpx2.create_ssl_context()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._describing, self._fetching = asyncio.Lock(), asyncio.Lock()
        self._description: Description | None = None
        self._described_at = self._failed_at = self._keys_at = self._looked_at = -float("inf")
        self._keys: list[tuple[dict[str, Any], jwk.Key]] = []

    async def description(self) -> Description:
        """Raises Away."""
        async with self._describing:
            now = time.monotonic()
            if self._description is not None and now - self._described_at < _DESCRIPTION_KEPT_S:
                return self._description
            if now - self._failed_at < _AGAIN_S:
                raise Away("it did not answer a moment ago")
            try:
                self._description = await self._describe()
                self._described_at = time.monotonic()
            except Away:
                self._failed_at = time.monotonic()
                raise
            return self._description

    async def _describe(self) -> Description:
        issuer = self.configuration.issuer
        status, said = await self._ask(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if status != 200 or said.get("issuer") != issuer:
            raise Away(f"no description of the issuer: status {status}, issuer {str(said.get('issuer'))[:200]!r}")

        def address(name: str) -> str | None:
            given = said.get(name)
            if given is not None and not (isinstance(given, str) and is_confidential(given, beside=issuer)):
                raise Away(f"its {name} is no https address")
            return given

        required = [address(n) for n in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        authorization, token, keys = required
        if authorization is None or token is None or keys is None:
            raise Away("its description lacks an endpoint")
        methods = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return Description(
            authorization,
            token,
            keys,
            address("userinfo_endpoint"),
            address("end_session_endpoint"),
            "client_secret_basic" in methods,
            said.get("authorization_response_iss_parameter_supported") is True,
        )

    async def authorization_address(self, redirect_uri: str, *, state: str, nonce: str, verifier: str) -> str:
        """Where the browser goes to sign in. Raises Away."""
        description = await self.description()
        async with self._client(description) as client:
            address, _ = client.create_authorization_url(
                description.authorization_endpoint,
                state,
                verifier,
                nonce=nonce,
                redirect_uri=redirect_uri,
                scope=self.configuration.scopes,
            )
        return str(address)

    async def leaving_address(self, id_token: str, back_to: str) -> str | None:
        """Where the browser goes to sign out of the provider, too (RP-Initiated Logout 1.0). Raises Away."""
        endpoint = (await self.description()).end_session_endpoint
        if endpoint is None:
            return None
        asked = {
            "id_token_hint": id_token,
            "client_id": self.configuration.client_id,
            "post_logout_redirect_uri": back_to,
        }
        return str(add_params_to_uri(endpoint, asked.items()))

    async def confirm(self, code: str, *, verifier: str, nonce: str, redirect_uri: str, issuer: str | None) -> Identity:
        """Who has signed in. issuer: as the authorization response names it. Raises Away, Refused."""
        description = await self.description()
        if issuer != self.configuration.issuer and (issuer is not None or description.names_itself):
            raise Refused("the response is of another issuer")
        async with self._client(description) as client:
            said = await self._exchange(
                client.fetch_token(
                    description.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                    redirect_uri=redirect_uri,
                )
            )
        return await self._identity(said, nonce=nonce)

    async def confirm_again(self, refresh_token: str, *, subject: str) -> Identity:
        """Who had signed in, with what the provider says of them now. Raises Away, Refused."""
        description = await self.description()
        async with self._client(description) as client:
            said = await self._exchange(client.refresh_token(description.token_endpoint, refresh_token))
        return await self._identity(said, subject=subject)

    def _client(self, description: Description | None = None) -> _Client:
        """A new one for each question about a person, because it keeps the tokens that it is given."""
        method = "client_secret_basic" if description and description.takes_basic else "client_secret_post"
        return _Client(
            self._at_once,
            client_id=self.configuration.client_id,
            client_secret=self._secret or None,
            token_endpoint_auth_method=method if self._secret else "none",
            code_challenge_method="S256",
            verify=self._tls,
        )

    async def _exchange(self, question: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """What the token endpoint answers. Raises Away, Refused."""
        try:
            return await question
        except OAuthError as e:
            error = str(e.error)[:60]
            if error == "invalid_client":
                raise Away("the token endpoint does not know this client") from e
            raise Refused(f"the token endpoint answers {error!r}") from e
        except (ValueError, TypeError, RecursionError) as e:
            raise Away(f"the token endpoint answers no tokens: {type(e).__name__}") from e

    async def _identity(
        self, said: dict[str, Any], *, nonce: str | None = None, subject: str | None = None
    ) -> Identity:
        """nonce: what the ID token must have; None: it may have any. subject: whose it must be."""
        id_token, refresh_token = said.get("id_token"), said.get("refresh_token")
        if not isinstance(id_token, str):
            raise Refused("there is no ID token")
        claims = await self.verified(id_token, nonce=nonce, access_token=said.get("access_token"))
        if subject is not None and claims["sub"] != subject:
            raise Refused("the ID token is of another person")
        groups = _claim(claims, self.configuration.claim)
        if groups is None:
            more = await self._userinfo(said.get("access_token"), claims["sub"])
            groups = _claim(more, self.configuration.claim)
            claims = {**more, **claims}
        names = (claims.get(n) for n in ("name", "preferred_username", "email", "sub"))
        return Identity(
            subject=claims["sub"],
            names=tuple(n for n in names if isinstance(n, str)),
            teams=self.configuration.teams_of(groups),
            until=datetime.fromtimestamp(claims["exp"], UTC),
            id_token=id_token,
            refresh_token=refresh_token if isinstance(refresh_token, str) else None,
        )

    async def verified(self, id_token: str, *, nonce: str | None, access_token: object = None) -> dict[str, Any]:
        """The claims of an ID token that holds (OpenID Connect Core 1.0, 3.1.3.7, 3.1.3.8). Raises Refused, Away."""
        try:
            header = jws.extract_compact(id_token.encode(), registry=_REGISTRY).headers()
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise Refused(f"the ID token is signed by {str(algorithm)[:20]!r}")
            key = await self._key(algorithm, header.get("kid"))
            said = jwt.decode(id_token, key, registry=_REGISTRY)
            required: dict[str, jwt.ClaimsOption] = {n: {"essential": True} for n in ("exp", "iat", "sub")}
            required["iss"] = {"essential": True, "value": self.configuration.issuer}
            required["aud"] = {"essential": True, "value": self.configuration.client_id}
            expected: dict[str, object] = {"nonce": nonce, "client_id": self.configuration.client_id}
            # Authlib 1.9 takes "Ed25519" for a hash of 25519 bits.
            if algorithm != "Ed25519":
                expected["access_token"] = access_token
            claims = CodeIDToken(said.claims, said.header, required, expected)
            claims.validate(leeway=SKEW_S)
        except (JoseError, ValueError, TypeError) as e:
            raise Refused(f"the ID token does not hold: {type(e).__name__} {str(e)[:100]}") from e
        # A session lasts as long as its ID token, by the clock here: no leeway.
        if not 0 < claims["exp"] - time.time() < 10 * 365 * 86400:
            raise Refused("the ID token has expired, or never does")
        return dict(claims)

    async def _key(self, algorithm: str, name: object) -> jwk.Key:
        """Raises Refused, Away."""
        async with self._fetching:
            if time.monotonic() - self._keys_at > _KEYS_KEPT_S:
                await self._fetch_keys()
            key = self._find(algorithm, name)
            if key is None and time.monotonic() - self._looked_at > ROTATION_S:
                self._looked_at = time.monotonic()
                await self._fetch_keys()
                key = self._find(algorithm, name)
        if key is None:
            raise Refused("the ID token is signed with a key that the provider does not publish")
        return key

    def _find(self, algorithm: str, name: object) -> jwk.Key | None:
        """The one key of this name; without a name, the only key there is for the algorithm."""
        fitting = [
            key
            for its, key in self._keys
            if its["kty"] == _KEY_TYPES[algorithm[:2]]
            and its.get("use", "sig") == "sig"
            and its.get("alg", algorithm) == algorithm
            and name in (None, its.get("kid"))
        ]
        return fitting[0] if len(fitting) == 1 else None

    async def _fetch_keys(self) -> None:
        status, said = await self._ask((await self.description()).jwks_uri)
        given = said.get("keys")
        if status != 200 or not isinstance(given, list):
            raise Away(f"no keys: status {status}")
        keys = []
        for its in given:
            # Others, which this version may not know, are of no use here.
            if isinstance(its, dict) and its.get("kty") in _KEY_TYPES.values():
                try:
                    keys.append((its, jwk.import_key(its)))
                except (JoseError, ValueError, KeyError, TypeError) as e:
                    log.warning("openid.key_not_read", reason=type(e).__name__)
        self._keys, self._keys_at = keys, time.monotonic()

    async def _userinfo(self, access_token: object, subject: str) -> dict[str, Any]:
        """Raises Refused, Away."""
        endpoint = (await self.description()).userinfo_endpoint
        if endpoint is None or not isinstance(access_token, str):
            return {}
        status, said = await self._ask(endpoint, headers={"Authorization": f"Bearer {access_token}"})
        if status != 200:
            raise Away(f"userinfo answers {status}")
        if said.get("sub") != subject:
            raise Refused("userinfo is of another person")
        return said

    async def _ask(self, address: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and JSON of the answer. Raises Away."""
        async with self._client() as client:
            answer = await client.request("GET", address, withhold_token=True, headers=headers)
        try:
            said = answer.json()
        except (ValueError, RecursionError) as e:
            raise Away(f"{address} answers no JSON, with status {answer.status_code}") from e
        if not isinstance(said, dict):
            raise Away(f"{address} answers no object")
        return answer.status_code, said


class _Client(AsyncOAuth2Client):  # type: ignore[misc]
    """Whose answers are bounded in size and time; redirections are not followed. Raises Away for HTTPError."""

    def __init__(self, at_once: asyncio.Semaphore, **more: Any) -> None:
        super().__init__(headers={"Accept": "application/json", "Accept-Encoding": "identity"}, **more)
        self._at_once = at_once
        self.register_client_auth_method(("client_secret_basic", _basic))
        for kind in ("access_token_response", "refresh_token_response"):
            self.register_compliance_hook(kind, _is_of_tokens)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **more: Any) -> httpx2.Response:
        body = bytearray()
        try:
            async with asyncio.timeout(_ANSWER_S), self._at_once:
                answer = await super().send(request, stream=True, **more)
                try:
                    async for piece in answer.aiter_raw():
                        body += piece
                        if len(body) > _ANSWER_BYTES_MAX:
                            raise Away(f"it answers more than {_ANSWER_BYTES_MAX} bytes")
                finally:
                    await answer.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as e:
            raise Away(f"{type(e).__name__} of {request.url}") from e
        return httpx2.Response(answer.status_code, content=bytes(body), request=request)


def _basic(client: ClientAuth, method: str, uri: str, headers: Any, body: Any) -> Any:
    """HTTP basic authentication of a client (RFC 6749, 2.3.1). Authlib 1.9 does not encode the two parts."""
    encoded = ClientAuth(quote_plus(client.client_id), quote_plus(client.client_secret))
    return encode_client_secret_basic(encoded, method, uri, headers, body)


def _is_of_tokens(answer: httpx2.Response) -> httpx2.Response:
    """Another status than these is no answer about a code or token (RFC 6749, 5). Raises Away."""
    if answer.status_code not in (200, 400):
        raise Away(f"the token endpoint answers {answer.status_code}")
    return answer


def _claim(claims: dict[str, Any], name: str) -> Any:
    """By its name, which may have dots itself; else by the way that the dots lead. None: it is not there."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
