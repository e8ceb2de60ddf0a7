"""Demultiplexer of the notifications of a session: to the buffer of each process, without a break over cuts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from exec_server.client.calls import Call, fail
from exec_server.client.errors import TransportDisconnected
from exec_server.client.event_buffer import BOUND, HOLD_FROM, RELEASE_BELOW, EventBuffer
from exec_server.client.events import ClientEvent, Disconnected, Event, Failed, FailureKind, Missed, Reconnected
from exec_server.client.feed import Feed
from exec_server.client.session import Session
from protocol.errors import ExecServerError, InvalidRequest, UnknownProcess
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessFlowParams,
    ProcessGap,
    ProcessOutput,
    ProcessReadParams,
    ProcessReadResult,
    ProcessStartResult,
)
from protocol.watermark import Watermark
from protocol.wire_types import NotificationParams

READ_FIRST = 64 << 10
READ_MOST = 1 << 20
"""Bytes of output that are asked for at a time when something was missed: little at first, twice as much each time,
since an answer that a cut tears is lost as a whole, and a connection that breaks often must get on, too.
"""
UNKNOWN = "the server does not know the process any more"
EVENTS_KEPT = 256
"""Events that wait in a stream of all events of a connection before they are left out."""


class EventStream:
    """All events of all processes, for whoever iterates; see `ExecServerClient.events`."""

    def __init__(self, leave: Callable[[EventStream], None]) -> None:
        self._waiting: deque[ClientEvent] = deque()
        self._missed = 0
        self._over = False
        self._something = asyncio.Event()
        self._leave = leave

    def put(self, event: ClientEvent) -> None:
        """Append an event, or count it as missed while there is no room."""
        if len(self._waiting) >= EVENTS_KEPT:
            self._missed += 1
        else:
            self._tell_missed()
            self._waiting.append(event)
            self._something.set()

    def end(self) -> None:
        """Nothing will come any more."""
        self._over = True
        self._something.set()

    def close(self) -> None:
        """Take no more."""
        self._leave(self)
        self.end()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ClientEvent:
        while not self._waiting:
            self._tell_missed()
            if self._waiting:
                break
            if self._over:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()

    def _tell_missed(self) -> None:
        if self._missed:
            self._waiting.append(Missed(self._missed))
            self._missed = 0


class Subscription:
    """One process that somebody has a handle of: its feed and buffer, and what it needs of the session."""

    def __init__(self, process_id: str, demultiplexer: Demultiplexer) -> None:
        self.process_id = process_id
        self.feed = Feed(process_id)
        self.buffer = EventBuffer(self._judge_size)
        self.start: Call[Any] | None = None
        """The request that starts it; None for a process that was there before."""
        self._demultiplexer = demultiplexer
        self._flow = Watermark(HOLD_FROM, RELEASE_BELOW, lambda: self._pause(True), lambda: self._pause(False))
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._reading: asyncio.Task[None] | None = None

    @property
    def starting(self) -> bool:
        """Whether its start is not answered yet."""
        return self.start is not None and not self.start.future.done()

    def put(self, events: list[Event]) -> None:
        """New events, in their order. None is taken after the last."""
        if self.buffer.end is not None:
            return
        self.buffer.put(events)
        self._demultiplexer.tell(events)
        if self.buffer.end is not None:
            self._demultiplexer.remove(self)

    def catch_up(self) -> None:
        """Read what is missing, in a task that ends at the next cut, or when nothing is missing."""
        if self._reading is None or self._reading.done():
            self._reading = self._demultiplexer.create_task(self._read())

    def cut(self) -> None:
        """There is no connection: nobody holds the process, and what it prints is not told."""
        if self._reading is not None:
            self._reading.cancel()
        if not self.starting or (self.start is not None and self.start.sent):
            self.feed.lose_connection()

    def resumed(self) -> None:
        """There is one again."""
        if self._flow.above:
            self._pause(True)
        if self.feed.behind:
            self._reading = None
            self.catch_up()

    async def _read(self) -> None:
        session = self._demultiplexer.session
        size = READ_FIRST
        try:
            while self.feed.behind:
                await self._roomy.wait()
                params = ProcessReadParams(self.process_id, after_seq=self.feed.last_seq, max_bytes=size)
                size = min(size * 2, READ_MOST)
                result = await session.call(params)
                assert isinstance(result, ProcessReadResult)
                if self.starting and self.start is not None:
                    self.start.future.set_result(ProcessStartResult(self.process_id))
                self.put(self.feed.read(result))
        except TransportDisconnected:
            pass  # everybody is told
        except UnknownProcess:
            self._lost(UNKNOWN, "unknownProcess")
        except ExecServerError as error:
            self._lost(error.message, "processLost")

    def _lost(self, reason: str, kind: FailureKind) -> None:
        if self.starting and self.start is not None:
            text = "the connection was cut before the process was started; nothing runs"
            fail(self.start.future, TransportDisconnected(text))
        self.put([Failed(self.process_id, reason, kind)])

    def _judge_size(self) -> None:
        self._flow.update(self.buffer.size)
        self._demultiplexer.judge_room(self)

    def _pause(self, paused: bool) -> None:
        if paused:
            self._roomy.clear()
        else:
            self._roomy.set()
        session = self._demultiplexer.session
        if session.connected and session.has("flow") and self.buffer.end is None:
            session.post(ProcessFlowParams(self.process_id, paused))


class Demultiplexer:
    """The processes of a session that are heard of here; the `Listener` of the session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._subscriptions: dict[str, Subscription] = {}
        self._full: set[Subscription] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._streams: set[EventStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, process_id: str) -> Subscription:
        """Hear of a process from now on, until its last event. Raises InvalidRequest if it is heard of already."""
        if process_id in self._subscriptions:
            text = f"session already registered for process {process_id}"
            raise InvalidRequest(text, {"kind": "processExists"})
        subscription = self._subscriptions[process_id] = Subscription(process_id, self)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Hear no more of a process."""
        if self._subscriptions.get(subscription.process_id) is subscription:
            del self._subscriptions[subscription.process_id]
        self._full.discard(subscription)
        self._judge_room()

    @property
    def process_ids(self) -> list[str]:
        """Of all processes that are heard of."""
        return list(self._subscriptions)

    def subscribe(self) -> EventStream:
        """All events from now on."""
        stream = EventStream(self._streams.discard)
        self._streams.add(stream)
        return stream

    def tell(self, events: Sequence[ClientEvent]) -> None:
        """Pass events on to the streams of all events."""
        for stream in self._streams:
            for event in events:
                stream.put(event)

    def create_task(self, coroutine: object) -> asyncio.Task[None]:
        """A task that `close` ends."""
        task: asyncio.Task[None] = asyncio.create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End what still goes on here; the session is over."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # What the session tells.

    def notified(self, notification: NotificationParams) -> None:
        if not isinstance(notification, (ProcessOutput, ProcessExited, ProcessClosed, ProcessGap)):
            return
        subscription = self._subscriptions.get(notification.process_id)
        if subscription is None:
            return  # nobody has a handle of it
        events = subscription.feed.notified(notification)
        if events:
            subscription.put(events)
        if subscription.feed.behind:
            subscription.catch_up()

    def cut(self, reason: str) -> None:
        for subscription in self._subscriptions.values():
            subscription.cut()
        self.tell([Disconnected(reason)])

    def resumed(self) -> None:
        self.tell([Reconnected()])
        for subscription in list(self._subscriptions.values()):
            subscription.resumed()

    def failed(self, reason: str) -> None:
        for subscription in list(self._subscriptions.values()):
            if subscription.starting and subscription.start is not None:
                fail(subscription.start.future, TransportDisconnected(reason))
            subscription.put([Failed(subscription.process_id, reason, "disconnected")])
        for stream in self._streams:
            stream.end()

    async def room(self) -> None:
        if self._full:
            await self._room.wait()

    def judge_room(self, subscription: Subscription) -> None:
        """The size of a buffer has changed."""
        if subscription.buffer.size >= BOUND and subscription.buffer.end is None:
            self._full.add(subscription)
        else:
            self._full.discard(subscription)
        self._judge_room()

    def _judge_room(self) -> None:
        if self._full:
            self._room.clear()
        else:
            self._room.set()
