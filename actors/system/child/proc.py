"""What /proc says about processes (proc(5)). Any call may find that the process is gone, and says so."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

HAS_CHILDREN: Final = os.path.exists("/proc/thread-self/children")
"""CONFIG_PROC_CHILDREN. Without it children are found by reading the stat file of every process there is."""


class ProcessStat(NamedTuple):
    """The fields of /proc/PID/stat that say where a process belongs."""

    state: str
    parent: int
    group: int
    session: int
    start_ticks: int
    """Since boot, in units of sysconf(_SC_CLK_TCK)."""

    @property
    def alive(self) -> bool:
        """False for a zombie, which can do nothing any more but be reaped."""
        return self.state not in "ZXx"


def read_stat(pid: int) -> ProcessStat | None:
    """None where there is no such process."""
    try:
        data = _read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything, parentheses and blanks included.
    fields = data[data.rindex(b")") + 2 :].split()
    return ProcessStat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def boot_ticks() -> int:
    """Now, by the clock of `ProcessStat.start_ticks`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


_TICKS: Final = os.sysconf("SC_CLK_TCK")


def all_stats() -> dict[int, ProcessStat]:
    """Every process that can be seen. Costs about 15 µs a process."""
    return {pid: stat for pid in all_pids() if (stat := read_stat(pid)) is not None}


def all_pids() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in _with_descriptor(lambda: os.listdir("/proc")) if name.isdecimal()]


def session_of(pid: int) -> int | None:
    """The sid of a process, a zombie's too; None where there is no such process."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process, zombies included; empty where there is no such process."""
    if not HAS_CHILDREN:
        return [child for child, stat in all_stats().items() if stat.parent == pid]
    tasks = f"/proc/{pid}/task"
    try:
        # The link count is 2 and one for each thread, which saves listing the one thread that most have.
        names = [str(pid)] if os.stat(tasks).st_nlink == 3 else _with_descriptor(lambda: os.listdir(tasks))
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [child for name in names for child in _listed(f"{tasks}/{name}/children")]


def children_of_thread(tid: int) -> list[int]:
    """The children of one thread of this process, the youngest last; only with HAS_CHILDREN."""
    return _listed(f"/proc/self/task/{tid}/children")


def _listed(path: str) -> list[int]:
    try:
        return list(map(int, _read(path).split()))
    except (FileNotFoundError, ProcessLookupError):
        return []  # that thread has ended


def walk(pid: int) -> Iterator[int]:
    """All descendants of a process that are linked to it now, parents before children, without itself."""
    seen = {pid}
    level = [pid]
    while level:
        below: list[int] = []
        for parent in level:
            for child in children_of(parent):
                if child not in seen:
                    seen.add(child)
                    below.append(child)
                    yield child
        level = below


_Result = TypeVar("_Result")


class _Reserve:
    """A descriptor kept for the moment in which there is no other: reaping and killing must work then too."""

    def __init__(self) -> None:
        """Raises OSError where there is no descriptor left."""
        self._lock = threading.Lock()
        self._fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def spend_on(self, read: Callable[[], _Result]) -> _Result:
        """`read()`, with one descriptor more while it runs. Raises OSError where that is taken by somebody else."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            try:
                return read()
            finally:
                self._fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)


def _with_descriptor(read: Callable[[], _Result]) -> _Result:
    """`read()`, which needs one descriptor while it runs; the reserve where none is left."""
    try:
        return read()
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    return _RESERVE.spend_on(read)


def _read(path: str) -> bytes:
    return _with_descriptor(lambda: _read_file(path))


def _read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, 4096)
        if len(data) < 4000:  # /proc hands out up to a page at a time
            return data
        parts = [data]
        while data:
            data = os.read(fd, 65536)
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(fd)


_RESERVE: Final = _Reserve()
