"""Files of an environment: the requests `fs/*` with the names that `pathlib` and `os` have for the same.

A path is one on the server, relative to its own folder, or a `file:` URI. Errors are those of the server
(protocol.errors, docs/protocol.md: NotFound, AccessDenied, …, with `data["kind"]` and the path) and
TransportDisconnected. With a `sandbox` only what that allows is done.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from exec_server.client.start import uri_on
from protocol.filesystem import (
    CanonicalizeParams,
    CanonicalizeResult,
    CreateDirectoryParams,
    GetMetadataParams,
    GetMetadataResult,
    ReadFileParams,
    ReadFileResult,
    RemoveParams,
    WalkOptions,
    WalkParams,
    WalkResult,
    WriteFileParams,
)
from protocol.paths import native_path
from protocol.sandbox import Sandbox

if TYPE_CHECKING:
    from exec_server.client.client import ExecServerClient

AnyPath = str | os.PathLike[str]


class Files:
    """The files of a machine, here or elsewhere: `environment.files`."""

    def __init__(self, client: ExecServerClient) -> None:
        self._client = client

    async def read(self, path: AnyPath, *, sandbox: Sandbox | None = None) -> bytes:
        """The whole content of a regular file. Raises InvalidRequest of kind `tooLarge` for more than one message can
        hold (64 MiB unless the client said otherwise).
        """
        result = await self._client.call("fs/readFile", ReadFileParams(self._uri(path), sandbox))
        return cast(ReadFileResult, result).data_base64

    async def write(self, path: AnyPath, data: bytes, *, sandbox: Sandbox | None = None) -> None:
        """Make `data` the content of a file, which is made if it is not there. Who reads it sees the old content or the
        new. If the connection is cut meanwhile, TransportDisconnected says that it is not known whether it was done.
        """
        await self._client.call("fs/writeFile", WriteFileParams(self._uri(path), data, sandbox))

    async def metadata(
        self, path: AnyPath, *, follow_symlinks: bool = True, sandbox: Sandbox | None = None
    ) -> GetMetadataResult:
        """Kind, size and times of what a path leads to. Raises NotFound; with `follow_symlinks` false also
        InvalidRequest of kind `symbolicLink` for a link.
        """
        params = GetMetadataParams(self._uri(path), sandbox, None if follow_symlinks else False)
        return cast(GetMetadataResult, await self._client.call("fs/getMetadata", params))

    async def mkdir(self, path: AnyPath, *, parents: bool = False, sandbox: Sandbox | None = None) -> None:
        """Make a directory. With `parents` what is missing above it too, and it may exist already."""
        await self._client.call("fs/createDirectory", CreateDirectoryParams(self._uri(path), parents, sandbox))

    async def remove(
        self, path: AnyPath, *, recursive: bool = False, missing_ok: bool = False, sandbox: Sandbox | None = None
    ) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory and all below it."""
        await self._client.call("fs/remove", RemoveParams(self._uri(path), recursive, missing_ok, sandbox))

    async def resolve(self, path: AnyPath, *, sandbox: Sandbox | None = None) -> str:
        """The absolute path without links. Raises NotFound if nothing is there."""
        result = await self._client.call("fs/canonicalize", CanonicalizeParams(self._uri(path), sandbox))
        return native_path(cast(CanonicalizeResult, result).path)

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
        return cast(WalkResult, await self._client.call("fs/walk", WalkParams(self._uri(path), options, sandbox)))

    def _uri(self, path: AnyPath) -> str:
        return uri_on(self._client.environment_info, path)
