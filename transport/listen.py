"""Listen URLs, listening sockets and what comes out of them (wire-spec 1.1)."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from transport.carrier import Defer
from transport.handshake import Authorize
from transport.websocket import WebSocketTransport

BACKLOG: Final = 1024
ACCEPT_RETRY_SECONDS: Final = 0.5
"""Pause after an accept that failed for want of descriptors or memory."""

_ACCEPTS_A_TURN = 64
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_websocket_url = re.compile(r"ws://(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})")

OnLost = Callable[[WebSocketTransport], None]

_log = logging.getLogger(__name__)


class ListenUrlError(ValueError):
    """A `--listen` value that cannot be used; the text says why, in one line."""


class StdioUrl(NamedTuple):
    """Serve one client on standard input and output."""


class WebSocketUrl(NamedTuple):
    """Serve WebSocket on an IP address; port 0 lets the kernel choose."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ws://{host}:{self.port}"


def parse_listen_url(text: str) -> StdioUrl | WebSocketUrl:
    """`stdio`, `stdio://` or `ws://IP:PORT` (IPv6 in brackets). Raises ListenUrlError."""
    if text in ("stdio", "stdio://"):
        return StdioUrl()
    if not text.startswith("ws://"):
        raise ListenUrlError(f"unsupported --listen URL `{text}`; expected `ws://IP:PORT` or `stdio`")
    match = _websocket_url.fullmatch(text)
    address = (
        None
        if match is None
        else _packed_address(match[1] or match[2], socket.AF_INET6 if match[1] else socket.AF_INET)
    )
    if match is None or address is None or int(match[3]) > 65535:
        raise ListenUrlError(f"invalid websocket --listen URL `{text}`; expected `ws://IP:PORT`")
    if not _is_loopback(address):
        raise ListenUrlError(
            f"refused --listen URL `{text}`: there is no authentication yet, so only loopback addresses"
            " (127.0.0.0/8 and [::1]) are accepted"
        )
    return WebSocketUrl(match[1] or match[2], int(match[3]))


def _packed_address(host: str, family: socket.AddressFamily) -> bytes | None:
    try:
        return socket.inet_pton(family, host)
    except OSError:
        return None


def _is_loopback(packed: bytes) -> bool:
    if len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]  # an IPv4 address in IPv6 clothes
    return packed[0] == 127 if len(packed) == 4 else packed == bytes(15) + b"\x01"


class Listener:
    """A listening socket. Accepts until `close`; connections that were accepted live on."""

    def __init__(self, sock: socket.socket, make_protocol: Callable[[OnLost], WebSocketTransport]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._make_protocol = make_protocol
        self._adopting: set[asyncio.Task[None]] = set()
        self._living: set[WebSocketTransport] = set()
        self._all_ended = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        host, port = sock.getsockname()[:2]
        self.port: int = port
        self.url = str(WebSocketUrl(host, port))
        """`ws://IP:PORT` with the port that the kernel chose."""
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more and free the port. May be called twice."""
        if self._socket.fileno() < 0:
            return
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    async def wait_closed(self, seconds: float) -> None:
        """Wait until every accepted connection has ended and its last bytes are flushed; cut those that are
        left after `seconds`. Call `close` first."""
        try:
            async with asyncio.timeout(seconds):
                while self._adopting or self._living:
                    self._all_ended.clear()
                    await self._all_ended.wait()
        except TimeoutError:
            for task in self._adopting:
                task.cancel()
            for connection in list(self._living):
                connection.abort("server is shutting down")
            await asyncio.sleep(0)  # so that the loop closes the sockets

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    # The connection died before it was accepted (accept(2) passes such network errors on).
                    _log.info("%s: accept failed: %s", self.url, error)
                    continue
                # The connection stays in the backlog, so the socket stays readable: look away for a while.
                _log.warning("%s: cannot accept: %s; trying again in %s s", self.url, error, ACCEPT_RETRY_SECONDS)
                self._loop.remove_reader(self._socket.fileno())
                self._retry = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._accept_again)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._adopt(connection))
            self._adopting.add(task)
            task.add_done_callback(self._adopted)

    def _accept_again(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _adopt(self, connection: socket.socket) -> None:
        protocol = self._make_protocol(self._lost)
        self._living.add(protocol)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError as error:
            self._living.discard(protocol)
            connection.close()
            _log.warning("%s: cannot serve a connection: %s", self.url, error)

    def _adopted(self, task: asyncio.Task[None]) -> None:
        self._adopting.discard(task)
        self._all_ended.set()

    def _lost(self, connection: WebSocketTransport) -> None:
        self._living.discard(connection)
        self._all_ended.set()


def open_listening_socket(host: str, port: int) -> socket.socket:
    """A TCP socket that listens: close-on-exec, SO_REUSEADDR, non-blocking. Raises OSError (EADDRINUSE,
    EACCES)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def serve_websocket(
    url: WebSocketUrl,
    on_connection: Callable[[WebSocketTransport], None],
    *,
    authorize: Authorize | None = None,
    subprotocols: Sequence[str] = (),
    ping_interval: float = 10.0,
    defer: Defer | None = None,
) -> Listener:
    """Listen on `url` in the running loop. `on_connection` gets each connection that was upgraded, on the
    loop.

    Raises OSError if the address cannot be had. The other parameters are those of `WebSocketTransport`.
    """

    def make_protocol(on_lost: OnLost) -> WebSocketTransport:
        return WebSocketTransport(
            on_connection,
            authorize=authorize,
            subprotocols=subprotocols,
            ping_interval=ping_interval,
            defer=defer,
            on_lost=on_lost,
        )

    return Listener(open_listening_socket(url.host, url.port), make_protocol)
