"""fs/readFile: a whole regular file in one answer."""

from __future__ import annotations

import errno
import os
import stat

from actors.system.filesystem.location import Location, errors_about, located, os_error
from protocol.errors import InvalidRequest
from protocol.filesystem import ReadFileParams, ReadFileResult, not_a_file
from protocol.paths import file_path

MAX_FILE_BYTES = 512 << 20
"""The largest file that can be read at once, whatever the client takes (docs/protocol.md, "Files")."""
_AT_FIRST = 64 * 1024
"""Bytes that are read at first of a file that says it is empty: those of /proc do."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_file(params: ReadFileParams, room: int | None = None) -> ReadFileResult:
    """The content of a file, which may have `room` bytes. Raises ExecServerError: what is too large is not read."""
    path = file_path(params.path)
    with errors_about(path):
        fd = open_to_read(path, params.follow_symlinks is not False)
        try:
            return ReadFileResult(_read_all(fd, path, room))
        finally:
            os.close(fd)


def open_to_read(path: str, follow: bool = True) -> int:
    """A descriptor for a regular file. Never waits. Raises OSError, and InvalidRequest for what is no regular file."""
    if follow:
        return _open(path, path, os.stat(path), 0, None)
    with located(path, follow=False) as found:
        return open_located(path, found)


def open_located(path: str, found: Location) -> int:
    """As `open_to_read`, for a name in an open folder, which must be no link. `path` is for errors."""
    if found.status is None:
        raise os_error(errno.ENOENT)
    if stat.S_ISLNK(found.status.st_mode):
        raise os_error(errno.ELOOP)
    return _open(path, found.name, found.status, os.O_NOFOLLOW, found.folder)


def _open(path: str, name: str, status: os.stat_result, flags: int, folder: int | None) -> int:
    # The look before spares devices and FIFOs from being opened, which has effects; that behind it is for races.
    if not stat.S_ISREG(status.st_mode):
        raise not_a_file(path)
    fd = os.open(name, _READ | flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise not_a_file(path)
    return fd


def _read_all(fd: int, path: str, room: int | None) -> bytes:
    limit = MAX_FILE_BYTES if room is None else min(room, MAX_FILE_BYTES)
    size = os.fstat(fd).st_size
    parts: list[bytes] = []
    total = 0
    while total <= limit:
        if size > limit:
            break
        part = os.read(fd, max(_AT_FIRST, size + 1 - total))
        if not part:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        parts.append(part)
        total += len(part)
    raise _too_large(path, max(size, total), limit)


def _too_large(path: str, size: int, limit: int) -> InvalidRequest:
    if limit == MAX_FILE_BYTES:
        text = f"file is too large to read: limit is {limit} bytes; use fs/open and fs/readBlock: {path}"
    else:
        text = (
            f"file is too large for one answer: it has {size} bytes, and with the maxMessageBytes of this connection "
            f"{limit} fit; use fs/open and fs/readBlock: {path}"
        )
    return InvalidRequest(text, {"kind": "tooLarge", "path": path, "size": size, "limit": limit})
