"""Files of an environment: the requests `fs/*` with the names that `pathlib` and `os` have for the same.

A path is one on the server, relative to its own folder, or a `file:` URI. Errors are those of the server
(protocol.errors, docs/protocol.md: NotFound, AccessDenied, …, with `data["kind"]` and the path) and
TransportDisconnected. With a `sandbox` only what that allows is done.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from exec_server.client.errors import TransportDisconnected
from exec_server.client.start import uri_on
from protocol.errors import ExecServerError, InvalidRequest
from protocol.filesystem import (
    CanonicalizeParams,
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    DirectoryEntry,
    GetMetadataParams,
    GetMetadataResult,
    OpenMode,
    OpenParams,
    ReadBlockParams,
    ReadDirectoryParams,
    ReadFileParams,
    RemoveParams,
    WalkOptions,
    WalkParams,
    WalkResult,
    WriteBlockParams,
    WriteFileParams,
)
from protocol.paths import native_path
from protocol.requests import ParamsFor, ResultT
from protocol.sandbox import Sandbox

if TYPE_CHECKING:
    from exec_server.client.client import ExecServerClient

AnyPath = str | os.PathLike[str]
BLOCK = 1 << 20
"""Bytes in one request about an open file, at most."""
WINDOW = 8 * BLOCK
"""Bytes that are asked for, or sent, before the first of them is answered."""
AT_ONCE = 32 << 20
"""The largest content that is written in one message; a server may take no more than 64 MiB, base64 among that."""


class Files:
    """The files of a machine, here or elsewhere: `environment.files`."""

    def __init__(self, client: ExecServerClient) -> None:
        self._client = client

    async def read(self, path: AnyPath, *, sandbox: Sandbox | None = None) -> bytes:
        """The whole content of a regular file. What no message can hold is read in blocks, as `open` does."""
        try:
            return (await self._client.call(ReadFileParams(self._uri(path), sandbox))).data_base64
        except InvalidRequest as error:
            if (error.data or {}).get("kind") != "tooLarge":
                raise
        async with self.open(path, sandbox=sandbox) as file:
            return b"".join([block async for block in file])

    async def write(self, path: AnyPath, data: bytes, *, sandbox: Sandbox | None = None) -> None:
        """Make `data` the content of a file, which is made if it is not there. Who reads it sees the old content or the
        new; more than 32 MiB are written in blocks, as `open` does, and seen meanwhile. If the connection is cut,
        TransportDisconnected says that it is not known whether it was done.
        """
        if len(data) > AT_ONCE:
            async with self.open(path, "replace", sandbox=sandbox) as file:
                await file.write(data)
            return
        await self._client.call(WriteFileParams(self._uri(path), data, sandbox))

    @asynccontextmanager
    async def open(
        self, path: AnyPath, mode: OpenMode = "read", *, sandbox: Sandbox | None = None
    ) -> AsyncIterator[OpenFile]:
        """A regular file of any size, while the block lasts: `async with files.open(path) as file`. `replace` makes it
        empty, or anew, at once; what was written until an error stays.

        A cut of the connection closes it: NotFound of kind `unknownHandle`, or TransportDisconnected, is raised then.
        """
        handle_id = uuid.uuid4().hex
        await self._client.call(OpenParams(handle_id, self._uri(path), mode, sandbox))
        try:
            yield OpenFile(self._client, handle_id)
        except BaseException:
            try:
                await self._client.call(CloseParams(handle_id))
            except (ExecServerError, TransportDisconnected):
                pass  # it is the first error that tells
            raise
        await self._client.call(CloseParams(handle_id))

    async def metadata(
        self, path: AnyPath, *, follow_symlinks: bool = True, sandbox: Sandbox | None = None
    ) -> GetMetadataResult:
        """Kind, size and times of what a path leads to. Raises NotFound; with `follow_symlinks` false also
        InvalidRequest of kind `symbolicLink` for a link.
        """
        params = GetMetadataParams(self._uri(path), sandbox, None if follow_symlinks else False)
        return await self._client.call(params)

    async def list(self, path: AnyPath, *, sandbox: Sandbox | None = None) -> list[DirectoryEntry]:
        """What is in a directory, in no order; each has a name, its kind, and a `path`, a `file:` URI. Raises
        InvalidRequest of kind `tooLarge` for more than 100,000.
        """
        result = await self._client.call(ReadDirectoryParams(self._uri(path), sandbox))
        return result.entries

    async def mkdir(self, path: AnyPath, *, parents: bool = False, sandbox: Sandbox | None = None) -> None:
        """Make a directory. With `parents` what is missing above it too, and it may exist already."""
        await self._client.call(CreateDirectoryParams(self._uri(path), parents, sandbox))

    async def remove(
        self, path: AnyPath, *, recursive: bool = False, missing_ok: bool = False, sandbox: Sandbox | None = None
    ) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory and all below it."""
        await self._client.call(RemoveParams(self._uri(path), recursive, missing_ok, sandbox))

    async def copy(
        self, source: AnyPath, destination: AnyPath, *, recursive: bool = False, sandbox: Sandbox | None = None
    ) -> None:
        """Copy a file, a link as a link, or with `recursive` a directory, whose content is merged into an existing one.
        `destination` is the new name itself. After an error in a directory a part is there.
        """
        params = CopyParams(self._uri(source), self._uri(destination), recursive, sandbox)
        await self._client.call(params)

    async def resolve(self, path: AnyPath, *, sandbox: Sandbox | None = None) -> str:
        """The absolute path without links. Raises NotFound if nothing is there."""
        result = await self._client.call(CanonicalizeParams(self._uri(path), sandbox))
        return native_path(result.path)

    async def walk(
        self,
        path: AnyPath,
        *,
        max_depth: int = 64,
        max_directories: int = 10_000,
        max_entries: int = 50_000,
        follow_symlinks: bool = False,
        hidden: bool = True,
        sandbox: Sandbox | None = None,
    ) -> WalkResult:
        """Files and directories below a directory, breadth first, siblings by name, as `file:` URIs; depth 0 are its
        children. The defaults are the largest bounds; `truncated` says that there is more. Without `hidden`,
        directories whose name begins with a dot are not entered.
        """
        options = WalkOptions(max_depth, max_directories, max_entries, follow_symlinks, not hidden)
        return await self._client.call(WalkParams(self._uri(path), options, sandbox))

    def _uri(self, path: AnyPath) -> str:
        return uri_on(self._client.environment_info, path)


