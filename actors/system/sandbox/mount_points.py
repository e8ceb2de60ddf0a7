"""Directories that stand, empty, where a sandboxed command may make nothing: a mount needs something to be mounted on.

They can be seen from outside while a sandbox needs them, and go with the last one of this process that does. After a
SIGKILL of the server they stay behind. Nobody waits for another's disk: each path has a lock of its own.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterable

log = logging.getLogger(__name__)


class _MountPoint:
    """One path; `users` is guarded by the lock of all, `made` by its own."""

    __slots__ = ("lock", "made", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = False
        self.users = 0


class MountPoints:
    """Thread-safe. Blocks as long as the disk of the path takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, _MountPoint] = {}

    def acquire(self, path: str) -> bool | None:
        """Make one, or share the one that is there. None: something else is there. False: the server's user may not
        make any, and so nobody whom it starts. Raises OSError where it fails.
        """
        with self._lock:
            point = self._points.setdefault(path, _MountPoint())
            point.users += 1
        done: bool | None = False
        try:
            with point.lock:
                done = point.made or _made(path)
                point.made = bool(done)
        finally:
            if not done:
                with self._lock:
                    point.users -= 1
                    self._drop_unused(path, point)
        return done

    def release(self, paths: Iterable[str]) -> None:
        """Give up one `acquire` of each path; the last one removes the directory."""
        for path in paths:
            point = self._points[path]
            with point.lock:  # whoever acquires it meanwhile waits, and makes it anew
                with self._lock:
                    point.users -= 1
                    last = not point.users
                if last:
                    point.made = False
                    _remove(path)
                with self._lock:
                    self._drop_unused(path, point)

    def _drop_unused(self, path: str, point: _MountPoint) -> None:
        if not point.users and self._points.get(path) is point:
            del self._points[path]


def _made(path: str) -> bool | None:
    try:
        os.mkdir(path, 0o555)
    except FileExistsError:
        return None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return False
        raise
    return True


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError as error:
        log.warning("the mount point %s of a sandbox stays: %s", path, error.strerror)


MOUNT_POINTS = MountPoints()
