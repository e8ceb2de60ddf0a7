"""The ways to a server that runs already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from exec_server.client.channel import Channel
from exec_server.client.client import ExecServerClient
from exec_server.client.session import RECONNECT_S, Connect, Session
from exec_server.client.wire import WireChannel
from protocol.session import InitializeParams

if TYPE_CHECKING:
    from ssl import SSLContext

CLIENT_NAME = "exec-server python"
CONNECT_S = 10.0
INITIALIZE_S = 10.0


@asynccontextmanager
async def connect_websocket(
    url: str,
    client_name: str = CLIENT_NAME,
    connect_timeout: float = CONNECT_S,
    initialize_timeout: float = INITIALIZE_S,
    *,
    token: str | None = None,
    ssl: SSLContext | None = None,
    resume_session_id: str | None = None,
    session_ttl: float | None = None,
    reconnect_timeout: float = RECONNECT_S,
) -> AsyncIterator[ExecServerClient]:
    """A client of the server at `ws://HOST:PORT`, `wss://HOST:PORT` or `unix:///PATH`, with a new session or the one of
    `resume_session_id`.

    `token` is shown to the server; `ssl` says which certificates are trusted, by default those that the system trusts.
    A cut connection is made anew, for up to `reconnect_timeout` seconds each time. `session_ttl`: how long the new
    session lives without a connection, in seconds. At the end of the block what runs is killed: see
    `ExecServerClient.close` and `detach`. Raises ConnectFailed, and InvalidRequest for a session that is gone.
    """
    from exec_server.client.websocket import connect_link

    async def connect() -> Channel:
        return WireChannel(await connect_link(url, token, ssl, connect_timeout))

    ttl = None if session_ttl is None else round(session_ttl * 1000)
    initialize = InitializeParams(client_name, resume_session_id, session_ttl_ms=ttl)
    async with opened(connect, initialize, initialize_timeout, reconnect_timeout) as client:
        yield client


@asynccontextmanager
async def connect_stdio(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    client_name: str = CLIENT_NAME,
    initialize_timeout: float = INITIALIZE_S,
    *,
    encoding: Literal["json", "msgpack"] = "json",
) -> AsyncIterator[ExecServerClient]:
    """A client of a server on stdio, whose stdout is `reader` and whose stdin is `writer`, in the `encoding` that the
    server was started with. The session ends with the connection, and everything in it. Raises ConnectFailed.
    """
    from exec_server.client.stdio import StdioLink

    async def connect() -> Channel:
        return WireChannel(StdioLink(reader, writer, encoding))

    async with opened(connect, InitializeParams(client_name, None), initialize_timeout) as client:
        yield client


@asynccontextmanager
async def opened(
    connect: Connect, initialize: InitializeParams, initialize_timeout: float, reconnect_timeout: float = RECONNECT_S
) -> AsyncIterator[ExecServerClient]:
    """A client over the connections that `connect` makes."""
    session = Session(connect, initialize, initialize_timeout, reconnect_timeout)
    async with await ExecServerClient.over(session) as client:
        yield client
