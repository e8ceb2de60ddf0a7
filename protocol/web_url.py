"""`http:` and `https:` URLs: what a client may write, and what is sent (WHATWG URL; RFC 3986 section 5)."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import quote, unquote, urljoin

import msgspec

from protocol.errors import InvalidParams
from protocol.paths import without_dots

DEFAULT_PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))
_PATH_SAFE = "%/!$&'()*+,-.:;=@[]_|~\\"
_QUERY_SAFE = _PATH_SAFE.replace("'", "") + "?^`{}"
_HOST_FORBIDDEN = re.compile(r"[\x00-\x20#/:<>?@\[\\\]^|%\x7f]")


class WebUrl(msgspec.Struct, frozen=True):
    """A URL in parts that can be sent as they are: ASCII, percent-encoded, without a fragment."""

    scheme: str
    host: str
    """As it stands in a URL: an IPv6 address has brackets."""
    port: int
    target: str
    """Path and query."""
    user: str | None = None
    password: str = ""

    @property
    def text(self) -> str:
        """The URL without user and password, as it may be shown."""
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.target}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port (RFC 6454): what a secret was meant for, and whether it goes there encrypted."""
        return self.scheme, self.host, self.port


def parse_url(text: str) -> WebUrl:
    """The URL that a client means. Raises InvalidParams with the words of docs/protocol.md, "http/request"."""
    url = text.strip(_CONTROLS_AND_SPACE).translate({9: None, 10: None, 13: None})
    found = _SCHEME.match(url)
    if found is None:
        raise _invalid("relative URL without a base")
    scheme = found[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise InvalidParams(f"http/request only supports http and https URLs, got {scheme}")
    rest = url[found.end() :].partition("#")[0].lstrip("/\\")
    end = re.search(r"[/\\?]|\Z", rest)
    assert end is not None
    userinfo, at, place = rest[: end.start()].rpartition("@")
    host, port = _host_and_port(place, DEFAULT_PORTS[scheme])
    user, _, password = userinfo.partition(":")
    target = _target(rest[end.start() :])
    return WebUrl(scheme, host, port, target, unquote(user) if at else None, unquote(password))


def join_url(base: WebUrl, location: str) -> WebUrl | None:
    """Where a `Location` leads; None where that is no URL, or none of http."""
    try:
        return parse_url(urljoin(base.text, location.strip(_CONTROLS_AND_SPACE)))
    except (ValueError, InvalidParams):
        return None


def _invalid(reason: str) -> InvalidParams:
    return InvalidParams(f"http/request url is invalid: {reason}")


def _host_and_port(place: str, default: int) -> tuple[str, int]:
    host, port = place, ""
    if place.startswith("["):
        inside, bracket, after = place[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise _invalid("invalid IPv6 address")
        return f"[{_ipv6(inside)}]", _port(after[1:], default)
    host, _, port = place.partition(":")
    return _host(host), _port(port, default)


def _port(text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) < 1 << 16):
        raise _invalid("invalid port number")
    return int(text)


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise _invalid("invalid IPv6 address") from None
    if address.scope_id is not None:
        raise _invalid("invalid IPv6 address")
    return address.compressed


def _host(text: str) -> str:
    if not text:
        raise _invalid("empty host")
    if _HOST_FORBIDDEN.search(text):
        raise _invalid("invalid domain character")
    if text.isascii():
        return text.lower()
    import idna  # costs some milliseconds, and hardly anybody needs it

    try:
        return idna.encode(text, uts46=True).decode()
    except idna.IDNAError:
        raise _invalid("invalid international domain name") from None


def _target(text: str) -> str:
    path, question, query = text.partition("?")
    path = without_dots(quote(path, safe=_PATH_SAFE).replace("\\", "/"))
    return path + question + quote(query, safe=_QUERY_SAFE)
