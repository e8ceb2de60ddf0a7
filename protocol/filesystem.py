"""`fs/*`: params, results and notifications (docs/protocol.md, "Files"), and what an errno becomes.

A path is a `file:` URI or a native absolute path (protocol.paths); it is that of the server, wherever it leads.
Bytes are base64 in JSON and raw in MessagePack.
"""

from __future__ import annotations

import errno
from typing import Literal

from protocol.errors import AccessDenied, ExecServerError, InternalError, InvalidRequest, NotFound, os_error_text
from protocol.requests import Params
from protocol.sandbox import Sandbox
from protocol.wire_types import U64, Empty, Name, NotificationParams, PathText, WireStruct, check_u64

FileKind = Literal["file", "directory"]
OpenMode = Literal["read", "replace"]


class FileRequest(Params, frozen=True):
    """Params of a request about files."""

    FAMILY = "filesystem"


class ReadFileResult(WireStruct, frozen=True):
    """The whole content."""

    BULK = ("data_base64",)

    data_base64: bytes


class ReadFileParams(FileRequest, frozen=True):
    """A whole regular file, links followed unless `follow_symlinks` is false."""

    METHOD = "fs/readFile"
    RESULT = ReadFileResult
    REPEATABLE = True

    path: PathText
    sandbox: Sandbox | None = None
    follow_symlinks: bool | None = None


class WriteFileParams(FileRequest, frozen=True):
    """The new content of a file, which is made if it is not there."""

    METHOD = "fs/writeFile"
    RESULT = Empty
    BULK = ("data_base64",)

    path: PathText
    data_base64: bytes
    sandbox: Sandbox | None = None
    follow_symlinks: bool | None = None


class CreateDirectoryParams(FileRequest, frozen=True):
    """`recursive` None is true: parents are made, and an existing directory is fine."""

    METHOD = "fs/createDirectory"
    RESULT = Empty

    path: PathText
    recursive: bool | None = None
    sandbox: Sandbox | None = None
    follow_symlinks: bool | None = None


class GetMetadataResult(WireStruct, frozen=True):
    """Type, size in bytes and times (ms since 1970, 0 where unknown) of the target; `is_symlink` of the path itself."""

    is_directory: bool
    is_file: bool
    is_symlink: bool
    size: int
    created_at_ms: int
    modified_at_ms: int


class GetMetadataParams(FileRequest, frozen=True):
    """What a path leads to."""

    METHOD = "fs/getMetadata"
    RESULT = GetMetadataResult
    REPEATABLE = True

    path: PathText
    sandbox: Sandbox | None = None
    follow_symlinks: bool | None = None


class CanonicalizeResult(WireStruct, frozen=True):
    """The same place without links, as a `file:` URI."""

    path: str


class CanonicalizeParams(FileRequest, frozen=True):
    """A path that must exist."""

    METHOD = "fs/canonicalize"
    RESULT = CanonicalizeResult
    REPEATABLE = True

    path: PathText
    sandbox: Sandbox | None = None


class DirectoryEntry(WireStruct, frozen=True):
    """A name in a directory and the type of what it leads to. `file_name` has U+FFFD where the name is not UTF-8;
    `path` is a URI that always leads to it."""

    file_name: str
    is_directory: bool
    is_file: bool
    path: str


class ReadDirectoryResult(WireStruct, frozen=True):
    """In no order; links that lead nowhere are left out."""

    entries: list[DirectoryEntry]


class ReadDirectoryParams(FileRequest, frozen=True):
    """A directory."""

    METHOD = "fs/readDirectory"
    RESULT = ReadDirectoryResult
    REPEATABLE = True

    path: PathText
    sandbox: Sandbox | None = None


class WalkOptions(WireStruct, frozen=True):
    """Bounds of a walk; depth 0 are the direct children."""

    max_depth: U64
    max_directories: U64
    max_entries: U64
    follow_directory_symlinks: bool
    prune_hidden_directories: bool | None = None

    def __post_init__(self) -> None:
        check_u64("maxDepth", self.max_depth)
        check_u64("maxDirectories", self.max_directories)
        check_u64("maxEntries", self.max_entries)


class WalkEntry(WireStruct, frozen=True):
    """A file or directory below the root, as a `file:` URI."""

    path: str
    kind: FileKind


class WalkError(WireStruct, frozen=True):
    """A directory that could not be read."""

    path: str
    message: str


class WalkResult(WireStruct, frozen=True):
    """Breadth first, siblings by name; `truncated` where a bound was met."""

    entries: list[WalkEntry]
    errors: list[WalkError]
    truncated: bool


class WalkParams(FileRequest, frozen=True):
    """A directory and how far to go into it."""

    METHOD = "fs/walk"
    RESULT = WalkResult
    REPEATABLE = True

    path: PathText
    options: WalkOptions
    sandbox: Sandbox | None = None


