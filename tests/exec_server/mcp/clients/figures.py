"""Figures that are promised: what a call costs over the same call of `UnifiedExec`, and what an idle server holds."""

from __future__ import annotations

import asyncio
import os
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
ATTEMPTS = 5
"""What else the machine does may double a figure; nothing makes it less than it is."""


async def run() -> list[str]:
    """Raises Wrong."""
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

        one, other = await _medians(over_mcp, direct)
        attempts = 1
        while one - other > MOST_MS and attempts < ATTEMPTS:
            one, other = await _medians(over_mcp, direct)
            attempts += 1
        began = time.perf_counter()
        await asyncio.gather(*(over_mcp() for _ in range(50)))
        side_by_side = time.perf_counter() - began
    check(held < MOST_BYTES, f"an idle server holds {held / (1 << 20):.1f} MB")
    check(one - other <= MOST_MS, f"a call takes {one:.2f} ms, the same of UnifiedExec {other:.2f} ms")
    return [
        f"a call takes {one:.2f} ms, the same of UnifiedExec {other:.2f} ms "
        f"(medians of {ROUNDS * CALLS} each; attempt {attempts})",
        f"50 calls side by side take {side_by_side * 1000:.0f} ms",
        f"an idle server holds {held / (1 << 20):.1f} MB",
    ]


def _self() -> int:
    return os.getpid()


def _is_ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"mcp" in file.read().split(b"\0")
    except OSError:
        return False


async def _medians(one: Callable[[], Awaitable[None]], other: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Of both kinds of calls, in ms; they take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, taken in zip((one, other), times, strict=True):
            taken += await _timed(call)
    return statistics.median(times[0]), statistics.median(times[1])


async def _timed(call: Callable[[], Awaitable[None]]) -> list[float]:
    """How long each of some calls takes, in ms; the first one is not counted."""
    await call()
    found = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began) * 1000)
    return found
