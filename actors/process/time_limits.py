"""When a child has run, or been silent, for longer than its client allowed; pure."""

from __future__ import annotations

from actors.system import clock


class IdleTimer:
    """How long a child has had neither output nor input, not counting the time that its output was held.

    While output is held nobody can see whether the child is silent.
    """

    __slots__ = ("_held_since", "_last", "limit_s")

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._last = clock.now()
        self._held_since: float | None = None

    def stir(self) -> None:
        """There was output or input."""
        self._last = clock.now()

    def hold(self) -> None:
        """Output is held from now on."""
        if self._held_since is None:
            self._held_since = clock.now()

    def release(self) -> None:
        """Output is read again."""
        if self._held_since is not None:
            held_from = max(self._held_since, self._last)
            self._last += clock.now() - held_from
            self._held_since = None

    def remaining(self) -> float | None:
        """Seconds until the limit if nothing happens, 0.0 if it is reached; None while time stands still."""
        if self._held_since is not None:
            return None
        return max(0.0, self._last + self.limit_s - clock.now())
