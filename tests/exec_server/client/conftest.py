"""A client of each kind of connection, and the words for what it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from exec_server import ExecServerClient, connect_in_process, connect_stdio, connect_websocket, spawn_local_server
from tests.support.embedded import embedded
from tests.support.program import Program, stdio_pipes


@asynccontextmanager
async def over_websocket(server: Program) -> AsyncIterator[ExecServerClient]:
    async with connect_websocket(server.url) as client:
        yield client


@asynccontextmanager
async def over_websocket_json(server: Program) -> AsyncIterator[ExecServerClient]:
    """A server that offers no subprotocol, as others of this protocol do not."""
    async with embedded() as (_, url), connect_websocket(url) as client:
        yield client


@asynccontextmanager
async def over_stdio(server: Program) -> AsyncIterator[ExecServerClient]:
    async with stdio_pipes() as (reader, writer, _), connect_stdio(reader, writer) as client:
        yield client


@asynccontextmanager
async def over_local_server(server: Program) -> AsyncIterator[ExecServerClient]:
    async with spawn_local_server() as client:
        yield client


@asynccontextmanager
async def in_process(server: Program) -> AsyncIterator[ExecServerClient]:
    async with connect_in_process() as client:
        yield client


Connecting = Callable[[Program], AbstractAsyncContextManager[ExecServerClient]]

LINKS: dict[str, Connecting] = {
    "websocket": over_websocket,
    "websocket-json": over_websocket_json,
    "stdio": over_stdio,
    "local-server": over_local_server,
    "in-process": in_process,
}


@pytest.fixture(params=LINKS)
async def client(request: pytest.FixtureRequest, server: Program) -> AsyncIterator[ExecServerClient]:
    """A client of a server, over each way to one."""
    async with LINKS[request.param](server) as client:
        yield client


@pytest.fixture
async def one_client(server: Program) -> AsyncIterator[ExecServerClient]:
    """A client for what does not depend on the way."""
    async with connect_websocket(server.url) as client:
        yield client
