"""What all sessions of a server have together, and what they may have. The router owns it; pure.

Everything is counted by name, so nothing is given back twice, and a session that ends or is lost gives back all it had.
"""

from __future__ import annotations

from actors.base.settings import Settings
from actors.system import clock
from actors.system.limit_warnings import LimitWarnings
from protocol.errors import LimitReached

BURST_S = 2.0
"""A start rate allows as many starts at once as it does in this time."""

Key = tuple[str, str]
"""Session id and process id."""


class StartRate:
    """A token bucket: `rate` starts a second, and up to BURST_S times as many at once."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._tokens = rate * BURST_S
        self._at = clock.now()

    def take(self) -> float:
        """Seconds until the next start may be made; 0.0 where it may be made now, and is counted."""
        now = clock.now()
        self._tokens = min(self._tokens + (now - self._at) * self.rate, self.rate * BURST_S)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self.rate
        self._tokens -= 1
        return 0.0

    @property
    def taken(self) -> int:
        """How much of the burst is used up."""
        return int(self.rate * BURST_S - self._tokens)


class Quotas:
    """Sessions, running processes, and bytes that processes keep of their output."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._near = LimitWarnings()
        self._rate = StartRate(settings.start_rate)
        self._running: dict[str, set[str]] = {}
        self._kept: dict[str, dict[str, int]] = {}
        self._finished: dict[Key, None] = {}
        """Processes that are closed and readable, in the order of their ends."""
        self.running = 0
        """Processes that were allowed to start and have not exited."""
        self.retained_bytes = 0

    def reconfigure(self, settings: Settings) -> None:
        """These limits hold from now on."""
        if settings.start_rate != self._settings.start_rate:
            self._rate = StartRate(settings.start_rate)
        self._settings = settings

    @property
    def finished(self) -> int:
        """Closed processes that can still be read."""
        return len(self._finished)

    def check_session(self, sessions: int) -> None:
        """There are so many; one more is asked for. Raises LimitReached."""
        maximum = self._settings.max_sessions
        self._near.look("max_sessions", sessions + 1, maximum)
        if sessions >= maximum:
            raise LimitReached("max_sessions", maximum)

    def begin(self, session_id: str, process_id: str) -> None:
        """Count a process that is about to start. Raises LimitReached, and then it is not counted."""
        maximum = self._settings.max_processes
        self._near.look("max_processes", self.running + 1, maximum)
        if self.running >= maximum:
            raise LimitReached("max_processes", maximum)
        wait = self._rate.take()
        self._near.look("start_rate", self._rate.taken, int(self._rate.rate * BURST_S))
        if wait:
            raise LimitReached("start_rate", self._rate.rate, "start fewer a second", retryAfterMs=int(wait * 1000) + 1)
        self._running.setdefault(session_id, set()).add(process_id)
        self.running += 1

    def over(self, session_id: str, process_id: str) -> None:
        """A process runs no more, or never did."""
        mine = self._running.get(session_id)
        if mine is not None and process_id in mine:
            mine.remove(process_id)
            self.running -= 1
            if not mine:
                del self._running[session_id]

    def keeps(self, session_id: str, process_id: str, size: int, finished: bool = False) -> list[Key]:
        """A process keeps so many bytes now; who must be forgotten for that: the finished ones, oldest first."""
        mine = self._kept.setdefault(session_id, {})
        self.retained_bytes += size - mine.get(process_id, 0)
        mine[process_id] = size
        if finished:
            self._finished[session_id, process_id] = None
        maximum = self._settings.retained_output_total
        self._near.look("retained_output_total", self.retained_bytes, maximum)
        doomed: list[Key] = []
        while self.retained_bytes > maximum and self._finished:
            doomed.append(next(iter(self._finished)))
            self.drop(*doomed[-1])
        return doomed

    def drop(self, session_id: str, process_id: str) -> None:
        """A process keeps nothing any more."""
        mine = self._kept.get(session_id)
        if mine is not None:
            self.retained_bytes -= mine.pop(process_id, 0)
            if not mine:
                del self._kept[session_id]
        self._finished.pop((session_id, process_id), None)

    def lose(self, session_id: str, process_id: str) -> None:
        """The actor of a process is gone, and all it had."""
        self.over(session_id, process_id)
        self.drop(session_id, process_id)

    def end_session(self, session_id: str) -> None:
        """A session is gone, and all it had."""
        self.running -= len(self._running.pop(session_id, ()))
        for process_id, size in self._kept.pop(session_id, {}).items():
            self.retained_bytes -= size
            self._finished.pop((session_id, process_id), None)

    def note_near(self, limit: str, used: int, maximum: int) -> None:
        """Somebody else's limit is near."""
        self._near.look(limit, used, maximum)
