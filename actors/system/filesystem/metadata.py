"""fs/getMetadata and fs/canonicalize: what a path leads to."""

from __future__ import annotations

import os
import stat

from actors.system.filesystem.location import errors_about, located
from actors.system.filesystem.system import birth_time_ms
from protocol.filesystem import (
    CanonicalizeParams,
    CanonicalizeResult,
    GetMetadataParams,
    GetMetadataResult,
    contains_link,
)
from protocol.paths import file_path, path_uri


def get_metadata(params: GetMetadataParams) -> GetMetadataResult:
    """Type, size and times of what the path leads to. Raises ExecServerError."""
    path = file_path(params.path)
    with errors_about(path):
        if params.follow_symlinks is False:
            return _without_links(path)
        is_symlink = stat.S_ISLNK(os.lstat(path).st_mode)
        return _result(os.stat(path), is_symlink, birth_time_ms(path))


def canonicalize(params: CanonicalizeParams) -> CanonicalizeResult:
    """The same place without links. Raises ExecServerError."""
    path = file_path(params.path)
    with errors_about(path):
        return CanonicalizeResult(path_uri(os.path.realpath(path, strict=True)))


def _without_links(path: str) -> GetMetadataResult:
    with located(path, follow=False) as found:
        status = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise contains_link(path)
        return _result(status, False, birth_time_ms(found.name, found.folder, follow=False))


def _result(status: os.stat_result, is_symlink: bool, created_at_ms: int) -> GetMetadataResult:
    return GetMetadataResult(
        is_directory=stat.S_ISDIR(status.st_mode),
        is_file=stat.S_ISREG(status.st_mode),
        is_symlink=is_symlink,
        size=status.st_size,
        created_at_ms=created_at_ms,
        modified_at_ms=max(0, status.st_mtime_ns // 1_000_000),
    )
