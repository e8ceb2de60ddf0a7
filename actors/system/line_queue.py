"""Lines on their way to where writing may block: a thread takes what waits and writes it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.system.pool import Pool

Write = Callable[[bytes, int], int]
"""Runs in the thread: writes these lines, and that so many others were lost; returns how many are lost by now."""


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
        self._lost = 0
        self._writing = False

    def append(self, line: bytes) -> None:
        """Have a line written; any thread."""
        with self._lock:
            if self._waiting and len(self._waiting) + len(line) > self._limit:
                self._lost += 1
                return
            self._waiting += line
            if self._writing:
                return
            self._writing = True
        self._pool.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                data, self._waiting = bytes(self._waiting), bytearray()
                if not data:
                    self._writing = False
                    return
                lost, self._lost = self._lost, 0
            unwritten = self._write(data, lost)
            with self._lock:
                self._lost += unwritten
