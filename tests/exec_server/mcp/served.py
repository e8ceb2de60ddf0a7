"""A client of the official package, connected to our server in this process; and short names for what it says."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp_types import CallToolResult

from exec_server import Environment
from exec_server.mcp.machine import Connect
from exec_server.mcp.policy import Policy
from exec_server.mcp.server import Client, server_for
from tests.support.program import ROOT

LOCAL: Connect = lambda: Environment.create("local")  # noqa: E731


@asynccontextmanager
async def served(
    policy: Policy | None = None, *, connect: Connect = LOCAL, mode: str = "legacy", **options: Any
) -> AsyncIterator[McpClient]:
    """A client of a server of ours, over a stream in memory."""
    policy = policy or Policy()
    async with Client.open(connect, policy) as ours:
        server = server_for(lambda ctx: ours, policy)
        async with McpClient(server, mode=mode, **options) as client:
            yield client


def program(*flags: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> StdioServerParameters:
    """What starts `exec-server mcp` on stdio."""
    arguments = ["-m", "exec_server", "mcp", *flags]
    return StdioServerParameters(command=sys.executable, args=arguments, cwd=cwd or ROOT, env=env)


async def call(client: McpClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refused(client: McpClient, tool: str, **arguments: Any) -> str:
    """What a call that must fail says to the model."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def waiting(client: McpClient, process_id: int, wanted: str) -> str:
    """Look at a process until its output has what is wanted; all that it printed meanwhile."""
    seen = ""
    async with asyncio.timeout(30):
        while wanted not in seen:
            found = await call(client, "write_stdin", process_id=process_id, yield_time_ms=250)
            seen += found["output"]
            assert wanted in seen or found["process_id"] is not None, f"it ended, with {seen!r}"
    return seen
