"""The deadlines of one actor, on top of Thespian's wakeups, which cannot be cancelled."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import NamedTuple

from actors.system import clock

_COMPACT_ABOVE = 64
_RESOLUTION_S = 1e-6  # of a timedelta: a wakeup may be asked for that much early


Callback = Callable[[], object]


class Deadline(NamedTuple):
    """A moment, by `clock.now`, and what is to be called then. `serial` tells those of one key apart."""

    when: float
    serial: int
    callback: Callback


class Deadlines:
    """One heap of deadlines; a wakeup is asked for only when a deadline is earlier than every pending wakeup.

    `wakeup_after` is the actor's own `wakeupAfter`; the payload that it gets comes back to `due`.
    """

    __slots__ = ("_asked", "_heap", "_serial", "_wakeup_after", "_when")

    def __init__(self, wakeup_after: Callable[[timedelta, object], None]) -> None:
        self._wakeup_after = wakeup_after
        self._when: dict[Hashable, Deadline] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._asked: list[float] = []
        self._serial = 0

    def set(self, key: Hashable, seconds: float, callback: Callback) -> None:
        """`key` falls due in `seconds` from now, and `callback` is called then; an earlier deadline of the same key is
        forgotten."""
        when = clock.now() + max(seconds, 0.0)
        self._serial += 1
        self._when[key] = Deadline(when, self._serial, callback)
        heapq.heappush(self._heap, (when, self._serial, key))
        if len(self._heap) > _COMPACT_ABOVE + 2 * len(self._when):
            self._heap = [(each.when, each.serial, key) for key, each in self._when.items()]
            heapq.heapify(self._heap)
        self._ask()

    def cancel(self, key: Hashable) -> None:
        """`key` does not fall due; nothing happens if it was not going to."""
        self._when.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._when

    def due(self, payload: object) -> list[Callback]:
        """The callbacks that are due, earliest first, each once. Call it at every wakeup, with the wakeup's payload."""
        if payload in self._asked:
            self._asked.remove(payload)
        now = clock.now() + _RESOLUTION_S
        due = []
        while self._heap and (self._heap[0][0] <= now or self._stale(self._heap[0])):
            entry = heapq.heappop(self._heap)
            if not self._stale(entry):
                due.append(self._when.pop(entry[2]).callback)
        self._ask()
        return due

    def _stale(self, entry: tuple[float, int, Hashable]) -> bool:
        deadline = self._when.get(entry[2])
        return deadline is None or deadline.serial != entry[1]

    def _ask(self) -> None:
        while self._heap and self._stale(self._heap[0]):
            heapq.heappop(self._heap)
        if self._heap and (not self._asked or self._heap[0][0] < min(self._asked)):
            when = self._heap[0][0]
            self._asked.append(when)
            self._wakeup_after(timedelta(seconds=max(when - clock.now(), 0.0)), when)
