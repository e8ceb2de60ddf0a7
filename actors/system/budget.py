"""Budgets: amounts that all clients of this process have together, each with a limit by the name of its setting."""

from __future__ import annotations

from typing import Final

from actors.system.limit_warnings import LimitWarnings
from protocol.errors import LimitReached


class Budget:
    """Counts what is in use by its holder, so that nothing is given back twice. For one thread."""

    def __init__(self, limit: str, maximum: int, advice: str) -> None:
        """`limit` is the name of the setting; `advice` is what whoever is refused may do."""
        self.maximum = maximum
        self.used = 0
        """What all holders have together."""
        self.refusals = 0
        self._limit = limit
        self._advice = advice
        self._of: dict[object, int] = {}
        self._warnings = LimitWarnings()

    def take(self, holder: object, amount: int = 1) -> None:
        """`holder` is about to use so much more. Raises LimitReached, and then it is not counted."""
        self._warnings.look(self._limit, self.used + amount, self.maximum)
        if self.used + amount > self.maximum:
            self.refusals += 1
            raise LimitReached(self._limit, self.maximum, self._advice)
        self._of[holder] = self._of.get(holder, 0) + amount
        self.used += amount

    def give_back(self, holder: object, amount: int = 1) -> None:
        """A part is free again, or was never used; never more than `holder` has."""
        had = self._of.get(holder, 0)
        left = max(0, had - amount)
        self.used -= had - left
        if left:
            self._of[holder] = left
        else:
            self._of.pop(holder, None)

    def lose(self, holder: object) -> None:
        """The holder is gone, and all it had."""
        self.used -= self._of.pop(holder, 0)


HANDLES: Final = Budget("max_file_handles", 10_000, "close something first")
"""Open file handles, by session: descriptors are what they all share."""
MESSAGES: Final = Budget("messages_total", 1 << 30, "wait for answers, or try again later")
"""Bytes of requests that are not answered, by connection."""
ANSWERS: Final = Budget("answers_total", 512 << 20, "take the answers that are on their way, or try again later")
"""Bytes of large answers that are not on their way yet, by connection."""
BUDGETS: Final = {"max_file_handles": HANDLES, "messages_total": MESSAGES, "answers_total": ANSWERS}
