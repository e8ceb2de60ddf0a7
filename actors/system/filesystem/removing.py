"""fs/remove: a name, or with `recursive` a directory and all that is in it. No link is ever followed."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from actors.system.filesystem.location import Location, errors_about, located, os_error
from protocol.errors import InternalError, InvalidRequest
from protocol.filesystem import RemoveParams, contains_link
from protocol.paths import file_path
from protocol.wire_types import Empty

_BATCH = 256
"""Names of a directory that are held at once."""
_SCAN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def remove(params: RemoveParams) -> Empty:
    """Remove what has this name. Raises ExecServerError: what could not be removed is still there."""
    path = file_path(params.path)
    recursive = params.recursive is not False
    follow = params.follow_symlinks is not False
    if recursive and not follow:
        text = "recursive no-follow removal is unsupported"
        raise InternalError(f"{text}: {path}", {"kind": "unsupported", "path": path})
    with errors_about(path):
        try:
            with located(path, follow) as found:
                _remove(path, found, recursive, follow)
        except FileNotFoundError:
            if params.force is False:
                raise
    return Empty()


def _remove(path: str, found: Location, recursive: bool, follow: bool) -> None:
    if found.name in (".", ".."):
        raise InvalidRequest(f"refusing to remove `{path}`", {"kind": "invalidInput", "path": path})
    status = found.status
    if status is None:
        raise os_error(errno.ENOENT)
    if not follow and stat.S_ISLNK(status.st_mode):
        raise contains_link(path)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(found.name, dir_fd=found.folder)
        return
    if recursive:
        _Emptying(path, os.open(found.name, _SCAN, dir_fd=found.folder)).run()
    os.rmdir(found.name, dir_fd=found.folder)


class _Level(NamedTuple):
    """A directory on the way down: its name, who it is, and directories in it that are still to be emptied."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


class _Emptying:
    """Removes all that is in a directory, however deep and however much, with two descriptors.

    The way back up is `..`, which must be the directory that the way down came through: somebody may have moved it.
    """

    def __init__(self, path: str, fd: int) -> None:
        """Takes over the descriptor."""
        self._path = path
        self._fd = fd
        self._levels = [_Level("", _identity(fd), [])]

    def run(self) -> None:
        try:
            while True:
                level = self._levels[-1]
                if level.folders:
                    self._enter(level.folders.pop())
                elif not self._remove_batch(level):
                    if len(self._levels) == 1:
                        return
                    self._leave()
        except OSError as error:
            path = os.path.join(self._path, *(level.name for level in self._levels[1:]))
            with errors_about(path):
                raise error
        finally:
            os.close(self._fd)

    def _remove_batch(self, level: _Level) -> bool:
        """Remove some of what is here, and note directories that are not empty; False if nothing is here."""
        names: list[tuple[str, bool]] = []
        with os.scandir(self._fd) as entries:
            for entry in entries:
                names.append((entry.name, entry.is_dir(follow_symlinks=False)))
                if len(names) == _BATCH:
                    break
        for name, is_directory in names:
            try:
                if is_directory:
                    os.rmdir(name, dir_fd=self._fd)
                else:
                    os.unlink(name, dir_fd=self._fd)
            except FileNotFoundError:
                pass  # somebody else removed it
            except OSError as error:
                if not is_directory or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                level.folders.append(name)
        return bool(names)

    def _enter(self, name: str) -> None:
        try:
            inner = os.open(name, _SCAN, dir_fd=self._fd)
        except FileNotFoundError:
            return
        os.close(self._fd)
        self._fd = inner
        self._levels.append(_Level(name, _identity(inner), []))

    def _leave(self) -> None:
        above = os.open("..", _SCAN, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = above
        left = self._levels.pop()
        if _identity(above) != self._levels[-1].identity:
            raise os_error(errno.EBUSY)
        try:
            os.rmdir(left.name, dir_fd=above)
        except FileNotFoundError:
            pass  # somebody else removed it


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
