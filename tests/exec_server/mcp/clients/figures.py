"""Figures that are promised: what a call costs over the same call of `UnifiedExec`, and what an idle server holds."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from mcp import Client as McpClient

from exec_server import Environment, UnifiedExec
from tests.exec_server.mcp.clients.checks import check
from tests.exec_server.mcp.served import program
from tests.support.program import Facts

ROUNDS = 8
CALLS = 25
MOST_MS = 2.0
MOST_BYTES = 70 << 20
SETTLED_S = 1.0


async def run() -> list[str]:
    """Raises Wrong. Both kinds of calls take turns, so that what else the machine does is shared."""
    before = Facts(_self()).children()
    async with (
        McpClient(program(), mode="legacy") as client,
        Environment.create("local") as environment,
        UnifiedExec(environment) as commands,
    ):
        await client.list_tools()
        await asyncio.sleep(SETTLED_S)
        (pid,) = [child for child in Facts(_self()).children() if child not in before and _is_ours(child)]
        held = Facts(pid).rss()

        async def over_mcp() -> None:
            await client.call_tool("exec_command", {"cmd": "true"})

        async def direct() -> None:
            await commands.exec_command("true")

        mcp_ms: list[float] = []
        direct_ms: list[float] = []
        for _ in range(ROUNDS):
            mcp_ms += await _timed(over_mcp)
            direct_ms += await _timed(direct)
        began = time.perf_counter()
        await asyncio.gather(*(over_mcp() for _ in range(50)))
        side_by_side = time.perf_counter() - began
    one, other = statistics.median(mcp_ms), statistics.median(direct_ms)
    check(held < MOST_BYTES, f"an idle server holds {held / (1 << 20):.1f} MB")
    check(one - other <= MOST_MS, f"a call takes {one:.2f} ms, the same of UnifiedExec {other:.2f} ms")
    return [
        f"a call takes {one:.2f} ms (median of {len(mcp_ms)}), the same of UnifiedExec {other:.2f} ms",
        f"50 calls side by side take {side_by_side * 1000:.0f} ms",
        f"an idle server holds {held / (1 << 20):.1f} MB",
    ]


def _self() -> int:
    import os

    return os.getpid()


def _is_ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"mcp" in file.read().split(b"\0")
    except OSError:
        return False


async def _timed(call: Callable[[], Awaitable[None]]) -> list[float]:
    """How long each of some calls takes, in ms; the first one is not counted."""
    await call()
    found = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began) * 1000)
    return found
