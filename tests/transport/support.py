"""What the tests of carriers share: a bridge that records, and a raw client that may break every rule."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from transport.admission.auth import DeniedError, Grant
from transport.admission.rules import Admission
from transport.interface import InputEnded, MessagesArrived, Transport, TransportClosed, TransportEvent
from transport.listen import Listener

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()


class Recorder:
    """Stands where a bridge stands: opens a transport and keeps its events. Checks the promises about them."""

    def __init__(self, transport: Any, take: bool = True) -> None:
        self.transport: Transport = transport
        self.events: list[TransportEvent] = []
        self.messages: list[bytes] = []
        self.on_message: Callable[[bytes], None] | None = None
        self._take = take
        self._changed = asyncio.Event()
        self._inside = False
        transport.open(self._notify)

    @property
    def closed(self) -> TransportClosed | None:
        return next((event for event in self.events if isinstance(event, TransportClosed)), None)

    def _notify(self, event: TransportEvent) -> None:
        assert not self._inside, "an event from within a call of the bridge"
        assert self.closed is None, f"{event} after TransportClosed"
        self.events.append(event)
        if isinstance(event, MessagesArrived) and self._take:
            self.take_all()
        self._changed.set()

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call the transport as a bridge does: no event may come before it returns."""
        self._inside = True
        try:
            return method(*args)
        finally:
            self._inside = False

    def take_all(self) -> None:
        while True:
            taken = self.call(self.transport.take, 64)
            self.messages += taken
            if self.on_message is not None:
                for message in taken:
                    self.on_message(message)
            if len(taken) < 64:
                return

    def echo(self) -> Recorder:
        self.on_message = lambda message: self.call(self.transport.send, message)
        return self

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for an event after which the condition holds."""
        while not (result := condition()):
            self._changed.clear()
            await self._changed.wait()
        return result

    async def until_closed(self) -> str:
        return (await self.until(lambda: self.closed)).reason

    async def until_ended(self) -> InputEnded:
        return await self.until(lambda: next((e for e in self.events if isinstance(e, InputEnded)), None))

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.events)


class Served:
    """A listener and what came out of it."""

    listener: Listener

    def __init__(self) -> None:
        self.connections: list[Recorder] = []
        self.take = True
        self.refuse: str | None = None
        """What upgrades are refused with, as a wrong token is."""
        self.authorized = 0
        self.admission = Admission(authenticator=self, hosts=None)
        self._accepted: asyncio.Queue[Recorder] = asyncio.Queue()

    def add(self, transport: Transport) -> None:
        connection = Recorder(transport, self.take)
        self.connections.append(connection)
        self._accepted.put_nowait(connection)

    def judge(self, authorization: object) -> Grant:
        self.authorized += 1
        if self.refuse is not None:
            raise DeniedError(self.refuse)
        return Grant(b"")

    def grants(self, grant: Grant) -> bool:
        return True

    async def accepted(self) -> Recorder:
        return await self._accepted.get()

    @property
    def url(self) -> str:
        return self.listener.url

    async def listener_is_empty(self) -> None:
        """Wait until the server's ends of all connections are closed."""
        await self.listener.wait_closed(10)


def masked_frame(first: int, payload: bytes, mask: bytes = b"\x11\x22\x33\x44") -> bytes:
    """One client frame; `first` is FIN, reserved bits and opcode as they go over the wire."""
    repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
    body = (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(len(payload))
    return frame_head(first, len(payload)) + mask + body


def frame_head(first: int, length: int, masked: int = 0x80) -> bytes:
    if length < 126:
        return struct.pack("!BB", first, masked | length)
    if length < 65536:
        return struct.pack("!BBH", first, masked | 126, length)
    return struct.pack("!BBQ", first, masked | 127, length)


opened: list[RawClient] = []
"""Closed after each test, so that a failure is not followed by complaints about sockets."""


class RawClient:
    """A socket that says exactly what it is told to, and reads frames without judging them."""

    def __init__(self, buffers: int | None = None) -> None:
        self.socket = socket.socket()
        opened.append(self)
        if buffers is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        self.socket.setblocking(False)
        self._buffer = bytearray()

    async def connect(self, port: int) -> RawClient:
        await asyncio.get_running_loop().sock_connect(self.socket, ("127.0.0.1", port))
        return self

    async def upgrade(self, port: int) -> RawClient:
        await self.connect(port)
        await self.send(UPGRADE)
        head = await self.head()
        assert head.startswith(b"HTTP/1.1 101 "), head
        return self

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            assert await self._more(), bytes(self._buffer)
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self._buffer = bytearray(rest)
        return head + b"\r\n\r\n"

    async def frame(self) -> tuple[int, bytes]:
        """The first byte of the next frame, and its payload."""
        first, length = await self._exactly(2)
        assert length < 0x80, "a server must not mask"
        if length == 126:
            length = int.from_bytes(await self._exactly(2))
        elif length == 127:
            length = int.from_bytes(await self._exactly(8))
        return first, await self._exactly(length)

    async def message(self) -> bytes:
        """The next message; control frames in between are left out."""
        parts = []
        while True:
            first, payload = await self.frame()
            if first & 0x0F >= 0x8:
                continue
            parts.append(payload)
            if first & 0x80:
                return b"".join(parts)

    async def to_the_end(self) -> bytes:
        """Everything until the server closes; a reset counts as an error."""
        while await self._more():
            pass
        return bytes(self._buffer)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            assert await self._more(), f"end after {len(self._buffer)} of {size} bytes"
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _more(self) -> int:
        data = await asyncio.get_running_loop().sock_recv(self.socket, 256 * 1024)
        self._buffer += data
        return len(data)
