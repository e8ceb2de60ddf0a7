"""The port for whoever watches over a server: `/livez`, `/readyz`, `/metrics`, in plain HTTP, one request a connection.

It is no way in: nothing can be changed or started here, and no answer has anything of a client's in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from websockets.server import ServerProtocol

from transport.admission import handshake
from transport.admission.rules import Admission
from transport.listen import ListenUrlError, WebSocketUrl, parse_listen_url
from transport.sockets import open_listening_socket

log = logging.getLogger("exec_server")

AT_ONCE = 16
"""Connections at a time; the oldest makes room for another."""
READ_BYTES = 4096

Render = Callable[[], Awaitable[bytes]]


def parse_address(text: str) -> WebSocketUrl:
    """`IP:PORT`, IPv6 in brackets. Raises ValueError."""
    try:
        url = parse_listen_url(f"ws://{text}")
    except ListenUrlError:
        raise ValueError(f"{text!r} is not IP:PORT") from None
    assert isinstance(url, WebSocketUrl)
    return url


class MetricsPort:
    """Answers until `close`. `ready` becomes False when the server begins to end."""

    def __init__(self, render: Render | None, content_type: str) -> None:
        """`render` makes the text of `/metrics`; None: there is none."""
        self.ready = True
        self._render = render
        self._content_type = content_type
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None
        self._rules = Admission(own_user_only=False)

    async def listen(self, url: WebSocketUrl) -> str:
        """Begin; the address, with the port that the kernel chose. Raises OSError."""
        if not url.is_loopback:
            self._rules.hosts = None  # where anybody may ask, a web page learns nothing new
        sock = open_listening_socket(url.host, url.port)
        self._server = await asyncio.start_server(self._serve, sock=sock, limit=handshake.HEAD_LIMIT)
        host, port = sock.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > AT_ONCE:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(handshake.HEAD_SECONDS):
                writer.write(await self._answer(reader, writer))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever does not ask in time, or not in HTTP, gets no answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        parsed = handshake.parse_head(ServerProtocol(), head)
        if parsed is None:
            return handshake.NOT_HTTP.encode()
        request, _ = parsed
        with_body = request.method != "HEAD"
        host, port = writer.get_extra_info("peername")[:2]
        local = str(writer.get_extra_info("sockname")[0])
        refused = handshake.stranger(request, self._rules, local, f"{host}:{port}")
        if refused is not None:
            return refused.encode(with_body)
        path = request.path.partition("?")[0]
        if path == "/metrics" and self._render is not None and request.method in ("GET", "HEAD"):
            body = await self._render()
            return _metrics(body, self._content_type) + (body if with_body else b"")
        return (handshake.health(path, request.method, self.ready) or handshake.Answer(404)).encode(with_body)


def _metrics(body: bytes, content_type: str) -> bytes:
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode()
