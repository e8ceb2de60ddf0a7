"""fs/copy: a file, a link as a link, or a directory with all that is in it, which is merged into an existing one."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from actors.system.filesystem.directories import create_all
from actors.system.filesystem.location import (
    Location,
    errors_about,
    final_target,
    final_target_in,
    located,
    open_folder,
    os_error,
    status_in,
)
from actors.system.filesystem.reading import open_located
from actors.system.filesystem.writing import put, write_all
from protocol.errors import InvalidRequest
from protocol.filesystem import CopyParams
from protocol.paths import file_path
from protocol.wire_types import Empty

_PIECE = 8 << 20
_READ = 1 << 20
_ELSEWHERE = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.EIO}
"""Why the kernel cannot copy by itself: other file systems, or one that does not know how."""
_SCAN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def copy(params: CopyParams) -> Empty:
    """Copy what has this name. Raises ExecServerError; of a directory a part may be copied then."""
    source, destination = file_path(params.source_path), file_path(params.destination_path)
    with errors_about(source), located(source, follow=True) as found:
        if found.status is None:
            raise os_error(errno.ENOENT)
        kind = stat.S_IFMT(found.status.st_mode)
        if kind == stat.S_IFDIR:
            _copy_directory(source, found, destination, params.recursive)
        elif kind == stat.S_IFLNK:
            with errors_about(destination), located(destination, follow=True) as target:
                os.symlink(os.readlink(found.name, dir_fd=found.folder), target.name, dir_fd=target.folder)
        elif kind == stat.S_IFREG:
            with errors_about(destination), final_target(destination, follow=True) as target:
                copy_file(source, found, destination, target)
        else:
            text = f"fs/copy only supports regular files, directories, and symlinks: {source}"
            raise InvalidRequest(text, {"kind": "notAFile", "path": source})
    return Empty()


def copy_file(source: str, found: Location, destination: str, target: Location) -> None:
    """Content and mode of one file; onto itself, under whatever name, nothing happens. Raises OSError.

    As with cp(1), the copy has no set-user-ID and set-group-ID bits: it may belong to another user, the server's.
    """
    with errors_about(source):
        fd = open_located(source, found)
    try:
        status = os.fstat(fd)
        if target.status is None or not os.path.samestat(status, target.status):
            mode = status.st_mode & ~(stat.S_ISUID | stat.S_ISGID)
            put(destination, target, status.st_size, lambda new: _copy_content(fd, new), mode)
    finally:
        os.close(fd)


def _copy_content(source: int, new: int) -> int:
    copied = 0
    try:
        while count := os.copy_file_range(source, new, _PIECE, copied, copied):
            copied += count
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise
    # The rest, which is all where the kernel cannot do it; files of /proc look empty to it.
    while piece := os.pread(source, _READ, copied):
        copied += write_all(new, piece, copied)
    return copied


def _copy_directory(source: str, found: Location, destination: str, recursive: bool) -> None:
    if not recursive:
        text = f"fs/copy requires recursive: true when sourcePath is a directory: {source}"
        raise InvalidRequest(text, {"kind": "isADirectory", "path": source})
    fd = os.open(found.name, _SCAN, dir_fd=found.folder)
    try:
        status = os.fstat(fd)
        with errors_about(destination):
            _check_outside(destination, (status.st_dev, status.st_ino))
            is_new = not os.path.lexists(destination)
            create_all(destination, follow=True, mode=stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
            new = os.open(destination, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except BaseException:
        os.close(fd)
        raise
    _Copying(source, fd, destination, new, status.st_mode if is_new else None).run()


def _check_outside(destination: str, source: tuple[int, int]) -> None:
    """Raise InvalidRequest if the destination is the source or in it, by identity, whatever links lead there."""
    path = destination
    while True:
        try:
            here = open_folder(path, follow=True)
            break
        except FileNotFoundError:
            path = os.path.dirname(path)
        except NotADirectoryError:
            return
    try:
        while (identity := _identity(here)) != source:
            above = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
            if _identity(above) == identity:
                return
    finally:
        os.close(here)
    text = f"fs/copy cannot copy a directory to itself or one of its descendants: {destination}"
    raise InvalidRequest(text, {"kind": "invalidInput", "path": destination})


class _Level(NamedTuple):
    """A directory on the way down: its name, who it is on both sides, and what in it is still to be copied.

    `mode` is what the new one gets when all is in it; None for one that was there before.
    """

    name: str
    identities: tuple[tuple[int, int], tuple[int, int]]
    names: list[str]
    mode: int | None


class _Copying:
    """Copies a tree, however deep, with a few descriptors. Up it goes by `..`, which must be where it came from."""

    def __init__(self, source: str, fd: int, destination: str, new: int, mode: int | None) -> None:
        """Takes over both descriptors."""
        self._source, self._destination = source, destination
        self._fd, self._new = fd, new
        self._levels: list[_Level] = []
        self._root_mode = mode

    def run(self) -> None:
        try:
            self._note("", self._root_mode)
            while True:
                level = self._levels[-1]
                if level.names:
                    self._copy(level.names.pop())
                elif not self._leave(level):
                    return
        finally:
            os.close(self._fd)
            os.close(self._new)

    def _note(self, name: str, mode: int | None) -> None:
        with os.scandir(self._fd) as entries:
            names = [entry.name for entry in entries]
        identities = _identity(self._fd), _identity(self._new)
        self._levels.append(_Level(name, identities, names, mode))

    def _copy(self, name: str) -> None:
        source, destination = os.path.join(self._source, name), os.path.join(self._destination, name)
        status = status_in(self._fd, name)
        if status is None:
            return  # somebody removed it
        kind = stat.S_IFMT(status.st_mode)
        with errors_about(destination):
            if kind == stat.S_IFDIR:
                with errors_about(source):
                    inner = os.open(name, _SCAN, dir_fd=self._fd)
                self._enter(name, inner, status.st_mode)
            elif kind == stat.S_IFLNK:
                os.symlink(os.readlink(name, dir_fd=self._fd), name, dir_fd=self._new)
            elif kind == stat.S_IFREG:
                with final_target_in(self._new, name) as target:
                    copy_file(source, Location(self._fd, name, status), destination, target)

    def _enter(self, name: str, inner: int, mode: int) -> None:
        """Takes over `inner`, the directory of this name in the source."""
        is_new = True
        try:
            try:
                os.mkdir(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=self._new)
            except FileExistsError:
                is_new = False
            new = os.open(name, _SCAN, dir_fd=self._new)
        except OSError:
            os.close(inner)
            raise
        os.close(self._fd)
        os.close(self._new)
        self._fd, self._new = inner, new
        self._source, self._destination = os.path.join(self._source, name), os.path.join(self._destination, name)
        self._note(name, mode if is_new else None)

    def _leave(self, level: _Level) -> bool:
        """Go up; False at the top."""
        if level.mode is not None and level.mode & stat.S_IRWXU != stat.S_IRWXU:
            given = stat.S_IMODE(os.fstat(self._new).st_mode)
            os.fchmod(self._new, given & (level.mode | ~stat.S_IRWXU))
        self._levels.pop()
        if not self._levels:
            return False
        self._source, self._destination = os.path.dirname(self._source), os.path.dirname(self._destination)
        source, destination = self._levels[-1].identities
        with errors_about(self._source):
            self._fd = _above(self._fd, source)
        with errors_about(self._destination):
            self._new = _above(self._new, destination)
        return True


def _above(fd: int, identity: tuple[int, int]) -> int:
    """Close a directory and open the one above, which must be this one: somebody may have moved it. Raises OSError."""
    above = os.open("..", _SCAN, dir_fd=fd)
    if _identity(above) != identity:
        os.close(above)
        raise os_error(errno.EBUSY)
    os.close(fd)
    return above


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
