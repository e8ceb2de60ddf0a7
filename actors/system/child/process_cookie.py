"""Process cookie: a number in RLIMIT_RTTIME that all descendants of a command inherit.

A resource limit is inherited over fork and exec, and any process's can be read by its number (prlimit(2)).
The soft RLIMIT_RTTIME, which only binds real-time tasks, is unlimited everywhere; we set it to some seventy
thousand years, a number of its own for each command. It changes nothing for the program, and tells whose
descendant a process is when its parents have died and its session was never seen (a double fork, the usual
way to make a daemon).

A command of the server program is born with its cookie: this process carries that one until the kernel has made the
child (`birth`), which takes no disk, and not until the exec is done, which may hang for ever. Elsewhere, and on a
kernel that does not list a thread's children, it gets it just after its exec; what it forks before that is told by its
parents and its session only.

A process could remove its cookie by setting the limit; then its links and its session still tell. A server that
was itself started by a server gives cookies of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Final

from actors.system.child import proc

_LOWEST: Final = 1 << 61
RANGE: Final = 1 << 32
"""How many cookies one process can give, and the size of the range that they lie in."""


_POLL_S: Final = 0.00005


class Cookies:
    """The cookies of this process's commands."""

    def __init__(self) -> None:
        self.base = _LOWEST + secrets.randbits(24) * RANGE
        """The lowest of them, which this process carries itself if it is the server program."""
        self.carried = False
        """Whether it does, so that whatever descends from it has a cookie from its birth on."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        """Held for microseconds."""
        self._birth: tuple[int, int] | None = None
        """The thread that spawns with the cookie that this process carries now."""
        self._spawning: set[int] = set()

    def carry_base(self) -> bool:
        """Carry `base` from now on; whether that is possible.

        For the server program alone: elsewhere a child that the program starts for itself would have it as well.
        """
        self.carried = _set(0, self.base)
        return self.carried

    @contextlib.contextmanager
    def spawning(self) -> Iterator[int]:
        """The cookie of the command that is started in the block, and entered into the table there."""
        cookie = self.base + next(self._numbers)
        self._spawning.add(cookie)
        try:
            yield cookie
        finally:
            self._spawning.discard(cookie)

    def is_of_table(self, cookie: int) -> bool:
        """Whether this is the cookie of a command whose start is over."""
        return cookie not in (0, self.base) and cookie not in self._spawning

    @contextlib.contextmanager
    def birth(self, cookie: int) -> Iterator[bool]:
        """Whether the child that this thread spawns in the block is born with the cookie."""
        if not self.carried or not proc.HAS_CHILDREN:
            yield False
            return
        mine = threading.get_native_id(), cookie
        while not self._begin(mine):
            time.sleep(_POLL_S)
        try:
            yield True
        finally:
            with self._lock:
                if self._birth is mine:
                    self._birth = None
                    _set(0, self.base)

    def _begin(self, mine: tuple[int, int]) -> bool:
        """Carry this cookie, unless the child of another thread is about to be born with the one that is carried."""
        with self._lock:
            if self._birth is not None and not self._is_born(*self._birth):
                return False
            self._birth = mine
            _set(0, mine[1])
            return True

    def _is_born(self, thread: int, cookie: int) -> bool:
        return any(self.of(pid) == cookie for pid in reversed(proc.children_of_thread(thread)))

    def assign(self, pid: int, cookie: int) -> int:
        """Give its cookie to a child that was born without; 0 where a limit of somebody else's is in the way."""
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
