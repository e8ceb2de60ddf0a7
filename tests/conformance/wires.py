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

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from exec_server.server.config import Config
from exec_server.server.server import Server, settings_of
from tests.conformance.encodings import JSON, Encoding
from tests.support.encodings import SUBPROTOCOL
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

    encoding: Encoding
    """What the server speaks on it."""

    async def send(self, message: str | bytes) -> None:
        """Raises WireClosed if the connection is gone."""

    async def receive(self) -> bytes:
        """The next message. Raises WireClosed after the last one."""

    async def close(self) -> None:
        """End the conversation from the client's side, and wait until the server has noticed."""


class WebSocketWire:
    def __init__(self, socket: ClientConnection, encoding: Encoding = JSON) -> None:
        self.socket = socket
        self.encoding = encoding

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
        assert isinstance(message, str) == (self.encoding is JSON), "JSON comes in text frames, all else in binary ones"
        return message.encode() if isinstance(message, str) else message

    async def close(self) -> None:
        await self.socket.close()

    def reset(self) -> None:
        """Cut the connection without goodbye."""
        self.socket.transport.abort()


def _close_code(error: ConnectionClosed) -> int | None:
    return None if error.rcvd is None else error.rcvd.code


class LineWire:
    """Messages as lines, as on stdin and stdout."""

    encoding: Encoding = JSON

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: str | bytes) -> None:
        await self.write((message.encode() if isinstance(message, str) else message) + b"\n")

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
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


class MapWire(LineWire):
    """Messages as maps of MessagePack, one behind the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, encoding: Encoding) -> None:
        super().__init__(reader, writer)
        self.encoding = encoding
        self._unpacker = msgpack.Unpacker(max_buffer_size=0)
        self._received = 0

    async def send(self, message: str | bytes) -> None:
        assert isinstance(message, bytes), "text on MessagePack"
        await self.write(message)

    async def receive(self) -> bytes:
        while True:
            try:
                message: bytes = msgpack.packb(self._unpacker.unpack())
                return message
            except msgpack.OutOfData:
                data = await self._reader.read(1 << 16)
                self._received += len(data)
                self._unpacker.feed(data)
                if not data:
                    assert self._unpacker.tell() == self._received, "half a message"
                    raise WireClosed(await self.ended()) from None


class ProgramWire(LineWire):
    """The stdin and stdout of a server program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin)
        self.process = process

    async def ended(self) -> int | None:
        return await self.process.wait()


class ProgramMapWire(MapWire):
    """The same for `--encoding msgpack`."""

    def __init__(self, process: asyncio.subprocess.Process, encoding: Encoding) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin, encoding)
        self.process = process

    async def ended(self) -> int | None:
        return await self.process.wait()


class InProcess:
    """A server on the test's own loop, with a WebSocket listener. Its clients speak `encoding`."""

    server: Server
    listener: Listener

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    async def start(self, config: Config) -> None:
        self.server = Server(settings_of(config))
        await self.server.start()
        defer = self.server.call_after_turn
        self.listener = serve_websocket(
            WebSocketUrl("127.0.0.1", 0), self.server.connect, subprotocols=[SUBPROTOCOL], defer=defer
        )

    @asynccontextmanager
    async def websocket(self) -> AsyncIterator[WebSocketWire]:
        name = self.encoding.subprotocol
        offered = None if name is None else [Subprotocol(name)]
        async with connect(
            self.listener.url, subprotocols=offered, compression=None, max_size=None, proxy=None
        ) as socket:
            yield WebSocketWire(socket, self.encoding)

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

        transport = StdioTransport(to_server, from_server, subprotocol=self.encoding.subprotocol)
        self.server.connect(transport, on_closed=close_ends)
        reader = asyncio.StreamReader(limit=1 << 28)
        protocol = asyncio.StreamReaderProtocol(reader)
        reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(to_client, "rb", 0))
        writing, mixin = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(from_client, "wb", 0)
        )
        try:
            writer = asyncio.StreamWriter(writing, mixin, None, loop)
            yield LineWire(reader, writer) if self.encoding is JSON else MapWire(reader, writer, self.encoding)
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
async def serving(spoken: Encoding = JSON, /, **settings: Any) -> AsyncIterator[InProcess]:
    """A server with these settings (names and units of the command line), and an encoding for its clients."""
    server = InProcess(spoken)
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
