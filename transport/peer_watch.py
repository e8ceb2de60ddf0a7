"""Watch over a peer: pings while it is silent, and looks for its end while nothing is read from it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from time import monotonic
from typing import Final

from transport.liveness import Liveness, read_tcp_info

LOOK_SECONDS: Final = 1.0
"""Between two looks for a hang-up while reading is paused."""


class PeerWatch:
    """Judges a connection by what was heard of it (transport.liveness).

    While reading is paused, the loop does not look at the socket, so its end would go unnoticed. Every second, a
    connection from which nobody took anything in the meantime is polled for a hang-up (poll(2) POLLRDHUP, which does
    not mind unread data).
    """

    __slots__ = (
        "_interval",
        "_liveness",
        "_loop",
        "_on_gone",
        "_on_hang_up",
        "_ping",
        "_socket",
        "_timer",
        "_took",
        "paused",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval: float,
        took: Callable[[], bool],
        ping: Callable[[], None],
        on_gone: Callable[[str], None],
        on_hang_up: Callable[[], None],
    ) -> None:
        """`interval`: seconds of silence before a `ping`. `took`: whether anybody took something since that was asked
        last. `on_gone` is told why the peer counts as gone."""
        self._loop = loop
        self._interval = interval
        self._took = took
        self._ping = ping
        self._on_gone = on_gone
        self._on_hang_up = on_hang_up
        self._socket: socket.socket | None = None
        self._liveness = Liveness(0.0, interval)
        self._timer: asyncio.TimerHandle | None = None
        self.paused = False

    def start(self, sock: socket.socket) -> None:
        """From now on."""
        self._socket = sock
        self._liveness = Liveness(monotonic(), self._interval)
        self._schedule(self._interval)

    def heard(self) -> None:
        """Bytes have come."""
        self._liveness.heard_at = monotonic()

    def pause(self) -> None:
        """Nothing is read for now."""
        self.paused = True
        self._liveness.pause(monotonic())
        if self._socket is not None:
            self._schedule(LOOK_SECONDS)

    def resume(self) -> None:
        """What comes is read again."""
        self.paused = False
        self._liveness.resume(monotonic())

    def stop(self) -> None:
        """No more looks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hung_up(self) -> bool:
        """Whether the peer has closed or reset the connection, unread data or not; `on_hang_up` is called then."""
        if self._socket is None or not _hung_up(self._socket):
            return False
        self._on_hang_up()
        return True

    def _schedule(self, delay: float) -> None:
        self.stop()
        self._timer = self._loop.call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        assert self._socket is not None
        if not self._took() and self.paused and self.hung_up():
            return
        now = monotonic()
        verdict = self._liveness.judge(now, read_tcp_info(self._socket))
        if verdict.gone is not None:
            self._on_gone(verdict.gone)
            return
        if verdict.ping:
            self._ping()
        delay = verdict.next_look - now
        self._schedule(min(delay, LOOK_SECONDS) if self.paused else delay)


def _hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
