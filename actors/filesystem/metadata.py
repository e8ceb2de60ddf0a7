"""fs/getMetadata: what a path leads to."""

from __future__ import annotations

import os
import stat

from protocol.errors import InvalidRequest
from protocol.filesystem import GetMetadataParams, GetMetadataResult, file_error
from protocol.paths import native_path


def get_metadata(params: GetMetadataParams) -> GetMetadataResult:
    """Type, size and times of what the path leads to. Raises ExecServerError."""
    path = native_path(params.path)
    try:
        itself = os.lstat(path)
        is_symlink = stat.S_ISLNK(itself.st_mode)
        if is_symlink and params.follow_symlinks is False:
            raise InvalidRequest(f"path contains a symbolic link: {path}")
        target = os.stat(path) if is_symlink else itself
    except OSError as error:
        raise file_error(error, path) from None
    return GetMetadataResult(
        is_directory=stat.S_ISDIR(target.st_mode),
        is_file=stat.S_ISREG(target.st_mode),
        is_symlink=is_symlink,
        size=target.st_size,
        created_at_ms=0,
        modified_at_ms=max(0, target.st_mtime_ns // 1_000_000),
    )
