"""Events that were sent to clients on HTTP, so that one who was cut off can read on from the last that it has got.

Bounded: of each session the newest EVENTS events, of at most EVENT_BYTES bytes all together. What is gone is not told
again; the client learns that from the missing answer, and asks anew.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextvars import ContextVar

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage
from msgspec import Struct

EVENTS = 500
EVENT_BYTES = 4 << 20

owner: ContextVar[str] = ContextVar("owner", default="")
"""Whose request is being served: streams of different sessions have the same names."""


class _Event(Struct, frozen=True):
    number: int
    stream: StreamId
    message: JSONRPCMessage | None
    size: int


class RecentEvents(EventStore):
    """See the module. `forget` when a session is over."""

    def __init__(self) -> None:
        self._by_owner: OrderedDict[str, deque[_Event]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._last = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        key = owner.get()
        self._last += 1
        size = 0 if message is None else len(message.model_dump_json(by_alias=True))
        events = self._by_owner.setdefault(key, deque())
        events.append(_Event(self._last, stream_id, message, size))
        self._sizes[key] = self._sizes.get(key, 0) + size
        while len(events) > EVENTS or self._sizes[key] > EVENT_BYTES:
            self._sizes[key] -= events.popleft().size
        return str(self._last)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        events = self._by_owner.get(owner.get(), ())
        number = int(last_event_id) if last_event_id.isdigit() and len(last_event_id) < 19 else -1
        stream = next((each.stream for each in events if each.number == number), None)
        if stream is None:
            return None
        for each in list(events):
            if each.number > number and each.stream == stream and each.message is not None:
                await send_callback(EventMessage(each.message, str(each.number)))
        return stream

    def forget(self, key: str) -> None:
        """The session is over."""
        self._by_owner.pop(key, None)
        self._sizes.pop(key, None)
