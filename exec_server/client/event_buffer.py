"""Events of one process that wait to be taken: one queue for each stream, with one bound for all of them.

Somebody who takes stdout alone, and somebody who takes everything in order, take from the same buffer; each event is
taken once. A gap belongs to every stream, because nobody can tell which it was in; who reads several in order sees it
once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Literal

from exec_server.client.events import Closed, Event, Exited, Failed, Gap, Output

HOLD_FROM = 4 << 20
"""Bytes that wait here above which the server is asked to hold the process."""
RELEASE_BELOW = 1 << 20
"""Bytes at which it is asked to go on."""
BOUND = 16 << 20
"""Bytes from which the connection is not read any more: where the server cannot hold a process, or does not."""
EVENT_COST = 256
"""Bytes that a piece of output counts beside its own."""

Queue = Literal["stdout", "stderr", "pty", "state"]
STREAMS: tuple[Queue, ...] = ("stdout", "stderr", "pty")
ALL: tuple[Queue, ...] = (*STREAMS, "state")


class EventBuffer:
    """The events of one process that wait to be taken. `changed_size` is called when `size` has grown or shrunk,
    `wanted` when somebody begins to wait for an event.
    """

    def __init__(
        self, changed_size: Callable[[], None] = lambda: None, wanted: Callable[[], None] = lambda: None
    ) -> None:
        self.size = 0
        """Bytes that wait."""
        self.end: Closed | Failed | None = None
        """The last event, once it has come; nothing is put after it."""
        self.exit: Exited | None = None
        self._changed_size = changed_size
        self._wanted = wanted
        self._count = 0
        self._queues: dict[Queue, deque[tuple[int, Event]]] = {name: deque() for name in ALL}
        self._waiters: set[asyncio.Future[None]] = set()

    def put(self, events: list[Event]) -> None:
        """Append events and wake whoever waits for one."""
        if not events or self.end is not None:
            return
        for event in events:
            self._count += 1
            for name in _queues_of(event):
                self._queues[name].append((self._count, event))
            self.size += _cost(event)
            if isinstance(event, Exited):
                self.exit = event
            elif isinstance(event, (Closed, Failed)):
                self.end = event
                break
        self._wake()
        self._changed_size()

    def take(self, names: Collection[Queue]) -> Event | None:
        """The oldest event that waits in these queues; None if there is none now."""
        heads = [queue[0] for name in names if (queue := self._queues[name])]
        if not heads:
            return None
        number, event = min(heads, key=_number)
        for name in names:
            queue = self._queues[name]
            if queue and queue[0][0] == number:
                queue.popleft()
        self.size -= _cost(event)
        self._changed_size()
        return event

    async def get(self, names: Collection[Queue]) -> Event | None:
        """The oldest event in these queues, waited for; None once the last event has come and none is left there."""
        while (event := self.take(names)) is None and self.end is None:
            await self.change()
        return event

    async def change(self) -> None:
        """Wait until something is put."""
        self._wanted()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _number(item: tuple[int, Event]) -> int:
    return item[0]


def _queues_of(event: Event) -> tuple[Queue, ...]:
    if isinstance(event, Output):
        return (event.stream,)
    return ALL if isinstance(event, Gap) else ("state",)


def _cost(event: Event) -> int:
    return EVENT_COST + len(event.data) if isinstance(event, Output) else 0
