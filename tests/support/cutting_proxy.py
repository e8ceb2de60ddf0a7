"""A TCP proxy that cuts connections where it is told to, and withholds what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from urllib.parse import urlsplit


class CuttingProxy:
    """In front of the server at `url`; its own is `url` of the block.

    Each connection is cut after as many bytes, both directions together, as the next of `budgets` says; when there is
    none left, not at all. What is beyond is lost in both directions, as with a network that breaks.
    """

    def __init__(self, url: str, budgets: Iterable[int] = ()) -> None:
        self._port = urlsplit(url).port
        self._budgets = iter(budgets)
        self._connections: set[asyncio.Task[None]] = set()
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._server: asyncio.Server
        self.connections = 0
        """How many there were."""
        self.cuts = 0
        """How many of them used up their budget."""
        self.passed = 0
        """Bytes that went to clients."""
        self.lost = 0
        """Bytes that were thrown away."""
        self.lose_requests = False
        """Throw away what clients send."""
        self.lose_answers = False
        """Throw away what the server sends."""
        self.refuse = False
        """Cut new connections at once."""

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        if self._connections:
            await asyncio.wait(self._connections)

    def cut(self) -> None:
        """Cut every connection that there is now."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        self.connections += 1
        task = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        pair = writer, far_writer
        self._pairs.append(pair)
        connection = _Connection(next(self._budgets, None))
        ways = [
            asyncio.create_task(self._forward(connection, reader, far_writer, from_client=True)),
            asyncio.create_task(self._forward(connection, far_reader, writer, from_client=False)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in pair:
            if connection.cut:
                each.transport.abort()
            else:
                each.close()  # what came before the end of one side is still passed on
        await asyncio.wait(ways)
        self._pairs.remove(pair)
        self.cuts += connection.cut

    async def _forward(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_client: bool
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                passed = connection.take(data)
                if self.lose_requests if from_client else self.lose_answers:
                    self.lost += len(data)
                else:
                    self.passed += 0 if from_client else len(passed)
                    writer.write(passed)
                    await writer.drain()
                if len(passed) < len(data):
                    connection.cut = True
                    return
        except ConnectionError:
            pass


class _Connection:
    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.cut = False

    def take(self, data: bytes) -> bytes:
        if self.budget is None:
            return data
        passed = data[: self.budget]
        self.budget -= len(passed)
        return passed
