"""fs/createDirectory and fs/readDirectory."""

from __future__ import annotations

import errno
import os
import stat

from actors.filesystem.location import errors_about, located, open_folder
from protocol.filesystem import CreateDirectoryParams
from protocol.paths import file_path
from protocol.wire_types import Empty


def create_directory(params: CreateDirectoryParams) -> Empty:
    """Make a directory, unless `recursive` is false with those above it. Raises ExecServerError."""
    path = file_path(params.path)
    follow = params.follow_symlinks is not False
    with errors_about(path):
        if params.recursive is False:
            with located(path, follow) as found:
                os.mkdir(found.name, dir_fd=found.folder)
        else:
            _create_all(path, follow)
    return Empty()


def _create_all(path: str, follow: bool) -> None:
    """As `mkdir -p`, one folder after the other from that which exists."""
    names: list[str] = []
    while True:
        try:
            folder = open_folder(path, follow)
            break
        except FileNotFoundError:
            path, name = os.path.split(path)
            names.append(name)
        except NotADirectoryError:
            if names:
                raise
            raise _what_is_there(path, follow) from None
    try:
        for name in reversed(names):
            _make(name, folder)
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        # Somebody was faster; or a link that leads nowhere.
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise


def _what_is_there(path: str, follow: bool) -> OSError:
    """EEXIST if the path is something else than a directory, ENOTDIR if one above it is."""
    try:
        with located(path, follow):
            return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except OSError as error:
        return error
