"""fs/walk: what is below a directory, as far as the bounds go (docs/protocol.md, "fs/walk")."""

from __future__ import annotations

import heapq
import os
import stat
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from actors.system.filesystem.location import errors_about
from protocol.errors import InvalidRequest, os_error_text
from protocol.filesystem import FileKind, WalkEntry, WalkError, WalkOptions, WalkParams, WalkResult
from protocol.paths import file_path, path_uri

MAX_DEPTH = 64
MAX_DIRECTORIES = 10_000
MAX_ENTRIES = 50_000
_SCAN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK


class _Found(NamedTuple):
    """An entry that is listed; ordered by its name, as bytes."""

    raw: bytes
    name: str
    kind: FileKind
    is_link: bool


class _Folder(NamedTuple):
    path: str
    depth: int
    is_link: bool


def walk(params: WalkParams) -> WalkResult:
    """Files and directories below a directory, breadth first. Raises ExecServerError."""
    _check(params.options)
    path = file_path(params.path)
    with errors_about(path):
        is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        if not stat.S_ISDIR(os.stat(path).st_mode) or (is_link and not params.options.follow_directory_symlinks):
            return WalkResult([], [], False)
    return _Walk(params.options).run(_Folder(path, 0, is_link))


def _check(options: WalkOptions) -> None:
    if options.max_directories == 0 or options.max_entries == 0:
        raise InvalidRequest("filesystem walk limits must be greater than zero", {"kind": "invalidInput"})
    bounds = options.max_depth, options.max_directories, options.max_entries
    if any(asked > most for asked, most in zip(bounds, (MAX_DEPTH, MAX_DIRECTORIES, MAX_ENTRIES), strict=True)):
        limits = f"depth={MAX_DEPTH}, directories={MAX_DIRECTORIES}, entries={MAX_ENTRIES}"
        raise InvalidRequest(f"filesystem walk limits exceed maximums: {limits}", {"kind": "invalidInput"})


class _Walk:
    def __init__(self, options: WalkOptions) -> None:
        self._options = options
        self._follow = options.follow_directory_symlinks
        self._visited: set[tuple[int, int]] = set()
        self._directories = 0
        self._entries: list[WalkEntry] = []
        self._errors: list[WalkError] = []
        self._waiting: deque[_Folder] = deque()

    def run(self, root: _Folder) -> WalkResult:
        self._waiting.append(root)
        truncated = False
        while self._waiting and not truncated:
            if self._directories == self._options.max_directories:
                truncated = True
                break
            folder = self._waiting.popleft()
            try:
                truncated = self._visit(folder)
            except OSError as error:
                text = os_error_text(error.errno or 0)
                self._errors.append(WalkError(path_uri(folder.path), text))
        return WalkResult(self._entries, self._errors, truncated)

    def _visit(self, folder: _Folder) -> bool:
        """List one directory; whether the bound on entries was met."""
        follow = (self._follow and folder.is_link) or folder.depth == 0
        fd = os.open(folder.path, _SCAN | (0 if follow else os.O_NOFOLLOW))
        try:
            status = os.fstat(fd)
            identity = status.st_dev, status.st_ino
            if identity in self._visited:
                return False
            self._visited.add(identity)
            self._directories += 1
            room = self._options.max_entries - len(self._entries)
            found = heapq.nsmallest(room + 1, self._listed(fd))
        finally:
            os.close(fd)
        for each in found[:room]:
            self._add(folder, each)
        return len(found) > room

    def _add(self, folder: _Folder, found: _Found) -> None:
        path = os.path.join(folder.path, found.name)
        self._entries.append(WalkEntry(path_uri(path), found.kind))
        pruned = self._options.prune_hidden_directories and found.name.startswith(".")
        if found.kind == "directory" and not pruned and folder.depth < self._options.max_depth:
            self._waiting.append(_Folder(path, folder.depth + 1, found.is_link))

    def _listed(self, fd: int) -> Iterator[_Found]:
        with os.scandir(fd) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                if self._is_directory(entry):
                    yield _Found(os.fsencode(entry.name), entry.name, "directory", is_link)
                elif not is_link and entry.is_file(follow_symlinks=False):
                    yield _Found(os.fsencode(entry.name), entry.name, "file", False)

    def _is_directory(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir(follow_symlinks=self._follow)
        except OSError:
            return False  # a link that leads in a circle, or where we may not go
