"""Lines on their way to where writing may block: a thread takes what waits and writes it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from actors.system.pool import Pool

Write = Callable[[bytes, int], int]
"""Runs in the thread: writes these lines, and that so many others were lost; returns how many are lost by now, all or
none of its own among them."""
Written = Callable[[bool], object]
"""Called in the thread, or at once where there is no room: whether the line is where it belongs."""

WHOLE: Final = 1.0
"""The share of the room that a line may take which nobody can cause at will."""


class LineQueue:
    """`append` never blocks. Above `limit` bytes that wait, further lines are lost and counted; a single longer one may
    wait, too. What `write` could not write is told as lost with the next lines, and not tried again."""

    def __init__(self, pool: Pool, limit: int, write: Write) -> None:
        """Raises RuntimeError if `pool`, of one thread, cannot start it."""
        pool.start()
        self._pool = pool
        self._limit = limit
        self._write = write
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._awaited: list[Written] = []
        self._lost = 0
        self._writing = False

    def append(self, line: bytes, share: float = WHOLE) -> None:
        """Have a line written; any thread. It is lost where it would be beyond `share` of the limit: the rest is for
        lines that matter more."""
        with self._lock:
            fits = self._take(line, share)
            self._lost += not fits
        if fits:
            self._begin()

    def append_awaited(self, line: bytes, written: Written, share: float = WHOLE) -> None:
        """Have a line written, and say when it is; any thread. One that is not written does not count as lost: whoever
        waits knows."""
        with self._lock:
            fits = self._take(line, share)
            if fits:
                self._awaited.append(written)
        if fits:
            self._begin()
        else:
            written(False)

    def _take(self, line: bytes, share: float) -> bool:
        if self._waiting and len(self._waiting) + len(line) > self._limit * share:
            return False
        self._waiting += line
        return True

    def _begin(self) -> None:
        with self._lock:
            if self._writing:
                return
            self._writing = True
        self._pool.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                data, self._waiting = bytes(self._waiting), bytearray()
                awaited, self._awaited = self._awaited, []
                if not data:
                    self._writing = False
                    return
                lost, self._lost = self._lost, 0
            unwritten = self._write(data, lost)
            failed = unwritten > 0
            with self._lock:
                self._lost += unwritten - len(awaited) if failed else 0
            for written in awaited:
                written(not failed)
