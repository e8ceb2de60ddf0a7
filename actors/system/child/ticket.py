"""A spawn that goes on in a thread, to be waited for by descriptor."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Final

from actors.system.child.child import Child
from actors.system.pool import START_POOL
from protocol.errors import ExecServerError, SpawnError

log = logging.getLogger(__name__)

_DISPOSAL_WAIT_MS: Final = 5000


class SpawnTicket:
    """A spawn under way in a thread. `fileno` becomes readable when it is over; unregister it, then call
    `result`.
    """

    __slots__ = ("_abandoned", "_child", "_error", "_eventfd", "_lane", "_lock", "_over")

    def __init__(self, lane: str | None = None) -> None:
        """`lane`: whose jobs the end of an abandoned child may wait for. Raises OSError where no descriptor is left."""
        self._lane = lane
        self._lock = threading.Lock()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = False
        self._abandoned = False
        self._child: Child | None = None
        self._error: ExecServerError | None = None

    def fileno(self) -> int:
        """The eventfd; -1 once the ticket is used up."""
        return self._eventfd

    def result(self) -> Child:
        """The child, which is the caller's from now on; closes the eventfd. Raises what the spawn did where there is
        none, and RuntimeError before the spawn is over, or on a ticket that is used up.
        """
        with self._lock:
            if not self._over or self._eventfd < 0:
                raise RuntimeError("the spawn is not over, or its result has been taken")
            self._close_eventfd()
            child, self._child = self._child, None
        if child is None:
            raise self._error or RuntimeError("a spawn without a result")
        return child

    def abandon(self) -> None:
        """Nobody wants the child any more: whatever comes of it is killed, reaped and closed. Does nothing on
        a ticket that is used up.
        """
        with self._lock:
            self._abandoned = True
            if self._eventfd < 0:
                return
            self._close_eventfd()
            child, self._child = self._child, None
        if child is not None:
            START_POOL.submit(lambda: dispose(child), self._lane)

    def run(self, spawn: Callable[[], Child]) -> bool:
        """In a thread: spawn, unless the ticket was abandoned; whether there is a child. An error is the result."""
        if self._abandoned:
            return False
        child: Child | None = None
        try:
            child = spawn()
        except ExecServerError as error:
            self._error = error
        except Exception as error:
            log.exception("spawn failed in an unexpected way")
            self._error = SpawnError("spawnFailed", f"{type(error).__name__}: {error}")
        self._hand_over(child)
        return child is not None

    def _hand_over(self, child: Child | None) -> None:
        with self._lock:
            self._over = True
            if not self._abandoned:
                self._child = child
                os.eventfd_write(self._eventfd, 1)
                return
        if child is not None:
            dispose(child)

    def _close_eventfd(self) -> None:
        os.close(self._eventfd)
        self._eventfd = -1


def dispose(child: Child) -> None:
    """In a thread: end a child that nobody waits for. Blocks for up to 5 s where it does not die."""
    child.kill_tree()
    ending = select.poll()
    ending.register(child.pidfd, select.POLLIN)
    if ending.poll(_DISPOSAL_WAIT_MS):
        child.reap()
    child.release()
