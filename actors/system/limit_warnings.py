"""Who tells in the log that a limit is near: once a minute for each limit, not per event."""

from __future__ import annotations

import logging

from actors.system import clock

log = logging.getLogger("exec_server.limits")

EVERY_S = 60.0
"""Seconds between two lines about the same limit."""


def near(maximum: int) -> int:
    """From how much on a limit is near: four fifths of it, and at least 1."""
    return max(1, -(-maximum * 4 // 5))


class LimitWarnings:
    """What one owner of limits has said of them. Cheap as long as no limit is near."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def look(self, limit: str, used: int, maximum: int) -> None:
        """`used` is what is in use now, of `maximum`; `limit` is the name of the setting."""
        if used * 5 >= maximum * 4 and self.due(limit):
            log.warning("%s is near: %d of %d are in use", limit, used, maximum)

    def due(self, limit: str) -> bool:
        """Whether nothing was said of this limit for a minute; it counts as said now."""
        now = clock.now()
        if now - self._said.get(limit, float("-inf")) < EVERY_S:
            return False
        self._said[limit] = now
        return True
