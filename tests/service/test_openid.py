"""Sign-in by OpenID Connect with a real provider, which runs beside."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from fastapi.testclient import TestClient
from joserfc import jwk, jwt
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from api.openid import provider as asked
from api.openid.attempts import is_own
from api.openid.configuration import Configuration
from api.openid.provider import Away, Provider, Refused
from api.openid.sessions import OpenId
from deploy.run import CHECKOUT, Services
from store.database import engine
from store.models import BrowserSession
from store.settings import settings
from tests.openid import SECRET, RealProvider, provider
from tests.service.test_api import assert_problem

ORIGIN = "http://testserver"


@pytest.fixture(scope="module")
def real() -> Iterator[RealProvider]:
    with provider(f"{ORIGIN}/v1/session/openid") as started:
        yield started


@dataclass
class Browser:
    """Of one person: its cookies are its own."""

    application: TestClient
    real: RealProvider
    person: str
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, **more: Any) -> Any:
        self.application.cookies.clear()
        headers = {"Origin": ORIGIN, "Cookie": "; ".join(f"{n}={v}" for n, v in self.cookies.items())}
        answer = self.application.request(method, path, headers=headers, follow_redirects=False, **more)
        for cookie in answer.headers.get_list("set-cookie"):
            assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; ")), cookie
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in cookie:
                del self.cookies[name]
        return answer

    def leave(self, return_to: str = "/") -> str:
        """Begins a sign-in. Returns the provider's address."""
        answer = self.ask("POST", "/v1/session/openid", json={"return_to": return_to})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["address"])

    def arrive(self, address: str) -> str:
        """Comes back from the provider. Returns where this leads."""
        answer = self.ask("GET", address.removeprefix(ORIGIN))
        assert (answer.status_code, answer.headers["cache-control"]) == (303, "no-store"), answer.text
        return str(answer.headers["location"])

    def sign_in(self, return_to: str = "/") -> str:
        return self.arrive(self.real.sign_in(self.leave(return_to), self.person))

    def me(self) -> dict[str, Any]:
        answer = self.ask("GET", "/v1/teams/me")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def end_time(self, **columns: Any) -> None:
        """Lets columns of the session be in the past, as they are when its time has come."""
        with engine().begin() as connection:
            changed = update(BrowserSession).where(BrowserSession.claims_until.is_not(None))
            connection.execute(changed.values({name: func.clock_timestamp() for name in columns}))


@dataclass
class Setting:
    application: TestClient
    real: RealProvider
    team: str
    """Of the groups engineers (analysts) and leads (owners)."""
    lab: str
    """Where engineers are viewers, too."""

    def browser(self, *groups: str, name: str | None = "Ann") -> Browser:
        """Of a new person with these groups."""
        person = f"person-{uuid.uuid4()}"
        self.says(person, *groups, name=name)
        return Browser(self.application, self.real, person)

    def says(self, person: str, *groups: str, name: str | None = "Ann") -> None:
        self.real.control(people={person: {"groups": groups} | ({"name": name} if name else {})})

    @property
    def openid(self) -> OpenId:
        found: OpenId = self.application.app.state.openid  # type: ignore[attr-defined]
        return found

    def log(self, browser: Browser) -> list[tuple[str, dict[str, Any]]]:
        team = browser.me()["id"]
        events = browser.ask("GET", f"/v1/teams/{team}/audit").json()["items"]
        return [(e["action"], e["detail"]) for e in events if e["member"].startswith("Ann")]


@pytest.fixture
def signing(
    application: TestClient, real: RealProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Setting]:
    """The service with this provider."""
    monkeypatch.setenv("REWINDOW_PUBLIC_URL", ORIGIN)
    monkeypatch.setattr("api.openid.provider._ANSWER_S", 60.0)
    settings.cache_clear()
    real.control(options={"algorithm": "ES256", "in_id_token": False, "lasts": 600, "refreshes": True})
    made = Setting(application, real, f"team-{uuid.uuid4()}", f"lab-{uuid.uuid4()}")
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    application.app.state.openid = OpenId(  # type: ignore[attr-defined]
        Configuration(
            issuer=real.issuer, client_id="rewindow", client_secret_file=secret, name="Company",
            teams={
                "engineers": [f"{made.team}:analyst", f"{made.lab}:viewer"], "leads": [f"{made.team}:owner"],
                "guests": [f"{made.lab}:viewer"],
            },
        )
    )  # fmt: skip
    try:
        yield made
    finally:
        application.app.state.openid = None  # type: ignore[attr-defined]
        monkeypatch.undo()
        settings.cache_clear()


