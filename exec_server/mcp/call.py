"""Call: one request of a client while it is carried out, and the news of it that the client has asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PROGRESS_S = 0.25
"""The least time between two notifications, in seconds."""
HEARTBEAT_S = 5.0
"""After so long without news the client is told that it goes on."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends a progress notification: how far, of how much, and a text."""


class Call:
    """One request. `report` is None where the client did not ask for progress."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report

    @asynccontextmanager
    async def telling(self, newest: Callable[[], str]) -> AsyncIterator[None]:
        """While the block lasts, tell the client of each change of `newest()`; progress is in seconds."""
        if self._report is None:
            yield
            return
        task = asyncio.create_task(_tell(self._report, newest))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _tell(report: Report, newest: Callable[[], str]) -> None:
    loop = asyncio.get_running_loop()
    began = told_at = loop.time()
    told = ""
    while True:
        await asyncio.sleep(PROGRESS_S)
        now, text = loop.time(), newest()
        if (text and text != told) or now - told_at >= HEARTBEAT_S:
            await report(round(now - began, 3), None, text or "running, no output yet")
            told, told_at = text, now
