"""Who hears of which process: notifications of a session to the inboxes of its processes, without a break over cuts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from exec_server.client.calls import Call, fail
from exec_server.client.errors import DISCONNECTED, TransportDisconnected
from exec_server.client.events import ClientEvent, Disconnected, Event, Failed, Missed, Reconnected
from exec_server.client.feed import Feed
from exec_server.client.inbox import BOUND, HOLD_FROM, RELEASE_BELOW, Inbox
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
from protocol.wire_types import NotificationParams

READ_FIRST = 64 << 10
READ_MOST = 1 << 20
"""Bytes of output that are asked for at a time when something was missed: little at first, twice as much each time,
since an answer that a cut tears is lost as a whole, and a connection that breaks often must get on, too.
"""
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


class Entry:
    """One process that somebody has a handle of: its feed and inbox, and what it needs of the session."""

    def __init__(self, process_id: str, demultiplexer: Demultiplexer) -> None:
        self.process_id = process_id
        self.feed = Feed(process_id)
        self.inbox = Inbox(self._judge_size)
        self.start: Call[Any] | None = None
        """The request that starts it; None for a process that was there before."""
        self._demultiplexer = demultiplexer
        self._held = False
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._reading: asyncio.Task[None] | None = None

    @property
    def starting(self) -> bool:
        """Whether its start is not answered yet."""
        return self.start is not None and not self.start.future.done()

    def put(self, events: list[Event]) -> None:
        """New events, in their order. None is taken after the last."""
        if self.inbox.end is not None:
            return
        self.inbox.put(events)
        self._demultiplexer.tell(events)
        if self.inbox.end is not None:
            self._demultiplexer.remove(self)

    def catch_up(self) -> None:
        """Read what is missing, in a task that ends at the next cut, or when nothing is missing."""
        if self._reading is None or self._reading.done():
            self._reading = self._demultiplexer.create_task(self._read())

    def cut(self) -> None:
        """There is no connection: nobody holds the process, and what it prints is not told."""
        self._held = False
        if self._reading is not None:
            self._reading.cancel()
        if not self.starting or (self.start is not None and self.start.sent):
            self.feed.lose_connection()

    def resumed(self) -> None:
        """There is one again."""
        if self.inbox.size >= RELEASE_BELOW:
            self._hold(True)
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
            self._lost("the server does not know the process any more")
        except ExecServerError as error:
            self._lost(error.message)

    def _lost(self, reason: str) -> None:
        if self.starting and self.start is not None:
            text = "the connection was cut before the process was started; nothing runs"
            fail(self.start.future, TransportDisconnected(text))
        self.put([Failed(self.process_id, reason)])

    def _judge_size(self) -> None:
        size = self.inbox.size
        if size >= HOLD_FROM:
            self._roomy.clear()
            if not self._held:
                self._hold(True)
        elif not self._roomy.is_set():
            self._roomy.set()
        if self._held and size < RELEASE_BELOW:
            self._hold(False)
        self._demultiplexer.judge_room(self)

    def _hold(self, paused: bool) -> None:
        session = self._demultiplexer.session
        if session.connected and session.has("flow") and self.inbox.end is None:
            self._held = paused
            session.post(ProcessFlowParams(self.process_id, paused))


class Demultiplexer:
    """The processes of a session that are heard of here; the `Listener` of the session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._entries: dict[str, Entry] = {}
        self._full: set[Entry] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._streams: set[EventStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, process_id: str) -> Entry:
        """Hear of a process from now on, until its last event. Raises InvalidRequest if it is heard of already."""
        if process_id in self._entries:
            text = f"session already registered for process {process_id}"
            raise InvalidRequest(text, {"kind": "processExists"})
        entry = self._entries[process_id] = Entry(process_id, self)
        return entry

    def remove(self, entry: Entry) -> None:
        """Hear no more of a process."""
        if self._entries.get(entry.process_id) is entry:
            del self._entries[entry.process_id]
        self._full.discard(entry)
        self._judge_room()

    @property
    def process_ids(self) -> list[str]:
        """Of all processes that are heard of."""
        return list(self._entries)

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
        entry = self._entries.get(notification.process_id)
        if entry is None:
            return  # nobody has a handle of it
        events = entry.feed.notified(notification)
        if events:
            entry.put(events)
        if entry.feed.behind:
            entry.catch_up()

    def cut(self, reason: str) -> None:
        for entry in self._entries.values():
            entry.cut()
        self.tell([Disconnected(reason)])

    def resumed(self) -> None:
        self.tell([Reconnected()])
        for entry in list(self._entries.values()):
            entry.resumed()

    def failed(self, reason: str) -> None:
        for entry in list(self._entries.values()):
            if entry.starting and entry.start is not None:
                fail(entry.start.future, TransportDisconnected(reason))
            entry.put([Failed(entry.process_id, DISCONNECTED + reason)])
        for stream in self._streams:
            stream.end()

    async def room(self) -> None:
        if self._full:
            await self._room.wait()

    def judge_room(self, entry: Entry) -> None:
        """The size of an inbox has changed."""
        if entry.inbox.size >= BOUND and entry.inbox.end is None:
            self._full.add(entry)
        else:
            self._full.discard(entry)
        self._judge_room()

    def _judge_room(self) -> None:
        if self._full:
            self._room.clear()
        else:
            self._room.set()