@pytest.mark.parametrize("in_id_token", [True, False])
def test_a_person_signs_in_and_out(signing: Setting, in_id_token: bool) -> None:
    """The groups are in the ID token, or where the access token leads."""
    signing.real.control(options={"in_id_token": in_id_token})
    browser = signing.browser("others", "engineers", "leads")
    assert browser.ask("GET", "/v1/session/ways").json() == {"openid_connect": "Company"}
    place = "/connections?sort=-goodput_bps&tag=site%3Dberlin"
    address = browser.leave(place)
    query = dict(parse_qsl(urlsplit(address).query))
    assert (query["code_challenge_method"], query["response_type"]) == ("S256", "code")
    assert browser.arrive(signing.real.sign_in(address, browser.person)) == place
    assert browser.cookies.keys() == {"rewindow_session"}, "the attempt's own is gone"
    me = browser.me()
    assert (me["name"], me["member"], me["role"]) == (signing.team, "Ann", "owner")
    assert [t["name"] for t in me["others"]] == [signing.lab]
    assert signing.log(browser) == [("sign_in", {"by": "Company"}), ("add_member", {"role": "owner", "by": "claims"})]
    with engine().connect() as connection:
        assert signing.real.issuer not in str(connection.execute(select(BrowserSession)).all()), "it is sealed"
    left = browser.ask("DELETE", "/v1/session")
    asked_for = dict(parse_qsl(urlsplit(left.json()["address"]).query))
    assert asked_for["post_logout_redirect_uri"] == f"{ORIGIN}/"
    assert asked_for["id_token_hint"].count(".") == 2
    assert not browser.cookies
    browser.sign_in()
    assert [action for action, _ in signing.log(browser)][:2] == ["sign_in", "sign_out"]


def test_each_session_leads_to_one_team_of_several(signing: Setting) -> None:
    browser = signing.browser("engineers")
    browser.sign_in()
    (lab,) = browser.me()["others"]
    assert browser.ask("PATCH", "/v1/session", json={"team_id": lab["id"]}).status_code == 204
    me = browser.me()
    assert (me["name"], me["role"], [t["name"] for t in me["others"]]) == (signing.lab, "viewer", [signing.team])
    stranger = signing.browser("guests")
    stranger.sign_in()
    team = me["others"][0]["id"]
    assert_problem(stranger.ask("PATCH", "/v1/session", json={"team_id": team}), 404, "no such team")
    assert stranger.me()["member"] == "Ann 2", "nobody has the name of another member"


def test_claims_win(signing: Setting) -> None:
    """Owners give those who come by claims no other role and no token, which would last longer."""
    lead, browser = signing.browser("leads", name="Lea"), signing.browser("engineers")
    lead.sign_in()
    browser.sign_in()
    url = f"/v1/teams/{lead.me()['id']}"
    (ann,) = (m for m in lead.ask("GET", f"{url}/members").json() if m["name"] == "Ann")
    assert ann["confirmed_at"]
    one = f"{url}/members/{ann['id']}"
    assert_problem(lead.ask("PATCH", one, json={"role": "owner"}), 409, "what the sign-in provider says")
    wanted = {"name": "laptop", "member_id": ann["id"]}
    assert_problem(lead.ask("POST", f"{url}/tokens", json=wanted), 409, "would last longer")
    assert_problem(lead.ask("POST", f"{url}/tokens", json={"name": "laptop"}), 409, "would last longer")
    # Removed and revoked is gone at once; the claims bring it back.
    assert lead.ask("DELETE", one).status_code == 204
    assert_problem(browser.ask("GET", "/v1/teams/me"), 401, "the session has ended")
    browser.sign_in()
    (token,) = (t for t in lead.ask("GET", f"{url}/tokens").json() if t["member"] == "Ann" and not t["revoked_at"])
    assert lead.ask("DELETE", f"{url}/tokens/{token['id']}").status_code == 204
    assert_problem(browser.ask("GET", "/v1/teams/me"), 401, "the session has ended")
    browser.sign_in()
    assert browser.me()["role"] == "analyst"


