"""What all carriers share: the inbox, the events and their order. Each carrier adds its own way to read and
write."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from transport.interface import Drained, InputEnded, Kind, MessagesArrived, TransportClosed, TransportEvent

INBOX_MESSAGES: Final = 256
INBOX_BYTES: Final = 4 * 1024 * 1024
"""Reading pauses when this much waits in `take()`, and goes on at half of it; a single message may be larger."""

FLUSH_SECONDS: Final = 5.0
"""How long `close` tries to hand what is queued to the peer, as long as the peer takes some of it."""
STALL_SECONDS: Final = 1.0
"""How long `close` waits for a peer that takes nothing of it."""

Notify = Callable[[TransportEvent], None]
Defer = Callable[[Callable[[], None]], object]
"""Calls a callback once, at the end of this turn of the loop."""


class Pieces:
    """A message that is made piece by piece, of about `size` bytes."""

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces = pieces
        self.left = size
        """Bytes of it that are still to be made, as near as can be told."""

    def next(self) -> tuple[bytes, int]:
        """The next piece, an empty one at the end, and how many of the bytes that it was to have are made with it.
        Raises whatever its maker does."""
        piece = next(self._pieces, b"")
        made = min(len(piece), self.left) if piece else self.left
        self.left -= made
        return piece, made


class BufferedTransport:
    """Inbox and events of one connection. See `transport.interface.Transport` for what each method promises.

    A carrier appends to `_inbox`, adds to `_inbox_bytes` and calls `_arrived()`. While it is `_paused`, its
    `_read_on()` is called when `take` has made room.
    """

    subprotocol: str | None = None
    resumable: bool = True
    watches: str | None = None

    def __init__(self, kind: Kind, address: str, loop: asyncio.AbstractEventLoop, defer: Defer | None) -> None:
        self.kind = kind
        self.address = address
        self._loop = loop
        self._defer: Defer = loop.call_soon if defer is None else defer
        self._notify: Notify | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._announced = False
        self._paused = False
        self._taken = False
        """Something was taken since a carrier last set this to False."""
        self._read_on_due = False
        self._ended: InputEnded | None = None
        self._closed: TransportClosed | None = None
        self._mark: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Of closing, or of what a carrier has before that."""

    @property
    def peer(self) -> str:
        """See `Transport.peer`."""
        return f"exec-server {self.kind} {self.address}".rstrip()

    def open(self, notify: Notify) -> None:
        """Begin to deliver events; what came earlier is told at the end of this turn."""
        self._loop.call_soon(self._begin_events, notify)

    def take(self, limit: int) -> list[bytes]:
        """See `Transport.take`. Works after `TransportClosed` too, for what had arrived before."""
        inbox = self._inbox
        if len(inbox) <= limit:
            taken = list(inbox)
            inbox.clear()
            self._inbox_bytes = 0
            self._announced = False
        else:
            taken = [inbox.popleft() for _ in range(limit)]
            self._inbox_bytes -= sum(map(len, taken))
        self._taken = True
        if self._paused and not self._read_on_due and self._inbox_low():
            self._read_on_due = True
            self._loop.call_soon(self._read_on_now)
        return taken

    def passed_fds(self, message: bytes) -> tuple[int, ...]:
        """None: see `Transport.passed_fds`."""
        return ()

    def buffered(self) -> int:
        """See `Transport.buffered`."""
        raise NotImplementedError

    def call_when_below(self, mark: int) -> None:
        """See `Transport.call_when_below`. A later call replaces an earlier one that was not answered yet."""
        self._mark = mark
        self._loop.call_soon(self._check_drained)

    def _read_on(self) -> None:
        """Read on if there is room, and call `_arrived()`. May be called at any time."""
        raise NotImplementedError

    def _read_on_now(self) -> None:
        self._read_on_due = False
        self._read_on()

    def _inbox_low(self) -> bool:
        return len(self._inbox) <= INBOX_MESSAGES // 2 and self._inbox_bytes <= INBOX_BYTES // 2

    def _inbox_full(self) -> bool:
        return len(self._inbox) >= INBOX_MESSAGES or self._inbox_bytes >= INBOX_BYTES

    def _arrived(self) -> None:
        if self._inbox and not self._announced and self._notify is not None:
            self._announced = True
            self._emit(MessagesArrived())

    def _end_input(self, reason: str = "") -> None:
        if self._ended is None:
            self._ended = InputEnded(reason)
            self._emit(self._ended)

    def _check_drained(self) -> None:
        if self._mark is not None and self.buffered() <= self._mark:
            self._mark = None
            self._emit(Drained())

    def _delivered(self) -> int:
        """Bytes that the peer has taken so far, as near as can be told; it grows as long as the peer takes some."""
        raise NotImplementedError

    def _watch_flush(self, give_up: Callable[[], object], end: float | None = None) -> None:
        """Call `give_up` when the peer has taken nothing for STALL_SECONDS, or not all in FLUSH_SECONDS; until then
        `_timer` is the time of the next look."""
        delivered = self._delivered()
        end = self._loop.time() + FLUSH_SECONDS if end is None else end

        def look() -> None:
            if self._delivered() == delivered or self._loop.time() >= end:
                give_up()
            else:
                self._watch_flush(give_up, end)

        self._timer = self._loop.call_later(STALL_SECONDS, look)

    def _emit(self, event: TransportEvent) -> None:
        if self._notify is not None and self._closed is None:
            self._notify(event)

    def _emit_closed(self, reason: str) -> None:
        """Tell the end, once and behind everything else; no event follows it."""
        if self._closed is None:
            self._arrived()
            self._closed = TransportClosed(reason)
            if self._notify is not None:
                self._notify(self._closed)

    def _begin_events(self, notify: Notify) -> None:
        self._notify = notify
        if self._inbox:
            self._announced = True
            notify(MessagesArrived())
        if self._ended is not None:
            notify(self._ended)
        if self._closed is not None:
            notify(self._closed)
