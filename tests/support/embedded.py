"""A server on the loop of the test, and its URL: a real listener, no process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exec_server.server.config import Config
from exec_server.server.server import Server, settings_of
from transport.listen import parse_listen_url, serve_websocket


@asynccontextmanager
async def embedded(**config: object) -> AsyncIterator[tuple[Server, str]]:
    """A server on the running loop, and its URL."""
    server = Server(settings_of(Config(**config)))
    await server.start()
    url = parse_listen_url("ws://127.0.0.1:0")
    listener = serve_websocket(url, server.connect, defer=server.call_after_turn)
    try:
        yield server, listener.url
    finally:
        listener.close()
        await server.stop()
