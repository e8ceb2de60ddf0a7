"""When a child that prints many small pieces is left alone for a moment, so that pieces come together; pure.

It halves the cost of a flood of lines and leaves an echo as it was: only a run of small reads close together counts,
and a write to the child ends it.
"""

from __future__ import annotations

from actors.system import clock

SMALL_READ = 8192
READS_IN_A_ROW = 8
CLOSE_TOGETHER_S = 0.002


class ReadCoalescer:
    """After `READS_IN_A_ROW` reads under `SMALL_READ` bytes with less than 2 ms between them: a rest of 1 ms."""

    __slots__ = ("_count", "_last", "resting")

    rest_s = 0.001

    def __init__(self) -> None:
        self._count = 0
        self._last = 0.0
        self.resting = False

    def read(self, size: int) -> bool:
        """A read brought `size` bytes; True if the watch is to rest now, until `end`."""
        now = clock.now()
        if size >= SMALL_READ or now - self._last >= CLOSE_TOGETHER_S:
            self._count = 0
        else:
            self._count += 1
        self._last = now
        if self._count < READS_IN_A_ROW:
            return False
        self._count = 0
        self.resting = True
        return True

    def end(self) -> None:
        """The rest is over. The next reads may begin another at once."""
        if self.resting:
            self.resting = False
            self._count = READS_IN_A_ROW - 1

    def on_input(self) -> None:
        """The child has been written to: whoever wrote waits for the echo."""
        self.resting = False
        self._count = 0
