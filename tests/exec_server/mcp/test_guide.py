"""docs/mcp.md: what it gives to paste starts a server, and what it says of tools and bounds is so."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters

from exec_server.mcp import command_tools, event_store, file_tools, http, resources, search, stdio
from exec_server.mcp.tools import TOOLS
from exec_server.unified_exec import limits
from tests.support.program import ROOT

GUIDE = (ROOT / "docs" / "mcp.md").read_text()
CLIENTS = re.findall(r"<!-- client -->\n```(\w+)\n(.*?)```", GUIDE, re.DOTALL)


def test_five_clients_are_served() -> None:
    assert len(CLIENTS) == 5


@pytest.mark.anyio
@pytest.mark.parametrize("number", [*(pytest.param(n, marks=pytest.mark.slow) for n in range(4)), 4])
async def test_what_is_pasted_starts_a_server(number: int, tmp_path: Path) -> None:
    """Lost: the first minute of everybody who tries it."""
    language, text = CLIENTS[number]
    config: dict[str, Any] = json.loads(text) if language == "json" else tomllib.loads(text)
    (servers,) = config.values()
    server = servers["machine"]
    assert server["command"] == "exec-server"
    folders = {"/home/me/project": str(tmp_path), "${workspaceFolder}": str(tmp_path)}
    arguments = [folders.get(each, each) for each in server["args"]]
    parameters = StdioServerParameters(command=str(Path(sys.executable).parent / "exec-server"), args=arguments)
    async with McpClient(parameters, mode="legacy") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)


def test_each_tool_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert rows == ["exec_command", "write_stdin", "list_processes", "terminate_process", "read_screen", *rows[5:]]
    assert set(rows) == set(TOOLS) and len(rows) == len(TOOLS)


def test_the_numbers_are_those_of_the_program() -> None:
    """Lost: trust in every other number."""
    said = {
        f"({limits.DEFAULT_YIELD_MS:,}; {limits.MIN_YIELD_MS} to {limits.MAX_YIELD_MS:,})",
        f"waits ({limits.POLL_YIELD_MS:,} ms)",
        f"({limits.DEFAULT_OUTPUT_TOKENS:,}, of {limits.BYTES_PER_TOKEN} bytes)",
        f"({file_tools.READ_BYTES:,}; up to {file_tools.MAX_READ_BYTES:,})",
        f"(up to {file_tools.MAX_WRITE_BYTES >> 20} MiB)",
        f"Ends after {search.SEARCH_S:.0f} s",
        f"kills it {command_tools.INTERRUPT_S:.0f} s later",
        f"`cmd`\n{command_tools.MAX_COMMAND_BYTES:,} bytes",
        f"`chars` is at most {command_tools.MAX_CHARS_BYTES >> 20} MiB",
        f"A message is at most {stdio.MAX_MESSAGE >> 20} MiB",
        f"after {http.IDLE_S / 60:.0f} minutes without a request",
        f"the last {event_store.EVENTS} events of a session\nare kept, {event_store.EVENT_BYTES >> 20} MiB at most",
        f"(at most {resources.MAX_OUTPUT_BYTES >> 10} KiB come at once)",
        f"as bytes, up to {resources.MAX_FILE_BYTES >> 20} MiB",
    }
    assert http.MAX_BODY == stdio.MAX_MESSAGE
    assert not {each for each in said if each not in GUIDE}
