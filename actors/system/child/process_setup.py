"""Measures that change a whole process: for the server program alone, before it starts anything else.

Never in a program that merely runs a server inside itself: they would change how that program treats its own
children, descriptors and limits. Each says what it achieved.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
from typing import Final

from actors.system.child import descendants, proc
from actors.system.child.open_files import CHILD_OPEN_FILES
from actors.system.child.posix_spawn import inheritable_descriptors
from actors.system.child.process_cookie import COOKIES
from actors.system.child.table import CHILDREN

_PR_SET_CHILD_SUBREAPER: Final = 36


def become_subreaper() -> bool:
    """Have the kernel hand the orphans of our commands to this process instead of init
    (PR_SET_CHILD_SUBREAPER).

    From then on `descendants.reap_orphans` must be called once a second.
    """
    libc = ctypes.CDLL(None)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        return False
    CHILDREN.adopts = True
    return True


def mark_descendants() -> bool:
    """Have everything that descends from this process carry its cookie from birth, for the guardian to find.

    False where the soft limit of real-time CPU time, which is the cookie, is in use.
    """
    return COOKIES.carry_base()


def open_standard_descriptors() -> list[int]:
    """Open whichever of 0, 1 and 2 are closed on /dev/null, so that no file gets such a number; which."""
    opened = []
    for fd in range(3):
        try:
            fcntl.fcntl(fd, fcntl.F_GETFD)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            null = os.open("/dev/null", os.O_RDONLY if fd == 0 else os.O_WRONLY)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)
            opened.append(fd)
    return opened


def close_inherited_on_exec() -> list[int]:
    """Give close-on-exec to every descriptor above 2 that came without it from whoever started us; which."""
    found = inheritable_descriptors()
    for fd in found:
        os.set_inheritable(fd, False)
    return found


def raise_open_files(wanted: int = 0) -> tuple[int, int]:
    """Set the soft limit of open files to `wanted`, or as high as the hard one lets it, with 0 to that; (before, now).
    Children get the former back."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = hard if not wanted or (hard != resource.RLIM_INFINITY and wanted > hard) else wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (now, hard))
    except (OSError, ValueError):  # a hard limit above fs.nr_open, or none at all
        return before, before
    CHILD_OPEN_FILES.soft = before
    return before, now


def write_no_core_files() -> bool:
    """The soft limit of core files becomes 0, for children too (docs/wire-spec.md, "Processes"); `ulimit -c` can
    raise it again.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    return True


def keep_exit_statuses() -> bool:
    """Undo an inherited `SIGCHLD` = ignored, with which the kernel throws exit statuses away. Main thread
    only.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return True
    return False


def kill_everything() -> int:
    """At the end of the server: SIGKILL all that descends from it but its helpers, attributed or not; how
    many are left.

    To be called again every few milliseconds until that is 0, or time is up: what dies hands its own children
    to this process. Needs `become_subreaper`.
    """
    left = 0
    descendants.reap_orphans()
    with CHILDREN.lock:
        for pid in proc.children_of(os.getpid()):
            if CHILDREN.is_helper(pid):
                continue
            stat = proc.read_stat(pid)
            if stat is None or not stat.alive:
                continue
            left += 1
            for doomed in [pid, *proc.walk(pid)]:
                found = proc.read_stat(doomed)
                if found is not None:
                    descendants.signal_process(doomed, found.start_ticks, signal.SIGKILL)
    return left
