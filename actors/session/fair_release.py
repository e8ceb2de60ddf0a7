"""Whose output a session reads while its client is slow; pure."""

from __future__ import annotations

from collections import deque

RELEASED_AT_ONCE = 4
"""How many processes are told to read again before the next ones: each may add one chunk to a full queue."""


class FairRelease:
    """Which processes of a session are held, and in what turn they are released.

    Released processes go to the end of the line, so that a busy one cannot keep the others waiting.
    """

    __slots__ = ("_awaited", "_free", "_line", "held")

    def __init__(self) -> None:
        self.held = False
        self._line: deque[str] = deque()
        self._free: dict[str, None] = {}
        self._awaited: set[str] = set()

    def add(self, process_id: str) -> None:
        """A new process: it begins held if the session is."""
        if self.held:
            self._line.append(process_id)
        else:
            self._free[process_id] = None

    def remove(self, process_id: str) -> None:
        """The process needs no turn any more, nor does anybody wait for its answer."""
        self._awaited.discard(process_id)
        if process_id in self._free:
            del self._free[process_id]
        elif process_id in self._line:
            self._line.remove(process_id)

    def hold(self) -> list[str]:
        """Hold the session; the processes that must be told."""
        self.held = True
        told = list(self._free)
        self._line.extend(told)
        self._free.clear()
        return told

    def release(self) -> None:
        """The session is no longer held; `next_batch` says who may go on."""
        self.held = False

    def answered(self, process_id: str) -> None:
        """A released process reads again and has sent on what was there."""
        self._awaited.discard(process_id)

    def next_batch(self) -> list[str]:
        """Who is to be told to go on now; empty while answers are out, or the session is held."""
        if self.held or self._awaited or not self._line:
            return []
        batch = [self._line.popleft() for _ in range(min(RELEASED_AT_ONCE, len(self._line)))]
        self._free.update(dict.fromkeys(batch))
        self._awaited.update(batch)
        return batch