def test_a_session_is_confirmed_again_and_loses_what_the_claims_lose(signing: Setting) -> None:
    browser, lead = signing.browser("engineers", "leads"), signing.browser("leads", name="Lea")
    lead.sign_in()
    browser.sign_in()
    with engine().connect() as connection:
        until = select(BrowserSession.claims_until, BrowserSession.renew_at, BrowserSession.expires_at)
        claims_until, renew_at, expires_at = connection.execute(
            until.order_by(BrowserSession.created_at.desc())
        ).first()
    assert renew_at < claims_until < expires_at
    assert 500 < claims_until.timestamp() - time.time() <= 600, "as the ID token"
    signing.says(browser.person, "engineers")
    assert browser.me()["role"] == "owner", "it is not yet time to ask"
    browser.end_time(renew_at=True)
    assert browser.me()["role"] == "analyst"
    assert ("change_member", {"before": "owner", "after": "analyst", "by": "claims"}) in signing.log(lead)
    browser.end_time(renew_at=True, claims_until=True)
    assert browser.me()["role"] == "analyst", "an ended one is confirmed, too, by the next refresh token"
    signing.says(browser.person, "guests")
    browser.end_time(renew_at=True)
    assert_problem(browser.ask("GET", "/v1/captures"), 401, "the session has ended")
    assert ("remove_member", {"role": "analyst", "by": "claims"}) in signing.log(lead)
    browser.sign_in()
    assert (browser.me()["name"], browser.me()["others"]) == (signing.lab, [])
    signing.says(browser.person, "others")
    assert browser.sign_in("/captures") == "/captures#sign-in-no-team"
    assert_problem(browser.ask("GET", "/v1/captures"), 401, "the session has ended")


def test_a_person_whom_the_provider_does_not_know_any_more(signing: Setting) -> None:
    browser = signing.browser("engineers")
    browser.sign_in()
    signing.real.control(people={browser.person: None})
    browser.end_time(renew_at=True)
    assert_problem(browser.ask("GET", "/v1/captures"), 401, "the session has ended")
    signing.says(browser.person, "engineers")
    assert_problem(browser.ask("GET", "/v1/captures"), 401, "the session has ended")


def test_without_a_refresh_token_a_session_ends_with_the_id_token(signing: Setting) -> None:
    signing.real.control(options={"refreshes": False, "lasts": 60})
    browser = signing.browser("engineers")
    browser.sign_in()
    with engine().connect() as connection:
        (expires_at,) = connection.scalars(
            select(BrowserSession.expires_at).where(BrowserSession.expires_at == BrowserSession.claims_until)
        )
    assert 30 < expires_at.timestamp() - time.time() <= 60
    browser.end_time(renew_at=True, claims_until=True, expires_at=True)
    assert_problem(browser.ask("GET", "/v1/captures"), 401, "the session has ended")


def test_one_request_asks_the_provider_and_the_others_do_not_wait(signing: Setting) -> None:
    browser = signing.browser("engineers")
    browser.sign_in()
    with engine().begin() as connection:
        later = func.clock_timestamp() + timedelta(seconds=20)
        connection.execute(update(BrowserSession).values(renewing_until=later))
    browser.end_time(renew_at=True)
    before = signing.real.control()["/token"]
    assert browser.me()["role"] == "analyst", "it holds still"
    browser.end_time(claims_until=True)
    answer = browser.ask("GET", "/v1/captures")
    assert_problem(answer, 503, "is being confirmed")
    assert answer.headers["retry-after"] == "1"
    assert signing.real.control()["/token"] == before
    signing.application.app.state.openid, configured = None, signing.openid  # type: ignore[attr-defined]
    answer = browser.ask("GET", "/v1/captures")
    signing.application.app.state.openid = configured  # type: ignore[attr-defined]
    assert_problem(answer, 401, "the session has ended")  # there is no provider any more that could confirm it


def test_only_the_browser_that_began_ends_a_sign_in(signing: Setting) -> None:
    ann, eve = signing.browser("engineers"), signing.browser("engineers", name="Eve")
    eves = signing.real.sign_in(eve.leave(), eve.person)
    assert ann.arrive(eves) == "/#sign-in-stale", "nobody is signed in as somebody else"
    ann.leave("/captures")
    assert ann.arrive(eves) == "/#sign-in-stale"
    back = signing.real.sign_in(ann.leave("/captures"), ann.person)
    state = dict(parse_qsl(urlsplit(back).query))["state"]
    assert ann.arrive(changed(back, state=state[:-1] + "_")) == "/#sign-in-stale", "each character of the state counts"
    # In two tabs at once.
    first, second = ann.leave("/captures"), ann.leave("/connections")
    assert ann.arrive(signing.real.sign_in(second, ann.person)) == "/connections"
    assert ann.arrive(signing.real.sign_in(first, ann.person)) == "/captures"
    assert ann.me()["member"] == "Ann"
    assert ann.ask("POST", "/v1/session/openid", json={}, params={"x": 1}).status_code == 422
    ann.application.cookies.clear()
    elsewhere = {"Origin": "https://elsewhere.example"}
    assert_problem(ann.application.post("/v1/session/openid", json={}, headers=elsewhere), 403, "own pages")


