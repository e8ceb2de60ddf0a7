"""Budget of open file handles, one for the whole process: its descriptors are what they all share."""

from __future__ import annotations

from typing import Final

from actors.system.limit_warnings import LimitWarnings
from protocol.errors import LimitReached


class HandleBudget:
    """Counts handles by the session that has them, so that nothing is given back twice. For one thread."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.count = 0
        """Open file handles of all sessions."""
        self.refusals = 0
        self._of: dict[str, int] = {}
        self._warnings = LimitWarnings()

    def take(self, session_id: str) -> None:
        """A file is about to be opened. Raises LimitReached, and then it is not counted."""
        self._warnings.look("max_file_handles", self.count + 1, self.maximum)
        if self.count >= self.maximum:
            self.refusals += 1
            raise LimitReached("max_file_handles", self.maximum, "close something first")
        self._of[session_id] = self._of.get(session_id, 0) + 1
        self.count += 1

    def give_back(self, session_id: str) -> None:
        """One of its files is closed, or was never opened."""
        left = self._of.get(session_id, 0) - 1
        if left >= 0:
            self._of[session_id] = left
            self.count -= 1

    def lose(self, session_id: str) -> None:
        """The session is over, or what held its files is gone."""
        self.count -= self._of.pop(session_id, 0)


HANDLES: Final = HandleBudget(10_000)
