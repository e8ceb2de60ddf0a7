"""All tools, by their names, and how a call of one is carried out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp_types import CallToolResult, TextContent

from exec_server.mcp.call import Call
from exec_server.mcp.command_tools import COMMAND_TOOLS
from exec_server.mcp.errors import explained
from exec_server.mcp.file_tools import FILE_TOOLS
from exec_server.mcp.search import SEARCH_TOOLS
from exec_server.mcp.session import McpSession
from exec_server.mcp.tooling import Tool

log = logging.getLogger("exec_server.mcp")

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*COMMAND_TOOLS, *FILE_TOOLS, *SEARCH_TOOLS)}


async def carry_out(session: McpSession, tool: Tool, arguments: Mapping[str, Any] | None, call: Call) -> CallToolResult:
    """The result of a call; of one that fails, a result with an error that a model can act on."""
    try:
        answer = await tool.call(session, tool.parse(arguments), call)
    except Exception as error:
        return failure(tool.name, error)
    return CallToolResult(
        content=list(answer.content),
        structured_content=msgspec.to_builtins(answer.result),
        is_error=answer.failed,
    )


def failure(name: str, error: Exception) -> CallToolResult:
    """The result of a call that failed."""
    text = explained(error)
    if text is None:
        log.error("the tool %s failed", name, exc_info=error)
        text = f"A fault of exec-server ({type(error).__name__}: {error}). Try another way, and tell the user."
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
