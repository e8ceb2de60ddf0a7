"""When a child has run, or been silent, for longer than its client allowed; pure."""

from __future__ import annotations

from actors.system import clock


class IdleTimer:
    """How long a child has had neither output nor input, not counting the time that its output was not read.

    Then nobody can see whether the child is silent.
    """

    __slots__ = ("_last", "_paused_since", "limit_s")

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._last = clock.now()
        self._paused_since: float | None = None

    def touch(self) -> None:
        """There was output or input."""
        self._last = clock.now()

    def pause(self) -> None:
        """Output is not read from now on."""
        if self._paused_since is None:
            self._paused_since = clock.now()

    def resume(self) -> None:
        """Output is read again."""
        if self._paused_since is not None:
            paused_from = max(self._paused_since, self._last)
            self._last += clock.now() - paused_from
            self._paused_since = None

    def remaining(self) -> float | None:
        """Seconds until the limit if nothing happens, 0.0 if it is reached; None while time stands still."""
        if self._paused_since is not None:
            return None
        return max(0.0, self._last + self.limit_s - clock.now())
