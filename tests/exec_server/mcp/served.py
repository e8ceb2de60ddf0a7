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


async def running(client: McpClient, cmd: str, wanted: str, **arguments: Any) -> tuple[int, str]:
    """Start a command that goes on, and look at it until it has printed what is wanted; its id, and all of that."""
    found = await call(client, "exec_command", cmd=cmd, yield_time_ms=250, **arguments)
    assert found["process_id"] is not None, found
    return found["process_id"], await _until(client, found, found["process_id"], wanted)


async def typed(client: McpClient, process_id: int, chars: str, wanted: str) -> str:
    """Type, and look until what is wanted was printed; all that was printed."""
    found = await call(client, "write_stdin", process_id=process_id, chars=chars, yield_time_ms=250)
    return await _until(client, found, process_id, wanted)


async def _until(client: McpClient, found: dict[str, Any], process_id: int, wanted: str) -> str:
    seen = found["output"]
    async with asyncio.timeout(30):
        while wanted not in seen:
            assert found["process_id"] is not None, f"it ended, with {seen!r}"
            found = await call(client, "write_stdin", process_id=process_id, yield_time_ms=250)
            seen += found["output"]
    return str(seen)


async def asking(client: McpClient, cmd: str) -> dict[str, Any]:
    """Start a command on a terminal, and look at it until it seems to wait for input; the last that was seen of it."""
    found = await call(client, "exec_command", cmd=cmd, tty=True, yield_time_ms=1500)
    async with asyncio.timeout(30):
        while not found["waiting_for_input"]:
            assert found["process_id"] is not None, found
            found = await call(client, "write_stdin", process_id=found["process_id"], yield_time_ms=500)
    return found
