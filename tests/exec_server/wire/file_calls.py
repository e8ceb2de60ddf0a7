"""What tests of fs/* say to a server."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from protocol.paths import path_uri
from tests.support.client import Client, expect_error

ENOENT = -32004
REFUSED = -32600
BAD_PARAMS = -32602
FAILED = -32603
OPTIONS = {"maxDepth": 64, "maxDirectories": 10_000, "maxEntries": 50_000, "followDirectorySymlinks": False}


async def on(client: Client, method: str, path: Path, **params: Any) -> dict[str, Any]:
    """A request about one path; its result."""
    return await client.call(f"fs/{method}", path=path_uri(os.fspath(path)), **params)


async def read(client: Client, path: Path, **params: Any) -> bytes:
    return base64.b64decode((await on(client, "readFile", path, **params))["dataBase64"])


async def write(client: Client, path: Path, data: bytes, **params: Any) -> None:
    content = base64.b64encode(data).decode()
    assert await on(client, "writeFile", path, dataBase64=content, **params) == {}


async def refusal(client: Client, method: str, path: Path | str, **params: Any) -> tuple[int, str]:
    """Code and kind of the error; its text must have the path."""
    text = path if isinstance(path, str) else path_uri(os.fspath(path))
    error = await expect_error(client.call(f"fs/{method}", path=text, **params))
    if isinstance(path, Path) and error.code != BAD_PARAMS:
        assert os.fspath(path) in error.message, error.message
    return error.code, error.data.get("kind", "")


async def walked(client: Client, path: Path, **options: Any) -> dict[str, Any]:
    return await on(client, "walk", path, options=OPTIONS | options)


async def copy(client: Client, source: Path, destination: Path, recursive: bool = False) -> dict[str, Any]:
    params = {"sourcePath": path_uri(os.fspath(source)), "destinationPath": path_uri(os.fspath(destination))}
    return await client.call("fs/copy", **params, recursive=recursive)


async def copy_refusal(client: Client, source: Path, destination: Path, recursive: bool = False) -> tuple[int, str]:
    error = await expect_error(copy(client, source, destination, recursive))
    assert str(source) in error.message or str(destination) in error.message
    return error.code, error.data["kind"]
