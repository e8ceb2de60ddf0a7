"""Ways to talk to a real server: a WebSocket, the two pipes of stdio, and the program itself.

A wire carries whole messages as bytes or text and knows nothing of their meaning.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from exec_server.config import Config
from exec_server.server import Server, settings_of
from transport.listen import Listener, WebSocketUrl, serve_websocket
from transport.stdio import StdioTransport

PATIENCE_S = 30.0
"""How long anything may take before a test gives up, in seconds; nothing is judged by its time."""


class WireClosed(Exception):
    """The server has ended the conversation. `code` is that of a WebSocket's Close frame, or the exit status of a
    program; None where there is neither."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Wire(Protocol):
    """One connection of a client."""

    async def send(self, message: str | bytes) -> None:
        """Raises WireClosed if the connection is gone."""

    async def receive(self) -> bytes:
        """The next message. Raises WireClosed after the last one."""

    async def close(self) -> None:
        """End the conversation from the client's side, and wait until the server has noticed."""


class WebSocketWire:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, message: str | bytes) -> None:
        try:
            await self.socket.send(message)
        except ConnectionClosed as error:
            raise WireClosed(_close_code(error)) from None

    async def receive(self) -> bytes:
        try:
            message = await self.socket.recv()
        except ConnectionClosed as error:
            raise WireClosed(_close_code(error)) from None
        assert isinstance(message, str), "a JSON connection is answered with text frames"
        return message.encode()

    async def close(self) -> None:
        await self.socket.close()

    def reset(self) -> None:
        """Cut the connection without goodbye."""
        self.socket.transport.abort()


def _close_code(error: ConnectionClosed) -> int | None:
    return None if error.rcvd is None else error.rcvd.code


class LineWire:
    """Messages as lines, as on stdin and stdout."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        try:
            self._writer.write(data + b"\n")
            await self._writer.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise WireClosed(await self.ended()) from None

    async def receive(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            assert line == b"", f"half a line: {line!r}"
            raise WireClosed(await self.ended())
        return line[:-1]

    async def close(self) -> None:
        """The end of the input."""
        self._writer.close()

    async def ended(self) -> int | None:
        """What the end of the server's output is worth saying more about."""
        return None


class ProgramWire(LineWire):
    """The stdin and stdout of a server program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin)
        self.process = process

    async def ended(self) -> int | None:
        return await self.process.wait()


class InProcess:
    """A server on the test's own loop, with a WebSocket listener."""

    server: Server
    listener: Listener

    async def start(self, config: Config) -> None:
        self.server = Server(settings_of(config))
        await self.server.start()
        defer = self.server.call_after_turn
        self.listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), self.server.connect, defer=defer)

    @asynccontextmanager
    async def websocket(self) -> AsyncIterator[WebSocketWire]:
        async with connect(self.listener.url, compression=None, max_size=None, proxy=None) as socket:
            yield WebSocketWire(socket)

    @asynccontextmanager
    async def stdio(self) -> AsyncIterator[LineWire]:
        """A client on a pair of pipes; the server's ends are closed when its transport is gone."""
        loop = asyncio.get_running_loop()
        to_server, from_client = os.pipe()
        to_client, from_server = os.pipe()
        gone = asyncio.Event()

        def close_ends() -> None:
            os.close(to_server)
            os.close(from_server)
            gone.set()

        self.server.connect(StdioTransport(to_server, from_server), on_closed=close_ends)
        reader = asyncio.StreamReader(limit=1 << 28)
        protocol = asyncio.StreamReaderProtocol(reader)
        reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(to_client, "rb", 0))
        writing, mixin = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(from_client, "wb", 0)
        )
        try:
            yield LineWire(reader, asyncio.StreamWriter(writing, mixin, None, loop))
        finally:
            if not writing.is_closing():
                writing.abort()
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            reading.close()

    async def stop(self) -> None:
        await self.server.stop()
        self.listener.close()
        await self.listener.wait_closed(1.0)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[InProcess]:
    """A server with these settings (names and units of the command line)."""
    server = InProcess()
    await server.start(Config(**settings))
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def program(*arguments: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server program; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "exec_server",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 28,
        **options,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
