"""The Reader: the same answers for the disk here and for a machine behind a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import Reader, ReadError
from harness.reader import Child, Found

pytestmark = pytest.mark.anyio


async def test_what_is_there(reader: Reader, tmp_path: Path) -> None:
    """Lost: instructions and skills of a workspace elsewhere, read by the rules for one here."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    assert await reader.metadata(str(tmp_path / "link")) == Found("file", 5)
    assert (await reader.metadata(str(tmp_path / "folder"))).kind == "folder"  # type: ignore[union-attr]
    assert (await reader.metadata(str(tmp_path / "fifo"))).kind == "other"  # type: ignore[union-attr]
    for nothing in ("none", "none/x", "file/x", "broken"):
        assert await reader.metadata(str(tmp_path / nothing)) is None
    assert await reader.list(str(tmp_path)) == [
        Child("fifo", "other"),
        Child("file", "file"),
        Child("folder", "folder"),
        Child("link", "file"),
    ]
    assert await reader.read_at_most(str(tmp_path / "link"), 3) == b"123"
    assert await reader.read_at_most(str(tmp_path / "file"), 100) == b"12345"
    assert await reader.resolve(str(tmp_path / "link")) == str(tmp_path / "file")


async def test_what_cannot_be_read(reader: Reader, tmp_path: Path) -> None:
    """Lost: the turn of an agent that waits for a FIFO, or a different complaint on each machine."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    expected = {
        "none": ("notFound", "No such file or directory"),
        "folder": ("notAFile", "it is not a regular file"),
        "fifo": ("notAFile", "it is not a regular file"),
        "file/x": ("notAFolder", "Not a directory"),
        "loop": ("unreadable", "Too many levels of symbolic links"),
    }
    for name, (kind, reason) in expected.items():
        path = str(tmp_path / name)
        with pytest.raises(ReadError) as error:
            await reader.read_at_most(path, 10)
        assert (error.value.kind, str(error.value)) == (kind, f"{path}: {reason}")
    with pytest.raises(ReadError):
        await reader.read_at_most("/dev/zero", 10)
    with pytest.raises(ReadError):
        await reader.list(str(tmp_path / "none"))
    with pytest.raises(ReadError):
        await reader.resolve(str(tmp_path / "none"))
    with pytest.raises(ReadError):
        await reader.metadata(str(tmp_path / "loop"))


async def test_a_walk(reader: Reader, tmp_path: Path) -> None:
    """Lost: skills of a workspace elsewhere, or a request for each of its folders."""
    for folder in ("b/deep/deeper", "a", ".hidden/inside", "secret"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("a/file", "b/deep/deeper/file", ".hidden/file", "é"):
        (tmp_path / file).touch()
    (tmp_path / "a" / "linked").symlink_to("file")
    (tmp_path / "c").symlink_to("b")
    (tmp_path / "b" / "up").symlink_to("..")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")

    async def walked(max_depth: int = 6, max_folders: int = 2000) -> tuple[list[str], bool]:
        walk = await reader.walk(str(tmp_path), max_depth, max_folders)
        assert walk.unreadable == ()
        assert all((each.kind == "folder") == Path(each.path).is_dir() for each in walk.found)
        return [os.path.relpath(each.path, tmp_path) for each in walk.found], walk.truncated

    top = [".hidden", "a", "b", "c", "secret", "é"]
    assert await walked() == ([*top, "a/file", "b/deep", "b/up", "b/deep/deeper", "b/deep/deeper/file"], False)
    assert await walked(max_depth=0) == (top, False)
    assert await walked(max_depth=1) == ([*top, "a/file", "b/deep", "b/up"], False)
    assert await walked(max_folders=2) == ([*top, "a/file"], True)
    assert (await reader.walk(str(tmp_path / "a" / "file"), 1, 1)).found == ()
    with pytest.raises(ReadError) as error:
        await reader.walk(str(tmp_path / "none"), 1, 1)
    assert error.value.kind == "notFound"


async def test_a_walk_of_many_files_ends(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.reader.MAX_ENTRIES", 5)
    for number in range(8):
        (tmp_path / str(number)).touch()
    walk = await reader.walk(str(tmp_path), 6, 10)
    assert [os.path.basename(each.path) for each in walk.found] == [*"01234"] and walk.truncated
