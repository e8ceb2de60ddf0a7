"""A link over WebSocket (RFC 6455)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from exec_server.client.errors import ConnectFailed, Unauthorized
from exec_server.client.wire import LinkClosed
from protocol.client_codec import client_codec_of
from protocol.codec import MSGPACK_SUBPROTOCOL

MAX_MESSAGE = 64 << 20
"""The longest message that is taken, in bytes: what a server sends at most unless it is told otherwise."""
SILENCE_S = 15.0
"""How long the server may be silent before it is asked for a sign of life, and how long it has to give one."""
CLOSE_S = 3.0
"""How long a goodbye may take, in seconds."""


async def connect_link(url: str, token: str | None, ssl: SSLContext | None, timeout: float) -> WebSocketLink:
    """Connect. Raises ConnectFailed, also when it takes longer than `timeout` seconds, and ValueError for a URL that is
    neither `ws://HOST:PORT` nor `wss://HOST:PORT` nor `unix:///PATH`.

    `token` goes into an `Authorization: Bearer` header. `ssl` says whom to trust at `wss://`; None: as the system does.
    A proxy of the environment is used, unless the host is a loopback address.
    """
    try:
        return WebSocketLink(await _connect(url, token, ssl, timeout))
    except InvalidStatus as error:
        status = error.response.status_code
        kind = Unauthorized if status in (401, 403) else ConnectFailed
        reason = error.response.body[:200].decode(errors="replace") if error.response.body else ""
        text = f"cannot connect to exec-server at {url}: HTTP status {status} {reason}".rstrip()
        raise kind(text) from None
    except TimeoutError:
        raise ConnectFailed(f"cannot connect to exec-server at {url}: no answer in {timeout} s") from None
    except InvalidURI as error:
        raise ValueError(f"{url!r} is no URL of a WebSocket server: {error}") from None
    except (OSError, InvalidHandshake) as error:
        raise ConnectFailed(f"cannot connect to exec-server at {url}: {error}") from None


async def _connect(url: str, token: str | None, ssl: SSLContext | None, timeout: float) -> ClientConnection:
    options: dict[str, Any] = {
        "additional_headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "compression": None,
        "max_size": MAX_MESSAGE,
        "open_timeout": timeout,
        "close_timeout": CLOSE_S,
        "ping_interval": None,
        "subprotocols": [Subprotocol(MSGPACK_SUBPROTOCOL)],
    }
    if url.startswith("unix://"):
        return await unix_connect(url.removeprefix("unix://"), "ws://localhost/", **options)
    if ssl is not None:
        options["ssl"] = ssl
    if _is_loopback(url):
        options["proxy"] = None
    return await connect(url, **options)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


class WebSocketLink:
    """One WebSocket; see `Link`. A server that gives no sign of life while it is listened to counts as gone."""

    resumable = True
    in_process = False

    def __init__(self, socket: ClientConnection) -> None:
        self.codec = client_codec_of(socket.subprotocol)
        self._socket = socket
        self._text = socket.subprotocol is None
        self._listening = False
        self._received = 0
        self._liveness = asyncio.create_task(self._watch())

    async def send(self, message: bytes, pass_fds: tuple[int, ...] = ()) -> None:
        try:
            await self._socket.send(message, text=self._text)
        except ConnectionClosed as closed:
            raise LinkClosed(_reason(closed)) from None

    async def receive(self) -> bytes:
        self._listening = True
        try:
            message = await self._socket.recv(decode=False)
            self._received += 1
            return message
        except ConnectionClosed as closed:
            raise LinkClosed(_reason(closed)) from None
        finally:
            self._listening = False

    async def close(self) -> None:
        self._liveness.cancel()
        await asyncio.wait([self._liveness])
        await self._socket.close()

    async def _watch(self) -> None:
        """Cut the connection when it is dead. Silence counts only while somebody listens: else we hold it up."""
        with suppress(ConnectionClosed):
            while True:
                before = self._received
                await asyncio.sleep(SILENCE_S)
                if not self._listening or self._received > before:
                    continue
                pong = asyncio.ensure_future(await self._socket.ping())
                pong.add_done_callback(lambda pong: pong.cancelled() or pong.exception())  # recv tells, too
                await asyncio.wait([pong], timeout=SILENCE_S)
                if not pong.done() and self._listening and self._received == before:
                    self._socket.transport.abort()


def _reason(closed: ConnectionClosed) -> str:
    if closed.rcvd is not None:
        return f"the server closed the connection with code {closed.rcvd.code} {closed.rcvd.reason}".rstrip()
    return "the connection was cut"
