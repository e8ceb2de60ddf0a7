"""A client of a server in the same process: the wire in MessagePack, over memory in place of a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exec_server.client.channel import Channel
from exec_server.client.client import ExecServerClient
from exec_server.client.connect import CLIENT_NAME, INITIALIZE_S, opened
from exec_server.client.wire import LinkClosed, WireChannel
from exec_server.server.config import Config
from exec_server.server.server import Server, settings_of
from protocol.client_codec import MSGPACK_CLIENT
from protocol.codec import MSGPACK_SUBPROTOCOL
from protocol.session import InitializeParams
from transport.memory import PeerClosedError, memory_pair

CLOSE_S = 5.0
"""How long the server has to end the connection when it is told goodbye, in seconds."""


@asynccontextmanager
async def connect_in_process(
    server: Server | None = None, client_name: str = CLIENT_NAME, initialize_timeout: float = INITIALIZE_S
) -> AsyncIterator[ExecServerClient]:
    """A client of a server on the running loop: of `server`, or of one that lives as long as the block.

    The session ends with the block, and everything in it.
    """
    own = None
    if server is None:
        own = server = Server(settings_of(Config()))
        await own.start()
    try:
        at: Server = server

        async def connect() -> Channel:
            return WireChannel(MemoryLink(at))

        async with opened(connect, InitializeParams(client_name, None), initialize_timeout) as client:
            yield client
    finally:
        if own is not None:
            await own.stop()


class MemoryLink:
    """A connection to a server on the running loop; see `Link`. Descriptors of this process can be passed beside its
    messages, since they mean the same to the server. Its session ends with it.
    """

    codec = MSGPACK_CLIENT
    resumable = False
    in_process = True

    def __init__(self, server: Server) -> None:
        transport, self._peer = memory_pair(
            resumable=False, subprotocol=MSGPACK_SUBPROTOCOL, defer=server.call_after_turn
        )
        self._closed = asyncio.Event()
        server.connect(transport, self._closed.set)

    async def send(self, message: bytes, pass_fds: tuple[int, ...] = ()) -> None:
        try:
            self._peer.send(message, pass_fds)
            await self._peer.drain()
        except PeerClosedError as closed:
            raise LinkClosed(closed.reason) from None

    async def receive(self) -> bytes:
        try:
            return await self._peer.receive()
        except PeerClosedError as closed:
            raise LinkClosed(closed.reason) from None

    async def close(self) -> None:
        self._peer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._closed.wait()
        except TimeoutError:
            pass  # the engine does not run any more
