"""A Transport without loop, socket or time of its own, for bridges in a Simulation.

The client's end is in the same object: `client_sends`, `client_reads`, `cut`, `end_input`, `go_silent`. Whatever the
transport tells its bridge is put in the bridge's mailbox and handled when the seed of the simulation says so.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

from tests.support.simulation import Simulation
from transport.interface import Drained, InputEnded, MessagesArrived, ProbeAnswered, TransportClosed, TransportEvent

FLUSH_S = 5.0


def nothing(message: bytes) -> None:
    """What a client does that does not look at what it gets."""


class FakeTransport:
    """One connection. `on_message` sees each message when the server hands it over, before the client reads it.

    With `reading` the client takes everything at once; without it, what is sent stays in `buffered()` until
    `client_reads`. `alive` answers probes; without it they stay open until `wake_up`.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        resumable: bool = True,
        subprotocol: str | None = None,
        on_message: Callable[[bytes], None] = nothing,
    ) -> None:
        self.kind = "memory"
        self.address = "fake"
        self.peer = "exec-server memory fake"
        self.subprotocol = subprotocol
        self.resumable = resumable
        self.watches: str | None = None
        self.reading = True
        self.alive = True
        self.silent_since = math.inf
        self.woke_at = -math.inf
        self.received: list[bytes] = []
        self.close_code: int | None = None
        self.closed_at = math.inf
        """When the connection ended for the client or began to end for the server, by the virtual clock."""
        self.ended_at = math.inf
        """When the bridge was told that it is over."""
        self.flush_deadline = math.inf
        self._simulation = simulation
        self._on_message = on_message
        self._notify: Callable[[TransportEvent], None] | None = None
        self._inbox: deque[bytes] = deque()
        self._announced = False
        self._outgoing: deque[bytes | tuple[Iterator[bytes], int]] = deque()
        self._bytes = 0
        self._mark: int | None = None
        self._probed = False
        self._input_ended = False
        self._ended = False
        self.input_ended_at = math.inf

    # -- the server's end: transport.interface.Transport --------------------------------------------------------

    def open(self, notify: Callable[[TransportEvent], None]) -> None:
        self._notify = notify

    def take(self, limit: int) -> list[bytes]:
        taken = [self._inbox.popleft() for _ in range(min(limit, len(self._inbox)))]
        if not self._inbox:
            self._announced = False
        return taken

    def send(self, message: bytes) -> None:
        if not self.closed:
            self._on_message(message)
            self._outgoing.append(message)
            self._bytes += len(message)
            self._move()

    def send_pieces(self, pieces: Iterator[bytes], size: int = 0) -> None:
        if not self.closed:
            self._outgoing.append((pieces, size))
            self._bytes += size
            self._move()

    def passed_fds(self, message: bytes) -> tuple[int, ...]:
        return ()

    def buffered(self) -> int:
        return self._bytes

    def call_when_below(self, mark: int) -> None:
        self._mark = mark
        self._check_drained()

    def probe(self) -> None:
        if self.alive and not self.closed:
            self._emit(ProbeAnswered())
        else:
            self._probed = True

    def close(self, code: int = 1000, reason: str = "") -> None:
        if not self.closed:
            self.close_code = code
            self.closed_at = self._simulation.now
            self.flush_deadline = self._simulation.now + FLUSH_S
            self._move()

    def abort(self, reason: str) -> None:
        self._end(reason)

    # -- the client's end ---------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the server has begun to close it, or the client has cut it."""
        return self.closed_at is not math.inf

    @property
    def ended(self) -> bool:
        """Whether the bridge has been told that it is over."""
        return self._ended

    @property
    def input_ended(self) -> bool:
        """Whether the client has said that it sends nothing more."""
        return self._input_ended

    @property
    def untaken(self) -> int:
        """Messages of the client that the bridge has not taken."""
        return len(self._inbox)

    def client_sends(self, message: bytes) -> None:
        if self.closed or self._input_ended:
            return
        self._inbox.append(message)
        if not self._announced:
            self._announced = True
            self._emit(MessagesArrived())

    def client_reads(self, limit: int | None = None) -> None:
        """Take up to `limit` messages of what the server has sent; all without a limit."""
        while self._outgoing and (limit is None or limit > 0):
            message = self._outgoing.popleft()
            if isinstance(message, bytes):
                self._bytes -= len(message)
            else:
                pieces, size = message
                message = b"".join(pieces)
                self._bytes -= size
                self._on_message(message)
            self.received.append(message)
            limit = None if limit is None else limit - 1
        self._check_drained()
        if self.close_code is not None and not self._outgoing:
            self._end("closed")

    def cut(self) -> None:
        """The connection is gone; what the client sent before can still be taken, what was sent to it is lost."""
        self._end("cut")

    def end_input(self) -> None:
        """The client sends nothing more, but still reads."""
        if not self.closed and not self._input_ended:
            self._input_ended = True
            self.input_ended_at = self._simulation.now
            self._emit(InputEnded())

    def go_silent(self) -> None:
        """Answer no probe from now on, and read nothing."""
        if self.alive:
            self.alive = self.reading = False
            self.silent_since = self._simulation.now

    def wake_up(self) -> None:
        """Read again, and answer what was asked meanwhile."""
        if not self.alive:
            self.alive, self.silent_since, self.woke_at = True, math.inf, self._simulation.now
            if self._probed and not self.closed:
                self._probed = False
                self._emit(ProbeAnswered())
        self.reading = True
        self.client_reads()

    def flush_timed_out(self) -> None:
        """To be called at `flush_deadline`: the server has waited long enough for the client to read."""
        self._end("not read in time")

    # -- between them -------------------------------------------------------------------------------------------

    def _move(self) -> None:
        if self.reading:
            self.client_reads()

    def _check_drained(self) -> None:
        if self._mark is not None and self._bytes <= self._mark:
            self._mark = None
            self._emit(Drained())

    def _end(self, reason: str) -> None:
        if not self._ended:
            self.closed_at = min(self.closed_at, self._simulation.now)
            self.ended_at = self._simulation.now
            self.flush_deadline = math.inf
            self._outgoing.clear()
            self._bytes = 0
            self._emit(TransportClosed(reason))
            self._ended = True

    def _emit(self, event: TransportEvent) -> None:
        if self._notify is not None and not self._ended:
            self._notify(event)
