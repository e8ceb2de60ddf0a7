"""Directories that stand, empty, where a sandboxed command may make nothing: a mount needs something to be mounted on.

They can be seen from outside while a sandbox needs them, and go with the last one of this process that does. After a
SIGKILL of the server they stay behind.
"""

from __future__ import annotations

import errno
import logging
import os
import threading

log = logging.getLogger(__name__)

_lock = threading.Lock()
_holders: dict[str, int] = {}


def hold(path: str) -> bool | None:
    """Make one, or share the one that is there. None: something else is there. False: the server's user may not make
    any, and so nobody whom it starts. Raises OSError where it fails.
    """
    with _lock:  # against a release between the look and the use
        if path not in _holders:
            try:
                os.mkdir(path, 0o555)
            except FileExistsError:
                return None
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    return False
                raise
        _holders[path] = _holders.get(path, 0) + 1
        return True


def release(paths: list[str]) -> None:
    """One holder less for each."""
    with _lock:
        for path in paths:
            _holders[path] -= 1
            if not _holders[path]:
                del _holders[path]
                try:
                    os.rmdir(path)
                except OSError as error:
                    log.warning("the placeholder %s of a sandbox stays: %s", path, error.strerror)
