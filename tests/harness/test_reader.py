"""The Reader: the same answers for the disk here and for a machine behind a server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from exec_server import Environment
from harness import EnvironmentReader, LocalReader, Reader, ReadError
from harness.reader import Child, Found

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", "environment"])
async def reader(request: pytest.FixtureRequest) -> AsyncIterator[Reader]:
    if request.param == "local":
        yield LocalReader()
    else:
        async with Environment.create("local") as environment:
            yield EnvironmentReader(environment)


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
