"""Web page of the server: which browser is let in, by code, token or cookie, and what it is answered.

Pure, but for the clock and for secrets that it makes up. docs/security.md, "The page", has the reasons.

A browser trades a one-time code, a bearer token or the token of a share for a cookie, by a POST of our own page. An
upgrade with the origin of our own page is let in by that cookie and nothing else. Of each secret its SHA-256 is kept.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Request

from transport.admission.auth import Authenticator, DeniedError, Grant

SECRET_BYTES: Final = 32
COOKIE_SECONDS: Final = 30 * 24 * 3600
"""How long a browser is let in by its cookie; it ends with the server, too."""
CODE_SECONDS: Final = 15 * 60
"""How long a code is good that a page asked for; that of the start is good until it is used."""
SHARE_SECONDS: Final = 24 * 3600
"""How long a share can be opened, and a browser is let in by it."""
MOST: Final = 1000
"""Cookies, codes and shares that are remembered, of each; the oldest goes."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "manifest-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy of every answer."""

HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)

T = TypeVar("T")


class StaticFile(NamedTuple):
    """A file of the page, as it goes over the wire; `etag` with its quotes."""

    body: bytes
    gzip: bytes | None
    etag: str
    content_type: str


class WebAnswer(NamedTuple):
    """An HTTP response to a browser."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Denied(NamedTuple):
    """A browser that is not let in; the text is for whoever reads the log, and is the body of the 401."""

    text: str


class Visitor(NamedTuple):
    """A browser that has a cookie: of which origin its page is, by which grant it came in, and which session it may
    watch and nothing else (an `observeId`), or None: it may do everything."""

    origin: str
    grant: Grant | None
    watches: str | None


class _Code(NamedTuple):
    grant: Grant | None


class _Share(NamedTuple):
    observe_id: str
    grant: Grant | None


class SecretTable(Generic[T]):
    """What random secrets stand for, by digest. At most `MOST`, the oldest goes; each is good until its time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def make(self, value: T, seconds: float) -> str:
        """A new secret that stands for `value` so many seconds."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._known[_digest(secret)] = self._clock() + seconds, value
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return secret

    def find(self, secret: str) -> T | None:
        """What a secret stands for; None if it is unknown or its time is over."""
        until, value = self._known.get(_digest(secret), (0.0, None))
        return value if until > self._clock() else None

    def take(self, secret: str) -> T | None:
        """As `find`, and the secret is good no more."""
        value = self.find(secret)
        self._known.pop(_digest(secret), None)
        return value


