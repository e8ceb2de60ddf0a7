"""fs/createDirectory and fs/readDirectory."""

from __future__ import annotations

import errno
import os
import stat

from actors.system.filesystem.location import errors_about, located, open_folder, os_error
from protocol.errors import InvalidRequest
from protocol.filesystem import CreateDirectoryParams, DirectoryEntry, ReadDirectoryParams, ReadDirectoryResult
from protocol.paths import file_path, path_uri
from protocol.wire_types import Empty

MAX_NAMES = 100_000
"""Entries of a directory in one answer."""


def create_directory(params: CreateDirectoryParams) -> Empty:
    """Make a directory, unless `recursive` is false with those above it. Raises ExecServerError."""
    path = file_path(params.path)
    follow = params.follow_symlinks is not False
    with errors_about(path):
        if params.recursive is False:
            with located(path, follow) as found:
                os.mkdir(found.name, dir_fd=found.folder)
        else:
            create_all(path, follow)
    return Empty()


def read_directory(params: ReadDirectoryParams) -> ReadDirectoryResult:
    """The names in a directory and what they lead to. Raises ExecServerError, also for more than MAX_NAMES."""
    path = file_path(params.path)
    found: list[DirectoryEntry] = []
    with errors_about(path), os.scandir(path) as entries:
        for entry in entries:
            if len(found) == MAX_NAMES:
                text = f"directory has more than {MAX_NAMES} entries: {path}"
                raise InvalidRequest(text, {"kind": "tooLarge", "path": path, "limit": MAX_NAMES})
            if (listed := _listed(path, entry)) is not None:
                found.append(listed)
    return ReadDirectoryResult(found)


def _listed(path: str, entry: os.DirEntry[str]) -> DirectoryEntry | None:
    """None for a link that leads nowhere."""
    try:
        if entry.is_symlink():
            entry.stat()
        is_directory, is_file = entry.is_dir(), entry.is_file()
    except OSError:
        return None
    name = os.fsencode(entry.name).decode(errors="replace")
    return DirectoryEntry(name, is_directory, is_file, path_uri(os.path.join(path, entry.name)))


def create_all(path: str, follow: bool, mode: int = 0o777) -> None:
    """As `mkdir -p`, one folder after the other from that which exists; the last gets `mode`. Raises OSError."""
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
        for left, name in reversed(list(enumerate(names))):
            _make(name, folder, 0o777 if left else mode)
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def _make(name: str, folder: int, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=folder)
    except FileExistsError:
        # Somebody was faster; or a link that leads nowhere.
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise


def _what_is_there(path: str, follow: bool) -> OSError:
    """EEXIST if the path is something else than a directory, ENOTDIR if one above it is."""
    try:
        with located(path, follow):
            return os_error(errno.EEXIST)
    except OSError as error:
        return error
