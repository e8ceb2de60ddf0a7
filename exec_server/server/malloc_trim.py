"""Memory that was freed goes back to the system.

glibc keeps what is freed in its heaps, of which it has several where there are threads, and gives back by itself only
what lies at their ends: after a burst a server would stay about as large as it ever was. malloc_trim(3) gives back the
rest. Other C libraries have none, or need none.
"""

from __future__ import annotations

import ctypes
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

_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


class Memory:
    """Looks at the size of this process now and then, and has it trimmed in a thread: that takes some milliseconds."""

    def __init__(self, trim: Callable[[], object] = lambda: FILE_POOL.submit(give_back)) -> None:
        self._trim = trim
        self._least = self._before = -1
        self._at = 0.0

    def look(self, size: int, now: float) -> None:
        """To be called about once a second, with the resident bytes and any monotonic clock in seconds."""
        if self._least < 0 or size < self._least:
            self._least = size
        if self._before < 0:
            self._before, self._at = size, now
        if now - self._at < AT_LEAST_S:
            return
        grown = size - self._before > GROWN
        if grown or (now - self._at >= AGAIN_S and size - self._least > GROWN):
            self._at, self._before = now, size
            self._trim()
        elif size < self._before:
            self._before = size


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Give what is free back to the system. Takes milliseconds; the GIL is released meanwhile."""
    if _trim is not None:
        _trim(0)