class WebAccess:
    """Rules of the page of one listener. `origins` are those under which a proxy shows it, beside our own."""

    def __init__(
        self,
        files: Mapping[str, StaticFile],
        encrypted: bool,
        origins: Sequence[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.files = files
        self.origins = frozenset(origins)
        self._scheme = "https" if encrypted else "http"
        self._codes: SecretTable[_Code] = SecretTable(clock)
        self._shares: SecretTable[_Share] = SecretTable(clock)
        self._visitors: SecretTable[Visitor] = SecretTable(clock)

    @property
    def hosts(self) -> frozenset[str]:
        """Names that a proxy may have in its `Host` header."""
        return frozenset(name for name in (urlsplit(origin).hostname for origin in self.origins) if name)

    def first_code(self) -> str:
        """A one-time code that is good until it is used."""
        return self._codes.make(_Code(None), float("inf"))

    # -- origins ------------------------------------------------------------------------------------------------

    def own_origin(self, headers: Headers) -> str | None:
        """The origin that a request says it is from, if that is one of our own page; None for any other, and none."""
        origins, hosts = headers.get_all("Origin"), headers.get_all("Host")
        if len(origins) != 1 or len(hosts) != 1:
            return None
        origin = origins[0].strip().lower()
        return origin if origin in self._origins_at(hosts[0]) else None

    def _origins_at(self, host: str) -> frozenset[str]:
        """Origins that our page has at this `Host`."""
        host = host.strip().lower()
        proxied = {origin for origin in self.origins if urlsplit(origin).netloc == host}
        return frozenset({f"{self._scheme}://{host}", *proxied})

    # -- who is it ----------------------------------------------------------------------------------------------

    def visitor(self, headers: Headers, origins: frozenset[str], authenticator: Authenticator | None) -> Visitor | None:
        """The browser whose cookie this is, if it got it at one of these origins and its grant is still good."""
        for secret in _cookies(headers, origins):
            found = self._visitors.find(secret)
            if found is not None and found.origin in origins and _still_good(found.grant, authenticator):
                return found
        return None

    def upgrade(self, headers: Headers, authenticator: Authenticator | None) -> Visitor | Denied:
        """Who asks for an upgrade from the origin of our own page."""
        origin = self.own_origin(headers)
        found = None if origin is None else self.visitor(headers, frozenset({origin}), authenticator)
        return Denied("this page has no cookie that lets it in") if found is None else found

    # -- requests -----------------------------------------------------------------------------------------------

    def answer(self, request: Request, has_body: bool, authenticator: Authenticator | None) -> WebAnswer | Denied:
        """What a request that is no upgrade is answered."""
        path = request.path.partition("?")[0]
        if not path.startswith("/web/"):
            return self._file(path, request)
        if path == "/web/session" and request.method in ("GET", "HEAD"):
            return self._session(request.headers, authenticator)
        if request.method != "POST":
            return _answer(405, headers=(("allow", "POST"),))
        origin = self.own_origin(request.headers)
        if origin is None or has_body:  # a browser always says where a POST is from
            return _answer(403 if origin is None else 400)
        match path:
            case "/web/login":
                return self._log_in(request.headers, origin, authenticator)
            case "/web/logout":
                return self._log_out(request.headers, origin)
            case "/web/code" | "/web/share":
                return self._secret(path, request.headers, origin, authenticator)
        return _answer(404)

    def _file(self, path: str, request: Request) -> WebAnswer:
        file = self.files.get(path)
        if file is None:
            return _answer(404)
        if request.method not in ("GET", "HEAD"):
            return _answer(405, headers=(("allow", "GET, HEAD"),))
        packed = file.gzip is not None and _accepts_gzip(request.headers)
        etag = file.etag[:-1] + '-gzip"' if packed else file.etag
        caching = (("etag", etag), ("cache-control", "no-cache"), ("vary", "accept-encoding"))
        if etag in [each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")]:
            return _answer(304, headers=caching)
        coding = (("content-encoding", "gzip"),) if packed else ()
        body = file.gzip if packed and file.gzip is not None else file.body
        return _answer(200, body, (*caching, *coding, ("content-type", file.content_type)))

    def _session(self, headers: Headers, authenticator: Authenticator | None) -> WebAnswer:
        """What a page has to know first: whether it is let in, and if not, by what it may be."""
        hosts = headers.get_all("Host")
        found = self.visitor(headers, self._origins_at(hosts[0]), authenticator) if len(hosts) == 1 else None
        return _json(
            {
                "signedIn": found is not None,
                "watches": None if found is None else found.watches,
                "asksFor": "code" if authenticator is None else "token",
            }
        )

    def _log_in(self, headers: Headers, origin: str, authenticator: Authenticator | None) -> WebAnswer | Denied:
        scheme, _, secret = headers.get("Authorization", "").partition(" ")
        match scheme.lower():
            case "code":
                code = self._codes.take(secret)
                if code is None or not _still_good(code.grant, authenticator):
                    return Denied("wrong or used one-time code")
                return self._enter(origin, code.grant, None)
            case "share":
                share = self._shares.find(secret)
                if share is None or not _still_good(share.grant, authenticator):
                    return Denied("wrong or expired share link")
                return self._enter(origin, share.grant, share.observe_id)
            case "bearer" if authenticator is not None:
                try:
                    return self._enter(origin, authenticator.judge(headers.get_all("Authorization")), None)
                except DeniedError as denied:
                    return Denied(str(denied))
        return Denied("a page has to say what lets it in")

    def _enter(self, origin: str, grant: Grant | None, watches: str | None) -> WebAnswer:
        seconds = COOKIE_SECONDS if watches is None else SHARE_SECONDS
        secret = self._visitors.make(Visitor(origin, grant, watches), seconds)
        return _answer(204, headers=(("set-cookie", _set_cookie(origin, secret, seconds)),))

    def _log_out(self, headers: Headers, origin: str) -> WebAnswer:
        for secret in _cookies(headers, frozenset({origin})):
            self._visitors.take(secret)
        return _answer(204, headers=(("set-cookie", _set_cookie(origin, "", 0)),))

    def _secret(
        self, path: str, headers: Headers, origin: str, authenticator: Authenticator | None
    ) -> WebAnswer | Denied:
        """A one-time code for another browser of the same person, or the token of a share."""
        found = self.visitor(headers, frozenset({origin}), authenticator)
        if found is None or found.watches is not None:
            return Denied("this page has no cookie that lets it in")
        if path == "/web/code":
            return _json({"code": self._codes.make(_Code(found.grant), CODE_SECONDS)})
        observe_id = headers.get("X-Observe-Id", "")
        if not observe_id or len(observe_id) > 100:
            return _answer(400)
        return _json({"share": self._shares.make(_Share(observe_id, found.grant), SHARE_SECONDS)})


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _still_good(grant: Grant | None, authenticator: Authenticator | None) -> bool:
    return authenticator is None or (grant is not None and authenticator.grants(grant))


def _answer(status: int, body: bytes = b"", headers: tuple[tuple[str, str], ...] = ()) -> WebAnswer:
    return WebAnswer(status, body, (*headers, *HEADERS))


def _json(value: object) -> WebAnswer:
    headers = (("content-type", "application/json"), ("cache-control", "no-store"))
    return _answer(200, json.dumps(value).encode(), headers)


def _accepts_gzip(headers: Headers) -> bool:
    """Whether `Accept-Encoding` has gzip (RFC 9110, 12.5.3)."""
    for value in headers.get_all("Accept-Encoding"):
        for coding in value.lower().split(","):
            name, _, weight = coding.partition(";")
            if name.strip() == "gzip" and weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
                return True
    return False


def _cookie_name(origin: str) -> str:
    """Cookies do not know ports, so that the name has to. The prefix `__Host-` is for encrypted origins alone."""
    url = urlsplit(origin)
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"{'__Host-' if url.scheme == 'https' else ''}exec-server-{port}"


def _set_cookie(origin: str, secret: str, seconds: int) -> str:
    secure = "; Secure" if origin.startswith("https:") else ""
    return f"{_cookie_name(origin)}={secret}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"


def _cookies(headers: Headers, origins: frozenset[str]) -> list[str]:
    """The secrets in the cookies that pages of these origins got."""
    names = {_cookie_name(origin) for origin in origins}
    found = []
    for value in headers.get_all("Cookie"):
        try:
            jar: SimpleCookie = SimpleCookie(value)
        except CookieError:
            continue
        found += [jar[name].value for name in names if name in jar]
    return found
