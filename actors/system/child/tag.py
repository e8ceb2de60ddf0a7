"""A mark that all descendants of a command carry, whatever they do with sessions, parents and programs.

A resource limit is inherited over fork and exec, and any process's can be read by its number (prlimit(2)).
The soft RLIMIT_RTTIME, which only binds real-time tasks, is unlimited everywhere; we set it to some seventy
thousand years, a number of its own for each command. It changes nothing for the program, and tells whose
descendant a process is when its parents have died and its session was never seen (a double fork, the usual
way to make a daemon).

A process could remove its mark by setting the limit; then its links and its session still tell. A server that
was itself started by a server marks its own commands anew.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Final

_LOWEST: Final = 1 << 61
RANGE: Final = 1 << 32
"""How many marks one process can give, and the size of the range that they lie in."""


class _Marks:
    base = 0
    numbers = itertools.count(1)
    lock = threading.RLock()
    on_self = False


def base() -> int:
    """The lowest of this process's marks, which it carries itself if it is the server program."""
    return _Marks.base


def mark_self() -> bool:
    """Mark this process with `base`, so that its children carry that, or a mark of their own, from their
    birth on.

    For the server program alone: elsewhere a child that the program starts for itself meanwhile would be
    marked.
    """
    _Marks.on_self = _set(0, _Marks.base)
    return _Marks.on_self


def marks_self() -> bool:
    """Whether this process carries its own mark, so that whatever descends from it carries one too."""
    return _Marks.on_self


def marked(spawn: Callable[[], int]) -> tuple[int, int]:
    """The pid that `spawn` gives, and the mark of that child: 0 where a limit of somebody else's is in the
    way.

    The server program's child is born with it, which is why such spawns happen one after the other. Elsewhere
    it is marked at once after its start; what it forked before that is unmarked.
    """
    mark = _Marks.base + next(_Marks.numbers)
    if not _Marks.on_self:
        pid = spawn()
        return pid, mark if _set(pid, mark) else 0
    with _Marks.lock:
        if not _set(0, mark):
            return spawn(), 0
        try:
            return spawn(), mark
        finally:
            _set(0, _Marks.base)


@contextlib.contextmanager
def unless_busy() -> Iterator[bool]:
    """True for a block in which `marked` does not wait; False where a spawn of another thread is under way."""
    free = _Marks.lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _Marks.lock.release()


def of(pid: int) -> int:
    """The mark of a process, if it is one of this process's; else 0, also for no such process."""
    try:
        soft = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
    except (ProcessLookupError, PermissionError):
        return 0
    return soft if _Marks.base <= soft < _Marks.base + RANGE else 0


def _set(pid: int, mark: int) -> bool:
    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
        if hard != resource.RLIM_INFINITY or (soft != resource.RLIM_INFINITY and soft < _LOWEST):
            return False
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (mark, hard))
    except (ProcessLookupError, PermissionError):
        return False  # over already, or a set-uid program
    return True


def _renew() -> None:
    _Marks.base = _LOWEST + secrets.randbits(24) * RANGE
    _Marks.numbers = itertools.count(1)
    _Marks.lock = threading.RLock()
    _Marks.on_self = False


_renew()
os.register_at_fork(after_in_child=_renew)
