"""The clock that actors read. None calls `time` itself, so that a test can put all under a virtual clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Clock = Callable[[], float]

_clock: Clock = time.monotonic


def now() -> float:
    """Seconds on a clock that never goes back; its zero means nothing, only differences do."""
    return _clock()


def replace(clock: Clock) -> Clock:
    """Make `now()` read `clock` from here on, for the whole process; returns the clock it read before.

    For simulations only. Whoever replaces it restores it: `replace(previous)`, or use `replaced`.
    """
    global _clock
    previous = _clock
    _clock = clock
    return previous


@contextmanager
def replaced(clock: Clock) -> Iterator[None]:
    """`now()` reads `clock` inside the block and what it read before after it."""
    previous = replace(clock)
    try:
        yield
    finally:
        replace(previous)
