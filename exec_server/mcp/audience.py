"""Audience: the client of one MCP session, as it is told what it did not ask for at this moment.

Clients before revision 2026-07-28 subscribe to resources and are told on the connection; later ones listen.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, get_args

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp_types import (
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from exec_server.mcp.machine import Incident
from exec_server.mcp.session import McpSession
from exec_server.unified_exec.report import Begin, End, Event, OutputDelta

log = logging.getLogger("exec_server.mcp")

NEWS_S = 0.25
"""Seconds between two notifications about one resource, at least."""
MAX_SUBSCRIPTIONS = 1000
LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_LEVEL_OF: dict[Incident, LoggingLevel] = {
    Incident.CUT: "warning",
    Incident.RESUMED: "notice",
    Incident.LOST: "error",
}


class Audience:
    """See the module. News is gathered, and sent by a task of the session that lives as long as there is some."""

    def __init__(self, session: McpSession) -> None:
        self.level: LoggingLevel = "info"
        """The least important messages that the client wants."""
        self.subscribed: set[str] = set()
        self._session = session
        self._connection: ServerSession | None = None
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=64)
        self._news: set[str] = set()
        self._sending = False
        session.on_event = self._took
        session.on_incident = self._happened

    def hear(self, connection: ServerSession) -> None:
        """The client has made a request over this connection."""
        self._connection = connection

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream of news, until the client leaves or the session ends."""
        return await self._listen(ctx, params)

    def close(self) -> None:
        """End the streams of news."""
        self._listen.close()

    # -- news ---------------------------------------------------------------------------------------------------

    def _took(self, event: Event) -> None:
        match event:
            case OutputDelta(process_id=process_id) | End(process_id=process_id):
                self._news |= {f"process://{process_id}/output", f"process://{process_id}/screen"}
            case _:
                pass
        if isinstance(event, (Begin, End)):
            self._news.add("")
        if self._news and not self._sending:
            self._sending = True
            self._session.run(self._send())

    async def _send(self) -> None:
        try:
            while self._news:
                await asyncio.sleep(NEWS_S)
                news, self._news = self._news, set()
                for uri in sorted(news):
                    await self._bus.publish(ResourceUpdated(uri) if uri else ResourcesListChanged())
                    if uri in self.subscribed and self._connection is not None:
                        await self._connection.send_resource_updated(uri)
        finally:
            self._sending = False

    def _happened(self, incident: Incident, reason: str) -> None:
        text = f"{incident.value}: {reason}" if reason else incident.value
        self._session.run(self.say(_LEVEL_OF[incident], text))

    async def say(self, level: LoggingLevel, text: str) -> None:
        """A message for a person, if the client wants such ones; since revision 2026-07-28 there are none outside of
        requests."""
        connection = self._connection
        if connection is None or connection.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        if LEVELS.index(level) >= LEVELS.index(self.level):
            params = LoggingMessageNotificationParams(level=level, logger="exec-server", data=text)
            await connection.send_notification(LoggingMessageNotification(params=params))