def changed(address: str, **parameters: str) -> str:
    parts = urlsplit(address)
    return parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **parameters})).geturl()


def test_what_does_not_belong_together_is_refused(signing: Setting) -> None:
    browser = signing.browser("engineers")
    refused = "/captures#sign-in-refused"
    with capture_logs() as said:
        what_is_refused(signing, browser, refused)
    assert {line["reason"] for line in said} > {"the token endpoint answers 'invalid_grant'"}
    for secret in (SECRET, "code=", *browser.cookies.values()):
        assert secret not in str(said)


def what_is_refused(signing: Setting, browser: Browser, refused: str) -> None:
    back = signing.real.sign_in(browser.leave("/captures"), browser.person)
    kept = dict(browser.cookies)
    assert browser.arrive(changed(back, iss="https://elsewhere.example")) == refused, "of another issuer (RFC 9207)"
    for parameter in ("nonce", "code_challenge"):
        address = changed(browser.leave("/captures"), **{parameter: "A" * 43})
        assert browser.arrive(signing.real.sign_in(address, browser.person)) == refused, parameter
    browser.leave("/captures")
    assert "rewindow_session" not in browser.cookies
    browser.cookies = dict(kept)
    assert browser.arrive(f"{back}&session_state=x") == "/captures", "a parameter that nobody knows is ignored"
    browser.cookies = dict(kept)
    assert browser.arrive(back) == refused, "a code serves once"
    address = signing.real.sign_in(browser.leave("/captures"), browser.person)
    assert browser.arrive(changed(address, code="", error="access_denied")) == refused
    signing.real.control(options={"algorithm": "HS256"})
    assert browser.sign_in("/captures") == refused, "a shared secret signs nothing here"


def test_the_api_does_not_start_with_settings_that_do_not_fit(services: Services) -> None:
    wrong = {"REWINDOW_OIDC_ISSUER": "https://accounts.example", "REWINDOW_OIDC_CLIENT_ID": "rewindow"}
    given = {**services.environment, **wrong, "REWINDOW_OIDC_TEAMS": '{"a": "b"}'}
    done = subprocess.run([sys.executable, "-m", "api"], cwd=CHECKOUT, env=given, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("rewindow: sign-in by OpenID Connect (docs/teams.md): ")
    assert "'b' is not TEAM:ROLE" in done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "//elsewhere.example", "/\\elsewhere.example", "/\t/elsewhere.example", "https://elsewhere.example", "captures",
        "", "/\r\nLocation: x", "/a\\b", "/a#b", "javascript:alert(1)", "/ä", "/" + "a" * 1001,
    ],
)  # fmt: skip
def test_the_way_back_leads_nowhere_else(address: str) -> None:
    assert not is_own(address)
    assert is_own("/connections?sort=-bytes&tag=a%3Db&q=//x")


def test_a_way_back_to_elsewhere_is_refused(signing: Setting) -> None:
    browser = signing.browser("engineers")
    elsewhere = {"return_to": "//elsewhere.example"}
    assert_problem(browser.ask("POST", "/v1/session/openid", json=elsewhere), 422, "on this host")
    assert not browser.cookies


def test_keys_rotate(signing: Setting) -> None:
    """An unknown key is looked for, but not each time that somebody names one."""
    browser = signing.browser("engineers")
    browser.sign_in()
    signing.real.control(rotate=True)
    before = signing.real.control()["/jwks"]
    assert browser.sign_in() == "/"
    assert signing.real.control()["/jwks"] == before + 1
    signing.real.control(rotate=True)
    assert browser.sign_in() == "/#sign-in-refused"
    assert signing.real.control()["/jwks"] == before + 1
    signing.openid.provider._looked_at -= asked.ROTATION_S
    assert browser.sign_in() == "/"


