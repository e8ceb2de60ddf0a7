"""Machine: the environment of a session, connected when it is first needed, and anew after it was lost.

idle ──link()──► connecting ──► connected ──session lost──► idle
                      └── failed: whoever waits is told, and it is idle again
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum

from exec_server.client.environment import Environment
from exec_server.client.errors import TransportDisconnected
from exec_server.client.events import Disconnected, Reconnected
from exec_server.mcp.paths import Paths
from exec_server.mcp.policy import Policy
from exec_server.unified_exec.manager import UnifiedExec
from exec_server.unified_exec.report import Event

log = logging.getLogger("exec_server.mcp")

Connect = Callable[[], AbstractAsyncContextManager[Environment]]
"""Makes a connection to the machine, with a session of its own."""

CLOSE_S = 8.0
"""How long the end of a connection may take, in seconds."""


class Incident(Enum):
    """What has happened to the connection."""

    CUT = "the connection to the machine was cut; it is being resumed"
    RESUMED = "the connection to the machine is resumed; nothing was lost"
    LOST = "the session on the machine is lost, and its processes with it"


class Link:
    """A connected machine."""

    def __init__(self, environment: Environment, commands: UnifiedExec, policy: Policy) -> None:
        self.environment = environment
        self.commands = commands
        self.files = environment.files
        self.paths = Paths(environment, policy)


class Machine:
    """See the module. `on_event` is told what commands do, `on_incident` what becomes of the connection."""

    def __init__(
        self,
        connect: Connect,
        policy: Policy,
        on_event: Callable[[Event], None],
        on_incident: Callable[[Incident, str], None],
    ) -> None:
        self._connect = connect
        self._policy = policy
        self._on_event = on_event
        self._on_incident = on_incident
        self._life: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Link] | None = None
        self._closed = False

    @property
    def current(self) -> Link | None:
        """The connection, if there is one at this moment."""
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception() is not None:
            return None
        return ready.result()

    async def link(self) -> Link:
        """The connection; made, if there is none. Raises what connecting raises."""
        if self._closed:
            raise TransportDisconnected("the MCP session is over")
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._life = asyncio.create_task(self._live(self._ready))
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the connection, and what runs over it."""
        self._closed = True
        life = self._life
        if life is not None:
            life.cancel()
            await asyncio.wait([life], timeout=CLOSE_S)

    async def _live(self, ready: asyncio.Future[Link]) -> None:
        try:
            async with self._connect() as environment, UnifiedExec(environment, on_event=self._on_event) as commands:
                ready.set_result(Link(environment, commands, self._policy))
                await self._watch(environment)
                self._ready = None
        except asyncio.CancelledError:
            ready.cancel()
            raise
        except Exception as error:
            if ready.done():
                log.exception("the end of a connection failed")
            else:
                ready.set_exception(error)
                ready.exception()  # somebody may have waited, and left
        finally:
            if self._ready is ready:
                self._ready = None

    async def _watch(self, environment: Environment) -> None:
        """Return when the session on the machine is over."""
        reason = ""
        async for event in environment.processes.events():
            if isinstance(event, Disconnected):
                reason = event.reason
                self._on_incident(Incident.CUT, reason)
            elif isinstance(event, Reconnected):
                self._on_incident(Incident.RESUMED, "")
        self._on_incident(Incident.LOST, reason)
