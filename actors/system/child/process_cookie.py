"""Process cookie: a number in RLIMIT_RTTIME that all descendants of a command inherit.

A resource limit is inherited over fork and exec, and any process's can be read by its number (prlimit(2)).
The soft RLIMIT_RTTIME, which only binds real-time tasks, is unlimited everywhere; we set it to some seventy
thousand years, a number of its own for each command. It changes nothing for the program, and tells whose
descendant a process is when its parents have died and its session was never seen (a double fork, the usual
way to make a daemon).

A command gets its cookie just after its exec. It could only be born with it if this process carried it during the
spawn, and then no two spawns could run side by side: an exec from a disk that hangs would stop every start. The price
is a command that forks within its first microseconds, before its libraries are loaded: that process has the cookie of
the server program, so it ends with the server, and is told apart by its parents and its session only.

A process could remove its cookie by setting the limit; then its links and its session still tell. A server that
was itself started by a server gives cookies of its own.
"""

from __future__ import annotations

import itertools
import os
import resource
import secrets
from typing import Final

_LOWEST: Final = 1 << 61
RANGE: Final = 1 << 32
"""How many cookies one process can give, and the size of the range that they lie in."""


class Cookies:
    """The cookies of this process's commands."""

    def __init__(self) -> None:
        self.base = _LOWEST + secrets.randbits(24) * RANGE
        """The lowest of them, which this process carries itself if it is the server program."""
        self.carried = False
        """Whether it does, so that whatever descends from it has a cookie from its birth on."""
        self._numbers = itertools.count(1)

    def carry_base(self) -> bool:
        """Carry `base` from now on; whether that is possible.

        For the server program alone: elsewhere a child that the program starts for itself would have it as well.
        """
        self.carried = _set(0, self.base)
        return self.carried

    def assign(self, pid: int) -> int:
        """Give a child that was just started a cookie of its own: 0 where a limit of somebody else's is in the way."""
        cookie = self.base + next(self._numbers)
        return cookie if _set(pid, cookie) else 0

    def of(self, pid: int) -> int:
        """The cookie of a process, if it is one of these; else 0, also for no such process."""
        try:
            soft = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
        except (ProcessLookupError, PermissionError):
            return 0
        return soft if self.base <= soft < self.base + RANGE else 0


def _set(pid: int, cookie: int) -> bool:
    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
        if hard != resource.RLIM_INFINITY or (soft != resource.RLIM_INFINITY and soft < _LOWEST):
            return False
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (cookie, hard))
    except (ProcessLookupError, PermissionError):
        return False  # over already, or a set-uid program
    return True


COOKIES: Final = Cookies()
os.register_at_fork(after_in_child=lambda: COOKIES.__init__())  # type: ignore[misc]
