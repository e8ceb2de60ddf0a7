"""What is sent for an `http/request`, and where a redirect leads: the rules, without any I/O (docs/protocol.md,
"http/request").
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import msgspec

from actors.system.child.environment import is_private
from protocol.errors import InvalidParams
from protocol.http import HttpRequestParams
from protocol.web_url import WebUrl, join_url, parse_url

MAX_REDIRECTS = 10
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_OURS = frozenset(("content-length", "transfer-encoding"))
"""What says how long the body is; the client library writes these itself."""
_OF_BODY = _OURS | {"content-type", "content-encoding", "content-language", "content-location"}
_SECRET = frozenset(("authorization", "cookie", "cookie2", "proxy-authorization", "www-authenticate", "host"))
"""What is meant for one host alone (fetch standard, HTTP-redirect fetch)."""
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Outgoing(msgspec.Struct, frozen=True):
    """A request as it goes out. `secret` names header fields that no other host may get, in lower case."""

    method: str
    url: WebUrl
    headers: list[tuple[str, str]]
    body: bytes | None
    secret: frozenset[str]


def outgoing(params: HttpRequestParams, environ: Mapping[str, str]) -> Outgoing:
    """The request that a client means, names of header fields in lower case.

    Raises InvalidParams with the words of docs/protocol.md, "http/request".
    """
    if _TOKEN.fullmatch(params.method) is None:
        raise InvalidParams("http/request method is invalid: invalid HTTP method")
    url = parse_url(params.url)
    headers: list[tuple[str, str]] = []
    secret = set(_SECRET)
    for header in params.headers:
        if _TOKEN.fullmatch(header.name) is None:
            raise InvalidParams("http/request header name is invalid: invalid HTTP header name")
        value = header.value
        if header.value_env_var is not None:
            value = _from_environment(header.name, header.value_env_var, environ)
            secret.add(header.name.lower())
        if _VALUE.fullmatch(value) is None:
            raise InvalidParams(f"http/request header value is invalid for {header.name}: failed to parse header value")
        if header.name.lower() not in _OURS:
            headers.append((header.name.lower(), value.strip(" \t")))
    return Outgoing(params.method, url, _with_defaults(headers, url), params.body_base64, frozenset(secret))


def _from_environment(name: str, variable: str, environ: Mapping[str, str]) -> str:
    """What is the server's own, its token for instance, counts as not there."""
    value = None if is_private(variable) else environ.get(variable)
    if value is None:
        raise InvalidParams(f"http/request header {name} requires executor environment variable {variable}")
    return value


def _with_defaults(headers: list[tuple[str, str]], url: WebUrl) -> list[tuple[str, str]]:
    given = {name for name, _ in headers}
    before, after = [], []
    if url.user is not None and "authorization" not in given:
        pair = f"{url.user}:{url.password}".encode()
        before.append(("authorization", f"Basic {base64.b64encode(pair).decode()}"))
    if "accept" not in given:
        after.append(("accept", "*/*"))
    if not given & {"accept-encoding", "range"}:  # parts of an encoded body cannot be decoded
        after.append(("accept-encoding", "zstd,gzip"))
    return [*before, *headers, *after]


def redirected(request: Outgoing, status: int, location: str | None) -> Outgoing | None:
    """The request that follows this response, or None where it leads nowhere (RFC 9110, section 15.4)."""
    url = join_url(request.url, location) if status in _REDIRECTS and location is not None else None
    if url is None:
        return None
    method, body, dropped = request.method, request.body, {"referer"}
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        dropped |= _OF_BODY
    if url.origin != request.url.origin:
        dropped |= request.secret
    headers = [(name, value) for name, value in request.headers if name not in dropped]
    if not (request.url.scheme == "https" and url.scheme == "http"):
        shown = request.url if url.origin == request.url.origin else msgspec.structs.replace(request.url, target="/")
        headers.append(("referer", shown.text))  # a path and a query may hold secrets of their own
    return Outgoing(method, url, headers, body, request.secret)
