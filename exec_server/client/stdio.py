"""A link over a pair of byte streams: the stdout and stdin of a server on stdio."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal

from exec_server.client.wire import LinkClosed
from protocol.client_codec import JSON_CLIENT, MSGPACK_CLIENT
from transport.framing.framer import Framer
from transport.framing.lines import LineFramer
from transport.framing.msgpack import MessagePackFramer

READ = 1 << 16
MESSAGES_AHEAD = 256
"""Messages that are split off a piece of input at a time."""
CLOSE_S = 6.0
"""How long the server has to end its output after the end of its input, in seconds."""


class StdioLink:
    """Lines of JSON, or maps of MessagePack; see `Link`. The session ends with it.

    `reader` is the server's stdout, `writer` its stdin; at the end the writer is closed.
    """

    resumable = False
    in_process = False

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, encoding: Literal["json", "msgpack"]
    ) -> None:
        self.codec = JSON_CLIENT if encoding == "json" else MSGPACK_CLIENT
        self._end = b"\n" if encoding == "json" else b""
        self._reader = reader
        self._writer = writer
        self._splitter: Framer[str] = LineFramer() if encoding == "json" else MessagePackFramer()
        self._inbox: deque[bytes] = deque()
        self._ended = False

    async def send(self, message: bytes, pass_fds: tuple[int, ...] = ()) -> None:
        try:
            self._writer.write(message + self._end)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise LinkClosed(f"the server's input is closed: {error}") from None

    async def receive(self) -> bytes:
        while not self._inbox:
            if self._splitter.failure is not None:
                raise LinkClosed(f"the server's output is broken: {self._splitter.failure}")
            if self._splitter.stopped:
                self._splitter.read(b"", self._inbox, MESSAGES_AHEAD)
            elif self._ended:
                raise LinkClosed("the server's output has ended")
            else:
                await self._read()
        return self._inbox.popleft()

    async def _read(self) -> None:
        try:
            data = await self._reader.read(READ)
        except ConnectionError as error:
            raise LinkClosed(f"the server's output broke off: {error}") from None
        if data:
            self._splitter.read(data, self._inbox, MESSAGES_AHEAD)
        else:
            self._ended = True
            self._splitter.finish(self._inbox)

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                while await self._reader.read(READ):
                    pass
                await self._writer.wait_closed()
        except (TimeoutError, ConnectionError):
            pass  # it does not end by itself; whoever started it decides what to do about that
