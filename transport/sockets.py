"""Listening sockets: close-on-exec, non-blocking."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from typing import Final

BACKLOG: Final = 1024
_LOCK_S: Final = 2.0
"""How long others may hold the lock of a folder, in seconds: what is done under it takes less than a millisecond."""
_LOCK_PAUSE_S: Final = 0.002


def open_listening_socket(host: str, port: int) -> socket.socket:
    """A TCP socket that listens, with SO_REUSEADDR. Raises OSError (EADDRINUSE, EACCES)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def open_unix_socket(path: str, mode: int) -> socket.socket:
    """A Unix socket that listens at `path`, a file of this mode from its first moment.

    The file of a server that is gone is replaced. Raises OSError: EADDRINUSE if somebody listens there or the file is
    no socket, ENAMETOOLONG, EACCES.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        with _folder_locked(path):
            _remove_stale(path)
            os.fchmod(sock.fileno(), mode)  # bind(2) gives it to the file, less the umask
            _bind(sock, path)
            sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, path: str) -> None:
    umask = os.umask(0)
    try:
        sock.bind(path)
    except OSError as error:
        if str(error) == "AF_UNIX path too long":
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from None
        raise
    finally:
        os.umask(umask)


def remove_unix_socket(path: str, identity: tuple[int, int]) -> None:
    """Remove the file of a socket that is closed, unless it belongs to another server by now: its number may be the
    same then, but somebody listens."""
    with contextlib.suppress(OSError), _folder_locked(path):
        _remove(path, identity)


def _remove(path: str, identity: tuple[int, int]) -> None:
    if identity == unix_identity(path) and not _somebody_listens(path):
        os.unlink(path)


@contextlib.contextmanager
def _folder_locked(path: str) -> Iterator[None]:
    """No other server looks at a file in this folder, makes or removes one meanwhile (flock(2) of the folder). Raises
    OSError: EADDRINUSE if somebody holds it for long.
    """
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # it cannot be listed, and need not be
        yield
        return
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OSError(errno.EADDRINUSE, "another program has locked the folder of the socket") from None
            time.sleep(_LOCK_PAUSE_S)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL):
                raise
            return  # a disk without locks


def unix_identity(path: str) -> tuple[int, int]:
    """Device and inode of the file. Raises OSError."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(found.st_mode) and not _somebody_listens(path):
        _remove(path, (found.st_dev, found.st_ino))


def _somebody_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # its backlog is full, or it is not ours to connect to
            return True
        return True
