"""Bearer tokens: who gets in, and what the others are told (docs/wire-spec.md, "Authentication")."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from hmac import digest
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.support import UPGRADE
from tests.transport.test_http import TRACES, ask, check_answer
from transport.admission.auth import Authenticator, CapabilityToken, DeniedError, SignedBearerToken
from transport.admission.rules import Admission
from transport.listen import Listener, WebSocketUrl, serve_websocket

pytestmark = pytest.mark.anyio

TOKEN = "tok-0123456789abcdef0123456789abcdef"
SECRET = b"0123456789abcdef0123456789abcdef"
CAPABILITY_TRACES = [trace for trace in TRACES if trace["name"].startswith("http/auth-cap-")]
JWT_TRACES = [trace for trace in TRACES if trace["name"].startswith("http/auth-jwt-")]
Serve = Callable[[Authenticator], Listener]


def capability(token: str = TOKEN) -> CapabilityToken:
    return CapabilityToken(sha256(token.encode()).digest())


def signed(**changes: Any) -> SignedBearerToken:
    return SignedBearerToken(**{"secret": SECRET, "issuer": "iss", "audience": "aud", "skew_s": 30.0} | changes)


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a good token, with changes; None leaves one out."""
    whole = {"exp": int(time.time()) + 600, "iss": "iss", "aud": "aud"} | changes
    return {name: value for name, value in whole.items() if value is not None}


def token(algorithm: str = "HS256", secret: bytes = SECRET, **changes: Any) -> str:
    return jwt.encode(claims(**changes), secret if algorithm != "none" else None, algorithm=algorithm)


def raw_token(payload: str) -> str:
    """A token with a good signature over a payload that no library would make."""
    parts = [urlsafe_b64encode(text.encode()).rstrip(b"=") for text in ('{"alg":"HS256"}', payload)]
    return b".".join([*parts, urlsafe_b64encode(digest(SECRET, b".".join(parts), "sha256")).rstrip(b"=")]).decode()


NOW = int(time.time())
RECORDED = {
    "good": lambda: token(),
    "noexp": lambda: token(exp=None),
    "expired-10": lambda: token(exp=int(time.time()) - 10),
    "expired-29": lambda: token(exp=int(time.time()) - 26),  # so that a slow machine has some seconds
    "expired-40": lambda: token(exp=int(time.time()) - 40),
    "nbf future 10": lambda: token(nbf=int(time.time()) + 10),
    "nbf future 100": lambda: token(nbf=int(time.time()) + 100),
    "badiss": lambda: token(iss="somebody"),
    "noaud": lambda: token(aud=None),
    "aud list": lambda: token(aud=["other", "aud"]),
    "badsig": lambda: token(secret=SECRET[::-1]),
    "hs512": lambda: token("HS512", secret=SECRET * 2),
    "none": lambda: token("none"),
    "exp far": lambda: token(exp=1 << 40),
}
"""What the recorded client sent, by the name in the trace."""


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Serve]:
    listeners = []

    def start(authenticator: Authenticator) -> Listener:
        admission = Admission(authenticator, hosts=None, own_user_only=False)
        listeners.append(serve_websocket(WebSocketUrl("127.0.0.1", 0), lambda transport: None, admission=admission))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()
        await listener.wait_closed(0)


@pytest.mark.parametrize("trace", CAPABILITY_TRACES, ids=lambda trace: trace["name"])
async def test_upstreams_answers_to_capability_tokens(serve: Serve, trace: dict[str, list[str]]) -> None:
    """A client written for upstream gets in with the same header, or reads the same reason."""
    await check_answer(serve(capability()), trace["send"][0], trace)


@pytest.mark.parametrize("trace", JWT_TRACES, ids=lambda trace: trace["name"])
async def test_upstreams_answers_to_signed_tokens(serve: Serve, trace: dict[str, list[str]]) -> None:
    """A client written for upstream gets in with the same claims, or reads the same reason."""
    made = RECORDED[trace["send"][0].removeprefix("jwt ")]()
    await check_answer(serve(signed()), with_token(made), trace)


def with_token(text: str) -> str:
    return UPGRADE.decode("latin-1").replace("\r\n\r\n", f"\r\nAuthorization: Bearer {text}\r\n\r\n")


