"""McpSession: what the server knows of one session of a client."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from exec_server.mcp.activity import Activities
from exec_server.mcp.machine import Connect, Incident, Link, Machine
from exec_server.mcp.policy import Policy
from exec_server.unified_exec.report import Event

log = logging.getLogger("exec_server.mcp")

FILES_REMEMBERED = 1000
"""So many files are remembered by how they were when the client saw them; the one seen longest ago makes room."""


class Version(NamedTuple):
    """How a file was: ms since 1970, bytes."""

    modified_at_ms: int
    size: int


class McpSession:
    """The commands of a client, the files that it has seen, and the machine of both. Ended by `close`."""

    def __init__(self, connect: Connect, policy: Policy) -> None:
        self.policy = policy
        self.activities = Activities()
        self.machine = Machine(connect, policy, self._took, self._happened)
        self.has_ripgrep: bool | None = None
        """None until somebody has looked."""
        self.on_event: Callable[[Event], None] = lambda event: None
        """Told what the commands do."""
        self.on_incident: Callable[[Incident, str], None] = lambda incident, reason: None
        """Told what becomes of the connection to the machine."""
        self._seen: OrderedDict[str, Version] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def link(self) -> Link:
        """The connected machine. Raises what connecting raises."""
        return await self.machine.link()

    def now(self) -> float:
        """The time of the loop, in seconds."""
        return asyncio.get_running_loop().time()

    # -- files --------------------------------------------------------------------------------------------------

    def saw(self, path: str, version: Version) -> None:
        """The client knows the file as it is in this version."""
        self._seen[path] = version
        self._seen.move_to_end(path)
        if len(self._seen) > FILES_REMEMBERED:
            self._seen.popitem(last=False)

    def seen(self, path: str) -> Version | None:
        """The version that the client knows, if any."""
        return self._seen.get(path)

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Have something done that nobody waits for; `close` waits for it."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """End the connection to the machine, and all that was started over it."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=3.0)
        await self.machine.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of a session failed", exc_info=error)

    def _took(self, event: Event) -> None:
        self.activities.take(event, self.now())
        self.on_event(event)

    def _happened(self, incident: Incident, reason: str) -> None:
        if incident is Incident.LOST:
            self._seen.clear()
            self.has_ripgrep = None
        log.warning("%s%s", incident.value, f": {reason}" if reason else "")
        self.on_incident(incident, reason)
