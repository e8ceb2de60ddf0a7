"""MCP on stdin and stdout: one client, one session, which ends with the input."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncGenerator
from typing import Any, cast

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, RequestParams

from exec_server.mcp.machine import Connect
from exec_server.mcp.policy import Policy
from exec_server.mcp.server import Client, server_for

MAX_MESSAGE = 16 << 20
"""The longest message, in bytes; a longer one is answered with an error, and never held."""
TOO_LONG = "exec-server/messageTooLong"
"""The method that stands for a message that was too long."""
_ID = r'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_ID_FIRST = re.compile(rb'\A\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,)*\s*' + _ID.encode())
_ID_LAST = re.compile(_ID.encode() + rb'(?:\s*,\s*"jsonrpc"\s*:\s*"2.0")?\s*\}\s*\Z')
_ENDS_BYTES = 1024
"""So much of both ends of a message that is too long is kept, to find its id."""


async def serve_stdio(connect: Connect, policy: Policy, stdin: int = 0) -> None:
    """Serve until the end of the input, or until the client reads no more."""
    async with Client.open(connect, policy) as client:
        server = server_for(lambda ctx: client, policy)
        server.add_request_handler(TOO_LONG, RequestParams, _refuse_long)
        lines = cast("anyio.AsyncFile[str]", lines_of(stdin))  # all that is asked of it is lines
        try:
            async with stdio_server(stdin=lines) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # nobody reads what we answer


async def _refuse_long(ctx: ServerRequestContext[Any, Any], params: RequestParams) -> None:
    raise MCPError(INVALID_REQUEST, f"the message is longer than {MAX_MESSAGE} bytes; send less at a time")


async def lines_of(fd: int, most: int = MAX_MESSAGE) -> AsyncGenerator[str, None]:
    """The lines that come from a descriptor; instead of one above `most` bytes a request that is refused."""
    held = bytearray()
    dropped: bytes | None = None
    """The beginning of a line that is too long."""
    async for block in _blocks(fd):
        held += block
        start = 0
        while (newline := held.find(b"\n", start)) >= 0:
            line = bytes(held[start:newline])
            start = newline + 1
            if dropped is not None or len(line) > most:
                yield _in_place_of(line if dropped is None else dropped + line[-_ENDS_BYTES:])
                dropped = None
            elif line.strip():
                yield line.decode("utf-8", "replace")
        del held[:start]
        if len(held) > most:
            dropped = bytes(held[:_ENDS_BYTES]) if dropped is None else dropped
            del held[:-_ENDS_BYTES]


async def _blocks(fd: int) -> AsyncGenerator[bytes, None]:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        while block := os.read(fd, 1 << 16):
            yield block
            await asyncio.sleep(0)
        return
    reader = asyncio.StreamReader(limit=1 << 17)
    pipe = os.fdopen(fd, "rb", buffering=0, closefd=False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while block := await reader.read(1 << 17):
            yield block
    finally:
        transport.close()


def _in_place_of(message: bytes) -> str:
    """A request with the id of the message, as far as that can be found; "" (nothing to be answered) else."""
    found = _ID_FIRST.search(message[:_ENDS_BYTES]) or _ID_LAST.search(message[-_ENDS_BYTES:])
    return "" if found is None else f'{{"jsonrpc":"2.0","id":{found[1].decode()},"method":"{TOO_LONG}"}}'
