"""fs/open, fs/readBlock, fs/writeBlock and fs/close: one file that a client has open (docs/protocol.md, "fs/open")."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from actors.system.filesystem.location import errors_about, final_target, os_error
from actors.system.filesystem.reading import open_to_read
from actors.system.filesystem.writing import create, open_to_write, write_all
from protocol.errors import InvalidRequest, NotFound
from protocol.filesystem import CloseParams, OpenParams, OpenResult, ReadBlockParams, ReadBlockResult, WriteBlockParams
from protocol.paths import file_path
from protocol.wire_types import Empty

if TYPE_CHECKING:
    HandleParams = OpenParams | ReadBlockParams | WriteBlockParams | CloseParams

MAX_HANDLE_ID_BYTES = 32
MAX_BLOCK_BYTES = 1 << 20
_MAX_OFFSET = 2**63 - 1
"""The kernel's: no file has a byte beyond it."""


class FileHandle:
    """A handle id and, while it is open, its descriptor. Its methods block; one is called at a time."""

    def __init__(self, handle_id: str) -> None:
        self.id = handle_id
        self.fd: int | None = None
        self._path = ""

    def carry_out(self, params: HandleParams) -> OpenResult | ReadBlockResult | Empty:
        """Carry out a request about this handle. Raises ExecServerError."""
        match params:
            case OpenParams():
                return self._open(params)
            case ReadBlockParams():
                return self._read(params)
            case WriteBlockParams():
                return self._write(params)
            case CloseParams():
                self.close()
                return Empty()

    def close(self) -> None:
        """Close it, if it is open. Raises ExecServerError: the system may tell only now that a write has failed."""
        fd, self.fd = self.fd, None
        if fd is not None:
            with errors_about(self._path):
                os.close(fd)

    def _open(self, params: OpenParams) -> OpenResult:
        if self.fd is not None:
            raise InvalidRequest(f"file handle `{self.id}` already exists", {"kind": "alreadyExists"})
        path = file_path(params.path)
        with errors_about(path):
            self.fd = _open_empty(path) if params.mode == "replace" else open_to_read(path)
        self._path = path
        return OpenResult(self.id)

    def _read(self, params: ReadBlockParams) -> ReadBlockResult:
        fd = self._open_fd()
        if not 1 <= params.len <= MAX_BLOCK_BYTES:
            raise _bad_length("read")
        if params.offset > _MAX_OFFSET - params.len:
            return ReadBlockResult(b"", True)
        with errors_about(self._path):
            chunk = os.pread(fd, params.len, params.offset)
            while 0 < len(chunk) < params.len:
                more = os.pread(fd, params.len - len(chunk), params.offset + len(chunk))
                if not more:
                    break
                chunk += more
        return ReadBlockResult(chunk, len(chunk) < params.len)

    def _write(self, params: WriteBlockParams) -> Empty:
        fd = self._open_fd()
        if not 1 <= len(params.chunk) <= MAX_BLOCK_BYTES:
            raise _bad_length("write")
        with errors_about(self._path):
            if params.offset > _MAX_OFFSET - len(params.chunk):
                raise os_error(errno.EFBIG)
            write_all(fd, params.chunk, params.offset)
        return Empty()

    def _open_fd(self) -> int:
        if self.fd is None:
            raise NotFound(f"unknown file handle `{self.id}`", {"kind": "unknownHandle"})
        return self.fd


def check_handle_id(handle_id: str) -> None:
    """Raise InvalidRequest for an id that is too long."""
    if len(handle_id.encode()) > MAX_HANDLE_ID_BYTES:
        raise InvalidRequest(f"file handle ID must not exceed {MAX_HANDLE_ID_BYTES} bytes", {"kind": "invalidInput"})


def _open_empty(path: str) -> int:
    """A descriptor to write to a file that is made empty, or anew, at once."""
    with final_target(path, follow=True) as target:
        fd = create(target) if target.status is None else None
        if fd is None:
            fd = open_to_write(path, target)
            try:
                os.ftruncate(fd, 0)
            except OSError:
                os.close(fd)
                raise
        return fd


def _bad_length(what: str) -> InvalidRequest:
    text = f"file {what} block length must be between 1 and {MAX_BLOCK_BYTES}"
    return InvalidRequest(text, {"kind": "invalidInput"})
