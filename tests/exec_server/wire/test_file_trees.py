"""fs/readDirectory and fs/copy, and what a server may not do."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.exec_server.wire.file_calls import ENOENT, FAILED, REFUSED, copy, copy_refusal, on, refusal, write
from tests.support.client import Client, expect_error, session
from tests.support.program import Program, powerless, program

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(server: Program) -> AsyncIterator[Client]:
    async with session(server.url) as client:
        yield client


def tree(path: Path) -> dict[str, tuple[int, object]]:
    """All that is below a path: mode, and content or target."""
    found: dict[str, tuple[int, object]] = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            each = Path(folder, name)
            mode = each.lstat().st_mode
            content: object = None
            if stat.S_ISLNK(mode):
                content = os.readlink(each)
            elif stat.S_ISREG(mode):
                content = each.read_bytes()
            found[os.fspath(each.relative_to(path))] = mode, content
    return found


async def test_entries_can_be_addressed(client: Client, tmp_path: Path) -> None:
    """A file that is listed and cannot be read, whatever its name; and a link that leads nowhere is none."""
    (tmp_path / "d").mkdir()
    (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"au lait")
    (tmp_path / "folder").symlink_to("d")
    (tmp_path / "dangling").symlink_to("none")
    (tmp_path / "loop").symlink_to("loop")
    entries = {each["fileName"]: each for each in (await on(client, "readDirectory", tmp_path))["entries"]}
    shape = {name: (each["isDirectory"], each["isFile"]) for name, each in entries.items()}
    assert shape == {"d": (True, False), "folder": (True, False), "caf\N{REPLACEMENT CHARACTER}": (False, True)}
    path = entries["caf\N{REPLACEMENT CHARACTER}"]["path"]
    assert base64.b64decode((await client.call("fs/readFile", path=path))["dataBase64"]) == b"au lait"
    assert await refusal(client, "readDirectory", tmp_path / "none") == (ENOENT, "notFound")
    (tmp_path / "f").touch()
    assert await refusal(client, "readDirectory", tmp_path / "f") == (FAILED, "notADirectory")


async def test_a_long_listing_in_pieces(server: Program, tmp_path: Path) -> None:
    """A large folder would stop the server for all others while its listing is encoded; or be cut."""
    names = [f"{number:05d}-é" for number in range(6_000)]
    for name in names:
        (tmp_path / name).touch()
    for encoding in ("json", "msgpack"):
        async with session(server.url, encoding) as client:
            entries = (await on(client, "readDirectory", tmp_path))["entries"]
            assert sorted(each["fileName"] for each in entries) == names


async def test_a_file_copied_onto_itself(client: Client, tmp_path: Path) -> None:
    """It would be empty afterwards."""
    (tmp_path / "f").write_text("precious")
    (tmp_path / "link").symlink_to("f")
    os.link(tmp_path / "f", tmp_path / "other")
    for destination in ("f", "link", "other"):
        assert await copy(client, tmp_path / "f", tmp_path / destination) == {}
        assert (tmp_path / "f").read_text() == "precious"


async def test_copies_of_files_and_links(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(os.urandom(3_000_000))
    (tmp_path / "f").chmod(0o4755)
    (tmp_path / "old").write_text("old")
    os.link(tmp_path / "old", tmp_path / "old2")
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "dangling").symlink_to("made")
    os.mkfifo(tmp_path / "fifo")
    for name, made in (("new", "new"), ("old", "old2"), ("dangling", "made")):
        assert await copy(client, tmp_path / "f", tmp_path / name) == {}
        assert (tmp_path / made).read_bytes() == (tmp_path / "f").read_bytes()
        mode = stat.S_IMODE((tmp_path / made).stat().st_mode)
        assert mode == 0o755, "a bit that makes it run as another user is copied"
    assert await copy(client, tmp_path / "link", tmp_path / "link2") == {}
    assert os.readlink(tmp_path / "link2") == "f"
    assert await copy(client, Path("/proc/self/status"), tmp_path / "status") == {}
    assert b"Name:" in (tmp_path / "status").read_bytes()
    for source, destination, code, kind in (
        ("link", "f", FAILED, "alreadyExists"),
        ("f", "d", FAILED, "isADirectory"),
        ("f", "none/f", ENOENT, "notFound"),
        ("none", "x", ENOENT, "notFound"),
        ("fifo", "x", REFUSED, "notAFile"),
        ("f", "fifo", REFUSED, "notAFile"),
        ("d", "x", REFUSED, "isADirectory"),
    ):
        assert await copy_refusal(client, tmp_path / source, tmp_path / destination) == (code, kind)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".") or name == "x"]


async def test_copies_of_trees(client: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/f").write_text("f")
    (source / "a/link").symlink_to("b/f")
    (source / "private").mkdir(mode=0o700)
    (source / "closed").mkdir()
    (source / "closed/g").write_text("g")
    (source / "closed").chmod(0o555)
    os.mkfifo(source / "a/fifo")
    assert await copy(client, source, tmp_path / "x/y/copy", recursive=True) == {}
    expected = tree(source)
    del expected["a/fifo"]
    assert tree(tmp_path / "x/y/copy") == expected
    (source / "a/link").unlink()
    (tmp_path / "x/y/copy/a/link").unlink()
    (source / "a/b/f").write_text("changed")
    (tmp_path / "x/y/copy/a/kept").write_text("kept")
    (source / "closed").chmod(0o755)
    assert await copy(client, source, tmp_path / "x/y/copy", recursive=True) == {}
    assert (tmp_path / "x/y/copy/a/b/f").read_text() == "changed" and (tmp_path / "x/y/copy/a/kept").exists()
    (tmp_path / "x/y/copy/closed").chmod(0o755)


async def test_a_directory_is_not_copied_into_itself(client: Client, tmp_path: Path) -> None:
    """It would fill the disk. Nothing may be made before that is noticed."""
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "link").symlink_to("d/e")
    for destination in ("d", "d/e", "d/new/x", "link", "link/x", "d/e/../new"):
        assert await copy_refusal(client, tmp_path / "d", tmp_path / destination, True) == (REFUSED, "invalidInput")
    (tmp_path / "f").touch()
    assert await copy_refusal(client, tmp_path / "d", tmp_path / "f", True) == (FAILED, "alreadyExists")
    assert os.listdir(tmp_path / "d") == ["e"] and os.listdir(tmp_path / "d/e") == []
    assert await copy(client, tmp_path / "d", tmp_path / "d2", recursive=True) == {}


async def test_a_deep_tree_is_copied(client: Client, tmp_path: Path) -> None:
    """A tree that is deeper than a path can say would be copied in part."""
    name, levels = "d" * 50, 200
    here = os.open(tmp_path, os.O_RDONLY)
    for level in range(levels):
        os.mkdir(name if level else "tree", dir_fd=here)
        here = entered(here, name if level else "tree")
    os.close(os.open("f", os.O_CREAT, dir_fd=here))
    os.close(here)
    try:
        assert await copy(client, tmp_path / "tree", tmp_path / "copy", recursive=True) == {}
        here = os.open(tmp_path, os.O_RDONLY)
        for level in range(levels):
            here = entered(here, name if level else "copy")
        assert os.listdir(here) == ["f"]
        os.close(here)
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "tree", tmp_path / "copy"], check=True)


def entered(folder: int, name: str) -> int:
    inner = os.open(name, os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    return inner


# -- what the system denies ---------------------------------------------------------------------------------------


async def test_files_of_others_are_written_in_place(tmp_path: Path) -> None:
    """A file would change its owner, or could not be written although its owner allows it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/f").write_text("a long old content")
    inode = (tmp_path / "folder/f").stat().st_ino
    (tmp_path / "folder").chmod(0o555)
    try:
        with program(prefix=powerless()) as server:
            async with session(server.url) as client:
                await write(client, tmp_path / "folder/f", b"new")
                assert await refusal(client, "writeFile", tmp_path / "folder/g", dataBase64="") == (
                    REFUSED,
                    "permissionDenied",
                )
                (tmp_path / "folder").chmod(0o755)
                (tmp_path / "folder/f").chmod(0o444)
                assert await refusal(client, "writeFile", tmp_path / "folder/f", dataBase64="") == (
                    REFUSED,
                    "permissionDenied",
                )
    finally:
        (tmp_path / "folder").chmod(0o755)
    assert (tmp_path / "folder/f").read_text() == "new"
    assert (tmp_path / "folder/f").stat().st_ino == inode
    assert os.listdir(tmp_path / "folder") == ["f"]


async def test_a_full_disk_leaves_the_old_content(tmp_path: Path) -> None:
    """A client's file would be gone, with half of the new one in its place. (A limit on sizes stands for the disk.)"""
    limited = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"]
    for name in ("alone", "twin"):
        (tmp_path / name).write_text("old")
    os.link(tmp_path / "twin", tmp_path / "twin2")
    (tmp_path / "source").write_bytes(bytes(100_000))
    content = base64.b64encode(bytes(100_000)).decode()
    with program(prefix=limited) as server:
        async with session(server.url) as client:
            for name in ("alone", "twin", "new"):
                error = await expect_error(on(client, "writeFile", tmp_path / name, dataBase64=content))
                assert (error.code, error.data["kind"]) == (FAILED, "fileTooLarge")
                code, kind = await copy_refusal(client, tmp_path / "source", tmp_path / name)
                assert (code, kind) == (FAILED, "fileTooLarge")
    assert sorted(os.listdir(tmp_path)) == ["alone", "source", "twin", "twin2"]
    assert (tmp_path / "alone").read_text() == "old" and (tmp_path / "twin").read_text() == "old"
