"""Which commands may be started without a thread, because that will not block: what a start needs of the disk was on
a local file system, and quick, a moment ago.

A start goes through a thread since looking at a network file system that has gone away takes for ever, and reading a
program from a cold disk takes long. The thread costs more than the start itself, though, and nearly all commands of a
client are the same few programs in the same few folders.
"""

from __future__ import annotations

import ctypes
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

REMEMBERED: Final = 256
"""Starts that are remembered; the oldest goes first."""
WARM_S: Final = 10.0
"""How long after a start in a thread the same may go without one, in seconds."""
QUICK_S: Final = 0.005
"""What a start may take to be remembered, in seconds: as long as anything may hold up the loop."""

LOCAL: Final = frozenset(
    (
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # Btrfs
        0x01021994,  # tmpfs
        0x858458F6,  # ramfs
        0x794C7630,  # overlayfs
        0x2FC12FC1,  # ZFS
        0xF2F52010,  # F2FS
        0xCA451A4E,  # bcachefs
        0x73717368,  # SquashFS
        0xE0F5E1E2,  # EROFS
        0x9FA0,  # proc
    )
)
"""`f_type` of statfs(2) of what does not wait for another machine or program."""

Key = tuple[str, str, str | None]
"""The program as it was asked for, the working directory, and the PATH that it is looked for in."""


class SpawnCache:
    """Thread-safe: threads learn, the loop asks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[Key, float] = {}

    def holds(self, key: Key) -> bool:
        """Whether this start will not block."""
        return self._until.get(key, 0.0) > self._clock()

    def learn(self, key: Key, seconds: float, paths: Iterable[bytes]) -> None:
        """A start in a thread took so long and looked at these paths. Blocks as long as the disk takes."""
        if seconds > QUICK_S or not all(map(is_local, paths)):
            self.forget(key)
            return
        with self._lock:
            self._until.pop(key, None)
            while len(self._until) >= REMEMBERED:
                del self._until[next(iter(self._until))]
            self._until[key] = self._clock() + WARM_S

    def forget(self, key: Key) -> None:
        """The next such start goes through a thread."""
        with self._lock:
            self._until.pop(key, None)


def is_fixed(program: bytes) -> bool:
    """Whether nobody but root can have changed this program, or a folder above it, and it is no script.

    Whoever can write to a program can hold up its exec, by a lease (fcntl(2), F_SETLEASE) for 45 s; and what a script
    names is looked at by the exec as well. Blocks.
    """
    try:
        path = os.path.realpath(program)
        with open(path, "rb") as file:
            if file.read(2) == b"#!":
                return False
        while True:
            found = os.stat(path)
            if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return False
            if path == b"/":
                return True
            path = os.path.dirname(path)
    except OSError:
        return False


def is_local(path: bytes) -> bool:
    """Whether this path, or what a link there leads to, is on a local file system; false where it is not there."""
    buffer = ctypes.create_string_buffer(_STATFS)
    if _libc.statfs(path, buffer) != 0:
        return False
    return int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little") & 0xFFFFFFFF in LOCAL


_STATFS: Final = 256
"""More than the 120 bytes of struct statfs, whose first member is `f_type` (a long)."""

_libc = ctypes.CDLL(None)
_libc.statfs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]

SPAWN_CACHE: Final = SpawnCache()
os.register_at_fork(after_in_child=lambda: SPAWN_CACHE.__init__())  # type: ignore[misc]
