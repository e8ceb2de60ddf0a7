"""Files of an environment, this machine's and another's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exec_server import Environment
from exec_server.client.files import BLOCK, WINDOW
from protocol.errors import ExecServerError, InvalidRequest, NotFound
from protocol.paths import native_path, path_uri
from tests.support.program import ROOT

pytestmark = pytest.mark.anyio


async def test_what_is_written_is_read(environment: Environment, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    for path in (tmp_path / "a b%é", str(tmp_path / "a b%é"), path_uri(str(tmp_path / "u"))):
        await environment.files.write(path, data)
        assert await environment.files.read(path) == data
    assert (tmp_path / "a b%é").read_bytes() == (tmp_path / "u").read_bytes() == data


async def test_a_relative_path_is_one_below_the_servers_folder(environment: Environment) -> None:
    assert native_path(environment.info.cwd) == os.getcwd() == str(ROOT)
    assert await environment.files.read("pyproject.toml") == (ROOT / "pyproject.toml").read_bytes()


async def test_metadata(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "l").symlink_to("f")
    found = await environment.files.metadata(tmp_path / "l")
    assert (found.is_file, found.is_directory, found.is_symlink, found.size) == (True, False, True, 5)
    assert abs(found.modified_at_ms - (tmp_path / "f").stat().st_mtime * 1000) < 2
    with pytest.raises(InvalidRequest) as refused:
        await environment.files.metadata(tmp_path / "l", follow_symlinks=False)
    assert refused.value.data and refused.value.data["kind"] == "symbolicLink"


async def test_directories(environment: Environment, tmp_path: Path) -> None:
    """Nothing is made, replaced or removed beyond what was asked for: the wire's own default is `rm -rf`."""
    files = environment.files
    with pytest.raises(NotFound):
        await files.mkdir(tmp_path / "a" / "b")
    await files.mkdir(tmp_path / "a" / "b", parents=True)
    await files.mkdir(tmp_path / "a" / "b", parents=True)
    await files.write(tmp_path / "a" / "b" / "f", b"")
    walked = await files.walk(tmp_path)
    assert [(native_path(each.path), each.kind) for each in walked.entries] == [
        (f"{tmp_path}/a", "directory"),
        (f"{tmp_path}/a/b", "directory"),
        (f"{tmp_path}/a/b/f", "file"),
    ]
    assert len((await files.walk(tmp_path, max_depth=0)).entries) == 1
    (tmp_path / "l").symlink_to("a/b")
    assert await files.resolve(tmp_path / "l" / "f") == str((tmp_path / "a" / "b" / "f").resolve())
    for wrong in (tmp_path / "a", tmp_path / "none"):
        with pytest.raises(ExecServerError, match=r"not empty|No such file"):
            await files.remove(wrong)
    assert (tmp_path / "a" / "b" / "f").exists()
    await files.remove(tmp_path / "none", missing_ok=True)
    await files.remove(tmp_path / "a", recursive=True)
    assert not (tmp_path / "a").exists()


async def test_errors_say_what_and_where(environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"No such file or directory .*: {tmp_path}/none"):
        await environment.files.read(tmp_path / "none")
    with pytest.raises(InvalidRequest, match="is not a file"):
        await environment.files.read(tmp_path)


async def test_a_directory_is_listed(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / os.fsdecode(b"\xff.txt")).write_bytes(b"found")
    entries = {entry.file_name: entry for entry in await environment.files.list(tmp_path)}
    kinds = {name: (entry.is_directory, entry.is_file) for name, entry in entries.items()}
    assert kinds == {"d": (True, False), "fifo": (False, False), "\ufffd.txt": (False, True)}
    assert await environment.files.read(entries["\ufffd.txt"].path) == b"found"


async def test_copies(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"x")
    await environment.files.copy(tmp_path / "d" / "f", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == b"x"
    with pytest.raises(InvalidRequest):
        await environment.files.copy(tmp_path / "d", tmp_path / "e")
    await environment.files.copy(tmp_path / "d", tmp_path / "e", recursive=True)
    assert (tmp_path / "e" / "f").read_bytes() == b"x"


async def test_an_open_file(environment: Environment, tmp_path: Path) -> None:
    """Files that no memory can hold; and whatever is asked for, no more comes than is there."""
    data = os.urandom(WINDOW + BLOCK + 7)
    async with environment.files.open(tmp_path / "f", "replace") as file:
        await file.write(data[:5])
        await file.write(data[5:])
        assert file.position == len(data)
        file.position += 3
        await file.write(b"!")
        await file.write(b"")
    expected = data + b"\0\0\0!"
    assert (tmp_path / "f").read_bytes() == expected
    async with environment.files.open(tmp_path / "f") as file:
        assert await file.read(10) == expected[:10]
        assert await file.read(3 * WINDOW) == expected[10:]
        assert await file.read() == b""
        file.position = 3
        assert await file.read(0) == b""
        assert b"".join([block async for block in file]) == expected[3:]
        with pytest.raises(ExecServerError):
            await file.write(b"x")  # it is open for reading
    with pytest.raises(NotFound, match="unknown file handle"):
        await file.read()


async def test_an_error_in_the_block_is_not_hidden(environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with environment.files.open(tmp_path / "f", "replace") as file:
            await file.write(b"begun")
            raise ZeroDivisionError
    assert (tmp_path / "f").read_bytes() == b"begun"
    with pytest.raises(NotFound):
        async with environment.files.open(tmp_path / "none"):
            pass


async def test_what_no_message_can_hold_goes_in_blocks(environment: Environment, tmp_path: Path) -> None:
    """Lost: the connection, of which a message above 64 MiB is the end."""
    data = os.urandom(1 << 20) * 50 + b"end"
    await environment.files.write(tmp_path / "f", data)
    assert (tmp_path / "f").read_bytes() == data
    assert await environment.files.read(tmp_path / "f") == data
