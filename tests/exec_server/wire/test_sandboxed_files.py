"""File requests in a managed sandbox: what they cannot do, and that the rest is as without one."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.methods import METHODS
from tests.support.client import Client, RpcError, expect_error, session
from tests.support.managed import entry, managed, need_bubblewrap
from tests.support.program import Program, program

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A directory that requests may write to, beside one that they may not."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("very secret")
    folder = tmp_path / "workspace"
    folder.mkdir()
    yield folder
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "workspace"}


async def on(client: Client, method: str, path: Path, sandbox: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Call fs/METHOD in the sandbox."""
    return await client.call(f"fs/{method}", path=path.as_uri(), sandbox=sandbox, **more)


async def refusal(client: Client, method: str, path: Path, sandbox: dict[str, Any], **more: Any) -> RpcError:
    return await expect_error(on(client, method, path, sandbox, **more))


def content(text: str) -> dict[str, str]:
    return {"dataBase64": base64.b64encode(text.encode()).decode()}


async def test_a_workspace_is_read_and_written(server: Program, workspace: Path) -> None:
    """Lost: every patch that a sandboxed agent applies."""
    sandbox = managed(workspace)
    async with session(server.url) as client:
        folder, file = workspace / "a" / "b", workspace / "a" / "b" / "file é"
        assert await on(client, "createDirectory", folder, sandbox) == {}
        assert await on(client, "writeFile", file, sandbox, **content("hello")) == {}
        assert file.read_text() == "hello"
        assert await on(client, "readFile", file, sandbox) == content("hello")
        assert (await on(client, "getMetadata", file, sandbox))["size"] == 5
        assert (await on(client, "canonicalize", file, sandbox))["path"] == file.as_uri().replace("%C3%A9", "%C3%A9")
        assert await on(client, "remove", workspace / "a", sandbox) == {}
        assert not (workspace / "a").exists()
        missing = await refusal(client, "readFile", file, sandbox)
        assert (missing.code, missing.data["kind"], missing.data["path"]) == (-32004, "notFound", str(file))


async def test_nothing_is_written_outside(server: Program, workspace: Path) -> None:
    """Lost: all else that the server's user owns, by a request rather than a command."""
    outside = workspace.parent / "outside"
    (workspace / ".git").mkdir()
    sandbox = managed(workspace)
    async with session(server.url) as client:
        for path in (outside / "new", outside / "secret", workspace / ".git" / "hook"):
            error = await refusal(client, "writeFile", path, sandbox, **content("x"))
            assert (error.code, error.data["kind"]) == (-32603, "readOnlyFileSystem"), path
            assert "Read-only file system (os error 30)" in error.message
        assert (await refusal(client, "createDirectory", outside / "d", sandbox)).data["kind"] == "readOnlyFileSystem"
        assert (await refusal(client, "remove", outside / "secret", sandbox)).data["kind"] == "readOnlyFileSystem"
        await refusal(client, "createDirectory", workspace / ".codex" / "x", sandbox)
        assert [path.name for path in outside.iterdir()] == ["secret"]
        assert (outside / "secret").read_text() == "very secret" and not list((workspace / ".git").iterdir())


async def test_links_in_the_workspace_lead_nowhere_else(server: Program, workspace: Path) -> None:
    """Lost: whatever a command has made a link to before."""
    secret = workspace.parent / "outside" / "secret"
    (workspace / "link").symlink_to(secret)
    (workspace / "folder").symlink_to(secret.parent)
    sandbox = managed(workspace, entry(secret.parent, "deny"))
    async with session(server.url) as client:
        for path in (workspace / "link", workspace / "folder" / "secret", secret):
            assert (await refusal(client, "readFile", path, sandbox)).data["kind"] == "permissionDenied"
            assert (await refusal(client, "writeFile", path, sandbox, **content("x"))).code in (-32600, -32603)
        await refusal(client, "writeFile", workspace / "folder" / "new", managed(workspace), **content("x"))
        assert secret.read_text() == "very secret" and list(secret.parent.iterdir()) == [secret]


async def test_what_no_entry_allows_is_not_there(server: Program, workspace: Path) -> None:
    """Lost: files that the client believes hidden."""
    minimal = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
    sandbox = managed(workspace, minimal, reads=False)
    async with session(server.url) as client:
        assert (await refusal(client, "readFile", workspace.parent / "outside" / "secret", sandbox)).code == -32004
        await on(client, "writeFile", workspace / "x", sandbox, **content("x"))
        assert (workspace / "x").read_text() == "x"


async def test_large_files_come_and_go(server: Program, workspace: Path) -> None:
    """Lost: files that need many reads of a pipe, in either direction."""
    data = os.urandom(3_000_000)
    sandbox = managed(workspace)
    async with session(server.url) as client:
        encoded = {"dataBase64": base64.b64encode(data).decode()}
        await on(client, "writeFile", workspace / "large", sandbox, **encoded)
        assert (workspace / "large").read_bytes() == data
        assert await on(client, "readFile", workspace / "large", sandbox) == encoded


async def test_no_process_and_no_descriptor_is_left(server: Program, workspace: Path) -> None:
    """Lost: a server that runs for weeks."""
    sandbox = managed(workspace)
    async with session(server.url) as client:
        await on(client, "getMetadata", workspace, sandbox)
        load = server.load()
        for _ in range(5):
            await on(client, "getMetadata", workspace, sandbox)
            await refusal(client, "readFile", workspace / "none", sandbox)
        await server.falls_to(load)


async def test_every_request_that_can_have_a_sandbox_minds_it(tmp_path: Path) -> None:
    """Lost: the sandbox of a method that was added later, or of one that takes a way of its own."""
    need_bubblewrap()
    (tmp_path / "empty").mkdir()
    file = tmp_path / "file"
    file.write_text("before")
    params: dict[str, Any] = dict.fromkeys(("path", "sourcePath", "destinationPath"), file.as_uri())
    params |= {"dataBase64": "", "recursive": True, "handleId": "h"}
    params["options"] = {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1, "followDirectorySymlinks": False}
    params["sandbox"] = managed(tmp_path)
    methods = [name for name, each in METHODS.items() if name[:3] == "fs/" and "sandbox" in each.__struct_fields__]
    assert {"fs/readFile", "fs/writeFile", "fs/walk", "fs/remove"} <= set(methods)
    with program(env={**os.environ, "PATH": str(tmp_path / "empty")}) as bare:
        async with session(bare.url) as client:
            for method in methods:
                error = await expect_error(client.call(method, **params))
                assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported"), method
    assert file.read_text() == "before"


async def test_without_bubblewrap_nothing_is_done(tmp_path: Path) -> None:
    """Lost: the sandbox, and nobody would know."""
    need_bubblewrap()
    for name in ("empty", "workspace"):
        (tmp_path / name).mkdir()
    with program(env={**os.environ, "PATH": str(tmp_path / "empty")}) as bare:
        async with session(bare.url) as client:
            file = tmp_path / "workspace" / "file"
            error = await refusal(client, "writeFile", file, managed(tmp_path / "workspace"), **content("x"))
            assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported")
            assert "install the package bubblewrap" in error.message and not file.exists()
