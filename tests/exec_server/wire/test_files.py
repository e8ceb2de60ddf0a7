"""fs/*: what a client reads, writes, makes and removes on the disk of a real server."""

from __future__ import annotations

import base64
import os
import socket
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from protocol.paths import path_uri
from tests.exec_server.wire.file_calls import (
    BAD_PARAMS,
    ENOENT,
    FAILED,
    OPTIONS,
    REFUSED,
    on,
    read,
    refusal,
    walked,
    write,
)
from tests.support.client import Client, expect_error, session
from tests.support.program import Program

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(server: Program) -> AsyncIterator[Client]:
    async with session(server.url) as client:
        yield client


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
@pytest.mark.parametrize("size", [0, 1, 511, 512, 70_000, 3_000_001])
async def test_a_file_is_read_whole(server: Program, tmp_path: Path, encoding: str, size: int) -> None:
    """A client would patch a file that it has only half of."""
    content = os.urandom(size)
    (tmp_path / "f").write_bytes(content)
    async with session(server.url, encoding) as client:
        result = await on(client, "readFile", tmp_path / "f")
    assert base64.b64decode(result["dataBase64"]) == content


async def test_a_file_of_40_mb_in_fragments(server: Program, tmp_path: Path) -> None:
    """The Codex CLI reads large files at once, and its library takes no frame above 16 MiB."""
    content = os.urandom(1 << 20) * 40
    (tmp_path / "f").write_bytes(content)
    async with session(server.url) as client:
        assert (await on(client, "getMetadata", tmp_path / "f"))["size"] == len(content)
        assert await read(client, tmp_path / "f") == content


async def test_what_is_too_large_is_not_read(server: Program, tmp_path: Path) -> None:
    """A client would be sent more than it takes, and lose its connection; it is told what to use instead."""
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate((512 << 20) + 1)
    async with session(server.url) as client:
        error = await expect_error(on(client, "readFile", huge))
        assert (error.code, error.data["kind"]) == (REFUSED, "tooLarge")
        assert "fs/open" in error.message and str(huge) in error.message
        os.truncate(huge, 49 << 20)
        error = await expect_error(on(client, "readFile", huge))
        assert error.data["kind"] == "tooLarge" and error.data["size"] == 49 << 20 and "fs/open" in error.message
    async with session(server.url, "msgpack") as client:
        assert len(base64.b64decode((await on(client, "readFile", huge))["dataBase64"])) == 49 << 20


async def test_files_of_proc_are_read(client: Client) -> None:
    """They say that they are empty."""
    assert b"Name:" in await read(client, Path("/proc/self/status"))


