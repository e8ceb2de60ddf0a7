"""How many descriptors this process has open, against its soft limit (getrlimit(2), RLIMIT_NOFILE)."""

from __future__ import annotations

import os
import resource

from actors.system.limit_warnings import LimitWarnings


def open_files() -> int:
    """Open descriptors of this process; on a kernel before 6.2 at least so many are open."""
    counted = os.stat("/proc/self/fd").st_size  # proc(5): the number of them, since Linux 6.2
    if counted:
        return counted
    try:
        lowest_free = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return limit()
    os.close(lowest_free)
    return lowest_free


def limit() -> int:
    """The soft limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def look(near: LimitWarnings) -> None:
    """Have it said if the limit is near. A few microseconds."""
    maximum = limit()
    if maximum != resource.RLIM_INFINITY:
        near.look("open_files", open_files(), maximum)