def test_a_provider_that_is_away(signing: Setting, tmp_path: Path) -> None:
    """The service runs without it. Who is signed in stays so until the ID token ends."""
    with provider(f"{ORIGIN}/v1/session/openid") as short:
        short.control(people={"ann": {"groups": ["guests"]}})
        own = OpenId(signing.openid.provider.configuration.model_copy(update={"issuer": short.issuer}))
        signing.application.app.state.openid, before = own, signing.openid  # type: ignore[attr-defined]
        browser = Browser(signing.application, short, "ann")
        browser.sign_in()
        back = short.sign_in(browser.leave("/captures"), "ann")
    try:
        browser.end_time(renew_at=True)
        assert browser.me()["role"] == "viewer"
        browser.end_time(claims_until=True, renewing_until=True)
        assert_problem(browser.ask("GET", "/v1/captures"), 503, "the sign-in provider does not answer")
        assert browser.arrive(back) == "/captures#sign-in-away"
        own.provider._described_at = -float("inf")
        answer = browser.ask("POST", "/v1/session/openid", json={})
        assert_problem(answer, 503, "the sign-in provider does not answer")
        assert int(answer.headers["retry-after"]) >= 60, "longer than the page would wait"
        assert browser.ask("DELETE", "/v1/session").status_code == 204
    finally:
        signing.application.app.state.openid = before  # type: ignore[attr-defined]


CLAIMS = {"iss": "ISSUER", "aud": "rewindow", "sub": "ann", "iat": 0, "exp": 300, "nonce": "n"}
WRONG: list[dict[str, Any]] = [
    {"iss": "https://elsewhere.example"}, {"aud": "another"}, {"aud": []}, {"sub": ""}, {"sub": None}, {"nonce": "m"},
    {"nonce": None}, {"exp": -1}, {"exp": None}, {"exp": "soon"}, {"exp": 1e300}, {"iat": 120}, {"iat": None},
    {"nbf": 120}, {"aud": ["rewindow", "another"]}, {"aud": ["rewindow", "another"], "azp": "another"},
    {"azp": "another"},
]  # fmt: skip


def test_claims_of_an_id_token(signing: Setting) -> None:
    provider = signing.openid.provider
    key = jwk.generate_key("RSA", 2048, {"kid": "a", "use": "sig"})
    provider._keys = [(key.as_dict(private=False), key)]  # type: ignore[list-item]
    provider._keys_at = provider._looked_at = time.monotonic()

    def holds(algorithm: str = "RS256", signed_with: Any = key, kid: str | None = "a", **claims: Any) -> bool:
        now = int(time.time())
        said = {**CLAIMS, "iss": signing.real.issuer, **claims}
        for name in ("iat", "exp", "nbf"):
            if isinstance(said.get(name), int):
                said[name] += now
        header = {"alg": algorithm} | ({"kid": kid} if kid else {})
        said = {n: v for n, v in said.items() if v is not None}
        if signed_with is None:
            token = (
                ".".join(urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in (header, said)) + "."
            )
        else:
            token = jwt.encode(header, said, signed_with, [algorithm])
        try:
            return bool(signing.application.portal.call(verify, provider, token)["sub"] == "ann")  # type: ignore[union-attr]
        except Refused:
            return False

    assert holds()
    assert holds(kid=None)
    assert holds(iat=30), "a clock may be ahead by a minute"
    assert holds(aud=["rewindow", "another"], azp="rewindow")
    assert holds(at_hash=half_hash("the access token"))
    ed25519 = jwk.generate_key("OKP", "Ed25519", {"kid": "e"})
    provider._keys.append((ed25519.as_dict(private=False), ed25519))  # type: ignore[arg-type]
    assert holds("Ed25519", ed25519, "e", at_hash="of another hash function")
    assert [wrong for wrong in WRONG if holds(**wrong)] == []
    another = jwk.generate_key("RSA", 2048, {"kid": "a"})
    assert not holds(signed_with=another)
    assert not holds(kid="b")
    assert not holds(at_hash=half_hash("another access token"))
    assert not holds("HS256", jwk.OctKey.import_key(SECRET))
    assert not holds("none", None)


async def verify(provider: Provider, token: str) -> dict[str, Any]:
    return await provider.verified(token, nonce="n", access_token="the access token")


def half_hash(access_token: str) -> str:
    """OpenID Connect Core 1.0, 3.1.3.6, for an algorithm with SHA-256."""
    return urlsafe_b64encode(sha256(access_token.encode()).digest()[:16]).decode().rstrip("=")