async def test_what_is_no_file_is_refused_and_never_waited_for(client: Client, tmp_path: Path) -> None:
    """A FIFO that nobody writes to would take a thread of the server for ever."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
        for path in (tmp_path, tmp_path / "fifo", tmp_path / "link", tmp_path / "socket", Path("/dev/zero")):
            assert await refusal(client, "readFile", path) == (REFUSED, "notAFile")
            expected = (FAILED, "isADirectory") if path == tmp_path else (REFUSED, "notAFile")
            assert await refusal(client, "writeFile", path, dataBase64="") == expected


async def test_paths_that_lead_nowhere(client: Client, tmp_path: Path) -> None:
    """Programs look at code and kind to tell a missing file from a broken path."""
    (tmp_path / "f").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("none")
    for method, more in (("readFile", {}), ("getMetadata", {}), ("canonicalize", {}), ("walk", {"options": OPTIONS})):
        assert await refusal(client, method, tmp_path / "none", **more) == (ENOENT, "notFound")
        assert await refusal(client, method, tmp_path / "dangling", **more) == (ENOENT, "notFound")
        assert await refusal(client, method, tmp_path / "f/x", **more) == (FAILED, "notADirectory")
        assert await refusal(client, method, tmp_path / "loop", **more) == (FAILED, "symlinkLoop")
        assert await refusal(client, method, tmp_path / ("n" * 256), **more) == (FAILED, "nameTooLong")
        for path in ("relative", "", "file:///a%00b", "/a\0b", "file://elsewhere/f", "http://h/f", "file:///f?q"):
            assert (await refusal(client, method, path, **more))[0] == BAD_PARAMS
    error = await expect_error(on(client, "readFile", tmp_path / "loop"))
    assert error.message.startswith("Symbolic link loop (os error 40)")


async def test_names_that_are_not_utf8(client: Client, tmp_path: Path) -> None:
    """Such a file could be seen and never read."""
    name = os.fsdecode(b"caf\xe9")
    await write(client, tmp_path / name, b"au lait")
    assert await read(client, tmp_path / name) == b"au lait"
    (entry,) = (await walked(client, tmp_path))["entries"]
    assert entry["path"].endswith("caf%E9")
    assert base64.b64decode((await client.call("fs/readFile", path=entry["path"]))["dataBase64"]) == b"au lait"
    error = await expect_error(on(client, "readFile", tmp_path / name / "x"))
    assert error.data["kind"] == "notADirectory"


# -- writing ------------------------------------------------------------------------------------------------------


async def test_a_new_file_has_the_mode_of_any_new_file(client: Client, tmp_path: Path) -> None:
    """A file that a client makes would be closed to everybody who may read those that commands make."""
    await write(client, tmp_path / "new", b"x")
    (tmp_path / "reference").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "reference").stat().st_mode


async def test_an_existing_file_is_replaced_at_once(client: Client, tmp_path: Path) -> None:
    """A compiler that reads meanwhile would see half a file; and what belongs to the file would be lost."""
    target = tmp_path / "f"
    target.write_bytes(b"old" * 1000)
    target.chmod(0o4751)
    os.setxattr(target, "user.note", b"kept")
    os.setxattr(target, "system.posix_acl_access", acl(reader=12345))
    attributes = {name: os.getxattr(target, name) for name in os.listxattr(target)}
    before = target.stat()
    with target.open("rb") as reader:
        await write(client, target, b"new")
        assert reader.read() == b"old" * 1000
    after = target.stat()
    assert target.read_bytes() == b"new"
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert {name: os.getxattr(target, name) for name in os.listxattr(target)} == attributes
    assert os.listdir(tmp_path) == ["f"]


def acl(reader: int) -> bytes:
    """An ACL in the form of its attribute (linux/posix_acl_xattr.h): rw for the owner, r for one user more."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, reader), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    head = (2).to_bytes(4, "little")
    return head + b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, bits, who in entries
    )


async def test_a_file_with_two_names_stays_one_file(client: Client, tmp_path: Path) -> None:
    """The other name would keep the old content."""
    (tmp_path / "f").write_bytes(b"a long old content")
    os.link(tmp_path / "f", tmp_path / "g")
    await write(client, tmp_path / "f", b"new")
    assert (tmp_path / "g").read_bytes() == b"new"
    assert (tmp_path / "f").samefile(tmp_path / "g")
    await write(client, tmp_path / "g", b"longer than it was")
    assert (tmp_path / "f").read_bytes() == b"longer than it was"


async def test_a_write_goes_through_links(client: Client, tmp_path: Path) -> None:
    """A link would be replaced by a file, and what it led to would stay old."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("old")
    (tmp_path / "near").symlink_to("d/f")
    (tmp_path / "far").symlink_to(tmp_path / "near")
    (tmp_path / "dangling").symlink_to("d/new")
    await write(client, tmp_path / "far", b"new")
    await write(client, tmp_path / "dangling", b"made")
    assert (tmp_path / "d/f").read_text() == "new" and (tmp_path / "d/new").read_text() == "made"
    assert (tmp_path / "far").is_symlink() and (tmp_path / "near").is_symlink()
    assert sorted(os.listdir(tmp_path / "d")) == ["f", "new"]


async def test_content_that_is_no_base64(client: Client, tmp_path: Path) -> None:
    """The code and the text that upstream's clients know."""
    for content, fault in (("@@", "Invalid symbol 64, offset 0."), ("aGk", "Invalid padding")):
        for text in (content, "aGkK" * 1000 + content):
            error = await expect_error(on(client, "writeFile", tmp_path / "f", dataBase64=text))
            assert error.code == REFUSED
            assert error.message.startswith("fs/writeFile requires valid base64 dataBase64: " + fault[:14])
    assert os.listdir(tmp_path) == []


