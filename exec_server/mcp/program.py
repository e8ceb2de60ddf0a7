"""The program `exec-server mcp`: from what the command line says to a server that serves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from exec_server.client.client import ExecServerClient
from exec_server.client.environment import Environment
from exec_server.client.environments_file import ServerTarget
from exec_server.client.in_process import connect_in_process
from exec_server.mcp.lean import import_lean
from exec_server.mcp.machine import Connect
from exec_server.mcp.policy import Policy
from exec_server.server.config import Config
from exec_server.server.process_setup import Measures
from exec_server.server.server import Server, settings_of

CLIENT_NAME = "exec-server mcp"


async def serve(target: ServerTarget, policy: Policy, http: str | None, settings: Config | None) -> None:
    """Serve MCP on stdio, or on HTTP at `http` (`IP:PORT`), until the client or a signal ends it.

    Raises what listening and its rules raise: ListenUrlError, AccessError, OSError.
    """
    async with _connector(target) as connect:
        if http is not None:
            import_lean("exec_server.mcp.http")
            from exec_server.mcp.http import serve_http

            await serve_http(http, settings or Config(), connect, policy)
            return
        import_lean("exec_server.mcp.stdio")
        from exec_server.mcp.stdio import serve_stdio

        serving = asyncio.ensure_future(serve_stdio(connect, policy))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        try:
            await serving
        except asyncio.CancelledError:
            pass  # a signal


@asynccontextmanager
async def _connector(target: ServerTarget) -> AsyncIterator[Connect]:
    """What connects to the target. A server of our own is one for all sessions, and lives as long as the block."""
    if target.command is not None or target.url not in (None, "local"):
        yield lambda: _elsewhere(target)
        return
    measures = Measures()  # as the server program does: nothing of it outlives this process, however that ends
    server = Server(settings_of(Config()))
    await server.start()
    measures.begin(server.each_second)

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Environment, None]:
        async with connect_in_process(server, CLIENT_NAME) as client:
            yield Environment(client)

    try:
        yield connect
    finally:
        await server.stop()
        await measures.end()


@asynccontextmanager
async def _elsewhere(target: ServerTarget) -> AsyncGenerator[Environment, None]:
    async with _client_of(target) as client:
        yield Environment(client)


def _client_of(target: ServerTarget) -> AbstractAsyncContextManager[ExecServerClient]:
    if target.command is not None:
        from exec_server.client.local_server import spawn_local_server

        return spawn_local_server(target.command, CLIENT_NAME)
    from exec_server.client.connect import connect_websocket

    assert target.url is not None
    token = None if target.token_file is None else Path(target.token_file).expanduser().read_text().strip()
    return connect_websocket(target.url, CLIENT_NAME, token=token)
