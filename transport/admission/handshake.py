"""HTTP on the port, before a connection is a WebSocket: what is answered to which request (docs/wire-spec.md, "HTTP
on the port").

Pure: the head of a request in, a refusal or nothing out. No connection outlives its one request, except by
upgrade.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from transport.admission.rules import Admission, Refusal

HEAD_LIMIT: Final = 16 * 1024
"""Longest head of a request in bytes."""
HEAD_SECONDS: Final = 10.0
"""How long a client may take to send its request."""


class Answer(NamedTuple):
    """An HTTP response that ends the connection. A body of bytes has its type among the headers."""

    status: int
    text: str | bytes = ""
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, with_body: bool = True) -> bytes:
        """The bytes on the wire; a HEAD request is answered without the body."""
        body = self.text.encode() if isinstance(self.text, str) else self.text
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if body and isinstance(self.text, str):
            lines.append("content-type: text/plain; charset=utf-8")
        lines += [f"content-length: {len(body)}", "connection: close", f"date: {formatdate(usegmt=True)}"]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head + body if with_body else head


NOT_HTTP: Final = Answer(400)
HEAD_TOO_LARGE: Final = Answer(431)
HEAD_TOO_SLOW: Final = Answer(408)

_head_end = re.compile(rb"\r?\n\r?\n")
_body_headers = re.compile(rb"^(?:content-length|transfer-encoding)[ \t]*:([^\r\n]*)\r\n", re.IGNORECASE | re.MULTILINE)


def head_end(data: bytes | bytearray, start: int = 0) -> int:
    """The offset behind the blank line that ends the head, or -1. Before `start` it was searched already."""
    found = _head_end.search(data, max(0, start - 3))
    return -1 if found is None else found.end()


def may_be_http(data: bytes | bytearray) -> bool:
    """False as soon as it shows that this is no HTTP (a TLS hello, say), so that nobody waits for a head's
    end."""
    return data[:1].isalpha()


def parse_head(protocol: ServerProtocol, head: bytes) -> tuple[Request, bool] | None:
    """The request and whether it announces a body; None if it is not HTTP/1.x.

    The library refuses to parse a request with a body. We never read one, but the answer depends on the rest.
    """
    bodies = [value.strip() for value in _body_headers.findall(head)]
    try:
        protocol.receive_data(_body_headers.sub(b"", head))
    except EOFError:
        return None
    for event in protocol.events_received():
        if isinstance(event, Request):
            return event, any(value != b"0" for value in bodies)
    return None


def refusal(request: Request, has_body: bool, admission: Admission, local: str, peer: str) -> Answer | Refusal | None:
    """What is answered instead of an upgrade; None for an upgrade that may go on if its token or cookie is good.

    Origin and Host are judged first, on every path: a web page must not even learn that somebody listens here.
    `local` is the address that was connected to, `peer` who did.
    """
    refused = stranger(request, admission, local, peer)
    if refused is not None:
        return refused
    path = request.path.partition("?")[0]
    answer = health(path, request.method, not admission.ending)
    if answer is not None:
        return answer
    if admission.web is not None and (path != "/" or not _asks_for_upgrade(request)):
        page = admission.judge_page(request, has_body, peer)
        return page if isinstance(page, Refusal) else Answer(page.status, page.body, page.headers)
    if path != "/":
        return Answer(404)
    wrong = _upgrade_fault(request.method, request.protocol, request.headers)
    if wrong is not None:
        return wrong
    return Answer(400, "A WebSocket upgrade has no body") if has_body else None


def stranger(request: Request, admission: Admission, local: str, peer: str) -> Answer | None:
    """What a request is answered that comes from a web page, or is meant for somebody else."""
    found = None
    if not admission.is_own_page(request.headers):
        found = admission.judge_origin(request.headers.get_all("Origin"), peer)
    if found is None:
        found = admission.judge_fetch(request.headers, peer)
    if found is None:
        found = admission.judge_host(request.headers.get_all("Host"), local, peer)
    return None if found is None else answer_to(found)


def health(path: str, method: str, ready: bool) -> Answer | None:
    """`/livez`: this program answers. `/readyz`: it takes new clients. None for another path."""
    if path not in ("/livez", "/readyz"):
        return None
    if method not in ("GET", "HEAD"):
        return Answer(405, headers=(("allow", "GET,HEAD"),))
    return Answer(200 if ready or path == "/livez" else 503)


def answer_to(stranger: Refusal) -> Answer:
    """What somebody is told who is not let in."""
    return Answer(stranger.status, stranger.text)


def _asks_for_upgrade(request: Request) -> bool:
    return "Upgrade" in request.headers or "Sec-WebSocket-Key" in request.headers


def _upgrade_fault(method: str, version: str, headers: Headers) -> Answer | None:
    if method != "GET":
        return Answer(405, "Request method must be `GET`")
    if "upgrade" not in _tokens(headers, "Connection"):
        return Answer(400, "Connection header did not include 'upgrade'")
    if "websocket" not in _tokens(headers, "Upgrade"):
        return Answer(400, "`Upgrade` header did not include 'websocket'")
    if headers.get_all("Sec-WebSocket-Version") != ["13"]:
        return Answer(400, "`Sec-WebSocket-Version` header did not include '13'")
    if "Sec-WebSocket-Key" not in headers:
        return Answer(400, "`Sec-WebSocket-Key` header missing")
    if version != "HTTP/1.1":
        return Answer(426, "WebSocket request couldn't be upgraded since no upgrade state was present")
    return None


def _tokens(headers: Headers, name: str) -> set[str]:
    return {token.strip().lower() for value in headers.get_all(name) for token in value.split(",")}


def choose_subprotocol(
    supported: Sequence[str],
) -> Callable[[ServerProtocol, Sequence[Subprotocol]], Subprotocol | None]:
    """Selects the first supported subprotocol that the client offers; none is fine, whatever it offers."""

    def choose(_protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return next((Subprotocol(name) for name in supported if name in offered), None)

    return choose
