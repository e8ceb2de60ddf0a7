"""A WebSocket proxy between the client and the server: it records, it can cut connections and alter messages."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.http11 import Request, Response

from tests.real_client.faults import Fault
from tests.real_client.wire import Direction, Frame, Message

Alter = Callable[[Direction, Message], list[Message] | None]
"""What to send in place of a message; None leaves it as it is."""

_SILENT = logging.getLogger("tests.real_client.silent")
_SILENT.disabled = True  # of connections that are cut on purpose


@dataclass
class Record:
    """All that went over the wire in one scenario, in the order of arrival."""

    frames: list[Frame] = field(default_factory=list)
    connections: int = 0

    def calls(self, method: str = "") -> list[Message]:
        """Requests and notifications of the client: all, or those of one method."""
        return self._named("to server", method)

    def notifications(self, method: str = "") -> list[Message]:
        """Notifications of the server: all, or those of one method."""
        return self._named("to client", method)

    def output(self, process_id: str | None = None) -> bytes:
        """What was printed: by all processes together, or by one."""
        told = (n["params"] for n in self.notifications("process/output"))
        return b"".join(base64.b64decode(p["chunk"]) for p in told if process_id in (None, p["processId"]))

    def _named(self, direction: Direction, method: str) -> list[Message]:
        said = (f.message for f in self.frames if f.direction == direction and "method" in f.message)
        return [m for m in said if method in ("", m["method"])]


class Proxy:
    """Listens on a free port of 127.0.0.1 and connects each client to `target`, a WebSocket URL."""

    def __init__(self, target: str, fault: Fault | None = None) -> None:
        self.record = Record()
        self._fault = fault
        self.alter: Alter | None = None
        self._target = target
        self._started = time.monotonic()
        self._refusing = False
        self._open: set[Connection] = set()
        self._news = asyncio.Condition()
        self._server: Server | None = None

    async def start(self) -> None:
        limits: dict[str, Any] = {"max_size": None, "compression": None, "ping_interval": None}
        self._connect = lambda: connect(self._target, proxy=None, logger=_SILENT, **limits)
        self._server = await serve(
            self._serve, "127.0.0.1", 0, process_request=self._may_enter, logger=_SILENT, **limits
        )

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    async def stop(self) -> None:
        self._refusing = True
        self._abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def cut(self, seconds: float) -> None:
        """Abort every connection, and for so long every attempt to make one: a network that is gone."""
        self._refusing = True
        self._abort()
        await asyncio.sleep(seconds)
        self._refusing = False

    async def until(self, holds: Callable[[Record], object]) -> None:
        """Wait for something in the record; whoever waits gives the wait its end."""
        async with self._news:
            await self._news.wait_for(lambda: holds(self.record))

    async def until_printed(self, text: bytes) -> None:
        """Wait until a process has printed `text`."""
        await self.until(lambda record: text in record.output())

    def _abort(self) -> None:
        for connection in self._open:
            connection.transport.abort()

    async def _may_enter(self, client: ServerConnection, _request: Request) -> Response | None:
        if not self._refusing:
            return None
        client.transport.abort()
        return client.respond(503, "")

    async def _serve(self, client: ServerConnection) -> None:
        try:
            server = await self._connect()
        except (OSError, WebSocketException) as error:
            print(f"cannot reach {self._target}: {error}")
            return
        self.record.connections += 1
        pair: tuple[ServerConnection, ClientConnection] = (client, server)
        self._open.update(pair)
        number = self.record.connections
        pumps = [
            asyncio.create_task(self._pump(client, server, "to server", number)),
            asyncio.create_task(self._pump(server, client, "to client", number)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await asyncio.gather(client.close(), server.close(), return_exceptions=True)
            self._open.difference_update(pair)

    async def _pump(self, source: Connection, sink: Connection, direction: Direction, number: int) -> None:
        try:
            while True:
                fragments = [bytes(part) async for part in source.recv_streaming(decode=False)]
                for part in self._after_fault(direction, fragments):
                    await self._pass_on(part, sink, direction, number)
        except ConnectionClosed:
            pass

    def _after_fault(self, direction: Direction, fragments: list[bytes]) -> list[list[bytes]]:
        if self._fault is None:
            return [fragments]
        message = json.loads(b"".join(fragments))
        arriving = self._fault.change(direction, message)
        return [fragments if other is message else _in_one(other) for other in arriving]

    async def _pass_on(self, fragments: list[bytes], sink: Connection, direction: Direction, number: int) -> None:
        message = json.loads(b"".join(fragments))
        seconds = round(time.monotonic() - self._started, 4)
        frame = Frame(direction, seconds, number, message, list(map(len, fragments)))
        self.record.frames.append(frame)
        if self.alter is not None:
            frame.altered = self.alter(direction, message)
        # A fragment stays a fragment: clients limit the size of frames.
        for parts in [fragments] if frame.altered is None else map(_in_one, frame.altered):
            await sink.send(parts[0] if len(parts) == 1 else parts, text=True)
        async with self._news:
            self._news.notify_all()


def _in_one(message: Message) -> list[bytes]:
    return [json.dumps(message).encode()]
