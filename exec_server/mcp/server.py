"""The MCP server itself: which request is answered by what. Whose session a request belongs to is told by the entrance
(stdio, HTTP).
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from exec_server.mcp.audience import MAX_SUBSCRIPTIONS, Audience
from exec_server.mcp.call import Call
from exec_server.mcp.machine import Connect
from exec_server.mcp.policy import Policy
from exec_server.mcp.resources import TEMPLATES, check_uri, read_resource, resources_of
from exec_server.mcp.session import McpSession
from exec_server.mcp.tools import TOOLS, carry_out
from exec_server.version import __version__

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "A machine to run commands on. exec_command runs one; what does not end in time goes on as a process, which "
    "write_stdin types into and waits for. Use tty for whatever asks questions or draws a screen. Files are read and "
    "changed with the file tools rather than with shell commands."
)


class Client:
    """One session of a client, and who is told of it."""

    def __init__(self, connect: Connect, policy: Policy) -> None:
        self.session = McpSession(connect, policy)
        self.audience = Audience(self.session)

    async def close(self) -> None:
        """End the session, its commands and its news."""
        self.audience.close()
        await self.session.close()

    @classmethod
    @asynccontextmanager
    async def open(cls, connect: Connect, policy: Policy) -> AsyncIterator[Client]:
        """A client that lives as long as the block."""
        client = cls(connect, policy)
        try:
            yield client
        finally:
            await client.close()


ClientOf = Callable[[Context], Client]
"""Whose request this is."""


def server_for(client_of: ClientOf, policy: Policy) -> Server[Any]:
    """The server, for clients that are told apart by `client_of`."""
    handlers = _Handlers(client_of)
    with warnings.catch_warnings():
        # Messages for a person are given up in revision 2026-07-28, and wanted by the clients before it.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return Server(
            "exec-server",
            version=__version__,
            title="exec-server",
            instructions=" ".join(filter(None, (INSTRUCTIONS, policy.explained(policy.base or "the working folder")))),
            on_list_tools=handlers.list_tools,
            on_call_tool=handlers.call_tool,
            on_list_resources=handlers.list_resources,
            on_list_resource_templates=handlers.list_templates,
            on_read_resource=handlers.read_resource,
            on_subscribe_resource=handlers.subscribe,
            on_unsubscribe_resource=handlers.unsubscribe,
            on_subscriptions_listen=handlers.listen,
            on_set_logging_level=handlers.set_level,
        )


class _Handlers:
    def __init__(self, client_of: ClientOf) -> None:
        self._client_of = client_of

    def _client(self, ctx: Context) -> Client:
        client = self._client_of(ctx)
        client.audience.hear(ctx.session)
        return client

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool.described() for tool in TOOLS.values()])

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        client = self._client(ctx)
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}; there are {', '.join(TOOLS)}")
        wanted = "progress_token" in (ctx.meta or {})
        call = Call(ctx.session.report_progress if wanted else None)
        return await carry_out(client.session, tool, params.arguments, call)

    async def list_resources(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=resources_of(self._client(ctx).session))

    async def list_templates(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await read_resource(self._client(ctx).session, str(params.uri))

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        check_uri(uri)
        subscribed = self._client(ctx).audience.subscribed
        if len(subscribed) >= MAX_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"there are {MAX_SUBSCRIPTIONS} subscriptions already; end some first")
        subscribed.add(uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self._client(ctx).audience.subscribed.discard(str(params.uri))
        return EmptyResult()

    async def listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        return await self._client(ctx).audience.listen(ctx, params)

    async def set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._client(ctx).audience.level = params.level
        return EmptyResult()
