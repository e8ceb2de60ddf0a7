"""fs/writeFile: the whole content of a file, old or new.

An existing file is replaced by a temporary one in the same folder, at once, wherever that leaves everything else about
it as it was. Elsewhere it is written in place, after the room has been allocated.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import secrets
import stat
from collections.abc import Callable

from actors.system.filesystem.location import Location, errors_about, final_target, os_error
from actors.system.filesystem.system import allocate
from protocol.filesystem import WriteFileParams, not_a_file
from protocol.paths import file_path
from protocol.wire_types import Empty

log = logging.getLogger("exec_server.files")

TEMPORARY = ".exec-server-"
"""How the names of temporary files begin. One is left behind only if the server is killed meanwhile."""
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL
_IRREPLACEABLE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT,
    errno.ENOSYS, errno.ENOSPC, errno.EDQUOT, errno.ERANGE, errno.E2BIG, errno.ENODATA,
}  # fmt: skip
"""Why a file cannot be replaced, or not by one like it: a folder that cannot be written, a mount point, an owner or
attribute that cannot be given. It is written in place then.
"""
_OF_THE_CONTENT = {"security.capability", "security.ima", "security.evm"}
"""Attributes that vouch for the content; the kernel drops them when it changes, or makes them itself."""


Fill = Callable[[int], int]
"""Writes the content of a file to a descriptor, from its beginning; returns how many bytes. Raises OSError."""


def write_file(params: WriteFileParams) -> Empty:
    """Make this the content of the file that the path leads to. Raises ExecServerError."""
    path = file_path(params.path)
    data = params.data_base64
    with errors_about(path), final_target(path, params.follow_symlinks is not False) as target:
        put(path, target, len(data), lambda fd: write_all(fd, data))
    return Empty()


def put(path: str, target: Location, size: int, fill: Fill, mode: int | None = None) -> None:
    """Make what `fill` writes, about `size` bytes, the content of a file, old or new; `mode` None keeps that of an old
    one. Raises OSError, and InvalidRequest for what is no regular file; what was half written is gone then, but for a
    file that had to be written in place.
    """
    if target.status is None and _created(target, fill, mode):
        return
    # Opened although it may be replaced: who may not write a file may not replace it either.
    fd = open_to_write(path, target)
    try:
        status = os.fstat(fd)
        wanted = stat.S_IMODE(status.st_mode if mode is None else mode)
        if status.st_nlink != 1 or not _replaced(target, fd, status, fill, wanted):
            _overwrite(fd, status.st_size, size, fill)
            if wanted != stat.S_IMODE(status.st_mode):
                os.fchmod(fd, wanted)
    finally:
        os.close(fd)


def open_to_write(path: str, target: Location) -> int:
    """A descriptor for an existing regular file. Never waits. Raises OSError, InvalidRequest for what is no file."""
    status = target.status or os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        raise os_error(errno.EISDIR)
    if not stat.S_ISREG(status.st_mode):
        raise not_a_file(path)
    fd = os.open(target.name, _WRITE, dir_fd=target.folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise not_a_file(path)
    return fd


def create(target: Location, mode: int = 0o666) -> int | None:
    """A descriptor for a new file, of this mode without the umask; None if there is one by now. Raises OSError."""
    try:
        return os.open(target.name, _WRITE | _NEW, mode, dir_fd=target.folder)
    except FileExistsError:
        return None


def write_all(fd: int, data: bytes, offset: int = 0) -> int:
    """Write all of `data` at `offset`; how many bytes that were. Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, offset)
        offset += written
        rest = rest[written:]
    return len(data)


def _created(target: Location, fill: Fill, mode: int | None) -> bool:
    fd = create(target, 0o666 if mode is None else mode & 0o777)
    if fd is None:
        return False
    try:
        fill(fd)
        if mode is not None:
            os.fchmod(fd, stat.S_IMODE(mode))
    except OSError:
        _discard(target.name, target.folder)
        raise
    finally:
        os.close(fd)
    return True


def _replaced(target: Location, old: int, status: os.stat_result, fill: Fill, mode: int) -> bool:
    """Put a new file in the place of the old; False where it cannot be the same but for its content."""
    name = TEMPORARY + secrets.token_hex(8)
    try:
        new = os.open(name, _WRITE | _NEW, 0o600, dir_fd=target.folder)
    except OSError as error:
        return _irreplaceable(error)
    try:
        try:
            _copy_attributes(old, status, new)
        except OSError as error:
            return _irreplaceable(error)
        fill(new)
        os.fchmod(new, mode)
        try:
            os.rename(name, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
        except OSError as error:
            return _irreplaceable(error)
        name = ""
        return True
    finally:
        os.close(new)
        if name:
            _discard(name, target.folder)


def _discard(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        log.warning("could not remove the unfinished file %r", name, exc_info=True)


def _irreplaceable(error: OSError) -> bool:
    if error.errno not in _IRREPLACEABLE:
        raise error
    return False


def _copy_attributes(old: int, status: os.stat_result, new: int) -> None:
    made = os.fstat(new)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(new, status.st_uid, status.st_gid)
    wanted, given = _attributes(old), _attributes(new)
    for name in given.keys() - wanted.keys():
        os.removexattr(new, name)
    for name, value in wanted.items():
        if given.get(name) != value:
            os.setxattr(new, name, value)
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    made = os.fstat(new)
    if (made.st_mode, made.st_uid, made.st_gid) != (status.st_mode, status.st_uid, status.st_gid):
        raise os_error(errno.EPERM)  # the kernel drops a setgid bit in silence


def _attributes(fd: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return {}
        raise
    return {name: os.getxattr(fd, name) for name in names if name not in _OF_THE_CONTENT}


def _overwrite(fd: int, old_size: int, size: int, fill: Fill) -> None:
    try:
        if size > resource.getrlimit(resource.RLIMIT_FSIZE)[0] >= 0:
            raise os_error(errno.EFBIG)  # which the allocation does not notice
        if size:
            allocate(fd, size)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            os.ftruncate(fd, old_size)  # gives back what has been allocated beyond the end
            raise
    written = fill(fd)
    if written < old_size:
        os.ftruncate(fd, written)