async def test_followsymlinks_false(client: Client, tmp_path: Path) -> None:
    """A client that asked for it would be led out of the folder that it means to stay in."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "folder").symlink_to("d")
    (tmp_path / "file").symlink_to("d/f")
    no = {"followSymlinks": False}
    assert await read(client, tmp_path / "d/f", **no) == b"x"
    await write(client, tmp_path / "d/f", b"y", **no)
    await write(client, tmp_path / "d/g", b"z", **no)
    for method, more in (("readFile", {}), ("writeFile", {"dataBase64": ""})):
        assert await refusal(client, method, tmp_path / "file", **more, **no) == (FAILED, "symlinkLoop")
        assert await refusal(client, method, tmp_path / "folder/f", **more, **no) == (FAILED, "notADirectory")
    for method in ("getMetadata", "remove"):
        more = {"recursive": False} if method == "remove" else {}
        assert await refusal(client, method, tmp_path / "file", **more, **no) == (REFUSED, "symbolicLink")
        assert await refusal(client, method, tmp_path / "folder/f", **more, **no) == (FAILED, "notADirectory")
    assert await refusal(client, "createDirectory", tmp_path / "folder/n", **no) == (FAILED, "notADirectory")
    assert await refusal(client, "remove", tmp_path / "d/f", **no) == (FAILED, "unsupported")
    assert await on(client, "createDirectory", tmp_path / "d/n/m", **no) == {}
    assert (await on(client, "getMetadata", tmp_path / "d/n/m", **no))["isDirectory"]
    assert await on(client, "remove", tmp_path / "d/g", recursive=False, **no) == {}
    assert sorted(os.listdir(tmp_path / "d")) == ["f", "n"] and (tmp_path / "d/f").read_text() == "y"


async def test_no_sandbox_and_somebody_elses_change_nothing(client: Client, tmp_path: Path) -> None:
    """Requests of clients that say so would be refused, or take a process each."""
    (tmp_path / "f").touch()
    everything = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"}
    for permissions in (everything, {"type": "disabled"}, {"type": "external", "network": "enabled"}):
        sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}
        assert await read(client, tmp_path / "f", sandbox=sandbox) == b""


# -- directories --------------------------------------------------------------------------------------------------


async def test_metadata(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "l").symlink_to("f")
    os.mkfifo(tmp_path / "fifo")
    os.utime(tmp_path / "f", ns=(0, 1_700_000_000_123_456_789))
    found = await on(client, "getMetadata", tmp_path / "l")
    created = found.pop("createdAtMs")
    assert found == {
        "isDirectory": False,
        "isFile": True,
        "isSymlink": True,
        "size": 5,
        "modifiedAtMs": 1_700_000_000_123,
    }
    assert created == 0 or created >= (tmp_path / "f").stat().st_ctime_ns // 1_000_000 - 60_000
    fifo = await on(client, "getMetadata", tmp_path / "fifo")
    assert not fifo["isFile"] and not fifo["isDirectory"] and not fifo["isSymlink"]


async def test_directories_are_made(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "dangling").symlink_to("none")
    deep = tmp_path.joinpath(*["d"] * 1500)
    assert await on(client, "createDirectory", deep) == {}
    assert deep.is_dir()
    assert await on(client, "createDirectory", deep) == {}
    assert await on(client, "createDirectory", Path("/")) == {}
    assert await refusal(client, "createDirectory", tmp_path / "d", recursive=False) == (FAILED, "alreadyExists")
    assert await refusal(client, "createDirectory", tmp_path / "x/y", recursive=False) == (ENOENT, "notFound")
    for path, kind in (("f", "alreadyExists"), ("dangling", "alreadyExists"), ("f/x", "notADirectory")):
        assert await refusal(client, "createDirectory", tmp_path / path) == (FAILED, kind)
    assert await refusal(client, "createDirectory", tmp_path / "f/x/y") == (FAILED, "notADirectory")
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # too deep for what pytest removes folders with


async def test_a_walk_within_its_bounds(client: Client, tmp_path: Path) -> None:
    for path in ("b/c/d", ".hidden/e", "a"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("b/f", "z", ".hidden/g"):
        (tmp_path / path).touch()
    (tmp_path / "b/up").symlink_to("..")
    (tmp_path / "file").symlink_to("z")
    os.mkfifo(tmp_path / "fifo")

    async def paths(**options: Any) -> tuple[list[str], bool]:
        result = await walked(client, tmp_path, **options)
        assert result["errors"] == []
        for entry in result["entries"]:
            path = Path(entry["path"].removeprefix("file://"))
            assert (entry["kind"] == "directory") == path.is_dir()
        relative = [entry["path"].removeprefix(path_uri(str(tmp_path)) + "/") for entry in result["entries"]]
        return relative, result["truncated"]

    whole = [".hidden", "a", "b", "z", ".hidden/e", ".hidden/g", "b/c", "b/f", "b/c/d"]
    assert await paths() == (whole, False)
    assert await paths(maxEntries=9) == (whole, False)
    assert await paths(maxEntries=8) == (whole[:8], True)
    assert await paths(maxDepth=0) == (whole[:4], False)
    assert await paths(maxDirectories=1) == (whole[:4], True)
    assert await paths(pruneHiddenDirectories=True) == ([*whole[:4], *whole[6:]], False)
    followed = [*whole[:8], "b/up", "b/c/d"]
    assert await paths(followDirectorySymlinks=True) == (followed, False)
    for options in ({"maxEntries": 0}, {"maxDepth": 65}, {"maxEntries": 2**64 - 1}):
        error = await expect_error(walked(client, tmp_path, **options))
        assert (error.code, error.data["kind"]) == (REFUSED, "invalidInput")


# -- removal ------------------------------------------------------------------------------------------------------


async def test_links_are_removed_and_never_followed(client: Client, tmp_path: Path) -> None:
    """What lies outside of the tree would be gone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tmp_path / "link").symlink_to(outside)
    assert await on(client, "remove", tree) == {}
    assert await on(client, "remove", tmp_path / "link") == {}
    assert os.listdir(tmp_path) == ["outside"] and os.listdir(outside) == ["precious"]


