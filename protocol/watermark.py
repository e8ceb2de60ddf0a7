"""Two marks of what waits somewhere: above the high one its maker is stopped, at the low one it goes on. Pure."""

from __future__ import annotations

from collections.abc import Callable


class Watermark:
    """Calls `on_high` when the size has grown above `high`, and `on_low` when it has fallen to `low` after that.

    Both are called from within `update`. Two marks, because with one alone each unit taken would start the maker again.
    """

    __slots__ = ("_on_high", "_on_low", "above", "high", "low")

    def __init__(self, high: int, low: int, on_high: Callable[[], object], on_low: Callable[[], object]) -> None:
        self.high = high
        self.low = low
        self.above = False
        """Whether the high mark was passed, and the low one not reached since."""
        self._on_high = on_high
        self._on_low = on_low

    def update(self, size: int) -> None:
        """So much waits now."""
        if not self.above and size > self.high:
            self.above = True
            self._on_high()
        elif self.above and size <= self.low:
            self.above = False
            self._on_low()