TOKENS = "/token"


@contextmanager
def hostile_provider(status: int, headers: dict[str, str], tokens: bytes) -> Iterator[str]:
    """Answers this at its token endpoint. Yields the issuer."""

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(body)

        def do_GET(self) -> None:
            places = {n: f"{issuer}{TOKENS}" for n in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
            self.say(200, {}, json.dumps({"issuer": issuer, **places}).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.say(status, headers, tokens)

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        issuer = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "headers", "tokens", "outcome"),
    [
        (400, {}, b'{"error": "invalid_grant"}', Refused), (200, {}, b'{"error": "invalid_grant"}', Refused),
        (400, {}, b'{"error": ["invalid_grant"]}', Refused), (200, {}, b"{}", Refused),
        (200, {}, b'{"id_token": "a.b.c"}', Refused), (200, {}, b'{"id_token": 1}', Refused),
        (200, {}, b'{"id_token": "a.b.c", "expires_in": [1]}', Away), (400, {}, b'{"error": "invalid_client"}', Away),
        (401, {}, b'{"error": "invalid_client"}', Away), (429, {}, b'{"error": "slow_down"}', Away),
        (500, {}, b"{}", Away), (200, {}, b"", Away), (200, {}, b"[]", Away), (200, {}, b"[" * 100_000, Away),
        (200, {}, b'{"id_token": "a.b.c"}' + b" " * asked._ANSWER_BYTES_MAX, Away),
        (307, {"Location": TOKENS}, b"", Away),
        (200, {"Content-Encoding": "gzip"}, gzip.compress(b"{}"), Away), (200, {"Content-Length": "9"}, b"{}", Away),
    ],
)  # fmt: skip
def test_answers_that_are_no_tokens(
    signing: Setting, status: int, headers: dict[str, str], tokens: bytes, outcome: type[Exception]
) -> None:
    """For a code, and for a refresh token."""

    async def confirm(again: bool) -> None:
        provider = Provider(signing.openid.provider.configuration.model_copy(update={"issuer": issuer}))
        if again:
            await provider.confirm_again("a refresh token", subject="ann")
        else:
            await provider.confirm("a code", verifier="v", nonce="n", redirect_uri=ORIGIN, issuer=issuer)

    with hostile_provider(status, headers, tokens) as issuer:
        for again in (False, True):
            with pytest.raises(outcome):
                asyncio.run(confirm(again))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "http://accounts.example"}, "https address"),
        ({"issuer": "https://accounts.example?x=1"}, "https address"),
        ({"teams": {"engineers": "network"}}, "not TEAM:ROLE"),
        ({"teams": {"engineers": ["network:admin"]}}, "not TEAM:ROLE"),
        ({"scopes": "profile"}, "must have openid"),
        ({}, "REWINDOW_PUBLIC_URL must be set"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], message: str, services: object) -> None:
    given = {"issuer": "https://accounts.example", "client_id": "rewindow", "teams": {"a": "network: east:owner"}}
    with pytest.raises(ValueError, match=message):
        Configuration(**{**given, **changes})


def test_cookies_by_https(application: TestClient, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a proxy that does not tell: by the address that is configured."""

    def cookie(base: str, host: str) -> str:
        headers = {"Host": host, "Origin": f"https://{host}"}
        answer = application.post(f"{base}/v1/session", json={"token": token}, headers=headers)
        assert answer.status_code == 201, answer.text
        made = answer.headers["set-cookie"]
        application.cookies.clear()
        kept = {"Host": host, "Cookie": made.split(";")[0]}
        assert application.get(f"{base}/v1/teams/me", headers=kept).status_code == 200
        return str(made)

    assert cookie("https://testserver", "testserver").startswith("__Host-rewindow_session=")
    monkeypatch.setenv("REWINDOW_PUBLIC_URL", "https://lab.example:8443")
    settings.cache_clear()
    try:
        made = cookie("http://testserver", "lab.example:8443")
        assert made.startswith("__Host-rewindow_session_8443=")
        assert {"Secure", "Path=/", "HttpOnly"} <= set(made.split("; "))
        assert "Domain" not in made
        assert "Secure" not in cookie("http://testserver", "127.0.0.1:8000"), "the same service, asked directly"
    finally:
        monkeypatch.undo()
        settings.cache_clear()