async def test_deep_and_wide_trees_are_removed(client: Client, tmp_path: Path) -> None:
    """A tree that no path reaches the end of could never be removed, or would take the server's descriptors."""
    here = os.open(tmp_path, os.O_RDONLY)
    for level in range(5000):
        os.mkdir("d" if level else "tree", dir_fd=here)
        inner = os.open("d" if level else "tree", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    for number in range(700):
        (tmp_path / "tree" / f"f{number}").touch()
        if number % 7 == 0:
            (tmp_path / "tree" / f"d{number}" / "e").mkdir(parents=True)
    try:
        assert await on(client, "remove", tmp_path / "tree") == {}
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "tree"], check=True)


async def test_what_remove_refuses(client: Client, tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "f").touch()
    assert await on(client, "remove", tmp_path / "none/none") == {}
    assert await refusal(client, "remove", tmp_path / "none", force=False) == (ENOENT, "notFound")
    assert await refusal(client, "remove", tmp_path / "d", recursive=False) == (FAILED, "directoryNotEmpty")
    assert await refusal(client, "remove", tmp_path / "f/x") == (FAILED, "notADirectory")
    assert await refusal(client, "remove", Path("/")) == (REFUSED, "invalidInput")
    assert await on(client, "remove", tmp_path / "d/e", recursive=False) == {}
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]
    assert stat.S_ISDIR((tmp_path / "d").stat().st_mode)
