"""What a transport is to its BridgeActor: whole messages in, whole messages out, no method names.

A transport lives on the event loop. It keeps what has arrived until the bridge takes it, and tells the bridge
by calling `notify` with one of the events below, never from within a call of the bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import msgspec


class MessagesArrived(msgspec.Struct, frozen=True, gc=False):
    """Messages wait in `take()`. Sent once; again only after a `take()` that left none behind.

    A `take(limit)` that returns `limit` messages may have left some: take again, without an event.
    """


class Drained(msgspec.Struct, frozen=True, gc=False):
    """`buffered()` has fallen to the mark that `call_when_below` named."""


class InputEnded(msgspec.Struct, frozen=True, gc=False):
    """Nothing more will be read, but the peer may still read (end of input on stdio). Messages may still
    wait.

    `reason` is empty at an ordinary end, else it says what was wrong with the input (a line too long, not
    UTF-8).
    """

    reason: str = ""


class TransportClosed(msgspec.Struct, frozen=True, gc=False):
    """The connection is gone, for whatever reason. The last event of a transport; nothing can be sent any
    more.

    `take()` still gives what had arrived before.
    """

    reason: str


class ProbeAnswered(msgspec.Struct, frozen=True, gc=False):
    """The peer has answered the probe, or any byte came in since it was sent."""


Kind = Literal["websocket", "stdio", "memory"]

TransportEvent = MessagesArrived | Drained | InputEnded | TransportClosed | ProbeAnswered


class Transport(Protocol):
    """One connection. All methods are called on the loop, and none of them blocks."""

    kind: Kind
    address: str
    """Who is at the other end, `127.0.0.1:4711`; empty where there is only one."""
    subprotocol: str | None
    """The subprotocol that was chosen, if any, which decides the encoding: on a WebSocket the client chooses it, on
    stdio whoever starts the server."""
    watches: str | None
    """The `observeId` that its client may watch, and nothing else; None: it may do everything."""
    resumable: bool
    """False where a cut connection cannot come back (stdio): its session ends with it."""

    @property
    def peer(self) -> str:
        """Both, for error texts and logs: `exec-server websocket 127.0.0.1:4711`, `exec-server stdio`."""

    def open(self, notify: Callable[[TransportEvent], None]) -> None:
        """Begin to deliver events. Called once, by whoever made the bridge."""

    def take(self, limit: int) -> list[bytes]:
        """Up to `limit` messages that have arrived, oldest first. Reading from the peer goes on as they are
        taken."""

    def send(self, message: bytes) -> None:
        """Queue one whole message. It is written at the end of this turn of the loop, with all others of the
        turn."""

    def send_pieces(self, pieces: Iterator[bytes], size: int = 0) -> None:
        """Queue one message that is made piece by piece as the peer takes it; what is sent later waits behind it.

        `size` is about how many bytes it will have, which count as buffered until they are made.
        """

    def passed_fds(self, message: bytes) -> tuple[int, ...]:
        """The descriptors that came beside a message that was taken, as with SCM_RIGHTS (unix(7)). Only a client in
        this process has a way to send some."""

    def buffered(self) -> int:
        """Bytes accepted by `send` and `send_pieces` and not yet handed to the kernel."""

    def call_when_below(self, mark: int) -> None:
        """Send `Drained` once, when `buffered()` is at or below `mark` bytes (at once, by an event, if it is
        now)."""

    def probe(self) -> None:
        """Ask the peer for a sign of life; `ProbeAnswered` follows if it gives one."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Flush what is queued (5 s at most, 1 s if the peer takes nothing), say goodbye in the transport's own way,
        close. `TransportClosed` follows."""

    def abort(self, reason: str) -> None:
        """Close at once without flushing. `TransportClosed` follows."""
