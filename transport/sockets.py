"""Listening sockets: close-on-exec, non-blocking."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import Final

BACKLOG: Final = 1024


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
        _remove_stale(path)
        os.fchmod(sock.fileno(), mode)  # bind(2) gives it to the file, less the umask
        umask = os.umask(0)
        try:
            sock.bind(path)
        except OSError as error:
            if str(error) == "AF_UNIX path too long":
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from None
            raise
        finally:
            os.umask(umask)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def remove_unix_socket(path: str, identity: tuple[int, int]) -> None:
    """Remove the file, unless it has another identity by now and so belongs to another server."""
    with contextlib.suppress(OSError):
        if identity == unix_identity(path):
            os.unlink(path)


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
        remove_unix_socket(path, (found.st_dev, found.st_ino))


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
