"""Two ends of a connection inside one process, for clients that embed their server. Same bounds as a socket has.

The end given to a bridge is a `MemoryTransport`; the other, a `MemoryPeer`, is the client. Between them is a
pipe that holds `capacity` bytes, as the buffers of a socket would: what the peer does not receive stays with
the transport, which counts it in `buffered()`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final

from transport.base import BufferedTransport, Defer, Pieces
from transport.interface import ProbeAnswered

CAPACITY: Final = 256 * 1024


class PeerClosedError(ConnectionError):
    """The transport has closed, and what it sent before has been received. `code` as in a WebSocket Close."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with code {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


def memory_pair(
    *,
    address: str = "",
    resumable: bool = True,
    subprotocol: str | None = None,
    capacity: int = CAPACITY,
    defer: Defer | None = None,
) -> tuple[MemoryTransport, MemoryPeer]:
    """A transport for a bridge and the client's end of it, in the running loop."""
    transport = MemoryTransport(address, asyncio.get_running_loop(), capacity, defer)
    transport.resumable = resumable
    transport.subprotocol = subprotocol
    return transport, transport.far_end


class _Accompanied(bytes):
    """A message with descriptors beside it."""

    fds: tuple[int, ...]


class MemoryTransport(BufferedTransport):
    """The server's end. See `transport.interface.Transport`."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop, capacity: int, defer: Defer | None) -> None:
        super().__init__("memory", address, loop, defer)
        self.far_end = MemoryPeer(self, loop)
        self._capacity = capacity
        self._waiting: deque[bytes | Pieces] = deque()
        self._waiting_bytes = 0
        self._handed = 0  # bytes put into the pipe so far
        self._flush_due = False
        self._over = False  # nothing is accepted any more
        self._close: tuple[int, str] | None = None

    def send(self, message: bytes) -> None:
        if not self._over:
            self._waiting.append(message)
            self._waiting_bytes += len(message)
            self._flush_later()

    def send_pieces(self, pieces: Iterator[bytes], size: int = 0) -> None:
        if not self._over:
            self._waiting.append(Pieces(pieces, size))
            self._waiting_bytes += size
            self._flush_later()

    def passed_fds(self, message: bytes) -> tuple[int, ...]:
        return message.fds if isinstance(message, _Accompanied) else ()

    def buffered(self) -> int:
        return self._waiting_bytes

    def _delivered(self) -> int:
        return self._handed - self.far_end.pipe_bytes

    def probe(self) -> None:
        """A peer in the same process is alive if it is reading, or has nothing to read."""
        if not self._over and self.far_end.is_responsive():
            self._loop.call_soon(self._emit, ProbeAnswered())

    def close(self, code: int = 1000, reason: str = "") -> None:
        if not self._over:
            self._over = True
            self._close = code, reason
            self._watch_flush(partial(self._end, code, reason))
            self._flush_later()

    def abort(self, reason: str) -> None:
        self._over = True
        self._loop.call_soon(self._end, 1006, reason)

    def _flush_later(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._defer(self._flush)

    def _flush(self) -> None:
        """Move what fits into the pipe."""
        self._flush_due = False
        waiting, far = self._waiting, self.far_end
        while waiting and far.pipe_bytes < self._capacity:
            first = waiting[0]
            if isinstance(first, bytes):
                waiting.popleft()
                self._waiting_bytes -= len(first)
                self._handed += len(first)
                far.put(first, last=True)
                continue
            try:
                piece, made = first.next()
            except Exception as error:
                self._end(1006, f"a message could not be made to its end: {error!r}")
                return
            self._waiting_bytes -= made
            if not piece:
                waiting.popleft()
                far.put(b"", last=True)
            else:
                self._handed += len(piece)
                far.put(piece, last=False)
        self._check_drained()
        if self._close is not None and not waiting:
            self._end(*self._close)

    def _end(self, code: int, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self.far_end.put_end(code, reason)
        self._emit_closed(reason or f"closed with code {code}")

    def _read_on(self) -> None:
        self.take_over()

    # Called by the far end.

    def take_over(self) -> None:
        """Take from the peer's outbox what the inbox has room for."""
        outbox = self.far_end.outbox
        while outbox and not self._inbox_full() and self._closed is None:
            item = outbox.popleft()
            if isinstance(item, bytes):
                self._inbox.append(item)
                self._inbox_bytes += len(item)
                continue
            self._arrived()
            if item is None:
                self._end_input()
            else:
                code, reason = item
                self._end(code, f"peer closed with code {code} {reason}".rstrip())
        self._paused = bool(outbox)
        self._arrived()
        self.far_end.outbox_moved()

    def cut(self, reason: str) -> None:
        self._end(1006, reason)


class MemoryPeer:
    """The client's end. Sending never waits: `await drain()` does, while the other side has no room."""

    def __init__(self, transport: MemoryTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pipe: deque[tuple[bytes, bool]] = deque()
        self.pipe_bytes = 0
        """Bytes sent to us and not yet received, the pieces of a message that is being received left out."""
        self._partial: list[bytes] = []
        self._end: PeerClosedError | None = None
        self._readable = asyncio.Event()
        self._receiving = 0
        self.outbox: deque[bytes | tuple[int, str] | None] = deque()
        """What the transport has had no room for yet: messages, the end of input (None), a Close."""
        self._moved = asyncio.Event()

    def send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one message, with descriptors of this process beside it. Raises PeerClosedError when the connection is
        over.
        """
        self._check()
        if fds:
            message = _Accompanied(message)
            message.fds = fds
        self._queue(message)

    async def drain(self) -> None:
        """Wait until the transport has taken everything. Raises PeerClosedError if it closes before."""
        while self.outbox:
            self._check()
            self._moved.clear()
            await self._moved.wait()

    async def receive(self) -> bytes:
        """The next message. Raises PeerClosedError when the connection is over and nothing is left."""
        self._receiving += 1
        try:
            while True:
                while self._pipe:
                    payload, last = self._pipe.popleft()
                    self._partial.append(payload)
                    self.pipe_bytes -= len(payload)
                    self._transport._flush_later()
                    if last:
                        message = b"".join(self._partial)
                        self._partial.clear()
                        return message
                self._check()
                self._readable.clear()
                await self._readable.wait()
        finally:
            self._receiving -= 1

    def end_input(self) -> None:
        """Say, behind what was sent before, that nothing more will come; receiving goes on."""
        self._queue(None)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye, behind what was sent before."""
        self._queue((code, reason))

    def cut(self, reason: str = "connection lost") -> None:
        """Lose the connection at once, as a cut cable that is noticed would."""
        self._loop.call_soon(self._transport.cut, reason)

    def is_responsive(self) -> bool:
        """Whether a Ping would be answered: somebody receives, or nothing waits before it."""
        return self._receiving > 0 or not self._pipe

    # Called by the transport.

    def put(self, payload: bytes, last: bool) -> None:
        self._pipe.append((payload, last))
        self.pipe_bytes += len(payload)
        self._readable.set()

    def put_end(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = PeerClosedError(code, reason)
            self._readable.set()
            self._moved.set()

    def outbox_moved(self) -> None:
        self._moved.set()

    def _queue(self, item: bytes | tuple[int, str] | None) -> None:
        self.outbox.append(item)
        self._loop.call_soon(self._transport.take_over)

    def _check(self) -> None:
        if self._end is not None:
            raise self._end
