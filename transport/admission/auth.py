"""Bearer tokens of WebSocket clients: is this one good (docs/wire-spec.md, "Authentication")? Pure, but for the clock.

A connection keeps the `Grant` that let it in, never the token. When tokens change, `grants` says whether it would
still be let in by the same secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NewType, Protocol

if TYPE_CHECKING:
    from jwt import PyJWT

LEAST_SECRET_BYTES: Final = 32
"""The shortest secret that signs tokens, in bytes: as long as the digest (RFC 7518, 3.2)."""

Grant = NewType("Grant", bytes)
"""What let a client in, as a digest that is no use to anybody who reads it."""


class DeniedError(Exception):
    """The client is not let in; the text is the body of the 401, and tells nothing of what would be right."""


class Authenticator(Protocol):
    """Judges what the `Authorization` headers of an upgrade say."""

    def judge(self, authorization: Sequence[str]) -> Grant:
        """What lets the client in. Raises DeniedError."""

    def grants(self, grant: Grant) -> bool:
        """Whether the secret behind a grant is still one that lets clients in."""


def bearer_token(authorization: Sequence[str]) -> str:
    """The token of `Authorization: Bearer TOKEN` (RFC 6750, 2.1); the scheme in any case, spaces at will.

    Raises DeniedError where there is no such header, or none that can be understood.
    """
    if not authorization:
        raise DeniedError("missing websocket bearer token")
    scheme, _, token = authorization[0].strip().partition(" ")
    token = token.strip()
    if len(authorization) > 1 or scheme.lower() != "bearer" or not token:
        raise DeniedError("invalid authorization header")
    return token


class CapabilityToken:
    """One secret text that whoever knows it may connect with; only its SHA-256 is kept."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def judge(self, authorization: Sequence[str]) -> Grant:
        digest = sha256(bearer_token(authorization).encode("utf-8", "surrogateescape")).digest()
        if not hmac.compare_digest(digest, self._digest):
            raise DeniedError("invalid websocket bearer token")
        return Grant(self._digest)

    def grants(self, grant: Grant) -> bool:
        return hmac.compare_digest(grant, self._digest)


class SignedBearerToken:
    """JSON Web Tokens signed with HS256 (RFC 7519): `exp` is required, `nbf` honoured, `iss` and `aud` must fit where
    they are given. They are judged when a client connects; a connection may outlive its token.
    """

    def __init__(self, secret: bytes, issuer: str | None, audience: str | None, skew_s: float) -> None:
        self._secret = secret
        self._issuer = issuer
        self._audience = audience
        self._skew_s = skew_s
        self._grant = Grant(hmac.digest(secret, repr((issuer, audience)).encode(), "sha256"))
        self._library = _jwt_library()

    def judge(self, authorization: Sequence[str]) -> Grant:
        import jwt

        token = bearer_token(authorization)
        try:
            self._library.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._skew_s,
                options={"verify_aud": self._audience is not None, "require": ["exp"]},
            )
        except jwt.ExpiredSignatureError:
            raise DeniedError("expired websocket jwt") from None
        except jwt.ImmatureSignatureError:
            raise DeniedError("websocket jwt is not valid yet") from None
        except jwt.InvalidIssuerError:
            raise DeniedError("websocket jwt issuer mismatch") from None
        except jwt.InvalidAudienceError:
            raise DeniedError("websocket jwt audience mismatch") from None
        except jwt.MissingRequiredClaimError as error:
            raise DeniedError(_MISSING.get(error.claim, "invalid websocket jwt")) from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            # The last four: `exp` as a list, as Infinity, JSON nested without end. The library lets them through.
            raise DeniedError("invalid websocket jwt") from None
        return self._grant

    def grants(self, grant: Grant) -> bool:
        return hmac.compare_digest(grant, self._grant)


_MISSING = {"iss": "websocket jwt issuer mismatch", "aud": "websocket jwt audience mismatch"}


def _jwt_library() -> PyJWT:
    from jwt import PyJWT

    # Claims that this protocol gives no meaning to cannot make a token invalid.
    return PyJWT(options={"verify_iat": False, "verify_sub": False, "verify_jti": False})
