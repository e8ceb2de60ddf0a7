"""From a path to a name in an open folder: what is done to that name cannot be led elsewhere by a link that somebody
puts into the path meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from protocol.filesystem import file_error

MAX_LINKS = 40
"""Links that are followed one after the other, as the kernel does (path_resolution(7))."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Location(NamedTuple):
    """A name in a folder. `status` is that of the name itself when it was found (lstat), None where nothing was."""

    folder: int
    name: str
    status: os.stat_result | None


@contextmanager
def errors_about(path: str) -> Iterator[None]:
    """An OSError inside becomes the error of the wire about this path."""
    try:
        yield
    except OSError as error:
        raise file_error(error, path) from None


@contextmanager
def located(path: str, follow: bool) -> Iterator[Location]:
    """The last component of an absolute path, itself never followed; links before it only with `follow`, else ENOTDIR.

    Raises OSError where the folder cannot be reached. The folder is open for as long as the context lasts.
    """
    folder, name = _open_parent(path, follow)
    try:
        yield Location(folder, name, status_in(folder, name))
    finally:
        os.close(folder)


@contextmanager
def final_target(path: str, follow: bool) -> Iterator[Location]:
    """As `located`, but with `follow` a link is followed to what it leads to, which need not exist.

    Raises OSError: without `follow` ELOOP for a link.
    """
    folder, name = _open_parent(path, follow)
    with _followed(folder, name, follow) as target:
        yield target


@contextmanager
def final_target_in(folder: int, name: str) -> Iterator[Location]:
    """`final_target` of a name in a folder that is open, with links followed. Raises OSError."""
    with _followed(os.dup(folder), name, True) as target:
        yield target


@contextmanager
def _followed(folder: int, name: str, follow: bool) -> Iterator[Location]:
    """Takes over the descriptor."""
    try:
        for _ in range(MAX_LINKS):
            status = status_in(folder, name)
            if status is None or not stat.S_ISLNK(status.st_mode):
                break
            if not follow:
                raise os_error(errno.ELOOP)
            _check_planted(folder, status)
            head, tail = os.path.split(os.readlink(name, dir_fd=folder))
            inner = os.open(head or ".", _FOLDER, dir_fd=folder)
            os.close(folder)
            folder, name = inner, tail or "."
        else:
            raise os_error(errno.ELOOP)
        yield Location(folder, name, status)
    finally:
        os.close(folder)


def _check_planted(folder: int, link: os.stat_result) -> None:
    """Raise EACCES for a link that another user may have put where we look: in a sticky folder that all may write to,
    unless it is ours or the folder's owner's. The rule of fs.protected_symlinks (proc_sys_fs(5)), whatever that is set
    to: the kernel cannot apply it to links that are read here."""
    around = os.fstat(folder)
    shared = stat.S_ISVTX | stat.S_IWOTH
    if around.st_mode & shared == shared and link.st_uid not in (os.geteuid(), around.st_uid):
        raise os_error(errno.EACCES)


def os_error(code: int) -> OSError:
    """The OSError of an errno that the system has not given itself."""
    return OSError(code, os.strerror(code))


def open_folder(path: str, follow: bool) -> int:
    """A descriptor for a directory that can be used to reach what is in it. Raises OSError."""
    return os.open(path, _FOLDER) if follow else _open_without_links(path)


def _open_parent(path: str, follow: bool) -> tuple[int, str]:
    head, tail = os.path.split(path)
    return open_folder(head, follow), tail or "."


def _open_without_links(path: str) -> int:
    folder = os.open("/", _FOLDER)
    for name in filter(None, path.split("/")):
        try:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def status_in(folder: int, name: str) -> os.stat_result | None:
    """lstat of a name in a folder; None where nothing is. Raises OSError."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