def reason(authenticator: Authenticator, *headers: str) -> str:
    with pytest.raises(DeniedError) as denied:
        authenticator.judge(headers)
    return str(denied.value)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ((), "missing websocket bearer token"),
        (("",), "invalid authorization header"),
        (("Bearer",), "invalid authorization header"),
        (("Bearer ",), "invalid authorization header"),
        ((f"Bearer\t{TOKEN}",), "invalid authorization header"),
        ((f"Bearer {TOKEN}", f"Bearer {TOKEN}"), "invalid authorization header"),
        ((f"Bearer {TOKEN} x",), "invalid websocket bearer token"),
        ((f"Bearer {TOKEN[:-1]}",), "invalid websocket bearer token"),
        ((f"Bearer {TOKEN}x",), "invalid websocket bearer token"),
        ((f"Bearer {sha256(TOKEN.encode()).hexdigest()}",), "invalid websocket bearer token"),
        (("Bearer \udcff",), "invalid websocket bearer token"),
    ],
)
def test_wrong_capability_tokens(headers: tuple[str, ...], said: str) -> None:
    """Nothing near the token gets in, its digest neither, which may stand in a configuration."""
    assert reason(capability(), *headers) == said


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        "a.b.c",
        ".".join("x" * 3),
        raw_token("[]"),
        raw_token("1"),
        raw_token("{"),
        raw_token('{"exp": Infinity, "iss": "iss", "aud": "aud"}'),
        raw_token('{"exp": NaN, "iss": "iss", "aud": "aud"}'),
        raw_token('{"exp": [], "iss": "iss", "aud": "aud"}'),
        raw_token('{"exp": null, "iss": "iss", "aud": "aud"}'),
        raw_token('{"exp": 1e400, "iss": "iss", "aud": "aud"}'),
        raw_token('{"exp": ' + "[" * 10_000 + "]" * 10_000 + "}"),
        raw_token('{"exp": ' + "9" * 5000 + "}"),
    ],
)
def test_payloads_that_are_no_claims(wrong: str) -> None:
    """A token that was signed and makes no sense is refused like any other, without a fault in the server."""
    assert reason(signed(), f"Bearer {wrong}") == "invalid websocket jwt"


def test_a_key_that_the_token_brings_is_not_used() -> None:
    """The header of a token is written by whoever wants to get in."""
    forged = jwt.encode(claims(), b"x" * 32, headers={"jwk": {"kty": "oct", "k": "x"}, "kid": "../../dev/null"})
    assert reason(signed(), f"Bearer {forged}") == "invalid websocket jwt"


@pytest.mark.parametrize(("iss", "aud"), [(None, None), ("any", "any"), ("any", ["any", "other"])])
def test_what_is_not_configured_is_not_judged(iss: Any, aud: Any) -> None:
    """Issuers put more into their tokens than this server asks for."""
    lenient = signed(issuer=None, audience=None)
    assert lenient.judge([f"Bearer {token(iss=iss, aud=aud, iat=NOW + 9999, sub=17, jti=4)}"])


@given(st.text(max_size=200))
def test_no_text_is_a_fault(text: str) -> None:
    """Whatever stands in the header, the answer is a reason and never an exception of another kind."""
    for authenticator in (capability(), signed()):
        for headers in ([text], [f"Bearer {text}"]):
            with pytest.raises(DeniedError):
                authenticator.judge(headers)


def test_a_grant_ends_with_its_secret() -> None:
    """After tokens are changed, whoever came in with an old one can be told from the others."""
    grant = capability().judge([f"Bearer {TOKEN}"])
    assert capability().grants(grant)
    assert not capability("another").grants(grant)
    assert TOKEN.encode() not in grant
    grant = signed().judge([f"Bearer {token()}"])
    assert signed().grants(grant)
    for other in (signed(secret=SECRET[::-1]), signed(issuer="x"), signed(audience=None)):
        assert not other.grants(grant)
    assert SECRET not in grant


async def test_a_wrong_token_is_logged_without_it(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody tries tokens, and nobody sees it; or everybody who reads logs sees the tokens."""
    listener = serve(capability())
    secret = "almost-the-right-token"
    assert (await ask(listener, with_token(secret)))[0] == 401
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "refused 127.0.0.1:" in caplog.text and "invalid websocket bearer token" in caplog.text
    assert secret not in caplog.text and TOKEN not in caplog.text


async def test_the_right_token_is_not_slowed_by_others(serve: Serve) -> None:
    """One who guesses locks everybody out who shares the address."""
    listener = serve(capability())
    for _ in range(2):
        assert (await ask(listener, with_token("wrong")))[0] == 401
    delays = []
    brake = listener._admission.brake
    brake.fail = lambda host, now, hold: delays.append(host) or (3600.0, None)  # type: ignore[method-assign, func-returns-value]
    guess = json.dumps("wrong")
    from tests.transport.support import RawClient

    guesser = await RawClient().connect(listener.port)
    await guesser.send(with_token(guess).encode())
    assert (await ask(listener, with_token(TOKEN)))[0] == 101
    while not delays:
        assert (await ask(listener, with_token(TOKEN)))[0] == 101
    guesser.close()
    assert delays == ["127.0.0.1"]
