"""Memory that nobody uses any more goes back to the system: garbage is collected, and what is free is given back.

Actors that have ended are garbage in cycles. Of what has survived two looks CPython looks for garbage only when a
quarter as much has come (gc module, `set_threshold`): after a burst, in an idle server, never. So a server collects
when it has nothing else to do; what is there from its start is frozen, so that this takes a few milliseconds.

glibc keeps what is freed in its heaps, of which it has several where there are threads, and gives back by itself only
what lies at their ends: after a burst a server would stay about as large as it ever was. malloc_trim(3) gives back the
rest. Other C libraries have none, or need none.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from typing import Final

from actors.system.pool import FILE_POOL

GROWN: Final = 8 << 20
"""By how many bytes the process must have grown for a trim to be worth it."""
AT_LEAST_S: Final = 10.0
"""Seconds between two trims."""
AGAIN_S: Final = 60.0
"""Seconds after which a process that is still larger than it was is trimmed again: what was in use may be free now."""

IDLE_CPU: Final = 0.05
"""The part of its time that a process may compute and still count as idle."""
BETWEEN_COLLECTIONS_S: Final = 5.0
"""Seconds between two collections, at least."""

_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


class Memory:
    """Looks at the size of this process now and then, and has it trimmed in a thread: that takes some milliseconds."""

    def __init__(self, trim: Callable[[], object] = lambda: FILE_POOL.submit(give_back)) -> None:
        self._trim = trim
        self._least = self._before = -1
        self._at = 0.0
        self._freed = False

    def look(self, size: int, now: float, freed: bool = False) -> None:
        """To be called about once a second, with the resident bytes, any monotonic clock in seconds, and whether much
        may have been freed since the last time."""
        self._freed = self._freed or freed
        if self._least < 0 or size < self._least:
            self._least = size
        if self._before < 0:
            self._before, self._at = size, now
        if now - self._at < AT_LEAST_S:
            return
        grown = size - self._before > GROWN
        again = self._freed or now - self._at >= AGAIN_S
        if grown or (again and size - self._least > GROWN):
            self._at, self._before, self._freed = now, size, False
            self._trim()
        elif size < self._before:
            self._before = size


class IdleCollections:
    """Collects garbage when this process is idle and has made objects since the last time."""

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        young_collections: Callable[[], int] = lambda: gc.get_stats()[0]["collections"],
    ) -> None:
        """`young_collections` says how often the youngest objects have been looked at: it rises as objects are made."""
        self._collect = collect
        self._young_collections = young_collections
        self._seen = young_collections()
        self._cpu = self._now = self._at = 0.0

    def look(self, cpu: float, now: float) -> bool:
        """Whether it has collected. To be called about once a second, with the CPU seconds of this process and any
        monotonic clock in seconds."""
        idle = cpu - self._cpu < IDLE_CPU * (now - self._now)
        self._cpu, self._now = cpu, now
        if not idle or now - self._at < BETWEEN_COLLECTIONS_S or self._young_collections() == self._seen:
            return False
        self._at = now
        self._collect()
        self._seen = self._young_collections()
        return True


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Give what is free back to the system. Takes milliseconds; the GIL is released meanwhile."""
    if _trim is not None:
        _trim(0)