class RemoveParams(FileRequest, frozen=True):
    """`recursive` and `force` None are true, as upstream has it: `rm -rf`. Links are removed, never followed."""

    METHOD = "fs/remove"
    RESULT = Empty

    path: PathText
    recursive: bool | None = None
    force: bool | None = None
    sandbox: Sandbox | None = None
    follow_symlinks: bool | None = None


class CopyParams(FileRequest, frozen=True):
    """A file, a link (as a link) or, with `recursive`, a directory, whose content is merged into an existing one."""

    METHOD = "fs/copy"
    RESULT = Empty

    source_path: PathText
    destination_path: PathText
    recursive: bool
    sandbox: Sandbox | None = None


class OpenResult(WireStruct, frozen=True):
    """The handle is good on this connection until `fs/close`."""

    handle_id: str


class OpenParams(FileRequest, frozen=True):
    """`mode` None is `read`; `replace` makes the file empty, or anew, at once."""

    METHOD = "fs/open"
    RESULT = OpenResult

    handle_id: Name
    path: PathText
    mode: OpenMode | None = None
    sandbox: Sandbox | None = None


class ReadBlockResult(WireStruct, frozen=True):
    """`eof` where fewer bytes came than were asked for."""

    BULK = ("chunk",)

    chunk: bytes
    eof: bool


class ReadBlockParams(FileRequest, frozen=True):
    """`len` bytes from `offset`."""

    METHOD = "fs/readBlock"
    RESULT = ReadBlockResult

    handle_id: Name
    offset: U64
    len: U64

    def __post_init__(self) -> None:
        check_u64("offset", self.offset)
        check_u64("len", self.len)


class WriteBlockParams(FileRequest, frozen=True):
    """Bytes for any offset; what lies between becomes zeros."""

    METHOD = "fs/writeBlock"
    RESULT = Empty
    BULK = ("chunk",)

    handle_id: Name
    offset: U64
    chunk: bytes

    def __post_init__(self) -> None:
        check_u64("offset", self.offset)


class CloseParams(FileRequest, frozen=True):
    """A handle; one that is unknown is fine."""

    METHOD = "fs/close"
    RESULT = Empty

    handle_id: Name


class WatchMissingResult(WireStruct, frozen=True):
    """True where there is something to wait for: all of `missing` are absent, and `present` is there."""

    watching: bool


class WatchMissingParams(FileRequest, frozen=True):
    """Tell once when one of `missing` appears, or `present` goes. A watch of the same id on this connection ends."""

    METHOD = "fs/watchMissing"
    RESULT = WatchMissingResult

    watch_id: U64
    missing: list[PathText]
    present: PathText | None = None

    def __post_init__(self) -> None:
        check_u64("watchId", self.watch_id)


class MissingChanged(NotificationParams, frozen=True):
    """What was missing may be there now; the watch is over."""

    METHOD = "fs/missingChanged"

    watch_id: int


def file_error(error: OSError, path: str) -> ExecServerError:
    """What a client is told of an OSError about this native path: code and first words are those of
    docs/protocol.md, "Errors"; the path stands behind them, and in `data`.
    """
    code = error.errno or errno.EIO
    kind, error_class = FILE_KINDS.get(code, ("other", InternalError))
    return error_class(f"{os_error_text(code)}: {path}", {"kind": kind, "path": path, "errno": code})


def not_a_file(path: str) -> InvalidRequest:
    """The error for a directory, FIFO, device or socket where a regular file is needed."""
    return InvalidRequest(f"path `{path}` is not a file", {"kind": "notAFile", "path": path})


def contains_link(path: str) -> InvalidRequest:
    """The error for a symbolic link where the request forbids to follow one."""
    return InvalidRequest(f"path contains a symbolic link: {path}", {"kind": "symbolicLink", "path": path})


FILE_KINDS: dict[int, tuple[str, type[ExecServerError]]] = {
    errno.ENOENT: ("notFound", NotFound),
    errno.EACCES: ("permissionDenied", AccessDenied),
    errno.EPERM: ("permissionDenied", AccessDenied),
    errno.EINVAL: ("invalidInput", InvalidRequest),
    errno.ENAMETOOLONG: ("nameTooLong", InternalError),
    errno.EISDIR: ("isADirectory", InternalError),
    errno.ENOTDIR: ("notADirectory", InternalError),
    errno.EEXIST: ("alreadyExists", InternalError),
    errno.ENOTEMPTY: ("directoryNotEmpty", InternalError),
    errno.ELOOP: ("symlinkLoop", InternalError),
    errno.EROFS: ("readOnlyFileSystem", InternalError),
    errno.ENOSPC: ("storageFull", InternalError),
    errno.EDQUOT: ("storageFull", InternalError),
    errno.EFBIG: ("fileTooLarge", InternalError),
    errno.EMFILE: ("resourceExhausted", InternalError),
    errno.ENFILE: ("resourceExhausted", InternalError),
    errno.ENOMEM: ("resourceExhausted", InternalError),
    errno.EBADF: ("badHandle", InternalError),
}
"""errno -> `data.kind` and error; `other` and InternalError for all that is not here."""