class OpenFile:
    """A file that is open for reading or for replacing; made by `Files.open`. It is read and written from a position,
    which is its beginning at first.
    """

    position: int = 0
    """In bytes; may be set anywhere."""

    def __init__(self, client: ExecServerClient, handle_id: str) -> None:
        self._client = client
        self._handle_id = handle_id

    async def read(self, size: int = BLOCK) -> bytes:
        """The next `size` bytes; fewer at the end of the file, `b""` there."""
        parts: list[bytes] = []
        while size > 0:
            some = min(size, WINDOW)
            data = await self._read(some)
            self.position += len(data)
            parts.append(data)
            if len(data) < some:
                break
            size -= some
        return b"".join(parts)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read(WINDOW):
            yield data

    async def write(self, data: bytes) -> None:
        """Write all of `data`; a hole before it becomes zeros."""
        view = memoryview(data)
        for start in range(0, len(data), WINDOW):
            blocks = [
                WriteBlockParams(self._handle_id, self.position + offset, bytes(view[start:][offset : offset + BLOCK]))
                for offset in range(0, min(WINDOW, len(data) - start), BLOCK)
            ]
            await _all(self._client, blocks)
            self.position += min(WINDOW, len(data) - start)

    async def _read(self, size: int) -> bytes:
        blocks = [
            ReadBlockParams(self._handle_id, self.position + offset, min(BLOCK, size - offset))
            for offset in range(0, size, BLOCK)
        ]
        parts = []
        for block in await _all(self._client, blocks):
            parts.append(block.chunk)
            if block.eof:
                break
        return b"".join(parts)


async def _all(client: ExecServerClient, blocks: Sequence[ParamsFor[ResultT]]) -> list[ResultT]:
    """Requests that are under way at the same time; all are over when this returns, or raises for the first."""
    results = await asyncio.gather(*(client.call(block) for block in blocks), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[ResultT]", results)
