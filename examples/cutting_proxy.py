"""Cutting proxy: a network between a client and a server that can be made to break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes on whatever comes, until `cut` ends every connection as a network does: without a goodbye."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    def cut(self) -> None:
        """Cut all connections. New ones may be made at once."""
        for writer in self._writers:
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, for as long as it lasts."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        both = {writer, far_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            self._writers -= both

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def cutting_proxy(url: str) -> AsyncIterator[CuttingProxy]:
    """A proxy of the server at `url`, on a free port of this machine."""
    proxy = CuttingProxy(url)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
